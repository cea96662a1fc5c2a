//! Sends a request's body to an HTTP/2 server: from where it is stored, or streamed from the client.
//!
//! Must never: end a request whose body is incomplete, or send a client's trailer field that this server sets or removes.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use tutti_http::Trailers;

use crate::client::{BodyStreamError, RequestBody};
use crate::head;
use crate::outgoing::Source;
use crate::request::{BufferedBody, ProxyRequest};

/// Bytes of a body that are read from its file at once.
const PIECE: usize = 64 * 1024;

/// True if there is no body.
pub(crate) fn is_empty<B>(body: &Source<'_, B>) -> bool {
    matches!(body, Source::Kept(body) if body.len() == 0)
}

/// True if it may be sent again from its beginning.
pub(crate) fn is_whole<B: RequestBody>(body: &Source<'_, B>) -> bool {
    match body {
        Source::Kept(_) => true,
        Source::Client(upload) => upload.is_whole(),
    }
}

/// Reads a stored body from offset `from`.
fn read(body: BufferedBody<'_>, from: u64) -> io::Result<Bytes> {
    match body {
        BufferedBody::None => Ok(Bytes::new()),
        BufferedBody::Memory(bytes) => {
            let rest = usize::try_from(from)
                .ok()
                .and_then(|from| bytes.get(from..));
            let rest = rest.unwrap_or_default();
            let piece = rest.get(..PIECE).unwrap_or(rest);
            Ok(Bytes::copy_from_slice(piece))
        }
        BufferedBody::Spooled(region) if from >= region.len() => Ok(Bytes::new()),
        BufferedBody::Spooled(region) => {
            let mut piece = vec![0; PIECE];
            let count = region.read(from, &mut piece)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.truncate(count);
            Ok(piece.into())
        }
    }
}

/// The progress of an attempt.
#[derive(Default)]
struct Position {
    bytes: u64,
    /// Kept pieces that have been sent.
    pieces: usize,
}

/// One attempt to send a body.
pub(crate) struct Upload<'r> {
    request: &'r ProxyRequest<'r>,
    stream: SendStream<Bytes>,
    position: Position,
    /// The piece that is being sent.
    piece: Bytes,
    is_done: bool,
    /// Why a stored body cannot be read.
    error: Option<io::Error>,
}

impl<'r> Upload<'r> {
    /// `is_done`: the head ended the stream.
    pub(crate) fn new(
        request: &'r ProxyRequest<'r>,
        stream: SendStream<Bytes>,
        is_done: bool,
    ) -> Self {
        Self {
            request,
            stream,
            position: Position::default(),
            piece: Bytes::new(),
            is_done,
            error: None,
        }
    }

    /// True if everything has been given to `h2`, or the server wants no more.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// True if there is something to send that the server does not take.
    pub(crate) fn awaits_server(&self) -> bool {
        !self.is_done && !self.piece.is_empty()
    }

    /// Sends until the server accepts no more, or no more arrives; `progress` is called whenever something was sent. An error of the stream
    /// is reported to the reader of the answer.
    pub(crate) fn poll<B: RequestBody>(
        &mut self,
        context: &mut Context<'_>,
        body: &mut Source<'_, B>,
        mut progress: impl FnMut(),
    ) -> Result<(), BodyStreamError> {
        while !self.is_done {
            if self.piece.is_empty() {
                match self.poll_piece(context, body) {
                    Poll::Ready(piece) => self.piece = piece?,
                    Poll::Pending => return Ok(()),
                }
                progress();
                if self.piece.is_empty() {
                    self.end(body);
                    return Ok(());
                }
            }
            self.stream.reserve_capacity(self.piece.len());
            if self.stream.capacity() == 0 {
                match self.stream.poll_capacity(context) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Ready(_) => {
                        self.is_done = true;
                        return Ok(());
                    }
                    Poll::Pending => return Ok(()),
                }
            }
            let count = self.stream.capacity().min(self.piece.len());
            let data = self.piece.split_to(count);
            if self.stream.send_data(data, false).is_err() {
                self.is_done = true;
            }
            progress();
        }
        Ok(())
    }

    /// The next piece of the body; empty at its end.
    fn poll_piece<B: RequestBody>(
        &mut self,
        context: &mut Context<'_>,
        body: &mut Source<'_, B>,
    ) -> Poll<Result<Bytes, BodyStreamError>> {
        match body {
            Source::Client(upload) => upload.poll_kept(context, &mut self.position.pieces),
            Source::Kept(kept) => {
                let piece = read(*kept, self.position.bytes).unwrap_or_else(|error| {
                    self.error = Some(error);
                    Bytes::new()
                });
                self.position.bytes += piece.len() as u64;
                Poll::Ready(Ok(piece))
            }
        }
    }

    /// Why a stored body could not be sent.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Ends the request, with the client's trailer fields if there are any. Does nothing if the stream has ended; its answer says why.
    fn end<B: RequestBody>(&mut self, body: &Source<'_, B>) {
        self.is_done = true;
        if self.error.is_some() {
            return self.stream.send_reset(h2::Reason::CANCEL);
        }
        let mut trailers = match body {
            Source::Client(upload) => upload.trailers(),
            Source::Kept(_) => Trailers::default(),
        };
        trailers.remove(|name| head::is_own(self.request, name));
        let _ = match trailers.to_map() {
            Some(trailers) => self.stream.send_trailers(trailers),
            None => self.stream.send_data(Bytes::new(), true),
        };
    }

    /// Cancels the request: the client has disconnected, or got another answer.
    pub(crate) fn cancel(&mut self) {
        self.stream.send_reset(h2::Reason::CANCEL);
    }
}
