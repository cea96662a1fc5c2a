//! Configurations of nginx, in memory, and what comes of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_import::{Importance, Imported, Kind, Sources, import};

struct Memory(BTreeMap<PathBuf, Vec<u8>>);

impl Sources for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        let inside = self.0.keys().filter(|path| path.parent() == Some(folder));
        inside
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect()
    }
}

fn memory(files: &[(&str, &str)]) -> Memory {
    let files = files.iter();
    Memory(
        files
            .map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()))
            .collect(),
    )
}

fn imported(text: &str) -> Imported {
    let files = memory(&[("/etc/nginx/nginx.conf", text)]);
    import(
        Kind::Nginx,
        &[PathBuf::from("/etc/nginx/nginx.conf")],
        &files,
    )
    .expect("it can be read")
}

/// The directives that are lost, with their lines.
fn lost(imported: &Imported) -> Vec<(usize, &str)> {
    let lost = imported
        .findings
        .iter()
        .filter(|finding| finding.importance == Importance::Lost);
    lost.map(|finding| (finding.line, finding.directive.as_str()))
        .collect()
}

fn steps(text: &str) -> Value {
    let imported = imported(&format!("server {{ server_name s; root /srv;\n{text}\n}}"));
    assert_eq!(lost(&imported), [], "{text}");
    imported.configuration["routes"]["s"].clone()
}

fn uris(text: &str) -> Vec<Value> {
    let steps = steps(text);
    let steps = steps.as_array().unwrap().iter();
    steps.map(|step| step["match"]["uri"].clone()).collect()
}

#[test]
fn locations_are_in_the_order_in_which_nginx_finds_them() {
    let text = r"
        location / { return 201; }
        location /docs/ { return 202; }
        location ~ \.php$ { return 203; }
        location = /docs/x { return 204; }
        location ^~ /docs/static/ { return 205; location /docs/static/open/ { return 206; } }
        location ~* \.JPG$ { return 207; }";
    assert_eq!(
        uris(text),
        [
            json!("/docs/x"),
            json!("/docs/static/open/*"),
            json!("/docs/static/*"),
            json!("~\\.php$"),
            json!("~(?i)\\.JPG$"),
            json!("/docs/*"),
            Value::Null
        ]
    );
}

#[test]
fn a_longer_prefix_takes_back_that_no_expression_is_asked() {
    let text = "location / { return 201; } location ^~ /a/ { return 202; } location /a/b/ { return 203; } location ~ x { return 204; }";
    assert_eq!(
        uris(text),
        [
            json!(["/a/*", "!/a/b/*"]),
            json!("~x"),
            json!("/a/b/*"),
            Value::Null
        ]
    );
}

#[test]
fn an_expression_within_a_prefix_is_asked_there_only_and_first() {
    let text = "location / { return 201; } location /a/ { return 202; location ~ x$ { return 203; } } location ~ y { return 204; }";
    assert_eq!(
        uris(text),
        [
            json!(["~x$", "!~^(?!/a/)"]),
            json!("~y"),
            json!("/a/*"),
            Value::Null
        ]
    );
}

#[test]
fn names_are_looked_up_by_kind_and_length() {
    let server = |names: &str, status: u16| {
        format!("server {{ listen 80; server_name {names}; return {status}; }}")
    };
    let text = [
        server("_", 200),
        server("*.example", 201),
        server("~^w+$", 202),
        server("www.*", 203),
        server("*.a.example", 204),
        server("www.a.example .b.example", 205),
    ]
    .join("\n");
    let configuration = imported(&text).configuration;
    let steps = configuration["routes"]["listen-80"]
        .as_array()
        .unwrap()
        .clone();
    let hosts: Vec<Value> = steps
        .iter()
        .map(|step| step["match"]["host"].clone())
        .collect();
    assert_eq!(
        hosts,
        [
            json!(["www.a.example", "b.example"]),
            json!("*.a.example"),
            json!("*.b.example"),
            json!("*.example"),
            json!("www.*"),
            json!("~^w+$"),
            Value::Null
        ]
    );
}

#[test]
fn a_place_that_cannot_be_protected_refuses_everybody() {
    for closing in [
        "auth_basic \"x\"; auth_basic_user_file /p;",
        "auth_request /check;",
        "if ($geo_is_bad) { return 403; }",
    ] {
        let imported = imported(&format!(
            "server {{ server_name s; root /srv;\nlocation / {{ {closing} proxy_pass http://127.0.0.1:1; }} }}"
        ));
        assert!(!imported.is_whole(), "{closing}");
        let text = imported.configuration.to_string();
        assert!(!text.contains("127.0.0.1:1\""), "{closing}: {text}");
        assert!(text.contains("\"return\":403"), "{closing}: {text}");
    }
}

#[test]
fn addresses_are_let_in_and_kept_out_in_their_order() {
    let route =
        steps("location / { deny 10.0.0.1; allow 10.0.0.0/8; allow unix:; deny all; return 200; }");
    // `return` comes before the addresses, as in nginx.
    assert_eq!(route, json!([{"action": {"return": 200}}]));
    let imported = imported(
        "server { server_name s; root /srv; location / { deny 10.0.0.1; allow 10.0.0.0/8; allow unix:; deny all; } }",
    );
    let text = imported.configuration["routes"].to_string();
    assert!(
        text.contains(r#"{"match":{"source":"10.0.0.1"},"action":{"return":403}}"#),
        "{text}"
    );
    assert!(
        text.contains(r#"{"match":{"source":["!10.0.0.0/8","!unix"]},"action":{"return":403}}"#),
        "{text}"
    );
}

#[test]
fn nothing_is_left_out_without_a_word() {
    let imported = imported(
        "server { server_name s; root /srv;\n autoindex on;\n no_such_directive x;\n\
         location /a { return 200 'text'; }\n location /b { proxy_pass http://$host; }\n\
         location /c { try_files $uri /index.php?q=$uri; }\n\
         error_page 404 /404.html;\n limit_req zone=a;\n location / { add_header X-A $nothing_known; }\n}",
    );
    assert_eq!(
        lost(&imported),
        [
            (2, "autoindex"),
            (3, "no_such_directive"),
            (4, "return"),
            (5, "proxy_pass"),
            (6, "try_files"),
            (7, "error_page"),
            (8, "limit_req"),
            (9, "add_header"),
        ]
    );
    for finding in &imported.findings {
        assert!(!finding.hint.is_empty(), "{finding:?}");
    }
}

#[test]
fn a_pool_of_php_fpm_becomes_an_application() {
    let files = memory(&[
        (
            "/etc/nginx/sites/s",
            "server { server_name s; root /srv/site;\n location / { try_files $uri $uri/ /index.php?$args; }\n\
             location ~ \\.php$ { include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php/s.sock; } }",
        ),
        (
            "/etc/nginx/fastcgi_params",
            "fastcgi_param QUERY_STRING $query_string; fastcgi_param HTTPS $https if_not_empty;",
        ),
        (
            "/etc/php/pool.d/s.conf",
            "; a pool\n[s]\nuser = s\nlisten = /run/php/$pool.sock\npm = static\npm.max_children = 7\nphp_admin_flag[log_errors] = on\nphp_value[memory_limit] = 1G\n\
             env[A] = \"b\"\nrequest_terminate_timeout = 2m\npm.max_requests = 9\nslowlog = /tmp/x\n",
        ),
    ]);
    let paths = ["/etc/nginx/sites/s", "/etc/php/pool.d/s.conf"].map(PathBuf::from);
    let imported = import(Kind::Nginx, &paths, &files).unwrap();
    assert_eq!(
        imported.configuration["applications"]["s"],
        json!({"type": "php", "processes": 7, "user": "s", "limits": {"timeout": 120, "requests": 9}, "environment": {"A": "b"},
               "options": {"admin": {"log_errors": "1"}, "user": {"memory_limit": "1G"}}, "root": "/srv/site"})
    );
    assert_eq!(lost(&imported), [(12, "slowlog")]);
}

#[test]
fn includes_are_followed_and_bounded() {
    let files = memory(&[
        ("/etc/nginx/nginx.conf", "include sites/*.conf;"),
        (
            "/etc/nginx/sites/b.conf",
            "server { listen 81; return 204; }",
        ),
        (
            "/etc/nginx/sites/a.conf",
            "server { listen 80; return 204; }",
        ),
        ("/etc/nginx/sites/.hidden.conf", "nonsense {"),
        ("/etc/nginx/circle.conf", "include circle.conf;"),
        ("/etc/nginx/missing.conf", "\ninclude not-there.conf;"),
        (
            "/etc/nginx/many.conf",
            "include many.conf; include many.conf; a; b;",
        ),
    ]);
    let of = |name: &str| {
        import(
            Kind::Nginx,
            &[PathBuf::from(format!("/etc/nginx/{name}"))],
            &files,
        )
    };
    let whole = of("nginx.conf").unwrap().configuration;
    let listeners: Vec<&String> = whole["listeners"].as_object().unwrap().keys().collect();
    assert_eq!(listeners, ["*:80", "*:81"]);
    let error = of("circle.conf").unwrap_err();
    assert!(error.problem.contains("include each other"), "{error}");
    let error = of("missing.conf").unwrap_err();
    assert_eq!((error.line, error.hint.is_some()), (2, true), "{error}");
    assert!(of("many.conf").is_err());
    assert!(of("no-such-file").is_err());
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let folder = std::env::temp_dir().join(format!("tutti-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("large.conf");
    std::fs::write(&path, vec![b' '; tutti_import::LARGEST_FILE as usize + 1]).unwrap();
    let error = import(Kind::Nginx, &[path], &tutti_import::Disk).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(error.problem.contains("larger than 4 MiB"), "{error}");
}

#[test]
fn rewrites_follow_the_rules_of_nginx() {
    let text = r"rewrite ^/old/(.*)$ /new/$1 last; rewrite ^/gone$ https://other/x? permanent; location / { return 204; }";
    let imported = imported(&format!("server {{ server_name s; root /srv;\n{text}\n}}"));
    assert_eq!(lost(&imported), []);
    let routes = &imported.configuration["routes"];
    assert_eq!(routes["s"][0]["action"]["pass"], "routes/s-locations");
    assert!(
        routes["s"][0]["action"]["rewrite"]
            .as_str()
            .unwrap()
            .contains("/new/"),
        "{routes:#}"
    );
    assert_eq!(
        routes["s"][1]["action"],
        json!({"return": 301, "location": "https://other/x"})
    );
    assert_eq!(
        routes["s"][2]["action"],
        json!({"pass": "routes/s-locations"})
    );
}
