//! The client of a request that is sent to an upstream, as far as the proxy sees it.
//!
//! Whoever calls [`run`](crate::run) implements both traits. Everything goes through generics: a call costs what a function costs.
//!
//! An implementation must never: let an answer look whole that is not, or wait for a client beyond its time.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use tutti_conn::clock::Millis;
use tutti_conn::output::Gone;
use tutti_http::{BodyError, FieldLines, Trailers};
use tutti_log::Level;

/// A request's body that is read while it comes.
pub trait RequestBody {
    /// Reads until there is a piece; false at the end. The caller polls it again at the [`deadline`](Self::deadline).
    ///
    /// # Errors
    /// No more of it will come.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, BodyStreamError>>;

    /// The piece that is there.
    fn piece(&self) -> &[u8];

    /// The first `count` bytes of the piece have been taken.
    fn consume(&mut self, count: usize);

    /// The trailer fields behind a body that has ended.
    fn trailers(&self) -> Trailers;

    /// When the client must have sent more; [`NEVER`](tutti_conn::connections::NEVER) while nobody asks it.
    fn deadline(&self) -> Millis;

    /// The client's silence counts from now on, also where it waits for 100 (Continue).
    fn start_clock(&mut self);

    /// The client may pause as long as it likes: whoever asks for the body has another limit.
    fn stop_clock(&mut self);

    /// True if the client may be waiting for 100 (Continue).
    fn awaits_continue(&self) -> bool;
}

/// Why there will be no more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStreamError {
    /// It is not as it must be, too large, or does not come: the status for the client. Its connection must end.
    Refused(u16),
    /// The client has gone.
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

/// The head of an answer, apart from its fields.
pub struct AnswerHead {
    /// The status.
    pub status: u16,
    /// The length of its body; `None` if nobody knows.
    pub length: Option<u64>,
    /// Its fields tell who made it.
    pub has_server: bool,
    /// Its fields tell when it was made.
    pub has_date: bool,
    /// The client's connection can take another request, as far as the body of this one is concerned.
    pub may_persist: bool,
    /// Trailer fields may follow the body.
    pub may_have_trailers: bool,
}

/// The part of an answer that may wait for its client.
#[derive(Clone, Copy)]
pub struct BufferLimits {
    /// Bytes in memory.
    pub memory: usize,
    /// More may go to disk.
    pub may_spill: bool,
}

/// The client of one request. What it is given waits with it until it takes it.
pub trait Client {
    /// The request's body, where it is handed over while it comes.
    type Body: RequestBody;
    /// An answer that has begun.
    type Answer;
    /// How an answer has ended, for the caller of [`run`](crate::run).
    type Ending;

    /// The client's address; `None` if it has none.
    fn remote(&self) -> Option<SocketAddr>;

    /// The address that it has connected to.
    fn local(&self) -> Option<SocketAddr>;

    /// True if its bytes are encrypted.
    fn is_https(&self) -> bool;

    /// True if it may wait until a server has room for its request.
    fn may_wait(&self) -> bool {
        true
    }

    /// Logs a line.
    fn log(&self, level: Level, line: &str);

    /// Logs an error that may happen to very many requests at once.
    fn complain(&self, line: &str);

    /// Gives it an interim answer (RFC 9110 §15.2).
    fn interim<'f>(&mut self, status: u16, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>);

    /// Tells it to send its body.
    fn send_continue(&mut self, body: &mut Self::Body);

    /// Tells it that the connection speaks another protocol from now on; `fields` name it.
    fn switch<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>);

    /// Begins an answer. `fields` are those for the client: none belongs to the connection they came on.
    ///
    /// # Errors
    /// The answer cannot be given, as has been logged.
    fn begin<'f>(
        &mut self,
        head: &AnswerHead,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<Self::Answer, Gone>;

    /// Gives it these pieces of the body, all of them now.
    ///
    /// # Errors
    /// The rest of the answer cannot be given, as has been logged.
    fn write<'b>(
        &mut self,
        answer: &mut Self::Answer,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<(), Gone>;

    /// False if nobody needs the rest of the answer's body.
    fn wants_more(&self, answer: &Self::Answer) -> bool {
        let _ = answer;
        true
    }

    /// The body has ended, with these trailer fields.
    ///
    /// # Errors
    /// The rest of the answer cannot be given, as has been logged.
    fn finish(&mut self, answer: &mut Self::Answer, trailers: Trailers) -> Result<(), Gone>;

    /// The answer is whole.
    fn end(&mut self, answer: Self::Answer) -> Self::Ending;

    /// Some of the answer has gone out, and no more will come.
    fn break_off(&mut self, answer: &Self::Answer);

    /// The request ends without an answer that is whole, because of its server's failure of this status.
    fn abandon(&mut self, status: u16);

    /// The server has ended the answer with this code of HTTP/2 (RFC 9113 §7). Where the answer is [abandoned](Self::abandon), the client
    /// learns the same code, if it speaks HTTP/2.
    fn note_reset(&mut self, code: u32);

    /// Answers with a page of our own; `fields` are more fields of its head. `is_body_coming`: part of the request's body has not been read.
    fn fail(&mut self, status: u16, fields: &FieldLines, is_body_coming: bool) -> Self::Ending;

    /// Answers that the request's body is not as it must be.
    fn refuse(&mut self, status: u16) -> Self::Ending;

    /// Takes back everything that has not gone out.
    fn discard(&mut self);

    /// Bytes that have not gone out.
    fn unsent(&self) -> u64;

    /// How many bytes may wait for it in memory now, if alone it may have `most`.
    fn allowance(&self, most: usize) -> usize;

    /// Sends it what it takes now. Returns when it is given up for not taking the rest.
    fn deliver(&mut self, context: &mut Context<'_>) -> Result<Millis, Gone>;

    /// The task is woken at this time at the latest.
    fn wake_at(&self, time: Millis);

    /// Sends without waiting; true if nothing is left.
    fn try_send(&mut self) -> Result<bool, Gone>;

    /// Sends until no more waits than `backlog` allows; meanwhile the task is woken at `wake` at the latest.
    fn poll_room(
        &mut self,
        context: &mut Context<'_>,
        backlog: BufferLimits,
        wake: Millis,
    ) -> Poll<Result<(), Gone>>;

    /// Sends everything.
    fn flush(&mut self) -> impl Future<Output = Result<(), Gone>>;
}
