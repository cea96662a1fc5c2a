//! Waits for a server while the client's buffered bytes are sent.
//!
//! Must never: wait for the server beyond its deadline, for the client beyond its own, or for either when the other has gone.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;

use crate::client::{BodyStreamError, BufferLimits, Client};
use crate::request::ProxyRequest;

/// If more than this waits for the client, some is sent before more of an answer is read.
const ENOUGH_BYTES: usize = 128 * 1024;

/// When the server must have made progress. The code that polls the server moves it.
pub(crate) struct Deadline {
    server: Cell<Millis>,
    /// When the poll function must be called again, at the latest.
    wake: Cell<Millis>,
    /// When the whole request must have been answered.
    until: Millis,
}

impl Deadline {
    /// The server has nothing to do yet.
    pub(crate) fn new(until: Millis) -> Self {
        Self {
            until,
            server: Cell::new(NEVER),
            wake: Cell::new(NEVER),
        }
    }

    /// Sets the deadline to so long from now.
    pub(crate) fn set(&self, limit: Millis) {
        self.server.set(now_millis().saturating_add(limit));
    }

    /// Removes the deadline: the server has nothing to do.
    pub(crate) fn clear(&self) {
        self.server.set(NEVER);
    }

    /// Requests another poll at this time.
    pub(crate) fn wake_at(&self, time: Millis) {
        self.wake.set(time);
    }

    /// When the server must have made progress, or have answered.
    pub(crate) fn due(&self) -> Millis {
        self.server.get().min(self.until)
    }

    /// The next time at which something is due.
    fn next(&self) -> Millis {
        self.due().min(self.wake.get())
    }
}

/// The server has exceeded its timeout.
#[derive(Debug)]
pub(crate) struct TimedOut;

/// Waits for `poll`. Meanwhile sends to the client, and notices if it disconnects.
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
        if deadline.due() <= now {
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

/// Limits the part of an answer that is buffered for its client.
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

/// True if so much is buffered for the client that some is sent before more of an answer is read.
pub(crate) fn has_enough<C: Client>(request: &ProxyRequest<'_>, client: &C) -> bool {
    let most = match request.upstream().options().buffering {
        true => client.allowance(ENOUGH_BYTES) as u64,
        false => 0,
    };
    client.unsent() > most
}

/// Sends until the buffer has room. Meanwhile `feed` continues with the request, and may fail.
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

/// Writes pieces of an answer. For one that takes them in portions, its buffer must have room before each; meanwhile `feed` continues with
/// the request, and may fail. Returns true if that was so: some may have been sent.
pub(crate) async fn write<'b, C: Client>(
    (request, client, answer): (&ProxyRequest<'_>, &mut C, &mut C::Answer),
    pieces: impl Iterator<Item = &'b [u8]> + Clone,
    deadline: &Deadline,
    mut feed: impl FnMut(&mut Context<'_>) -> Result<(), BodyStreamError>,
) -> Result<bool, BodyStreamError> {
    let length: usize = pieces.clone().map(<[u8]>::len).sum();
    let mut taken = client.write(answer, pieces.clone())?;
    let has_waited = taken < length;
    while taken < length {
        self::client(request, client, deadline, &mut feed).await?;
        // Yields to other connections, however fast this client is.
        tokio::task::yield_now().await;
        taken += client.write(answer, after(pieces.clone(), taken))?;
    }
    Ok(has_waited)
}

/// The bytes of `pieces` after the first `count`.
fn after<'b>(
    pieces: impl Iterator<Item = &'b [u8]> + Clone,
    mut count: usize,
) -> impl Iterator<Item = &'b [u8]> + Clone {
    pieces.map(move |piece| {
        let skipped = count.min(piece.len());
        count -= skipped;
        piece.get(skipped..).unwrap_or_default()
    })
}
