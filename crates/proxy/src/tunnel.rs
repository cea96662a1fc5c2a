//! A connection whose protocol has changed: bytes both ways, whatever they mean.
//!
//! Either side may finish first; the other gets to know, and goes on until it has finished too. It ends when both have, when nothing
//! moves for `tunnel_timeout`, when a side does not take what waits for it within that time (by progress, as [`SendDeadline`] says: a byte
//! now and then does not keep a tunnel whose other side is blocked), or when the client's side says that it must end: then after a pause,
//! at the latest after a few seconds. A WebSocket's client then gets a close frame, at the first moment that is between two of its server's.

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

/// Bytes that may wait to be sent, each way.
const WAITING_BYTES: usize = 64 * 1024;

/// A tunnel that must end is closed when nothing has moved for so long, and after [`LAST_MOMENT`] in all.
const LAST_PAUSE: Millis = 1_000;
const LAST_MOMENT: Millis = 10_000;

/// A connection to a server that has changed its protocol.
pub struct Tunnel {
    /// The server is not relieved of it before its end.
    pub(crate) claim: ServerClaim,
    pub(crate) connection: UpstreamConnection,
    /// Bytes that came behind the server's head.
    pub(crate) received: Vec<u8>,
    /// Longest time without a byte.
    pub(crate) timeout: Millis,
    /// The server's frames, of a WebSocket.
    pub(crate) frames: Option<PassedFrames>,
}

/// The client's end of a tunnel.
pub trait TunnelClient {
    /// Reads behind the bytes that `input` has, which has room.
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<Result<ReadResult, Gone>>;

    /// Sends some of `output`: ready when something has gone out.
    fn poll_send(&self, context: &mut Context<'_>, output: &mut Output) -> Poll<Result<(), Gone>>;

    /// True if all of `output` has gone out.
    fn has_sent(&self, output: &Output) -> bool;

    /// Tells it that nothing more will come; false if there is nobody to be told.
    fn finish(&self) -> bool;

    /// Set if the tunnel must end soon: the status of a WebSocket's close frame.
    fn farewell(&self) -> Option<u16>;

    /// When it is given up for not taking `output`, if it has `timeout` for that; [`NEVER`] if it has taken everything.
    fn owes(&self, output: &Output, timeout: Millis) -> Millis;

    /// The task is woken at this time at the latest.
    fn wake_at(&self, time: Millis);
}

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

/// The two sides, and the bytes between them.
struct Carrier<'p, C> {
    client: &'p C,
    output: &'p mut Output,
    server: UpstreamConnection,
    /// From the client, to be sent.
    input: Vec<u8>,
    sent: usize,
    from_client: Side,
    from_server: Side,
    timeout: Millis,
    /// When it ends if nothing moves.
    deadline: Millis,
    /// When a server is given up that does not take the client's bytes; the client has a deadline of its own.
    server_deadline: SendDeadline,
    /// When it must be over, once it is to end.
    end: Option<Millis>,
    frames: Option<PassedFrames>,
    bytes: u64,
}

impl Tunnel {
    /// Carries bytes until both sides have finished. `input` came from the client behind its request; `output` is what it has not taken yet.
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
            deadline: now_millis().saturating_add(self.timeout),
            server_deadline: SendDeadline::default(),
            end: None,
            frames: self.frames,
            bytes,
        };
        // However it ended: a broken tunnel is a closed one.
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
        if self.client.farewell().is_some() {
            let end = *self.end.get_or_insert(now.saturating_add(LAST_MOMENT));
            self.timeout = self.timeout.min(LAST_PAUSE);
            self.deadline = self.deadline.min(now.saturating_add(LAST_PAUSE)).min(end);
        }
        let deadline = self
            .deadline
            .min(self.client.owes(self.output, self.timeout))
            .min(self.server_owes());
        if deadline <= now {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        self.client.wake_at(deadline);
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

    /// Moves the bytes that can be moved; true if there were any.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<bool, Gone> {
        if let Some(code) = self.client.farewell() {
            self.close_websocket(code);
        }
        let to_server = self.carry_in(context)?;
        let to_client = self.carry_out(context)?;
        Ok(to_server || to_client)
    }

    /// Ends what a WebSocket's client gets with a close frame, if its server is within no frame and has not closed. The client's answer still
    /// goes to the server.
    fn close_websocket(&mut self, code: u16) {
        let is_open = self.from_server == Side::Open;
        if is_open && self.frames.as_ref().is_some_and(PassedFrames::may_add) {
            let code = code.to_be_bytes();
            let out = &mut self.output.bytes;
            write_frame_head(out, Opcode::Close, true, code.len() as u64);
            out.extend_from_slice(&code);
            // Nothing may come behind it (RFC 6455 §5.5.1).
            self.from_server = Side::Told;
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
            self.from_server = Side::Told;
            has_moved = true;
        }
        Ok(has_moved)
    }
}
