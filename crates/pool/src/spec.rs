//! What the pool is told about one application: how many processes, which limits, which options.
//!
//! Built by the binary from the typed configuration; two equal specifications mean the same
//! application, which is then kept as it is over a change of configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of one application, as far as the pool is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct AppSpec {
    /// Name in `/config/applications`.
    pub name: Arc<str>,
    /// `type` as the language host knows it, e.g. `php` (without a version).
    pub kind: String,
    /// Version asked for after the type (`"php 8.2"`), empty for any.
    pub version: String,
    /// JSON pointer of the application object, for errors: `/applications/NAME`.
    pub pointer: String,
    /// The application object with defaults applied; handed to the host in the start document.
    pub options: serde_json::Value,
    /// How many worker processes.
    pub processes: Processes,
    /// Bounds on requests.
    pub limits: Limits,
    /// Folder of the spool file.
    pub tmpdir: PathBuf,
}

/// How many workers an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Always this many.
    Static(u32),
    /// Between `spare` idle ones and `max` in all; one idle longer than `idle_timeout` beyond
    /// `spare` leaves.
    Dynamic {
        /// Most workers at any time.
        max: u32,
        /// Idle workers kept ready.
        spare: u32,
        /// How long a surplus worker may stay idle.
        idle_timeout: Duration,
    },
}

impl Processes {
    /// Most workers that may run at once in one set.
    pub fn max(&self) -> u32 {
        match *self {
            Processes::Static(count) => count.max(1),
            Processes::Dynamic { max, .. } => max.max(1),
        }
    }

    /// Workers that must be up before the application counts as started.
    pub fn initial(&self) -> u32 {
        match *self {
            Processes::Static(count) => count.max(1),
            Processes::Dynamic { max, spare, .. } => spare.min(max.max(1)),
        }
    }
}

/// Bounds on what requests may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time from arrival in the router to the end of the worker's work, queue included.
    pub timeout: Option<Duration>,
    /// Requests that may wait beyond those that hold a slot; more are refused with 503.
    pub queue_length: u32,
    /// Longest wait in the queue; more is refused with 503.
    pub queue_wait: Option<Duration>,
    /// Largest request body that can be spooled.
    pub max_body_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: None,
            queue_length: DEFAULT_QUEUE_LENGTH,
            queue_wait: None,
            max_body_size: DEFAULT_MAX_BODY_SIZE,
        }
    }
}

/// Twice the 10,000 connections that a small machine is meant to serve at once (P9): each may have one
/// request waiting, and a flood beyond that is told to come back rather than kept in memory.
pub const DEFAULT_QUEUE_LENGTH: u32 = 20_000;

/// `settings.http.max_body_size` as documented for Unit: 8 MB.
pub const DEFAULT_MAX_BODY_SIZE: u64 = 8 * 1024 * 1024;
