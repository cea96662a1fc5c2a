//! Headers of the PROXY protocol at the start of a connection: its client's address, from a trusted proxy.
//!
//! The bytes are peeked at before they are taken, so that what follows the header (a request, a TLS handshake) stays in the socket. Called
//! only for connections from trusted proxies; those must have a header.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::unix::AsyncFd;
use tutti_gateway::proxy_protocol::{self, HeaderProgress, MAX_BYTES, Malformed, Proxied};

/// Why a connection has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyHeaderError {
    /// The bytes are not a header.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The proxy has closed the connection.
    #[error("the proxy has closed it")]
    Closed,
}

impl From<Errno> for ProxyHeaderError {
    fn from(_: Errno) -> Self {
        Self::Closed
    }
}

/// Reads exactly the header, once it is complete; the caller has a deadline.
pub fn poll_proxy_header(
    io: &AsyncFd<OwnedFd>,
    cx: &mut Context<'_>,
) -> Poll<Result<Proxied, ProxyHeaderError>> {
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
                    HeaderProgress::Complete { proxied, length } => {
                        let mut header = vec![0; length];
                        // The bytes are there: this takes exactly the header.
                        rustix::net::recv(io.get_ref(), &mut *header, RecvFlags::DONTWAIT)?;
                        return Poll::Ready(Ok(proxied));
                    }
                    // Everything that the proxy has sent has been peeked at.
                    HeaderProgress::Incomplete if guard.ready().is_read_closed() => {
                        return Poll::Ready(Err(ProxyHeaderError::Closed));
                    }
                    // The bytes stay in the socket; more of them wake this task.
                    HeaderProgress::Incomplete => guard.clear_ready(),
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => guard.clear_ready(),
            Err(errno) => return Poll::Ready(Err(errno.into())),
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use tokio::io::Interest;
    use tokio::runtime::Builder;

    use super::*;
    use crate::socket::watch;

    const HEADER: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 5000 80\r\n";

    /// Reads the header of a connection to which `send` writes; also returns the bytes after it.
    fn read(
        send: impl FnOnce(UnixStream) + Send + 'static,
    ) -> (Result<Proxied, ProxyHeaderError>, Vec<u8>) {
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (here, there) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let mut rest = here.try_clone().unwrap();
            let io = watch(OwnedFd::from(here), Interest::READABLE).unwrap();
            let sender = std::thread::spawn(move || send(there));
            let outcome = poll_fn(|cx| poll_proxy_header(&io, cx)).await;
            sender.join().unwrap();
            rest.set_nonblocking(false).unwrap();
            let mut bytes = Vec::new();
            rest.read_to_end(&mut bytes).unwrap();
            (outcome, bytes)
        })
    }

    #[test]
    fn a_header_in_pieces_is_taken_and_nothing_behind_it() {
        let (outcome, rest) = read(|mut stream| {
            for byte in HEADER {
                stream.write_all(&[*byte]).unwrap();
                std::thread::yield_now();
            }
            stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        });
        let addresses = outcome.unwrap().addresses.unwrap();
        assert_eq!(addresses.source, "203.0.113.7:5000".parse().unwrap());
        assert_eq!(addresses.destination, "192.0.2.1:80".parse().unwrap());
        assert_eq!(rest, b"GET / HTTP/1.1\r\n");
    }

    #[test]
    fn other_bytes_and_the_end_are_distinguished() {
        let (outcome, rest) = read(|mut stream| stream.write_all(b"GET / HTTP/1.1\r\n").unwrap());
        assert_eq!(
            outcome.unwrap_err(),
            ProxyHeaderError::Malformed(Malformed::Missing)
        );
        assert_eq!(rest, b"GET / HTTP/1.1\r\n");
        let (outcome, _) = read(|stream| stream.shutdown(Shutdown::Both).unwrap());
        assert_eq!(outcome.unwrap_err(), ProxyHeaderError::Closed);
    }

    /// Issue 11: a connection whose proxy disconnected within its header was kept until the deadline.
    #[test]
    fn an_end_within_the_header_is_seen() {
        let (outcome, _) = read(|mut stream| stream.write_all(&HEADER[..20]).unwrap());
        assert_eq!(outcome.unwrap_err(), ProxyHeaderError::Closed);
    }
}
