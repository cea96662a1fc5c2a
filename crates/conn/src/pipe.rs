//! The memory that `h2` reads from and writes to. The driver of a connection, to a client or a server, fills and empties it.
//!
//! `h2` writes and flushes each larger DATA frame separately; here the frames of all streams with something to send are collected, and sent
//! in one call (over TLS: in full records).
//!
//! Must never: hold more than [`OUTPUT_BYTES`] and a frame that the client has not taken.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::output::Output;

/// Frames that wait for a slow client: beyond this `h2` gets no more room.
const OUTPUT_BYTES: usize = 128 * 1024;

/// Bytes between the connection and `h2`.
#[derive(Debug, Default)]
pub struct Pipe {
    input: Vec<u8>,
    /// Bytes of `input` that `h2` has taken.
    taken: usize,
    /// No bytes follow `input`.
    pub has_ended: bool,
    /// Frames that wait to be sent.
    pub output: Output,
    /// `h2` was refused room, and must be polled again when there is some.
    pub is_blocked: bool,
}

impl Pipe {
    /// With these received bytes.
    pub fn new(input: Vec<u8>) -> Self {
        Self {
            input,
            ..Self::default()
        }
    }

    /// True if `h2` has taken all received bytes.
    pub fn is_drained(&self) -> bool {
        self.taken >= self.input.len()
    }

    /// Takes the bytes that `h2` has not taken, with their buffer.
    pub fn take_input(&mut self) -> Vec<u8> {
        self.taken = 0;
        std::mem::take(&mut self.input)
    }

    /// Returns the buffer for the next bytes; the former ones have been taken.
    pub fn refill(&mut self) -> &mut Vec<u8> {
        self.input.clear();
        self.taken = 0;
        &mut self.input
    }
}

/// The end of the pipe that `h2` uses.
#[derive(Debug)]
pub struct Face(pub Rc<RefCell<Pipe>>);

impl AsyncRead for Face {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        let rest = pipe.input.get(pipe.taken..).unwrap_or_default();
        if rest.is_empty() {
            // Without a waker: the driver polls `h2` after every change of the pipe.
            return if pipe.has_ended {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let count = rest.len().min(room.remaining());
        room.put_slice(rest.get(..count).unwrap_or_default());
        pipe.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Face {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.output.pending().len() >= OUTPUT_BYTES {
            pipe.is_blocked = true;
            return Poll::Pending;
        }
        pipe.output.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The driver sends when `h2` has written everything.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The driver shuts the connection down when everything has been sent.
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.output.pending().len() >= OUTPUT_BYTES {
            pipe.is_blocked = true;
            return Poll::Pending;
        }
        let mut count = 0;
        for slice in slices {
            pipe.output.bytes.extend_from_slice(slice);
            count += slice.len();
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
