//! The phases of an application's life. It only ever goes on: starting, running, retiring, stopping.

use std::time::Instant;

/// The phase of an application's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Its first workers are not up yet.
    Starting,
    /// It serves.
    Running,
    /// It serves the requests that are left, and takes more from those who still hold it.
    Retiring(Retiring),
    /// All its processes are being ended.
    Stopping(Stopping),
}

/// An application that serves the requests that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retiring {
    /// When it ends at the latest, if that was asked for.
    pub(super) deadline: Option<Instant>,
    /// Since when.
    pub(super) since: Instant,
}

/// An application whose processes are being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopping {
    /// When those that are left are killed.
    pub(super) kill_at: Instant,
}

impl Mode {
    /// The first start is over, well or not.
    pub(super) fn started(self) -> Mode {
        match self {
            Mode::Starting => Mode::Running,
            later => later,
        }
    }

    /// It is not wanted any more; a further word changes only the deadline.
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

    /// Its processes are ended; those left at `kill_at` are killed.
    pub(super) fn stopping(self, kill_at: Instant) -> Mode {
        Mode::Stopping(Stopping { kill_at })
    }
}
