//! WebSocket applications in Python, through the whole server: the cases of the protocol, and what ASGI adds.

use serde_json::{Value, json};
use tutti_e2e::python::PythonSite;
use tutti_testkit::wait_until;
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

fn start() -> PythonSite {
    PythonSite::start(&json!({"module": "asynchronous", "processes": 1}))
}

fn open(site: &PythonSite, target: &str) -> WebSocketClient {
    WebSocketClient::open(site.server.address(), target, "")
        .unwrap()
        .0
}

fn say(client: &mut WebSocketClient, text: &str) {
    client.send(&build(&[Frame::new(1, text)])).unwrap();
}

fn close(code: u16, reason: &str) -> Vec<u8> {
    [&code.to_be_bytes()[..], reason.as_bytes()].concat()
}

/// The answer to a handshake that is refused.
fn refused(site: &PythonSite, target: &str) -> String {
    match WebSocketClient::open(site.server.address(), target, "") {
        Err(error) => error,
        Ok((_, head)) => panic!("accepted: {head}"),
    }
}

#[test]
fn the_cases_of_the_protocol_pass() {
    let site = start();
    let mut configuration = site.configuration(&json!({"module": "asynchronous", "processes": 1}));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 16 << 20});
    site.server.put("/config", &configuration);
    tutti_websocket_cases::run(site.server.address(), "/talk", &[]).check();
}

#[test]
fn the_scope_says_what_is_asked_for() {
    let site = start();
    let fields = "Sec-WebSocket-Protocol: chat, other\r\n";
    let (mut client, _) =
        WebSocketClient::open(site.server.address(), "/seen?a=1", fields).unwrap();
    let Heard::Message(1, text) = client.hear().unwrap() else {
        panic!("no text");
    };
    let scope: Value = serde_json::from_slice(&text).unwrap();
    for (name, expected) in [
        ("type", json!("websocket")),
        ("scheme", json!("ws")),
        ("path", json!("/seen")),
        ("subprotocols", json!(["chat", "other"])),
        ("extensions", json!({"websocket.http.response": {}})),
        ("state", json!({"greeting": "made at startup"})),
    ] {
        assert_eq!(scope[name], expected, "{name} in {scope}");
    }
    assert_eq!(client.hear().unwrap(), Heard::Close(close(1000, "")));
}

#[test]
fn a_subprotocol_and_fields_are_accepted() {
    let site = start();
    let (_, head) = WebSocketClient::open(
        site.server.address(),
        "/talk?subprotocol=chat",
        "Sec-WebSocket-Protocol: chat, other\r\n",
    )
    .unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("sec-websocket-protocol: chat\r\n"), "{head}");
    assert!(head.contains("x-accepted: 1\r\n"), "{head}");
}

#[test]
fn closing_has_a_code_and_a_reason_both_ways() {
    let site = start();
    let mut client = open(&site, "/talk");
    say(&mut client, "close 4001 the reason");
    assert_eq!(
        client.hear().unwrap(),
        Heard::Close(close(4001, "the reason"))
    );
    let mut client = open(&site, "/talk");
    client
        .send(&build(&[Frame::new(8, close(4002, "theirs"))]))
        .unwrap();
    let Heard::Close(answer) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(answer.get(..2), Some(&4002u16.to_be_bytes()[..]));
    wait_until("the application hears of it", || {
        site.get("/noted?name=closed").json() == json!([4002, "theirs"])
    });
    let client = open(&site, "/talk");
    drop(client);
    wait_until("the application hears of it", || {
        site.get("/noted?name=closed").json() == json!([1006, ""])
    });
    let mut client = open(&site, "/talk");
    say(&mut client, "return");
    assert_eq!(client.hear().unwrap(), Heard::Close(close(1000, "")));
}

#[test]
fn a_failing_application_closes_with_1011() {
    let site = start();
    let mut client = open(&site, "/talk");
    say(&mut client, "fail");
    let Heard::Close(payload) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(payload.get(..2), Some(&1011u16.to_be_bytes()[..]));
    site.wait_for_log("RuntimeError: fails in a WebSocket");
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_handshake_can_be_refused() {
    let site = start();
    assert!(refused(&site, "/refused").contains("HTTP/1.1 403"));
    let own = refused(&site, "/refused?how=response");
    assert!(
        own.contains("HTTP/1.1 401") && own.contains("x-why: because"),
        "{own}"
    );
    assert!(refused(&site, "/refused?how=exception").contains("HTTP/1.1 500"));
    assert!(refused(&site, "/refused?how=return").contains("HTTP/1.1 500"));
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn more_than_fits_waits_for_the_client() {
    let site = start();
    let mut client = open(&site, "/push?count=60&size=200000");
    // This client does not read yet; others are served.
    assert_eq!(site.get("/").status, 200);
    for number in 0..60u8 {
        let Heard::Message(2, bytes) = client.hear().unwrap() else {
            panic!("no message {number}");
        };
        assert!(
            bytes.len() == 200_000 && bytes.iter().all(|byte| *byte == number),
            "{number}"
        );
    }
    assert_eq!(
        client.hear().unwrap(),
        Heard::Close(close(4000, "all sent"))
    );
}

#[test]
fn many_talk_at_once() {
    let site = start();
    let mut clients: Vec<_> = (0..100).map(|_| open(&site, "/talk")).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            say(client, &format!("{round} {number}"));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let expected = Heard::Message(1, format!("{round} {number}").into_bytes());
            assert_eq!(client.hear().unwrap(), expected);
        }
    }
}

/// The drain time of an application, which does not end before this.
fn end_drain_time(site: &PythonSite) {
    let path = "/config/applications/app/limits/drain_timeout";
    site.server.put(path, &json!(1));
}

#[test]
fn a_worker_at_its_limit_of_requests_leaves_connections_their_drain_timeout() {
    let site = PythonSite::start(&json!({
        "module": "asynchronous", "processes": 1, "limits": {"requests": 2, "drain_timeout": 600},
    }));
    let mut client = open(&site, "/talk");
    for _ in 0..2 {
        assert_eq!(site.get("/").status, 200);
    }
    say(&mut client, "hello");
    assert_eq!(client.hear().unwrap(), Heard::Message(1, b"hello".to_vec()));
    end_drain_time(&site);
    assert_eq!(client.hear().unwrap(), Heard::Close(close(1012, "")));
    assert_eq!(site.get("/").status, 200);
}

/// Other languages kept their connections, as the guide says; here a restart closed them at once (found by tests/pairs).
#[test]
fn a_restart_leaves_connections_their_drain_timeout() {
    let site =
        PythonSite::start(&json!({"module": "asynchronous", "limits": {"drain_timeout": 600}}));
    let mut client = open(&site, "/talk");
    let mut leaving = open(&site, "/talk");
    say(&mut client, "before");
    let heard = Heard::Message(1, b"before".to_vec());
    assert_eq!(client.hear().unwrap(), heard);
    site.server.restart("app");
    for client in [&mut client, &mut leaving] {
        say(client, "after");
        assert_eq!(client.hear().unwrap(), Heard::Message(1, b"after".to_vec()));
    }
    end_drain_time(&site);
    assert_eq!(client.hear().unwrap(), Heard::Close(close(1012, "")));
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn an_upgrade_leaves_connections_their_drain_timeout() {
    let site =
        PythonSite::start(&json!({"module": "asynchronous", "limits": {"drain_timeout": 10}}));
    let mut client = open(&site, "/talk");
    say(&mut client, "before");
    assert_eq!(
        client.hear().unwrap(),
        Heard::Message(1, b"before".to_vec())
    );
    let before = site.server.router();
    site.server.upgrade();
    say(&mut client, "after");
    assert_eq!(client.hear().unwrap(), Heard::Message(1, b"after".to_vec()));
    assert_eq!(client.hear().unwrap(), Heard::Close(close(1012, "")));
    wait_until("the former router has ended", || {
        site.server.router() != before
    });
    // A stop waits for none.
    let mut client = open(&site, "/talk");
    say(&mut client, "hello");
    assert_eq!(client.hear().unwrap(), Heard::Message(1, b"hello".to_vec()));
    site.server.signal(libc::SIGQUIT);
    let Heard::Close(payload) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(payload.get(..2), Some(&1001u16.to_be_bytes()[..]));
}

/// Twenty clients whose connections are open, as the application has shown.
fn talking(site: &PythonSite) -> Vec<WebSocketClient> {
    let mut clients: Vec<_> = (0..20).map(|_| open(site, "/talk")).collect();
    for client in &mut clients {
        say(client, "hello");
        assert_eq!(client.hear().unwrap(), Heard::Message(1, b"hello".to_vec()));
    }
    clients
}

fn hear_the_end(clients: &mut [WebSocketClient], code: u16, ending: &str) {
    for (number, client) in clients.iter_mut().enumerate() {
        let heard = client.hear().unwrap();
        let is_expected =
            matches!(&heard, Heard::Close(payload) if payload.starts_with(&code.to_be_bytes()));
        assert!(
            is_expected,
            "{ending}: client {number}: {}",
            heard.describe()
        );
    }
}

/// Issue 28: connections ended without a close frame.
#[test]
fn each_way_in_which_the_server_ends_a_connection_has_a_close_frame() {
    for signal in [libc::SIGTERM, libc::SIGQUIT] {
        let site = start();
        let mut clients = talking(&site);
        site.server.signal(signal);
        hear_the_end(&mut clients, 1001, &format!("signal {signal}"));
    }
    let site = start();
    let mut clients = talking(&site);
    let path = format!("/config/listeners/{}", listener_of(&site));
    let reply = site.server.call("DELETE", &path, &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    hear_the_end(&mut clients, 1001, "a listener that is removed");

    let short = json!({"module": "asynchronous", "limits": {"drain_timeout": 1}});
    let site = PythonSite::start(&short);
    let mut clients = talking(&site);
    site.server.put(
        "/config",
        &json!({
            "listeners": {listener_of(&site): {"pass": "routes"}},
            "routes": [{"action": {"return": 200}}],
        }),
    );
    hear_the_end(&mut clients, 1012, "an application that is removed");

    let site = PythonSite::start(&short);
    let mut clients = talking(&site);
    let mut other = short.clone();
    other["environment"] = json!({"OTHER": "1"});
    site.configure(&other);
    hear_the_end(&mut clients, 1012, "an application that is replaced");
}

fn listener_of(site: &PythonSite) -> String {
    format!("127.0.0.1:{}", site.server.port())
}
