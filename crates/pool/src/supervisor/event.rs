//! The events that reach a supervisor, and its address.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tutti_wire::control::FromPrototype;

use crate::failure::StartFailure;
use crate::launcher::{Launched, ProcessExit};

/// How a first start went: the application is up, or, where it has no processes before its first request, it will be tried
/// again then and this is in its way now.
pub(crate) type Started = Result<FirstReport, StartFailure>;

/// How an application came up, which is there.
#[derive(Debug, Default)]
pub(crate) struct FirstReport {
    /// Why nothing of it can be started yet.
    pub(crate) missing: Option<StartFailure>,
    /// Options that are not as they should be.
    pub(crate) warnings: Vec<StartFailure>,
}

/// The answer to a restart.
pub(crate) type Restarted = Result<(), StartFailure>;

/// An event for a supervisor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A prototype was `exec`ed, or could not be.
    Launched {
        prototype: u64,
        result: Result<Launched, StartFailure>,
    },
    /// A prototype or one of its workers says something.
    Message {
        prototype: u64,
        message: FromPrototype,
    },
    /// A prototype and all of its workers are gone, or it broke the protocol.
    Closed { prototype: u64 },
    /// Main reaped a process, perhaps one of ours.
    Exited { pid: i32, status: ProcessExit },
    /// Start anew with the same configuration, rolling.
    Restart(oneshot::Sender<Restarted>),
    /// End when the last request is done, or at the deadline.
    Retire { deadline: Option<Instant> },
    /// Look for processes that are stopped by a signal; those that have been for this long are killed.
    Watch { limit: Duration },
    /// Open the output files again.
    Reopen,
    /// Numbers and limits have changed.
    Adapt,
    /// To be told when there are as many processes as there should be, or no more can be had now.
    Settle(oneshot::Sender<()>),
}

/// A supervisor's address.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    events: UnboundedSender<Event>,
}

impl Handle {
    pub(super) fn new(events: UnboundedSender<Event>) -> Self {
        Handle { events }
    }

    pub(crate) fn send(&self, event: Event) {
        // One that has ended needs no events.
        let _ = self.events.send(event);
    }

    /// True if the supervisor has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.is_closed()
    }

    /// Resolves when the supervisor has ended and all its processes with it.
    pub(crate) async fn ended(&self) {
        self.events.closed().await;
    }
}
