//! A request on its way to a server: the head, and the body behind it from wherever it is kept.

use std::io;
use std::task::{Context, Poll, ready};

use tutti_gateway::fastcgi::{self, ONLY_REQUEST};
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
    /// The body goes in FastCGI's records.
    has_records: bool,
}

impl<'b> Outgoing<'b> {
    /// A request with this head; with the body in FastCGI's records, if it `has_records`.
    pub(super) fn new(head: Vec<u8>, body: &'b Collected, has_records: bool) -> Self {
        let mut outgoing = Self {
            bytes: head,
            sent: 0,
            has_begun: false,
            body,
            taken: 0,
            length: body.len(),
            has_records,
        };
        match body {
            Collected::Memory(bytes) if bytes.len() <= SMALL_BODY => outgoing.append(bytes),
            _ if outgoing.length == 0 => outgoing.append(b""),
            _ => {}
        }
        outgoing
    }

    /// Appends the next bytes of the body, and with the last of them what ends it.
    fn append(&mut self, piece: &[u8]) {
        self.taken += piece.len() as u64;
        if !self.has_records {
            self.bytes.extend_from_slice(piece);
            return;
        }
        fastcgi::stdin(&mut self.bytes, ONLY_REQUEST, piece);
        if self.taken >= self.length {
            fastcgi::stdin_end(&mut self.bytes, ONLY_REQUEST);
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
                self.append(bytes.get(from..).unwrap_or_default());
            }
            Collected::Spool(region) => {
                let mut piece = [0; PIECE];
                let count = region.read(self.taken, &mut piece)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.append(piece.get(..count).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The buffer, for the next request.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}
