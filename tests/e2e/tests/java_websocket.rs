//! WebSocket applications in Java, through the whole server: `javax.websocket`, `jakarta.websocket` and Jetty's own interface.

use serde_json::{Value, json};
use tutti_e2e::java::JavaSite;
use tutti_sys::signal;
use tutti_testkit::wait_until;
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

/// Messages of 16 MB may come in, as the cases want.
fn start(name: &str, extra: &Value) -> JavaSite {
    let site = JavaSite::bare(name);
    let mut configuration = site.configuration(extra);
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 17 << 20});
    site.server.put("/config", &configuration);
    site
}

fn open_with(site: &JavaSite, target: &str, fields: &str) -> (WebSocketClient, String) {
    let (client, head) = WebSocketClient::open(site.server.address(), target, fields).unwrap();
    (client, head.to_ascii_lowercase())
}

fn open(site: &JavaSite, target: &str) -> WebSocketClient {
    open_with(site, target, "").0
}

fn say(client: &mut WebSocketClient, text: &str) {
    client.send(&build(&[Frame::new(1, text)])).unwrap();
}

#[track_caller]
fn hear(client: &mut WebSocketClient, text: &str) {
    assert_eq!(
        client.hear().unwrap(),
        Heard::Message(1, text.as_bytes().to_vec())
    );
}

fn close(code: u16, reason: &str) -> Heard {
    Heard::Close([&code.to_be_bytes()[..], reason.as_bytes()].concat())
}

/// The code of the close frame that comes next.
#[track_caller]
fn closed(client: &mut WebSocketClient) -> u16 {
    let Heard::Close(payload) = client.hear().unwrap() else {
        panic!("no close");
    };
    u16::from_be_bytes(*payload.first_chunk().unwrap())
}

#[test]
fn the_cases_of_the_protocol_pass() {
    for name in ["javax", "jakarta"] {
        let site = start(name, &json!({}));
        for target in ["/talk", "/jetty"] {
            tutti_websocket_cases::run(site.server.address(), target, &[]).check();
        }
        assert_eq!(site.text("/q/hello"), "hello");
    }
}

#[test]
fn the_handshake_has_fields_and_a_subprotocol_and_no_extension() {
    let site = start("jakarta", &json!({}));
    let fields = "X-Asked: a\r\nSec-WebSocket-Protocol: other, chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n";
    let (mut client, head) = open_with(&site, "/talk?a=b", fields);
    for line in ["x-accepted: 1\r\n", "sec-websocket-protocol: chat\r\n"] {
        assert!(head.contains(line), "{head}");
    }
    assert!(!head.contains("sec-websocket-extensions"), "{head}");
    say(&mut client, "asked");
    let Heard::Message(1, asked) = client.hear().unwrap() else {
        panic!("no text");
    };
    let asked = String::from_utf8(asked).unwrap();
    assert!(asked.ends_with("/talk?a=b [a] chat"), "{asked}");
    let Err(refused) = WebSocketClient::open(site.server.address(), "/none", "") else {
        panic!("accepted where nothing is");
    };
    assert!(refused.contains("404"), "{refused}");
    // Jetty never has it.
    let Err(refused) = WebSocketClient::open(site.server.address(), "/talk;a=b", "") else {
        panic!("accepted with parameters of the path");
    };
    assert!(refused.contains("400"), "{refused}");
    let log = site.server.log();
    assert!(!log.contains("NullPointerException"), "{log}");
    // A servlet answers a handshake like any request.
    let Err(refused) = WebSocketClient::open(site.server.address(), "/q/hello", "") else {
        panic!("accepted by a servlet");
    };
    assert!(refused.contains("200"), "{refused}");
}

#[test]
fn either_side_closes_with_code_and_reason() {
    for name in ["javax", "jakarta"] {
        let site = start(name, &json!({}));
        let mut client = open(&site, "/talk");
        say(&mut client, "close 4001 asked");
        assert_eq!(client.hear().unwrap(), close(4001, "asked"));
        site.wait_for_note("closed", "4001 asked.");

        let mut client = open(&site, "/talk");
        let payload = [&4002_u16.to_be_bytes()[..], b"theirs"].concat();
        client.send(&build(&[Frame::new(8, payload)])).unwrap();
        assert_eq!(closed(&mut client), 4002);
        site.wait_for_note("closed", "4002 theirs.");

        drop(open(&site, "/talk"));
        site.wait_for_note("closed", "1006 ");

        let mut client = open(&site, "/talk");
        say(&mut client, "fail");
        site.wait_for_note("failed", "fails in a WebSocket");
        // Jetty's own code for it.
        assert_eq!(closed(&mut client), 1003);
    }
}

#[test]
fn an_application_may_have_an_idle_timeout_of_its_own() {
    let site = start("jakarta", &json!({}));
    let mut client = open(&site, "/talk");
    say(&mut client, "idle 300");
    assert_eq!(closed(&mut client), 1001);
    site.wait_for_note("closed", "1001 ");
}

#[test]
fn an_application_pings_and_sends_in_parts() {
    let site = start("jakarta", &json!({}));
    let mut client = open(&site, "/talk");
    say(&mut client, "ping there");
    let Heard::Ping(payload) = client.hear().unwrap() else {
        panic!("no ping");
    };
    client.send(&build(&[Frame::new(10, payload)])).unwrap();
    hear(&mut client, "pong there");
    say(&mut client, "parts");
    hear(&mut client, "one message");
    hear(&mut client, &"line\n".repeat(30_000));
    assert_eq!(
        client.hear().unwrap(),
        Heard::Message(2, vec![0; 1_500_000])
    );
    // Parts of the client's are put together.
    let parts = [
        Frame::new(1, "a").open(),
        Frame::new(9, "p"),
        Frame::new(0, "b"),
    ];
    client.send(&build(&parts)).unwrap();
    assert_eq!(client.hear().unwrap(), Heard::Pong(b"p".to_vec()));
    hear(&mut client, "ab");
}

#[test]
fn many_talk_at_once_and_requests_are_served_beside_them() {
    // One thread: connections must not keep it.
    let site = start("jakarta", &json!({}));
    let mut clients: Vec<_> = (0..100).map(|_| open(&site, "/talk")).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            say(client, &format!("{round} {number}"));
        }
        assert_eq!(site.text("/q/hello"), "hello");
        for (number, client) in clients.iter_mut().enumerate() {
            hear(client, &format!("{round} {number}"));
        }
    }
    let mut room: Vec<_> = (0..10)
        .map(|number| open(&site, &format!("/room/n{number}")))
        .collect();
    for client in &mut room {
        say(client, "in");
    }
    // A client that gets the last one has got all.
    for client in &mut room {
        let mut heard = 0;
        while heard < 10 {
            let Heard::Message(1, text) = client.hear().unwrap() else {
                panic!("no text");
            };
            assert!(text.ends_with(b": in"));
            heard += 1;
            if text == b"n9: in" {
                break;
            }
        }
    }
}

#[test]
fn more_than_fits_waits_for_the_client() {
    for name in ["javax", "jakarta"] {
        let site = start(name, &json!({}));
        let mut client = open(&site, "/talk");
        say(&mut client, "push 60 200000");
        // This client does not read yet; others are served.
        assert_eq!(site.text("/q/hello"), "hello");
        assert!(
            !site.work().join("pushed").exists(),
            "12 MB are not kept for a client that does not read"
        );
        for number in 0..60_u8 {
            let Heard::Message(2, bytes) = client.hear().unwrap() else {
                panic!("no message {number}");
            };
            assert!(
                bytes.len() == 200_000 && bytes.iter().all(|byte| *byte == number),
                "{number}"
            );
        }
        site.wait_for_note("pushed", "all");
    }
}

#[test]
fn a_client_that_vanishes_ends_what_is_sent_to_it() {
    let site = start("jakarta", &json!({}));
    let mut client = open(&site, "/talk");
    say(&mut client, "push 60 200000");
    assert!(matches!(client.hear().unwrap(), Heard::Message(2, _)));
    drop(client);
    site.wait_for_note("closed", "1006 ");
    assert_eq!(site.text("/q/hello"), "hello");
}

#[test]
fn a_process_that_is_replaced_keeps_its_connections_for_a_while() {
    let site = start("jakarta", &json!({}));
    let mut client = open(&site, "/talk");
    let workers = site.workers();
    site.server.restart("java");
    wait_until("another process beside it", || {
        site.workers()
            .iter()
            .any(|worker| !workers.contains(worker))
    });
    say(&mut client, "still here");
    hear(&mut client, "still here");
    let mut other = open(&site, "/talk");
    signal::send(workers[0], libc::SIGKILL).unwrap();
    assert_eq!(closed(&mut client), 1011);
    say(&mut other, "not that one");
    hear(&mut other, "not that one");
}

#[test]
fn a_drain_timeout_ends_connections() {
    let site = start("jakarta", &json!({"limits": {"drain_timeout": 1}}));
    let mut client = open(&site, "/talk");
    site.server.restart("java");
    assert_eq!(closed(&mut client), 1012);
    assert_eq!(site.text("/q/hello"), "hello");
}

#[test]
fn a_process_at_its_limit_of_requests_leaves_connections_their_drain_timeout() {
    let site = start(
        "jakarta",
        &json!({"limits": {"requests": 6, "drain_timeout": 5}}),
    );
    let mut clients = [open(&site, "/talk"), open(&site, "/jetty")];
    for _ in 0..10 {
        assert_eq!(site.text("/q/hello"), "hello");
    }
    for client in &mut clients {
        assert_eq!(closed(client), 1012);
    }
}

#[test]
fn connections_are_bounded_and_never_keep_requests_out() {
    let site = start("jakarta", &json!({"limits": {"concurrency": 2}}));
    let clients = [open(&site, "/talk"), open(&site, "/talk")];
    let Err(head) = WebSocketClient::open(site.server.address(), "/talk", "") else {
        panic!("a third was accepted");
    };
    assert!(head.contains("503"), "{head}");
    site.wait_for_log("(`limits.concurrency`)");
    assert_eq!(site.text("/q/hello"), "hello");
    drop(clients);
    wait_until("room for another", || {
        WebSocketClient::open(site.server.address(), "/talk", "").is_ok()
    });
}
