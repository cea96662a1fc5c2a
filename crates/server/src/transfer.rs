//! A range of a file as the body of an answer.
//!
//! Called by [`sending`](crate::sending) for files that are not kept in memory. A plain socket gets the file's bytes directly
//! ([`sendfile`](tutti_conn::sendfile)); if the connection's channel transforms the bytes, they are read into memory and sent as usual.
//! Either way, only a little is passed to the socket ahead of the client.
//!
//! Must never: send more than the range, continue after a file that has become shorter as if nothing had happened, or occupy the thread for
//! more than [`TURN_BYTES`] at a time.

use std::future::poll_fn;
use std::ops::Range;
use std::os::fd::OwnedFd;

use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_conn::sendfile::{CALL_BYTES, Way, prepare, read_at};
use tutti_conn::socket::poll_attempt;

use crate::exchange::client::ClientSide;

/// Bytes read into memory at a time if the socket does not get them directly: four TLS records (RFC 8446 §5.1).
const READ_BYTES: usize = 64 * 1024;

/// Bytes after which other connections of the thread get a turn, however fast this client is.
const TURN_BYTES: u64 = 512 * 1024;

/// From this size on, a range is worth the system calls that configure the socket, and is copied for a client on this machine. Smaller
/// responses fit the socket at once.
const LARGE_BYTES: u64 = 1024 * 1024;

/// Sends `range` of `file` and adds to `sent`; a client that takes too little is given up by `send_timeout`. `output`, which is empty, has
/// the limit of the rate.
pub(crate) async fn send_range(
    client: &ClientSide,
    file: &OwnedFd,
    range: Range<u64>,
    send_timeout: Millis,
    (output, sent): (&mut Output, &mut u64),
) -> Result<(), Gone> {
    let Some(io) = client.channel.plain() else {
        return send_read(client, file, range, send_timeout, (output, sent)).await;
    };
    let way = way(client, &range);
    let mut offset = range.start;
    let mut turn_ends = offset + TURN_BYTES;
    while offset < range.end {
        let mut count = usize::try_from(range.end - offset)
            .unwrap_or(usize::MAX)
            .min(CALL_BYTES);
        if let Some(pace) = output.pace() {
            client.note_all_taken();
            poll_fn(|cx| pace.poll_ready(cx)).await;
            count = count.min(usize::try_from(pace.allowance()).unwrap_or(usize::MAX));
            if count == 0 {
                continue;
            }
        }
        let before = offset;
        let buffers = &client.local.buffers;
        let mut some = |socket: &OwnedFd| way.send(socket, file, &mut offset, count, buffers);
        client
            .attempt(|cx| poll_attempt(io, cx, &mut some), send_timeout)
            .await?;
        client.note_taken(offset - before);
        if let Some(pace) = output.pace() {
            pace.take(offset - before);
        }
        *sent += offset - before;
        if offset >= turn_ends {
            turn_ends = offset + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    client.note_all_taken();
    Ok(())
}

/// Reads `range` into memory and sends it from there.
async fn send_read(
    client: &ClientSide,
    file: &OwnedFd,
    range: Range<u64>,
    send_timeout: Millis,
    (output, sent): (&mut Output, &mut u64),
) -> Result<(), Gone> {
    let mut offset = range.start;
    let mut turn_ends = offset + TURN_BYTES;
    while offset < range.end {
        let read = read_some(client, file, offset..range.end, &mut output.bytes)?;
        client.flush(output, send_timeout).await?;
        offset += read;
        *sent += read;
        if offset >= turn_ends {
            turn_ends = offset + TURN_BYTES;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Reads the beginning of `range` into `buffer`, replacing its content; returns how much. Little if much waits for the client.
pub(crate) fn read_some(
    client: &ClientSide,
    file: &OwnedFd,
    range: Range<u64>,
    buffer: &mut Vec<u8>,
) -> Result<u64, Gone> {
    let count = usize::try_from(range.end - range.start)
        .unwrap_or(usize::MAX)
        .min(client.share().limit(0, READ_BYTES));
    buffer.resize(count, 0);
    let read = read_at(file, buffer, range.start)?;
    buffer.truncate(read);
    Ok(read as u64)
}

/// Chooses the way, and configures the socket if that has not been done.
fn way(client: &ClientSide, range: &Range<u64>) -> Way {
    if range.end - range.start < LARGE_BYTES {
        return Way::Pages;
    }
    let is_local = client.is_local();
    if client.peer.address().is_some()
        && !client.is_prepared.replace(true)
        && let Some(socket) = client.channel.socket()
    {
        prepare(socket, is_local);
    }
    if is_local { Way::Copied } else { Way::Pages }
}
