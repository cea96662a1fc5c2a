//! A UDP socket that is connected to a server: the kernel takes datagrams of this server only, and reports that nothing receives there.

use std::io;
use std::net::UdpSocket as BlockingSocket;
use std::os::fd::AsFd as _;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tutti_dialer::Address;
use tutti_sys::datagrams::{self, Recipient};

use crate::failure::UpstreamError;
use crate::server::GroupServer;

/// The socket of one client's datagrams.
#[derive(Debug)]
pub struct UpstreamDatagrams(UdpSocket);

impl UpstreamDatagrams {
    /// Opens a socket and connects it, which sends nothing.
    ///
    /// # Errors
    /// There is no free descriptor, or no route to the server.
    pub fn open(server: &GroupServer) -> Result<Self, UpstreamError> {
        let endpoint = server.endpoint().map_err(UpstreamError::Connect)?;
        let connect = || {
            let Address::Inet(address) = endpoint else {
                return Err(io::ErrorKind::Unsupported.into());
            };
            let socket = BlockingSocket::from(datagrams::socket(&Recipient::Inet(address))?);
            socket.connect(address)?;
            UdpSocket::from_std(socket)
        };
        let connected = connect().map(Self);
        connected.map_err(|error| UpstreamError::of_connect(error, &endpoint))
    }

    /// Sends a datagram, or returns why it is not sent. A refused connection is reported for an earlier one (udp(7)).
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::send(self.0.as_fd(), datagram, flags)?;
        Ok(())
    }

    /// Receives a datagram into `room`, which holds the longest one; returns its length.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            self.watch_for_errors(context);
            match rustix::net::recv(self.0.as_fd(), &mut *room, RecvFlags::DONTWAIT) {
                Ok((length, _)) => return Poll::Ready(Ok(length)),
                Err(Errno::AGAIN) => {}
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
            ready!(self.0.poll_recv_ready(context))?;
            self.clear(Interest::READABLE);
        }
    }

    /// Wakes the task when there is an error, which epoll reports as room to send if nothing can be read.
    fn watch_for_errors(&self, context: &mut Context<'_>) {
        for _ in 0..2 {
            if self.0.poll_send_ready(context).is_pending() {
                return;
            }
            self.clear(Interest::WRITABLE);
        }
    }

    /// Waits for the next event: the caller has tried, or will.
    fn clear(&self, interest: Interest) {
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.0.try_io(interest, nothing);
    }
}
