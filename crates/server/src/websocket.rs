//! The bytes of a WebSocket connection: between the client's socket, the [`WebSocketSession`] and the application's rings.
//!
//! Called from the [`pipeline`](crate::pipeline) when an application has accepted a handshake; ends with the connection. One task, as for
//! every connection; it waits for any event: the client sends or reads, the application reads or writes, a deadline passes. While idle it
//! holds no buffer.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_conn::buffers::BUFFER_BYTES;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_http::websocket::{MessageHandler, Next, Opcode, Wants, WebSocketSession, close_code};
use tutti_pool::ExchangeError;

use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::messages::Messages;
use crate::exchange::refusals;
use crate::exchange_step::Upgraded;

/// Rounds in a row before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// Serves a connection whose handshake response is in `messages.output`, until it ends; true if the client may still be sending.
pub(crate) async fn run(
    client: &ClientSide,
    messages: &mut Messages,
    exchange: &Exchange,
    upgraded: Upgraded,
) -> Result<bool, Gone> {
    let end = messages.body_start();
    let input = messages.input.split_off(end.min(messages.input.len()));
    // From here on, only the access log uses the request.
    messages.input.shrink_to_fit();
    let settings = messages.settings(exchange);
    let (websocket, send_timeout) = (settings.websocket, settings.timeouts.send);
    let mut taken = upgraded.exchange;
    taken.upgraded();
    let mut pump = Pump {
        session: WebSocketSession::new(websocket, now_millis()),
        link: Link {
            exchange: taken,
            activity: 0,
        },
        input,
        has_input_ended: false,
        output: std::mem::take(&mut messages.output),
        sent: 0,
        send_timeout,
        client,
    };
    // The head of the response does not count as its body.
    let head_bytes = pump.output.pending().len() as u64;
    let outcome = poll_fn(|context| pump.poll(context)).await;
    let sent = pump.sent.saturating_sub(head_bytes);
    let fault = pump.session.fault();
    drop(pump);
    if let Some(fault) = fault {
        let request = messages.request(client, exchange);
        refusals::closed(&client.local, &request, fault);
    }
    messages
        .request(client, exchange)
        .finished(101, sent, &upgraded.head);
    outcome
}

/// The application's end.
struct Link {
    exchange: tutti_pool::ApplicationExchange,
    /// Counts the bytes moved in either direction.
    activity: u64,
}

/// The close code for a connection whose application has ended.
fn ended(error: &ExchangeError) -> Next {
    Next::Ended(match error {
        // The client may connect again: there is, or will be, another process.
        ExchangeError::Stopped | ExchangeError::Drained | ExchangeError::StartFailed(_) => {
            close_code::SERVICE_RESTART
        }
        _ => close_code::INTERNAL_ERROR,
    })
}

impl MessageHandler for Link {
    fn room(&self, wanted: usize) -> usize {
        self.exchange.piece_room(wanted)
    }

    fn put(&mut self, opcode: Opcode, is_last: bool, bytes: &[u8]) {
        self.activity += 1;
        if let Some(opcode) = tutti_pool::MessageOpcode::of(opcode.bits()) {
            // There is room for all of it, as the caller has checked.
            let _ = self.exchange.write_piece(opcode, bytes, is_last);
        }
    }

    fn finish(&mut self) {
        self.exchange.finish_body();
    }

    fn next(&mut self) -> Next {
        match self.exchange.piece() {
            Ok(Some(piece)) => Next::Piece {
                // The numbers are the same.
                opcode: Opcode::from_bits(piece.head.opcode as u8).unwrap_or(Opcode::Binary),
                length: piece.head.length,
                is_last: piece.head.is_last,
            },
            Ok(None) => match self.exchange.ready() {
                Ok(readable) if readable.finished && readable.is_empty() => {
                    // A cancelled application may have returned by now.
                    match self.exchange.verdict() {
                        Err(error @ ExchangeError::Drained) => ended(&error),
                        // Even if its process has ended since: it had finished.
                        _ => Next::Ended(close_code::NORMAL),
                    }
                }
                Ok(_) => Next::Nothing,
                Err(error) => ended(&error),
            },
            Err(error) => ended(&error),
        }
    }

    fn take(&mut self, out: &mut Vec<u8>) {
        self.activity += 1;
        let consumed = match self.exchange.piece() {
            Ok(Some(piece)) => {
                piece.copy_to(out);
                piece.consumed()
            }
            _ => 0,
        };
        self.exchange.consume(consumed);
    }
}

/// The state for moving one connection's bytes.
struct Pump<'a> {
    client: &'a ClientSide,
    session: WebSocketSession,
    link: Link,
    /// Received bytes that the session has not taken.
    input: Vec<u8>,
    /// The client sends no more data.
    has_input_ended: bool,
    output: Output,
    /// Bytes that the client's socket has taken.
    sent: u64,
    send_timeout: Millis,
}

impl Pump<'_> {
    /// Moves bytes, until the connection has ended (true: the client may still be sending) or has to wait.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Gone>> {
        let outcome = self.turns(context);
        if let Poll::Ready(Err(_)) = outcome {
            self.session.client_gone(&mut self.link);
        }
        outcome
    }

    fn turns(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Gone>> {
        for _ in 0..TURNS {
            let now = now_millis();
            let before = self.progress();
            // Registered first, so that no event during the check is missed. An error means the end of the exchange, which `next` returns.
            let _ = self.link.exchange.watch(context);
            if let Some(code) = self.client.farewell() {
                let reason = match code {
                    close_code::SERVICE_RESTART => "the server restarts",
                    _ => "the server is going away",
                };
                let out = &mut self.output.bytes;
                self.session.dismiss(code, reason, out, now);
            }
            let reads = self.receive(context, now)?;
            let pending = self.output.pending().len();
            self.session
                .collect(&mut self.link, &mut self.output.bytes, pending, now);
            let mut next = self.session.tick(reads, &mut self.output.bytes, now);
            self.send(context)?;
            if self.is_sent() {
                self.client.note_all_taken();
                if let Some(linger) = self.session.ended() {
                    // The application's last message is delivered before it loses the connection.
                    self.session.deliver(&mut self.link);
                    return Poll::Ready(Ok(linger));
                }
            } else {
                let limit = self.client.owes(self.send_timeout);
                if limit <= now {
                    return Poll::Ready(Err(Gone::TimedOut));
                }
                next = next.min(limit);
            }
            if self.progress() == before {
                self.client.set_deadline(next);
                self.let_go();
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Changes whenever bytes have been moved.
    fn progress(&self) -> (u64, u64, usize, usize) {
        let written = self.sent as usize + self.output.pending().len();
        (self.link.activity, self.sent, written, self.input.len())
    }

    /// True if no bytes wait for the client.
    fn is_sent(&self) -> bool {
        self.client.channel.has_sent(&self.output)
    }

    /// Reads from the client; false if earlier bytes must be processed first.
    fn receive(&mut self, context: &mut Context<'_>, now: Millis) -> Result<bool, Gone> {
        if !self.input.is_empty() {
            let pending = self.output.pending().len();
            let out = &mut self.output.bytes;
            let wants = self
                .session
                .receive(&mut self.input, &mut self.link, out, pending, now);
            if wants == Wants::Room {
                return Ok(false);
            }
        }
        if self.has_input_ended || self.session.ended().is_some() {
            return Ok(true);
        }
        if self.input.capacity() == 0 {
            self.input = self.client.local.buffers.take();
        } else if self.input.capacity() == self.input.len() {
            self.input.reserve(BUFFER_BYTES);
        }
        match self.client.channel.poll_receive(&mut self.input, context) {
            Poll::Ready(Ok(ReadResult::Bytes(_))) | Poll::Pending => Ok(true),
            // It may shut its sending side down after its close frame, and read the answer (RFC 6455 §7.1.1 has it wait, but not all
            // clients do).
            Poll::Ready(Ok(ReadResult::End)) if self.session.has_client_closed() => {
                self.has_input_ended = true;
                Ok(true)
            }
            Poll::Ready(Ok(_)) => Err(Gone::Closed),
            Poll::Ready(Err(gone)) => Err(gone),
        }
    }

    /// Sends to the client.
    fn send(&mut self, context: &mut Context<'_>) -> Result<(), Gone> {
        loop {
            let before = self.output.pending().len();
            let polled = self.client.poll_send(&mut self.output, context)?;
            let is_sent = self.is_sent();
            self.sent += (before - self.output.pending().len()) as u64;
            if is_sent || polled.is_pending() {
                return Ok(());
            }
        }
    }

    /// Frees empty buffers.
    fn let_go(&mut self) {
        let buffers = &self.client.local.buffers;
        if self.input.is_empty() {
            buffers.give(std::mem::take(&mut self.input));
        }
        if self.output.is_empty() {
            buffers.give(std::mem::take(&mut self.output).bytes);
        }
    }
}
