//! Internal redirects, error pages, maintenance, mirrored requests, early hints, compressed files beside files, directory lists.

mod support;

use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use support::Site;
use support::backend::Backend;
use tutti_testkit::client::Reply;
use tutti_testkit::wait_until;

/// A server whose response to a path is `answers` of the path.
fn answering(answers: fn(&str, &str) -> String) -> Backend {
    Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let mut words = asked.line().split(' ');
            let method = words.next().unwrap_or_default();
            let answer = answers(method, words.next().unwrap_or_default());
            peer.send(answer);
        }
    })
}

fn answer(status: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}\r\n{body}")
}

/// A site whose routes are `routes`, an object, with `BACKEND` and `FOLDER` in it replaced.
fn site(backend: &Backend, listener: &str, routes: &str) -> Site {
    site_on(2, backend, listener, routes)
}

/// The same with so many listen threads.
fn site_on(threads: u32, backend: &Backend, listener: &str, routes: &str) -> Site {
    Site::new(threads, |folder| {
        let routes = routes
            .replace("BACKEND", &backend.address.to_string())
            .replace("FOLDER", folder);
        let listener = listener
            .replace("BACKEND", &backend.address.to_string())
            .replace("FOLDER", folder);
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes/main"{listener}}}}}, "routes": {routes},
                 "access_log": {{"path": "{folder}/access.log", "format": "$method $request_uri $status $error_status"}}}}"#
        )
    })
}

const INTERNAL: &str = r#"{
    "main": [{"action": {"proxy": "http://BACKEND", "internal": {"/protected/": "routes/files", "/again/": "routes/again", "FOLDER/": "routes/plain"},
              "response_headers_always": {"X-Rule": "main"}}}],
    "files": [{"action": {"share": "FOLDER/private$uri", "prefix": "/protected"}}],
    "plain": [{"action": {"share": "$uri", "chroot": "FOLDER/private/"}}],
    "again": [{"action": {"proxy": "http://BACKEND"}}]
}"#;

fn leading(method: &str, path: &str) -> String {
    let to = |target: &str, fields: &str| {
        answer(
            "200 OK",
            &format!("X-Accel-Redirect: {target}\r\n{fields}"),
            "hidden",
        )
    };
    match path {
        "/file" => to(
            "/protected/a%20b.txt",
            "Content-Type: application/x-report\r\nContent-Disposition: attachment\r\n\
             Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nCache-Control: private\r\nExpires: 0\r\n\
             ETag: \"of the application\"\r\nX-Secret: 1\r\n",
        ),
        "/missing" => to("/protected/none.txt", "Content-Type: text/plain\r\n"),
        "/climb" => to("/protected/../secret.txt", ""),
        "/climb-encoded" => to("/protected/%2e%2e/secret.txt", ""),
        "/elsewhere" => to("/other/a.txt", ""),
        "/loop" | "/again/loop" => to("/again/loop", ""),
        "/again/method" => answer("200 OK", "", method),
        "/method" => to("/again/method", ""),
        _ => answer("200 OK", "", "plain"),
    }
}

#[test]
fn an_internal_redirect_serves_a_file_and_keeps_the_fields_that_nginx_keeps() {
    let backend = answering(leading);
    let site = site(&backend, "", INTERNAL);
    site.write("private/a b.txt", "0123456789");
    site.age("private/a b.txt");
    let mut client = site.connect();
    // On one connection, with a body that is read and dropped.
    for _ in 0..2 {
        client.send("POST /file HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        let reply = client.response("POST");
        assert_eq!((reply.status, reply.text().as_str()), (200, "0123456789"));
        for (name, value) in [
            ("Content-Type", "application/x-report"),
            ("Content-Disposition", "attachment"),
            ("Cache-Control", "private"),
            ("Expires", "0"),
            ("ETag", "\"2ebc98a1-a\""),
            ("X-Rule", "main"),
        ] {
            assert_eq!(reply.field(name), Some(value), "{name}: {}", reply.head);
        }
        assert!(
            reply
                .head
                .contains("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n")
        );
        for name in ["X-Secret", "X-Accel-Redirect"] {
            assert_eq!(reply.field(name), None, "{name}");
        }
    }
    let part = site.request("GET", "/file", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "234"));
    let same = site.request("GET", "/file", "If-None-Match: \"2ebc98a1-a\"\r\n");
    assert_eq!((same.status, same.text().as_str()), (304, ""));
    let head = site.request("HEAD", "/file", "");
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some("10"))
    );
    // A GET is served in place of a POST.
    assert_eq!(site.request("POST", "/method", "").text(), "GET");
    let log = std::fs::read_to_string(site.path().join("access.log")).unwrap_or_default();
    assert!(log.is_empty() || log.contains("POST /file 200"), "{log}");
}

/// The guards of the second action were asked about the same request: it competed with itself, and had the CORS fields of both.
#[test]
fn guards_count_a_request_once_when_another_is_answered_in_its_place() {
    let backend = answering(leading);
    let cors = |exposed: &str| {
        format!(r#""cors": {{"origins": ["https://a.example"], "expose": ["{exposed}"]}}"#)
    };
    let routes = format!(
        r#"{{
            "main": [
                {{"match": {{"uri": "/pass"}}, "action": {{"pass": "routes/inner", "limit": "all"}}}},
                {{"match": {{"uri": "/page"}}, "action": {{"return": 410, "limit": "all",
                    "error_pages": {{"410": {{"return": 200, "limit": "all"}}}}}}}},
                {{"action": {{"proxy": "http://BACKEND", "internal": "routes/files", "limit": "all", {}}}}}
            ],
            "inner": [{{"action": {{"return": 200, "limit": "all"}}}}],
            "files": [{{"action": {{"share": "FOLDER/private$uri", "prefix": "/protected", "limit": "all", {}}}}}]
        }}, "limits": {{"all": {{"concurrent": 1, "rate": "1r/d", "burst": 2, "announce": true}}}}"#,
        cors("X-Outer"),
        cors("X-Inner")
    );
    for (path, status) in [("/file", 200), ("/pass", 200), ("/page", 200)] {
        // One thread: a request ends there before the next one, which may come as soon as the client has the response.
        let site = site_on(1, &backend, "", &routes);
        site.write("private/a b.txt", "0123456789");
        // Three may come at once.
        for remaining in [2, 1, 0] {
            let reply = site.request("GET", path, "Origin: https://a.example\r\n");
            assert_eq!(reply.status, status, "{path}");
            let fields = |name: &str| {
                let lines = reply.head.lines();
                let values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                values.map(str::to_owned).collect::<Vec<_>>()
            };
            let left = format!("\"all\";r={remaining};t=");
            let quotas = fields("RateLimit");
            assert!(
                quotas.len() == 1 && quotas[0].starts_with(&left),
                "{path}: {quotas:?}"
            );
            if path == "/file" {
                assert_eq!(fields("Access-Control-Allow-Origin"), ["https://a.example"]);
                assert_eq!(fields("Access-Control-Expose-Headers"), ["X-Inner"]);
                assert_eq!(fields("Vary"), ["Origin"]);
            }
        }
        assert_eq!(site.request("GET", path, "").status, 429, "{path}");
    }
}

#[test]
fn clients_and_bad_paths_do_not_get_where_answers_lead() {
    let backend = answering(leading);
    let site = site(&backend, "", INTERNAL);
    site.write("private/a.txt", "private");
    site.write("secret.txt", "secret");
    // A client cannot reach the internal route by its path: the request goes to the backend.
    assert_eq!(site.get("/protected/a.txt").text(), "plain");
    for path in ["/climb", "/climb-encoded", "/elsewhere"] {
        let reply = site.get(path);
        assert_eq!(reply.status, 502, "{path}");
        assert!(!reply.text().contains("secret"));
    }
    let missing = site.get("/missing");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.field("Content-Type"), Some("text/html"));
    let circle = site.get("/loop");
    assert_eq!(circle.status, 500);
    wait_until("the loop is logged", || site.log.has("form a loop"));
    assert!(site.log.has("it climbs"));
}

#[test]
fn a_plain_path_is_bounded_by_its_route() {
    let folder = tempfile::tempdir().unwrap();
    let named = Arc::new(Mutex::new(String::new()));
    let name = Arc::clone(&named);
    let backend = Backend::new(move |peer| {
        while peer.request().is_some() {
            let field = format!("X-Sendfile: {}\r\n", name.lock().unwrap());
            peer.send(answer("200 OK", &field, ""));
        }
    });
    drop(folder);
    let site = site(&backend, "", INTERNAL);
    site.write("private/a b%20.txt", "private");
    site.write("secret.txt", "secret");
    let base = site.path().to_str().unwrap().to_owned();
    for (path, status) in [
        (format!("{base}/private/a b%20.txt"), 200),
        (format!("{base}/secret.txt"), 403),
        (format!("{base}/private/../secret.txt"), 502),
        ("/etc/passwd".to_owned(), 502),
    ] {
        named.lock().unwrap().clone_from(&path);
        let reply = site.get("/");
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.text() == "private", status == 200, "{path}");
    }
}

#[test]
fn a_computed_pass_of_a_client_does_not_lead_to_an_internal_route() {
    let backend = answering(leading);
    let routes = r#"{
        "main": [{"match": {"uri": "/route/*"}, "action": {"pass": "routes/$arg_to"}},
                 {"action": {"proxy": "http://BACKEND", "internal": "routes/files"}}],
        "files": [{"action": {"return": 200}}],
        "open": [{"action": {"return": 204}}]
    }"#;
    let site = site(&backend, "", routes);
    assert_eq!(site.get("/route/?to=open").status, 204);
    assert_eq!(site.get("/route/?to=files").status, 404);
    assert_eq!(site.get("/file").status, 200);
}

/// The file that it served was kept with its former type.
#[test]
fn a_request_from_before_a_change_of_types_does_not_keep_a_file() {
    let (release, released) = std::sync::mpsc::channel();
    let released = Mutex::new(released);
    let backend = Backend::new(move |peer| {
        while peer.request().is_some() {
            released.lock().unwrap().recv().unwrap();
            peer.send(answer("200 OK", "X-Accel-Redirect: /protected/a\r\n", ""));
        }
    });
    let config = |folder: &str, mime: &str| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes/main"}}}},
                 "settings": {{"http": {{"static": {{"mime_types": {{"{mime}": [".own"]}}}}}}}},
                 "routes": {{
                   "main": [{{"match": {{"uri": "/held"}}, "action":
                               {{"proxy": "http://{}", "internal": {{"/protected/": "routes/files"}}}}}},
                            {{"action": {{"share": "{folder}$uri"}}}}],
                   "files": [{{"action": {{"share": "{folder}/a.own"}}}}]}}}}"#,
            backend.address
        )
    };
    let site = Site::new(1, |folder| config(folder, "text/x-former"));
    for name in ["a.own", "b.own"] {
        site.write(name, vec![b'x'; 40_000]);
    }
    let mime = |reply: &Reply| reply.field("Content-Type").map(str::to_owned);
    let mut held = site.connect();
    held.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is held", || backend.requests().len() == 1);
    site.configure(&config(site.path().to_str().unwrap(), "text/x-new"))
        .unwrap();
    assert_eq!(mime(&site.get("/b.own")).as_deref(), Some("text/x-new"));
    release.send(()).unwrap();
    let reply = held.response("GET");
    assert_eq!((reply.status, reply.body.len()), (200, 40_000));
    assert_eq!(mime(&site.get("/a.own")).as_deref(), Some("text/x-new"));
}

#[test]
fn without_leave_the_field_is_one_as_any() {
    let backend = answering(leading);
    let site = site(
        &backend,
        "",
        r#"{"main": [{"action": {"proxy": "http://BACKEND"}}]}"#,
    );
    let reply = site.get("/file");
    assert_eq!(reply.text(), "hidden");
    assert_eq!(
        reply.field("X-Accel-Redirect"),
        Some("/protected/a%20b.txt")
    );
}

const PAGES: &str = r#", "error_pages": {
    "404": {"share": "FOLDER/pages/404.html", "response_headers_always": {"X-Page": "404"}},
    "410": {"return": 302, "location": "/elsewhere"},
    "418": {"share": "FOLDER/pages/404.html", "response_status": 200},
    "5xx": {"proxy": "http://BACKEND", "rewrite": "/error/$error_status"},
    "4xx": {"share": "FOLDER/pages/none.html"}}"#;

fn failing(method: &str, path: &str) -> String {
    let status = path.trim_start_matches("/status/");
    match path {
        "/error/503" => answer(
            "200 OK",
            "Content-Type: text/plain\r\n",
            &format!("{method} page"),
        ),
        "/error/500" => answer("500 Again", "", "it fails itself"),
        _ if status.len() == 3 => answer(
            &format!("{status} Wrong"),
            "WWW-Authenticate: Basic\r\nRetry-After: 7\r\nX-Own: 1\r\n",
            "own",
        ),
        _ => answer("200 OK", "", "fine"),
    }
}

#[test]
fn errors_of_the_server_get_their_pages_and_keep_their_status() {
    let backend = answering(failing);
    let routes = r#"{"main": [
        {"match": {"uri": "/files/*"}, "action": {"share": "FOLDER/www$uri", "response_headers_always": {"X-Main": "1"}}},
        {"match": {"uri": "/return/410"}, "action": {"return": 410}},
        {"match": {"uri": "/return/418"}, "action": {"return": 418}},
        {"match": {"uri": "/return/503"}, "action": {"return": 503}},
        {"match": {"uri": "/return/500"}, "action": {"return": 500}},
        {"match": {"uri": "/return/451"}, "action": {"return": 451}},
        {"match": {"uri": "/own"}, "action": {"return": 404, "error_pages": {"404": {"share": "FOLDER/pages/own.html"}}}},
        {"action": {"proxy": "http://BACKEND"}}]}"#;
    let site = site(&backend, PAGES, routes);
    site.write("pages/404.html", "page of 404");
    site.write("pages/own.html", "own page");
    site.age("pages/404.html");
    for (method, fields) in [
        ("GET", ""),
        ("GET", "Range: bytes=0-1\r\n"),
        ("GET", "If-None-Match: \"2ebc98a1-b\"\r\n"),
        ("POST", "Content-Length: 0\r\n"),
    ] {
        let reply = site.request(method, "/files/none", fields);
        // A POST to a file gets 405, whose page does not exist.
        if method == "POST" {
            assert_eq!(
                (reply.status, reply.field("Allow")),
                (405, Some("GET, HEAD, OPTIONS"))
            );
            continue;
        }
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (404, "page of 404"),
            "{fields}"
        );
        assert_eq!(reply.field("Content-Type"), Some("text/html"));
        assert_eq!(reply.field("X-Page"), Some("404"));
        assert_eq!(reply.field("X-Main"), Some("1"));
    }
    let head = site.request("HEAD", "/files/none", "");
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (404, Some("11"))
    );
    assert_eq!(site.get("/own").text(), "own page");
    let moved = site.get("/return/410");
    assert_eq!(
        (moved.status, moved.field("Location")),
        (302, Some("/elsewhere"))
    );
    assert_eq!(site.get("/return/418").status, 200);
    let proxied = site.get("/return/503");
    assert_eq!((proxied.status, proxied.text().as_str()), (503, "GET page"));
    let asked = backend.requests();
    assert!(
        asked.contains(&"GET /error/503 HTTP/1.1".to_owned()),
        "{asked:?}"
    );
    // A page that fails itself: the client gets the first error.
    assert_eq!(site.get("/return/451").status, 451);
    let failing = site.get("/return/500");
    assert_eq!(
        (failing.status, failing.text().as_str()),
        (500, "it fails itself")
    );
    // The connection is kept.
    let mut client = site.connect();
    for _ in 0..3 {
        client.send("GET /files/none HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("GET").text(), "page of 404");
    }
    wait_until("the log has the request as it came", || {
        std::fs::read_to_string(site.path().join("access.log")).is_ok_and(|log| {
            log.contains("GET /files/none 404 404") && log.contains("GET /return/410 302 410")
        })
    });
}

#[test]
fn answers_of_servers_get_pages_only_where_that_is_said() {
    let backend = answering(failing);
    let open = site(
        &backend,
        PAGES,
        r#"{"main": [{"action": {"proxy": "http://BACKEND"}}]}"#,
    );
    open.write("pages/404.html", "page of 404");
    assert_eq!(open.get("/status/404").text(), "own");
    let routes = r#"{"main": [
        {"match": {"uri": "/status/410"}, "action": {"proxy": "http://BACKEND", "intercept_errors": false}},
        {"action": {"proxy": "http://BACKEND"}}]}"#;
    let listener = format!("{PAGES}, \"intercept_errors\": true");
    let site = site(&backend, &listener, routes);
    site.write("pages/404.html", "page of 404");
    let mut client = site.connect();
    for _ in 0..3 {
        client.send("GET /status/404 HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = client.response("GET");
        assert_eq!((reply.status, reply.text().as_str()), (404, "page of 404"));
        assert_eq!(reply.field("Retry-After"), Some("7"));
        assert_eq!(reply.field("WWW-Authenticate"), Some("Basic"));
        assert_eq!(reply.field("X-Own"), None);
    }
    assert_eq!(site.get("/status/410").text(), "own");
    assert_eq!(site.get("/status/503").text(), "GET page");
    // A status without a working page has the server's own page.
    let reply = site.get("/status/402");
    assert_eq!(reply.status, 402);
    assert!(!reply.text().contains("own"), "{}", reply.text());
    assert_eq!(site.get("/").text(), "fine");
}

#[test]
fn maintenance_answers_all_but_some() {
    let site = Site::sharing("{}");
    site.write("a.txt", "a");
    site.write("page.html", "back soon");
    let configure = |maintenance: &str| {
        let folder = site.path().to_str().unwrap();
        let maintenance = maintenance.replace("FOLDER", folder);
        site.configure(&format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"maintenance": {maintenance}}},
                 "routes": [{{"action": {{"share": "{folder}$uri"}}}}]}}"#
        ))
        .unwrap();
    };
    configure(r#"{"page": "FOLDER/page.html", "retry_after": 60}"#);
    for (method, body) in [("GET", "back soon"), ("POST", "back soon"), ("HEAD", "")] {
        let reply = site.request(
            method,
            "/a.txt",
            "If-Modified-Since: Sun, 06 Nov 2094 08:49:37 GMT\r\n",
        );
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (503, body),
            "{method}"
        );
        assert_eq!(reply.field("Retry-After"), Some("60"));
        assert_eq!(reply.field("Cache-Control"), Some("no-store"));
    }
    configure(r#"{"page": "FOLDER/none.html", "retry_after": 0}"#);
    let reply = site.get("/a.txt");
    assert_eq!((reply.status, reply.field("Retry-After")), (503, None));
    wait_until("that is logged", || site.log.has("none.html"));
    configure(r#"{"except": ["127.0.0.0/8"]}"#);
    assert_eq!(site.get("/a.txt").text(), "a");
    configure(r#"{"except": ["!127.0.0.0/8", "10.0.0.0/8"]}"#);
    assert_eq!(site.get("/a.txt").status, 503);
    // Metrics are served by every route. There is no metrics page here, so it is a 503 without the fields of the maintenance.
    let folder = site.path().to_str().unwrap();
    site.configure(&format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"maintenance": {{"retry_after": 60}}}}, "routes": [
             {{"match": {{"uri": "/direct"}}, "action": {{"pass": "metrics"}}}},
             {{"match": {{"uri": ["/missing", "/a.txt"]}}, "action": {{"share": "{folder}$uri", "fallback": {{"pass": "metrics"}}}}}},
             {{"action": {{"share": "{folder}$uri", "fallback": {{"return": 204}}}}}}]}}"#
    ))
    .unwrap();
    for (path, is_maintained) in [
        ("/direct", false),
        ("/missing", false),
        ("/a.txt", true),
        ("/other", true),
        ("/page.html", true),
    ] {
        let reply = site.get(path);
        let expected = is_maintained.then_some("60");
        assert_eq!(
            (reply.status, reply.field("Retry-After")),
            (503, expected),
            "{path}"
        );
    }
    site.configure(r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}}, "routes": [{"action": {"return": 204}}]}"#)
        .unwrap();
    assert_eq!(site.get("/").status, 204);
}

fn mirrored(copies: &Backend, to: &str, options: &str) -> Site {
    let (copies, to) = (copies.address, to.to_owned());
    Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "upstreams": {{"shadow": {{"servers": {{"{copies}": {{}}}}}}}},
                 "routes": [{{"action": {{"proxy": "http://{to}", "mirror": {{"to": "upstreams/shadow"{options}}}}}}}]}}"#
        )
    })
}

#[test]
fn a_copy_has_the_request_and_its_body() {
    let real = Backend::echoing("real");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let copies = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            requests
                .lock()
                .unwrap()
                .push(format!("{}{body}", asked.head));
            peer.answer(b"copied");
        }
    });
    let site = mirrored(
        &copies,
        &real.address.to_string(),
        r#", "max_body_size": 10"#,
    );
    assert_eq!(site.get("/a?b=c").status, 200);
    let mut client = site.connect();
    client.send("PUT /b HTTP/1.1\r\nHost: me\r\nX-Own: 1\r\nContent-Length: 5\r\n\r\n01234");
    assert_eq!(client.response("PUT").status, 200);
    client.send("PUT /large HTTP/1.1\r\nHost: me\r\nContent-Length: 11\r\n\r\n01234567890");
    assert_eq!(client.response("PUT").status, 200);
    wait_until("two copies", || seen.lock().unwrap().len() == 2);
    let requests = seen.lock().unwrap().join("\n");
    assert!(requests.contains("GET /a?b=c HTTP/1.1"), "{requests}");
    assert!(requests.contains("PUT /b HTTP/1.1"), "{requests}");
    assert!(requests.contains("\r\n\r\n01234"), "{requests}");
    assert!(
        requests.contains("Host: me\r\n") && requests.contains("X-Own: 1"),
        "{requests}"
    );
    wait_until("they are counted", || {
        let live = measured(&site);
        live.contains("result=\"answered\"} 2") && live.contains("result=\"dropped\"} 1")
    });
}

#[test]
fn copies_are_balanced_by_the_key_of_their_upstream() {
    let (a, b) = (Backend::echoing("a"), Backend::echoing("b"));
    let servers = format!(r#""{}": {{}}, "{}": {{}}"#, a.address, b.address);
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "upstreams": {{"shadow": {{"servers": {{{servers}}}, "balance": "hash", "key": "$arg_k"}}}},
                 "routes": [{{"action": {{"return": 204, "mirror": {{"to": "upstreams/shadow"}}}}}}]}}"#
        )
    });
    for _ in 0..2 {
        for key in 0..16 {
            assert_eq!(site.get(&format!("/?k={key}")).status, 204);
        }
    }
    wait_until("all are copied", || {
        measured(&site).contains("result=\"answered\"} 32")
    });
    let (mut at_a, mut at_b) = (a.requests(), b.requests());
    assert!(!at_a.is_empty() && !at_b.is_empty(), "{at_a:?} {at_b:?}");
    for requests in [&mut at_a, &mut at_b] {
        let count = requests.len();
        requests.sort();
        requests.dedup();
        assert_eq!(
            requests.len() * 2,
            count,
            "both with one key go to one server"
        );
    }
}

fn measured(site: &Site) -> String {
    let mut page = tutti_metrics::Page::default();
    site.server.measure(&mut page);
    let text = tutti_metrics::ExpositionFormat::Text.write(&page);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_hanging_mirror_server_delays_no_request_and_gets_few() {
    let real = Backend::answering(answer("200 OK", "", "real"));
    let copies = Backend::new(|peer| {
        // It reads and sends nothing, until the other side closes.
        peer.wait_closed();
    });
    let site = mirrored(
        &copies,
        &real.address.to_string(),
        r#", "max_pending": 3, "timeout": 3600"#,
    );
    for _ in 0..20 {
        assert_eq!(site.get("/").text(), "real");
    }
    assert!(
        measured(&site).contains("result=\"dropped\"} 17"),
        "{}",
        measured(&site)
    );
}

#[test]
fn early_hints_go_to_clients_that_take_them() {
    let backend = answering(|_, _| {
        format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n{}",
            answer("200 OK", "", "ok")
        )
    });
    let address = backend.address;
    let configured = |value: &str| {
        Site::new(1, |_| {
            format!(
                r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {{"early_hints": "{value}"}}}},
                     "routes": [{{"action": {{"proxy": "http://{address}", "early_hints": ["</$arg_a.css>; rel=preload"]}}}}]}}"#
            )
        })
    };
    // An action may permit them where the server does not.
    let inner = Site::new(1, |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {{"early_hints": "never"}}}},
                 "routes": [{{"action": {{"proxy": "http://{address}", "early_hints": "</a.css>", "http": {{"early_hints": "always"}}}}}}]}}"#
        )
    });
    let mut client = inner.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").field("Link"), Some("</a.css>"));
    let site = configured("always");
    let mut client = site.connect();
    client.send("GET /?a=x HTTP/1.1\r\nHost: a\r\n\r\n");
    let first = client.response("GET");
    assert_eq!(
        (first.status, first.field("Link")),
        (103, Some("</x.css>; rel=preload"))
    );
    let second = client.response("GET");
    assert_eq!(
        (second.status, second.field("Link")),
        (103, Some("</b.css>"))
    );
    assert_eq!(client.response("GET").text(), "ok");
    // A script or an image does not need the configured links; hints of the server are passed on.
    client.send("GET / HTTP/1.1\r\nHost: a\r\nSec-Fetch-Mode: no-cors\r\n\r\n");
    assert_eq!(client.response("GET").field("Link"), Some("</b.css>"));
    assert_eq!(client.response("GET").text(), "ok");
    // A link that a variable would break is omitted.
    client.send("GET /?a=%0d%0aX:y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").field("Link"), Some("</b.css>"));
    assert_eq!(client.response("GET").text(), "ok");
    let old = site.exchange("GET / HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.1 200"), "{old}");
    for value in ["http2", "never"] {
        let site = configured(value);
        assert_eq!(site.get("/").status, 200, "{value}");
    }
}

#[test]
fn a_compressed_file_beside_a_file_is_served_to_clients_that_accept_it() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/old/*"}}, "action": {{"share": "{folder}$uri", "prefix": "/old", "precompressed": "gzip", "precompressed_older": true}}}},
                            {{"action": {{"share": "{folder}$uri", "precompressed": ["br", "zstd", "gzip"], "follow_symlinks": false}}}}]}}"#
        )
    });
    for (name, text) in [
        ("a.css", "plain"),
        ("a.css.gz", "of gzip"),
        ("a.css.br", "of br"),
        ("b.css", "plain"),
        ("c.css", "plain"),
        ("index.html", "plain"),
        ("index.html.gz", "of gzip"),
        ("old.css.gz", "of gzip"),
        ("outside", "outside"),
    ] {
        site.write(name, text);
        site.age(name);
    }
    site.write("old.css", "newer");
    symlink(site.path().join("outside"), site.path().join("b.css.gz")).unwrap();
    std::fs::create_dir(site.path().join("c.css.gz")).unwrap();
    let asked = |target: &str, accepted: &str| {
        site.request("GET", target, &format!("Accept-Encoding: {accepted}\r\n"))
    };
    for (target, accepted, coding, text) in [
        ("/a.css", "gzip, br", Some("br"), "of br"),
        ("/a.css", "gzip, br;q=0.5", Some("gzip"), "of gzip"),
        // No zstd file exists: the next best encoding is served.
        ("/a.css", "zstd, gzip;q=0.1", Some("gzip"), "of gzip"),
        ("/a.css", "identity", None, "plain"),
        ("/a.css", "br;q=0", None, "plain"),
        ("/", "gzip", Some("gzip"), "of gzip"),
        ("/b.css", "gzip", None, "plain"),
        ("/c.css", "gzip", None, "plain"),
        ("/old.css", "gzip", None, "newer"),
        ("/old/old.css", "gzip", Some("gzip"), "of gzip"),
    ] {
        let reply = asked(target, accepted);
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.field("Content-Encoding"),
            coding,
            "{target} {accepted}"
        );
        assert_eq!(reply.text(), text, "{target} {accepted}");
        assert_eq!(reply.field("Vary"), Some("Accept-Encoding"), "{target}");
        let mime = if target == "/" {
            "text/html"
        } else {
            "text/css"
        };
        assert_eq!(reply.field("Content-Type"), Some(mime), "{target}");
    }
    let (plain, br) = (asked("/a.css", "identity"), asked("/a.css", "br"));
    assert_eq!(plain.field("ETag"), Some("\"2ebc98a1-5\""));
    assert_eq!(br.field("ETag"), Some("\"2ebc98a1-5-br\""));
    let fields = "Accept-Encoding: br\r\nIf-None-Match: \"2ebc98a1-5-br\"\r\n";
    let same = site.request("GET", "/a.css", fields);
    assert_eq!(
        (same.status, same.field("Vary")),
        (304, Some("Accept-Encoding"))
    );
    let part = site.request(
        "GET",
        "/a.css",
        "Accept-Encoding: br\r\nRange: bytes=0-1\r\n",
    );
    assert_eq!((part.status, part.text().as_str()), (206, "of"));
    // A request for the compressed file itself gets it as a file.
    assert_eq!(asked("/a.css.gz", "gzip").field("Content-Encoding"), None);
}

#[test]
fn a_folder_without_index_is_listed_where_that_is_wished() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/off/*"}}, "action": {{"share": "{folder}/www$uri", "prefix": "/off"}}}},
                            {{"match": {{"uri": "/two/*"}}, "action": {{"share": "{folder}/www$uri", "prefix": "/two", "listing": "json", "listing_limit": 2}}}},
                            {{"action": {{"share": "{folder}/www$uri", "listing": "auto", "deny": ["*.secret", "/closed/*"], "chroot": "{folder}/www/"}}}}]}}"#
        )
    });
    for name in [
        "www/b.txt",
        "www/a<b>.txt",
        "www/.env",
        "www/x.secret",
        "www/sub/c.txt",
        "www/closed/d",
        "www/has/index.html",
        "outside.txt",
    ] {
        site.write(name, "12345");
    }
    symlink("../outside.txt", site.path().join("www/out.txt")).unwrap();
    let reply = site.get("/");
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.field("Content-Type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(reply.field("Vary"), Some("Accept"));
    let page = reply.text();
    for part in [
        "href=\"./sub/\"",
        "href=\"./b.txt\"",
        "a&lt;b&gt;.txt",
        "href=\"./a%3Cb%3E.txt\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for hidden in [".env", "x.secret", "closed", "out.txt", "<b>"] {
        assert!(!page.contains(hidden), "{hidden}: {page}");
    }
    let json = site.request("GET", "/", "Accept: application/json\r\n");
    let listed: serde_json::Value = serde_json::from_str(&json.text()).unwrap();
    let names: Vec<_> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["has", "sub", "a<b>.txt", "b.txt"]);
    assert_eq!(listed["entries"][3]["size"], 5);
    assert_eq!(listed["complete"], true);
    let two: serde_json::Value = serde_json::from_str(&site.get("/two/").text()).unwrap();
    assert_eq!(
        (two["entries"].as_array().unwrap().len(), &two["complete"]),
        (2, &false.into())
    );
    assert_eq!(site.get("/has/").text(), "12345");
    assert_eq!(site.get("/sub").status, 301);
    for none in ["/off/", "/closed/", "/none/", "/b.txt/", "/%2e%2e/"] {
        let status = site.get(none).status;
        assert!(status == 404 || status == 400, "{none}: {status}");
    }
    let head = site.request("HEAD", "/", "");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
}

#[test]
fn a_body_that_is_too_large_has_a_page() {
    let backend = answering(failing);
    let routes = r#"{"main": [
        {"match": {"uri": "/stream"}, "action": {"proxy": "http://BACKEND", "proxy_options": {"request_buffering": false}}},
        {"action": {"proxy": "http://BACKEND"}}]}"#;
    let listener = r#", "http": {"max_body_size": 10}, "error_pages": {"413": {"share": "FOLDER/pages/413.html"}}"#;
    let site = site(&backend, listener, routes);
    site.write("pages/413.html", "too large");
    for path in ["/", "/stream"] {
        for (field, body) in [
            ("Content-Length: 11", "hello world"),
            ("Content-Length: 3000000", "hello"),
            (
                "Transfer-Encoding: chunked",
                "b\r\nhello world\r\n0\r\n\r\n",
            ),
            (
                "Transfer-Encoding: chunked",
                "6\r\nhello \r\n5\r\nworld\r\n",
            ),
        ] {
            let mut client = site.connect();
            client.send(format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n{body}"
            ));
            client.finish();
            let answer = client.read_to_end();
            assert!(
                answer.starts_with("HTTP/1.1 413 "),
                "{path} {field}: {answer}"
            );
            assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\ntoo large"), "{answer}");
        }
    }
    // A body that is malformed has none.
    let mut client = site.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx");
    assert!(client.read_to_end().starts_with("HTTP/1.1 400 "));
}
