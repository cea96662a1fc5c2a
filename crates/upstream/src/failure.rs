//! The failures of a server, as text for the log and as a status for the client.

use std::io;
use std::time::Duration;

use tutti_config::model::RetryFailure;

/// Why a server gave no complete answer. Never the client's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It does not accept a connection.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// It did not accept a connection in time.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// Its certificate is wrong, or the TLS handshake failed.
    #[error("no TLS with it: {0}")]
    Tls(String),
    /// The request could not be sent.
    #[error("sending the request failed: {0}")]
    Send(io::Error),
    /// It did not take more of the request in time.
    #[error("took nothing of the request for {0:?}")]
    SendTimeout(Duration),
    /// It closed the connection without an answer.
    #[error("closed the connection before it answered")]
    Closed,
    /// Reading failed.
    #[error("reading the answer failed after {received} bytes: {source}")]
    Receive {
        /// Received bytes of the answer.
        received: u64,
        /// The system's error.
        source: io::Error,
    },
    /// It did not send more of the answer in time.
    #[error("sent nothing for {limit:?}, after {received} bytes of the answer")]
    ReadTimeout {
        /// Received bytes of the answer.
        received: u64,
        /// The timeout.
        limit: Duration,
    },
    /// It closed the connection in the middle of its answer.
    #[error("closed the connection in the middle of its answer, after {received} bytes")]
    CutShort {
        /// Received bytes of the answer.
        received: u64,
    },
    /// It refused the request without having begun it.
    #[error("did not take the request: {0}")]
    Refused(String),
    /// It reset the request.
    #[error("ended the request before it was answered: {reason}")]
    Reset {
        /// Its message.
        reason: String,
        /// The request's own deadline has passed.
        is_cancelled: bool,
    },
    /// The whole request took too long.
    #[error("did not complete its answer within {limit:?}, the `timeout` of the whole request")]
    Overdue {
        /// The timeout.
        limit: Duration,
    },
    /// Its answer has a status for which another server is tried.
    #[error("answered {0}")]
    Status(u16),
    /// It sent something that is not a valid answer.
    #[error("its answer cannot be read: {0}")]
    Malformed(String),
}

impl UpstreamError {
    /// The status for a client that has received nothing yet.
    pub fn status(&self) -> u16 {
        match self {
            UpstreamError::ConnectTimeout(_)
            | UpstreamError::SendTimeout(_)
            | UpstreamError::ReadTimeout { .. }
            | UpstreamError::Overdue { .. } => 504,
            UpstreamError::Status(status) => *status,
            _ => 502,
        }
    }

    /// The kind of failure, for `retry_failures`; `None`: the server answered.
    pub fn kind(&self) -> Option<RetryFailure> {
        match self {
            UpstreamError::ConnectTimeout(_)
            | UpstreamError::SendTimeout(_)
            | UpstreamError::ReadTimeout { .. }
            | UpstreamError::Overdue { .. } => Some(RetryFailure::Timeout),
            UpstreamError::Malformed(_) => Some(RetryFailure::Malformed),
            UpstreamError::Status(_) => None,
            _ => Some(RetryFailure::Error),
        }
    }

    /// True if the failure is about this request, and does not count against the server. A server that refuses
    /// this request or has too many of this client (4xx) works, and a slow client can use up the time for its own request.
    pub fn is_of_request(&self) -> bool {
        matches!(
            self,
            UpstreamError::Reset {
                is_cancelled: true,
                ..
            } | UpstreamError::Status(..500)
                | UpstreamError::Overdue { .. }
        )
    }

    /// True if the server may have closed a kept connection at that moment, which does not count against it.
    pub fn may_be_stale(&self) -> bool {
        match self {
            UpstreamError::Closed | UpstreamError::Send(_) => true,
            UpstreamError::Receive { received, .. } => *received == 0,
            _ => false,
        }
    }
}
