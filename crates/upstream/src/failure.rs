//! The failures of a server, as text for the log and as a status for the client.

use std::io;
use std::time::Duration;

use tutti_config::model::RetryFailure;
use tutti_dialer::Address;

/// The code of a request that was cancelled: its own deadline has passed (RFC 9113 §7).
const CANCEL: u32 = 8;

/// Why a server gave no complete answer. Never the client's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It does not accept a connection.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// This machine cannot open a connection.
    #[error("cannot connect: {source}; {remedy}")]
    Exhausted {
        /// The system's error.
        source: io::Error,
        /// The limit to raise.
        remedy: &'static str,
    },
    /// It did not accept a connection in time.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// Its certificate is wrong, or the TLS handshake failed.
    #[error("TLS handshake failed: {0}")]
    Tls(String),
    /// The request could not be sent.
    #[error("sending the request failed: {0}")]
    Send(io::Error),
    /// It did not take more of the request in time.
    #[error("accepted no more of the request for {0:?}")]
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
        /// The name of the code.
        reason: String,
        /// Its HTTP/2 code (RFC 9113 §7).
        code: u32,
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
    #[error("invalid response: {0}")]
    Malformed(String),
}

impl UpstreamError {
    /// The failure of a connection to this address.
    pub(crate) fn of_connect(source: io::Error, address: &Address) -> Self {
        let is_v6 = matches!(address, Address::Inet(address) if address.is_ipv6());
        match tutti_sys::remedy(&source) {
            // Where IPv6 is switched off, this error is permanent, and the server cannot be reached.
            Some(_) if is_v6 && source.kind() == io::ErrorKind::AddrNotAvailable => {
                Self::Connect(source)
            }
            Some(remedy) => Self::Exhausted { source, remedy },
            None => Self::Connect(source),
        }
    }

    /// The status for a client that has received nothing yet.
    pub fn status(&self) -> u16 {
        match self {
            UpstreamError::ConnectTimeout(_)
            | UpstreamError::SendTimeout(_)
            | UpstreamError::ReadTimeout { .. }
            | UpstreamError::Overdue { .. } => 504,
            UpstreamError::Status(status) => *status,
            UpstreamError::Exhausted { .. } => 503,
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

    /// True if the failure does not count against the server, because it is about this request or this machine. A server that refuses
    /// this request or has too many of this client (4xx) works, and a slow client can use up the time for its own request.
    pub fn spares_server(&self) -> bool {
        matches!(
            self,
            UpstreamError::Reset { code: CANCEL, .. }
                | UpstreamError::Exhausted { .. }
                | UpstreamError::Status(..500)
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

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_lack_of_this_machine_is_not_the_servers_failure() {
        let failure = |errno: Errno, address: &str| {
            let address = Address::Inet(address.parse().unwrap());
            let failure = UpstreamError::of_connect(errno.into(), &address);
            (failure.spares_server(), failure.status())
        };
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::ADDRNOTAVAIL,
            Errno::NOBUFS,
            Errno::NOMEM,
        ] {
            assert_eq!(failure(errno, "127.0.0.1:1"), (true, 503), "{errno}");
        }
        assert_eq!(failure(Errno::MFILE, "[::1]:1"), (true, 503));
        assert_eq!(failure(Errno::ADDRNOTAVAIL, "[::1]:1"), (false, 502));
        assert_eq!(failure(Errno::CONNREFUSED, "127.0.0.1:1"), (false, 502));
    }
}
