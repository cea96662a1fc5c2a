//! The writer of responses: one for all actions and all protocols.
//!
//! An action describes its response: a [`Head`] with fields, and a body that is bytes, successive pieces, the memory of an application,
//! ranges of a file, or a stored response. The writer frames the response, compresses it, has it recorded for the cache, sends trailers,
//! omits the body for HEAD, counts, and logs. What a client does not take at once stays in the output; a [`Response`] whose body is not
//! sent completely, or waits for a slow client, continues in [`sending`](crate::sending).
//!
//! Must never: let another server or an application control the connection, write a body that contradicts its head, end a response normally
//! that was cut short, or log a response twice.

use std::fmt;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use smallvec::SmallVec;
use tutti_cache::{Altered, Recording, now, values};
use tutti_config::model::Compressor;
use tutti_conn::output::{Gone, Output};
use tutti_conn::response_buffers::EncoderCharge;
use tutti_conn::socket::BodyPart;
use tutti_files::cache::CachedFile;
use tutti_files::compression::{self, Choice, CompressedBody};
use tutti_http::{
    DeclaredBody, FieldLines, LAST_CHUNK, NO_FIELDS, ResponseFraming, ResponseQuestion, Trailers,
    Version, chunk_head, frame_response, write_chunk_head,
};
use tutti_pool::{Level, Readable};

use crate::content_coding::{choose, described, fields_of_part, push_changed};
use crate::exchange::channel::Channel;
use crate::exchange::client::ClientSide;
use crate::exchange::request::Request;
use crate::exchange::respond::{self, Own, Persistence};
use crate::gunzip::{self, DecompressedBody};
use crate::own_trailers;
use crate::plan::Changes;
use crate::replace::{Overgrown, Replacer};

/// Bytes of a body that is decompressed, or in which texts are replaced, that are put into the output at once; fewer if much waits for the
/// client.
const PORTION_BYTES: usize = 64 * 1024;

/// Facts about a response when its head is made.
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The length of its body; `None`: unknown.
    pub(crate) length: Option<u64>,
    /// Which of the server's own fields to add.
    pub(crate) own: Own,
    /// The request body allows the connection to be reused.
    pub(crate) may_persist: bool,
    /// Trailer fields may follow the body.
    pub(crate) may_have_trailers: bool,
}

/// The encoder of a body that is compressed, made when the first bytes come.
pub(crate) struct Encoder {
    pub(crate) compressor: Compressor,
    body: Option<CompressedBody>,
    /// The reservation of its memory.
    _charge: EncoderCharge,
}

impl Encoder {
    /// `None`: there is no memory for another one.
    pub(crate) fn new(client: &ClientSide, compressor: Compressor) -> Option<Self> {
        let charge = client.charge(compression::encoder_bytes(&compressor))?;
        Some(Self {
            compressor,
            body: None,
            _charge: charge,
        })
    }

    fn body(&mut self, framing: ResponseFraming) -> io::Result<&mut CompressedBody> {
        let body = match self.body.take() {
            Some(body) => body,
            None => CompressedBody::new(&self.compressor, framing)?,
        };
        Ok(self.body.insert(body))
    }
}

/// A response whose head has been written.
pub(crate) struct Writer {
    status: u16,
    framing: ResponseFraming,
    /// The bytes of the body, if that is known.
    length: Option<u64>,
    pub(crate) persistence: Persistence,
    /// Set if the body is compressed and the client gets one.
    encoder: Option<Box<Encoder>>,
    /// Records the response for the cache.
    recording: Option<Rc<Recording>>,
    /// Decompresses the body.
    gunzip: Option<Box<DecompressedBody>>,
    /// Replaces texts in the body.
    replacer: Option<Box<Replacer>>,
    /// Bytes that have been taken, and are reported as such when all that came from them has been written: one, while the replacer is behind.
    unreported: usize,
    /// The configured fields follow the body.
    has_trailers: bool,
    /// Withheld: the client gets a stored response instead.
    is_held: bool,
    /// The fields of the head, if the access log needs them.
    head: FieldLines,
    /// Bytes of the body so far, as sent to the client.
    pub(crate) body_bytes: u64,
}

impl Writer {
    /// Puts the head into `output`. `fields` are those for the client, without any of the connection they came on.
    pub(crate) fn begin<'f>(
        request: &Request<'_>,
        head: &Head,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        changes: &Changes,
        output: &mut Output,
    ) -> Self {
        request.exchange.note_response_begun();
        if head.may_have_trailers
            && let Channel::Stream(stream) = &request.client.channel
        {
            stream.expect_trailers();
        }
        let recording = changes.cache.clone();
        let altered = recording.as_ref().map(|recording| {
            let declared = (head.status, head.length.filter(|_| !request.is_head()));
            recording.begin(
                declared,
                fields.clone(),
                values(&request.view, &changes.edits),
                now(),
            )
        });
        let recorded = (recording.zip(altered), head.status);
        match &recorded.0 {
            Some((_, altered)) if altered.status != head.status => {
                // The client's copy is valid.
                let whole = (head.status, head.length);
                let fields = fields_of_part(request, whole, altered.status, fields);
                let head = Head {
                    status: altered.status,
                    length: None,
                    ..*head
                };
                Self::begin_recorded(request, &head, fields.iter(), changes, recorded, output)
            }
            _ => Self::begin_recorded(request, head, fields, changes, recorded, output),
        }
    }

    /// The same, as the cache wants it. `recorded` has the recording with the changes to the head, and the original status.
    fn begin_recorded<'f>(
        request: &Request<'_>,
        head: &Head,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        changes: &Changes,
        (recorded, sent_status): (Option<(Rc<Recording>, Altered)>, u16),
        output: &mut Output,
    ) -> Self {
        let gunzip = gunzip::decide(request, head.status, fields.clone());
        let is_gunzipped = gunzip.applies();
        let fields = fields.filter(move |(name, _)| !(is_gunzipped && gunzip::is_encoding(name)));
        let head = &Head {
            length: head.length.filter(|_| !is_gunzipped),
            ..*head
        };
        let status = request.status(head.status);
        let (choice, varies_by_encoding) =
            choose(request, (head.status, head.length), fields.clone());
        let replacer = replacer(request, head, fields.clone(), changes);
        let has_trailers = own_trailers::apply(request, status);
        if has_trailers && let Channel::Stream(stream) = &request.client.channel {
            stream.expect_trailers();
        }
        // In HTTP/1, only a body of unknown length has trailers.
        let is_chunked = has_trailers && request.view.version() < Version::Http2;
        let encoder = match choice {
            Choice::Compress(compressor) => Encoder::new(request.client, compressor),
            Choice::Never | Choice::NotThis => None,
        };
        let length = head
            .length
            .filter(|_| encoder.is_none() && replacer.is_none());
        let decision = frame_response(&ResponseQuestion {
            version: request.view.version(),
            method: request.view.method(),
            status,
            body: length
                .filter(|_| !is_chunked)
                .map_or(DeclaredBody::Unknown, DeclaredBody::Length),
            keep_alive: request.persistence().is_open() && head.may_persist,
        });
        if length.is_none() && decision.framing != ResponseFraming::NoBody {
            request.exchange.note_earlier_end(request.client);
        }
        let local = &request.client.local;
        let mut response = respond::begin_with(local, request.settings(), status, head.own);
        let sent = &mut response.fields;
        let strips = recorded
            .as_ref()
            .is_some_and(|(_, altered)| altered.strips_cookies);
        let kept = fields.filter(|(name, _)| !strips || !name.eq_ignore_ascii_case(b"Set-Cookie"));
        match (&encoder, &replacer) {
            (None, None) if !is_gunzipped => kept.for_each(|(name, value)| sent.push(name, value)),
            (_, replacer) => push_changed(kept, replacer.is_some(), sent),
        }
        if let Some(encoder) = &encoder {
            sent.push(
                b"Content-Encoding",
                encoder.compressor.encoding.word().as_bytes(),
            );
        }
        if (choice.varies() || gunzip.varies()) && !varies_by_encoding {
            compression::push_vary(sent);
        }
        if let Some((recording, altered)) = &recorded {
            recording.add_cache_status(sent, altered, sent_status);
        }
        response.frame(&decision);
        let has_trailers = has_trailers && can_trail(request, decision.framing);
        if has_trailers {
            let names = own_trailers::names(request);
            response.fields.push(b"Trailer", &names);
        }
        request.adjust(changes, &mut response);
        let has_body = decision.framing != ResponseFraming::NoBody;
        Self {
            length: length.filter(|_| has_body),
            recording: recorded.map(|(recording, _)| recording),
            has_trailers,
            gunzip: gunzip.into_body().filter(|_| has_body),
            replacer: replacer.filter(|_| has_body),
            ..Self::begun(
                status,
                (decision.framing, Persistence::of(decision.keep_alive)),
                encoder,
                request.put(response, output),
            )
        }
    }

    /// A response whose head is already in the output.
    pub(crate) fn begun(
        status: u16,
        (framing, persistence): (ResponseFraming, Persistence),
        encoder: Option<Encoder>,
        head: FieldLines,
    ) -> Self {
        Self {
            status,
            framing,
            length: match framing {
                ResponseFraming::Length(length) => Some(length),
                _ => None,
            },
            persistence,
            encoder: encoder
                .filter(|_| framing != ResponseFraming::NoBody)
                .map(Box::new),
            recording: None,
            gunzip: None,
            replacer: None,
            unreported: 0,
            has_trailers: false,
            is_held: false,
            head,
            body_bytes: 0,
        }
    }

    /// A response that is withheld, because the client gets a stored one.
    pub(crate) fn held(request: &Request<'_>, status: u16) -> Self {
        let framing = (ResponseFraming::NoBody, request.persistence());
        Self {
            is_held: true,
            ..Self::begun(status, framing, None, FieldLines::new())
        }
    }

    /// The recording for the cache, while it takes more.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref().filter(|one| one.is_taking())
    }

    /// True if the client gets the body unchanged and unframed.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_transformed()
            && self.recording.is_none()
            && !self.has_trailers
            && matches!(self.framing, ResponseFraming::Length(_))
    }

    /// True if the body is changed while it is sent: compressed, decompressed, or texts in it replaced.
    pub(crate) fn is_transformed(&self) -> bool {
        self.encoder.is_some() || self.gunzip.is_some() || self.replacer.is_some()
    }

    /// True if fields that are known at the end follow the body.
    pub(crate) fn has_trailers(&self) -> bool {
        self.has_trailers
    }

    /// Adds the configured fields after the body, which is complete.
    pub(crate) fn add_trailers(&self, request: &Request<'_>, trailers: &mut Trailers) {
        if self.has_trailers {
            own_trailers::add(request, (self.status, self.body_bytes), trailers);
        }
    }

    /// The body cannot be compressed, because memory is short. The head has been decided, so the client must see that the rest is missing.
    fn failed(&self, request: &Request<'_>, error: &io::Error) -> Gone {
        let message = format!("cannot compress a response: {error}");
        request.client.local.log_failure(Level::Error, &message);
        request.finished(500, 0, &NO_FIELDS);
        Gone::Closed
    }

    /// Appends `pieces` of the body, as one chunk if it is chunked, so that the client gets all of them; returns their length. Bytes beyond
    /// the declared length are dropped: they would be taken for the next response.
    ///
    /// Of a body that is decompressed, or in which texts are replaced, it appends a portion, and returns how much of `pieces` it has taken,
    /// which may be nothing. The caller writes the rest, which is not empty, when there is room for it.
    pub(crate) fn write<'b>(
        &mut self,
        request: &Request<'_>,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
        output: &mut Output,
    ) -> Result<usize, Gone> {
        if self.is_behind() {
            self.replace(request, std::iter::empty(), output)?;
            return Ok(match self.is_behind() {
                true => 0,
                false => std::mem::take(&mut self.unreported),
            });
        }
        let taken = self.take(request, pieces, output)?;
        self.unreported = usize::from(self.is_behind()).min(taken);
        Ok(taken - self.unreported)
    }

    /// True if more is to be written of what has been taken.
    fn is_behind(&self) -> bool {
        let replacer = self.replacer.as_ref();
        replacer.is_some_and(|replacer| replacer.is_behind())
    }

    /// Takes some of `pieces`, and appends a portion of what comes from it; returns how much it has taken.
    fn take<'b>(
        &mut self,
        request: &Request<'_>,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
        output: &mut Output,
    ) -> Result<usize, Gone> {
        if self.gunzip.is_none() {
            pieces.clone().for_each(|piece| self.record(piece));
            let length = pieces.clone().map(<[u8]>::len).sum();
            return self.replace(request, pieces, output).map(|()| length);
        }
        let mut plain = request.client.local.buffers.take();
        let taken = self.decompress(request, pieces, &mut plain);
        let outcome = taken.and_then(|taken| {
            self.replace(request, std::iter::once(&*plain), output)?;
            Ok(taken)
        });
        request.client.local.buffers.give(plain);
        outcome
    }

    /// Has the cache record a piece of the body.
    fn record(&self, piece: &[u8]) {
        if let Some(recording) = self.recording() {
            recording.write(|body| body.extend_from_slice(piece), piece.len(), now());
        }
    }

    /// Decompresses a portion of `pieces`; returns the length of the part that it came from.
    fn decompress<'b>(
        &mut self,
        request: &Request<'_>,
        pieces: impl Iterator<Item = &'b [u8]>,
        plain: &mut Vec<u8>,
    ) -> Result<usize, Gone> {
        let portion = portion(request);
        let mut all = 0;
        for piece in pieces {
            let Some(gunzip) = &mut self.gunzip else {
                break;
            };
            let taken = gunzip
                .write(piece, portion.saturating_sub(plain.len()), plain)
                .map_err(|error| cut_off(request, &error))?;
            all += taken;
            self.record(piece.get(..taken).unwrap_or(piece));
            if taken < piece.len() {
                break;
            }
        }
        Ok(all)
    }

    /// Appends `pieces` of the body, in which texts may be replaced: then a portion.
    fn replace<'b>(
        &mut self,
        request: &Request<'_>,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let Some(replacer) = &mut self.replacer else {
            return self.put(request, pieces, output);
        };
        let mut replaced = request.client.local.buffers.take();
        let portion = portion(request);
        // One that is behind goes on without another piece.
        let mut pieces = pieces.chain(std::iter::once(&[][..]));
        let outcome = pieces.try_for_each(|piece| replacer.write(piece, portion, &mut replaced));
        let outcome = match outcome {
            Ok(()) => self.put(request, std::iter::once(&*replaced), output),
            Err(Overgrown) => Err(cut_off(request, &Overgrown)),
        };
        request.client.local.buffers.give(replaced);
        outcome
    }

    /// Appends `pieces` of the body as the client gets them, compressed if that is so.
    fn put<'b>(
        &mut self,
        request: &Request<'_>,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
        output: &mut Output,
    ) -> Result<(), Gone> {
        if self.encoder.is_some() {
            return self
                .encode(pieces, output)
                .map_err(|error| self.failed(request, &error));
        }
        let length = self.sent_of(pieces.clone().map(|piece| piece.len() as u64).sum());
        if length == 0 {
            return Ok(());
        }
        let is_chunked = self.framing == ResponseFraming::Chunked;
        let mut rest = usize::try_from(length).unwrap_or(usize::MAX);
        if is_chunked {
            write_chunk_head(rest, &mut output.bytes);
        }
        for piece in pieces {
            let piece = piece.get(..rest).unwrap_or(piece);
            output.bytes.extend_from_slice(piece);
            rest -= piece.len();
        }
        if is_chunked {
            output.bytes.extend_from_slice(b"\r\n");
        }
        self.body_bytes += length;
        Ok(())
    }

    fn encode<'b>(
        &mut self,
        pieces: impl Iterator<Item = &'b [u8]>,
        output: &mut Output,
    ) -> io::Result<()> {
        if let Some(encoder) = &mut self.encoder {
            let body = encoder.body(self.framing)?;
            for piece in pieces {
                body.write(piece, &mut output.bytes)?;
            }
            self.body_bytes = body.bytes();
        }
        Ok(())
    }

    /// Appends what an encoder buffers: the rest of the body may not come for a long time.
    pub(crate) fn flush_encoder(
        &mut self,
        request: &Request<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(());
        };
        let flushed = encoder.body(self.framing).and_then(|body| {
            body.flush(&mut output.bytes)?;
            Ok(body.bytes())
        });
        self.body_bytes = flushed.map_err(|error| self.failed(request, &error))?;
        Ok(())
    }

    /// The part of the next `length` bytes that is sent. Bytes beyond the declared length would be taken for the next response.
    fn sent_of(&self, length: u64) -> u64 {
        match self.length {
            _ if self.framing == ResponseFraming::NoBody => 0,
            Some(declared) => length.min(declared.saturating_sub(self.body_bytes)),
            None => length,
        }
    }

    /// True if these `length` bytes complete the response.
    pub(crate) fn is_last(&self, length: usize) -> bool {
        self.framing == ResponseFraming::NoBody
            || self
                .length
                .is_some_and(|declared| self.body_bytes + length as u64 >= declared)
    }

    /// Has the cache record what has arrived, and store it when it is complete.
    pub(crate) fn record_ring(&self, readable: &Readable<'_>) {
        let Some(recording) = &self.recording else {
            return;
        };
        if recording.is_taking() {
            let mut piece = Vec::with_capacity(readable.len());
            readable.copy_to(&mut piece);
            recording.write(|body| body.extend_from_slice(&piece), piece.len(), now());
        }
        let is_whole = self.length.is_none() || self.is_last(readable.len());
        if readable.finished && is_whole {
            recording.finish();
        }
    }

    /// Sends `output` and then `readable`, framed, as much as the channel takes; the rest is kept in `output`. Not for a compressed body.
    pub(crate) fn write_ring(
        &mut self,
        client: &ClientSide,
        readable: &Readable<'_>,
        trailers: Trailers,
        output: &mut Output,
    ) -> Result<(), Gone> {
        // It is not more than `readable` has.
        let length = self.sent_of(readable.len() as u64) as usize;
        // The client of a response that is cut short must see that.
        let is_end = readable.finished && (self.length.is_none() || self.is_last(length));
        let mut suffix: &[u8] = b"";
        let with_trailers;
        match self.framing {
            ResponseFraming::Chunked => {
                if length > 0 {
                    output
                        .bytes
                        .extend_from_slice(chunk_head(length, &mut [0; 18]));
                    suffix = b"\r\n";
                }
                if is_end {
                    suffix = if length > 0 {
                        b"\r\n0\r\n\r\n"
                    } else {
                        LAST_CHUNK
                    };
                }
                if is_end && !trailers.is_empty() {
                    let mut text: Vec<u8> = Vec::new();
                    if length > 0 {
                        text.extend_from_slice(b"\r\n");
                    }
                    push_last_chunk(&trailers, &mut text);
                    with_trailers = text;
                    suffix = &with_trailers;
                }
            }
            ResponseFraming::NoBody | ResponseFraming::Length(_) | ResponseFraming::UntilClose => {}
        }
        if !trailers.is_empty()
            && let Channel::Stream(stream) = &client.channel
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
        client.channel.send_body(output, &part)
    }

    /// Ends the body, with these trailer fields for a client that accepts them.
    pub(crate) fn finish(
        &mut self,
        request: &Request<'_>,
        mut trailers: Trailers,
        output: &mut Output,
    ) -> Result<(), Gone> {
        if let Some(gunzip) = self.gunzip.take() {
            gunzip.finish().map_err(|error| cut_off(request, &error))?;
        }
        if let Some(mut replacer) = self.replacer.take() {
            let mut rest = Vec::new();
            let finished = replacer.finish(&mut rest);
            finished.map_err(|Overgrown| cut_off(request, &Overgrown))?;
            self.put(request, std::iter::once(&*rest), output)?;
        }
        if let Some(recording) = &self.recording {
            recording.finish();
        }
        if let Some(mut encoder) = self.encoder.take() {
            let ended = encoder.body(self.framing).map(drop).and_then(|()| {
                let body = encoder.body.take();
                body.map_or(Ok(0), |body| body.finish_data(&mut output.bytes))
            });
            self.body_bytes = ended.map_err(|error| self.failed(request, &error))?;
        }
        self.add_trailers(request, &mut trailers);
        let has_trailers = !self.is_held && !trailers.is_empty() && request.takes_trailers();
        if has_trailers && let Channel::Stream(stream) = &request.client.channel {
            stream.set_trailers(trailers);
        } else if self.framing == ResponseFraming::Chunked {
            match has_trailers {
                true => push_last_chunk(&trailers, &mut output.bytes),
                false => output.bytes.extend_from_slice(LAST_CHUNK),
            }
        }
        Ok(())
    }

    /// Fails if fewer bytes have arrived than declared: the client must see that the rest is missing.
    pub(crate) fn check_whole(&self) -> Result<(), Gone> {
        match self.length {
            Some(declared) if self.body_bytes < declared => Err(Gone::Closed),
            _ => Ok(()),
        }
    }

    /// Logs the request, whose response is complete, or ends incomplete here.
    pub(crate) fn log(&self, request: &Request<'_>) {
        if !self.is_held {
            request.finished(self.status, self.body_bytes, &self.head);
        }
    }

    /// Called when the end of the response is in `output`, or sent: logs the request, unless that must wait for a slow client.
    pub(crate) fn end(self, request: &Request<'_>, output: &Output) -> Written {
        if output.is_spilled() {
            return Written::Rest(Box::new(Response {
                writer: self,
                body: Body::Buffered,
                lingers: false,
            }));
        }
        self.log(request);
        request.client.local.give_fields(self.head);
        Written::End(self.persistence)
    }
}

/// Most bytes of a changed body that are put into the output at once.
fn portion(request: &Request<'_>) -> usize {
    request.client.share().limit(0, PORTION_BYTES)
}

/// True if fields can follow a body that is framed like this.
fn can_trail(request: &Request<'_>, framing: ResponseFraming) -> bool {
    match framing {
        ResponseFraming::NoBody => false,
        ResponseFraming::Chunked => true,
        _ => request.view.version() >= Version::Http2,
    }
}

/// The rest of a changed body cannot be sent. The client must see that it is missing.
fn cut_off(request: &Request<'_>, reason: &dyn fmt::Display) -> Gone {
    let message = format!("a response is cut off: {reason}");
    request.client.local.log_failure(Level::Error, &message);
    Gone::Closed
}

fn push_last_chunk(trailers: &Trailers, bytes: &mut Vec<u8>) {
    let (last, end) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
    bytes.extend_from_slice(last);
    bytes.extend_from_slice(trailers.lines());
    bytes.extend_from_slice(end);
}

/// The replacer of texts in the body of a response.
fn replacer<'f>(
    request: &Request<'_>,
    head: &Head,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    changes: &Changes,
) -> Option<Box<Replacer>> {
    request.settings().replace.as_ref()?;
    Replacer::of(
        request,
        &described((head.status, head.length), fields),
        changes,
    )
    .map(Box::new)
}

/// The rest of a body that is not sent at once.
pub(crate) enum Body {
    /// None: all of it is in the output, partly in a file, for a slow client.
    Buffered,
    /// The part of a stored response that has not been sent.
    Stored(Bytes),
    /// Segments of a file, in order.
    File(Rc<CachedFile>, SmallVec<[Segment; 1]>),
}

/// A piece of a body.
pub(crate) enum Segment {
    /// Bytes of the file.
    File(Range<u64>),
    /// Text around the parts of a multipart body.
    Text(Vec<u8>),
}

/// A response whose body is not sent completely, or waits for a slow client.
pub(crate) struct Response {
    pub(crate) writer: Writer,
    pub(crate) body: Body,
    /// The client may still be sending when it has the response.
    pub(crate) lingers: bool,
}

/// The state of a response after writing.
pub(crate) enum Written {
    /// It is complete in the output, and logged.
    End(Persistence),
    /// The same, but the client may still be sending.
    Linger,
    /// This remains to be sent.
    Rest(Box<Response>),
}

impl Written {
    /// The same, with whether the client may still be sending.
    pub(crate) fn lingering(self, lingers: bool) -> Self {
        match self {
            Self::End(_) if lingers => Self::Linger,
            Self::Rest(mut response) => {
                response.lingers |= lingers;
                Self::Rest(response)
            }
            sent => sent,
        }
    }
}
