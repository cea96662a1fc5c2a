//! Descriptors used up: connections wait, nothing spins, and all is well again afterwards. Alone in its process, whose limit it lowers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};
use socket2::{Domain, Socket, Type};
use support::Site;
use tutti_testkit::{client::Client, wait_until};

fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64)
}

/// Processor time of this process. The kernel is asked by a clock: a file of `/proc` cannot be opened when descriptors are used up.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

#[test]
fn connections_wait_while_there_are_no_descriptors() {
    let site = Site::sharing("{}");
    site.write("a", "x");
    let address = site.address();
    let mut first = site.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(first.response("GET").status, 200);

    // Another server, whose clock shows that time passes: a head that is begun has a second.
    let other = Site::sharing(r#"{"header_read_timeout": 1}"#);
    let before = getrlimit(Resource::Nofile);
    let mut late = other.connect();
    late.send("GET /");
    wait_until("it is being read", || other.server.totals().active == 1);
    // The clients' sockets are in this process too: they are there before there is room for no more than some of the other ends.
    let sockets: Vec<_> = (0..40)
        .map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap())
        .collect();
    let limit = Rlimit {
        current: Some(open_descriptors() + 15),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let connected = sockets.into_iter().map(|socket| {
        socket.connect(&address.into()).unwrap();
        Client::of(socket.into())
    });
    let mut clients: Vec<_> = connected.collect();
    wait_until("it is said", || {
        site.log
            .lines()
            .iter()
            .any(|line| line.contains("cannot accept on \"127.0.0.1:1\""))
    });
    let before_waiting = processor_time();
    assert_eq!(late.response("GET").status, 408);
    let used = processor_time() - before_waiting;
    assert!(
        used < Duration::from_millis(300),
        "{used:?} of processor time in a second of waiting"
    );
    // Each thread says it once, however often it tries.
    assert!(site.log.lines().len() <= 2);
    first.send("GET /return/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        first.response("GET").status,
        200,
        "a connection that is there is served"
    );

    // Half of the clients leave: the others, which waited, get their turn.
    let waiting = clients.split_off(clients.len() / 2);
    drop(clients);
    setrlimit(Resource::Nofile, before).unwrap();
    for mut client in waiting {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("GET").status, 200);
    }
}
