//! Node.js processes that die, hang, leave or are replaced under load, and how many requests that costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use serde_json::{Value, json};
use tutti_e2e::node::NodeSite;
use tutti_e2e::read_until;
use tutti_sys::signal;
use tutti_testkit::{Load, LoadOptions, PATIENCE, processes, wait_until};

const CONNECTIONS: usize = 12;

/// The limit of a request's time.
const TIMEOUT: &str = "/config/applications/app/limits/timeout";

fn load(site: &NodeSite, target: &str) -> Load {
    Load::start(&LoadOptions {
        expect: |body| body.starts_with(b"hello from "),
        ..LoadOptions::get(site.server.address(), target, CONNECTIONS)
    })
}

/// Kills processes that `victims` names, one after the other, and checks what that costs.
fn killed(victims: fn(&NodeSite) -> Vec<i32>) {
    let site = NodeSite::start(&json!({"processes": 2}));
    let load = load(&site, "/");
    let kills = 4;
    for _ in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE), "the load goes on");
        let mut victim = 0;
        wait_until("a process to kill", || {
            victim = victims(&site).pop().unwrap_or_default();
            victim > 0
        });
        let _ = signal::send(victim, libc::SIGKILL);
        wait_until("it is gone", || !processes::is_running(victim));
    }
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    println!("{kills} processes of Node.js killed: {outcome}");
    // Begun ones are answered 502, or broken off where the answer had begun; nothing else is touched.
    assert!(
        outcome.failures() <= (kills * CONNECTIONS) as u64,
        "{outcome}"
    );
    let broken = outcome.hung + outcome.refused + outcome.wrong_bodies;
    assert_eq!(broken, 0, "{outcome}");
    let others = outcome.statuses.keys().find(|status| **status != 502);
    assert_eq!(others, None, "{outcome}");
}

#[test]
fn a_killed_worker_costs_what_it_had_begun() {
    killed(|site| site.server.workers("app"));
}

#[test]
fn a_killed_node_costs_what_it_had_begun() {
    killed(NodeSite::programs);
}

#[test]
fn a_restart_under_load_loses_nothing() {
    let site = NodeSite::start(&json!({"processes": 2}));
    let load = load(&site, "/");
    for _ in 0..3 {
        assert!(load.wait_for_answers(50, PATIENCE), "the load goes on");
        let reply = site
            .server
            .call("GET", "/control/applications/app/restart", &Value::Null);
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    println!("3 restarts of Node.js: {outcome}");
    assert_eq!(outcome.failures(), 0, "{outcome}");
}

#[test]
fn workers_that_leave_after_some_requests_lose_nothing() {
    let site = NodeSite::start(&json!({"processes": 2, "limits": {"requests": 100}}));
    let load = load(&site, "/");
    assert!(load.wait_for_answers(600, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome}");
    site.wait_for_log("left after");
}

#[test]
fn a_crash_now_and_then_costs_what_that_process_had_begun() {
    let site = NodeSite::start(&json!({"processes": 3}));
    let load = load(&site, "/sometimes");
    assert!(load.wait_for_answers(400, PATIENCE));
    let outcome = load.stop();
    println!("`process.exit` in requests of Node.js: {outcome}");
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(bad_gateways > 0, "{outcome}");
    assert_eq!(
        outcome.failures(),
        bad_gateways + outcome.broken,
        "{outcome}"
    );
}

#[test]
fn a_loop_that_does_not_end_says_where_it_stands_and_is_replaced() {
    // An application's own handler of SIGINT does not keep the stack from being printed.
    for script in ["app.js", "handler.js"] {
        let site = NodeSite::bare();
        let text = "process.on('SIGINT', () => process.exit());\nrequire('./app.js');\n";
        std::fs::write(site.root().join("handler.js"), text).unwrap();
        site.configure(&json!({"script": script, "processes": 1, "limits": {"timeout": 1}}));
        assert_eq!(site.get("/loop").status, 504, "{script}");
        site.wait_for_log("does not come back to its event loop");
        site.wait_for_log("app.js:");
        site.wait_for_log("/loop");
        site.server.put(TIMEOUT, &json!(60));
        wait_until("another process", || site.get("/").status == 200);
    }
}

#[test]
fn a_request_that_waits_for_ever_costs_itself_only() {
    let site = NodeSite::start(&json!({"processes": 1, "limits": {"timeout": 1}}));
    let before = site.get("/told").json()["pid"].clone();
    assert_eq!(site.get("/never").status, 504);
    site.wait_for_log("waits: its event loop turns");
    site.server.put(TIMEOUT, &json!(60));
    assert_eq!(site.get("/told").json()["pid"], before);
}

/// The memory that counts is Node.js's, which the worker that relays to it has not.
#[test]
fn a_process_that_grows_is_replaced_or_killed() {
    let limits = json!({"memory": "120M", "memory_max": "1G"});
    let site = NodeSite::start(&json!({"processes": 1, "limits": limits}));
    let before = site.get("/told").json()["pid"].clone();
    assert_eq!(site.get("/grow").status, 200);
    site.wait_for_log("more than `limits.memory`, and is replaced");
    wait_until("another process", || {
        site.get("/told").json()["pid"] != before
    });
    let limits = json!({"memory_max": "120M"});
    site.configure(&json!({"processes": 1, "limits": limits}));
    // Answered, or 502 where it was killed before that.
    drop(site.get("/grow"));
    site.wait_for_log("more than `limits.memory_max`, and is killed");
    wait_until("another process", || site.get("/").status == 200);
}

/// Issue 28: that of a program that `env` starts did not count.
#[test]
fn a_program_that_env_starts_is_replaced_when_it_grows() {
    let site = NodeSite::bare();
    let mut whole = site.configuration(&json!({}));
    whole["applications"]["app"] = json!({
        "type": "external", "executable": "/usr/bin/env", "arguments": ["node", "app.js"],
        "working_directory": site.root(), "processes": 1, "environment": {"WORK": site.work()},
        "limits": {"memory": "120M"},
    });
    site.server.put("/config", &whole);
    let before = site.get("/told").json()["pid"].clone();
    assert_eq!(site.get("/grow").status, 200);
    site.wait_for_log("more than `limits.memory`, and is replaced");
    wait_until("another process", || {
        site.get("/told").json()["pid"] != before
    });
}

#[test]
fn answers_without_an_end_keep_nobody_else_out() {
    let site = NodeSite::start(&json!({"processes": 1}));
    let before = site.get("/told").json()["pid"].clone();
    let mut endless = site.open("/endless");
    read_until(&mut endless, "xxxx");
    let load = load(&site, "/");
    assert!(load.wait_for_answers(100, PATIENCE));
    drop(endless);
    site.wait_for_note("gone", &format!("{before} gone"));
    let mut others = [site.open("/endless"), site.open("/endless")];
    for stream in &mut others {
        read_until(stream, "xxxx");
    }
    drop(others);
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    println!("answers of Node.js without an end: {outcome}");
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    assert_eq!(site.get("/told").json()["pid"], before);
}

#[test]
fn stopping_the_server_ends_everything() {
    let mut site = NodeSite::start(&json!({"processes": 2}));
    assert_eq!(site.get("/").status, 200);
    let programs = site.programs();
    assert_eq!(programs.len(), 2);
    site.server.signal(libc::SIGQUIT);
    let status = site.server.wait_for_end();
    assert!(status.success(), "{status}");
    wait_until("the programs are gone", || {
        !programs.iter().any(|pid| processes::is_running(*pid))
    });
}
