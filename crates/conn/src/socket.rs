//! A socket registered with the event loop: tried at once, waited for only when it is not ready.
//!
//! A response is first sent without asking whether the socket is writable (it nearly always is), so a keep-alive request costs one read and
//! one write. Readiness is cleared after a short read, so no read is spent on finding the socket empty.
//!
//! Must never: return [`Poll::Pending`] without having arranged to be woken.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tutti_sys::span::{MemorySpan, write_spans};
use tutti_wire::RawSpan;

use crate::counters::{note_received, note_sent};
use crate::output::{Gone, Output};

/// Registers a non-blocking descriptor with the thread's event loop.
#[expect(
    deprecated,
    reason = "the safe constructor is deprecated for types that can close or replace their descriptor while it is registered; an \
              owned descriptor that is only ever borrowed can do neither, and this crate has no unsafe code"
)]
pub fn watch<T: Owned>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// Keeps its descriptor open and unchanged for as long as it exists.
pub trait Owned: AsRawFd {}

impl Owned for OwnedFd {}

impl Owned for Arc<OwnedFd> {}

/// The result of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// This many bytes.
    Bytes(usize),
    /// The other end sends nothing more.
    End,
    /// Nothing has come yet.
    Nothing,
}

/// The result of one attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The socket accepted everything, or may accept more.
    Progress,
    /// The socket accepted less than everything, and will report when it has room again.
    ProgressAndFull,
    /// The socket accepted nothing.
    Full,
}

/// A part of a response's body, in memory that its application may still write to.
#[derive(Debug)]
pub struct BodyPart<'a> {
    /// The bytes, in two spans if they wrap around in a ring.
    pub spans: [RawSpan<'a>; 2],
    /// The bytes after it: framing, or all of a body that is in the server's own memory.
    pub suffix: &'a [u8],
}

impl<'a> BodyPart<'a> {
    /// A part in the server's own memory.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self {
            spans: [RawSpan::EMPTY; 2],
            suffix: bytes,
        }
    }

    /// Bytes of all of it.
    pub fn len(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum::<usize>() + self.suffix.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies all of it.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        for span in &self.spans {
            span.copy_to(bytes);
        }
        bytes.extend_from_slice(self.suffix);
    }
}

/// Reads once into the spare capacity of `buffer`, which must have some.
fn receive(socket: &OwnedFd, buffer: &mut Vec<u8>) -> Result<ReadResult, Gone> {
    loop {
        match rustix::net::recv(socket.as_fd(), spare_capacity(buffer), RecvFlags::empty()) {
            Ok((0, _)) => return Ok(ReadResult::End),
            Ok((read, _)) => {
                note_received(read);
                return Ok(ReadResult::Bytes(read));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(ReadResult::Nothing),
            Err(_) => return Err(Gone::Closed),
        }
    }
}

/// Reads into the spare capacity of `buffer`, which must have some, when the socket is readable; keeps tokio's readiness consistent.
pub fn poll_receive(
    io: &AsyncFd<OwnedFd>,
    buffer: &mut Vec<u8>,
    cx: &mut Context<'_>,
) -> Poll<Result<ReadResult, Gone>> {
    loop {
        let Poll::Ready(ready) = io.poll_read_ready(cx) else {
            return Poll::Pending;
        };
        let Ok(mut guard) = ready else {
            return Poll::Ready(Err(Gone::Closed));
        };
        let room = buffer.capacity() - buffer.len();
        match receive(io.get_ref(), buffer)? {
            ReadResult::Nothing => guard.clear_ready(),
            received => {
                if let ReadResult::Bytes(read) = received
                    && read < room
                {
                    guard.clear_ready();
                }
                return Poll::Ready(Ok(received));
            }
        }
    }
}

/// True if the kernel has bytes for [`poll_receive`] that it may not have reported yet: it reports events only when a thread asks for them, and
/// a thread that did not run for a while asks after its timers have expired.
pub fn has_unread(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let mut first = [0_u8; 1];
    rustix::net::recv(socket.as_fd(), &mut first, flags).is_ok_and(|(read, _)| read > 0)
}

/// Sends as much as the socket accepts now; true if that was everything.
///
/// # Errors
/// The connection failed, or bytes in a file cannot be read back.
pub fn try_send(socket: &OwnedFd, output: &mut Output) -> Result<bool, Gone> {
    while !output.is_empty() {
        if output.is_paused() {
            return Ok(false);
        }
        match rustix::net::send(socket, output.front()?, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                note_sent(sent);
                output.advance(sent);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(_) => return Err(Gone::Closed),
        }
    }
    Ok(true)
}

/// Calls `attempt` when the socket is writable, until some bytes have been sent.
///
/// # Errors
/// The connection failed, or the error of `attempt`.
pub fn poll_attempt(
    io: &AsyncFd<OwnedFd>,
    cx: &mut Context<'_>,
    mut attempt: impl FnMut(&OwnedFd) -> Result<Attempt, Gone>,
) -> Poll<Result<(), Gone>> {
    loop {
        match io.poll_write_ready(cx) {
            Poll::Ready(Ok(mut guard)) => match attempt(io.get_ref()) {
                Ok(Attempt::Progress) => return Poll::Ready(Ok(())),
                Ok(Attempt::ProgressAndFull) => {
                    guard.clear_ready();
                    return Poll::Ready(Ok(()));
                }
                Ok(Attempt::Full) => guard.clear_ready(),
                Err(gone) => return Poll::Ready(Err(gone)),
            },
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Gone::Closed)),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// Sends `output` and then `body`, in one call if no part of `output` is in a file. Bytes that the socket does not accept are kept in
/// `output`.
pub fn send_body(socket: &OwnedFd, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
    if output.is_spilled() {
        body.append_to(&mut output.bytes);
        return try_send(socket, output).map(drop);
    }
    let pending = output.pending().len();
    let total = pending + body.len();
    if total == 0 {
        return Ok(());
    }
    let [first, second] = body.spans.each_ref().map(|span| MemorySpan {
        ptr: span.ptr,
        len: span.len,
    });
    let spans = [
        MemorySpan::of(output.pending()),
        first,
        second,
        MemorySpan::of(body.suffix),
    ];
    let sent = send_spans(socket, &spans)?;
    if sent < total {
        body.append_to(&mut output.bytes);
        output.advance(sent);
    } else {
        output.advance(pending);
    }
    Ok(())
}

/// Sends `output` and then `bytes`, in one call. Returns how many of `bytes` the socket accepted: none while some of `output` is left. They
/// are not copied.
pub fn send_directly(socket: &OwnedFd, output: &mut Output, bytes: &[u8]) -> Result<usize, Gone> {
    if output.is_spilled() {
        return Ok(0);
    }
    let pending = output.pending().len();
    let sent = send_spans(
        socket,
        &[MemorySpan::of(output.pending()), MemorySpan::of(bytes)],
    )?;
    output.advance(sent.min(pending));
    Ok(sent.saturating_sub(pending))
}

/// Sends these in one call; returns how many bytes the socket accepted.
fn send_spans(socket: &OwnedFd, spans: &[MemorySpan]) -> Result<usize, Gone> {
    let sent = match write_spans(socket.as_fd(), spans) {
        Ok(sent) => sent,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            0
        }
        Err(_) => return Err(Gone::Closed),
    };
    note_sent(sent);
    Ok(sent)
}

/// Ready when the other end has closed its sending side; wakes the task when it does.
pub fn poll_closed(io: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> Poll<()> {
    match io.poll_read_ready(cx) {
        Poll::Ready(Ok(guard)) if guard.ready().is_read_closed() => Poll::Ready(()),
        Poll::Ready(Err(_)) => Poll::Ready(()),
        // Pipelined requests wait in the kernel; then the end of the connection shows when the response is sent.
        Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, send, socketpair};

    use super::*;

    #[test]
    fn bytes_are_unread_before_the_runtime_reports_them() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            let (ours, theirs) = socketpair(family, kind, SocketFlags::NONBLOCK, None).unwrap();
            let io = watch(ours, Interest::READABLE).unwrap();
            let mut buffer = Vec::with_capacity(16);
            // The runtime asks the kernel for events only while no task runs.
            let arrive = poll_fn(|cx| {
                assert!(poll_receive(&io, &mut buffer, cx).is_pending());
                assert!(!has_unread(io.get_ref()));
                send(&theirs, b"GET", SendFlags::empty()).unwrap();
                assert!(poll_receive(&io, &mut buffer, cx).is_pending());
                Poll::Ready(())
            });
            arrive.await;
            assert!(has_unread(io.get_ref()));
            let received = poll_fn(|cx| poll_receive(&io, &mut buffer, cx)).await;
            assert_eq!(received, Ok(ReadResult::Bytes(3)));
            assert!(!has_unread(io.get_ref()));
            drop(theirs);
            assert!(!has_unread(io.get_ref()), "an end is no request");
        });
    }
}
