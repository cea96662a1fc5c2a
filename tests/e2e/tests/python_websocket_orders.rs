//! Orders of receive, accept and close of an ASGI WebSocket: Tutti says what uvicorn says.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::python::{PythonSite, environment};
use tutti_testkit::{client, free_port, wait_until};
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

/// uvicorn, serving the cases; dropping it ends it.
struct Uvicorn {
    child: Child,
    address: SocketAddr,
}

impl Uvicorn {
    fn start() -> Self {
        let requirements = "uvicorn==0.54.0\nwebsockets==17.4\n";
        let python = environment("uvicorn", requirements).join("bin/python3");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/python");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(python)
            .args(["-B", "-m", "uvicorn", "websocket_orders:application"])
            .args(["--port", &address.port().to_string(), "--app-dir"])
            .arg(source)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("uvicorn listens", || TcpStream::connect(address).is_ok());
        Self { child, address }
    }
}

impl Drop for Uvicorn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names of the cases, from their source.
fn cases() -> Vec<&'static str> {
    let source = include_str!("../../conformance/python/websocket_orders.py");
    let mut names = Vec::new();
    for (mark, line) in source.lines().zip(source.lines().skip(1)) {
        if mark == "@case" {
            let name = line.strip_prefix("async def ").unwrap();
            names.push(name.split('(').next().unwrap());
        }
    }
    names
}

/// Plays the client in a case, which does what the case says; returns all that it hears.
fn play(address: SocketAddr, case: &str) -> Vec<String> {
    let target = format!("/{case}");
    if case == "the_client_goes_before_accept" {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        noted(address, &format!("{case}/begun"));
        return Vec::new();
    }
    let mut client = match WebSocketClient::open(address, &target, "") {
        Ok((client, _)) => client,
        Err(refusal) => {
            let status = refusal.split_once("HTTP/1.1 ").unwrap().1;
            return vec![format!("refused {}", &status[..3])];
        }
    };
    let mut heard = vec!["accepted".to_owned()];
    loop {
        let what = client.hear().unwrap();
        heard.push(what.describe());
        match what {
            Heard::Message(1, text) => {
                let text = String::from_utf8(text).unwrap();
                let (order, value) = text.split_once(' ').unwrap_or((&text, ""));
                match order {
                    "say" => client.send(&build(&[Frame::new(1, value)])).unwrap(),
                    "close" => {
                        let code: u16 = value.parse().unwrap();
                        client
                            .send(&build(&[Frame::new(8, code.to_be_bytes())]))
                            .unwrap();
                    }
                    _ => return heard,
                }
            }
            // The answer completes the closing handshake.
            Heard::Close(payload) => {
                let _ = client.send(&build(&[Frame::new(8, payload)]));
                return heard;
            }
            _ => return heard,
        }
    }
}

/// The notes of the application.
fn noted(address: SocketAddr, case: &str) -> Value {
    let mut notes = Value::Null;
    let request = format!("GET /{case} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    wait_until(case, || {
        notes = client::request(address, request.as_bytes()).unwrap().json();
        !notes.is_null()
    });
    notes
}

/// Where Tutti says more than uvicorn: the case, and what of it is in its stead.
const BEYOND: [(&str, &str, &str); 3] = [
    // RFC 6455 §7.1.5: a connection that ends without a close is 1006; 1005 is a close without a code.
    ("the_client_goes", "disconnect 1005", "disconnect 1006"),
    // uvicorn ends the connection without a close, which a client must take for a fault of the network (1006).
    (
        "returns_after_accept",
        "end of the connection",
        "close 1000 \"\"",
    ),
    (
        "raises_after_accept",
        "end of the connection",
        "close 1011 \"\"",
    ),
];

/// Issue 10, 1.21: a `receive()` that waited before `websocket.accept` was sent never woke, so every WebSocket of Quart was dead.
#[test]
fn orders_of_receive_accept_and_close_are_those_of_uvicorn() {
    let uvicorn = Uvicorn::start();
    let site = PythonSite::start(&json!({"module": "websocket_orders", "processes": 1}));
    let cases = cases();
    assert!(cases.len() > 20, "{cases:?}");
    let mut told = String::new();
    for case in cases {
        let [mut theirs, ours] = [uvicorn.address, site.server.address()].map(|address| {
            let mut lines = play(address, case);
            let notes = noted(address, case);
            let notes = notes.as_array().into_iter().flatten();
            lines.extend(notes.map(|note| note.as_str().unwrap().to_owned()));
            lines
        });
        for (_, its, own) in BEYOND.iter().filter(|(of, ..)| *of == case) {
            let line = theirs.iter_mut().find(|line| line == its).unwrap();
            *line = (*own).to_owned();
        }
        if theirs != ours {
            told += &format!("{case}\n  uvicorn {theirs:?}\n  tutti   {ours:?}\n");
        }
    }
    assert!(told.is_empty(), "{told}");
}
