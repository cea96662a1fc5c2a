//! Configuration changes in a row while clients of every kind send requests: each request gets the right response.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

use support::Site;
use support::backend::Backend;
use tutti_testkit::{
    client::{Client, Reply},
    wait_until,
};

/// Changes while the load lasts.
const CHANGES: usize = 56;

/// Requests that are answered between two changes, at least.
const BETWEEN: usize = 20;

/// A server whose responses name it, the target and the body.
fn echo(name: &'static str) -> Backend {
    Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            let body = format!("{name} {} {}", asked.line(), sum(&asked.body));
            peer.answer(body.as_bytes());
        }
    })
}

fn sum(body: &[u8]) -> String {
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    format!("{} {sum}", body.len())
}

/// The responses so far, and the signal to end.
#[derive(Default)]
struct Load {
    has_ended: AtomicBool,
    answered: AtomicUsize,
}

impl Load {
    /// Sends the requests that `requests` makes of a number until the end. Returns the bodies of the responses without the server's name.
    fn client<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        site: &'s Site,
        keeps: bool,
        requests: fn(usize) -> (Vec<u8>, String),
    ) -> ScopedJoinHandle<'s, ()> {
        let address = site.address();
        scope.spawn(move || {
            let mut kept: Option<Client> = None;
            for number in 0.. {
                if self.has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let (request, expected) = requests(number);
                let mut client = kept.take().unwrap_or_else(|| Client::to(address));
                client.send(request);
                let answer = client.response("GET");
                assert_eq!(
                    (answer.status, described(&answer)),
                    (200, expected),
                    "{}",
                    answer.head
                );
                assert_eq!(answer.field("Connection"), None);
                self.answered.fetch_add(1, Ordering::Relaxed);
                kept = Some(client).filter(|_| keeps);
            }
        })
    }
}

fn described(answer: &Reply) -> String {
    let text = answer.text();
    let servers = ["a ", "b ", "c "];
    let without = servers.iter().find_map(|name| text.strip_prefix(name));
    without.unwrap_or(&text).to_owned()
}

fn get(number: usize) -> (Vec<u8>, String) {
    let request = format!("GET /{number} HTTP/1.1\r\nHost: test\r\n\r\n");
    (request.into(), format!("GET /{number} HTTP/1.1 0 0"))
}

fn file(_: usize) -> (Vec<u8>, String) {
    let request = "GET /files/one HTTP/1.1\r\nHost: test\r\n\r\n";
    (request.into(), "of a file".to_owned())
}

/// In memory and in the spool.
fn post(number: usize) -> (Vec<u8>, String) {
    let length = [1, 700, 40_000, 300_000][number % 4];
    let body: Vec<u8> = (0..length).map(|at| (at * number) as u8).collect();
    let head = format!("POST /{number} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
    let expected = format!("POST /{number} HTTP/1.1 {}", sum(&body));
    ([head.into_bytes(), body].concat(), expected)
}

fn chunked(number: usize) -> (Vec<u8>, String) {
    let mut request =
        format!("PUT /{number} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    for chunk in 0..number % 5 {
        write!(
            request,
            "{:x}\r\n{}\r\n",
            1000 + chunk,
            "x".repeat(1000 + chunk)
        )
        .unwrap();
    }
    request.push_str("0\r\n\r\n");
    let body: String = (0..number % 5)
        .map(|chunk| "x".repeat(1000 + chunk))
        .collect();
    let expected = format!("PUT /{number} HTTP/1.1 {}", sum(body.as_bytes()));
    (request.into(), expected)
}

/// The configuration after this number of changes.
fn configuration(folder: &str, round: usize, servers: [&Backend; 3]) -> String {
    let [a, b, c] = servers.map(|backend| backend.address);
    let group = match round % 7 {
        0 => format!(r#"{{"servers": {{"{a}": {{}}}}}}"#),
        1 => format!(r#"{{"servers": {{"{a}": {{}}, "{b}": {{"weight": 3}}}}}}"#),
        2 => format!(r#"{{"servers": {{"{b}": {{}}, "{c}": {{"weight": 0.5}}}}, "keepalive": 0}}"#),
        // Requests wait, some for servers that only the previous configuration kept busy.
        3 => format!(
            r#"{{"servers": {{"{b}": {{"max_connections": 1}}, "{c}": {{"max_connections": 1}}}},
                 "queue": 1000, "queue_timeout": 1000}}"#
        ),
        4 => format!(
            r#"{{"servers": {{"{b}": {{"max_connections": 2}}}}, "retries": 0, "queue": 1000, "queue_timeout": 1000}}"#
        ),
        5 => format!(
            r#"{{"servers": {{"{a}": {{}}, "{c}": {{"backup": true}}}}, "balance": "hash", "key": "$uri"}}"#
        ),
        _ => format!(r#"{{"servers": {{"{c}": {{}}}}, "balance": "least_connections"}}"#),
    };
    let action = match round % 4 {
        0 => format!(r#"{{"proxy": "http://{a}"}}"#),
        _ => r#"{"pass": "upstreams/u"}"#.to_owned(),
    };
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "upstreams": {{"u": {group}}},
             "settings": {{"http": {{"body_buffer_size": {}}}}},
             "routes": [{{"match": {{"uri": "/no-{round}"}}, "action": {{"return": 404}}}},
                        {{"match": {{"uri": "/files/*"}}, "action": {{"share": "{folder}$uri"}}}},
                        {{"action": {action}}}]}}"#,
        16_384 << (round % 3),
    )
}

/// Issue 10: a change was answered before every thread had it, so that the next request could be served by the previous configuration.
#[test]
fn a_request_behind_a_change_is_not_served_by_the_configuration_before() {
    let with = |listeners: &[u16], status: u16| {
        let listeners: Vec<String> = listeners
            .iter()
            .map(|port| format!(r#""127.0.0.1:{port}": {{"pass": "routes"}}"#))
            .collect();
        format!(
            r#"{{"listeners": {{{}}}, "routes": [{{"match": {{"uri": "/load"}}, "action": {{"return": 200}}}},
                                                 {{"action": {{"return": {status}}}}}]}}"#,
            listeners.join(", ")
        )
    };
    let site = Site::new(2, |_| with(&[1], 200));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let change = |listeners: &[u16], status: u16| {
        site.configure(&with(listeners, status)).unwrap();
        runtime.block_on(site.server.threads_answer());
    };
    let has_ended = AtomicBool::new(false);
    let address = site.address();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::to(address);
                while !has_ended.load(Ordering::Relaxed) {
                    client.send("GET /load HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
                    for _ in 0..20 {
                        assert_eq!(client.response("GET").status, 200);
                    }
                }
            });
        }
        let changed = thread::Builder::new()
            .spawn_scoped(scope, || {
                let mut kept = site.connect();
                for round in 0..20_u16 {
                    let status = 200 + round % 2;
                    change(&[1, 2], status);
                    kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                    assert_eq!(kept.response("GET").status, status);
                    let listener = &site.server.listeners()[1];
                    let mut removed: Vec<Client> = (0..200)
                        .map(|_| Client::to(listener.bound_address().unwrap()))
                        .collect();
                    for client in &mut removed {
                        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                        assert_eq!(client.response("GET").status, status);
                    }
                    change(&[1], status);
                    // The last one is closed first.
                    for client in removed.iter_mut().rev() {
                        // It may be closed already.
                        let _ = client
                            .stream
                            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                        let answered = client.fill().unwrap_or(0);
                        assert_eq!(answered, 0, "in round {round}");
                    }
                }
            })
            .unwrap()
            .join();
        has_ended.store(true, Ordering::Relaxed);
        changed.unwrap();
    });
}

#[test]
fn a_client_that_always_has_begun_its_next_request_gets_the_new_configuration() {
    let site = Site::new(1, |_| with_status(200));
    let mut client = site.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nG");
    assert_eq!(client.response("GET").status, 200);
    site.configure(&with_status(403)).unwrap();
    let next = "ET /a HTTP/1.1\r\nHost: a\r\n\r\nG";
    client.send(next);
    // Begun before the change: either is right.
    client.response("GET");
    client.send(next);
    assert_eq!(client.response("GET").status, 403);
}

/// A configuration that answers with this status.
fn with_status(status: u16) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
             "routes": [{{"action": {{"return": {status}}}}}]}}"#
    )
}

#[test]
fn changes_under_load_lose_no_request() {
    let servers = ["a", "b", "c"].map(echo);
    let each = || servers.each_ref();
    let site = Site::new(2, |folder| configuration(folder, 0, each()));
    site.write("files/one", "of a file");
    let folder = site.path().to_str().unwrap();
    let load = Load::default();
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for keeps in [true, true, false] {
            for requests in [get, post, chunked, file] {
                clients.push(load.client(scope, &site, keeps, requests));
            }
        }
        // However this ends, the clients do too.
        let changed = thread::Builder::new()
            .spawn_scoped(scope, || {
                for round in 1..=CHANGES {
                    let before = load.answered.load(Ordering::Relaxed);
                    wait_until("requests are answered", || {
                        load.answered.load(Ordering::Relaxed) >= before + BETWEEN
                    });
                    site.configure(&configuration(folder, round, each()))
                        .unwrap();
                }
            })
            .unwrap()
            .join();
        load.has_ended.store(true, Ordering::Relaxed);
        changed.unwrap();
        for client in clients {
            client.join().unwrap();
        }
    });
    let log = site.log.lines();
    assert!(log.is_empty(), "{log:?}");
}
