//! The reasons for which a request is not taken, or is taken and gets no (whole) response; each has the status for the client.

use std::sync::Arc;
use std::time::Duration;

use tutti_spool::SpoolError;

use crate::launcher::ProcessExit;

/// The reason for which a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many requests wait: 503 with `Retry-After`.
    #[error("the application's queue is full")]
    QueueFull {
        /// The value of `Retry-After`.
        retry_after: Duration,
    },
    /// It waited too long for its turn: 503.
    #[error("the request waited too long for the application")]
    Timeout,
    /// The application has been removed: 503.
    #[error("the application was stopped")]
    Stopped,
    /// No worker is up and none can be started: 503.
    #[error("{0}")]
    StartFailed(Arc<str>),
    /// The head does not fit: 431.
    #[error("the request head is too large for the application")]
    TooLarge,
    /// The head or body had to go to the spool and could not: see [`SpoolError::status`].
    #[error("{message}")]
    Spool {
        /// Status for the client.
        status: u16,
        /// The reason, for the log.
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

    /// The value of `Retry-After`, if the client is to try again.
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

/// The reason for which a request that was taken got no (whole) response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The worker ended while it was at this request: 502.
    #[error("the application process {pid} {how} while it served this request")]
    WorkerDied {
        /// Its process number.
        pid: i32,
        /// How it ended.
        how: ProcessExit,
    },
    /// The worker gave the request up: 502.
    #[error("the application process gave this request up")]
    Aborted,
    /// `limits.timeout` is over: 503 if it never began, else 504.
    #[error("the request took longer than the application's `limits.timeout`")]
    Timeout {
        /// True if a worker had begun it.
        begun: bool,
    },
    /// `limits.queue.wait` is over, and no worker had begun it: 503 with `Retry-After`.
    #[error("the request waited longer than the application's `limits.queue.wait`")]
    QueueWait,
    /// Its worker was to leave and had `limits.drain_timeout` for it: 504.
    #[error("the request was not done when the application's `limits.drain_timeout` was over")]
    Drained,
    /// A worker wrote what cannot be into shared memory: 502.
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
    /// The status the client gets, if the response has not begun.
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

    /// The value of `Retry-After`, if the client is to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ExchangeError::Timeout { begun: false } | ExchangeError::QueueWait => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }
}
