//! Writing memory that another process may be changing, without ever making a Rust reference to it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A stretch of memory named by address only. It may lie in a shared mapping: Rust code never looks at it, only
/// the kernel copies from it.
#[derive(Debug, Clone, Copy)]
pub struct MemorySpan {
    /// First byte.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

impl MemorySpan {
    /// The span of bytes we own.
    pub fn of(bytes: &[u8]) -> MemorySpan {
        MemorySpan {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

/// Most spans of one call that are not copied to the heap.
const INLINE: usize = 16;

/// `writev` of spans to a socket or file; the number of bytes taken. More than 16 spans: the first 16 are written.
///
/// An address that is not mapped gives `EFAULT`: the kernel reads the memory, checked, and nothing is written to
/// it, which is why this is a safe function.
pub fn write_spans(fd: BorrowedFd<'_>, spans: &[MemorySpan]) -> io::Result<usize> {
    let mut parts = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; INLINE];
    let mut count: usize = 0;
    for (part, span) in parts.iter_mut().zip(spans) {
        *part = libc::iovec {
            iov_base: span.ptr.cast_mut().cast(),
            iov_len: span.len,
        };
        count += 1;
    }
    // SAFETY: msghdr is a C struct of integers and pointers, for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    // Its type differs between C libraries.
    message.msg_iovlen = count as _;
    // SAFETY: `message` points at `count` initialised iovecs that live through the call; the kernel only reads
    // what they name, checking each address (EFAULT).
    let written = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if written >= 0 {
        return Ok(usize::try_from(written).unwrap_or(0));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::ENOTSOCK) {
        return Err(error);
    }
    // SAFETY: as above; a pipe or file instead of a socket.
    let written = unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), count as libc::c_int) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use tutti_testkit::wait_until;

    use super::*;

    #[test]
    fn spans_arrive_in_order_on_sockets_and_pipes() {
        let (a, mut b) = UnixStream::pair().unwrap();
        assert_eq!(
            write_spans(
                a.as_fd(),
                &[MemorySpan::of(b"head "), MemorySpan::of(b"body")]
            )
            .unwrap(),
            9
        );
        drop(a);
        let mut text = String::new();
        b.read_to_string(&mut text).unwrap();
        assert_eq!(text, "head body");

        let (mut reader, writer) = std::io::pipe().unwrap();
        assert_eq!(
            write_spans(
                writer.as_fd(),
                &[MemorySpan::of(b"x"), MemorySpan::of(b"y")]
            )
            .unwrap(),
            2
        );
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "xy");
    }

    #[test]
    fn a_wrong_address_is_an_error() {
        let (a, _b) = UnixStream::pair().unwrap();
        let wild = MemorySpan {
            ptr: std::ptr::without_provenance(8),
            len: 4,
        };
        assert_eq!(
            write_spans(a.as_fd(), &[wild]).unwrap_err().raw_os_error(),
            Some(libc::EFAULT)
        );
    }

    #[test]
    fn a_closed_peer_is_an_error_not_a_signal() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        // A child that another test has just forked holds the peer until it executes its program.
        let mut refused = None;
        wait_until("the peer is closed", || {
            refused = write_spans(a.as_fd(), &[MemorySpan::of(b"x")]).err();
            refused.is_some()
        });
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::BrokenPipe);
    }
}
