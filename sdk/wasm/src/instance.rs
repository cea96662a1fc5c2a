//! The instances of a worker: made for a request, or kept from the last one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tutti_event_loop::is_leaving;
use tutti_worker::{Level, StartError};

use crate::clock::{Clock, Meter};
use crate::fault;
use crate::guest::{Guest, Maker, Order};
use crate::log;
use crate::settings::Settings;

/// The instances of a worker.
pub(crate) struct Instances<M: Maker> {
    maker: M,
    settings: Rc<Settings>,
    clock: Clock,
    room: Semaphore,
    resting: RefCell<Vec<M::Guest>>,
    asked: Overtime,
}

/// The server's question where the worker is: a request has run out of time.
#[derive(Debug, Default)]
struct Overtime {
    last: Cell<Option<Instant>>,
    news: Notify,
}

/// The client of a request that has run out of time is answered right before the worker is asked, so either may be seen first.
const AT_ONCE: Duration = Duration::from_secs(1);

impl<M: Maker> Instances<M> {
    /// None yet. Starts the clock, a thread.
    pub(crate) fn new(maker: M, settings: Rc<Settings>) -> Result<Self, StartError> {
        let clock = Clock::start(maker.engine())
            .map_err(|error| StartError::new("starting a thread", error))?;
        Ok(Self {
            maker,
            room: Semaphore::new(settings.concurrency as usize),
            settings,
            clock,
            resting: RefCell::default(),
            asked: Overtime::default(),
        })
    }

    /// Makes an instance, to see that it can be.
    pub(crate) async fn try_one(&self) -> Result<(), StartError> {
        let meter = self.meter();
        let _work = self.clock.begin();
        match self.maker.make("at the start".into(), &meter).await {
            Ok(first) => {
                if M::Guest::KEEPS_THE_FIRST {
                    self.rest(first);
                }
                Ok(())
            }
            Err(error) => Err(
                StartError::new("making an instance", fault::describe(&error))
                    .member(M::Guest::NOUN),
            ),
        }
    }

    /// The most computing time for a request.
    pub(crate) fn meter(&self) -> Arc<Meter> {
        Meter::new(self.settings.time)
    }

    /// Waits until there is room for another instance.
    pub(crate) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    /// Waits until no instance is at work, then ends those that rest.
    pub(crate) async fn end(&self) {
        // It is never closed.
        let _room = self.room.acquire_many(self.settings.concurrency).await;
        let _work = self.clock.begin();
        let resting = std::mem::take(&mut *self.resting.borrow_mut());
        for instance in resting {
            if let Err(error) = instance.end(&self.meter()).await {
                let (noun, told) = (M::Guest::NOUN, fault::describe(&error));
                log::write(
                    Level::Error,
                    &format!("the {noun} failed at its end: {told}"),
                );
            }
        }
    }

    /// The server asks where the worker is.
    pub(crate) fn is_asked(&self) {
        self.asked.last.set(Some(Instant::now()));
        self.asked.news.notify_waiters();
    }

    /// Waits until the server has given the request up whose client was gone then.
    pub(crate) async fn late(&self, gone: Instant) {
        let news = self.asked.news.notified();
        let last = self.asked.last.get();
        if last.is_some_and(|last| last + AT_ONCE >= gone) || is_leaving() {
            return;
        }
        news.await;
    }

    /// Has an instance handle a request: the instance, if it may serve another. Its answer goes to the order's sender.
    pub(crate) async fn handle(
        self: Rc<Self>,
        order: Order<<M::Guest as Guest>::Request>,
    ) -> wasmtime::Result<Option<M::Guest>> {
        let _work = self.clock.begin();
        let rested = self.resting.borrow_mut().pop();
        let mut instance = match rested {
            Some(mut instance) => {
                instance.begin(&order.title, &order.meter);
                instance
            }
            None => {
                let title = Arc::clone(&order.title);
                self.maker.make(title, &order.meter).await?
            }
        };
        let may_serve_another = instance.handle(order.request, order.answer).await?;
        Ok(may_serve_another.then_some(instance))
    }

    /// Keeps an instance for the next request.
    pub(crate) fn rest(&self, instance: M::Guest) {
        self.resting.borrow_mut().push(instance);
    }
}
