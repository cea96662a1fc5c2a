//! Libraries that Go programs are made of (gin, echo, httputil), unmodified but for one line, used like a browser would;
//! the same program under `net/http` says what is right.

use std::io::{Read, Write};

use serde_json::json;
use tutti_e2e::answer::{ask, differences};
use tutti_e2e::external::{Plain, ProgramSite};
use tutti_testkit::{Reply, client};

fn post(site: &ProgramSite, target: &str, kind: &str, body: &str) -> Reply {
    let bytes = format!(
        "POST {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client::request(site.server.address(), bytes.as_bytes()).unwrap()
}

#[test]
fn gin_and_echo_work_as_they_are() {
    let site = ProgramSite::prepare("tests/real/go");
    let plain = Plain::start(&site.program());
    let backend = format!("http://{}", plain.address());
    let change = site.configuration(&json!({"processes": 1, "environment": {"BACKEND": backend}}));
    site.server.put("/config", &change);

    let reply = post(
        &site,
        "/gin/notes",
        "application/x-www-form-urlencoded",
        "title=First&text=%3Cb%3E",
    );
    assert_eq!(
        (reply.status, reply.field("location")),
        (303, Some("/gin/notes"))
    );
    let reply = post(
        &site,
        "/gin/notes",
        "application/json",
        r#"{"title": "Second", "text": "two"}"#,
    );
    assert_eq!(reply.status, 303);
    let reply = post(
        &site,
        "/gin/notes",
        "application/json",
        r#"{"text": "no title"}"#,
    );
    assert_eq!(reply.status, 400, "{}", reply.text());
    let page = site.text("/gin/notes");
    assert!(page.contains("for 127.0.0.1"), "{page}");
    assert!(
        page.contains("<b>First</b> &lt;b&gt;") && page.contains("<b>Second</b> two"),
        "{page}"
    );
    let file = "x".repeat(300_000);
    let body = format!(
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n{file}\r\n--B--\r\n"
    );
    let reply = post(
        &site,
        "/gin/upload",
        "multipart/form-data; boundary=B",
        &body,
    );
    assert_eq!(reply.text(), "a.txt 300000 <nil>");
    assert_eq!(site.server.get("/gin/panic").status, 500);

    // Both must say the same.
    for target in [
        "/gin/notes/7",
        "/gin/stream",
        "/gin/missing",
        "/echo/hello/you",
        "/echo/error",
        "/echo/missing",
        "/missing",
    ] {
        for fields in ["", "Accept-Encoding: gzip\r\n"] {
            let bytes =
                format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
            let [ours, theirs] = [site.server.address(), plain.address()].map(|address| {
                let mut answer = ask(address, bytes.as_bytes());
                answer.fields.retain(|(name, _)| name != "X-Request-Id");
                answer
            });
            assert!(
                differences(&ours, &theirs).is_empty(),
                "{target}: {ours:?}\n{theirs:?}"
            );
        }
    }
    // A reverse proxy in the program, and through it a compressed page.
    assert_eq!(
        site.server.get("/proxy/").status,
        404,
        "the backend's own answer"
    );
    let large = |target: &str| {
        let bytes = format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        client::request(site.server.address(), bytes.as_bytes()).unwrap()
    };
    let reply = large("/echo/large");
    assert_eq!(reply.field("content-encoding"), Some("gzip"));
    assert!(
        reply.body.len() > 4000 && reply.body.len() < 20_000,
        "{}",
        reply.body.len()
    );
}

#[test]
fn events_flow_until_the_client_goes() {
    let site = ProgramSite::prepare("tests/real/go");
    site.server
        .put("/config", &site.configuration(&json!({"processes": 1})));
    let mut stream = std::net::TcpStream::connect(site.server.address()).unwrap();
    stream
        .write_all(b"GET /events HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let mut seen = String::new();
    while !seen.contains("data: 20\n\n") {
        let mut piece = [0; 1000];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "it goes on: {seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    drop(stream);
    site.wait_for_log("events: the client has gone");
}
