//! Workers with event loops and with several threads, against a segment without a server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use support::{launch, start};
use tutti_sys::signal;
use tutti_testkit::{Gate, Prototype, wait_until};
use tutti_wire::control::{ExitStatus, FromPrototype, Start};
use tutti_wire::{BodyRef, Fate, MessageOpcode, Readiness, SlotId};

fn looping(concurrency: u32) -> Prototype {
    let pool = launch(&Start {
        worker_events: true,
        workers: Some(8),
        concurrency: concurrency.try_into().unwrap(),
        ..start()
    });
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool
}

fn threaded(threads: u32) -> Prototype {
    let pool = launch(&Start {
        workers: Some(8),
        worker_threads: threads.try_into().unwrap(),
        ..start()
    });
    assert_eq!(pool.receive(), FromPrototype::Ready);
    pool
}

#[test]
fn a_loop_serves_many_requests_at_once() {
    let pool = looping(32);
    pool.fork(0);
    let gate = Gate::new();
    let waiting: Vec<_> = (0..20)
        .map(|_| pool.submit(&gate.target(), &BodyRef::None))
        .collect();
    wait_until("all begun", || pool.segment.worker_snapshot(0).open == 20);
    assert_eq!(pool.get("/open"), "21\n");
    gate.open();
    for slot in waiting {
        assert_eq!(pool.answer(slot).body, b"waited\n");
    }
    wait_until("none is open", || pool.segment.worker_snapshot(0).open == 0);
}

/// Each request meets a sleeping or nearly sleeping loop; a lost wake-up is a request without a response.
#[test]
fn no_wake_up_is_lost() {
    let pool = looping(4);
    pool.fork(0);
    pool.fork(1);
    for round in 0..3000 {
        if round % 3 == 0 {
            let slots = [(); 5].map(|()| pool.submit("/hello", &BodyRef::None));
            for slot in slots {
                assert!(pool.answer(slot).is_finished);
            }
        } else {
            assert_eq!(pool.get("/hello"), "Hello from a loop\n");
        }
    }
}

#[test]
fn a_full_loop_takes_no_more_and_learns_of_disconnected_clients() {
    let pool = looping(2);
    pool.fork(0);
    let first = pool.submit("/sleep?ms=60000", &BodyRef::None);
    let second = pool.submit("/sleep?ms=60000", &BodyRef::None);
    wait_until("both begun and the loop asleep", || {
        let snapshot = pool.segment.worker_snapshot(0);
        snapshot.open == 2 && snapshot.asleep
    });
    assert!(!pool.segment.worker_snapshot(0).idle);
    let third = pool.submit("/hello", &BodyRef::None);
    assert_eq!(pool.segment.queue_len(), 1);
    pool.segment.client_gone(first);
    assert_eq!(pool.answer(third).body, b"Hello from a loop\n");
    assert!(!pool.answer(first).is_finished, "given up");
    pool.segment.client_gone(second);
    assert!(!pool.answer(second).is_finished, "given up");
}

/// Requests that a full loop leaves are taken by another one, even if the full one was woken last.
#[test]
fn a_full_loop_passes_wake_ups_on() {
    let pool = looping(1);
    for worker in 0..3 {
        pool.fork(worker);
    }
    let slots: Vec<_> = (0..30)
        .map(|_| pool.submit("/sleep?ms=5", &BodyRef::None))
        .collect();
    for slot in slots {
        assert_eq!(pool.answer(slot).body, b"slept\n");
    }
}

#[test]
fn bodies_stream_both_ways_through_a_loop() {
    let pool = looping(8);
    pool.fork(0);
    let big = pool.submit("/big?n=1000000", &BodyRef::None);
    let body = pool.answer(big).body;
    assert_eq!(body.len(), 1_000_000);
    for (number, line) in body.chunks(64).enumerate() {
        let expected = format!("{number:063}\n");
        assert_eq!(line, &expected.as_bytes()[..line.len()]);
    }
    let sent: Vec<u8> = (0..500_000u32).map(|n| (n % 251) as u8).collect();
    let slot = pool.submit("/echo", &BodyRef::Stream { len: None });
    let (mut written, mut echoed) = (0, Vec::new());
    while pool.segment.response_head(slot).unwrap().is_none() {
        if pool.segment.request_stream_write(slot, &sent[..1]) == 1 {
            written = 1;
        }
        pool.completion(slot);
    }
    loop {
        written += pool.segment.request_stream_write(slot, &sent[written..]);
        if written == sent.len() {
            pool.segment.request_stream_finish(slot);
        }
        let ready = pool.segment.response_ready(slot).unwrap();
        ready.copy_to(&mut echoed);
        pool.segment.response_consume(slot, ready.len());
        assert!(!ready.aborted);
        if ready.finished {
            break;
        }
        if ready.is_empty() {
            pool.completion(slot);
        }
    }
    assert!(pool.segment.free(slot));
    assert_eq!(echoed, sent);
}

/// Sends a message and returns the response message.
fn echo(
    pool: &Prototype,
    slot: SlotId,
    opcode: MessageOpcode,
    message: &[u8],
) -> (MessageOpcode, Vec<u8>) {
    let mut rest = Some(message);
    let mut received = Vec::new();
    loop {
        while let Some(now) = rest
            && let Some(count) = pool.segment.message_write(slot, opcode, now, true)
        {
            rest = (count < now.len()).then(|| &now[count..]);
        }
        while let Some(piece) = pool.segment.message_read(slot).unwrap() {
            piece.copy_to(&mut received);
            let head = piece.head;
            pool.segment.response_consume(slot, piece.consumed());
            if head.is_last {
                assert!(rest.is_none());
                return (head.opcode, received);
            }
        }
        pool.completion(slot);
    }
}

fn connect(pool: &Prototype) -> SlotId {
    let slot = pool.submit_as("/", &BodyRef::Stream { len: None }, true);
    loop {
        if let Some(head) = pool.segment.response_head(slot).unwrap() {
            assert_eq!(head.status, 101);
            return slot;
        }
        pool.completion(slot);
    }
}

#[test]
fn messages_of_a_websocket_cross_whole() {
    let pool = looping(8);
    pool.fork(0);
    let slot = connect(&pool);
    let large: Vec<u8> = (0..1_000_003u32).map(|n| (n % 253) as u8).collect();
    for message in [
        &b"hello"[..],
        b"",
        &large,
        &large[..65_530],
        &large[..65_531],
    ] {
        let (opcode, back) = echo(&pool, slot, MessageOpcode::Binary, message);
        assert_eq!(opcode, MessageOpcode::Binary);
        assert!(
            back == message,
            "{} bytes came back as {}",
            message.len(),
            back.len()
        );
    }
    let close = echo(&pool, slot, MessageOpcode::Text, b"close");
    assert_eq!(close, (MessageOpcode::Close, vec![3, 232]));
    assert!(pool.answer(slot).is_finished);
}

#[test]
fn a_client_that_goes_ends_its_websocket_and_nothing_else() {
    let pool = looping(8);
    pool.fork(0);
    let slot = connect(&pool);
    pool.segment.client_gone(slot);
    assert!(!pool.answer(slot).is_finished);
    assert_eq!(pool.get("/hello"), "Hello from a loop\n");
}

#[test]
fn a_loop_that_is_asked_to_leave_serves_a_websocket_until_its_end() {
    for by_signal in [false, true] {
        let pool = looping(1);
        let pid = pool.fork(0);
        let slot = connect(&pool);
        wait_until("asleep", || pool.segment.worker_snapshot(0).asleep);
        match by_signal {
            false => pool.segment.ask_worker_to_quit(0),
            true => signal::send(pid, libc::SIGTERM).unwrap(),
        }
        wait_until("no more are taken", || {
            pool.segment.worker_snapshot(0).readiness == Readiness::Leaving
        });
        assert_eq!(pool.segment.worker_snapshot(0).open, 1);
        pool.segment.client_gone(slot);
        assert_eq!(pool.exited().1, ExitStatus::Code(0));
    }
}

#[test]
fn the_requests_of_a_killed_loop_are_all_reported() {
    let pool = looping(16);
    let pid = pool.fork(0);
    let slots: Vec<_> = (0..10)
        .map(|_| pool.submit("/stuck", &BodyRef::None))
        .collect();
    wait_until("all begun", || pool.segment.worker_snapshot(0).open == 10);
    signal::send(pid, libc::SIGKILL).unwrap();
    let mut lost: Vec<_> = pool
        .exited()
        .2
        .into_iter()
        .map(|(slot, fate)| {
            assert_eq!(fate, Fate::Begun);
            slot
        })
        .collect();
    lost.sort_unstable();
    let mut expected = slots.clone();
    expected.sort_unstable();
    assert_eq!(lost, expected);
    assert!(slots.iter().all(|slot| pool.segment.free(*slot)));
    pool.fork(0);
    assert_eq!(pool.get("/hello"), "Hello from a loop\n");
}

#[test]
fn threads_of_a_process_serve_side_by_side() {
    let pool = threaded(3);
    let pid = pool.fork(2);
    let gate = Gate::new();
    let slots: Vec<_> = (0..3)
        .map(|_| pool.submit(&gate.target(), &BodyRef::None))
        .collect();
    wait_until("three at once", || {
        (2..5).all(|worker| pool.segment.worker_snapshot(worker).is_busy())
    });
    gate.open();
    for slot in slots {
        assert_eq!(pool.answer(slot).body, b"waited\n");
    }
    let answer = pool.get("/pid");
    assert!(answer.starts_with(&format!("{pid} ")), "{answer}");
    signal::send(pid, libc::SIGTERM).unwrap();
    let (worker, status, fates) = pool.exited();
    assert_eq!((worker, status), (2, ExitStatus::Code(0)));
    assert!(fates.is_empty());
}

#[test]
fn a_panic_in_one_thread_lets_the_others_finish() {
    let pool = threaded(2);
    pool.fork(0);
    let gate = Gate::new();
    let waiting = pool.submit(&gate.target(), &BodyRef::None);
    wait_until("begun", || {
        (0..2).any(|worker| pool.segment.worker_snapshot(worker).is_busy())
    });
    let panicking = pool.submit("/panic", &BodyRef::None);
    assert!(!pool.answer(panicking).is_finished, "given up");
    gate.open();
    assert_eq!(pool.answer(waiting).body, b"waited\n");
    assert_eq!(pool.exited().1, ExitStatus::Code(1));
}

#[test]
fn killed_threads_lose_only_their_own_requests() {
    let pool = threaded(2);
    let pid = pool.fork(0);
    let slots = [(); 2].map(|()| pool.submit("/hang", &BodyRef::None));
    wait_until("both begun", || {
        (0..2).all(|worker| pool.segment.worker_snapshot(worker).is_busy())
    });
    signal::send(pid, libc::SIGKILL).unwrap();
    let mut lost: Vec<_> = pool.exited().2.iter().map(|(slot, _)| *slot).collect();
    lost.sort_unstable();
    assert_eq!(lost, slots);
}
