//! Requests that wait for something: heads and bodies that come in pieces, files sent by the kernel, applications, slow clients.
//!
//! Runs in a box while it lasts. Each step ends with all its bytes handed to the kernel or kept in `messages.output`; every wait has a
//! deadline.

use std::pin::pin;
use std::sync::Arc;

use tutti_http::BodyDecoder;
use tutti_pool::Level;

use crate::action::app;
use crate::action::listing;
use crate::action::metrics;
use crate::action::spooler;
use crate::action::upstream;
use crate::client::Client;
use crate::collector::Collected;
use crate::collector::Collector;
use crate::dispatch;
use crate::exchange::Exchange;
use crate::guard;
use crate::lookup;
use crate::messages::Messages;
use crate::mirror;
use crate::plan::{Act, Plan};
use crate::posts::Gathered;
use crate::route;
use crate::slow_watch::watched;
use crate::step::{Call, Compressing, FileTail, Posting, Segment, Step, UpstreamCall};
use crate::transfer;
use crate::tunnel;
use crate::websocket;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::output::{Gone, Output};
use tutti_files::cache::Content;
use tutti_files::compression::CompressedBody;
use tutti_proxy::BodyFault;

/// How a round of requests ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All answered; the connection waits for the next request.
    Idle,
    /// Close it: all has been said.
    Close,
    /// Close it, without a word that would make what has been sent look whole.
    Abort,
    /// An answer has been sent that the client may not have read while it still sends: read on for a while, then close.
    Linger,
    /// The client speaks HTTP/2; these are the bytes that it has sent so far.
    Http2(Vec<u8>),
}

/// How long a client that still sends after its answer is listened to in all, and between two reads.
const LINGER_TOTAL: Millis = 5_000;
const LINGER_PAUSE: Millis = 2_000;

/// Works until the exchange has ended; [`Ending::Idle`]: the connection goes on behind its request.
pub(crate) async fn run(
    client: &Client,
    messages: &mut Messages,
    mut exchange: Exchange,
    mut next: Step,
) -> Ending {
    loop {
        next = match step(client, messages, &mut exchange, next).await {
            Ok(Ok(step)) => step,
            Ok(Err(ending)) => return ending,
            Err(gone) => {
                if !exchange.is_logged() {
                    messages.request(client, &exchange).left(gone);
                }
                return Ending::Abort;
            }
        };
    }
}

async fn step(
    client: &Client,
    messages: &mut Messages,
    exchange: &mut Exchange,
    step: Step,
) -> Result<Result<Step, Ending>, Gone> {
    if let Step::Substitute(substitute) = step {
        exchange.substitute = Some(substitute);
        let (request, output) = messages.parts(client, exchange);
        return Ok(Ok(dispatch::enter(&request, route::plan(&request), output)));
    }
    let exchange = &*exchange;
    if let Step::Body { plan, decoder } = step {
        return body(client, messages, exchange, *plan, decoder)
            .await
            .map(Ok);
    }
    let (request, output) = messages.parts(client, exchange);
    let send_timeout = request.snapshot.timeouts.send;
    Ok(Ok(match step {
        Step::Substitute(_) | Step::Body { .. } => return Ok(Err(Ending::Abort)),
        Step::File(tail) => {
            let mut sending = FileSending {
                client,
                output,
                tail: &tail,
                send_timeout,
                sent: 0,
            };
            let outcome = match &tail.compressed {
                Some(compressing) => sending.compressed(compressing).await,
                None => sending.plain().await,
            };
            request.finished(tail.status, sending.sent, &tail.head);
            outcome?;
            Step::End(tail.persistence)
        }
        Step::Guard { plan, pause } => match guard::run(&request, *plan, pause, output).await? {
            Ok(plan) => dispatch::go_on(&request, plan, output),
            Err(step) => step,
        },
        Step::Listing(folder, changes) => listing::run(&request, *folder, &changes, output).await?,
        Step::Application(mut call) => {
            let answer = pin!(app::run(&request, &mut call, None, output));
            watched(&request, answer).await?
        }
        Step::Upstream(call) => {
            let answer = pin!(upstream::run(&request, &call, None, output));
            watched(&request, answer).await?
        }
        Step::Cached(fetch) => Box::pin(lookup::run(&request, *fetch, output)).await?,
        Step::Metrics(changes) => metrics::run(&request, &changes, output).await?,
        Step::Spooler(posting) => spooler::run(&request, *posting, output).await?,
        Step::Tunnel(tunnel) => {
            tunnel::run(client, messages, exchange, *tunnel).await;
            return Ok(Err(Ending::Close));
        }
        Step::WebSocket(upgraded) => {
            let is_sending = websocket::run(client, messages, exchange, *upgraded).await?;
            return Ok(Err(Ending::after(is_sending)));
        }
        Step::Late(late) => {
            let outcome = request.flush(output).await;
            let body_bytes = late.body_bytes.saturating_sub(output.len());
            request.finished(late.status, body_bytes, &late.head);
            outcome?;
            match late.lingers || exchange.lingers() {
                true => Step::Linger,
                false => Step::End(late.persistence),
            }
        }
        Step::End(persistence) if persistence.is_open() => {
            // It counts as under way until its client has the response.
            if exchange.admission.holds_permits() {
                request.flush(output).await?;
            }
            return Ok(Err(Ending::Idle));
        }
        Step::End(_) => {
            request.flush(output).await?;
            return Ok(Err(Ending::after(exchange.lingers())));
        }
        Step::Linger => {
            request.flush(output).await?;
            return Ok(Err(Ending::Linger));
        }
    }))
}

/// Reads the request's body, for the application or to no end, and goes on with the plan.
async fn body(
    client: &Client,
    messages: &mut Messages,
    exchange: &Exchange,
    plan: Plan,
    decoder: BodyDecoder,
) -> Result<Step, Gone> {
    let snapshot = Arc::clone(&messages.snapshot);
    let takes_it_as_it_comes = match &plan.act {
        Act::Application { application, .. } => application.streams_requests(),
        Act::Upstream(destination) => destination.streams(&messages.request(client, exchange).view),
        _ => false,
    };
    if takes_it_as_it_comes {
        return stream(client, messages, exchange, plan, decoder).await;
    }
    let Plan { act, changes, .. } = plan;
    let receiver = match &act {
        Act::Spooler(spooler) => {
            let mut gathered = Gathered::new(spooler, &client.local.shared.desk);
            let outcome = read_body((client, exchange), messages, decoder, |data| {
                gathered.add(data)
            })
            .await?;
            let (request, output) = messages.parts(client, exchange);
            return Ok(match outcome {
                Err(status) => request.refuse(status, output),
                Ok(()) => Step::Spooler(Box::new(Posting {
                    spooler: Arc::clone(spooler),
                    changes,
                    body: gathered,
                })),
            });
        }
        Act::Application { application, .. } => Some((&**application.name(), application.spool())),
        Act::Upstream(destination) => {
            let spool = snapshot.body_spool.as_ref();
            spool.map(|spool| (destination.upstream.name(), spool))
        }
        Act::Page { .. } | Act::File(_) | Act::Listing(_) | Act::Substitute(_) | Act::Metrics => {
            None
        }
    };
    let (outcome, body) = match receiver {
        Some((name, spool)) => {
            let mut collector = Collector::new(name, spool, snapshot.body_buffer_bytes);
            let outcome = read_body((client, exchange), messages, decoder, |data| {
                collector.add(data, client)
            })
            .await?;
            (outcome, collector.finish())
        }
        None => {
            let outcome = read_body((client, exchange), messages, decoder, |_| Ok(())).await?;
            (outcome, Collected::None)
        }
    };
    let (request, output) = messages.parts(client, exchange);
    if outcome.is_ok() && matches!(act, Act::Application { .. } | Act::Upstream(_)) {
        mirror::copy(&request, &body);
    }
    Ok(match (outcome, act) {
        (Err(status), _) => request.refuse(status, output),
        (
            Ok(()),
            Act::Application {
                application,
                target,
            },
        ) => Step::Application(Box::new(Call {
            application,
            target,
            changes,
            body,
            upgrade: None,
        })),
        (Ok(()), Act::Upstream(destination)) => Step::Upstream(Box::new(UpstreamCall {
            destination: *destination,
            changes,
            body,
        })),
        (Ok(()), act) => dispatch::perform(&request, Plan::going_on(act, changes), output),
    })
}

/// Answers a request by somebody who takes the body while it comes.
async fn stream(
    client: &Client,
    messages: &mut Messages,
    exchange: &Exchange,
    plan: Plan,
    decoder: BodyDecoder,
) -> Result<Step, Gone> {
    // The head stays where it is, whatever is read behind it.
    let mut input = client.local.buffers.take();
    let (request, body, output) = messages.detach_body(client, exchange, decoder, &mut input);
    // Its body is there for one only: that one is counted as dropped.
    mirror::copy(&request, &Collected::None);
    let Plan { act, changes, .. } = plan;
    let step = match act {
        Act::Application {
            application,
            target,
        } => {
            let mut call = Call::new(application, target, changes);
            let answer = pin!(app::run(&request, &mut call, Some(body), output));
            watched(&request, answer).await?
        }
        Act::Upstream(destination) => {
            let call = UpstreamCall {
                destination: *destination,
                changes,
                body: Collected::None,
            };
            let body = Some(Box::new(body));
            let answer = pin!(upstream::run(&request, &call, body, output));
            watched(&request, answer).await?
        }
        act => dispatch::perform(&request, Plan::going_on(act, changes), output),
    };
    // The next request.
    messages.input.extend_from_slice(&input);
    client.local.buffers.give(input);
    Ok(step)
}

/// Reads the request's body and gives it to `sink`, which may refuse with a status. Bytes behind the body stay in `messages.input`,
/// directly behind the head.
async fn read_body(
    (client, exchange): (&Client, &Exchange),
    messages: &mut Messages,
    decoder: BodyDecoder,
    mut sink: impl FnMut(&[u8]) -> Result<(), u16>,
) -> Result<Result<(), u16>, Gone> {
    let send_timeout = messages.snapshot.timeouts.send;
    let (mut body, output) = messages.body(client, exchange, decoder);
    loop {
        let outcome = match body.ready(output, send_timeout).await {
            Ok(true) => sink(body.piece()),
            Ok(false) => return Ok(Ok(())),
            Err(BodyFault::Refused(status)) => Err(status),
            Err(BodyFault::Gone(gone)) => return Err(gone),
        };
        if outcome.is_err() {
            return Ok(outcome);
        }
        body.consume(body.piece().len());
    }
}

/// A file's response on its way to the client.
struct FileSending<'s> {
    client: &'s Client,
    /// The head is in it.
    output: &'s mut Output,
    tail: &'s FileTail,
    send_timeout: Millis,
    /// Bytes of the body that have been sent.
    sent: u64,
}

impl FileSending<'_> {
    async fn flush(&mut self) -> Result<(), Gone> {
        self.client.flush(self.output, self.send_timeout).await
    }

    /// Sends the segments.
    async fn plain(&mut self) -> Result<(), Gone> {
        let Content::Descriptor(descriptor) = &self.tail.file.content else {
            return Ok(());
        };
        let mut text_bytes = 0;
        for segment in &self.tail.segments {
            let range = match segment {
                Segment::Text(text) => {
                    self.output.bytes.extend_from_slice(text);
                    text_bytes += text.len() as u64;
                    continue;
                }
                Segment::File(range) => range.clone(),
            };
            // Not `MSG_MORE`: with the head in front of them in one segment, the file's pages straddle the segments, and a 100 KB file
            // cost twice as much (27 against 13 µs).
            self.flush().await?;
            self.sent += std::mem::take(&mut text_bytes);
            let (client, timeout) = (self.client, self.send_timeout);
            transfer::send_range(client, descriptor, range, timeout, &mut self.sent).await?;
        }
        self.flush().await?;
        self.sent += text_bytes;
        Ok(())
    }

    /// Sends the file compressed.
    async fn compressed(&mut self, compressing: &Compressing) -> Result<(), Gone> {
        let client = self.client;
        let Content::Descriptor(descriptor) = &self.tail.file.content else {
            return Err(Gone::Closed);
        };
        let failed = |error: std::io::Error| {
            let message = format!("cannot compress a file: {error}");
            client.local.complain(Level::Error, &message);
            Gone::Closed
        };
        let (compressor, framing) = (&compressing.compressor, compressing.framing);
        let mut body = CompressedBody::new(compressor, framing).map_err(failed)?;
        let mut plain = Vec::new();
        for segment in &self.tail.segments {
            let Segment::File(range) = segment else {
                continue;
            };
            let mut offset = range.start;
            while offset < range.end {
                let rest = offset..range.end;
                offset += transfer::read_some(client, descriptor, rest, &mut plain)?;
                body.write(&plain, &mut self.output.bytes).map_err(failed)?;
                self.flush().await?;
                self.sent = body.bytes();
                // Compressing takes longer than sending: others get a turn after each piece.
                tokio::task::yield_now().await;
            }
        }
        if self.tail.segments.is_empty() {
            return Ok(());
        }
        let bytes = body.finish(&mut self.output.bytes).map_err(failed)?;
        self.flush().await?;
        self.sent = bytes;
        Ok(())
    }
}

/// Tells the client that nothing more will come, and listens for a while to what it still sends: closing a socket with unread bytes
/// resets the connection, and the reset may overtake the answer (RFC 9112 §9.6).
pub(crate) async fn linger(client: &Client) {
    if !client.channel.shutdown() {
        return;
    }
    let end = now_millis().saturating_add(LINGER_TOTAL);
    let mut buffer = client.local.buffers.take();
    loop {
        buffer.clear();
        let deadline = end.min(now_millis().saturating_add(LINGER_PAUSE));
        if client.read_more(&mut buffer, deadline).await.is_err() || now_millis() >= end {
            break;
        }
    }
    client.local.buffers.give(buffer);
}

impl Ending {
    /// The end after a last response; `is_sending`: the client may still be sending.
    fn after(is_sending: bool) -> Self {
        match is_sending {
            true => Self::Linger,
            false => Self::Close,
        }
    }
}
