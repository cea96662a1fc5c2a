//! Clients that take answers before the one that they wait for (103), and fields behind its body: `curl`, over HTTP/1.1 and HTTP/2.
//!
//! An application sends `Link: </a.css>; rel=preload; as=style` before its answer, which is `whole` with `X-Sum: 5` behind it.

use std::net::SocketAddr;
use std::process::Command;

/// All that a client sees: heads, body and the fields behind it, in their order and in small letters.
pub fn seen(address: SocketAddr, path: &str, options: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "60"])
        .args(options)
        .arg(format!("http://{}{path}", address))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
    assert!(output.status.success(), "{text}; {output:?}");
    text
}

/// Clients of HTTP/2 get the hints, those of HTTP/1 where the configuration says so.
pub fn check_hints(address: SocketAddr, path: &str) {
    let link = "link: </a.css>; rel=preload; as=style\r\n";
    let text = seen(address, path, &["--http2-prior-knowledge"]);
    let (hints, answer) = text.split_once("\r\n\r\n").unwrap();
    assert!(hints.starts_with("http/2 103"), "{text}");
    assert!(format!("{hints}\r\n").contains(link), "{text}");
    assert!(answer.starts_with("http/2 200"), "{text}");
    assert!(answer.contains("\r\n\r\nwhole"), "{text}");
    let text = seen(address, path, &[]);
    assert!(text.starts_with("http/1.1 200"), "{text}");
}

/// Clients that take trailer fields get them: all of HTTP/2, and of HTTP/1 those that say so.
pub fn check_trailers(address: SocketAddr, path: &str) {
    let text = seen(address, path, &["--raw", "--header", "TE: trailers"]);
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\ntransfer-encoding: chunked"), "{text}");
    assert!(head.contains("\r\ntrailer: x-sum"), "{text}");
    assert!(rest.contains("whole\r\n0\r\nx-sum: 5\r\n\r\n"), "{text}");
    let text = seen(address, path, &["--raw"]);
    assert!(!text.contains("x-sum"), "{text}");
    assert!(text.contains("whole"), "{text}");
    check_trailers_over_http2(address, path);
}

/// Clients of HTTP/2 get fields that no head has announced, those of HTTP/1 get them in no place.
pub fn check_unannounced_trailers(address: SocketAddr, path: &str) {
    let text = seen(address, path, &["--raw", "--header", "TE: trailers"]);
    assert!(text.contains("whole") && !text.contains("x-sum"), "{text}");
    let head = check_trailers_over_http2(address, path);
    assert!(!head.contains("\r\ntrailer:"), "{head}");
}

/// The head, which has no such field.
fn check_trailers_over_http2(address: SocketAddr, path: &str) -> String {
    let text = seen(address, path, &["--http2-prior-knowledge"]);
    let (head, rest) = text.split_once("http/2 200").unwrap();
    assert!(!head.contains("x-sum"), "{text}");
    let (head, rest) = rest.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("x-sum:"), "{text}");
    assert_eq!(rest.trim_end(), "wholex-sum: 5", "{text}");
    head.to_owned()
}
