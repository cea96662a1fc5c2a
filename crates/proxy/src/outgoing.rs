//! A request that is being sent to a server: the head, then the body from where it is stored, or streamed from the client.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_gateway::fastcgi::{self, ONLY_REQUEST};
use tutti_http::{LAST_CHUNK, RequestFraming, Trailers, write_chunk_head};
use tutti_upstream::UpstreamConnection;

use crate::client::{BodyStreamError, Client, RequestBody};
use crate::request::BufferedBody;

/// A body up to this size is sent in one write with the head.
const SMALL_BODY: usize = 32 * 1024;

/// Bytes of a body that are read from its file at once.
const PIECE: usize = 64 * 1024;

/// Bytes of a streamed body that are kept for another attempt.
const KEPT_BYTES: usize = 64 * 1024;

/// Pieces of a fast client's body sent in a row, before the answer is read.
const TURNS: u32 = 16;

/// The source of a body.
pub(crate) enum Source<'b, B> {
    Kept(BufferedBody<'b>),
    Client(&'b mut Upload<B>),
}

/// A body that is streamed from the client to the server.
pub(crate) struct Upload<B> {
    body: Box<B>,
    /// Part of it has been sent and not kept: no other server can have it.
    was_taken: bool,
    has_ended: bool,
    /// The pieces that have been sent, while they are small enough to be kept.
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

    /// Piece number `index` of the kept ones, or the next; empty at the end. Advances `index`.
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

    /// True if everything that has been sent is kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.kept_bytes <= KEPT_BYTES
    }

    /// Stops the client's read timeout: the reader of the body has another limit.
    pub(crate) fn stop_clock(&mut self) {
        self.body.stop_clock();
    }

    /// The trailer fields after the body.
    pub(crate) fn trailers(&self) -> Trailers {
        self.body.trailers()
    }

    /// True if part of it has been sent and not kept: no other server can have it.
    pub(crate) fn was_taken(&self) -> bool {
        self.was_taken
    }

    /// True if part of it has not been read from the client.
    pub(crate) fn is_coming(&self) -> bool {
        !self.has_ended
    }

    /// The unread rest, if there is any.
    pub(crate) fn rest(self) -> Option<Box<B>> {
        (!self.has_ended).then_some(self.body)
    }

    /// True if the client may be waiting for 100 (Continue).
    pub(crate) fn awaits_continue(&self) -> bool {
        !self.has_ended && self.body.awaits_continue()
    }

    /// Sends 100 (Continue) to the client: all of it, so that it does not count as the beginning of the answer.
    ///
    /// # Errors
    /// The client has disconnected, or takes nothing.
    pub(crate) async fn send_continue<C: Client<Body = B>>(
        &mut self,
        client: &mut C,
    ) -> Result<(), Gone> {
        client.send_continue(&mut self.body);
        client.flush().await
    }

    /// Starts the client's read timeout, also if it waits for 100 (Continue).
    pub(crate) fn start_clock(&mut self) {
        if !self.has_ended {
            self.body.start_clock();
        }
    }
}

/// Why sending a request failed.
pub(crate) enum Broken {
    /// The server accepts no more bytes.
    Server(io::Error),
    /// The client sends no more.
    Client(BodyStreamError),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Server(error)
    }
}

/// A request that is being sent.
pub(crate) struct Outgoing<'b, B> {
    /// The head, then piece after piece of the body.
    bytes: Vec<u8>,
    /// Bytes of those that have been sent.
    sent: usize,
    /// Something has been sent.
    has_begun: bool,
    source: Source<'b, B>,
    framer: Framer,
    /// Nothing can be sent until the client sends more.
    awaits_client: bool,
}

/// The framing of the body.
struct Framer {
    /// Bytes of it that have been framed.
    taken: u64,
    /// Bytes in all; 0 if unknown.
    length: u64,
    /// Chunked.
    is_chunked: bool,
    /// In FastCGI records.
    has_records: bool,
}

impl Framer {
    /// Appends the framed bytes of the body to `out`, and, after the last of a known length, the end.
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
    /// A request with this head; `has_records`: with its body in FastCGI records.
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

    /// True if something has been sent: the server may have acted on it.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// True if everything has been sent.
    pub(crate) fn is_done(&self) -> bool {
        self.sent >= self.bytes.len() && self.has_taken_all()
    }

    fn has_taken_all(&self) -> bool {
        match &self.source {
            Source::Kept(_) => self.framer.taken >= self.framer.length,
            Source::Client(upload) => upload.has_ended,
        }
    }

    /// True if nothing can be sent until the client sends more.
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

    /// The body, if it is streamed.
    pub(crate) fn upload(&mut self) -> Option<&mut Upload<B>> {
        match &mut self.source {
            Source::Client(upload) => Some(upload),
            Source::Kept(_) => None,
        }
    }

    /// Sends until the connection accepts no more, or no more arrives; ready when everything is sent. `progress` is called whenever
    /// something was sent, or has arrived.
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

    /// Returns the buffer for the next request.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends the next piece of a stored body.
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
