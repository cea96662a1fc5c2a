//! Applications that misbehave: slow or failing starts, crashes, leaks, hangs, garbage in shared memory.
//!
//! Each request that fails must be one that its own process took down with it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tutti_faults::{Site, print_outcome, scaled};
use tutti_testkit::{Load, LoadOptions, PATIENCE, ServerOptions, client, processes, wait_until};

/// The page: files beside it say what it does, so that it can be changed while requests run.
const PAGE: &str = r#"<?php
$here = __DIR__ . '/../faults/';
if (isset($_GET['hang'])) { while (true) {} }
if (isset($_GET['mb'])) {
    $held = str_repeat('x', (int)$_GET['mb'] << 20);
    usleep(1000 * (int)$_GET['ms']);
    exit('ok:');
}
if (isset($_GET['garbage'])) {
    foreach (file('/proc/self/maps') as $line) {
        if (str_contains($line, 'memfd:tutti-site')) {
            [$from, $to] = array_map('hexdec', explode('-', strtok($line, ' ')));
            $memory = fopen('/proc/self/mem', 'r+');
            fseek($memory, $from + 4096);
            fwrite($memory, str_repeat("\xff", min($to - $from - 4096, 4 << 20)));
        }
    }
    exit('ok:');
}
$crash = @file_get_contents($here . 'crash');
if ($crash && mt_rand(1, (int)$crash) === 1) {
    file_put_contents($here . 'crashes', 'x', FILE_APPEND | LOCK_EX);
    exec('kill -ABRT ' . getmypid());
    sleep(60);
}
if (isset($_GET['ms'])) usleep(1000 * (int)$_GET['ms']);
echo 'ok:', $_GET['n'] ?? '', ':', strlen(file_get_contents('php://input'));
"#;

struct Faulty {
    site: Site,
    faults: PathBuf,
}

fn faulty(processes: &Value, more: &Value) -> Faulty {
    let site = Site::start(processes, &ServerOptions::default());
    site.server.write("site/index.php", PAGE);
    site.server.write("faults/none", "");
    let faults = site.server.folder().join("faults");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&faults, open).unwrap();
    let faulty = Faulty { site, faults };
    faulty.apply(processes, more);
    faulty
}

impl Faulty {
    fn configuration(&self, processes: &Value, more: &Value) -> Value {
        let mut configuration = self.site.configuration(processes);
        tutti_testkit::set_members(&mut configuration["applications"]["site"], more);
        configuration
    }

    fn apply(&self, processes: &Value, more: &Value) {
        self.site
            .server
            .put("/config", &self.configuration(processes, more));
    }

    fn status(&self) -> Value {
        let path = "/status/applications/site";
        self.site.server.call("GET", path, &Value::Null).json()
    }

    fn load(&self, target: &str, connections: usize) -> Load {
        let mut options = LoadOptions::get(self.site.server.address(), target, connections);
        options.expect = |body| body.starts_with(b"ok:");
        Load::start(&options)
    }
}

#[test]
fn a_crash_at_each_hundredth_request_costs_those_requests() {
    let faulty = faulty(&json!(4), &json!({}));
    fs::write(faulty.faults.join("crash"), "100").unwrap();
    let load = faulty.site.load(16, 1);
    assert!(load.wait_for_answers(scaled(2000, 20_000) as u64, PATIENCE));
    fs::remove_file(faulty.faults.join("crash")).unwrap();
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    print_outcome("a crash at each hundredth request", &outcome);
    let crashes = fs::read(faulty.faults.join("crashes")).unwrap().len() as u64;
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(crashes > 0);
    assert_eq!(bad_gateways, crashes, "{outcome}");
    assert_eq!(
        (outcome.failures(), outcome.refused),
        (crashes, 0),
        "{outcome}"
    );
    faulty.site.wait_for_workers(4);
    wait_until("each restart is counted", || {
        faulty.status()["restarts"] == crashes
    });
}

#[test]
fn a_crash_at_every_first_request_is_reported_each_time_and_heals() {
    let faulty = faulty(&json!(2), &json!({}));
    fs::write(faulty.faults.join("crash"), "1").unwrap();
    let load = faulty.site.load(4, 0);
    wait_until("some have crashed", || {
        fs::read(faulty.faults.join("crashes")).is_ok_and(|crashes| crashes.len() > 50)
    });
    fs::remove_file(faulty.faults.join("crash")).unwrap();
    assert!(load.wait_for_answers(200, PATIENCE), "it heals");
    let outcome = load.stop();
    print_outcome("a crash at every first request", &outcome);
    let crashes = fs::read(faulty.faults.join("crashes")).unwrap().len() as u64;
    assert_eq!(
        outcome.statuses.get(&502).copied(),
        Some(crashes),
        "{outcome}"
    );
    assert_eq!(outcome.failures(), crashes, "{outcome}");
    faulty.site.wait_for_workers(2);
}

#[test]
fn an_application_that_crashes_at_start_leaves_the_old_one_in_service() {
    let faulty = faulty(&json!(3), &json!({}));
    let before = faulty.site.server.wait_for_workers("site", 3);
    let load = faulty.site.load(8, 1);
    let script = faulty.site.server.write(
        "preload.php",
        "<?php exec('kill -ABRT ' . getmypid()); sleep(60);",
    );
    let options = json!({"options": {"admin": {"opcache.preload": script, "opcache.enable": "1"}}});
    let changed = faulty.configuration(&json!(3), &options);
    for _ in 0..scaled(5, 50) {
        let reply = faulty.site.server.call("PUT", "/config", &changed);
        assert_eq!(reply.status, 500, "{}", reply.text());
        assert!(
            reply.text().contains("/applications/site") && reply.text().contains("signal 6"),
            "{}",
            reply.text()
        );
        assert!(load.wait_for_answers(10, PATIENCE));
    }
    wait_until("the workers of before alone", || {
        faulty.site.server.workers("site") == before
    });
    let outcome = load.stop();
    print_outcome("an application that crashes at start", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn many_slow_starts_at_once_are_no_fork_bomb() {
    let faulty = faulty(&json!(2), &json!({}));
    let script = faulty
        .site
        .server
        .write("preload.php", "<?php usleep(300000);");
    let options = json!({"options": {"admin": {"opcache.preload": script, "opcache.enable": "1"}}});
    faulty.apply(&json!(2), &options);
    let load = faulty.site.load(8, 1);
    let most = std::thread::scope(|scope| {
        let server = &faulty.site.server;
        let restarts: Vec<_> = (0..scaled(10, 40))
            .map(|_| {
                scope.spawn(|| {
                    let path = "/control/applications/site/restart";
                    server.call("GET", path, &Value::Null).status
                })
            })
            .collect();
        let mut most = 0;
        while restarts.iter().any(|restart| !restart.is_finished()) {
            most = most.max(server.workers("site").len() + server.prototypes("site").len());
            std::thread::yield_now();
        }
        for restart in restarts {
            assert_eq!(restart.join().unwrap(), 200);
        }
        most
    });
    // Two generations of two workers and a prototype, and some that are just leaving; all of them at once would be thirty.
    assert!(most <= 15, "{most} processes at once");
    let outcome = load.stop();
    print_outcome(
        "restarts at once of an application that starts slowly",
        &outcome,
    );
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn processes_that_grow_are_replaced_and_nothing_is_lost() {
    let faulty = faulty(&json!(3), &json!({"limits": {"memory": "64M"}}));
    let before = faulty.site.server.workers("site");
    let load = faulty.load("/page?mb=80&ms=250", 3);
    wait_until("all have been replaced", || {
        before.iter().all(|pid| !processes::is_running(*pid))
    });
    let outcome = load.stop();
    print_outcome("processes that grow", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_process_that_grows_beyond_all_bounds_costs_its_own_request() {
    let limits = json!({"limits": {"memory_max": "96M"},
        "options": {"admin": {"memory_limit": "-1"}}});
    let faulty = faulty(&json!(3), &limits);
    let load = faulty.site.load(8, 2);
    for _ in 0..scaled(3, 30) {
        let reply = faulty.site.server.get("/page?mb=300&ms=60000");
        assert_eq!(reply.status, 502, "{}", reply.text());
    }
    faulty.site.wait_for_workers(3);
    let outcome = load.stop();
    print_outcome("processes killed for their memory", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    faulty.site.server.wait_for_log("`limits.memory_max`");
}

#[test]
fn a_hang_is_answered_504_and_its_place_is_in_the_log() {
    // For those that hang; the others must stay below it on a busy machine too.
    let faulty = faulty(&json!(3), &json!({"limits": {"timeout": 4}}));
    let load = faulty.site.load(4, 1);
    for _ in 0..scaled(2, 20) {
        let reply = faulty.site.server.get("/page?hang");
        assert_eq!(reply.status, 504, "{}", reply.text());
    }
    wait_until("they are gone", || {
        faulty.site.server.log().matches("and is killed").count() >= scaled(2, 20)
    });
    faulty.site.wait_for_workers(3);
    let outcome = load.stop();
    print_outcome("hangs", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    let log = faulty.site.server.log();
    assert!(log.contains("/site/index.php:3 in the script"), "{log}");
}

#[test]
fn garbage_in_shared_memory_costs_its_own_application_only() {
    let faulty = faulty(&json!(3), &json!({}));
    let mut configuration = faulty.configuration(&json!(3), &json!({}));
    let other = configuration["applications"]["site"].clone();
    configuration["applications"]["other"] = other;
    if tutti_sys::credentials::is_root() {
        // `/proc/self/mem` of a hidden process is root's.
        configuration["applications"]["site"]["user"] = json!("root");
    }
    configuration["routes"] = json!([
        {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}},
        {"action": {"pass": "applications/site"}}
    ]);
    faulty.site.server.put("/config", &configuration);
    let others = faulty.load("/other?n=1", 4);
    for _ in 0..scaled(3, 30) {
        // Whatever becomes of this request itself.
        let request = b"GET /page?garbage HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let _ = client::request(faulty.site.server.address(), request);
        wait_until("it serves again", || {
            faulty.site.server.get("/page?n=1").text() == "ok:1:0"
        });
        assert!(others.wait_for_answers(20, PATIENCE));
    }
    faulty.site.wait_for_workers(3);
    let outcome = others.stop();
    print_outcome("garbage in another application's memory", &outcome);
    faulty.site.server.wait_for_log("damaged the shared memory");
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_pool_grows_with_its_load_and_shrinks_again() {
    let processes = json!({"max": 24, "spare": 2, "idle_timeout": 1});
    let faulty = faulty(&processes, &json!({}));
    faulty.site.wait_for_workers(2);
    let load = faulty.site.load(20, 50);
    wait_until("there are enough", || {
        faulty.site.server.workers("site").len() >= 20
    });
    assert!(load.wait_for_answers(200, PATIENCE));
    let outcome = load.stop();
    print_outcome("growing from 2 to 20 processes", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    faulty.site.wait_for_workers(2);
}
