//! The interface of the server, as HTTP/3 uses it.

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

/// The parameters of a new connection.
pub struct QuicOptions {
    /// Its TLS.
    pub crypto: Arc<QuicServerConfig>,
    /// Receives the address and the certificate of the client.
    pub client: QuicClient,
    /// Its limits.
    pub spoken: Spoken,
}

/// Timeouts of a client.
#[derive(Clone, Copy, Debug)]
pub struct QuicTimeouts {
    /// For a handshake, and for the head of a request.
    pub head: Millis,
    /// Without open requests.
    pub idle: Millis,
}

/// Facts about a request beside its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTraits {
    /// A body follows.
    pub has_body: bool,
    /// It arrived before the handshake was complete, so it may be a replay (RFC 8470 §2).
    pub is_early: bool,
}

/// The field that marks an early request for the application or upstream (RFC 8470 §5.1).
const EARLY_DATA: &[u8] = b"early-data";

impl RequestTraits {
    /// The fields of the section for the application or upstream. An early request has exactly one `Early-Data: 1`.
    pub fn fields(self, section: &Section) -> impl Iterator<Item = (&[u8], &[u8])> {
        let own = self.is_early.then_some((EARLY_DATA, &b"1"[..]));
        let said = section.fields();
        let said = said.filter(move |(name, _)| own.is_none() || *name != EARLY_DATA);
        said.chain(own)
    }
}

/// A listener on one listen thread.
pub trait QuicServer: 'static {
    /// A connection of the listener.
    type Connection: QuicConnection;

    /// The listener.
    fn listener(&self) -> &Arc<SharedListener>;

    /// The parameters for new connections now; `None` if HTTP/3 has been disabled.
    fn terms(&self) -> Option<QuicOptions>;

    /// Counts a client's connection; `None`: the limit is reached.
    fn admit(&self, from: SocketAddr) -> Option<ListenerHold>;

    /// Makes a connection from a client's address to one of this machine. It is counted until the returned value is dropped.
    fn connect(
        &self,
        hold: ListenerHold,
        from: SocketAddr,
        to: Option<SocketAddr>,
    ) -> Self::Connection;

    /// Logs that datagrams can no longer be received, for this reason.
    fn log_failure(&self, reason: &str);
}

/// A connection, as the server implements it.
pub trait QuicConnection: 'static {
    /// Its listener.
    fn listener(&self) -> &SharedListener;

    /// Its timeouts.
    fn timeouts(&self) -> QuicTimeouts;

    /// Bytes of a request head, and of trailers.
    fn most_bytes(&self) -> (usize, usize);

    /// True if the connection is to end after its open requests.
    fn is_ending(&self) -> bool;

    /// True if an idle client may take its time to close after GOAWAY.
    fn drains_gently(&self) -> bool;

    /// Sets the waker of its task.
    fn set_waker(&self, waker: Waker);

    /// Wakes its task at this time at the latest.
    fn set_deadline(&self, deadline: Millis);

    /// Notes whether it has open requests.
    fn set_active(&self, is_active: bool);

    /// Logs an error of the client.
    fn log_client_error(&self, text: &str);

    /// Starts a request.
    fn begin(&self, section: &Section, stream: QuicStream, manner: RequestTraits);

    /// Answers a request whose head cannot be accepted.
    fn refuse(&self, stream: QuicStream, status: u16, reason: &str);
}
