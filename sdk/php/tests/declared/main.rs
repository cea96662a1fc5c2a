//! Front controllers that `require` what declares, in one process: right at every request (issue 12), with opcache, without it, and with
//! compiled code. The oracle is the same script in classic mode, where each request is a script of its own.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    dead_code
)]

#[path = "../conformance/host.rs"]
mod host;

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use host::{Host, HostResponse, scripts};
use serde_json::{Value, json};

/// The way in which PHP runs code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    Cached,
    Uncached,
    Unvalidated,
    Compiled,
    Traced,
    Preloaded,
}

impl Engine {
    const ALL: [Self; 6] = [
        Self::Cached,
        Self::Uncached,
        Self::Unvalidated,
        Self::Compiled,
        Self::Traced,
        Self::Preloaded,
    ];

    fn options(self) -> Value {
        let mut admin = json!({"opcache.enable": "1", "opcache.file_update_protection": "0", "display_errors": "0", "date.timezone": "UTC"});
        let more: &[(&str, &str)] = match self {
            Self::Cached | Self::Preloaded => &[],
            Self::Uncached => &[("opcache.enable", "0")],
            Self::Unvalidated => &[("opcache.validate_timestamps", "0")],
            Self::Compiled => &[
                ("opcache.jit", "function"),
                ("opcache.jit_buffer_size", "8M"),
            ],
            Self::Traced => &[
                ("opcache.jit", "tracing"),
                ("opcache.jit_buffer_size", "8M"),
                ("opcache.jit_hot_loop", "2"),
                ("opcache.jit_hot_func", "2"),
            ],
        };
        for (name, value) in more {
            admin[name] = json!(value);
        }
        if self == Self::Preloaded {
            admin["opcache.preload"] = json!(here().join("preload.php"));
            // Tests may run as root.
            admin["opcache.preload_user"] = json!("root");
        }
        json!({ "admin": admin })
    }

    /// The front controller `front` of `folder`, resident by `resident`.
    fn resident(self, folder: &Path, resident: &str) -> Host {
        Host::with(
            &json!({"root": folder, "script": resident, "mode": "resident", "options": self.options()}),
        )
    }

    fn classic(self, folder: &Path, front: &str) -> Host {
        Host::with(&json!({"root": folder, "script": front, "options": self.options()}))
    }
}

fn here() -> std::path::PathBuf {
    scripts().join("declared")
}

fn told(answer: &HostResponse) -> (u64, String) {
    (answer.status, answer.text())
}

/// Asks `targets` in turn, a hundred requests, in a resident process, and compares with the first answers in classic mode.
fn same_as_classic(engine: Engine, folder: &Path, front: &str, resident: &str, targets: &[&str]) {
    let mut classic = engine.classic(folder, front);
    let mut process = engine.resident(folder, resident);
    for round in 0..15 {
        for target in targets {
            let target = format!("{target}&run=r{round}");
            let expected = told(&classic.get(&target));
            assert_eq!(expected.0, 200, "{engine:?} {target}: {}", classic.errors());
            assert_eq!(
                told(&process.get(&target)),
                expected,
                "{engine:?} {target}: {}",
                process.errors()
            );
        }
    }
    let log = process.errors();
    // Preloading reports what it cannot link.
    let told = log.lines().filter(|line| !line.contains("Can't preload"));
    assert_eq!(told.count(), 0, "{engine:?}: {log}");
}

#[test]
fn what_a_front_controller_requires_is_declared_once_and_runs_each_time() {
    let targets = [
        "/?case=kinds",
        "/?case=relative",
        "/?case=once",
        "/?case=work",
        "/?case=nested",
        "/?case=first",
        "/?case=none",
    ];
    for engine in Engine::ALL {
        same_as_classic(engine, &here(), "front.php", "resident.php", &targets);
    }
}

#[test]
fn one_request_that_declares_twice_fails_as_php_says() {
    // A preloaded file may be included as often as one likes, says PHP.
    let engines = Engine::ALL.into_iter();
    for engine in engines.filter(|engine| *engine != Engine::Preloaded) {
        let mut process = engine.resident(&here(), "resident.php");
        for _ in 0..2 {
            assert_eq!(process.get("/?case=relative").status, 200);
        }
        assert_eq!(process.get("/?case=twice").status, 500, "{engine:?}");
        let log = process.errors();
        assert!(log.contains("Included"), "{engine:?}: {log}");
        assert!(!log.contains("hint"), "{engine:?}: {log}");
    }
}

/// A boot for each request would be no cure, so the script stays as it is.
#[test]
fn what_the_boot_has_declared_no_request_declares_elsewhere() {
    for engine in [Engine::Cached, Engine::Uncached, Engine::Compiled] {
        let mut process = engine.resident(&here(), "resident-tenant.php");
        for _ in 0..3 {
            let answer = process.get("/?case=tenant&tenant=a");
            assert_eq!(answer.status, 200, "{engine:?}: {}", process.errors());
            assert!(answer.text().ends_with("tenant a a"), "{}", answer.text());
        }
        assert_eq!(process.get("/?case=tenant&tenant=b").status, 500);
        let log = process.errors();
        for part in [
            "tenant-b.php` line",
            "tenant-a.php` line",
            "has declared in the boot: no request can have both (hint:",
        ] {
            assert!(log.contains(part), "{engine:?}: no `{part}` in {log}");
        }
        assert!(!log.contains("From here on"), "{engine:?}: {log}");
    }
}

/// A file that requests declare from and that changes: the request that comes next is answered with the new code, and none fails.
#[test]
fn a_declaring_file_that_changes_is_booted_anew() {
    for engine in [Engine::Cached, Engine::Uncached] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("changing.php");
        let mut process = engine.resident(&here(), "resident.php");
        for (age, version) in [(50, "one"), (40, "two"), (30, "three")] {
            let code = format!(
                "<?php function version() {{ return '{version}'; }} class Changing {{ public string $is = '{version}'; }}\nreturn version() . (new Changing())->is;"
            );
            let next = folder.path().join("next");
            fs::write(&next, code).expect("written");
            let changed = SystemTime::now() - Duration::from_secs(age);
            fs::File::options()
                .write(true)
                .open(&next)
                .and_then(|next| next.set_modified(changed))
                .expect("its time is set");
            fs::rename(&next, &file).expect("replaced");
            for _ in 0..3 {
                let answer = process.get(&format!("/?case=file&file={}", file.display()));
                assert_eq!(answer.status, 200, "{engine:?}: {}", process.errors());
                assert!(
                    answer.text().ends_with(&format!("{version}{version}")),
                    "{engine:?} {version}: {}",
                    answer.text()
                );
            }
        }
        let log = process.errors();
        assert_eq!(
            log.matches("has changed, and this process has declarations from it")
                .count(),
            2,
            "{engine:?}: {log}"
        );
    }
}

/// Memory stays where it is, however often a file that declares is required.
#[test]
fn declaring_again_and_again_takes_no_memory() {
    for engine in [Engine::Cached, Engine::Uncached] {
        let mut process = engine.resident(&here(), "resident.php");
        let mut used = |rounds: usize| -> u64 {
            for round in 0..rounds {
                process.get(&format!("/?case=kinds&run={:05}", round % 10));
            }
            let text = process.get("/?case=used").text();
            text.rsplit(' ')
                .next()
                .and_then(|used| used.parse().ok())
                .expect("a number")
        };
        let before = used(20);
        let after = used(200);
        assert!(after <= before + 4096, "{engine:?}: {before} {after}");
    }
}

/// Stock front controllers, unmodified (their shapes: see the README beside them): each as in classic mode, 60 requests in one process, interleaved with `exit` and
/// uncaught exceptions.
#[test]
fn stock_front_controllers_answer_each_request_as_the_first() {
    for (framework, folder) in [
        ("yii", "web"),
        ("laravel", "public"),
        ("symfony", "public"),
        ("codeigniter", "public"),
        ("cakephp", "webroot"),
    ] {
        for engine in [Engine::Cached, Engine::Uncached, Engine::Traced] {
            let root = scripts().join("fronts").join(framework);
            let mut classic = engine.classic(&root.join(folder), "index.php");
            let mut process = engine.resident(&root, "resident.php");
            for round in 0..15 {
                for target in ["/index", "/exit", "/index", "/fails"] {
                    let target = format!("{target}?name={round}");
                    let expected = told(&classic.get(&target));
                    let answer = told(&process.get(&target));
                    assert!(expected.1.contains(&round.to_string()) || expected.0 == 500);
                    assert_eq!(
                        answer,
                        expected,
                        "{framework} {engine:?} {target}: {}{}",
                        classic.errors(),
                        process.errors()
                    );
                }
            }
            // The log has each message when its request is over, in both.
            process.get("/index?name=last");
            let flushed = |host: &Host| host.errors().matches("flushed: asked").count();
            let expected = if framework == "yii" { 60 } else { 0 };
            assert_eq!(flushed(&classic), expected, "{}", classic.errors());
            assert!(flushed(&process) >= expected, "{}", process.errors());
        }
    }
}

/// The adapter for Yii 2: a new application for each request, and the connection stays.
#[test]
fn yii_keeps_its_connection_and_nothing_of_a_request() {
    for engine in [Engine::Cached, Engine::Uncached] {
        let root = scripts().join("fronts/yii");
        let mut process = engine.resident(&root, "kept.php");
        for round in 0..12 {
            let seen = process.get(&format!("/index?name={round}"));
            assert_eq!(
                seen.json(),
                json!([round.to_string(), true, [], true, false, "prod"]),
                "{engine:?}: {}",
                process.errors()
            );
            assert_eq!(process.get("/aliases").json(), json!([false]));
            let ended = process.get(&format!("/exit?name={round}"));
            assert_eq!(ended.json(), json!(["ended", round.to_string()]));
            let failed = process.get(&format!("/fails?name={round}"));
            assert_eq!(told(&failed), (500, format!("handled on purpose: {round}")));
            // One connection for all, and never in the transaction of another request.
            assert_eq!(process.get("/connection").json(), json!([1, false]));
        }
        process.get("/index?name=last");
        let log = process.errors();
        for round in 0..12 {
            let line = format!("flushed: asked {round}\n");
            assert_eq!(log.matches(&line).count(), 3, "{engine:?} {round}: {log}");
        }
    }
}
