//! The body of a request, piece by piece, as it arrives from the client.
//!
//! Every body is read here: [`request_body`](crate::request_body) collects or discards one, and other code streams it. The bytes are read
//! into the connection's input and returned in place. After the end of the body, the rest of the input after the head is the next request.
//!
//! Must never: return a byte that is not the body's, lose one after it, or wait without a deadline.

use std::future::poll_fn;
use std::ops::Range;
use std::task::{Context, Poll};

use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_http::{BodyDecoder, OutgoingHead, Trailers};
use tutti_proxy::BodyStreamError;

use crate::exchange::Exchange;
use crate::exchange::channel::Channel;
use crate::exchange::client::ClientSide;
use crate::exchange::request::Request;
use crate::exchange::respond;

/// Most room for one read of a body.
const READ_BYTES: usize = 64 * 1024;

/// Least room for one read.
const MIN_READ_BYTES: usize = 1024;

/// Bytes of a body that are discarded after its response, to keep the connection. Go's `net/http` has the same limit.
const DRAINED_BYTES: u64 = 256 * 1024;

/// Maximum time for that in all, and between two reads.
const DRAIN_TOTAL: Millis = 5_000;
const DRAIN_PAUSE: Millis = 2_000;

/// The conditions for reading a body: its framing, and the longest pause of the client.
pub(crate) struct BodyTerms {
    pub(crate) decoder: BodyDecoder,
    /// The client waits for 100 (Continue).
    pub(crate) expects_continue: bool,
    /// Longest pause between two reads (`body_read_timeout`).
    pub(crate) read_timeout: Millis,
    /// The access log has its beginning.
    pub(crate) is_logged: bool,
}

impl BodyTerms {
    pub(crate) fn of(request: &Request<'_>, decoder: BodyDecoder) -> Self {
        Self {
            decoder,
            expects_continue: request.view.facts().expects_continue,
            read_timeout: request.settings().timeouts.body_read,
            is_logged: {
                let logs = request.settings().access_logs.as_ref();
                logs.is_some_and(|logs| logs.have_bodies())
            },
        }
    }
}

/// The body of one request.
pub(crate) struct ClientBody<'a> {
    client: &'a ClientSide,
    exchange: &'a Exchange,
    /// Received bytes. From `start` on: consumed ones, the piece, unparsed ones.
    input: &'a mut Vec<u8>,
    start: usize,
    /// The current piece.
    piece: Range<usize>,
    /// Where the unparsed bytes begin.
    next: usize,
    decoder: BodyDecoder,
    has_ended: bool,
    awaits_continue: bool,
    is_logged: bool,
    read_timeout: Millis,
    /// When the client must have sent more.
    deadline: Millis,
}

impl<'a> ClientBody<'a> {
    /// The body that begins at `start` of `input`.
    pub(crate) fn new(
        (client, exchange): (&'a ClientSide, &'a Exchange),
        input: &'a mut Vec<u8>,
        start: usize,
        terms: BodyTerms,
    ) -> Self {
        let awaits_continue = terms.expects_continue && input.len() <= start;
        exchange.set_body_coming(true);
        Self {
            client,
            exchange,
            input,
            start,
            piece: start..start,
            next: start,
            decoder: terms.decoder,
            has_ended: false,
            awaits_continue,
            is_logged: terms.is_logged,
            read_timeout: terms.read_timeout,
            deadline: NEVER,
        }
    }

    /// The current piece; empty when there is none.
    pub(crate) fn piece(&self) -> &[u8] {
        self.input.get(self.piece.clone()).unwrap_or_default()
    }

    /// Consumes the first `count` bytes of the piece.
    pub(crate) fn consume(&mut self, count: usize) {
        self.piece.start = self.piece.end.min(self.piece.start.saturating_add(count));
    }

    /// Waits for a piece, after sending `output`, and 100 (Continue) if the client waits for it; false at the end.
    pub(crate) async fn ready(
        &mut self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<bool, BodyStreamError> {
        if self.look()? {
            return Ok(!self.piece.is_empty());
        }
        if self.awaits_continue {
            self.send_continue(output);
        }
        self.exchange
            .flush(self.client, output, send_timeout)
            .await?;
        poll_fn(|cx| {
            let ready = self.poll_ready(cx);
            if ready.is_pending() {
                self.client.set_deadline(self.deadline);
            }
            ready
        })
        .await
    }

    /// True if the client may be waiting for 100 (Continue).
    pub(crate) fn awaits_continue(&self) -> bool {
        self.awaits_continue
    }

    /// Appends it to `output`.
    pub(crate) fn send_continue(&mut self, output: &mut Output) {
        respond::put(self.client, OutgoingHead::new(100), output);
        self.awaits_continue = false;
        self.start_clock();
    }

    /// Starts the client's read timeout, if it is not running: even if the client may be waiting for 100 (Continue).
    pub(crate) fn start_clock(&mut self) {
        if self.deadline == NEVER && self.piece.is_empty() {
            self.deadline = now_millis().saturating_add(self.read_timeout);
        }
    }

    /// When the client must have sent more; [`NEVER`] while the body is not being read.
    pub(crate) fn deadline(&self) -> Millis {
        self.deadline
    }

    /// Remaining bytes, if known.
    fn remaining(&self) -> Option<u64> {
        self.decoder.remaining()
    }

    /// Called when the response is complete, in `output` or sent: discards the rest, within limits, so that the connection can be reused;
    /// returns whether it can.
    pub(crate) async fn drain(
        mut self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<bool, Gone> {
        if self.awaits_continue || self.remaining().is_some_and(|left| left > DRAINED_BYTES) {
            return Ok(false);
        }
        self.read_timeout = DRAIN_PAUSE;
        self.deadline = NEVER;
        let end = now_millis().saturating_add(DRAIN_TOTAL);
        let mut left = DRAINED_BYTES;
        loop {
            match self.ready(output, send_timeout).await {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                Err(BodyStreamError::Refused(_)) => return Ok(false),
                Err(BodyStreamError::Gone(gone)) => return Err(gone),
            }
            let length = self.piece().len();
            left = left.saturating_sub(length as u64);
            if left == 0 || now_millis() >= end {
                return Ok(false);
            }
            self.consume(length);
        }
    }

    /// Stops the client's read timeout: the reader of the body has another limit.
    pub(crate) fn stop_clock(&mut self) {
        self.read_timeout = NEVER;
        self.deadline = NEVER;
    }

    /// The trailer fields after a body that has ended.
    pub(crate) fn trailers(&self) -> Trailers {
        match &self.client.channel {
            Channel::Stream(stream) => stream.received_trailers(),
            _ => self.decoder.trailers(),
        }
    }

    /// Reads until there is a piece; false at the end. The caller must poll again at the [`deadline`](Self::deadline).
    pub(crate) fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyStreamError>> {
        loop {
            if self.look()? {
                return Poll::Ready(Ok(!self.piece.is_empty()));
            }
            self.make_room();
            if !self.awaits_continue {
                self.start_clock();
            }
            match self.client.channel.poll_receive(self.input, cx) {
                Poll::Ready(Ok(ReadResult::Bytes(_))) => {
                    self.awaits_continue = false;
                    self.deadline = NEVER;
                }
                // `look` finds the end, if the end of a stream is that of the body.
                Poll::Ready(Ok(ReadResult::End)) if self.decoder.end() => {}
                Poll::Ready(Ok(ReadResult::End | ReadResult::Nothing)) => {
                    return Poll::Ready(Err(Gone::Closed.into()));
                }
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone.into())),
                Poll::Pending if self.deadline <= now_millis() => {
                    return Poll::Ready(Err(BodyStreamError::Refused(408)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Looks for a piece, or the end, in the received bytes; false if more must be read.
    fn look(&mut self) -> Result<bool, BodyStreamError> {
        while self.piece.is_empty() && !self.has_ended {
            let rest = self.input.get(self.next..).unwrap_or_default();
            let found = self.decoder.decode(rest)?;
            self.piece = self.next + found.data.start..self.next + found.data.end;
            let piece = self.input.get(self.piece.clone()).unwrap_or_default();
            self.exchange.received.note(piece, self.is_logged);
            self.next += found.consumed;
            self.has_ended = found.is_finished;
            if found.is_finished {
                self.exchange.set_body_coming(false);
            }
            if found.consumed == 0 && !found.is_finished {
                return Ok(false);
            }
        }
        if self.piece.is_empty() {
            self.drop_done();
        }
        Ok(true)
    }

    /// Removes consumed bytes; the bytes after them move directly behind the head.
    fn drop_done(&mut self) {
        self.input.drain(self.start..self.next);
        self.next = self.start;
        self.piece = self.start..self.start;
    }

    fn make_room(&mut self) {
        self.drop_done();
        let expected = usize::try_from(self.decoder.remaining().unwrap_or(0)).unwrap_or(READ_BYTES);
        self.input
            .reserve(expected.clamp(MIN_READ_BYTES, READ_BYTES));
    }
}
