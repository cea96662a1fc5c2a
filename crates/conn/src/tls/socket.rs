//! A socket with TLS on it.

use std::cell::{OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use tutti_tls::HandshakeFacts;

use super::session::{End, TlsRecords};
use crate::output::{Gone, Output};
use crate::socket::{Attempt, ReadResult, poll_attempt, poll_receive, try_send};

/// A socket with TLS. Until its handshake is done, no other data are read from it or written to it.
pub struct TlsSocket {
    io: AsyncFd<OwnedFd>,
    /// Borrowed for the length of a call.
    pub(super) session: RefCell<TlsRecords>,
    /// Computed at the first use after the handshake.
    facts: OnceCell<Rc<HandshakeFacts>>,
}

impl TlsSocket {
    /// Before the handshake.
    pub fn new(io: AsyncFd<OwnedFd>, session: TlsRecords) -> Self {
        Self {
            io,
            session: RefCell::new(session),
            facts: OnceCell::new(),
        }
    }

    /// The socket, watched.
    pub fn io(&self) -> &AsyncFd<OwnedFd> {
        &self.io
    }

    /// The socket.
    pub fn socket(&self) -> &OwnedFd {
        self.io.get_ref()
    }

    /// The outcome of the handshake, which must be done.
    pub fn facts(&self) -> &Rc<HandshakeFacts> {
        self.facts
            .get_or_init(|| Rc::new(self.session.borrow().facts()))
    }

    /// True if the handshake, which must be done, has negotiated this protocol (RFC 7301).
    pub fn has_agreed_on(&self, protocol: &[u8]) -> bool {
        self.session.borrow().application_protocol() == Some(protocol)
    }

    /// Reads plaintext into the spare capacity of `buffer`.
    ///
    /// # Errors
    /// The connection failed, or the client violated the protocol.
    pub fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        let session = &mut *self.session.borrow_mut();
        let before = buffer.len();
        loop {
            let processed = session.process(Some(buffer));
            if !session.outgoing.is_empty() {
                // A key update must be answered, or an alert sent; if the socket is full it precedes the next response.
                let sent = try_send(self.socket(), &mut session.outgoing);
                if sent == Ok(false) && self.io.poll_write_ready(cx).is_ready() {
                    // A spurious wake-up at worst.
                    cx.waker().wake_by_ref();
                }
            }
            if buffer.len() > before {
                session.let_go();
                return Poll::Ready(Ok(ReadResult::Bytes(buffer.len() - before)));
            }
            if processed.is_err() || session.end == End::Broken {
                return Poll::Ready(Err(Gone::Closed));
            }
            if session.end == End::Closed {
                return Poll::Ready(Ok(ReadResult::End));
            }
            match poll_receive(&self.io, session.room(), cx) {
                Poll::Ready(Ok(ReadResult::Bytes(_))) => {}
                Poll::Pending => {
                    session.let_go();
                    return Poll::Pending;
                }
                ended => return ended,
            }
        }
    }

    /// Encrypts and sends as much as the socket accepts now; true if nothing is left, neither plain nor encrypted.
    ///
    /// # Errors
    /// The connection failed, or bytes in a file cannot be read back.
    pub fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        let session = &mut *self.session.borrow_mut();
        loop {
            if !try_send(self.socket(), &mut session.outgoing)? {
                return Ok(false);
            }
            if output.is_empty() {
                session.let_go();
                return Ok(true);
            }
            if output.is_paused() {
                return Ok(false);
            }
            let taken = session.encrypt(output.front()?)?;
            output.advance(taken);
        }
    }

    /// Sends some of `output`: ready when bytes have been sent, or nothing is left.
    pub fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        poll_attempt(&self.io, cx, |_| {
            let before = self.unsent(output);
            Ok(match self.try_send(output)? {
                true => Attempt::Progress,
                // The socket may have room.
                false if output.is_paused() && self.session.borrow().outgoing.is_empty() => {
                    Attempt::Progress
                }
                // Encryption adds a little, so any sent bytes reduce the sum.
                false if self.unsent(output) < before => Attempt::ProgressAndFull,
                false => Attempt::Full,
            })
        })
    }

    /// Bytes that the socket has not accepted; those of `output` are counted unencrypted.
    pub fn unsent(&self, output: &Output) -> u64 {
        output.len() + self.session.borrow().outgoing.len()
    }

    /// True if all of `output` has been sent, and no encrypted bytes wait.
    pub fn has_sent(&self, output: &Output) -> bool {
        output.is_empty() && self.session.borrow().outgoing.is_empty()
    }

    /// Sends close_notify, if the socket accepts it (RFC 8446 §6.1).
    pub fn close(&self) {
        let session = &mut *self.session.borrow_mut();
        session.close();
        // It is not waited for.
        let _ = try_send(self.socket(), &mut session.outgoing);
    }
}
