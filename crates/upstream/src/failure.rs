//! The failures of a server, in words for the log and as a status for the client.

use std::io;
use std::time::Duration;

/// Why a server gave no (whole) answer. Always the server's fault, never the client's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It takes no connection.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// It has not taken one in time.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// It is not who it should be, or speaks TLS otherwise than it should.
    #[error("no TLS with it: {0}")]
    Tls(String),
    /// The request could not be sent.
    #[error("sending the request failed: {0}")]
    Send(io::Error),
    /// It has not taken more of the request in time.
    #[error("took nothing of the request for {0:?}")]
    SendTimeout(Duration),
    /// It closed the connection without an answer.
    #[error("closed the connection before it answered")]
    Closed,
    /// Reading broke off.
    #[error("reading the answer failed after {received} bytes: {source}")]
    Receive {
        /// Bytes of the answer that had come.
        received: u64,
        /// The system's error.
        source: io::Error,
    },
    /// It has not sent more of the answer in time.
    #[error("sent nothing for {limit:?}, after {received} bytes of the answer")]
    ReadTimeout {
        /// Bytes of the answer that had come.
        received: u64,
        /// How long it had.
        limit: Duration,
    },
    /// It closed the connection in the middle of its answer.
    #[error("closed the connection in the middle of its answer, after {received} bytes")]
    CutShort {
        /// Bytes of the answer that had come.
        received: u64,
    },
    /// It has not begun with the request, and says so.
    #[error("did not take the request: {0}")]
    Refused(String),
    /// It has ended the request.
    #[error("ended the request before it was answered: {reason}")]
    Reset {
        /// Its message.
        reason: String,
        /// The request is not wanted any more: its own time is up.
        is_cancelled: bool,
    },
    /// It sent something that is not an answer in its protocol.
    #[error("its answer cannot be read: {0}")]
    Malformed(String),
}

impl UpstreamError {
    /// The status for a client that has got nothing yet.
    pub fn status(&self) -> u16 {
        match self {
            UpstreamError::ConnectTimeout(_)
            | UpstreamError::SendTimeout(_)
            | UpstreamError::ReadTimeout { .. } => 504,
            _ => 502,
        }
    }

    /// It is about this request, and says nothing of the server.
    pub fn is_of_request(&self) -> bool {
        matches!(
            self,
            UpstreamError::Reset {
                is_cancelled: true,
                ..
            }
        )
    }

    /// A connection kept from an earlier request was perhaps closed just then, which says nothing against the server.
    pub fn may_be_stale(&self) -> bool {
        match self {
            UpstreamError::Closed | UpstreamError::Send(_) => true,
            UpstreamError::Receive { received, .. } => *received == 0,
            _ => false,
        }
    }
}
