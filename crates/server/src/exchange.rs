//! Requests that take more than one look: heads and bodies that come in pieces, files sent by the kernel, slow clients.
//!
//! Runs in a box while it lasts. Each step ends with all its bytes handed to the kernel or kept in `work.output`; every wait has a
//! deadline.

use std::sync::Arc;

use tutti_http::BodyDecoder;
use tutti_pool::Level;

use crate::action::app;
use crate::action::upstream;
use crate::body::Fault;
use crate::clock::{Millis, now_millis};
use crate::collector::Collected;
use crate::collector::Collector;
use crate::connection::Connection;
use crate::dispatch;
use crate::output::{Gone, Output};
use crate::plan::{Act, Plan};
use crate::step::{Call, Compressing, FileTail, Segment, Step, UpstreamCall};
use crate::transfer;
use crate::tunnel;
use crate::websocket;
use crate::work::Work;
use tutti_files::cache::Content;
use tutti_files::compression::CompressedBody;

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

/// Works until the connection is idle or ends.
pub(crate) async fn run(connection: &Connection, work: &mut Work) -> Ending {
    loop {
        match step(connection, work).await {
            Ok(None) => {}
            Ok(Some(ending)) => return ending,
            Err(gone) => {
                if !connection.is_logged() {
                    work.request(connection).left(gone);
                }
                return gone.into();
            }
        }
    }
}

async fn step(connection: &Connection, work: &mut Work) -> Result<Option<Ending>, Gone> {
    let send_timeout = work.snapshot.timeouts.send;
    match std::mem::replace(&mut work.step, Step::Flush) {
        Step::ReadHead { deadline } => return read_head(connection, work, deadline).await,
        Step::Flush => {
            connection.flush(&mut work.output, send_timeout).await?;
            work.answer_complete(connection);
        }
        Step::Body { plan, decoder } => work.step = body(connection, work, *plan, decoder).await?,
        Step::File(tail) => {
            let mut sending = FileSending {
                connection,
                output: &mut work.output,
                tail: &tail,
                send_timeout,
                sent: 0,
            };
            let outcome = match &tail.compressed {
                Some(compressing) => sending.compressed(compressing).await,
                None => sending.plain().await,
            };
            let sent = sending.sent;
            work.request(connection)
                .finished(tail.status, sent, &tail.head);
            outcome?;
            work.step = Step::End(tail.persistence);
        }
        Step::Application(call) => {
            let (request, output) = work.parts(connection);
            work.step = app::run(&request, *call, None, output).await?;
        }
        Step::Upstream(call) => {
            let (request, output) = work.parts(connection);
            work.step = upstream::run(&request, *call, None, output).await?;
        }
        Step::Tunnel(tunnel) => {
            tunnel::run(connection, work, *tunnel).await;
            return Ok(Some(Ending::Close));
        }
        Step::WebSocket(upgraded) => {
            return Ok(Some(
                if websocket::run(connection, work, *upgraded).await? {
                    Ending::Linger
                } else {
                    Ending::Close
                },
            ));
        }
        Step::Http2 => return Ok(Some(Ending::Http2(std::mem::take(&mut work.input)))),
        Step::Late(late) => {
            let outcome = connection.flush(&mut work.output, send_timeout).await;
            let unsent = work.output.len();
            let body_bytes = late.body_bytes.saturating_sub(unsent);
            work.request(connection)
                .finished(late.status, body_bytes, &late.head);
            outcome?;
            work.step = match late.lingers {
                true => Step::Linger,
                false => Step::End(late.persistence),
            };
        }
        Step::End(persistence) if persistence.is_open() => {
            work.position += work.request(connection).view.length();
            work.answer_complete(connection);
        }
        Step::End(_) => {
            connection.flush(&mut work.output, send_timeout).await?;
            return Ok(Some(Ending::Close));
        }
        Step::Linger => {
            connection.flush(&mut work.output, send_timeout).await?;
            return Ok(Some(Ending::Linger));
        }
    }
    Ok(None)
}

/// Reads the request's body, for the application or to no end, and goes on with the plan.
async fn body(
    connection: &Connection,
    work: &mut Work,
    plan: Plan,
    decoder: BodyDecoder,
) -> Result<Step, Gone> {
    let snapshot = Arc::clone(&work.snapshot);
    let Plan { act, changes } = plan;
    let receiver = match &act {
        Act::Application { application, .. } if application.streams_requests() => {
            return stream(connection, work, Plan { act, changes }, decoder).await;
        }
        Act::Upstream(destination) if destination.streams(&work.request(connection).view) => {
            return stream(connection, work, Plan { act, changes }, decoder).await;
        }
        Act::Application { application, .. } => Some((&**application.name(), application.spool())),
        Act::Upstream(destination) => {
            let spool = snapshot.body_spool.as_ref();
            spool.map(|spool| (destination.upstream.name(), spool))
        }
        Act::Page { .. } | Act::File(_) => None,
    };
    let (outcome, body) = match receiver {
        Some((name, spool)) => {
            let mut collector = Collector::new(name, spool, snapshot.body_buffer_bytes);
            let outcome = read_body(connection, work, decoder, |data| {
                collector.add(data, connection)
            })
            .await?;
            (outcome, collector.finish())
        }
        None => {
            let outcome = read_body(connection, work, decoder, |_| Ok(())).await?;
            (outcome, Collected::None)
        }
    };
    let (request, output) = work.parts(connection);
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
        (Ok(()), act) => dispatch::perform(&request, Plan { act, changes }, output),
    })
}

/// Answers a request by somebody who takes the body while it comes.
async fn stream(
    connection: &Connection,
    work: &mut Work,
    plan: Plan,
    decoder: BodyDecoder,
) -> Result<Step, Gone> {
    // The head stays where it is, whatever is read behind it.
    let mut input = connection.local.buffers.take();
    let (request, body, output) = work.detach_body(connection, decoder, &mut input);
    let Plan { act, changes } = plan;
    let step = match act {
        Act::Application {
            application,
            target,
        } => {
            let call = Call::new(application, target, changes);
            app::run(&request, call, Some(body), output).await?
        }
        Act::Upstream(destination) => {
            let call = UpstreamCall {
                destination: *destination,
                changes,
                body: Collected::None,
            };
            upstream::run(&request, call, Some(body), output).await?
        }
        act => dispatch::perform(&request, Plan { act, changes }, output),
    };
    // The next request.
    work.input.extend_from_slice(&input);
    connection.local.buffers.give(input);
    Ok(step)
}

/// Reads the rest of a head, or finds that there is nothing more to do.
async fn read_head(
    connection: &Connection,
    work: &mut Work,
    deadline: Option<Millis>,
) -> Result<Option<Ending>, Gone> {
    connection
        .flush(&mut work.output, work.snapshot.timeouts.send)
        .await?;
    if work.position >= work.input.len() {
        return Ok(Some(Ending::Idle));
    }
    work.input.drain(..work.position);
    work.position = 0;
    let deadline =
        deadline.unwrap_or_else(|| now_millis().saturating_add(work.snapshot.timeouts.header_read));
    match connection.read_more(&mut work.input, deadline).await {
        Ok(()) => {}
        Err(Gone::TimedOut) => {
            connection.note_request();
            work.refuse(
                connection,
                408,
                "the head does not come (`header_read_timeout`)",
            );
            return Ok(None);
        }
        Err(gone) => {
            work.broken_off(connection);
            return Err(gone);
        }
    }
    work.answer_complete(connection);
    if let Step::ReadHead { deadline: again } = &mut work.step
        && work.position == 0
    {
        // Still the same head.
        *again = Some(deadline);
    }
    Ok(None)
}

/// Reads the request's body and gives it to `sink`, which may refuse with a status. Bytes behind the body stay in `work.input`,
/// directly behind the head.
async fn read_body(
    connection: &Connection,
    work: &mut Work,
    decoder: BodyDecoder,
    mut sink: impl FnMut(&[u8]) -> Result<(), u16>,
) -> Result<Result<(), u16>, Gone> {
    let send_timeout = work.snapshot.timeouts.send;
    let (mut body, output) = work.body(connection, decoder);
    loop {
        let outcome = match body.ready(output, send_timeout).await {
            Ok(true) => sink(body.piece()),
            Ok(false) => return Ok(Ok(())),
            Err(Fault::Refused(status)) => Err(status),
            Err(Fault::Gone(gone)) => return Err(gone),
        };
        if outcome.is_err() {
            return Ok(outcome);
        }
        body.consume(body.piece().len());
    }
}

/// A file's response on its way to the client.
struct FileSending<'s> {
    connection: &'s Connection,
    /// The head is in it.
    output: &'s mut Output,
    tail: &'s FileTail,
    send_timeout: Millis,
    /// Bytes of the body that have been sent.
    sent: u64,
}

impl FileSending<'_> {
    async fn flush(&mut self) -> Result<(), Gone> {
        self.connection.flush(self.output, self.send_timeout).await
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
            let (connection, timeout) = (self.connection, self.send_timeout);
            transfer::send_range(connection, descriptor, range, timeout, &mut self.sent).await?;
        }
        self.flush().await?;
        self.sent += text_bytes;
        Ok(())
    }

    /// Sends the file compressed.
    async fn compressed(&mut self, compressing: &Compressing) -> Result<(), Gone> {
        let connection = self.connection;
        let Content::Descriptor(descriptor) = &self.tail.file.content else {
            return Err(Gone::Closed);
        };
        let failed = |error: std::io::Error| {
            let message = format!("cannot compress a file: {error}");
            connection.local.complain(Level::Error, &message);
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
                offset += transfer::read_some(connection, descriptor, rest, &mut plain)?;
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
pub(crate) async fn linger(connection: &Connection) {
    if !connection.channel.shutdown() {
        return;
    }
    let end = now_millis().saturating_add(LINGER_TOTAL);
    let mut buffer = connection.local.buffers.take();
    loop {
        buffer.clear();
        let deadline = end.min(now_millis().saturating_add(LINGER_PAUSE));
        if connection.read_more(&mut buffer, deadline).await.is_err() || now_millis() >= end {
            break;
        }
    }
    connection.local.buffers.give(buffer);
}

impl From<Gone> for Ending {
    fn from(_: Gone) -> Self {
        Ending::Abort
    }
}
