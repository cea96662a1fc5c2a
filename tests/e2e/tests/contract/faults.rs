//! Processes that end, hang, grow or are replaced, and the requests that they cost.

use serde_json::json;
use tutti_sys::signal;
use tutti_testkit::{Outcome, PATIENCE, processes, wait_until};

use crate::suite::Application;

const CONNECTIONS: usize = 6;

/// The `limits.requests` of the processes that [`retire`] ends.
pub(crate) const RETIRED_AFTER: u64 = 60;

/// Requests that a process had begun are answered 502, or broken off where the answer had begun; nothing else is touched.
fn assert_only_begun_ones_failed(outcome: &Outcome, most: usize) {
    assert!(outcome.failures() <= most as u64, "{outcome}");
    let others = outcome.hung + outcome.refused + outcome.wrong_bodies;
    assert_eq!(others, 0, "{outcome}");
    let others = outcome.statuses.keys().find(|status| **status != 502);
    assert_eq!(others, None, "{outcome}");
}

/// A process that ends in a request costs that request, and there is another.
pub(crate) fn crash(application: &Application) {
    for _ in 0..2 {
        let before = application.processes();
        assert_eq!(application.get("/ends").status, 502);
        application.wait_for_log("while serving `GET /ends`");
        assert_eq!(application.get("/").status, 200);
        wait_until("another process", || {
            let now = application.processes();
            now.len() == 2 && now != before
        });
    }
}

pub(crate) fn kill(application: &Application) {
    let load = application.load(CONNECTIONS);
    let kills = 3;
    for _ in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE), "the load goes on");
        let mut victim = 0;
        wait_until("a process to kill", || {
            victim = application.processes().pop().unwrap_or_default();
            victim > 0
        });
        let _ = signal::send(victim, libc::SIGKILL);
        wait_until("it is gone", || !processes::is_running(victim));
    }
    assert!(load.wait_for_answers(50, PATIENCE));
    let most = application.language.begun.min(CONNECTIONS);
    assert_only_begun_ones_failed(&load.stop(), kills * most);
    assert_eq!(application.get("/").status, 200);
}

pub(crate) fn retire(application: &Application) {
    let load = application.load(CONNECTIONS);
    // The limit of one of the two is reached by then. A script that has to be started for each may take a fifth of a second on a busy machine.
    let both = 2 * RETIRED_AFTER;
    assert!(load.wait_for_answers(both, PATIENCE), "the load goes on");
    application.wait_for_log("ended after");
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

pub(crate) fn grow(application: &Application) {
    let before = application.processes();
    wait_until("it is seen to have grown", || {
        let status = application.get("/grows").status;
        assert_eq!(status, 200);
        application.has_logged("more than `limits.memory`, and is replaced")
    });
    application.wait_for_others(1, &before);
    assert_eq!(application.get("/").status, 200);
    // Beyond the other limit it is not waited for the response: 502, or 200 where that was faster.
    let limits = format!("/config/applications/{}/limits", application.language.name);
    let limit = json!({"memory_max": "180M"});
    application.server.put(&limits, &limit);
    wait_until("it is killed", || {
        let status = application.get("/grows").status;
        assert!([200, 502].contains(&status), "{status}");
        application.has_logged("more than `limits.memory_max`, and is killed")
    });
    assert_eq!(application.get("/").status, 200);
}

/// A request that does not come back is answered in its time, the log says where it is, and others are served.
pub(crate) fn hang(application: &Application) {
    let language = application.language;
    // On a machine that is busy none may have begun it by then, which is a 503.
    wait_until("504", || {
        let status = application.get("/hangs").status;
        assert!([503, 504].contains(&status), "{status}");
        status == 504
    });
    if language.has("place of a hang") {
        application.server.wait_for_log(language.place);
    }
    if !language.has("service after a hang") {
        return;
    }
    // The next process has to load the application first.
    let limit = format!("/config/applications/{}/limits/timeout", language.name);
    application.server.put(&limit, &json!(60));
    assert_eq!(application.get("/").status, 200);
}

/// New code comes with a restart, and no request is lost meanwhile.
pub(crate) fn restart(application: &Application) {
    let load = application.load(CONNECTIONS);
    for _ in 0..2 {
        let before = application.processes();
        assert!(load.wait_for_answers(50, PATIENCE), "the load goes on");
        application.restart();
        application.wait_for_others(2, &before);
    }
    let before = application.processes();
    application.deploy();
    application.restart();
    application.wait_for_others(2, &before);
    assert!(application.get("/").text().starts_with("Howdy from "));
    assert!(load.wait_for_answers(50, PATIENCE));
    let outcome = load.stop();
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

/// The same by itself.
pub(crate) fn watch(application: &Application) {
    let before = application.processes();
    let load = application.load(2);
    assert!(load.wait_for_answers(10, PATIENCE));
    application.deploy();
    application.wait_for_others(2, &before);
    wait_until("the next edition", || {
        application.get("/").text().starts_with("Howdy from ")
    });
    let outcome = load.stop();
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

/// The application is loaded once, by the prototype.
pub(crate) fn preload(application: &Application) {
    let loaded = || {
        let text = application.get("/loaded").text();
        let (by, own) = text.split_once(' ').expect("two numbers");
        (by.to_owned(), own.to_owned())
    };
    let (by, own) = loaded();
    assert_ne!(by, own, "not by the process that serves");
    assert_eq!(application.get("/ends").status, 502);
    wait_until("another process", || loaded().1 != own);
    assert_eq!(loaded().0, by, "not anew for each process");
}
