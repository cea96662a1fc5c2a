//! The bytes of a connection: a socket, with or without TLS.
//!
//! Must never: report bytes as sent that were not accepted, or continue after TLS has ended.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::explain::explain;

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// On this machine.
    Unix(UnixStream),
}

impl Socket {
    /// As far as the event loop knows, nothing has been received. Costs no system call.
    fn is_silent(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        match self {
            Socket::Tcp(stream) => stream.poll_read_ready(&mut context).is_pending(),
            Socket::Unix(stream) => stream.poll_read_ready(&mut context).is_pending(),
        }
    }
}

impl Socket {
    /// Returns the local address; `None` for a Unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A stream to read from and write to.
#[derive(Debug)]
pub enum DialedStream {
    /// The socket alone.
    Plain(Socket),
    /// TLS on it.
    Tls(DialedTls),
}

/// A socket with TLS, which sends `close_notify` when dropped.
#[derive(Debug)]
pub struct DialedTls(Box<TlsStream<Socket>>);

impl DialedTls {
    /// Performs the handshake on a connected socket.
    ///
    /// # Errors
    /// The server's fault in words, or the system's error.
    pub async fn open(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        socket: Socket,
    ) -> io::Result<DialedTls> {
        match TlsConnector::from(config).connect(name, socket).await {
            Ok(stream) => Ok(DialedTls(Box::new(stream))),
            Err(error) if inner(&error).is_some() => Err(with_cause(error)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(io::Error::new(
                error.kind(),
                "it closed the connection during the handshake; perhaps it does not speak TLS on this port",
            )),
            Err(error) => Err(error),
        }
    }

    /// Returns the negotiated protocol (ALPN, RFC 7301).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.0.get_ref().1.alpn_protocol()
    }
}

impl Drop for DialedTls {
    fn drop(&mut self) {
        // RFC 8446 §6.1: an orderly end is announced. Bytes that the socket does not accept immediately are lost.
        let mut context = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut *self.0).poll_shutdown(&mut context);
    }
}

impl AsyncRead for DialedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            DialedStream::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            DialedStream::Tls(DialedTls(stream)) => Pin::new(&mut **stream)
                .poll_read(context, buffer)
                .map_err(with_cause),
        }
    }
}

impl AsyncWrite for DialedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        DialedStream::poll_flush(self.get_mut(), context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(context)
    }
}

impl DialedStream {
    /// Sends some of `bytes`. With TLS, accepted bytes may still be buffered: every other call here continues to send
    /// them.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            DialedStream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            DialedStream::Tls(DialedTls(stream)) => {
                let taken = Pin::new(&mut **stream).poll_write(context, bytes);
                if matches!(taken, Poll::Ready(Ok(_))) {
                    // The next operation reports a failure.
                    let _ = Pin::new(&mut **stream).poll_flush(context);
                }
                taken.map_err(with_cause)
            }
        }
    }

    /// Waits until all accepted bytes have been sent.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            DialedStream::Plain(_) => Poll::Ready(Ok(())),
            DialedStream::Tls(DialedTls(stream)) => Pin::new(&mut **stream)
                .poll_flush(context)
                .map_err(with_cause),
        }
    }

    /// Reads into the free space of `buffer`, which must have some; 0 at the end.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        // The futures keep no state between two calls.
        match self {
            DialedStream::Plain(socket) => pin!(socket.read_buf(buffer)).poll(context),
            DialedStream::Tls(DialedTls(stream)) => {
                // Buffered bytes are sent while waiting for an answer.
                let _ = Pin::new(&mut **stream).poll_flush(context);
                pin!(stream.read_buf(buffer))
                    .poll(context)
                    .map_err(with_cause)
            }
        }
    }

    /// Announces that nothing more will be sent.
    pub fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            DialedStream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            DialedStream::Tls(DialedTls(stream)) => Pin::new(&mut **stream)
                .poll_shutdown(context)
                .map_err(with_cause),
        }
    }

    /// As far as the event loop knows, the server has neither closed the connection nor sent anything. TLS's own
    /// messages (tickets, new keys) do not count.
    pub fn seems_at_rest(&mut self) -> bool {
        match self {
            DialedStream::Plain(socket) => socket.is_silent(),
            DialedStream::Tls(DialedTls(stream)) => {
                let mut context = Context::from_waker(Waker::noop());
                let mut byte = [0];
                Pin::new(&mut **stream)
                    .poll_read(&mut context, &mut ReadBuf::new(&mut byte))
                    .is_pending()
            }
        }
    }

    /// Returns the underlying socket.
    pub fn socket(&self) -> &Socket {
        match self {
            DialedStream::Plain(socket) => socket,
            DialedStream::Tls(DialedTls(stream)) => stream.get_ref().0,
        }
    }
}

/// Returns the TLS error in an I/O error.
fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Describes the TLS error in an I/O error, if there is one.
fn with_cause(error: io::Error) -> io::Error {
    match inner(&error) {
        Some(fault) => io::Error::new(error.kind(), explain(fault)),
        // An attacker can cut a connection, but cannot end it in the server's name (RFC 9112 §9.8).
        None if error.kind() == io::ErrorKind::UnexpectedEof => io::Error::new(
            error.kind(),
            "it closed the connection without TLS's `close_notify`",
        ),
        None => error,
    }
}
