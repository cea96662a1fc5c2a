//! Answers that another follows (103), and fields behind a body: from applications of each language whose interface has them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tutti_e2e::external;
use tutti_e2e::java;
use tutti_testkit::{ServerOptions, Site};

fn application(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/hints_and_trailers")
        .join(name)
}

fn site() -> Site {
    Site::on("app", &application(""))
}

/// All that a client sees: heads, body and the fields behind it, in their order and in small letters.
fn seen(site: &Site, options: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "60"])
        .args(options)
        .arg(format!("http://{}/hints", site.server.address()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
    assert!(
        output.status.success(),
        "{text}; {output:?}; {}",
        site.server.log()
    );
    text
}

/// Clients of HTTP/2 get the hints, those of HTTP/1 where the configuration says so.
fn check_hints(site: &Site) {
    let link = "link: </a.css>; rel=preload; as=style\r\n";
    let text = seen(site, &["--http2-prior-knowledge"]);
    let (hints, answer) = text.split_once("\r\n\r\n").unwrap();
    assert!(hints.starts_with("http/2 103"), "{text}");
    assert!(format!("{hints}\r\n").contains(link), "{text}");
    assert!(answer.starts_with("http/2 200"), "{text}");
    assert!(answer.contains("\r\n\r\nwhole"), "{text}");
    let text = seen(site, &[]);
    assert!(text.starts_with("http/1.1 200"), "{text}");
}

/// Clients that take trailer fields get them: all of HTTP/2, and of HTTP/1 those that say so.
fn check_trailers(site: &Site) {
    let text = seen(site, &["--raw", "--header", "TE: trailers"]);
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\ntransfer-encoding: chunked"), "{text}");
    assert!(head.contains("\r\ntrailer: x-sum"), "{text}");
    assert!(rest.contains("whole\r\n0\r\nx-sum: 5\r\n"), "{text}");
    let text = seen(site, &["--raw"]);
    assert!(!text.contains("x-sum"), "{text}");
    assert!(text.contains("whole"), "{text}");
    let text = seen(site, &["--http2-prior-knowledge"]);
    let (head, rest) = text.split_once("http/2 200").unwrap();
    assert!(!head.contains("x-sum"), "{text}");
    let (head, rest) = rest.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("x-sum:"), "{text}");
    assert_eq!(rest.trim_end(), "wholex-sum: 5", "{text}");
}

#[test]
fn of_asgi() {
    let mut site = site();
    site.application = json!({"type": "python", "path": site.root(), "module": "application"});
    site.configure(&json!({}));
    check_hints(&site);
    check_trailers(&site);
}

#[test]
fn of_node() {
    let mut site = site();
    let script = site.root().join("app.js");
    site.application = json!({"type": "node", "script": script});
    site.configure(&json!({}));
    check_hints(&site);
    check_trailers(&site);
}

/// The same script, as a program that knows nothing of the server.
#[test]
fn of_a_program_that_speaks_http() {
    let mut site = site();
    let node = Command::new("sh")
        .args(["-c", "command -v node"])
        .output()
        .unwrap();
    let node = String::from_utf8(node.stdout).unwrap();
    let script = site.root().join("app.js");
    site.application = json!({
        "type": "external", "protocol": "http", "executable": node.trim(), "arguments": [script]
    });
    site.configure(&json!({}));
    check_hints(&site);
    check_trailers(&site);
}

/// Rack has no fields behind a body.
#[test]
fn of_ruby() {
    let mut site = site();
    site.application = json!({"type": "ruby", "script": site.root().join("config.ru")});
    site.configure(&json!({}));
    check_hints(&site);
}

#[test]
fn of_go() {
    let mut site = Site::new("app", &ServerOptions::default());
    let program = site.server.folder().join("app");
    external::build("tests/conformance/go", &program);
    site.application = json!({"type": "external", "executable": program});
    site.configure(&json!({}));
    check_hints(&site);
    check_trailers(&site);
}

#[test]
fn of_java() {
    // The server looks for the jars when it starts.
    let class_path = java::class_path("ee10");
    let mut site = site();
    let classes = site.root().join("WEB-INF/classes");
    java::compile_to(&classes, &class_path, &[site.root().join("Trailing.java")]);
    site.application = json!({
        "type": "java", "webapp": site.root(), "options": ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
    });
    site.configure(&json!({}));
    check_hints(&site);
    check_trailers(&site);
}
