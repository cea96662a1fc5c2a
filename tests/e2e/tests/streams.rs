//! Streams through the whole server: docs/proxy/streams.md by example, with servers and clients that other people wrote.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::documents::examples;
use tutti_e2e::scrape::Samples;
use tutti_e2e::tls_server::TlsServer;
use tutti_testkit::{PATIENCE, Server, ServerOptions, client, free_port, processes, wait_until};

const GUIDE: &str = include_str!("../../../docs/proxy/streams.md");

/// Echoes what each connection sends; returns its address.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut &stream, &mut copy);
                let _ = stream.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

fn passing(server: &Server, to: &str) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"stream": "upstreams/u"}},
        "upstreams": {"u": {"servers": {to: {}}}},
    })
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asserts that the connection echoes.
fn expect_echo(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

/// The examples of the guide as a server takes them here.
#[test]
fn every_example_applies() {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    let pem = authority.bundle("site", EC, "DNS:shop.example.com");
    let reply = client::control(
        server.control(),
        "PUT",
        "/certificates/bundle",
        pem.as_bytes(),
    );
    assert_eq!(reply.unwrap().status, 200);
    let mut count = 0;
    for example in examples(GUIDE, "json") {
        let mut example = example;
        // The longer name first: it begins with another one.
        for shown in ["*:5432", "*:53", "*:514", "*:443"] {
            example = example.replace(shown, &format!("127.0.0.1:{}", free_port()));
        }
        let logs = server.folder().display().to_string();
        let example = example.replace("/var/log/tutti", &logs);
        let example: Value = serde_json::from_str(&example).unwrap();
        server.put("/config", &example);
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn numbers_are_in_the_status_the_metrics_and_the_command() {
    let server = Server::start(&ServerOptions::default());
    let mut configuration = passing(&server, &echo());
    let metrics = free_port();
    configuration["listeners"][format!("127.0.0.1:{metrics}")] = json!({"pass": "metrics"});
    server.put("/config", &configuration);
    let mut stream = connect(&server);
    expect_echo(&mut stream, "abc");
    let name = format!("127.0.0.1:{}", server.port());
    let expected = json!({"active": 1, "received": 3, "sent": 3,
        "connections": {"passed": 1, "terminated": 0, "closed": 0, "invalid": 0, "failed": 0}});
    // Bytes that have arrived may not be counted yet.
    wait_until("all is counted", || {
        server.status("/streams")[&name] == expected
    });
    let page = client::get(([127, 0, 0, 1], metrics).into(), "/")
        .unwrap()
        .text();
    let samples = Samples::read(&page);
    let label = format!("listener=\"{name}\"");
    let get = |family: &str, more: &str| samples.get(family, &format!("{label}{more}"));
    assert_eq!(
        get(
            "tutti_listener_stream_connections_total",
            ",outcome=\"passed\""
        ),
        1.0
    );
    assert_eq!(get("tutti_listener_stream_open_connections", ""), 1.0);
    assert_eq!(
        get(
            "tutti_listener_stream_bytes_total",
            ",direction=\"received\""
        ),
        3.0
    );
    let shown = server.command(&["status"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains(&format!("{name} 1 active, 1 passed")),
        "{shown}"
    );
    drop(stream);
    wait_until("the connection has ended", || {
        server.status("/streams")[&name]["active"] == 0
    });
}

/// Existing connections go on in the former router, new ones reach the next one.
#[test]
fn an_upgrade_ends_no_connection() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &passing(&server, &echo()));
    let mut old = connect(&server);
    expect_echo(&mut old, "before");
    let before = server.router();
    server.upgrade();
    wait_until("another router serves", || {
        let now = server.pids("tutti: router");
        now.iter().any(|pid| *pid != before)
    });
    expect_echo(&mut old, "after");
    expect_echo(&mut connect(&server), "new");
    assert!(processes::is_running(before));
    drop(old);
    wait_until("the former router has ended", || {
        !processes::is_running(before)
    });
}

/// An idle client of a database must not make a stop last as long as it may.
#[test]
fn a_stop_does_not_wait_for_an_idle_connection() {
    let mut server = Server::start(&ServerOptions::default());
    let mut configuration = passing(&server, &echo());
    configuration["settings"] = json!({"http": {"drain_timeout": 3600}});
    server.put("/config", &configuration);
    let mut idle = connect(&server);
    expect_echo(&mut idle, "before");
    server.stop(libc::SIGQUIT);
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn connections_of_a_removed_listener_are_shown_as_draining() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &passing(&server, &echo()));
    let mut open = connect(&server);
    expect_echo(&mut open, "before");
    server.put("/config", &json!({}));
    let name = format!("127.0.0.1:{}", server.port());
    assert_eq!(server.status("/streams")[&name]["draining"], 1);
    let shown = server.command(&["status"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(", 1 draining"), "{shown}");
    expect_echo(&mut open, "after");
    drop(open);
    wait_until("the connection has ended", || {
        server.status("")["streams"].is_null()
    });
}

#[test]
fn a_router_that_dies_is_replaced() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &passing(&server, &echo()));
    expect_echo(&mut connect(&server), "before");
    server.kill_router();
    expect_echo(&mut connect(&server), "after");
}

/// One port, three names: one is passed to OpenSSL's server, one is terminated here, one is closed.
#[test]
fn tls_is_passed_on_by_name_and_terminated_beside_it() {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    authority.issue("behind", EC, "ca", "subjectAltName=DNS:behind.example");
    let behind = TlsServer::start(&json!({
        "chain": authority.path("behind.pem"), "key": authority.path("behind.key"), "protocols": ["http/1.1"],
    }));
    let pem = authority.bundle("here", EC, "DNS:here.example");
    let reply = client::control(
        server.control(),
        "PUT",
        "/certificates/here",
        pem.as_bytes(),
    );
    assert_eq!(reply.unwrap().status, 200);
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()):
                {"stream": "streams/by_name", "pass": "routes", "tls": {"certificate": "here"}}},
            "streams": {"by_name": [
                {"match": {"server_name": "behind.example"}, "action": {"pass": "upstreams/behind"}},
                {"match": {"server_name": "here.example"}, "action": {"terminate": true}}]},
            "routes": [{"action": {"return": 200, "body": "here"}}],
            "upstreams": {"behind": {"servers": {behind.address().to_string(): {}}}},
        }),
    );
    let curl = |name: &str, path: &str| {
        let port = server.port();
        let run = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--cacert"])
            .arg(authority.path("ca.pem"))
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .arg(format!("https://{name}:{port}{path}"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let seen: Value = serde_json::from_str(&curl("behind.example", "/info")).unwrap();
    assert_eq!(
        (&seen["name"], &seen["protocol"]),
        (&json!("behind.example"), &json!("http/1.1"))
    );
    assert_eq!(curl("here.example", "/"), "here");
    assert_eq!(curl("other.example", "/"), "");
    let outcomes =
        server.status("/streams")[format!("127.0.0.1:{}", server.port())]["connections"].clone();
    assert_eq!(
        outcomes,
        json!({"passed": 1, "terminated": 1, "closed": 1, "invalid": 0, "failed": 0})
    );
}
