//! Streamed request bodies of applications (`request_buffering: false`): a real server, real workers, raw bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::io::Write;
use std::time::Duration;

use support::app::App;
use tutti_options::OptionalLimit;
use tutti_pool::Limits;
use tutti_testkit::{client::Client, wait_until};

fn streaming() -> App {
    App::streaming(1, Limits::default(), "{}")
}

/// The head of a POST with these field lines.
fn post(target: &str, fields: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const GET: &str = "GET /hello HTTP/1.1\r\nHost: test\r\n\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// Expects that the sample has begun its response, and echoed these bytes.
fn expect_echo(client: &mut Client, text: &str) {
    assert_eq!(client.chunk().unwrap(), text.as_bytes());
}

fn is_served(client: &mut Client) -> bool {
    client.send(GET);
    client.response("GET").text() == "Hello from a worker\n"
}

#[test]
fn an_application_answers_while_the_body_comes() {
    let app = streaming();
    let mut client = app.site.connect();
    for _ in 0..3 {
        client.send(post("/echo", "Content-Length: 9\r\n") + "one");
        assert_eq!(client.head().status, 200);
        expect_echo(&mut client, "one");
        client.send("two");
        expect_echo(&mut client, "two");
        client.send("end");
        expect_echo(&mut client, "end");
        assert_eq!(client.chunk(), None);
        client.send(post("/echo", CHUNKED) + &chunk("first"));
        assert_eq!(client.head().status, 200);
        expect_echo(&mut client, "first");
        client.send(chunk("second"));
        expect_echo(&mut client, "second");
        client.send("0\r\n\r\n");
        assert_eq!(client.chunk(), None);
    }
    assert!(is_served(&mut client));
}

#[test]
fn bodies_of_all_sizes_come_whole_and_the_next_request_is_untouched() {
    let app = App::streaming(2, Limits::default(), r#"{"max_body_size": 8000000}"#);
    for size in [0, 1, 16_384, 70_000, 1_000_000, 5_000_000] {
        let body: Vec<u8> = (0..size).map(|at: usize| (at % 251) as u8).collect();
        for is_chunked in [false, true] {
            let mut client = app.site.connect();
            let mut socket = client.stream.try_clone().unwrap();
            let bytes = body.clone();
            // The response must be read while the rest is sent.
            let writer = std::thread::spawn(move || {
                let mut all = Vec::new();
                if is_chunked {
                    all.extend_from_slice(post("/echo", CHUNKED).as_bytes());
                    for piece in bytes.chunks(30_000) {
                        all.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                        all.extend_from_slice(piece);
                        all.extend_from_slice(b"\r\n");
                    }
                    all.extend_from_slice(b"0\r\n\r\n");
                } else {
                    let length = format!("Content-Length: {}\r\n", bytes.len());
                    all.extend_from_slice(post("/echo", &length).as_bytes());
                    all.extend_from_slice(&bytes);
                }
                all.extend_from_slice(GET.as_bytes());
                socket.write_all(&all).unwrap();
            });
            let response = client.response("POST");
            assert!(response.body == body, "{size} bytes, chunked: {is_chunked}");
            assert_eq!(client.response("GET").text(), "Hello from a worker\n");
            writer.join().unwrap();
        }
    }
}

#[test]
fn a_client_that_expects_100_gets_it_when_the_application_reads() {
    let app = streaming();
    let mut client = app.site.connect();
    for fields in ["Content-Length: 4\r\n", CHUNKED] {
        client.send(post("/echo", &format!("{fields}Expect: 100-continue\r\n")));
        assert_eq!(client.head().status, 100);
        let is_chunked = fields == CHUNKED;
        client.send(if is_chunked {
            "4\r\nbody\r\n0\r\n\r\n"
        } else {
            "body"
        });
        assert_eq!(client.response("POST").text(), "body");
    }
    // An application that does not read the body responds without it, and the connection ends.
    client.send(post(
        "/hello",
        "Content-Length: 4\r\nExpect: 100-continue\r\n",
    ));
    let response = client.response("POST");
    assert_eq!(
        (response.status, response.field("Connection")),
        (200, Some("close"))
    );
    assert!(client.is_closed());
}

#[test]
fn an_unread_body_keeps_the_connection_unless_it_is_large() {
    let app = App::streaming(1, Limits::default(), r#"{"max_body_size": 80000000}"#);
    let mut client = app.site.connect();
    for (fields, rest) in [
        ("Content-Length: 100000\r\n", "x".repeat(100_000)),
        (CHUNKED, chunk(&"x".repeat(50_000)) + "0\r\n\r\n"),
    ] {
        client.send(post("/hello", fields));
        assert_eq!(client.response("POST").status, 200);
        client.send(rest);
        assert!(is_served(&mut client));
    }
    client.send(post("/hello", "Content-Length: 70000000\r\n"));
    client.send("x".repeat(1000));
    assert_eq!(client.response("POST").status, 200);
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn body_errors_get_a_status_until_the_response_begins() {
    let http = r#"{"max_body_size": 1000, "body_read_timeout": 1}"#;
    let app = App::streaming(3, Limits::default(), http);
    let too_much = chunk(&"x".repeat(1001));
    for (sent, status) in [
        ("4\r\nbody\r\nno size", 400),
        (&*too_much, 413),
        ("4\r\n", 408),
    ] {
        let mut client = app.site.connect();
        client.send(post("/sleep?ms=60000", CHUNKED) + sent);
        let response = client.response("POST");
        assert_eq!(
            (response.status, response.field("Connection")),
            (status, Some("close"))
        );
        assert!(client.is_closed());
    }
    assert_eq!(app.post("/echo", &[b'x'; 1001]).status, 413);
}

#[test]
fn an_answer_that_has_begun_is_broken_off_when_the_body_is_wrong() {
    let http = r#"{"max_body_size": 1000, "body_read_timeout": 3}"#;
    let app = App::streaming(1, Limits::default(), http);
    let too_much = chunk(&"x".repeat(1001));
    for sent in ["no size", &*too_much, ""] {
        let mut client = app.site.connect();
        client.send(post("/echo", CHUNKED) + &chunk("begin"));
        assert_eq!(client.head().status, 200);
        expect_echo(&mut client, "begin");
        client.send(sent);
        assert!(!client.read_to_end().ends_with("0\r\n\r\n"), "{sent}");
    }
    assert_eq!(app.post("/echo", b"well").text(), "well");
}

#[test]
fn a_worker_that_dies_or_times_out_within_a_body_is_an_error() {
    let limits = Limits {
        timeout: OptionalLimit(Some(Duration::from_secs(2))),
        ..Limits::default()
    };
    let app = App::streaming(2, limits, "{}");
    for (target, status) in [("/crash", 502), ("/sleep?ms=60000", 504)] {
        let mut client = app.site.connect();
        client.send(post(target, "Content-Length: 10\r\n") + "half");
        let response = client.response("POST");
        assert_eq!(
            (response.status, response.field("Connection")),
            (status, Some("close"))
        );
    }
    wait_until("another worker is up", || {
        app.site.get("/hello").status == 200
    });
}

#[test]
fn an_application_learns_that_its_client_went_away_in_the_middle() {
    let app = streaming();
    for fields in ["Content-Length: 10\r\n", CHUNKED] {
        let mut client = app.site.connect();
        client.send(post("/echo", fields));
        client.send(if fields == CHUNKED {
            "4\r\nhalf\r\n"
        } else {
            "half"
        });
        assert_eq!(client.head().status, 200);
        expect_echo(&mut client, "half");
        drop(client);
        wait_until("the worker gave up", || app.active() == 0);
    }
    assert_eq!(app.site.get("/count").text(), "3\n");
    let errors = || {
        let log = app.site.log.lines();
        log.iter()
            .filter(|line| line.contains("reading the body: "))
            .count()
    };
    wait_until("the sample has met two errors", || errors() == 2);
}
