//! Streams: connections that are passed on as they are, by the name that a TLS client asks for or by address.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use support::Site;
use support::backend::{Backend, Peer};
use tutti_testkit::client::Client;
use tutti_testkit::{PATIENCE, refusing_address, wait_until};

/// Echoes each byte behind the name of the server, and sends one more at the end.
fn echo(name: &'static str) -> Backend {
    Backend::new(move |peer| {
        peer.send(name);
        while let Some(byte) = peer.bytes(1) {
            peer.send(byte);
        }
        peer.send("!");
    })
}

/// Passes everything that it receives to the test, until the end.
fn recorder() -> (Backend, Receiver<Vec<u8>>) {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let backend = Backend::new(move |peer| {
        let all: Vec<u8> = std::iter::from_fn(|| peer.bytes(1)).flatten().collect();
        let _ = sender.lock().unwrap().send(all);
        peer.finish();
    });
    (backend, receiver)
}

fn upstream(backend: &Backend, options: &str) -> String {
    format!(r#"{{"servers": {{"{}": {{}}}}{options}}}"#, backend.address)
}

/// A listener with these options, which passes everything to one server.
fn passing(backend: &Backend, listener: &str, options: &str) -> Site {
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"stream": "upstreams/u"{listener}}}}},
             "upstreams": {{"u": {}}}}}"#,
        upstream(backend, options)
    );
    Site::new(2, move |folder| config.replace("FOLDER", folder))
}

/// A listener with these steps, and the upstreams `a` and `b`.
fn steps(a: &Backend, b: &Backend, steps: &str) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"stream": "streams/s"}}}}, "streams": {{"s": {steps}}},
             "upstreams": {{"a": {}, "b": {}}}}}"#,
        upstream(a, ""),
        upstream(b, "")
    )
}

fn stepping(a: &Backend, b: &Backend, list: &str) -> Site {
    let config = steps(a, b, list);
    Site::new(1, move |_| config.clone())
}

fn expect(client: &mut Client, text: &str) {
    let mut bytes = vec![0; text.len()];
    client.stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

fn vector(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

/// The first message of a TLS client (RFC 8446 §4.1.2), in one record.
fn hello(name: &str, protocols: &[&str]) -> Vec<u8> {
    let mut extensions = Vec::new();
    if !name.is_empty() {
        let list = [&[0], &*vector(name.as_bytes())].concat();
        extensions.extend([&[0, 0], &*vector(&vector(&list))].concat());
    }
    if !protocols.is_empty() {
        let one = |text: &&str| [&[text.len() as u8], text.as_bytes()].concat();
        let list: Vec<u8> = protocols.iter().flat_map(one).collect();
        extensions.extend([&[0, 16], &*vector(&vector(&list))].concat());
    }
    let start = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0]].concat();
    let body = [start, vector(&extensions)].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1], &length[1..], &*body].concat();
    [&[22, 3, 1][..], &*vector(&message)].concat()
}

const BY_NAME: &str = r#"[
    {"match": {"server_name": ["*.a.example", "a.example"]}, "action": {"pass": "upstreams/a"}},
    {"match": {"alpn": "h2"}, "action": {"pass": "upstreams/b"}}]"#;

#[test]
fn bytes_pass_both_ways_and_either_side_may_finish_first() {
    let backend = echo("");
    let site = passing(&backend, "", "");
    let mut client = site.connect();
    client.send("abc");
    expect(&mut client, "abc");
    client.finish();
    assert_eq!(client.read_to_end(), "!");

    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let backend = Backend::new(move |peer: &mut Peer| {
        peer.send("last");
        peer.finish();
        let rest: Vec<u8> = std::iter::from_fn(|| peer.bytes(1)).flatten().collect();
        sender.lock().unwrap().send(rest).unwrap();
    });
    let site = passing(&backend, "", "");
    let mut client = site.connect();
    assert_eq!(client.read_to_end(), "last");
    client.send("still open");
    client.finish();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), b"still open");
}

#[test]
fn a_side_that_does_not_read_holds_the_other_back() {
    const MOST: usize = 64 << 20;
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let backend = Backend::new(move |peer: &mut Peer| {
        peer.stream
            .set_write_timeout(Some(std::time::Duration::from_millis(500)))
            .unwrap();
        let block = vec![b'x'; 1 << 16];
        let mut sent = 0;
        while sent < MOST && peer.stream.write_all(&block).is_ok() {
            sent += block.len();
        }
        sender.lock().unwrap().send(sent).unwrap();
    });
    let site = passing(&backend, "", "");
    let client = site.connect();
    let sent = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(
        sent < MOST,
        "the server could send {sent} bytes to a client that reads nothing"
    );
    drop(client);
}

#[test]
fn the_name_that_a_client_asks_for_decides() {
    let (a, b) = (echo("a"), echo("b"));
    let site = stepping(&a, &b, BY_NAME);
    for (name, protocols, server) in [
        ("a.example", &[][..], "a"),
        ("www.A.Example", &["h2"], "a"),
        ("other.example", &["http/1.1", "h2"], "b"),
        ("", &["h2"], "b"),
    ] {
        let mut client = site.connect();
        let hello = hello(name, protocols);
        client.send(&hello);
        expect(&mut client, server);
        // Nothing of the message was taken away.
        let mut bytes = vec![0; hello.len()];
        client.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, hello, "{name}");
    }
    for (name, protocols) in [("other.example", &["http/1.1"][..]), ("", &[])] {
        let mut client = site.connect();
        client.send(hello(name, protocols));
        // With a reset: the message has not been read.
        let is_closed = !matches!(client.fill(), Ok(1..));
        assert!(is_closed, "no step matches {name:?} {protocols:?}");
    }
}

#[test]
fn a_message_in_pieces_is_waited_for() {
    let (a, b) = (echo("a"), echo("b"));
    let site = stepping(&a, &b, BY_NAME);
    let mut client = site.connect();
    for byte in hello("a.example", &[]) {
        client.send([byte]);
        std::thread::yield_now();
    }
    expect(&mut client, "a");
}

#[test]
fn a_connection_that_is_no_tls_is_closed_with_one_line_if_a_step_needs_it() {
    let (a, b) = (echo("a"), echo("b"));
    let site = stepping(&a, &b, BY_NAME);
    for (bytes, reason) in [
        (
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            "closed: it does not begin with a TLS handshake",
        ),
        (
            &[22, 3, 1, 0, 0],
            "closed: its first TLS message is malformed",
        ),
    ] {
        let mut client = site.connect();
        client.send(bytes);
        // A reset if not all bytes were read.
        assert!(!matches!(client.fill(), Ok(1..)));
        site.log.wait_for(reason);
        assert_eq!(site.log.count(reason), 1);
    }
    let mut client = site.connect();
    client.send(&hello("a.example", &[])[..20]);
    client.finish();
    assert!(!matches!(client.fill(), Ok(1..)));
    site.log.wait_for("closed it within its first TLS message");
    assert_eq!(a.connections() + b.connections(), 0);
}

/// One port for SSH and for TLS.
#[test]
fn a_step_may_be_for_connections_that_are_no_tls() {
    let (a, b) = (echo("a"), echo("b"));
    let steps = r#"[
        {"match": {"server_name": "other.example"}, "action": {"close": true}},
        {"match": {"tls": false}, "action": {"pass": "upstreams/b"}},
        {"match": {"tls": true}, "action": {"pass": "upstreams/a"}}]"#;
    let site = stepping(&a, &b, steps);
    let mut client = site.connect();
    client.send("SSH-2.0-client\r\n");
    expect(&mut client, "bSSH-2.0");
    let mut client = site.connect();
    client.send(hello("a.example", &[]));
    expect(&mut client, "a");
    let mut client = site.connect();
    client.send([22, 3, 1, 0, 0]);
    assert!(
        !matches!(client.fill(), Ok(1..)),
        "malformed TLS is neither"
    );
}

#[test]
fn a_client_has_as_long_for_its_message_as_for_the_head_of_a_request() {
    let (a, b) = (echo("a"), echo("b"));
    let config = steps(&a, &b, BY_NAME).replacen(
        '{',
        r#"{"settings": {"http": {"header_read_timeout": 1}}, "#,
        1,
    );
    let site = Site::new(1, move |_| config.clone());
    let mut client = site.connect();
    client.send(&hello("a.example", &[])[..20]);
    assert!(!matches!(client.fill(), Ok(1..)));
    site.log.wait_for("closed: the client took too long");
}

/// A server may speak first, as those of SMTP and MySQL do.
#[test]
fn the_message_is_waited_for_only_when_a_step_needs_it() {
    let (a, b) = (echo("a"), echo("b"));
    let steps = r#"[
        {"match": {"source": "127.0.0.0/8"}, "action": {"pass": "upstreams/b"}},
        {"match": {"server_name": "a.example"}, "action": {"pass": "upstreams/a"}}]"#;
    let site = stepping(&a, &b, steps);
    expect(&mut site.connect(), "b");
}

#[test]
fn clients_are_admitted_by_their_address() {
    let (a, b) = (echo("a"), echo("b"));
    let steps = r#"[
        {"match": {"source": "127.0.0.2"}, "action": {"close": true}},
        {"match": {"source": ["127.0.0.0/8", "!127.0.0.3"]}, "action": {"pass": "upstreams/a"}}]"#;
    let site = stepping(&a, &b, steps);
    let from = |ip: [u8; 4]| Client::from(ip.into(), site.address());
    expect(&mut from([127, 0, 0, 1]), "a");
    assert!(from([127, 0, 0, 2]).is_closed());
    assert!(from([127, 0, 0, 3]).is_closed());
}

#[test]
fn a_server_that_accepts_nothing_is_passed_over_and_rests() {
    let backend = echo("a");
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"stream": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{"{}": {{}}, "{}": {{"backup": true}}}}}}}}}}"#,
        refusing_address(),
        backend.address
    );
    let site = Site::new(1, move |_| config.clone());
    for _ in 0..3 {
        expect(&mut site.connect(), "a");
    }
    site.log.wait_for("gets no requests for 10s");
    assert_eq!(site.log.count("cannot connect"), 1);
}

#[test]
fn a_connection_that_no_server_accepts_is_closed() {
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"stream": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{"{}": {{}}}}}}}}}}"#,
        refusing_address()
    );
    let site = Site::new(1, move |_| config.clone());
    assert!(site.connect().is_closed());
    site.log.wait_for("upstream \"u\": server");
}

#[test]
fn a_proxy_before_and_a_server_behind_agree_about_the_client() {
    let (backend, received) = recorder();
    let listener = r#", "proxy_protocol": {"source": "127.0.0.1"}"#;
    let site = passing(&backend, listener, r#", "proxy_protocol": "v1""#);
    let mut client = site.connect();
    client.send("PROXY TCP4 203.0.113.7 192.0.2.1 5000 80\r\nhello");
    client.finish();
    let received = received.recv_timeout(PATIENCE).unwrap();
    let expected = "PROXY TCP4 203.0.113.7 192.0.2.1 5000 80\r\nhello";
    assert_eq!(String::from_utf8(received).unwrap(), expected);
    let mut client = site.connect();
    client.send("hello without a header, which the proxy must send");
    assert!(!matches!(client.fill(), Ok(1..)));
    site.log.wait_for("it does not begin with a PROXY header");
}

#[test]
fn the_connections_of_a_listener_and_of_a_client_are_bounded() {
    let backend = echo("a");
    let site = passing(&backend, r#", "max_connections_per_client": 2"#, "");
    let mut held: Vec<Client> = (0..2).map(|_| site.connect()).collect();
    held.iter_mut().for_each(|client| expect(client, "a"));
    assert!(site.connect().is_closed());
    drop(held.pop());
    // The end of the other one has been noticed when there is room.
    wait_until("there is room", || {
        let mut client = site.connect();
        matches!(client.fill(), Ok(1..))
    });
}

#[test]
fn a_silent_connection_ends_after_the_tunnel_timeout() {
    let backend = echo("a");
    let site = passing(&backend, "", r#", "tunnel_timeout": 1"#);
    let mut client = site.connect();
    expect(&mut client, "a");
    assert!(client.is_closed());
}

#[test]
fn a_line_of_the_access_log_says_what_passed() {
    let backend = echo("abc");
    let log = r#", "access_log": {"path": "FOLDER/access.log", "format":
        "$remote_addr $status $bytes_received $bytes_sent $upstream_addr"}"#;
    let site = passing(&backend, log, "");
    let mut client = site.connect();
    expect(&mut client, "abc");
    client.send("12");
    expect(&mut client, "12");
    client.finish();
    client.read_to_end();
    let path = site.path().join("access.log");
    let line = format!("127.0.0.1 200 2 6 {}\n", backend.address);
    wait_until("there is a line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == line)
    });
}

#[test]
fn a_change_applies_to_new_connections_and_ends_no_other() {
    let (a, b) = (echo("a"), echo("b"));
    let to = |name: &str| format!(r#"[{{"action": {{"pass": "upstreams/{name}"}}}}]"#);
    let site = stepping(&a, &b, &to("a"));
    let mut old = site.connect();
    expect(&mut old, "a");
    site.configure(&steps(&a, &b, &to("b"))).unwrap();
    expect(&mut site.connect(), "b");
    old.send("on");
    expect(&mut old, "on");
    // The listener is removed: its connections have the time for draining.
    site.configure(r#"{"settings": {"http": {"drain_timeout": 3600}}}"#)
        .unwrap();
    old.send("on");
    expect(&mut old, "on");
}

#[test]
fn connections_of_a_removed_listener_end_when_the_time_for_draining_is_over() {
    let backend = echo("a");
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"stream": "upstreams/u"}}}}, "settings": {{"http": {{"drain_timeout": 0}}}},
             "upstreams": {{"u": {}}}}}"#,
        upstream(&backend, "")
    );
    let site = Site::new(1, move |_| config.clone());
    let mut client = site.connect();
    expect(&mut client, "a");
    site.configure("{}").unwrap();
    assert!(client.is_closed());
}

/// Only what the connection needs is kept: applications of the former configuration can end.
#[test]
fn a_connection_of_a_removed_listener_does_not_keep_the_configuration() {
    let backend = echo("a");
    let config = passing(&backend, "", "");
    let mut client = config.connect();
    expect(&mut client, "a");
    let listener = config.server.listeners().remove(0);
    let retired = config
        .replace(r#"{"settings": {"http": {"drain_timeout": 3600}}}"#)
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let ended = tokio::time::timeout(PATIENCE, retired.end()).await;
        assert!(ended.is_ok(), "the former configuration is still used");
    });
    client.send("on");
    expect(&mut client, "on");
    let leaving = config.server.leaving();
    assert!(leaving.iter().any(|one| one.id == listener.id));
    drop(client);
    wait_until("the connection has ended", || {
        config.server.leaving().is_empty()
    });
}

/// While the server stops, a connection whose client waits for an answer goes on; another one is closed after a second.
#[test]
fn a_stop_closes_idle_connections_and_waits_for_answers() {
    let (sender, answers) = channel::<()>();
    let answers = Mutex::new(answers);
    let backend = Backend::new(move |peer| {
        while let Some(byte) = peer.bytes(1) {
            if byte == b"?" {
                answers.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            }
            peer.send(byte);
        }
    });
    let log = r#", "access_log": {"path": "FOLDER/access.log", "format": "$status $bytes_sent"}"#;
    let site = passing(&backend, log, "");
    let mut idle = site.connect();
    idle.send("1");
    expect(&mut idle, "1");
    let mut asking = site.connect();
    asking.send("?");
    wait_until("the question has been passed on", || {
        let listener = &site.server.listeners()[0];
        let counters = &listener.counters.streams;
        counters.received.load(std::sync::atomic::Ordering::Relaxed) == 2
    });
    site.server.drain();
    assert!(idle.is_closed());
    sender.send(()).unwrap();
    expect(&mut asking, "?");
    assert!(asking.is_closed());
    let path = site.path().join("access.log");
    wait_until("both have a line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == "200 1\n200 1\n")
    });
}

#[test]
fn a_stop_closes_waiting_connections_when_its_time_is_over() {
    let backend = Backend::new(|peer| while peer.bytes(1).is_some() {});
    let log =
        r#", "access_log": {"path": "FOLDER/access.log", "format": "$status $bytes_received"}"#;
    let site = passing(&backend, log, "");
    let mut asking = site.connect();
    asking.send("?");
    wait_until("the question has been passed on", || {
        let listener = &site.server.listeners()[0];
        let counters = &listener.counters.streams;
        counters.received.load(std::sync::atomic::Ordering::Relaxed) == 1
    });
    site.server.drain();
    site.server.cut();
    assert!(asking.is_closed());
    let path = site.path().join("access.log");
    wait_until("it has a line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == "200 1\n")
    });
}
