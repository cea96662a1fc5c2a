//! Responses of applications, compressed; the client is curl, which decompresses them with other people's libraries.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use tutti_testkit::{Server, ServerOptions, client, wait_until};

const ENCODINGS: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

fn text() -> String {
    "Some text that an application made. ".repeat(500)
}

fn start() -> Server {
    let server = Server::start(&ServerOptions::default());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compression/pages.py");
    server.write("pages.py", std::fs::read(source).unwrap());
    let compressors: Vec<_> = ENCODINGS
        .iter()
        .map(|encoding| json!({"encoding": encoding}))
        .collect();
    server.put(
        "/config",
        &json!({
            "settings": {"http": {"compression": {"compressors": compressors}}},
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/app"}},
            "applications": {"app": {"type": "python", "path": server.folder(), "module": "pages"}},
            "access_log": {"path": server.folder().join("access.log"), "format": "$uri $body_bytes_sent"},
        }),
    );
    server
}

/// The answer that curl gets: the head, and the body decompressed.
fn curl(server: &Server, path: &str, accepted: &str) -> (String, String) {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--compressed",
            "--dump-header",
            "-",
        ])
        .args([
            "--max-time",
            "60",
            "--header",
            &format!("Accept-Encoding: {accepted}"),
        ])
        .arg(format!("http://{}{path}", server.address()))
        .output()
        .unwrap();
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn field<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

#[test]
fn every_encoding_comes_out_whole_at_once_and_in_pieces() {
    let server = start();
    for encoding in ENCODINGS {
        for (path, expected) in [
            ("/", text()),
            ("/length", text()),
            ("/pieces", text()[..1000].repeat(300)),
        ] {
            let (head, body) = curl(&server, path, encoding);
            assert_eq!(
                field(&head, "Content-Encoding"),
                [encoding],
                "{path}: {head}"
            );
            assert_eq!(field(&head, "Vary"), ["Accept-Encoding"], "{path}: {head}");
            assert!(body == expected, "{encoding} {path}: {} bytes", body.len());
        }
    }
    let (head, body) = curl(&server, "/length", "identity");
    assert_eq!(field(&head, "Content-Length"), [text().len().to_string()]);
    assert_eq!(field(&head, "ETag"), ["\"v1\""]);
    assert_eq!(field(&head, "Vary"), ["Accept-Encoding"]);
    assert!(body == text());
    let (head, _) = curl(&server, "/length", "gzip");
    assert_eq!(field(&head, "ETag"), ["W/\"v1\""]);
}

#[test]
fn what_must_stay_as_it_is_does() {
    let server = start();
    let (head, body) = curl(&server, "/coded", "br, gzip");
    assert_eq!(field(&head, "Content-Encoding"), ["gzip"]);
    assert!(body == text());
    for path in ["/fixed", "/binary"] {
        let (head, body) = curl(&server, path, "br, gzip");
        assert!(field(&head, "Content-Encoding").is_empty(), "{head}");
        assert!(field(&head, "Vary").is_empty(), "{head}");
        assert!(body == text(), "{path}");
    }
    let (head, _) = curl(&server, "/varies", "gzip");
    assert_eq!(field(&head, "Vary"), ["Cookie", "Accept-Encoding"]);
}

#[test]
fn an_event_reaches_the_client_before_the_next_is_made() {
    let server = start();
    let gate = server.folder().join("gate");
    for encoding in ENCODINGS {
        let mut events = Command::new("curl")
            .args([
                "--silent",
                "--no-buffer",
                "--compressed",
                "--max-time",
                "60",
            ])
            .args(["--header", &format!("Accept-Encoding: {encoding}")])
            .arg(format!(
                "http://{}/events?{}",
                server.address(),
                gate.display()
            ))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(events.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        // The application makes no more until the file is there.
        assert_eq!(line, "data: one\n", "{encoding}");
        std::fs::write(&gate, "").unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "\ndata: two\n\n", "{encoding}");
        assert!(events.wait().unwrap().success());
        std::fs::remove_file(&gate).unwrap();
    }
}

#[test]
fn a_response_cut_short_is_seen_as_such_and_head_has_no_body() {
    let server = start();
    let request = "GET /short HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let answer = client::raw(server.address(), request.as_bytes()).unwrap();
    assert!(
        !answer.ends_with(b"0\r\n\r\n"),
        "the last chunk says that it is whole"
    );
    let request =
        "HEAD /length HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let answer = client::raw(server.address(), request.as_bytes()).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!(field(&answer, "Content-Encoding"), ["gzip"], "{answer}");
    assert!(field(&answer, "Content-Length").is_empty(), "{answer}");
}

#[test]
fn the_log_tells_the_bytes_that_were_sent() {
    let server = start();
    curl(&server, "/length", "gzip");
    let log = server.folder().join("access.log");
    let sent = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("/length ")?.parse::<usize>().ok())
    };
    wait_until("a line in the log", || sent().is_some());
    let bytes = sent().unwrap();
    assert!(bytes > 0 && bytes * 4 < text().len(), "{bytes}");
}
