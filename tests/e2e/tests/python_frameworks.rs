//! WebSockets of the frameworks people use, as installed from PyPI: Quart, Django Channels, Starlette.

use serde_json::{Value, json};
use tutti_e2e::python::{PythonSite, environment};
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

const REQUIREMENTS: &str = include_str!("../../conformance/python/frameworks/requirements.txt");

fn say(client: &mut WebSocketClient, text: &str) {
    client.send(&build(&[Frame::new(1, text)])).unwrap();
}

fn hear(client: &mut WebSocketClient) -> String {
    match client.hear().unwrap() {
        Heard::Message(1, text) => String::from_utf8(text).unwrap(),
        other => other.describe(),
    }
}

/// Issue 10, 1.21: no WebSocket of Quart said anything. The others are held to the same.
#[test]
fn websockets_of_frameworks_talk() {
    let prepared = environment("frameworks", REQUIREMENTS);
    let site = PythonSite::bare();
    let (home, _) = site.copied(&prepared);
    for (module, refusal) in [
        ("quart_app", "401"),
        ("channels_app", "403"),
        ("starlette_app", "401"),
    ] {
        site.configure(&json!({
            "path": site.root().join("frameworks"), "home": home, "module": module, "callable": "app", "processes": 1,
            "environment": {"PYTHONDONTWRITEBYTECODE": "1"}
        }));
        let open = |target: &str, fields: &str| {
            WebSocketClient::open(site.server.address(), target, fields)
        };
        let (mut client, _) = open("/echo", "").unwrap();
        for number in 0..100 {
            say(&mut client, &format!("number {number}"));
            assert_eq!(
                hear(&mut client),
                format!("you said number {number}"),
                "{module}"
            );
        }
        // Several at once.
        let (mut first, _) = open("/echo", "").unwrap();
        let (mut second, _) = open("/echo", "").unwrap();
        say(&mut second, "b");
        say(&mut first, "a");
        assert_eq!(
            (hear(&mut first), hear(&mut second)),
            ("you said a".to_owned(), "you said b".to_owned()),
            "{module}"
        );
        let (mut client, head) = open("/greets", "Sec-WebSocket-Protocol: chat, more\r\n").unwrap();
        assert!(
            head.to_ascii_lowercase()
                .contains("sec-websocket-protocol: chat\r\n"),
            "{module}: {head}"
        );
        assert_eq!(hear(&mut client), "hello", "{module}");
        say(&mut client, "bye");
        assert_eq!(hear(&mut client), "close 4009 \"bye\"", "{module}");
        let refused = open("/refuses", "").err().unwrap();
        assert!(
            refused.contains(&format!("HTTP/1.1 {refusal}")),
            "{module}: {refused}"
        );
        let page = site.send("POST", "/", "", &[b'x'; 100_000]);
        assert_eq!(
            page.text(),
            "POST / 100000",
            "{module}\n{}",
            site.server.log()
        );
    }
    // Consumers reach each other.
    site.configure(&json!({
        "path": site.root().join("frameworks"), "home": home, "module": "channels_app", "callable": "app", "processes": 1
    }));
    let mut people: Vec<WebSocketClient> = (0..3)
        .map(|_| {
            WebSocketClient::open(site.server.address(), "/room", "")
                .unwrap()
                .0
        })
        .collect();
    for person in &mut people {
        assert_eq!(hear(person), "{\"here\": true}");
    }
    say(&mut people[0], "{\"said\": \"to all\"}");
    for person in &mut people {
        let heard: Value = serde_json::from_str(&hear(person)).unwrap();
        assert_eq!(heard, json!({"said": "to all"}));
    }
}
