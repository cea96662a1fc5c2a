//! The client of a request that is sent to an upstream, as the proxy sees it.
//!
//! The caller of [`run`](crate::run) implements both traits. They are used as generics: a call costs what a function costs.
//!
//! An implementation must never: let an incomplete answer look complete, or wait for a client beyond its timeout.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tutti_conn::clock::Millis;
use tutti_conn::output::Gone;
use tutti_http::{BodyError, FieldLines, Trailers};
use tutti_log::Level;
use tutti_upstream::GroupServer;

/// A request body that is streamed.
pub trait RequestBody {
    /// Reads until there is a piece; false at the end. The caller polls again at the [`deadline`](Self::deadline).
    ///
    /// # Errors
    /// No more of the body will arrive.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, BodyStreamError>>;

    /// The current piece.
    fn piece(&self) -> &[u8];

    /// Removes the first `count` bytes of the piece.
    fn consume(&mut self, count: usize);

    /// The trailer fields after the body.
    fn trailers(&self) -> Trailers;

    /// When the client must have sent more; [`NEVER`](tutti_conn::connections::NEVER) while the body is not being read.
    fn deadline(&self) -> Millis;

    /// Starts the client's read timeout, also if it waits for 100 (Continue).
    fn start_clock(&mut self);

    /// Stops the client's read timeout: the reader of the body has another limit.
    fn stop_clock(&mut self);

    /// True if the client may be waiting for 100 (Continue).
    fn awaits_continue(&self) -> bool;
}

/// Why a body ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStreamError {
    /// It is invalid, too large, or does not arrive: the status for the client, whose connection must be closed.
    Refused(u16),
    /// The client has disconnected.
    Gone(Gone),
}

impl From<BodyError> for BodyStreamError {
    fn from(error: BodyError) -> Self {
        Self::Refused(error.status())
    }
}

impl From<Gone> for BodyStreamError {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

/// The head of an answer, without its fields.
pub struct AnswerHead {
    /// The status.
    pub status: u16,
    /// The length of its body; `None` if unknown.
    pub length: Option<u64>,
    /// It has `Server`.
    pub has_server: bool,
    /// It has `Date`.
    pub has_date: bool,
    /// The request body allows the client's connection to be reused.
    pub may_persist: bool,
    /// Trailer fields may follow the body.
    pub may_have_trailers: bool,
}

/// The limits of the part of an answer that is buffered for its client.
#[derive(Clone, Copy)]
pub struct BufferLimits {
    /// Bytes in memory.
    pub memory: usize,
    /// More may be written to disk.
    pub may_spill: bool,
}

/// The client of one request. What is written to it is buffered until the client takes it.
pub trait Client {
    /// The request's body, if it is streamed.
    type Body: RequestBody;
    /// An answer in progress.
    type Answer;
    /// The result of an answer, for the caller of [`run`](crate::run).
    type Ending;

    /// The client's address; `None` if it has none.
    fn remote(&self) -> Option<SocketAddr>;

    /// The local address of the client's connection.
    fn local(&self) -> Option<SocketAddr>;

    /// True if it uses TLS.
    fn is_https(&self) -> bool;

    /// True if it may wait until a server has capacity for its request.
    fn may_wait(&self) -> bool {
        true
    }

    /// Notes that this server is asked.
    fn note_attempt(&mut self, server: &Arc<GroupServer>) {
        let _ = server;
    }

    /// Notes that there is a connection to it, an open one or a new one.
    fn note_connected(&mut self) {}

    /// Notes that it failed, which means this status.
    fn note_failed(&mut self, status: u16) {
        let _ = status;
    }

    /// Logs a line.
    fn log(&self, level: Level, line: &str);

    /// Logs an error that may affect very many requests at once: rate-limited.
    fn log_limited(&self, line: &str);

    /// Sets the cookie that keeps the client at the server that is asked now; `None`: it has it.
    fn keep_at(&mut self, cookie: Option<String>) {
        let _ = cookie;
    }

    /// Sends an interim answer (RFC 9110 §15.2).
    fn interim<'f>(&mut self, status: u16, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>);

    /// Sends 100 (Continue).
    fn send_continue(&mut self, body: &mut Self::Body);

    /// Sends 101: the connection switches protocols; `fields` name the new one.
    fn switch<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>);

    /// Begins an answer. `fields` are those for the client, without any of the upstream connection.
    ///
    /// # Errors
    /// The answer cannot be sent; that has been logged.
    fn begin<'f>(
        &mut self,
        head: &AnswerHead,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<Self::Answer, Gone>;

    /// Writes these pieces of the body; returns their length, or less if the rest is to be written when there is [room](Self::poll_room).
    ///
    /// # Errors
    /// The rest of the answer cannot be sent; that has been logged.
    fn write<'b>(
        &mut self,
        answer: &mut Self::Answer,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<usize, Gone>;

    /// False if the rest of the answer's body is not needed.
    fn wants_more(&self, answer: &Self::Answer) -> bool {
        let _ = answer;
        true
    }

    /// Ends the body with these trailer fields.
    ///
    /// # Errors
    /// The rest of the answer cannot be sent; that has been logged.
    fn finish(&mut self, answer: &mut Self::Answer, trailers: Trailers) -> Result<(), Gone>;

    /// Ends a complete answer.
    fn end(&mut self, answer: Self::Answer) -> Self::Ending;

    /// Ends an incomplete answer.
    fn break_off(&mut self, answer: &Self::Answer);

    /// Ends the request with an incomplete answer, because the server failed with this status. `reset` is the HTTP/2 code with which the
    /// server ended the answer (RFC 9113 §7), if it did; an HTTP/2 client gets the same code.
    fn abandon(&mut self, status: u16, reset: Option<u32>);

    /// Answers with one of this server's own pages; `fields` are added to its head. `is_body_coming`: part of the request's body has not
    /// been read.
    fn fail(&mut self, status: u16, fields: &FieldLines, is_body_coming: bool) -> Self::Ending;

    /// Answers that the request's body is invalid.
    fn refuse(&mut self, status: u16) -> Self::Ending;

    /// Discards everything that has not been sent.
    fn discard(&mut self);

    /// Bytes that have not been sent.
    fn unsent(&self) -> u64;

    /// Bytes that may be buffered for it in memory now, where `most` is the limit of one client.
    fn allowance(&self, most: usize) -> usize;

    /// Sends what the client takes now. Returns when it is given up if it does not take the rest.
    fn deliver(&mut self, context: &mut Context<'_>) -> Result<Millis, Gone>;

    /// Wakes the task at this time at the latest.
    fn wake_at(&self, time: Millis);

    /// Sends without waiting; true if nothing is left.
    fn try_send(&mut self) -> Result<bool, Gone>;

    /// Sends until `backlog` has room again; meanwhile wakes the task at `wake` at the latest.
    fn poll_room(
        &mut self,
        context: &mut Context<'_>,
        backlog: BufferLimits,
        wake: Millis,
    ) -> Poll<Result<(), Gone>>;

    /// Sends everything.
    fn flush(&mut self) -> impl Future<Output = Result<(), Gone>>;
}
