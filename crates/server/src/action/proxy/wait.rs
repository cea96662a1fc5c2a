//! Waiting for a server while the client gets what there is for it.
//!
//! Must never: wait for a server beyond its deadline, for a client beyond its own, or for the one when the other has gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::clock::{Millis, now_millis};
use crate::connections::NEVER;
use crate::output::{Gone, Output};
use crate::request::Request;

/// When the server must have done something. Whoever polls it moves this on.
pub(super) struct Deadline(Cell<Millis>);

impl Deadline {
    pub(super) fn new() -> Self {
        Self(Cell::new(NEVER))
    }

    /// It has this long from now.
    pub(super) fn set(&self, limit: Millis) {
        self.0.set(now_millis().saturating_add(limit));
    }
}

/// The server has taken longer than it may.
#[derive(Debug)]
pub(super) struct TimedOut;

/// Waits for what `poll` waits for. Meanwhile `output` goes to the client, who may leave.
pub(super) async fn server<T>(
    request: &Request<'_>,
    output: &mut Output,
    deadline: &Deadline,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<Result<T, TimedOut>, Gone> {
    let connection = request.connection;
    let send_timeout = request.snapshot.timeouts.send;
    let mut client_deadline = NEVER;
    poll_fn(|context| {
        if let Poll::Ready(value) = poll(context) {
            return Poll::Ready(Ok(Ok(value)));
        }
        let now = now_millis();
        while !connection.channel.has_sent(output) {
            match connection.channel.poll_send(output, context) {
                Poll::Ready(Ok(())) => client_deadline = NEVER,
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Pending => {
                    if client_deadline == NEVER {
                        client_deadline = now.saturating_add(send_timeout);
                    }
                    break;
                }
            }
        }
        if connection.channel.poll_gone(context).is_ready() {
            return Poll::Ready(Err(Gone::Closed));
        }
        if deadline.0.get() <= now {
            return Poll::Ready(Ok(Err(TimedOut)));
        }
        if client_deadline <= now {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        connection.set_deadline(deadline.0.get().min(client_deadline));
        Poll::Pending
    })
    .await
}

/// Sends until at most `most` bytes of `output` are left.
pub(super) async fn client(
    request: &Request<'_>,
    output: &mut Output,
    most: usize,
) -> Result<(), Gone> {
    let connection = request.connection;
    let send_timeout = request.snapshot.timeouts.send;
    if connection.channel.try_send(output)? {
        return Ok(());
    }
    while output.pending().len() > most {
        let deadline = now_millis().saturating_add(send_timeout);
        connection.send_some(output, deadline).await?;
    }
    Ok(())
}
