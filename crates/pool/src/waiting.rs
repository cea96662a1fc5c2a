//! Requests that wait for a slot, first come first served.
//!
//! One queue per application, over all listen threads: when the slots have run out it is the application that is
//! slow, and fairness between clients matters more than a lock. A request joins the queue only when there is no
//! slot or somebody waits already, so under normal load it costs one load.
//!
//! What must never happen: a free slot and a sleeping waiter. A slot that is freed wakes the first waiter that
//! has not been woken; a woken waiter that goes away without taking its slot passes the wake-up on.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

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

    /// How many wait.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::SeqCst)
    }

    /// When the one at the head of the queue arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.state()
            .waiters
            .values()
            .next()
            .map(|waiter| waiter.arrived)
    }

    /// A slot has been freed: wakes one waiter.
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

    /// Waits until `take` yields something; `take` is called in order of arrival.
    pub(crate) fn wait<T, F: FnMut() -> Option<T>>(
        &self,
        arrived: Instant,
        take: F,
    ) -> Wait<'_, F> {
        Wait {
            queue: self,
            arrived,
            id: None,
            take,
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
pub(crate) struct Wait<'a, F> {
    queue: &'a Waiting,
    arrived: Instant,
    id: Option<u64>,
    take: F,
}

impl<T, F: FnMut() -> Option<T> + Unpin> Future for Wait<'_, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let mut state = this.queue.state();
        let (id, may_take) = match this.id {
            Some(id) => {
                let mut woken = false;
                if let Some(waiter) = state.waiters.get_mut(&id) {
                    waiter.waker.clone_from(context.waker());
                    woken = std::mem::take(&mut waiter.woken);
                }
                if woken {
                    state.first_asleep = state.first_asleep.min(id);
                }
                (id, woken || state.waiters.keys().next() == Some(&id))
            }
            None => {
                let id = state.next;
                state.next += 1;
                let waiter = Waiter {
                    waker: context.waker().clone(),
                    arrived: this.arrived,
                    woken: false,
                };
                state.waiters.insert(id, waiter);
                this.id = Some(id);
                state.publish_len(&this.queue.len);
                (id, state.waiters.len() == 1)
            }
        };
        drop(state);
        // One that polls without having been woken must not overtake those before it.
        if !may_take {
            return Poll::Pending;
        }
        match (this.take)() {
            Some(taken) => {
                let mut state = this.queue.state();
                state.waiters.remove(&id);
                state.publish_len(&this.queue.len);
                drop(state);
                this.id = None;
                Poll::Ready(taken)
            }
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Wait<'_, F> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.queue.leave(id);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Client {
        count: Arc<Count>,
        waker: Waker,
    }

    fn client() -> Client {
        let count = Arc::new(Count::default());
        Client {
            waker: Waker::from(Arc::clone(&count)),
            count,
        }
    }

    impl Client {
        fn woken(&self) -> usize {
            self.count.0.load(Ordering::SeqCst)
        }
        fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
            Pin::new(future).poll(&mut Context::from_waker(&self.waker))
        }
    }

    fn take(slots: &Cell<u32>) -> impl FnMut() -> Option<u32> + '_ {
        || {
            let free = slots.get();
            (free > 0).then(|| {
                slots.set(free - 1);
                free
            })
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
        let mut waits = [(); 3].map(|()| queue.wait(now, take(&slots)));
        for (client, wait) in clients.iter().zip(&mut waits) {
            assert!(client.poll(wait).is_pending());
        }
        free(&queue, &slots);
        assert_eq!(clients.each_ref().map(Client::woken), [1, 0, 0]);
        // A stray poll does not let the last one in before the first.
        assert!(clients[2].poll(&mut waits[2]).is_pending());
        assert!(clients[0].poll(&mut waits[0]).is_ready());
        free(&queue, &slots);
        free(&queue, &slots);
        assert_eq!(clients.each_ref().map(Client::woken), [1, 1, 1]);
        assert!(clients[2].poll(&mut waits[2]).is_ready());
        assert!(clients[1].poll(&mut waits[1]).is_ready());
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_woken_one_that_leaves_passes_its_slot_on() {
        let (queue, slots, now) = (Waiting::default(), Cell::new(0), Instant::now());
        let clients = [client(), client()];
        let mut first = queue.wait(now, take(&slots));
        let mut second = queue.wait(now, take(&slots));
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
        let mut wait = queue.wait(now, take(&slots));
        assert!(client.poll(&mut wait).is_pending());
        queue.wake_all();
        assert!(client.poll(&mut wait).is_pending());
        free(&queue, &slots);
        assert_eq!(client.woken(), 2);
        assert!(client.poll(&mut wait).is_ready());
    }

    #[test]
    fn the_head_of_the_queue_tells_since_when_it_waits() {
        let (queue, slots) = (Waiting::default(), Cell::new(0));
        let (early, late) = (Instant::now(), Instant::now());
        let client = client();
        let mut first = queue.wait(early, take(&slots));
        let mut second = queue.wait(late, take(&slots));
        assert!(client.poll(&mut first).is_pending());
        assert!(client.poll(&mut second).is_pending());
        assert_eq!((queue.len(), queue.oldest()), (2, Some(early)));
        drop(first);
        assert_eq!(queue.oldest(), Some(late));
    }
}
