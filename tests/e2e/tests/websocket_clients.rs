//! WebSocket as its clients speak it: the case table over TLS and over HTTP/2 (RFC 8441), and libraries of Python, Node and Go with and
//! without TLS.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tutti_e2e::external::{build, source};
use tutti_e2e::python::PythonSite;
use tutti_e2e::tls;

/// The application that echoes, and where its certificate is, if it has one.
fn start(is_tls: bool) -> (PythonSite, Option<PathBuf>) {
    let site = PythonSite::bare();
    let mut configuration = site.configuration(&json!({"module": "asynchronous", "processes": 1}));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 17 << 20});
    let authority = is_tls.then(|| tls::certificate(&site.server));
    if is_tls {
        let listener = format!("127.0.0.1:{}", site.server.port());
        configuration["listeners"][listener]["tls"] = json!({"certificate": "site"});
    }
    site.server.put("/config", &configuration);
    (site, authority)
}

/// `tests/conformance/websocket/relay.py`; it ends with its input.
struct Relay {
    child: Child,
    address: SocketAddr,
}

impl Relay {
    fn start(mode: &str, site: &PythonSite, authority: Option<&Path>) -> Self {
        let mut child = Command::new("/usr/bin/python3")
            .arg(source("tests/conformance/websocket/relay.py"))
            .args([mode, &site.server.port().to_string()])
            .args(authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().expect("its port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { child, address }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cases_pass(mode: &str, is_tls: bool) {
    let (site, authority) = start(is_tls);
    let relay = Relay::start(mode, &site, authority.as_deref());
    let report = tutti_websocket_cases::run(relay.address, "/talk", &[]);
    report.check();
    assert!(report.outcomes.len() >= 300, "{}", report.outcomes.len());
    assert!(
        !site.server.log().contains("panicked"),
        "{}",
        site.server.log()
    );
}

#[test]
fn the_cases_pass_over_tls() {
    cases_pass("tls", true);
}

#[test]
fn the_cases_pass_over_http2() {
    cases_pass("http2", false);
}

#[test]
fn the_cases_pass_over_http2_and_tls() {
    cases_pass("https2", true);
}

/// A client goes through its cases, by `ws` and by `wss`.
fn client_is_content(program: &Path, arguments: &[PathBuf]) {
    for is_tls in [false, true] {
        let (site, authority) = start(is_tls);
        let scheme = if is_tls { "wss" } else { "ws" };
        let output = Command::new(program)
            .args(arguments)
            .arg(format!("{scheme}://127.0.0.1:{}/talk", site.server.port()))
            .args(authority)
            // Debian's modules, whosever Node this is.
            .env("NODE_PATH", "/usr/share/nodejs")
            .output()
            .unwrap_or_else(|error| {
                panic!("{program:?}: {error}; `packaging/install-deps test` installs it")
            });
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scheme}: {text}{errors}");
        let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
        assert!(count >= 60, "{text}");
        assert!(
            !site.server.log().contains("panicked"),
            "{}",
            site.server.log()
        );
    }
}

#[test]
fn websockets_for_python_is_content() {
    let script = source("tests/conformance/websocket/clients/client.py");
    client_is_content("/usr/bin/python3".as_ref(), &[script]);
}

#[test]
fn ws_for_node_is_content() {
    let script = source("tests/conformance/websocket/clients/client.js");
    client_is_content("node".as_ref(), &[script]);
}

#[test]
fn gorilla_for_go_is_content() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("client");
    build("tests/real/go/websocket-client", &program);
    client_is_content(&program, &[]);
}
