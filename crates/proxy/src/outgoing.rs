//! A request on its way to a server: the head, and the body behind it from wherever it is kept, or from the client while it comes.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_gateway::fastcgi::{self, ONLY_REQUEST};
use tutti_http::{LAST_CHUNK, RequestFraming, Trailers, write_chunk_head};
use tutti_upstream::UpstreamConnection;

use crate::client::{BodyStreamError, Client, RequestBody};
use crate::request::BufferedBody;

/// A body up to this goes out in one write with the head.
const SMALL_BODY: usize = 32 * 1024;

/// Bytes of a body that are read from its file at once.
const PIECE: usize = 64 * 1024;

/// Bytes of a body from a client that are kept for another attempt.
const KEPT_BYTES: usize = 64 * 1024;

/// Pieces that a client who is fast may hand over in a row, before the answer is looked at.
const TURNS: u32 = 16;

/// Where a body comes from.
pub(crate) enum Source<'b, B> {
    Kept(BufferedBody<'b>),
    Client(&'b mut Upload<B>),
}

/// A body that comes from the client while the server gets it.
pub(crate) struct Upload<B> {
    body: Box<B>,
    /// Some of it has been taken: no other server can have it.
    was_taken: bool,
    has_ended: bool,
    /// The pieces that have been taken, while they are not too much.
    kept: Vec<Bytes>,
    kept_bytes: usize,
}

impl<B: RequestBody> Upload<B> {
    pub(crate) fn new(body: Box<B>) -> Self {
        Self {
            body,
            was_taken: false,
            has_ended: false,
            kept: Vec::new(),
            kept_bytes: 0,
        }
    }

    /// Pieces of the body, which are kept: number `index`, or the next; empty at the end. `index` moves on with them.
    pub(crate) fn poll_kept(
        &mut self,
        context: &mut Context<'_>,
        index: &mut usize,
    ) -> Poll<Result<Bytes, BodyStreamError>> {
        if let Some(piece) = self.kept.get(*index) {
            *index += 1;
            return Poll::Ready(Ok(piece.clone()));
        }
        if self.has_ended || !ready!(self.body.poll_ready(context))? {
            self.has_ended = true;
            return Poll::Ready(Ok(Bytes::new()));
        }
        self.was_taken = true;
        let piece = Bytes::copy_from_slice(self.body.piece());
        self.body.consume(piece.len());
        self.kept_bytes = self.kept_bytes.saturating_add(piece.len());
        if self.kept_bytes <= KEPT_BYTES {
            self.kept.push(piece.clone());
            *index += 1;
        } else {
            self.kept.clear();
            *index = 0;
        }
        Poll::Ready(Ok(piece))
    }

    /// All that has been taken is kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.kept_bytes <= KEPT_BYTES
    }

    /// The client may pause as long as it likes: whoever asks for the body has another limit.
    pub(crate) fn stop_clock(&mut self) {
        self.body.stop_clock();
    }

    /// The trailer fields behind a body that has ended.
    pub(crate) fn trailers(&self) -> Trailers {
        self.body.trailers()
    }

    /// Some of it has been taken: no other server can have it.
    pub(crate) fn was_taken(&self) -> bool {
        self.was_taken
    }

    /// Part of it has not been read from the client.
    pub(crate) fn is_coming(&self) -> bool {
        !self.has_ended
    }

    /// The rest, if there is any.
    pub(crate) fn rest(self) -> Option<Box<B>> {
        (!self.has_ended).then_some(self.body)
    }

    /// The client may be waiting for 100 (Continue).
    pub(crate) fn awaits_continue(&self) -> bool {
        !self.has_ended && self.body.awaits_continue()
    }

    /// Tells it to send its body.
    pub(crate) fn send_continue<C: Client<Body = B>>(&mut self, client: &mut C) {
        client.send_continue(&mut self.body);
    }

    /// The client's silence counts from now on, also where it waits for 100 (Continue).
    pub(crate) fn start_clock(&mut self) {
        if !self.has_ended {
            self.body.start_clock();
        }
    }
}

/// Why sending a request got no further.
pub(crate) enum Broken {
    /// The server takes no more.
    Server(io::Error),
    /// No more comes from the client.
    Client(BodyStreamError),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Server(error)
    }
}

/// The part of a request that has been sent, and the rest.
pub(crate) struct Outgoing<'b, B> {
    /// Head first, then piece after piece of the body.
    bytes: Vec<u8>,
    /// Of those, sent.
    sent: usize,
    /// Something has been sent.
    has_begun: bool,
    source: Source<'b, B>,
    framer: Framer,
    /// There is nothing to send before the client has sent more.
    awaits_client: bool,
}

/// How the body is framed.
struct Framer {
    /// Bytes of it that have been framed.
    taken: u64,
    /// Bytes in all; 0 if nobody knows.
    length: u64,
    /// It goes in chunks.
    is_chunked: bool,
    /// It goes in FastCGI's records.
    has_records: bool,
}

impl Framer {
    /// Appends the next bytes of the body to `out`, and with the last of a known number what ends it.
    fn append(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.taken += piece.len() as u64;
        if self.has_records {
            fastcgi::stdin(out, ONLY_REQUEST, piece);
            if self.taken >= self.length {
                fastcgi::stdin_end(out, ONLY_REQUEST);
            }
            return;
        }
        if self.is_chunked {
            write_chunk_head(piece.len(), out);
        }
        out.extend_from_slice(piece);
        if self.is_chunked {
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl<'b, B: RequestBody> Outgoing<'b, B> {
    /// A request with this head; with the body in FastCGI's records, if it `has_records`.
    pub(crate) fn new(
        head: Vec<u8>,
        source: Source<'b, B>,
        framing: RequestFraming,
        has_records: bool,
    ) -> Self {
        let mut outgoing = Self {
            bytes: head,
            sent: 0,
            has_begun: false,
            source,
            framer: Framer {
                taken: 0,
                length: match framing {
                    RequestFraming::Length(length) => length,
                    RequestFraming::None | RequestFraming::Chunked => 0,
                },
                is_chunked: framing == RequestFraming::Chunked,
                has_records,
            },
            awaits_client: false,
        };
        if let Source::Kept(body) = outgoing.source {
            let Self { framer, bytes, .. } = &mut outgoing;
            match body {
                BufferedBody::Memory(small) if small.len() <= SMALL_BODY => {
                    framer.append(small, bytes);
                }
                _ if framer.length == 0 => framer.append(b"", bytes),
                _ => {}
            }
        }
        outgoing
    }

    /// Something has been sent: the server may have acted on it.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// All has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.sent >= self.bytes.len() && self.has_taken_all()
    }

    fn has_taken_all(&self) -> bool {
        match &self.source {
            Source::Kept(_) => self.framer.taken >= self.framer.length,
            Source::Client(upload) => upload.has_ended,
        }
    }

    /// There is nothing to send before the client has sent more.
    pub(crate) fn awaits_client(&self) -> bool {
        self.awaits_client
    }

    /// When the client must have sent more.
    pub(crate) fn client_deadline(&self) -> Millis {
        match &self.source {
            Source::Client(upload) if !upload.has_ended => upload.body.deadline(),
            _ => NEVER,
        }
    }

    /// The body, where it comes from the client.
    pub(crate) fn upload(&mut self) -> Option<&mut Upload<B>> {
        match &mut self.source {
            Source::Client(upload) => Some(upload),
            Source::Kept(_) => None,
        }
    }

    /// Sends until the connection takes no more, or nothing more comes; ready when all is sent. `progress` is called whenever
    /// something was, or there is something again.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        connection: &mut UpstreamConnection,
        mut progress: impl FnMut(),
    ) -> Poll<Result<(), Broken>> {
        let mut turns = 0;
        loop {
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                if self.has_taken_all() {
                    return Poll::Ready(Ok(()));
                }
                if turns == TURNS {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                turns += 1;
                self.awaits_client = true;
                ready!(self.poll_piece(context))?;
                self.awaits_client = false;
                progress();
                continue;
            }
            match ready!(connection.poll_send(context, rest))? {
                0 => return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into())),
                count => {
                    self.sent += count;
                    self.has_begun = true;
                    progress();
                }
            }
        }
    }

    /// Gets the next piece of the body, or its end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.bytes.clear();
        self.sent = 0;
        let Self { framer, bytes, .. } = self;
        let upload = match &mut self.source {
            Source::Client(upload) => upload,
            Source::Kept(body) => {
                return Poll::Ready(next_piece(*body, framer, bytes).map_err(Broken::Server));
            }
        };
        if !ready!(upload.body.poll_ready(context)).map_err(Broken::Client)? {
            upload.has_ended = true;
            if framer.is_chunked {
                bytes.extend_from_slice(LAST_CHUNK);
            }
            return Poll::Ready(Ok(()));
        }
        upload.was_taken = true;
        framer.append(upload.body.piece(), bytes);
        upload.body.consume(upload.body.piece().len());
        Poll::Ready(Ok(()))
    }

    /// The buffer, for the next request.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends the next piece of a body that is kept.
fn next_piece(body: BufferedBody<'_>, framer: &mut Framer, out: &mut Vec<u8>) -> io::Result<()> {
    match body {
        BufferedBody::None => framer.taken = framer.length,
        BufferedBody::Memory(bytes) => {
            let from = usize::try_from(framer.taken).unwrap_or(usize::MAX);
            framer.append(bytes.get(from..).unwrap_or_default(), out);
        }
        BufferedBody::Spooled(region) => {
            let mut piece = [0; PIECE];
            let count = region.read(framer.taken, &mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            framer.append(piece.get(..count).unwrap_or_default(), out);
        }
    }
    Ok(())
}
