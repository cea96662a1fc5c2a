//! A connection to a server during one request and its answer.
//!
//! Sending continues while the answer arrives: so a server that answers while it reads is not blocked, and one that refuses a body without
//! reading it is heard. The server's timeout runs while the server has something to do, not while the client sends nothing.

use std::io;
use std::task::{Context, Poll};

use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_upstream::{UpstreamConnection, UpstreamError};

use crate::attempt::Times;
use crate::client::{BodyStreamError, RequestBody};
use crate::outgoing::{Broken, Outgoing};
use crate::wait::Deadline;

/// A client that waits for 100 (Continue) gets it from this server if the upstream has sent nothing for so long: as long as common clients
/// wait for it (curl's `CURLOPT_EXPECT_100_TIMEOUT_MS`).
pub(crate) const CONTINUE_AFTER: Millis = 1_000;

/// The connection, and the request that is being sent.
pub(crate) struct Link<'t, B> {
    pub(crate) connection: UpstreamConnection,
    pub(crate) outgoing: Outgoing<'t, B>,
    pub(crate) times: &'t Times,
    /// Why sending failed; used only if there is no answer.
    send_error: Option<io::Error>,
    pub(crate) deadline: &'t Deadline,
    /// When a client that waits for 100 (Continue) gets it, even without the server's.
    continue_at: Millis,
}

/// An event that must be handled.
pub(crate) enum Event {
    /// The result of reading.
    Read(io::Result<usize>),
    /// The client must be sent 100 (Continue).
    Continue,
}

impl<'t, B: RequestBody> Link<'t, B> {
    /// The client gets 100 (Continue) after `patience` at the latest.
    pub(crate) fn new(
        connection: UpstreamConnection,
        mut outgoing: Outgoing<'t, B>,
        (times, deadline): (&'t Times, &'t Deadline),
        patience: Millis,
    ) -> Self {
        deadline.set(times.send);
        let continue_at = match outgoing.upload() {
            Some(_) => now_millis().saturating_add(patience),
            None => NEVER,
        };
        Self {
            connection,
            outgoing,
            times,
            send_error: None,
            deadline,
            continue_at,
        }
    }

    /// Sends as much as the server takes.
    ///
    /// # Errors
    /// The client's body is incomplete.
    pub(crate) fn poll_send(&mut self, context: &mut Context<'_>) -> Result<(), BodyStreamError> {
        if self.send_error.is_some() || self.outgoing.is_done() {
            return Ok(());
        }
        let (deadline, times) = (self.deadline, self.times);
        let mut has_progressed = false;
        let progress = || has_progressed = true;
        match self.outgoing.poll(context, &mut self.connection, progress) {
            Poll::Ready(Ok(())) => deadline.set(times.read),
            // It may have answered, and then closed.
            Poll::Ready(Err(Broken::Server(error))) => {
                deadline.set(times.read);
                self.send_error = Some(error);
            }
            Poll::Ready(Err(Broken::Client(fault))) => return Err(fault),
            Poll::Pending if self.outgoing.awaits_client() => deadline.clear(),
            Poll::Pending if has_progressed => deadline.set(times.send),
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

    /// Sends, and reads into the spare capacity of `received`, which must have some.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        received: &mut Vec<u8>,
    ) -> Poll<Result<Event, BodyStreamError>> {
        self.poll_send(context)?;
        if self.awaits_continue() && self.continue_at <= now_millis() {
            return Poll::Ready(Ok(Event::Continue));
        }
        let read = self.connection.poll_receive(context, received);
        read.map(|read| Ok(Event::Read(read)))
    }

    /// Notes that bytes have been read.
    pub(crate) fn note_read(&self) {
        self.deadline.set(self.times.read);
    }

    /// True if the client may be waiting for 100 (Continue).
    pub(crate) fn awaits_continue(&mut self) -> bool {
        let upload = self.outgoing.upload();
        upload.is_some_and(|upload| upload.awaits_continue())
    }

    /// Called when reading has ended or failed before any answer.
    pub(crate) fn without_answer(&mut self) -> Option<UpstreamError> {
        self.send_error.take().map(UpstreamError::Send)
    }
}
