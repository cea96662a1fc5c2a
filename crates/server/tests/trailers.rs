//! Trailer fields on their way through the proxy.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::net::SocketAddr;

use http::{HeaderMap, Request};
use support::Site;
use support::backend::Backend;

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
            let told = asked.field("TE").unwrap_or("nothing").to_owned();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nX-Te: {told}\r\n\r\n4\r\nbody\r\n0\r\n{lines}\r\n"
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

/// The trailers of an answer that is `body`.
fn over_http2(address: SocketAddr) -> Option<HeaderMap> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let request = Request::get("http://test/").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let mut body = response.await.unwrap().into_body();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            bytes.extend_from_slice(&data.unwrap());
        }
        assert_eq!(bytes, b"body");
        body.trailers().await.unwrap()
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
