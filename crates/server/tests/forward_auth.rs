//! Subrequests that decide about requests, as oauth2-proxy and others expect them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::Site;
use support::backend::Backend;

/// A service that admits requests with a cookie `ok`, and reports what it was asked.
fn service() -> Backend {
    Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            if asked.field("Cookie") == Some("ok") {
                peer.send(format!(
                    "HTTP/1.1 202 Accepted\r\nX-Auth-Request-User: alice\r\nX-Auth-Request-Email: alice@example\r\n\
                     X-Line: {}\r\nX-Given: {}\r\nX-Agent: {}\r\nSet-Cookie: one=1\r\nSet-Cookie: two=2\r\n\
                     Content-Length: 0\r\n\r\n",
                    asked.line().split(" HTTP").next().unwrap(),
                    asked.field("X-Told").unwrap_or("none"),
                    asked.field("User-Agent").unwrap_or("none"),
                ));
            } else {
                peer.send(
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Cookie\r\nSet-Cookie: csrf=3\r\n\
                     Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nits own page.",
                );
            }
        }
    })
}

/// A server that repeats the head of a request.
fn application() -> Backend {
    Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.answer(asked.head.as_bytes());
        }
    })
}

fn site(service: &Backend, application: &Backend, forward: &str, more: &str) -> Site {
    let (service, application) = (service.address, application.address);
    let text = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
             "routes": [{{"action": {{"proxy": "http://{application}"{more},
                 "authenticate": {{"forward": {{"pass": "upstreams/oauth2"{forward}}}}}}}}}],
             "upstreams": {{"oauth2": {{"servers": {{"{service}": {{}}}}}}}}}}"#
    );
    Site::new(1, move |_| text.clone())
}

#[test]
fn fields_go_to_the_application_under_other_names_and_cookies_to_the_client() {
    let (service, application) = (service(), application());
    let site = site(
        &service,
        &application,
        r#", "uri": "/oauth2/auth?of=$host&path=$uri", "method": "HEAD",
           "headers": {"X-Told": "for $method", "User-Agent": null},
           "copy": {"X-User": "X-Auth-Request-User", "X-Asked": "X-Line", "X-Given": "X-Given", "X-Agent": "X-Agent"},
           "copy_to_client": ["Set-Cookie"]"#,
        "",
    );
    let fields = "Cookie: ok\r\nX-User: mallory\r\nx_user: mallory\r\nUser-Agent: curl\r\n";
    let answer = site.request("GET", "/a%20b?c=d", fields);
    assert_eq!(answer.status, 200);
    let seen = answer.text();
    for line in [
        "X-User: alice\r\n",
        "X-Asked: HEAD /oauth2/auth?of=test&path=/a%20b\r\n",
        "X-Given: for GET\r\n",
        "X-Agent: none\r\n",
        "User-Agent: curl\r\n",
    ] {
        assert!(seen.contains(line), "{line:?} in {seen}");
    }
    assert!(!seen.contains("mallory"), "{seen}");
    assert!(!seen.contains("X-Auth-Request-Email"), "{seen}");
    let cookies = answer.head.matches("Set-Cookie: ").count();
    assert_eq!(cookies, 2, "{}", answer.head);
    assert!(
        answer.head.contains("Set-Cookie: two=2\r\n"),
        "{}",
        answer.head
    );

    // A list copies fields under their own names.
    let listed = self::site(
        &service,
        &application,
        r#", "copy": ["X-Auth-Request-Email"]"#,
        "",
    );
    let answer = listed.request("GET", "/", "Cookie: ok\r\n");
    assert!(
        answer
            .text()
            .contains("X-Auth-Request-Email: alice@example\r\n")
    );
    assert_eq!(answer.field("Set-Cookie"), None);
}

#[test]
fn a_refusal_leads_to_the_page_for_signing_in() {
    let (service, application) = (service(), application());
    let pages = r#", "error_pages": {"401": {"return": 302, "location": "`/oauth2/sign_in?rd=${encodeURIComponent('https://' + host + vars.request_uri)}`"}}"#;
    let site = site(&service, &application, r#", "uri": "/oauth2/auth""#, pages);
    let answer = site.get("/private?x=1&y=2");
    assert_eq!(answer.status, 302);
    assert_eq!(
        answer.field("Location"),
        Some("/oauth2/sign_in?rd=https%3A%2F%2Ftest%2Fprivate%3Fx%3D1%26y%3D2")
    );
    assert_eq!(answer.field("Set-Cookie"), Some("csrf=3"));
    assert!(!answer.text().contains("its own page"));
    assert!(application.requests().is_empty());
    assert_eq!(
        site.request("GET", "/private", "Cookie: ok\r\n").status,
        200
    );

    // Without a page for it, the client gets the service's.
    let plain = self::site(&service, &application, "", "");
    let answer = plain.get("/private");
    assert_eq!(
        (answer.status, answer.text()),
        (401, "its own page.".to_owned())
    );
    assert_eq!(answer.field("WWW-Authenticate"), Some("Cookie"));
}

#[test]
fn a_value_that_would_break_the_subrequest_refuses_the_request() {
    let (service, application) = (service(), application());
    let forward = r#", "headers": {"X-Told": "$arg_x"}"#;
    let site = site(&service, &application, forward, "");
    assert_eq!(
        site.request("GET", "/?x=fine", "Cookie: ok\r\n").status,
        200
    );
    let answer = site.request("GET", "/?x=a%0d%0aCookie:%20ok", "");
    assert!(matches!(answer.status, 401 | 502), "{}", answer.status);
    assert!(application.requests().len() == 1);
}

/// The service is asked for each of them, of which the first and the others are guarded at two places.
#[test]
fn redirects_within_the_server_do_not_double_what_the_service_gives_the_client() {
    let service = service();
    let application = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let to = match asked.line().split(' ').nth(1) {
                Some("/") => "/again/1",
                Some("/again/1") => "/again/2",
                _ => {
                    peer.answer(b"the end");
                    continue;
                }
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\nSet-Cookie: to={to}\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let action = |fields: &str| {
        format!(
            r#"{{"proxy": "http://{}", "internal": "routes/again", "authenticate": {{"forward": {{
                "pass": "upstreams/oauth2", "uri": "/auth?of=$uri", "copy_to_client": [{fields}]}}}}}}"#,
            application.address
        )
    };
    let text = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes/main"}}}},
             "routes": {{"main": [{{"action": {}}}], "again": [{{"action": {}}}]}},
             "upstreams": {{"oauth2": {{"servers": {{"{}": {{}}}}}}}}}}"#,
        action(r#""Set-Cookie", "X-Line", "X-Auth-Request-User""#),
        action(r#""Set-Cookie", "x-line""#),
        service.address
    );
    let site = Site::new(1, move |_| text.clone());
    let answer = site.request("GET", "/", "Cookie: ok\r\n");
    assert_eq!((answer.status, answer.text().as_str()), (200, "the end"));
    assert_eq!(service.requests().len(), 3);
    let all = |name: &str| -> Vec<&str> {
        let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
        let lines = lines.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value).collect()
    };
    let mut cookies = all("Set-Cookie");
    cookies.sort_unstable();
    assert_eq!(cookies, ["one=1", "to=/again/1", "to=/again/2", "two=2"]);
    assert_eq!(all("X-Line"), ["GET /auth?of=/again/2"]);
    assert_eq!(all("X-Auth-Request-User"), ["alice"]);
}

/// A service that reads one of these fields took a client's statement for the server's.
#[test]
fn a_client_does_not_describe_its_own_request() {
    let service = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let lines = asked.head.lines().map(str::to_lowercase);
            let told: Vec<String> = lines.filter(|line| line.contains("admin")).collect();
            let told = told.join(";");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nX-Told: <{told}>\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let application = application();
    let site = site(
        &service,
        &application,
        r#", "copy": ["X-Told"], "headers": {"X-Path": "$uri"}"#,
        "",
    );
    for name in [
        "X-Forwarded-Uri",
        "X-Forwarded-Path",
        "X-Original-URL",
        "X-Original-Method",
        "X-Real-IP",
        "X-Path",
        "X.Path",
        "X-Own",
    ] {
        let seen = site.request("GET", "/a", &format!("{name}: admin\r\n"));
        let told = match name {
            "X-Own" => "X-Told: <x-own: admin>\r\n",
            _ => "X-Told: <>\r\n",
        };
        assert!(seen.text().contains(told), "{name}: {}", seen.text());
    }
}
