//! The first message of a TLS client, without taking it from the socket: the code that handles the connection finds it there.
//!
//! The bytes are peeked at, as for the header of the PROXY protocol, so that the connection can be passed to a server or
//! be terminated here.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::unix::AsyncFd;
use tutti_tls::{HelloError, HelloProgress, MOST_HELLO_BYTES, TlsHello, read_hello};

/// Why there is no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeekError {
    /// The client has closed the connection before its first byte.
    #[error("the client has sent nothing")]
    Untouched,
    /// It has closed the connection before the message was complete.
    #[error("the client has closed it within its first TLS message")]
    Closed,
    /// The bytes are something else.
    #[error(transparent)]
    Hello(#[from] HelloError),
}

/// Reads the message, once it is complete; the caller has a deadline.
pub fn poll_client_hello(
    io: &AsyncFd<OwnedFd>,
    cx: &mut Context<'_>,
) -> Poll<Result<TlsHello, PeekError>> {
    while let Poll::Ready(ready) = io.poll_read_ready(cx) {
        let Ok(mut guard) = ready else {
            return Poll::Ready(Err(PeekError::Closed));
        };
        let mut bytes = Vec::with_capacity(MOST_HELLO_BYTES);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(io.get_ref(), spare_capacity(&mut bytes), flags) {
            Ok((0, _)) => return Poll::Ready(Err(PeekError::Untouched)),
            Ok(_) => match read_hello(&bytes).map_err(PeekError::from)? {
                HelloProgress::Complete(hello) => return Poll::Ready(Ok(hello)),
                // Everything that the client has sent has been peeked at.
                HelloProgress::Incomplete if guard.ready().is_read_closed() => {
                    return Poll::Ready(Err(PeekError::Closed));
                }
                // The bytes stay in the socket; more of them wake this task.
                HelloProgress::Incomplete => guard.clear_ready(),
            },
            Err(Errno::AGAIN) => guard.clear_ready(),
            Err(Errno::INTR) => {}
            Err(_) => return Poll::Ready(Err(PeekError::Closed)),
        }
    }
    Poll::Pending
}
