//! Loom models of the waiting queue: every interleaving (within a bound on preemptions) of those who wait, leave and free.
//!
//! `make test-loom`. Each thread is a listen thread with one request; a free slot beside a sleeping waiter shows as a deadlock.

use std::sync::Arc;
use std::task::Wake;

use loom::sync::{Condvar, Mutex as LoomMutex};
use loom::thread;

use super::*;

/// Explores `model` with at most three preemptions: two threads that each run on in the other's gap, and one more.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// An application with slots: the number that is free, and who waits for one.
#[derive(Default)]
struct Pool {
    free: LoomMutex<u32>,
    queue: Waiting,
}

impl Pool {
    fn new(free: u32) -> loom::sync::Arc<Self> {
        loom::sync::Arc::new(Self {
            free: LoomMutex::new(free),
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

    /// As `Generation::release` does.
    fn give_back(&self) {
        *self.free() += 1;
        self.queue.wake_one();
    }

    /// As `Application::submit` does.
    fn obtain(&self) {
        if self.queue.len() == 0 && self.pop().is_some() {
            return;
        }
        block_on(self.queue.wait(Instant::now(), self));
    }
}

impl Source for &Pool {
    type Item = ();

    fn take(&mut self) -> Option<()> {
        self.pop()
    }

    fn has_more(&self) -> bool {
        *self.free() > 0
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
