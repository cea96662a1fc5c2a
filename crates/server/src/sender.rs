//! Waiting, with a deadline, for what a connection's [`channel`](crate::channel) takes or brings.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use crate::clock::{Millis, now_millis};
use crate::connection::Connection;
use crate::output::{Gone, Output};
use crate::socket::Received;

impl Connection {
    /// Reads at least one byte behind what `buffer` has, until `deadline`.
    pub(crate) async fn read_more(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.set_deadline(deadline);
        if buffer.capacity() == buffer.len() {
            buffer.reserve(buffer.len().max(crate::buffers::BUFFER_BYTES));
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

    /// Calls `attempt` whenever the channel may take something, until it got on; the client has until `deadline` for that.
    pub(crate) async fn attempt(
        &self,
        mut attempt: impl FnMut(&mut Context<'_>) -> Poll<Result<(), Gone>>,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.set_deadline(deadline);
        poll_fn(|cx| match attempt(cx) {
            Poll::Pending if deadline <= now_millis() => Poll::Ready(Err(Gone::TimedOut)),
            polled => polled,
        })
        .await
    }

    /// Sends some of `output`; the client has until `deadline` to take it.
    pub(crate) async fn send_some(
        &self,
        output: &mut Output,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.attempt(|cx| self.channel.poll_send(output, cx), deadline)
            .await
    }

    /// Sends all of `output`.
    pub(crate) async fn flush(
        &self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        if self.channel.try_send(output)? {
            return Ok(());
        }
        // The timeout is between two transmissions, not for the whole: it starts anew whenever something has gone out.
        while !self.channel.has_sent(output) {
            let deadline = now_millis().saturating_add(send_timeout);
            self.send_some(output, deadline).await?;
        }
        Ok(())
    }
}

/// Waits for `future`, but not longer than the client is there. A client that closes its sending side after a request counts as gone:
/// closing a connection altogether looks the same from here.
pub(crate) async fn unless_gone<F: Future>(
    connection: &Connection,
    future: F,
) -> Result<F::Output, Gone> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        connection.channel.poll_gone(cx).map(|()| Err(Gone::Closed))
    })
    .await
}
