//! Errors: why a request is not accepted, or gets no complete response; each has a status for the client.

use std::sync::Arc;
use std::time::Duration;

use tutti_spool::SpoolError;

use crate::launcher::ProcessExit;

/// Why a request was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many requests are waiting: 503 with `Retry-After`.
    #[error("the application's queue is full")]
    QueueFull {
        /// The value of `Retry-After`.
        retry_after: Duration,
    },
    /// It waited too long for a slot: 503.
    #[error("the request waited too long for the application")]
    Timeout,
    /// The application has been removed: 503.
    #[error("the application was stopped")]
    Stopped,
    /// No worker is running and none can be started: 503.
    #[error("{0}")]
    StartFailed(Arc<str>),
    /// The head does not fit: 431.
    #[error("the request head is too large for the application")]
    TooLarge,
    /// The head or body did not fit the slot, and could not be written to the spool: see [`SpoolError::status`].
    #[error("{message}")]
    Spool {
        /// Status for the client.
        status: u16,
        /// The reason for the log.
        message: Arc<str>,
    },
}

impl SubmitError {
    /// The status the client gets.
    pub fn status(&self) -> u16 {
        match self {
            SubmitError::TooLarge => 431,
            SubmitError::Spool { status, .. } => *status,
            _ => 503,
        }
    }

    /// The value of `Retry-After`, if a later attempt may succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            SubmitError::QueueFull { retry_after } => Some(*retry_after),
            SubmitError::Timeout => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}

impl From<SpoolError> for SubmitError {
    fn from(error: SpoolError) -> Self {
        SubmitError::Spool {
            status: error.status(),
            message: error.to_string().into(),
        }
    }
}

/// Why an accepted request got no complete response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The worker ended while it served the request: 502.
    #[error("the application process {pid} {how} while it served this request")]
    WorkerDied {
        /// Its process id.
        pid: i32,
        /// Its exit status.
        how: ProcessExit,
    },
    /// The worker aborted the response: 502.
    #[error("the application process aborted the response")]
    Aborted,
    /// `limits.timeout` has passed: 503 if no worker had begun it, else 504.
    #[error("the request took longer than the application's `limits.timeout`")]
    Timeout {
        /// True if a worker had begun it.
        begun: bool,
    },
    /// `limits.queue.wait` has passed before a worker began it: 503 with `Retry-After`.
    #[error("the request waited longer than the application's `limits.queue.wait`")]
    QueueWait,
    /// Its worker was draining, and `limits.drain_timeout` has passed: 504.
    #[error("the request was not done when the application's `limits.drain_timeout` was over")]
    Drained,
    /// A worker wrote invalid data into shared memory: 502.
    #[error("an application process damaged the memory it shares with the server")]
    Violation,
    /// No worker is left and none could be started: 503.
    #[error("{0}")]
    StartFailed(Arc<str>),
    /// The application was stopped before it answered: 503.
    #[error("the application was stopped")]
    Stopped,
}

impl ExchangeError {
    /// The status for the client, if the response has not begun.
    pub fn status(&self) -> u16 {
        match self {
            ExchangeError::WorkerDied { .. }
            | ExchangeError::Aborted
            | ExchangeError::Violation => 502,
            ExchangeError::Timeout { begun: true } | ExchangeError::Drained => 504,
            ExchangeError::Timeout { begun: false }
            | ExchangeError::QueueWait
            | ExchangeError::StartFailed(_)
            | ExchangeError::Stopped => 503,
        }
    }

    /// The value of `Retry-After`, if a later attempt may succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ExchangeError::Timeout { begun: false } | ExchangeError::QueueWait => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }
}
