//! Waiting for a server while the client gets what there is for it.
//!
//! Must never: wait for a server beyond its deadline, for a client beyond its own, or for the one when the other has gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;

use crate::client::{BodyStreamError, BufferLimits, Client};
use crate::request::ProxyRequest;

/// With more than this for the client, it is given some before more of an answer is read.
const ENOUGH_BYTES: usize = 128 * 1024;

/// When the server must have done something. Whoever polls it moves this on.
pub(crate) struct Deadline {
    server: Cell<Millis>,
    /// When whoever polls it wants to be asked again, at the latest.
    wake: Cell<Millis>,
}

impl Deadline {
    pub(crate) fn new() -> Self {
        Self {
            server: Cell::new(NEVER),
            wake: Cell::new(NEVER),
        }
    }

    /// It has this long from now.
    pub(crate) fn set(&self, limit: Millis) {
        self.server.set(now_millis().saturating_add(limit));
    }

    /// It has nothing to do.
    pub(crate) fn clear(&self) {
        self.server.set(NEVER);
    }

    /// Whoever polls it wants to be asked again then.
    pub(crate) fn wake_at(&self, time: Millis) {
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
pub(crate) struct TimedOut;

/// Waits for what `poll` waits for. Meanwhile the client gets what there is for it, and may leave.
pub(crate) async fn server<C: Client, T>(
    client: &mut C,
    deadline: &Deadline,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<Result<T, TimedOut>, Gone> {
    poll_fn(|context| {
        if let Poll::Ready(value) = poll(context) {
            return Poll::Ready(Ok(Ok(value)));
        }
        let now = now_millis();
        let client_deadline = client.deliver(context)?;
        if deadline.has_passed(now) {
            return Poll::Ready(Ok(Err(TimedOut)));
        }
        if client_deadline <= now {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        client.wake_at(deadline.next().min(client_deadline));
        Poll::Pending
    })
    .await
}

/// Tells how much of an answer may wait for its client.
fn backlog(request: &ProxyRequest<'_>) -> BufferLimits {
    let options = request.upstream().options();
    match options.buffering {
        true => BufferLimits {
            memory: options.buffer_size.max(ENOUGH_BYTES),
            may_spill: true,
        },
        false => BufferLimits {
            memory: 0,
            may_spill: false,
        },
    }
}

/// True if so much waits for the client that it is given some before more of an answer is read.
pub(crate) fn has_enough<C: Client>(request: &ProxyRequest<'_>, client: &C) -> bool {
    let most = match request.upstream().options().buffering {
        true => client.allowance(ENOUGH_BYTES) as u64,
        false => 0,
    };
    client.unsent() > most
}

/// Sends until there is room for more. Meanwhile `feed` goes on with the request, and may say that it cannot.
pub(crate) async fn client<C: Client>(
    request: &ProxyRequest<'_>,
    client: &mut C,
    deadline: &Deadline,
    mut feed: impl FnMut(&mut Context<'_>) -> Result<(), BodyStreamError>,
) -> Result<(), BodyStreamError> {
    let backlog = backlog(request);
    if client.try_send()? {
        return Ok(());
    }
    poll_fn(|context| {
        feed(context)?;
        let polled = client.poll_room(context, backlog, deadline.next());
        polled.map_err(BodyStreamError::Gone)
    })
    .await
}
