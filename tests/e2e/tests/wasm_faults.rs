//! WebAssembly components, and modules of the older type, that fail, write without an end, or whose processes die or are replaced under load,
//! and how many requests each costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use serde_json::{Value, json};
use tutti_e2e::read_until;
use tutti_e2e::wasm::{self, WasmSite};
use tutti_sys::signal;
use tutti_testkit::{Load, LoadOptions, PATIENCE, processes, wait_until};

const CONNECTIONS: usize = 6;

/// Both types, and how many requests one process may have begun: all of them, or one for each instance.
fn each(processes: usize, mut test: impl FnMut(&str, &WasmSite, usize)) {
    let members = json!({"processes": processes});
    let site = WasmSite::start(&wasm::rust(), &members);
    test("a component", &site, CONNECTIONS);
    test("a module", &WasmSite::start_module(&members), 1);
}

fn load(site: &WasmSite, target: &str) -> Load {
    site.load(CONNECTIONS, target, |body| {
        body.starts_with(b"Hello from a ")
    })
}

#[test]
fn a_killed_process_costs_what_it_had_begun() {
    each(2, |name, site, most| {
        let load = load(site, "/");
        let kills = 4;
        for _ in 0..kills {
            assert!(load.wait_for_answers(50, PATIENCE), "{name}");
            let mut victim = 0;
            wait_until("a process to kill", || {
                victim = site.workers().pop().unwrap_or_default();
                victim > 0
            });
            let _ = signal::send(victim, libc::SIGKILL);
            wait_until("it is gone", || !processes::is_running(victim));
        }
        assert!(load.wait_for_answers(100, PATIENCE), "{name}");
        let outcome = load.stop();
        println!("{kills} processes of {name} killed: {outcome}");
        assert!(
            outcome.failures() <= (kills * most) as u64,
            "{name}: {outcome}"
        );
        let others = outcome.hung + outcome.refused + outcome.wrong_bodies;
        assert_eq!(others, 0, "{name}: {outcome}");
        let others = outcome.statuses.keys().find(|status| **status != 502);
        assert_eq!(others, None, "{name}: {outcome}");
    });
}

#[test]
fn a_restart_under_load_loses_nothing() {
    each(2, |name, site, _| {
        let load = load(site, "/");
        for _ in 0..3 {
            assert!(load.wait_for_answers(50, PATIENCE), "{name}");
            let path = "/control/applications/wasm/restart";
            let reply = site.server.call("GET", path, &Value::Null);
            assert_eq!(reply.status, 200, "{name}: {}", reply.text());
        }
        assert!(load.wait_for_answers(50, PATIENCE), "{name}");
        let outcome = load.stop();
        println!("3 restarts of {name}: {outcome}");
        let failed = (outcome.failures(), outcome.refused);
        assert_eq!(failed, (0, 0), "{name}: {outcome}");
    });
}

#[test]
fn processes_that_leave_after_some_requests_lose_nothing() {
    each(2, |name, site, _| {
        let limits = "/config/applications/wasm/limits";
        site.server.put(limits, &json!({"requests": 50}));
        let load = load(site, "/");
        assert!(load.wait_for_answers(600, PATIENCE), "{name}");
        let outcome = load.stop();
        println!("processes of {name} that leave: {outcome}");
        assert_eq!(outcome.failures(), 0, "{name}: {outcome}");
        site.wait_for_log("left after");
    });
}

#[test]
fn a_trap_costs_its_own_request() {
    each(1, |name, site, _| {
        let workers = site.workers();
        let good = load(site, "/");
        // Each takes the time of a backtrace.
        let mut options = LoadOptions::get(site.server.address(), "/trap", 2);
        options.pause = Duration::from_millis(20);
        let bad = Load::start(&options);
        assert!(good.wait_for_answers(100, PATIENCE), "{name}");
        let (good, bad) = (good.stop(), bad.stop());
        println!("traps of {name} beside other requests: {good}; {bad}");
        assert_eq!((good.failures(), good.refused), (0, 0), "{name}: {good}");
        let failed = bad.statuses.get(&500).copied().unwrap_or_default();
        assert!(failed > 0 && bad.failures() == failed, "{name}: {bad}");
        assert_eq!(site.workers(), workers, "{name}: no process has ended");
    });
}

#[test]
fn answers_without_an_end_keep_nobody_else_out() {
    each(2, |name, site, _| {
        let workers = site.workers();
        let mut endless = site.open("/endless");
        read_until(&mut endless, "xxxx");
        let load = load(site, "/");
        assert!(load.wait_for_answers(100, PATIENCE), "{name}");
        let before = memory(&workers);
        assert!(load.wait_for_answers(200, PATIENCE), "{name}");
        // Nobody reads it, so it waits.
        let grown = memory(&workers).saturating_sub(before);
        assert!(grown < 8 << 20, "{name}: {grown} bytes more");
        drop(endless);
        for _ in 0..3 {
            let mut stream = site.open("/endless");
            read_until(&mut stream, "xxxx");
        }
        assert!(load.wait_for_answers(50, PATIENCE), "{name}");
        let outcome = load.stop();
        println!("answers of {name} without an end: {outcome}");
        let failed = (outcome.failures(), outcome.refused);
        assert_eq!(failed, (0, 0), "{name}: {outcome}");
        assert_eq!(site.workers(), workers, "{name}: no process has ended");
    });
}

fn memory(workers: &[i32]) -> u64 {
    let each = workers.iter().map(|worker| tutti_sys::proc::rss(*worker));
    each.map(Result::unwrap_or_default).sum()
}

#[test]
fn stopping_the_server_ends_everything() {
    let members = json!({"processes": 2});
    for mut site in [
        WasmSite::start(&wasm::rust(), &members),
        WasmSite::start_module(&members),
    ] {
        assert_eq!(site.get("/").status, 200);
        site.server.stop(libc::SIGQUIT);
    }
}
