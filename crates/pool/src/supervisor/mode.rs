//! The phases of an application: starting, running, retiring, stopping, only in this order.

use std::time::Instant;

/// The phase of an application's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its first workers are not ready yet.
    Starting,
    /// It is running.
    Running,
    /// It serves the remaining requests, and new ones from snapshots that still hold it.
    Retiring(Retiring),
    /// All its processes are being ended.
    Stopping(Stopping),
}

/// An application that serves its remaining requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retiring {
    /// When it ends at the latest, if there is a deadline.
    pub(super) deadline: Option<Instant>,
    /// When it began to retire.
    pub(super) since: Instant,
}

/// An application whose processes are being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopping {
    /// When the remaining processes are killed.
    pub(super) kill_at: Instant,
}

impl Mode {
    /// After the first start, successful or not.
    pub(super) fn started(self) -> Mode {
        match self {
            Mode::Starting => Mode::Running,
            later => later,
        }
    }

    /// Begins to retire; another call changes only the deadline.
    pub(super) fn retired(self, deadline: Option<Instant>, now: Instant) -> Mode {
        match self {
            Mode::Starting | Mode::Running => Mode::Retiring(Retiring {
                deadline,
                since: now,
            }),
            Mode::Retiring(retiring) => Mode::Retiring(Retiring {
                deadline,
                ..retiring
            }),
            Mode::Stopping(stopping) => Mode::Stopping(stopping),
        }
    }

    /// Begins to stop; processes left at `kill_at` are killed.
    pub(super) fn stopping(self, kill_at: Instant) -> Mode {
        Mode::Stopping(Stopping { kill_at })
    }
}
