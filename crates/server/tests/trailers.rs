//! Trailer fields on their way through the proxy.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use support::Site;
use support::backend::Backend;
use tokio::runtime::Runtime;

fn proxy(backend: &Backend) -> Site {
    let address = backend.address;
    Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"proxy": "http://{address}"}}}}]}}"#
        )
    })
}

/// Answers every request with a body and these trailer lines.
fn trailing(lines: &'static str) -> Backend {
    Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let received = asked.field("TE").unwrap_or("nothing").to_owned();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nX-Te: {received}\r\n\r\n4\r\nbody\r\n0\r\n{lines}\r\n"
            ));
        }
    })
}

const LINES: &str =
    "X-Sum: 1\r\nSet-Cookie: a=1\r\nAuthorization: x\r\nX-Forwarded-For: 1.2.3.4\r\nx-end:  z \r\n";

#[test]
fn a_client_of_http1_gets_trailers_if_it_takes_them() {
    let backend = trailing(LINES);
    let site = proxy(&backend);
    let ask = |fields: &str| {
        site.exchange(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n"
        ))
    };
    for fields in ["TE: trailers\r\n", "te: gzip;q=0.5, Trailers\r\n"] {
        let answer = ask(fields);
        assert!(answer.contains("X-Te: trailers\r\n"), "{answer}");
        let end = "\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\nx-end: z\r\n\r\n";
        assert!(answer.ends_with(end), "{answer}");
    }
    for fields in ["", "TE: gzip\r\n", "TE: x-trailers\r\n"] {
        let answer = ask(fields);
        assert!(answer.contains("X-Te: nothing\r\n"), "{answer}");
        assert!(
            answer.ends_with("\r\n\r\n4\r\nbody\r\n0\r\n\r\n"),
            "{answer}"
        );
    }
    let answer = site.exchange("GET / HTTP/1.0\r\nTE: trailers\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

async fn http2_client(address: SocketAddr) -> SendRequest<Bytes> {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// Returns the body and the trailer fields.
async fn read(mut body: RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        bytes.extend_from_slice(&data.unwrap());
    }
    let trailers = body.trailers().await.unwrap();
    (bytes, trailers)
}

/// Returns the trailer fields of a response that is `body`.
fn over_http2(address: SocketAddr) -> Option<HeaderMap> {
    runtime().block_on(async {
        let mut client = http2_client(address).await;
        let request = Request::get("http://test/").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let (bytes, trailers) = read(response.await.unwrap().into_body()).await;
        assert_eq!(bytes, b"body");
        trailers
    })
}

#[test]
fn a_client_of_http2_gets_trailers() {
    let backend = trailing(LINES);
    let site = proxy(&backend);
    let trailers = over_http2(site.address()).unwrap();
    assert_eq!(trailers.len(), 2, "{trailers:?}");
    assert_eq!(trailers["x-sum"], "1");
    assert_eq!(trailers["x-end"], "z");
    let backend = trailing("Cookie: a\r\n");
    assert_eq!(over_http2(proxy(&backend).address()), None);
}

/// A server of HTTP/1 gets a body with its length, so without trailer fields.
#[test]
fn a_server_of_http1_sees_none_of_a_request() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let seen = [asked.head.as_bytes(), &asked.body].concat();
            peer.answer(&seen);
        }
    });
    let site = proxy(&backend);
    let mut client = site.connect();
    for _ in 0..2 {
        client.send(
            "POST /a HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n4\r\nbody\r\n0\r\nX-Late: 1\r\nCookie: a\r\n\r\n",
        );
        let seen = client.response("POST").text().to_lowercase();
        assert!(seen.ends_with("\r\n\r\nbody"), "{seen}");
        for name in ["x-late", "cookie", "trailer"] {
            assert!(!seen.contains(name), "{seen}");
        }
    }
    let seen = runtime().block_on(async {
        let mut client = http2_client(site.address()).await;
        let request = Request::post("http://test/a").body(()).unwrap();
        let (response, mut stream) = client.send_request(request, false).unwrap();
        stream
            .send_data(Bytes::from_static(b"body"), false)
            .unwrap();
        let late = [("x-late", "1"), ("cookie", "a")].map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        stream.send_trailers(HeaderMap::from_iter(late)).unwrap();
        read(response.await.unwrap().into_body()).await.0
    });
    let seen = String::from_utf8(seen).unwrap().to_lowercase();
    assert!(seen.ends_with("\r\n\r\nbody"), "{seen}");
    assert!(
        !seen.contains("x-late") && !seen.contains("cookie"),
        "{seen}"
    );
}

#[test]
fn a_trailer_that_frames_spoils_its_answer() {
    for line in ["Content-Length: 4\r\n", "X : 1\r\n", "Host: other\r\n"] {
        let backend = trailing(line.to_owned().leak());
        let site = proxy(&backend);
        let answer = site
            .exchange("GET / HTTP/1.1\r\nHost: test\r\nTE: trailers\r\nConnection: close\r\n\r\n");
        assert!(!answer.contains("0\r\n\r\n"), "{line}: {answer}");
    }
}
