//! Health checks of servers, and requests meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::Site;
use support::backend::Backend;
use tutti_testkit::{refusing_address, wait_until};

/// A server that answers `/health` with a status that can be changed, and everything else with its name.
struct Checked {
    backend: Backend,
    status: Arc<AtomicU16>,
    /// Heads of the received checks.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Checked {
    fn new(name: &'static str) -> Checked {
        let status = Arc::new(AtomicU16::new(200));
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (said, seen) = (Arc::clone(&status), Arc::clone(&heads));
        let backend = Backend::new(move |peer| {
            while let Some(asked) = peer.request() {
                if asked.line().contains(" /health") {
                    seen.lock().unwrap().push(asked.head.to_ascii_lowercase());
                    let status = said.load(Ordering::SeqCst);
                    peer.send(format!(
                        "HTTP/1.1 {status} So\r\nContent-Length: 3\r\n\r\nso\n"
                    ));
                } else {
                    peer.answer(name.as_bytes());
                }
            }
        });
        Checked {
            backend,
            status,
            heads,
        }
    }

    fn says(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn checks(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn config(servers: &[String], check: &str, rest: &str) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|name| format!("\"{name}\": {{}}"))
        .collect();
    let servers = servers.join(", ");
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{{servers}}}, "max_fails": 0{rest}{check}}}}}}}"#
    )
}

fn site(servers: &[String], check: &str) -> Site {
    let config = config(servers, &format!(", \"health_check\": {{{check}}}"), "");
    Site::new(1, move |_| config.clone())
}

fn of(backend: &Backend) -> String {
    backend.address.to_string()
}

/// The distinct responses to this number of requests, sorted.
fn answers(site: &Site, requests: usize) -> Vec<String> {
    let one = |_| {
        let answer = site.get("/");
        assert_eq!(answer.status, 200);
        answer.text()
    };
    let mut all: Vec<_> = (0..requests).map(one).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_server_that_fails_gets_no_requests_until_it_passes() {
    let (a, b) = (Checked::new("a"), Checked::new("b"));
    let servers = [of(&a.backend), of(&b.backend)];
    let check = r#""uri": "/health", "interval": 0.1, "fails": 2, "passes": 2"#;
    let site = site(&servers, check);
    wait_until("both are checked", || {
        a.checks().len() > 1 && b.checks().len() > 1
    });
    assert_eq!(answers(&site, 8), ["a", "b"]);
    assert_eq!(site.log.count("health check"), 0, "no change to log");
    a.says(503);
    site.log.wait_for(&format!(
            "upstream \"u\": server {} fails its health check (GET /health): its answer is 503; it gets no requests until 2 consecutive checks succeed, unless no server passes",
            servers[0]
        ));
    assert_eq!(answers(&site, 8), ["b"]);
    let status = &site.server.upstreams()[0].1[0];
    assert!(!status.is_up, "{status:?}");
    let checks = status.checks.as_ref().unwrap();
    assert!(checks.failed >= 2 && checks.passed >= 1, "{checks:?}");
    assert_eq!(checks.last_failure.as_deref(), Some("its answer is 503"));
    a.says(301);
    site.log.wait_for("passes its health check (GET /health)");
    assert_eq!(answers(&site, 8), ["a", "b"]);
    assert_eq!(site.log.count("health check"), 2, "each change once");
}

#[test]
fn one_failure_between_successes_changes_nothing() {
    let (a, b) = (Checked::new("a"), Checked::new("b"));
    let servers = [of(&a.backend), of(&b.backend)];
    let check = r#""uri": "/health", "interval": 0.1, "fails": 1000, "status": [200, 204]"#;
    let site = site(&servers, check);
    wait_until("it is checked", || !a.checks().is_empty());
    a.says(301);
    wait_until("it has failed", || {
        let servers = site.server.upstreams().remove(0).1;
        servers[0].checks.as_ref().unwrap().failed > 0
    });
    assert_eq!(answers(&site, 8), ["a", "b"]);
}

#[test]
fn the_request_of_a_check() {
    let a = Checked::new("a");
    let server = of(&a.backend);
    let check = r#""uri": "/health?deep=1", "interval": 0.1"#;
    let site = site(std::slice::from_ref(&server), check);
    wait_until("it is checked", || !a.checks().is_empty());
    let head = a.checks().remove(0);
    assert!(
        head.starts_with("get /health?deep=1 http/1.1\r\n"),
        "{head}"
    );
    for field in [
        format!("host: {server}"),
        "connection: close".to_owned(),
        format!(
            "user-agent: tutti/{} (health check)",
            env!("CARGO_PKG_VERSION")
        ),
    ] {
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
    }
    let check = r#", "health_check": {"uri": "/health", "interval": 0.1, "host": "site.example"}"#;
    site.configure(&config(&[server], check, "")).unwrap();
    wait_until("it is asked by name", || {
        let heads = a.checks();
        heads
            .iter()
            .any(|head| head.contains("host: site.example\r\n"))
    });
}

#[test]
fn the_first_check_decides_before_a_request_finds_out() {
    let b = Checked::new("b");
    let servers = [refusing_address().to_string(), of(&b.backend)];
    // Without `uri`, a check only connects.
    let site = site(&servers, r#""interval": 60, "fails": 5"#);
    site.log
        .wait_for("fails its health check (connecting): cannot connect: Connection refused");
    assert_eq!(answers(&site, 8), ["b"]);
    assert_eq!(site.log.count("cannot connect"), 1, "no request met it");
}

#[test]
fn a_server_that_says_nothing_holds_up_no_other_check() {
    let silent = Backend::new(|peer| {
        let _ = peer.request();
        peer.wait_closed();
    });
    let b = Checked::new("b");
    let servers = [of(&silent), of(&b.backend)];
    let check = r#""uri": "/health", "interval": 0.1, "timeout": 1"#;
    let site = site(&servers, check);
    site.log.wait_for("no answer within 1s");
    assert_eq!(answers(&site, 8), ["b"]);
    wait_until("the other is checked on", || b.checks().len() > 3);
}

#[test]
fn checks_that_are_given_up_leave_no_connection_behind() {
    for version in [1, 2] {
        let closed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&closed);
        let silent = Backend::new(move |peer| {
            let _ = peer.request();
            peer.wait_closed();
            count.fetch_add(1, Ordering::SeqCst);
        });
        let check = r#", "health_check": {"uri": "/health", "interval": 60, "timeout": 0.2}"#;
        let rest = format!(", \"http_version\": {version}");
        let config = config(&[of(&silent)], check, &rest);
        let site = Site::new(1, move |_| config.clone());
        site.log.wait_for("no answer within 200ms");
        wait_until("it is closed", || closed.load(Ordering::SeqCst) == 1);
        assert_eq!(silent.connections(), 1);
    }
}

#[test]
fn where_none_passes_requests_are_served_all_the_same() {
    let (a, b) = (Checked::new("a"), Checked::new("b"));
    a.says(500);
    b.says(404);
    let servers = [of(&a.backend), of(&b.backend)];
    let site = site(
        &servers,
        r#""uri": "/health", "interval": 0.1, "passes": 1"#,
    );
    site.log
        .wait_for("no server passes its health check; requests are sent to all of them as if there were no checks");
    assert_eq!(answers(&site, 8), ["a", "b"]);
    b.says(200);
    site.log.wait_for("passes its health check (GET /health)");
    assert_eq!(answers(&site, 8), ["b"]);
}

#[test]
fn a_name_without_an_address_and_a_server_without_weight_hide_no_failure() {
    let (a, drained) = (Checked::new("a"), Checked::new("drained"));
    a.says(500);
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"health_check": {{"uri": "/health", "interval": 0.1}},
                 "servers": {{"{}": {{}}, "{}": {{"weight": 0}}, "none.invalid:80": {{}}}}}}}}}}"#,
        of(&a.backend),
        of(&drained.backend),
    );
    let site = Site::new(1, move |_| config.clone());
    site.log.wait_for("no server passes its health check");
    assert_eq!(answers(&site, 2), ["a"]);
}

#[test]
fn without_checks_nothing_is_left_of_them() {
    let (a, b) = (Checked::new("a"), Checked::new("b"));
    a.says(500);
    let servers = [of(&a.backend), of(&b.backend)];
    let check = r#""uri": "/health", "interval": 0.1"#;
    let site = site(&servers, check);
    site.log.wait_for("fails its health check");
    assert_eq!(answers(&site, 8), ["b"]);
    // Another group of the same servers shares their state.
    let rules = format!(", \"health_check\": {{{check}}}");
    let other = config(&servers, &rules, ", \"retries\": 1");
    site.configure(&other).unwrap();
    assert_eq!(answers(&site, 8), ["b"]);
    site.configure(&config(&servers, "", "")).unwrap();
    assert_eq!(answers(&site, 8), ["a", "b"]);
    assert_eq!(site.server.upstreams()[0].1[0].checks, None);
    let before = a.checks().len();
    // As many rounds of checks of another server, by the same thread.
    let c = Checked::new("c");
    let other = self::site(&[of(&c.backend)], check);
    wait_until("rounds have passed", || c.checks().len() > 4);
    drop(other);
    assert!(a.checks().len() <= before + 1, "the checks have ended");
    // With other options it is checked anew, and the first check decides.
    let rules = r#", "health_check": {"uri": "/health", "status": 500, "interval": 60}"#;
    site.configure(&config(&servers, rules, "")).unwrap();
    site.log.wait_for(&format!(
        "server {} fails its health check (GET /health): its answer is 200",
        servers[1]
    ));
    assert_eq!(answers(&site, 8), ["a"]);
}
