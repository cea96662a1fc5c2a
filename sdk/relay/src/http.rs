//! HTTP/1 with the program: a request goes out, the head of its answer comes, and the body is passed on.

use std::io;
use std::task::Poll;

use tutti_event_loop::unless_gone;
use tutti_http::{BodyDecoder, BodyLength, MessageLimits, Method, Progress, RequestFraming};
use tutti_worker::log::unless_too_large;
use tutti_worker::{BodyRef, Exchange};

use crate::connection::RelayConnection;
use crate::error::RelayError;
use crate::feed::Transfer;
use crate::head::{framing, write_request};

/// An inline body up to this goes out with the head.
const SMALL_BODY: usize = 32 * 1024;

/// True if the request's body goes out with the head; another is fed as the program takes it.
pub(crate) fn is_small(exchange: &Exchange) -> bool {
    match exchange.request().body() {
        BodyRef::None => true,
        BodyRef::Inline(bytes) => bytes.len() <= SMALL_BODY,
        BodyRef::Spool { .. } | BodyRef::Stream { .. } => false,
    }
}

/// Sends the head, and a [small](is_small) body. False when the program answered before it had all of that: the rest is not sent.
pub(crate) async fn send(
    exchange: &Exchange,
    connection: &mut RelayConnection,
    key: Option<&[u8; 24]>,
) -> Result<bool, RelayError> {
    let mut out = std::mem::take(&mut connection.out);
    out.clear();
    let request = exchange.request();
    let framing = match key {
        Some(_) => RequestFraming::None,
        None => framing(&request),
    };
    write_request(&mut out, &request, framing, key, connection.tells_client);
    if let (BodyRef::Inline(bytes), None) = (request.body(), key) {
        out.extend_from_slice(bytes);
    }
    let is_sent = send_all(exchange, connection, &out).await?;
    connection.out = out;
    Ok(is_sent)
}

/// False when the program said something meanwhile.
pub(crate) async fn send_all(
    exchange: &Exchange,
    connection: &mut RelayConnection,
    bytes: &[u8],
) -> Result<bool, RelayError> {
    let mut rest = bytes;
    let outcome = unless_gone(exchange, |context| {
        while !rest.is_empty() {
            match connection.poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => rest = rest.get(count..).unwrap_or_default(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // It may be waiting for us to read an early answer.
                Poll::Pending => {
                    return match connection.poll_receive(context) {
                        Poll::Ready(Ok(count)) if count > 0 => Poll::Ready(Ok(false)),
                        Poll::Ready(Ok(_)) => {
                            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
                        }
                        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                        Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
        Poll::Ready(Ok(true))
    })
    .await?;
    outcome.map_err(|error| match rest.len() == bytes.len() {
        true => RelayError::Unsent(error),
        false => RelayError::Send(error),
    })
}

/// Reads the head of the final answer; it stays at the front of what the connection has received.
pub(crate) async fn receive_head(
    exchange: &Exchange,
    line: &mut Transfer,
) -> Result<(), RelayError> {
    let limits = MessageLimits::of_a_program();
    loop {
        match line.connection.parse(&limits).map_err(RelayError::Head)? {
            Progress::Complete { length } => {
                let status = line.connection.answer().status();
                if status >= 200 || (status == 101 && exchange.request().is_websocket()) {
                    return Ok(());
                }
                if status == 101 {
                    return Err(RelayError::Upgraded);
                }
                if status > 101 {
                    let sent = exchange.interim(status, line.connection.answer().forwarded());
                    unless_too_large(exchange, sent).map_err(RelayError::Unusable)?;
                }
                line.connection.consume(length);
            }
            Progress::Incomplete => {
                let count = unless_gone(exchange, |context| line.poll_receive(exchange, context))
                    .await?
                    .map_err(RelayError::Receive)?;
                if count == 0 {
                    return Err(match line.connection.received.is_empty() {
                        true => RelayError::Closed,
                        false => RelayError::CutShort,
                    });
                }
            }
        }
    }
}

/// Passes the answer on whose head is at the front of what was received. True if the connection can be kept.
pub(crate) async fn pass_on(exchange: &Exchange, line: &mut Transfer) -> Result<bool, RelayError> {
    let method = Method::from_bytes(exchange.request().method());
    let view = line.connection.answer();
    let (length, until) = (view.length(), view.body_length(method));
    let may_keep = view.keep_alive(method);
    exchange
        .start(view.status(), view.forwarded())
        .map_err(RelayError::Unusable)?;
    line.connection.consume(length);
    let mut decoder =
        BodyDecoder::new(until, &MessageLimits::of_a_program()).map_err(RelayError::BadBody)?;
    let mut is_announced = true;
    loop {
        let step = decoder
            .decode(&line.connection.received)
            .map_err(RelayError::BadBody)?;
        if !step.data.is_empty() {
            line.pass(exchange, step.data).await?;
            is_announced = false;
        }
        line.connection.consume(step.consumed);
        if step.is_finished {
            let trailers = decoder.trailers();
            if !trailers.is_empty() {
                let sent = exchange.trailers(trailers.fields());
                unless_too_large(exchange, sent).map_err(RelayError::Unusable)?;
            }
            return Ok(may_keep);
        }
        if step.consumed > 0 && !line.connection.received.is_empty() {
            continue;
        }
        let count = unless_gone(exchange, |context| {
            let polled = line.poll_receive(exchange, context);
            if polled.is_pending() && !is_announced {
                // The program is thinking: what there is goes out.
                is_announced = true;
                exchange.flush();
            }
            polled
        })
        .await?
        .map_err(RelayError::Receive)?;
        if count == 0 {
            return match until {
                BodyLength::UntilClose => Ok(false),
                _ => Err(RelayError::CutShort),
            };
        }
    }
}
