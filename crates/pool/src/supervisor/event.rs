//! The events for a supervisor, and its handle.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tutti_wire::control::FromPrototype;

use crate::failure::StartFailure;
use crate::launcher::{Launched, ProcessExit};

/// The result of a first start: the application is running, or, if it has no initial processes, why it cannot be started now; that will be
/// tried again at the first request.
pub(crate) type Started = Result<FirstReport, StartFailure>;

/// The report of a successful first start.
#[derive(Debug, Default)]
pub(crate) struct FirstReport {
    /// Why no process can be started yet.
    pub(crate) missing: Option<StartFailure>,
    /// Options with warnings.
    pub(crate) warnings: Vec<StartFailure>,
}

/// The result of a restart.
pub(crate) type Restarted = Result<(), StartFailure>;

/// An event for a supervisor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A prototype was `exec`ed, or failed to.
    Launched {
        prototype: u64,
        result: Result<Launched, StartFailure>,
    },
    /// A message of a prototype or one of its workers.
    Message {
        prototype: u64,
        message: FromPrototype,
    },
    /// A prototype and all of its workers have ended, or it broke the protocol.
    Closed { prototype: u64 },
    /// Main reaped a process, perhaps one of this application.
    Exited { pid: i32, status: ProcessExit },
    /// Restart with the same configuration, rolling.
    Restart(oneshot::Sender<Restarted>),
    /// End after the last request, or at the deadline.
    Retire { deadline: Option<Instant> },
    /// Check for processes stopped by a signal; those stopped for this long are killed.
    Watch { limit: Duration },
    /// Reopen the output files.
    Reopen,
    /// Numbers and limits have changed.
    Adapt,
    /// Reply when there are as many processes as configured, or no more can be started now.
    Settle(oneshot::Sender<()>),
}

/// A handle of a supervisor.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    events: UnboundedSender<Event>,
}

impl Handle {
    pub(super) fn new(events: UnboundedSender<Event>) -> Self {
        Handle { events }
    }

    pub(crate) fn send(&self, event: Event) {
        // An ended supervisor needs no events.
        let _ = self.events.send(event);
    }

    /// True if the supervisor has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.is_closed()
    }

    /// Completes when the supervisor and all its processes have ended.
    pub(crate) async fn ended(&self) {
        self.events.closed().await;
    }
}
