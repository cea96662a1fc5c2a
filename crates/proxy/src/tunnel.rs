//! A connection that has switched protocols: bytes in both directions, unparsed.
//!
//! Either side may finish first; the other is notified, and continues until it has finished, too. The tunnel ends when both have finished,
//! when no bytes move for `tunnel_timeout`, when a side does not take the buffered bytes within that time (measured by [`SendDeadline`]: an
//! occasional byte does not keep a tunnel whose other side is blocked), or when the client's side demands it: then after a pause, at the
//! latest after a few seconds. The client of a WebSocket then gets a close frame, as soon as the server is between two frames.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_conn::buffers::BUFFER_BYTES;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_conn::send_deadline::SendDeadline;
use tutti_conn::socket::ReadResult;
use tutti_http::websocket::{Opcode, PassedFrames, write_frame_head};
use tutti_upstream::{ServerClaim, UpstreamConnection};

/// Bytes that may wait to be sent in each direction.
const WAITING_BYTES: usize = 64 * 1024;

/// A tunnel that must end is closed when no bytes have moved for so long, and after [`LAST_MOMENT`] in any case.
const LAST_PAUSE: Millis = 1_000;
const LAST_MOMENT: Millis = 10_000;

/// A connection to a server that has switched protocols.
pub struct Tunnel {
    /// Holds the claim on the server until the tunnel ends.
    pub(crate) claim: ServerClaim,
    pub(crate) connection: UpstreamConnection,
    /// Bytes received after the server's head.
    pub(crate) received: Vec<u8>,
    /// The longest time without a byte.
    pub(crate) timeout: Millis,
    /// Follows the server's frames, for a WebSocket.
    pub(crate) frames: Option<PassedFrames>,
}

/// The client's end of a tunnel.
pub trait TunnelClient {
    /// Reads into the spare capacity of `input`.
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<Result<ReadResult, Gone>>;

    /// Sends some of `output`: ready when bytes have gone out.
    fn poll_send(&self, context: &mut Context<'_>, output: &mut Output) -> Poll<Result<(), Gone>>;

    /// True if all of `output` has been sent.
    fn has_sent(&self, output: &Output) -> bool;

    /// Closes the sending side; false if that is impossible.
    fn finish(&self) -> bool;

    /// Set if the tunnel must end soon: the status for a WebSocket's close frame. It may be needed again after all.
    fn farewell(&self) -> Option<u16>;

    /// When the client is given up for not taking `output` within `timeout`; [`NEVER`] if it has taken everything.
    fn owes(&self, output: &Output, timeout: Millis) -> Millis;

    /// Wakes the task at this time at the latest.
    fn wake_at(&self, time: Millis);
}

/// The state of one side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It may send more.
    Open,
    /// It has finished; the other side has not been notified.
    Finished,
    /// The other side has been notified.
    Notified,
}

/// The two sides, and the bytes between them.
struct Carrier<'p, C> {
    client: &'p C,
    output: &'p mut Output,
    server: UpstreamConnection,
    /// Bytes from the client that wait to be sent.
    input: Vec<u8>,
    sent: usize,
    from_client: Side,
    from_server: Side,
    timeout: Millis,
    /// When bytes last moved.
    moved: Millis,
    /// When a server that does not take the client's bytes is given up; the client has a deadline of its own.
    server_deadline: SendDeadline,
    /// Since when the tunnel is to end.
    ending: Option<Millis>,
    frames: Option<PassedFrames>,
    bytes: u64,
}

impl Tunnel {
    /// Copies bytes until both sides have finished. `input` came from the client after its request; `output` is what it has not taken yet.
    /// Returns how many bytes the server has sent.
    pub async fn carry<C: TunnelClient>(
        mut self,
        client: &C,
        input: Vec<u8>,
        output: &mut Output,
    ) -> u64 {
        if let Some(frames) = &mut self.frames {
            frames.pass(&self.received);
        }
        let bytes = self.received.len() as u64;
        output.bytes.extend_from_slice(&self.received);
        let mut carrier = Carrier {
            client,
            output,
            server: self.connection,
            input,
            sent: 0,
            from_client: Side::Open,
            from_server: Side::Open,
            timeout: self.timeout,
            moved: now_millis(),
            server_deadline: SendDeadline::default(),
            ending: None,
            frames: self.frames,
            bytes,
        };
        // The result does not matter: a broken tunnel is closed like any other.
        let _ = poll_fn(|context| carrier.poll(context)).await;
        let bytes = carrier.bytes;
        drop(self.claim);
        bytes
    }
}

impl<C: TunnelClient> Carrier<'_, C> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut turns = 0;
        while self.turn(context)? {
            self.moved = now_millis();
            turns += 1;
            if turns >= 16 {
                // Yields to other tasks.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if self.from_client == Side::Notified && self.from_server == Side::Notified {
            return Poll::Ready(Ok(()));
        }
        let now = now_millis();
        let mut timeout = self.timeout;
        let mut deadline = self.moved.saturating_add(timeout);
        if self.client.farewell().is_some() {
            let ending = *self.ending.get_or_insert(now);
            timeout = timeout.min(LAST_PAUSE);
            let pause = self.moved.max(ending).saturating_add(LAST_PAUSE);
            deadline = deadline.min(pause).min(ending.saturating_add(LAST_MOMENT));
        } else {
            self.ending = None;
        }
        let deadline = deadline
            .min(self.client.owes(self.output, timeout))
            .min(self.server_owes(timeout));
        if deadline <= now {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        self.client.wake_at(deadline);
        Poll::Pending
    }

    /// When the server is given up; [`NEVER`] if it has taken everything.
    fn server_owes(&self, timeout: Millis) -> Millis {
        if self.sent < self.input.len() {
            return self.server_deadline.owes(timeout);
        }
        self.server_deadline.note_all_taken();
        NEVER
    }

    /// Moves bytes in both directions; true if any moved.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<bool, Gone> {
        if let Some(code) = self.client.farewell() {
            self.close_websocket(code);
        }
        let to_server = self.carry_in(context)?;
        let to_client = self.carry_out(context)?;
        Ok(to_server || to_client)
    }

    /// Sends a close frame to a WebSocket's client, if its server is between two frames and has not closed. The client's answer is still
    /// passed to the server.
    fn close_websocket(&mut self, code: u16) {
        let is_open = self.from_server == Side::Open;
        if is_open && self.frames.as_ref().is_some_and(PassedFrames::may_add) {
            let code = code.to_be_bytes();
            let out = &mut self.output.bytes;
            write_frame_head(out, Opcode::Close, true, code.len() as u64);
            out.extend_from_slice(&code);
            // No frame may follow it (RFC 6455 §5.5.1).
            self.from_server = Side::Notified;
        }
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
            match self.client.poll_receive(context, &mut self.input) {
                Poll::Ready(Ok(ReadResult::Bytes(_))) => has_moved = true,
                Poll::Ready(Ok(ReadResult::End | ReadResult::Nothing)) => {
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
        // An error will occur again where it is handled.
        let _ = self.server.poll_flush(context);
        if self.from_client == Side::Finished
            && let Poll::Ready(finished) = self.server.poll_finish(context)
        {
            finished.map_err(|_| Gone::Closed)?;
            self.from_client = Side::Notified;
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
            let before = self.output.bytes.len();
            match self.server.poll_receive(context, &mut self.output.bytes) {
                Poll::Ready(Ok(0)) => self.from_server = Side::Finished,
                Poll::Ready(Ok(count)) => {
                    self.bytes += count as u64;
                    if let Some(frames) = &mut self.frames {
                        frames.pass(self.output.bytes.get(before..).unwrap_or_default());
                    }
                    has_moved = true;
                }
                Poll::Ready(Err(_)) => return Err(Gone::Closed),
                Poll::Pending => {}
            }
        }
        while !self.client.has_sent(self.output) {
            match self.client.poll_send(context, self.output) {
                Poll::Ready(Ok(())) => has_moved = true,
                Poll::Ready(Err(gone)) => return Err(gone),
                Poll::Pending => return Ok(has_moved),
            }
        }
        if self.from_server == Side::Finished {
            if !self.client.finish() {
                return Err(Gone::Closed);
            }
            self.from_server = Side::Notified;
            has_moved = true;
        }
        Ok(has_moved)
    }
}
