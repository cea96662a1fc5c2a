//! A connection to a server, watched by the event loop of the thread it belongs to.

use std::io;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::Millis;
use crate::server::{Server, Target};

/// A connection.
///
/// One task uses it at a time, and may wait for both directions at once. What is said on it is the user's business.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Requests that were answered on it before.
    requests: u64,
    /// When the last one was.
    pub(crate) idle_since: Millis,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Whatever stands against it; it may also take as long as the system tries.
    pub async fn open(server: &Server) -> io::Result<Connection> {
        let stream = match server.target()? {
            Target::Inet(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Target::Unix(address) => Stream::Unix(UnixStream::connect_addr(&address.into()).await?),
        };
        Ok(Connection {
            stream,
            requests: 0,
            idle_since: 0,
        })
    }

    /// It was kept from an earlier request.
    pub fn is_reused(&self) -> bool {
        self.requests > 0
    }

    /// A request has been answered on it.
    pub(crate) fn rest(&mut self, now: Millis) {
        self.requests += 1;
        self.idle_since = now;
    }

    /// Sends some of `bytes`.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Reads behind what `buffer` has, which must have room left; 0 at the end.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        // The futures keep nothing between two calls.
        match &mut self.stream {
            Stream::Tcp(stream) => pin!(stream.read_buf(buffer)).poll(context),
            Stream::Unix(stream) => pin!(stream.read_buf(buffer)).poll(context),
        }
    }

    /// Says that nothing more will be sent.
    pub fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    /// As far as the event loop knows: the server has neither closed it nor said anything unasked. Costs no system call.
    pub(crate) fn seems_at_rest(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        match &self.stream {
            Stream::Tcp(stream) => stream.poll_read_ready(&mut context).is_pending(),
            Stream::Unix(stream) => stream.poll_read_ready(&mut context).is_pending(),
        }
    }

    /// The same, asked of the system: for a request that cannot be repeated.
    pub fn is_at_rest(&self) -> bool {
        let socket = match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        };
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(
            rustix::net::recv(socket, &mut byte, flags),
            Err(Errno::AGAIN)
        )
    }
}
