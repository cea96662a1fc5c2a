//! A connection to a server while a request and its answer are on it.
//!
//! Sending goes on while the answer comes, so a server that answers while it reads is not held up, and one that refuses a body it has
//! not read is heard. The server's time runs while it is to do something, not while there is nothing for it because the client has
//! not sent more of the body.

use std::io;
use std::task::{Context, Poll};

use tutti_conn::clock::{Millis, now_millis};
use tutti_upstream::{UpstreamConnection, UpstreamError};

use crate::attempt::Times;
use crate::client::{BodyStreamError, RequestBody};
use crate::outgoing::{Broken, Outgoing};
use crate::wait::Deadline;

/// A client that waits for 100 (Continue) gets it from us if the server has said nothing for so long: as long as common clients wait
/// for it (curl's `CURLOPT_EXPECT_100_TIMEOUT_MS`).
pub(crate) const CONTINUE_AFTER: Millis = 1_000;

/// The connection, and what is on its way to the server.
pub(crate) struct Link<'t, B> {
    pub(crate) connection: UpstreamConnection,
    pub(crate) outgoing: Outgoing<'t, B>,
    times: &'t Times,
    /// Sending ended with this; it matters only if there is no answer.
    send_error: Option<io::Error>,
    pub(crate) deadline: &'t Deadline,
    /// When a client that waits for 100 (Continue) gets it, whatever the server says.
    continue_at: Millis,
}

/// An event that must be dealt with.
pub(crate) enum Event {
    /// Reading gave this.
    Read(io::Result<usize>),
    /// The client must be told to send its body.
    Continue,
}

impl<'t, B: RequestBody> Link<'t, B> {
    /// The client gets 100 (Continue) after `patience` at the latest.
    pub(crate) fn new(
        connection: UpstreamConnection,
        outgoing: Outgoing<'t, B>,
        (times, deadline): (&'t Times, &'t Deadline),
        patience: Millis,
    ) -> Self {
        deadline.set(times.send);
        Self {
            connection,
            outgoing,
            times,
            send_error: None,
            deadline,
            continue_at: now_millis().saturating_add(patience),
        }
    }

    /// Sends what there is to send, as far as the server takes it.
    ///
    /// # Errors
    /// The client's body will not come whole.
    pub(crate) fn poll_send(&mut self, context: &mut Context<'_>) -> Result<(), BodyStreamError> {
        if self.send_error.is_some() || self.outgoing.is_done() {
            return Ok(());
        }
        let (deadline, times) = (self.deadline, self.times);
        let progress = || deadline.set(times.send);
        match self.outgoing.poll(context, &mut self.connection, progress) {
            Poll::Ready(Ok(())) => deadline.set(times.read),
            // It may have answered, and then closed.
            Poll::Ready(Err(Broken::Server(error))) => {
                deadline.set(times.read);
                self.send_error = Some(error);
            }
            Poll::Ready(Err(Broken::Client(fault))) => return Err(fault),
            Poll::Pending if self.outgoing.awaits_client() => deadline.clear(),
            Poll::Pending => {}
        }
        let awaits_continue = self.awaits_continue();
        let client = self.outgoing.client_deadline();
        deadline.wake_at(match awaits_continue {
            true => client.min(self.continue_at),
            false => client,
        });
        Ok(())
    }

    /// Sends, and reads behind what `received` has, which must have room.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        received: &mut Vec<u8>,
    ) -> Poll<Result<Event, BodyStreamError>> {
        self.poll_send(context)?;
        if self.continue_at <= now_millis() && self.awaits_continue() {
            return Poll::Ready(Ok(Event::Continue));
        }
        let read = self.connection.poll_receive(context, received);
        read.map(|read| Ok(Event::Read(read)))
    }

    /// Something has been read.
    pub(crate) fn note_read(&self) {
        self.deadline.set(self.times.read);
    }

    /// The client may be waiting for 100 (Continue).
    pub(crate) fn awaits_continue(&mut self) -> bool {
        let upload = self.outgoing.upload();
        upload.is_some_and(|upload| upload.awaits_continue())
    }

    /// Nothing of an answer has come, and reading has ended or failed.
    pub(crate) fn without_answer(&mut self) -> Option<UpstreamError> {
        self.send_error.take().map(UpstreamError::Send)
    }
}
