//! Python workers that die, hang, leave or are replaced under load, and how many requests that costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use serde_json::{Value, json};
use tutti_e2e::python::PythonSite;
use tutti_sys::signal;
use tutti_testkit::{Load, LoadOptions, PATIENCE, processes, wait_until};

const CONNECTIONS: usize = 12;

/// The limit of a request's time.
const TIMEOUT: &str = "/config/applications/app/limits/timeout";

/// Each way of serving, and how many requests one process may have begun at a time.
fn ways() -> [(&'static str, Value, usize); 3] {
    [
        ("wsgi", json!({"processes": 3}), 1),
        ("threads", json!({"processes": 2, "threads": 3}), 3),
        (
            "asgi",
            json!({"module": "asynchronous", "processes": 2}),
            CONNECTIONS,
        ),
    ]
}

fn load(site: &PythonSite, target: &str) -> Load {
    Load::start(&LoadOptions {
        keep_alive: true,
        expect: |body| body.starts_with(b"Hello from "),
        ..LoadOptions::get(site.server.address(), target, CONNECTIONS)
    })
}

#[test]
fn a_killed_worker_costs_what_it_had_begun() {
    for (way, members, most) in ways() {
        let site = PythonSite::start(&members);
        let load = load(&site, "/");
        let kills = 5;
        for _ in 0..kills {
            assert!(
                load.wait_for_answers(50, PATIENCE),
                "{way}: the load goes on"
            );
            let mut victim = 0;
            wait_until("a worker to kill", || {
                victim = site.server.workers("app").pop().unwrap_or_default();
                victim > 0
            });
            let _ = signal::send(victim, libc::SIGKILL);
            wait_until("the worker is gone", || !processes::is_running(victim));
        }
        assert!(load.wait_for_answers(100, PATIENCE), "{way}");
        let outcome = load.stop();
        // Begun ones are answered 502, or broken off where the answer had begun; nothing else is touched.
        assert!(
            outcome.failures() <= (kills * most) as u64,
            "{way}: {outcome}"
        );
        assert_eq!(
            outcome.hung + outcome.refused + outcome.wrong_bodies,
            0,
            "{way}: {outcome}"
        );
        let others = outcome.statuses.keys().find(|status| **status != 502);
        assert_eq!(others, None, "{way}: {outcome}");
    }
}

#[test]
fn a_restart_under_load_loses_nothing() {
    for (way, members, _) in ways() {
        let site = PythonSite::start(&members);
        let load = load(&site, "/");
        for _ in 0..3 {
            assert!(
                load.wait_for_answers(50, PATIENCE),
                "{way}: the load goes on"
            );
            let reply = site
                .server
                .call("GET", "/control/applications/app/restart", &Value::Null);
            assert_eq!(reply.status, 200, "{way}: {}", reply.text());
        }
        assert!(load.wait_for_answers(100, PATIENCE), "{way}");
        let outcome = load.stop();
        assert_eq!(outcome.failures(), 0, "{way}: {outcome}");
    }
}

#[test]
fn workers_that_leave_after_some_requests_lose_nothing() {
    for (way, mut members, _) in ways() {
        members["limits"] = json!({"requests": 50});
        let site = PythonSite::start(&members);
        let load = load(&site, "/");
        assert!(load.wait_for_answers(1000, PATIENCE), "{way}");
        let outcome = load.stop();
        assert_eq!(outcome.failures(), 0, "{way}: {outcome}");
        site.wait_for_log("left after");
    }
}

#[test]
fn a_crash_now_and_then_costs_those_requests_only() {
    let site = PythonSite::start(&json!({"processes": 3}));
    let load = load(&site, "/sometimes?every=40");
    assert!(load.wait_for_answers(400, PATIENCE));
    let outcome = load.stop();
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(bad_gateways > 0, "{outcome}");
    assert_eq!(outcome.failures(), bad_gateways, "{outcome}");
}

#[test]
fn a_loop_that_does_not_end_is_told_of_and_replaced() {
    for (way, mut members, _) in ways() {
        members["limits"] = json!({"timeout": 1});
        let site = PythonSite::start(&members);
        assert_eq!(site.get("/spin").status, 504, "{way}");
        site.wait_for_log(" in spin");
        // The next process has to import the application first.
        site.server.put(TIMEOUT, &json!(60));
        assert_eq!(site.get("/").status, 200, "{way}");
    }
}

#[test]
fn stopping_the_server_ends_everything() {
    for (way, members, _) in ways() {
        let mut site = PythonSite::start(&members);
        assert_eq!(site.get("/").status, 200, "{way}");
        site.server.signal(libc::SIGQUIT);
        let status = site.server.wait_for_end();
        assert!(status.success(), "{way}: {status}");
    }
}
