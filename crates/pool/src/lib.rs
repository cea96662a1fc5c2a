//! Application processes: spawn, scale, lease, restart, recycle.
//!
//! This is the router's side of an application. A [`Manager`] on the control thread starts prototypes through a [`Launcher`], has them fork
//! workers, and watches queues, deaths and deadlines; listen threads submit requests to an [`ApplicationPool`] and hold an [`ApplicationExchange`] for
//! each until it is answered.
//!
//! A listen thread registers by [`ThreadWakers::enter`]; its runtime calls [`threads::park`] and [`threads::unpark`] in
//! `on_thread_park` and `on_thread_unpark`, and runs [`ThreadWakers::watch`]. There, a request is:
//!
//! ```text
//! let mut exchange = app.submit(&head, Body::None, arrived).await?;   // error: its status()
//! let head = exchange.head().await?;                                  // error: its status()
//! loop {
//!     let readable = exchange.ready()?;            // spans in shared memory, finished
//!     …write or copy them…
//!     let finished = readable.finished;
//!     exchange.consume(written);
//!     if finished && all was written { break }
//!     if nothing is left unread { exchange.more().await? }
//! }
//! ```
//!
//! Must never happen: a request that is neither answered nor refused; a request run twice; a worker
//! that waits for ever for a client; a slot given to a new request while a worker still uses it.

// A start failure is large and rare; boxing it would only burden the code that makes one.
#![allow(clippy::result_large_err)]
#![forbid(unsafe_code)]
// A simulated timer takes the same type as the rest.
#![cfg_attr(simulated, allow(clippy::useless_conversion))]

#[cfg(not(loom))]
mod application;
#[cfg(not(loom))]
mod bells;
#[cfg(not(loom))]
mod brief_wait;
#[cfg(not(loom))]
mod context;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod eventfds;
#[cfg(not(loom))]
mod exchange;
#[cfg(not(loom))]
mod failure;
#[cfg(not(loom))]
mod generation;
#[cfg(not(loom))]
mod launcher;
#[cfg(not(loom))]
mod manager;
#[cfg(not(loom))]
mod output;
#[cfg(not(loom))]
mod readiness;
#[cfg(not(loom))]
mod request_line;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod scheduling;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod spec;
#[cfg(not(loom))]
mod stack_location;
#[cfg(not(loom))]
mod stack_replies;
#[cfg(not(loom))]
mod supervisor;
#[cfg(not(loom))]
pub mod threads;
#[cfg_attr(loom, allow(dead_code, reason = "the models use a part"))]
mod waiting;

#[cfg(not(loom))]
pub use tutti_wire::{MessageOpcode, Piece, Readable, WireRequestHead, WireResponseHead};

#[cfg(not(loom))]
pub use self::stack_location::{StackLocation, Whereabouts};
#[cfg(not(loom))]
pub use self::{
    application::{AppMeasures, AppStatus, ApplicationPool, OldRequest, OutgoingBody, TakenSlot},
    counters::End,
    error::{ExchangeError, SubmitError},
    eventfds::ThreadWakers,
    exchange::ApplicationExchange,
    failure::StartFailure,
    launcher::{
        AppProcess, LaunchFuture, LaunchRequest, Launched, Launcher, Level, LogSink, ProcessExit,
        SettleFuture,
    },
    manager::{Manager, PreparedApplications, RollError, Starts},
    output::OutputPipe,
    readiness::readable,
    scheduling::Clocks,
    spec::{Abandoned, AppSpec, DEFAULT_MAX_BODY_SIZE, Limits, Processes, ScaledProcesses},
    supervisor::number_of,
};
