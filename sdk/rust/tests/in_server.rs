//! The examples as applications of the whole server: asked, talked to, killed, replaced.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use serde_json::{Value, json};
use tutti_e2e::external::ProgramSite;
use tutti_e2e::hints_and_trailers::{check_hints, check_trailers, check_unannounced_trailers};
use tutti_e2e::http2::echoes;
use tutti_e2e::read_until;
use tutti_sys::signal;
use tutti_testkit::{PATIENCE, client, wait_until};
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

/// An example, which cargo builds with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    folder.join("examples").join(name)
}

fn start(processes: u32) -> ProgramSite {
    start_with(&json!({"processes": processes}))
}

fn start_with(options: &Value) -> ProgramSite {
    let site = ProgramSite::with(&example("hello"));
    let mut configuration = site.configuration(options);
    configuration["settings"]["http"] =
        json!({"max_body_size": 32 << 20, "websocket": {"max_frame_size": 16 << 20}});
    site.server.put("/config", &configuration);
    site
}

fn close(code: u16) -> Heard {
    Heard::Close(code.to_be_bytes().to_vec())
}

#[test]
fn requests_and_bodies_of_any_size_are_answered() {
    let site = start(2);
    assert_eq!(site.text("/hello/world"), "Hello, world\n");
    assert_eq!(site.server.get("/none").status, 404);
    for length in [0, 1, 20_000, 300_000, 20_000_000] {
        let body: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let head = format!(
            "POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        let reply = client::request(
            site.server.address(),
            &[head.as_bytes(), body.as_slice()].concat(),
        );
        let reply = reply.unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.body == body, "{length} bytes");
    }
    let load = site.load(8, "/hello/you", |body| body == b"Hello, you\n");
    assert!(load.wait_for_answers(500, PATIENCE));
    site.server.restart("app");
    assert!(load.wait_for_answers(500, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome:?}\n{}", site.server.log());
}

#[test]
fn a_body_that_is_made_while_it_is_sent_arrives_in_parts_and_is_cut_by_a_death() {
    let site = start(1);
    let mut stream = TcpStream::connect(site.server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"GET /clock HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        .unwrap();
    read_until(&mut stream, "tick 3\n");
    let workers = site.workers();
    signal::send(workers[0], libc::SIGKILL).unwrap();
    let mut rest = Vec::new();
    // Cut short, whichever way the client sees it.
    let _ = stream.read_to_end(&mut rest);
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "{}",
        String::from_utf8_lossy(&rest)
    );
    wait_until("another worker", || {
        let now = site.workers();
        now.len() == 1 && now != workers
    });
    assert_eq!(site.text("/hello/again"), "Hello, again\n");
}

#[test]
fn bodies_go_both_ways_over_http2() {
    let site = start(2);
    echoes(&format!("http://127.0.0.1:{}/echo", site.server.port()));
}

#[test]
fn fields_behind_a_body_reach_clients_that_take_them() {
    let site = start(1);
    check_trailers(site.server.address(), "/summed?announced");
    check_unannounced_trailers(site.server.address(), "/summed");
}

#[test]
fn a_program_without_tower_sends_hints_and_fields_behind_a_body() {
    let site = ProgramSite::with(&example("worker"));
    site.configure(&json!({}));
    check_hints(site.server.address(), "/");
    check_trailers(site.server.address(), "/");
    check_unannounced_trailers(site.server.address(), "/?plain");
}

#[test]
fn the_cases_pass_with_axums_own_upgrade() {
    let site = start(1);
    tutti_websocket_cases::run(site.server.address(), "/talk", &[]).check();
}

#[test]
fn a_handshake_is_the_services_affair() {
    let site = start(1);
    let fields = "Sec-WebSocket-Protocol: other, echo\r\n";
    let (_client, head) = WebSocketClient::open(site.server.address(), "/talk", fields).unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("sec-websocket-protocol: echo\r\n"), "{head}");
    // A request that is no handshake is refused by axum, and so is one where no WebSocket is.
    assert_eq!(site.server.get("/talk").status, 400);
    let refusal = WebSocketClient::open(site.server.address(), "/hello/you", "");
    let error = refusal.err().unwrap().to_ascii_lowercase();
    assert!(
        error.contains("http/1.1 200") && error.contains("content-length: 11"),
        "{error}"
    );
    let refusal = WebSocketClient::open(site.server.address(), "/none", "");
    let error = refusal.err().unwrap();
    assert!(error.contains("HTTP/1.1 404"), "{error}");
}

#[test]
fn both_sides_hear_of_an_end() {
    let site = start_with(&json!({"processes": 1, "limits": {"drain_timeout": 600}}));
    let open = || {
        WebSocketClient::open(site.server.address(), "/talk", "")
            .unwrap()
            .0
    };
    let say = |client: &mut WebSocketClient, text: &str| {
        client.send(&build(&[Frame::new(1, text)])).unwrap();
        assert_eq!(
            client.hear().unwrap(),
            Heard::Message(1, text.as_bytes().to_vec())
        );
    };
    let mut gone = open();
    say(&mut gone, "hello");
    drop(gone);
    site.wait_for_log("the client has closed");
    // Another talks on while the first does not read what it is sent.
    let mut slow = open();
    let large = "x".repeat(60_000);
    for _ in 0..10 {
        slow.send(&build(&[Frame::new(1, large.as_str())])).unwrap();
    }
    let mut client = open();
    say(&mut client, "and I");
    for _ in 0..10 {
        assert_eq!(
            slow.hear().unwrap(),
            Heard::Message(1, large.clone().into_bytes())
        );
    }
    site.server.restart("app");
    say(&mut client, "still here");
    let path = "/config/applications/app/limits/drain_timeout";
    site.server.put(path, &json!(1));
    assert_eq!(client.hear().unwrap(), close(1012));
    assert_eq!(slow.hear().unwrap(), close(1012));
    let mut client = open();
    say(&mut client, "again");
    // The one that the restart has told to leave may still be there.
    site.wait_for_workers(1);
    signal::send(site.workers()[0], libc::SIGKILL).unwrap();
    let Heard::Close(code) = client.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(code.get(..2), Some(&1011u16.to_be_bytes()[..]));
}
