//! A connection whose protocol has changed: bytes both ways, whatever they mean.
//!
//! Either side may finish first; the other gets to know, and goes on until it has finished too. It ends when both have, when nothing
//! moves for `tunnel_timeout`, when a side does not take what waits for it within that time (by progress, as [`SendDeadline`] says: a byte
//! now and then does not keep a tunnel whose other side is blocked), or when the server stops or the listener is removed: then after a pause, at the latest after a few seconds.
//! Where an upgrade drains the server it goes on, until the time for that is over (`settings.http.drain_timeout`).

use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_upstream::Connection as ServerConnection;

use crate::buffers::BUFFER_BYTES;
use crate::clock::{Millis, now_millis};
use crate::connection::Connection;
use crate::connections::NEVER;
use crate::output::{Gone, Output};
use crate::send_deadline::SendDeadline;
use crate::socket::Received;
use crate::step::Tunnel;
use crate::work::Work;

/// Bytes that may wait to be sent, each way.
const WAITING_BYTES: usize = 64 * 1024;

/// A tunnel in which nothing moves for so long while the server stops is closed; and any after so long in all.
const LAST_PAUSE: Millis = 1_000;
const LAST_MOMENT: Millis = 10_000;

/// How far one side has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It may say more.
    Open,
    /// It has finished; the other has not been told.
    Finished,
    /// The other has.
    Told,
}

struct Pump<'p> {
    client: &'p Connection,
    output: &'p mut Output,
    server: ServerConnection,
    /// From the client, to be sent.
    input: Vec<u8>,
    sent: usize,
    from_client: Side,
    from_server: Side,
    timeout: Millis,
    /// When it ends if nothing moves.
    deadline: Millis,
    /// When a server is given up that does not take what the client has sent; the client has one of its own.
    server_deadline: SendDeadline,
    /// When it must be over, once the server stops.
    end: Option<Millis>,
    bytes: u64,
}

/// Carries bytes until both sides have finished.
pub(crate) async fn run(connection: &Connection, work: &mut Work, tunnel: Tunnel) {
    let start = work.position + work.request(connection).view.length();
    let Tunnel { to_server, head } = tunnel;
    let tutti_proxy::Tunnel {
        claim,
        connection: server,
        received,
        timeout,
    } = to_server;
    let bytes = received.len() as u64;
    work.output.bytes.extend_from_slice(&received);
    let input = work.input.get(start..).unwrap_or_default().to_vec();
    let mut pump = Pump {
        client: connection,
        output: &mut work.output,
        server,
        input,
        sent: 0,
        from_client: Side::Open,
        from_server: Side::Open,
        timeout,
        deadline: now_millis().saturating_add(timeout),
        server_deadline: SendDeadline::default(),
        end: None,
        bytes,
    };
    // However it ended: a broken tunnel is a closed one.
    let _ = poll_fn(|context| pump.poll(context)).await;
    let bytes = pump.bytes;
    work.request(connection).finished(101, bytes, &head);
    drop(claim);
}

impl Pump<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut turns = 0;
        while self.turn(context)? {
            self.deadline = now_millis().saturating_add(self.timeout);
            turns += 1;
            if turns >= 16 {
                // Others get a turn.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if self.from_client == Side::Told && self.from_server == Side::Told {
            return Poll::Ready(Ok(()));
        }
        let now = now_millis();
        if self.client.is_ending() && !self.client.local.drains_gently() {
            let end = *self.end.get_or_insert(now.saturating_add(LAST_MOMENT));
            self.timeout = self.timeout.min(LAST_PAUSE);
            self.deadline = self.deadline.min(now.saturating_add(LAST_PAUSE)).min(end);
        }
        let deadline = self
            .deadline
            .min(self.client.owes_of(self.output, self.timeout))
            .min(self.server_owes());
        if deadline <= now {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        self.client.set_deadline(deadline);
        Poll::Pending
    }

    /// When the server is given up; [`NEVER`] if it has taken everything.
    fn server_owes(&self) -> Millis {
        if self.sent < self.input.len() {
            return self.server_deadline.owes(self.timeout);
        }
        self.server_deadline.note_all_taken();
        NEVER
    }

    /// Moves what can be moved; true if anything was.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<bool, Gone> {
        let to_server = self.carry_in(context)?;
        let to_client = self.carry_out(context)?;
        Ok(to_server || to_client)
    }

    fn carry_in(&mut self, context: &mut Context<'_>) -> Result<bool, Gone> {
        let mut has_moved = false;
        let waiting = self.input.len() - self.sent;
        if self.from_client == Side::Open && waiting < WAITING_BYTES {
            if self.input.capacity() == self.input.len() {
                self.input.drain(..self.sent);
                self.sent = 0;
                self.input.reserve(BUFFER_BYTES);
            }
            match self.client.channel.poll_receive(&mut self.input, context) {
                Poll::Ready(Ok(Received::Bytes(_))) => has_moved = true,
                Poll::Ready(Ok(Received::End | Received::Nothing)) => {
                    self.from_client = Side::Finished;
                }
                Poll::Ready(Err(gone)) => return Err(gone),
                Poll::Pending => {}
            }
        }
        while self.sent < self.input.len() {
            let rest = self.input.get(self.sent..).unwrap_or_default();
            match self.server.poll_send(context, rest) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.sent += count;
                    self.server_deadline.note_taken(count as u64);
                    has_moved = true;
                }
                Poll::Ready(_) => return Err(Gone::Closed),
                Poll::Pending => return Ok(has_moved),
            }
        }
        self.input.clear();
        self.sent = 0;
        // It fails again where it matters.
        let _ = self.server.poll_flush(context);
        if self.from_client == Side::Finished
            && let Poll::Ready(finished) = self.server.poll_finish(context)
        {
            finished.map_err(|_| Gone::Closed)?;
            self.from_client = Side::Told;
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn carry_out(&mut self, context: &mut Context<'_>) -> Result<bool, Gone> {
        let mut has_moved = false;
        if self.from_server == Side::Open && self.output.pending().len() < WAITING_BYTES {
            if self.output.bytes.capacity() == self.output.bytes.len() {
                self.output.bytes.reserve(BUFFER_BYTES);
            }
            match self.server.poll_receive(context, &mut self.output.bytes) {
                Poll::Ready(Ok(0)) => self.from_server = Side::Finished,
                Poll::Ready(Ok(count)) => {
                    self.bytes += count as u64;
                    has_moved = true;
                }
                Poll::Ready(Err(_)) => return Err(Gone::Closed),
                Poll::Pending => {}
            }
        }
        while !self.client.channel.has_sent(self.output) {
            match self.client.poll_send(self.output, context) {
                Poll::Ready(Ok(())) => has_moved = true,
                Poll::Ready(Err(gone)) => return Err(gone),
                Poll::Pending => return Ok(has_moved),
            }
        }
        if self.from_server == Side::Finished {
            if !self.client.channel.shutdown() {
                return Err(Gone::Closed);
            }
            self.from_server = Side::Told;
            has_moved = true;
        }
        Ok(has_moved)
    }
}
