//! Loom models of the waiting queue: every interleaving (within a bound on preemptions) of threads that wait, leave, free and stop.
//!
//! `make test-loom`. Each thread is a listen thread with one request; a free slot beside a sleeping waiter shows as a deadlock.

use std::sync::Arc;
use std::task::Wake;

use loom::sync::{Condvar, Mutex as LoomMutex};
use loom::thread;

use super::*;

/// Explores `model` with at most three preemptions (two threads that each run in the other's gap, and one more), or those of
/// `LOOM_MAX_PREEMPTIONS`, and reports the number of interleavings.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let bound = *builder.preemption_bound.get_or_insert(3);
    let explored = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = explored.clone();
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    println!("{explored:?} interleavings with at most {bound} preemptions");
}

/// An application with slots: the number of free ones, whether there will be more, and the waiting queue.
#[derive(Default)]
struct Pool {
    free: LoomMutex<u32>,
    is_stopped: LoomMutex<bool>,
    queue: Waiting,
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Slot,
    /// There will be no slot.
    Stopped,
}

impl Pool {
    fn new(free: u32) -> loom::sync::Arc<Self> {
        loom::sync::Arc::new(Self {
            free: LoomMutex::new(free),
            is_stopped: LoomMutex::new(false),
            queue: Waiting::default(),
        })
    }

    fn free(&self) -> MutexGuard<'_, u32> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<()> {
        let mut free = self.free();
        *free = free.checked_sub(1)?;
        Some(())
    }

    /// As in `Generation::release`.
    fn give_back(&self) {
        *self.free() += 1;
        self.queue.wake_one();
    }

    fn is_stopped(&self) -> bool {
        *self
            .is_stopped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// As in `Shared::set_admission`.
    fn stop(&self) {
        *self
            .is_stopped
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.queue.wake_all();
    }

    /// As in `Application::submit`.
    fn obtain(&self) -> Outcome {
        if self.is_stopped() {
            return Outcome::Stopped;
        }
        if self.queue.len() == 0 && self.pop().is_some() {
            return Outcome::Slot;
        }
        block_on(self.queue.wait(Instant::now(), self))
    }
}

impl Source for &Pool {
    type Item = Outcome;

    fn take(&mut self) -> Option<Outcome> {
        if self.is_stopped() {
            return Some(Outcome::Stopped);
        }
        self.pop().map(|()| Outcome::Slot)
    }

    fn has_more(&self) -> bool {
        self.is_stopped() || *self.free() > 0
    }
}

/// A listen thread that sleeps until its task is woken.
#[derive(Default)]
struct Sleeper {
    woken: LoomMutex<bool>,
    changed: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(Arc::clone(&sleeper));
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut woken = sleeper.woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *woken) {
            woken = sleeper
                .changed
                .wait(woken)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Issue 10: the waiter that was woken for both took one, and the other slept beside the second.
#[test]
fn each_slot_that_is_freed_reaches_a_waiter() {
    check(|| {
        let pool = Pool::new(0);
        let waiters = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || pool.obtain())
        });
        pool.give_back();
        pool.give_back();
        for waiter in waiters {
            let _ = waiter.join();
        }
        assert_eq!((*pool.free(), pool.queue.len()), (0, 0));
    });
}

#[test]
fn one_slot_goes_round_among_all() {
    check(|| {
        let pool = Pool::new(1);
        let others = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.obtain();
                pool.give_back();
            })
        });
        pool.obtain();
        pool.give_back();
        for other in others {
            let _ = other.join();
        }
        assert_eq!((*pool.free(), pool.queue.len()), (1, 0));
    });
}

#[test]
fn one_that_leaves_keeps_no_slot_from_the_next() {
    check(|| {
        let pool = Pool::new(0);
        let waiter = {
            let pool = pool.clone();
            thread::spawn(move || pool.obtain())
        };
        let leaver = {
            let pool = pool.clone();
            thread::spawn(move || {
                let mut wait = pool.queue.wait(Instant::now(), &*pool);
                let waker = Waker::from(Arc::new(Sleeper::default()));
                let polled = Pin::new(&mut wait).poll(&mut Context::from_waker(&waker));
                drop(wait);
                if polled.is_ready() {
                    pool.give_back();
                }
            })
        };
        pool.give_back();
        let _ = waiter.join();
        let _ = leaver.join();
        assert_eq!((*pool.free(), pool.queue.len()), (0, 0));
    });
}

/// A waiter that is not woken by the stop sleeps for ever, because no slot is freed any more.
#[test]
fn every_waiter_learns_that_the_application_stops() {
    check(|| {
        let pool = Pool::new(0);
        let waiters = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || pool.obtain())
        });
        pool.stop();
        for waiter in waiters {
            assert_eq!(waiter.join().ok(), Some(Outcome::Stopped));
        }
        assert_eq!(pool.queue.len(), 0);
    });
}

/// A slot that is freed while the application stops goes to a waiter or stays free; no waiter sleeps beside it.
#[test]
fn no_waiter_sleeps_after_a_freed_slot_and_a_stop() {
    check(|| {
        let pool = Pool::new(0);
        let waiters = [(); 2].map(|()| {
            let pool = pool.clone();
            thread::spawn(move || pool.obtain())
        });
        let giver = {
            let pool = pool.clone();
            thread::spawn(move || pool.give_back())
        };
        pool.stop();
        let outcomes = waiters.map(|waiter| waiter.join().ok());
        let _ = giver.join();
        let taken = outcomes
            .iter()
            .filter(|outcome| **outcome == Some(Outcome::Slot))
            .count();
        assert_eq!((taken + *pool.free() as usize, pool.queue.len()), (1, 0));
    });
}

/// A task is polled for other reasons, too, perhaps each time with another waker: only the last one counts, and a poll out of turn takes
/// nothing from earlier waiters.
#[test]
fn a_waiter_that_is_polled_out_of_turn_is_still_woken_by_its_last_waker() {
    check(|| {
        let pool = Pool::new(0);
        let first = {
            let pool = pool.clone();
            thread::spawn(move || pool.obtain())
        };
        let second = {
            let pool = pool.clone();
            thread::spawn(move || {
                let mut wait = pool.queue.wait(Instant::now(), &*pool);
                let stale = Waker::from(Arc::new(Sleeper::default()));
                match Pin::new(&mut wait).poll(&mut Context::from_waker(&stale)) {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => block_on(wait),
                }
            })
        };
        pool.give_back();
        pool.give_back();
        for waiter in [first, second] {
            assert_eq!(waiter.join().ok(), Some(Outcome::Slot));
        }
        assert_eq!((*pool.free(), pool.queue.len()), (0, 0));
    });
}
