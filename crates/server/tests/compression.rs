//! Files and proxied answers compressed for clients that want it. Applications' responses: `tests/e2e/tests/compression.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::Read;

use support::Site;
use support::backend::Backend;
use tutti_testkit::client::Reply;
use tutti_testkit::wait_until;

const ALL: &str = r#"{"compression": {"compressors": [{"encoding": "br"}, {"encoding": "zstd"}, {"encoding": "gzip"}, {"encoding": "deflate"}]}}"#;

fn plain(response: &Reply) -> Vec<u8> {
    let mut plain = Vec::new();
    let body = response.body.as_slice();
    match response.field("Content-Encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut plain),
        Some("deflate") => flate2::read::ZlibDecoder::new(body).read_to_end(&mut plain),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain),
        Some("zstd") => zstd::stream::read::Decoder::new(body)
            .unwrap()
            .read_to_end(&mut plain),
        Some(other) => panic!("{other}"),
        None => return response.body.clone(),
    }
    .unwrap();
    plain
}

#[test]
fn files_come_in_the_encoding_the_client_likes_best_large_and_small() {
    let site = Site::sharing(ALL);
    let text = "Some text that is to be compressed. ";
    for (name, count) in [("small.txt", 100), ("large.txt", 20_000)] {
        site.write(name, text.repeat(count));
        site.age(name);
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("zstd", Some("zstd")),
            ("gzip", Some("gzip")),
            ("deflate", Some("deflate")),
            ("*;q=0.5, gzip", Some("gzip")),
            ("identity", None),
            ("br;q=0", None),
        ] {
            let fields = format!("Accept-Encoding: {accepted}\r\n");
            let response = site.request("GET", &format!("/{name}"), &fields);
            assert_eq!(response.status, 200);
            assert_eq!(response.field("Content-Encoding"), expected, "{accepted}");
            assert_eq!(
                response.field("Vary"),
                Some("Accept-Encoding"),
                "{accepted}"
            );
            assert_eq!(response.field("Content-Type"), Some("text/plain"));
            assert!(
                plain(&response) == text.repeat(count).as_bytes(),
                "{accepted}"
            );
            let weak = response.field("ETag").unwrap().starts_with("W/");
            assert_eq!(weak, expected.is_some());
            assert_eq!(response.field("Accept-Ranges").is_none(), weak);
            let is_smaller = response.body.len() * 4 < text.len() * count;
            assert_eq!(is_smaller, expected.is_some());
        }
    }
}

#[test]
fn the_head_of_a_compressed_file_is_that_of_get() {
    let site = Site::sharing(ALL);
    site.write("a.css", "a { color: red }\n".repeat(50));
    site.write("b.css", "a { color: red }\n".repeat(5000));
    for name in ["/a.css", "/b.css"] {
        let fields = "Accept-Encoding: gzip\r\n";
        let mut client = site.connect();
        client.send(format!("HEAD {name} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let head = client.response("HEAD");
        // On the same connection: the response to HEAD had no body.
        client.send(format!("GET {name} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let get = client.response("GET");
        for field in [
            "Content-Encoding",
            "Vary",
            "ETag",
            "Content-Length",
            "Last-Modified",
        ] {
            assert_eq!(head.field(field), get.field(field), "{name} {field}");
        }
    }
}

#[test]
fn conditions_hold_for_the_compressed_file_and_it_has_no_ranges() {
    let site = Site::sharing(ALL);
    site.write("a.txt", "text ".repeat(1000));
    let accepted = "Accept-Encoding: gzip\r\n";
    let first = site.request("GET", "/a.txt", accepted);
    let etag = first.field("ETag").unwrap();
    let again = site.request(
        "GET",
        "/a.txt",
        &format!("{accepted}If-None-Match: {etag}\r\n"),
    );
    assert_eq!(again.status, 304);
    assert_eq!(again.field("Vary"), Some("Accept-Encoding"));
    assert_eq!(again.field("ETag"), Some(etag));
    let range = "Range: bytes=0-9\r\n";
    let part = site.request("GET", "/a.txt", &format!("{accepted}{range}"));
    assert_eq!(
        (part.status, part.field("Content-Encoding")),
        (200, Some("gzip"))
    );
    let part = site.request("GET", "/a.txt", range);
    assert_eq!((part.status, part.field("Content-Encoding")), (206, None));
    assert_eq!(part.body, b"text text ");
    assert_eq!(part.field("Vary"), Some("Accept-Encoding"));
}

#[test]
fn a_changed_file_and_a_changed_level_count_at_once() {
    let site = Site::sharing(ALL);
    let accepted = "Accept-Encoding: gzip\r\n";
    for round in 0..5 {
        let text = format!("round {round} ").repeat(1000);
        site.write("a.txt", &text);
        let response = site.request("GET", "/a.txt", accepted);
        assert!(plain(&response) == text.as_bytes(), "{round}");
    }
    let folder = site.path().to_str().unwrap().to_owned();
    site.configure(&format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [{{"action": {{"share": "{folder}$uri"}}}}]}}"#
    ))
    .unwrap();
    let response = site.request("GET", "/a.txt", accepted);
    assert_eq!(
        (response.field("Content-Encoding"), response.field("Vary")),
        (None, None)
    );
}

#[test]
fn short_or_compressed_files_and_responses_to_old_clients_are_unchanged() {
    let site = Site::sharing(
        r#"{"compression": {"types": "*", "compressors": {"encoding": "gzip", "min_length": 1000}}}"#,
    );
    let accepted = "Accept-Encoding: gzip\r\n";
    site.write("short.txt", "x".repeat(999));
    site.write("picture.png", "x".repeat(5000));
    site.write("empty.txt", "");
    site.write("a.txt", "x".repeat(1000));
    for name in ["/short.txt", "/picture.png", "/empty.txt"] {
        let response = site.request("GET", name, accepted);
        assert_eq!(response.field("Content-Encoding"), None, "{name}");
        assert_eq!(response.field("Vary"), None, "{name}");
    }
    assert_eq!(
        site.request("GET", "/a.txt", accepted)
            .field("Content-Encoding"),
        Some("gzip")
    );
    let old = site.exchange(format!("GET /a.txt HTTP/1.0\r\n{accepted}\r\n"));
    assert!(!old.contains("Content-Encoding"), "{old}");
    assert!(old.contains("Vary: Accept-Encoding\r\n"), "{old}");
    // A page of the server itself.
    let missing = site.request("GET", "/missing", accepted);
    assert_eq!(
        (missing.status, missing.field("Content-Encoding")),
        (404, None)
    );
}

/// A site that sends everything to `backend`.
fn proxying(backend: &Backend) -> Site {
    let address = backend.address;
    Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {ALL}}},
                 "routes": [{{"action": {{"proxy": "http://{address}"}}}}]}}"#
        )
    })
}

const TEXT: &str = "Content-Type: text/plain\r\nETag: \"one\"\r\nAccept-Ranges: bytes\r\n";

#[test]
fn proxied_answers_are_compressed_however_they_are_framed() {
    let text = "Some text that is to be compressed. ".repeat(20_000);
    let answer = text.clone();
    let backend = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let is_head = asked.line().starts_with("HEAD");
            let length = answer.len();
            match asked.line().split(' ').nth(1) {
                _ if is_head => {
                    peer.send(format!(
                        "HTTP/1.1 200 OK\r\n{TEXT}Content-Length: {length}\r\n\r\n"
                    ));
                }
                Some("/counted") => {
                    peer.send(format!(
                        "HTTP/1.1 200 OK\r\n{TEXT}Content-Length: {length}\r\n\r\n{answer}"
                    ));
                }
                Some("/chunks") => {
                    peer.send(format!(
                        "HTTP/1.1 200 OK\r\n{TEXT}Transfer-Encoding: chunked\r\n\r\n"
                    ));
                    for piece in answer.as_bytes().chunks(7_777) {
                        peer.send(format!("{:x}\r\n", piece.len()));
                        peer.send([piece, b"\r\n"].concat());
                    }
                    peer.send("0\r\n\r\n");
                }
                _ => {
                    peer.send(format!("HTTP/1.1 200 OK\r\n{TEXT}\r\n{answer}"));
                    return peer.finish();
                }
            }
        }
    });
    let site = proxying(&backend);
    for path in ["/counted", "/chunks", "/closed"] {
        let mut client = site.connect();
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("zstd", Some("zstd")),
            ("gzip", Some("gzip")),
            ("deflate", Some("deflate")),
            ("identity", None),
        ] {
            let request =
                format!("{path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n");
            client.send(format!("GET {request}"));
            let got = client.response("GET");
            assert_eq!(got.field("Content-Encoding"), expected, "{path} {accepted}");
            assert_eq!(got.field("Vary"), Some("Accept-Encoding"));
            assert!(plain(&got) == text.as_bytes(), "{path} {accepted}");
            let weak = expected.is_some();
            assert_eq!(got.field("ETag").unwrap().starts_with("W/"), weak);
            assert_eq!(got.field("Accept-Ranges").is_none(), weak);
            assert_eq!(got.body.len() * 4 < text.len(), weak);
            if weak {
                assert_eq!(got.field("Content-Length"), None);
                client.send(format!("HEAD {request}"));
                let head = client.response("HEAD");
                for name in [
                    "Content-Encoding",
                    "Vary",
                    "ETag",
                    "Content-Length",
                    "Content-Type",
                ] {
                    assert_eq!(head.field(name), got.field(name), "{name}");
                }
            }
        }
    }
}

#[test]
fn proxied_answers_that_must_not_be_transformed_are_unchanged() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let says = asked.field("X-Says").unwrap().replace("; ", "\r\n");
            let body = match says.starts_with("304") {
                true => String::new(),
                false => "text ".repeat(1000),
            };
            peer.send(format!(
                "HTTP/1.1 {says}\r\n{TEXT}Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    let site = proxying(&backend);
    let mut client = site.connect();
    for says in [
        "206 Partial Content; Content-Range: bytes 0-4999/9000",
        "304 Not Modified",
        "200 OK; Cache-Control: max-age=1, no-transform",
        "200 OK; Content-Encoding: br",
        "200 OK; Content-Digest: sha-256=:abc=:",
        "200 OK; Content-Range: bytes 0-4999/9000",
    ] {
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Says: {says}\r\nAccept-Encoding: gzip, br\r\n\r\n"
        ));
        let got = client.response("GET");
        assert_eq!(got.field("ETag"), Some("\"one\""), "{says}");
        assert_eq!(got.field("Vary"), None, "{says}");
        assert_ne!(got.field("Content-Encoding"), Some("gzip"), "{says}");
        if got.status != 304 {
            assert_eq!(got.body, "text ".repeat(1000).as_bytes(), "{says}");
        }
    }
}

#[test]
fn data_of_the_server_is_flushed_to_the_client_while_it_pauses() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let backend = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
            for event in ["data: 1\n\n", "data: 2\n\n"] {
                peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
                wait.lock().unwrap().recv().unwrap();
            }
            if asked.line().contains("breaks") {
                return peer.reset();
            }
            peer.send("0\r\nX-Sum: 2\r\n\r\n");
        }
    });
    let site = proxying(&backend);
    let ask = |path: &str| {
        let mut client = site.connect();
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTE: trailers\r\nAccept-Encoding: gzip\r\n\r\n"
        ));
        client
    };
    let mut client = ask("/");
    assert_eq!(client.head().field("Content-Encoding"), Some("gzip"));
    // The encoder's memory is in the account (issue 10).
    assert!(site.server.held().encoders > 256 * 1024);
    let mut come = Vec::new();
    for expected in ["data: 1\n\n", "data: 1\n\ndata: 2\n\n"] {
        loop {
            let mut text = String::new();
            let _ = flate2::read::GzDecoder::new(come.as_slice()).read_to_string(&mut text);
            if text == expected {
                break;
            }
            come.extend(client.chunk().expect("more"));
        }
        go.send(()).unwrap();
    }
    let rest = client.read_to_end();
    assert!(rest.ends_with("\r\n0\r\nX-Sum: 2\r\n\r\n"), "{rest:?}");
    wait_until("nothing is held", || {
        site.server.held() == tutti_server::BufferedBytes::default()
    });
    // A response that breaks off has none.
    let mut client = ask("/breaks");
    assert_eq!(client.head().field("Content-Encoding"), Some("gzip"));
    go.send(()).unwrap();
    go.send(()).unwrap();
    let rest = client.read_to_end();
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest:?}");
}

/// CHANGES of FreeUnit 1.36.2: each such request cost a descriptor.
#[test]
fn a_client_that_takes_nothing_gets_the_file_and_costs_no_descriptor() {
    let site = Site::sharing(ALL);
    site.write("large.txt", "text ".repeat(100_000));
    for _ in 0..50 {
        let fields = "Accept-Encoding: identity;q=0, *;q=0\r\n";
        let response = site.request("GET", "/large.txt", fields);
        assert_eq!((response.status, response.body.len()), (200, 500_000));
    }
    let path = site.path().join("large.txt");
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let held = descriptors
        .flatten()
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path));
    // Each of the two threads keeps the file.
    assert!(held.count() <= 2);
}

/// CHANGES of FreeUnit 1.36.2: the next request read what the old configuration had left behind.
#[test]
fn compression_may_be_removed_while_a_response_is_compressed() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let backend = Backend::new(move |peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
            wait.lock().unwrap().recv().unwrap();
            peer.send("3\r\ntwo\r\n0\r\n\r\n");
        }
    });
    let site = proxying(&backend);
    let ask = |site: &Site| {
        let mut client = site.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        client
    };
    let mut client = ask(&site);
    assert_eq!(client.head().field("Content-Encoding"), Some("gzip"));
    let without = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [{{"action": {{"proxy": "http://{}"}}}}]}}"#,
        backend.address
    );
    site.configure(&without).unwrap();
    go.send(()).unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = client.chunk() {
        bytes.extend(chunk);
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "onetwo");
    go.send(()).unwrap();
    let mut client = ask(&site);
    let plain = client.response("GET");
    assert_eq!(
        (plain.field("Content-Encoding"), plain.text().as_str()),
        (None, "onetwo")
    );
}
