//! Time that instances compute: measured, and bounded by wasmtime's epochs.
//!
//! Code of an instance looks at the engine's epoch at each loop and call. One thread of the process moves it on, every [`TICK`], as long as there
//! are instances; so an instance that computes gives way to others each time, and is stopped when its time is up.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::{Duration, Instant};

use wasmtime::{Engine, Store, UpdateDeadline};

use crate::fault::Stopped;

/// The time that an instance computes until others get their turn; the resolution of its limit.
const TICK: Duration = Duration::from_millis(10);

/// Ticks without any instance after which the thread sleeps: to wake it costs more than a request that does little.
const QUIET: u32 = 100;

/// The clock of a process.
#[derive(Debug)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// Instances at work, and those there have ever been.
    running: AtomicU32,
    begun: AtomicU32,
    sleeps: AtomicBool,
}

impl Clock {
    /// Starts the thread.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (theirs, engine) = (Arc::clone(&shared), engine.clone());
        let thread = std::thread::Builder::new()
            .name("clock".to_owned())
            .spawn(move || theirs.turn(&engine))?;
        Ok(Self {
            shared,
            thread: thread.thread().clone(),
        })
    }

    /// An instance begins to work; it has when the result is dropped.
    pub(crate) fn begin(&self) -> Work {
        self.shared.begun.fetch_add(1, Ordering::SeqCst);
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.sleeps.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Work(Arc::clone(&self.shared))
    }
}

impl Shared {
    fn turn(&self, engine: &Engine) {
        let (mut quiet, mut last) = (0, 0);
        loop {
            std::thread::park_timeout(TICK);
            engine.increment_epoch();
            let begun = self.begun.load(Ordering::SeqCst);
            let is_quiet = begun == last && self.running.load(Ordering::SeqCst) == 0;
            last = begun;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet < QUIET {
                continue;
            }
            quiet = 0;
            self.sleeps.store(true, Ordering::SeqCst);
            // An instance that begins after this sees that we sleep.
            if self.begun.load(Ordering::SeqCst) == last {
                std::thread::park();
            }
            self.sleeps.store(false, Ordering::SeqCst);
        }
    }
}

/// An instance at work.
#[derive(Debug)]
pub(crate) struct Work(Arc<Shared>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The time that an instance has computed for its request.
#[derive(Debug)]
pub(crate) struct Meter {
    zero: Instant,
    /// Nanoseconds before the turn it has now, and since `zero` when that began.
    used: AtomicU64,
    turn_began: AtomicU64,
    /// It has given way in the middle of computing.
    gave_way: AtomicBool,
    /// The reason for which it is to be stopped as soon as it computes again.
    stopped: OnceLock<Stopped>,
    limit: Option<Duration>,
}

impl Meter {
    pub(crate) fn new(limit: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            zero: Instant::now(),
            used: AtomicU64::new(0),
            turn_began: AtomicU64::new(0),
            gave_way: AtomicBool::new(false),
            stopped: OnceLock::new(),
            limit,
        })
    }

    /// Has the store's instance measured, from now on.
    pub(crate) fn measure<T>(self: &Arc<Self>, store: &mut Store<T>) {
        let meter = Arc::clone(self);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| meter.tick());
    }

    fn tick(&self) -> wasmtime::Result<UpdateDeadline> {
        if let Some(stopped) = self.stopped.get() {
            return Err((*stopped).into());
        }
        let now = self
            .now()
            .saturating_sub(self.turn_began.load(Ordering::Relaxed));
        let used = Duration::from_nanos(self.used.load(Ordering::Relaxed).saturating_add(now));
        if let Some(limit) = self.limit.filter(|limit| used >= *limit) {
            return Err(Stopped::Computing(limit).into());
        }
        self.gave_way.store(true, Ordering::Relaxed);
        Ok(UpdateDeadline::Yield(1))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Stops the instance as soon as it computes again.
    pub(crate) fn stop(&self, reason: Stopped) {
        // The first reason stays.
        let _ = self.stopped.set(reason);
    }

    /// True if it would go on computing, were it its turn; false if it waits for something.
    pub(crate) fn is_computing(&self) -> bool {
        self.gave_way.load(Ordering::Relaxed)
    }
}

/// Measures the turns of a future.
pub(crate) struct Measured<F> {
    future: Pin<Box<F>>,
    meter: Arc<Meter>,
}

impl<F: Future> Measured<F> {
    pub(crate) fn new(meter: Arc<Meter>, future: F) -> Self {
        Self {
            future: Box::pin(future),
            meter,
        }
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let began = this.meter.now();
        this.meter.turn_began.store(began, Ordering::Relaxed);
        this.meter.gave_way.store(false, Ordering::Relaxed);
        let outcome = this.future.as_mut().poll(context);
        let turn = this.meter.now().saturating_sub(began);
        this.meter.used.fetch_add(turn, Ordering::Relaxed);
        outcome
    }
}
