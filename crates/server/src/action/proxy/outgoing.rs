//! A request on its way to a server: the head, and the body behind it from wherever it is kept.

use std::io;
use std::task::{Context, Poll, ready};

use tutti_upstream::Connection;

use crate::request::Collected;

/// A body up to this goes out in one write with the head.
const SMALL_BODY: usize = 32 * 1024;

/// Bytes of a body that are read from its file at once.
const PIECE: usize = 64 * 1024;

/// What of a request has been sent, and what is left.
pub(super) struct Outgoing<'b> {
    /// Head first, then piece after piece of the body.
    bytes: Vec<u8>,
    /// Of those, sent.
    sent: usize,
    /// Something has been sent.
    has_begun: bool,
    body: &'b Collected,
    /// Bytes of the body that have been in `bytes`.
    taken: u64,
    length: u64,
}

impl<'b> Outgoing<'b> {
    /// A request with this head.
    pub(super) fn new(mut head: Vec<u8>, body: &'b Collected) -> Self {
        let mut taken = 0;
        if let Collected::Memory(bytes) = body
            && bytes.len() <= SMALL_BODY
        {
            head.extend_from_slice(bytes);
            taken = bytes.len() as u64;
        }
        Self {
            bytes: head,
            sent: 0,
            has_begun: false,
            body,
            taken,
            length: body.len(),
        }
    }

    /// Something has been sent: the server may have acted on it.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// All has been sent.
    pub(super) fn is_done(&self) -> bool {
        self.sent >= self.bytes.len() && self.taken >= self.length
    }

    /// Sends until the connection takes no more; ready when all is sent. `progress` is called whenever something was.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        connection: &mut Connection,
        mut progress: impl FnMut(),
    ) -> Poll<io::Result<()>> {
        loop {
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                if self.taken >= self.length {
                    return Poll::Ready(Ok(()));
                }
                self.next_piece()?;
                continue;
            }
            match ready!(connection.poll_send(context, rest)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.sent += count;
                    self.has_begun = true;
                    progress();
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn next_piece(&mut self) -> io::Result<()> {
        self.bytes.clear();
        self.sent = 0;
        match self.body {
            Collected::None => self.taken = self.length,
            Collected::Memory(bytes) => {
                let from = usize::try_from(self.taken).unwrap_or(usize::MAX);
                self.bytes
                    .extend_from_slice(bytes.get(from..).unwrap_or_default());
                self.taken = self.length;
            }
            Collected::Spool(region) => {
                self.bytes.resize(PIECE, 0);
                let count = region.read(self.taken, &mut self.bytes)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.bytes.truncate(count);
                self.taken += count as u64;
            }
        }
        Ok(())
    }

    /// The buffer, for the next request.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}
