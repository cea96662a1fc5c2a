//! A file's bytes from its descriptor to a connection's socket.
//!
//! Called by [`exchange`](crate::exchange) for files that are not kept in memory. There are two ways, and docs/decisions/0040 has the
//! figures: to another machine the page cache's own pages go out without a copy; a client on this machine would then itself copy those
//! pages, long out of the processor's cache, so what is large is copied for it here, through a small buffer that stays in the cache.
//! Where the connection's channel changes the bytes, they are read into memory and go the way of all others. Either way only a little is handed to the socket ahead of what the client takes.
//!
//! Must never: send more than the range, go on after a file that has become shorter as if nothing had happened, or keep the thread for
//! more than [`TURN_BYTES`] at a time. A read of what is not in the page cache does keep the thread, for one call, which is at most
//! [`CALL_BYTES`]: handing every read to another thread would cost two wake-ups for each, as much as the read of cached bytes itself,
//! and the kernel reads ahead of what is read in order.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::sendfile;
use rustix::io::{Errno, pread};
use rustix::net::{SendFlags, send, sockopt};
use socket2::SockRef;

use crate::buffers::COPY_BUFFER_BYTES;
use crate::clock::Millis;
use crate::connection::Connection;
use crate::output::{Gone, Output};
use crate::socket::{Attempt, poll_attempt};

/// Bytes one system call is asked for.
const CALL_BYTES: usize = COPY_BUFFER_BYTES;

/// Bytes that are read into memory at a time where a socket does not get them as they are: four of TLS's records (RFC 8446 §5.1).
const READ_BYTES: usize = 64 * 1024;

/// Bytes after which other connections of the thread get a turn, however fast this client takes them.
const TURN_BYTES: u64 = 512 * 1024;

/// From this size on, a range is worth the system calls that prepare the socket, and is copied to a client on this machine. Below, the
/// whole answer fits the socket at once.
const LARGE_BYTES: u64 = 1024 * 1024;

/// Send buffer of a socket to this machine. There is no distance to bridge, so more only means bytes that have left the processor's
/// cache when the client comes to read them.
const LOCAL_SEND_BUFFER: usize = 256 * 1024;

/// Most that waits in the kernel, not yet sent, on the way to another machine. What is under way is not limited by it.
const UNSENT_BYTES: u32 = 512 * 1024;

/// How the bytes go.
#[derive(Clone, Copy)]
enum Way {
    /// From the page cache to the socket, without a copy.
    Pages,
    /// Through the thread's buffer.
    Copied,
}

/// Sends `range` of `file` and counts in `sent`; a client that takes too little is given up as `send_timeout` says.
pub(crate) async fn send_range(
    connection: &Connection,
    file: &OwnedFd,
    range: Range<u64>,
    send_timeout: Millis,
    sent: &mut u64,
) -> Result<(), Gone> {
    let Some(io) = connection.channel.plain() else {
        return send_read(connection, file, range, send_timeout, sent).await;
    };
    let way = prepare(connection, &range);
    let mut offset = range.start;
    let mut turn_ends = offset + TURN_BYTES;
    while offset < range.end {
        let count = usize::try_from(range.end - offset)
            .unwrap_or(usize::MAX)
            .min(CALL_BYTES);
        let before = offset;
        let mut some = |socket: &OwnedFd| match way {
            Way::Pages => send_pages(socket, file, &mut offset, count),
            Way::Copied => connection
                .local
                .buffers
                .with_copy_buffer(|buffer| send_copied(socket, file, &mut offset, count, buffer)),
        };
        connection
            .attempt(|cx| poll_attempt(io, cx, &mut some), send_timeout)
            .await?;
        connection.note_taken(offset - before);
        *sent += offset - before;
        if offset >= turn_ends {
            turn_ends = offset + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    connection.note_all_taken();
    Ok(())
}

/// Reads `range` into memory and sends it from there.
async fn send_read(
    connection: &Connection,
    file: &OwnedFd,
    range: Range<u64>,
    send_timeout: Millis,
    sent: &mut u64,
) -> Result<(), Gone> {
    let mut output = Output::default();
    let mut offset = range.start;
    let mut turn_ends = offset + TURN_BYTES;
    while offset < range.end {
        let read = read_some(connection, file, offset..range.end, &mut output.bytes)?;
        connection.flush(&mut output, send_timeout).await?;
        offset += read;
        *sent += read;
        if offset >= turn_ends {
            turn_ends = offset + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Reads some of the beginning of `range` into `buffer`, in place of what it has; how much. Little, if much waits for the client.
pub(crate) fn read_some(
    connection: &Connection,
    file: &OwnedFd,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
) -> Result<u64, Gone> {
    let count = usize::try_from(range.end - range.start)
        .unwrap_or(usize::MAX)
        .min(connection.share().limit(0, READ_BYTES));
    buffer.resize(count, 0);
    let read = read_at(file, buffer, range.start)?;
    buffer.truncate(read);
    Ok(read as u64)
}

/// Reads once, at least one byte: a file that has become shorter is an error, because what was promised cannot be sent.
fn read_at(file: &OwnedFd, room: &mut [u8], offset: u64) -> Result<usize, Gone> {
    loop {
        match pread(file, &mut *room, offset) {
            Ok(0) => return Err(Gone::Closed),
            Ok(read) => return Ok(read),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Gone::Closed),
        }
    }
}

/// Chooses the way, and sets up the socket when that has not been done. No failure matters: the file goes out all the same.
fn prepare(connection: &Connection, range: &Range<u64>) -> Way {
    if range.end - range.start < LARGE_BYTES {
        return Way::Pages;
    }
    let is_local = connection.is_local();
    if connection.peer.address().is_some()
        && !connection.is_prepared.replace(true)
        && let Some(socket) = connection.channel.socket()
    {
        if is_local {
            let _ = sockopt::set_socket_send_buffer_size(socket, LOCAL_SEND_BUFFER);
        } else {
            let _ = SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES);
        }
    }
    if is_local { Way::Copied } else { Way::Pages }
}

fn send_pages(
    socket: &OwnedFd,
    file: &OwnedFd,
    offset: &mut u64,
    count: usize,
) -> Result<Attempt, Gone> {
    loop {
        match sendfile(socket, file, Some(offset), count) {
            // The file has become shorter: what was promised cannot be sent, and the client must notice.
            Ok(0) => return Err(Gone::Closed),
            // A short count may also come from reading; so it does not tell that the socket is full.
            Ok(_) => return Ok(Attempt::Progress),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Attempt::Full),
            Err(_) => return Err(Gone::Closed),
        }
    }
}

/// What the socket does not take is read again the next time, so that nothing of it needs to be kept.
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
