//! The channel of a client's bytes: its own socket, or an HTTP/2 or HTTP/3 stream.
//!
//! Everything that reads, writes or checks the other end uses [`Channel`]; only [`transfer`](crate::transfer) looks inside, for the fast
//! paths of a plain socket.
//!
//! Must never: report that everything has been sent while the channel itself still buffers some of it, or return [`Poll::Pending`] without
//! having arranged to be woken.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::{BodyPart, ReadResult, has_unread};
use tutti_conn::transport::Transport;
use tutti_tls::HandshakeFacts;

use crate::exchange::stream::Stream;

/// The channel of a client's bytes.
pub(crate) enum Channel {
    /// Through the client's socket.
    Transport(Transport),
    /// As one stream of an HTTP/2 or 3 connection.
    Stream(Box<Stream>),
    /// There is no client: the server makes the request itself, to refresh the cache. Sent bytes are discarded.
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

    /// The socket, if it is unencrypted.
    pub(crate) fn plain(&self) -> Option<&AsyncFd<OwnedFd>> {
        self.transport().and_then(Transport::plain)
    }

    /// True if the bytes are encrypted.
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

    /// True if bytes have arrived that were not reported yet; the task is woken for them.
    pub(crate) fn has_unread(&self) -> bool {
        match self {
            Self::Transport(transport) => has_unread(transport.socket()),
            Self::Stream(_) | Self::Discard => false,
        }
    }

    /// Sends as much as possible now; true if nothing is left, neither in `output` nor in the channel.
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

    /// Sends some of `output`: ready when bytes have been sent, or nothing is left.
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

    /// Sends `output` and then `bytes`, if that is possible without copying them; returns how many of these have been sent.
    pub(crate) fn send_directly(&self, output: &mut Output, bytes: &[u8]) -> Result<usize, Gone> {
        match self {
            Self::Transport(transport) => transport.send_directly(output, bytes),
            Self::Stream(_) | Self::Discard => Ok(0),
        }
    }

    /// Sends `output` and then `body`, in one call if possible; unsent bytes are kept in `output`.
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

    /// Unsent bytes, as far as they are known here.
    pub(crate) fn unsent(&self, output: &Output) -> u64 {
        match self {
            Self::Transport(transport) => transport.unsent(output),
            Self::Stream(_) | Self::Discard => output.len(),
        }
    }

    /// True if all of `output` has been sent, and the channel buffers nothing.
    pub(crate) fn has_sent(&self, output: &Output) -> bool {
        match self {
            Self::Transport(transport) => transport.has_sent(output),
            Self::Stream(stream) => stream.has_sent(output),
            Self::Discard => output.is_empty(),
        }
    }

    /// Closes the connection: notifies the client if the protocol permits it. Bytes that the channel buffers are lost.
    pub(crate) fn close(&self) {
        match self {
            Self::Transport(transport) => transport.close(),
            Self::Stream(stream) => stream.finish(),
            Self::Discard => {}
        }
    }

    /// Shuts down the sending side; false if that is impossible.
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
