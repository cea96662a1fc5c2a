//! What a connection's bytes go through: a socket as it is, or whatever else carries HTTP/1's bytes.
//!
//! Everything that reads, writes or asks about the other end goes through [`Channel`]; only [`transfer`](crate::transfer) looks behind
//! it, for the ways only a plain socket has.
//!
//! Must never: say that all has been sent while the channel itself still holds some of it, or be [`Poll::Pending`] without having
//! arranged to be woken.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;
use tutti_tls::Facts;

use crate::http2::stream::Stream;
use crate::output::{Gone, Output};
use crate::socket::{
    Attempt, BodyPart, Received, poll_attempt, poll_closed, poll_receive, send_body, try_send,
};
use crate::tls::channel::TlsChannel;

/// How a connection's bytes come and go.
pub(crate) enum Channel {
    /// As they are, through the client's socket.
    Plain(AsyncFd<OwnedFd>),
    /// Encrypted, through the client's socket.
    Tls(Box<TlsChannel>),
    /// As one stream of an HTTP/2 connection.
    Stream(Box<Stream>),
}

impl Channel {
    /// The socket below, for addresses and socket options, if the connection has one to itself.
    pub(crate) fn socket(&self) -> Option<&OwnedFd> {
        match self {
            Self::Plain(io) => Some(io.get_ref()),
            Self::Tls(tls) => Some(tls.socket()),
            Self::Stream(_) => None,
        }
    }

    /// Whether the bytes are encrypted on their way.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_) => true,
            Self::Stream(stream) => stream.facts().is_some(),
        }
    }

    /// What the handshake has led to, if the bytes are encrypted.
    pub(crate) fn facts(&self) -> Option<&Rc<Facts>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls.facts()),
            Self::Stream(stream) => stream.facts(),
        }
    }

    /// The socket below, watched, if the connection has one to itself: for what comes before the channel's own bytes.
    pub(crate) fn io(&self) -> Option<&AsyncFd<OwnedFd>> {
        match self {
            Self::Plain(io) => Some(io),
            Self::Tls(tls) => Some(tls.io()),
            Self::Stream(_) => None,
        }
    }

    /// The socket, if bytes go into it as they are.
    pub(crate) fn plain(&self) -> Option<&AsyncFd<OwnedFd>> {
        match self {
            Self::Plain(io) => Some(io),
            Self::Tls(_) => None,
            Self::Stream(_) => None,
        }
    }

    /// Polls for bytes: reads into the spare capacity of `buffer`, which must have some.
    pub(crate) fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Received, Gone>> {
        match self {
            Self::Plain(io) => poll_receive(io, buffer, cx),
            Self::Tls(tls) => tls.poll_receive(buffer, cx),
            Self::Stream(stream) => stream.poll_receive(buffer, cx),
        }
    }

    /// Sends what can be sent now; true if nothing is left, neither in `output` nor in the channel.
    pub(crate) fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        match self {
            Self::Plain(io) => try_send(io.get_ref(), output),
            Self::Tls(tls) => tls.try_send(output),
            Self::Stream(stream) => stream.try_send(output),
        }
    }

    /// Sends some of `output`: ready when something has gone out, or nothing is left.
    pub(crate) fn poll_send(
        &self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        match self {
            Self::Plain(io) => poll_attempt(io, cx, |socket| {
                let before = output.len();
                Ok(match try_send(socket, output)? {
                    true => Attempt::Progress,
                    false if output.len() < before => Attempt::ProgressAndFull,
                    false => Attempt::Full,
                })
            }),
            Self::Tls(tls) => tls.poll_send(output, cx),
            Self::Stream(stream) => stream.poll_send(output, cx),
        }
    }

    /// Sends what is in `output` and then `body`, in one call if it can be; what does not go out is kept in `output`.
    pub(crate) fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        match self {
            Self::Plain(io) => send_body(io.get_ref(), output, body),
            Self::Tls(tls) => {
                body.append_to(&mut output.bytes);
                tls.try_send(output).map(drop)
            }
            Self::Stream(stream) => stream.send_body(output, body),
        }
    }

    /// Bytes that have not gone out, as far as they can be told from here.
    pub(crate) fn unsent(&self, output: &Output) -> u64 {
        match self {
            Self::Plain(_) | Self::Stream(_) => output.len(),
            Self::Tls(tls) => tls.unsent(output),
        }
    }

    /// Whether all of `output` has gone out, and the channel holds nothing back.
    pub(crate) fn has_sent(&self, output: &Output) -> bool {
        match self {
            Self::Plain(_) | Self::Stream(_) => output.is_empty(),
            Self::Tls(tls) => tls.has_sent(output),
        }
    }

    /// Whether the client has closed its sending side; wakes the task when it does.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Plain(io) => poll_closed(io, cx),
            Self::Tls(tls) => poll_closed(tls.io(), cx),
            Self::Stream(stream) => stream.poll_gone(cx),
        }
    }

    /// The connection ends in good order: says so where the channel has words for it. Whatever it holds back is lost.
    pub(crate) fn close(&self) {
        match self {
            // Closing the socket says it.
            Self::Plain(_) => {}
            Self::Tls(tls) => tls.close(),
            Self::Stream(stream) => stream.finish(),
        }
    }

    /// Tells the client that nothing more will come; false if there is nobody to be told.
    pub(crate) fn shutdown(&self) -> bool {
        self.close();
        match self.socket() {
            Some(socket) => rustix::net::shutdown(socket.as_fd(), Shutdown::Write).is_ok(),
            None => true,
        }
    }
}
