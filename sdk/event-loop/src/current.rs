//! The calling thread's event loop and its worker: asleep only when the wire allows it.
//!
//! Before tokio's runtime sleeps the worker says so to the router; when it wakes it says that too. Used by the hosts that serve
//! many requests at once: by their task that takes requests, and by everything that waits for news of an exchange.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tutti_worker::{ClientGone, Exchange, Worker};

/// The worker of the calling thread, and who waits for it.
#[derive(Debug)]
struct EventLoop {
    worker: Worker,
    /// By slot: the task of the exchange in it.
    tasks: Vec<Option<Waker>>,
    /// The task that takes requests.
    taker: Option<Waker>,
    sleeps: bool,
}

thread_local! {
    /// For the runtime's hooks, which cannot capture what is not `Send`.
    static CURRENT: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
}

/// Puts the worker into the calling thread's loop.
pub(crate) fn enter(worker: Worker) {
    CURRENT.set(Some(EventLoop {
        worker,
        tasks: Vec::new(),
        taker: None,
        sleeps: false,
    }));
}

/// Takes the worker out of the loop, and ends it.
pub(crate) fn leave() {
    CURRENT.set(None);
}

impl EventLoop {
    fn take(&mut self) -> Option<Exchange> {
        self.tell();
        self.worker.try_next()
    }

    /// Wakes the tasks of exchanges with news.
    fn tell(&mut self) -> bool {
        let mut any = false;
        let tasks = &mut self.tasks;
        self.worker.drain_attention(|slot| {
            if let Some(task) = tasks.get_mut(slot as usize).and_then(Option::take) {
                any = true;
                task.wake();
            }
        });
        any
    }

    fn is_done(&self) -> bool {
        self.worker.must_stop() && self.worker.open() == 0
    }
}

/// For `on_thread_park`.
pub(crate) fn before_sleep() {
    CURRENT.with_borrow_mut(|current| {
        let Some(this) = current else { return };
        if this.tell() {
            // They keep the runtime awake.
            return;
        }
        this.sleeps = this.worker.prepare_sleep();
        if !this.sleeps
            && let Some(taker) = &this.taker
        {
            taker.wake_by_ref();
        }
    });
}

/// For `on_thread_unpark`.
pub(crate) fn after_sleep() {
    CURRENT.with_borrow_mut(|current| {
        let Some(this) = current else { return };
        if std::mem::take(&mut this.sleeps) {
            this.worker.woken();
            if let Some(taker) = &this.taker {
                taker.wake_by_ref();
            }
        }
    });
}

/// Waits for the next request; `None` when the worker has to leave and has finished its requests.
pub async fn next_request() -> Option<Exchange> {
    std::future::poll_fn(|context| {
        CURRENT.with_borrow_mut(|current| {
            let Some(this) = current else {
                return Poll::Ready(None);
            };
            if let Some(exchange) = this.take() {
                return Poll::Ready(Some(exchange));
            }
            if this.is_done() {
                return Poll::Ready(None);
            }
            let waker = context.waker();
            if !this.taker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                this.taker = Some(waker.clone());
            }
            Poll::Pending
        })
    })
    .await
}

/// True if the worker has to leave.
pub fn is_leaving() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_none_or(|this| this.worker.must_stop()))
}

/// Has the task that takes requests look again.
pub fn wake_taker() {
    CURRENT.with_borrow(|current| {
        if let Some(taker) = current.as_ref().and_then(|this| this.taker.as_ref()) {
            taker.wake_by_ref();
        }
    });
}

/// Has `waker` woken when there is news in a slot.
pub fn listen(slot: u32, waker: &Waker) {
    CURRENT.with_borrow_mut(|current| {
        let Some(this) = current else { return };
        let slot = slot as usize;
        if this.tasks.len() <= slot {
            this.tasks.resize(slot + 1, None);
        }
        if let Some(place) = this.tasks.get_mut(slot)
            && !place.as_ref().is_some_and(|old| old.will_wake(waker))
        {
            *place = Some(waker.clone());
        }
    });
}

/// Waits for `poll`, and gives up when the client has gone.
pub async fn unless_gone<T>(
    exchange: &Exchange,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, ClientGone> {
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = poll(context) {
            return Poll::Ready(Ok(value));
        }
        listen(exchange.slot(), context.waker());
        if exchange.is_client_gone() {
            return Poll::Ready(Err(ClientGone));
        }
        Poll::Pending
    })
    .await
}

/// Watches a descriptor for being readable.
#[expect(
    deprecated,
    reason = "the safe constructor is deprecated for types that can close or replace their descriptor while it is \
              registered; an `OwnedFd` that is only ever borrowed can do neither"
)]
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
