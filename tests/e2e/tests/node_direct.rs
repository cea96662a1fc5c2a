//! Requests that a Node.js process takes itself, without a socket: what they and their answers are, and when a socket is used after all.

use std::fs;

use serde_json::{Value, json};
use tutti_e2e::node::NodeSite;
use tutti_sys::signal;
use tutti_testkit::client::Client;
use tutti_testkit::wait_until;

/// Neither more nor less than what a socket's buffers and the response ring hold: far more.
const LARGE: usize = 300 * 100_000;

fn site(extra: &Value) -> NodeSite {
    let site = NodeSite::bare();
    let mut members = json!({"script": "direct.js", "processes": 1});
    tutti_testkit::set_members(&mut members, extra);
    members["environment"]["WORK"] = json!(site.work());
    site.configure(&members);
    site
}

fn post(site: &NodeSite, path: &str, body: &[u8]) -> tutti_testkit::client::Reply {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let whole = [head.as_bytes(), body].concat();
    tutti_testkit::client::request(site.server.address(), &whole).unwrap()
}

#[test]
fn requests_come_without_a_socket_unless_the_application_needs_one() {
    let site = site(&json!({}));
    assert_eq!(site.text("/way"), "memory");
    // The worker has looked whether somebody listens: Node.js counts that until it has heard of its end.
    wait_until("only its own connection", || {
        site.text("/connections") == "null 1"
    });
    // The application wants to upgrade connections, from now on.
    assert_eq!(site.text("/late"), "from now on by a socket");
    wait_until("a socket", || site.text("/way") == "a socket");
    let environment = json!({"TUTTI_NODE_SOCKET": "1"});
    site.configure(&json!({"script": "direct.js", "environment": environment}));
    assert_eq!(site.text("/way"), "a socket");
    for script in [
        "server.on('upgrade', () => {})",
        "server.on('connection', () => {})",
    ] {
        let text = format!(
            "const server = require('http').createServer((request, response) => response.end(String(request.socket instanceof \
             require('net').Socket))).listen(1, () => {{ {script} }})"
        );
        fs::write(site.root().join("other.js"), text).unwrap();
        site.configure(&json!({"script": "other.js"}));
        assert_eq!(site.text("/"), "true", "{script}");
    }
}

/// By a socket a program that answered while it read its request waited for the rest in vain.
#[test]
fn bodies_go_both_ways_whatever_their_size() {
    for extra in [
        json!({}),
        json!({"environment": {"TUTTI_NODE_SOCKET": "1"}}),
    ] {
        let site = site(&extra);
        for length in [0, 1, 20_000, 70_000, 3_000_000] {
            let body: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let reply = post(&site, "/echo", &body);
            assert_eq!(reply.status, 200, "{length}");
            assert!(reply.body == body, "{length} bytes");
            assert_eq!(
                post(&site, "/count", &body).text(),
                format!("{length} true")
            );
            assert_eq!(post(&site, "/slow", &body).text(), length.to_string());
            let reply = post(&site, "/unread", &body);
            assert_eq!((reply.status, reply.text().as_str()), (401, "no"));
        }
        let reply = site.get("/large");
        assert_eq!(reply.body.len(), LARGE + "true".len());
        assert!(reply.body.ends_with(b"true"), "it had to wait for room");
    }
}

#[test]
fn a_body_that_comes_slowly_is_read_as_it_comes() {
    let site = site(&json!({"request_buffering": false}));
    let mut client = Client::to(site.server.address());
    client.send("POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nfirst\r\n");
    // The answer begins before the body has ended.
    client.read_until("first\r\n");
    client.send("4\r\nlast\r\n0\r\n\r\n");
    let rest = client.read_to_end();
    assert!(rest.contains("last"), "{rest}");
}

#[test]
fn answers_of_every_kind_are_as_on_a_socket() {
    let site = site(&json!({}));
    let by_socket = self::site(&json!({"environment": {"TUTTI_NODE_SOCKET": "1"}}));
    for (method, path, length) in [
        ("GET", "/headers", 0),
        ("GET", "/empty?204", 0),
        ("GET", "/empty?304", 0),
        ("GET", "/empty?200", 0),
        ("HEAD", "/headers", 0),
        ("HEAD", "/large", 0),
        ("GET", "/sized", 0),
        ("GET", "/early", 0),
        ("GET", "/encodings", 0),
        ("GET", "/close", 0),
        ("GET", "/destroy", 0),
        ("GET", "/timeout", 0),
        ("POST", "/close", 70_000),
        ("PROPFIND", "/headers", 0),
        ("UNHEARDOF", "/headers", 0),
    ] {
        let ask = |site: &NodeSite| {
            let mut client = Client::of(site.connect());
            client.send(format!(
                "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{}",
                "x".repeat(length)
            ));
            let reply = client.response(method);
            // The server counts an answer that it has whole when it sends the head; which it has is a matter of time.
            let framing = ["date:", "content-length:", "transfer-encoding:"];
            let lines = reply.head.lines().filter(|line| {
                let line = line.to_ascii_lowercase();
                !framing.iter().any(|name| line.starts_with(name))
            });
            let head: Vec<_> = lines.map(str::to_owned).collect();
            (head, reply.body, reply.is_whole)
        };
        let (direct, other) = (ask(&site), ask(&by_socket));
        assert_eq!(direct, other, "{method} {path}");
    }
    assert_eq!(site.text("/way"), "memory");
}

#[test]
fn an_answer_that_the_application_breaks_off_does_not_look_whole() {
    let site = site(&json!({}));
    let mut client = Client::to(site.server.address());
    client.send("GET /half HTTP/1.1\r\nHost: test\r\n\r\n");
    let begun = client.read_until("\r\n\r\nhalf");
    assert!(begun.contains("Content-Length: 100"), "{begun}");
    assert_eq!(site.text("/break"), "1");
    let rest = client.read_to_end();
    assert_eq!(rest, "", "nothing follows");
    assert_eq!(site.text("/way"), "memory");
}

#[test]
fn a_client_that_goes_is_reported() {
    let site = site(&json!({}));
    let mut client = Client::to(site.server.address());
    client.send("GET /events HTTP/1.1\r\nHost: test\r\n\r\n");
    client.read_until("data: first\n\n");
    drop(client);
    site.wait_for_note("notes", "events aborted");
    site.wait_for_note("notes", "events closed false true true");
    assert_eq!(site.text("/way"), "memory");
}

#[test]
fn a_time_limit_is_one_requests_and_the_servers_is_each_ones() {
    let site = site(&json!({}));
    let script = "const http = require('http');\n\
        const server = http.createServer((request, response) => {\n\
            if (request.url === '/limited') request.setTimeout(20);\n\
            setTimeout(() => response.end('answered'), Number(request.url.split('?')[1] || 0));\n\
        });\n\
        server.timeout = 400;\n\
        server.listen(1);";
    fs::write(site.root().join("timed.js"), script).unwrap();
    site.configure(&json!({"script": "timed.js"}));
    assert_eq!(site.text("/limited"), "answered");
    assert_eq!(site.text("/?100"), "answered");
    assert_eq!(site.get("/?60000").status, 502);
    assert_eq!(site.text("/?100"), "answered");
}

#[test]
fn requests_do_not_see_each_others_context_and_survive_an_exception() {
    let site = site(&json!({}));
    for number in 0..5 {
        let path = format!("/context?{number}");
        assert_eq!(site.text(&path), format!("undefined {path}"));
    }
    let mut client = Client::to(site.server.address());
    client.send("GET /handled HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("the exception", || {
        site.text("/seen") == "caught by the process"
    });
}

#[test]
fn the_resource_of_a_request_goes_with_it() {
    let site = site(&json!({}));
    assert_eq!(site.text("/resources"), "0");
    for _ in 0..10 {
        assert_eq!(site.text("/way"), "memory");
        assert_eq!(site.get("/destroy").status, 502);
    }
    wait_until("only the resource of this request", || {
        site.text("/resources") == "1"
    });
}

#[test]
fn a_server_that_is_closed_and_listens_again_serves() {
    let site = site(&json!({}));
    let process = site.text("/restart");
    // Requests that come between the two wait, and the process is not replaced.
    wait_until("it serves again", || {
        let reply = site.get("/way");
        reply.status == 200 && reply.text() == "a socket"
    });
    assert_eq!(site.text("/process"), process);
}

/// No request was served before that response had ended.
#[test]
fn an_application_that_needs_a_socket_or_closes_its_server_is_replaced_if_a_response_goes_on() {
    let site = site(&json!({"limits": {"drain_timeout": 0}}));
    for (path, answer) in [
        ("/late", "from now on by a socket"),
        ("/leave", "after the last response"),
    ] {
        let mut events = Client::to(site.server.address());
        events.send("GET /events HTTP/1.1\r\nHost: test\r\n\r\n");
        events.read_until("data: first\n\n");
        let process = site.text("/process");
        assert_eq!(site.text(path), answer);
        wait_until("another process", || site.text("/process") != process);
        assert!(signal::exists(process.parse().unwrap()), "{path}");
    }
}

#[test]
fn a_program_of_the_application_inherits_nothing() {
    let site = site(&json!({}));
    let script = "const { execFile } = require('child_process');\n\
        require('http').createServer((request, response) => execFile('ls', ['-l', '/proc/self/fd'], (error, out) => response.end(out + \
        Object.keys(process.env).join()))).listen(1);";
    fs::write(site.root().join("child.js"), script).unwrap();
    site.configure(&json!({"script": "child.js"}));
    let text = site.text("/");
    assert!(text.contains("0 -> "), "{text}");
    for part in ["memfd", "eventfd", "TUTTI_W", "TUTTI_D"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}
