//! Headers of the PROXY protocol at the start of a connection: who it is from, said by a proxy before us.
//!
//! The bytes are looked at before they are taken, so that whatever follows the header (a request, a TLS handshake) is found where it
//! always is. Called only for connections from proxies that may say so; those must have a header.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::unix::AsyncFd;
use tutti_gateway::proxy_protocol::{self, Announced, MAX_BYTES, Malformed, Progress};

/// The reason why a connection has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyHeaderError {
    /// The bytes are none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The proxy has closed the connection; it knows why.
    #[error("the proxy has closed it")]
    Closed,
}

impl From<Errno> for ProxyHeaderError {
    fn from(_: Errno) -> Self {
        Self::Closed
    }
}

/// Reads the header, and nothing behind it, when it has come whole; the caller has a deadline.
///
/// # Errors
/// The connection cannot be served.
pub fn poll_proxy_header(
    io: &AsyncFd<OwnedFd>,
    cx: &mut Context<'_>,
) -> Poll<Result<Announced, ProxyHeaderError>> {
    while let Poll::Ready(ready) = io.poll_read_ready(cx) {
        let Ok(mut guard) = ready else {
            return Poll::Ready(Err(ProxyHeaderError::Closed));
        };
        let mut bytes = [0; MAX_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(io.get_ref(), &mut bytes, flags) {
            Ok((_, 0)) => return Poll::Ready(Err(ProxyHeaderError::Closed)),
            Ok((_, count)) => {
                let bytes = bytes.get(..count).unwrap_or_default();
                match proxy_protocol::read(bytes).map_err(ProxyHeaderError::from)? {
                    Progress::Complete { announced, length } => {
                        let mut header = vec![0; length];
                        // They are there: this takes exactly the header.
                        rustix::net::recv(io.get_ref(), &mut *header, RecvFlags::DONTWAIT)?;
                        return Poll::Ready(Ok(announced));
                    }
                    // The bytes stay where they are; more of them wake this task.
                    Progress::Incomplete => guard.clear_ready(),
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => guard.clear_ready(),
            Err(errno) => return Poll::Ready(Err(errno.into())),
        }
    }
    Poll::Pending
}
