//! `return` with a body: its fields and its framing, for every method and version, compressed, in place of others.

mod support;

use std::io::Read as _;

use support::Site;

/// A site with this `routes`; `FOLDER` in it is the site's folder.
fn site(http: &str, routes: &str) -> Site {
    Site::new(2, |folder| {
        let routes = routes.replace("FOLDER", folder);
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {http}}}, "routes": {routes},
                 "access_log": {{"path": "{folder}/access.log", "format": "$method $request_uri $status $body_bytes_sent"}}}}"#
        )
    })
}

const TEXTS: &str = r#"[
    {"match": {"uri": "/literal"}, "action": {"return": 200, "body": "a\nb\n"}},
    {"match": {"uri": "/variable"}, "action": {"return": 418, "body": "$method $arg_a $uri", "rewrite": "/new"}},
    {"match": {"uri": "/script"}, "action": {"return": 200, "body": "`${uri.length}`"}},
    {"match": {"uri": "/empty"}, "action": {"return": 404, "body": ""}},
    {"match": {"uri": "/plain"}, "action": {"return": 404}},
    {"match": {"uri": "/html"}, "action": {"return": 503, "body": "<p>Later</p>", "content_type": "text/html",
        "response_headers_always": {"Retry-After": "60"}}},
    {"match": {"uri": "/moved"}, "action": {"return": 302, "location": "/literal", "body": "moved"}},
    {"match": {"uri": "/json"}, "action": {"return": 200, "json": {"a\"b": "$arg_a", "n": [1, 2.50, null, true], "t": "$dollar"}}},
    {"match": {"uri": "/problem"}, "action": {"return": 403, "json": "$uri", "content_type": "application/problem+json"}}
]"#;

#[test]
fn a_text_is_sent_with_its_length_and_type() {
    let site = site("{}", TEXTS);
    for (target, status, media_type, body) in [
        ("/literal", 200, "text/plain; charset=utf-8", "a\nb\n"),
        (
            "/variable?a=x+y",
            418,
            "text/plain; charset=utf-8",
            "GET x y /new",
        ),
        ("/script", 200, "text/plain; charset=utf-8", "7"),
        ("/empty", 404, "text/plain; charset=utf-8", ""),
        ("/html", 503, "text/html", "<p>Later</p>"),
        ("/moved", 302, "text/plain; charset=utf-8", "moved"),
        ("/problem", 403, "application/problem+json", "\"/problem\""),
    ] {
        let reply = site.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert_eq!(reply.text(), body, "{target}");
        assert_eq!(reply.field("Content-Type"), Some(media_type), "{target}");
        let length = body.len().to_string();
        assert_eq!(reply.field("Content-Length"), Some(&*length), "{target}");
        let head = site.request("HEAD", target, "");
        assert_eq!((head.status, head.text().as_str()), (status, ""));
        if !target.starts_with("/variable") {
            assert_eq!(head.field("Content-Length"), Some(&*length), "{target}");
        }
    }
    assert_eq!(site.get("/moved").field("Location"), Some("/literal"));
    assert_eq!(site.get("/html").field("Retry-After"), Some("60"));
    // Without `body`, the page is the server's own.
    assert!(site.get("/plain").text().contains("<title>404"));
}

#[test]
fn values_in_json_cannot_end_their_string() {
    let site = site("{}", TEXTS);
    let reply = site.get("/json?a=%22%2C%22b%22%3A1%5C%0A%ff%00%F0%9F%98%80");
    assert_eq!(reply.field("Content-Type"), Some("application/json"));
    assert_eq!(
        reply.text(),
        "{\"a\\\"b\":\"\\\",\\\"b\\\":1\\\\\\u000a\u{fffd}\\u0000\u{1f600}\",\"n\":[1,2.50,null,true],\"t\":\"$\"}"
    );
    assert_eq!(reply.json()["n"][0], 1);
}

#[test]
fn the_connection_goes_on_after_a_body_whatever_the_request_was() {
    let site = site("{}", TEXTS);
    let mut client = site.connect();
    for (method, more) in [
        ("GET", "\r\n"),
        ("POST", "Content-Length: 3\r\n\r\nabc"),
        (
            "PUT",
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        ("HEAD", "\r\n"),
        ("GET", "\r\n"),
    ] {
        client.send(format!("{method} /literal HTTP/1.1\r\nHost: a\r\n{more}"));
        let reply = client.response(method);
        let expected = if method == "HEAD" { "" } else { "a\nb\n" };
        assert_eq!((reply.status, reply.text().as_str()), (200, expected));
        assert_eq!(reply.field("Connection"), None, "{method}");
    }
    let old = site.exchange("GET /literal HTTP/1.0\r\n\r\n");
    assert!(old.ends_with("Connection: close\r\n\r\na\nb\n"), "{old}");
    tutti_testkit::wait_until("the lines of the log", || {
        let log = std::fs::read_to_string(site.path().join("access.log"));
        log.is_ok_and(|log| {
            log.contains("POST /literal 200 4\n") && log.contains("HEAD /literal 200 0\n")
        })
    });
}

#[test]
fn a_long_text_arrives_whole_and_compressed() {
    let text = "0123456789abcdef".repeat(20_000);
    let routes = format!(
        r#"[{{"match": {{"uri": "/literal"}}, "action": {{"return": 200, "body": "{text}"}}}},
            {{"action": {{"return": 200, "body": "{text}$uri"}}}}]"#
    );
    let site = site(
        r#"{"compression": {"compressors": {"encoding": "gzip"}}}"#,
        &routes,
    );
    for (target, end) in [("/literal", ""), ("/variable", "/variable")] {
        let expected = format!("{text}{end}");
        let plain = site.get(target);
        assert!(plain.text() == expected, "{target}");
        assert_eq!(plain.field("Vary"), Some("Accept-Encoding"));
        let length = expected.len().to_string();
        assert_eq!(plain.field("Content-Length"), Some(&*length));
        let mut client = site.connect();
        for _ in 0..2 {
            client.send(format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
            ));
            let packed = client.response("GET");
            assert_eq!(packed.field("Content-Encoding"), Some("gzip"));
            let mut unpacked = String::new();
            let mut decoder = flate2::read::GzDecoder::new(packed.body.as_slice());
            decoder.read_to_string(&mut unpacked).unwrap();
            assert!(unpacked == expected && packed.body.len() * 10 < expected.len());
        }
    }
}

#[test]
fn a_body_is_an_error_page_and_a_fallback_and_has_no_error_page_itself() {
    let site = site(
        "{}",
        r#"[
        {"match": {"uri": "/a"}, "action": {"share": "FOLDER$uri", "fallback": {"return": 404, "body": "no file $uri"}}},
        {"match": {"uri": "/b"}, "action": {"share": "FOLDER$uri", "error_pages": {"404": {"return": 410, "json": {"status": "$error_status"}}}}},
        {"match": {"uri": "/c"}, "action": {"return": 404, "body": "own", "error_pages": {"404": {"return": 200, "body": "page"}}}},
        {"match": {"uri": "/d"}, "action": {"return": 404, "error_pages": {"404": {"return": 200, "body": "page"}}}}
    ]"#,
    );
    for (target, status, body) in [
        ("/a", 404, "no file /a"),
        ("/b", 410, "{\"status\":\"404\"}"),
        ("/c", 404, "own"),
        ("/d", 200, "page"),
    ] {
        let reply = site.get(target);
        assert_eq!((reply.status, reply.text().as_str()), (status, body));
    }
}

#[test]
fn a_script_that_fails_is_an_error_and_not_half_a_body() {
    let site = site(
        "{}",
        r#"[{"match": {"uri": "/a"}, "action": {"return": 200, "json": ["begun", "`${args.a.b.c}`"]}},
            {"action": {"return": 200, "body": "`${args.a.b.c}`"}}]"#,
    );
    for target in ["/a", "/b"] {
        let reply = site.get(target);
        assert_eq!(reply.status, 500, "{target}");
        assert!(!reply.text().contains("begun"));
    }
}
