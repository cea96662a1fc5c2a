//! The loop in which a worker gets work: claim, else spin for a while, else sleep; and never end while work is unseen.
//!
//! The logic of `worker::Worker::next_request` without its memory, so that loom explores exactly this code.

use std::time::Duration;

use crate::idle::{ASLEEP_ON_EVENT, AWAKE, Idle, NOTIFIED, Slept, sleep, wake_one};
use crate::queue::Queue;
use crate::sync::{AtomicU64, Futex, Ordering, fence};

/// A sleep shorter than this would have been worth spinning for.
const SHORT_SLEEP: Duration = Duration::from_micros(50);
/// The first spin after a short sleep, in rounds.
const FIRST_SPIN: u32 = 16;

/// The parts of a segment that pulling needs.
pub(crate) trait Field {
    fn queue(&self) -> Option<Queue<'_>>;
    fn idle(&self) -> Idle<'_>;
    fn wake_word(&self, worker: u32) -> Option<&Futex>;
    fn state(&self, slot: u32) -> Option<&AtomicU64>;
    fn max_searching(&self) -> u32;
    /// Writes a worker's event.
    fn ring(&self, worker: u32);
    /// True if this worker must end.
    fn must_stop(&self) -> bool;

    fn has_work(&self) -> bool {
        self.queue().is_some_and(|queue| queue.has_work())
    }
}

/// A worker's own state.
#[derive(Debug)]
pub(crate) struct Puller {
    worker: u32,
    /// Our searching bit may be set.
    is_searching: bool,
    /// Our event has been written, or is about to be.
    is_rung: bool,
    /// Our requests have been short recently: we will be back at the queue soon.
    is_short: bool,
    /// Rounds of the next spin; grows while sleeps turn out short, shrinks while they turn out long.
    spin: u32,
    min_spin: u32,
    max_spin: u32,
}

impl Puller {
    pub(crate) fn new(worker: u32, max_spin: u32) -> Self {
        Self {
            worker,
            is_searching: false,
            is_rung: false,
            is_short: false,
            spin: 0,
            min_spin: 0,
            max_spin,
        }
    }

    /// Sets the least and most rounds per spin.
    pub(crate) fn set_spin(&mut self, least: u32, most: u32) {
        self.min_spin = least.min(most);
        self.max_spin = most;
        self.spin = self.spin.clamp(self.min_spin, most);
        debug_assert!(self.min_spin <= self.spin && self.spin <= self.max_spin);
    }

    /// Sets whether our requests have been short recently.
    pub(crate) fn set_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Waits for a request and claims it: slot and ticket. `None` when the worker must stop. `before_sleep` is called
    /// each time it is about to sleep.
    pub(crate) fn pull(
        &mut self,
        field: &impl Field,
        before_sleep: impl Fn(),
    ) -> Option<(u32, u64)> {
        loop {
            if field.must_stop() {
                self.retire(field);
                return None;
            }
            let is_surplus = self.is_surplus(field);
            if !is_surplus {
                let claimed = field
                    .queue()
                    .and_then(|queue| queue.claim(self.worker as u16, |slot| field.state(slot)));
                if claimed.is_some() {
                    self.settle(field);
                    return claimed;
                }
                if self.spin(field) {
                    continue;
                }
            }
            before_sleep();
            self.sleep(field, is_surplus);
        }
    }

    /// True if enough others will be back at the queue soon, so that we should sleep, whatever is in it.
    fn is_surplus(&self, field: &impl Field) -> bool {
        let idle = field.idle();
        self.is_short
            && !self.is_searching
            && idle.is_brisk(self.worker)
            && idle.is_surplus(self.worker, field.max_searching())
    }

    /// Publishes our state while we serve. Wake-ups that were left to us, and that we cannot handle any more, are passed on.
    fn settle(&mut self, field: &impl Field) {
        let idle = field.idle();
        let was_brisk = idle.is_brisk(self.worker);
        if self.is_short && !was_brisk {
            idle.set_brisk(self.worker);
        } else if !self.is_short && was_brisk {
            idle.clear_brisk(self.worker);
        } else if !self.is_searching {
            return;
        }
        if self.is_searching {
            self.is_searching = false;
            idle.clear_searching(self.worker);
        }
        debug_assert!(
            !self.is_searching,
            "a worker that serves searches for nothing"
        );
        pass_on(field);
    }

    /// Checks the queue for a while before sleeping; true when there is something to do.
    fn spin(&mut self, field: &impl Field) -> bool {
        if self.spin == 0 {
            return false;
        }
        if !self.is_searching {
            if field.idle().searching() >= field.max_searching() {
                return false;
            }
            field.idle().set_searching(self.worker);
            self.is_searching = true;
        }
        let Some(queue) = field.queue() else {
            return false;
        };
        for _ in 0..self.spin {
            if queue.is_filled() || field.must_stop() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until notified. A surplus worker leaves queued requests to the others, as long as there are enough of them: it checks once
    /// more after its own bits have changed, so of several that go to sleep at once, the last stays awake.
    fn sleep(&mut self, field: &impl Field, is_surplus: bool) {
        let Some(word) = field.wake_word(self.worker) else {
            return;
        };
        if self.is_searching {
            // A request published before this is seen by the check of the queue inside `sleep`.
            self.is_searching = false;
            field.idle().clear_searching(self.worker);
        }
        if field.idle().is_brisk(self.worker) {
            field.idle().clear_brisk(self.worker);
        }
        let from = crate::now();
        let slept = sleep(
            &field.idle(),
            self.worker,
            word,
            || {
                let is_covered = is_surplus && field.idle().has_enough_brisk(field.max_searching());
                !is_covered && field.has_work()
            },
            || field.must_stop(),
        );
        if slept == Slept::Notified {
            self.is_searching = true;
            self.spin = if crate::now().saturating_duration_since(from) < SHORT_SLEEP {
                (self.spin * 2).max(FIRST_SPIN).min(self.max_spin)
            } else {
                (self.spin / 2).max(self.min_spin)
            };
        }
    }

    /// Checks the queue once, for an event loop: returns a request if there is one and it is for us.
    pub(crate) fn look(&mut self, field: &impl Field) -> Option<(u32, u64)> {
        // This bit remains from a notification that we did not wait for.
        self.is_searching = field.idle().is_searching(self.worker);
        if self.is_surplus(field) {
            return None;
        }
        let claimed = field
            .queue()
            .and_then(|queue| queue.claim(self.worker as u16, |slot| field.state(slot)));
        if claimed.is_some() {
            self.settle(field);
        }
        claimed
    }

    /// We can take no more for now, though awake: no waker may rely on us.
    pub(crate) fn decline(&mut self, field: &impl Field) {
        let idle = field.idle();
        let (was_searching, was_brisk) =
            (idle.is_searching(self.worker), idle.is_brisk(self.worker));
        self.is_searching = false;
        if was_searching {
            idle.clear_searching(self.worker);
        }
        if was_brisk {
            idle.clear_brisk(self.worker);
        }
        if was_searching || was_brisk {
            pass_on(field);
        }
    }

    /// Announces that an event loop is about to sleep until its event is written. False when there is something to do: then it must not
    /// sleep. `may_take`: it takes requests; `has_news`: something else waits for it.
    #[must_use]
    pub(crate) fn prepare(
        &mut self,
        field: &impl Field,
        may_take: bool,
        has_news: impl Fn() -> bool,
    ) -> bool {
        let Some(word) = field.wake_word(self.worker) else {
            return true;
        };
        let idle = field.idle();
        self.is_searching = idle.is_searching(self.worker);
        let is_surplus = may_take && self.is_surplus(field);
        // Before the bits: a waker sets our searching bit, then swaps this word. If it did the former before we clear the bit and the
        // latter after, it finds us asleep.
        word.word().swap(ASLEEP_ON_EVENT, Ordering::AcqRel);
        if may_take {
            self.is_searching = false;
            if idle.is_searching(self.worker) {
                idle.clear_searching(self.worker);
            }
            if idle.is_brisk(self.worker) {
                idle.clear_brisk(self.worker);
            }
            idle.set_idle(self.worker);
        } else {
            self.decline(field);
        }
        fence(Ordering::SeqCst);
        let has_work = || {
            let is_covered = is_surplus && field.idle().has_enough_brisk(field.max_searching());
            !is_covered && field.has_work()
        };
        if (may_take && has_work()) || has_news() {
            self.woken(field);
            return false;
        }
        true
    }

    /// Called when an event loop is awake, for any reason. If its idle bit was taken, a notification will arrive, which is not waited for.
    pub(crate) fn woken(&mut self, field: &impl Field) {
        if let Some(word) = field.wake_word(self.worker) {
            let before = word.word().swap(AWAKE, Ordering::AcqRel);
            self.is_rung |= before == NOTIFIED;
        }
        let idle = field.idle();
        if idle.is_idle(self.worker) {
            idle.clear_idle(self.worker);
        }
    }

    /// True if the worker's event has been written since the last call, or is about to be.
    pub(crate) fn take_rung(&mut self) -> bool {
        std::mem::take(&mut self.is_rung)
    }

    /// Takes no further request. A wake-up that may have been meant for us is passed on.
    pub(crate) fn retire(&mut self, field: &impl Field) {
        let idle = field.idle();
        idle.clear_idle(self.worker);
        idle.clear_brisk(self.worker);
        idle.clear_searching(self.worker);
        self.is_searching = false;
        pass_on(field);
    }
}

/// The caller has cleared a bit that wakers relied on; if there is work, another worker must be woken.
fn pass_on(field: &impl Field) {
    fence(Ordering::SeqCst);
    if field.has_work() {
        wake_one(
            &field.idle(),
            field.max_searching(),
            |worker| field.wake_word(worker),
            |worker| field.ring(worker),
        );
    }
}
