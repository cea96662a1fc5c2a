//! Clients that do not read their responses: they hold no worker, no server, and little memory, get all of the response in the end if they
//! read, and are closed if they read too little.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use support::Site;
use support::app::App;
use support::backend::Backend;
use support::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, block, frame, get,
};
use tutti_pool::Limits;
use tutti_testkit::{PATIENCE, wait_until};

const MEBIBYTE: usize = 1024 * 1024;

/// SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
const INITIAL_WINDOW: u16 = 4;

/// Settings of a client that receives nothing.
const NOTHING: &[(u16, u32)] = &[(INITIAL_WINDOW, 0)];

/// A body in which missing bytes are detected.
fn body(length: usize) -> Vec<u8> {
    (0..length as u64 / 8).flat_map(u64::to_be_bytes).collect()
}

fn proxy(backend: &Backend, options: &str, http: &str) -> Site {
    let (address, options, http) = (backend.address, options.to_owned(), http.to_owned());
    Site::new(1, move |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {http}}},
                 "access_log": {{"path": "{folder}/access.log", "format": "$status $body_bytes_sent"}},
                 "routes": [{{"action": {{"proxy": "http://{address}", "proxy_options": {{{options}}}}}}}]}}"#
        )
    })
}

fn access_log(site: &Site) -> String {
    std::fs::read_to_string(site.path().join("access.log")).unwrap_or_default()
}

fn ask(frames: &mut Frames, stream: u32, target: &str) {
    let head = get(target);
    frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
}

/// Extends the window of a stream and that of the connection.
fn open(frames: &mut Frames, stream: u32, by: u32) {
    for one in [0, stream] {
        frames.send(&frame(WINDOW_UPDATE, 0, one, &by.to_be_bytes()));
    }
}

/// More than any buffer in memory for one response.
const LARGE: usize = 2_000_000;

/// A server with large answers.
fn large() -> Backend {
    Backend::new(|peer| {
        if peer.request().is_some() {
            peer.answer(&[b'x'; LARGE]);
        }
    })
}

/// Issue 10: a connection held 64 MB this way, as long as it read a byte from time to time.
#[test]
fn a_hundred_streams_that_take_a_byte_now_and_then_hold_little_and_not_for_long() {
    const STREAMS: u32 = 100;
    // Disk buffering is off here, so the servers must wait.
    let options = r#"{"response_buffering": 0, "send_timeout": 2}"#;
    let backend = large();
    let site = proxy(&backend, "", options);
    let mut frames = Frames::to(site.address(), NOTHING);
    for number in 0..STREAMS {
        ask(&mut frames, 2 * number + 1, "/");
    }
    let (mut most, mut reset, mut quiet) = (0, 0, 0);
    while reset < STREAMS {
        most = most.max(site.server.held().memory);
        let Some(frame) = frames.soon() else {
            // Nothing arrives: one byte for each stream, slowly enough not to be a flood.
            quiet += 1;
            if quiet % 10 != 0 {
                continue;
            }
            let mut bytes = frame(WINDOW_UPDATE, 0, 0, &STREAMS.to_be_bytes());
            for number in 0..STREAMS {
                let stream = 2 * number + 1;
                bytes.extend(frame(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes()));
            }
            frames.send(&bytes);
            continue;
        };
        if frame.kind == RST_STREAM {
            reset += 1;
        }
    }
    // The connection's share, and for each stream the minimum to continue, including reads in progress; it was five times that.
    assert!(most > MEBIBYTE / 2, "{most}");
    assert!(most < MEBIBYTE + STREAMS as usize * 128 * 1024, "{most}");
    wait_until("nothing is held", || site.server.held().memory == 0);
    // It is served nevertheless.
    ask(&mut frames, 2 * STREAMS + 1, "/");
    open(&mut frames, 2 * STREAMS + 1, LARGE as u32);
    assert_eq!(frames.response(2 * STREAMS + 1).unwrap().1.len(), LARGE);
}

/// A body, and a short gzip form of it that becomes 170 times as large, evenly.
fn dense() -> (Vec<u8>, Vec<u8>) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut plain = Vec::new();
    for block in 0..40_u64 {
        let noise = (0..64).map(|number| (block * 64 + number + 1).wrapping_pow(7));
        let noise = noise.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        plain.extend(noise.flat_map(u64::to_be_bytes));
        plain.resize(plain.len() + 100 * 1024, 0);
    }
    encoder.write_all(&plain).unwrap();
    let packed = encoder.finish().unwrap();
    assert!(packed.len() < 32 * 1024, "{}", packed.len());
    (plain, packed)
}

/// Every piece of 64 KB became up to 16 MB before anything waited for the client, for a server's response and for a stored one.
#[test]
fn responses_that_are_decompressed_hold_little() {
    const STREAMS: u32 = 20;
    let (plain, packed) = dense();
    let backend = Backend::new(move |peer| {
        while peer.request().is_some() {
            let length = packed.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n"
            ));
            peer.send(&packed);
        }
    });
    let address = backend.address;
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "settings": {{"http": {{"gunzip": true, "response_buffering": 0}}, "cache": {{"pages": {{}}}}}},
                 "routes": [
                    {{"match": {{"uri": "/stored"}}, "action": {{"proxy": "http://{address}", "cache": "pages"}}}},
                    {{"action": {{"proxy": "http://{address}"}}}}]}}"#
        )
    });
    assert!(site.get("/stored").body == plain);
    for target in ["/", "/stored"] {
        let mut frames = Frames::to(site.address(), NOTHING);
        for number in 0..STREAMS {
            ask(&mut frames, 2 * number + 1, target);
        }
        for number in 0..STREAMS {
            let head = frames.next_of(HEADERS);
            assert_eq!(head.flags & END_STREAM, 0, "{number}");
        }
        let held = site.server.held().memory;
        assert!(held > 0, "{target}");
        assert!(held < MEBIBYTE + STREAMS as usize * 128 * 1024, "{held}");
        open(&mut frames, 1, plain.len() as u32);
        assert!(frames.response(1).unwrap().1 == plain, "{target}");
    }
}

/// Every piece of 64 KB grew by up to a megabyte before anything waited for the client.
#[test]
fn responses_in_which_texts_are_replaced_hold_little() {
    const STREAMS: u32 = 20;
    let backend = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 131072\r\n\r\n",
            );
            peer.send([b'a'; 128 * 1024]);
        }
    });
    let address = backend.address;
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "settings": {{"http": {{"response_buffering": 0}}}},
                 "routes": [{{"action": {{"proxy": "http://{address}", "replace": [{{"find": "a", "with": "0123456789"}}]}}}}]}}"#
        )
    });
    let expected = b"0123456789".repeat(128 * 1024);
    assert!(site.get("/").body == expected);
    let mut frames = Frames::to(site.address(), NOTHING);
    for number in 0..STREAMS {
        ask(&mut frames, 2 * number + 1, "/");
    }
    for number in 0..STREAMS {
        let head = frames.next_of(HEADERS);
        assert_eq!(head.flags & END_STREAM, 0, "{number}");
    }
    let held = site.server.held().memory;
    assert!(held > MEBIBYTE / 2, "{held}");
    assert!(held < MEBIBYTE + STREAMS as usize * 128 * 1024, "{held}");
    open(&mut frames, 1, expected.len() as u32);
    assert!(frames.response(1).unwrap().1 == expected);
}

/// The same for an application, which does not wait for the client as long as there is room.
#[test]
fn a_response_of_an_application_that_is_decompressed_holds_little() {
    let (plain, packed) = dense();
    let app = App::with(
        1,
        Limits::default(),
        r#"{"gunzip": true, "response_buffering": 0}"#,
    );
    let mut frames = Frames::to(app.site.address(), NOTHING);
    let head = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/echo"),
        ("content-encoding", "gzip"),
    ]);
    frames.send(&frame(HEADERS, END_HEADERS, 1, &head));
    let (first, second) = packed.split_at(packed.len() / 2);
    frames.send(&frame(DATA, 0, 1, first));
    frames.send(&frame(DATA, END_STREAM, 1, second));
    assert_eq!(frames.next_of(HEADERS).flags & END_STREAM, 0);
    wait_until("much of it waits", || {
        app.site.server.held().memory > MEBIBYTE / 2
    });
    let held = app.site.server.held().memory;
    assert!(held < MEBIBYTE, "{held}");
    open(&mut frames, 1, plain.len() as u32);
    assert!(frames.response(1).unwrap().1 == plain);
}

/// Issue 10: the last of a hundred resets were awaited where they had been read already, so that they seemed to come after three minutes
/// without traffic. They are sent at once.
#[test]
fn a_stream_that_is_given_up_is_reset_at_once() {
    const STREAMS: u32 = 10;
    let options = r#"{"response_buffering": 0, "send_timeout": 1, "idle_timeout": 3600}"#;
    let backend = large();
    let site = proxy(&backend, "", options);
    let mut frames = Frames::to(site.address(), NOTHING);
    for number in 0..STREAMS {
        ask(&mut frames, 2 * number + 1, "/");
    }
    let mut reset: Vec<u32> = (0..STREAMS)
        .map(|_| frames.next_of(RST_STREAM).stream)
        .collect();
    reset.sort_unstable();
    assert_eq!(reset, (0..STREAMS).map(|n| 2 * n + 1).collect::<Vec<_>>());
}

/// A stream that waits while its client reads another one is not slow.
#[test]
fn a_client_that_takes_one_answer_first_gets_the_other_too() {
    let backend = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.answer(&body(2 * MEBIBYTE));
        }
    });
    let site = proxy(&backend, "", r#"{"send_timeout": 2}"#);
    let mut frames = Frames::to(site.address(), NOTHING);
    for stream in [1, 3] {
        ask(&mut frames, stream, "/");
    }
    // Longer than the timeout.
    for _ in 0..60 {
        open(&mut frames, 1, 4096);
        while let Some(frame) = frames.soon() {
            assert_ne!(frame.kind, RST_STREAM, "{}", frame.stream);
        }
    }
    open(&mut frames, 3, 2 * MEBIBYTE as u32);
    assert!(frames.response(3).unwrap().1 == body(2 * MEBIBYTE));
}

/// Each byte that a client took let in 64 KB more of a response.
#[test]
fn a_response_of_an_application_does_not_grow_with_each_byte_that_is_taken() {
    let app = App::with(2, Limits::default(), r#"{"response_buffering": 0}"#);
    let mut frames = Frames::to(app.site.address(), NOTHING);
    ask(&mut frames, 1, &format!("/big?n={}", 16 * MEBIBYTE));
    let held = || app.site.server.held().memory;
    wait_until("the limit is reached", || held() > MEBIBYTE / 2);
    for _ in 0..100 {
        frames.send(&frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()));
        frames.next_of(DATA);
        // Meanwhile the other worker fills what has become free.
        assert_eq!(app.site.get("/hello").status, 200);
        // The limit and what had arrived when it was reached.
        assert!(held() <= MEBIBYTE / 2 + 128 * 1024, "{}", held());
    }
}

/// Issue 10: four such responses held four workers for a minute.
#[test]
fn clients_that_do_not_read_hold_no_worker() {
    let app = App::new(1);
    let target = format!("/big?n={}", 3 * MEBIBYTE);
    let mut frames = Frames::to(app.site.address(), NOTHING);
    for stream in [1, 3, 5] {
        ask(&mut frames, stream, &target);
    }
    // The same for a client of HTTP/1 that reads nothing.
    let mut unread = app.site.connect();
    unread.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    // The rest is in memory, and for the last one in the kernel.
    wait_until("all have been answered", || {
        app.site.server.held().disk > 7 << 20 && app.active() == 0
    });
    assert_eq!(app.site.get("/hello").status, 200);
    let held = app.site.server.held();
    assert!(held.disk > 0);
    assert!(held.memory <= 2 * MEBIBYTE, "{held:?}");
    // A client that reads gets all of it.
    let expected = app.site.get(&target).body;
    assert_eq!(expected.len(), 3 * MEBIBYTE);
    for stream in [1, 3, 5] {
        open(&mut frames, stream, 3 * MEBIBYTE as u32);
        assert!(frames.response(stream).unwrap().1 == expected);
    }
    assert!(unread.response("GET").body == expected);
    wait_until("nothing is held", || {
        app.site.server.held() == tutti_server::BufferedBytes::default()
    });
}

/// Issue 10: the same for servers, and the log has the bytes that the client got.
#[test]
fn a_server_is_free_when_its_answer_has_been_taken() {
    let (sender, done) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let backend = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            match asked.line().contains("chunked") {
                true => {
                    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for piece in body(32 * MEBIBYTE).chunks(100_000) {
                        peer.send(format!("{:x}\r\n", piece.len()));
                        peer.send(piece);
                        peer.send("\r\n");
                    }
                    peer.send("0\r\n\r\n");
                }
                false => peer.answer(&body(32 * MEBIBYTE)),
            }
            sender.lock().unwrap().send(()).unwrap();
        }
    });
    let site = proxy(&backend, "", "{}");
    for target in ["/length", "/chunked"] {
        let mut client = site.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        done.recv_timeout(PATIENCE).unwrap();
        wait_until("much of it waits", || site.server.held().disk > 4 << 20);
        // It is not in the log before the client has it.
        assert!(!access_log(&site).contains("200"), "{}", access_log(&site));
        assert!(client.response("GET").body == body(32 * MEBIBYTE));
        wait_until("it is logged", || access_log(&site) == "200 33554432\n");
        std::fs::File::create(site.path().join("access.log")).unwrap();
    }
    // A client that disconnects has not received everything.
    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    done.recv_timeout(PATIENCE).unwrap();
    drop(client);
    wait_until("it is logged", || access_log(&site).starts_with("200 "));
    let log = access_log(&site);
    let sent: usize = log.trim_start_matches("200 ").trim().parse().unwrap();
    assert!(sent < 32 * MEBIBYTE, "{log}");
    wait_until("nothing is held", || {
        site.server.held() == tutti_server::BufferedBytes::default()
    });
}

/// Without a file the worker waits for the client, and nothing is lost.
#[test]
fn without_a_file_the_sender_waits_for_the_client() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&taken);
    let backend = Backend::new(move |peer| {
        peer.request();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            32 * MEBIBYTE
        ));
        for piece in body(32 * MEBIBYTE).chunks(MEBIBYTE) {
            peer.send(piece);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    for (options, http) in [
        ("", r#"{"response_buffering": 0}"#),
        (r#""buffering": false"#, "{}"),
    ] {
        taken.store(0, Ordering::SeqCst);
        let site = proxy(&backend, options, http);
        let mut client = site.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.fill().unwrap();
        assert_eq!(site.server.held().disk, 0);
        assert!(taken.load(Ordering::SeqCst) < 32);
        assert!(client.response("GET").body == body(32 * MEBIBYTE));
        wait_until("the server has counted it", || {
            taken.load(Ordering::SeqCst) == 32
        });
    }
}

/// An event that a client of server-sent events can receive is sent at once, even if the client has been slow before.
#[test]
fn events_flow_when_a_slow_client_has_caught_up() {
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let backend = Backend::new(move |peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        peer.send(vec![b'x'; 6 * MEBIBYTE]);
        let released = released.lock().unwrap();
        while released.recv().is_ok() {
            peer.send("data: now\n\n");
        }
    });
    let site = proxy(&backend, "", "{}");
    let mut frames = Frames::to(site.address(), NOTHING);
    ask(&mut frames, 1, "/");
    wait_until("the beginning waits", || site.server.held().disk > 4 << 20);
    open(&mut frames, 1, 8 * MEBIBYTE as u32);
    let mut got = 0;
    while got < 6 * MEBIBYTE {
        got += frames.next_of(DATA).payload.len();
    }
    for _ in 0..3 {
        release.send(()).unwrap();
        assert_eq!(frames.next_of(DATA).payload, b"data: now\n\n");
    }
    wait_until("nothing is held", || {
        site.server.held() == tutti_server::BufferedBytes::default()
    });
}

/// A worker that waits for its client is free again when the connection is closed.
#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let app = App::with(
        1,
        Limits::default(),
        r#"{"response_buffering": 0, "send_timeout": 1}"#,
    );
    let mut frames = Frames::to(app.site.address(), NOTHING);
    ask(&mut frames, 1, &format!("/big?n={}", 3 * MEBIBYTE));
    assert_eq!(frames.next_of(HEADERS).stream, 1);
    loop {
        match frames.soon() {
            Some(frame) if frame.kind == RST_STREAM => break,
            Some(_) => {}
            None => open(&mut frames, 1, 1),
        }
    }
    assert_eq!(app.site.get("/hello").status, 200);
}

/// Issue 10: the same for a WebSocket whose client reads a byte of its messages from time to time.
#[test]
fn a_websocket_client_that_takes_a_byte_now_and_then_is_given_up() {
    let app = App::with(1, Limits::default(), r#"{"send_timeout": 1}"#);
    let mut frames = Frames::to(app.site.address(), NOTHING);
    let connect = block(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/websocket"),
        ("sec-websocket-version", "13"),
    ]);
    frames.send(&frame(HEADERS, END_HEADERS, 1, &connect));
    assert_eq!(frames.next_of(HEADERS).stream, 1);
    // Masked with zeros, so it comes back unchanged.
    let mut message = vec![0x82, 0x80 | 126, 0x10, 0, 0, 0, 0, 0];
    message.resize(message.len() + 4096, b'x');
    frames.send(&frame(DATA, 0, 1, &message));
    let mut taken = 0;
    loop {
        match frames.soon() {
            Some(frame) if frame.kind == DATA && frame.flags & END_STREAM == 0 => {
                taken += frame.payload.len();
                assert!(taken < 100, "it continues");
            }
            Some(frame) if matches!(frame.kind, DATA | RST_STREAM) => break,
            Some(_) => {}
            None => open(&mut frames, 1, 1),
        }
    }
    assert_eq!(app.site.get("/hello").status, 200);
}
