//! The interface of the server, as HTTP/2 uses it.

use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_conn::buffers::Buffers;
use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_tls::HandshakeFacts;

use crate::head::Http2Head;
use crate::stream::Http2Stream;

/// Timeouts of a client.
#[derive(Clone, Copy, Debug)]
pub struct Http2Timeouts {
    /// For the preface, and for the head of a request.
    pub head: Millis,
    /// For taking more of what is being sent.
    pub send: Millis,
    /// Without open requests.
    pub idle: Millis,
}

/// The limits of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// Bytes of a request head.
    pub most_head_bytes: usize,
    /// The timeouts of its client.
    pub timeouts: Http2Timeouts,
}

/// The way in which a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything has been sent.
    Close,
    /// Abruptly, so that what has been sent does not look complete.
    Abort,
    /// The client may still send and not have read everything: read on for a while, then close.
    Linger,
}

/// A connection, as the server implements it.
pub trait Http2Connection {
    /// Its limits, which do not change.
    fn terms(&self) -> Http2Options;

    /// The outcome of the TLS handshake; `None` without TLS.
    fn facts(&self) -> Option<Rc<HandshakeFacts>>;

    /// The buffers of the thread.
    fn buffers(&self) -> &Buffers;

    /// Polls for bytes from the client: reads into the spare capacity of `buffer`, which must have some.
    fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>>;

    /// Sends some of `output`: ready when bytes have gone out, or nothing is left.
    fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// True if all of `output` has gone out, and nothing is buffered below.
    fn has_sent(&self, output: &Output) -> bool;

    /// Counts the bytes that the client has taken.
    fn note_taken(&self, bytes: u64);

    /// Notes that the client has taken everything.
    fn note_all_taken(&self);

    /// The time at which a client that takes nothing more is given up, by this timeout.
    fn owes(&self, send_timeout: Millis) -> Millis;

    /// True if the connection is to end after its open requests.
    fn is_ending(&self) -> bool;

    /// Wakes its task at this time at the latest.
    fn set_deadline(&self, deadline: Millis);

    /// Notes whether it has open requests.
    fn set_active(&self, is_active: bool);

    /// Logs that it is closed because the client misuses the protocol.
    fn log_abuse(&self, reason: &str);

    /// Logs that it is closed because of an error of the client.
    fn log_client_error(&self, reason: &str);

    /// Starts a request.
    fn begin(&self, head: &Http2Head, stream: Http2Stream);
}
