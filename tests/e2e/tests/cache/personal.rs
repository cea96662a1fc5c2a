//! No client gets what is another's, and none gets two responses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tutti_testkit::{Server, ServerOptions};

use super::origin::{Origin, answer, field};
use super::{caching, get, is_hit, send};

/// A session that the origin begins as it validates a stored response would be everybody's.
#[test]
fn cookies_that_are_stripped_do_not_come_back_with_a_validation() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => answer(200, "ETag: \"a\"\r\nCache-Control: max-age=0\r\n", "body"),
        _ => answer(
            304,
            "ETag: \"a\"\r\nCache-Control: max-age=600\r\nSet-Cookie: session=A\r\n",
            "",
        ),
    });
    let server = caching(&origin, &json!({"store": "pages", "set_cookie": "strip"}));
    get(&server, "/");
    assert_eq!(get(&server, "/").text(), "body");
    let hit = get(&server, "/");
    assert!(is_hit(&hit));
    assert_eq!(hit.field("set-cookie"), None);
    assert_eq!(origin.count(), 2);
}

/// An error that a stored response was to replace ends too early, and another server answers.
#[test]
fn a_request_that_is_tried_again_has_one_response() {
    let count = Arc::new(AtomicUsize::new(0));
    let answers = move |_: &str| match count.fetch_add(1, Ordering::Relaxed) {
        0 => answer(
            200,
            "ETag: \"a\"\r\nCache-Control: max-age=0, stale-if-error=600\r\n",
            "stale",
        ),
        1 => "HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n0123456789".to_owned(),
        _ => answer(200, "Cache-Control: no-store\r\n", "fresh"),
    };
    let one = Origin::start(answers.clone());
    let other = Origin::start(answers);
    let address = |origin: &Origin| origin.url().replace("http://", "");
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": {"pass": "upstreams/both", "cache": "pages"}}],
            "upstreams": {"both": {"servers": {address(&one): {}, address(&other): {}}}},
            "settings": {"cache": {"pages": {}}},
        }),
    );
    assert_eq!(get(&server, "/").text(), "stale");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(one.count() + other.count(), 3, "{all}");
    assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
    assert!(all.ends_with("\r\n\r\nfresh"), "{all}");
}

#[test]
fn a_field_that_connection_names_chooses_no_response_for_others() {
    let origin = Origin::start(|head| {
        let accepted = field(head, "accept").unwrap_or_default();
        answer(
            200,
            "Cache-Control: max-age=600\r\nVary: Accept\r\n",
            &accepted,
        )
    });
    let server = caching(&origin, &json!("pages"));
    let ask = |fields: &str| send(&server, "GET", "/", fields).text();
    let json = "Accept: application/json\r\n";
    assert_eq!(ask(&format!("{json}Connection: Accept\r\n")), "");
    assert_eq!(ask(json), "application/json");
    assert_eq!(ask(""), "");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_response_that_depends_on_who_the_client_is_is_not_stored() {
    for (name, is_kept) in [
        ("Client-Cert", false),
        ("X-Forwarded-For", false),
        ("Forwarded", false),
        ("X-Real-IP", true),
    ] {
        let fields = format!("Cache-Control: max-age=600\r\nVary: {name}\r\n");
        let origin = Origin::start(move |_| answer(200, &fields, "one client's"));
        let server = Server::start(&ServerOptions::default());
        let action = json!({
            "proxy": origin.url(), "cache": "pages", "request_headers": {"X-Real-IP": "$remote_addr"}
        });
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
                "routes": [{"action": action}],
                "settings": {"cache": {"pages": {}}},
            }),
        );
        get(&server, "/");
        assert_eq!(is_hit(&get(&server, "/")), is_kept, "{name}");
    }
}
