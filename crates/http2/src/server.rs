//! The server as HTTP/2 sees it.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tutti_conn::buffers::Buffers;
use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_tls::HandshakeFacts;

use crate::head::Http2Head;
use crate::stream::Http2Stream;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Http2Timeouts {
    /// For the preface, and for the head of a request.
    pub head: Millis,
    /// To take what there is for it.
    pub send: Millis,
    /// Without a request.
    pub idle: Millis,
}

/// The terms of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// Bytes that the head of a request may have.
    pub most_head_bytes: usize,
    /// How long its client may take.
    pub timeouts: Http2Timeouts,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All has been said.
    Close,
    /// Without a word that would make what has been sent look whole.
    Abort,
    /// The client may not have read all while it still sends: read on for a while, then close.
    Linger,
}

/// A connection as the server keeps it.
pub trait Http2Connection {
    /// Its terms, which stay as they are.
    fn terms(&self) -> Http2Options;

    /// The outcome of its handshake, if its bytes are encrypted.
    fn facts(&self) -> Option<Rc<HandshakeFacts>>;

    /// The thread's buffers.
    fn buffers(&self) -> &Buffers;

    /// Polls for bytes of the client: reads into the spare capacity of `buffer`, which must have some.
    fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>>;

    /// Sends some of `output`: ready when something has gone out, or nothing is left.
    fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>>;

    /// True if all of `output` has gone out, and nothing is held back.
    fn has_sent(&self, output: &Output) -> bool;

    /// The client has taken so many bytes of what there is for it.
    fn note_taken(&self, bytes: u64);

    /// The client has taken all there was.
    fn note_all_taken(&self);

    /// When a client is given up that takes nothing more, by this timeout.
    fn owes(&self, send_timeout: Millis) -> Millis;

    /// True if it is to end with the requests that it has.
    fn is_ending(&self) -> bool;

    /// Its task is to be woken then at the latest.
    fn set_deadline(&self, deadline: Millis);

    /// It has a request, or has not.
    fn set_active(&self, is_active: bool);

    /// Tells the log that it is closed for what only harms.
    fn complain(&self, reason: &str);

    /// Tells the log that it is closed for a fault of the client.
    fn mention(&self, reason: &str);

    /// Begins with a request, or has begun with it when this returns.
    fn begin(&self, head: &Http2Head, stream: Http2Stream, waker: &Waker);
}
