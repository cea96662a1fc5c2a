//! WebSocket libraries for Go, gorilla/websocket and coder/websocket, unmodified, through the whole server.

use serde_json::{Value, json};
use tutti_e2e::external::ProgramSite;
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

fn start() -> ProgramSite {
    start_with(&json!({"processes": 1}))
}

fn start_with(members: &Value) -> ProgramSite {
    let site = ProgramSite::prepare("tests/real/go");
    let mut configuration = site.configuration(members);
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 16 << 20});
    site.server.put("/config", &configuration);
    site
}

fn open(site: &ProgramSite, target: &str, fields: &str) -> (WebSocketClient, String) {
    let (client, head) = WebSocketClient::open(site.server.address(), target, fields).unwrap();
    (client, head.to_ascii_lowercase())
}

fn say(client: &mut WebSocketClient, text: &str) {
    client.send(&build(&[Frame::new(1, text)])).unwrap();
}

fn close(code: u16, reason: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], reason.as_bytes()].concat()
}

#[test]
fn the_cases_pass_with_gorilla_websocket() {
    let site = start();
    tutti_websocket_cases::run(site.server.address(), "/gorilla", &[]).check();
}

#[test]
fn the_cases_pass_with_coder_websocket() {
    let site = start();
    tutti_websocket_cases::run(site.server.address(), "/coder", &[]).check();
}

#[test]
fn a_room_of_gorillas_example_talks() {
    let site = start();
    let fields =
        "Sec-WebSocket-Protocol: other, chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n";
    let mut room: Vec<_> = (0..10).map(|_| open(&site, "/chat", fields)).collect();
    for (client, head) in &mut room {
        assert!(head.contains("sec-websocket-protocol: chat\r\n"), "{head}");
        assert!(
            !head.contains("sec-websocket-extensions"),
            "the library asks for compression, which is not offered: {head}"
        );
        // A client that hears its own message is in the room.
        say(client, "in");
        assert_eq!(client.hear().unwrap(), Heard::Message(1, b"in".to_vec()));
    }
    let (speaker, _) = &mut room[0];
    say(speaker, "hello all");
    for (client, _) in &mut room {
        loop {
            match client.hear().unwrap() {
                Heard::Message(1, text) if text == b"in" => {}
                heard => {
                    assert_eq!(heard, Heard::Message(1, b"hello all".to_vec()));
                    break;
                }
            }
        }
    }
}

#[test]
fn closing_has_a_code_and_a_reason_both_ways() {
    let site = start();
    let (mut client, _) = open(&site, "/coder?json", "Sec-WebSocket-Protocol: echo\r\n");
    say(&mut client, r#"{"a": [1, "two"]}"#);
    let Heard::Message(1, text) = client.hear().unwrap() else {
        panic!("no text");
    };
    let answer: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(answer, json!({"asked": {"a": [1, "two"]}}));
    assert_eq!(
        client.hear().unwrap(),
        Heard::Close(close(1000, "answered"))
    );
    let (mut client, _) = open(&site, "/coder", "");
    client
        .send(&build(&[Frame::new(8, close(4002, "enough"))]))
        .unwrap();
    let Heard::Close(answer) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(answer.get(..2), Some(&4002u16.to_be_bytes()[..]));
    site.wait_for_log("coder: closed with 4002 \"enough\"");
}

#[test]
fn a_restart_leaves_connections_their_drain_timeout() {
    let site = start_with(&json!({"processes": 1, "limits": {"drain_timeout": 600}}));
    let set = |seconds: u64| {
        let path = "/config/applications/app/limits/drain_timeout";
        site.server.put(path, &json!(seconds));
    };
    for target in ["/gorilla", "/coder"] {
        let (mut client, _) = open(&site, target, "");
        say(&mut client, "hello");
        assert_eq!(client.hear().unwrap(), Heard::Message(1, b"hello".to_vec()));
        site.server.restart("app");
        say(&mut client, "after");
        assert_eq!(client.hear().unwrap(), Heard::Message(1, b"after".to_vec()));
        set(1);
        let Heard::Close(payload) = client.hear().unwrap() else {
            panic!("no close");
        };
        let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
        assert_eq!(code, Some(1012), "{target}");
        set(600);
    }
}
