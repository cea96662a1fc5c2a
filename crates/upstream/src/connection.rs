//! A connection to a server, registered with the event loop of the thread that it belongs to.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tutti_dialer::{DialedStream, DialedTls, connect};
use tutti_tls::ClientTls;

use crate::Millis;
use crate::failure::UpstreamError;
use crate::server::GroupServer;

/// A connection.
///
/// One task uses it at a time, and may wait for both directions at once. The user of the connection speaks the protocol.
#[derive(Debug)]
pub struct UpstreamConnection {
    stream: DialedStream,
    /// Requests answered on it before.
    requests: u64,
    /// When the last request was answered.
    pub(crate) idle_since: Millis,
    /// When the first request was answered.
    pub(crate) kept_since: Millis,
}

impl UpstreamConnection {
    /// Connects and, where the server speaks TLS, does the handshake. `greeting` is sent first, even before TLS.
    ///
    /// # Errors
    /// The system's error. There is no timeout except the system's own.
    pub async fn open(
        server: &GroupServer,
        greeting: &[u8],
    ) -> Result<UpstreamConnection, UpstreamError> {
        Self::dial(server, greeting, ClientTls::config).await
    }

    /// The same for a connection that carries another protocol than HTTP.
    ///
    /// # Errors
    /// As those of [`UpstreamConnection::open`].
    pub async fn open_stream(
        server: &GroupServer,
        greeting: &[u8],
    ) -> Result<UpstreamConnection, UpstreamError> {
        Self::dial(server, greeting, ClientTls::config_of_streams).await
    }

    async fn dial(
        server: &GroupServer,
        greeting: &[u8],
        config: fn(&ClientTls) -> Arc<ClientConfig>,
    ) -> Result<UpstreamConnection, UpstreamError> {
        let address = server.endpoint().map_err(UpstreamError::Connect)?;
        let connected = connect(&address).await;
        let mut socket = connected.map_err(|error| UpstreamError::of_connect(error, &address))?;
        if !greeting.is_empty() {
            let sent = socket.write_all(greeting).await;
            sent.map_err(UpstreamError::Connect)?;
        }
        let stream = match server.tls() {
            None => DialedStream::Plain(socket),
            Some((client, name)) => {
                let tls = DialedTls::open(config(client), name.clone(), socket).await;
                DialedStream::Tls(tls.map_err(|error| UpstreamError::Tls(error.to_string()))?)
            }
        };
        Ok(UpstreamConnection {
            stream,
            requests: 0,
            idle_since: 0,
            kept_since: 0,
        })
    }

    /// The protocol negotiated by ALPN (RFC 7301); `None` if there is none, or no TLS.
    pub fn protocol(&self) -> Option<&[u8]> {
        match &self.stream {
            DialedStream::Plain(_) => None,
            DialedStream::Tls(tls) => tls.protocol(),
        }
    }

    /// Returns the stream, for a protocol implemented by a library.
    pub fn into_io(self) -> DialedStream {
        self.stream
    }

    /// True if it was kept after an earlier request.
    pub fn is_reused(&self) -> bool {
        self.requests > 0
    }

    /// Notes that a request has been answered on it.
    pub(crate) fn rest(&mut self, now: Millis) {
        if !self.is_reused() {
            self.kept_since = now;
        }
        self.requests += 1;
        self.idle_since = now;
    }

    /// Sends some of `bytes`. With TLS, accepted bytes may still be buffered: every other call here continues to send them.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_send(context, bytes)
    }

    /// Waits until all accepted bytes have been sent. Only for callers that do not read afterwards.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(context)
    }

    /// Reads into the spare capacity of `buffer`, which must have some; 0 at the end.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_receive(context, buffer)
    }

    /// Closes the sending side.
    pub fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_finish(context)
    }

    /// True if, as far as the event loop knows, the server has neither closed it nor sent unexpected bytes. Costs no system call.
    pub(crate) fn seems_at_rest(&mut self) -> bool {
        self.stream.seems_at_rest()
    }

    /// The same, checked by a system call: for a request that cannot be repeated.
    pub fn is_at_rest(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(
            rustix::net::recv(self.stream.socket().as_fd(), &mut byte, flags),
            Err(Errno::AGAIN)
        )
    }
}
