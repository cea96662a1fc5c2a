//! Processes that are killed while they work.

use std::fs;

use serde_json::json;
use tutti_faults::{Site, scaled, tell};
use tutti_testkit::{PATIENCE, ServerOptions, processes, wait_until};

#[test]
fn a_killed_worker_costs_its_own_request_and_nothing_else() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 5);
    let kills = scaled(20, 200);
    for _ in 0..kills {
        assert!(load.wait_for_answers(20, PATIENCE), "the load goes on");
        let victim = site.server.workers("site").pop().expect("a worker");
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        wait_until("the worker is gone", || !processes::is_running(victim));
    }
    site.wait_for_workers(4);
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    tell(&format!("{kills} workers killed"), &outcome);
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(bad_gateways <= kills as u64, "{outcome}");
    assert_eq!(outcome.failures(), bad_gateways, "{outcome}");
    assert_eq!(outcome.refused, 0, "{outcome}");
}

#[test]
fn a_fault_sent_by_kill_ends_a_worker_at_once() {
    let site = Site::start(&json!(2), &ServerOptions::default());
    // The time after which it would be killed must not be what ends it.
    let limits = "/config/applications/site/limits";
    site.server.put(limits, &json!({"drain_timeout": 3600}));
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        site.wait_for_workers(2);
        let victim = site.server.workers("site")[0];
        tutti_sys::signal::send(victim, signal).unwrap();
        wait_until("the worker is gone", || !processes::is_running(victim));
        let line = format!("process {victim} was killed by signal {signal}");
        site.server.wait_for_log(&line);
        assert_eq!(site.server.get("/page?n=7&ms=0").status, 200);
    }
    site.wait_for_workers(2);
}

#[test]
fn a_killed_prototype_costs_nothing() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 2);
    let kills = scaled(6, 60);
    for kill in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE));
        let victim = site.server.prototypes("site").pop().expect("a prototype");
        let old = site.server.workers("site");
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        // Each other one is killed while it is taking over: when the first of its workers are serving.
        let enough = if kill % 2 == 0 { 4 } else { 1 };
        // Those of the one before may go on: where the next one died with a worker half made, they are all there is for a while.
        wait_until("another prototype and its workers", || {
            let prototypes = site.server.prototypes("site");
            let workers = site.server.workers("site");
            let has_new = workers.iter().any(|worker| !old.contains(worker));
            prototypes.len() == 1 && prototypes[0] != victim && has_new && workers.len() >= enough
        });
    }
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    tell(&format!("{kills} prototypes killed"), &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_killed_router_resets_connections_and_never_closes_the_port() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 2);
    let kills = scaled(3, 30);
    for _ in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE));
        let victim = site.server.router();
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        wait_until(
            "another router",
            || matches!(site.server.pids("tutti: router").as_slice(), [router] if *router != victim),
        );
        assert!(load.wait_for_answers(50, PATIENCE), "it serves again");
        // The workers of the router that died must not pile up.
        site.wait_for_workers(4);
    }
    let outcome = load.stop();
    tell(&format!("{kills} routers killed"), &outcome);
    assert_eq!(outcome.refused, 0, "the port stays open: {outcome}");
    assert_eq!(outcome.hung + outcome.wrong_bodies, 0, "{outcome}");
    assert!(outcome.statuses.is_empty(), "{outcome}");
    // A router's death costs what each client had under way, once.
    assert!(
        outcome.lost + outcome.closed_on_reuse + outcome.broken <= (kills * 16) as u64,
        "{outcome}"
    );
    let state = site
        .server
        .call("GET", "/config/applications/site/processes", &json!(null));
    assert_eq!(state.text().trim(), "4", "the configuration is still there");
}

#[test]
fn a_killed_main_leaves_nothing_behind_and_its_configuration_comes_back() {
    let mut site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(8, 2);
    assert!(load.wait_for_answers(50, PATIENCE));
    let before = site.server.processes();
    assert!(
        before.len() >= 7,
        "main, router, prototype, 4 workers: {before:?}"
    );
    site.server.kill();
    site.server.start_again(&ServerOptions::default());
    assert!(
        load.wait_for_answers(50, PATIENCE),
        "it serves again without being told anything"
    );
    let outcome = load.stop();
    tell("main killed and started again", &outcome);
    assert_eq!(outcome.hung + outcome.wrong_bodies, 0, "{outcome}");
}

#[test]
fn restarts_of_an_application_cost_nothing() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 2);
    let restarts = scaled(20, 200);
    for _ in 0..restarts {
        let reply = site
            .server
            .call("GET", "/control/applications/site/restart", &json!(null));
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(load.wait_for_answers(10, PATIENCE));
    }
    site.wait_for_workers(4);
    let outcome = load.stop();
    tell(&format!("{restarts} restarts"), &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_graceful_stop_answers_what_has_begun() {
    let mut site = Site::start(&json!(4), &ServerOptions::default());
    let log = site.server.folder().join("access.log");
    site.server.put("/config/access_log", &json!(log));
    let load = site.load(16, 20);
    assert!(load.wait_for_answers(50, PATIENCE));
    site.server.signal(libc::SIGQUIT);
    let status = site.server.wait_for_end();
    let outcome = load.stop();
    tell("stopped by SIGQUIT", &outcome);
    assert!(status.success(), "{status}");
    assert_eq!(
        outcome.hung + outcome.wrong_bodies + outcome.broken,
        0,
        "{outcome}"
    );
    assert!(outcome.statuses.is_empty(), "{outcome}");
    // Whatever reaches the server is answered, also what a client was about to send.
    let begun = fs::read_to_string(log).unwrap().lines().count() as u64;
    assert_eq!(outcome.answered, begun, "{outcome}");
    assert_eq!(outcome.lost + outcome.closed_on_reuse, 0, "{outcome}");
}
