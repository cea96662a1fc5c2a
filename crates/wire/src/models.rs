//! Models of the lock-free parts: a lost wake-up shows as a deadlock, a request claimed twice or lost as a failed assertion.
//!
//! Loom tries every interleaving, within a bound on preemptions (`make test-loom`), but knows less of what a processor may reorder than
//! the language allows. Miri runs each model once for each seed (`make test-miri-seeds`), and draws by the seed which thread goes on and
//! which of the values that the orderings allow a load sees.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(loom)]
use loom::{
    sync::{Arc, atomic::AtomicUsize},
    thread,
};
#[cfg(not(loom))]
use std::{
    sync::{Arc, atomic::AtomicUsize},
    thread,
};

use crate::idle::{ASLEEP, Idle, IdlePair, notify, notify_sleeper, wake_one};
use crate::pull::{Field, Puller};
use crate::queue::Queue;
use crate::ring::{WANTS_DATA, WANTS_ROOM, ask, filled, nudge, wait_beside, wait_until};
use crate::slotmap::SlotMap;
use crate::state::{SlotKind, SlotState};
use crate::sync::{AtomicU32, AtomicU64, Futex, Ordering, fence};

const CELLS: usize = 4;

/// The words of a segment that the queue and the workers share.
struct Model {
    head: AtomicU64,
    tail: AtomicU64,
    cells: Vec<AtomicU64>,
    states: Vec<AtomicU64>,
    pairs: Vec<IdlePair>,
    words: Vec<Futex>,
    events: Vec<Futex>,
    quit: Vec<AtomicU32>,
    max_searching: u32,
}

impl Model {
    fn new(slots: usize, workers: usize, max_searching: u32) -> Arc<Self> {
        let zeroes = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        Arc::new(Self {
            head: AtomicU64::new(1),
            tail: AtomicU64::new(1),
            cells: zeroes(CELLS),
            states: zeroes(slots),
            pairs: vec![IdlePair {
                idle: AtomicU64::new(0),
                searching: AtomicU64::new(0),
                brisk: AtomicU64::new(0),
                reserved: AtomicU64::new(0),
            }],
            words: (0..workers).map(|_| Futex::new()).collect(),
            events: (0..workers).map(|_| Futex::new()).collect(),
            quit: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            max_searching,
        })
    }

    /// As `Segment::submit` does. Positions start at one.
    fn submit(&self, position: u64, slot: u32) {
        let queued = SlotState::of(SlotKind::Queued, position).pack();
        self.states[slot as usize].store(queued, Ordering::Release);
        View(self, 0).queue().unwrap().publish(position, slot);
        wake_one(
            &View(self, 0).idle(),
            self.max_searching,
            |worker| self.words.get(worker as usize),
            |worker| self.ring(worker),
        );
    }

    /// As `Segment::cancel` does.
    fn cancel(&self, position: u64, slot: u32) -> bool {
        let queued = SlotState::of(SlotKind::Queued, position).pack();
        let cancelled = SlotState::of(SlotKind::Cancelled, position).pack();
        self.states[slot as usize]
            .compare_exchange(queued, cancelled, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// As in `Segment::ask_worker_to_quit`.
    fn ask_to_quit(&self, worker: u32) {
        self.quit[worker as usize].store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let was_idle = View(self, 0).idle().clear_idle(worker);
        let word = &self.words[worker as usize];
        if was_idle || word.word().load(Ordering::Relaxed) >= ASLEEP {
            notify(word, || self.ring(worker));
        }
    }

    /// Writes a worker's event: an eventfd keeps its count, so the word is set before the wake-up.
    fn ring(&self, worker: u32) {
        let event = &self.events[worker as usize];
        event.word().swap(1, Ordering::AcqRel);
        event.wake();
    }

    /// As in an event loop's poll: sleeps until the event is written.
    fn poll(&self, worker: usize) {
        let event = &self.events[worker];
        while event.word().swap(0, Ordering::AcqRel) == 0 {
            event.wait(0);
        }
    }
}

/// A model as one worker sees it.
struct View<'a>(&'a Model, usize);

impl Field for View<'_> {
    fn queue(&self) -> Option<Queue<'_>> {
        Some(Queue {
            head: &self.0.head,
            tail: &self.0.tail,
            cells: &self.0.cells,
        })
    }

    fn idle(&self) -> Idle<'_> {
        Idle {
            pairs: &self.0.pairs,
        }
    }

    fn wake_word(&self, worker: u32) -> Option<&Futex> {
        self.0.words.get(worker as usize)
    }

    fn state(&self, slot: u32) -> Option<&AtomicU64> {
        self.0.states.get(slot as usize)
    }

    fn max_searching(&self) -> u32 {
        self.0.max_searching
    }

    fn ring(&self, worker: u32) {
        self.0.ring(worker);
    }

    fn must_stop(&self) -> bool {
        self.0.quit[self.1].load(Ordering::Relaxed) != 0
    }
}

/// A worker that counts its claims until all workers have claimed `total`, then asks the others to quit.
fn worker(model: &Model, number: usize, claimed: &AtomicUsize, total: usize) {
    let mut puller = Puller::new(number as u32, 0);
    puller.set_short(true);
    while puller.pull(&View(model, number), || {}).is_some() {
        if claimed.fetch_add(1, Ordering::AcqRel) + 1 == total {
            for worker in 0..model.words.len() {
                model.ask_to_quit(worker as u32);
            }
        }
    }
}

/// Explores `model` with at most this many preemptions, or those of `LOOM_MAX_PREEMPTIONS`, and reports the number of interleavings.
#[cfg(loom)]
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let bound = *builder.preemption_bound.get_or_insert(preemptions);
    let explored = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = explored.clone();
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    println!("{explored:?} interleavings with at most {bound} preemptions");
}

#[cfg(not(loom))]
fn check(_: usize, model: impl Fn() + Sync + Send + 'static) {
    model();
}

#[test]
fn a_request_is_claimed_or_cancelled_never_both() {
    check(3, || {
        let model = Model::new(1, 1, 1);
        model.submit(1, 0);
        let other = Arc::clone(&model);
        let claiming = thread::spawn(move || {
            let view = View(&other, 0);
            let queue = view.queue().unwrap();
            queue.claim(0, |slot| view.state(slot)).is_some()
        });
        let cancelled = model.cancel(1, 0);
        assert!(claiming.join().unwrap() != cancelled);
    });
}

#[test]
fn a_stale_cell_never_claims_the_slots_next_request() {
    check(3, || {
        let model = Model::new(1, 1, 1);
        model.submit(1, 0);
        let other = Arc::clone(&model);
        let claiming = thread::spawn(move || {
            let view = View(&other, 0);
            let queue = view.queue().unwrap();
            queue.claim(0, |slot| view.state(slot))
        });
        let resubmitted = model.cancel(1, 0);
        if resubmitted {
            model.submit(2, 0);
        }
        match claiming.join().unwrap() {
            Some((0, ticket)) => {
                assert_eq!(ticket, 1 + u64::from(resubmitted));
                let taken = SlotState::held(SlotKind::Taken, 0, ticket).pack();
                assert_eq!(model.states[0].load(Ordering::Relaxed), taken);
            }
            other => {
                assert!(resubmitted && other.is_none());
                let queued = SlotState::of(SlotKind::Queued, 2).pack();
                assert_eq!(model.states[0].load(Ordering::Relaxed), queued);
            }
        }
    });
}

#[test]
fn two_workers_never_claim_the_same_request() {
    check(3, || {
        let model = Model::new(2, 2, 2);
        model.submit(1, 0);
        model.submit(2, 1);
        let claim = |number: u16| {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                let view = View(&model, number.into());
                let queue = view.queue().unwrap();
                queue.claim(number, |slot| view.state(slot))
            })
        };
        let (first, second) = (claim(0), claim(1));
        let mut slots = [
            first.join().unwrap().unwrap().0,
            second.join().unwrap().unwrap().0,
        ];
        slots.sort_unstable();
        assert_eq!(slots, [0, 1]);
    });
}

#[test]
fn a_request_never_meets_a_worker_asleep_for_good() {
    check(4, || {
        let model = Model::new(1, 1, 1);
        let other = Arc::clone(&model);
        let serving = thread::spawn(move || {
            let claimed = AtomicUsize::new(0);
            worker(&other, 0, &claimed, 1);
            claimed.load(Ordering::Relaxed)
        });
        model.submit(1, 0);
        assert_eq!(serving.join().unwrap(), 1);
    });
}

#[test]
fn a_throttled_wake_up_is_made_up_for() {
    check(2, || {
        let model = Model::new(2, 2, 1);
        let claimed = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|number| {
                let (model, claimed) = (Arc::clone(&model), Arc::clone(&claimed));
                thread::spawn(move || worker(&model, number, &claimed, 2))
            })
            .collect();
        model.submit(1, 0);
        model.submit(2, 1);
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(claimed.load(Ordering::Relaxed), 2);
    });
}

/// One worker is woken for the first request and never serves another (as in a long request): the second request, whose
/// wake-up was throttled because of the first worker, must still reach the second worker.
#[test]
fn a_busy_worker_passes_the_wake_up_on() {
    check(3, || {
        let model = Model::new(2, 2, 1);
        let workers: Vec<_> = (0..2)
            .map(|number| {
                let model = Arc::clone(&model);
                thread::spawn(move || {
                    let mut puller = Puller::new(number as u32, 0);
                    let claimed = puller.pull(&View(&model, number), || {});
                    assert!(claimed.is_some());
                })
            })
            .collect();
        model.submit(1, 0);
        model.submit(2, 1);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// The worker that is woken ends instead: the request must reach the other.
#[test]
fn a_leaving_worker_passes_the_wake_up_on() {
    check(2, || {
        let model = Model::new(1, 2, 1);
        let other = Arc::clone(&model);
        let leaving = thread::spawn(move || {
            let mut puller = Puller::new(0, 0);
            usize::from(puller.pull(&View(&other, 0), || {}).is_some())
        });
        let other = Arc::clone(&model);
        let staying = thread::spawn(move || {
            let mut puller = Puller::new(1, 0);
            usize::from(puller.pull(&View(&other, 1), || {}).is_some())
        });
        model.ask_to_quit(0);
        model.submit(1, 0);
        let by_leaving = leaving.join().unwrap();
        if by_leaving == 1 {
            model.ask_to_quit(1);
        }
        assert_eq!(by_leaving + staying.join().unwrap(), 1);
    });
}

/// One router thread's completions, with its event.
struct Thread {
    flag: AtomicU32,
    summaries: Vec<AtomicU64>,
    words: Vec<AtomicU64>,
    event: Futex,
}

impl Thread {
    fn new() -> Self {
        Self {
            flag: AtomicU32::new(0),
            summaries: vec![AtomicU64::new(0)],
            words: vec![AtomicU64::new(0)],
            event: Futex::new(),
        }
    }

    fn completions(&self) -> SlotMap<'_> {
        SlotMap {
            flag: &self.flag,
            summaries: &self.summaries,
            words: &self.words,
        }
    }

    /// The worker's part: an eventfd keeps its count, so the word is set before the wake-up. (A swap, not a store: loom does not know that
    /// a store cannot come between the read and the write of another thread's swap.)
    fn complete(&self, slot: u32) {
        if self.completions().complete(slot) {
            self.event.word().swap(1, Ordering::AcqRel);
            self.event.wake();
        }
    }

    /// The router's loop: drain, and sleep on the event only when nothing is pending.
    fn wait(&self, mut f: impl FnMut(u32)) {
        let mut any = false;
        loop {
            self.completions().drain(|slot| {
                any = true;
                f(slot);
            });
            if any {
                return;
            }
            if self.completions().set_sleeping() {
                while self.event.word().swap(0, Ordering::AcqRel) == 0 {
                    self.event.wait(0);
                }
            }
        }
    }
}

#[test]
fn no_completion_is_lost_on_a_sleeping_thread() {
    check(3, || {
        let shared = Arc::new(Thread::new());
        let workers: Vec<_> = (0..2)
            .map(|slot| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.complete(slot))
            })
            .collect();
        let mut seen = 0u32;
        while seen != 0b11 {
            shared.wait(|slot| seen |= 1 << slot);
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// The two threads of a detached exchange sleep on one word: waking one must not leave the other asleep.
#[test]
fn two_threads_that_sleep_on_one_word_both_wake() {
    check(3, || {
        let news = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let word = Arc::new(Futex::new());
        let threads = [0, 1].map(|which| {
            let (news, word) = (Arc::clone(&news), Arc::clone(&word));
            thread::spawn(move || wait_beside(&word, || news[which].load(Ordering::Acquire) == 1))
        });
        for news in news.iter() {
            news.store(1, Ordering::Release);
            let _ = nudge(&word, 0);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A response of three pieces through a ring of one, the router asleep between them.
#[test]
fn credit_never_leaves_both_sides_waiting() {
    check(3, || {
        struct Exchange {
            thread: Thread,
            written: AtomicU64,
            consumed: AtomicU64,
            done: AtomicU32,
            waits: Futex,
        }
        let shared = Arc::new(Exchange {
            thread: Thread::new(),
            written: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            done: AtomicU32::new(0),
            waits: Futex::new(),
        });
        let other = Arc::clone(&shared);
        let producer = thread::spawn(move || {
            let room =
                |written| filled(written, other.consumed.load(Ordering::Acquire), 1) == Some(0);
            for written in 0..2u64 {
                if !room(written) {
                    wait_until(&other.waits, || room(written), || other.thread.complete(0));
                }
                other.written.store(written + 1, Ordering::Release);
            }
            other.done.store(1, Ordering::Release);
            other.thread.complete(0);
        });
        let mut consumed = 0;
        loop {
            let done = shared.done.load(Ordering::Acquire) == 1;
            let written = shared.written.load(Ordering::Acquire);
            if written > consumed {
                consumed = written;
                shared.consumed.store(consumed, Ordering::Release);
                let _ = nudge(&shared.waits, WANTS_ROOM);
            }
            if done {
                break;
            }
            shared.thread.wait(|_| {});
        }
        assert_eq!(consumed, 2);
        producer.join().unwrap();
    });
}

/// An event loop's worker: takes requests, one at a time, until `total` have been claimed or it is asked to quit.
fn looping(model: &Model, number: usize, claimed: &AtomicUsize, total: usize) {
    let mut puller = Puller::new(number as u32, 0);
    let view = View(model, number);
    loop {
        while puller.look(&view).is_some() {
            if claimed.fetch_add(1, Ordering::AcqRel) + 1 == total {
                for worker in 0..model.words.len() {
                    model.ask_to_quit(worker as u32);
                }
            }
        }
        if view.must_stop() {
            puller.retire(&view);
            return;
        }
        if puller.prepare(&view, true, || view.must_stop()) {
            model.poll(number);
            puller.woken(&view);
        }
    }
}

#[test]
fn a_request_never_meets_a_loop_asleep_for_good() {
    check(3, || {
        let model = Model::new(1, 1, 1);
        let other = Arc::clone(&model);
        let serving = thread::spawn(move || {
            let claimed = AtomicUsize::new(0);
            looping(&other, 0, &claimed, 1);
            claimed.load(Ordering::Relaxed)
        });
        model.submit(1, 0);
        assert_eq!(serving.join().unwrap(), 1);
    });
}

/// A full loop sleeps without its idle bit; the request must reach the blocking worker beside it, whatever notification the loop had
/// before.
#[test]
fn a_full_loop_leaves_requests_to_others() {
    check(2, || {
        let model = Model::new(1, 2, 1);
        let other = Arc::clone(&model);
        let full = thread::spawn(move || {
            let mut puller = Puller::new(0, 0);
            let view = View(&other, 0);
            // Ready to take a request, then not any more, as when a handler's exchange has become active again.
            if puller.prepare(&view, true, || true) {
                unreachable!("there was news");
            }
            if puller.prepare(&view, false, || view.must_stop()) {
                other.poll(0);
                puller.woken(&view);
            }
        });
        let other = Arc::clone(&model);
        let serving = thread::spawn(move || {
            let mut puller = Puller::new(1, 0);
            assert!(puller.pull(&View(&other, 1), || {}).is_some());
        });
        model.submit(1, 0);
        serving.join().unwrap();
        model.ask_to_quit(0);
        full.join().unwrap();
    });
}

/// The router marks a slot while the loop that has it prepares to sleep.
#[test]
fn attention_never_meets_a_loop_asleep_for_good() {
    check(3, || {
        let model = Model::new(1, 1, 1);
        let news = Arc::new(Thread::new());
        let (other, there) = (Arc::clone(&model), Arc::clone(&news));
        let serving = thread::spawn(move || {
            let mut puller = Puller::new(0, 0);
            let view = View(&other, 0);
            let mut has_heard = false;
            while !has_heard {
                there.completions().drain(|_| has_heard = true);
                if !has_heard && puller.prepare(&view, true, || !there.completions().is_empty()) {
                    other.poll(0);
                    puller.woken(&view);
                }
            }
        });
        // As `Segment::attend` does.
        assert!(news.completions().mark(0));
        notify_sleeper(&model.words[0], || model.ring(0));
        serving.join().unwrap();
    });
}

/// A loop asks to be notified of data while the router writes some.
#[test]
fn a_loop_gets_the_notifications_that_it_requested() {
    check(3, || {
        let shared = Arc::new((Futex::new(), AtomicU64::new(0), AtomicU32::new(0)));
        let other = Arc::clone(&shared);
        let router = thread::spawn(move || {
            other.1.store(1, Ordering::Release);
            if nudge(&other.0, WANTS_DATA) {
                other.2.store(1, Ordering::Release);
            }
        });
        let asked = ask(&shared.0, WANTS_DATA, || {
            shared.1.load(Ordering::Acquire) != 0
        });
        router.join().unwrap();
        // Either it saw the data, or it is notified.
        assert!(!asked || shared.2.load(Ordering::Acquire) == 1);
    });
}
