//! The bytes of a connection: a socket, with TLS around what is said on it or without.
//!
//! Must never: say that something has been sent when nothing has been taken, or go on after TLS has ended.

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
    /// As far as the event loop knows, nothing has come. Costs no system call.
    fn is_silent(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        match self {
            Socket::Tcp(stream) => stream.poll_read_ready(&mut context).is_pending(),
            Socket::Unix(stream) => stream.poll_read_ready(&mut context).is_pending(),
        }
    }
}

impl Socket {
    /// The address of this end; `None` of a Unix socket.
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

/// The stream that a connection is read from and written to.
#[derive(Debug)]
pub enum DialedStream {
    /// The socket alone.
    Plain(Socket),
    /// TLS on it.
    Tls(DialedTls),
}

/// A socket on which TLS is spoken; says so when it ends.
#[derive(Debug)]
pub struct DialedTls(Box<TlsStream<Socket>>);

impl DialedTls {
    /// Shakes hands on a connected socket.
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
            Err(error) if inner(&error).is_some() => Err(told(error)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(io::Error::new(
                error.kind(),
                "it closed the connection during the handshake; perhaps it does not speak TLS on this port",
            )),
            Err(error) => Err(error),
        }
    }

    /// The protocol that was agreed on for inside (RFC 7301).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.0.get_ref().1.alpn_protocol()
    }
}

impl Drop for DialedTls {
    fn drop(&mut self) {
        // RFC 8446 §6.1: an end in good order says so. What the socket does not take at once is not waited for.
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
                .map_err(told),
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
    /// Sends some of `bytes`. With TLS, what has been taken may still be on its way out: it goes on with every other call here.
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
                    // A failure is told by whatever is done next.
                    let _ = Pin::new(&mut **stream).poll_flush(context);
                }
                taken.map_err(told)
            }
        }
    }

    /// Waits until all that was taken has gone out.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            DialedStream::Plain(_) => Poll::Ready(Ok(())),
            DialedStream::Tls(DialedTls(stream)) => {
                Pin::new(&mut **stream).poll_flush(context).map_err(told)
            }
        }
    }

    /// Reads behind what `buffer` has, which must have room left; 0 at the end.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        // The futures keep nothing between two calls.
        match self {
            DialedStream::Plain(socket) => pin!(socket.read_buf(buffer)).poll(context),
            DialedStream::Tls(DialedTls(stream)) => {
                // Bytes that were taken to be sent go out while an answer is waited for.
                let _ = Pin::new(&mut **stream).poll_flush(context);
                pin!(stream.read_buf(buffer)).poll(context).map_err(told)
            }
        }
    }

    /// Says that nothing more will be sent.
    pub fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            DialedStream::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            DialedStream::Tls(DialedTls(stream)) => {
                Pin::new(&mut **stream).poll_shutdown(context).map_err(told)
            }
        }
    }

    /// As far as the event loop knows: the server has neither closed it nor said anything unasked. What TLS says for itself (tickets,
    /// new keys) is no such thing.
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

    /// The socket below.
    pub fn socket(&self) -> &Socket {
        match self {
            DialedStream::Plain(socket) => socket,
            DialedStream::Tls(DialedTls(stream)) => stream.get_ref().0,
        }
    }
}

/// The error of TLS in one of I/O.
fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// An error that says what was wrong with TLS, if something was.
fn told(error: io::Error) -> io::Error {
    match inner(&error) {
        Some(fault) => io::Error::new(error.kind(), explain(fault)),
        // An attacker can cut a connection, but not say goodbye in the server's name (RFC 9112 §9.8).
        None if error.kind() == io::ErrorKind::UnexpectedEof => io::Error::new(
            error.kind(),
            "it closed the connection without TLS's `close_notify`",
        ),
        None => error,
    }
}
