//! Configurations of nginx, in memory, and their translations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod memory;

use std::path::PathBuf;

use memory::{Memory, lost};
use serde_json::{Value, json};
use tutti_import::{ForeignServer, Importance, Imported, import};

/// The action in place of what is not carried over.
const SHUT: &str = r#""action":{"return":403,"body":"403 Forbidden\n"}"#;

fn imported(text: &str) -> Imported {
    let files = Memory::of(&[
        ("/etc/nginx/nginx.conf", text),
        (
            "/etc/nginx/htpasswd",
            "# staff\nanna:$2y$10$IxHfSWqoAKNXexmbhyYEHuHSqtPwXuuQ4vvAmgUzi6uRpxY8Mdb6K\n",
        ),
        ("/etc/nginx/old.htpasswd", "anna:{PLAIN}secret\n"),
    ]);
    import(
        ForeignServer::Nginx,
        &[PathBuf::from("/etc/nginx/nginx.conf")],
        &files,
    )
    .expect("it can be read")
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
        "auth_basic \"x\";",
        "auth_basic \"x\"; auth_basic_user_file /p/$host;",
        "auth_basic \"x\"; auth_basic_user_file /etc/nginx/old.htpasswd;",
        "auth_request /check; } location ~ check { return 204;",
        "auth_jwt \"x\"; auth_jwt_key_file /p;",
        "secure_link $arg_a;",
        "satisfy any; auth_jwt on; auth_basic \"x\"; auth_basic_user_file /p;",
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
    assert_eq!(
        route,
        json!([{"action": {"return": 200, "body": "", "content_type": "text/plain"}}])
    );
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
        "server { server_name s; root /srv;\n autoindex on;\n random_index on;\n\
         location /a { return 200 'text'; }\n location /b { proxy_pass http://$host; }\n\
         location /c { try_files $uri /index.php?q=$uri; }\n\
         error_page 404 /404.html;\n limit_req zone=a;\n location / { add_header X-A $nothing_known; }\n}",
    );
    assert_eq!(
        lost(&imported),
        [
            (3, "random_index"),
            (5, "proxy_pass"),
            (8, "limit_req"),
            (9, "add_header"),
        ]
    );
    for finding in &imported.findings {
        assert!(!finding.hint.is_empty(), "{finding:?}");
    }
}

/// Issue 28, 2.3: queries of rewrites were left out.
#[test]
fn a_query_of_a_rewrite_is_carried_over() {
    let rewritten = |statement: &str| {
        let source =
            format!("server {{ server_name s; root /srv; location /c {{ {statement} }} }}");
        let imported = imported(&source);
        let text = imported.configuration["routes"].to_string();
        let value = text.split(r#""rewrite":""#).nth(1);
        let value = value.and_then(|rest| rest.split('"').next());
        (value.unwrap_or_default().to_owned(), lost(&imported).len())
    };
    for (statement, value) in [
        (
            "try_files $uri /index.php?q=$uri&$args;",
            "/index.php?q=$uri&$query",
        ),
        ("try_files $uri /index.php?q=$uri;", "/index.php?q=$uri?"),
        ("try_files $uri /index.php?$args;", "/index.php"),
        (
            "rewrite ^ /index.php?q=a%20b last;",
            "/index.php?q=a%20b&$query",
        ),
        ("rewrite ^ /index.php?q=$uri? last;", "/index.php?q=$uri?"),
        ("rewrite ^ /index.php? last;", "/index.php?"),
    ] {
        assert_eq!(rewritten(statement), (value.to_owned(), 0), "{statement}");
    }
    // A capture is a script, behind which the client's arguments follow by themselves.
    let (value, findings) = rewritten("rewrite ^/c/(.+)/d$ /index.php?q=$1 last;");
    assert!(value.starts_with("`/index.php?q=${"), "{value}");
    assert!(value.ends_with("}`"), "{value}");
    assert_eq!(findings, 0);
    let (value, _) = rewritten("rewrite ^/c/(.+)/d$ /index.php?q=$1? last;");
    assert!(value.ends_with("}?`"), "{value}");
    // In front of one it would be encoded a second time.
    let (_, findings) = rewritten("rewrite ^/c/(.+)/d$ /index.php?$args&q=$1? last;");
    assert_eq!(findings, 1);
}

#[test]
fn a_pool_of_php_fpm_becomes_an_application() {
    let files = Memory::of(&[
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
            "; a pool\n[s]\nuser = s\nlisten = /run/php/$pool.sock\npm = static\npm.max_children = 7\nphp_admin_flag[log_errors] = on\nphp_admin_value[user_ini.filename] = .site.ini\nphp_value[memory_limit] = 1G\n\
             env[A] = \"b\"\nrequest_terminate_timeout = 2m\npm.max_requests = 9\nslowlog = /tmp/x\n",
        ),
    ]);
    let paths = ["/etc/nginx/sites/s", "/etc/php/pool.d/s.conf"].map(PathBuf::from);
    let imported = import(ForeignServer::Nginx, &paths, &files).unwrap();
    assert_eq!(
        imported.configuration["applications"]["s"],
        json!({"type": "php", "processes": 7, "user": "s", "limits": {"timeout": 120, "requests": 9}, "environment": {"A": "b"},
               "options": {"admin": {"log_errors": "1", "user_ini.filename": ".site.ini"}, "user": {"memory_limit": "1G"}}, "root": "/srv/site"})
    );
    assert_eq!(lost(&imported), [(13, "slowlog")]);
    // PHP-FPM clears it without a word in the file.
    let environment = |pool: &Imported| {
        let mut findings = pool.findings.iter();
        findings.any(|one| one.directive == "clear_env" && one.importance == Importance::Note)
    };
    assert!(environment(&imported));
    let kept = Memory::of(&[("/p", "[s]\nlisten = /run/x\nclear_env = no\n")]);
    let kept = import(ForeignServer::Fpm, &[PathBuf::from("/p")], &kept).unwrap();
    assert!(!environment(&kept));
}

/// The server names the users whose passwords it has checked to an application; it has no name for others.
#[test]
fn the_name_of_a_user_needs_no_parameter_in_php() {
    for guard in ["auth_basic x; auth_basic_user_file /p;", ""] {
        let site = format!(
            "server {{ server_name s; root /srv/site;\n location ~ \\.php$ {{ {guard} fastcgi_param REMOTE_USER $remote_user; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php/s.sock; }} }}"
        );
        let pool = "[s]\nlisten = /run/php/s.sock\npm = static\npm.max_children = 7\n";
        let files = Memory::of(&[("/s", site.as_str()), ("/s.conf", pool)]);
        let paths = ["/s", "/s.conf"].map(PathBuf::from);
        let imported = import(ForeignServer::Nginx, &paths, &files).unwrap();
        assert_eq!(lost(&imported), [], "{guard}");
        let whole = imported.configuration.to_string();
        assert!(whole.contains("applications/s"), "{whole}");
        assert!(!whole.contains("REMOTE_USER"), "{whole}");
        assert_eq!(whole.contains("authenticate"), !guard.is_empty(), "{whole}");
    }
}

#[test]
fn no_page_stands_in_for_what_is_not_carried_over() {
    let text = "error_page 403 = @open; location @open { try_files /open.html =404; }\n location /a/ { auth_request /none; proxy_pass http://127.0.0.1:1; }";
    let imported = imported(&format!("server {{ server_name s; root /srv;\n{text}\n}}"));
    assert_eq!(lost(&imported).len(), 1);
    let routes = imported.configuration["routes"].to_string();
    assert!(routes.contains(SHUT), "{routes}");
}

#[test]
fn files_in_place_of_an_error_are_for_get_alone() {
    let text = "error_page 403 = @open; location / { deny all; proxy_pass http://127.0.0.1:1; } location @open { ANSWER }";
    for (answer, is_file) in [
        ("", true),
        ("rewrite ^ /x last;", true),
        ("return 200 a;", false),
        ("proxy_pass http://127.0.0.1:1;", false),
    ] {
        let inside = text.replace("ANSWER", answer);
        let imported = imported(&format!(
            "server {{ server_name s; root /srv;\n{inside}\n}}"
        ));
        assert_eq!(lost(&imported), [], "{answer}");
        let routes = imported.configuration["routes"].to_string();
        assert_eq!(
            routes.contains(r#""action":{"return":405}"#),
            is_file,
            "{routes}"
        );
    }
}

#[test]
fn expressions_change_redirects() {
    let steps = steps(
        "location / { proxy_pass http://127.0.0.1:1/x/; proxy_redirect ~^/a/(.*)$ /b/$1; proxy_redirect default; }",
    );
    let changed = &steps[0]["action"]["response_headers_always"]["Location"];
    assert_eq!(
        changed,
        "`${/^\\/a\\/(.*)$/.exec((vars.response_header_location ?? '')) ? ('/b/' + ((/^\\/a\\/(.*)$/.exec((vars.response_header_location ?? '')) ?? [])[1] ?? '')) : (vars.response_header_location ?? '').startsWith('http://127.0.0.1:1/x/') ? '/' + (vars.response_header_location ?? '').slice('http://127.0.0.1:1/x/'.length) : (vars.response_header_location ?? '')}`"
    );
    assert_eq!(steps[0]["action"]["proxy_options"], Value::Null);
}

#[test]
fn includes_are_followed_and_bounded() {
    let files = Memory::of(&[
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
            ForeignServer::Nginx,
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
    let error = import(ForeignServer::Nginx, &[path], &tutti_import::Disk).unwrap_err();
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

/// The route of a location, where a server has no other.
fn location(http: &str, server: &str, location: &str) -> (Value, Vec<(usize, String)>) {
    let text = format!(
        "{http}\nserver {{ server_name s; root /srv; {server}\nlocation / {{ {location} }} }}"
    );
    let imported = imported(&text);
    let findings = lost(&imported).into_iter();
    let findings = findings
        .map(|(line, name)| (line, name.to_owned()))
        .collect();
    (imported.configuration, findings)
}

#[test]
fn passwords_are_asked_for() {
    let (whole, findings) = location(
        "",
        "",
        "auth_basic \"Staff only\"; auth_basic_user_file htpasswd; proxy_pass http://127.0.0.1:1; proxy_set_header X-User $remote_user;",
    );
    assert_eq!(findings, []);
    let action = &whole["routes"]["s"][0]["action"];
    assert_eq!(
        action["authenticate"],
        json!({"basic": {"realm": "Staff only", "file": "/etc/nginx/htpasswd", "field": "X-User"}})
    );
    assert_eq!(action["proxy"], "http://127.0.0.1:1");
    assert!(action["request_headers"].get("X-User").is_none(), "{whole}");
}

#[test]
fn a_password_is_taken_back_by_off() {
    let (whole, findings) = location(
        "",
        "auth_basic Staff; auth_basic_user_file htpasswd;",
        "auth_basic off; return 204;",
    );
    assert_eq!(findings, []);
    assert!(!whole.to_string().contains("authenticate"), "{whole}");
}

#[test]
fn addresses_or_a_password_let_in() {
    let rules = "satisfy any; deny 10.0.0.1; allow 10.0.0.0/8; deny all; auth_basic x; auth_basic_user_file htpasswd;";
    let (whole, findings) = location("", "", rules);
    assert_eq!(findings, []);
    let steps = &whole["routes"]["s-location-1"];
    let steps = if steps.is_null() {
        &whole["routes"]["s"]
    } else {
        steps
    };
    let text = whole.to_string();
    assert!(
        text.contains(r#""source":["10.0.0.0/8","!10.0.0.1"]"#),
        "{steps:#}"
    );
    assert!(text.contains("authenticate"), "{text}");
    assert!(!text.contains(r#""action":{"return":403}"#), "{text}");
    let both = rules.replace("any", "all");
    let text = location("", "", &both).0.to_string();
    assert!(
        text.contains("403") && text.contains("authenticate"),
        "{text}"
    );
}

#[test]
fn another_server_is_asked() {
    let (whole, findings) = location(
        "",
        "location = /check { internal; proxy_pass http://127.0.0.1:2/verify; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI $request_uri; }",
        "auth_request /check; auth_request_set $user $upstream_http_x_user; proxy_set_header X-User $user; proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, []);
    assert_eq!(
        whole["routes"]["s-question"][0]["action"],
        json!({"proxy": "http://127.0.0.1:2", "rewrite": "/verify",
               "request_headers": {"Host": "127.0.0.1:2", "X-Original-URI": "$header_x_forwarded_uri"}})
    );
    let text = whole["routes"].to_string();
    let wanted = r#""authenticate":{"forward":{"copy":["X-User"],"pass":"routes/s-question","uri":"/check"}}"#;
    let wanted_as_written = r#""authenticate":{"forward":{"pass":"routes/s-question","uri":"/check","copy":["X-User"]}}"#;
    assert!(
        text.contains(wanted) || text.contains(wanted_as_written),
        "{text}"
    );
}

#[test]
fn a_name_that_a_client_could_say_is_removed() {
    let (whole, findings) = location(
        "",
        "location = /check { internal; return 204; }",
        "auth_request /check; auth_request_set $user $upstream_http_x_name; proxy_set_header X-User $user; proxy_pass http://127.0.0.1:1;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole.to_string();
    assert!(text.contains(r#""copy":{"X-User":"x-name"}"#), "{text}");
    let (whole, findings) = location(
        "",
        "location = /check { internal; return 204; }",
        "auth_request /check; auth_request_set $user $upstream_http_x_name; proxy_set_header X-User \"Bearer $user\"; proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, [(3, "proxy_set_header".to_owned())]);
    assert!(whole.to_string().contains(r#""X-User":null"#), "{whole}");
}

#[test]
fn bounds_have_names_and_are_counted_together() {
    let http = "limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s; limit_conn_zone $server_name zone=per_site:1m; limit_req_status 429;";
    let (whole, findings) = location(
        http,
        "limit_conn per_site 5;",
        "limit_req zone=one burst=20 nodelay; proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, []);
    assert_eq!(
        whole["limits"],
        json!({"one": {"rate": "10r/s", "burst": 20, "status": 429, "keys": 81920},
               "per_site": {"concurrent": 5, "key": "s", "status": 503}})
    );
    assert_eq!(
        whole["routes"]["s"][0]["action"]["limit"],
        json!(["one", "per_site"])
    );
    let (whole, findings) = location(http, "", "limit_req zone=one burst=5;");
    assert_eq!(findings, []);
    assert_eq!(whole["limits"]["one"]["delay"], true);
}

#[test]
fn a_dry_run_is_of_one_kind_of_limit_and_may_end_in_a_block() {
    let http = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_conn_zone $binary_remote_addr zone=b:1m;";
    let both = "limit_req zone=a; limit_conn b 5; proxy_pass http://127.0.0.1:1;";
    let dry = |http: &str, server: &str| {
        let (whole, findings) = location(http, server, both);
        assert_eq!(findings, []);
        let dry = |name: &str| whole["limits"][name].get("dry_run").is_some();
        (dry("a"), dry("b"))
    };
    assert_eq!(dry(http, "limit_req_dry_run on;"), (true, false));
    assert_eq!(dry(http, "limit_conn_dry_run on;"), (false, true));
    let http = format!("{http} limit_req_dry_run on;");
    assert_eq!(dry(&http, ""), (true, false));
    assert_eq!(dry(&http, "limit_req_dry_run off;"), (false, false));
}

/// A variable that an `if` of the server sets has its values there alone. One that takes it over must not have the first one in a location.
#[test]
fn a_variable_that_is_computed_from_one_of_an_if_opens_nothing() {
    let admin = "set $s 0; if ($uri ~ ^/admin) { set $s 1; }";
    let closed = |http: &str, server: &str, inside: &str| {
        let (whole, findings) = location(http, server, inside);
        assert!(!findings.is_empty(), "{http} {server} {inside}: {whole}");
    };
    let deny = "if ($t = 1) { return 403; } proxy_pass http://127.0.0.1:1;";
    closed("", &format!("{admin} set $t $s;"), deny);
    closed("", &format!("{admin} set $u $s; set $t x$u;"), deny);
    closed("map $s $t { 1 1; default 0; }", admin, deny);
    let pass = "proxy_pass http://127.0.0.1:1;";
    closed("proxy_set_header X-Role $s;", admin, pass);
    let cache =
        "proxy_cache_path /tmp/c keys_zone=pages:10m; proxy_no_cache $s; proxy_cache_bypass $s;";
    closed(
        cache,
        admin,
        "proxy_cache pages; proxy_pass http://127.0.0.1:1;",
    );
    // Rules alone are carried over.
    let rules = format!("{admin} set $t $s; if ($t = 1) {{ return 403; }}");
    let (_, findings) = location("", &rules, pass);
    assert_eq!(findings, []);
}

#[test]
fn a_hidden_field_stays_hidden_beside_one_that_is_added() {
    let fields = |inside: &str| {
        let inside =
            format!("proxy_pass http://127.0.0.1:1; proxy_hide_header Set-Cookie; {inside}");
        let (whole, findings) = location("", "", &inside);
        let action = whole["routes"]["s"][0]["action"].clone();
        let fields = |name: &str| action[name]["Set-Cookie"].clone();
        let (some, all) = (
            fields("response_headers"),
            fields("response_headers_always"),
        );
        (some, all, findings.len())
    };
    let null = serde_json::Value::Null;
    assert_eq!(
        fields("add_header Set-Cookie x always;"),
        (null.clone(), json!("x"), 0)
    );
    assert_eq!(
        fields("add_header Set-Cookie x;"),
        (json!({"add": "x"}), null.clone(), 0)
    );
    let both = "add_header Set-Cookie x; add_header Set-Cookie y;";
    assert_eq!(fields(both), (json!({"add": ["x", "y"]}), null.clone(), 0));
    let both = "add_header Set-Cookie x always; add_header Set-Cookie y;";
    assert_eq!(fields(both), (null.clone(), json!("x"), 1));
    let both = "add_header Set-Cookie x; add_header Set-Cookie y always;";
    assert_eq!(fields(both), (json!({"add": "x"}), null, 1));
}

/// The field of the server behind is replaced, so that another value cannot be added.
#[test]
fn a_field_that_replaces_does_not_become_one_that_is_added() {
    let inside = "proxy_pass http://127.0.0.1:1; charset $arg_c; add_header Content-Type text/x;";
    let (whole, findings) = location("", "", inside);
    let action = &whole["routes"]["s"][0]["action"];
    let fields = &action["response_headers"]["Content-Type"];
    let always = &action["response_headers_always"]["Content-Type"];
    assert!(fields.is_string() || always.is_string(), "{action}");
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[test]
fn answers_are_kept_as_the_source_keeps_them() {
    let http = "proxy_cache_path /tmp/c keys_zone=pages:10m inactive=30m;";
    let inside = "proxy_pass http://127.0.0.1:1; proxy_cache pages; proxy_cache_key $scheme$host$request_uri; proxy_cache_valid 200 301 10m; proxy_cache_valid 404 1m;\
        proxy_cache_use_stale error updating; proxy_cache_background_update on; proxy_cache_bypass $cookie_session $arg_nocache; proxy_no_cache $cookie_session;";
    let (whole, findings) = location(http, "", inside);
    assert_eq!(findings, []);
    let cache = &whole["routes"]["s"][0]["action"]["cache"];
    assert_eq!(cache["store"], "pages");
    assert_eq!(
        cache["valid"],
        json!({"200": 600.0, "301": 600.0, "404": 60.0})
    );
    assert_eq!(cache["cookies"], json!(["session"]));
    assert_eq!(cache["stale_if_error"], 1800.0);
    assert_eq!(cache["stale_while_revalidate"], 1800.0);
    assert!(
        cache["bypass"]
            .as_str()
            .is_some_and(|text| text.contains("session *=") && text.contains("arg_nocache")),
        "{cache}"
    );
    assert_eq!(whole["settings"]["cache"], json!({"pages": {}}));
}

#[test]
fn a_cache_whose_exceptions_are_unknown_keeps_nothing() {
    let http = "fastcgi_cache_path /tmp/c keys_zone=pages:10m;";
    let inside = "fastcgi_pass 127.0.0.1:1; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_cache pages; fastcgi_cache_valid 200 10m; fastcgi_cache_bypass $skip;";
    for (server, is_kept) in [
        (
            "set $skip 0; if ($request_method = POST) { set $skip 1; } if ($http_cookie ~* \"wordpress_logged_in\") { set $skip 1; }",
            true,
        ),
        ("set $skip 0; if ($uri ~ /private/) { set $skip 1; }", false),
        ("set $skip 0; if (-f /srv/open) { set $skip 1; }", false),
        ("", false),
    ] {
        let (whole, findings) = location(http, server, inside);
        assert_eq!(
            whole.to_string().contains("\"cache\""),
            is_kept,
            "{server}: {whole}"
        );
        assert_eq!(findings.is_empty(), is_kept, "{server}: {findings:?}");
    }
    let server = "set $skip 0; if ($request_method = POST) { set $skip 1; } if ($http_cookie ~* \"logged_in\") { set $skip 1; }";
    let text = location(http, server, inside).0.to_string();
    assert!(
        text.contains("/logged_in/i.test") && text.contains("=== 'POST'"),
        "{text}"
    );
}

#[test]
fn folders_are_listed_where_they_were() {
    let (whole, findings) = location("", "", "autoindex on;");
    assert_eq!(findings, []);
    assert!(whole.to_string().contains(r#""listing":"html""#), "{whole}");
    let (whole, _) = location(
        "",
        "autoindex on; autoindex_format json;",
        "index a.html b.html;",
    );
    assert!(whole.to_string().contains(r#""listing":"json""#), "{whole}");
    let (whole, _) = location("", "autoindex on;", "autoindex off;");
    assert!(!whole.to_string().contains("listing"), "{whole}");
    let (whole, _) = location("", "", "gzip_static on; brotli_static on;");
    assert!(
        whole
            .to_string()
            .contains(r#""precompressed":["gzip","br"]"#),
        "{whole}"
    );
}

#[test]
fn errors_have_their_pages() {
    let pages = "error_page 404 /404.html; error_page 500 502 =200 /sorry.html; error_page 403 =301 https://other/; error_page 410 = /gone.php; error_page 401 @login; location @login { return 302 /in; }";
    let (whole, findings) = location(
        "",
        pages,
        "proxy_pass http://127.0.0.1:1; proxy_intercept_errors on;",
    );
    assert_eq!(findings, []);
    assert_eq!(
        whole["routes"]["s-pages"][0]["action"],
        json!({"pass": "routes/s", "error_pages": {
            "404": {"rewrite": "/404.html?", "pass": "routes/s"},
            "500": {"rewrite": "/sorry.html?", "pass": "routes/s", "response_status": 200},
            "502": {"rewrite": "/sorry.html?", "pass": "routes/s", "response_status": 200},
            "403": {"return": 301, "location": "https://other/"},
            "410": {"rewrite": "/gone.php?", "pass": "routes/s", "response_status": "own"},
            "401": {"pass": "routes/s-login"}}})
    );
    assert_eq!(whole["routes"]["s"][0]["action"]["intercept_errors"], true);
    assert_eq!(location("", "error_page 497 https://x/;", "").1.len(), 1);
}

#[test]
fn answers_lead_to_internal_locations() {
    let (whole, findings) = location(
        "",
        "location /files/ { internal; alias /srv/private/; }",
        "proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, []);
    let text = whole["routes"].to_string();
    assert!(
        text.contains(r#""internal":"routes/s-by-answer""#),
        "{text}"
    );
    assert_eq!(
        whole["routes"]["s-by-answer"],
        json!([{"action": {"pass": "routes/s-locations"}}])
    );
}

#[test]
fn requests_are_copied() {
    let (whole, findings) = location(
        "",
        "location = /copy { internal; proxy_pass http://127.0.0.1:9$request_uri; }",
        "mirror /copy; proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, []);
    let text = whole.to_string();
    assert!(
        text.contains(r#""mirror":{"to":"upstreams/127.0.0.1-9"}"#),
        "{text}"
    );
    let (_, findings) = location(
        "",
        "location = /copy { internal; proxy_pass http://127.0.0.1:9; }",
        "mirror /copy; proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, [(3, "mirror".to_owned())]);
}

#[test]
fn services_of_the_dns_stay_services() {
    let (whole, findings) = location(
        "upstream u { server app.internal service=http resolve weight=2; server b.internal resolve; }",
        "",
        "proxy_pass http://u;",
    );
    assert_eq!(findings, []);
    assert_eq!(
        whole["upstreams"]["u"]["servers"],
        json!({"app.internal": {"weight": 2, "service": "http"}, "b.internal:80": {}})
    );
}

/// The whole configuration, and the directives that are lost.
fn whole(text: &str) -> (Value, Vec<String>) {
    let imported = imported(text);
    let findings = lost(&imported).into_iter();
    let findings = findings.map(|(_, name)| name.to_owned()).collect();
    (imported.configuration, findings)
}

/// Asserts that the location, whose content would be a server, answers 403 and nothing else, and that the reason is reported.
fn assert_closed(http: &str, server: &str, inside: &str) {
    let inside = format!("{inside} proxy_pass http://127.0.0.1:1;");
    let (whole, findings) = location(http, server, &inside);
    assert!(!findings.is_empty(), "{inside}: {whole}");
    let text = whole.to_string();
    assert!(!text.contains("127.0.0.1:1\""), "{inside}: {text}");
    assert!(text.contains("\"return\":403"), "{inside}: {text}");
}

/// The condition was left out, and the variable had its value from before.
#[test]
fn a_variable_of_a_condition_that_is_lost_is_not_known() {
    let rules = "set $ok 1; if (!-x $request_filename) { set $ok 0; } if ($ok = 0) { return 403; }";
    assert_closed("", "", rules);
    let (whole, _) = location("", rules, "proxy_pass http://127.0.0.1:1;");
    let route = whole["routes"]["s"].to_string();
    assert_eq!(route, format!("[{{{SHUT}}}]"));
}

#[test]
fn a_directive_that_is_not_known_closes_its_place() {
    for unknown in [
        "no_such_check on;",
        "testcookie on;",
        "auth_unheard_of realm;",
        "modsecurity on;",
        "rewrite_by_lua_file /check.lua;",
        "content_by_lua_block { ngx.say('a') }",
        "proxy_pass_request_headers off;",
        "more_clear_input_headers X-User;",
        "auth_require $ok;",
        "secure_link_secret x;",
    ] {
        assert_closed("", "", unknown);
        assert_closed("", unknown, "");
        if !unknown.contains("block") {
            assert_closed(unknown, "", "");
        }
    }
    for known in [
        "no_such_switch off;",
        "modsecurity off;",
        "limit_rate 10k;",
        "proxy_cookie_path / /a;",
        "brotli on;",
        "vhost_traffic_status_zone;",
        "more_set_headers 'A: b';",
        "lua_package_path /x;",
        "geoip_country /x.dat;",
    ] {
        let (whole, _) = location(known, "", "proxy_pass http://127.0.0.1:1;");
        let text = whole.to_string();
        assert!(!text.contains("403"), "{known}: {text}");
    }
    // Outside of `http`, nothing refuses requests.
    let (whole, findings) = whole_of_main("no_such_thread_setting 7;");
    assert_eq!(findings, ["no_such_thread_setting"]);
    assert!(!whole.to_string().contains("403"), "{whole}");
}

fn whole_of_main(main: &str) -> (Value, Vec<String>) {
    whole(&format!(
        "{main} http {{ server {{ location / {{ proxy_pass http://127.0.0.1:1; }} }} }}"
    ))
}

#[test]
fn files_do_not_answer_in_place_of_a_program() {
    for handler in [
        "memcached_pass 127.0.0.1:11211;",
        "js_content a.b;",
        "perl a::handler;",
        "passenger_enabled on;",
        "ssi on;",
    ] {
        let (whole, findings) = location("", "", handler);
        assert_eq!(findings.len(), 1, "{handler}: {findings:?}");
        let text = whole["routes"].to_string();
        assert!(!text.contains("\"share\""), "{handler}: {text}");
        assert!(text.contains("\"return\":403"), "{handler}: {text}");
    }
}

#[test]
fn an_authentication_request_without_its_check_lets_no_client_in() {
    let (whole, _) = location(
        "",
        "location = /check { content_by_lua_file /check.lua; }",
        "auth_request /check; proxy_pass http://127.0.0.1:1;",
    );
    let question = whole["routes"]["s-question"].to_string();
    assert_eq!(question, format!("[{{{SHUT}}}]"));
}

#[test]
fn an_expression_that_cannot_be_compiled_takes_all_that_comes_after_it() {
    let text = "location = /exact { return 204; } location ^~ /first/ { return 204; } location ~ (?<n>a)(?&n)\\.secret$ { deny all; } location ~ b { return 204; } location / { proxy_pass http://127.0.0.1:1; }";
    let (whole, findings) = whole(&format!("server {{ server_name s; {text} }}"));
    assert_eq!(findings, ["location"]);
    let steps = whole["routes"]["s"].as_array().unwrap().clone();
    assert_eq!(
        steps[2].to_string(),
        format!(r#"{{"match":{{"uri":"*"}},{SHUT}}}"#)
    );
    assert_eq!(steps[0]["match"]["uri"], "/exact");
    assert_eq!(steps[1]["match"]["uri"], "/first/*");
    let inner = "location /a/ { location ~ (?&x) { deny all; } proxy_pass http://127.0.0.1:1; } location / { return 204; }";
    let (whole, _) = self::whole(&format!("server {{ server_name s; {inner} }}"));
    assert_eq!(
        whole["routes"]["s"][1].to_string(),
        format!(r#"{{"match":{{"uri":["*","!~^(?!/a/)"]}},{SHUT}}}"#)
    );
}

#[test]
fn a_way_that_cannot_be_carried_over_leads_nowhere() {
    for way in [
        "rewrite (?&x) /login last;",
        "rewrite ^/(?>a+)$ /login/$1 last;",
        "rewrite ^ /$no_such_variable last;",
        "rewrite ^ https://$no_such_variable/ permanent;",
        "if ($no_such_variable) { return 302 /login; }",
        "if ($no_such_variable = a) { rewrite ^ /login last; }",
        "if ($cookie_a ~ (?>a)) { return 404; }",
        "if ($cookie_a) { no_such_check on; }",
    ] {
        let (whole, findings) = location("", "", &format!("{way} proxy_pass http://127.0.0.1:1;"));
        assert!(!findings.is_empty(), "{way}");
        let text = whole["routes"].to_string();
        assert!(text.contains("\"return\":403"), "{way}: {text}");
    }
    // A look for a folder only says where a redirect goes.
    let (whole, _) = location(
        "",
        "",
        "if (!-d $request_filename) { rewrite ^/(.+)/$ /$1 permanent; } proxy_pass http://127.0.0.1:1;",
    );
    assert!(!whole.to_string().contains("403"), "{whole}");
}

#[test]
fn all_that_stands_in_an_if_acts_in_its_order() {
    let (whole, findings) = location(
        "",
        "",
        "if ($cookie_a) { rewrite ^/x /y last; return 403; } proxy_pass http://127.0.0.1:1;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole["routes"].to_string();
    assert!(
        text.contains(r#"{"action":{"return":403}}"#),
        "a path that the rule is not about is refused: {text}"
    );
    let both = "if ($uri ~ ^/a) { rewrite b$ /c last; } proxy_pass http://127.0.0.1:1;";
    let (whole, findings) = location("", "", both);
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole["routes"].to_string();
    assert!(
        text.contains("\"~^/a\"") && text.contains("\"~b$\""),
        "{text}"
    );
    // Directives behind an `if` are evaluated with the new path, too.
    let (whole, _) = self::whole(
        "server { server_name s; if ($cookie_a) { rewrite ^ /new; } if ($http_x) { return 403; } location / { return 204; } }",
    );
    let pass = whole["routes"]["s"][0]["action"]["pass"].as_str().unwrap();
    let after = pass.strip_prefix("routes/").unwrap();
    assert_eq!(
        whole["routes"][after][0]["action"],
        json!({"return": 403}),
        "{whole:#}"
    );
}

#[test]
fn a_declared_variable_never_means_a_field_of_the_client() {
    for declared in [
        "keyval $remote_addr $http_allowed zone=z;",
        "map $no_such_variable $http_allowed { default 0; a 1; }",
        "geo $http_allowed { proxy 10.0.0.1; default 0; 10.0.0.0/8 1; }",
        "map $uri $http_allowed { default 0; ~a(?!b 1; }",
    ] {
        assert_closed(declared, "", "if ($http_allowed = 0) { return 403; }");
        assert_closed(
            declared,
            "set $cookie_b $http_allowed;",
            "if ($cookie_b = 0) { return 403; }",
        );
    }
    let (whole, _) = location(
        "",
        "location = /check { internal; return 204; }",
        "auth_request /check; auth_request_set $http_role $upstream_http_x_role; uwsgi_param ROLE $http_role; uwsgi_pass 127.0.0.1:1;",
    );
    let text = whole["routes"].to_string();
    assert!(text.contains(r#""ROLE":null"#), "{text}");
}

const TLS: &str = "ssl_certificate /c.pem; ssl_certificate_key /k.pem;";

#[test]
fn what_was_encrypted_is_encrypted_or_not_there() {
    // Said around the server.
    let (whole, findings) = whole(&format!(
        "{TLS} ssl_protocols TLSv1.3; server {{ listen 443 ssl; return 204; }}"
    ));
    assert_eq!(findings, [""; 0]);
    assert_eq!(
        whole["listeners"]["*:443"]["tls"],
        json!({"certificate": {"file": "/c.pem", "key": "/k.pem"}, "conf_commands": {"MinProtocol": "TLSv1.3"}})
    );
    for server in [
        "listen 443 ssl; return 204;",
        "listen 443 quic; return 204;",
        "listen 80; ssl on; return 204;",
        "listen 443 ssl; ssl_certificate $ssl_server_name.pem; ssl_certificate_key $ssl_server_name.key; return 204;",
        "listen 443 ssl; ssl_reject_handshake on; return 204;",
        "listen internal.example:8080; return 204;",
    ] {
        let (whole, findings) = self::whole(&format!("server {{ {server} }}"));
        assert!(whole["listeners"].is_null(), "{server}: {whole}");
        assert!(!findings.is_empty(), "{server}");
    }
    let (whole, _) = self::whole(&format!("ssl on; {TLS} server {{ return 204; }}"));
    assert!(whole["listeners"]["*:80"]["tls"].is_object(), "{whole}");
}

#[test]
fn http3_is_spoken_where_it_was() {
    for listen in ["listen 443 ssl; listen 443 quic;", "listen 443 quic;"] {
        let (whole, findings) = whole(&format!(
            "server {{ {listen} {TLS} http3 on; return 204; }}"
        ));
        assert!(findings.iter().all(|name| name == "http3"), "{findings:?}");
        assert_eq!(whole["listeners"].as_object().unwrap().len(), 1);
        assert_eq!(whole["listeners"]["*:443"]["http3"], true, "{listen}");
        assert!(whole["listeners"]["*:443"]["tls"].is_object(), "{listen}");
    }
}

#[test]
fn ranges_gzip_bodies_and_counts_are_carried_over() {
    let (whole, findings) = whole(
        "gunzip on; gunzip_buffers 4 8k; max_ranges 5; server { server_name s;
            location /files/ { gunzip off; max_ranges 0; root /srv; }
            location /body { proxy_set_body \"a=$arg_a\"; proxy_pass http://127.0.0.1:1; }
            location /group { proxy_set_body ''; proxy_pass http://group; }
            location /own { proxy_set_body $request_body; proxy_pass http://127.0.0.1:1; }
            location = /counts { stub_status; allow 127.0.0.1; deny all; } }
         upstream group { server 127.0.0.1:2; }",
    );
    assert_eq!(findings, [""; 0]);
    let http = &whole["settings"]["http"];
    assert_eq!(
        (&http["gunzip"], &http["max_ranges"]),
        (&json!(true), &json!(5))
    );
    let steps = whole["routes"]["s"].as_array().unwrap();
    let action = |path: &str| {
        let mut all = steps.iter();
        let step = all.find(|step| step["match"]["uri"].to_string().contains(path));
        step.unwrap_or_else(|| panic!("{path}: {whole:#}"))["action"].clone()
    };
    assert_eq!(
        action("/files/")["http"],
        json!({"gunzip": false, "max_ranges": 0})
    );
    assert_eq!(action("/body")["request_body"], "a=$raw_arg_a");
    assert_eq!(action("/group")["request_body"], "");
    assert!(action("/own")["request_body"].is_null());
    let text = whole["routes"].to_string();
    assert!(text.contains(r#"{"pass":"metrics/stub_status"}"#), "{text}");
    // A body that depends on what is not known is not the client's without a report.
    let (_, findings) = self::whole(
        "server { location / { proxy_set_body $no_such_variable; proxy_pass http://127.0.0.1:1; } }",
    );
    assert_eq!(findings, ["proxy_set_body"]);
}

#[test]
fn certificates_of_clients_are_asked_for() {
    let asks = "ssl_verify_client on; ssl_client_certificate /ca.pem;";
    for (http, server) in [
        (asks, ""),
        ("", asks),
        ("ssl_verify_client on;", "ssl_client_certificate /ca.pem;"),
        ("", "ssl_verify_client on; ssl_trusted_certificate /ca.pem;"),
    ] {
        let (whole, findings) = whole(&format!(
            "{TLS} {http} server {{ listen 443 ssl; {server} return 204; }}"
        ));
        assert_eq!(findings, [""; 0], "{http} {server}");
        let tls = &whole["listeners"]["*:443"]["tls"];
        assert_eq!(tls["client_ca"], "/ca.pem", "{http} {server}");
        assert!(tls["client_verify"].is_null(), "{http} {server}");
        assert_eq!(tls["client_failure"], "page", "{http} {server}");
    }
    for asks in [
        "ssl_verify_client on;",
        "ssl_verify_client on; ssl_client_certificate /ca.pem; ssl_crl /crl.pem;",
        "ssl_verify_client optional; ssl_client_certificate /ca.pem; ssl_ocsp on;",
    ] {
        let (whole, findings) = self::whole(&format!(
            "{TLS} server {{ listen 443 ssl; {asks} return 204; }}"
        ));
        assert_eq!(findings.len(), 1, "{asks}: {findings:?}");
        assert_eq!(
            whole["listeners"]["*:443"]["pass"], "routes/refused",
            "{asks}"
        );
    }
}

#[test]
fn each_server_checks_the_certificates_that_it_asks_for() {
    let server = |name: &str, asks: &str| {
        format!("server {{ listen 443 ssl; server_name {name}; {asks} return 204; }}")
    };
    let asks = "ssl_verify_client on; ssl_client_certificate /ca.pem;";
    let other = "ssl_verify_client optional; ssl_client_certificate /other.pem;";
    let (whole, findings) = whole(&format!(
        "{TLS} {} {} {}",
        server("open", ""),
        server("closed", asks),
        server("other", other)
    ));
    assert_eq!(findings, ["ssl_verify_client"]);
    let tls = &whole["listeners"]["*:443"]["tls"];
    assert_eq!(tls["client_ca"], "/ca.pem");
    assert_eq!(tls["client_verify"], "optional");
    assert_eq!(tls["client_failure"], "page");
    let steps = &whole["routes"]["listen-443"];
    assert_eq!(steps[0]["action"]["pass"], "routes/open");
    assert_eq!(
        steps[1],
        json!({"match": {"host": "closed"}, "action": {"pass": "routes/with-certificate"}})
    );
    assert_eq!(
        steps[2],
        json!({"match": {"host": "other"}, "action": {"pass": "routes/refused"}})
    );
    assert_eq!(steps[3], json!({"action": {"pass": "routes/open"}}));
    assert_eq!(
        whole["routes"]["with-certificate"][0],
        json!({"match": {"if": "`${vars.tls_client_verify === 'SUCCESS' ? '' : 1}`"}, "action": {"return": 400}})
    );
    // The first one does not open the second one's door.
    let (whole, _) = self::whole(&format!(
        "{TLS} {} {}",
        server("a", &asks.replace(" on;", " optional;")),
        server("b", asks)
    ));
    let steps = &whole["routes"]["listen-443"];
    assert_eq!(
        steps[1]["action"]["pass"], "routes/with-certificate",
        "{whole:#}"
    );
}

#[test]
fn addresses_are_believed_from_those_that_the_source_believes() {
    let (whole, findings) = whole("server { listen 80 proxy_protocol; return 204; }");
    assert_eq!(findings, ["listen"]);
    assert!(whole["listeners"].is_null(), "{whole}");
    let (whole, findings) = self::whole(
        "set_real_ip_from 10.0.0.0/8; server { listen 80 proxy_protocol; set_real_ip_from 192.0.2.1; real_ip_header proxy_protocol; return 204; }",
    );
    assert_eq!(findings, [""; 0]);
    assert_eq!(
        whole["listeners"]["*:80"]["proxy_protocol"],
        json!({"source": ["192.0.2.1"]}),
        "a server's list is in place of the one around it"
    );
    let rules = "allow 10.0.0.0/8; deny all;";
    let believe = "set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For;";
    assert_closed("", "", &format!("{believe} {rules}"));
    assert_closed(
        "",
        "",
        &format!("{believe} if ($remote_addr = 10.0.0.1) {{ return 403; }}"),
    );
    assert_closed(
        "map $remote_addr $bad { default 0; 10.0.0.9 1; }",
        "",
        &format!("{believe} if ($bad) {{ return 403; }}"),
    );
    let (whole, findings) = location(
        "",
        believe,
        &format!("{rules} proxy_pass http://127.0.0.1:1;"),
    );
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(
        whole["listeners"]["*:80"]["forwarded"],
        json!({"source": ["10.0.0.1"], "client_ip": "X-Forwarded-For", "recursive": false})
    );
    // The second server of a listener trusts others.
    let (whole, findings) = self::whole(&format!(
        "server {{ server_name a; return 204; }} server {{ server_name b; {believe} {rules} }}"
    ));
    assert_eq!(findings, ["set_real_ip_from", "allow"]);
    assert_eq!(whole["routes"]["b"].to_string(), format!("[{{{SHUT}}}]"));
}

#[test]
fn variables_of_gateways_are_carried_over() {
    let (whole, findings) = location(
        "",
        "",
        "uwsgi_param REMOTE_USER $ssl_client_s_dn; uwsgi_param HTTP_X_USER $no_such_variable; uwsgi_param HTTP_X_ROLE ''; uwsgi_param QUERY_STRING $query_string; uwsgi_pass 127.0.0.1:1;",
    );
    assert_eq!(findings, [(3, "uwsgi_param".to_owned())]);
    assert_eq!(
        whole["routes"]["s"][0]["action"],
        json!({"proxy": "uwsgi://127.0.0.1:1", "uwsgi": {"params": {"REMOTE_USER": "$tls_client_subject", "HTTP_X_USER": null, "HTTP_X_ROLE": ""}},
               "internal": "routes/s-by-answer"})
    );
    // A program that is no script gets the variables of the source, and no others.
    for (pass, name) in [("fastcgi", json!("$uri")), ("scgi", Value::Null)] {
        let (whole, findings) = location(
            "",
            "",
            &format!(
                "{pass}_param REMOTE_USER $remote_user; {pass}_param SCRIPT_NAME $fastcgi_script_name; {pass}_pass 127.0.0.1:1;"
            ),
        );
        assert!(findings.is_empty(), "{findings:?}");
        let params = &whole["routes"]["s"][0]["action"][pass]["params"];
        assert_eq!(params["REMOTE_USER"], "$remote_user", "{params}");
        assert_eq!(params["SCRIPT_NAME"], name, "{params}");
        let removed = params.get("PATH_INFO");
        let is_removed = removed.is_some_and(Value::is_null);
        assert_eq!(is_removed, pass == "fastcgi", "{params}");
    }
}

#[test]
fn encryption_towards_servers_is_kept() {
    let (whole, findings) = location("", "", "uwsgi_pass suwsgi://127.0.0.1:1;");
    assert_eq!(findings, [(3, "uwsgi_pass".to_owned())]);
    assert_eq!(whole["routes"]["s"], json!([{"action": {"return": 503}}]));
    let (whole, findings) = location(
        "",
        "",
        "grpc_ssl_verify on; grpc_ssl_trusted_certificate /ca.pem; grpc_set_header X-User ''; grpc_pass grpcs://127.0.0.1:1;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let action = &whole["routes"]["s"][0]["action"];
    assert_eq!(
        action["proxy_options"]["tls"],
        json!({"verify": true, "ca": "/ca.pem"})
    );
    assert_eq!(action["request_headers"]["X-User"], Value::Null);
    assert!(
        action["request_headers"]
            .as_object()
            .unwrap()
            .contains_key("X-User")
    );
}

/// Issue 31: the texts of `return` were lost, and with them the type that nginx sends.
#[test]
fn a_return_has_its_text_and_its_type() {
    let action = |statement: &str| {
        let route = steps(&format!(
            "location = /a.html {{ {statement} }} location / {{ return 204; }}"
        ));
        route[0]["action"].clone()
    };
    assert_eq!(
        action("return 200 'all $uri';"),
        json!({"return": 200, "body": "all $uri", "content_type": "text/html"})
    );
    assert_eq!(
        action("types { } return 404 'none';"),
        json!({"return": 404, "body": "none", "content_type": "text/plain"})
    );
    assert_eq!(
        action("types { } add_header Content-Type text/x; return 403 '';"),
        json!({"return": 403, "body": "", "content_type": "text/plain", "response_headers": {"Content-Type": "text/x"}})
    );
    assert_eq!(action("return 204 'never sent';"), json!({"return": 204}));
    // The ending of the path decides, where the location does not say it.
    let route = steps("location / { return 200 x; }");
    let kind = &route[0]["action"]["response_headers_always"]["Content-Type"];
    assert!(kind.to_string().contains("image/jpeg"), "{route}");
}

/// Issue 31: `-d` and `-e` were wrong for folders, and a folder without an index got the fallback of `try_files`.
#[test]
fn files_and_folders_are_told_apart() {
    for (test, found, folder, fallback) in [
        ("-f", json!(1), Value::Null, json!(2)),
        ("!-f", json!(2), Value::Null, json!(1)),
        ("-d", json!(2), json!(1), json!(2)),
        ("-e", json!(1), json!(1), json!(2)),
        ("!-e", json!(2), json!(2), json!(1)),
    ] {
        let (whole, findings) = location(
            "",
            "",
            &format!("if ({test} $request_filename) {{ return 201; }} return 202;"),
        );
        assert_eq!(findings, []);
        let share = whole["routes"]["s"][0]["action"].clone();
        // The other action is a route.
        let number = |name: &str| match &share[name] {
            Value::Null => Value::Null,
            action if action["return"] == 201 => json!(1),
            _ => json!(2),
        };
        let numbers = (number("found"), number("folder"), number("fallback"));
        assert_eq!(numbers, (found, folder, fallback), "{test}: {whole}");
    }
    let script = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    let route = steps(&format!(
        r"location / {{ try_files $uri $uri/ /index.php?$args; }} location ~ \.php$ {{ {script} fastcgi_pass 127.0.0.1:9000; }}"
    ));
    assert_eq!(route[1]["action"]["folder"], json!({"return": 403}));
}

/// A path that no file has led to the file in its place again and again.
#[test]
fn files_in_place_of_others_refuse_other_methods() {
    let text =
        "server { server_name s; root /srv; location / { try_files $uri $uri/ /index.html; } }";
    let route = imported(text).configuration["routes"]["s-site"].clone();
    let of_others = json!(["!GET", "!HEAD"]);
    assert_eq!(route[0]["match"]["method"], of_others, "{route}");
    assert_eq!(
        route[0]["action"]["found"],
        json!({"return": 405}),
        "{route}"
    );
}

#[test]
fn times_of_expires_are_computed() {
    for time in ["@15h30m", "modified +24h", "modified -1h"] {
        let route = steps(&format!("location / {{ expires {time}; }}"));
        let field = &route[0]["action"]["response_headers"]["Cache-Control"];
        let script = field.as_str().unwrap_or_default();
        assert!(script.contains("max-age="), "{time}: {route}");
    }
}

/// Issue 31: `if` with settings alone was left out, and one with another server refused its requests.
#[test]
fn an_if_may_change_the_content() {
    let (whole, findings) = location(
        "",
        "",
        "if ($arg_a) { add_header X-A yes; } if ($arg_b) { proxy_pass http://127.0.0.1:2; } proxy_pass http://127.0.0.1:1;",
    );
    assert_eq!(findings, []);
    let text = whole["routes"].to_string();
    assert!(
        text.contains(r#""response_headers":{"X-A":"yes"}"#),
        "{text}"
    );
    assert!(
        text.contains("127.0.0.1:1") && text.contains("127.0.0.1:2"),
        "{text}"
    );
    // A hundred of them do not make 2^100 ways.
    let many = "if ($arg_a) { add_header X-A yes; }".repeat(100);
    let (_, findings) = location("", "", &many);
    assert!(!findings.is_empty());
}

/// Issue 31: `error_page 418 = @name` lost the method and the body.
#[test]
fn a_named_page_of_a_return_gets_the_request_itself() {
    let route = steps(
        "error_page 418 = @app; location / { return 418; } location @app { proxy_pass http://127.0.0.1:1; }",
    );
    assert_eq!(route[0]["action"], json!({"pass": "routes/s-app"}));
}

/// Issue 31: locations without a server became `{}`, and the import said that it was whole.
#[test]
fn a_file_without_a_server_is_not_nothing() {
    let imported = imported("location / { return 204; }");
    assert_eq!(lost(&imported), [(1, "location")]);
    assert_eq!(
        imported.configuration["listeners"]["*:80"]["pass"],
        "routes/site"
    );
    for text in ["", "user nobody;", "include conf.d/*.conf;"] {
        assert!(!self::imported(text).is_whole(), "{text}");
    }
}

#[test]
fn a_return_has_its_text_and_the_type_of_the_place() {
    let route = steps(
        r#"location = /health { return 200 "up $uri\n"; } location /p { default_type text/html; return 503 "<p>"; } location = /x.gif { return 404 x; } location / { return 204 x; }"#,
    );
    let actions: Vec<&Value> = route.as_array().unwrap().iter().collect();
    assert_eq!(
        actions[0]["action"],
        json!({"return": 200, "body": "up $uri\n", "content_type": "text/plain"})
    );
    assert_eq!(
        actions[1]["action"],
        json!({"return": 404, "body": "x", "content_type": "image/gif"})
    );
    assert_eq!(actions[2]["action"]["body"], "<p>");
    assert_eq!(actions[2]["action"]["content_type"], "text/html");
    assert_eq!(actions[3]["action"], json!({"return": 204}));
}

#[test]
fn a_source_without_a_server_is_not_whole() {
    for source in [
        "location / { return 204; }",
        "include /etc/nginx/no-such-folder/*.conf;",
        "upstream u { server 127.0.0.1:1; }",
    ] {
        let imported = imported(source);
        assert!(
            !imported.is_whole() || source.starts_with("include"),
            "{source}: {:?}",
            imported.findings
        );
        assert!(!imported.findings.is_empty(), "{source}");
    }
}

#[test]
fn a_status_that_leads_to_a_named_location_is_a_way() {
    let route = steps(
        "error_page 418 = @special; location / { if ($arg_x) { return 418; } return 204; } location @special { return 201; }",
    );
    let text = route.to_string();
    assert!(!text.contains("418"), "{text}");
}

#[test]
fn zones_with_equal_bounds_are_counted_apart() {
    let http = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_req_zone $binary_remote_addr zone=b:1m rate=1r/s;";
    let (whole, findings) = location(
        http,
        "location /b { limit_req zone=b; }",
        "limit_req zone=a;",
    );
    assert_eq!(findings, []);
    let names: Vec<&String> = whole["limits"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn settings_within_an_if_change_the_content() {
    let (whole, findings) = location(
        "",
        "",
        "add_header X-A a; if ($arg_x) { add_header X-B b; } if ($arg_y) { proxy_pass http://127.0.0.1:2; } proxy_pass http://127.0.0.1:1;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole["routes"].to_string();
    for part in [
        r#""X-B":"b""#,
        r#""X-A":"a""#,
        "http://127.0.0.1:1",
        "http://127.0.0.1:2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A check that is not known refuses those that the condition is about.
    let closed = location("", "", "if ($arg_x) { no_such_check on; } return 204;").0;
    assert!(closed["routes"].to_string().contains("403"), "{closed}");
}

#[test]
fn a_server_that_a_constant_or_a_map_names_is_known() {
    let (whole, findings) = location(
        "",
        "set $back 127.0.0.1:1;",
        "proxy_pass http://$back$request_uri;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    assert!(
        whole["routes"]
            .to_string()
            .contains("\"http://127.0.0.1:1\""),
        "{whole:#}"
    );
    let (whole, findings) = location(
        "map $arg_s $back { default 127.0.0.1:1; b 127.0.0.1:2; }",
        "",
        "proxy_pass http://$back;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole["routes"].to_string();
    for server in ["\"http://127.0.0.1:1\"", "\"http://127.0.0.1:2\""] {
        assert!(text.contains(server), "{text}");
    }
    // A client must not choose among all servers.
    let (whole, findings) = location("", "", "proxy_pass http://$arg_s;");
    assert_eq!(findings, [(3, "proxy_pass".to_owned())]);
    assert!(whole["routes"].to_string().contains("503"), "{whole:#}");
}

#[test]
fn an_address_that_is_not_known_makes_no_configuration_that_is_rejected() {
    for pass in [
        "fastcgi_pass $no_such_variable;",
        "fastcgi_pass group-elsewhere;",
        "uwsgi_pass $arg_server;",
    ] {
        let (whole, findings) = location("", "", pass);
        // The length is the server's own: nothing is lost.
        assert_eq!(findings.is_empty(), pass.contains("Length"), "{pass}");
        let faults = tutti_ctl::accepted(&whole.to_string()).err();
        assert_eq!(faults.map(|faults| faults.to_string()), None, "{pass}");
        assert!(whole["listeners"].is_object(), "{pass}: {whole:#}");
    }
}

/// The importer makes nothing of these that a server would reject, and so closes nothing for that reason.
#[test]
fn small_configurations_are_accepted() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/real/imports/cases"
    );
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for case in text.split("=== ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let source = rest.split("\n---\n").next().unwrap();
            let lines = source.lines().filter(|line| !line.starts_with("-- "));
            let source: String = lines.map(|line| format!("{line}\n")).collect();
            let source = source
                .replace("PORT1", "8081")
                .replace("PORT2", "8082")
                .replace("PORT", "8080")
                .replace("ROOT", "/srv");
            let imported = imported(&format!("http {{\n{source}\n}}"));
            let own = |one: &&tutti_import::Finding| one.directive == "import";
            assert_eq!(imported.findings.iter().find(own), None, "{name}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn pages_that_link_here_are_conditions() {
    let (whole, findings) = location(
        "",
        "",
        "valid_referers none server_names *.good.example news.example/a/; if ($invalid_referer) { return 403; }",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole["routes"].to_string();
    let condition = r#"{"referer":["none","server_names","*.good.example","news.example/a/*"]}"#;
    assert!(text.contains(condition), "{text}");
    // Without a list the condition says nothing, and is not carried over.
    let (whole, findings) = location("", "", "if ($invalid_referer) { return 403; }");
    assert!(!findings.is_empty());
    assert!(whole["routes"].to_string().contains("403"), "{whole:#}");
}

#[test]
fn signed_links_are_checked_or_refused() {
    let link =
        "secure_link $arg_md5,$arg_expires; secure_link_md5 \"$secure_link_expires$uri secret\";";
    let wrong = "if ($secure_link = \"\") { return 403; }";
    let expired = "if ($secure_link = \"0\") { return 410; }";
    let (whole, findings) = location("", "", &format!("{link} {wrong} {expired}"));
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(
        whole["routes"]["s"][0]["action"]["authenticate"]["signed_link"],
        json!({
            "method": "md5", "signature": "$raw_arg_md5", "expires": "$raw_arg_expires",
            "text": "$raw_arg_expires$uri secret", "status": 403, "expired_status": 410
        })
    );
    // An expired link, another use of the variable, no check at all: closed.
    for inside in [
        format!("{link} {wrong}"),
        format!("{link} {wrong} {expired} if ($secure_link = 1) {{ return 204; }}"),
        link.to_owned(),
    ] {
        let (whole, findings) =
            location("", "", &format!("{inside} proxy_pass http://127.0.0.1:1;"));
        assert!(!findings.is_empty(), "{inside}");
        assert!(!whole.to_string().contains("127.0.0.1:1"), "{inside}");
    }
}

#[test]
fn each_place_has_its_own_settings() {
    let (whole, findings) = whole(
        "http { include /etc/nginx/none/*; client_max_body_size 1m; gzip on; access_log /a.log; server { server_name s; root /srv; location /up { client_max_body_size 2m; gzip off; access_log off; } location / { } } }",
    );
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(whole["settings"]["http"]["max_body_size"], 1_048_576);
    let up = &whole["routes"]["s"][0]["action"];
    assert_eq!(
        up["http"],
        json!({"max_body_size": 2_097_152, "compression": false}),
        "{whole:#}"
    );
    assert_eq!(up["access_log"], false);
}

#[test]
fn maps_are_carried_over() {
    let (whole, findings) = location(
        "map $uri $to { default ''; /old /new; ~^/b/(?<slug>.+)$ /posts/$slug/$1; } map $host $site { hostnames; .a.example a; }
        geo $lan { default 0; 10.0.0.0/8 1; } geo $arg_ip $range { ranges; 10.0.0.1-10.0.0.9 r; } split_clients $request_id $half { 50% a; * b; }
        map $http_upgrade $unused { default upgrade; '' close; }",
        "",
        "if ($to) { return 301 $to; } if ($lan) { return 403; } return 200 '$site $range $half';",
    );
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(
        whole["maps"],
        json!({
            "to": {"key": "$uri", "default": "", "values": {"/old": "/new", "~^/b/(?<slug>.+)$": "/posts/$match_slug/$match_1"}},
            "site": {"key": "$host", "hosts": {".a.example": "a"}},
            "lan": {"default": "0", "addresses": {"10.0.0.0/8": "1"}},
            "range": {"key": "$raw_arg_ip", "addresses": {"10.0.0.1-10.0.0.9": "r"}},
            "half": {"key": "$request_id", "default": "b", "shares": [{"percent": 50.0, "value": "a"}]}
        })
    );
    let text = whole["routes"].to_string();
    assert!(text.contains(r#"{"if":"$map_lan"}"#), "{text}");
    assert!(text.contains("$map_site $map_range $map_half"), "{text}");
}

#[test]
fn answers_of_servers_are_changed_as_the_source_changes_them() {
    let action = |inside: &str| {
        let (whole, findings) = location(
            "upstream u { server a:1 max_fails=2 fail_timeout=5s; server b:1; server c:1; server d:1; sticky cookie route expires=1h secure; }",
            "",
            inside,
        );
        assert!(findings.is_empty(), "{inside}: {findings:?}");
        (whole["routes"]["s"][0]["action"].clone(), whole)
    };
    let (own, _) = action(
        "proxy_pass http://127.0.0.1:1/b/; proxy_cookie_path / '/; Secure; SameSite=lax'; proxy_cookie_domain a.example b.example; proxy_cookie_flags id httponly;",
    );
    assert_eq!(
        own["proxy_options"]["rewrite_response"],
        json!({
            "location": {"http://127.0.0.1:1/b/": "/"},
            "cookie_domain": {"a.example": "b.example"},
            "cookie_attributes": {"*": {"secure": true, "same_site": "lax"}, "id": {"http_only": true}}
        })
    );
    let (own, _) = action(
        "proxy_pass http://127.0.0.1:1; proxy_redirect off; proxy_next_upstream error http_503 non_idempotent; proxy_next_upstream_tries 2; proxy_next_upstream_timeout 3s;",
    );
    let options = &own["proxy_options"];
    assert_eq!(options["retry_failures"], json!(["error"]));
    assert_eq!(options["retry_statuses"], json!([503]));
    assert_eq!(options["retries"], 1);
    assert_eq!(options["retry_timeout"], 3.0);
    assert!(options.get("rewrite_response").is_none(), "{options}");
    let (_, whole) = action("proxy_pass http://u; proxy_set_header Host $host;");
    let group = &whole["upstreams"]["u"];
    assert_eq!(
        group["servers"]["a:1"],
        json!({"max_fails": 2, "fail_timeout": 5.0})
    );
    assert_eq!(group["retries"], 3);
    assert_eq!(
        group["sticky"],
        json!({"cookie": "route", "max_age": 3600.0, "secure": true})
    );
    // An expression that JavaScript has not.
    let (_, findings) = location(
        "",
        "",
        "proxy_pass http://127.0.0.1:1; proxy_redirect ~^/(?>a)(.*) /$1;",
    );
    assert_eq!(findings, [(3, "proxy_redirect".to_owned())]);
}

#[test]
fn texts_trailers_and_types_of_a_place_are_carried_over() {
    let (whole, findings) = location(
        "",
        "charset utf-8;",
        "sub_filter a b; sub_filter_once off; sub_filter_types text/css; add_trailer X-T $status; types { text/x-a a b; } default_type '';",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let action = &whole["routes"]["s-site"][0]["action"];
    let action = if action.is_null() {
        &whole["routes"]["s"][0]["action"]
    } else {
        action
    };
    assert_eq!(
        action["replace"],
        json!([{"find": "a", "with": "b", "ignore_case": true}]),
        "{whole:#}"
    );
    assert_eq!(action["replace_types"], json!(["text/html", "text/css"]));
    assert_eq!(action["trailers"], json!({"X-T": "$status"}));
    assert_eq!(action["mime_types"], json!({"text/x-a": [".a", ".b"]}));
    assert_eq!(action["default_type"], false);
}

#[test]
fn a_script_of_try_files_is_no_reason_to_leave_out_another() {
    let (whole, findings) = location(
        "",
        "location ~ \\.php$ { try_files $uri /index.php =404; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass 127.0.0.1:9; }",
        "",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let text = whole.to_string();
    assert!(text.contains(r#""rewrite":"/index.php"#), "{text}");
}

#[test]
fn a_cache_of_slices_has_their_size() {
    let (whole, findings) = location(
        "proxy_cache_path /c keys_zone=z:1m;",
        "",
        "slice 64k; proxy_cache z; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1h; proxy_pass http://127.0.0.1:1;",
    );
    assert!(findings.is_empty(), "{findings:?}");
    let action = &whole["routes"]["s"][0]["action"];
    assert_eq!(action["cache"]["slice"], 65536);
    assert_eq!(action["cache"]["key"], "$uri");
    assert!(action["request_headers"].get("Range").is_none(), "{action}");
}

/// Issue 31: a rule of the server that changed nothing led requests from outside to its internal locations.
#[test]
fn a_rule_that_changes_nothing_opens_no_internal_location() {
    for rule in [
        "if (!-e $request_filename) { rewrite ^/a /b last; }",
        "if ($arg_a) { break; }",
        "rewrite ^/a /b last;",
    ] {
        let imported = imported(&format!(
            "server {{ server_name s; root /srv; {rule} location /int/ {{ internal; return 204; }} location / {{ return 204; }} }}"
        ));
        let routes = &imported.configuration["routes"];
        let outside = routes["s-outside"].to_string();
        assert!(
            outside.contains(r#"{"match":{"uri":"/int/*"},"action":{"return":404}}"#),
            "{rule}: {routes:#}"
        );
        // Only a new path leads to the route with the internal one.
        let leads = |value: &Value| value.to_string().matches("routes/s-locations").count();
        let rewritten = routes.to_string().matches("\"rewrite\":\"/b\"").count();
        assert_eq!(leads(routes), rewritten, "{rule}: {routes:#}");
    }
}

/// The server refuses a field that both kinds of fields remove.
#[test]
fn a_tag_is_removed_once() {
    let (whole, findings) = location(
        "",
        "etag off;",
        "root /srv; add_header ETag ''; return 200 x;",
    );
    assert!(findings.is_empty(), "{findings:?} {whole:#}");
    let (whole, findings) = location("", "etag off;", "root /srv; add_header ETag '';");
    assert!(findings.is_empty(), "{findings:?} {whole:#}");
}

#[test]
fn a_location_of_its_own_is_not_redirected() {
    let (whole, _) = location(
        "",
        "location /app { return 301 /app/; } location /app/ { proxy_pass http://127.0.0.1:1; }",
        "",
    );
    let text = whole["routes"].to_string();
    assert!(!text.contains(r#"{"uri":"/app"}"#), "{text}");
}

/// nginx keeps the values that variables had before a `rewrite`; those of the new path would open what it refuses.
#[test]
fn a_condition_after_a_rewrite_does_not_see_the_new_path() {
    for condition in [
        "if ($deny) { set $x 1; } rewrite ^/secret/(.*)$ /public/$1; if ($deny) { return 403; }",
        "set $d $deny; rewrite ^/secret/(.*)$ /public/$1; if ($d) { return 403; }",
        "set $o $uri; rewrite ^/secret/(.*)$ /public/$1; if ($o ~ ^/secret) { return 403; }",
    ] {
        let imported = imported(&format!(
            "http {{ map $uri $deny {{ default 0; ~^/secret 1; }} server {{ listen 80; root /srv; {condition} }} }}"
        ));
        let lost = imported
            .findings
            .iter()
            .any(|finding| finding.importance == Importance::Lost && finding.directive == "if");
        assert!(lost, "{condition}");
        let text = imported.configuration.to_string();
        assert!(text.contains(r#""action":{"return":403}"#), "{text}");
    }
}

#[test]
fn a_location_in_another_is_found_where_nginx_looks_for_it() {
    // Each level has its longest prefix; the locations of the others are not looked at.
    let text = "location / { return 201; location /a/b/ { return 202; } location = /a/c { return 203; } location ~ x { return 204; } }
        location /a/ { return 205; }";
    assert_eq!(
        uris(text),
        [
            json!(["~x", "!~^(?!/)", "!/a/*"]),
            json!("/a/*"),
            Value::Null
        ]
    );
}

#[test]
fn an_inner_location_ends_the_search_on_its_own_level() {
    let text = "location / { return 201; location ^~ /a/ { return 202; } location ~ y { return 203; } } location ~ x { return 204; }";
    assert_eq!(
        uris(text),
        [
            json!(["~y", "!~^(?!/)", "!/a/*"]),
            json!("~x"),
            json!("/a/*"),
            Value::Null
        ]
    );
}

#[test]
fn a_location_in_an_internal_one_is_internal() {
    let steps = steps("location /a/ { internal; root /srv/a; location /a/b/ { return 200 x; } }");
    let refused = steps.as_array().unwrap().iter();
    let refused = refused.filter(|step| step["action"]["return"] == 404);
    let uris: Vec<&Value> = refused.map(|step| &step["match"]["uri"]).collect();
    assert_eq!(uris, [&json!("/a/b/*"), &json!("/a/*")]);
}

#[test]
fn rewriting_does_not_lead_past_limit_except() {
    let imported = imported(
        "server { server_name s; root /srv; location /api { limit_except GET { deny all; } rewrite ^ /inside last; } location /inside { internal; return 200 x; } }",
    );
    let routes = &imported.configuration["routes"];
    let first_of = |action: &Value| {
        let destination = action["pass"].as_str().unwrap();
        routes[destination.strip_prefix("routes/").unwrap()][0].clone()
    };
    let mut ways = routes["s"].as_array().unwrap().iter();
    let api = ways.find(|step| step["match"]["uri"] == "/api*").unwrap();
    let first = first_of(&api["action"]);
    assert_eq!(first["match"]["method"], json!(["!GET", "!HEAD"]));
    assert_eq!(
        first_of(&first["action"])["action"]["return"],
        403,
        "{routes:#}"
    );
}

#[test]
fn a_location_in_an_expression_comes_before_its_rewriting() {
    let imported = imported(
        "server { server_name s; root /srv; location ~ ^/a { rewrite ^ /open break; location ~ secret { deny all; } } }",
    );
    let routes = imported.configuration["routes"].to_string();
    let (refusal, rewrite) = (routes.find("~secret"), routes.find("/open"));
    assert!(refusal.is_some() && refusal < rewrite, "{routes}");
}

/// A configuration with a map of the path, a variable of the server, and these locations.
fn with_kept(locations: &str) -> Imported {
    imported(&format!(
        "map $uri $closed {{ default 0; ~^/a 1; }} server {{ server_name s; root /srv; set $own 0;\n{locations}\n}}"
    ))
}

#[test]
fn a_value_from_another_location_opens_nothing() {
    for locations in [
        // nginx evaluates the map in the first location, for the path there.
        "location /a { set $x $closed; rewrite ^ /b last; } location /b {\nif ($closed) { return 403; } }",
        "location /a { if ($closed = 2) { return 403; } try_files $uri /b; } location /b {\nif ($closed) { return 403; } }",
        "location /a { set $own 1; rewrite ^ /b last; } location /b {\nif ($own) { return 403; } }",
        "location /a { set $own 1; error_page 404 /b; } location /b { set $x $own;\nif ($x) { return 403; } }",
    ] {
        let imported = with_kept(locations);
        let lost = lost(&imported);
        assert!(lost.contains(&(3, "if")), "{locations}: {lost:?}");
        let routes = imported.configuration["routes"].as_object().unwrap();
        let b = routes.iter().find(|(name, _)| name.starts_with("s-b"));
        let b = b.map_or_else(
            || imported.configuration["routes"].to_string(),
            |(_, steps)| steps.to_string(),
        );
        assert!(b.contains(SHUT), "{b}");
    }
}

#[test]
fn a_value_of_the_same_place_is_carried_over() {
    for locations in [
        "location /a { if ($closed) { return 403; } rewrite ^ /b last; } location /b { if ($closed) { return 403; } }",
        "location /a { set $own 1; rewrite ^ /b last; } location /b { set $own 2; if ($own = 2) { return 403; } }",
        "location /a { proxy_pass http://127.0.0.1:1; add_header X $closed; } location /b { if ($closed) { return 403; } return 200 b; }",
        "location /a { set $own 1; return 200 $own; } location /b { if ($own) { return 403; } return 200 b; }",
    ] {
        assert_eq!(lost(&with_kept(locations)), [], "{locations}");
    }
}

#[test]
fn an_internal_redirect_meets_the_rules_of_the_server_again() {
    let imported = imported(
        "server { server_name s; root /srv; if ($uri ~ ^/secret) { return 403; } location / { try_files $uri /secret/x; } }",
    );
    let routes = &imported.configuration["routes"];
    assert_eq!(routes["s"][0]["action"]["return"], 403);
    let text = routes.to_string();
    assert!(
        text.contains(r#""rewrite":"/secret/x?","pass":"routes/s""#),
        "{text}"
    );
}

#[test]
fn a_condition_on_the_user_refuses_everyone() {
    // nginx knows the name before the password is checked.
    let map = "map $remote_user $unwanted { default 0; guest 1; }";
    for condition in ["$remote_user = guest", "$unwanted"] {
        let imported = imported(&format!(
            "{map} server {{ server_name s; root /srv; auth_basic Staff; auth_basic_user_file htpasswd;\nif ({condition}) {{ return 403; }} }}"
        ));
        assert_eq!(lost(&imported), [(2, "if")], "{condition}");
        let first = imported.configuration["routes"]["s"][0].to_string();
        assert_eq!(first, format!("{{{SHUT}}}"));
    }
}

#[test]
fn what_is_counted_or_stored_by_user_is_reported() {
    let imported = imported(
        "limit_req_zone $remote_user zone=u:1m rate=1r/s; proxy_cache_path /c keys_zone=c:1m;
        server { server_name s; auth_basic Staff; auth_basic_user_file htpasswd; limit_req zone=u;
        location / { proxy_cache c; proxy_cache_key $host$uri$remote_user; proxy_pass http://127.0.0.1:1; } }",
    );
    let configuration = imported.configuration.to_string();
    assert_eq!(
        lost(&imported),
        [(2, "limit_req"), (3, "cache")],
        "{configuration}"
    );
    assert!(!configuration.contains("remote_user"), "{configuration}");
}

/// The user is not known before the password is checked: all users would share a stored response.
#[test]
fn what_is_counted_or_stored_by_a_map_of_users_is_reported() {
    let imported = imported(
        "map $remote_user $who { default $remote_user; } map $who $limited { default 1; }
        limit_req_zone $limited zone=u:1m rate=1r/s; proxy_cache_path /c keys_zone=c:1m;
        server { server_name s; auth_basic Staff; auth_basic_user_file htpasswd; limit_req zone=u;
        location / { proxy_cache c; proxy_cache_key $host$uri$who; proxy_pass http://127.0.0.1:1; } }",
    );
    let configuration = imported.configuration.to_string();
    assert_eq!(
        lost(&imported),
        [(3, "limit_req"), (4, "cache")],
        "{configuration}"
    );
}

/// No other server answers for a name whose expression is not known.
#[test]
fn requests_for_a_name_that_cannot_be_compiled_are_refused() {
    let open = "server { listen 80 default_server; server_name a.example; return 204; }";
    let imported = imported(&format!(
        "{open} server {{ listen 80; server_name ~^(?<x>a)(?!b)(; return 206; }} server {{ listen 80; server_name ~^c; return 205; }}"
    ));
    assert_eq!(lost(&imported), [(1, "server_name"), (1, "server_name")]);
    let steps = imported.configuration["routes"]["listen-80"].clone();
    assert_eq!(steps[0]["match"]["host"], "a.example", "{steps}");
    assert_eq!(steps[1], json!({"action": {"pass": "routes/refused"}}));
    // A server alone answers for all names anyway.
    let alone = self::imported("server { listen 80; server_name ~(; return 204; }");
    assert_eq!(lost(&alone), [(1, "server_name")]);
    assert!(!alone.configuration.to_string().contains("refused"));
}

/// Tutti's sockets of IPv6 take no connections over IPv4.
#[test]
fn an_address_for_both_versions_of_ip_has_two_listeners() {
    let addresses = |text: &str| {
        let imported = imported(text);
        assert_eq!(lost(&imported), [], "{text}");
        let listeners = imported.configuration["listeners"]
            .as_object()
            .unwrap()
            .clone();
        let all: Vec<(String, Value)> = listeners.into_iter().collect();
        all
    };
    let servers = "server { listen [::]:80 ipv6only=off; server_name a; return 204; } server { listen [::]:80; server_name b; return 205; }";
    let both = addresses(servers);
    assert_eq!(
        (both[0].0.as_str(), both[1].0.as_str()),
        ("[::]:80", "*:80")
    );
    assert_eq!(both[0].1, both[1].1);
    let one = addresses("server { listen [::]:80; return 204; }");
    assert_eq!(one.len(), 1);
}

/// Passwords are in it.
#[test]
fn the_file_of_the_result_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("tutti-import-mode-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, result) = (folder.join("nginx.conf"), folder.join("result.json"));
    std::fs::write(&source, "server { listen 80; return 204; }").unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_tutti-import"))
        .arg("nginx")
        .arg(&source)
        .arg("--output")
        .arg(&result)
        .status();
    let mode = std::fs::metadata(&result).map(|result| result.permissions().mode());
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(run.unwrap().success());
    assert_eq!(mode.unwrap() & 0o777, 0o600);
}

/// `\D` is not `\d`.
#[test]
fn an_expression_of_a_server_name_keeps_its_case() {
    let imported = imported(
        r"server { listen 80 default_server; return 204; }
        server { listen 80; server_name ~^\D+\.Int\.example$ B.example; return 403; }",
    );
    let text = imported.configuration.to_string();
    assert!(
        text.contains(r#""~^\\D+\\.Int\\.example$""#) && text.contains(r#""b.example""#),
        "{text}"
    );
}

#[test]
fn versions_of_http_are_carried_over() {
    let text =
        "server { listen 443 ssl; http2 off; ssl_certificate /c.pem; ssl_certificate_key /k.pem;
        location / { proxy_http_version 2; proxy_pass http://127.0.0.1:1; } }";
    let imported = imported(text);
    assert_eq!(lost(&imported), [], "{:?}", imported.findings);
    let configuration = &imported.configuration;
    assert_eq!(configuration["listeners"]["*:443"]["http2"], false);
    let text = configuration.to_string();
    assert!(text.contains(r#""http_version":2"#), "{text}");
}

/// Where the index of a folder leads: to itself, or to the locations again.
fn leads_index_elsewhere(text: &str) -> bool {
    let imported = imported(&format!("server {{ server_name s; root /srv;\n{text}\n}}"));
    assert_eq!(lost(&imported), [], "{text}");
    let text = imported.configuration["routes"].to_string();
    text.contains("${uri}index.html") || text.contains("$uriindex.html")
}

#[test]
fn an_index_file_is_looked_for_in_all_locations() {
    for (text, expected) in [
        ("location / { }", false),
        (
            "location / { } location ~* \\.(css|js)$ { expires 1d; }",
            false,
        ),
        ("location / { } location ~ /\\. { return 403; }", false),
        ("location / { try_files $uri $uri/ =404; }", false),
        (
            "if ($host = old) { return 301 http://new$request_uri; }",
            false,
        ),
        (
            "location / { } location = /a/index.html { deny all; }",
            true,
        ),
        ("location = / { } location / { deny all; }", true),
        ("location / { } location ~ \\.html$ { deny all; }", true),
        ("location / { } location ~ ^/a/.*l$ { deny all; }", true),
        (
            "location / { if (!-d $request_filename) { return 403; } }",
            true,
        ),
        ("location / { rewrite ^/index /a last; }", true),
        ("rewrite ^/index /a last; location / { }", true),
        ("location / { try_files /a $uri/ =404; }", true),
    ] {
        assert_eq!(leads_index_elsewhere(text), expected, "{text}");
    }
}

#[test]
fn rules_of_the_server_apply_to_authentication_requests() {
    let server = |rules: &str| {
        let imported = imported(&format!(
            "server {{ server_name s; root /srv; {rules} location = /auth {{ internal; return 200; }}
             location = /no {{ internal; return 403; }} location / {{ auth_request /auth; }} }}"
        ));
        assert_eq!(lost(&imported), [], "{rules}");
        let routes = &imported.configuration["routes"];
        let forward = routes
            .to_string()
            .split(r#""forward":{"pass":"routes/"#)
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .map(str::to_owned)
            .unwrap();
        routes[&forward].to_string()
    };
    let question = server("rewrite ^/auth$ /no last;");
    assert!(question.contains(r#""rewrite":"/no""#), "{question}");
    let question = server("if ($uri = /auth) { return 403; }");
    assert!(question.contains("403"), "{question}");
    // Rules that do not look at the path have let the client's request in.
    let question = server("if ($host = other) { return 403; }");
    assert!(!question.contains("403"), "{question}");
}

#[test]
fn an_alias_may_continue_the_name_of_its_folder() {
    let share = |text: &str| {
        steps(text)[0]["action"]["share"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let path = share("location /a/ { alias /x/b; try_files $uri =404; }");
    assert!(
        path.contains("/x/b${(") && path.contains(".slice('/a/'.length)"),
        "{path}"
    );
    assert_eq!(
        share("location /a/ { alias /x/b/; try_files $uri =404; }"),
        "/x/b$uri"
    );
}

#[test]
fn pages_by_path_are_requested_with_get() {
    let inside = "location / { error_page 404 = /handler; } location = /handler { proxy_pass http://127.0.0.1:1; }";
    let steps = steps(inside);
    let action = steps.as_array().unwrap().last().unwrap()["action"].clone();
    assert_eq!(
        action["error_pages"]["404"],
        json!({"rewrite": "/handler?", "pass": "routes/s", "response_status": "own"})
    );
    // A fallback would get the request with its method.
    let whole = imported(&format!("server {{ server_name s; root /srv; {inside} }}"));
    let routes = whole.configuration["routes"].to_string();
    assert!(!routes.contains("\"fallback\""), "{routes}");
}

#[test]
fn files_before_the_end_of_a_list_are_not_passed_over() {
    let steps = steps("location / { try_files $uri /maintenance.html =404; }");
    let second = &steps[0]["action"]["fallback"];
    let share = json!({"share": "/srv/maintenance.html", "index": ""});
    assert_eq!(second["found"], share, "{steps}");
    assert_eq!(second["fallback"], json!({"return": 404}));
}

#[test]
fn a_page_knows_the_status_of_its_error() {
    let inside = "error_page 403 404 @e; error_page 502 =200 @e; error_page 500 = @e; location @e { return 200 $status; } location / { return 410; }";
    let whole = imported(&format!("server {{ server_name s; {inside} }}")).configuration;
    let body = whole["routes"]["s-e"][0]["action"]["body"].clone();
    assert_eq!(
        body,
        "`${({403: '403', 404: '404', 500: '', 502: '200'})[(vars.error_status ?? '')] || '200'}`"
    );
    // One of two places means another status.
    let inside = format!("{inside} location /x {{ error_page 404 =200 @e; }}");
    let whole = imported(&format!("server {{ server_name s; {inside} }}"));
    assert!(
        lost(&whole).iter().any(|one| one.1 == "return"),
        "{:?}",
        whole.findings
    );
}

#[test]
fn the_name_of_a_cookie_may_have_any_case() {
    let steps = steps("location / { return 200 $cookie_a; }");
    assert_eq!(
        steps[0]["action"]["body"],
        "`${(/(?:^|[;,]) *a *= *([^;]*)/i.exec((vars.header_cookie ?? '')) ?? [])[1] ?? ''}`"
    );
}

#[test]
fn values_in_the_query_of_a_path_are_not_encoded_twice() {
    let whole = imported("server { location / { try_files $uri /i.php?a=$arg_a; } }").configuration;
    assert!(whole.to_string().contains("/i.php?a=$arg_a"), "{whole}");
    let whole =
        imported("server { server_name s; location / { try_files $uri /i.php?q=$request_uri; } }");
    assert!(
        lost(&whole).iter().any(|one| one.1 == "try_files"),
        "{:?}",
        whole.findings
    );
}

#[test]
fn responses_that_nginx_does_not_send_are_noted() {
    let whole = imported(
        "server { server_name s; location / { return 408; } location /a { return 499; } location /b { return 408 late; } }",
    );
    let notes = whole.findings.iter();
    let notes = notes.filter(|one| one.importance == Importance::Note && one.directive == "return");
    assert_eq!(notes.count(), 2, "{:?}", whole.findings);
}
