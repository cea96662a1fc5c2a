//! Messages to a recipient that may be away, come back, or stand still: a syslog server.
//!
//! The socket is connected, so that the kernel reports when a recipient takes no more; whichever process has the socket connects it again
//! when a recipient was not there. What must never happen: that a sender waits.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// A datagram socket in the file system.
    Path(PathBuf),
    /// UDP.
    Inet(SocketAddr),
}

/// Returns a socket to send to `recipient` with. The recipient need not be there.
pub fn socket(recipient: &Recipient) -> io::Result<OwnedFd> {
    let family = match recipient {
        Recipient::Path(_) => AddressFamily::UNIX,
        Recipient::Inet(SocketAddr::V4(_)) => AddressFamily::INET,
        Recipient::Inet(SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        family,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// A message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// A message before it has not arrived: over UDP that is known only now.
    pub(crate) is_former_lost: bool,
}

/// Sends a message whole.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    recipient: &Recipient,
    message: &[u8],
) -> Result<Sent, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let is_former_lost = match rustix::net::send(socket, message, flags) {
        Ok(_) => {
            return Ok(Sent {
                is_former_lost: false,
            });
        }
        // udp(7): the error of a message before this one, which has not been sent.
        Err(Errno::CONNREFUSED) if matches!(recipient, Recipient::Inet(_)) => true,
        // The recipient was never there, or is gone.
        Err(
            Errno::NOTCONN
            | Errno::DESTADDRREQ
            | Errno::CONNREFUSED
            | Errno::CONNRESET
            | Errno::PIPE,
        ) => {
            connect(socket, recipient)?;
            false
        }
        Err(errno) => return Err(errno),
    };
    rustix::net::send(socket, message, flags)?;
    Ok(Sent { is_former_lost })
}

fn connect(socket: BorrowedFd<'_>, recipient: &Recipient) -> Result<(), Errno> {
    match recipient {
        Recipient::Path(path) => rustix::net::connect(socket, &SocketAddrUnix::new(path)?),
        Recipient::Inet(address) => rustix::net::connect(socket, address),
    }
}
