//! Bytes of a file to a plain socket, one system call at a time.
//!
//! There are two ways; docs/project/decisions/0040 has the figures. To another machine the page cache's own pages are sent without a copy.
//! A client on this machine would itself copy those pages, which have left the processor's cache by then, so a large file is copied for it
//! here, through a small buffer that stays in the cache.
//!
//! Must never: continue after a file that has become shorter as if nothing had happened. A read of bytes that are not in the page cache
//! blocks the thread for one call, so callers request at most [`CALL_BYTES`]: passing every read to another thread would cost two wake-ups
//! for each, as much as the read of cached bytes itself, and the kernel reads ahead of sequential reads.

use std::os::fd::OwnedFd;

use rustix::fs::sendfile;
use rustix::io::{Errno, pread};
use rustix::net::{SendFlags, send, sockopt};
use socket2::SockRef;

use crate::buffers::{Buffers, COPY_BUFFER_BYTES};
use crate::counters::note_sent;
use crate::output::Gone;
use crate::socket::Attempt;

/// Most bytes of one system call.
pub const CALL_BYTES: usize = COPY_BUFFER_BYTES;

/// Send buffer of a socket to this machine. There is no latency to hide, so a larger one only means bytes that have left the processor's
/// cache when the client reads them.
const LOCAL_SEND_BUFFER: usize = 256 * 1024;

/// Most bytes that wait unsent in the kernel on the way to another machine. Bytes in flight are not limited by it.
const UNSENT_BYTES: u32 = 512 * 1024;

/// The path of a file's bytes to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the page cache, without a copy.
    Pages,
    /// Through the thread's buffer.
    Copied,
}

impl Way {
    /// Sends some of `file` from `offset` on, at most `count` bytes, and advances `offset`.
    ///
    /// # Errors
    /// The connection failed, or the file has become shorter.
    pub fn send(
        self,
        socket: &OwnedFd,
        file: &OwnedFd,
        offset: &mut u64,
        count: usize,
        buffers: &Buffers,
    ) -> Result<Attempt, Gone> {
        let count = count.min(CALL_BYTES);
        match self {
            Self::Pages => send_pages(socket, file, offset, count),
            Self::Copied => {
                buffers.with_copy_buffer(|buffer| send_copied(socket, file, offset, count, buffer))
            }
        }
    }
}

/// Configures a socket for large files, to a client on this machine or on another. Failures do not matter: the file is sent anyway.
pub fn prepare(socket: &OwnedFd, is_local: bool) {
    if is_local {
        let _ = sockopt::set_socket_send_buffer_size(socket, LOCAL_SEND_BUFFER);
    } else {
        let _ = SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES);
    }
}

/// Reads once, at least one byte.
///
/// # Errors
/// The file cannot be read, or has become shorter: the promised bytes cannot be sent, and the client must notice.
pub fn read_at(file: &OwnedFd, room: &mut [u8], offset: u64) -> Result<usize, Gone> {
    loop {
        match pread(file, &mut *room, offset) {
            Ok(0) => return Err(Gone::Closed),
            Ok(read) => return Ok(read),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Gone::Closed),
        }
    }
}

fn send_pages(
    socket: &OwnedFd,
    file: &OwnedFd,
    offset: &mut u64,
    count: usize,
) -> Result<Attempt, Gone> {
    loop {
        match sendfile(socket, file, Some(offset), count) {
            // The file has become shorter: the promised bytes cannot be sent, and the client must notice.
            Ok(0) => return Err(Gone::Closed),
            // A short count may also come from reading, so it does not mean that the socket is full.
            Ok(sent) => {
                note_sent(sent);
                return Ok(Attempt::Progress);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Attempt::Full),
            Err(_) => return Err(Gone::Closed),
        }
    }
}

/// Bytes that the socket does not accept are read again the next time, so that none need to be kept.
fn send_copied(
    socket: &OwnedFd,
    file: &OwnedFd,
    offset: &mut u64,
    count: usize,
    buffer: &mut [u8],
) -> Result<Attempt, Gone> {
    let room = buffer.get_mut(..count).ok_or(Gone::Closed)?;
    let read = read_at(file, room, *offset)?;
    let bytes = room.get(..read).unwrap_or_default();
    loop {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                note_sent(sent);
                *offset += sent as u64;
                let is_full = sent < read;
                return Ok(if is_full {
                    Attempt::ProgressAndFull
                } else {
                    Attempt::Progress
                });
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Attempt::Full),
            Err(_) => return Err(Gone::Closed),
        }
    }
}
