//! Java processes that die or are replaced under load, exceptions and answers without an end, and how many requests each costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use serde_json::{Value, json};
use tutti_e2e::java::JavaSite;
use tutti_e2e::read_until;
use tutti_sys::signal;
use tutti_testkit::{Load, Outcome, PATIENCE, processes, wait_until};

const CONNECTIONS: usize = 6;

/// Requests that one process may have begun.
const THREADS: usize = 2;

fn start(processes: usize) -> JavaSite {
    let options = json!({
        "processes": processes, "threads": THREADS, "options": ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
    });
    JavaSite::start("jakarta", &options)
}

fn load(site: &JavaSite, target: &str) -> Load {
    site.load(CONNECTIONS, target, |body| body == b"hello")
}

/// Begun ones are answered 502, or broken off where the answer had begun; nothing else is touched.
fn assert_only_begun_ones_failed(outcome: &Outcome, most: usize) {
    assert!(outcome.failures() <= most as u64, "{outcome}");
    let others = outcome.hung + outcome.refused + outcome.wrong_bodies;
    assert_eq!(others, 0, "{outcome}");
    let others = outcome.statuses.keys().find(|status| **status != 502);
    assert_eq!(others, None, "{outcome}");
}

#[test]
fn a_killed_process_costs_what_it_had_begun() {
    let site = start(2);
    let load = load(&site, "/q/hello");
    let kills = 4;
    for _ in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE), "the load goes on");
        let mut victim = 0;
        wait_until("a process to kill", || {
            victim = site.workers().pop().unwrap_or_default();
            victim > 0
        });
        let _ = signal::send(victim, libc::SIGKILL);
        wait_until("it is gone", || !processes::is_running(victim));
    }
    assert!(load.wait_for_answers(50, PATIENCE));
    let outcome = load.stop();
    println!("{kills} processes of Java killed: {outcome}");
    assert_only_begun_ones_failed(&outcome, kills * THREADS);
}

#[test]
fn an_exit_now_and_then_costs_what_that_process_had_begun() {
    let site = start(2);
    let load = load(&site, "/q/sometimes");
    assert!(load.wait_for_answers(120, PATIENCE));
    let outcome = load.stop();
    println!("`System.exit` and `halt` in requests of Java: {outcome}");
    let failed = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(failed > 0, "{outcome}");
    // One of 25, of a process that begins to count anew, with the others that it had begun.
    let deaths = usize::try_from(outcome.answered / 24 + 2).unwrap();
    assert_only_begun_ones_failed(&outcome, deaths * THREADS);
    site.wait_for_log("exited with code 4");
    assert_eq!(site.text("/q/hello"), "hello");
}

#[test]
fn an_exception_costs_its_own_request() {
    let site = start(1);
    let workers = site.workers();
    let good = load(&site, "/q/hello");
    let bad = load(&site, "/q/raises");
    assert!(good.wait_for_answers(200, PATIENCE));
    let (good, bad) = (good.stop(), bad.stop());
    println!("exceptions of Java beside other requests: {good}; {bad}");
    assert_eq!((good.failures(), good.refused), (0, 0), "{good}");
    let failed = bad.statuses.get(&500).copied().unwrap_or_default();
    assert!(failed > 0 && bad.failures() == failed, "{bad}");
    assert_eq!(site.workers(), workers, "no process has ended");
}

#[test]
fn answers_without_an_end_keep_nobody_else_out() {
    let site = start(1);
    let workers = site.workers();
    let mut endless = site.open("/q/endless");
    read_until(&mut endless, "xxxx");
    let load = load(&site, "/q/hello");
    assert!(load.wait_for_answers(50, PATIENCE));
    // Nobody reads it, so it waits, in little memory.
    drop(endless);
    site.wait_for_note("endless", "gone");
    let mut others = [site.open("/q/endless"), site.open("/q/endless")];
    for stream in &mut others {
        read_until(stream, "xxxx");
    }
    drop(others);
    assert!(load.wait_for_answers(50, PATIENCE));
    let outcome = load.stop();
    println!("answers of Java without an end: {outcome}");
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    assert_eq!(site.workers(), workers, "no process has ended");
}

#[test]
fn a_restart_under_load_loses_nothing() {
    let site = start(2);
    let load = load(&site, "/q/hello");
    for _ in 0..2 {
        assert!(load.wait_for_answers(50, PATIENCE), "the load goes on");
        let path = "/control/applications/java/restart";
        let reply = site.server.call("GET", path, &Value::Null);
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert!(load.wait_for_answers(50, PATIENCE));
    let outcome = load.stop();
    println!("2 restarts of Java: {outcome}");
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn stopping_the_server_ends_everything() {
    let mut site = start(2);
    assert_eq!(site.text("/q/hello"), "hello");
    site.server.stop(libc::SIGQUIT);
}
