//! Ruby processes that die, hang, leave, grow or are replaced under load, and how many requests that costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use serde_json::{Value, json};
use tutti_e2e::read_until;
use tutti_e2e::ruby::RubySite;
use tutti_sys::signal;
use tutti_testkit::{Load, LoadOptions, PATIENCE, processes, wait_until};

const CONNECTIONS: usize = 12;

/// The limit of a request's time.
const TIMEOUT: &str = "/config/applications/ruby/limits/timeout";

/// Each way of serving, and how many requests one process may have begun at a time.
fn ways() -> [(&'static str, Value, usize); 3] {
    [
        ("processes", json!({"processes": 3}), 1),
        ("preload", json!({"processes": 3, "preload": true}), 1),
        ("threads", json!({"processes": 2, "threads": 3}), 3),
    ]
}

fn start(members: &Value) -> RubySite {
    RubySite::start("faults.ru", members)
}

fn load(site: &RubySite, target: &str) -> Load {
    Load::start(&LoadOptions {
        keep_alive: true,
        expect: |body| body.starts_with(b"hello from "),
        ..LoadOptions::get(site.server.address(), target, CONNECTIONS)
    })
}

#[test]
fn a_killed_worker_costs_what_it_had_begun() {
    for (way, members, most) in ways() {
        let site = start(&members);
        let load = load(&site, "/");
        let kills = 4;
        for _ in 0..kills {
            assert!(
                load.wait_for_answers(50, PATIENCE),
                "{way}: the load goes on"
            );
            let mut victim = 0;
            wait_until("a worker to kill", || {
                victim = site.workers().pop().unwrap_or_default();
                victim > 0
            });
            let _ = signal::send(victim, libc::SIGKILL);
            wait_until("the worker is gone", || !processes::is_running(victim));
        }
        assert!(load.wait_for_answers(100, PATIENCE), "{way}");
        let outcome = load.stop();
        println!("{kills} workers of Ruby killed, {way}: {outcome}");
        // Begun ones are answered 502, or broken off where the answer had begun; nothing else is touched.
        assert!(
            outcome.failures() <= (kills * most) as u64,
            "{way}: {outcome}"
        );
        let others = outcome.hung + outcome.refused + outcome.wrong_bodies;
        assert_eq!(others, 0, "{way}: {outcome}");
        let others = outcome.statuses.keys().find(|status| **status != 502);
        assert_eq!(others, None, "{way}: {outcome}");
    }
}

#[test]
fn a_restart_under_load_loses_nothing() {
    for (way, members, _) in ways() {
        let site = start(&members);
        let load = load(&site, "/");
        for _ in 0..3 {
            assert!(
                load.wait_for_answers(50, PATIENCE),
                "{way}: the load goes on"
            );
            let reply = site
                .server
                .call("GET", "/control/applications/ruby/restart", &Value::Null);
            assert_eq!(reply.status, 200, "{way}: {}", reply.text());
        }
        assert!(load.wait_for_answers(100, PATIENCE), "{way}");
        let outcome = load.stop();
        println!("3 restarts of Ruby, {way}: {outcome}");
        assert_eq!(outcome.failures(), 0, "{way}: {outcome}");
    }
}

#[test]
fn workers_that_leave_after_some_requests_lose_nothing() {
    for (way, mut members, _) in ways() {
        members["limits"] = json!({"requests": 50});
        let site = start(&members);
        let load = load(&site, "/");
        assert!(load.wait_for_answers(600, PATIENCE), "{way}");
        let outcome = load.stop();
        assert_eq!(outcome.failures(), 0, "{way}: {outcome}");
        site.wait_for_log("left after");
    }
}

#[test]
fn a_crash_now_and_then_costs_those_requests_only() {
    let site = start(&json!({"processes": 3, "preload": true}));
    let load = load(&site, "/sometimes");
    assert!(load.wait_for_answers(400, PATIENCE));
    let outcome = load.stop();
    println!("exits in requests of Ruby: {outcome}");
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    let failed = outcome.statuses.get(&500).copied().unwrap_or_default();
    // `Process.abort` is an exit, which is answered.
    assert!(failed > 0, "{outcome}");
    assert_eq!(outcome.failures(), bad_gateways + failed, "{outcome}");
    site.wait_for_log("instead of answering `GET /sometimes`");
}

#[test]
fn a_loop_that_does_not_end_is_told_of_and_replaced() {
    for (way, mut members, _) in ways() {
        members["limits"] = json!({"timeout": 1});
        let site = start(&members);
        assert_eq!(site.get("/spin").status, 504, "{way}");
        site.wait_for_log("in spin");
        // The next process has to load the application first.
        site.server.put(TIMEOUT, &json!(60));
        assert_eq!(site.get("/").status, 200, "{way}");
    }
}

#[test]
fn a_process_that_grows_is_replaced_or_killed() {
    let limits = json!({"memory": "100M", "memory_max": "1G"});
    let site = start(&json!({"processes": 1, "limits": limits}));
    let before = site.workers();
    assert_eq!(site.get("/grow").status, 200);
    site.wait_for_log("more than `limits.memory`, and is replaced");
    wait_until("another process", || {
        let now = site.workers();
        now.len() == 1 && now != before
    });
    let limits = json!({"memory_max": "100M"});
    let reply = site.configure("faults.ru", &json!({"processes": 1, "limits": limits}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    // Answered, or 502 where it was killed before that.
    drop(site.get("/grow"));
    site.wait_for_log("more than `limits.memory_max`, and is killed");
    wait_until("another process", || site.get("/").status == 200);
}

#[test]
fn endless_answers_keep_nobody_else_out() {
    for members in [
        json!({"processes": 2}),
        json!({"processes": 1, "threads": 2}),
    ] {
        let site = start(&members);
        let mut stream = site.open("/endless");
        read_until(&mut stream, "xxxx");
        for _ in 0..5 {
            assert_eq!(site.get("/").status, 200, "{members}");
        }
        drop(stream);
        let mut others = [site.open("/endless"), site.open("/endless")];
        for stream in &mut others {
            read_until(stream, "xxxx");
        }
        drop(others);
        assert_eq!(site.get("/").status, 200, "{members}");
    }
}

#[test]
fn the_stack_of_threads_is_not_in_the_environment() {
    let site = start(&json!({"processes": 1, "thread_stack_size": 4 << 20}));
    assert_eq!(site.get("/stack").text(), "false");
}

#[test]
fn stopping_the_server_ends_everything() {
    for (way, members, _) in ways() {
        let mut site = start(&members);
        assert_eq!(site.get("/").status, 200, "{way}");
        site.server.signal(libc::SIGQUIT);
        let status = site.server.wait_for_end();
        assert!(status.success(), "{way}: {status}");
    }
}
