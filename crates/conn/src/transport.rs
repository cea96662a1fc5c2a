//! A client's socket as its connection uses it: plain, or with TLS.
//!
//! Must never: report that everything has been sent while TLS still buffers some of it, or return [`Poll::Pending`] without having arranged
//! to be woken.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;
use tutti_tls::HandshakeFacts;

use crate::output::{Gone, Output};
use crate::socket::{
    Attempt, BodyPart, ReadResult, poll_attempt, poll_closed, poll_receive, send_body,
    send_directly, try_send,
};
use crate::tls::TlsSocket;

/// The transport of a connection's bytes: its socket, with or without TLS.
pub enum Transport {
    /// Unencrypted.
    Plain(AsyncFd<OwnedFd>),
    /// Encrypted.
    Tls(Box<TlsSocket>),
}

impl Transport {
    /// The socket, watched.
    pub fn io(&self) -> &AsyncFd<OwnedFd> {
        match self {
            Self::Plain(io) => io,
            Self::Tls(tls) => tls.io(),
        }
    }

    /// The socket, for addresses and socket options.
    pub fn socket(&self) -> &OwnedFd {
        self.io().get_ref()
    }

    /// The socket, if it is unencrypted.
    pub fn plain(&self) -> Option<&AsyncFd<OwnedFd>> {
        match self {
            Self::Plain(io) => Some(io),
            Self::Tls(_) => None,
        }
    }

    /// The TLS socket, if it is encrypted.
    pub fn tls(&self) -> Option<&TlsSocket> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// The outcome of the handshake, which must be done; `None` without TLS.
    pub fn facts(&self) -> Option<&Rc<HandshakeFacts>> {
        self.tls().map(TlsSocket::facts)
    }

    /// Reads into the spare capacity of `buffer`, which must have some.
    pub fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        match self {
            Self::Plain(io) => poll_receive(io, buffer, cx),
            Self::Tls(tls) => tls.poll_receive(buffer, cx),
        }
    }

    /// Sends as much as possible now; true if nothing is left, neither in `output` nor in TLS.
    ///
    /// # Errors
    /// The connection failed, or bytes in a file cannot be read back.
    pub fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        match self {
            Self::Plain(io) => try_send(io.get_ref(), output),
            Self::Tls(tls) => tls.try_send(output),
        }
    }

    /// Sends some of `output`: ready when bytes have been sent, or nothing is left.
    pub fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        match self {
            Self::Plain(io) => poll_attempt(io, cx, |socket| {
                let before = output.len();
                Ok(match try_send(socket, output)? {
                    true => Attempt::Progress,
                    // The socket may have room.
                    false if output.is_paused() => Attempt::Progress,
                    false if output.len() < before => Attempt::ProgressAndFull,
                    false => Attempt::Full,
                })
            }),
            Self::Tls(tls) => tls.poll_send(output, cx),
        }
    }

    /// Sends `output` and then `body`, in one call if possible; unsent bytes are kept in `output`.
    pub fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        match self {
            Self::Plain(io) if !output.is_paced() => send_body(io.get_ref(), output, body),
            Self::Plain(io) => {
                body.append_to(&mut output.bytes);
                try_send(io.get_ref(), output).map(drop)
            }
            Self::Tls(tls) => {
                body.append_to(&mut output.bytes);
                tls.try_send(output).map(drop)
            }
        }
    }

    /// Sends `output` and then `bytes`, if that is possible without copying them; returns how many of these have been sent.
    pub fn send_directly(&self, output: &mut Output, bytes: &[u8]) -> Result<usize, Gone> {
        match self {
            Self::Plain(io) if !output.is_paced() => send_directly(io.get_ref(), output, bytes),
            Self::Plain(_) | Self::Tls(_) => Ok(0),
        }
    }

    /// Unsent bytes, as far as they are known here.
    pub fn unsent(&self, output: &Output) -> u64 {
        match self {
            Self::Plain(_) => output.len(),
            Self::Tls(tls) => tls.unsent(output),
        }
    }

    /// True if all of `output` has been sent, and TLS buffers nothing.
    pub fn has_sent(&self, output: &Output) -> bool {
        match self {
            Self::Plain(_) => output.is_empty(),
            Self::Tls(tls) => tls.has_sent(output),
        }
    }

    /// Ready when the client has closed its sending side; wakes the task when it does.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        poll_closed(self.io(), cx)
    }

    /// Closes the connection: notifies the client if TLS is used. Bytes that TLS buffers are lost.
    pub fn close(&self) {
        match self {
            // Closing the socket is the notification.
            Self::Plain(_) => {}
            Self::Tls(tls) => tls.close(),
        }
    }

    /// Closes, and shuts down the sending side of the socket; false if that is impossible.
    pub fn shutdown(&self) -> bool {
        self.close();
        rustix::net::shutdown(self.socket().as_fd(), Shutdown::Write).is_ok()
    }
}
