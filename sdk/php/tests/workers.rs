//! The real `tutti-php`: prototype and forked workers over shared memory, with the test as main and router in one.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_sys::signal;
use tutti_testkit::wire::WireResponse;
use tutti_testkit::{Prototype, wait_until};
use tutti_wire::control::{ExitStatus, FromPrototype, Start, ToPrototype};
use tutti_wire::{BodyRef, Fate, SlotId, WireRequestHead};

/// A prototype of PHP with its workers.
struct Pool(Prototype);

impl Deref for Pool {
    type Target = Prototype;

    fn deref(&self) -> &Prototype {
        &self.0
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/conformance/php")
        .canonicalize()
        .expect("the scripts are there")
}

fn start(options: Value) -> Start {
    Start {
        name: "site".to_owned(),
        kind: "php".to_owned(),
        config: json!({"type": "php", "root": scripts(), "options": options}),
        threads: Some(1),
        workers: Some(4),
        ..Start::default()
    }
}

impl Pool {
    fn launch(start: &Start) -> Self {
        let host = Path::new(env!("CARGO_BIN_EXE_tutti-php"));
        Self(Prototype::launch(host, start))
    }

    fn ready(start: &Start, workers: u32) -> Self {
        let host = Path::new(env!("CARGO_BIN_EXE_tutti-php"));
        Self(Prototype::ready(host, start, workers))
    }

    /// Returns how the worker that is gone ended, and what became of its requests.
    fn exited(&self) -> (ExitStatus, Vec<(SlotId, Fate)>) {
        let (_, status, fates) = self.0.exited();
        (status, fates)
    }

    fn submit(&self, target: &str, content_type: &str, body: &BodyRef<'_>) -> SlotId {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let content_length = match body {
            BodyRef::Inline(bytes) => Some(bytes.len() as u64),
            BodyRef::Spool { len, .. } => Some(*len),
            _ => None,
        };
        let head = WireRequestHead {
            method: if content_type.is_empty() {
                b"GET"
            } else {
                b"POST"
            },
            target: target.as_bytes(),
            path: path.as_bytes(),
            query: query.as_bytes(),
            version_minor: 1,
            scheme: b"http",
            remote_address: b"192.0.2.7",
            remote_port: 40404,
            local_address: b"127.0.0.1",
            local_port: 8080,
            server_name: b"example.test",
            content_length,
            fields: &[
                (b"Host", b"example.test"),
                (b"Content-Type", content_type.as_bytes()),
            ],
            ..WireRequestHead::default()
        };
        self.submit_head(&head, body)
    }

    fn get(&self, target: &str) -> WireResponse {
        self.answer(self.submit(target, "", &BodyRef::None))
    }
}

#[test]
fn a_request_goes_through() {
    let pool = Pool::ready(&start(json!({})), 1);
    let answer = pool.get("/hello.php");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello\n"));
    assert_eq!(
        answer.field("Content-Type").as_deref(),
        Some("text/html; charset=UTF-8")
    );
    let server = pool.get("/server.php/info?a=b").json()["server"].clone();
    for (name, expected) in [
        ("PATH_INFO", "/info"),
        ("REQUEST_URI", "/server.php/info?a=b"),
        ("REMOTE_ADDR", "192.0.2.7"),
        ("REMOTE_PORT", "40404"),
        ("SERVER_PORT", "8080"),
        ("SERVER_NAME", "example.test"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "example.test"),
    ] {
        assert_eq!(server[name], expected, "{name}");
    }
    assert_eq!(pool.get("/none.php").status(), 404);
    assert_eq!(
        pool.get("/folder").field("Location").as_deref(),
        Some("/folder/")
    );
    assert_eq!(pool.get("/ends.php?how=exception").status(), 500);
    let unsound = pool.get("/headers.php?case=unsound");
    assert_eq!(
        (unsound.status(), unsound.field("X-Good").as_deref()),
        (200, Some("1"))
    );
    assert_eq!(
        pool.get("/headers.php?case=many").field("X-199").as_deref(),
        Some("199")
    );
}

#[test]
fn opcache_is_one_for_all_workers() {
    let pool = Pool::ready(
        &start(json!({"admin": {"opcache.file_update_protection": "0"}})),
        1,
    );
    let first = pool.get("/opcache.php").json();
    pool.get("/hello.php");
    // Another worker answers: the first one is gone.
    pool.segment.ask_worker_to_quit(0);
    assert_eq!(pool.exited(), (ExitStatus::Code(0), vec![]));
    pool.fork(1);
    let second = pool.get("/opcache.php").json();
    assert_ne!(first["pid"], second["pid"]);
    let hello = json!(scripts().join("hello.php"));
    assert!(
        second["scripts"]
            .as_array()
            .is_some_and(|all| all.contains(&hello)),
        "{second}"
    );
    assert!(second["hits"].as_u64() > first["hits"].as_u64());
}

#[test]
fn opcache_restarts_when_no_other_worker_uses_it() {
    let pool = Pool::ready(
        &start(json!({"admin": {"opcache.file_update_protection": "0"}})),
        2,
    );
    let release = pool.folder.path().join("release");
    let busy = pool.submit(
        &format!("/wait.php?file={}", release.display()),
        "",
        &BodyRef::None,
    );
    let waiting = pool.folder.path().join("release.waiting");
    wait_until("it has begun", || waiting.exists());
    pool.get("/opcache.php?reset");
    for _ in 0..3 {
        let held = pool.get("/opcache.php").json();
        assert_eq!(
            (&held["pending"], &held["restarts"]),
            (&json!(true), &json!(0)),
            "{held}"
        );
    }
    std::fs::write(&release, "").unwrap();
    assert_eq!(pool.answer(busy).text(), "released");
    let free = pool.get("/opcache.php").json();
    assert_eq!(
        (&free["pending"], &free["restarts"], &free["enabled"]),
        (&json!(false), &json!(1), &json!(true)),
        "{free}"
    );
}

#[test]
fn a_worker_that_died_does_not_hold_opcache() {
    let pool = Pool::ready(
        &start(json!({"admin": {"opcache.file_update_protection": "0"}})),
        2,
    );
    pool.get("/opcache.php");
    let lost = pool.submit("/ends.php?how=crash", "", &BodyRef::None);
    assert_eq!(pool.exited().1, [(lost, Fate::Begun)]);
    pool.answer(lost);
    pool.get("/opcache.php?reset");
    let free = pool.get("/opcache.php").json();
    assert_eq!(
        (&free["pending"], &free["restarts"]),
        (&json!(false), &json!(1)),
        "{free}"
    );
}

#[test]
fn preloaded_code_is_in_every_worker_and_random_numbers_are_not() {
    let options = json!({"admin": {"opcache.preload": scripts().join("preload/preload.php"), "opcache.preload_user": "nobody"}});
    let pool = Pool::ready(&start(options), 0);
    let mut drawn = Vec::new();
    for worker in 0..2 {
        pool.fork(worker);
        assert_eq!(
            pool.get("/opcache.php").json()["preloaded"],
            "from the prototype"
        );
        drawn.push(pool.get("/random.php").text());
        pool.segment.ask_worker_to_quit(worker);
        assert_eq!(pool.exited(), (ExitStatus::Code(0), vec![]));
    }
    assert_ne!(drawn[0], drawn[1]);
}

#[test]
fn a_crash_and_a_hard_time_limit_end_one_worker_with_its_request() {
    let pool = Pool::ready(&start(json!({"admin": {"hard_timeout": "1"}})), 1);
    for (target, status) in [
        ("/ends.php?how=crash", ExitStatus::Signal(libc::SIGKILL)),
        ("/ends.php?how=hard", ExitStatus::Code(124)),
    ] {
        let lost = pool.submit(target, "", &BodyRef::None);
        let next = pool.submit("/hello.php", "", &BodyRef::None);
        assert_eq!(
            pool.exited(),
            (status, vec![(lost, Fate::Begun)]),
            "{target}"
        );
        assert!(pool.answer(lost).head.is_none());
        pool.fork(0);
        assert_eq!(pool.answer(next).text(), "hello\n");
    }
}

#[test]
fn a_worker_leaves_after_its_limit() {
    let pool = Pool::launch(&start(json!({})));
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.segment.set_request_limit(0, NonZeroU64::new(2));
    pool.fork(0);
    assert_eq!(pool.get("/pid.php").text(), pool.get("/pid.php").text());
    assert_eq!(pool.exited(), (ExitStatus::Code(0), vec![]));
}

#[test]
fn termination_is_graceful() {
    let pool = Pool::ready(&start(json!({})), 1);
    let pid: i32 = pool.get("/pid.php").text().parse().unwrap();
    let release = pool.folder.path().join("release");
    let target = format!("/wait.php?file={}", release.display());
    let slot = pool.submit(&target, "", &BodyRef::None);
    wait_until("it has begun", || {
        pool.segment.worker_snapshot(0).current == Some(slot)
    });
    signal::send(pid, libc::SIGTERM).unwrap();
    std::fs::write(&release, "").unwrap();
    assert_eq!(pool.answer(slot).text(), "released");
    assert_eq!(pool.exited(), (ExitStatus::Code(0), vec![]));
}

fn resident(script: &str) -> Start {
    let mut start = start(json!({}));
    start.config["root"] = json!(scripts().join("resident"));
    start.config["script"] = json!(script);
    start.config["mode"] = json!("resident");
    start
}

#[test]
fn a_resident_worker_leaves_after_its_request() {
    let pool = Pool::ready(&resident("worker.php"), 1);
    assert_eq!(pool.get("/").text(), "hello 1");
    let pid: i32 = pool.get("/?case=boot").json()["pid"]
        .to_string()
        .parse()
        .unwrap();
    let release = pool.folder.path().join("release");
    let target = format!("/?case=held&file={}", release.display());
    let slot = pool.submit(&target, "", &BodyRef::None);
    wait_until("it has begun", || {
        pool.segment.worker_snapshot(0).current == Some(slot)
    });
    signal::send(pid, libc::SIGTERM).unwrap();
    std::fs::write(&release, "").unwrap();
    assert_eq!(pool.answer(slot).text(), "released");
    assert_eq!(pool.exited(), (ExitStatus::Code(0), vec![]));
}

#[test]
fn a_resident_worker_leaves_after_its_limit() {
    let pool = Pool::launch(&resident("worker.php"));
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.segment.set_request_limit(0, NonZeroU64::new(3));
    pool.fork(0);
    for count in 1..=3 {
        assert_eq!(pool.get("/").text(), format!("hello {count}"));
    }
    assert_eq!(pool.exited(), (ExitStatus::Code(0), vec![]));
}

#[test]
fn a_resident_worker_that_does_not_boot_says_why() {
    let mut start = resident("failing.php");
    start.config["environment"] = json!({"HOW": "throw"});
    let pool = Pool::launch(&start);
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let command = ToPrototype::Fork {
        worker: 0,
        threads: NonZeroU32::MIN,
    };
    pool.send(&command);
    let failed = loop {
        match pool.receive() {
            FromPrototype::WorkerFailed { step, message, .. } => {
                break format!("{step}: {message}");
            }
            FromPrototype::Forked { .. } => {}
            other => panic!("unexpected: {other:?}"),
        }
    };
    assert!(
        failed.starts_with("booting the script") && failed.contains("the database is away"),
        "{failed}"
    );
    assert_eq!(pool.exited(), (ExitStatus::Code(1), vec![]));
}

#[test]
fn bodies_of_all_kinds_reach_php() {
    let pool = Pool::ready(&start(json!({"admin": {"post_max_size": "0"}})), 1);
    let inline = pool.submit("/upload.php", "text/plain", &BodyRef::Inline(b"inline"));
    assert_eq!(pool.answer(inline).text(), "inline");
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut written = 0;
    while written < large.len() {
        written +=
            rustix::io::pwrite(&pool.spool, &large[written..], 4096 + written as u64).unwrap();
    }
    let spooled = BodyRef::Spool {
        offset: 4096,
        len: large.len() as u64,
    };
    assert!(
        pool.answer(pool.submit("/upload.php", "text/plain", &spooled))
            .body
            == large
    );
    let streamed = pool.submit("/upload.php", "text/plain", &BodyRef::Stream { len: None });
    assert_eq!(pool.segment.request_stream_write(streamed, b"streamed"), 8);
    pool.segment.request_stream_finish(streamed);
    assert_eq!(pool.answer(streamed).text(), "streamed");
}

#[test]
fn output_streams_through_a_small_ring() {
    let pool = Pool::ready(&start(json!({})), 1);
    let large = pool.get("/large.php?kilobytes=5000");
    assert!(large.is_finished);
    assert_eq!(large.body.len(), 5000 * 1024);
    assert_eq!(pool.get("/stream.php").text(), "part 0\npart 1\npart 2\n");
}

#[test]
fn a_client_that_has_gone_ends_the_script() {
    let pool = Pool::ready(&start(json!({})), 1);
    let file = pool.folder.path().join("aborted.json");
    let slot = pool.submit(
        &format!("/aborted.php?file={}", file.display()),
        "",
        &BodyRef::None,
    );
    // Not read: the ring fills, and the worker waits.
    pool.completion(slot);
    pool.segment.client_gone(slot);
    assert_eq!(pool.get("/hello.php").text(), "hello\n");
    let seen: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!((&seen[0], &seen[1]), (&json!(1), &json!(1)));
}

#[test]
fn finish_request_frees_the_slot_and_the_script_goes_on() {
    let pool = Pool::ready(&start(json!({})), 1);
    let file = pool.folder.path().join("after.json");
    let target = format!("/finish.php?file={}", file.display());
    assert_eq!(pool.get(&target).text(), "answer");
    assert_eq!(pool.get("/hello.php").text(), "hello\n");
    let after: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(
        (&after[0], &after[3], &after[5]),
        (&json!(true), &json!("GET"), &json!(target))
    );
}

#[test]
fn an_application_that_cannot_start_says_why() {
    let mut broken = start(json!({}));
    broken.config["script"] = json!("none.php");
    match Pool::launch(&broken).receive() {
        FromPrototype::Failed {
            step,
            message,
            hint,
            member,
        } => {
            assert_eq!(step, "script");
            assert_eq!(member.as_deref(), Some("script"));
            assert!(message.contains("none.php"), "{message}");
            assert!(hint.is_some());
        }
        other => panic!("unexpected: {other:?}"),
    }
}

#[test]
fn a_script_tells_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("errors");
    let mut start = start(json!({}));
    start.config["stderr"] = json!(log);
    let pool = Pool::ready(&start, 1);
    let written = || std::fs::read_to_string(&log).unwrap_or_default();
    // In its own code, and in a function of PHP's.
    for (query, place) in [
        ("loop", "/where.php:5 in work()\n  called at "),
        (
            "sleep",
            "/where.php:8 in work(), waiting for sleep()\n  called at ",
        ),
    ] {
        let pid: i32 = pool.get("/pid.php").text().parse().unwrap();
        let slot = pool.submit(&format!("/where.php?{query}"), "", &BodyRef::None);
        wait_until("it has begun", || {
            pool.segment.worker_snapshot(0).current == Some(slot)
        });
        let before = written().len();
        // Until the script has got there: a signal that finds it elsewhere is answered with another place.
        wait_until("it says where it is", || {
            signal::send(pid, tutti_wire::control::WHERE_SIGNAL).unwrap();
            let text = written();
            let told = text[before..].split_once(place);
            told.is_some_and(|(_, rest)| rest.contains("/where.php:14 in the script"))
        });
        let text = written();
        assert!(text.contains(&format!("process {pid} is at ")), "{text}");
        signal::send(pid, libc::SIGKILL).unwrap();
        let (_, fates) = pool.exited();
        assert_eq!(fates, [(slot, Fate::Begun)]);
        assert!(pool.answer(slot).head.is_none());
        pool.fork(0);
    }
}

#[test]
fn preloading_compiles_the_entry_script_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("index.php"),
        "<?php echo opcache_get_status()['opcache_statistics']['hits'];",
    )
    .unwrap();
    let app = |preload: bool| Start {
        config: json!({
            "type": "php", "preload": preload, "root": folder.path(), "script": "index.php",
            "options": {"admin": {"opcache.enable": "1", "opcache.file_update_protection": "0"}},
        }),
        ..start(json!({}))
    };
    assert_eq!(Pool::ready(&app(true), 1).get("/").text(), "1");
    assert_eq!(Pool::ready(&app(false), 1).get("/").text(), "0");
    std::fs::write(folder.path().join("index.php"), "<?php this is wrong").unwrap();
    let pool = Pool::launch(&app(true));
    match pool.receive() {
        FromPrototype::Failed {
            message, member, ..
        } => {
            assert!(message.contains("does not compile"), "{message}");
            assert_eq!(member.as_deref(), Some("preload"));
        }
        other => panic!("unexpected: {other:?}"),
    }
}
