//! The life of a worker: one task takes requests, one at a time, and each runs until it waits for something before the next
//! is taken. So what this worker cannot do at once, another takes.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tutti_event_loop::{self as event_loop, Runtime, behind_the_others, readable, reap_orphans};
use tutti_sys::process::Ended;
use tutti_sys::signal::Signals;
use tutti_worker::{Exchange, Process, Worker};

use crate::line::Heard;
use crate::liveness::watch;
use crate::program::Child;
use crate::request::{Relay, relay};

/// The longest time that a response from before the program's end may take to its clients: the router takes what the system's buffers hold at
/// once, unless the machine is busy. Processes that the program has left behind may hold a connection for ever.
const REST_LIMIT: Duration = Duration::from_secs(5);

/// The state of a program that takes its requests itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It has none any more and takes none: it is to be ended.
    Left,
    /// It has ended.
    Ended,
    /// Its requests are to be relayed to it.
    Relay,
}

/// The signals of a worker whose program takes its requests itself.
pub(crate) struct WorkerSignals<'a> {
    /// The server's question where the program stands.
    pub(crate) question: &'a Signals,
    /// Those by which it is to leave.
    pub(crate) leave: &'a Signals,
    /// Ends of processes that the program has left behind.
    pub(crate) orphans: &'a Signals,
}

/// Watches over a program that takes its requests itself.
pub(crate) fn accompany(
    worker: &Worker,
    child: &Child,
    told: &WorkerSignals<'_>,
) -> io::Result<Course> {
    let WorkerSignals {
        question,
        leave,
        orphans,
    } = told;
    let (Some(line), Some(alive)) = (child.line(), child.alive()) else {
        return Ok(Course::Relay);
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let program = readable(child.pidfd()?)?;
        let words = readable(line.descriptor()?)?;
        let told = readable(leave.as_fd().try_clone_to_owned()?)?;
        let listen = async {
            loop {
                words.readable().await?.clear_ready();
                // The readiness is an edge: all that there is must be heard.
                loop {
                    match line.heard() {
                        Heard::Nothing => break,
                        Heard::Serves => {}
                        Heard::Relay => return Ok(Course::Relay),
                        Heard::Left => return Ok(Course::Left),
                        // Its end comes by itself.
                        Heard::Closed => std::future::pending().await,
                    }
                }
            }
        };
        let pass_on = async {
            loop {
                told.readable().await?.clear_ready();
                while leave.next().is_some() {
                    line.leave();
                }
            }
        };
        let asked = watch(
            question,
            &alive,
            child.pid(),
            || worker.must_stop(),
            || worker.moves(),
        );
        tokio::select! {
            biased;
            ended = program.readable() => ended.map(|_| Course::Ended),
            course = listen => course,
            never = pass_on => never,
            never = reap_orphans(orphans, |pid| pid == child.pid()) => never.map(|never| match never {}),
            never = asked => never.map(|()| Course::Left),
        }
    })
}

/// All that a worker needs to know beside its requests.
#[derive(Debug)]
pub(crate) struct Serving {
    /// The server's, where the program stands.
    pub(crate) question: Signals,
    /// Signals by which it is to leave, where they come this way.
    pub(crate) leave: Option<Signals>,
    /// Ends of processes that the program has left behind.
    pub(crate) orphans: Signals,
}

/// Serves until the worker has to leave and has finished its requests, or until the program ends: then returns how.
pub(crate) fn run(
    worker: Worker,
    child: Child,
    relay: &Rc<Relay>,
    serving: Serving,
) -> io::Result<Option<Ended>> {
    let Serving {
        question,
        leave,
        orphans,
    } = serving;
    let runtime = Runtime::new(&worker)?;
    let has_ended = runtime.serve(worker, async {
        let program = readable(child.pidfd()?)?;
        // A task like the others: the runtime would look at the system's events each time before it called this one.
        let mut all_taken = tokio::task::spawn_local(take_all(Rc::clone(relay)));
        if let Some(alive) = child.alive() {
            let pid = child.pid();
            tokio::task::spawn_local(async move {
                watch(&question, &alive, pid, event_loop::is_leaving, || {}).await
            });
        }
        if let Some(leave) = leave {
            tokio::task::spawn_local(stop_on_signal(leave));
        }
        let pid = child.pid();
        tokio::task::spawn_local(
            async move { reap_orphans(&orphans, |orphan| orphan == pid).await },
        );
        tokio::select! {
            biased;
            ended = program.readable() => ended.map(|_| ())?,
            ended = &mut all_taken => return ended.map(|()| false).map_err(io::Error::other),
        }
        relay.program_ended();
        pass_on_the_rest(all_taken).await;
        Ok(true)
    })?;
    // The router answers what is in flight when the program has ended, when this process has ended too.
    Ok(has_ended.then(|| child.how_it_ended()).flatten())
}

/// Ends what the program, which has ended, was at: what it said before is in the system's buffers, and its clients get that. `all_taken`
/// ends with the last request.
async fn pass_on_the_rest(all_taken: JoinHandle<()>) {
    Process::stop();
    event_loop::wake_taker();
    // The rest is broken off.
    let _ = timeout(REST_LIMIT, all_taken).await;
}

/// Has the worker leave at the first of these signals.
async fn stop_on_signal(leave: Signals) -> io::Result<()> {
    let told = readable(leave.as_fd().try_clone_to_owned()?)?;
    // Some may have come before.
    while leave.next().is_none() {
        told.readable().await?.clear_ready();
    }
    Process::stop();
    Ok(())
}

/// Takes requests for ever, and gives each to a task.
async fn take_all(relay: Rc<Relay>) {
    let carriers = Rc::new(Carriers::default());
    while let Some(exchange) = event_loop::next_request().await {
        match carriers.take() {
            Some(carrier) => carrier.give(exchange),
            None => {
                tokio::task::spawn_local(carry(Rc::clone(&relay), Rc::clone(&carriers), exchange));
            }
        }
        behind_the_others().await;
    }
}

/// Relays one exchange after the other: to begin a task for each costs more than its work.
async fn carry(shared: Rc<Relay>, carriers: Rc<Carriers>, first: Exchange) {
    let carrier = Rc::new(Carrier::default());
    let mut exchange = first;
    loop {
        relay(&shared, exchange).await;
        carriers.rest(&carrier);
        // The last one may be what a leaving worker waits for, or a full one.
        event_loop::wake_taker();
        exchange = carrier.next().await;
    }
}

/// A task that relays, between two exchanges.
#[derive(Debug, Default)]
struct Carrier {
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
struct Carriers(RefCell<Vec<Rc<Carrier>>>);

impl Carriers {
    fn take(&self) -> Option<Rc<Carrier>> {
        self.0.borrow_mut().pop()
    }

    fn rest(&self, carrier: &Rc<Carrier>) {
        self.0.borrow_mut().push(Rc::clone(carrier));
    }
}
