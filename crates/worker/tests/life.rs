//! The life of a prototype and its workers, with the test in the roles of main and router.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use support::{launch, start};
use tutti_sys::process::Ended;
use tutti_sys::{seqpacket, signal};
use tutti_testkit::wire::wait_until_gone;
use tutti_testkit::{Gate, Prototype, server, wait_until};
use tutti_wire::control::{ExitStatus, FromPrototype, Start, ToPrototype};
use tutti_wire::layout::VERSION;
use tutti_wire::{BodyRef, Fate, Versions, WireRequestHead};

#[test]
fn a_worker_serves_until_asked_to_quit() {
    let mut pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let pid = pool.fork(1);
    assert_eq!(pool.get("/hello"), "Hello from a worker\n");
    assert_eq!(pool.get("/pid"), format!("{pid} 1\n"));
    assert_eq!(pool.get("/big?n=1000000").len(), 1_000_000);
    let title = |pid: i32| tutti_sys::proc::command_line(pid).unwrap();
    assert_eq!(title(pid).trim_end(), "tutti: \"demo\" application");
    assert_eq!(title(pool.pid).trim_end(), "tutti: \"demo\" prototype");
    pool.segment.ask_worker_to_quit(1);
    assert_eq!(pool.exited(), (1, ExitStatus::Code(0), vec![]));
    pool.send(&ToPrototype::Quit);
    assert_eq!(pool.wait_for_end(), Ended::Code(0));
}

/// A router of the next version, with messages and members that this host does not know.
#[test]
fn a_host_serves_behind_a_newer_server() {
    let newer = Versions {
        newest: VERSION + 1,
        ..Versions::OWN
    };
    let host = server::built("tutti-sample");
    let pool = Prototype::launch_behind(newer, &host, &start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.send_bytes(br#"{"do":"sing","song":[1]}"#);
    pool.send_bytes(br#"{"do":"fork","worker":1,"song":[1]}"#);
    assert!(matches!(
        pool.receive(),
        FromPrototype::Forked { worker: 1, .. }
    ));
    assert!(matches!(
        pool.receive(),
        FromPrototype::WorkerReady { worker: 1, .. }
    ));
    assert_eq!(pool.get("/hello"), "Hello from a worker\n");
}

#[test]
fn a_host_that_a_newer_server_does_not_run_says_so_and_ends() {
    let newer = Versions {
        oldest: VERSION + 1,
        newest: VERSION + 2,
    };
    // It cannot know how such a document is to be read.
    let unreadable = Start {
        config: serde_json::json!("unreadable"),
        ..start()
    };
    let host = server::built("tutti-sample");
    let mut pool = Prototype::launch_behind(newer, &host, &unreadable);
    let FromPrototype::Failed { message, hint, .. } = pool.receive() else {
        panic!("it starts");
    };
    let expected = format!(
        "the server works with versions {newer} of the wire, this program with {}",
        Versions::OWN
    );
    assert_eq!(message, expected);
    assert!(hint.is_some_and(|hint| hint.contains("from one release")));
    assert_eq!(pool.wait_for_end(), Ended::Code(1));
}

#[test]
fn a_crash_costs_its_own_request_only() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    for (path, status) in [
        ("/crash", ExitStatus::Signal(libc::SIGABRT)),
        ("/panic", ExitStatus::Code(1)),
        ("/exit?code=7", ExitStatus::Code(7)),
    ] {
        pool.fork(0);
        let lost = pool.submit(path, &BodyRef::None);
        let next = pool.submit("/hello", &BodyRef::None);
        assert_eq!(pool.exited(), (0, status, vec![(lost, Fate::Begun)]));
        let answer = pool.answer(lost);
        assert!(answer.head.is_none() && !answer.is_finished);
        pool.fork(0);
        assert_eq!(pool.answer(next).body, b"Hello from a worker\n");
        pool.segment.ask_worker_to_quit(0);
        assert_eq!(pool.exited().1, ExitStatus::Code(0));
    }
}

#[test]
fn a_killed_worker_that_hangs_is_reported() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let pid = pool.fork(0);
    let slot = pool.submit("/hang", &BodyRef::None);
    wait_until("it is at it", || {
        pool.segment.worker_snapshot(0).current == Some(slot)
    });
    signal::send(pid, libc::SIGKILL).unwrap();
    let (_, status, fates) = pool.exited();
    assert_eq!(status, ExitStatus::Signal(libc::SIGKILL));
    assert_eq!(fates, [(slot, Fate::Begun)]);
}

#[test]
fn a_worker_leaves_after_its_limit_and_loses_nothing() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    for worker in 0..4 {
        pool.segment.set_request_limit(worker, NonZeroU64::new(3));
    }
    let slots: Vec<_> = (0..10)
        .map(|_| pool.submit("/count", &BodyRef::None))
        .collect();
    for worker in 0..4 {
        pool.send(&ToPrototype::Fork {
            worker,
            threads: NonZeroU32::MIN,
        });
    }
    let mut counts: Vec<_> = slots
        .into_iter()
        .map(|slot| pool.answer(slot).body)
        .collect();
    counts.sort();
    // Ten requests on four workers of three each: each worker counts from one.
    assert_eq!(counts.len(), 10);
    assert!(
        counts
            .iter()
            .all(|count| count.as_slice() <= b"3\n".as_slice())
    );
}

#[test]
fn termination_signals_are_graceful() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    for signal in [libc::SIGTERM, libc::SIGQUIT] {
        let pid = pool.fork(2);
        signal::send(pid, signal).unwrap();
        assert_eq!(pool.exited(), (2, ExitStatus::Code(0), vec![]));
        let pid = pool.fork(2);
        let gate = Gate::new();
        let slot = pool.submit(&gate.target(), &BodyRef::None);
        wait_until("it is at it", || {
            pool.segment.worker_snapshot(2).current == Some(slot)
        });
        signal::send(pid, signal).unwrap();
        gate.open();
        assert_eq!(pool.answer(slot).body, b"waited\n");
        assert_eq!(pool.exited(), (2, ExitStatus::Code(0), vec![]));
    }
}

#[test]
fn bodies_come_inline_spooled_and_streamed() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.fork(0);
    let slot = pool.submit("/echo", &BodyRef::Inline(b"inline"));
    assert_eq!(pool.answer(slot).body, b"inline");

    let large: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    rustix::io::pwrite(&pool.spool, &large, 4096).unwrap();
    let spooled = BodyRef::Spool {
        offset: 4096,
        len: large.len() as u64,
    };
    assert!(pool.answer(pool.submit("/echo", &spooled)).body == large);

    let slot = pool.submit("/echo", &BodyRef::Stream { len: None });
    assert_eq!(pool.segment.request_stream_write(slot, b"streamed"), 8);
    pool.segment.request_stream_finish(slot);
    assert_eq!(pool.answer(slot).body, b"streamed");
}

#[test]
fn a_head_too_large_for_its_slot_comes_through_the_spool() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.fork(0);
    let value = vec![b'x'; 100_000];
    let fields = [(&b"X-Large"[..], &value[..])];
    let head = WireRequestHead {
        path: b"/head",
        fields: &fields,
        ..WireRequestHead::default()
    };
    let slot = pool.segment.allocate(0).unwrap();
    assert!(
        pool.segment
            .write_request(slot, &head, &BodyRef::None)
            .is_err()
    );
    let record = tutti_wire::request::encode(&head, &BodyRef::None).unwrap();
    rustix::io::pwrite(&pool.spool, &record, 8192).unwrap();
    pool.segment
        .write_request_spooled(slot, &head, 8192, record.len() as u32);
    pool.segment.submit(slot);
    let seen = String::from_utf8(pool.answer(slot).body).unwrap();
    assert!(seen.contains(&format!("field X-Large: {}\n", "x".repeat(100_000))));
}

#[test]
fn early_finish_frees_the_slot_while_the_worker_works_on() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.fork(0);
    let gate = Gate::new();
    let target = format!("/finish?file={}", gate.file().display());
    let slot = pool.submit(&target, &BodyRef::None);
    assert_eq!(pool.answer(slot).body, b"finished early\n");
    let snapshot = pool.segment.worker_snapshot(0);
    assert!(!snapshot.idle && snapshot.current.is_none());
    gate.open();
    assert_eq!(pool.get("/hello"), "Hello from a worker\n");
}

#[test]
fn failures_have_step_reason_and_hint() {
    let failing = |orders: serde_json::Value| Start {
        config: serde_json::json!({"environment": {"SAMPLE": orders.to_string()}}),
        ..start()
    };
    let mut pool = launch(&failing(serde_json::json!({"fail": "no such module"})));
    assert_eq!(
        pool.receive(),
        FromPrototype::Failed {
            step: "loading the sample".to_owned(),
            message: "no such module".to_owned(),
            hint: Some("remove `fail` from the configuration".to_owned()),
            member: Some("fail".to_owned()),
        }
    );
    assert_eq!(pool.wait_for_end(), Ended::Code(1));

    let mut pool = launch(&Start {
        config: serde_json::json!({"working_directory": "/no/such/folder"}),
        ..start()
    });
    match pool.receive() {
        FromPrototype::Failed { step, member, .. } => {
            assert!(step.contains("/no/such/folder"), "{step}");
            assert_eq!(member.as_deref(), Some("working_directory"));
        }
        other => panic!("unexpected: {other:?}"),
    }
    assert_eq!(pool.wait_for_end(), Ended::Code(1));

    let pool = launch(&failing(serde_json::json!({"fail_worker": "no database"})));
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.send(&ToPrototype::Fork {
        worker: 3,
        threads: NonZeroU32::MIN,
    });
    let mut heard = [pool.receive(), pool.receive(), pool.receive()];
    heard.sort_by_key(|message| match message {
        FromPrototype::Forked { worker: 3, .. } => 0,
        FromPrototype::WorkerFailed { message, .. } if message == "no database" => 1,
        FromPrototype::Exited {
            status: ExitStatus::Code(1),
            ..
        } => 2,
        other => panic!("unexpected: {other:?}"),
    });
    assert!(matches!(heard[2], FromPrototype::Exited { worker: 3, .. }));
}

#[test]
fn environment_folder_and_output_files_are_the_applications() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("err.log");
    let pool = launch(&Start {
        config: serde_json::json!({
            "stderr": log,
            "working_directory": folder.path(),
            "environment": {"SAMPLE_NAME": "value"},
        }),
        ..start()
    });
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let pid = pool.fork(0);
    let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    assert_eq!(cwd, std::fs::canonicalize(folder.path()).unwrap());
    assert!(pool.get("/env").contains("SAMPLE_NAME=value\n"));
    let slot = pool.submit("/panic", &BodyRef::None);
    assert_eq!(pool.exited().1, ExitStatus::Code(1));
    pool.answer(slot);
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("asked to panic"), "{text}");
}

#[test]
fn workers_end_with_main_even_when_stuck() {
    let mut pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let pid = pool.fork(0);
    pool.submit("/hang", &BodyRef::None);
    // The prototype first, so that only the lifeline is left.
    signal::send(pool.pid, libc::SIGKILL).unwrap();
    pool.wait_for_end();
    assert!(signal::exists(pid));
    pool.lifeline = None;
    wait_until_gone(pid);
}

#[test]
fn workers_outlive_their_prototype_and_serve_on() {
    let mut pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.fork(0);
    signal::send(pool.pid, libc::SIGKILL).unwrap();
    pool.wait_for_end();
    assert_eq!(pool.get("/hello"), "Hello from a worker\n");
}

#[test]
fn all_end_with_the_router() {
    let mut pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let pids = [pool.fork(0), pool.fork(1)];
    let slot = pool.submit("/hang", &BodyRef::None);
    let is_running = |worker| pool.segment.worker_snapshot(worker).current == Some(slot);
    wait_until("it is at it", || is_running(0) || is_running(1));
    let (other, _) = seqpacket::pair().unwrap();
    pool.control = other;
    assert_eq!(pool.wait_for_end(), Ended::Code(0));
    pids.into_iter().for_each(wait_until_gone);
}

/// The prototype ended.
#[test]
fn a_shortage_of_descriptors_costs_one_fork_only() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    let prototype = Pid::from_raw(pool.pid);
    let before = getrlimit(Resource::Nofile);
    let folder = format!("/proc/{}/fd", pool.pid);
    let is_free = |number: &u64| !Path::new(&format!("{folder}/{number}")).exists();
    let lowest = (0..).find(is_free);
    let limit = Rlimit {
        current: lowest,
        ..before
    };
    prlimit(prototype, Resource::Nofile, limit).unwrap();
    pool.send(&ToPrototype::Fork {
        worker: 0,
        threads: NonZeroU32::MIN,
    });
    match pool.receive() {
        FromPrototype::ForkFailed { worker: 0, message } => {
            assert!(message.contains("Too many open files"), "{message}");
        }
        other => panic!("unexpected: {other:?}"),
    }
    prlimit(prototype, Resource::Nofile, before).unwrap();
    pool.fork(0);
    assert_eq!(pool.get("/hello"), "Hello from a worker\n");
}

#[test]
fn fork_commands_that_make_no_sense_are_refused() {
    let pool = launch(&start());
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool.fork(0);
    for worker in [0, 4] {
        pool.send(&ToPrototype::Fork {
            worker,
            threads: NonZeroU32::MIN,
        });
        match pool.receive() {
            FromPrototype::ForkFailed { worker: w, .. } => assert_eq!(w, worker),
            other => panic!("unexpected: {other:?}"),
        }
    }
}
