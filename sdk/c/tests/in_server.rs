//! The samples as applications of the whole server: asked, talked to, killed, replaced.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tutti_e2e::c::compile;
use tutti_e2e::external::ProgramSite;
use tutti_e2e::hints_and_trailers::{check_hints, check_trailers};
use tutti_sys::signal;
use tutti_testkit::{PATIENCE, client, wait_until};
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

fn start(source: &str, processes: u32) -> ProgramSite {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("program");
    compile(source, &program);
    let site = ProgramSite::with(&program);
    let mut configuration = site.configuration(&json!({"processes": processes}));
    configuration["settings"]["http"] =
        json!({"max_body_size": 32 << 20, "websocket": {"max_frame_size": 16 << 20}});
    site.server.put("/config", &configuration);
    site
}

#[test]
fn the_first_sample_serves_through_deaths_and_a_restart() {
    let site = start("sdk/c/samples/hello.c", 2);
    assert_eq!(site.text("/world"), "Hello from C: /world\n");
    site.wait_for_workers(2);
    let workers = site.workers();
    signal::send(workers[0], libc::SIGKILL).unwrap();
    wait_until("another worker", || {
        let now = site.workers();
        now.len() == 2 && !now.contains(&workers[0])
    });
    let load = site.load(8, "/you", |body| body == b"Hello from C: /you\n");
    assert!(load.wait_for_answers(500, PATIENCE));
    site.server.restart("app");
    assert!(load.wait_for_answers(500, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome:?}\n{}", site.server.log());
    wait_until("the first ones have left", || {
        workers.iter().all(|pid| !signal::exists(*pid))
    });
}

#[test]
fn the_sample_with_a_loop_echoes_bodies_and_messages() {
    let site = start("sdk/c/samples/loop.c", 1);
    for length in [0, 1, 20_000, 300_000, 20_000_000] {
        let body: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        let whole = [head.as_bytes(), body.as_slice()].concat();
        let reply = client::request(site.server.address(), &whole).unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.body == body, "{length} bytes");
    }
    tutti_websocket_cases::run(site.server.address(), "/", &[]).check();
}

#[test]
fn the_sample_with_hints_and_trailers_sends_both() {
    let site = start("sdk/c/samples/hints.c", 1);
    check_hints(site.server.address(), "/");
    check_trailers(site.server.address(), "/");
}

#[test]
fn a_killed_worker_costs_what_it_had_and_no_more() {
    let site = start("sdk/c/samples/loop.c", 1);
    let mut socket = WebSocketClient::open(site.server.address(), "/", "")
        .unwrap()
        .0;
    socket.send(&build(&[Frame::new(1, "hello")])).unwrap();
    assert_eq!(socket.hear().unwrap(), Heard::Message(1, b"hello".to_vec()));
    // An answer that its client does not read whole.
    let mut stream = TcpStream::connect(site.server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = 20_000_000;
    let head = format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        // No client may read it to the end.
        let _ = writer.write_all(&vec![b'x'; length]);
    });
    let mut start = [0; 1000];
    stream.read_exact(&mut start).unwrap();
    let workers = site.workers();
    signal::send(workers[0], libc::SIGKILL).unwrap();
    let mut got = start.to_vec();
    let _ = stream.read_to_end(&mut got);
    assert!(
        !got.ends_with(b"0\r\n\r\n"),
        "an answer that was cut looks whole"
    );
    drop(stream);
    sending.join().unwrap();
    let Heard::Close(code) = socket.hear().unwrap() else {
        panic!("no close");
    };
    assert_eq!(code.get(..2), Some(&1011u16.to_be_bytes()[..]));
    wait_until("another worker", || {
        let now = site.workers();
        now.len() == 1 && now != workers
    });
    let reply = client::request(
        site.server.address(),
        b"POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 5\r\n\r\nagain",
    );
    assert_eq!(reply.unwrap().text(), "again");
}
