//! Resident PHP while things go wrong: what is lost is the request that broke, and the script is there again.

use serde_json::json;
use tutti_faults::{print_outcome, scaled};
use tutti_testkit::{Load, LoadOptions, PATIENCE, Server, ServerOptions, processes, wait_until};

/// Boots once; counts its requests, and does what it is asked to each time.
const SCRIPT: &str = r#"<?php
$count = 0;
$kept = [];
while (tutti_handle_request(function () use (&$count, &$kept) {
    $count++;
    switch ($_GET['break'] ?? '') {
        case 'fatal': if ($count % 100 === 0) { eval('class Twice {} class Twice {}'); } break;
        case 'exit': if ($count % 100 === 0) { echo 'ok:', $_GET['n'], ':'; exit; } break;
        case 'throw': if ($count % 100 === 0) { throw new RuntimeException('each hundredth'); } break;
        case 'leak': $kept[] = str_repeat('x', 100000); break;
        case 'hang': while (true) { usleep(1000); }
    }
    if (isset($_GET['ms'])) usleep(1000 * (int) $_GET['ms']);
    echo 'ok:', $_GET['n'], ':';
}));
"#;

fn start(workers: usize, options: &serde_json::Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.write("site/worker.php", SCRIPT);
    let mut application = json!({
        "type": "php", "mode": "resident", "processes": workers, "script": "worker.php",
        "root": server.folder().join("site")
    });
    tutti_testkit::set_members(&mut application, options);
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/site"}},
        "applications": {"site": application}
    });
    server.put("/config", &configuration);
    server
}

fn load(server: &Server, query: &str) -> Load {
    let mut options = LoadOptions::get(server.address(), &format!("/?n=7&{query}"), 16);
    options.expect = |body| body == b"ok:7:";
    Load::start(&options)
}

#[test]
fn a_killed_resident_worker_costs_its_own_request_and_nothing_else() {
    let server = start(4, &json!({}));
    let load = load(&server, "ms=5");
    let kills = scaled(10, 200);
    for _ in 0..kills {
        assert!(load.wait_for_answers(20, PATIENCE), "the load goes on");
        let victim = server.workers("site").pop().expect("a worker");
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        wait_until("the worker is gone", || !processes::is_running(victim));
    }
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    print_outcome(&format!("{kills} resident workers killed"), &outcome);
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(bad_gateways <= kills as u64, "{outcome}");
    assert_eq!(outcome.failures(), bad_gateways, "{outcome}");
}

#[test]
fn what_ends_each_hundredth_request_ends_no_other() {
    let server = start(2, &json!({}));
    let answers = scaled(1000, 20_000);
    for (kind, status) in [("exit", None), ("throw", Some(500)), ("fatal", Some(500))] {
        let load = load(&server, &format!("break={kind}"));
        assert!(load.wait_for_answers(answers as u64, PATIENCE), "{kind}");
        let outcome = load.stop();
        print_outcome(&format!("{kind} at each hundredth request"), &outcome);
        let broken = status.map_or(0, |status| {
            outcome.statuses.get(&status).copied().unwrap_or_default()
        });
        assert_eq!(outcome.failures(), broken, "{kind}: {outcome}");
        assert_eq!(broken > 0, status.is_some(), "{kind}: {outcome}");
        server.wait_for_workers("site", 2);
    }
    server.wait_for_log("its process is replaced");
}

#[test]
fn a_leak_is_recycled_by_the_limit_and_costs_nothing() {
    let server = start(2, &json!({"limits": {"requests": 50}}));
    let first = server.workers("site");
    let load = load(&server, "break=leak");
    assert!(load.wait_for_answers(scaled(1000, 20_000) as u64, PATIENCE));
    let outcome = load.stop();
    print_outcome("a leak of 100 KB a request, 50 requests a worker", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    wait_until("the first ones have left", || {
        let workers = server.workers("site");
        workers.iter().all(|worker| !first.contains(worker))
    });
}

#[test]
fn a_request_that_hangs_is_answered_and_its_worker_replaced() {
    let server = start(2, &json!({"limits": {"timeout": 1}}));
    let hanging = tutti_testkit::client::get(server.address(), "/?n=7&break=hang").unwrap();
    assert_eq!(hanging.status, 504);
    // The requests behind it have the time that a busy machine may need.
    let limit = "/config/applications/site/limits/timeout";
    server.put(limit, &json!(60));
    let load = load(&server, "");
    assert!(load.wait_for_answers(500, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome}");
}
