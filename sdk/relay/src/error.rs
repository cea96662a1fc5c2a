//! The reasons for which an exchange gets no answer, or no whole one.

use std::io;

/// The reason for which an exchange got no (whole) answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelayError {
    #[error("the client has gone")]
    ClientGone,
    #[error("connecting to the program: {0}")]
    Connect(io::Error),
    #[error("sending the request to the program: {0}")]
    Unsent(io::Error),
    #[error("sending the request to the program: {0}")]
    Send(io::Error),
    #[error("the program closed the connection before it answered")]
    Closed,
    #[error("reading the program's answer: {0}")]
    Receive(io::Error),
    #[error("the program's answer is not HTTP/1: {0}")]
    Head(tutti_http::HeadError),
    #[error("the program's answer cannot be passed on: {0}")]
    Unusable(tutti_worker::ResponseHeadError),
    #[error("the program answered 101 (Switching Protocols) to a request that did not ask for it")]
    Upgraded,
    #[error("the body of the program's answer is not what its head says: {0}")]
    BadBody(tutti_http::BodyError),
    #[error("the program closed the connection in the middle of its response")]
    CutShort,
    #[error("the program's WebSocket: {0}")]
    WebSocket(String),
    #[error("the program closed the WebSocket connection without a close frame")]
    Left,
}

impl From<tutti_worker::ClientGone> for RelayError {
    fn from(_: tutti_worker::ClientGone) -> Self {
        Self::ClientGone
    }
}

impl RelayError {
    /// True if the program may be about to end: the system closes a process's connections before it reports its end.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::Receive(_)
                | Self::Unsent(_)
                | Self::Send(_)
                | Self::CutShort
                | Self::Left
        )
    }

    /// True if nothing of the request has left for the program, which cannot have seen it.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Unsent(_))
    }

    /// True if the program has not read all of what was sent to it: the system resets a connection that is closed with unread bytes.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Self::Send(error) | Self::Receive(error) if error.kind() == io::ErrorKind::ConnectionReset)
    }
}
