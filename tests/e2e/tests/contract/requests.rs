//! Requests as an application sees them, and responses as a client sees them.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use serde_json::json;
use tutti_e2e::hints_and_trailers::{check_hints, check_trailers};
use tutti_testkit::client::{self, Client};
use tutti_testkit::wait_until;
use tutti_websocket_cases::{Frame, Heard, build};

use crate::suite::{Application, Case};

/// In the order in which one application is asked.
pub(crate) const CASES: &[Case] = &[
    ("hello", hello),
    ("HEAD", head),
    ("bodies", bodies),
    ("fields", fields),
    ("streamed response", streamed),
    ("hints", |application| {
        check_hints(application.address, "/hints")
    }),
    ("trailers", |application| {
        check_trailers(application.address, "/hints")
    }),
    ("WebSocket", websocket),
    ("endless response", endless),
    ("failure", failure),
];

fn hello(application: &Application) {
    let mut client = Client::to(application.address);
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let reply = client.response("GET");
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.text().starts_with("Hello from "), "{}", reply.text());
        assert!(reply.keeps_connection(), "{}", reply.head);
    }
    let reply = client::request(application.address, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(reply.status, 200, "HTTP/1.0: {}", reply.text());
    let status = application.status("");
    assert_eq!(status["processes"]["running"], 2, "{status}");
    assert_eq!(status["started"], true, "{status}");
    assert_eq!(
        status["failures"],
        json!({"total": 0, "last": null}),
        "{status}"
    );
    assert_eq!(status["requests"]["total"], 3, "{status}");
}

/// Issue 10: it was `Content-Length: 0`. The length that GET would have, or none (RFC 9110 §8.6).
fn head(application: &Application) {
    let length = application.get("/").body.len().to_string();
    let request = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let over_http1 = client::raw(application.address, request).unwrap();
    let over_http2 = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--head",
            "--http2-prior-knowledge",
        ])
        .arg(format!("http://{}/", application.address))
        .output()
        .unwrap();
    for (bytes, start) in [
        (over_http1, "http/1.1 200"),
        (over_http2.stdout, "http/2 200"),
    ] {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(
            text.starts_with(start) && text.ends_with("\r\n\r\n"),
            "{text}"
        );
        let told = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        assert!(told.is_none_or(|told| told == length), "{text}");
    }
}

/// Absent, in the slot, as large as it and larger, in the spool file; each with its length and in chunks.
fn bodies(application: &Application) {
    let absent = application.get("/body");
    assert_eq!(
        (absent.status, absent.body.len()),
        (200, 0),
        "{}",
        absent.head
    );
    for length in [
        0_usize, 1, 5000, 16_383, 16_384, 16_385, 65_536, 300_000, 3_000_000,
    ] {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let whole = application.send("POST", "/body", "", &body);
        let in_chunks = application.send(
            "POST",
            "/body",
            "Transfer-Encoding: chunked\r\n",
            &client::chunked(&body, 70_000),
        );
        for (framing, reply) in [("with its length", whole), ("in chunks", in_chunks)] {
            assert_eq!(
                reply.status,
                200,
                "{length} bytes {framing}: {}",
                reply.text()
            );
            assert!(
                reply.body == body,
                "{length} bytes {framing}: {} came back",
                reply.body.len()
            );
        }
    }
    // Nothing of it is read.
    let reply = application.send("POST", "/", "", &vec![b'x'; 3_000_000]);
    assert!(reply.text().starts_with("Hello from "), "{}", reply.text());
}

fn fields(application: &Application) {
    let long = "x".repeat(6000);
    let sent = format!(
        "X-Seen: one\r\nx-seen: two\r\nX-Nothing:\r\nX-Long: {long}\r\nProxy: http://evil\r\n"
    );
    let reply = application.send("GET", "/head", &sent, b"");
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (201, "one, two"),
        "{}",
        reply.head
    );
    let head = reply.head.to_lowercase();
    for cookie in ["set-cookie: a=1\r\n", "set-cookie: b=2\r\n"] {
        assert!(head.contains(cookie), "{head}");
    }
    assert_eq!(reply.field("X-Empty"), Some(""), "{head}");
    assert_eq!(reply.field("X-Back"), Some(long.as_str()), "{head}");
}

/// A part that is written is with the client before the next one is made; meanwhile `/status` says what is under way.
fn streamed(application: &Application) {
    let mut client = application.open("/slow");
    let got = client.read_until("first");
    assert!(!got.contains("second"), "{got}");
    wait_until("the request in /status", || {
        let oldest = application.status("/requests/oldest");
        let line = oldest[0]["request"].as_str().unwrap_or_default().to_owned();
        let is_of_one = application
            .processes()
            .iter()
            .any(|pid| oldest[0]["pid"] == *pid);
        application.status("/requests/active") == 1 && line == "GET /slow" && is_of_one
    });
    std::fs::write(application.work().join("go"), "").unwrap();
    let rest = client.read_to_end();
    assert!(
        rest.contains("second") && rest.ends_with("0\r\n\r\n"),
        "{rest}"
    );
    wait_until("nothing is under way", || {
        application.status("/requests/active") == 0
    });
}

const HANDSHAKE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Where the language has no WebSocket the handshake is an ordinary request.
fn websocket(application: &Application) {
    if !application.language.has_websocket {
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\n{HANDSHAKE}\r\n");
        let reply = client::request(application.address, request.as_bytes()).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        return;
    }
    let (mut client, head) =
        tutti_websocket_cases::WebSocketClient::open(application.address, "/talk", "").unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    for word in ["you", "there"] {
        client.send(&build(&[Frame::new(1, word)])).unwrap();
        let heard = Heard::Message(1, format!("heard: {word}").into_bytes());
        assert_eq!(client.hear().unwrap(), heard);
    }
    client
        .send(&build(&[Frame::new(8, b"\x03\xe8".to_vec())]))
        .unwrap();
    assert!(matches!(client.hear().unwrap(), Heard::Close(code) if code.starts_with(b"\x03\xe8")));
}

/// Answers without an end keep no other request out, and end with their clients.
fn endless(application: &Application) {
    for _ in 0..2 {
        let mut client = application.open("/endless");
        client.read_until("xxxx");
        for _ in 0..5 {
            assert_eq!(application.get("/").status, 200);
        }
        drop(client);
    }
    let mut both = [application.open("/endless"), application.open("/endless")];
    for client in &mut both {
        client.read_until("xxxx");
    }
    drop(both);
    assert_eq!(application.get("/").status, 200);
}

/// A failure of the application's code costs its request, and the log says why.
fn failure(application: &Application) {
    let reply = application.get("/fails");
    assert_eq!(
        reply.status,
        application.language.failure,
        "{}",
        reply.text()
    );
    let tells_all = reply.text().contains(application.language.reason);
    let is_silent = application.language.has("silence about a failure");
    assert!(!is_silent || !tells_all, "{}", reply.text());
    application.server.wait_for_log(application.language.reason);
    assert_eq!(application.get("/").status, 200);
}

// Request bodies that the application gets as they come.

/// The length of a piece: PHP reads bodies in pieces of 8192 bytes, so that is the measure of all.
const PIECE: usize = 8192;

/// A line of [`PIECE`] bytes.
fn line(letter: u8) -> Vec<u8> {
    let mut line = vec![letter; PIECE];
    line[PIECE - 1] = b'\n';
    line
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Framing {
    fn head(self, fields: &str) -> Vec<u8> {
        let framing = match self {
            Self::Length(length) => format!("Content-Length: {length}"),
            Self::Chunked => "Transfer-Encoding: chunked".to_owned(),
        };
        format!("POST /body HTTP/1.1\r\nHost: test\r\n{framing}\r\n{fields}\r\n").into_bytes()
    }

    fn piece(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Length(_) => bytes.to_vec(),
            Self::Chunked => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
        }
    }

    fn end(self) -> &'static [u8] {
        match self {
            Self::Length(_) => b"",
            Self::Chunked => b"0\r\n\r\n",
        }
    }
}

pub(crate) fn streaming(application: &Application) {
    for framing in [Framing::Length(3 * PIECE), Framing::Chunked] {
        for fields in [
            "Connection: close\r\n",
            "Connection: close\r\nX-Lines: yes\r\n",
        ] {
            converse(application, framing, fields);
        }
        asked(application, framing);
        cut_short(application, framing);
    }
    for framing in [Framing::Length(5_000_000), Framing::Chunked] {
        large(application.address, framing);
    }
    let before = application.processes();
    let option = format!(
        "/config/applications/{}/request_buffering",
        application.language.name
    );
    application.server.put(&option, &json!(true));
    assert_eq!(
        application.send("POST", "/body", "", b"whole").text(),
        "whole"
    );
    assert_eq!(
        application.processes(),
        before,
        "a change of it replaces no process"
    );
}

/// Each piece comes back while the rest of the request is not even there.
fn converse(application: &Application, framing: Framing, fields: &str) {
    let mut client = Client::to(application.address);
    client.send(framing.head(fields));
    let mut back = String::new();
    for letter in *b"abc" {
        client.send(framing.piece(&line(letter)));
        back += &client.read_until(&format!("{}\n", letter as char));
    }
    client.send(framing.end());
    back += &client.read_to_end();
    assert!(back.starts_with("HTTP/1.1 200 "), "{back}");
    assert!(back.ends_with("\r\n0\r\n\r\n"), "the answer has an end");
}

/// The body of a client that waits to be asked for it.
fn asked(application: &Application, framing: Framing) {
    let framing = match framing {
        Framing::Length(_) => Framing::Length(PIECE),
        Framing::Chunked => framing,
    };
    let mut client = Client::to(application.address);
    client.send(framing.head("Connection: close\r\nExpect: 100-continue\r\n"));
    let told = client.read_until("\r\n\r\n");
    assert!(told.starts_with("HTTP/1.1 100 "), "{told}");
    client.send(framing.piece(&line(b'x')));
    client.send(framing.end());
    client.read_until("x\n");
}

/// The application learns of a client that goes away in the middle.
fn cut_short(application: &Application, framing: Framing) {
    let told = || application.server.log().matches("cut short").count();
    let before = told();
    let mut client = Client::to(application.address);
    client.send(framing.head(""));
    client.send(framing.piece(&line(b'a')));
    client.read_until("a\n");
    drop(client);
    wait_until("the application is notified", || told() > before);
}

/// 5 MB to and fro at once.
fn large(address: std::net::SocketAddr, framing: Framing) {
    let body: Vec<u8> = (0..5_000_000).map(|at| (at % 251) as u8).collect();
    let client = Client::to(address);
    let mut writer: TcpStream = client.stream.try_clone().unwrap();
    let bytes = body.clone();
    let writing = thread::spawn(move || {
        writer
            .write_all(&framing.head("Connection: close\r\n"))
            .unwrap();
        for piece in bytes.chunks(100_000) {
            writer.write_all(&framing.piece(piece)).unwrap();
        }
        writer.write_all(framing.end()).unwrap();
    });
    let reply = Client::of(client.stream).response("POST");
    writing.join().unwrap();
    assert!(reply.body == body, "{} bytes came back", reply.body.len());
}
