//! Workers killed at random under load: every request is answered, run by another worker, or reported lost; none runs twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::{launch, start};
use tutti_sys::signal;
use tutti_testkit::PATIENCE;
use tutti_testkit::Prototype;
use tutti_wire::control::{FromPrototype, Start, ToPrototype};
use tutti_wire::{BodyRef, Fate, SlotId};

const REQUESTS: u32 = 20_000;
const IN_FLIGHT: usize = 24;
/// One worker is killed for so many answers, on average.
const ANSWERS_PER_KILL: u32 = 100;
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Small and repeatable (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as u32 % most
    }
}

struct Run {
    pool: Prototype,
    dice: Dice,
    next: u32,
    in_flight: BTreeMap<SlotId, u32>,
    alive: BTreeMap<u32, i32>,
    answered: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    requeued: u32,
    /// Killed, and not reported yet.
    killed: BTreeSet<i32>,
    kills: u32,
}

impl Run {
    fn submit(&mut self) {
        while self.in_flight.len() < IN_FLIGHT && self.next < REQUESTS {
            let slot = self
                .pool
                .submit(&format!("/note?{}", self.next), &BodyRef::None);
            assert!(self.in_flight.insert(slot, self.next).is_none());
            self.next += 1;
        }
    }

    /// Takes the answers; true when there were any.
    fn collect(&mut self) -> bool {
        let mut slots = Vec::new();
        self.pool
            .segment
            .drain_completions(0, |slot| slots.push(slot));
        for &slot in &slots {
            let segment = &self.pool.segment;
            let head = segment.response_head(slot).unwrap();
            let ready = segment.response_ready(slot).unwrap();
            if !ready.finished && !ready.aborted {
                continue;
            }
            let number = self.in_flight.remove(&slot).expect("a slot in use");
            if ready.finished {
                let mut body = Vec::new();
                ready.copy_to(&mut body);
                assert_eq!(head.unwrap().status, 200);
                assert_eq!(body, format!("{number}\n").as_bytes());
                assert!(self.answered.insert(number));
            } else {
                assert!(self.lost.contains(&number), "lost without a report");
            }
            assert!(segment.free(slot));
            if self.dice.below(ANSWERS_PER_KILL) == 0 {
                self.kill();
            }
        }
        !slots.is_empty()
    }

    fn kill(&mut self) {
        let victim = self.dice.below(4) * self.pool.threads.get();
        // Once each: a number that was reaped may be somebody else's.
        if let Some(&pid) = self.alive.get(&victim)
            && self.killed.insert(pid)
        {
            signal::send(pid, libc::SIGKILL).unwrap();
        }
    }

    /// Hears what the prototype has to say, as far as it is there.
    fn receive(&mut self) {
        let now = Timespec::default();
        while poll(
            &mut [PollFd::new(&self.pool.control, PollFlags::IN)],
            Some(&now),
        )
        .unwrap()
            > 0
        {
            match self.pool.receive() {
                FromPrototype::Forked { worker, pid } => {
                    for number in worker..worker + self.pool.threads.get() {
                        self.pool.segment.worker_started(number, pid as u32);
                    }
                    self.alive.insert(worker, pid);
                }
                FromPrototype::WorkerReady { .. } => {}
                FromPrototype::Exited { worker, pid, .. } => {
                    assert_eq!(self.alive.remove(&worker), Some(pid));
                    self.kills += u32::from(self.killed.remove(&pid));
                    let numbers = worker..worker + self.pool.threads.get();
                    let segment = &self.pool.segment;
                    for (slot, fate) in numbers.flat_map(|number| segment.worker_died(number)) {
                        match fate {
                            Fate::Requeued => self.requeued += 1,
                            Fate::Begun => {
                                let number = self.in_flight[&slot];
                                assert!(self.lost.insert(number));
                            }
                        }
                    }
                    self.pool.send(&ToPrototype::Fork {
                        worker,
                        threads: self.pool.threads,
                    });
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn wait(&self) {
        if !self.pool.segment.set_sleeping(0) {
            return;
        }
        let control = self.pool.control.as_fd();
        let mut polls = [
            PollFd::new(&self.pool.event, PollFlags::IN),
            PollFd::from_borrowed_fd(control, PollFlags::IN),
        ];
        if poll(&mut polls, Some(&TICK)).unwrap() == 0 {
            self.pool.segment.wake_stalled();
        }
        self.pool.segment.clear_sleeping(0);
        self.pool.event.clear();
    }
}

#[test]
fn every_request_is_accounted_for_when_workers_are_killed() {
    run(start());
}

#[test]
fn every_request_is_accounted_for_when_event_loops_are_killed() {
    run(Start {
        worker_events: true,
        concurrency: 8.try_into().unwrap(),
        ..start()
    });
}

#[test]
fn every_request_is_accounted_for_when_processes_with_threads_are_killed() {
    run(Start {
        workers: Some(12),
        worker_threads: 3.try_into().unwrap(),
        ..start()
    });
}

fn run(start: Start) {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let pool = launch(&Start {
        config: serde_json::json!({"stdout": notes}),
        ..start
    });
    assert_eq!(pool.receive(), FromPrototype::Ready);
    for process in 0..4 {
        pool.send(&ToPrototype::Fork {
            worker: process * pool.threads.get(),
            threads: pool.threads,
        });
    }
    let mut run = Run {
        pool,
        dice: Dice(0x9e37_79b9_7f4a_7c15),
        next: 0,
        in_flight: BTreeMap::new(),
        alive: BTreeMap::new(),
        answered: BTreeSet::new(),
        lost: BTreeSet::new(),
        requeued: 0,
        killed: BTreeSet::new(),
        kills: 0,
    };
    let mut moved = (std::time::Instant::now(), 0);
    while run.next < REQUESTS || !run.in_flight.is_empty() {
        run.submit();
        run.receive();
        if !run.collect() {
            run.wait();
        }
        let done = run.answered.len() + run.lost.len();
        if done != moved.1 {
            moved = (std::time::Instant::now(), done);
        }
        assert!(
            moved.0.elapsed() < PATIENCE,
            "stuck: {} in flight, {} answered, {} queued",
            run.in_flight.len(),
            run.answered.len(),
            run.pool.segment.queue_len()
        );
    }
    println!(
        "{} kills: {} answered, {} lost, {} requeued",
        run.kills,
        run.answered.len(),
        run.lost.len(),
        run.requeued
    );
    assert_eq!(run.pool.segment.slots_in_use(), 0);
    assert_eq!(run.answered.len() + run.lost.len(), REQUESTS as usize);
    assert!(run.answered.is_disjoint(&run.lost));
    // Each thread of a killed worker loses the one request it was serving, no more.
    let most = (run.kills as usize + run.killed.len()) * run.pool.threads.get() as usize;
    assert!(run.lost.len() <= most);
    assert!(run.kills > 50, "the test must kill: {}", run.kills);
    let text = std::fs::read_to_string(notes).unwrap();
    let mut ran = BTreeSet::new();
    for line in text.lines() {
        assert!(ran.insert(line.parse::<u32>().unwrap()), "{line} ran twice");
    }
    assert!(run.answered.is_subset(&ran));
    assert!(
        ran.iter()
            .all(|number| run.answered.contains(number) || run.lost.contains(number))
    );
}
