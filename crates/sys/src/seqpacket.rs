//! Messages with descriptors over `SOCK_SEQPACKET`.
//!
//! One `send` is one message, whole or not at all. A message that was cut (too long for the buffer, too many
//! descriptors) is an error at the receiver, never a silently shorter one; descriptors received are close-on-exec
//! and owned at once, so none can leak.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

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
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<ReceivedMessage>> {
    let mut space =
        vec![MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut parts = [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(fd, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message,
            Err(rustix::io::Errno::INTR) => {}
            // A peer that was killed with messages unread: as gone as one that closed.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    };
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if message
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "message was cut: too long or too many descriptors",
        ));
    }
    if message.bytes == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    Ok(Some(ReceivedMessage {
        len: message.bytes,
        descriptors,
    }))
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
