//! The way of a client's bytes: a socket of its own, or a stream of an HTTP/2 or 3 connection.
//!
//! Everything that reads, writes or asks about the other end goes through [`Channel`]; only [`transfer`](crate::transfer) looks behind
//! it, for the ways only a plain socket has.
//!
//! Must never: say that all has been sent while the channel itself still holds some of it, or be [`Poll::Pending`] without having
//! arranged to be woken.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use tutti_conn::transport::Transport;
use tutti_tls::HandshakeFacts;

use crate::exchange::stream::Stream;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::{BodyPart, ReadResult};

/// The way of a client's bytes.
pub(crate) enum Channel {
    /// Through the client's socket.
    Transport(Transport),
    /// As one stream of an HTTP/2 or 3 connection.
    Stream(Box<Stream>),
    /// There is no client: the server makes the request for itself, to have a newer response in the cache. What is sent is discarded.
    Discard,
}

impl Channel {
    /// The client's socket, if the connection has one to itself.
    pub(crate) fn transport(&self) -> Option<&Transport> {
        match self {
            Self::Transport(transport) => Some(transport),
            Self::Stream(_) | Self::Discard => None,
        }
    }

    /// The socket below, for addresses and socket options, if the connection has one to itself.
    pub(crate) fn socket(&self) -> Option<&OwnedFd> {
        self.transport().map(Transport::socket)
    }

    /// The socket, if bytes go into it as they are.
    pub(crate) fn plain(&self) -> Option<&AsyncFd<OwnedFd>> {
        self.transport().and_then(Transport::plain)
    }

    /// True if the bytes are encrypted on their way.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Transport(transport) => transport.tls().is_some(),
            Self::Stream(stream) => stream.facts().is_some(),
            Self::Discard => false,
        }
    }

    /// The outcome of the handshake, if the bytes are encrypted.
    pub(crate) fn facts(&self) -> Option<&Rc<HandshakeFacts>> {
        match self {
            Self::Transport(transport) => transport.facts(),
            Self::Stream(stream) => stream.facts(),
            Self::Discard => None,
        }
    }

    /// Polls for bytes: reads into the spare capacity of `buffer`, which must have some.
    pub(crate) fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        match self {
            Self::Transport(transport) => transport.poll_receive(buffer, cx),
            Self::Stream(stream) => stream.poll_receive(buffer, cx),
            Self::Discard => Poll::Ready(Ok(ReadResult::End)),
        }
    }

    /// Sends as much as can be sent now; true if nothing is left, neither in `output` nor in the channel.
    pub(crate) fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        match self {
            Self::Transport(transport) => transport.try_send(output),
            Self::Stream(stream) => stream.try_send(output),
            Self::Discard => {
                output.discard();
                Ok(true)
            }
        }
    }

    /// Sends some of `output`: ready when something has gone out, or nothing is left.
    pub(crate) fn poll_send(
        &self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        match self {
            Self::Transport(transport) => transport.poll_send(output, cx),
            Self::Stream(stream) => stream.poll_send(output, cx),
            Self::Discard => {
                output.discard();
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Sends `output` and then `bytes`, where that goes without a copy of them; how many of these have gone out.
    pub(crate) fn send_directly(&self, output: &mut Output, bytes: &[u8]) -> Result<usize, Gone> {
        match self {
            Self::Transport(transport) => transport.send_directly(output, bytes),
            Self::Stream(_) | Self::Discard => Ok(0),
        }
    }

    /// Sends `output` and then `body`, in one call if it can be; bytes that do not go out are kept in `output`.
    pub(crate) fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        match self {
            Self::Transport(transport) => transport.send_body(output, body),
            Self::Stream(stream) => stream.send_body(output, body),
            Self::Discard => {
                output.discard();
                Ok(())
            }
        }
    }

    /// Bytes that have not gone out, as far as they can be told from here.
    pub(crate) fn unsent(&self, output: &Output) -> u64 {
        match self {
            Self::Transport(transport) => transport.unsent(output),
            Self::Stream(_) | Self::Discard => output.len(),
        }
    }

    /// True if all of `output` has gone out, and the channel holds nothing back.
    pub(crate) fn has_sent(&self, output: &Output) -> bool {
        match self {
            Self::Transport(transport) => transport.has_sent(output),
            Self::Stream(stream) => stream.has_sent(output),
            Self::Discard => output.is_empty(),
        }
    }

    /// Ends the connection in good order: tells the client where the channel has words for it. Bytes that the channel holds back are
    /// lost.
    pub(crate) fn close(&self) {
        match self {
            Self::Transport(transport) => transport.close(),
            Self::Stream(stream) => stream.finish(),
            Self::Discard => {}
        }
    }

    /// Tells the client that nothing more will come; false if there is nobody to be told.
    pub(crate) fn shutdown(&self) -> bool {
        match self {
            Self::Transport(transport) => transport.shutdown(),
            Self::Stream(stream) => {
                stream.finish();
                true
            }
            Self::Discard => false,
        }
    }
}
