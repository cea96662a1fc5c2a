//! The event loop: tokio's, asleep only when the wire allows it.
//!
//! Before the runtime sleeps the worker says so to the router; when it wakes it says that too. In between, one task takes
//! requests, one at a time, and each runs until it waits for something before the next is taken: so what this worker
//! cannot do at once, another takes.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, LocalOptions};
use tutti_sys::process::Ended;
use tutti_worker::{Exchange, Process, Worker};

use super::program::Child;
use super::{Relay, exchange};

/// The calling thread's event loop.
#[derive(Debug)]
pub(crate) struct Driver {
    worker: Worker,
    /// By slot: the task of the exchange in it.
    tasks: Vec<Option<Waker>>,
    /// The task that takes requests.
    taker: Option<Waker>,
    sleeps: bool,
    /// Requests after which the worker leaves; 0 for never.
    limit: u64,
    taken: u64,
}

thread_local! {
    /// For the runtime's hooks, which cannot capture what is not `Send`.
    static CURRENT: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

impl Driver {
    /// Serves until the worker has been told to leave and has finished what it had, or until the program ends: then how.
    pub(crate) fn run(
        worker: Worker,
        child: Child,
        relay: &Rc<Relay>,
        limit: u64,
    ) -> io::Result<Option<Ended>> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(before_sleep)
            .on_thread_unpark(after_sleep)
            .build_local(LocalOptions::default())?;
        let event = worker
            .event_fd()
            .ok_or(io::ErrorKind::Unsupported)?
            .try_clone_to_owned()?;
        CURRENT.set(Some(Driver {
            worker,
            tasks: Vec::new(),
            taker: None,
            sleeps: false,
            limit,
            taken: 0,
        }));
        let outcome = runtime.block_on(async {
            // Registered, never read: each write is an edge that ends the runtime's sleep.
            let _event = readable(event)?;
            let program = readable(child.pidfd()?)?;
            // A task like the others: the runtime would look at the system's events each time before it called this one.
            let all_taken = tokio::task::spawn_local(take_all(Rc::clone(relay)));
            tokio::select! {
                biased;
                ended = program.readable() => ended.map(|_| true),
                ended = all_taken => ended.map(|()| false).map_err(io::Error::other),
            }
        });
        let has_ended = outcome?;
        // The exchanges' tasks first: they use the worker's segment. What is in flight when the program has ended is answered
        // by the router, when this process has ended too.
        drop(runtime);
        CURRENT.set(None);
        let mut child = child;
        Ok(has_ended.then(|| child.ended()).flatten())
    }

    fn take(&mut self) -> Option<Exchange> {
        self.tell();
        let exchange = self.worker.try_next()?;
        self.taken += 1;
        if self.limit != 0 && self.taken >= self.limit {
            Process::stop();
        }
        Some(exchange)
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

fn before_sleep() {
    CURRENT.with_borrow_mut(|current| {
        let Some(driver) = current else { return };
        if driver.tell() {
            // They keep the runtime awake.
            return;
        }
        driver.sleeps = driver.worker.prepare_sleep();
        if !driver.sleeps
            && let Some(taker) = &driver.taker
        {
            taker.wake_by_ref();
        }
    });
}

fn after_sleep() {
    CURRENT.with_borrow_mut(|current| {
        let Some(driver) = current else { return };
        if std::mem::take(&mut driver.sleeps) {
            driver.worker.woken();
            if let Some(taker) = &driver.taker {
                taker.wake_by_ref();
            }
        }
    });
}

/// Takes requests for ever, and gives each to a task.
async fn take_all(relay: Rc<Relay>) {
    loop {
        let taken = std::future::poll_fn(|context| {
            CURRENT.with_borrow_mut(|current| {
                let Some(driver) = current else {
                    return Poll::Ready(None);
                };
                if let Some(exchange) = driver.take() {
                    return Poll::Ready(Some(exchange));
                }
                if driver.is_done() {
                    return Poll::Ready(None);
                }
                let waker = context.waker();
                if !driver
                    .taker
                    .as_ref()
                    .is_some_and(|old| old.will_wake(waker))
                {
                    driver.taker = Some(waker.clone());
                }
                Poll::Pending
            })
        })
        .await;
        let Some(exchange) = taken else { return };
        match relay.carriers.take() {
            Some(carrier) => carrier.give(exchange),
            None => {
                tokio::task::spawn_local(carry(Rc::clone(&relay), exchange));
            }
        }
        behind_the_others().await;
    }
}

/// Lets the tasks that can run do so. Unlike tokio's `yield_now` it makes no system call between.
async fn behind_the_others() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Relays one exchange after the other: to begin a task for each costs more than what it does.
async fn carry(relay: Rc<Relay>, first: Exchange) {
    let carrier = Rc::new(Carrier::default());
    let mut exchange = first;
    loop {
        exchange::relay(&relay, exchange).await;
        relay.carriers.rest(&carrier);
        // The last one may be what a leaving worker waits for, or a full one.
        wake_taker();
        exchange = carrier.next().await;
    }
}

/// A task that relays, between two exchanges.
#[derive(Debug, Default)]
pub(super) struct Carrier {
    exchange: RefCell<Option<Exchange>>,
    task: RefCell<Option<Waker>>,
}

impl Carrier {
    fn give(&self, exchange: Exchange) {
        self.exchange.replace(Some(exchange));
        let task = self.task.take();
        if let Some(task) = task {
            task.wake();
        }
    }

    async fn next(&self) -> Exchange {
        std::future::poll_fn(|context| match self.exchange.take() {
            Some(exchange) => Poll::Ready(exchange),
            None => {
                self.task.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

/// Those that have nothing to do, no more than a worker has ever had exchanges at once.
#[derive(Debug, Default)]
pub(super) struct Carriers(RefCell<Vec<Rc<Carrier>>>);

impl Carriers {
    fn take(&self) -> Option<Rc<Carrier>> {
        self.0.borrow_mut().pop()
    }

    fn rest(&self, carrier: &Rc<Carrier>) {
        self.0.borrow_mut().push(Rc::clone(carrier));
    }
}

fn wake_taker() {
    CURRENT.with_borrow(|current| {
        if let Some(taker) = current.as_ref().and_then(|driver| driver.taker.as_ref()) {
            taker.wake_by_ref();
        }
    });
}

/// Has `waker` woken when there is news in a slot.
pub(crate) fn listen(slot: u32, waker: &Waker) {
    CURRENT.with_borrow_mut(|current| {
        let Some(driver) = current else { return };
        let slot = slot as usize;
        if driver.tasks.len() <= slot {
            driver.tasks.resize(slot + 1, None);
        }
        if let Some(place) = driver.tasks.get_mut(slot)
            && !place.as_ref().is_some_and(|old| old.will_wake(waker))
        {
            *place = Some(waker.clone());
        }
    });
}

/// Watches a descriptor for being readable.
#[expect(
    deprecated,
    reason = "the safe constructor is deprecated for types that can close or replace their descriptor while it is \
              registered; an `OwnedFd` that is only ever borrowed can do neither"
)]
fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
