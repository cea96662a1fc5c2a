//! Applications with real processes: the sample host of `tutti-worker`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]
#![allow(clippy::result_large_err, reason = "as in the crate")]
#![allow(unreachable_pub, reason = "the harness is a module of this test")]

mod harness;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use harness::{
    Content, Pending, Pool, Response, dynamic, fetch, fetch_since, options_of, orders, pid_of,
};
use serde_json::json;
use tokio::sync::oneshot;
use tutti_options::OptionalLimit;
use tutti_pool::{
    AppSpec, ApplicationPool, Clocks, End, ExchangeError, Processes, RollError, SubmitError,
};
use tutti_sys::signal;
use tutti_testkit::{Gate, PATIENCE, files, is_root, processes, server, skip, wait_until, workers};

/// A limit of time that is reached in a test: all other requests keep it on a busy machine, too.
const SHORT: Duration = Duration::from_secs(3);

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

#[test]
fn a_request_is_answered() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let response = pool.get(&app, "/hello").unwrap();
    assert_eq!(
        (response.status, response.text()),
        (200, "Hello from a worker")
    );
    // Its worker reports to be idle a moment after its response.
    wait_until("both are idle", || {
        let status = app.status();
        (status.running, status.starting, status.idle, status.active) == (2, 0, 2, 0)
    });
}

#[test]
fn bodies_of_every_kind_arrive_whole() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let small = bytes[..1000].to_vec();
    let cases = [
        Content::Inline(small.clone()),
        Content::Inline(bytes.clone()),
        Content::Spooled(bytes.clone()),
        Content::Stream(bytes.clone()),
    ];
    for (number, content) in cases.into_iter().enumerate() {
        let wanted = if number == 0 { &small } else { &bytes };
        let response = pool
            .spawn(fetch(Arc::clone(&app), "/echo".to_owned(), content))
            .wait()
            .unwrap();
        assert_eq!(response.status, 200);
        assert!(
            response.body == *wanted,
            "case {number}: {} bytes",
            response.body.len()
        );
    }
    wait_until("the spool is given back", || app.spool().in_use() == 0);
}

#[test]
fn a_head_too_large_for_a_slot_goes_through_the_spool() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let target = format!("/head?{}", "q".repeat(60_000));
    let response = pool.get(&app, &target).unwrap();
    assert!(
        response
            .text()
            .contains(&format!("query: {}", &target[6..]))
    );
    wait_until("the spool is given back", || app.spool().in_use() == 0);
}

#[test]
fn a_response_larger_than_its_ring_arrives_whole() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let response = pool.get(&app, "/big?n=5000000").unwrap();
    assert_eq!(response.body.len(), 5_000_000);
    for (number, line) in response.body.chunks(64).enumerate() {
        assert_eq!(line, format!("{number:063}\n").as_bytes());
    }
}

#[test]
fn a_flood_larger_than_the_slots_is_answered_whole() {
    let pool = Pool::with_threads(2);
    let app = pool.app(pool.spec("demo", Processes::Fixed(3)));
    let requests: Vec<_> = (0..3000)
        .map(|number| {
            pool.spawn_on(
                number % 2,
                fetch(Arc::clone(&app), "/hello".to_owned(), Content::None),
            )
        })
        .collect();
    for request in requests {
        assert_eq!(request.wait().unwrap().status, 200);
    }
    wait_until("nothing is held", || {
        let status = app.status();
        (status.active, status.queued) == (0, 0)
    });
}

/// Issue 10: slots that no request took accumulated while requests waited (256 became 38 in 38 s).
#[test]
fn under_lasting_overload_no_slot_is_left_unused() {
    const THREADS: u32 = 4;
    const CLIENTS: u32 = 600;
    const REQUESTS: u32 = 30_000;
    let pool = Pool::with_threads(THREADS);
    let app = pool.app(pool.spec("demo", Processes::Fixed(20)));
    let taken = Arc::new(AtomicU32::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (app, taken) = (Arc::clone(&app), Arc::clone(&taken));
            pool.spawn_on((number % THREADS) as usize, async move {
                while taken.fetch_add(1, Ordering::Relaxed) < REQUESTS {
                    let response = fetch(Arc::clone(&app), "/hello".to_owned(), Content::None);
                    assert_eq!(response.await.unwrap().status, 200);
                }
                // From now on nothing changes, so free slots and waiting requests can be counted.
                let hang = fetch(Arc::clone(&app), "/hang".to_owned(), Content::None);
                let _ = hang.await;
            })
        })
        .collect();
    let mut before = 0;
    while taken.load(Ordering::Relaxed) < REQUESTS {
        wait_until("requests are taken", || {
            taken.load(Ordering::Relaxed) > before
        });
        before = taken.load(Ordering::Relaxed);
    }
    wait_until("every slot is used while requests wait", || {
        let (free, waiting) = app.free_and_waiting();
        free == 0 && waiting == CLIENTS - 256
    });
    wait_until("every worker has work while requests wait", || {
        app.status().idle == 0
    });
    drop(clients);
    pool.shutdown(Some(Duration::ZERO));
}

#[test]
fn more_than_the_queue_takes_is_refused_at_once() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.queue.length = 10;
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().idle == 0);
    let mut waiting: Vec<_> = (0..300).map(|_| pool.begin(&app, "/hello")).collect();
    let refused = waiting.split_off(10);
    for request in refused {
        match request.wait() {
            Err(harness::Failed::Submit(SubmitError::QueueFull { retry_after })) => {
                assert!(retry_after >= Duration::from_secs(1));
            }
            other => panic!("{other:?}"),
        }
    }
    gate.open();
    for request in std::iter::once(slow).chain(waiting) {
        assert_eq!(request.wait().unwrap().status, 200);
    }
}

#[test]
fn a_failed_start_has_step_message_hint_and_output() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    orders(&mut spec, &json!({"fail": "no such module"}));
    let failures = pool.configure(vec![spec]).unwrap_err();
    assert_eq!(failures.len(), 1);
    let failure = &failures[0];
    assert_eq!(failure.pointer, "/applications/demo/fail");
    assert_eq!(
        (failure.step.as_str(), failure.message.as_str()),
        ("loading the sample", "no such module")
    );
    assert_eq!(
        failure.hint.as_deref(),
        Some("remove `fail` from the configuration")
    );
    assert_eq!(failure.stderr, "sample: cannot go on");
    assert!(pool.manager.application("demo").is_none());
}

#[test]
fn a_worker_that_cannot_start_fails_the_start() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(3));
    orders(&mut spec, &json!({"fail_worker": "no database"}));
    let failures = pool.configure(vec![spec]).unwrap_err();
    assert_eq!(failures[0].step, "starting the sample's worker");
    assert_eq!(failures[0].message, "no database");
}

#[test]
fn a_program_without_the_protocol_is_reported_with_its_output() {
    let pool = Pool::new();
    let script = pool.folder.path().join("host");
    files::script(&script, "#!/bin/sh\necho something is wrong >&2\nexit 3\n");
    *pool.launcher.program.lock().unwrap() = Some(script);
    let failures = pool
        .configure(vec![pool.spec("demo", Processes::Fixed(1))])
        .unwrap_err();
    assert!(
        failures[0].message.contains("exited with code 3"),
        "{failures:?}"
    );
    assert_eq!(failures[0].stderr, "something is wrong");
    *pool.launcher.program.lock().unwrap() = None;
    *pool.launcher.refuse.lock().unwrap() = Some("no module of type `sample`".to_owned());
    let failures = pool
        .configure(vec![pool.spec("demo", Processes::Fixed(1))])
        .unwrap_err();
    assert_eq!(
        (failures[0].step.as_str(), failures[0].message.as_str()),
        ("find module", "no module of type `sample`")
    );
}

/// Anything that an application loads can write to its prototype's control socket.
#[test]
fn a_prototype_that_names_a_process_of_another_application_is_killed_and_that_process_is_not() {
    let pool = Pool::new();
    let other = pool.app(pool.spec("other", Processes::Fixed(1)));
    let (victim, _) = pid_of(&pool, &other);
    let script = pool.folder.path().join("host");
    *pool.launcher.program.lock().unwrap() = Some(script.clone());
    let mut hostile = pool.spec("hostile", Processes::Fixed(1));
    hostile.common.limits.start_timeout = SHORT;
    // It names the process as that of a worker that was not requested, and as that of one that was.
    for (worker, what) in [
        (999, "forked"),
        (999, "worker_ready"),
        (0, "forked"),
        (0, "worker_ready"),
    ] {
        let message = json!({"what": what, "worker": worker, "pid": victim});
        let ready = json!({"what": "ready"});
        let text = format!(
            "#!/bin/sh\nprintf '%s' '{ready}' >&3\ndd bs=65536 count=1 <&3 >/dev/null 2>&1\nprintf '%s' '{message}' >&3\nexec sleep 1000\n"
        );
        files::script(&script, &text);
        let specs = vec![other.spec().as_ref().clone(), hostile.clone()];
        let failures = pool.configure(specs).unwrap_err();
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].pointer, "/applications/hostile");
        pool.log
            .wait_for(&format!("names process {victim} as its own"));
        assert!(!pool.launcher.killed.lock().unwrap().contains(&victim));
        assert_eq!(pid_of(&pool, &other).0, victim);
    }
}

/// As from a host of the next version.
#[test]
fn a_message_that_the_router_does_not_know_is_ignored() {
    let pool = Pool::new();
    let script = pool.folder.path().join("host");
    let host = server::built("tutti-sample");
    let text = format!(
        "#!/bin/sh\nprintf '%s' '{{\"what\":\"sings\",\"worker\":1}}' >&3\nexec {} \"$@\"\n",
        host.display()
    );
    files::script(&script, &text);
    *pool.launcher.program.lock().unwrap() = Some(script);
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn failures_of_several_applications_are_all_reported_and_nothing_is_left() {
    let pool = Pool::new();
    let mut specs: Vec<_> = ["a", "b", "c"]
        .map(|name| pool.spec(name, Processes::Fixed(1)))
        .into();
    orders(&mut specs[0], &json!({"fail": "first"}));
    orders(&mut specs[2], &json!({"fail": "third"}));
    let mut messages: Vec<_> = pool
        .configure(specs)
        .unwrap_err()
        .into_iter()
        .map(|failure| failure.message)
        .collect();
    messages.sort();
    assert_eq!(messages, ["first", "third"]);
    pool.launcher.expect_all_gone();
}

#[test]
fn an_unchanged_application_keeps_its_processes() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let before = pid_of(&pool, &app);
    pool.configure(vec![
        pool.spec("demo", Processes::Fixed(1)),
        pool.spec("new", Processes::Fixed(1)),
    ])
    .unwrap();
    let same = pool.manager.application("demo").unwrap();
    assert!(Arc::ptr_eq(&app, &same));
    assert_eq!(pid_of(&pool, &same), before);
}

#[test]
fn a_replaced_application_serves_its_requests_to_the_end() {
    let pool = Pool::new();
    let old = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let (pid, _) = pid_of(&pool, &old);
    let gate = Gate::new();
    let slow = pool.begin(&old, &gate.target());
    let queued = pool.begin(&old, "/hello");
    let mut changed = pool.spec("demo", Processes::Fixed(2));
    orders(&mut changed, &json!({"changed": true}));
    let new = pool.app(changed);
    assert_ne!(pid_of(&pool, &new).0, pid);
    gate.open();
    assert_eq!(slow.wait().unwrap().text(), "waited");
    assert_eq!(queued.wait().unwrap().status, 200);
    drop(old);
    wait_until("the old worker has left", || !signal::exists(pid));
}

#[test]
fn spare_workers_are_kept_and_surplus_ones_leave() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", dynamic(6, 2, Duration::from_millis(300))));
    assert_eq!(app.status().running, 2);
    // Requests that occupy workers: two idle ones must be left.
    let gate = Gate::new();
    let slow: Vec<_> = (0..3).map(|_| pool.begin(&app, &gate.target())).collect();
    wait_until("spare workers are refilled", || {
        let status = app.status();
        status.running == 5 && status.idle == 2
    });
    let more: Vec<_> = (0..3).map(|_| pool.begin(&app, &gate.target())).collect();
    wait_until("no more than max", || {
        let status = app.status();
        status.running == 6 && status.idle == 0
    });
    gate.open();
    for request in slow.into_iter().chain(more) {
        assert_eq!(request.wait().unwrap().status, 200);
    }
    wait_until("back to spare", || {
        let status = app.status();
        status.running == 2 && status.idle == 2
    });
}

#[test]
fn without_spare_workers_the_first_request_starts_one() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", dynamic(3, 0, Duration::from_millis(200))));
    assert_eq!(app.status().running, 0);
    for _ in 0..2 {
        assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
        wait_until("the worker leaves", || app.status().running == 0);
    }
}

/// Issue 10: `"spare": 0` permits no process before the first request.
#[test]
fn without_spare_workers_nothing_runs_before_the_first_request() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", dynamic(3, 0, Duration::from_secs(60))));
    // It was started as a trial.
    let pids = pool.launcher.pids.lock().unwrap().clone();
    assert_eq!(pids.len(), 1);
    wait_until("its prototype ends", || {
        !pids.iter().any(|&pid| signal::exists(pid))
    });
    assert_eq!(app.status().restarts, 0);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    wait_until("it runs", || app.status().running == 1);
}

/// Issue 28: languages load an application in a worker, so a change to `"spare": 0` was accepted without a warning.
#[test]
fn without_spare_workers_one_is_tried_and_let_go() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", dynamic(3, 0, Duration::from_secs(60)));
    orders(&mut spec, &json!({"fail_worker": "no database"}));
    let unstarted = pool.unstarted(spec);
    assert_eq!(unstarted.len(), 1);
    assert_eq!(unstarted[0].message, "no database");
    assert!(pool.log.has("Warn: application \"demo\" failed to start"));
    let app = pool.manager.application("demo").unwrap();
    assert!(!app.status().started);
    // A repaired one is tried, and runs only on demand.
    let app = pool.app(pool.spec("demo", dynamic(3, 0, Duration::from_secs(60))));
    let status = app.status();
    assert!(status.started && status.running == 0, "{status:?}");
    let pids = pool.launcher.pids.lock().unwrap().clone();
    wait_until("all have ended", || {
        !pids.iter().any(|&pid| signal::exists(pid))
    });
    assert_eq!(app.status().restarts, 0);
}

/// Clocks of a machine with one busy core, of which this router has all or nothing.
struct Shared {
    begun: Instant,
    is_ours: Arc<AtomicBool>,
    /// Our CPU time, and the time of the last look.
    own: Mutex<(Duration, Duration)>,
}

impl Clocks for Shared {
    fn machine(&self) -> Option<Duration> {
        Some(self.begun.elapsed())
    }

    fn own(&self) -> Duration {
        let now = self.begun.elapsed();
        let mut own = self.own.lock().unwrap();
        let (mut sum, looked) = *own;
        if self.is_ours.load(Ordering::Relaxed) {
            sum += now - looked;
        }
        *own = (sum, now);
        sum
    }

    fn worker(&self, _: i32) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

/// Issue 11: while short requests take nearly all of the CPU time, workers do not interrupt the router for each.
#[test]
fn workers_are_in_the_batch_class_while_no_other_process_computes() {
    let is_ours = Arc::new(AtomicBool::new(true));
    let pool = Pool::with_clocks(Box::new(Shared {
        begun: Instant::now(),
        is_ours: Arc::clone(&is_ours),
        own: Mutex::default(),
    }));
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let class_of_a_worker = || {
        let (pid, _) = pid_of(&pool, &app);
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // proc(5): the 41st field, of which the 3rd follows the name.
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split_ascii_whitespace().nth(38).unwrap().to_owned()
    };
    let (normal, batch) = ("0", "3");
    assert_eq!(class_of_a_worker(), normal);
    wait_until("they are in it", || class_of_a_worker() == batch);
    is_ours.store(false, Ordering::Relaxed);
    wait_until("they are normal again", || class_of_a_worker() == normal);
}

/// Issue 10: a missing file may be added until the first request, and later.
#[test]
fn without_spare_workers_a_failing_application_is_accepted_and_its_requests_get_the_reason() {
    let pool = Pool::new();
    let missing = pool.folder.path().join("missing");
    std::fs::write(&missing, "").unwrap();
    let mut spec = pool.spec("demo", dynamic(3, 0, Duration::from_secs(60)));
    orders(&mut spec, &json!({"fail_prototype_while": missing}));
    let unstarted = pool.unstarted(spec);
    assert_eq!(unstarted.len(), 1);
    assert!(unstarted[0].message.contains("not yet"), "{unstarted:?}");
    assert!(pool.log.has("Warn: application \"demo\" failed to start"));
    let app = pool.manager.application("demo").unwrap();
    for _ in 0..3 {
        let error = pool.get(&app, "/hello").unwrap_err();
        assert_eq!(error.status(), 503);
        assert!(format!("{error:?}").contains("not yet"), "{error:?}");
    }
    std::fs::remove_file(&missing).unwrap();
    wait_until("a request is what it is started for", || {
        pool.get(&app, "/hello")
            .is_ok_and(|response| response.status == 200)
    });
}

/// Issue 10: with a process before the first request, a missing file refuses the change as before.
#[test]
fn with_spare_workers_a_failing_application_is_refused() {
    let pool = Pool::new();
    let missing = pool.folder.path().join("missing");
    std::fs::write(&missing, "").unwrap();
    let mut spec = pool.spec("demo", dynamic(3, 1, Duration::from_secs(60)));
    orders(&mut spec, &json!({"fail_prototype_while": missing}));
    let failures = pool.configure(vec![spec]).unwrap_err();
    assert!(failures[0].message.contains("not yet"), "{failures:?}");
}

/// Issue 10: leaving processes were counted as running, and their requests as work of the others.
#[test]
fn processes_are_counted_right_when_a_restart_is_answered() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let slow = pool.begin(&app, "/hang");
    wait_until("it has begun", || app.status().idle == 1);
    pool.restart("demo").unwrap();
    let status = app.status();
    assert_eq!((status.running, status.starting, status.idle), (2, 0, 2));
    slow.leave();
}

/// Issue 10: a change of `processes` was answered before there were that many.
#[test]
fn processes_are_counted_right_when_a_change_of_their_number_is_answered() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    for count in [9, 3] {
        pool.configure(vec![pool.spec("demo", Processes::Fixed(count))])
            .unwrap();
        let manager = pool.manager.clone();
        pool.control(async move { manager.settled().await });
        let status = app.status();
        assert_eq!((status.running, status.starting), (count, 0));
    }
}

#[test]
fn a_burst_grows_the_pool_and_loses_nothing() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", dynamic(20, 1, Duration::from_secs(60))));
    let gate = Gate::new();
    let requests: Vec<_> = (0..200).map(|_| pool.begin(&app, &gate.target())).collect();
    wait_until("all that there may be are at work", || {
        let status = app.status();
        status.running == 20 && status.idle == 0
    });
    gate.open();
    for request in requests {
        assert_eq!(request.wait().unwrap().status, 200);
    }
}

#[test]
fn a_request_that_has_not_begun_is_withdrawn_when_its_client_leaves() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().idle == 0);
    let hang = pool.begin(&app, "/hang");
    wait_until("it waits", || app.status().queued == 1);
    hang.leave();
    wait_until("it is withdrawn", || app.status().queued == 0);
    gate.open();
    assert_eq!(slow.wait().unwrap().status, 200);
    // If it had run, the only worker would hang.
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn a_client_that_leaves_does_not_hold_a_worker() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let big = pool.spawn({
        let app = Arc::clone(&app);
        async move {
            let head = tutti_pool::WireRequestHead {
                path: b"/big",
                query: b"n=100000000",
                ..Default::default()
            };
            let mut exchange = app
                .submit(&head, tutti_pool::OutgoingBody::None, Instant::now())
                .await
                .unwrap();
            exchange.head().await.unwrap().status
            // Dropped here, with most of the response not yet sent.
        }
    });
    assert_eq!(big.wait(), 200);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    wait_until("nothing is held", || app.status().active == 0);
}

#[test]
fn time_in_the_queue_counts_and_a_request_that_never_began_is_a_503() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    let timeout = Duration::from_secs(30);
    spec.common.limits.timeout = OptionalLimit(Some(timeout));
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().idle == 0);
    // Its time was almost over when it was submitted.
    let waited = timeout - Duration::from_millis(100);
    let since = Instant::now().checked_sub(waited).unwrap();
    let late = pool.spawn(fetch_since(
        Arc::clone(&app),
        "/hang".to_owned(),
        Content::None,
        since,
    ));
    match late.wait().unwrap_err() {
        harness::Failed::Exchange(error) => {
            assert_eq!(
                (error.status(), error),
                (503, ExchangeError::Timeout { begun: false })
            );
        }
        other => panic!("{other:?}"),
    }
    gate.open();
    assert_eq!(slow.wait().unwrap().status, 200);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// The worker would have counted as late as soon as it had begun, and been replaced.
#[test]
fn a_request_whose_time_is_over_is_given_to_no_worker() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.timeout = OptionalLimit(Some(SHORT));
    let app = pool.app(spec);
    let slots = app.free_and_waiting();
    let since = Instant::now().checked_sub(SHORT).unwrap();
    let late = fetch_since(Arc::clone(&app), "/hang".to_owned(), Content::None, since);
    match pool.spawn(late).wait().unwrap_err() {
        harness::Failed::Submit(error) => assert_eq!(error, SubmitError::Timeout),
        other => panic!("{other:?}"),
    }
    let status = app.status();
    assert_eq!((status.requests, status.active), (0, 0));
    // The slot is free.
    assert_eq!(app.free_and_waiting(), slots);
}

#[test]
fn a_worker_that_does_not_come_back_is_killed_and_its_request_a_504() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.timeout = OptionalLimit(Some(SHORT));
    let app = pool.app(spec.clone());
    let (pid, _) = pid_of(&pool, &app);
    let error = pool.get(&app, "/hang").unwrap_err();
    assert_eq!(error.status(), 504);
    wait_until("it is killed", || !signal::exists(pid));
    wait_until("it is replaced", || {
        app.status().running == 1 && app.status().restarts == 1
    });
    pool.lift_timeout(&spec);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    pool.log.wait_for("does not finish `GET /hang`");
    // Issue 10: the log said that the client got 502.
    pool.log
        .wait_for("was killed by signal 9 while serving `GET /hang`; answered 504");
}

#[test]
fn a_late_worker_is_replaced_at_once_and_may_finish() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.timeout = OptionalLimit(Some(SHORT));
    let app = pool.app(spec.clone());
    let (pid, _) = pid_of(&pool, &app);
    // It has a second to finish, which this test must not use up, and ends then.
    assert_eq!(pool.get(&app, "/gone").unwrap_err().status(), 504);
    pool.lift_timeout(&spec);
    wait_until("another one is idle", || app.status().idle == 1);
    assert_ne!(pid_of(&pool, &app).0, pid);
    wait_until("it has left", || !signal::exists(pid));
    assert!(!pool.log.has("does not finish"), "{}", pool.log.all());
}

#[test]
fn a_killed_worker_costs_its_own_request_only() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let (pid, _) = pid_of(&pool, &app);
    let victim = pool.begin(&app, "/hang?me");
    wait_until("it has begun", || app.status().idle == 0);
    let queued: Vec<_> = (0..20).map(|_| pool.begin(&app, "/hello")).collect();
    wait_until("they wait", || app.status().queued == 20);
    signal::send(pid, SIGKILL).unwrap();
    match victim.wait().unwrap_err() {
        harness::Failed::Exchange(ExchangeError::WorkerDied { pid: dead, how }) => {
            assert_eq!((dead, how), (pid, tutti_pool::ProcessExit::Signal(SIGKILL)));
        }
        other => panic!("{other:?}"),
    }
    for request in queued {
        assert_eq!(request.wait().unwrap().status, 200);
    }
    pool.log
        .wait_for("was killed by signal 9 while serving `GET /hang?me`");
}

#[test]
fn crashes_exits_and_panics_are_502_each() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    for target in ["/crash", "/exit?code=7", "/panic", "/crash"] {
        assert_eq!(
            pool.get(&app, target).unwrap_err().status(),
            502,
            "{target}"
        );
        assert_eq!(
            pool.get(&app, "/hello").unwrap().status,
            200,
            "after {target}"
        );
    }
    wait_until("all are replaced", || {
        app.status().running == 2 && app.status().restarts == 4
    });
    pool.log
        .wait_for("exited with code 7 while serving `GET /exit?code=7`");
    // The panic's text is forwarded.
    pool.log.wait_for("output of demo");
}

#[test]
fn a_worker_that_recycles_is_replaced_without_a_word_of_error() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(2));
    spec.common.limits.requests = OptionalLimit(Some(5));
    let app = pool.app(spec);
    for _ in 0..60 {
        assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    }
    wait_until("both are up", || app.status().running == 2);
    assert_eq!(app.status().restarts, 0);
    assert!(!pool.log.has("Error:"), "{}", pool.log.all());
}

#[test]
fn a_killed_prototype_is_replaced_and_no_request_is_lost() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(3)));
    let (worker, _) = pid_of(&pool, &app);
    let gate = Gate::new();
    let slow: Vec<_> = (0..3).map(|_| pool.begin(&app, &gate.target())).collect();
    wait_until("they have begun", || app.status().idle == 0);
    let queued: Vec<_> = (0..30).map(|_| pool.begin(&app, "/hello")).collect();
    let prototype = pool.launcher.prototype();
    signal::send(prototype, SIGKILL).unwrap();
    gate.open();
    for request in slow.into_iter().chain(queued) {
        assert_eq!(request.wait().unwrap().status, 200);
    }
    wait_until("the old workers have left", || !signal::exists(worker));
    wait_until("new ones are up", || {
        app.status().running == 3 && app.status().idle == 3
    });
    pool.log.wait_for("prototype process");
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// As in a pid namespace, whose processes the kernel kills together.
#[test]
fn workers_that_die_with_their_prototype_are_not_failed_starts() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(3)));
    let prototype = pool.launcher.prototype();
    let workers = tutti_sys::proc::children(prototype);
    assert_eq!(workers.len(), 3);
    signal::send(prototype, SIGKILL).unwrap();
    wait_until("its death is known", || pool.log.has("prototype process"));
    for &worker in &workers {
        let _ = signal::send(worker, SIGKILL);
    }
    wait_until("they are gone", || {
        workers.iter().all(|&worker| !signal::exists(worker))
    });
    wait_until("others are up", || app.status().running == 3);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    assert_eq!(app.status().failures, 0, "{}", pool.log.all());
}

#[test]
fn a_restart_under_load_loses_nothing() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(3)));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (app, stop) = (Arc::clone(&app), Arc::clone(&stop));
            pool.spawn(async move {
                let mut count = 0;
                while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                    let response =
                        fetch(Arc::clone(&app), "/pid".to_owned(), Content::None).await?;
                    assert_eq!(response.status, 200);
                    count += 1;
                    tokio::task::yield_now().await;
                }
                Ok::<_, harness::Failed>(count)
            })
        })
        .collect();
    for _ in 0..5 {
        let before = pid_of(&pool, &app).0;
        pool.restart("demo").unwrap();
        wait_until("the old worker has left", || !signal::exists(before));
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    for client in clients {
        assert!(client.wait().unwrap() > 0);
    }
    wait_until("as many as before", || app.status().running == 3);
}

#[test]
fn a_restart_that_fails_keeps_the_old_processes_and_reports_the_reason() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let before = pid_of(&pool, &app);
    *pool.launcher.refuse.lock().unwrap() = Some("the module is gone".to_owned());
    match pool.restart("demo").unwrap_err() {
        RollError::Failed(failure) => assert_eq!(failure.message, "the module is gone"),
        other => panic!("{other:?}"),
    }
    assert_eq!(pid_of(&pool, &app), before);
    assert_eq!(app.status().running, 1);
    assert!(matches!(
        pool.restart("other").unwrap_err(),
        RollError::Unknown(_)
    ));
    *pool.launcher.refuse.lock().unwrap() = None;
    pool.restart("demo").unwrap();
    assert_eq!(app.status().last_failure, None);
}

#[test]
fn starts_that_fail_back_off_and_requests_get_the_reason() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let (pid, _) = pid_of(&pool, &app);
    *pool.launcher.refuse.lock().unwrap() = Some("the disk is gone".to_owned());
    let prototype = pool.launcher.prototype();
    signal::send(prototype, SIGKILL).unwrap();
    wait_until("its loss is known", || app.status().last_failure.is_some());
    assert_eq!(
        pool.get(&app, "/hello").unwrap().status,
        200,
        "the orphan continues"
    );
    signal::send(pid, SIGKILL).unwrap();
    wait_until("no process is left", || app.status().running == 0);
    wait_until(
        "it gives up",
        || matches!(pool.get(&app, "/hello"), Err(error) if error.status() == 503),
    );
    assert!(
        app.status()
            .last_failure
            .unwrap()
            .message
            .contains("the disk is gone")
    );
    let launches = pool
        .launcher
        .launches
        .load(std::sync::atomic::Ordering::SeqCst);
    assert!(launches < 12, "{launches} launches in a moment");
    *pool.launcher.refuse.lock().unwrap() = None;
    wait_until("it recovers by itself", || app.status().running == 1);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn a_pool_that_starts_on_demand_tries_again_after_a_pause() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", dynamic(2, 0, Duration::from_secs(60)));
    orders(&mut spec, &json!({"fail_worker": "no database"}));
    let app = pool.app(spec);
    let error = pool.get(&app, "/hello").unwrap_err();
    assert_eq!(error.status(), 503);
    assert!(format!("{error:?}").contains("no database"), "{error:?}");
    let tries = || {
        pool.log
            .all()
            .matches("no database; its last output")
            .count()
    };
    let before = tries();
    wait_until("another request makes another try", || {
        let error = pool.get(&app, "/hello").unwrap_err();
        assert!(format!("{error:?}").contains("no database"), "{error:?}");
        tries() > before
    });
    assert!(tries() < 10, "{} tries in a moment", tries());
}

#[test]
fn damaged_shared_memory_is_replaced_with_all_its_processes() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let (pid, _) = pid_of(&pool, &app);
    let victim = pool.begin(&app, "/hang");
    wait_until("it has begun", || app.status().idle == 1);
    pool.launcher.scribble(0xff);
    // Its completion is processed with the next request.
    let next = pool.begin(&app, "/hello");
    assert_eq!(victim.wait().unwrap_err().status(), 502);
    // The next request was in the old segment; the ones after it are served.
    let _ = next.wait();
    wait_until("it is replaced", || {
        app.status().running == 2 && !signal::exists(pid)
    });
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    pool.log
        .wait_for("Alert: \"demo\": an application process damaged the shared memory");
    wait_until("nothing is held", || app.status().active == 0);
}

/// The simulator's seed 1798397300002667.
/// The router panicked where overflows are checked.
#[test]
fn counters_of_a_worker_may_be_any_number_when_it_ends() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    options_of(&mut spec, "perl", &json!({"threads": 3}));
    let app = pool.app(spec);
    let (pid, _) = pid_of(&pool, &app);
    // The damage is noticed, and the process killed.
    pool.launcher.scribble(0xff);
    wait_until("it is replaced", || {
        !signal::exists(pid)
            && pool
                .get(&app, "/hello")
                .is_ok_and(|response| response.status == 200)
    });
}

#[test]
fn damage_is_noticed_without_a_request() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    pool.launcher.scribble(0xff);
    // No other can be started in that segment. It has gone if the damage was noticed in time.
    let _ = signal::send(pool.launcher.prototype(), SIGKILL);
    pool.log
        .wait_for("Alert: \"demo\": an application process damaged the shared memory");
    wait_until("it is replaced", || app.status().running == 1);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// The simulator's seeds 1795967364001707 and 1795968435005186.
#[test]
fn a_request_whose_state_is_falsified_ends_at_its_deadline() {
    // Each slot is free, or its worker has finished without a completion.
    for (byte, status) in [(0, 504), (4, 502)] {
        let pool = Pool::new();
        let mut spec = pool.spec("demo", Processes::Fixed(2));
        spec.common.limits.timeout = OptionalLimit(Some(SHORT));
        let app = pool.app(spec.clone());
        let victim = pool.begin(&app, "/hang");
        wait_until("it has begun", || app.status().idle == 1);
        pool.launcher.scribble(byte);
        assert_eq!(victim.wait().unwrap_err().status(), status);
        pool.log
            .wait_for("Alert: \"demo\": an application process damaged the shared memory");
        pool.lift_timeout(&spec);
        assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
        wait_until("nothing is held", || app.status().active == 0);
    }
}

/// The kill of the prototype and the report of a fork cross.
#[test]
fn a_worker_forked_while_its_prototype_is_killed_is_killed_too() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", dynamic(4, 1, Duration::from_secs(60))));
    let (known, _) = pid_of(&pool, &app);
    let prototype = pool.launcher.prototype();
    signal::send(prototype, SIGSTOP).unwrap();
    // That request may have made the supervisor start a second worker.
    let mut victims = Vec::new();
    wait_until("another is asked for", || {
        if app.status().idle > 0 {
            victims.push(pool.begin(&app, "/hang"));
        }
        app.status().starting > 0
    });
    pool.launcher
        .spares_prototypes
        .store(true, Ordering::SeqCst);
    pool.launcher.scribble(0xff);
    let next = pool.begin(&app, "/hello");
    for victim in victims {
        assert_eq!(victim.wait().unwrap_err().status(), 502);
    }
    // It is answered also if it took a slot in the damaged segment just before that was replaced.
    let _ = next.wait();
    wait_until("all are killed", || {
        pool.launcher.killed.lock().unwrap().contains(&known)
    });
    signal::send(prototype, SIGCONT).unwrap();
    wait_until("so is the one forked now", || {
        pool.launcher.killed.lock().unwrap().len() > 1
    });
    pool.launcher
        .spares_prototypes
        .store(false, Ordering::SeqCst);
    signal::send(prototype, SIGKILL).unwrap();
    wait_until("it is replaced", || app.status().running >= 1);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// Begins a request that takes a slot now, and is placed there once the sender has said so.
fn begin_in_two_steps(
    pool: &Pool,
    app: &Arc<ApplicationPool>,
) -> (oneshot::Sender<()>, Pending<Result<u16, ExchangeError>>) {
    let (taken, is_taken) = mpsc::channel();
    let (go, may_go) = oneshot::channel();
    let app = Arc::clone(app);
    let request = pool.spawn(async move {
        let slot = app.take(Instant::now()).await.unwrap();
        taken.send(()).unwrap();
        may_go.await.unwrap();
        let head = tutti_pool::WireRequestHead {
            path: b"/hello",
            ..Default::default()
        };
        let mut exchange = slot.submit(&head, tutti_pool::OutgoingBody::None).unwrap();
        exchange.head().await.map(|head| head.status)
    });
    is_taken.recv_timeout(PATIENCE).unwrap();
    (go, request)
}

#[test]
fn a_request_placed_in_a_segment_that_has_been_replaced_is_answered() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let (go, request) = begin_in_two_steps(&pool, &app);
    pool.launcher.scribble(0xff);
    let _ = pool.get(&app, "/hello");
    wait_until("it is replaced", || {
        pool.log.has("damaged the shared memory")
    });
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    go.send(()).unwrap();
    assert_eq!(request.wait().unwrap_err().status(), 502);
}

#[test]
fn a_request_placed_after_the_end_of_its_application_is_answered() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let (go, request) = begin_in_two_steps(&pool, &app);
    pool.shutdown(Some(Duration::ZERO));
    go.send(()).unwrap();
    assert_eq!(request.wait().unwrap_err(), ExchangeError::Stopped);
}

#[test]
fn an_application_that_writes_without_pause_does_not_stop_the_control_thread() {
    let pool = Pool::new();
    let script = pool.folder.path().join("host");
    files::script(
        &script,
        "#!/bin/sh\nwhile :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done\n",
    );
    *pool.launcher.program.lock().unwrap() = Some(script);
    let manager = pool.manager.clone();
    let spec = pool.spec("loud", Processes::Fixed(1));
    let preparing = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| pool.control(async move { manager.prepare(vec![spec]).await.is_err() }));
        wait_until("it writes", || pool.log.has("output of loud: aaa"));
        let pids = pool.launcher.pids.lock().unwrap().clone();
        for pid in pids {
            signal::send(pid, SIGKILL).unwrap();
        }
        waiting.join().unwrap()
    });
    assert!(preparing);
}

#[test]
fn a_full_disk_has_its_own_error() {
    let pool = Pool::new();
    let small = pool.folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if !is_root() {
        skip!("mounting a file system needs root");
    }
    let place = small.to_str().unwrap();
    workers::run(&["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]);
    let is_mounted = || {
        std::fs::read_to_string("/proc/self/mounts")
            .unwrap()
            .contains(place)
    };
    wait_until("it is mounted", is_mounted);
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.spool = small.clone().into();
    let app = pool.app(spec);
    let body = vec![1; 3 << 20];
    let error = pool
        .spawn(fetch(
            Arc::clone(&app),
            "/echo".to_owned(),
            Content::Spooled(body),
        ))
        .wait()
        .unwrap_err();
    assert_eq!(error.status(), 503);
    assert!(
        format!("{error:?}").contains(&small.display().to_string()),
        "{error:?}"
    );
    let fits = vec![2; 700 << 10];
    let response = pool
        .spawn(fetch(
            Arc::clone(&app),
            "/echo".to_owned(),
            Content::Spooled(fits.clone()),
        ))
        .wait()
        .unwrap();
    assert_eq!(
        response,
        Response {
            status: 200,
            body: fits
        }
    );
    pool.shutdown(Some(Duration::ZERO));
    drop(app);
    workers::run(&["/bin/umount", "-l", place]);
    wait_until("it is unmounted", || !is_mounted());
}

#[test]
fn a_stop_waits_for_requests_and_takes_no_more() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    let (pid, _) = pid_of(&pool, &app);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().idle == 0);
    let holder = Arc::clone(&app);
    drop(app);
    gate.open();
    assert_eq!(slow.wait().unwrap().status, 200);
    pool.shutdown(Some(Duration::ZERO));
    assert!(!signal::exists(pid));
    assert!(matches!(
        pool.get(&holder, "/hello").unwrap_err(),
        harness::Failed::Submit(SubmitError::Stopped)
    ));
}

#[test]
fn a_stop_with_a_deadline_ends_hanging_requests() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let hang = pool.begin(&app, "/hang");
    wait_until("it has begun", || app.status().idle == 1);
    pool.shutdown(Some(Duration::from_millis(200)));
    assert!(hang.wait().is_err());
}

#[test]
fn an_idle_application_costs_no_cpu() {
    let pool = Pool::new();
    // The other application shows that time has passed for the supervisors: its worker ends after its idle timeout.
    let other = pool.spec("other", dynamic(1, 0, Duration::from_millis(200)));
    pool.configure(vec![pool.spec("demo", Processes::Fixed(4)), other])
        .unwrap();
    let app = pool.manager.application("demo").unwrap();
    let other = pool.manager.application("other").unwrap();
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    let pid = pid_of(&pool, &app).0;
    let pass = || {
        assert_eq!(pool.get(&other, "/hello").unwrap().status, 200);
        wait_until("the other's worker leaves", || other.status().running == 0);
    };
    let is_asleep = || {
        let stat = tutti_sys::proc::stat(pid).unwrap();
        stat.state == 'S' && app.status().idle == 4
    };
    wait_until("it sleeps", is_asleep);
    // The supervisor's last tick.
    pass();
    let runs = || std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let before = runs();
    pass();
    pass();
    assert_eq!(runs(), before);
}

/// The status and error of a client that got no response.
fn refusal(failed: harness::Failed) -> (u16, ExchangeError) {
    match failed {
        harness::Failed::Exchange(error) => (error.status(), error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_numbers_and_limits_leave_the_processes_alone() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(2)));
    let (first, _) = pid_of(&pool, &app);
    let mut spec = pool.spec("demo", Processes::Fixed(4));
    spec.common.limits.timeout = OptionalLimit(Some(SHORT));
    pool.configure(vec![spec.clone()]).unwrap();
    wait_until("there are four", || app.status().running == 4);
    assert!(signal::exists(first), "it was not replaced");
    assert_eq!(
        pool.get(&app, "/hang").unwrap_err().status(),
        504,
        "the limit holds"
    );
    wait_until("the one that hung is replaced", || {
        app.status().running == 4 && app.status().idle == 4
    });
    // Fewer: idle ones end, and running requests are finished.
    spec.common.limits.timeout = OptionalLimit(None);
    pool.configure(vec![spec.clone()]).unwrap();
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().idle == 3);
    spec.common.processes = Processes::Fixed(1);
    pool.configure(vec![spec.clone()]).unwrap();
    wait_until("one is left", || app.status().running == 1);
    gate.open();
    assert_eq!(slow.wait().unwrap().status, 200);
    spec.common.limits.requests = OptionalLimit(Some(3));
    pool.configure(vec![spec.clone()]).unwrap();
    pool.settle();
    for _ in 0..20 {
        assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    }
    let count: u32 = pool.get(&app, "/count").unwrap().text().parse().unwrap();
    assert!(count <= 3, "{count} requests by one worker");
    let launches = || {
        pool.launcher
            .launches
            .load(std::sync::atomic::Ordering::SeqCst)
    };
    assert_eq!(launches(), 1);
    // Anything else rolls.
    spec.common
        .environment
        .insert("A".to_owned(), "b".to_owned());
    pool.configure(vec![spec]).unwrap();
    assert_eq!(launches(), 2);
}

#[test]
fn more_processes_than_the_segment_has_room_for_are_another_application() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", Processes::Fixed(1)));
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    pool.configure(vec![
        pool.spec("demo", dynamic(200, 1, Duration::from_secs(9))),
    ])
    .unwrap();
    let grown = pool.manager.application("demo").unwrap();
    assert!(!Arc::ptr_eq(&app, &grown));
    assert_eq!(pool.get(&grown, "/hello").unwrap().status, 200);
}

#[test]
fn a_spool_is_kept_with_the_processes_that_are_kept() {
    let pool = Pool::new();
    let folder = pool.folder.path().join("spools");
    std::fs::create_dir(&folder).unwrap();
    let spec = |processes| AppSpec {
        spool: folder.clone().into(),
        ..pool.spec("demo", processes)
    };
    let first = spec(Processes::Fixed(1));
    assert!(!pool.manager.has_spool_for(&first));
    pool.app(first);
    // From now on another spool cannot be created.
    std::fs::remove_dir(&folder).unwrap();
    for processes in [
        Processes::Fixed(2),
        // More than the segment has room for.
        dynamic(200, 1, Duration::from_secs(9)),
    ] {
        let next = spec(processes);
        assert!(pool.manager.has_spool_for(&next));
        let app = pool.app(next);
        assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    }
    let mut changed = spec(Processes::Fixed(2));
    orders(&mut changed, &json!({"changed": true}));
    assert!(!pool.manager.has_spool_for(&changed));
    let failures = pool.configure(vec![changed]).unwrap_err();
    assert!(
        format!("{failures:?}").contains("create spool"),
        "{failures:?}"
    );
}

#[test]
fn a_request_waits_in_the_queue_no_longer_than_it_may() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    let app = pool.app(spec.clone());
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().idle == 0);
    let unlimited = spec.clone();
    spec.common.limits.queue.wait = OptionalLimit(Some(Duration::from_millis(100)));
    pool.configure(vec![spec]).unwrap();
    let error = refusal(pool.get(&app, "/hello").unwrap_err());
    assert_eq!(error, (503, ExchangeError::QueueWait));
    assert!(error.1.retry_after().is_some());
    gate.open();
    assert_eq!(
        slow.wait().unwrap().status,
        200,
        "the running one may continue"
    );
    pool.configure(vec![unlimited]).unwrap();
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn the_number_of_waiting_requests_is_limited() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.queue.length = 2;
    let app = pool.app(spec);
    let gate = Gate::new();
    let mut begun = vec![pool.begin(&app, &gate.target())];
    wait_until("it has begun", || app.status().idle == 0);
    for waiting in 1..=2 {
        begun.push(pool.begin(&app, "/hello"));
        wait_until("it waits", || app.status().queued == waiting);
    }
    match pool.get(&app, "/hello").unwrap_err() {
        harness::Failed::Submit(error @ SubmitError::QueueFull { .. }) => {
            assert_eq!(error.status(), 503);
            assert!(error.retry_after().is_some());
        }
        other => panic!("{other:?}"),
    }
    gate.open();
    for request in begun {
        assert_eq!(request.wait().unwrap().status, 200);
    }
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn a_worker_that_has_grown_is_replaced_after_its_request() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.memory = OptionalLimit(Some(64 << 20));
    let app = pool.app(spec);
    let (pid, _) = pid_of(&pool, &app);
    assert_eq!(pool.get(&app, "/grow?mb=16").unwrap().status, 200);
    assert_eq!(pool.get(&app, "/grow?mb=80").unwrap().status, 200);
    wait_until("it is replaced", || !signal::exists(pid));
    assert_ne!(pid_of(&pool, &app).0, pid);
    pool.log
        .wait_for("more than `limits.memory`, and is replaced");
    assert!(!pool.log.has("Error"), "{}", pool.log.all());
}

#[test]
fn a_worker_that_grows_beyond_all_bounds_is_killed() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    spec.common.limits.memory_max = Some(OptionalLimit(Some(64 << 20)));
    let app = pool.app(spec);
    let (pid, _) = pid_of(&pool, &app);
    // It keeps its memory and does not return.
    let error = refusal(pool.get(&app, "/grow?mb=128&ms=60000").unwrap_err());
    assert_eq!(error.0, 502);
    wait_until("it is gone", || !signal::exists(pid));
    pool.log
        .wait_for("more than `limits.memory_max`, and is killed");
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn a_restart_ends_even_when_a_request_hangs() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(2));
    spec.common.limits.drain_timeout = OptionalLimit(Some(Duration::from_millis(200)));
    let app = pool.app(spec);
    let hang = pool.begin(&app, "/hang?me");
    wait_until("it has begun", || app.status().idle == 1);
    let before: Vec<i32> = pool.launcher.pids.lock().unwrap().iter().copied().collect();
    pool.restart("demo").unwrap();
    assert_eq!(
        refusal(hang.wait().unwrap_err()),
        (504, ExchangeError::Drained)
    );
    wait_until("the old prototype has ended", || !signal::exists(before[0]));
    pool.log
        .wait_for("is draining and still serving `GET /hang?me`");
    pool.log.wait_for("does not end and is killed");
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn a_removed_application_ends_even_when_a_request_hangs() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(2));
    spec.common.limits.drain_timeout = OptionalLimit(Some(SHORT));
    let app = pool.app(spec);
    let (pid, _) = pid_of(&pool, &app);
    let hang = pool.begin(&app, "/hang");
    wait_until("it has begun", || app.status().idle == 1);
    pool.configure(vec![]).unwrap();
    assert_eq!(
        refusal(hang.wait().unwrap_err()),
        (504, ExchangeError::Drained)
    );
    drop(app);
    wait_until("its processes have ended", || {
        !signal::exists(pid)
            && pool
                .launcher
                .pids
                .lock()
                .unwrap()
                .iter()
                .all(|pid| !signal::exists(*pid))
    });
}

#[test]
fn a_failing_application_is_kept_and_retried_if_requested() {
    let pool = Pool::new();
    *pool.launcher.refuse.lock().unwrap() = Some("the database is down".to_owned());
    let manager = pool.manager.clone();
    let specs = vec![pool.spec("demo", Processes::Fixed(1))];
    let failures = pool.control(async move {
        let (prepared, starts) = manager.prepare_at_once(specs);
        prepared.commit();
        let mut failures = Vec::new();
        starts.each_failure(|failure| failures.push(failure)).await;
        failures
    });
    assert_eq!(failures.len(), 1);
    let app = pool.manager.application("demo").unwrap();
    match pool.get(&app, "/hello").unwrap_err() {
        harness::Failed::Submit(SubmitError::StartFailed(reason)) => {
            assert!(reason.contains("the database is down"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    wait_until("it is tried again", || app.status().failures > 2);
    *pool.launcher.refuse.lock().unwrap() = None;
    wait_until("it is up", || app.status().running == 1);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    assert_eq!(app.status().last_failure, None);
}

/// Issue 28, 1.3: a slow start delayed all other changes.
#[test]
fn a_slow_start_delays_only_requests_of_its_own_application() {
    let pool = Pool::new();
    let gate = pool.folder.path().join("gate");
    std::fs::write(&gate, "").unwrap();
    let mut slow = pool.spec("slow", Processes::Fixed(1));
    orders(&mut slow, &json!({"load_while": gate}));
    let manager = pool.manager.clone();
    let specs = vec![slow, pool.spec("quick", Processes::Fixed(1))];
    let starts = pool.control(async move {
        let (prepared, starts) = manager.prepare_at_once(specs);
        prepared.commit();
        starts
    });
    let (slow, quick) = ["slow", "quick"]
        .map(|name| pool.manager.application(name).unwrap())
        .into();
    let waiting = pool.begin(&slow, "/hello");
    assert_eq!(pool.get(&quick, "/hello").unwrap().status, 200);
    assert_eq!((slow.status().running, slow.status().active), (0, 1));
    std::fs::remove_file(&gate).unwrap();
    assert_eq!(waiting.wait().unwrap().status, 200);
    let failures = pool.control(async move {
        let mut failures = 0;
        starts.each_failure(|_| failures += 1).await;
        failures
    });
    assert_eq!(failures, 0);
}

#[test]
fn requests_survive_one_failed_start_but_not_several() {
    let pool = Pool::new();
    let [once, failing] = ["once", "failing"].map(|name| pool.folder.path().join(name));
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    orders(
        &mut spec,
        &json!({"fail_once": once, "fail_while": failing}),
    );
    let app = pool.app(spec);
    std::fs::write(&once, "").unwrap();
    assert!(pool.get(&app, "/crash").is_err());
    let waiting = pool.begin(&app, "/hello");
    assert_eq!(waiting.wait().unwrap().status, 200, "it was up before");
    assert_eq!(app.status().failures, 1);
    std::fs::write(&failing, "").unwrap();
    assert!(pool.get(&app, "/crash").is_err());
    wait_until("a start has failed", || app.status().failures > 1);
    let waiting = pool.begin(&app, "/hello");
    // On a busy machine it may arrive after they have failed.
    match waiting.wait().unwrap_err() {
        harness::Failed::Exchange(ExchangeError::StartFailed(reason))
        | harness::Failed::Submit(SubmitError::StartFailed(reason)) => {
            assert!(reason.contains("not yet"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert!(app.status().failures > 4, "not at once");
    match pool.get(&app, "/hello").unwrap_err() {
        harness::Failed::Submit(SubmitError::StartFailed(_)) => {}
        other => panic!("{other:?}"),
    }
    std::fs::remove_file(&failing).unwrap();
    wait_until("it is up", || app.status().running == 1);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// Issue 11: each process of a failed start counted separately, so that requests were refused after one failure of four processes.
#[test]
fn starts_that_fail_together_count_once() {
    let pool = Pool::new();
    let failing = pool.folder.path().join("failing");
    let held = pool.folder.path().join("held");
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    orders(
        &mut spec,
        &json!({"fail_while": failing, "start_while": held}),
    );
    let app = pool.app(spec.clone());
    let prototype = pool.launcher.prototype();
    let before = processes::tree(prototype);
    std::fs::write(&failing, "").unwrap();
    std::fs::write(&held, "").unwrap();
    spec.common.processes = Processes::Fixed(3);
    pool.configure(vec![spec]).unwrap();
    let starting = || {
        let all = processes::tree(prototype).into_iter();
        all.filter(|process| before.iter().all(|known| known.pid != process.pid))
            .map(|process| process.pid)
            .collect::<Vec<_>>()
    };
    wait_until("two are starting", || starting().len() == 2);
    // A third, started after the first pause, waits for longer than both.
    let mut released = String::new();
    for (pid, failures) in starting().into_iter().zip(1..) {
        released.push_str(&format!("{pid}\n"));
        std::fs::write(&held, &released).unwrap();
        wait_until("it has failed", || app.status().failures == failures);
    }
    assert_eq!(
        pool.log.count("not yet; trying again in 100 ms"),
        2,
        "{}",
        pool.log.all()
    );
    std::fs::remove_file(&failing).unwrap();
    std::fs::remove_file(&held).unwrap();
    wait_until("all are up", || app.status().running == 3);
}

/// It would never fork again, and each worker that it was asked for would keep its number.
#[test]
fn a_prototype_that_does_not_fork_is_replaced() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    let app = pool.app(spec.clone());
    let (first, _) = pid_of(&pool, &app);
    let prototype = pool.launcher.prototype();
    signal::send(prototype, SIGSTOP).unwrap();
    let usual = spec.common.limits.start_timeout;
    spec.common.processes = Processes::Fixed(2);
    spec.common.limits.start_timeout = Duration::from_millis(1);
    pool.configure(vec![spec.clone()]).unwrap();
    wait_until("the start is given up", || app.status().failures >= 1);
    spec.common.limits.start_timeout = usual;
    pool.configure(vec![spec]).unwrap();
    wait_until("it is gone", || !signal::exists(prototype));
    wait_until("there are two new processes", || {
        app.status().running == 2 && !signal::exists(first)
    });
    assert!(!pool.launcher.killed.lock().unwrap().contains(&first));
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

#[test]
fn a_prototype_that_does_not_quit_is_killed() {
    let pool = Pool::new();
    let app = pool.app(pool.spec("demo", dynamic(1, 0, Duration::from_millis(1))));
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    let living = || {
        let pids = pool.launcher.pids.lock().unwrap();
        let living = pids.iter().copied().filter(|pid| signal::exists(*pid));
        living.collect::<Vec<_>>()
    };
    // The one that was started as a trial has ended.
    wait_until("one is left, and its worker's end is known", || {
        let ends = app.measures().ends;
        living().len() == 1 && ends.iter().map(|(_, count)| count).sum::<u64>() == 2
    });
    let prototype = living()[0];
    signal::send(prototype, SIGSTOP).unwrap();
    pool.restart("demo").unwrap();
    wait_until("it is gone", || !signal::exists(prototype));
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// Issue 11: a request for new processes during a roll is refused or included; all of them together are one further roll.
#[test]
fn a_restart_and_a_changed_file_during_a_roll_are_one_roll_more() {
    let pool = Pool::new();
    let code = pool.folder.path().join("code");
    std::fs::create_dir(&code).unwrap();
    let loading = pool.folder.path().join("loading");
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    orders(&mut spec, &json!({"load_while": loading}));
    spec.common.watch = true;
    options_of(&mut spec, "perl", &json!({"script": code.join("app.psgi")}));
    let app = pool.app(spec);
    let launches = || pool.launcher.launches.load(Ordering::SeqCst);
    std::fs::write(&loading, "").unwrap();
    let first = pool.begin_restart("demo");
    wait_until("a roll is under way", || launches() == 2);
    let second = pool.begin_restart("demo");
    std::fs::write(code.join("main.py"), "x").unwrap();
    wait_until("the change is noticed", || {
        pool.log.has("main.py` has changed")
    });
    assert_eq!(launches(), 2);
    std::fs::remove_file(&loading).unwrap();
    first.wait().unwrap();
    second.wait().unwrap();
    assert_eq!(launches(), 3);
    // If another roll were wanted, this would be one more.
    pool.restart("demo").unwrap();
    assert_eq!(launches(), 4);
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
}

/// Issue 11: a changed limit was set for the first thread of each process only, and not divided among the threads.
#[test]
fn a_changed_limit_of_requests_holds_for_every_thread() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    options_of(&mut spec, "perl", &json!({"threads": 2}));
    let app = pool.app(spec.clone());
    spec.common.limits.requests = OptionalLimit(Some(4));
    pool.configure(vec![spec]).unwrap();
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("one thread is occupied", || app.status().active == 1);
    let served = |response: Response| response.text().parse::<u32>().unwrap();
    let by_the_other: Vec<u32> = (0..2)
        .map(|_| served(pool.get(&app, "/count").unwrap()))
        .collect();
    assert_eq!(by_the_other, [1, 2]);
    let third = pool.begin(&app, "/count");
    gate.open();
    assert_eq!(slow.wait().unwrap().status, 200);
    let third = served(third.wait().unwrap());
    assert!(third <= 2, "{third} requests by one thread");
}

/// An application of the sample with an event loop in each process.
fn looping(pool: &Pool, processes: u32) -> tutti_pool::AppSpec {
    let mut spec = pool.spec("demo", Processes::Fixed(processes));
    options_of(&mut spec, "python", &json!({"module": "m"}));
    spec.common.limits.concurrency = NonZeroU32::new(16);
    spec
}

#[test]
fn a_loop_is_not_killed_for_one_late_request() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.timeout = OptionalLimit(Some(SHORT));
    let mut other = spec.clone();
    other.name = "other".into();
    pool.configure(vec![spec, other]).unwrap();
    let app = pool.manager.application("demo").unwrap();
    let other = pool.manager.application("other").unwrap();
    let (pid, _) = pid_of(&pool, &app);
    let (killed, _) = pid_of(&pool, &other);
    assert_eq!(pool.get(&app, "/stuck").unwrap_err().status(), 504);
    // The process whose loop does not move is killed before this time.
    assert_eq!(pool.get(&other, "/hang").unwrap_err().status(), 504);
    wait_until("the other is killed", || !signal::exists(killed));
    assert_eq!(pid_of(&pool, &app).0, pid);
    assert_eq!(pool.log.count("does not finish"), 1, "{}", pool.log.all());
    assert_eq!(app.status().restarts, 0);
}

#[test]
fn a_loop_that_does_not_move_is_killed() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.timeout = OptionalLimit(Some(SHORT));
    let app = pool.app(spec.clone());
    let (pid, _) = pid_of(&pool, &app);
    assert_eq!(pool.get(&app, "/hang").unwrap_err().status(), 504);
    wait_until("it is killed", || !signal::exists(pid));
    wait_until("it is replaced", || app.status().idle == 1);
    pool.lift_timeout(&spec);
    assert_ne!(pid_of(&pool, &app).0, pid);
}

#[test]
fn loops_hold_many_requests_and_are_replaced_without_losing_any() {
    let pool = Pool::new();
    let app = pool.app(looping(&pool, 2));
    let gate = Gate::new();
    let slow: Vec<_> = (0..20).map(|_| pool.begin(&app, &gate.target())).collect();
    wait_until("all have begun", || {
        let status = app.status();
        status.active == 20 && status.queued == 0
    });
    pool.restart("demo").unwrap();
    gate.open();
    for pending in slow {
        assert_eq!(pending.wait().unwrap().text(), "waited");
    }
    wait_until("the old ones have left", || app.status().running == 2);
    assert_eq!(
        pool.get(&app, "/hello").unwrap().text(),
        "Hello from a loop"
    );
}

/// It counted as a running process until its last request ended, and a response without an end stopped the application.
#[test]
fn a_loop_at_its_limit_of_requests_is_replaced_while_one_goes_on() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.requests = OptionalLimit(Some(2));
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().active == 1);
    let (first, _) = pid_of(&pool, &app);
    assert_ne!(pid_of(&pool, &app).0, first);
    assert!(signal::exists(first));
    gate.open();
    assert_eq!(slow.wait().unwrap().text(), "waited");
    wait_until("it has ended", || !signal::exists(first));
    assert_eq!(app.status().restarts, 0);
}

/// No process was started for a second, and requests waited.
#[test]
fn requests_do_not_wait_for_the_end_of_a_loop_at_its_limit() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.requests = OptionalLimit(Some(2));
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().active == 1);
    let (first, second) = (pool.begin(&app, "/hello"), pool.begin(&app, "/hello"));
    assert_eq!(first.wait().unwrap().status, 200);
    assert_eq!(second.wait().unwrap().status, 200);
    pool.log
        .wait_for("takes no more requests while others wait");
    gate.open();
    assert_eq!(slow.wait().unwrap().text(), "waited");
}

/// Requests waited for the end of a response without an end.
#[test]
fn a_loop_that_hands_its_place_over_is_replaced_if_one_goes_on() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.drain_timeout = OptionalLimit(None);
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().active == 1);
    let (first, _) = pid_of(&pool, &app);
    assert_eq!(pool.get(&app, "/hand_over").unwrap().status, 200);
    assert_ne!(pid_of(&pool, &app).0, first);
    pool.log
        .wait_for("takes no more requests and has not ended");
    gate.open();
    assert_eq!(slow.wait().unwrap().text(), "waited");
    wait_until("it has ended", || !signal::exists(first));
    assert_eq!(app.status().restarts, 0);
}

/// It counted as running until its last request ended: the thread that took no more had not had any.
#[test]
fn a_process_that_a_signal_ends_is_replaced_while_one_of_its_threads_goes_on() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    options_of(&mut spec, "perl", &json!({"threads": 2}));
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || {
        let status = app.status();
        status.active == 1 && status.queued == 0
    });
    let first = app.measures().pids[0];
    signal::send(first, SIGTERM).unwrap();
    pool.log
        .wait_for("takes no more requests and has not ended");
    assert_ne!(pid_of(&pool, &app).0, first);
    gate.open();
    assert_eq!(slow.wait().unwrap().text(), "waited");
    wait_until("it has ended", || !signal::exists(first));
}

/// They waited for the end of a process that takes no more, and no other one could be started.
#[test]
fn requests_get_the_reason_if_no_process_follows_one_at_its_limit() {
    let pool = Pool::new();
    let fault = pool.folder.path().join("fault");
    let mut spec = looping(&pool, 1);
    spec.common.limits.requests = OptionalLimit(Some(2));
    spec.common.limits.drain_timeout = OptionalLimit(None);
    orders(&mut spec, &json!({"fail_while": fault}));
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow = pool.begin(&app, &gate.target());
    wait_until("it has begun", || app.status().active == 1);
    std::fs::write(&fault, "").unwrap();
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    let error = pool.get(&app, "/hello").unwrap_err();
    assert_eq!(error.status(), 503);
    assert!(format!("{error:?}").contains("not yet"), "{error:?}");
    std::fs::remove_file(&fault).unwrap();
    wait_until("one follows", || pool.get(&app, "/hello").is_ok());
    gate.open();
    assert_eq!(slow.wait().unwrap().text(), "waited");
}

/// Each was kept for its drain time, until no number was left for another process.
#[test]
fn at_most_as_many_loops_at_their_limit_go_on_as_there_are_processes() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.requests = OptionalLimit(Some(2));
    spec.common.limits.drain_timeout = OptionalLimit(None);
    let app = pool.app(spec);
    let gate = Gate::new();
    let begin = || {
        let slow = pool.begin(&app, &gate.target());
        wait_until("it has begun", || app.status().queued == 0);
        pid_of(&pool, &app);
        slow
    };
    let (first, second) = (begin(), begin());
    pool.get(&app, "/hello").unwrap();
    assert_eq!(
        refusal(first.wait().unwrap_err()),
        (504, ExchangeError::Drained)
    );
    pool.log.wait_for("more than `processes` are draining");
    gate.open();
    assert_eq!(second.wait().unwrap().text(), "waited");
}

/// A restart waited in silence until one of the old processes had ended.
#[test]
fn the_oldest_draining_process_ends_when_another_one_needs_its_place() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    options_of(&mut spec, "perl", &json!({"threads": 16}));
    spec.common.limits.drain_timeout = OptionalLimit(None);
    let app = pool.app(spec);
    let gate = Gate::new();
    // A segment has places for two processes and four more.
    let slow: Vec<_> = (1..=6)
        .map(|count| {
            let slow = pool.begin(&app, &gate.target());
            wait_until("it has begun", || {
                let status = app.status();
                (status.active, status.queued) == (count, 0)
            });
            pool.restart("demo").unwrap();
            slow
        })
        .collect();
    pool.log.wait_for("another process needs its place");
    gate.open();
    let is_answered: Vec<_> = slow.into_iter().map(|slow| slow.wait().is_ok()).collect();
    assert_eq!(is_answered, [false, true, true, true, true, true]);
}

/// Requests that were about to end were broken off by two restarts within moments.
#[test]
fn a_draining_process_has_a_second_although_another_one_needs_its_place() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(5));
    options_of(&mut spec, "perl", &json!({"threads": 5}));
    let app = pool.app(spec);
    let slow: Vec<_> = (0..25).map(|_| pool.begin(&app, "/gone")).collect();
    wait_until("all threads are at one", || {
        let status = app.status();
        status.active == 25 && status.queued == 0
    });
    // A segment has places for ten processes and four more.
    let begun = Instant::now();
    pool.restart("demo").unwrap();
    pool.restart("demo").unwrap();
    let took = begun.elapsed();
    pool.log.wait_for("another process needs its place");
    assert!(took >= Duration::from_secs(1), "it had {took:?}");
    assert_eq!(app.status().active, 20);
    slow.into_iter().for_each(Pending::leave);
}

/// They waited until the drain time of the old process was over.
#[test]
fn requests_do_not_wait_for_the_slots_of_a_draining_process() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    // As many as the fewest slots of a segment.
    spec.common.limits.concurrency = NonZeroU32::new(256);
    spec.common.limits.drain_timeout = OptionalLimit(None);
    let app = pool.app(spec);
    let begin = |_| pool.begin(&app, "/sleep?ms=3600000");
    let slow: Vec<_> = (0..256).map(begin).collect();
    wait_until("they have begun", || {
        let status = app.status();
        status.active == 256 && status.queued == 0
    });
    pool.restart("demo").unwrap();
    assert_eq!(pool.get(&app, "/hello").unwrap().status, 200);
    assert_eq!(app.status().active, 256);
    slow.into_iter().for_each(Pending::leave);
}

/// Its end was counted as `retired`, and a failure was not logged.
#[test]
fn a_process_at_its_limit_that_fails_is_reported_as_such() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    options_of(&mut spec, "perl", &json!({"threads": 2}));
    spec.common.limits.requests = OptionalLimit(Some(2));
    let app = pool.app(spec);
    let gate = Gate::new();
    // One thread goes on after its answer, and the other one ends.
    let begin = || {
        let target = gate.target().replace("/wait", "/finish");
        assert_eq!(pool.get(&app, &target).unwrap().text(), "finished early");
        pid_of(&pool, &app).0
    };
    let failing = begin();
    let logged = "takes no more requests";
    pool.log.wait_for(logged);
    signal::send(failing, SIGKILL).unwrap();
    pool.log
        .wait_for("was killed by signal 9 while it was draining");
    let good = begin();
    wait_until("it is drained", || pool.log.count(logged) == 2);
    gate.open();
    wait_until("the other has ended", || !signal::exists(good));
    pool.log.wait_for("ended after 2 requests");
    let ends = app.measures().ends;
    let ends: Vec<_> = ends.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(ends, [(End::Left, 1), (End::Killed, 1)]);
    assert_eq!(app.status().restarts, 1, "a crash");
}

/// It counted as a new process that has done its part, and the old ones were drained.
#[test]
fn a_new_process_at_its_limit_that_fails_does_not_complete_a_restart() {
    let pool = Pool::new();
    let held = pool.folder.path().join("held");
    let mut spec = pool.spec("demo", Processes::Fixed(2));
    options_of(&mut spec, "perl", &json!({"threads": 2}));
    // One for each thread.
    spec.common.limits.requests = OptionalLimit(Some(2));
    orders(&mut spec, &json!({"start_while": held}));
    let app = pool.app(spec);
    let gate = Gate::new();
    let slow: Vec<_> = (0..4).map(|_| pool.begin(&app, &gate.target())).collect();
    wait_until("all threads of the old ones are at one", || {
        let status = app.status();
        status.active == 4 && status.queued == 0
    });
    std::fs::write(&held, "").unwrap();
    let old = pool.launcher.prototype();
    let restart = pool.begin_restart("demo");
    let new = || {
        let prototypes = pool.launcher.pids.lock().unwrap().clone();
        let new = prototypes.into_iter().find(|pid| *pid != old);
        let all = new.map(processes::tree).unwrap_or_default().into_iter();
        let workers = all
            .map(|process| process.pid)
            .filter(|pid| new != Some(*pid));
        workers.collect::<Vec<_>>()
    };
    wait_until("two are starting", || new().len() == 2);
    let both = new();
    std::fs::write(&held, format!("{}\n", both[0])).unwrap();
    let target = gate.target().replace("/wait", "/finish");
    assert_eq!(pool.get(&app, &target).unwrap().text(), "finished early");
    assert_eq!(pid_of(&pool, &app).0, both[0]);
    pool.log.wait_for("takes no more requests");
    signal::send(both[0], SIGKILL).unwrap();
    pool.log.wait_for("while it was draining");
    std::fs::write(&held, format!("{}\n", both[1])).unwrap();
    wait_until("the old ones are there beside it", || {
        app.status().running == 3
    });
    std::fs::remove_file(&held).unwrap();
    restart.wait().unwrap();
    gate.open();
    for slow in slow {
        assert_eq!(slow.wait().unwrap().text(), "waited");
    }
}

#[test]
fn a_loop_at_its_limit_of_requests_has_the_drain_time() {
    let pool = Pool::new();
    let mut spec = looping(&pool, 1);
    spec.common.limits.requests = OptionalLimit(Some(1));
    spec.common.limits.drain_timeout = OptionalLimit(Some(Duration::from_millis(200)));
    let app = pool.app(spec);
    let endless = pool.begin(&app, "/stuck");
    assert_eq!(
        refusal(endless.wait().unwrap_err()),
        (504, ExchangeError::Drained)
    );
    pool.log
        .wait_for("is draining and still serving `GET /stuck`");
}

#[test]
fn threads_of_one_process_serve_and_die_together() {
    let pool = Pool::new();
    let mut spec = pool.spec("demo", Processes::Fixed(1));
    options_of(&mut spec, "perl", &json!({"threads": 3}));
    let app = pool.app(spec);
    assert_eq!((app.status().running, app.status().idle), (1, 1));
    let (pid, _) = pid_of(&pool, &app);
    let hanging: Vec<_> = (0..3).map(|_| pool.begin(&app, "/hang")).collect();
    wait_until("all threads are at one", || {
        let status = app.status();
        status.active == 3 && status.queued == 0 && status.idle == 0
    });
    let queued = pool.begin(&app, "/pid");
    signal::send(pid, SIGKILL).unwrap();
    for pending in hanging {
        assert_eq!(pending.wait().unwrap_err().status(), 502);
    }
    assert_eq!(queued.wait().unwrap().status, 200);
    wait_until("the restart is counted", || app.status().restarts == 1);
}

#[test]
fn a_change_of_a_watched_file_restarts_and_a_failure_keeps_the_old_processes() {
    let pool = Pool::new();
    let code = pool.folder.path().join("code");
    std::fs::create_dir(&code).unwrap();
    let mut spec = pool.spec("demo", Processes::Fixed(2));
    spec.common.watch = true;
    options_of(&mut spec, "perl", &json!({"script": code.join("app.psgi")}));
    let app = pool.app(spec);
    let (first, _) = pid_of(&pool, &app);
    std::fs::write(code.join("data.sqlite"), "x").unwrap();
    std::fs::write(code.join("main.py"), "x").unwrap();
    wait_until("it is restarted", || !signal::exists(first));
    pool.log.wait_for("main.py` has changed");
    assert!(!pool.log.has("data.sqlite"), "{}", pool.log.all());
    let (second, _) = pid_of(&pool, &app);
    *pool.launcher.refuse.lock().unwrap() = Some("a syntax error".to_owned());
    std::fs::write(code.join("main.py"), "y").unwrap();
    wait_until("the failure is logged", || {
        pool.log
            .has("a syntax error; the old processes keep running")
    });
    wait_until("so does the status", || {
        let last = app.status().last_failure;
        last.is_some_and(|failure| failure.message.contains("a syntax error"))
    });
    // Either process may have answered.
    pid_of(&pool, &app);
    assert!(signal::exists(second));
    *pool.launcher.refuse.lock().unwrap() = None;
    std::fs::write(code.join("main.py"), "z").unwrap();
    wait_until("it is restarted again", || !signal::exists(second));
    wait_until("all is well", || app.status().last_failure.is_none());
}
