//! Programs that leave right after they have answered: what they said reaches the client, then it hears how the connection ended. The same each time,
//! whatever the server saw first.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use tutti_e2e::node::NodeSite;
use tutti_testkit::{ServerOptions, Site, wait_until};
use tutti_websocket_cases::{Heard, WebSocketClient};

/// Connections of each kind that the program closes.
const CONNECTIONS: usize = 200;

/// Clients at once.
const CLIENTS: usize = 4;

/// The kinds of WebSockets, and what a client hears of each.
fn kinds() -> [(&'static str, Vec<Heard>); 3] {
    let last = || Heard::Message(1, b"last".to_vec());
    let abnormal = || Heard::Close(1011_u16.to_be_bytes().to_vec());
    [
        ("/silent", vec![abnormal()]),
        ("/message", vec![last(), abnormal()]),
        (
            "/close",
            vec![last(), Heard::Close(b"\x0f\xa1bye".to_vec())],
        ),
    ]
}

/// Ends of processes of each kind: each takes another process.
fn ends() -> usize {
    match std::env::var_os("TUTTI_LONG") {
        Some(_) => CONNECTIONS,
        None => 10,
    }
}

fn hears(site: &Site, target: &str, expected: &[Heard]) {
    let (mut client, _) = WebSocketClient::open(site.server.address(), target, "")
        .unwrap_or_else(|fault| panic!("{target}: {fault}\n{}", site.server.log()));
    for wanted in expected {
        let heard = client.hear().unwrap();
        assert_eq!(&heard, wanted, "{target}\n{}", site.server.log());
    }
}

fn connections_end_as_they_were_left(site: &Site) {
    for (target, expected) in kinds() {
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    for _ in 0..CONNECTIONS / CLIENTS {
                        hears(site, target, &expected);
                    }
                });
            }
        });
    }
}

fn what_was_said_before_the_end_of_the_process_arrives(site: &Site) {
    for _ in 0..ends() {
        for (target, expected) in kinds() {
            ends_one(site, || hears(site, &format!("{target}?exit"), &expected));
        }
        ends_one(site, || answers_whole(site));
    }
}

fn answers_whole(site: &Site) {
    assert_eq!(site.text("/answer?exit"), "last", "{}", site.server.log());
}

/// Does what ends the process, and waits for the next one.
fn ends_one(site: &Site, by: impl FnOnce()) {
    let before = site.workers();
    by();
    wait_until("the next process", || {
        let now = site.workers();
        now.len() == 1 && !before.contains(&now[0])
    });
}

/// A program of the type `external` with `"protocol": "http"`.
fn program(name: &str) -> Site {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/external")
        .join(name);
    let mut site = Site::new("app", &ServerOptions::default());
    let script = site.server.write(name, fs::read(source).unwrap());
    let starts = site.server.write("starts", "");
    fs::set_permissions(&starts, fs::Permissions::from_mode(0o666)).unwrap();
    site.application = json!({
        "type": "external", "protocol": "http", "processes": 1,
        "executable": "/usr/bin/python3", "arguments": [script], "environment": {"STARTS": starts}
    });
    site.configure(&json!({}));
    site
}

fn node() -> NodeSite {
    NodeSite::start(&json!({"script": "leaving.js", "processes": 1}))
}

#[test]
fn websockets_that_a_program_leaves_end_the_same_each_time() {
    connections_end_as_they_were_left(&program("leaving.py"));
}

#[test]
fn websockets_that_nodejs_leaves_end_the_same_each_time() {
    connections_end_as_they_were_left(&node());
}

#[test]
fn what_a_program_said_before_its_end_arrives() {
    what_was_said_before_the_end_of_the_process_arrives(&program("leaving.py"));
}

#[test]
fn answers_that_nodejs_gave_before_its_end_arrive_without_a_relay() {
    let site = node();
    let environment = json!({"DIRECT": "yes", "WORK": site.work()});
    site.configure(&json!({
        "script": "leaving.js", "processes": 1, "environment": environment
    }));
    for _ in 0..ends() {
        ends_one(&site, || answers_whole(&site));
    }
}

#[test]
fn what_nodejs_said_before_its_end_arrives() {
    what_was_said_before_the_end_of_the_process_arrives(&node());
}

/// Times that the program has been started.
fn starts(site: &Site) -> usize {
    let starts = site.application["environment"]["STARTS"].as_str().unwrap();
    fs::read_to_string(starts).unwrap().lines().count()
}

#[test]
fn requests_that_a_program_has_not_read_when_it_ends_are_for_the_next() {
    let site = program("ending.py");
    for round in 0..ends() {
        std::thread::scope(|scope| {
            let last = scope.spawn(|| site.text("/leave"));
            let others: Vec<_> = (0..2 * CLIENTS)
                .map(|_| scope.spawn(|| site.get("/")))
                .collect();
            assert_eq!(last.join().unwrap(), "here");
            for other in others {
                let reply = other.join().unwrap();
                let log = site.server.log();
                assert_eq!(
                    (reply.status, reply.text()),
                    (200, "here".to_owned()),
                    "round {round}\n{log}"
                );
            }
        });
    }
    assert!(starts(&site) >= ends());
}

#[test]
fn a_request_that_a_program_ends_of_ends_no_other() {
    let site = program("ending.py");
    assert_eq!(site.text("/"), "here");
    assert_eq!(site.get("/die").status, 502);
    assert_eq!(site.text("/"), "here");
    assert_eq!(starts(&site), 2);
    // The connection to the program is kept now; it is not the first one's closing that ended it. The system may close that connection before the
    // socket that listens: then the request goes out again and is reset unread, though the program has read it.
    for round in 0..ends() {
        assert_eq!(site.text("/kept"), "here");
        assert_eq!(site.get("/die").status, 502);
        assert_eq!(site.text("/"), "here");
        assert_eq!(starts(&site), 3 + round, "{}", site.server.log());
    }
}
