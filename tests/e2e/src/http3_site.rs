//! The beginning of every test of HTTP/3: a server that speaks it, a runtime for its clients, and what several of them ask for.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tutti_testkit::{Server, ServerOptions};

use crate::tls;

/// Runs the clients of a test, for five minutes at most.
pub fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let limited = async { tokio::time::timeout(Duration::from_secs(300), test).await };
    runtime.block_on(limited).expect("it comes to an end")
}

/// A server that has the certificate `site`, and no configuration.
pub fn bare() -> Server {
    let server = Server::start(&ServerOptions::default());
    tls::certificate(&server);
    server
}

/// The server's own address as the only listener, for `pass`, with TLS and this `http3`.
pub fn listeners(server: &Server, pass: &str, http3: &Value) -> Value {
    json!({server.address().to_string(): {"pass": pass, "tls": {"certificate": "site"}, "http3": http3}})
}

/// A server with files, a page, PHP and itself as a server behind it.
pub fn site(http3: &Value) -> Server {
    let server = bare();
    server.write("small.txt", "small");
    server.write("large.bin", large());
    server.write(
        "digest.php",
        "<?php $body = file_get_contents('php://input');\n\
         echo $_SERVER['SERVER_PROTOCOL'], ' ', $_SERVER['REQUEST_SCHEME'] ?? '', ' ', strlen($body), ' ', sha1($body);",
    );
    server.put("/config", &configuration(&server, http3));
    server
}

/// The content of that site's `large.bin`.
pub fn large() -> Vec<u8> {
    (0..3_000_000_u32)
        .map(|at| (at * 31 + at / 253) as u8)
        .collect()
}

/// That site's configuration.
pub fn configuration(server: &Server, http3: &Value) -> Value {
    let folder = server.folder().display();
    json!({
        "listeners": listeners(server, "routes", http3),
        "routes": [
            {"match": {"uri": "*.php"}, "action": {"pass": "applications/php"}},
            {"match": {"uri": "/page"}, "action": {"return": 200}},
            {"match": {"uri": "/text"}, "action": {"return": 404, "body": "$uri over $protocol"}},
            {"match": {"uri": "/behind/*"}, "action": {"rewrite": "/small.txt", "proxy": format!("https://{}", server.address()),
                "proxy_options": {"tls": {"verify": false}}}},
            {"action": {"share": format!("{folder}$uri"), "index": "small.txt"}}
        ],
        "applications": {"php": {"type": "php", "root": server.folder(), "processes": 2}},
        "access_log": {"path": format!("{folder}/access.log"),
            "format": "$request_line $status $body_bytes_sent $tls_protocol $tls_cipher $tls_server_name $remote_addr"},
        "settings": {"http": {"max_body_size": 16 << 20}}
    })
}

/// The sum of a body by one of coreutils's programs.
pub fn sum(program: &str, body: &[u8]) -> String {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a program of coreutils");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(body).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split(' ').next().unwrap_or_default().to_owned()
}
