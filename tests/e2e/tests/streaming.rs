//! `request_buffering: false`: applications of each kind that answer while the client still sends its request.
//!
//! All do the same: they give back what comes, as it comes. PHP reads bodies in pieces of 8192 bytes, so that is the measure of all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_e2e::{external, read_until};
use tutti_testkit::{PATIENCE, Server, ServerOptions, client, wait_until};

const PIECE: usize = 8192;

/// A line of [`PIECE`] bytes.
fn line(letter: u8) -> Vec<u8> {
    let mut line = vec![letter; PIECE];
    line[PIECE - 1] = b'\n';
    line
}

/// Puts a program from the source tree where the application's user can read it.
fn install(server: &Server, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/streaming")
        .join(name);
    server.write(name, std::fs::read(source).unwrap())
}

/// A server with the application that `make` describes.
fn start(make: impl FnOnce(&Server) -> Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    let mut application = make(&server);
    application["request_buffering"] = json!(false);
    server.put(
        "/config",
        &json!({
            "settings": {"http": {"max_body_size": 16 << 20}},
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/app"}},
            "applications": {"app": application}
        }),
    );
    server
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Framing {
    fn head(self, target: &str, fields: &str) -> Vec<u8> {
        let framing = match self {
            Self::Length(length) => format!("Content-Length: {length}"),
            Self::Chunked => "Transfer-Encoding: chunked".to_owned(),
        };
        format!("POST {target} HTTP/1.1\r\nHost: test\r\n{framing}\r\n{fields}\r\n").into_bytes()
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

/// Reads a chunked response's body.
fn dechunk(bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = bytes;
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
}

/// Holds a conversation with an application that every such one must be able to hold.
fn converse(server: &Server) {
    for target in ["/lines", "/pieces"] {
        for framing in [Framing::Length(3 * PIECE), Framing::Chunked] {
            let mut client = connect(server);
            client
                .write_all(&framing.head(target, "Connection: close\r\n"))
                .unwrap();
            let mut back = String::new();
            for letter in [b'a', b'b', b'c'] {
                client.write_all(&framing.piece(&line(letter))).unwrap();
                // It comes back while the rest of the request is not even there.
                back += &read_until(&mut client, &format!("{}\n", letter as char));
            }
            client.write_all(framing.end()).unwrap();
            client.read_to_string(&mut back).unwrap();
            assert!(back.starts_with("HTTP/1.1 200 "), "{back}");
            assert!(
                back.ends_with("\r\n0\r\n\r\n"),
                "{target}: the answer has an end"
            );
        }
    }
    large(server);
    asked(server);
    cut_short(server);
}

/// 5 MB to and fro at once.
fn large(server: &Server) {
    let body: Vec<u8> = (0..5_000_000).map(|at| (at % 251) as u8).collect();
    for framing in [Framing::Length(body.len()), Framing::Chunked] {
        let mut client = connect(server);
        let mut writer = client.try_clone().unwrap();
        let bytes = body.clone();
        let writing = std::thread::spawn(move || {
            writer
                .write_all(&framing.head("/pieces", "Connection: close\r\n"))
                .unwrap();
            for piece in bytes.chunks(100_000) {
                writer.write_all(&framing.piece(piece)).unwrap();
            }
            writer.write_all(framing.end()).unwrap();
        });
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        writing.join().unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(dechunk(&all[end..]) == body, "not what was sent");
    }
}

/// The body of a client that waits to be asked for it.
fn asked(server: &Server) {
    for framing in [Framing::Length(PIECE), Framing::Chunked] {
        let mut client = connect(server);
        let fields = "Connection: close\r\nExpect: 100-continue\r\n";
        client.write_all(&framing.head("/pieces", fields)).unwrap();
        let told = read_until(&mut client, "\r\n\r\n");
        assert!(told.starts_with("HTTP/1.1 100 "), "{told}");
        client.write_all(&framing.piece(&line(b'x'))).unwrap();
        client.write_all(framing.end()).unwrap();
        read_until(&mut client, "x\n");
    }
}

/// The application is told of a client that goes away in the middle.
fn cut_short(server: &Server) {
    let told = || server.log().matches("cut short").count();
    for framing in [Framing::Length(3 * PIECE), Framing::Chunked] {
        let before = told();
        let mut client = connect(server);
        client.write_all(&framing.head("/pieces", "")).unwrap();
        client.write_all(&framing.piece(&line(b'a'))).unwrap();
        read_until(&mut client, "a\n");
        drop(client);
        wait_until("the application is told", || told() > before);
    }
}

#[test]
fn wsgi() {
    converse(&start(|server| {
        install(server, "echo_wsgi.py");
        json!({"type": "python", "path": server.folder(), "module": "echo_wsgi"})
    }));
}

#[test]
fn asgi() {
    converse(&start(|server| {
        install(server, "echo_asgi.py");
        json!({"type": "python", "path": server.folder(), "module": "echo_asgi"})
    }));
}

#[test]
fn perl() {
    converse(&start(
        |server| json!({"type": "perl", "script": install(server, "echo.psgi")}),
    ));
}

#[test]
fn php() {
    converse(&start(|server| {
        install(server, "echo.php");
        json!({"type": "php", "root": server.folder(), "script": "echo.php"})
    }));
}

#[test]
fn go() {
    converse(&start(|server| {
        let program = server.folder().join("app");
        external::build("tests/conformance/go", &program);
        json!({"type": "external", "executable": program})
    }));
}

#[test]
fn a_program_that_speaks_http() {
    let server = start(|server| {
        json!({
            "type": "external", "protocol": "http", "executable": "/usr/bin/env",
            "arguments": ["node", install(server, "echo.js")]
        })
    });
    converse(&server);
    // One that answers early; then the body has no reader.
    let mut client = connect(&server);
    client
        .write_all(&Framing::Length(10_000_000).head("/early", ""))
        .unwrap();
    client.write_all(&line(b'a')).unwrap();
    let answer = read_until(&mut client, "too much");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn a_change_of_it_replaces_no_process() {
    let server = start(|server| json!({"type": "perl", "script": install(server, "echo.psgi")}));
    let exchange = || {
        let body = line(b'a');
        let head = Framing::Length(body.len()).head("/pieces", "Connection: close\r\n");
        client::request(server.address(), &[head, body].concat())
            .unwrap()
            .status
    };
    assert_eq!(exchange(), 200);
    let workers = server.workers("app");
    server.put("/config/applications/app/request_buffering", &json!(true));
    // The script refuses bodies that have been buffered.
    assert_eq!(exchange(), 500);
    server.put("/config/applications/app/request_buffering", &json!(false));
    assert_eq!(exchange(), 200);
    assert_eq!(server.workers("app"), workers);
}
