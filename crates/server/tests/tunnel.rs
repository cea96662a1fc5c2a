//! Tunnels of upgraded connections: their end, and events that do not end them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use support::Site;
use support::backend::{Backend, Peer};
use support::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, block, frame,
};
use tutti_testkit::{PATIENCE, client::Client};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: any\r\n\r\n";

const ASK_WEBSOCKET: &str =
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n";

/// Accepts each WebSocket, sends these bytes after the first byte, then echoes.
fn websockets(first: &'static [u8]) -> Backend {
    Backend::new(move |peer| {
        if peer.request_head().is_some() {
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            );
            if peer.bytes(1).is_some() {
                peer.send(first);
            }
            while let Some(byte) = peer.bytes(1) {
                peer.send(byte);
            }
        }
    })
}

fn expect_frame(client: &mut Client, frame: &[u8]) {
    let mut bytes = vec![0; frame.len()];
    client.stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, frame);
}

fn open_websocket(site: &Site) -> Client {
    let mut client = site.connect();
    client.send(ASK_WEBSOCKET);
    assert_eq!(client.head().status, 101);
    // After the head, which the client may read together with the first data.
    client.send("!");
    client
}

fn tunnelling(after: impl Fn(&mut Peer) + Send + Sync + 'static) -> Backend {
    Backend::new(move |peer| {
        if peer
            .request_head()
            .is_some_and(|head| head.contains("Upgrade: any\r\n"))
        {
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n",
            );
            after(peer);
        }
    })
}

/// Echoes each byte, and sends one more at the end.
fn echo(peer: &mut Peer) {
    while let Some(byte) = peer.bytes(1) {
        peer.send(byte);
    }
    peer.send("!");
}

fn configuration(backend: &Backend, options: &str) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{"{}": {{}}}}{options}}}}}}}"#,
        backend.address
    )
}

fn site(backend: &Backend) -> Site {
    let config = configuration(backend, "");
    Site::new(1, move |_| config.clone())
}

fn open(site: &Site) -> Client {
    let mut client = site.connect();
    client.send(ASK);
    assert_eq!(client.head().status, 101);
    client
}

fn expect_bytes(client: &mut Client, text: &str) {
    let mut bytes = vec![0; text.len()];
    client.stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

fn expect_open(client: &mut Client) {
    client.send("on");
    expect_bytes(client, "on");
}

#[test]
fn either_side_may_finish_first() {
    let backend = tunnelling(echo);
    let first = site(&backend);
    let mut client = open(&first);
    client.send("abc");
    client.finish();
    expect_bytes(&mut client, "abc!");
    assert!(client.is_closed());

    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let backend = tunnelling(move |peer| {
        peer.send("last");
        peer.finish();
        let rest: Vec<u8> = std::iter::from_fn(|| peer.bytes(1)).flatten().collect();
        sender.lock().unwrap().send(rest).unwrap();
    });
    let site = site(&backend);
    let mut client = open(&site);
    assert_eq!(client.read_to_end(), "last");
    client.send("still open");
    client.finish();
    let rest = receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(rest, b"still open");
}

/// Issue 10: a byte from time to time kept a tunnel whose client did not read the server's data.
#[test]
fn a_client_that_takes_a_byte_now_and_then_loses_its_tunnel() {
    let backend = Backend::new(|peer| {
        if peer.request_head().is_some() {
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            );
            peer.send(vec![b'x'; 1 << 20]);
            peer.wait_closed();
        }
    });
    let config = configuration(&backend, r#", "tunnel_timeout": 1"#);
    let site = Site::new(1, move |_| config.clone());
    // SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 §6.5.2).
    let mut frames = Frames::to(site.address(), &[(4, 0)]);
    let connect = block(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/"),
        ("sec-websocket-version", "13"),
    ]);
    frames.send(&frame(HEADERS, END_HEADERS, 1, &connect));
    assert_eq!(frames.next_of(HEADERS).stream, 1);
    let mut taken = 0;
    loop {
        match frames.soon() {
            Some(frame) if frame.kind == DATA && frame.flags & END_STREAM == 0 => {
                taken += frame.payload.len();
                assert!(taken < 100, "it is not closed");
            }
            Some(frame) if matches!(frame.kind, DATA | RST_STREAM) => break,
            Some(_) => {}
            None => frames.send(&frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())),
        }
    }
}

/// Issue 10: the same for a server that sends but does not read.
#[test]
fn a_server_that_only_sends_loses_its_tunnel() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let backend = tunnelling(move |peer| {
        let wait = wait.lock().unwrap();
        while wait.recv().is_ok() {
            peer.send(".");
        }
    });
    let config = configuration(&backend, r#", "tunnel_timeout": 1"#);
    let site = Site::new(1, move |_| config.clone());
    let mut client = open(&site);
    let timeout = Some(Duration::from_millis(200));
    client.stream.set_write_timeout(timeout).unwrap();
    // Until no side reads.
    while client.stream.write_all(&[b'x'; 65_536]).is_ok() {}
    for round in 0.. {
        assert!(round < 100, "it is not closed");
        release.send(()).unwrap();
        match client.fill() {
            Ok(0) | Err(_) => break,
            Ok(_) => assert!(client.is_quiet() || round > 0),
        }
    }
}

#[test]
fn a_change_of_the_configuration_leaves_tunnels_alone() {
    let backend = tunnelling(echo);
    let site = site(&backend);
    let mut client = open(&site);
    site.configure(&configuration(&backend, r#", "retries": 0"#))
        .unwrap();
    expect_open(&mut client);
    site.configure(r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}}, "routes": []}"#)
        .unwrap();
    expect_open(&mut client);
    assert_eq!(site.get("/").status, 404);
    client.finish();
    expect_bytes(&mut client, "!");
}

#[test]
fn an_upgrade_keeps_tunnels_and_a_stop_ends_them() {
    let backend = tunnelling(echo);
    let site = site(&backend);
    let mut client = open(&site);
    expect_open(&mut client);
    site.server.drain_gently();
    // Another server that stops ends an idle tunnel, and this one does not.
    let stopping = self::site(&backend);
    let mut pausing = open(&stopping);
    expect_open(&mut pausing);
    stopping.server.drain();
    assert!(pausing.is_closed());
    expect_open(&mut client);
    site.server.drain();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, site.server.ended()).await });
    assert!(ended.is_ok());
    assert!(client.is_closed());
}

/// Issue 28: the client of a WebSocket behind an upstream lost its connection without a close frame.
#[test]
fn a_websocket_that_must_end_gets_a_close_frame_between_two_frames() {
    // A text frame of two bytes.
    let backend = websockets(b"\x81\x02ab");
    let config = configuration(&backend, "");
    let stopping = Site::new(1, {
        let config = config.clone();
        move |_| config.clone()
    });
    let mut client = open_websocket(&stopping);
    expect_frame(&mut client, b"\x81\x02ab");
    stopping.server.drain();
    let mut close = [0; 4];
    client.stream.read_exact(&mut close).unwrap();
    assert_eq!(close, [0x88, 2, 0x03, 0xe9], "1001");

    let removing = Site::new(1, {
        let config = config.clone();
        move |_| config.clone()
    });
    let mut client = open_websocket(&removing);
    expect_frame(&mut client, b"\x81\x02ab");
    removing
        .configure(r#"{"listeners": {"127.0.0.1:2": {"pass": "routes"}}, "routes": []}"#)
        .unwrap();
    client.stream.read_exact(&mut close).unwrap();
    assert_eq!(close, [0x88, 2, 0x03, 0xe9], "1001");

    let upgraded = Site::new(1, move |_| config.clone());
    let mut client = open_websocket(&upgraded);
    expect_frame(&mut client, b"\x81\x02ab");
    upgraded.server.drain_gently();
    // The beginning of a frame; its end is sent once the server is stopping.
    client.send([0x81, 2, b'c']);
    let mut part = [0; 3];
    client.stream.read_exact(&mut part).unwrap();
    upgraded.server.cut();
    client.send([b'd']);
    client.stream.read_exact(&mut part[..1]).unwrap();
    assert_eq!(part, [b'd', 2, b'c']);
    client.stream.read_exact(&mut close).unwrap();
    assert_eq!(close, [0x88, 2, 0x03, 0xf4], "1012");
}

/// Issue 28, 1.15: unchecked bytes went to a server with another protocol than the client had requested.
#[test]
fn a_tunnel_is_for_the_protocol_that_was_asked_for() {
    for (asked, answered, status) in [
        ("any", "Upgrade: any\r\n", 101),
        ("any, other/2", "Upgrade: OTHER/2\r\n", 101),
        ("any", "", 502),
        ("any", "Upgrade: other\r\n", 502),
        ("any", "Upgrade: any, other\r\n", 502),
        ("any", "Upgrade: any\r\nUpgrade: h2c\r\n", 502),
        ("any", "Upgrade: h2c\r\n", 502),
        ("other/2", "Upgrade: other/1\r\n", 502),
    ] {
        let head =
            format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{answered}\r\n");
        let backend = Backend::new(move |peer| {
            peer.request_head();
            peer.send(&head);
            peer.wait_closed();
        });
        let site = site(&backend);
        let mut client = site.connect();
        client.send(ASK.replace("Upgrade: any", &format!("Upgrade: {asked}")));
        assert_eq!(client.head().status, status, "{asked}: {answered}");
    }
}

/// Issue 28, 1.15: HTTP in a tunnel bypasses the whole configuration.
#[test]
fn http_is_never_tunnelled() {
    let backend = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let site = site(&backend);
    let asked = [
        "Upgrade: h2c",
        "Upgrade: H2C",
        "Upgrade: any, h2c",
        "Upgrade: any\r\nUpgrade: h2c",
        "Upgrade: h2c;q=1",
        "Upgrade: any;q=1",
        "Upgrade: h2c/1",
        "Upgrade: HTTP/2.0",
        "Upgrade: h2",
        "Upgrade: TLS/1.2, HTTP/1.1",
        "Upgrade: any,",
        "Upgrade: an y",
        "Upgrade: ",
    ];
    for upgrade in asked {
        let answer = site.exchange(
            ASK.replace("Upgrade: any", upgrade)
                .replace("Connection: upgrade", "Connection: upgrade, close"),
        );
        assert!(answer.starts_with("HTTP/1.1 200 "), "{upgrade}: {answer}");
    }
    let requests = backend.requests();
    assert_eq!(requests.len(), asked.len());
    assert!(
        !requests.concat().to_lowercase().contains("upgrade"),
        "{requests:?}"
    );
}
