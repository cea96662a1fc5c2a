//! Bytes to and from a connection's socket: tried at once, waited for only when the kernel says so.
//!
//! A response is first sent without asking whether the socket is writable (it nearly always is), so a keep-alive request costs one
//! read and one write. Readiness is cleared after a short read, so no read is spent on finding the socket empty.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock::{Millis, now_millis};
use crate::connection::Connection;

/// Watches a non-blocking descriptor on the thread's reactor.
#[expect(
    deprecated,
    reason = "the safe constructor is deprecated for types that can close or replace their descriptor while it is registered; an \
              owned descriptor that is only ever borrowed can do neither, and this crate has no unsafe code"
)]
pub(crate) fn watch<T: Owned>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// What keeps its descriptor open, and the same, for as long as it lives.
pub(crate) trait Owned: AsRawFd {}

impl Owned for OwnedFd {}

impl Owned for Arc<OwnedFd> {}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The client closed it, or it broke.
    Closed,
    /// The client did not send or take anything for too long.
    TimedOut,
}

/// Bytes that have gone out are kept in front of those that have not, up to this many.
const SENT_BYTES: usize = 64 * 1024;

/// Bytes on their way out.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }

    /// What has not been sent.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent >= self.bytes.len()
    }

    /// `n` more bytes have gone out; an empty buffer starts anew.
    pub(crate) fn advance(&mut self, n: usize) {
        self.sent += n;
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= SENT_BYTES && self.sent >= self.bytes.len() / 2 {
            // For a client that never takes all, what has gone out must not pile up. Each byte is moved once at most.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Sends what the socket takes now; true if that was all.
    pub(crate) fn try_send(&mut self, socket: &OwnedFd, flags: SendFlags) -> Result<bool, Gone> {
        while !self.is_empty() {
            match rustix::net::send(socket, self.pending(), flags | SendFlags::NOSIGNAL) {
                Ok(sent) => self.advance(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(_) => return Err(Gone::Closed),
            }
        }
        Ok(true)
    }

    /// The same, for [`Connection::attempt`].
    pub(crate) fn attempt(&mut self, socket: &OwnedFd, flags: SendFlags) -> Result<Attempt, Gone> {
        let before = self.pending().len();
        Ok(match self.try_send(socket, flags)? {
            true => Attempt::Progress,
            false if self.pending().len() < before => Attempt::ProgressAndFull,
            false => Attempt::Full,
        })
    }
}

/// What one attempt to write gave.
pub(crate) enum Attempt {
    Progress,
    /// The socket took less than it was given, and will tell when it has room again.
    ProgressAndFull,
    /// The socket took nothing.
    Full,
}

/// What one attempt to read gave.
pub(crate) enum Received {
    Bytes(usize),
    End,
    Nothing,
}

/// Reads once into the spare capacity of `buffer`, which must have some.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut Vec<u8>) -> Result<Received, Gone> {
    loop {
        match rustix::net::recv(socket.as_fd(), spare_capacity(buffer), RecvFlags::empty()) {
            Ok((0, _)) => return Ok(Received::End),
            Ok((read, _)) => return Ok(Received::Bytes(read)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(_) => return Err(Gone::Closed),
        }
    }
}

/// Polls for bytes: reads when the socket is readable, and keeps tokio's idea of that right.
pub(crate) fn poll_receive(
    io: &AsyncFd<OwnedFd>,
    buffer: &mut Vec<u8>,
    cx: &mut Context<'_>,
) -> Poll<Result<Received, Gone>> {
    loop {
        let Poll::Ready(ready) = io.poll_read_ready(cx) else {
            return Poll::Pending;
        };
        let Ok(mut guard) = ready else {
            return Poll::Ready(Err(Gone::Closed));
        };
        let room = buffer.capacity() - buffer.len();
        match receive(io.get_ref(), buffer)? {
            Received::Nothing => guard.clear_ready(),
            received => {
                if let Received::Bytes(read) = received
                    && read < room
                {
                    guard.clear_ready();
                }
                return Poll::Ready(Ok(received));
            }
        }
    }
}

impl Connection {
    /// Reads at least one byte behind what `buffer` has, until `deadline`.
    pub(crate) async fn read_more(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.set_deadline(deadline);
        if buffer.capacity() == buffer.len() {
            buffer.reserve(buffer.len().max(crate::buffers::BUFFER_BYTES));
        }
        poll_fn(|cx| match poll_receive(&self.io, buffer, cx) {
            Poll::Ready(Ok(Received::Bytes(_))) => Poll::Ready(Ok(())),
            Poll::Ready(Ok(Received::End | Received::Nothing)) => Poll::Ready(Err(Gone::Closed)),
            Poll::Ready(Err(gone)) => Poll::Ready(Err(gone)),
            Poll::Pending if deadline <= now_millis() => Poll::Ready(Err(Gone::TimedOut)),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Calls `attempt` whenever the socket is writable, until it got on; the client has until `deadline` for that.
    pub(crate) async fn attempt(
        &self,
        mut attempt: impl FnMut(&OwnedFd) -> Result<Attempt, Gone>,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.set_deadline(deadline);
        poll_fn(|cx| {
            loop {
                match self.io.poll_write_ready(cx) {
                    Poll::Ready(Ok(mut guard)) => match attempt(self.io.get_ref()) {
                        Ok(Attempt::Progress) => return Poll::Ready(Ok(())),
                        Ok(Attempt::ProgressAndFull) => {
                            guard.clear_ready();
                            return Poll::Ready(Ok(()));
                        }
                        Ok(Attempt::Full) => guard.clear_ready(),
                        Err(gone) => return Poll::Ready(Err(gone)),
                    },
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Gone::Closed)),
                    Poll::Pending if deadline <= now_millis() => {
                        return Poll::Ready(Err(Gone::TimedOut));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Sends all of `output`.
    pub(crate) async fn flush(
        &self,
        output: &mut Output,
        flags: SendFlags,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        if output.try_send(self.io.get_ref(), flags)? {
            return Ok(());
        }
        // The timeout is between two transmissions, not for the whole: it starts anew whenever something has gone out.
        while !output.is_empty() {
            let deadline = now_millis().saturating_add(send_timeout);
            self.attempt(|socket| output.attempt(socket, flags), deadline)
                .await?;
        }
        Ok(())
    }
}

/// Waits for `future`, but not longer than the client is there. A client that closes its sending side after a request counts as gone:
/// closing a connection altogether looks the same from here.
pub(crate) async fn unless_gone<F: Future>(
    connection: &Connection,
    future: F,
) -> Result<F::Output, Gone> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        match connection.io.poll_read_ready(cx) {
            Poll::Ready(Ok(guard)) if guard.ready().is_read_closed() => {
                Poll::Ready(Err(Gone::Closed))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Gone::Closed)),
            // More requests behind this one wait in the kernel; then the end of the connection shows when the answer is sent.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}
