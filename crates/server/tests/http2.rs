//! HTTP/2 through the whole router: the same responses as over HTTP/1, windows, streamed bodies, the start and end of connections. Hostile
//! clients are in `http2_hostile.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, StatusCode};
use support::Site;
use support::app::App;
use support::backend::Backend;
use support::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, OK, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, get,
};
use tutti_pool::Limits;
use tutti_testkit::{Gate, PATIENCE, client::Client, wait_until};

type Fields<'a> = &'a [(&'a str, &'a str)];

struct ReceivedResponse {
    status: StatusCode,
    fields: HeaderMap,
    body: Vec<u8>,
}

impl ReceivedResponse {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Runs a client of the `h2` crate.
fn with_client<F: Future>(
    address: SocketAddr,
    talk: impl FnOnce(SendRequest<Bytes>) -> F,
) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut builder = h2::client::Builder::new();
        // A client may assume this limit before the server's SETTINGS arrive (RFC 9113 §6.5.2).
        builder.initial_max_send_streams(100);
        let (client, connection) = builder.handshake(socket).await.unwrap();
        let connection = tokio::spawn(connection);
        let outcome = tokio::time::timeout(PATIENCE, talk(client))
            .await
            .expect("an answer in time");
        connection.abort();
        outcome
    })
}

fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://test{target}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Sends a request, its body in these pieces, and reads the answer.
async fn exchange(
    client: &SendRequest<Bytes>,
    request: Request<()>,
    body: Vec<Bytes>,
) -> Result<ReceivedResponse, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (response, mut stream) = client.send_request(request, body.is_empty())?;
    let count = body.len();
    for (index, mut piece) in body.into_iter().enumerate() {
        if piece.is_empty() {
            stream.send_data(piece, index + 1 == count)?;
            continue;
        }
        loop {
            stream.reserve_capacity(piece.len());
            let room = match std::future::poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(room) => room?,
                // Answered before all was sent.
                None => break,
            };
            let part = piece.split_to(room.min(piece.len()));
            let is_last = index + 1 == count && piece.is_empty();
            stream.send_data(part, is_last)?;
            if piece.is_empty() {
                break;
            }
        }
    }
    let (head, mut receive) = response.await?.into_parts();
    let mut answer = ReceivedResponse {
        status: head.status,
        fields: head.headers,
        body: Vec::new(),
    };
    while let Some(data) = receive.data().await {
        let data = data?;
        answer.body.extend_from_slice(&data);
        receive.flow_control().release_capacity(data.len())?;
    }
    Ok(answer)
}

fn ask(address: SocketAddr, request: Request<()>, body: Vec<Bytes>) -> ReceivedResponse {
    with_client(address, |client| async move {
        exchange(&client, request, body).await.unwrap()
    })
}

#[test]
fn answers_are_those_of_http1() {
    let site = Site::sharing("{}");
    let large: Vec<u8> = (0..3_000_000_u32)
        .map(|number| (number / 7) as u8)
        .collect();
    site.write("small.txt", "small");
    site.write("large.bin", &large);
    site.write("empty.txt", "");
    site.write("folder/index.html", "index");
    for name in ["small.txt", "large.bin", "empty.txt", "folder/index.html"] {
        site.age(name);
    }
    let cases: &[(&str, &str, Fields<'_>)] = &[
        ("GET", "/small.txt", &[]),
        ("HEAD", "/small.txt", &[]),
        ("GET", "/large.bin", &[]),
        ("HEAD", "/large.bin", &[]),
        ("GET", "/empty.txt", &[]),
        ("GET", "/large.bin", &[("range", "bytes=1000000-1000009")]),
        (
            "GET",
            "/large.bin",
            &[("range", "bytes=1-2,2000000-2999999")],
        ),
        ("GET", "/small.txt", &[("range", "bytes=9-")]),
        ("GET", "/small.txt", &[("if-none-match", "*")]),
        ("GET", "/folder", &[]),
        ("GET", "/folder/", &[]),
        ("GET", "/missing", &[]),
        ("HEAD", "/missing", &[]),
        ("POST", "/small.txt", &[]),
        ("GET", "/return/x?y=%20", &[]),
        ("GET", "/..", &[]),
    ];
    for (method, target, fields) in cases {
        let lines: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let expected = site.request(method, target, &lines);
        let answer = ask(site.address(), request(method, target, fields), vec![]);
        let what = format!("{method} {target} {fields:?}");
        assert_eq!(answer.status.as_u16(), expected.status, "{what}");
        let boundary = |text: &str| text.contains("boundary=");
        for line in expected
            .head
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
        {
            let (name, value) = line.split_once(": ").unwrap();
            let found = answer.fields.get(name).map(|value| value.to_str().unwrap());
            match name {
                "Connection" => assert_eq!(found, None, "{what}"),
                "Date" => assert!(found.is_some(), "{what}"),
                _ if boundary(value) => assert!(boundary(found.unwrap()), "{what}"),
                _ => assert_eq!(found, Some(value), "{what}: {name}"),
            }
        }
        assert_eq!(answer.body.len(), expected.body.len(), "{what}");
        if !expected.head.contains("boundary=") {
            assert!(answer.body == expected.body, "{what}");
        }
    }
}

#[test]
fn a_connection_serves_many_requests_at_once_and_counts_once() {
    let site = Site::sharing("{}");
    site.write("small.txt", "small");
    let large = vec![7; 400_000];
    site.write("large.bin", &large);
    with_client(site.address(), |client| async move {
        let mut tasks = Vec::new();
        for number in 0..200 {
            let client = client.clone();
            let is_large = number % 10 == 0;
            tasks.push(tokio::spawn(async move {
                let target = if is_large { "/large.bin" } else { "/small.txt" };
                let answer = exchange(&client, request("GET", target, &[]), vec![]).await;
                let length = answer.unwrap().body.len();
                assert_eq!(length, if is_large { 400_000 } else { 5 });
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    wait_until("the connection is closed", || {
        site.server.totals().closed == 1
    });
    let totals = site.server.totals();
    assert_eq!((totals.accepted, totals.requests), (1, 200));
    assert_eq!((totals.active, totals.idle), (0, 0));
}

#[test]
fn a_connection_without_requests_is_idle() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/return/x"),
    ));
    assert_eq!(frames.response(1).unwrap().0, OK);
    wait_until("it is idle", || site.server.totals().idle == 1);
    drop(frames);
    wait_until("it is closed", || site.server.totals().closed == 1);
    assert_eq!(site.server.totals().idle, 0);
}

#[test]
fn the_preface_may_come_byte_by_byte_and_so_may_a_post() {
    let site = Site::sharing("{}");
    let mut client = site.connect();
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" {
        client.send([*byte]);
    }
    client.send(frame(SETTINGS, 0, 0, b""));
    client.send(frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/return/x"),
    ));
    let mut frames = Frames::of(client.stream);
    assert_eq!(frames.response(1).unwrap().0, OK);
    let mut client = site.connect();
    for byte in b"PROPFIND /return/x HTTP/1.1\r\nHost: h\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.response("PROPFIND").status, 200);
}

#[test]
fn a_listener_may_do_without() {
    let site = Site::new(1, |_| {
        r#"{"listeners": {"127.0.0.1:1": {"pass": "routes", "http2": false}}, "routes": [{"action": {"return": 200}}]}"#.to_owned()
    });
    let mut client = site.connect();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(client.read_to_end().starts_with("HTTP/1.1 505 "));
}

#[test]
fn an_upgrade_to_h2c_is_not_offered() {
    let site = Site::sharing("{}");
    let fields = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    assert_eq!(site.request("GET", "/return/x", fields).status, 200);
}

#[test]
fn a_response_waits_for_the_windows_of_its_client() {
    let site = Site::sharing("{}");
    site.write("small.txt", "0123456789");
    // SETTINGS_INITIAL_WINDOW_SIZE
    let mut frames = Frames::to(site.address(), &[(4, 4)]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/small.txt"),
    ));
    assert_eq!(frames.next_of(DATA).payload, b"0123");
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        3,
        &get("/return/x"),
    ));
    assert_eq!(frames.response(3).unwrap().0, OK, "others are not held up");
    frames.send(&frame(WINDOW_UPDATE, 0, 1, &5_u32.to_be_bytes()));
    let data = frames.next_of(DATA);
    assert_eq!((data.payload.as_slice(), data.flags), (&b"45678"[..], 0));
    frames.send(&frame(WINDOW_UPDATE, 0, 1, &9_u32.to_be_bytes()));
    let data = frames.next_of(DATA);
    assert_eq!(
        (data.payload.as_slice(), data.flags),
        (&b"9"[..], END_STREAM)
    );
}

#[test]
fn a_file_for_a_stream_that_is_reset_at_once_is_not_sent() {
    let site = Site::sharing("{}");
    site.write("small.txt", "0123456789");
    let mut frames = Frames::to(site.address(), &[]);
    let head = get("/small.txt");
    let open = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
    let reset = frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
    frames.send(&[open(1), reset, open(3)].concat());
    assert_eq!(frames.next_of(HEADERS).stream, 3);
    let data = frames.next_of(DATA);
    assert_eq!((data.stream, data.flags), (3, END_STREAM));
    assert_eq!(data.payload, b"0123456789");
}

#[test]
fn a_client_that_never_takes_its_response_loses_it() {
    let site = Site::sharing(r#"{"send_timeout": 1}"#);
    site.write("small.txt", "0123456789");
    let mut frames = Frames::to(site.address(), &[(4, 4)]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/small.txt"),
    ));
    assert!(frames.response(1).is_none(), "the stream is reset");
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        3,
        &get("/return/x"),
    ));
    assert_eq!(frames.response(3).unwrap().0, OK, "the connection is open");
}

#[test]
fn malformed_requests_are_refused_one_by_one() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    let cases: [Fields<'_>; 4] = [
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/return/x"),
            ("host", "b"),
        ],
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/return/x"),
        ],
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/return/x"),
            ("x", " y"),
        ],
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/%00"),
        ],
    ];
    for (index, fields) in cases.into_iter().enumerate() {
        let stream = 2 * index as u32 + 1;
        frames.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &block(fields),
        ));
        // `:status: 400` is number 12 of the static table.
        assert_eq!(frames.response(stream).unwrap().0, 0x8c, "{fields:?}");
    }
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        9,
        &get("/return/x"),
    ));
    assert_eq!(frames.response(9).unwrap().0, OK);
}

#[test]
fn a_closed_listener_finishes_its_requests() {
    let site = Site::sharing("{}");
    let large = vec![1; 2_000_000];
    site.write("large.bin", &large);
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/large.bin"),
    ));
    let mut received = frames.next_of(DATA).payload.len();
    let mut answered = false;
    site.configure(r#"{"listeners": {"*:2": {"pass": "routes"}}, "routes": []}"#)
        .unwrap();
    // A request that the client sends before it has received GOAWAY is answered too.
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        3,
        &get("/return/x"),
    ));
    let mut has_goaway = false;
    while let Some(answer) = frames.next() {
        match answer.kind {
            HEADERS if answer.stream == 3 => {
                assert_eq!(answer.payload[0], OK);
                answered = true;
            }
            DATA => {
                received += answer.payload.len();
                if received < large.len() {
                    let length = (answer.payload.len() as u32).to_be_bytes();
                    frames.send(&frame(WINDOW_UPDATE, 0, 0, &length));
                    frames.send(&frame(WINDOW_UPDATE, 0, 1, &length));
                }
            }
            PING if answer.flags & ACK == 0 => frames.send(&frame(PING, ACK, 0, &answer.payload)),
            GOAWAY => {
                assert_eq!(answer.code(), 0);
                has_goaway = true;
            }
            _ => {}
        }
        if has_goaway && answered && received == large.len() {
            break;
        }
    }
    assert_eq!(received, large.len());
    wait_until("the connection is closed", || {
        site.server.totals().closed == 1
    });
}

#[test]
fn an_idle_connection_gets_goaway() {
    let site = Site::sharing(r#"{"idle_timeout": 1}"#);
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/return/x"),
    ));
    assert_eq!(frames.response(1).unwrap().0, OK);
    let goaway = frames.next_of(GOAWAY);
    assert_eq!(goaway.code(), 0);
    wait_until("it is closed, though its client says nothing", || {
        site.server.totals().closed == 1
    });
}

#[test]
fn an_application_gets_the_whole_request() {
    let app = App::new(1);
    let fields = [
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("te", "trailers"),
        ("x-own", "value"),
    ];
    let answer = ask(
        app.site.address(),
        request("GET", "/head?q=%41", &fields),
        vec![],
    );
    let text = answer.text();
    for line in [
        "method: GET",
        "target: /head?q=%41",
        "version: 2",
        "host: test",
        "cookie: a=1; b=2",
        "te: trailers",
        "x-own: value",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let log = || std::fs::read_to_string(app.site.path().join("access.log")).unwrap_or_default();
    wait_until("its line in the access log", || {
        log().contains("GET /head?q=%41 HTTP/2.0 200 ")
    });
}

#[test]
fn bodies_reach_applications_with_and_without_a_length() {
    let app = App::new(1);
    let bytes: Vec<u8> = (0..1_500_000_u32)
        .map(|number| (number / 3) as u8)
        .collect();
    for size in [0, 1, 5_000, 65_535, 65_536, 1_500_000] {
        for length in [None, Some(size.to_string())] {
            let body = Bytes::copy_from_slice(&bytes[..size]);
            let length = length.as_deref().map(|length| ("content-length", length));
            let post = request("POST", "/echo", length.as_slice());
            let answer = ask(app.site.address(), post, vec![body]);
            assert_eq!(answer.status, 200);
            assert!(answer.body == bytes[..size], "{size} {length:?}");
        }
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_and_the_connection_is_kept() {
    let app = App::with(1, Limits::default(), r#"{"max_body_size": 1000}"#);
    with_client(app.site.address(), |client| async move {
        let body = || vec![Bytes::from(vec![0; 1001])];
        let declared = request("POST", "/echo", &[("content-length", "1001")]);
        assert_eq!(
            exchange(&client, declared, body()).await.unwrap().status,
            413
        );
        let undeclared = request("POST", "/echo", &[]);
        assert_eq!(
            exchange(&client, undeclared, body()).await.unwrap().status,
            413
        );
        let small = request("POST", "/echo", &[]);
        let answer = exchange(&client, small, vec![Bytes::from("small")])
            .await
            .unwrap();
        assert_eq!(answer.text(), "small");
    });
}

#[test]
fn a_body_that_is_too_large_has_a_page() {
    let site = Site::new(1, |_| {
        r#"{"listeners": {"127.0.0.1:1": {"pass": "routes", "http": {"max_body_size": 10}, "error_pages": {"413": {"return": 303, "location": "/large"}}}},
            "routes": [{"action": {"return": 200, "body": "fine"}}]}"#
            .to_owned()
    });
    with_client(site.address(), |client| async move {
        for (fields, length, status) in [
            ([("content-length", "11")].as_slice(), 11, 303),
            (&[], 11, 303),
            (&[], 10, 200),
        ] {
            let body = vec![Bytes::from(vec![0; length])];
            let answer = exchange(&client, request("POST", "/", fields), body);
            assert_eq!(answer.await.unwrap().status, status, "{fields:?} {length}");
        }
    });
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let app = App::with(1, Limits::default(), r#"{"body_read_timeout": 1}"#);
    let mut frames = Frames::to(app.site.address(), &[]);
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", "/echo"),
    ];
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    frames.send(&frame(DATA, 0, 1, b"part"));
    let (_, page) = frames.response(1).unwrap();
    assert!(String::from_utf8_lossy(&page).contains("408"));
    // The rest is not wanted: RFC 9113 §8.1.
    let reset = frames.next_of(RST_STREAM);
    assert_eq!((reset.stream, reset.code()), (1, 0));
}

#[test]
fn a_window_is_given_back_as_the_body_is_taken() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", "/echo"),
    ];
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    let piece = vec![b'x'; 16_384];
    for _ in 0..3 {
        // More than the initial windows: the server must send WINDOW_UPDATE, or this is an error.
        for _ in 0..10 {
            frames.send(&frame(DATA, 0, 1, &piece));
        }
        let update = loop {
            let update = frames.next_of(WINDOW_UPDATE);
            if update.stream == 1 {
                break update;
            }
        };
        assert!(!update.payload.is_empty());
    }
    frames.send(&frame(DATA, END_STREAM, 1, b""));
    let mut received = 0;
    while received < 30 * 16_384 {
        let data = frames.next_of(DATA);
        received += data.payload.len();
        let length = (data.payload.len() as u32).to_be_bytes();
        frames.send(&frame(WINDOW_UPDATE, 0, 0, &length));
        frames.send(&frame(WINDOW_UPDATE, 0, 1, &length));
    }
    assert_eq!(received, 30 * 16_384);
}

#[test]
fn a_response_comes_as_the_application_makes_it() {
    let app = App::new(1);
    let gate = Gate::new();
    let mut frames = Frames::to(app.site.address(), &[]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get(&format!("/flush?file={}", gate.file().display())),
    ));
    let headers = frames.next_of(HEADERS);
    assert_eq!((headers.payload[0], headers.flags & END_STREAM), (OK, 0));
    let first = frames.next_of(DATA);
    gate.open();
    let second = frames.next_of(DATA);
    assert!(!first.payload.is_empty() && first.flags == 0);
    assert!(!second.payload.is_empty());
    let (big, _) = (
        ask(
            app.site.address(),
            request("GET", "/big?n=3000000", &[]),
            vec![],
        ),
        second,
    );
    assert_eq!(big.body.len(), 3_000_000);
}

#[test]
fn a_truncated_response_is_not_a_complete_one() {
    let app = App::new(1);
    for target in ["/crash", "/panic"] {
        let answer = ask(app.site.address(), request("GET", target, &[]), vec![]);
        assert!(answer.status.is_server_error(), "{target}");
    }
}

#[test]
fn a_request_given_up_is_taken_back() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    let open = |stream, target| frame(HEADERS, END_HEADERS | END_STREAM, stream, &get(target));
    let gate = Gate::new();
    let target = gate.target();
    frames.send(&open(1, &target));
    wait_until("the first is being worked on", || app.active() == 1);
    frames.send(&open(3, "/count"));
    wait_until("the second waits", || app.active() == 2);
    frames.send(&frame(RST_STREAM, 0, 3, &8_u32.to_be_bytes()));
    wait_until("the second is given up", || app.active() == 1);
    gate.open();
    frames.send(&open(5, "/count"));
    let (_, count) = frames.response(5).unwrap();
    let served: u32 = String::from_utf8_lossy(&count).trim().parse().unwrap();
    assert_eq!(served, 2, "the second has never been begun");
}

#[test]
fn a_connection_that_has_ended_makes_room_while_its_request_is_run() {
    let app = App::new(1);
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "applications/app", "max_connections": 1}}}},
             "applications": {{"app": {{"type": "php", "root": "{}"}}}}}}"#,
        app.site.path().display()
    );
    app.site.configure(&config).unwrap();
    let gate = Gate::new();
    let mut frames = Frames::to(app.site.address(), &[]);
    let open = |stream, head: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, stream, head);
    frames.send(&open(1, &get(&gate.target())));
    wait_until("the first is being worked on", || app.active() == 1);
    let post = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/count"),
    ]);
    frames.send(&open(3, &post));
    wait_until("the second waits", || app.active() == 2);
    drop(frames);
    let mut next = Frames::to(app.site.address(), &[]);
    next.send(&frame(PING, 0, 0, b"is there"));
    assert_eq!(next.next_of(PING).payload, b"is there");
    assert!(app.active() > 0, "the second is run without its client");
    gate.open();
    next.send(&open(1, &get("/count")));
    let (_, count) = next.response(1).unwrap();
    assert_eq!(String::from_utf8_lossy(&count).trim(), "3");
}

#[test]
fn a_websocket_is_a_stream() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    // SETTINGS_ENABLE_CONNECT_PROTOCOL
    let settings = frames.next_of(SETTINGS);
    assert!(
        settings
            .payload
            .chunks(6)
            .any(|setting| setting == [0, 8, 0, 0, 0, 1])
    );
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", "/websocket?protocol=chat"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
    ];
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    let headers = frames.next_of(HEADERS);
    assert_eq!((headers.payload[0], headers.flags & END_STREAM), (OK, 0));
    // "Hello", masked with zeros; then a close frame.
    frames.send(&frame(DATA, 0, 1, b"\x81\x85\0\0\0\0Hello"));
    assert_eq!(frames.next_of(DATA).payload, b"\x81\x05Hello");
    frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &get("/small")));
    frames.send(&frame(DATA, 0, 1, b"\x88\x82\0\0\0\0\x03\xe8"));
    let (mut closed, mut ended) = (false, false);
    while !ended {
        let data = frames.next_of(DATA);
        if data.stream == 1 {
            closed |= data.payload.starts_with(b"\x88\x02\x03\xe8");
            ended = data.flags & END_STREAM != 0;
        }
    }
    assert!(closed);
}

#[test]
fn other_protocols_and_broken_handshakes_are_refused() {
    let app = App::new(1);
    with_client(app.site.address(), |client| async move {
        for (protocol, version, status) in [("connect-udp", "13", 501), ("websocket", "12", 426)] {
            let mut request = request(
                "CONNECT",
                "/websocket",
                &[("sec-websocket-version", version)],
            );
            let protocol = h2::ext::Protocol::from_static(protocol);
            request.extensions_mut().insert(protocol);
            assert_eq!(request.method(), Method::CONNECT);
            let answer = exchange(&client, request, vec![]).await;
            assert_eq!(answer.unwrap().status, status);
        }
    });
}

/// Any success accepts an extended CONNECT (RFC 8441 §5), so that a browser took a file for the frames of a WebSocket.
#[test]
fn only_101_accepts_a_websocket() {
    let backend = Backend::answering("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nno");
    let address = backend.address;
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "access_log": {{"path": "{folder}/access.log", "format": "$uri $status"}},
                 "routes": [{{"match": {{"uri": "/return"}}, "action": {{"return": 204}}}},
                            {{"match": {{"uri": "/moved"}}, "action": {{"return": 301, "location": "/return"}}}},
                            {{"match": {{"uri": "/proxy"}}, "action": {{"proxy": "http://{address}"}}}},
                            {{"action": {{"share": "{folder}$uri"}}}}]}}"#
        )
    });
    site.write("file", "content");
    let cases = [
        ("/file", 400),
        ("/file?part", 400),
        ("/return", 400),
        ("/moved", 301),
        ("/proxy", 400),
        ("/none", 404),
    ];
    with_client(site.address(), |client| async move {
        for (target, status) in cases {
            let mut fields = vec![("sec-websocket-version", "13")];
            if target.ends_with("?part") {
                fields.push(("range", "bytes=1-2"));
            }
            let mut request = request("CONNECT", target, &fields);
            let protocol = h2::ext::Protocol::from_static("websocket");
            request.extensions_mut().insert(protocol);
            let answer = exchange(&client, request, vec![]).await;
            assert_eq!(answer.unwrap().status, status, "{target}");
        }
    });
    let logged = cases.map(|(target, status)| {
        let path = target.trim_end_matches("?part");
        format!("{path} {status}\n")
    });
    let log = || std::fs::read_to_string(site.path().join("access.log")).unwrap();
    wait_until("all of them are logged", || {
        log().lines().count() == cases.len()
    });
    assert_eq!(log(), logged.concat());
    site.log
        .wait_for("the response to a WebSocket handshake has the status 201");
}

#[test]
fn http1_and_http2_share_a_listener() {
    let site = Site::sharing("{}");
    let mut old = Client::to(site.address());
    let mut new = Frames::to(site.address(), &[]);
    for stream in [1, 3, 5] {
        old.send("GET /return/x HTTP/1.1\r\nHost: h\r\n\r\n");
        new.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &get("/return/x"),
        ));
        assert_eq!(old.response("GET").status, 200);
        assert_eq!(new.response(stream).unwrap().0, OK);
    }
}

/// Issue 28, 2.6: a client that received none of its responses could have any number of them.
#[test]
fn a_stream_counts_as_under_way_until_its_client_has_taken_the_response() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"share": "{folder}$uri", "limit": {{"concurrent": 1}}}}}}]}}"#
        )
    });
    site.write("a.txt", "content");
    // SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
    let mut frames = Frames::to(site.address(), &[(4, 0)]);
    let ask = |frames: &mut Frames, stream: u32| {
        frames.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &get("/a.txt"),
        ));
        let head = frames.next_of(HEADERS);
        assert_eq!(head.stream, stream);
        head.payload[0] == OK
    };
    assert!(ask(&mut frames, 1));
    assert!(!ask(&mut frames, 3), "the first one is not taken");
    frames.send(&frame(WINDOW_UPDATE, 0, 1, &100_u32.to_be_bytes()));
    frames.send(&frame(WINDOW_UPDATE, 0, 3, &1000_u32.to_be_bytes()));
    let mut ended = 0;
    while ended < 2 {
        ended += usize::from(frames.next_of(DATA).flags & END_STREAM != 0);
    }
    assert!(ask(&mut frames, 5));
}
