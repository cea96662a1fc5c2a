//! The TLS handshake on an accepted socket.
//!
//! Must never: answer a client twice, or report plain HTTP as a broken record.

use std::sync::Arc;
use std::task::{Context, Poll};

use tutti_tls::{Challenges, Hello, Offer};

use super::session::End;
use super::socket::TlsSocket;
use crate::socket::{Attempt, ReadResult, poll_attempt, poll_receive, try_send};

/// Most bytes read for a client's first message: one with large key shares has two thousand.
const MOST_HELLO: usize = 64 * 1024;

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The connection closed before any byte: a port check.
    #[error("the client disconnected before it began")]
    Untouched,
    /// The connection failed during the handshake.
    #[error("the client disconnected")]
    Gone,
    /// The client speaks HTTP without TLS.
    #[error("the client speaks HTTP without TLS")]
    Plain,
    /// The listener has automatic certificates, which have not been issued yet.
    #[error("there is no certificate yet; `/status/certificates` says why")]
    NoCertificate,
    /// Invalid records, or no common parameters.
    #[error(transparent)]
    Tls(rustls::Error),
}

impl TlsSocket {
    /// Continues the handshake as far as the client's bytes allow; the caller has a deadline.
    pub fn poll_handshake(&self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        let io = self.io();
        let session = &mut *self.session.borrow_mut();
        loop {
            // A handshake record begins with 22 (RFC 8446 §5.1), a request with a method.
            let first = session.incoming.first();
            if !session.has_begun && first.is_some_and(u8::is_ascii_uppercase) {
                return Poll::Ready(Err(HandshakeError::Plain));
            }
            session.has_begun |= first.is_some();
            if let Err(error) = session.process(None) {
                // The client gets an alert, if the socket accepts it at once.
                let _ = try_send(io.get_ref(), &mut session.outgoing);
                return Poll::Ready(Err(match session.found_no_certificate() {
                    true => HandshakeError::NoCertificate,
                    false => HandshakeError::Tls(error),
                }));
            }
            let has_begun = session.has_begun;
            let gone = || {
                Poll::Ready(Err(if has_begun {
                    HandshakeError::Gone
                } else {
                    HandshakeError::Untouched
                }))
            };
            while !session.outgoing.is_empty() {
                let sent = poll_attempt(io, cx, |socket| {
                    Ok(match try_send(socket, &mut session.outgoing)? {
                        true => Attempt::Progress,
                        false => Attempt::Full,
                    })
                });
                match sent {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return gone(),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if !session.is_handshaking() {
                session.let_go();
                return Poll::Ready(Ok(()));
            }
            if session.end != End::Open {
                return gone();
            }
            match poll_receive(io, session.room(), cx) {
                Poll::Ready(Ok(ReadResult::Bytes(_))) => {}
                Poll::Ready(_) => return gone(),
                Poll::Pending => {
                    session.let_go();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Reads the first message of the client before the handshake begins: returns the requested name, if a certificate for it can be
    /// obtained on demand. Errors are left to the handshake.
    pub fn poll_hello(&self, hello: &mut Hello, cx: &mut Context<'_>) -> Poll<Option<String>> {
        let session = &mut *self.session.borrow_mut();
        loop {
            if let Some(asked) = hello.look(&session.incoming) {
                return Poll::Ready(asked);
            }
            let before = session.incoming.len();
            match poll_receive(self.io(), session.room(), cx) {
                Poll::Ready(Ok(ReadResult::Bytes(_))) => {}
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => {
                    session.let_go();
                    return Poll::Pending;
                }
            }
            // No valid handshake begins with so much.
            if before > MOST_HELLO {
                return Poll::Ready(None);
            }
        }
    }

    /// Begins the handshake with another offer; only [`TlsSocket::poll_hello`] may have been called before.
    pub fn renew(
        &self,
        offer: &Offer,
        challenges: Option<&Arc<Challenges>>,
    ) -> Result<(), rustls::Error> {
        self.session.borrow_mut().renew(offer, challenges)
    }

    /// Reads once, bypassing TLS, and discards the bytes: true if the client may still be sending. For a client without a handshake.
    pub fn poll_discard(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let session = &mut *self.session.borrow_mut();
        session.incoming.clear();
        poll_receive(self.io(), session.room(), cx)
            .map(|received| matches!(received, Ok(ReadResult::Bytes(_))))
    }
}
