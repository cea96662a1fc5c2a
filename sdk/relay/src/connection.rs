//! Connections to the program, kept between requests.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tutti_http::{HeadError, MessageLimits, Progress, ResponseHead, ResponseView};
use tutti_sys::tcp::refuse_itself;

use crate::address::Address;

/// The interval at which idle connections are looked at.
pub(super) const SWEEP: Duration = Duration::from_secs(1);
/// A connection that has been idle at so many looks is closed: many servers close theirs after five seconds, and a request
/// that meets the closing would have to be given up. Looks are counted so that no request has to read the clock.
const LONGEST_REST: u32 = 4;
/// Pause between two attempts while the backlog of a Unix socket is full.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);
/// Bytes read at once.
const READ_SIZE: usize = 16 * 1024;

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection, with what has been read from it and not used yet.
#[derive(Debug)]
pub(crate) struct RelayConnection {
    stream: Stream,
    pub(crate) received: Vec<u8>,
    /// The head of the answer, which is at the front of `received`; and its room, kept between requests.
    head: ResponseHead,
    /// Room for what is sent, kept between requests.
    pub(crate) out: Vec<u8>,
    /// It has carried a request before.
    pub(crate) is_used: bool,
    /// A field of ours gives the program the client's address.
    pub(crate) tells_client: bool,
}

impl RelayConnection {
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    /// Reads more; how many bytes, 0 at the end.
    pub(crate) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.received.reserve(READ_SIZE);
        // The futures keep nothing between two calls.
        match &mut self.stream {
            Stream::Tcp(stream) => pin!(stream.read_buf(&mut self.received)).poll(context),
            Stream::Unix(stream) => pin!(stream.read_buf(&mut self.received)).poll(context),
        }
    }

    /// Reads the head that `received` begins with.
    pub(crate) fn parse(&mut self, limits: &MessageLimits) -> Result<Progress, HeadError> {
        self.head.parse(&self.received, limits)
    }

    /// The head that was parsed and has not been consumed.
    pub(crate) fn answer(&self) -> ResponseView<'_> {
        self.head.view(&self.received)
    }

    /// Forgets what has been dealt with.
    pub(crate) fn consume(&mut self, count: usize) {
        if count >= self.received.len() {
            self.received.clear();
        } else {
            self.received.drain(..count);
        }
    }

    /// True if the program has neither closed it nor said anything unasked.
    fn is_at_rest(&self) -> bool {
        let mut byte = [0];
        let result = match &self.stream {
            Stream::Tcp(stream) => stream.try_read(&mut byte),
            Stream::Unix(stream) => stream.try_read(&mut byte),
        };
        matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Connects; while the program's backlog is full, the request waits, as a TCP connection would.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            // The kernel does not report when the backlog has room again (unix(7), `EAGAIN`).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(BACKLOG_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

#[derive(Debug)]
struct Resting {
    connection: Box<RelayConnection>,
    /// Looks at it since it was used.
    looks: u32,
}

/// The connections of one worker to its program.
#[derive(Debug)]
pub(crate) struct Pool {
    address: Address,
    most: usize,
    tells_client: bool,
    resting: RefCell<Vec<Resting>>,
    is_swept: Cell<bool>,
}

impl Pool {
    pub(crate) fn new(address: Address, most: usize, tells_client: bool) -> Pool {
        Pool {
            address,
            most,
            tells_client,
            resting: RefCell::default(),
            is_swept: Cell::default(),
        }
    }

    /// A kept connection, the last used first, or a new one.
    pub(crate) async fn get(&self) -> io::Result<Box<RelayConnection>> {
        loop {
            let Some(resting) = self.resting.borrow_mut().pop() else {
                return self.open().await;
            };
            if resting.connection.is_at_rest() {
                return Ok(resting.connection);
            }
        }
    }

    /// A new connection.
    pub(crate) async fn open(&self) -> io::Result<Box<RelayConnection>> {
        let stream = match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                refuse_itself(&stream)?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Address::Unix(path) => Stream::Unix(connect_unix(path).await?),
        };
        Ok(Box::new(RelayConnection {
            stream,
            received: Vec::new(),
            head: ResponseHead::new(),
            out: Vec::new(),
            is_used: false,
            tells_client: self.tells_client,
        }))
    }

    /// Keeps a connection whose answer is complete. True: [`sweep`](Self::sweep) is to be called from now on, until it
    /// says that nothing is left.
    #[must_use]
    pub(crate) fn keep(&self, mut connection: Box<RelayConnection>) -> bool {
        let mut resting = self.resting.borrow_mut();
        if connection.received.is_empty() && resting.len() < self.most {
            connection.is_used = true;
            resting.push(Resting {
                connection,
                looks: 0,
            });
            return !self.is_swept.replace(true);
        }
        false
    }

    /// Closes what has rested too long; true if anything is left. To be called each [`SWEEP`].
    pub(crate) fn sweep(&self) -> bool {
        let mut resting = self.resting.borrow_mut();
        resting.retain_mut(|resting| {
            resting.looks += 1;
            resting.looks < LONGEST_REST && resting.connection.is_at_rest()
        });
        self.is_swept.set(!resting.is_empty());
        !resting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

    use super::*;

    #[test]
    fn a_request_waits_while_the_backlog_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let program = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&program, 0).unwrap();
        let mut waiting = 0;
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                    .unwrap();
            match rustix::net::connect(&socket, &SocketAddrUnix::new(&path).unwrap()) {
                Ok(()) => waiting += 1,
                Err(error) => {
                    assert_eq!(error, rustix::io::Errno::AGAIN);
                    break;
                }
            }
        }
        assert!(waiting > 0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let pool = Pool::new(Address::Unix(path), 1, false);
            let mut opened = pin!(pool.open());
            assert!(poll_once(opened.as_mut()).await.is_pending());
            for _ in 0..waiting {
                program.accept().unwrap();
            }
            opened.await.unwrap();
        });
    }

    /// Polls once, in the context of the caller.
    async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
        std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
    }
}
