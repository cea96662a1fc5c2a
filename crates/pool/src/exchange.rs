//! One request on its way through an application, from the listen thread's side.
//!
//! Owned by the task that serves the client's connection. The response is read in place from the segment; dropping
//! the exchange gives up: a request that no worker has begun is withdrawn, one that runs is told that its client has gone
//! and its slot is freed when the worker is done.

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

/// A request that an application has taken.
#[derive(Debug)]
pub struct ApplicationExchange {
    generation: Arc<Generation>,
    slot: SlotId,
    /// The listen thread, and when the request was handed over ([`tutti_wire::now_us`]).
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

    /// Waits for the head of the response; to be called until it gives one that is not interim, and once for that.
    ///
    /// # Errors
    /// There will be no head: the error has the status for the client.
    pub async fn head(&mut self) -> Result<WireResponseHead, ExchangeError> {
        poll_fn(|context| self.poll_head(context)).await
    }

    /// [`head`](Self::head) for one who does other things beside.
    pub fn poll_head(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<WireResponseHead, ExchangeError>> {
        self.wait(context, |this| {
            let segment = &this.generation.segment;
            let head = this.checked(segment.response_head(this.slot))?;
            // Cut short before anybody has seen anything of it, because it was given up or its worker died: better an error than
            // a piece.
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

    /// Counts how long it has waited for the worker that has begun it.
    fn note_wait(&self) {
        let (thread, handed_us) = self.handed;
        if let Some(begun_us) = self.generation.segment.begun_us(self.slot) {
            // It may have been begun in the microsecond in which it was handed over.
            let wait = Duration::from_micros(begun_us.saturating_sub(handed_us));
            self.generation.shared.tally.note_wait(thread, wait);
        }
    }

    /// How long it has waited for the worker that has begun it; `None`: none has, or it does not say.
    pub fn waited(&self) -> Option<Duration> {
        let (_, handed_us) = self.handed;
        let begun_us = self.generation.segment.begun_us(self.slot)?;
        Some(Duration::from_micros(begun_us.saturating_sub(handed_us)))
    }

    /// For asking where the worker stands that is at it.
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts {
            generation: Arc::clone(&self.generation),
            slot: self.slot,
            serial: self.generation.serial(self.slot),
        }
    }

    /// The part of the response body that is there. The spans are valid until the next [`consume`](Self::consume).
    ///
    /// # Errors
    /// The response was cut short. One that a worker had finished before it died is whole and is given out.
    pub fn ready(&self) -> Result<Readable<'_>, ExchangeError> {
        let readable = self.checked(self.generation.segment.response_ready(self.slot))?;
        if !readable.finished {
            self.generation.verdict(self.slot)?;
        }
        self.unless_aborted(readable)
    }

    /// The fields behind the body of a response that [`ready`](Self::ready) said was finished.
    ///
    /// # Errors
    /// The worker wrote something else than fields.
    pub fn trailers(&self) -> Result<ResponseFields, ExchangeError> {
        self.checked(self.generation.segment.response_trailers(self.slot))
    }

    /// Tells whether it has been ended from this side: a response that the worker has finished since is its answer to that.
    pub fn verdict(&self) -> Result<(), ExchangeError> {
        self.generation.verdict(self.slot)
    }

    /// The first `count` bytes of what [`ready`](Self::ready) gave are dealt with.
    pub fn consume(&mut self, count: usize) {
        self.generation.segment.response_consume(self.slot, count);
    }

    /// Waits until [`ready`](Self::ready) has bytes or the end to tell. To be called with everything consumed.
    pub async fn more(&mut self) -> Result<(), ExchangeError> {
        poll_fn(|context| self.poll_more(context)).await
    }

    /// [`more`](Self::more) for one who does other things beside.
    pub fn poll_more(&mut self, context: &Context<'_>) -> Poll<Result<(), ExchangeError>> {
        self.wait(context, |this| {
            let readable = this.generation.segment.response_ready(this.slot);
            let readable = this.unless_aborted(this.checked(readable)?)?;
            Ok((readable.finished || !readable.is_empty()).then_some(()))
        })
    }

    /// Waits until the worker has done something: read of a streamed request body, or written of its response. For one
    /// who feeds the body while the response may come; a spurious return is possible.
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

    /// Offers bytes of a streamed request body; returns how many were taken. When that is less than all,
    /// [`changed`](Self::changed) tells when there is room again.
    pub fn write_body(&mut self, bytes: &[u8]) -> usize {
        self.generation
            .segment
            .request_stream_write(self.slot, bytes)
    }

    /// True if the worker waits for more of a streamed request body; [`changed`](Self::changed) tells when it begins to wait for
    /// the first byte.
    pub fn wants_body(&self) -> bool {
        self.generation.segment.request_stream_wanted(self.slot)
    }

    /// The client has all of the response in a moment, although the worker has not ended it yet: `/status` counts the request as active no
    /// longer.
    pub fn note_answered(&self) {
        self.generation.note_answered(self.slot);
    }

    /// After a 101: the request takes as long as it takes from now on.
    pub fn upgraded(&mut self) {
        self.generation.lift_deadline(self.slot);
    }

    /// After a 101: the next piece of a message that the worker has sent. Consume [`Piece::consumed`] bytes when it is dealt
    /// with. `None`: none now; [`ready`](Self::ready) tells whether the exchange has ended, [`changed`](Self::changed) waits.
    ///
    /// # Errors
    /// The worker died, gave up, or sent what is no message.
    pub fn piece(&self) -> Result<Option<Piece<'_>>, ExchangeError> {
        let read = || self.checked(self.generation.segment.message_read(self.slot));
        if let Some(piece) = read()? {
            return Ok(Some(piece));
        }
        match self.ready() {
            Ok(_) => Ok(None),
            // It may have come between the two looks, and its worker may have ended right after.
            Err(error) => read()?.map(Some).ok_or(error),
        }
    }

    /// After a 101: sends the worker the next piece of a message of which `rest` has not been sent yet; how much went. The
    /// message ends with `rest` if `is_end`. `None`: no room; [`changed`](Self::changed) tells when there may be.
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

    /// After a 101: bytes of pieces, their heads included, that there is room for; less than `wanted` makes the task that
    /// [`watch`](Self::watch) was called for run once there are more.
    pub fn piece_room(&self, wanted: usize) -> usize {
        self.generation.segment.message_room(self.slot, wanted)
    }

    /// Has the task of `context` woken, once, by what the worker does from now on: to be called before a look at everything.
    ///
    /// # Errors
    /// The exchange has ended without the worker's doing.
    pub fn watch(&self, context: &Context<'_>) -> Result<(), ExchangeError> {
        self.generation.watch(self.slot, context.waker())
    }

    /// The streamed request body is whole; after a 101: the worker has had the last message.
    pub fn finish_body(&mut self) {
        self.generation.segment.request_stream_finish(self.slot);
    }

    /// Looks, and waits for the worker if there was nothing to see.
    fn wait<T>(
        &self,
        context: &Context<'_>,
        look: impl Fn(&Self) -> Result<Option<T>, ExchangeError>,
    ) -> Poll<Result<T, ExchangeError>> {
        // A response that the worker has finished counts, whatever has become of the worker since.
        match look(self) {
            Ok(Some(found)) => return Poll::Ready(Ok(found)),
            Ok(None) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        if let Err(verdict) = self.generation.watch(self.slot, context.waker()) {
            return Poll::Ready(Err(verdict));
        }
        // A completion may have been taken between the look and the registration.
        match look(self) {
            Ok(Some(found)) => Poll::Ready(Ok(found)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// An aborted response is an error: the reason if one is known.
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

/// True for an accepted handshake of a worker that has left since. Whole messages may follow it, and a close code tells how the connection
/// ended: the client gets the same whether the router saw the handshake before the end or with it.
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
