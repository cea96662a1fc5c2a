//! Messages with descriptors over `SOCK_SEQPACKET`.
//!
//! One `send` is one message, whole or not at all. A message that was cut (too long for the buffer) is an error at the
//! receiver, never a silently shorter one. A message whose descriptors cannot be received, because this process has too
//! many open, stays in the socket. Descriptors received are close-on-exec and owned at once, so none can leak.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::error::context;

/// Most descriptors one message can carry (`SCM_MAX_FD` of the kernel).
pub const MAX_DESCRIPTORS: usize = 253;

/// Longest message passed inline; longer payloads travel in a memory file. Well under the default socket buffer
/// (`net.core.wmem_default`, 212,992 bytes), so several fit.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// The pause before a message is received again that stayed in the socket for want of descriptors.
pub const LACK_PAUSE: Duration = Duration::from_millis(100);

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Number of bytes in the buffer.
    pub len: usize,
    /// Descriptors that came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// A connected pair, close-on-exec, blocking.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|e| context("creating a message socket pair", e))
}

/// Makes a descriptor non-blocking.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

/// Sends one message with descriptors. On a non-blocking socket `WouldBlock` means nothing was sent.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors in one message",
        ));
    }
    let mut space =
        vec![MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "descriptors do not fit the message",
        ));
    }
    loop {
        match rustix::net::sendmsg(
            fd,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        ) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Receives one message; `None` when the other side has closed.
///
/// # Errors
/// [`lacks_descriptors`]: the message is still in the socket, and in the buffer. Receive it again after a pause, or with
/// [`receive_bytes`]. `InvalidData`: it was longer than the buffer, and is lost.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<ReceivedMessage>> {
    let mut space =
        vec![MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    // Taken out of the socket, a message would lose the descriptors that exceed the limit (unix(7), `MSG_CTRUNC`).
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK;
    let Some((len, cut)) = receive_with(fd, buffer, &mut ancillary, flags)? else {
        return Ok(None);
    };
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    // The buffer holds as many as a message can have.
    if cut.contains(ReturnFlags::CTRUNC) {
        return Err(rustix::io::Errno::MFILE.into());
    }
    receive_with(
        fd,
        &mut [0],
        &mut RecvAncillaryBuffer::default(),
        RecvFlags::empty(),
    )?;
    if cut.contains(ReturnFlags::TRUNC) {
        return Err(too_long());
    }
    if len == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    Ok(Some(ReceivedMessage { len, descriptors }))
}

/// Receives one message without its descriptors, and returns its length; `None` when the other side has closed.
pub fn receive_bytes(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut none = RecvAncillaryBuffer::default();
    match receive_with(fd, buffer, &mut none, RecvFlags::empty())? {
        Some((_, cut)) if cut.contains(ReturnFlags::TRUNC) => Err(too_long()),
        Some((0, _)) | None => Ok(None),
        Some((len, _)) => Ok(Some(len)),
    }
}

/// True if an operation failed because this process or the system has too many descriptors open.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn receive_with(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    ancillary: &mut RecvAncillaryBuffer<'_>,
    flags: RecvFlags,
) -> io::Result<Option<(usize, ReturnFlags)>> {
    loop {
        match rustix::net::recvmsg(fd, &mut [IoSliceMut::new(buffer)], ancillary, flags) {
            Ok(message) => return Ok(Some((message.bytes, message.flags))),
            Err(rustix::io::Errno::INTR) => {}
            // A peer that was killed with messages unread: as gone as one that closed.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "message was cut: longer than the buffer",
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let (a, b) = pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(a.as_fd(), b"take this", &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut buffer = [0u8; 100];
        let mut got = receive(b.as_fd(), &mut buffer).unwrap().unwrap();
        assert_eq!(&buffer[..got.len], b"take this");
        let mut sent = std::fs::File::from(got.descriptors.pop().unwrap());
        sent.write_all(b"x").unwrap();
        drop(sent);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(text, b"x");
        drop(a);
        assert!(receive(b.as_fd(), &mut buffer).unwrap().is_none());
    }

    #[test]
    fn a_cut_message_is_an_error() {
        let (a, b) = pair().unwrap();
        send(a.as_fd(), &[7; 200], &[]).unwrap();
        let mut small = [0u8; 100];
        assert_eq!(
            receive(b.as_fd(), &mut small).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
