//! Requests that wait for a slot, first come first served.
//!
//! One queue per application, for all listen threads: when there are no free slots, the application is the bottleneck, and fairness between
//! clients matters more than a lock. A request joins the queue only when there is no free slot or another request waits already, so under
//! normal load it costs one load.
//!
//! Must never happen: a free slot and a sleeping waiter. A freed slot wakes the first waiter that has not been woken; a woken waiter that
//! leaves without taking its slot passes the wake-up on. A wake-up does not guarantee one slot, though: it may reach a waiter that is about
//! to take another one, or come when every waiter has been woken already. So a waiter that has taken its slot checks whether there is
//! another, and if so wakes the next.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

// The same code runs in production and under loom.
#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};

/// The source of what a waiter waits for.
pub(crate) trait Source {
    /// A slot, or the reason why there will be none.
    type Item;

    /// Takes an item, if there is one.
    fn take(&mut self) -> Option<Self::Item>;

    /// True if the next waiter would find an item.
    fn has_more(&self) -> bool;
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    len: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiters: BTreeMap<u64, Waiter>,
    /// Every waiter before this one has been woken.
    first_asleep: u64,
}

impl State {
    /// Checks that no free slot is left beside a sleeping waiter: a waiter that is passed over would never be woken.
    fn check(&self) {
        debug_assert!(
            self.waiters
                .range(..self.first_asleep)
                .all(|(_, waiter)| waiter.woken),
            "a waiter that sleeps is passed over"
        );
        debug_assert!(self.first_asleep <= self.next);
    }

    fn publish_len(&self, len: &AtomicU32) {
        len.store(
            u32::try_from(self.waiters.len()).unwrap_or(u32::MAX),
            Ordering::SeqCst,
        );
    }
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    arrived: Instant,
    woken: bool,
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every step leaves the map consistent; a panic while holding it can only come from a waker.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of waiters.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::SeqCst)
    }

    /// When the waiter at the head of the queue arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.state()
            .waiters
            .values()
            .next()
            .map(|waiter| waiter.arrived)
    }

    /// Called when a slot has been freed: wakes one waiter.
    pub(crate) fn wake_one(&self) {
        // SeqCst pairs with the insertion in `poll`: either the waiter sees the slot or this sees the waiter.
        if self.len() == 0 {
            return;
        }
        let waker = {
            let mut state = self.state();
            let from = state.first_asleep;
            let Some((&id, waiter)) = state
                .waiters
                .range_mut(from..)
                .find(|(_, waiter)| !waiter.woken)
            else {
                return;
            };
            waiter.woken = true;
            let waker = waiter.waker.clone();
            state.first_asleep = id + 1;
            state.check();
            waker
        };
        waker.wake();
    }

    /// Wakes all: the segment was replaced, or the application stops.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = {
            let mut state = self.state();
            let next = state.next;
            state.first_asleep = next;
            state
                .waiters
                .values_mut()
                .map(|waiter| {
                    waiter.woken = true;
                    waiter.waker.clone()
                })
                .collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Waits until `source` yields an item; waiters are served in order of arrival.
    pub(crate) fn wait<S: Source>(&self, arrived: Instant, source: S) -> Wait<'_, S> {
        Wait {
            queue: self,
            arrived,
            id: None,
            source,
        }
    }

    fn leave(&self, id: u64) {
        let woken = {
            let mut state = self.state();
            let waiter = state.waiters.remove(&id);
            state.publish_len(&self.len);
            waiter.is_some_and(|waiter| waiter.woken)
        };
        if woken {
            self.wake_one();
        }
    }
}

/// Future of [`Waiting::wait`].
pub(crate) struct Wait<'a, S> {
    queue: &'a Waiting,
    arrived: Instant,
    id: Option<u64>,
    source: S,
}

impl<S: Source + Unpin> Wait<'_, S> {
    /// Joins the queue, or updates the waker. Returns the place, and whether it is this waiter's turn: one that polls without having been
    /// woken must not overtake those before it.
    fn turn(&mut self, waker: &Waker) -> (u64, bool) {
        let mut state = self.queue.state();
        let Some(id) = self.id else {
            let id = state.next;
            state.next += 1;
            let waiter = Waiter {
                waker: waker.clone(),
                arrived: self.arrived,
                woken: false,
            };
            state.waiters.insert(id, waiter);
            self.id = Some(id);
            state.publish_len(&self.queue.len);
            return (id, state.waiters.len() == 1);
        };
        let mut woken = false;
        if let Some(waiter) = state.waiters.get_mut(&id) {
            waiter.waker.clone_from(waker);
            woken = std::mem::take(&mut waiter.woken);
        }
        if woken {
            state.first_asleep = state.first_asleep.min(id);
        }
        state.check();
        (id, woken || state.waiters.keys().next() == Some(&id))
    }
}

impl<S: Source + Unpin> Future for Wait<'_, S> {
    type Output = S::Item;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<S::Item> {
        let this = self.get_mut();
        let (id, may_take) = this.turn(context.waker());
        if !may_take {
            return Poll::Pending;
        }
        let Some(taken) = this.source.take() else {
            return Poll::Pending;
        };
        let mut state = this.queue.state();
        let gone = state.waiters.remove(&id);
        debug_assert!(gone.is_some(), "a waiter took a slot after it had left");
        state.publish_len(&this.queue.len);
        drop(state);
        this.id = None;
        // After this waiter has left: a slot that is freed from here on wakes the next one.
        if this.source.has_more() {
            this.queue.wake_one();
        }
        Poll::Ready(taken)
    }
}

impl<S> Drop for Wait<'_, S> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.queue.leave(id);
        }
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct WaitingTask {
        count: Arc<Count>,
        waker: Waker,
    }

    fn client() -> WaitingTask {
        let count = Arc::new(Count::default());
        WaitingTask {
            waker: Waker::from(Arc::clone(&count)),
            count,
        }
    }

    impl WaitingTask {
        fn woken(&self) -> usize {
            self.count.0.load(Ordering::SeqCst)
        }
        fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
            Pin::new(future).poll(&mut Context::from_waker(&self.waker))
        }
    }

    impl Source for &Cell<u32> {
        type Item = u32;
        fn take(&mut self) -> Option<u32> {
            let free = self.get();
            (free > 0).then(|| {
                self.set(free - 1);
                free
            })
        }
        fn has_more(&self) -> bool {
            self.get() > 0
        }
    }

    /// Slots of which another is freed while the first is being taken.
    struct FreedMeanwhile<'a> {
        queue: &'a Waiting,
        slots: &'a Cell<u32>,
        freed: bool,
    }

    impl Source for FreedMeanwhile<'_> {
        type Item = u32;
        fn take(&mut self) -> Option<u32> {
            if !std::mem::replace(&mut self.freed, true) {
                free(self.queue, self.slots);
            }
            Source::take(&mut self.slots)
        }
        fn has_more(&self) -> bool {
            self.slots.get() > 0
        }
    }

    fn free(queue: &Waiting, slots: &Cell<u32>) {
        slots.set(slots.get() + 1);
        queue.wake_one();
    }

    #[test]
    fn slots_go_out_in_order_of_arrival() {
        let (queue, slots, now) = (Waiting::default(), Cell::new(0), Instant::now());
        let clients = [client(), client(), client()];
        let mut waits = [(); 3].map(|()| queue.wait(now, &slots));
        for (client, wait) in clients.iter().zip(&mut waits) {
            assert!(client.poll(wait).is_pending());
        }
        free(&queue, &slots);
        assert_eq!(clients.each_ref().map(WaitingTask::woken), [1, 0, 0]);
        // A spurious poll does not let the last waiter in before the first.
        assert!(clients[2].poll(&mut waits[2]).is_pending());
        assert!(clients[0].poll(&mut waits[0]).is_ready());
        free(&queue, &slots);
        free(&queue, &slots);
        assert_eq!(clients.each_ref().map(WaitingTask::woken), [1, 1, 1]);
        assert!(clients[2].poll(&mut waits[2]).is_ready());
        assert!(clients[1].poll(&mut waits[1]).is_ready());
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_woken_one_that_leaves_passes_its_slot_on() {
        let (queue, slots, now) = (Waiting::default(), Cell::new(0), Instant::now());
        let clients = [client(), client()];
        let mut first = queue.wait(now, &slots);
        let mut second = queue.wait(now, &slots);
        assert!(clients[0].poll(&mut first).is_pending());
        assert!(clients[1].poll(&mut second).is_pending());
        free(&queue, &slots);
        drop(first);
        assert_eq!(clients[1].woken(), 1);
        assert!(clients[1].poll(&mut second).is_ready());
    }

    #[test]
    fn a_woken_one_that_finds_nothing_is_woken_again() {
        let (queue, slots, now) = (Waiting::default(), Cell::new(0), Instant::now());
        let client = client();
        let mut wait = queue.wait(now, &slots);
        assert!(client.poll(&mut wait).is_pending());
        queue.wake_all();
        assert!(client.poll(&mut wait).is_pending());
        free(&queue, &slots);
        assert_eq!(client.woken(), 2);
        assert!(client.poll(&mut wait).is_ready());
    }

    /// Issue 10: the second wake-up was lost with the waiter that received it, and a slot with it.
    #[test]
    fn one_that_is_woken_twice_takes_one_slot_and_passes_the_other_on() {
        let (queue, slots, now) = (Waiting::default(), Cell::new(0), Instant::now());
        let clients = [client(), client()];
        let source = FreedMeanwhile {
            queue: &queue,
            slots: &slots,
            freed: true,
        };
        let mut first = queue.wait(now, source);
        let mut second = queue.wait(now, &slots);
        assert!(clients[0].poll(&mut first).is_pending());
        assert!(clients[1].poll(&mut second).is_pending());
        free(&queue, &slots);
        first.source.freed = false;
        assert!(clients[0].poll(&mut first).is_ready());
        assert_eq!(clients[1].woken(), 1);
        assert!(clients[1].poll(&mut second).is_ready());
    }

    /// Issue 10: a slot that was freed when every waiter had been woken was lost.
    #[test]
    fn a_slot_freed_when_all_have_been_woken_goes_to_the_one_that_comes_next() {
        let (queue, slots, now) = (Waiting::default(), Cell::new(0), Instant::now());
        let clients = [client(), client()];
        let mut first = queue.wait(now, &slots);
        let mut second = queue.wait(now, &slots);
        assert!(clients[0].poll(&mut first).is_pending());
        free(&queue, &slots);
        free(&queue, &slots);
        assert!(clients[1].poll(&mut second).is_pending());
        assert!(clients[0].poll(&mut first).is_ready());
        assert_eq!(clients[1].woken(), 1);
        assert!(clients[1].poll(&mut second).is_ready());
    }

    #[test]
    fn the_queue_knows_how_long_its_head_has_waited() {
        let (queue, slots) = (Waiting::default(), Cell::new(0));
        let (early, late) = (Instant::now(), Instant::now());
        let client = client();
        let mut first = queue.wait(early, &slots);
        let mut second = queue.wait(late, &slots);
        assert!(client.poll(&mut first).is_pending());
        assert!(client.poll(&mut second).is_pending());
        assert_eq!((queue.len(), queue.oldest()), (2, Some(early)));
        drop(first);
        assert_eq!(queue.oldest(), Some(late));
    }
}
