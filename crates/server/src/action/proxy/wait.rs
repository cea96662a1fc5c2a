//! Waiting for a server while the client gets what there is for it.
//!
//! Must never: wait for a server beyond its deadline, for a client beyond its own, or for the one when the other has gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::body::Fault;
use crate::clock::{Millis, now_millis};
use crate::connections::NEVER;
use crate::holdings::Store;
use crate::output::{Gone, Output};
use crate::request::Request;
use crate::room::Room;
use crate::step::UpstreamCall;

/// With more than this for the client, it is given some before more of an answer is read.
const ENOUGH_BYTES: usize = 128 * 1024;

/// When the server must have done something. Whoever polls it moves this on.
pub(super) struct Deadline {
    server: Cell<Millis>,
    /// When whoever polls it wants to be asked again, at the latest.
    wake: Cell<Millis>,
}

impl Deadline {
    pub(super) fn new() -> Self {
        Self {
            server: Cell::new(NEVER),
            wake: Cell::new(NEVER),
        }
    }

    /// It has this long from now.
    pub(super) fn set(&self, limit: Millis) {
        self.server.set(now_millis().saturating_add(limit));
    }

    /// It has nothing to do.
    pub(super) fn clear(&self) {
        self.server.set(NEVER);
    }

    /// Whoever polls it wants to be asked again then.
    pub(super) fn wake_at(&self, time: Millis) {
        self.wake.set(time);
    }

    fn has_passed(&self, now: Millis) -> bool {
        self.server.get() <= now
    }

    /// When somebody must look again.
    fn next(&self) -> Millis {
        self.server.get().min(self.wake.get())
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
    poll_fn(|context| {
        if let Poll::Ready(value) = poll(context) {
            return Poll::Ready(Ok(Ok(value)));
        }
        let now = now_millis();
        while !connection.channel.has_sent(output) {
            if connection.poll_send(output, context)?.is_pending() {
                break;
            }
        }
        connection.note_held(output);
        let client_deadline = connection.owes_of(output, send_timeout);
        if connection.channel.poll_gone(context).is_ready() {
            return Poll::Ready(Err(Gone::Closed));
        }
        if deadline.has_passed(now) {
            return Poll::Ready(Ok(Err(TimedOut)));
        }
        if client_deadline <= now {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        connection.set_deadline(deadline.next().min(client_deadline));
        Poll::Pending
    })
    .await
}

/// The part of an answer that may wait for its client: so many bytes in memory, the rest there.
pub(super) type Backlog<'a> = (usize, Option<&'a Store>);

/// Tells how much of an answer may wait for its client.
pub(super) fn backlog<'r>(request: &Request<'r>, call: &UpstreamCall) -> Backlog<'r> {
    let options = call.upstream.options();
    match options.buffering {
        true => (
            options.buffer_size.max(ENOUGH_BYTES),
            request.snapshot.store.as_ref(),
        ),
        false => (0, None),
    }
}

/// How much may be in `output` before the client is given some.
pub(super) fn enough(request: &Request<'_>, call: &UpstreamCall, output: &Output) -> u64 {
    match call.upstream.options().buffering {
        true => request.connection.allowance(output, ENOUGH_BYTES) as u64,
        false => 0,
    }
}

/// Sends until there is room for more behind `output`. Meanwhile `feed` goes on with the request, and may say that it cannot.
pub(super) async fn client(
    request: &Request<'_>,
    output: &mut Output,
    (most, store): Backlog<'_>,
    deadline: &Deadline,
    mut feed: impl FnMut(&mut Context<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let connection = request.connection;
    let send_timeout = request.snapshot.timeouts.send;
    if connection.channel.try_send(output)? {
        return Ok(());
    }
    poll_fn(|context| {
        feed(context)?;
        loop {
            match connection.room(output, most, store) {
                Room::Some => return Poll::Ready(Ok(())),
                Room::Made => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Room::None => {}
            }
            if connection.poll_send(output, context)?.is_pending() {
                let client_deadline = connection.owes(send_timeout);
                if client_deadline <= now_millis() {
                    return Poll::Ready(Err(Gone::TimedOut.into()));
                }
                connection.set_deadline(client_deadline.min(deadline.next()));
                return Poll::Pending;
            }
        }
    })
    .await
}
