//! One request to an application, as the listen thread uses it.
//!
//! Owned by the task that serves the client's connection. The response is read in place from the segment. Dropping the exchange abandons
//! it: a request that no worker has begun is withdrawn; a running one is cancelled, and its slot is freed when the worker has finished.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tutti_wire::{
    MessageOpcode, Piece, Readable, ResponseFields, SlotId, Violation, WireResponseHead,
};

use crate::error::ExchangeError;
use crate::generation::Generation;
use crate::stack_location::Whereabouts;

/// A request that an application has accepted.
#[derive(Debug)]
pub struct ApplicationExchange {
    generation: Arc<Generation>,
    slot: SlotId,
    /// The listen thread, and when the request was submitted ([`tutti_wire::now_us`]).
    handed: (u32, u64),
}

impl ApplicationExchange {
    pub(crate) fn new(generation: Arc<Generation>, slot: SlotId, handed: (u32, u64)) -> Self {
        ApplicationExchange {
            generation,
            slot,
            handed,
        }
    }

    /// Waits for the head of the response; call it until it returns a head that is not interim.
    ///
    /// # Errors
    /// There will be no head: the error has the status for the client.
    pub async fn head(&mut self) -> Result<WireResponseHead, ExchangeError> {
        poll_fn(|context| self.poll_head(context)).await
    }

    /// [`head`](Self::head) as a poll function.
    pub fn poll_head(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<WireResponseHead, ExchangeError>> {
        self.wait(context, |this| {
            let segment = &this.generation.segment;
            let head = this.checked(segment.response_head(this.slot))?;
            // It was cancelled or its worker died before the client got anything: an error is better than a part of a response.
            if head.is_some() || segment.is_released(this.slot) {
                this.ready().map(drop).or_else(|error| match &head {
                    Some(head) if stands(head, &error) => Ok(()),
                    _ => Err(error),
                })?;
            }
            if head.as_ref().is_some_and(|head| !head.is_interim()) {
                this.note_wait();
            }
            Ok(head)
        })
    }

    /// Records how long it waited until a worker began it.
    fn note_wait(&self) {
        let (thread, handed_us) = self.handed;
        if let Some(begun_us) = self.generation.segment.begun_us(self.slot) {
            // It may have been begun in the microsecond in which it was submitted.
            let wait = Duration::from_micros(begun_us.saturating_sub(handed_us));
            self.generation.shared.tally.note_wait(thread, wait);
        }
    }

    /// Returns the time that it waited until a worker began it; `None`: no worker has, or the worker does not report it.
    pub fn waited(&self) -> Option<Duration> {
        let (_, handed_us) = self.handed;
        let begun_us = self.generation.segment.begun_us(self.slot)?;
        Some(Duration::from_micros(begun_us.saturating_sub(handed_us)))
    }

    /// Allows to ask where in its code the worker is.
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts {
            generation: Arc::clone(&self.generation),
            slot: self.slot,
            serial: self.generation.serial(self.slot),
        }
    }

    /// The available part of the response body. The spans are valid until the next [`consume`](Self::consume).
    ///
    /// # Errors
    /// The response was cut short. One that a worker had finished before it died is complete.
    pub fn ready(&self) -> Result<Readable<'_>, ExchangeError> {
        let readable = self.checked(self.generation.segment.response_ready(self.slot))?;
        if !readable.finished {
            self.generation.verdict(self.slot)?;
        }
        self.unless_aborted(readable)
    }

    /// The fields after the body of a response for which [`ready`](Self::ready) returned `finished`.
    ///
    /// # Errors
    /// The worker wrote invalid fields.
    pub fn trailers(&self) -> Result<ResponseFields, ExchangeError> {
        self.checked(self.generation.segment.response_trailers(self.slot))
    }

    /// Returns an error if the router has ended the request: what the worker has written since is not its response.
    pub fn verdict(&self) -> Result<(), ExchangeError> {
        self.generation.verdict(self.slot)
    }

    /// Frees the first `count` bytes that [`ready`](Self::ready) returned.
    pub fn consume(&mut self, count: usize) {
        self.generation.segment.response_consume(self.slot, count);
    }

    /// Waits until [`ready`](Self::ready) returns bytes or the end. Call it after everything has been consumed.
    pub async fn more(&mut self) -> Result<(), ExchangeError> {
        poll_fn(|context| self.poll_more(context)).await
    }

    /// [`more`](Self::more) as a poll function.
    pub fn poll_more(&mut self, context: &Context<'_>) -> Poll<Result<(), ExchangeError>> {
        self.wait(context, |this| {
            let readable = this.generation.segment.response_ready(this.slot);
            let readable = this.unless_aborted(this.checked(readable)?)?;
            Ok((readable.finished || !readable.is_empty()).then_some(()))
        })
    }

    /// Waits until the worker has read of a streamed request body, or written of its response: for a caller that sends the body while the
    /// response may arrive. It may return spuriously.
    pub async fn changed(&mut self) -> Result<(), ExchangeError> {
        let mut is_first = true;
        poll_fn(|context| {
            if !std::mem::take(&mut is_first) {
                return Poll::Ready(self.generation.verdict(self.slot));
            }
            match self.generation.watch(self.slot, context.waker()) {
                Ok(()) => Poll::Pending,
                Err(verdict) => Poll::Ready(Err(verdict)),
            }
        })
        .await
    }

    /// Writes bytes of a streamed request body; returns how many were accepted. After an incomplete write, [`changed`](Self::changed)
    /// reports room.
    pub fn write_body(&mut self, bytes: &[u8]) -> usize {
        self.generation
            .segment
            .request_stream_write(self.slot, bytes)
    }

    /// True if the worker waits for more of a streamed request body; [`changed`](Self::changed) reports when it begins to wait for the
    /// first byte.
    pub fn wants_body(&self) -> bool {
        self.generation.segment.request_stream_wanted(self.slot)
    }

    /// Notes that the client is about to have the whole response, although the worker has not ended it: `/status` does not count the
    /// request as active any more.
    pub fn note_answered(&self) {
        self.generation.note_answered(self.slot);
    }

    /// After a 101: removes the deadline.
    pub fn upgraded(&mut self) {
        self.generation.lift_deadline(self.slot);
    }

    /// After a 101: the next part of a message from the worker. Consume [`Piece::consumed`] bytes afterwards. `None`: none now; then
    /// [`ready`](Self::ready) reports whether the exchange has ended, and [`changed`](Self::changed) waits.
    ///
    /// # Errors
    /// The worker died, aborted, or sent an invalid message.
    pub fn piece(&self) -> Result<Option<Piece<'_>>, ExchangeError> {
        let read = || self.checked(self.generation.segment.message_read(self.slot));
        if let Some(piece) = read()? {
            return Ok(Some(piece));
        }
        match self.ready() {
            Ok(_) => Ok(None),
            // The piece may have come after the first check, and the worker may have ended right after.
            Err(error) => read()?.map(Some).ok_or(error),
        }
    }

    /// After a 101: sends the worker the next part of a message, of which `rest` is unsent; returns how much was sent. `is_end`: the
    /// message ends with `rest`. `None`: no room; [`changed`](Self::changed) reports when there may be some.
    pub fn write_piece(
        &mut self,
        opcode: MessageOpcode,
        rest: &[u8],
        is_end: bool,
    ) -> Option<usize> {
        self.generation
            .segment
            .message_write(self.slot, opcode, rest, is_end)
    }

    /// After a 101: the room for pieces in bytes, including their heads; if it is less than `wanted`, the task registered by
    /// [`watch`](Self::watch) is woken when there is more.
    pub fn piece_room(&self, wanted: usize) -> usize {
        self.generation.segment.message_room(self.slot, wanted)
    }

    /// Registers the task of `context` to be woken once by the next action of the worker: call it before checking anything.
    ///
    /// # Errors
    /// The router has ended the exchange.
    pub fn watch(&self, context: &Context<'_>) -> Result<(), ExchangeError> {
        self.generation.watch(self.slot, context.waker())
    }

    /// Ends the streamed request body; after a 101: ends the messages to the worker.
    pub fn finish_body(&mut self) {
        self.generation.segment.request_stream_finish(self.slot);
    }

    /// Polls `look`, and waits for the worker if it returns nothing.
    fn wait<T>(
        &self,
        context: &Context<'_>,
        look: impl Fn(&Self) -> Result<Option<T>, ExchangeError>,
    ) -> Poll<Result<T, ExchangeError>> {
        // A response that the worker has finished counts, even if the worker has ended since.
        match look(self) {
            Ok(Some(found)) => return Poll::Ready(Ok(found)),
            Ok(None) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        if let Err(verdict) = self.generation.watch(self.slot, context.waker()) {
            return Poll::Ready(Err(verdict));
        }
        // A completion may have been taken between the first check and the registration.
        match look(self) {
            Ok(Some(found)) => Poll::Ready(Ok(found)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Turns an aborted response into an error, with the reason if it is known.
    fn unless_aborted<'a>(&self, readable: Readable<'a>) -> Result<Readable<'a>, ExchangeError> {
        if readable.aborted {
            self.generation.verdict(self.slot)?;
            return Err(ExchangeError::Aborted);
        }
        Ok(readable)
    }

    fn checked<T>(&self, result: Result<T, Violation>) -> Result<T, ExchangeError> {
        result.map_err(|violation| {
            self.generation.report_violation(self.slot, violation);
            ExchangeError::Violation
        })
    }
}

/// True for an accepted handshake whose worker has ended since. Complete messages and a close code may follow it: the client gets the same
/// whether the router saw the handshake before the end of the worker or with it.
fn stands(head: &WireResponseHead, error: &ExchangeError) -> bool {
    head.status == 101
        && matches!(
            error,
            ExchangeError::Aborted | ExchangeError::WorkerDied { .. }
        )
}

impl Drop for ApplicationExchange {
    fn drop(&mut self) {
        self.generation.abandon(self.slot);
    }
}
