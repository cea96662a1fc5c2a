//! The answer of another server on its way to the client: its head, and its body in the framing the client understands.
//!
//! Whatever protocol that server speaks: it gives status, fields and bytes. An application's answer begins here too, and goes on in
//! [`app_response`](super::app_response). Nothing is sent here; everything is appended to the output.
//!
//! Must never: let the other server speak for the connection, or write a body that contradicts the head.

use std::io;
use std::rc::Rc;

use tutti_config::model::Compressor;
use tutti_http::{
    DeclaredBody, FieldLines, LAST_CHUNK, ResponseFraming, ResponseQuestion, Trailers,
    frame_response, write_chunk_head,
};

use crate::channel::Channel;
use crate::plan::Changes;
use crate::request::Request;
use crate::respond::{self, Late, Own, Persistence};
use tutti_cache::Recording;
use tutti_cache::{now, values};
use tutti_conn::holdings::EncoderCharge;
use tutti_conn::output::Output;
use tutti_files::compression::{self, Choice, CompressedBody, Described};

/// Facts about an answer when its head is made.
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The length of its body; `None`: nobody knows.
    pub(crate) length: Option<u64>,
    /// Which of the server's own fields it lacks.
    pub(crate) own: Own,
    /// The connection can take another request, as far as the body of this one is concerned.
    pub(crate) may_persist: bool,
}

/// A head that has been written, and what follows from it.
pub(crate) struct Begun {
    status: u16,
    pub(crate) framing: ResponseFraming,
    pub(crate) persistence: Persistence,
    /// How the body is to be compressed.
    pub(crate) compressor: Option<Compressor>,
    /// The memory for that.
    _encoder: Option<EncoderCharge>,
    /// Takes the answer down for the cache.
    recording: Option<Rc<Recording>>,
    /// Nothing of it is sent: the client gets a stored answer instead.
    is_held: bool,
    /// The fields of the head, where the access log may ask for them.
    head: FieldLines,
}

impl Begun {
    /// Puts the head into `output`. `fields` are those for the client: none that belongs to the connection they came on.
    pub(crate) fn new<'f>(
        request: &Request<'_>,
        head: &Head,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
        changes: &Changes,
        output: &mut Output,
    ) -> Self {
        request.exchange.note_response_begun(request.client);
        let recording = changes.cache.clone();
        let altered = recording.as_ref().map(|recording| {
            let told = (head.status, head.length.filter(|_| !request.is_head()));
            recording.begin(
                told,
                fields.clone(),
                values(&request.view, &changes.edits),
                now(),
            )
        });
        let told_status = head.status;
        let own_status = altered
            .as_ref()
            .map_or(head.status, |altered| altered.status);
        let head = &Head {
            status: own_status,
            ..*head
        };
        let status = request.status(own_status);
        let (choice, says_vary) = choose(request, head, fields.clone());
        let compressing = match choice {
            Choice::Compress(compressor) => request
                .client
                .charge_encoder(&compressor)
                .map(|charge| (compressor, charge)),
            Choice::Never | Choice::NotThis => None,
        };
        let (compressor, encoder) = compressing.unzip();
        let decision = frame_response(&ResponseQuestion {
            version: request.view.version(),
            method: request.view.method(),
            status,
            body: head
                .length
                .filter(|_| compressor.is_none())
                .map_or(DeclaredBody::Unknown, DeclaredBody::Length),
            keep_alive: request.persistence().is_open() && head.may_persist,
        });
        let local = &request.client.local;
        let mut response = respond::begin_with(local, request.snapshot, status, head.own);
        let sent = &mut response.fields;
        let strips = altered
            .as_ref()
            .is_some_and(|altered| altered.strips_cookies);
        for (name, value) in fields {
            if strips && name.eq_ignore_ascii_case(b"Set-Cookie") {
                continue;
            }
            match compressor {
                Some(_) => compression::push_field(sent, name, value),
                None => sent.push(name, value),
            }
        }
        if let Some(compressor) = &compressor {
            sent.push(b"Content-Encoding", compressor.encoding.word().as_bytes());
        }
        if choice.varies() && !says_vary {
            compression::push_vary(sent);
        }
        if let (Some(recording), Some(altered)) = (&recording, &altered) {
            recording.tell(sent, altered, told_status);
        }
        response.frame(&decision);
        request.adjust(changes, &mut response);
        Self {
            status,
            framing: decision.framing,
            persistence: Persistence::of(decision.keep_alive),
            compressor,
            _encoder: encoder,
            recording,
            is_held: false,
            head: request.put(response, output),
        }
    }

    /// An answer that is not sent, because the client gets a stored one.
    pub(crate) fn held(request: &Request<'_>, status: u16) -> Self {
        Self {
            status,
            framing: ResponseFraming::NoBody,
            persistence: request.persistence(),
            compressor: None,
            _encoder: None,
            recording: None,
            is_held: true,
            head: FieldLines::new(),
        }
    }

    /// Takes it down for the cache.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
    }

    /// Logs the request, whole or not, with so many bytes of a body.
    pub(crate) fn log(&self, request: &Request<'_>, body_bytes: u64) {
        if !self.is_held {
            request.finished(self.status, body_bytes, &self.head);
        }
    }

    /// The end of an answer with so many bytes of a body has been put into `output`: logs the request, unless that must wait.
    pub(crate) fn end(
        self,
        body_bytes: u64,
        request: &Request<'_>,
        output: &Output,
    ) -> Option<Box<Late>> {
        if !output.is_spilled() {
            self.log(request, body_bytes);
            request.client.local.give_fields(self.head);
            return None;
        }
        Some(Box::new(Late {
            status: self.status,
            head: self.head,
            persistence: self.persistence,
            body_bytes,
            lingers: false,
        }))
    }
}

/// Chooses how an answer is compressed; true if it says already that it depends on `Accept-Encoding`.
fn choose<'f>(
    request: &Request<'_>,
    head: &Head,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> (Choice, bool) {
    if request.snapshot.compression.is_none() {
        return (Choice::Never, false);
    }
    let mut described = Described {
        status: head.status,
        length: head.length,
        ..Described::default()
    };
    let mut says_vary = false;
    for (name, value) in fields {
        described.note(name, value);
        says_vary |= compression::says_vary(name, value);
    }
    (request.compression(&described), says_vary)
}

/// An answer whose head has been written, and whose body goes through memory.
pub(crate) struct Answer {
    pub(crate) begun: Begun,
    /// There, if the body is compressed and the client gets one.
    squeeze: Option<CompressedBody>,
    /// Bytes of the body so far.
    body_bytes: u64,
}

impl Answer {
    /// The answer that begins with this head.
    ///
    /// # Errors
    /// The body cannot be compressed: no memory.
    pub(crate) fn new(begun: Begun) -> io::Result<Self> {
        let squeeze = match &begun.compressor {
            Some(compressor) if begun.framing != ResponseFraming::NoBody => {
                Some(CompressedBody::new(compressor, begun.framing)?)
            }
            _ => None,
        };
        Ok(Self {
            begun,
            squeeze,
            body_bytes: 0,
        })
    }

    /// Appends `pieces` of the body, as one chunk where there are chunks, so that the client gets all of them. What is beyond the
    /// declared length is left out: it would be taken for the next answer.
    ///
    /// # Errors
    /// The body cannot be compressed: no memory.
    pub(crate) fn write<'b>(
        &mut self,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
        output: &mut Output,
    ) -> io::Result<()> {
        if let Some(recording) = self.begun.recording()
            && recording.is_taking()
        {
            for piece in pieces.clone() {
                recording.write(|body| body.extend_from_slice(piece), piece.len(), now());
            }
        }
        if let Some(squeeze) = &mut self.squeeze {
            let mut has_more = false;
            for piece in pieces {
                squeeze.write(piece, &mut output.bytes)?;
                has_more = true;
            }
            if has_more {
                // It may be all for a long time.
                squeeze.flush(&mut output.bytes)?;
            }
            self.body_bytes = squeeze.bytes();
            return Ok(());
        }
        let mut length: u64 = pieces.clone().map(|piece| piece.len() as u64).sum();
        match self.begun.framing {
            ResponseFraming::NoBody => return Ok(()),
            ResponseFraming::Length(declared) => {
                length = length.min(declared.saturating_sub(self.body_bytes));
            }
            ResponseFraming::Chunked | ResponseFraming::UntilClose => {}
        }
        if length == 0 {
            return Ok(());
        }
        let is_chunked = self.begun.framing == ResponseFraming::Chunked;
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

    /// True if the client gets the body as it is, with nothing around it.
    pub(crate) fn is_plain(&self) -> bool {
        self.squeeze.is_none()
            && self.begun.recording.is_none()
            && matches!(self.begun.framing, ResponseFraming::Length(_))
    }

    /// So many bytes of a plain body have been sent past the output.
    pub(crate) fn note_sent(&mut self, bytes: usize) {
        self.body_bytes += bytes as u64;
    }

    /// The body has ended, with these trailer fields behind it for a client that takes them.
    ///
    /// # Errors
    /// The body cannot be compressed: no memory.
    pub(crate) fn finish(
        &mut self,
        request: &Request<'_>,
        trailers: Trailers,
        output: &mut Output,
    ) -> io::Result<()> {
        if let Some(recording) = self.begun.recording() {
            recording.finish();
        }
        if let Some(squeeze) = self.squeeze.take() {
            self.body_bytes = squeeze.finish_data(&mut output.bytes)?;
        }
        let has_trailers = !self.begun.is_held && !trailers.is_empty() && request.takes_trailers();
        if has_trailers && let Channel::Stream(stream) = &request.client.channel {
            stream.set_trailers(trailers);
        } else if self.begun.framing == ResponseFraming::Chunked {
            let (last, end) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
            output.bytes.extend_from_slice(last);
            if has_trailers {
                output.bytes.extend_from_slice(trailers.lines());
            }
            output.bytes.extend_from_slice(end);
        }
        Ok(())
    }

    /// Logs the request, whose answer is not whole.
    pub(crate) fn log(&self, request: &Request<'_>) {
        self.begun.log(request, self.body_bytes);
    }

    /// The answer is whole, in `output` or sent.
    pub(crate) fn end(self, request: &Request<'_>, output: &Output) -> Option<Box<Late>> {
        self.begun.end(self.body_bytes, request, output)
    }
}
