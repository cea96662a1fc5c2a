//! One request: to the program, and its answer back.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_http::{BodyDecoder, BodyLength, Limits, Method, Progress, RequestFraming};
use tutti_worker::log::line;
use tutti_worker::{BodyView, Exchange};

use super::connection::{Connection, SWEEP};
use super::feed::{Feed, Line};
use super::head::{framing, response_fields, write_piece, write_request};
use super::{Relay, driver, websocket};

/// Bytes of a body given to the program at once.
pub(super) const PIECE: usize = 64 * 1024;
/// An inline body up to this goes out with the head.
const SMALL_BODY: usize = 32 * 1024;

/// Why an exchange got no (whole) answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the client has gone")]
    ClientGone,
    #[error("connecting to the program: {0}")]
    Connect(io::Error),
    #[error("sending the request to the program: {0}")]
    Send(io::Error),
    #[error("reading the request's body: {0}")]
    Body(io::Error),
    #[error("the program closed the connection before it answered")]
    Closed,
    #[error("reading the program's answer: {0}")]
    Receive(io::Error),
    #[error("the program's answer is not HTTP/1: {0}")]
    Head(tutti_http::HeadError),
    #[error("the program's answer cannot be passed on: {0}")]
    Unusable(tutti_worker::HeadError),
    #[error("the program changed the protocol without being asked")]
    Upgraded,
    #[error("the body of the program's answer is not what its head says: {0}")]
    BadBody(tutti_http::BodyError),
    #[error("the program broke its answer off")]
    CutShort,
    #[error("the program's WebSocket: {0}")]
    WebSocket(String),
}

impl Failure {
    /// Whether the program may be about to end: the system closes a process's connections before it tells of its end.
    fn is_of_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::Receive(_) | Self::Send(_) | Self::CutShort
        )
    }
}

/// Relays one exchange to its end.
pub(crate) async fn relay(relay: &Rc<Relay>, mut exchange: Exchange) {
    let outcome = {
        let mut under_way = UnderWay {
            relay,
            exchange: &exchange,
            is_over: false,
        };
        let outcome = match exchange.request().is_websocket() {
            // On the heap, for it is large and rare: so the other kind is cheap to begin.
            true => Box::pin(websocket::relay(relay, &exchange)).await,
            false => serve(relay, &exchange).await,
        };
        under_way.is_over = !outcome.as_ref().is_err_and(Failure::is_of_the_connection);
        outcome
    };
    match outcome {
        Ok(()) => exchange.finish(),
        Err(failure) => {
            if !matches!(failure, Failure::ClientGone) {
                let message = format!("{}: {failure}", title(&exchange));
                line("error", "", message.as_bytes());
            }
            // 502 where nothing was sent yet; else the answer is broken off and cannot be taken for whole.
            exchange.abort();
        }
    }
}

/// The request line as the log has it.
fn title(exchange: &Exchange) -> String {
    let request = exchange.request();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{} {}", text(request.method()), text(request.target()))
}

/// A request on its way. If its connection ends, or the event loop does, it is noted, so that the program's end can be told with what it
/// was at.
struct UnderWay<'r> {
    relay: &'r Relay,
    exchange: &'r Exchange,
    /// It has an outcome that is not the program's end.
    is_over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let title = title(self.exchange);
            self.relay.broken_off.borrow_mut().note(title);
        }
    }
}

async fn serve(relay: &Rc<Relay>, exchange: &Exchange) -> Result<(), Failure> {
    let connection = relay.pool.get().await.map_err(Failure::Connect)?;
    let was_used = connection.is_used;
    match attempt(relay, exchange, connection).await {
        // A server may close a kept connection at any moment. If it said nothing on it and doing the request twice does no
        // harm (RFC 9110 §9.2.2), it is done again on a new one.
        Err(Failure::Closed | Failure::Send(_) | Failure::Receive(_))
            if was_used
                && is_repeatable(exchange)
                && !exchange.is_started()
                && exchange.body_rewind().is_ok() =>
        {
            let connection = relay.pool.open().await.map_err(Failure::Connect)?;
            attempt(relay, exchange, connection).await
        }
        outcome => outcome,
    }
}

fn is_repeatable(exchange: &Exchange) -> bool {
    matches!(
        exchange.request().method(),
        b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE"
    )
}

async fn attempt(
    relay: &Rc<Relay>,
    exchange: &Exchange,
    connection: Box<Connection>,
) -> Result<(), Failure> {
    let mut line = Line::new(connection);
    let is_sent = match exchange.request().body() {
        // The program may answer while the body comes.
        BodyView::Stream { .. } => {
            line.feed = Some(Feed::begin(exchange));
            true
        }
        _ => send(exchange, &mut line.connection, None).await?,
    };
    receive_head(exchange, &mut line).await?;
    let may_keep = pass_on(exchange, &mut line).await?;
    let is_sent = is_sent && line.feed.as_ref().is_none_or(Feed::is_done);
    if is_sent && may_keep && relay.pool.keep(line.connection) {
        let relay = Rc::clone(relay);
        tokio::task::spawn_local(async move {
            while relay.pool.sweep() {
                tokio::time::sleep(SWEEP).await;
            }
        });
    }
    Ok(())
}

/// Waits for `poll`, and gives up when the client has gone.
pub(crate) async fn unless_gone<T>(
    exchange: &Exchange,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, Failure> {
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = poll(context) {
            return Poll::Ready(Ok(value));
        }
        driver::listen(exchange.slot(), context.waker());
        if exchange.is_client_gone() {
            return Poll::Ready(Err(Failure::ClientGone));
        }
        Poll::Pending
    })
    .await
}

/// Sends head and body. False when the program answered before it had the whole body: the rest is not sent.
pub(crate) async fn send(
    exchange: &Exchange,
    connection: &mut Connection,
    key: Option<&[u8; 24]>,
) -> Result<bool, Failure> {
    let mut out = std::mem::take(&mut connection.out);
    out.clear();
    let request = exchange.request();
    let framing = match key {
        Some(_) => RequestFraming::None,
        None => framing(&request),
    };
    write_request(&mut out, &request, framing, key);
    let mut is_whole = framing == RequestFraming::None;
    if let BodyView::Inline(bytes) = request.body()
        && bytes.len() <= SMALL_BODY
        && !is_whole
    {
        out.extend_from_slice(bytes);
        is_whole = true;
    }
    let mut piece = Vec::new();
    loop {
        if !send_all(exchange, connection, &out).await? {
            return Ok(false);
        }
        if is_whole {
            connection.out = out;
            return Ok(true);
        }
        out.clear();
        piece.resize(PIECE, 0);
        let count = unless_gone(exchange, |_| match exchange.try_read_body(&mut piece) {
            Ok(None) => Poll::Pending,
            Ok(Some(count)) => Poll::Ready(Ok(count)),
            Err(error) => Poll::Ready(Err(error)),
        })
        .await?
        .map_err(Failure::Body)?;
        is_whole = count == 0;
        let bytes = piece.get(..count).unwrap_or_default();
        write_piece(framing, bytes, &mut out);
    }
}

/// False when the program said something meanwhile.
pub(crate) async fn send_all(
    exchange: &Exchange,
    connection: &mut Connection,
    bytes: &[u8],
) -> Result<bool, Failure> {
    let mut rest = bytes;
    unless_gone(exchange, |context| {
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
    .await?
    .map_err(Failure::Send)
}

/// Reads the head of the final answer; it stays at the front of what the connection has received.
pub(crate) async fn receive_head(exchange: &Exchange, line: &mut Line) -> Result<(), Failure> {
    let limits = limits();
    loop {
        match line.connection.parse(&limits).map_err(Failure::Head)? {
            Progress::Complete { length } => {
                let status = line.connection.answer().status();
                if status >= 200 || (status == 101 && exchange.request().is_websocket()) {
                    return Ok(());
                }
                if status == 101 {
                    return Err(Failure::Upgraded);
                }
                line.connection.consume(length);
            }
            Progress::Incomplete => {
                let count = unless_gone(exchange, |context| line.poll_receive(exchange, context))
                    .await?
                    .map_err(Failure::Receive)?;
                if count == 0 {
                    return Err(match line.connection.received.is_empty() {
                        true => Failure::Closed,
                        false => Failure::CutShort,
                    });
                }
            }
        }
    }
}

fn limits() -> Limits {
    // What the program sends is its own business; the head must fit what the router takes.
    Limits {
        large_header_buffer_size: 64 * 1024,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        max_body_size: u64::MAX,
        ..Limits::default()
    }
}

/// Passes the answer on whose head is at the front of what was received. Whether the connection can be kept.
pub(crate) async fn pass_on(exchange: &Exchange, line: &mut Line) -> Result<bool, Failure> {
    let method = Method::from_bytes(exchange.request().method());
    let view = line.connection.answer();
    let (length, until) = (view.length(), view.body_length(method));
    let may_keep = view.keep_alive(method);
    exchange
        .start(view.status(), response_fields(&view))
        .map_err(Failure::Unusable)?;
    line.connection.consume(length);
    let mut decoder = BodyDecoder::new(until, &limits()).map_err(Failure::BadBody)?;
    let mut is_announced = true;
    loop {
        let step = decoder
            .decode(&line.connection.received)
            .map_err(Failure::BadBody)?;
        if !step.data.is_empty() {
            line.pass(exchange, step.data).await?;
            is_announced = false;
        }
        line.connection.consume(step.consumed);
        if step.is_finished {
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
        .map_err(Failure::Receive)?;
        if count == 0 {
            return match until {
                BodyLength::UntilClose => Ok(false),
                _ => Err(Failure::CutShort),
            };
        }
    }
}
