//! The promises that hold whatever an application is written in: changes that fail lose nothing, and the reason is reported; a changed file is
//! noticed; `/status` tells what there is; an upgrade of the server loses nothing; no process outlives it.

use std::time::Duration;

use serde_json::json;
use tutti_faults::language::{Language, LanguageSite, is_release, release_body, temporary};
use tutti_faults::{print_outcome, scaled};
use tutti_testkit::{Gate, Load, LoadOptions, PATIENCE, wait_until};

/// Processes that start, virtual machines above all, have to come along on a small machine.
const PAUSE: Duration = Duration::from_millis(5);

fn load_of(site: &LanguageSite, keep_alive: bool) -> Load {
    let mut options = LoadOptions::get(site.server.address(), "/", 4);
    options.expect = is_release;
    options.pause = PAUSE;
    options.keep_alive = keep_alive;
    if !keep_alive {
        options.request =
            b"GET / HTTP/1.1\r\nHost: load.test\r\nConnection: close\r\n\r\n".to_vec();
    }
    Load::start(&options)
}

/// Failing restarts and failing changes while requests run; then ones that succeed.
fn failing_changes_lose_nothing(language: Language) {
    let site = LanguageSite::start(language, &json!({}));
    let count = site.language.processes;
    let load = load_of(&site, true);
    site.server.wait_for_workers("site", count);
    let before = site.workers();
    let mut generation = 0;
    let mut put = || {
        generation += 1;
        let changed = site.language.application(&site.server, generation);
        let path = "/config/applications/site";
        site.server.call("PUT", path, &changed)
    };
    for _ in 0..scaled(1, 10) {
        for (bytes, reason) in &site.language.fails {
            site.write(bytes);
            for reply in [site.restart(), put()] {
                let answer = reply.text();
                assert_eq!(reply.status, 500, "{reason}: {answer}");
                assert!(
                    answer.contains(reason) && answer.contains("/applications/site"),
                    "{reason}: {answer}"
                );
                assert!(load.wait_for_answers(10, PATIENCE));
            }
            // One that did not start may still be leaving.
            wait_until(&format!("the workers of before alone: {reason}"), || {
                site.workers() == before
            });
        }
    }
    site.write(&site.language.release(2));
    for _ in 0..scaled(2, 20) {
        let old = site.workers();
        let reply = put();
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(load.wait_for_answers(10, PATIENCE));
        wait_until("the old ones leave", || {
            let now = site.workers();
            now.len() == count && now.iter().all(|pid| !old.contains(pid))
        });
    }
    assert!(site.server.get("/").text().starts_with(&release_body(2)));
    let outcome = load.stop();
    let changes = 2 * site.language.fails.len() * scaled(1, 10);
    let fault = format!("{changes} changes of {} that fail", site.language.name);
    print_outcome(&fault, &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

/// The next release serves soon after it is there, and one that does not start leaves the former.
fn a_changed_file_is_noticed(language: Language) {
    let site = LanguageSite::start(language, &json!({"watch": true}));
    let load = load_of(&site, true);
    let wait_for_release = |number| {
        wait_until(&release_body(number), || {
            site.server
                .get("/")
                .text()
                .starts_with(&release_body(number))
        });
    };
    wait_for_release(1);
    let old = site.workers();
    site.write(&site.language.release(2));
    wait_for_release(2);
    wait_until("other processes", || {
        let now = site.workers();
        now.len() == site.language.processes && now.iter().all(|pid| !old.contains(pid))
    });
    site.server.wait_for_log("has changed");
    if let Some((bytes, reason)) = site.language.fails.first() {
        site.write(bytes);
        site.server.wait_for_log(reason);
        assert!(load.wait_for_answers(10, PATIENCE));
        assert!(site.server.get("/").text().starts_with(&release_body(2)));
    }
    site.write(&site.language.release(3));
    wait_for_release(3);
    let outcome = load.stop();
    print_outcome(
        &format!("changed files of {}", site.language.name),
        &outcome,
    );
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

/// A change while a start is under way that fails: the file is read again, since the change may be the cure.
#[test]
fn a_file_that_changes_during_a_failing_start_is_noticed() {
    let site = LanguageSite::start(Language::python(), &json!({"watch": true}));
    let gate = Gate::new();
    let begun = temporary(&site.server).join("begun");
    let slow = format!(
        "import os, time\nopen('{}', 'w').close()\nwhile not os.path.exists('{}'):\n    time.sleep(0.01)\nraise RuntimeError('no database')\n",
        begun.display(),
        gate.file().display()
    );
    let notices = || site.server.log().matches("has changed").count();
    site.write(slow.as_bytes());
    wait_until("the start is under way", || begun.exists());
    site.write(&site.language.release(2));
    wait_until("the next change is noticed", || notices() == 2);
    gate.open();
    site.server.wait_for_log("no database");
    wait_until("the next release", || {
        site.server.get("/").text().starts_with(&release_body(2))
    });
}

fn status_tells_processes_requests_and_failures(language: Language) {
    let site = LanguageSite::start(language, &json!({}));
    for _ in 0..5 {
        assert_eq!(site.server.get("/").status, 200);
    }
    let status = || site.server.status("/applications/site");
    // An answer is there a moment before its request has ended.
    wait_until("no request is under way", || {
        status()["requests"]["active"] == 0
    });
    let now = status();
    assert_eq!(
        now["processes"]["running"], site.language.processes,
        "{now}"
    );
    assert_eq!(now["requests"]["total"], 5, "{now}");
    assert_eq!(now["failures"], json!({"total": 0, "last": null}), "{now}");
    let mut failed = 0;
    for (bytes, reason) in site.language.fails.iter().take(scaled(1, 10)) {
        site.write(bytes);
        assert_eq!(site.restart().status, 500, "{reason}");
        let now = status();
        let failures = &now["failures"];
        let total = failures["total"].as_u64().unwrap();
        assert!(total > failed, "{reason}: {now}");
        failed = total;
        assert!(failures["last"].to_string().contains(reason), "{now}");
        let pointer = failures["last"]["pointer"].as_str().unwrap();
        assert!(pointer.starts_with("/applications/site"), "{now}");
        assert_eq!(
            now["processes"]["running"], site.language.processes,
            "{now}"
        );
    }
    site.write(&site.language.release(2));
    let reply = site.restart();
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(site.server.get("/").text().starts_with(&release_body(2)));
    let now = status();
    assert_eq!(now["requests"]["total"], 6, "{now}");
}

/// Upgrades of the server while connections are kept, and while each request has its own; then one that is given back, since the application
/// does not start any more.
fn upgrades_lose_nothing(language: Language) {
    let site = LanguageSite::start(language, &json!({}));
    let kept = load_of(&site, true);
    let anew = load_of(&site, false);
    let upgrades = scaled(1, 20);
    for number in 0..upgrades {
        assert!(kept.wait_for_answers(20, PATIENCE) && anew.wait_for_answers(20, PATIENCE));
        let (router, old) = (site.server.router(), site.workers());
        site.write(&site.language.release(1 + number % 9));
        site.server.upgrade();
        wait_until("the former router and its workers have ended", || {
            let now = site.workers();
            !site.server.pids("tutti: router").contains(&router)
                && now.len() == site.language.processes
                && now.iter().all(|pid| !old.contains(pid))
        });
        let served = site.server.get("/").text();
        assert!(
            served.starts_with(&release_body(1 + number % 9)),
            "{served}"
        );
    }
    if let Some((bytes, reason)) = site.language.fails.first() {
        let router = site.server.router();
        site.write(bytes);
        let reply = site.server.call("POST", "/control/upgrade", &json!(null));
        let answer = reply.text();
        assert_eq!(reply.status, 500, "{answer}");
        assert!(answer.contains(reason), "{answer}");
        wait_until("the router of before alone", || {
            site.server.pids("tutti: router") == [router]
        });
    }
    assert!(kept.wait_for_answers(20, PATIENCE) && anew.wait_for_answers(20, PATIENCE));
    for load in [kept, anew] {
        let outcome = load.stop();
        let fault = format!("{upgrades} upgrades with {}", site.language.name);
        print_outcome(&fault, &outcome);
        assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    }
}

/// Main has no time to end anything: the system does.
fn nothing_outlives_a_killed_main(language: Language) {
    let site = LanguageSite::start(language, &json!({}));
    let load = load_of(&site, true);
    assert!(load.wait_for_answers(10, PATIENCE));
    let before = site.server.processes();
    assert!(before.len() > site.workers().len(), "{before:?}");
    site.server.kill();
}

macro_rules! in_each_language {
    ($($language:ident),+ $(,)?) => {$(
        mod $language {
            use super::Language;

            #[test]
            fn failing_changes_lose_nothing() {
                super::failing_changes_lose_nothing(Language::$language());
            }

            #[test]
            fn a_changed_file_is_noticed() {
                super::a_changed_file_is_noticed(Language::$language());
            }

            #[test]
            fn status_tells_processes_requests_and_failures() {
                super::status_tells_processes_requests_and_failures(Language::$language());
            }

            #[test]
            fn nothing_outlives_a_killed_main() {
                super::nothing_outlives_a_killed_main(Language::$language());
            }

            #[test]
            fn upgrades_lose_nothing() {
                super::upgrades_lose_nothing(Language::$language());
            }
        }
    )+};
}

in_each_language!(python, perl, ruby, node, external, java, component, module);
