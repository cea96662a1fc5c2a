//! Frameworks for Node.js, unmodified, by the code of their own first pages.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::node::{NodeSite, version};
use tutti_testkit::skip;
use tutti_websocket_cases::{Heard, WebSocketClient};

fn start(script: &str) -> NodeSite {
    let site = NodeSite::with_packages("frameworks");
    site.configure(&json!({"script": script, "processes": 1}));
    site
}

/// The same pages in each of them.
fn serves(script: &str, name: &str) {
    let site = start(script);
    assert_eq!(site.text("/"), format!("Hello from {name}"));
    let reply = site.get("/items/7?a=b%20c").json();
    let ip = json!("127.0.0.1");
    assert_eq!(
        reply,
        json!({"id": "7", "query": {"a": "b c"}, "ip": ip, "protocol": "http"})
    );
    let body = json!({"text": "x".repeat(50_000)}).to_string();
    let fields = "Content-Type: application/json\r\n";
    let reply = site.send("POST", "/items", fields, body.as_bytes());
    assert_eq!((reply.status, reply.text().len()), (201, body.len()));
    assert!(reply.field("Set-Cookie").unwrap().starts_with("seen=1"));
    let reply = site.get("/redirect");
    assert_eq!(
        (reply.status, reply.field("Location")),
        (302, Some("/items/1"))
    );
    assert_eq!(site.get("/fails").status, 500);
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn express_serves() {
    serves("express.js", "Express");
}

#[test]
fn fastify_serves() {
    // Its packages ask for it (`engines`).
    if version() < 20 {
        skip!("Node.js 20 is needed");
    }
    serves("fastify.mjs", "Fastify");
}

#[test]
fn koa_serves() {
    serves("koa.js", "Koa");
}

#[test]
fn hono_serves() {
    // Its packages ask for it (`engines`).
    if version() < 20 {
        skip!("Node.js 20 is needed");
    }
    serves("hono.mjs", "Hono");
}

/// A server of `ws`, which passes those of the cases.
fn passes_the_cases(wanted: &[&str]) {
    let site = NodeSite::with_packages("frameworks");
    let mut configuration = site.configuration(&json!({"script": "ws.js", "processes": 1}));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 16 << 20});
    site.server.put("/config", &configuration);
    let (mut client, _) = WebSocketClient::open(site.server.address(), "/who", "").unwrap();
    let Heard::Message(1, text) = client.hear().unwrap() else {
        panic!("a message");
    };
    assert_eq!(text, b"127.0.0.1");
    tutti_websocket_cases::run(site.server.address(), "/", wanted).check();
}

/// Texts and binaries of each length, fragments, control frames, how connections end.
#[test]
fn a_server_of_ws_passes_the_cases_of_messages() {
    passes_the_cases(&["1", "2", "5", "7"]);
}

/// Found by the tests of `ws`: a close frame of the code 1006, which no frame has, was an error of the socket, and ended a process that does not listen for that.
#[test]
fn a_client_that_vanishes_is_a_close_and_no_error() {
    let site = NodeSite::with_packages("frameworks");
    let script = "const { appendFileSync } = require('fs');\n\
        const server = require('http').createServer((request, response) => response.end(String(process.pid)));\n\
        new (require('ws').WebSocketServer)({ server }).on('connection', (socket) => {\n\
            socket.send('here');\n\
            socket.on('close', (code) => appendFileSync(`${process.env.WORK}/notes`, `closed ${code}\\n`));\n\
        });\n\
        server.listen(1);\n";
    fs::write(site.root().join("vanish.js"), script).unwrap();
    site.configure(&json!({"script": "vanish.js", "processes": 1}));
    let before = site.text("/");
    let (mut client, _) = WebSocketClient::open(site.server.address(), "/", "").unwrap();
    let Heard::Message(1, text) = client.hear().unwrap() else {
        panic!("a message");
    };
    assert_eq!(text, b"here");
    drop(client);
    site.wait_for_note("notes", "closed 1006");
    assert_eq!(site.text("/"), before, "the same process");
}

#[test]
#[ignore = "takes a minute; `make test-long` runs it"]
fn a_server_of_ws_passes_the_cases() {
    passes_the_cases(&[]);
}

#[test]
fn a_room_of_socket_io_talks_by_each_transport() {
    let site = start("socketio.js");
    for transport in ["polling", "websocket"] {
        let output = Command::new("node")
            .arg(site.root().join("socketio-client.js"))
            .arg(format!("http://{}", site.server.address()))
            .arg(transport)
            .output()
            .unwrap();
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            panic!("{transport}: {}", String::from_utf8_lossy(&output.stderr));
        });
        let said = "127.0.0.1: hello";
        assert_eq!(seen, json!({"heard": [said, said], "by": transport}));
    }
}
