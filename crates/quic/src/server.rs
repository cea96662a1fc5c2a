//! The server as QUIC sees it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use quinn_proto::crypto::rustls::QuicServerConfig;
use tutti_conn::clock::Millis;
use tutti_conn::listener::{ListenerHold, SharedListener};
use tutti_http::http3::Section;
use tutti_tls::QuicClient;

use crate::ports::Spoken;
use crate::stream::QuicStream;

/// The terms of a new connection.
pub struct QuicOptions {
    /// Its TLS.
    pub crypto: Arc<QuicServerConfig>,
    /// Hears who the client is.
    pub client: QuicClient,
    /// Its limits.
    pub spoken: Spoken,
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct QuicTimeouts {
    /// For a handshake, and for the head of a request.
    pub head: Millis,
    /// Without a request.
    pub idle: Millis,
}

/// The facts about a request beside its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTraits {
    /// Its stream goes on behind the head.
    pub has_body: bool,
    /// It has come before the handshake was complete: somebody else may have sent it, who has seen it before (RFC 8470 §2).
    pub is_early: bool,
}

/// The field that tells whoever answers that a request is early (RFC 8470 §5.1).
const EARLY_DATA: &[u8] = b"early-data";

impl RequestTraits {
    /// The fields of its section as whoever answers is to see them: told that it is early, and once.
    pub fn fields(self, section: &Section) -> impl Iterator<Item = (&[u8], &[u8])> {
        let told = self.is_early.then_some((EARLY_DATA, &b"1"[..]));
        let said = section.fields();
        let said = said.filter(move |(name, _)| told.is_none() || *name != EARLY_DATA);
        said.chain(told)
    }
}

/// A listener on one listen thread.
pub trait QuicServer: 'static {
    /// A connection of its.
    type Connection: QuicConnection;

    /// The listener.
    fn listener(&self) -> &Arc<SharedListener>;

    /// The terms at this moment; `None` if HTTP/3 is not spoken any more.
    fn terms(&self) -> Option<QuicOptions>;

    /// Counts a connection of a client; `None`: there are as many as may be.
    fn admit(&self, from: SocketAddr) -> Option<ListenerHold>;

    /// A client begins a connection, from one address to another of this machine. It is counted until what is returned is dropped.
    fn connect(
        &self,
        hold: ListenerHold,
        from: SocketAddr,
        to: Option<SocketAddr>,
    ) -> Self::Connection;

    /// No datagram can be taken any more, for this reason.
    fn complain(&self, reason: &str);
}

/// A connection as the server keeps it.
pub trait QuicConnection: 'static {
    /// How long the client may take.
    fn timeouts(&self) -> QuicTimeouts;

    /// Bytes that the head of a request may have, and trailers.
    fn most_bytes(&self) -> (usize, usize);

    /// True if it is to end with the requests that it has.
    fn is_ending(&self) -> bool;

    /// True if a client that has been told so may take its time.
    fn drains_gently(&self) -> bool;

    /// This wakes its task.
    fn set_waker(&self, waker: Waker);

    /// Its task is to be woken then at the latest.
    fn set_deadline(&self, deadline: Millis);

    /// It has a request, or has not.
    fn set_active(&self, is_active: bool);

    /// Tells the log of a fault of the client.
    fn mention(&self, text: &str);

    /// Begins with a request.
    fn begin(&self, section: &Section, stream: QuicStream, manner: RequestTraits, waker: &Waker);

    /// Answers a request whose head cannot be taken.
    fn refuse(&self, stream: QuicStream, status: u16, reason: &str, waker: &Waker);
}
