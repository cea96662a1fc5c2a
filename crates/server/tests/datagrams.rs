//! Streams of UDP: sessions of clients, with real sockets on both sides.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use support::Site;
use tutti_testkit::{PATIENCE, wait_until};

/// The largest datagram of IPv4: 65,535 bytes less the heads of IP and UDP.
const LONGEST: usize = 65_507;

/// A server for datagrams; its thread ends with the test.
struct Server {
    address: SocketAddr,
    /// Returns the datagrams that it has received, with their senders.
    received: Receiver<(Vec<u8>, SocketAddr)>,
}

impl Server {
    /// Answers each datagram with what `answers` returns for it.
    fn new(answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (sender, received) = channel();
        std::thread::spawn(move || {
            let mut room = vec![0; 1 << 16];
            while let Ok((length, from)) = socket.recv_from(&mut room) {
                for answer in answers(&room[..length]) {
                    socket.send_to(&answer, from).unwrap();
                }
                if sender.send((room[..length].to_vec(), from)).is_err() {
                    return;
                }
            }
        });
        Self { address, received }
    }

    /// Puts its name before each datagram.
    fn echo(name: &'static str) -> Self {
        Self::new(move |bytes| vec![[name.as_bytes(), bytes].concat()])
    }

    /// Answers nothing.
    fn silent() -> Self {
        Self::new(|_| Vec::new())
    }

    /// The next datagram, and its sender.
    fn next(&self) -> (Vec<u8>, SocketAddr) {
        self.received.recv_timeout(PATIENCE).unwrap()
    }
}

/// An address where nothing receives, as long as the socket exists: the kernel gives its port to no other program.
fn refusing() -> (SocketAddr, UdpSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // A connected socket takes only the datagrams of its peer.
    socket.connect("127.0.0.1:9").unwrap();
    (address, socket)
}

/// A listener with these options, and an upstream of these servers.
fn passing(servers: &[SocketAddr], listener: &str, options: &str) -> String {
    let servers: Vec<String> = servers
        .iter()
        .map(|one| format!("\"{one}\": {{}}"))
        .collect();
    format!(
        r#"{{"listeners": {{"udp:127.0.0.1:1": {{"stream": "upstreams/u"{listener}}}}},
             "upstreams": {{"u": {{"servers": {{{}}}{options}}}}}}}"#,
        servers.join(", ")
    )
}

fn site(servers: &[SocketAddr], listener: &str, options: &str) -> Site {
    let config = passing(servers, listener, options);
    Site::new(2, move |folder| config.replace("FOLDER", folder))
}

fn client_to(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn client(site: &Site) -> UdpSocket {
    client_to(site.address())
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut room = vec![0; 1 << 16];
    let length = socket.recv(&mut room).unwrap();
    room.truncate(length);
    room
}

/// Sends a datagram and expects this answer.
#[track_caller]
fn expect(socket: &UdpSocket, sent: &str, answer: &str) {
    socket.send(sent.as_bytes()).unwrap();
    assert_eq!(String::from_utf8_lossy(&receive(socket)), answer);
}

fn open(site: &Site) -> u64 {
    let listener = &site.server.listeners()[0];
    listener.counters.streams.open.load(Ordering::Relaxed)
}

fn wait_for_sessions(site: &Site, count: u64) {
    wait_until(&format!("{count} sessions are open"), || {
        open(site) == count
    });
}

/// The count of an outcome, or of a reason for which datagrams are dropped.
fn count(site: &Site, word: &str) -> u64 {
    let listener = &site.server.listeners()[0];
    let streams = &listener.counters.streams;
    let outcomes = streams.outcomes().map(|(one, count)| (one.word(), count));
    let dropped = streams.dropped().map(|(one, count)| (one.word(), count));
    let mut all = outcomes.chain(dropped);
    all.find(|(name, _)| *name == word).unwrap().1
}

#[test]
fn each_client_has_a_session_and_its_own_socket_to_the_server() {
    let server = Server::echo("a");
    let site = site(&[server.address], "", "");
    let (one, two) = (client(&site), client(&site));
    expect(&one, "1", "a1");
    expect(&two, "2", "a2");
    expect(&one, "3", "a3");
    let senders: Vec<SocketAddr> = (0..3).map(|_| server.next().1).collect();
    assert_eq!(senders[0], senders[2]);
    assert_ne!(senders[0], senders[1]);
    wait_for_sessions(&site, 2);
}

/// Clients take answers only from the address that they have sent to.
#[test]
fn an_answer_leaves_from_the_address_that_the_client_has_sent_to() {
    let server = Server::echo("a");
    let config = passing(&[server.address], "", "").replace("127.0.0.1:1", "*:1");
    let site = Site::new(1, move |_| config.clone());
    let port = site.address().port();
    for ip in ["127.0.0.2", "127.0.0.3"] {
        let client = client_to(SocketAddr::new(ip.parse().unwrap(), port));
        expect(&client, ip, &format!("a{ip}"));
    }
}

#[test]
fn a_session_ends_after_the_expected_responses() {
    let server = Server::new(|bytes| vec![bytes.to_vec(), bytes.to_vec()]);
    let site = site(&[server.address], r#", "udp": {"responses": 2}"#, "");
    let client = client(&site);
    expect(&client, "1", "1");
    assert_eq!(receive(&client), b"1");
    wait_for_sessions(&site, 0);
    assert_eq!(count(&site, "passed"), 1);
    expect(&client, "2", "2");
    // Another session has another socket, perhaps with the same port.
    wait_until("two sessions have ended", || count(&site, "passed") == 2);
}

#[test]
fn a_session_without_responses_ends_at_once() {
    let server = Server::silent();
    let site = site(&[server.address], r#", "udp": {"responses": 0}"#, "");
    let client = client(&site);
    for number in 1..=3 {
        client.send(b"<13>line").unwrap();
        assert_eq!(server.next().0, b"<13>line");
        wait_until("the session has ended", || count(&site, "passed") == number);
    }
    wait_for_sessions(&site, 0);
}

#[test]
fn after_so_many_requests_another_server_gets_the_next_one() {
    let (a, b) = (Server::echo("a"), Server::echo("b"));
    let servers = [a.address, b.address];
    let site = site(&servers, r#", "udp": {"requests": 2, "responses": 1}"#, "");
    let client = client(&site);
    let mut answers = Vec::new();
    for text in ["1", "2", "3", "4"] {
        client.send(text.as_bytes()).unwrap();
        answers.push(String::from_utf8(receive(&client)).unwrap());
    }
    answers.sort();
    // Each answer completes a session, so that the servers take turns.
    assert_eq!(answers.iter().filter(|one| one.starts_with('a')).count(), 2);
    wait_for_sessions(&site, 0);
}

/// Its answers still come to the client, although the next datagram is in another session.
#[test]
fn a_session_whose_requests_are_used_up_still_gets_its_responses() {
    let (sender, answers) = channel::<()>();
    let answers = Mutex::new(answers);
    let slow = Server::new(move |bytes| {
        answers.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        vec![bytes.to_vec()]
    });
    let options = r#", "udp": {"requests": 1, "responses": 1}"#;
    let site = site(&[slow.address], options, "");
    let client = client(&site);
    client.send(b"1").unwrap();
    client.send(b"2").unwrap();
    wait_for_sessions(&site, 2);
    sender.send(()).unwrap();
    sender.send(()).unwrap();
    let mut both = [receive(&client), receive(&client)];
    both.sort();
    assert_eq!(both, [b"1".to_vec(), b"2".to_vec()]);
    wait_for_sessions(&site, 0);
}

#[test]
fn an_idle_session_ends() {
    let server = Server::echo("a");
    let site = site(&[server.address], "", r#", "tunnel_timeout": 3"#);
    let client = client(&site);
    expect(&client, "1", "a1");
    wait_for_sessions(&site, 0);
    assert_eq!(count(&site, "passed"), 1);
}

#[test]
fn a_datagram_that_a_dead_server_refuses_goes_to_another_one() {
    let server = Server::echo("a");
    let (dead, _port) = refusing();
    // The dead one comes first for every second client.
    let site = site(&[dead, server.address], "", r#", "max_fails": 0"#);
    for text in ["1", "2", "3"] {
        expect(&client(&site), text, &format!("a{text}"));
    }
    assert_eq!(count(&site, "failed"), 0);
    site.log.wait_for(&format!("server {dead}: cannot connect"));
}

#[test]
fn without_a_server_the_session_fails_and_the_next_datagram_begins_another() {
    let (dead, _port) = refusing();
    let log =
        r#", "access_log": {"path": "FOLDER/access.log", "format": "$status $bytes_received"}"#;
    let site = site(&[dead], log, r#", "max_fails": 0"#);
    let client = client(&site);
    for number in 1..=2 {
        client.send(b"1").unwrap();
        wait_until("the session has failed", || {
            count(&site, "failed") == number
        });
    }
    let path = site.path().join("access.log");
    wait_until("both have a line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == "502 1\n502 1\n")
    });
    wait_for_sessions(&site, 0);
}

#[test]
fn a_client_whose_server_has_gone_is_passed_to_another_one() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = Server::echo("b");
    let config = format!(
        r#"{{"listeners": {{"udp:127.0.0.1:1": {{"stream": "upstreams/u"}}}},
             "upstreams": {{"u": {{"max_fails": 1, "fail_timeout": 3600,
                "servers": {{"{}": {{}}, "{}": {{"backup": true}}}}}}}}}}"#,
        gone.local_addr().unwrap(),
        other.address
    );
    let site = Site::new(1, move |_| config.clone());
    let client = client(&site);
    client.send(b"1").unwrap();
    let mut room = [0; 10];
    gone.set_read_timeout(Some(PATIENCE)).unwrap();
    let (_, from) = gone.recv_from(&mut room).unwrap();
    gone.send_to(b"a1", from).unwrap();
    assert_eq!(receive(&client), b"a1");
    drop(gone);
    client.send(b"2").unwrap();
    wait_for_sessions(&site, 0);
    expect(&client, "3", "b3");
}

/// A flood from addresses that may be forged: sessions are bounded, those that exist go on, and the log has one line.
#[test]
fn a_flood_of_new_clients_ends_at_the_bound_and_harms_no_session() {
    let server = Server::echo("a");
    let site = site(&[server.address], r#", "udp": {"max_sessions": 20}"#, "");
    let first = client(&site);
    expect(&first, "1", "a1");
    // As many as the kernel's default buffer of a socket holds, so that the server gets each of them.
    let flood: Vec<UdpSocket> = (0..100).map(|_| client(&site)).collect();
    for socket in &flood {
        socket.send(b"x").unwrap();
    }
    wait_until("all others are dropped", || count(&site, "sessions") == 81);
    assert_eq!(open(&site), 20);
    expect(&first, "2", "a2");
    assert_eq!(site.log.count("has `max_sessions` open"), 1);
}

#[test]
fn the_sessions_of_one_address_are_bounded() {
    let server = Server::echo("a");
    let site = site(
        &[server.address],
        r#", "max_connections_per_client": 2"#,
        "",
    );
    let held = [client(&site), client(&site)];
    held.iter().for_each(|one| expect(one, "1", "a1"));
    client(&site).send(b"1").unwrap();
    wait_until("the third one is dropped", || count(&site, "sessions") == 1);
}

#[test]
fn datagrams_of_every_length_pass() {
    let server = Server::new(|bytes| vec![bytes.to_vec()]);
    let site = site(&[server.address], "", "");
    let client = client(&site);
    for length in [0, 1, 1472, 9000, LONGEST, 0] {
        let sent: Vec<u8> = (0..length).map(|number| number as u8).collect();
        client.send(&sent).unwrap();
        assert!(receive(&client) == sent, "{length}");
    }
    assert_eq!(open(&site), 1);
}

#[test]
fn longer_datagrams_than_permitted_are_dropped_in_both_directions() {
    let server = Server::new(|bytes| vec![vec![1; 101], bytes.to_vec()]);
    let site = site(
        &[server.address],
        r#", "udp": {"max_datagram_size": 100}"#,
        "",
    );
    let client = client(&site);
    client.send(&[7; 101]).unwrap();
    wait_until("it is dropped", || count(&site, "size") == 1);
    assert_eq!(open(&site), 0);
    client.send(&[7; 100]).unwrap();
    assert_eq!(receive(&client), [7; 100]);
    assert_eq!(count(&site, "size"), 2);
    client.send(&[7; 101]).unwrap();
    wait_until("it is dropped, too", || count(&site, "size") == 3);
}

/// The header of version 2 says DGRAM (0x12), and only the first datagram has it.
#[test]
fn the_first_datagram_announces_the_client() {
    let server = Server::silent();
    let site = site(&[server.address], "", r#", "proxy_protocol": "v2""#);
    let client = client(&site);
    client.send(b"first").unwrap();
    client.send(b"second").unwrap();
    let (bytes, _) = server.next();
    let (source, to) = (client.local_addr().unwrap(), site.address());
    let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
    expected.extend(source.port().to_be_bytes());
    expected.extend(to.port().to_be_bytes());
    expected.extend(b"first");
    assert_eq!(bytes, expected);
    assert_eq!(server.next().0, b"second");
}

#[test]
fn a_line_of_the_access_log_says_what_passed() {
    let server = Server::echo("abc");
    let listener = r#", "udp": {"responses": 1}, "access_log": {"path": "FOLDER/access.log", "format":
        "$remote_addr $status $bytes_received $bytes_sent $upstream_addr"}"#;
    let site = site(&[server.address], listener, "");
    expect(&client(&site), "12", "abc12");
    let path = site.path().join("access.log");
    let line = format!("127.0.0.1 200 2 5 {}\n", server.address);
    wait_until("there is a line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == line)
    });
}

#[test]
fn steps_decide_by_address() {
    let server = Server::echo("a");
    let config = format!(
        r#"{{"listeners": {{"udp:127.0.0.1:1": {{"stream": "streams/s"}}}},
             "streams": {{"s": [{{"match": {{"source": "!127.0.0.5"}}, "action": {{"pass": "upstreams/u"}}}}]}},
             "upstreams": {{"u": {{"servers": {{"{}": {{}}}}}}}}}}"#,
        server.address
    );
    let site = Site::new(1, move |_| config.clone());
    let other = UdpSocket::bind("127.0.0.5:0").unwrap();
    other.send_to(b"1", site.address()).unwrap();
    wait_until("it is closed", || count(&site, "closed") == 1);
    expect(&client(&site), "2", "a2");
    assert_eq!(open(&site), 1);
}

/// Datagrams that come before a server is known wait for it.
#[test]
fn datagrams_wait_for_a_server() {
    let server = Server::echo("a");
    let config = format!(
        r#"{{"listeners": {{"udp:127.0.0.1:1": {{"stream": "upstreams/u", "udp": {{"responses": 1}}}}}},
             "upstreams": {{"u": {{"servers": {{"{}": {{"max_connections": 1}}}}}}}}}}"#,
        server.address
    );
    let site = Site::new(1, move |_| config.clone());
    // Each session uses the only place for a moment.
    let clients: Vec<UdpSocket> = (0..20).map(|_| client(&site)).collect();
    for one in &clients {
        one.send(b"1").unwrap();
    }
    for one in &clients {
        assert_eq!(receive(one), b"a1");
    }
    wait_for_sessions(&site, 0);
    assert_eq!(count(&site, "passed"), 20);
}

#[test]
fn a_change_keeps_sessions_and_a_removed_listener_ends_them() {
    let (a, b) = (Server::echo("a"), Server::echo("b"));
    let site = site(&[a.address], "", "");
    let old = client(&site);
    expect(&old, "1", "a1");
    site.configure(&passing(&[b.address], "", "")).unwrap();
    expect(&old, "2", "a2");
    expect(&client(&site), "3", "b3");
    let listener = Arc::clone(&site.server.listeners()[0]);
    site.configure("{}").unwrap();
    wait_until("its sessions have ended", || !listener.has_connections());
    assert!(site.server.leaving().is_empty());
}

/// An answer that is on its way still comes.
#[test]
fn a_removed_listener_waits_for_the_expected_responses() {
    let (sender, answers) = channel::<()>();
    let answers = Mutex::new(answers);
    let slow = Server::new(move |bytes| {
        answers.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        vec![bytes.to_vec()]
    });
    let site = site(&[slow.address], r#", "udp": {"responses": 1}"#, "");
    let client = client(&site);
    client.send(b"1").unwrap();
    wait_for_sessions(&site, 1);
    let listener = Arc::clone(&site.server.listeners()[0]);
    site.configure("{}").unwrap();
    assert_eq!(site.server.leaving().len(), 1);
    sender.send(()).unwrap();
    assert_eq!(receive(&client), b"1");
    wait_until("its session has ended", || !listener.has_connections());
}

/// The request keeps the former configuration, and had kept the port with it.
#[test]
fn a_removed_listener_gives_up_its_port_while_a_request_of_another_one_runs() {
    let (server, slow) = (Server::echo("a"), TcpListener::bind("127.0.0.1:0").unwrap());
    let (to, proxy) = (server.address, slow.local_addr().unwrap());
    for removed in [
        r#""udp:127.0.0.1:1": {"stream": "upstreams/u"}"#,
        r#""127.0.0.1:2": {"pass": "routes", "tls": {"certificate": "site"}, "http3": true}"#,
    ] {
        let config = move |before: &str| {
            format!(
                r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}{before}}},
                     "upstreams": {{"u": {{"servers": {{"{to}": {{}}}}}}}},
                     "routes": [{{"action": {{"proxy": "http://{proxy}"}}}}]}}"#
            )
        };
        let site = Site::new(2, |_| config(&format!(", {removed}")));
        let udp = site.datagrams.lock().unwrap()[0];
        assert!(UdpSocket::bind(udp).is_err(), "{removed}");
        let mut client = site.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut request, _) = slow.accept().unwrap();
        site.configure(&config("")).unwrap();
        wait_until(&format!("the port is free: {removed}"), || {
            UdpSocket::bind(udp).is_ok()
        });
        // It still runs: otherwise it would have kept nothing.
        request
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        assert_eq!(client.response("GET").status, 200, "{removed}");
    }
}

#[test]
fn a_stop_ends_sessions() {
    let server = Server::echo("a");
    let site = site(&[server.address], "", "");
    expect(&client(&site), "1", "a1");
    let listener = Arc::clone(&site.server.listeners()[0]);
    site.server.drain();
    wait_until("its sessions have ended", || !listener.has_connections());
}

/// The server has one place, which another session holds.
#[test]
fn datagrams_that_wait_for_a_server_are_bounded() {
    let server = Server::echo("a");
    let config = format!(
        r#"{{"listeners": {{"udp:127.0.0.1:1": {{"stream": "upstreams/u"}}}},
             "upstreams": {{"u": {{"queue_timeout": 600, "servers": {{"{}": {{"max_connections": 1}}}}}}}}}}"#,
        server.address
    );
    let site = Site::new(1, move |_| config.clone());
    let first = client(&site);
    expect(&first, "1", "a1");
    let listener = Arc::clone(&site.server.listeners()[0]);
    let received = || listener.counters.streams.received.load(Ordering::Relaxed);
    let send = |client: &UdpSocket, length: usize| {
        let before = received();
        client.send(&vec![7; length]).unwrap();
        wait_until("it has come", || received() == before + length as u64);
    };
    // By their number: 1024 for a session.
    let many = client(&site);
    (0..1030).for_each(|_| send(&many, 1));
    assert_eq!(count(&site, "unsent"), 6);
    // By their bytes: 4 MiB for all.
    let long = client(&site);
    (0..65).for_each(|_| send(&long, LONGEST));
    assert_eq!(count(&site, "unsent"), 7);
    expect(&first, "2", "a2");
}
