//! How far an upgrade has come.

use std::io;
use std::time::Instant;

/// How far an upgrade has come in this program.
pub(super) enum Upgrade {
    /// The new program is being tried.
    Trial {
        pid: i32,
        output: io::PipeReader,
        until: Instant,
    },
    /// Controller and router are coming to rest.
    Freezing {
        until: Instant,
        is_controller_at_rest: bool,
        is_router_at_rest: bool,
    },
    /// We are the new program, and our controller and router are starting.
    Starting { until: Instant },
}

impl Upgrade {
    pub(super) fn deadline(&self) -> Instant {
        match self {
            Upgrade::Trial { until, .. }
            | Upgrade::Freezing { until, .. }
            | Upgrade::Starting { until } => *until,
        }
    }
}
