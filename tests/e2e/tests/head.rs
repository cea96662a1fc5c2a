//! HEAD beside GET, in every language and through every gateway: the length that GET would have, or none (RFC 9110 §8.6).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use serde_json::json;
use tutti_e2e::fpm::Fpm;
use tutti_testkit::{Server, ServerOptions, client};

const BODY: usize = 100;

const PHP: &str = "<?php echo str_repeat('x', 100);\n";

const WSGI: &str = "
def application(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [b'x' * 100]
";

const ASGI: &str = "
async def application(scope, receive, send):
    if scope['type'] != 'http':
        raise NotImplementedError
    await send({'type': 'http.response.start', 'status': 200, 'headers': []})
    body = b'' if scope['method'] == 'HEAD' else b'x' * 100
    await send({'type': 'http.response.body', 'body': body})
";

const PSGI: &str = "
sub { [200, ['Content-Type' => 'text/plain'], [$_[0]{REQUEST_METHOD} eq 'HEAD' ? () : 'x' x 100]] };
";

const PROGRAM: &str = "
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(b'x' * 100)
    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
";

/// A server that answers without a length, and ends the connection.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let body = match request.starts_with(b"GET") {
                true => vec![b'x'; BODY],
                false => Vec::new(),
            };
            // Whoever does not want it has gone.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(&body);
        }
    });
    address
}

fn length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().unwrap())
    })
}

/// Issue 10: it was `Content-Length: 0`.
#[test]
fn head_tells_the_length_of_get_or_none() {
    let server = Server::start(&ServerOptions::default());
    for (name, text) in [
        ("site/php/index.php", PHP),
        ("site/wsgi_app.py", WSGI),
        ("site/asgi_app.py", ASGI),
        ("site/app.psgi", PSGI),
        ("site/program.py", PROGRAM),
        ("php.ini", ""),
    ] {
        server.write(name, text);
    }
    let site = server.folder().join("site");
    let fpm = Fpm::is_installed().then(|| Fpm::start(&server.folder().join("php.ini"), 1));
    let mut kinds = vec![
        ("php", json!({"pass": "applications/php"})),
        ("wsgi", json!({"pass": "applications/wsgi"})),
        ("asgi", json!({"pass": "applications/asgi"})),
        ("psgi", json!({"pass": "applications/psgi"})),
        ("program", json!({"pass": "applications/program"})),
        ("proxy", json!({"proxy": format!("http://{}", backend())})),
    ];
    if let Some(fpm) = &fpm {
        kinds.push((
            "fpm",
            json!({"proxy": format!("fastcgi://unix:{}", fpm.socket().display()),
                   "fastcgi": {"root": site.join("php"), "script": "index.php"}}),
        ));
    }
    let step = |(name, action): &(&str, serde_json::Value)| json!({"match": {"uri": format!("/{name}")}, "action": action});
    let routes: Vec<_> = kinds.iter().map(step).collect();
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": routes,
            "applications": {
                "php": {"type": "php", "root": site.join("php"), "script": "index.php"},
                "wsgi": {"type": "python", "path": &site, "module": "wsgi_app"},
                "asgi": {"type": "python", "path": &site, "module": "asgi_app"},
                "psgi": {"type": "perl", "script": site.join("app.psgi")},
                "program": {"type": "external", "protocol": "http", "executable": "/usr/bin/python3",
                            "arguments": [site.join("program.py")]},
            },
        }),
    );
    for (name, _) in &kinds {
        let get = server.get(&format!("/{name}"));
        assert_eq!((get.status, get.body.len()), (200, BODY), "{name}");
        let request = format!("HEAD /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let head = client::raw(server.address(), request.as_bytes()).unwrap();
        let head = String::from_utf8(head).unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
            "{name}: {head}"
        );
        assert!(matches!(length(&head), None | Some(BODY)), "{name}: {head}");
        let url = format!("http://{}/{name}", server.address());
        let curl = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--head"])
            .args(["--http2-prior-knowledge", &url])
            .output()
            .unwrap();
        let head = String::from_utf8(curl.stdout).unwrap();
        assert!(head.starts_with("HTTP/2 200"), "{name}: {head}");
        assert!(matches!(length(&head), None | Some(BODY)), "{name}: {head}");
    }
}
