//! The response of an application on its way to the client.
//!
//! It is sent from shared memory without a copy as long as the socket accepts it; the rest is copied to memory, up to a limit, and to a
//! file beyond that, so that a slow client does not occupy the worker; when that is full, the worker waits.
//!
//! Must never: send a second head, a body that contradicts its `Content-Length`, or end a response normally that was cut short.

use smallvec::SmallVec;
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_http::{Known, Trailers, Version, status_may_have_content};
use tutti_pool::WireResponseHead;
use tutti_proxy::BodyStreamError;

use super::conversation::Conversation;
use crate::exchange::channel::Channel;
use crate::exchange::request::Request;
use crate::exchange::respond::{Own, is_framing};
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, Begun, Instead};
use crate::plan::Changes;
use crate::sending;
use crate::writer::{Head, Writer, Written};

/// Ends a response that is not sent: the client gets its replacement, or a stored response, and this one has to end before.
pub(super) async fn replace(
    request: &Request<'_>,
    instead: Option<Instead>,
    mut conversation: Conversation<'_>,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let Some(instead) = instead else {
        return Ok(held(request));
    };
    let send_timeout = request.settings().timeouts.send;
    discard(&mut conversation, output, send_timeout).await?;
    let is_body_coming = conversation.is_body_coming();
    Ok(instead.into_step(request, is_body_coming, output))
}

/// Ends an exchange part of whose body has not been read, when its response is complete, in `output` or sent.
pub(super) async fn end(
    request: &Request<'_>,
    sent: Written,
    conversation: Conversation<'_>,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let send_timeout = request.settings().timeouts.send;
    let is_body_read = match &sent {
        Written::End(persistence) if persistence.is_open() => {
            conversation.drain(output, send_timeout).await?
        }
        _ => false,
    };
    Ok(sent.lingering(!is_body_read).into())
}

/// Nothing has been sent: a stored response is used instead.
pub(super) fn held(request: &Request<'_>) -> ExchangeStep {
    ExchangeStep::End(request.persistence())
}

/// True if trailer fields may follow the body: the client accepts them, its framing permits them, and the application has announced them.
/// Over HTTP/2 and 3, if the length is unknown, they need not be announced: gRPC services do not announce them.
fn trails(
    request: &Request<'_>,
    status: u16,
    (declared, is_announced): (Option<u64>, bool),
    conversation: &Conversation<'_>,
) -> bool {
    let has_body = !request.is_head() && status_may_have_content(status);
    if !has_body || !request.takes_trailers() {
        return false;
    }
    let is_stream = request.view.version() >= Version::Http2;
    if is_announced {
        return declared.is_none() || is_stream;
    }
    // A complete response has its trailers already.
    let may_follow = || {
        let exchange = &conversation.exchange;
        let is_whole = exchange.ready().is_ok_and(|ready| ready.finished);
        !is_whole || exchange.trailers().is_ok_and(|fields| !fields.is_empty())
    };
    is_stream && declared.is_none() && may_follow()
}

/// The trailer fields of a complete response. Malformed ones are ignored: the body is complete.
fn trailers(trails: bool, conversation: &Conversation<'_>) -> Trailers {
    let mut trailers = Trailers::default();
    if trails && let Ok(fields) = conversation.exchange.trailers() {
        for (name, value) in fields.iter() {
            trailers.push(name, value);
        }
    }
    trailers
}

/// Bytes of a discarded response that are read, so that the application can finish it.
const DISCARDED_BYTES: usize = 1024 * 1024;

/// Reads and discards a response that has been replaced, up to a limit.
async fn discard(
    conversation: &mut Conversation<'_>,
    output: &mut Output,
    send_timeout: Millis,
) -> Result<(), Gone> {
    let mut left = DISCARDED_BYTES;
    loop {
        let Ok(readable) = conversation.exchange.ready() else {
            return Ok(());
        };
        let (length, finished) = (readable.len(), readable.finished);
        conversation.exchange.consume(length);
        if finished || length >= left {
            return Ok(());
        }
        left -= length;
        match conversation.more(output, send_timeout).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(BodyStreamError::Refused(_)) => return Ok(()),
            Err(BodyStreamError::Gone(gone)) => return Err(gone),
        }
    }
}

/// Reads all of a response whose client has disconnected, so that the application finishes normally.
pub(super) async fn discard_all(conversation: &mut Conversation<'_>, output: &mut Output) {
    output.discard();
    while let Ok(readable) = conversation.exchange.ready() {
        let (length, finished) = (readable.len(), readable.finished);
        conversation.exchange.consume(length);
        if finished || !matches!(conversation.more(output, NEVER).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Begins the response whose head has arrived.
///
/// # Errors
/// It is [replaced](replace).
pub(super) fn begin(
    request: &Request<'_>,
    head: &WireResponseHead,
    conversation: &Conversation<'_>,
    changes: &Changes,
    output: &mut Output,
) -> Result<(Writer, RingBody), Option<Instead>> {
    let mut declared = None;
    let mut own = Own::ALL;
    let (mut is_announced, mut trailer) = (false, None);
    // Collected, so that each is decoded and its name looked up once.
    let mut fields: SmallVec<[(&[u8], &[u8]); 16]> = SmallVec::new();
    for (name, value) in head.fields() {
        let known = Known::from_name(name);
        match known {
            Known::ContentLength => {
                declared = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.trim().parse::<u64>().ok())
            }
            Known::Date => own.date = false,
            Known::Server => own.server = false,
            Known::Trailer => {
                is_announced = true;
                if !value.is_empty() {
                    trailer = Some((name, value));
                }
            }
            _ => {}
        }
        if !is_framing(known) {
            fields.push((name, value));
        }
    }
    // A complete response needs no chunks, unless trailers follow: a client that knows its length may ignore them. The body of a response
    // to HEAD does not show the length of that for GET: some hosts and applications make none, or a part.
    let trails = trails(request, head.status, (declared, is_announced), conversation);
    if trails {
        fields.extend(trailer);
    }
    let whole = || {
        let is_head = request.is_head();
        let readable = conversation.exchange.ready().ok();
        readable
            .filter(|readable| readable.finished && !is_head && !trails)
            .map(|readable| readable.len() as u64)
    };
    let head_of_it = Head {
        status: head.status,
        length: declared.or_else(whole),
        own,
        may_persist: conversation.may_persist(),
        may_have_trailers: trails,
    };
    let fields = fields.iter().copied();
    match internal_redirect::begin(request, &head_of_it, fields, changes, output) {
        Begun::Sent(writer) => Ok((writer, RingBody { declared, trails })),
        Begun::Held => Err(None),
        Begun::Replaced(instead) => Err(Some(instead)),
    }
}

/// The body of a response in an application's shared memory.
pub(super) struct RingBody {
    /// The declared length, if any.
    declared: Option<u64>,
    /// Trailer fields may follow it.
    trails: bool,
}

impl RingBody {
    /// Sends it. What the socket does not accept at once at the end stays in `output`.
    pub(super) async fn send(
        self,
        request: &Request<'_>,
        writer: &mut Writer,
        conversation: &mut Conversation<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let outcome = match writer.is_transformed() {
            true => self.compress(request, writer, conversation, output).await,
            false => self.pass_on(request, writer, conversation, output).await,
        };
        outcome.inspect_err(|_| writer.log(request))
    }

    /// Sends it without a copy.
    async fn pass_on(
        self,
        request: &Request<'_>,
        writer: &mut Writer,
        conversation: &mut Conversation<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let send_timeout = request.settings().timeouts.send;
        loop {
            let Ok(readable) = conversation.exchange.ready() else {
                return Err(cut_short(&request.client.channel, output));
            };
            let (length, finished) = (readable.len(), readable.finished);
            if !finished && writer.is_last(length) {
                // A client that has the whole response and then requests `/status` must not find the request active.
                conversation.exchange.note_answered();
            }
            // Before the client has it, which may repeat the request at once.
            writer.record_ring(&readable);
            let mut trailers = trailers(finished && self.trails, conversation);
            if finished {
                writer.add_trailers(request, &mut trailers);
            }
            writer.write_ring(request.client, &readable, trailers, output)?;
            conversation.exchange.consume(length);
            if finished {
                return writer.check_whole();
            }
            more(conversation, output, send_timeout).await?;
        }
    }

    /// Sends it compressed.
    async fn compress(
        self,
        request: &Request<'_>,
        writer: &mut Writer,
        conversation: &mut Conversation<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let send_timeout = request.settings().timeouts.send;
        let channel = &request.client.channel;
        let mut left = self.declared;
        let mut plain = request.client.local.buffers.take();
        loop {
            let Ok(readable) = conversation.exchange.ready() else {
                return Err(cut_short(channel, output));
            };
            let (length, finished) = (readable.len(), readable.finished);
            plain.clear();
            readable.copy_to(&mut plain);
            conversation.exchange.consume(length);
            if let Some(left) = &mut left {
                // Without compression, bytes beyond the declared length would be cut off.
                plain.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= plain.len() as u64;
            }
            let make_room = async |output: &mut Output| match channel.try_send(output)? {
                true => Ok(()),
                false => conversation.room(output, send_timeout).await.map_err(gone),
            };
            sending::pieces_when(writer, &plain, (request, output), make_room).await?;
            if finished {
                request.client.local.buffers.give(plain);
                if left.is_some_and(|left| left > 0) {
                    return Err(Gone::Closed);
                }
                writer.finish(request, trailers(self.trails, conversation), output)?;
                channel.try_send(output)?;
                return Ok(());
            }
            if length > 0 {
                // The application may send no more for a long time.
                writer.flush_encoder(request, output)?;
                channel.try_send(output)?;
            }
            more(conversation, output, send_timeout).await?;
        }
    }
}

/// A worker died or aborted in the middle: the client must see that the response is incomplete. Its head is removed if it is still in
/// `output`.
fn cut_short(channel: &Channel, output: &mut Output) -> Gone {
    channel.try_send(output).err().unwrap_or(Gone::Closed)
}

/// Waits for more of the response, or for room.
async fn more(
    conversation: &mut Conversation<'_>,
    output: &mut Output,
    send_timeout: Millis,
) -> Result<(), Gone> {
    match conversation.more(output, send_timeout).await {
        Ok(Ok(())) => Ok(()),
        // The rest will not come.
        Ok(Err(_)) => Err(Gone::Closed),
        Err(error) => Err(gone(error)),
    }
}

/// An error of the request's body cannot be reported any more.
fn gone(error: BodyStreamError) -> Gone {
    match error {
        BodyStreamError::Refused(_) => Gone::Closed,
        BodyStreamError::Gone(gone) => gone,
    }
}
