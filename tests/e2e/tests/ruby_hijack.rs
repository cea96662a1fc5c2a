//! Connections that a Rack application takes over: WebSocket, and HTTP by hand.

use std::fs;
use std::io::Read;

use serde_json::json;
use tutti_e2e::read_until;
use tutti_e2e::ruby::RubySite;
use tutti_sys::signal;
use tutti_testkit::wait_until;
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

fn site() -> RubySite {
    RubySite::start("hijack.ru", &json!({"processes": 1}))
}

fn open(site: &RubySite, target: &str) -> WebSocketClient {
    let (client, head) = WebSocketClient::open(site.server.address(), target, "").unwrap();
    assert!(
        head.to_ascii_lowercase().contains("x-accepted: 1\r\n"),
        "{head}"
    );
    client
}

fn say(client: &mut WebSocketClient, text: &str) {
    client.send(&build(&[Frame::new(1, text)])).unwrap();
}

fn hear(client: &mut WebSocketClient, text: &str) {
    assert_eq!(
        client.hear().unwrap(),
        Heard::Message(1, text.as_bytes().to_vec())
    );
}

#[test]
fn the_cases_of_websocket_pass_by_hijack() {
    let site = site();
    let mut configuration = site.configuration(&json!({
        "script": site.root().join("hijack.ru"), "processes": 1
    }));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 16 << 20});
    site.server.put("/config", &configuration);
    // Frames, and messages in pieces; what the router alone sees to is proved elsewhere.
    let cases = ["1", "5", "7.1", "9.5"];
    tutti_websocket_cases::run(site.server.address(), "/talk", &cases).check();
}

#[test]
fn one_thread_has_many_connections_and_serves_beside_them() {
    let site = site();
    let mut clients: Vec<WebSocketClient> = (0..20)
        .map(|number| open(&site, ["/talk", "/partial", "/protocol"][number % 3]))
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        say(client, &format!("message {number}"));
    }
    assert_eq!(site.get("/").text(), "hello");
    for (number, client) in clients.iter_mut().enumerate() {
        hear(client, &format!("message {number}"));
    }
    let large = "x".repeat(300_000);
    for client in &mut clients {
        say(client, &large);
        hear(client, &large);
    }
}

#[test]
fn either_side_closes() {
    let site = site();
    let mut client = open(&site, "/talk");
    let payload = [&1000_u16.to_be_bytes()[..], b"bye"].concat();
    client
        .send(&build(&[Frame::new(8, payload.clone())]))
        .unwrap();
    assert_eq!(client.hear().unwrap(), Heard::Close(payload));
    site.wait_for_note("closed", "1000");

    let mut client = open(&site, "/talk");
    say(&mut client, "stop");
    let payload = [&4001_u16.to_be_bytes()[..], b"as asked"].concat();
    assert_eq!(client.hear().unwrap(), Heard::Close(payload));

    let mut client = open(&site, "/talk");
    say(&mut client, "vanish");
    let Heard::Close(payload) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(payload.get(..2), Some(&1011_u16.to_be_bytes()[..]));
    site.wait_for_log("closed without a close frame");
}

#[test]
fn a_client_that_vanishes_is_the_end_of_what_the_application_reads() {
    let site = site();
    drop(open(&site, "/talk"));
    site.wait_for_note("closed", "no more");
    let mut stream = site.open("/waits");
    read_until(&mut stream, "begun");
    drop(stream);
    site.wait_for_note("gone", "\"\"");
    assert_eq!(site.get("/").text(), "hello");
}

#[test]
fn an_application_pings_its_client() {
    let site = site();
    let mut client = open(&site, "/talk");
    say(&mut client, "ping");
    let Heard::Ping(payload) = client.hear().unwrap() else {
        panic!("no ping");
    };
    client.send(&build(&[Frame::new(10, payload)])).unwrap();
    hear(&mut client, "are you there");
}

#[test]
fn a_handshake_is_refused_as_any_request() {
    let site = site();
    let fields = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
    for target in ["/refused", "/offers"] {
        let Err(head) = WebSocketClient::open(site.server.address(), target, fields) else {
            panic!("accepted: {target}");
        };
        assert!(head.contains("401") || head.contains("404"), "{head}");
    }
    let offers = site.wait_for_note("offers", "\n");
    assert_eq!(offers, "[nil, \"websocket\", [\"websocket\"]]\n");
}

#[test]
fn an_answer_by_hand_is_an_answer() {
    let site = site();
    let reply = site.get("/by_hand?what=I%20say");
    assert_eq!((reply.status, reply.text().as_str()), (201, "what=I%20say"));
    assert_eq!(reply.field("Content-Type"), Some("text/plain"));
    let mut stream = site.open("/chunks");
    let got = read_until(&mut stream, "one ");
    assert!(!got.contains("two"), "{got}");
    fs::write(site.work().join("go"), "").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(
        rest.contains("two") && rest.ends_with("0\r\n\r\n"),
        "{rest}"
    );
    assert_eq!(site.get("/raises").text(), "fine");
    site.wait_for_log("after the connection was taken over (RuntimeError)");
    assert_eq!(site.get("/late").text(), "begun true");
    assert!(
        site.get("/after_start")
            .text()
            .contains("the answer has begun")
    );
}

#[test]
fn half_an_answer_by_hand_is_none() {
    let site = site();
    for (target, told) in [
        ("/silent", "closed without an answer"),
        ("/no_http", "its answer is not HTTP"),
    ] {
        assert_eq!(site.get(target).status, 502, "{target}");
        site.wait_for_log(told);
    }
    let mut stream = site.open("/broken_off");
    read_until(&mut stream, "half");
    fs::write(site.work().join("go"), "").unwrap();
    let mut rest = String::new();
    // It may be reset.
    let _ = stream.read_to_string(&mut rest);
    assert_eq!(rest, "");
    site.wait_for_log("closed within the body of the answer");
    assert_eq!(site.get("/").text(), "hello");
}

#[test]
fn connections_are_bounded_and_never_keep_requests_out() {
    let site = RubySite::start(
        "hijack.ru",
        &json!({"processes": 1, "limits": {"concurrency": 2}}),
    );
    let clients = [open(&site, "/talk"), open(&site, "/talk")];
    let Err(head) = WebSocketClient::open(site.server.address(), "/talk", "") else {
        panic!("a third was accepted");
    };
    assert!(head.contains("500"), "{head}");
    site.wait_for_log("(`limits.concurrency`)");
    assert_eq!(site.get("/").text(), "hello");
    drop(clients);
    wait_until("room for another", || {
        WebSocketClient::open(site.server.address(), "/talk", "").is_ok()
    });
}

#[test]
fn no_request_waits_for_a_websocket_of_a_process_at_its_limit_of_requests() {
    let site = RubySite::start(
        "hijack.ru",
        &json!({"processes": 1, "limits": {"requests": 3}}),
    );
    let mut client = open(&site, "/talk");
    for _ in 0..6 {
        assert_eq!(site.get("/").text(), "hello");
    }
    say(&mut client, "still here");
    hear(&mut client, "still here");
}

/// Issue 12: a handshake that was accepted after the process had begun to leave kept it, and requests waited for its successor.
#[test]
fn no_request_waits_for_a_websocket_that_is_accepted_by_a_process_at_its_limit() {
    let site = RubySite::start(
        "hijack.ru",
        &json!({"processes": 1, "limits": {"requests": 3}}),
    );
    let address = site.server.address();
    let opening = std::thread::spawn(move || WebSocketClient::open(address, "/talk_later", ""));
    site.wait_for_note("taken", "over");
    for _ in 0..2 {
        assert_eq!(site.get("/").text(), "hello");
    }
    fs::write(site.work().join("go"), "").unwrap();
    let (mut client, _) = opening.join().unwrap().unwrap();
    assert_eq!(site.get("/").text(), "hello");
    say(&mut client, "still here");
    hear(&mut client, "still here");
}

#[test]
fn a_process_that_is_replaced_keeps_its_connections_for_a_while() {
    let site = site();
    let mut client = open(&site, "/talk");
    let workers = site.workers();
    site.server.restart("ruby");
    wait_until("another process beside it", || {
        site.workers()
            .iter()
            .any(|worker| !workers.contains(worker))
    });
    say(&mut client, "still here");
    hear(&mut client, "still here");
    let mut other = open(&site, "/talk");
    signal::send(workers[0], libc::SIGKILL).unwrap();
    let Heard::Close(payload) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(payload.get(..2), Some(&1011_u16.to_be_bytes()[..]));
    say(&mut other, "not that one");
    hear(&mut other, "not that one");
}
