//! Descriptors used up: connections wait, no thread spins, and everything works afterwards. Alone in their process, whose limit they lower.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use support::Site;
use support::backend::Backend;
use tutti_testkit::{client::Client, wait_until};

fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() as u64)
}

/// The `stat` files of all threads of this process except the caller; opened before descriptors are used up.
fn other_threads() -> Vec<File> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let others = threads
        .map(|thread| thread.unwrap())
        .filter(|thread| thread.file_name() != *own);
    others
        .map(|thread| File::open(thread.path().join("stat")).unwrap())
        .collect()
}

/// True if the thread sleeps or has ended (proc_pid_stat(5): the state follows the name in parentheses).
fn is_asleep(stat: &File) -> bool {
    let mut text = [0; 512];
    let Ok(length) = stat.read_at(&mut text, 0) else {
        // It has ended.
        return true;
    };
    let text = String::from_utf8_lossy(&text[..length]);
    text.rsplit_once(") ").unwrap().1.starts_with('S')
}

/// Held by each test, because they lower the limit of their process.
static LIMIT: Mutex<()> = Mutex::new(());

#[test]
fn connections_wait_while_there_are_no_descriptors() {
    let _limit = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::sharing("{}");
    site.write("a", "x");
    let address = site.address();
    let mut first = site.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(first.response("GET").status, 200);

    // Another server, whose clock shows that time passes: the head of a request must be complete within a second.
    let other = Site::sharing(r#"{"header_read_timeout": 1}"#);
    let before = getrlimit(Resource::Nofile);
    let mut late = other.connect();
    late.send("GET /");
    wait_until("it is being read", || other.server.totals().active == 1);
    let threads = other_threads();
    // The clients' sockets are in this process too, so they are opened before the limit leaves room for only some of the server's.
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
    // A thread that retried without pause would never be found asleep.
    wait_until("all threads sleep", || threads.iter().all(is_asleep));
    assert_eq!(late.response("GET").status, 408);
    wait_until("all threads sleep", || threads.iter().all(is_asleep));
    // Each thread logs it once, however often it retries.
    assert!(site.log.lines().len() <= 2);
    first.send("GET /return/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        first.response("GET").status,
        200,
        "a connection that is there is served"
    );

    // Half of the clients leave; the others, which waited, are served.
    let waiting = clients.split_off(clients.len() / 2);
    drop(clients);
    setrlimit(Resource::Nofile, before).unwrap();
    for mut client in waiting {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response("GET").status, 200);
    }
}

/// A file that could not be opened counted as missing, so that requests for files went to the application.
#[test]
fn a_lack_of_descriptors_is_no_reason_for_a_fallback() {
    let _limit = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"share": ["{folder}/a$uri", "{folder}/b$uri"], "fallback": {{"return": 204}}}}}}]}}"#
        )
    });
    site.write("a/file", "of a");
    site.write("b/file", "of b");
    let mut client = site.connect();
    let mut status = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response("GET").status
    };
    assert_eq!(status("/missing"), 204);
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let found = (status("/file"), status("/missing"));
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(found, (503, 204));
    site.log
        .wait_for("a/file\": Too many open files (os error 24); raise the limit of open files");
    assert_eq!(status("/file"), 200);
}

/// A lack of descriptors counted as a failure of each server, so that all of them rested when it was over.
#[test]
fn servers_are_not_blamed_for_a_lack_of_descriptors() {
    let _limit = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let (one, two) = (Backend::echoing("one"), Backend::echoing("two"));
    let (first, second) = (one.address, two.address);
    let site = Site::new(1, |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/own"}}, "action": {{"return": 204}}}}, {{"action": {{"pass": "upstreams/u"}}}}],
                 "upstreams": {{"u": {{"servers": {{"{first}": {{}}, "{second}": {{}}}},
                                       "health_check": {{"interval": 0.1, "fails": 1}}}}}}}}"#
        )
    });
    let mut client = site.connect();
    client.send("GET /own HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").status, 204);
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, none).unwrap();
    site.log
        .wait_for("servers cannot be checked: cannot connect: Too many open files");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let status = client.response("GET").status;
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(status, 503);
    site.log
        .wait_for("(os error 24); raise the limit of open files");
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").status, 200);
    for line in site.log.lines().iter() {
        assert!(!line.contains("gets no requests"), "{line}");
    }
}
