//! The response of an application on its way to the client.
//!
//! It goes from shared memory to the socket without a copy while the socket takes it; what it does not take is absorbed into memory,
//! up to a bound, and into a file beyond that, so that a slow client does not hold the worker; where that is full the worker waits.
//!
//! Must never: send a second head, a body that contradicts its `Content-Length`, or the end of a response that was cut short.

use std::io;

use smallvec::SmallVec;
use tutti_config::model::Compressor;
use tutti_http::{Known, LAST_CHUNK, ResponseFraming, Trailers, Version, chunk_head};
use tutti_pool::{Level, Readable, ResponseHead};

use super::answer::{Begun, Head};
use super::conversation::Conversation;
use crate::channel::Channel;
use crate::plan::Changes;
use crate::request::Request;
use crate::respond::{Late, Own, Persistence, is_framing};
use tutti_cache::Recording;
use tutti_cache::now;
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::BodyPart;
use tutti_files::compression::CompressedBody;
use tutti_proxy::BodyFault;

/// Sends the response whose head has come. What the socket does not take at once at the end stays in `output`; it is not logged yet if
/// that is much.
pub(crate) async fn send(
    request: &Request<'_>,
    head: &ResponseHead,
    conversation: &mut Conversation<'_>,
    changes: &Changes,
    output: &mut Output,
) -> Result<(Persistence, Option<Box<Late>>), Gone> {
    let (response, declared, trails) = begin(request, head, conversation, changes, output);
    let (outcome, body_bytes) = match (&response.compressor, response.framing) {
        (Some(compressor), framing) if framing != ResponseFraming::NoBody => {
            let mut squeeze = Squeeze {
                compressor,
                framing,
                left: declared,
                trails,
                body_bytes: 0,
            };
            let outcome = squeeze.run(request, &response, conversation, output).await;
            (outcome, squeeze.body_bytes)
        }
        _ => {
            let mut transfer = Transfer {
                framing: response.framing,
                trails,
                body_bytes: 0,
            };
            let outcome = transfer.run(request, &response, conversation, output).await;
            (outcome, transfer.body_bytes)
        }
    };
    if let Err(gone) = outcome {
        response.log(request, body_bytes);
        return Err(gone);
    }
    let persistence = response.persistence;
    let late = response.end(body_bytes, request, output);
    Ok((persistence, late))
}

/// True if trailer fields may follow the body: the client takes them, its framing has a place for them, and the application has announced them. Over
/// HTTP/2 and 3, where a body of unknown length has no other end, none has to: services of gRPC do not.
fn trails(
    request: &Request<'_>,
    head: &ResponseHead,
    declared: Option<u64>,
    conversation: &Conversation<'_>,
) -> bool {
    let has_body = !request.is_head() && !matches!(head.status, 204 | 205 | 304);
    if !has_body || !request.takes_trailers() {
        return false;
    }
    let is_stream = request.view.version() >= Version::Http2;
    let is_announced = |(name, _)| Known::from_name(name) == Known::Trailer;
    if head.fields().any(is_announced) {
        return declared.is_none() || is_stream;
    }
    // A response that is whole has told which ones follow it.
    let may_follow = || {
        let exchange = &conversation.exchange;
        let is_whole = exchange.ready().is_ok_and(|ready| ready.finished);
        !is_whole || exchange.trailers().is_ok_and(|fields| !fields.is_empty())
    };
    is_stream && declared.is_none() && may_follow()
}

/// The trailer fields of a response that is complete. What is malformed is the same as none: the body is whole.
fn trailers(trails: bool, conversation: &Conversation<'_>) -> Trailers {
    let mut trailers = Trailers::default();
    if trails && let Ok(fields) = conversation.exchange.trailers() {
        for (name, value) in fields.iter() {
            trailers.push(name, value);
        }
    }
    trailers
}

/// The last chunk, with them.
fn last_chunk(trailers: &Trailers) -> Vec<u8> {
    let (last, end) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
    [last, trailers.lines(), end].concat()
}

/// Bytes of a response that are read although nobody gets them, so that the application comes to its end in peace.
const DISCARDED_BYTES: usize = 1024 * 1024;

/// Reads a response to no end: something else is answered in its place.
pub(super) async fn discard(
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
            Ok(Err(_)) | Err(BodyFault::Refused(_)) => return Ok(()),
            Err(BodyFault::Gone(gone)) => return Err(gone),
        }
    }
}

/// Reads all of a response whose client has left, so that the application comes to its end as if it had one.
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

/// Writes the head of the response; also how many bytes the application said it would give, and whether trailer fields may follow them.
fn begin(
    request: &Request<'_>,
    head: &ResponseHead,
    conversation: &Conversation<'_>,
    changes: &Changes,
    output: &mut Output,
) -> (Begun, Option<u64>, bool) {
    let mut declared = None;
    let mut own = Own::ALL;
    let mut trailer = None;
    // Kept, so that each is decoded and its name looked up once.
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
            Known::Trailer if !value.is_empty() => trailer = Some((name, value)),
            _ => {}
        }
        if !is_framing(known) {
            fields.push((name, value));
        }
    }
    // A response that is whole already needs no chunks, unless fields follow its body: who knows its length may look no further. The body that HEAD does not get says nothing of the one for GET: some
    // hosts and applications make none, or a part.
    let trails = trails(request, head, declared, conversation);
    if trails {
        fields.extend(trailer);
        if let Channel::Stream(stream) = &request.client.channel {
            stream.expect_trailers();
        }
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
    };
    let fields = fields.iter().copied();
    let begun = Begun::new(request, &head_of_it, fields, changes, output);
    (begun, declared, trails)
}

/// Sending a body.
struct Transfer {
    framing: ResponseFraming,
    trails: bool,
    body_bytes: u64,
}

impl Transfer {
    async fn run(
        &mut self,
        request: &Request<'_>,
        response: &Begun,
        conversation: &mut Conversation<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let send_timeout = request.snapshot.timeouts.send;
        loop {
            let Ok(readable) = conversation.exchange.ready() else {
                return Err(cut_short(&request.client.channel, output));
            };
            let (length, finished) = (readable.len(), readable.finished);
            if !finished && self.is_last(length) {
                // Whoever sees the whole answer and asks for `/status` finds no request active.
                conversation.exchange.note_answered();
            }
            self.keep(response.recording(), &readable);
            if let Some(recording) = response.recording()
                && finished
                && self.is_whole_with(length)
            {
                // Before the client has it, which may ask again at once.
                recording.finish();
            }
            let trailers = trailers(finished && self.trails, conversation);
            self.send(&request.client.channel, &readable, trailers, output)?;
            conversation.exchange.consume(length);
            if finished {
                return self.check_whole();
            }
            more(conversation, output, send_timeout).await?;
        }
    }

    /// True if these `length` bytes complete the response.
    fn is_whole_with(&self, length: usize) -> bool {
        !matches!(self.framing, ResponseFraming::Length(_)) || self.is_last(length)
    }

    /// Gives the cache what has come.
    fn keep(&self, recording: Option<&Recording>, readable: &Readable<'_>) {
        let Some(recording) = recording.filter(|recording| recording.is_taking()) else {
            return;
        };
        let mut piece = Vec::with_capacity(readable.len());
        for span in &readable.spans {
            span.copy_to(&mut piece);
        }
        recording.write(|body| body.extend_from_slice(&piece), piece.len(), now());
    }

    /// True if the client needs no more than these `length` bytes to have all of the response.
    fn is_last(&self, length: usize) -> bool {
        match self.framing {
            ResponseFraming::NoBody => true,
            ResponseFraming::Length(declared) => self.body_bytes + length as u64 >= declared,
            ResponseFraming::Chunked | ResponseFraming::UntilClose => false,
        }
    }

    /// Sends what is in `output` and then `readable`, framed, as far as the channel takes it; the rest is kept in `output`.
    fn send(
        &mut self,
        channel: &Channel,
        readable: &Readable<'_>,
        trailers: Trailers,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let mut length = readable.len();
        let mut suffix: &[u8] = b"";
        let with_trailers;
        match self.framing {
            ResponseFraming::NoBody => length = 0,
            // More than was declared is not sent: it would be taken for the next response.
            ResponseFraming::Length(declared) => {
                length =
                    length.min(usize::try_from(declared - self.body_bytes).unwrap_or(usize::MAX))
            }
            ResponseFraming::Chunked => {
                if length > 0 {
                    output
                        .bytes
                        .extend_from_slice(chunk_head(length, &mut [0; 18]));
                    suffix = b"\r\n";
                }
                if readable.finished {
                    suffix = if length > 0 {
                        b"\r\n0\r\n\r\n"
                    } else {
                        LAST_CHUNK
                    };
                }
                if !trailers.is_empty() {
                    let behind: &[u8] = if length > 0 { b"\r\n" } else { b"" };
                    with_trailers = [behind, &last_chunk(&trailers)].concat();
                    suffix = &with_trailers;
                }
            }
            ResponseFraming::UntilClose => {}
        }
        if !trailers.is_empty()
            && let Channel::Stream(stream) = channel
        {
            stream.set_trailers(trailers);
        }
        self.body_bytes += length as u64;
        let [first, second] = readable.spans;
        let first = first.truncated(length);
        let second = second.truncated(length - first.len);
        let part = BodyPart {
            spans: [first, second],
            suffix,
        };
        channel.send_body(output, &part)
    }

    /// The application has finished: did it keep its word?
    fn check_whole(&self) -> Result<(), Gone> {
        match self.framing {
            // Less than was declared: the client waits for the rest, and must see that it does not come.
            ResponseFraming::Length(declared) if self.body_bytes < declared => Err(Gone::Closed),
            _ => Ok(()),
        }
    }
}

/// Sending a body that is compressed on the way.
struct Squeeze<'a> {
    compressor: &'a Compressor,
    framing: ResponseFraming,
    /// Bytes that are still to come from the application, if it said how many.
    left: Option<u64>,
    trails: bool,
    /// Compressed bytes.
    body_bytes: u64,
}

impl Squeeze<'_> {
    async fn run(
        &mut self,
        request: &Request<'_>,
        response: &Begun,
        conversation: &mut Conversation<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let send_timeout = request.snapshot.timeouts.send;
        let channel = &request.client.channel;
        // Nothing of the body has been sent, but its head has been decided: the client must see that the rest does not come.
        let failed = |error: io::Error| {
            let message = format!("cannot compress a response: {error}");
            request.client.local.complain(Level::Error, &message);
            Gone::Closed
        };
        let mut body = CompressedBody::new(self.compressor, self.framing).map_err(failed)?;
        let mut plain = request.client.local.buffers.take();
        loop {
            let Ok(readable) = conversation.exchange.ready() else {
                return Err(cut_short(channel, output));
            };
            let (length, finished) = (readable.len(), readable.finished);
            plain.clear();
            for span in &readable.spans {
                span.copy_to(&mut plain);
            }
            conversation.exchange.consume(length);
            if let Some(left) = &mut self.left {
                // More than was declared would have been cut off, had the response been sent as it is.
                plain.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= plain.len() as u64;
            }
            if let Some(recording) = response.recording() {
                recording.write(|kept| kept.extend_from_slice(&plain), plain.len(), now());
            }
            body.write(&plain, &mut output.bytes).map_err(failed)?;
            if finished {
                request.client.local.buffers.give(plain);
                if self.left.is_some_and(|left| left > 0) {
                    return Err(Gone::Closed);
                }
                if let Some(recording) = response.recording() {
                    recording.finish();
                }
                let trailers = trailers(self.trails, conversation);
                self.body_bytes = match (channel, self.framing) {
                    (Channel::Stream(stream), _) => {
                        if !trailers.is_empty() {
                            stream.set_trailers(trailers);
                        }
                        body.finish(&mut output.bytes).map_err(failed)?
                    }
                    (_, ResponseFraming::Chunked) => {
                        let bytes = body.finish_data(&mut output.bytes).map_err(failed)?;
                        output.bytes.extend_from_slice(&last_chunk(&trailers));
                        bytes
                    }
                    _ => body.finish(&mut output.bytes).map_err(failed)?,
                };
                channel.try_send(output)?;
                return Ok(());
            }
            if length > 0 {
                // The application may give no more for a long time.
                body.flush(&mut output.bytes).map_err(failed)?;
                channel.try_send(output)?;
            }
            self.body_bytes = body.bytes();
            more(conversation, output, send_timeout).await?;
        }
    }
}

/// A worker died, or gave up, in the middle: the client must see that the response is not whole. That takes its head, which is
/// still in `output` when this happens right after the head has come.
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
        // The rest will not come; or that of the request, and it is too late to say so in another way.
        Ok(Err(_)) | Err(BodyFault::Refused(_)) => Err(Gone::Closed),
        Err(BodyFault::Gone(gone)) => Err(gone),
    }
}
