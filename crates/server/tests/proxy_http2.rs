//! Requests through the proxy to servers that speak HTTP/2.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use support::Site;
use support::backend::Backend;
use support::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame,
};
use tokio::sync::Semaphore;
use tutti_testkit::{PATIENCE, refusing_address, wait_until};

/// The interval of polling the state of a server.
const POLL: Duration = Duration::from_millis(2);

/// Everything that a server has received, and its conditions to continue.
struct Seen {
    /// Each held request takes one to continue.
    permits: Semaphore,
    connections: AtomicUsize,
    requests: AtomicUsize,
    /// The maximum of concurrent requests on a connection.
    most: AtomicUsize,
    resets: AtomicUsize,
    /// Connections that have ended.
    closed: AtomicUsize,
}

struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
}

impl Server {
    /// Serves in a thread of its own until the test ends.
    fn new(max_streams: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let seen = Arc::new(Seen {
            permits: Semaphore::new(0),
            connections: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    shared.connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(socket, max_streams, Arc::clone(&shared)));
                }
            });
        });
        Self { address, seen }
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }
}

async fn serve(socket: tokio::net::TcpStream, max_streams: u32, seen: Arc<Seen>) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(max_streams);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else {
        return;
    };
    let active = Arc::new(AtomicUsize::new(0));
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (seen, active) = (Arc::clone(&seen), Arc::clone(&active));
        seen.requests.fetch_add(1, Ordering::SeqCst);
        let now = active.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        tokio::spawn(async move {
            answer(request, respond, &seen).await;
            active.fetch_sub(1, Ordering::SeqCst);
        });
    }
    seen.closed.fetch_add(1, Ordering::SeqCst);
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, seen: &Seen) {
    let (head, mut body) = request.into_parts();
    let response = |length: Option<usize>| {
        let mut response = Response::builder().status(200).header("x-own", "1");
        if let Some(length) = length {
            response = response.header("content-length", length);
        }
        response.body(()).unwrap()
    };
    match head.uri.path() {
        "/head" => {
            let mut text = format!("{} {}\n", head.method, head.uri);
            for (name, value) in &head.headers {
                text += &format!("{name}: {}\n", value.to_str().unwrap());
            }
            let mut stream = respond
                .send_response(response(Some(text.len())), false)
                .unwrap();
            stream.send_data(text.into(), true).unwrap();
        }
        "/echo" => {
            let mut stream = respond.send_response(response(None), false).unwrap();
            let mut count = 0;
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                count += data.len();
                body.flow_control().release_capacity(data.len()).unwrap();
                send(&mut stream, data).await;
            }
            let mut trailers = body.trailers().await.unwrap().unwrap_or_default();
            trailers.insert("x-count", HeaderValue::from(count));
            trailers.insert("set-cookie", HeaderValue::from_static("a=1"));
            stream.send_trailers(trailers).unwrap();
        }
        "/counted" => {
            let mut stream = respond.send_response(response(Some(4)), false).unwrap();
            stream.send_data("body".into(), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-end", HeaderValue::from_static("yes"));
            stream.send_trailers(trailers).unwrap();
        }
        "/nothing" => {
            let mut response = response(None);
            let fields = response.headers_mut();
            fields.insert("grpc-status", HeaderValue::from_static("5"));
            respond.send_response(response, true).unwrap();
        }
        "/large" => {
            let mut stream = respond.send_response(response(None), false).unwrap();
            for _ in 0..200 {
                send(&mut stream, Bytes::from(vec![b'x'; 50_000])).await;
            }
            let _ = stream.send_data(Bytes::new(), true);
        }
        "/held" => {
            seen.permits.acquire().await.unwrap().forget();
            respond.send_response(response(None), true).unwrap();
        }
        "/hold" => {
            let reset = poll_fn(|context| respond.poll_reset(context)).await;
            assert_eq!(reset.unwrap(), Reason::CANCEL);
            seen.resets.fetch_add(1, Ordering::SeqCst);
        }
        "/broken" => {
            let mut stream = respond.send_response(response(None), false).unwrap();
            stream.send_data("part".into(), false).unwrap();
            seen.permits.acquire().await.unwrap().forget();
            stream.send_reset(Reason::ENHANCE_YOUR_CALM);
        }
        _ => respond.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// Sends as fast as the receiver reads. Drops the rest when the receiver has closed.
async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes) {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(Ok(room)) = poll_fn(|context| stream.poll_capacity(context)).await else {
            return;
        };
        let piece = data.split_to(room.min(data.len()));
        if stream.send_data(piece, false).is_err() {
            return;
        }
    }
}

fn site(address: SocketAddr, options: &str) -> Site {
    let comma = if options.is_empty() { "" } else { ", " };
    let options = format!(r#""http_version": 2{comma}{options}"#);
    Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"proxy": "http://{address}", "proxy_options": {{{options}}}}}}}]}}"#
        )
    })
}

/// Runs a client of the `h2` crate.
fn with_client<F: Future>(site: &Site, talk: impl FnOnce(SendRequest<Bytes>) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = site.address();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let client = client.ready().await.unwrap();
        tokio::time::timeout(PATIENCE, talk(client))
            .await
            .expect("an answer in time")
    })
}

fn begin(
    client: &SendRequest<Bytes>,
    path: &str,
    is_over: bool,
) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::builder()
        .method(if is_over { "GET" } else { "POST" })
        .uri(format!("http://test{path}"))
        .header("te", "trailers");
    let request = request.body(()).unwrap();
    client.clone().send_request(request, is_over).unwrap()
}

/// Waits until the counter of a server has this value.
async fn until(seen: &AtomicUsize, count: usize) {
    while seen.load(Ordering::SeqCst) < count {
        tokio::time::sleep(POLL).await;
    }
}

/// Returns the body and the trailer fields.
async fn read(mut body: RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        bytes.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
    Ok((bytes, body.trailers().await?))
}

#[test]
fn a_request_is_translated() {
    let server = Server::new(100);
    let site = site(server.address, "");
    let mut client = site.connect();
    client.send(
        "GET /head?q=1 HTTP/1.1\r\nHost: name:81\r\nConnection: X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nX-Own: v\r\n\r\n",
    );
    let answer = client.response("GET");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("x-own"), Some("1"));
    assert_eq!(
        answer.text(),
        "GET http://name:81/head?q=1\nx-own: v\nte: trailers\n"
    );
    // A body from HTTP/1.1, and trailer fields in the response.
    let body = "0123456789".repeat(30_000);
    client.send(format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(client.response("POST").text(), body);
    let answer = site.exchange(
        "POST /echo HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    );
    assert!(
        answer.ends_with("\r\n\r\n2\r\nhi\r\n0\r\nx-count: 2\r\n\r\n"),
        "{answer}"
    );
    assert_eq!(server.connections(), 1);
}

#[test]
fn bytes_go_both_ways_at_once_and_trailers_too() {
    let server = Server::new(100);
    let site = site(server.address, "");
    with_client(&site, |client| async move {
        let (response, mut up) = begin(&client, "/echo", false);
        up.send_data("one".into(), false).unwrap();
        let mut body = response.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "one");
        up.send_data("second".into(), false).unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), "second");
        let mut trailers = HeaderMap::new();
        trailers.insert("x-from-client", HeaderValue::from_static("yes"));
        trailers.insert("authorization", HeaderValue::from_static("no"));
        up.send_trailers(trailers).unwrap();
        let (rest, trailers) = read(body).await.unwrap();
        assert!(rest.is_empty());
        let trailers = trailers.unwrap();
        assert_eq!(trailers["x-count"], "9");
        assert_eq!(trailers["x-from-client"], "yes");
        assert_eq!(trailers.len(), 2, "{trailers:?}");
    });
}

/// A client could send a field after the body that it may not send in the head.
#[test]
fn a_clients_trailers_have_no_fields_of_the_server() {
    let server = Server::new(100);
    let address = server.address;
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"proxy": "http://{address}", "proxy_options": {{"http_version": 2}},
                     "request_headers": {{"X-User": "alice", "X-Role": null}}}}}}]}}"#
        )
    });
    with_client(&site, |client| async move {
        let (response, mut up) = begin(&client, "/echo", false);
        let mut trailers = HeaderMap::new();
        for name in ["x-user", "x.user", "x-role", "client-cert", "x-sum"] {
            trailers.insert(name, HeaderValue::from_static("root"));
        }
        up.send_trailers(trailers).unwrap();
        let (_, trailers) = read(response.await.unwrap().into_body()).await.unwrap();
        let trailers = trailers.unwrap();
        assert_eq!(trailers["x-sum"], "root");
        assert_eq!(trailers["x-count"], "0");
        assert_eq!(trailers.len(), 2, "{trailers:?}");
    });
}

#[test]
fn answers_end_as_they_do_at_the_server() {
    let server = Server::new(100);
    let site = site(server.address, "");
    with_client(&site, |client| async move {
        let response = begin(&client, "/counted", true).0.await.unwrap();
        assert_eq!(response.headers()["content-length"], "4");
        let (bytes, trailers) = read(response.into_body()).await.unwrap();
        assert_eq!(bytes, b"body");
        assert_eq!(trailers.unwrap()["x-end"], "yes");
        // An immediate error in gRPC is a head alone.
        let response = begin(&client, "/nothing", true).0.await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "5");
        assert!(response.body().is_end_stream());
        let response = begin(&client, "/broken", true).0.await.unwrap();
        server.seen.permits.add_permits(1);
        let error = read(response.into_body()).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
        let response = begin(&client, "/unknown", true).0.await.unwrap();
        assert_eq!(response.status(), 502);
    });
}

#[test]
fn one_connection_carries_as_many_requests_as_its_server_takes() {
    for (most, connections) in [(100, 1..=1), (4, 5..=20)] {
        let server = Server::new(most);
        let site = site(server.address, "");
        let seen = &server.seen;
        with_client(&site, |client| async move {
            // The server's settings are known then.
            begin(&client, "/nothing", true).0.await.unwrap();
            let asked: Vec<_> = (0..20).map(|_| begin(&client, "/held", true).0).collect();
            until(&seen.requests, 21).await;
            seen.permits.add_permits(20);
            for response in asked {
                assert_eq!(response.await.unwrap().status(), 200);
            }
        });
        assert!(connections.contains(&server.connections()), "{most}");
        assert!(server.seen.most.load(Ordering::SeqCst) <= most as usize);
        assert_eq!(server.seen.requests.load(Ordering::SeqCst), 21);
    }
}

#[test]
fn a_client_that_takes_nothing_delays_no_other_client() {
    let server = Server::new(100);
    let site = site(server.address, "");
    let asked = &site;
    with_client(&site, |client| async move {
        let held: Vec<_> = (0..5).map(|_| begin(&client, "/large", true).0).collect();
        let mut bodies = Vec::new();
        for response in held {
            // Its window is never reopened.
            bodies.push(response.await.unwrap().into_body());
        }
        let answer = asked.get("/large");
        assert_eq!(answer.body.len(), 10_000_000);
        drop(bodies);
    });
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_client_that_goes_takes_its_request_back() {
    let server = Server::new(100);
    let site = site(server.address, "");
    with_client(&site, |client| async move {
        let (response, mut up) = begin(&client, "/hold", false);
        up.send_data("x".into(), false).unwrap();
        until(&server.seen.requests, 1).await;
        drop(response);
        up.send_reset(Reason::CANCEL);
        drop(up);
        until(&server.seen.resets, 1).await;
    });
}

#[test]
fn an_idle_connection_is_closed_and_a_new_one_opened() {
    let server = Server::new(100);
    let site = site(server.address, r#""keepalive_timeout": 0.05"#);
    assert_eq!(site.get("/nothing").status, 200);
    let closed = || server.seen.closed.load(Ordering::SeqCst) == 1;
    wait_until("its connection to be closed", closed);
    assert_eq!(site.get("/nothing").status, 200);
    assert_eq!(server.connections(), 2);
}

/// `:status: 200` of the static table (RFC 7541, appendix A).
const OK: [u8; 1] = [0x88];

/// A server that responds to each request with the frames of `script`, whose argument is the number of the request.
fn frames(script: impl Fn(usize, u32) -> Vec<u8> + Send + Sync + 'static) -> Backend {
    frames_on(move |_, number, stream| script(number, stream))
}

/// The same; the first argument is the number of the connection.
fn frames_on(script: impl Fn(usize, usize, u32) -> Vec<u8> + Send + Sync + 'static) -> Backend {
    let count = AtomicUsize::new(0);
    Backend::new(move |peer| {
        use std::io::Read as _;
        let mut preface = [0; 24];
        peer.stream.read_exact(&mut preface).unwrap();
        peer.send(frame(SETTINGS, 0, 0, &[]));
        loop {
            let mut head = [0; 9];
            if peer.stream.read_exact(&mut head).is_err() {
                return;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length];
            peer.stream.read_exact(&mut payload).unwrap();
            if head[3] == HEADERS {
                let number = count.fetch_add(1, Ordering::SeqCst);
                peer.send(script(peer.number, number, stream));
            }
        }
    })
}

fn answered(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &OK)
}

fn post(site: &Site) -> u16 {
    let mut client = site.connect();
    client.send("POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody");
    client.response("POST").status
}

#[test]
fn unprocessed_requests_are_retried() {
    // Refused, twice.
    let server = frames(|number, stream| match number {
        0 | 1 => frame(RST_STREAM, 0, stream, &7_u32.to_be_bytes()),
        _ => answered(stream),
    });
    let site_ = site(server.address, "");
    assert_eq!(post(&site_), 200);
    // The server sends GOAWAY with no processed request.
    let server = frames(|number, stream| match number {
        0 => frame(GOAWAY, 0, 0, &[0; 8]),
        _ => answered(stream),
    });
    let site_ = site(server.address, "");
    assert_eq!(post(&site_), 200);
    assert_eq!(server.connections(), 2);
    // It may have been processed.
    for reason in [2_u32, 8] {
        let server = frames(move |_, stream| frame(RST_STREAM, 0, stream, &reason.to_be_bytes()));
        let site_ = site(server.address, "");
        assert_eq!(post(&site_), 502);
        let line = "ended the request before it was answered: ";
        wait_until("its line in the log", || {
            let lines = site_.log.lines();
            lines.iter().any(|text| text.contains(line))
        });
    }
    // Every time.
    let server = frames(|_, stream| frame(RST_STREAM, 0, stream, &7_u32.to_be_bytes()));
    assert_eq!(post(&site(server.address, "")), 502);
}

#[test]
fn requests_before_goaway_are_answered() {
    let server = frames(|_, stream| {
        let mut last = stream.to_be_bytes().to_vec();
        last.extend([0; 4]);
        let mut bytes = frame(GOAWAY, 0, 0, &last);
        bytes.extend(answered(stream));
        bytes
    });
    let site = site(server.address, "");
    for _ in 0..3 {
        assert_eq!(post(&site), 200);
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn failures_become_grpc_statuses() {
    let site = site(refusing_address(), "");
    let ask = |kind: &str| {
        let mut client = site.connect();
        client.send(format!(
            "POST /a.b/C HTTP/1.1\r\nHost: test\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n\r\n"
        ));
        client.response("POST")
    };
    for kind in [
        "application/grpc",
        "application/grpc+proto",
        "Application/gRPC;x=y",
    ] {
        let answer = ask(kind);
        assert_eq!(answer.status, 200, "{kind}");
        assert_eq!(answer.field("content-type"), Some("application/grpc"));
        assert_eq!(answer.field("grpc-status"), Some("14"));
        assert_eq!(answer.field("grpc-message"), Some("502 Bad Gateway"));
        assert_eq!(answer.text(), "");
    }
    for kind in ["application/grpc-web", "text/plain", "application/grp"] {
        assert_eq!(ask(kind).status, 502, "{kind}");
    }
}

/// 100 (Continue) counted as the beginning of the answer, so that the client lost its connection.
#[test]
fn a_failure_after_100_is_an_answer() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    let server = frames(move |_, stream| {
        receiver.lock().unwrap().recv().unwrap();
        // INTERNAL_ERROR.
        frame(RST_STREAM, 0, stream, &2_u32.to_be_bytes())
    });
    let site = site(server.address, r#""request_buffering": false"#);
    let mut client = site.connect();
    client.send(
        "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.response("POST").status, 100);
    sender.send(()).unwrap();
    assert_eq!(client.response("POST").status, 502);
}

/// A server that has vanished without closing its connection failed all requests until the kernel gave the connection up.
#[test]
fn a_silent_connection_gets_no_more_requests_after_a_timeout() {
    let server = frames_on(|connection, number, stream| match (connection, number) {
        (0, 1..) => Vec::new(),
        _ => answered(stream),
    });
    let site = site(server.address, r#""read_timeout": 3, "retries": 0"#);
    let backend = &server;
    with_client(&site, |client| async move {
        // Nothing comes from the server after this.
        assert_eq!(begin(&client, "/", true).0.await.unwrap().status(), 200);
        let first = begin(&client, "/", true).0;
        let second = begin(&client, "/", true).0;
        assert_eq!(first.await.unwrap().status(), 504);
        // The second still waits, or has just failed.
        assert_eq!(
            begin(&client, "/", true).0.await.unwrap().status(),
            200,
            "on another connection"
        );
        assert_eq!(second.await.unwrap().status(), 504);
        assert_eq!(begin(&client, "/", true).0.await.unwrap().status(), 200);
        assert_eq!(backend.connections(), 2);
    });
}

#[test]
fn a_connection_with_other_answers_outlasts_a_timeout() {
    let server = frames(|number, stream| match number {
        0 => Vec::new(),
        _ => {
            // Longer than the unit of the clock by which the connection is judged.
            let asked = Instant::now();
            wait_until("the clock to go on", || {
                asked.elapsed() > Duration::from_millis(20)
            });
            answered(stream)
        }
    });
    let site = site(server.address, r#""read_timeout": 3, "retries": 0"#);
    let backend = &server;
    with_client(&site, |client| async move {
        let first = begin(&client, "/", true).0;
        let other = begin(&client, "/", true).0;
        assert_eq!(other.await.unwrap().status(), 200);
        assert_eq!(first.await.unwrap().status(), 504);
        assert_eq!(begin(&client, "/", true).0.await.unwrap().status(), 200);
        assert_eq!(backend.connections(), 1);
    });
}

/// The client got the code of a server whose failure it never saw.
#[test]
fn the_code_of_a_failure_that_was_repeated_is_discarded() {
    let resetting = frames(|_, stream| {
        let reason: u32 = Reason::ENHANCE_YOUR_CALM.into();
        frame(RST_STREAM, 0, stream, &reason.to_be_bytes())
    });
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let breaking = Backend::new(move |peer| {
        use std::io::Read as _;
        let mut bytes = [0; 512];
        let mut answer = frame(SETTINGS, 0, 0, &[]);
        answer.extend(frame(HEADERS, END_HEADERS, 1, &OK));
        answer.extend(frame(DATA, 0, 1, b"part"));
        let _ = peer.stream.read(&mut bytes);
        peer.send(answer);
        // The connection is closed in the middle of the response.
        let _ = wait.lock().unwrap().recv();
    });
    let text = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"http_version": 2,
                 "servers": {{"{}": {{}}, "{}": {{"backup": true}}}}}}}}}}"#,
        resetting.address, breaking.address
    );
    let site = Site::new(1, move |_| text.clone());
    let error = with_client(&site, |client| async move {
        let response = begin(&client, "/", true).0.await.unwrap();
        assert_eq!(response.status(), 200);
        go.send(()).unwrap();
        read(response.into_body()).await.unwrap_err()
    });
    assert!(error.is_reset(), "{error}");
    assert_ne!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
}

#[test]
fn a_server_of_http1_is_a_failure_with_its_reason() {
    let server = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let site = site(server.address, "");
    assert_eq!(post(&site), 502);
}

#[test]
fn a_status_moves_a_request_to_the_next_server() {
    // `:status: 404` of the static table.
    let lacking = frames(|_, stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x8d]));
    let good = frames(|_, stream| answered(stream));
    let text = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"http_version": 2, "retry_statuses": [404], "sticky": {{}},
                 "servers": {{"{}": {{}}, "{}": {{}}}}}}}}}}"#,
        lacking.address, good.address
    );
    let site = Site::new(1, move |_| text.clone());
    for _ in 0..4 {
        assert_eq!(site.get("/").status, 200);
    }
    site.log
        .wait_for(&format!("server {}: answered 404", lacking.address));
    let (status, cookies) = with_client(&site, |client| async move {
        let (response, _) = begin(&client, "/x", true);
        let response = response.await.unwrap();
        let cookies = response.headers().get_all("set-cookie").iter().count();
        (response.status().as_u16(), cookies)
    });
    assert_eq!(
        (status, cookies),
        (200, 1),
        "that of the server that answered"
    );
}
