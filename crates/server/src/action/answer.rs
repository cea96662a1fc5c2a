//! The answer of another server on its way to the client: its head, and its body in the framing the client understands.
//!
//! Whatever protocol that server speaks: it gives status, fields and bytes. Nothing is sent here; everything is appended to the
//! output.
//!
//! Must never: let the other server speak for the connection, or write a body that contradicts the head.

use tutti_http::{
    DeclaredBody, LAST_CHUNK, ResponseFraming, ResponseQuestion, Trailers, frame_response,
    write_chunk_head,
};

use crate::channel::Channel;
use crate::output::Output;
use crate::request::{Changes, Request};
use crate::respond::{self, Own, Persistence};

/// What is known of an answer when its head is written.
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The length it declares; `None`: nobody knows.
    pub(crate) declared: Option<u64>,
    /// Which of the server's own fields it lacks.
    pub(crate) own: Own,
    /// The connection can take another request, as far as the body of this one is concerned.
    pub(crate) may_persist: bool,
}

/// An answer whose head has been written.
pub(crate) struct Answer {
    status: u16,
    framing: ResponseFraming,
    pub(crate) persistence: Persistence,
    /// Bytes of the body so far.
    body_bytes: u64,
    /// The head, kept where the access log may ask for its fields.
    head: Vec<u8>,
}

impl Answer {
    /// Writes the head. `fields` are those for the client: none that belongs to the connection they came on.
    pub(crate) fn begin<'f>(
        request: &Request<'_>,
        head: &Head,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        changes: &Changes,
        output: &mut Output,
    ) -> Self {
        let decision = frame_response(&ResponseQuestion {
            version_minor: request.view.version_minor(),
            method: request.view.method(),
            status: head.status,
            body: head
                .declared
                .map_or(DeclaredBody::Unknown, DeclaredBody::Length),
            keep_alive: request.persistence().is_open() && head.may_persist,
        });
        let out = &mut output.bytes;
        let start = out.len();
        let local = &request.connection.local;
        respond::begin_with(out, local, request.snapshot, head.status, head.own);
        for (name, value) in fields {
            tutti_http::write_field(out, name, value);
        }
        let persistence = respond::end_framed(out, &decision);
        request.adjust(head.status, changes, out, start);
        let keeps_head = request.snapshot.access_log.is_some();
        let kept = keeps_head.then(|| out.get(start..).unwrap_or_default().to_vec());
        Self {
            status: head.status,
            framing: decision.framing,
            persistence,
            body_bytes: 0,
            head: kept.unwrap_or_default(),
        }
    }

    /// Appends `pieces` of the body, as one chunk where there are chunks. What is beyond the declared length is left out: it would be
    /// taken for the next answer.
    pub(crate) fn write<'b>(
        &mut self,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
        output: &mut Output,
    ) {
        let mut length: u64 = pieces.clone().map(|piece| piece.len() as u64).sum();
        match self.framing {
            ResponseFraming::NoBody => return,
            ResponseFraming::Length(declared) => {
                length = length.min(declared.saturating_sub(self.body_bytes));
            }
            ResponseFraming::Chunked | ResponseFraming::UntilClose => {}
        }
        if length == 0 {
            return;
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
    }

    /// The body has ended, with these trailer fields behind it for a client that takes them; false if it is shorter than was declared.
    pub(crate) fn finish(
        &self,
        request: &Request<'_>,
        trailers: Trailers,
        output: &mut Output,
    ) -> bool {
        let has_trailers = !trailers.is_empty() && request.takes_trailers();
        if has_trailers && let Channel::Stream(stream) = &request.connection.channel {
            stream.set_trailers(trailers);
        } else if self.framing == ResponseFraming::Chunked {
            let (last, end) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
            output.bytes.extend_from_slice(last);
            if has_trailers {
                output.bytes.extend_from_slice(trailers.lines());
            }
            output.bytes.extend_from_slice(end);
        }
        match self.framing {
            ResponseFraming::Length(declared) => self.body_bytes == declared,
            _ => true,
        }
    }

    /// Logs the request, whole or not.
    pub(crate) fn log(&self, request: &Request<'_>) {
        request.finished(self.status, self.body_bytes, &self.head);
    }
}
