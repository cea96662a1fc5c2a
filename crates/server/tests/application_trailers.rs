//! Interim responses and trailer fields of applications, and trailer fields of clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use support::Site;
use support::app::App;
use support::backend::Backend;
use tutti_pool::Limits;
use tutti_testkit::{Gate, PATIENCE};

/// A request of a client of HTTP/2.
struct TrailerRequest {
    method: Method,
    target: String,
    body: &'static [u8],
    trailers: HeaderMap,
}

impl TrailerRequest {
    fn get(target: &str) -> Self {
        Self {
            method: Method::GET,
            target: target.to_owned(),
            body: b"",
            trailers: HeaderMap::new(),
        }
    }
}

/// Returns the head of the response, its body and the trailer fields. `seen` is called when the head has arrived.
fn over_http2(
    address: SocketAddr,
    asked: TrailerRequest,
    seen: impl FnOnce(),
) -> (HeaderMap, Vec<u8>, HeaderMap) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let talk = async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let request = Request::builder()
            .method(asked.method)
            .uri(format!("http://test{}", asked.target));
        let request = request.body(()).unwrap();
        let has_body = !asked.body.is_empty();
        let (response, mut stream) = client.send_request(request, !has_body).unwrap();
        if has_body {
            let body = Bytes::from_static(asked.body);
            stream.send_data(body, false).unwrap();
            stream.send_trailers(asked.trailers).unwrap();
        }
        let response: Response<_> = response.await.unwrap();
        let (head, mut receiving) = response.into_parts();
        assert_eq!(head.status, 200);
        seen();
        let mut body = Vec::new();
        while let Some(data) = receiving.data().await {
            body.extend_from_slice(&data.unwrap());
        }
        let trailers = receiving.trailers().await.unwrap().unwrap_or_default();
        (head.headers, body, trailers)
    };
    runtime.block_on(async {
        let talk = tokio::time::timeout(PATIENCE, talk);
        talk.await.expect("an answer in time")
    })
}

/// Checks the trailer fields: exactly those that an application of the sample host may send.
fn check(trailers: &HeaderMap) {
    assert_eq!(trailers.len(), 2, "{trailers:?}");
    assert_eq!(trailers["x-sum"], "1");
    assert_eq!(trailers["x-end"], "z");
}

#[test]
fn a_client_of_http1_gets_fields_that_the_head_has_announced_if_it_takes_them() {
    let app = App::new(1);
    let ask = |target: &str, fields: &str| {
        app.site.exchange(format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n"
        ))
    };
    let end = "\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\nX-End: z\r\n\r\n";
    let answer = ask("/trail?announced=1", "TE: trailers\r\n");
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nTrailer: X-Sum, X-End"), "{answer}");
    assert!(answer.ends_with(end), "{answer}");
    for (target, fields) in [
        ("/trail?announced=1", ""),
        ("/trail?announced=1", "TE: gzip\r\n"),
        ("/trail", "TE: trailers\r\n"),
        // A body with a length has no place for them.
        ("/trail?announced=1&length=4", "TE: trailers\r\n"),
    ] {
        let answer = ask(target, fields);
        assert!(answer.contains("body"), "{answer}");
        let (_, behind) = answer.split_once("\r\n\r\n").unwrap();
        for name in ["X-Sum: ", "X-End: ", "Set-Cookie", "Authorization"] {
            assert!(!answer.contains(name), "{target} {fields}: {answer}");
        }
        assert!(!behind.contains(':'), "{target} {fields}: {answer}");
    }
    let answer = app
        .site
        .exchange("GET /trail?announced=1 HTTP/1.0\r\nTE: trailers\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
    assert!(!answer.contains("X-Sum"), "{answer}");
}

/// One response is complete when its head is sent; the body of the other ends later.
#[test]
fn a_client_of_http2_gets_fields_also_unannounced() {
    let app = App::new(1);
    for announced in ["", "&announced=1"] {
        let target = format!("/trail?a=b{announced}");
        let (head, body, trailers) =
            over_http2(app.site.address(), TrailerRequest::get(&target), || {});
        assert_eq!(body, b"body");
        assert_eq!(head.contains_key("trailer"), !announced.is_empty());
        assert!(!head.contains_key("x-sum"), "{head:?}");
        check(&trailers);
        let gate = Gate::new();
        let target = format!("{target}&file={}", gate.file().display());
        let asked = TrailerRequest::get(&target);
        let (_, body, trailers) = over_http2(app.site.address(), asked, || gate.open());
        assert_eq!(body, b"body");
        check(&trailers);
    }
    // With a length, the head must announce the trailer fields.
    let asked = TrailerRequest::get("/trail?length=4");
    let (head, body, trailers) = over_http2(app.site.address(), asked, || {});
    assert_eq!(
        (&head["content-length"], body.len()),
        (&"4".parse().unwrap(), 4)
    );
    assert!(trailers.is_empty(), "{trailers:?}");
    let asked = TrailerRequest::get("/trail?length=4&announced=1");
    check(&over_http2(app.site.address(), asked, || {}).2);
}

/// The server's own trailer fields take the length off the head, and the client must see nevertheless that a response was cut short.
#[test]
fn a_response_with_the_servers_trailers_has_the_declared_length() {
    let app = App::new(1);
    let ask = |length: &str| {
        let target = format!("/own/trail?length={length}");
        app.site.exchange(format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTE: trailers\r\n\r\n"
        ))
    };
    for (length, body) in [("4", "4\r\nbody\r\n"), ("3", "3\r\nbod\r\n")] {
        let answer = ask(length);
        let end = format!("\r\n\r\n{body}0\r\nX-Own: yes\r\n\r\n");
        assert!(answer.ends_with(&end), "{length}: {answer}");
    }
    let answer = ask("5");
    assert!(
        answer.contains("\r\nTransfer-Encoding: chunked\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\n4\r\nbody\r\n"), "{answer}");
}

/// A response without trailer fields has its length as usual, and HEAD has none.
#[test]
fn a_client_of_http2_gets_the_length_where_nothing_follows() {
    let app = App::new(1);
    // A worker may be interrupted between its head and its end, but not each time.
    let has_length = (0..20).any(|_| {
        let (head, body, trailers) =
            over_http2(app.site.address(), TrailerRequest::get("/echo"), || {});
        assert!(trailers.is_empty(), "{trailers:?}");
        let length = head.get("content-length");
        length.is_some_and(|length| *length == body.len().to_string())
    });
    assert!(has_length);
    let asked = TrailerRequest {
        method: Method::HEAD,
        ..TrailerRequest::get("/trail?announced=1")
    };
    let (_, body, trailers) = over_http2(app.site.address(), asked, || {});
    assert!(body.is_empty() && trailers.is_empty(), "{trailers:?}");
}

/// An interim response has no body. Framing fields in it would let the client take the final response for its body.
#[test]
fn an_interim_answer_says_nothing_of_framing() {
    let whole = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\n";
    let app = App::with(1, Limits::default(), r#"{"early_hints": "always"}"#);
    let answer = app
        .site
        .exchange("GET /trail HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with(whole), "{answer}");
    let backend = Backend::answering(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Length: 50\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let address = backend.address;
    let site = Site::new(1, |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {{"early_hints": "always"}}}},
                 "routes": [{{"action": {{"proxy": "http://{address}"}}}}]}}"#
        )
    });
    let answer = site.exchange("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with(whole), "{answer}");
}

/// Trailer fields appear neither in their request nor in the next one of the connection.
#[test]
fn an_application_sees_no_field_that_came_behind_a_body() {
    let late = [
        ("x-late", "1"),
        ("cookie", "late"),
        ("x-remote-user", "late"),
    ];
    let check = |seen: &str| {
        let seen = seen.to_lowercase();
        assert!(seen.contains("field host: test"), "{seen}");
        assert!(!seen.contains("late") && !seen.contains("cookie"), "{seen}");
    };
    for app in [App::new(1), App::streaming(1, Limits::default(), "{}")] {
        let mut client = app.site.connect();
        let lines = late.map(|(name, value)| format!("{name}: {value}\r\n"));
        let post = format!(
            "POST /head HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n{}\r\n",
            lines.concat()
        );
        client.send(format!(
            "{post}{post}GET /head HTTP/1.1\r\nHost: test\r\n\r\n"
        ));
        for method in ["POST", "POST", "GET"] {
            check(&client.response(method).text());
        }
        let trailers = late.map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        let asked = TrailerRequest {
            method: Method::POST,
            body: b"body",
            trailers: HeaderMap::from_iter(trailers),
            ..TrailerRequest::get("/head")
        };
        let (_, seen, _) = over_http2(app.site.address(), asked, || {});
        check(&String::from_utf8(seen).unwrap());
    }
}
