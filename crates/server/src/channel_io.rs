//! Waiting, with a deadline, for what a connection's [`channel`](crate::channel) takes or brings.
//!
//! A client that has not taken all there is for it has `send_timeout`, by progress: [`SendDeadline`](tutti_conn::send_deadline::SendDeadline).

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use crate::channel::Channel;
use crate::connection::Connection;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::Received;

impl Connection {
    /// Reads at least one byte behind what `buffer` has, until `deadline`.
    pub(crate) async fn read_more(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.set_deadline(deadline);
        if buffer.capacity() == buffer.len() {
            buffer.reserve(buffer.len().max(tutti_conn::buffers::BUFFER_BYTES));
        }
        poll_fn(|cx| match self.channel.poll_receive(buffer, cx) {
            Poll::Ready(Ok(Received::Bytes(_))) => Poll::Ready(Ok(())),
            Poll::Ready(Ok(Received::End | Received::Nothing)) => Poll::Ready(Err(Gone::Closed)),
            Poll::Ready(Err(gone)) => Poll::Ready(Err(gone)),
            Poll::Pending if deadline <= now_millis() => Poll::Ready(Err(Gone::TimedOut)),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Calls `attempt` whenever the channel may take something, until it got on, or the client is given up.
    pub(crate) async fn attempt(
        &self,
        mut attempt: impl FnMut(&mut Context<'_>) -> Poll<Result<(), Gone>>,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        poll_fn(|cx| match attempt(cx) {
            Poll::Pending => self.wait_for_client(self.owes(send_timeout)),
            polled => polled,
        })
        .await
    }

    /// Nothing goes out before the client takes some: it has until `deadline`.
    fn wait_for_client(&self, deadline: Millis) -> Poll<Result<(), Gone>> {
        if deadline <= now_millis() {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        self.set_deadline(deadline);
        Poll::Pending
    }

    /// Sends some of `output`: ready when something has gone out, or nothing is left.
    pub(crate) fn poll_send(
        &self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        let before = self.channel.unsent(output);
        let polled = self.channel.poll_send(output, cx);
        self.note_taken(before.saturating_sub(self.channel.unsent(output)));
        polled
    }

    /// The client has taken so many bytes of what there is for it.
    pub(crate) fn note_taken(&self, bytes: u64) {
        self.send_deadline.note_taken(bytes);
    }

    /// The client has taken all there was.
    pub(crate) fn note_all_taken(&self) {
        self.send_deadline.note_all_taken();
    }

    /// When a client is given up that has not taken all there is for it, which is so at least since now.
    pub(crate) fn owes(&self, send_timeout: Millis) -> Millis {
        if let Channel::Stream(stream) = &self.channel {
            self.note_taken(stream.taken_beside());
        }
        self.send_deadline.owes(send_timeout)
    }

    /// When a client is given up that has not taken all of `output`; [`NEVER`] if it has.
    pub(crate) fn owes_of(&self, output: &Output, send_timeout: Millis) -> Millis {
        if self.channel.has_sent(output) {
            self.note_all_taken();
            return NEVER;
        }
        self.owes(send_timeout)
    }

    /// Sends all of `output`.
    pub(crate) async fn flush(
        &self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        let is_sent = self.channel.try_send(output)?;
        if !is_sent {
            poll_fn(|cx| {
                while !self.channel.has_sent(output) {
                    if self.poll_send(output, cx)?.is_pending() {
                        self.note_held(output);
                        return self.wait_for_client(self.owes(send_timeout));
                    }
                }
                Poll::Ready(Ok(()))
            })
            .await?;
        }
        self.note_held(output);
        self.note_all_taken();
        self.note_sent();
        Ok(())
    }
}

/// Waits for `future`, but not longer than the client is there.
pub(crate) async fn unless_gone<F: Future>(
    connection: &Connection,
    future: F,
) -> Result<F::Output, Gone> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        connection.poll_gone(cx).map(|()| Err(Gone::Closed))
    })
    .await
}
