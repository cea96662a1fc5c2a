//! The examples of Unit's reference that choose an application or match addresses: the configurations are those of `tests/config`. The
//! others are in `crates/server/tests/documented`, with a whole server.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Request, ask, config, described, get, router};
use tutti_routing::Router;

/// The configuration of a case.
fn documented(case: &str) -> Router {
    let path = format!(
        "{}/../../tests/config/{case}.case",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("=== put /\n").unwrap();
    let (sent, _) = rest.split_once("=== ").unwrap();
    Router::compile(&config(sent)).unwrap()
}

/// Returns the decision at each of the listeners, followed by those of the fallbacks.
fn all(router: &Router, listener: usize, request: &Request) -> String {
    let mut decision = router.decide(listener, request);
    let mut text = described(&decision, request);
    loop {
        match router.fallback(decision, request) {
            Ok(next) => decision = next,
            Err(_) => return text,
        }
        text = format!("{text}, {}", described(&decision, request));
    }
}

fn at(listener: usize, case: &str, requests: &[(Request, &str)]) {
    let router = documented(case);
    for (request, expected) in requests {
        let came = all(&router, listener, request);
        assert_eq!(came, *expected, "{case}: {}", request.target);
    }
}

fn check(case: &str, requests: &[(Request, &str)]) {
    at(0, &format!("documented-{case}"), requests);
}

#[test]
fn addresses_of_clients() {
    let from = |address: &str| get("/f").from(address);
    check(
        "match-allow-deny",
        &[
            (from("192.168.1.2:1"), "/www/data/f"),
            (from("192.168.1.1:1"), "not found"),
            // A prefix shorter than the address: the remaining bits do not count.
            (from("10.1.200.1:1"), "not found"),
            (from("[2001:db8:1::1]:1"), "/www/data/f"),
            (from("[2001:db9::1]:1"), "not found"),
            (from("192.168.2.1:1"), "not found"),
        ],
    );
    check(
        "match-addresses-except",
        &[
            (from("192.0.2.1:1"), "200"),
            (from("192.0.2.10:1"), "200"),
            (from("192.0.2.9:1"), "not found"),
            (from("192.0.2.11:1"), "not found"),
        ],
    );
    check(
        "match-addresses-ports",
        &[
            (from("192.0.2.1:80"), "200"),
            (from("[::1]:443"), "200"),
            (from("192.0.2.1:8080"), "200"),
            (from("192.0.2.1:8081"), "not found"),
            (from("unix"), "not found"),
        ],
    );
    check(
        "match-addresses-unix",
        &[(from("unix"), "200"), (from("192.0.2.1:80"), "not found")],
    );
    check(
        "return-allow-deny",
        &[
            (from("192.168.1.2:1"), "403"),
            (from("192.168.1.2:1").https(), "403"),
            (from("192.168.1.1:1").https(), "not found"),
        ],
    );
}

#[test]
fn addresses_of_clients_and_servers() {
    let between = |from: &str, to: &str| {
        let mut request = get("/").from(from);
        request.local = to.parse().ok();
        request
    };
    check(
        "match-addresses-ipv4",
        &[
            (between("192.0.2.200:5", "192.0.2.255:6"), "200"),
            (between("198.51.100.1:8000", "198.51.100.9:8000"), "200"),
            (between("203.0.113.7:8090", "203.0.113.7:8080"), "200"),
            (between("8.8.8.8:80", "9.9.9.9:80"), "200"),
            (between("192.0.2.201:5", "192.0.2.255:6"), "not found"),
            (
                between("198.51.100.1:8001", "198.51.100.9:8000"),
                "not found",
            ),
            (between("203.0.113.7:8090", "203.0.113.7:8091"), "not found"),
        ],
    );
    check(
        "match-addresses-ipv6",
        &[
            (between("[2001:db8:1::]:5", "[2001:db8:cccd::1]:6"), "200"),
            (
                between("[2001:db8:abcd::]:8000", "[2001:db8:ccce::1]:8000"),
                "200",
            ),
            (
                between("[2001:db8:bbbb::1]:8085", "[2001:db8:ccce:ffff::1]:8090"),
                "200",
            ),
            (between("[::1]:80", "[::1]:80"), "200"),
            (between("[2001:db8:bbbb::1]:8091", "[::1]:80"), "not found"),
            (
                between("[2001:db8:1::]:5", "[2001:db8:cccf::1]:6"),
                "not found",
            ),
        ],
    );
    check(
        "match-addresses-both",
        &[
            (between("192.0.2.1:1", "127.0.0.1:9"), "200"),
            (between("192.0.2.1:1", "[::1]:9"), "200"),
            (between("192.0.2.1:1", "[2001:db8:1::c0a8:1]:9"), "200"),
            (between("192.0.2.1:1", "127.0.0.2:9"), "not found"),
        ],
    );
}

/// Issue 10: configurations written before Unit 1.4 say `application`.
#[test]
fn an_older_listener_names_its_application() {
    let router = router(
        r#"{"listeners": {"*:80": {"application": "a/b"}},
            "applications": {"a/b": {"type": "php", "root": "/www"}}}"#,
    );
    assert_eq!(ask(&router, get("/")), "a/b");
}

#[test]
fn listeners_choose_applications() {
    check(
        "listeners",
        &[
            (get("/admin"), "blogs/admin"),
            (get("/user"), "blogs/user"),
            (get("/none"), "not found"),
            (get("/admin/more"), "not found"),
        ],
    );
    at(1, "documented-listeners", &[(get("/admin"), "204")]);
    check(
        "variables-uri-application",
        &[
            (get("/blog"), "blog"),
            (get("/sandbox?a"), "sandbox"),
            (get("/none"), "not found"),
        ],
    );
    check(
        "variables-host-application",
        &[
            (get("/").host("localhost"), "localhost"),
            (get("/").host("www.example.com"), "www.example.com"),
            (get("/").host("example.org"), "not found"),
        ],
    );
    check(
        "variables-host-and-target",
        &[
            (get("/myapp"), "app_example.com/myapp"),
            (get("/other"), "not found"),
        ],
    );
    for (case, name) in [("php-targets", "php-app"), ("python-targets", "python-app")] {
        let case = format!("documented-application-{case}");
        at(0, &case, &[(get("/any"), &format!("{name}/front"))]);
        at(
            1,
            &case,
            &[
                (get("/back"), &format!("{name}/back")),
                (get("/any"), "not found"),
            ],
        );
    }
}

#[test]
fn steps_choose_applications() {
    check(
        "routes-basic",
        &[
            (get("/php/a").https(), "php_version"),
            (get("/php/a"), "/www/static_version/php/a"),
            (
                get("/php/a").https().host("other"),
                "/www/static_version/php/a",
            ),
        ],
    );
    check(
        "actions",
        &[
            (get("/v1/a"), "app"),
            (
                get("/a.jpeg"),
                "/www/static/a.jpeg /www/static/assets/a.jpeg, 410",
            ),
            (get("/return/x"), "301 https://www.example.com"),
            (get("/x"), "not found"),
        ],
    );
    check(
        "rewrite-application",
        &[
            (get("/fancyAppA"), "backend"),
            (get("/fancyAppB?x"), "backend"),
            (get("/fancyAppC"), "not found"),
        ],
    );
    check(
        "response-headers-of-applications",
        &[(get("/"), "converter")],
    );
    check("fallback", &[(get("/a"), "/www/data/static/a, php-app")]);
    check(
        "fallback-php-files",
        &[
            (get("/a.php"), "php-app"),
            (get("/a"), "/www/php-app/assets/files/a, 410"),
        ],
    );
    check(
        "fallback-reversed",
        &[
            (get("/a.css"), "/www/php-app/assets/files/a.css, 410"),
            (get("/a"), "php-app"),
        ],
    );
    check(
        "fallback-compact",
        &[(get("/a"), "/www/php-app/assets/files/a, php-app")],
    );
    for case in ["upstreams", "upstreams-weights"] {
        check(case, &[(get("/a"), "upstream 0")]);
    }
    check(
        "routes-chained",
        &[
            (get("/v2_site/a"), "v2_site"),
            (get("/a"), "upstream 0"),
            (get("/a").https().host("blog.example.com"), "blog"),
            (get("/a.css").https(), "/www/static/a.css"),
            (get("/a").https(), "not found"),
        ],
    );
    // The variables of a rewritten request that applications get.
    let router = documented("documented-actions");
    let request = get("/v1/a%20b?c=d");
    let decision = router.decide(0, &request);
    let path = decision.request_path(&request);
    assert_eq!(path.target(), b"/app/v1/a%20b?c=d");
    let router = documented("documented-rewrite-application");
    let request = get("/fancyAppB?x");
    let decision = router.decide(0, &request);
    assert_eq!(
        decision.request_path(&request).target(),
        b"/commonBackend?x"
    );
}

/// The routing of the configurations of the how-tos.
#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn how_tos_route_as_they_say() {
    let howto = |case: &str, requests: &[(&str, &str)]| {
        for (target, expected) in requests {
            at(0, &format!("howto-{case}"), &[(get(target), expected)]);
        }
    };
    howto(
        "wordpress",
        &[
            ("/wp-login.php", "wordpress/direct"),
            ("/wp-admin/", "wordpress/direct"),
            ("/index.php/2024/a", "wordpress/direct"),
            ("/2024/a/", "/path/to/app/2024/a/, wordpress/index"),
        ],
    );
    howto(
        "mediawiki",
        &[
            ("/cache/x", "403"),
            ("/tests/qunit/a.php", "mw/direct"),
            ("/index.php/Main", "mw/direct"),
            ("/skins/a.css", "/path/to/app/skins/a.css"),
            ("/skins/a.php", "mw/index"),
            ("/Main_Page", "mw/index"),
        ],
    );
    howto(
        "dokuwiki",
        &[
            ("/", "dokuwiki"),
            ("/doku.php", "dokuwiki"),
            ("/conf/users.auth.php", "404"),
            ("/lib/a.css", "/path/to/app/lib/a.css"),
        ],
    );
    howto(
        "drupal",
        &[
            ("/.git/config", "404"),
            (
                "/.well-known/x",
                "/path/to/app/web/.well-known/x, drupal/index",
            ),
            ("/update.php", "drupal/direct"),
            ("/core/other.php", "404"),
            ("/node/1", "/path/to/app/web/node/1, drupal/index"),
        ],
    );
    howto(
        "nextcloud",
        &[
            ("/config/config.php", "404"),
            ("/remote.php/dav", "nextcloud/direct"),
            ("/ocs-provider/", "nextcloud/ocs"),
            ("/ocm-provider/a.php", "nextcloud/direct"),
            ("/updater/", "nextcloud/updater"),
            ("/apps/files", "/path/to/app/apps/files, nextcloud/index"),
        ],
    );
    howto(
        "phpbb",
        &[
            ("/config.php", "404"),
            ("/viewtopic.php", "phpbb/direct"),
            ("/feed", "/path/to/phpbb/feed, phpbb/index"),
        ],
    );
    howto(
        "matomo",
        &[
            ("/matomo.php", "matomo/direct"),
            ("/core/x.css", "404"),
            ("/libs/a.js", "/path/to/app/libs/a.js"),
            ("/libs/a.txt", "not found"),
            ("/report", "/path/to/app/report, matomo/index"),
        ],
    );
    for (case, application) in [
        ("laravel", "laravel"),
        ("lumen", "lumen"),
        ("codeigniter", "codeigniter"),
    ] {
        howto(
            case,
            &[
                ("/a", &format!("/path/to/app/public/a, {application}")),
                ("/index.php", "not found"),
            ],
        );
    }
    howto(
        "yii-2",
        &[
            ("/index.php", "yii/direct"),
            ("/assets/a.php", "/path/to/app/web/assets/a.php, yii/index"),
        ],
    );
    howto(
        "roundcube",
        &[
            ("/installer/", "roundcube"),
            ("/a.css", "/path/to/app/public_html/a.css"),
        ],
    );
    howto(
        "modx",
        &[
            ("/core/a", "404"),
            ("/a.php", "modx"),
            ("/a", "/path/to/app/a, modx"),
        ],
    );
    howto(
        "phpmyadmin",
        &[("/a.woff2", "/path/to/app/a.woff2"), ("/sql", "phpmyadmin")],
    );
    howto(
        "symfony",
        &[
            ("/index.php/a", "symfony/direct"),
            ("/a", "/path/to/app/public/a, symfony/index"),
        ],
    );
    howto(
        "django-wsgi",
        &[
            ("/static/a.css", "/path/to/app/static/a.css"),
            ("/admin", "app"),
        ],
    );
    howto(
        "trac",
        &[
            ("/chrome/a.css", "/path/to/trac/static/chrome/a.css"),
            ("/ticket/1", "app"),
        ],
    );
    howto(
        "bugzilla",
        &[
            ("/data/webdot/a.dot", "404"),
            (
                "/data/assets/a.css",
                "/path/to/app/data/assets/a.css, bugzilla",
            ),
            ("/localconfig", "404"),
        ],
    );
    howto(
        "security-hidden",
        &[
            ("/a.php", "app/direct"),
            ("/data/x", "not found"),
            ("/a", "/path/to/app/static/a, app/index"),
        ],
    );
}
