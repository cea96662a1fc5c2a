//! Settings of actions for their responses: charset, types of files, rates, trailers, replaced texts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use support::Site;
use support::backend::Backend;
use support::h2_client::over_http2;
use tutti_testkit::wait_until;

/// A site with these steps, with `FOLDER` and `BACKEND` replaced.
fn site(backend: Option<&Backend>, more: &str, steps: &str) -> Site {
    let address = backend.map_or_else(String::new, |backend| backend.address.to_string());
    Site::new(2, |folder| {
        let steps = steps.replace("FOLDER", folder).replace("BACKEND", &address);
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [{steps}]{more}}}"#
        )
    })
}

/// A server that answers every request with this head and body; `{asked}` in the body is the request's head.
fn answering(fields: &'static str, body: &'static str) -> Backend {
    Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let body = body.replace("{asked}", &asked.head.to_ascii_lowercase());
            let length = body.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
            ));
        }
    })
}

#[test]
fn text_gets_the_charset_of_its_action() {
    let backend = answering("Content-Type: text/html\r\n", "page");
    let named = answering("Content-Type: text/html;charset=latin1\r\n", "page");
    let site = site(
        Some(&backend),
        "",
        &r#"{"match": {"uri": "/named"}, "action": {"proxy": "http://NAMED", "charset": "utf-8"}},
            {"match": {"uri": "/proxy"}, "action": {"proxy": "http://BACKEND", "charset": "utf-8"}},
            {"match": {"uri": "/json/*"}, "action": {"share": "FOLDER$uri", "charset": "koi8-r", "charset_types": "application/json"}},
            {"match": {"uri": "/inner/*"}, "action": {"share": "/none$uri", "charset": "utf-8",
                "fallback": {"share": "FOLDER$uri", "charset": false}}},
            {"action": {"share": "FOLDER$uri", "charset": "utf-8"}}"#
            .replace("NAMED", &named.address.to_string()),
    );
    for name in [
        "a.html",
        "a.png",
        "json/a.json",
        "json/a.html",
        "inner/a.html",
    ] {
        site.write(name, "x");
    }
    for (target, expected) in [
        ("/a.html", "text/html; charset=utf-8"),
        ("/a.png", "image/png"),
        ("/json/a.json", "application/json; charset=koi8-r"),
        ("/json/a.html", "text/html"),
        ("/inner/a.html", "text/html"),
        ("/proxy", "text/html; charset=utf-8"),
        ("/named", "text/html;charset=latin1"),
    ] {
        let reply = site.get(target);
        assert_eq!(reply.field("Content-Type"), Some(expected), "{target}");
        let other = over_http2(site.address(), "GET", target, b"");
        assert_eq!(other.field("content-type"), Some(expected), "{target}");
    }
}

#[test]
fn files_have_the_types_of_their_action() {
    let site = site(
        None,
        "",
        r#"{"match": {"uri": "/own/*"}, "action": {"share": "FOLDER/files$uri", "prefix": "/own",
                "mime_types": {"text/x-own": [".html"]}, "default_type": "application/x-other"}},
           {"match": {"uri": "/forced/*"}, "action": {"share": "FOLDER/files$uri", "prefix": "/forced",
                "mime_types": {}, "default_type": "application/octet-stream"}},
           {"match": {"uri": "/default/*"}, "action": {"share": "FOLDER/files$uri", "prefix": "/default", "default_type": "text/plain"}},
           {"action": {"share": "FOLDER/files$uri"}}"#,
    );
    site.write("files/a.html", "page");
    site.write("files/a.unknown", "unknown");
    site.write("files/a.css", "css");
    // Twice, because files are kept.
    for _ in 0..2 {
        for (target, expected) in [
            ("/a.html", Some("text/html")),
            ("/own/a.html", Some("text/x-own")),
            ("/own/a.css", Some("application/x-other")),
            ("/own/a.unknown", Some("application/x-other")),
            ("/forced/a.html", Some("application/octet-stream")),
            ("/default/a.unknown", Some("text/plain")),
            ("/default/a.css", Some("text/css")),
            ("/a.unknown", None),
            ("/a.html", Some("text/html")),
        ] {
            assert_eq!(site.get(target).field("Content-Type"), expected, "{target}");
        }
    }
}

/// The time that a request takes, and the length of its response.
fn timed(site: &Site, target: &str, is_http2: bool) -> (Duration, usize) {
    let begun = Instant::now();
    let length = match is_http2 {
        true => over_http2(site.address(), "GET", target, b"").body.len(),
        false => site.get(target).body.len(),
    };
    (begun.elapsed(), length)
}

#[test]
fn a_response_has_its_rate() {
    // An application's response is of this kind, too: its body is passed on as it comes.
    let backend = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n");
            peer.send("x".repeat(60_000));
        }
    });
    let site = site(
        Some(&backend),
        "",
        r#"{"match": {"uri": "/proxy"}, "action": {"proxy": "http://BACKEND", "limit_rate": 100000}},
           {"match": {"uri": "/after/*"}, "action": {"share": "FOLDER$uri", "limit_rate": "1K", "limit_rate_after": "10M"}},
           {"action": {"share": "FOLDER$uri", "limit_rate": 2000000}}"#,
    );
    site.write("large.bin", vec![b'x'; 1_500_000]);
    site.write("after/large.bin", vec![b'x'; 1_500_000]);
    site.write("small.bin", vec![b'x'; 10_000]);
    for is_http2 in [false, true] {
        // A quarter of a second's bytes go out at once.
        let (took, length) = timed(&site, "/large.bin", is_http2);
        assert_eq!(length, 1_500_000);
        assert!(took >= Duration::from_millis(480), "{took:?}");
        let (took, length) = timed(&site, "/proxy", is_http2);
        assert_eq!(length, 60_000);
        assert!(took >= Duration::from_millis(330), "{took:?}");
        // These are below the limit, whatever they take.
        assert_eq!(timed(&site, "/after/large.bin", is_http2).1, 1_500_000);
        assert_eq!(timed(&site, "/small.bin", is_http2).1, 10_000);
    }
}

#[test]
fn responses_of_one_key_share_a_bandwidth() {
    let site = site(
        None,
        r#", "limits": {"all": {"key": "$arg_key", "bandwidth": 400000}}"#,
        r#"{"action": {"share": "FOLDER$uri", "limit": "all"}}"#,
    );
    site.write("a.bin", vec![b'x'; 100_000]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for is_http2 in [false, true, false, true] {
            let site = &site;
            scope.spawn(move || assert_eq!(timed(site, "/a.bin?key=a", is_http2).1, 100_000));
        }
    });
    // One after the other they have no more.
    assert_eq!(timed(&site, "/a.bin?key=a", false).1, 100_000);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(950), "{took:?}");
}

/// A 304 was without the `Vary` of its 200, and had another tag.
#[test]
fn a_file_with_trailers_that_has_not_changed_is_described_as_it_would_be_sent() {
    let site = site(
        None,
        r#", "settings": {"http": {"compression": {"compressors": [{"encoding": "gzip"}]}}}"#,
        r#"{"action": {"share": "FOLDER$uri", "trailers": {"X-Bytes": "$body_bytes_sent"}}}"#,
    );
    site.write("a.txt", "some text ".repeat(1000));
    site.age("a.txt");
    let accepting = "TE: trailers\r\nConnection: TE\r\nAccept-Encoding: gzip\r\n";
    let whole = site.request("GET", "/a.txt", accepting);
    assert_eq!(whole.field("Content-Encoding"), Some("gzip"));
    let tag = whole.field("ETag").unwrap();
    let fields = format!("{accepting}If-None-Match: {tag}\r\n");
    let same = site.request("GET", "/a.txt", &fields);
    assert_eq!(same.status, 304);
    for name in ["ETag", "Vary", "Last-Modified"] {
        assert_eq!(same.field(name), whole.field(name), "{name}");
    }
}

#[test]
fn trailers_follow_the_body_for_clients_that_accept_them() {
    let backend = answering("Content-Type: text/plain\r\n", "0123456789");
    let site = site(
        Some(&backend),
        "",
        r#"{"match": {"uri": "/proxy"}, "action": {"proxy": "http://BACKEND", "trailers": {"X-Bytes": "$body_bytes_sent", "X-Path": "$uri"}}},
           {"match": {"uri": "/missing"}, "action": {"return": 404, "trailers": {"X-Bytes": "1"}}},
           {"action": {"share": "FOLDER$uri", "trailers": {"X-Bytes": "$body_bytes_sent"}}}"#,
    );
    site.write("small.txt", "small");
    site.write("large.txt", vec![b'x'; 300_000]);
    for (target, bytes) in [
        ("/proxy", "10"),
        ("/small.txt", "5"),
        ("/large.txt", "300000"),
    ] {
        let plain = site.get(target);
        assert_eq!(plain.field("Trailer"), None, "{target}");
        assert_eq!(plain.field("Content-Length"), Some(bytes), "{target}");
        let text = site.exchange(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n"
        ));
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nTransfer-Encoding: chunked"), "{head}");
        assert!(head.contains("\r\nTrailer: X-Bytes"), "{head}");
        let (_, end) = body.rsplit_once("\r\n0\r\n").unwrap();
        assert!(end.starts_with(&format!("X-Bytes: {bytes}\r\n")), "{end}");
        let reply = over_http2(site.address(), "GET", target, b"");
        assert_eq!(reply.body.len().to_string(), bytes);
        assert_eq!(reply.trailers["x-bytes"], bytes, "{target}");
        let head = over_http2(site.address(), "HEAD", target, b"");
        assert!(head.trailers.is_empty(), "{target}");
    }
    assert!(
        over_http2(site.address(), "GET", "/missing", b"")
            .trailers
            .is_empty()
    );
    // A field that must not follow a body is refused.
    let refused = site.configure(
        r#"{"listeners": {}, "routes": [{"action": {"return": 200, "trailers": {"Set-Cookie": "a=b"}}}]}"#,
    );
    let faults = format!("{:?}", refused.unwrap_err());
    assert!(faults.contains("cannot follow a body"), "{faults}");
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A server whose responses are always gzip; the path has the name of the text.
fn gzipping(text: &'static [u8]) -> Backend {
    Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let target = asked
                .line()
                .split(' ')
                .nth(1)
                .unwrap_or_default()
                .to_owned();
            let mut body = gzip(text);
            let mut fields = "Content-Encoding: gzip\r\n";
            let mut status = "200 OK";
            match target.as_str() {
                "/fixed" => fields = "Content-Encoding: gzip\r\nCache-Control: no-transform\r\n",
                "/twice" => fields = "Content-Encoding: br\r\nContent-Encoding: gzip\r\n",
                "/part" => {
                    status = "206 Partial Content";
                    fields = "Content-Encoding: gzip\r\nContent-Range: bytes 0-9/100\r\n";
                    body.truncate(10);
                }
                "/cut" => body.truncate(body.len() - 5),
                "/bomb" => body = gzip(&vec![0; 20 << 20]),
                "/text" => body = b"no gzip at all".to_vec(),
                "/empty" => body.clear(),
                "/vary" => fields = "Content-Encoding: x-gzip\r\nVary: Accept-Encoding\r\n",
                _ => {}
            }
            let length = match target.as_str() {
                "/chunked" => {
                    body = [
                        format!("{:x}\r\n", body.len()).as_bytes(),
                        &body,
                        b"\r\n0\r\n\r\n",
                    ]
                    .concat();
                    "Transfer-Encoding: chunked".to_owned()
                }
                _ => format!("Content-Length: {}", body.len()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nETag: \"tag\"\r\nAccept-Ranges: bytes\r\n{fields}{length}\r\n\r\n"
            );
            peer.send(head);
            if !asked.line().starts_with("HEAD") {
                peer.send(body);
            }
        }
    })
}

#[test]
fn gzip_is_decompressed_for_clients_that_do_not_accept_it() {
    static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let lines = (0..30_000).map(|number| format!("<p>line {number}</p>\n"));
        lines.collect::<String>().into_bytes()
    });
    let backend = gzipping(&TEXT);
    let site = site(
        Some(&backend),
        r#", "settings": {"http": {"gunzip": true}}"#,
        r#"{"match": {"uri": "/off"}, "action": {"proxy": "http://BACKEND", "http": {"gunzip": false}}},
            {"match": {"uri": "/replaced"}, "action": {"proxy": "http://BACKEND", "replace": {"find": "<p>line", "with": "<p>LINE"}}},
            {"match": {"uri": "/other"}, "action": {"proxy": "http://BACKEND", "http": {"compression": {"compressors": {"encoding": "br"}}}}},
            {"action": {"proxy": "http://BACKEND"}}"#,
    );
    let packed = gzip(&TEXT);
    for target in ["/", "/chunked", "/vary"] {
        for fields in [
            "",
            "Accept-Encoding: br\r\n",
            "Accept-Encoding: gzip;q=0\r\n",
        ] {
            let reply = site.request("GET", target, fields);
            assert_eq!((reply.status, reply.field("Content-Encoding")), (200, None));
            assert!(reply.is_whole && reply.body == *TEXT, "{target} {fields}");
            assert_eq!(reply.field("Vary"), Some("Accept-Encoding"));
            assert_eq!(reply.field("ETag"), Some("W/\"tag\""));
            assert_eq!(reply.field("Accept-Ranges"), None);
            assert_eq!(reply.field("Content-Length"), None);
        }
        let other = over_http2(site.address(), "GET", target, b"");
        assert!(other.body == *TEXT && other.field("content-encoding").is_none());
        let accepting = site.request("GET", target, "Accept-Encoding: gzip\r\n");
        assert!(accepting.body == packed, "{target}");
        assert_eq!(accepting.field("Vary"), Some("Accept-Encoding"));
        assert_eq!(accepting.field("ETag"), Some("\"tag\""));
    }
    let head = site.request("HEAD", "/", "");
    assert_eq!((head.status, head.field("Content-Encoding")), (200, None));
    assert_eq!(site.get("/empty").text(), "");
    // Texts are replaced afterwards, and the result may be compressed for the client in another way.
    let replaced = site.get("/replaced").text();
    assert!(replaced == String::from_utf8_lossy(&TEXT).replace("<p>line", "<p>LINE"));
    let other = site.request("GET", "/other", "Accept-Encoding: br\r\n");
    assert_eq!(other.field("Content-Encoding"), Some("br"));
    let mut plain = Vec::new();
    brotli::Decompressor::new(other.body.as_slice(), 4096)
        .read_to_end(&mut plain)
        .unwrap();
    assert!(plain == *TEXT);
    // These are passed on as they are.
    for (target, status) in [
        ("/off", 200),
        ("/fixed", 200),
        ("/twice", 200),
        ("/part", 206),
    ] {
        let reply = site.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert!(packed.starts_with(&reply.body), "{target}");
        assert!(reply.field("Content-Encoding").is_some(), "{target}");
    }
}

/// Bytes from a server never become a response of any size, or one that looks complete and is not.
#[test]
fn a_gzip_body_that_is_wrong_or_a_bomb_is_cut_off() {
    let backend = gzipping(b"some text");
    let site = site(
        Some(&backend),
        "",
        r#"{"action": {"proxy": "http://BACKEND", "http": {"gunzip": true}}}"#,
    );
    for (target, most) in [("/cut", 1000), ("/text", 1000), ("/bomb", 64 << 20)] {
        let mut stream = TcpStream::connect(site.address()).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        // The connection may be reset.
        let _ = stream.read_to_end(&mut reply);
        assert!(!reply.ends_with(b"\r\n0\r\n\r\n"), "{target}");
        assert!(reply.len() <= most, "{target}: {}", reply.len());
    }
    // A client that accepts it gets everything.
    let accepting = site.request("GET", "/bomb", "Accept-Encoding: gzip\r\n");
    assert!(accepting.is_whole);
}

/// A page that cannot be sent whole ends the connection. The responses before it in the pipeline have been sent.
#[test]
fn an_overgrown_page_takes_no_earlier_response_along() {
    let long = "x".repeat(64 * 1024);
    let steps = format!(
        r#"{{"match": {{"uri": "/first"}}, "action": {{"return": 200, "body": "the first"}}}},
           {{"action": {{"share": "FOLDER$uri", "replace": {{"find": "a", "with": "{long}"}},
                "access_log": {{"path": "FOLDER/access.log", "format": "$uri $status"}}}}}}"#
    );
    let site = site(None, "", &steps);
    site.write("page.html", "a".repeat(16 * 1024));
    site.age("page.html");
    // Small files are in memory from the second request on.
    for _ in 0..3 {
        let answer = site.exchange(
            "GET /first HTTP/1.1\r\nHost: test\r\n\r\nGET /page.html HTTP/1.1\r\nHost: test\r\n\r\n",
        );
        assert!(answer.contains("\r\n\r\nthe first"), "{answer}");
    }
    let path = site.path().join("access.log");
    wait_until("each of the pages has its line", || {
        std::fs::read_to_string(&path).is_ok_and(|log| log == "/page.html 200\n".repeat(3))
    });
}

#[test]
fn texts_are_replaced_in_pages() {
    let backend = answering(
        "Content-Type: text/html; charset=utf-8\r\nETag: \"tag\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        "<a href=http://inner/a>inner inner</a>{asked}",
    );
    let encoded = answering(
        "Content-Type: text/html\r\nContent-Encoding: gzip\r\n",
        "inner, as if it were gzip",
    );
    let steps = r#"{"match": {"uri": "/encoded"}, "action": {"proxy": "http://ENCODED", "replace": {"find": "inner", "with": "outer"}}},
        {"match": {"uri": "/proxy"}, "action": {"proxy": "http://BACKEND", "request_headers": {"Accept-Encoding": "gzip"}, "replace": [
            {"find": "HTTP://INNER", "with": "https://$host", "ignore_case": true},
            {"find": "inner", "with": "outer", "once": true}]}},
        {"action": {"share": "FOLDER$uri", "replace": {"find": "$name", "with": "value"}}}"#
        .replace("ENCODED", &encoded.address.to_string());
    let more = r#", "settings": {"http": {"compression": {"compressors": {"encoding": "gzip"}}}}"#;
    let site = site(Some(&backend), more, &steps);
    let page = "a $name b ".repeat(30_000);
    site.write("large.html", &page);
    site.write("small.html", "a $name");
    site.write("small.txt", "a $name");
    for name in ["large.html", "small.html", "small.txt"] {
        site.age(name);
    }
    let expected = "<a href=https://test/a>outer inner</a>";
    let reply = site.request(
        "GET",
        "/proxy",
        "Accept-Encoding: br\r\nRange: bytes=0-3\r\n",
    );
    assert_eq!(reply.status, 200);
    let body = reply.text();
    assert!(body.starts_with(expected), "{body}");
    // The server was asked for a whole and plain response.
    assert!(!body.contains("accept-encoding"), "{body}");
    assert!(!body.contains("range"), "{body}");
    assert_eq!(reply.field("ETag"), Some("W/\"tag\""));
    assert_eq!(reply.field("Last-Modified"), None);
    assert_eq!(reply.field("Content-Length"), None);
    let other = over_http2(site.address(), "GET", "/proxy", b"");
    assert!(other.text().starts_with(expected), "{}", other.text());
    // A response that cannot be read is passed on.
    assert_eq!(site.get("/encoded").text(), "inner, as if it were gzip");

    let changed = page.replace("$name", "value");
    assert_eq!(site.get("/large.html").text(), changed);
    assert_eq!(
        over_http2(site.address(), "GET", "/large.html", b"").text(),
        changed
    );
    for fields in ["", "Range: bytes=0-2\r\n"] {
        let reply = site.request("GET", "/small.html", fields);
        assert_eq!((reply.status, reply.text().as_str()), (200, "a value"));
        assert_eq!(reply.field("Accept-Ranges"), None);
        let tag = reply.field("ETag").unwrap().to_owned();
        assert!(tag.starts_with("W/"), "{tag}");
        let same = site.request("GET", "/small.html", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!(same.status, 304);
    }
    // Other types are as they were.
    let reply = site.request("GET", "/small.txt", "Range: bytes=0-2\r\n");
    assert_eq!((reply.status, reply.text().as_str()), (206, "a $"));
    // The changed page is compressed like any other.
    let reply = site.request("GET", "/large.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(reply.field("Content-Encoding"), Some("gzip"));
    assert!(reply.body.len() < changed.len() / 10);
    let head = site.request("HEAD", "/small.html", "");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
}
