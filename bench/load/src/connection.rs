//! One client connection: non-blocking connect, one request, one framed response.

use std::io;
use std::net::SocketAddr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Where to connect and what to ask.
pub(crate) struct Target {
    address: SocketAddr,
    request: Vec<u8>,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, path: &str) -> Self {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: tutti-load\r\n\r\n");
        Self {
            address,
            request: request.into_bytes(),
        }
    }
}

/// The outcome of a turn of a readable or writable connection.
pub(crate) enum Progress {
    /// Nothing complete yet.
    Pending,
    /// The answer is complete; `reusable` unless the server announced or made the end of the connection.
    Answered { status: u16, reusable: bool },
    /// The connection ended or failed before the answer was complete.
    Failed,
    /// The server closed an idle connection.
    Closed,
}

/// An open connection and what has been read of the answer that is awaited.
pub(crate) struct LoadConnection {
    socket: OwnedFd,
    received: Vec<u8>,
    unsent: usize,
    awaiting: bool,
}

impl LoadConnection {
    /// Starts connecting and leaves the request to be sent when the socket is writable.
    pub(crate) fn open(target: &Target) -> io::Result<Self> {
        let family = if target.address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        match rustix::net::connect(&socket, &target.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self {
            socket,
            received: Vec::new(),
            unsent: target.request.len(),
            awaiting: true,
        })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn is_awaiting(&self) -> bool {
        self.awaiting
    }

    /// Begins another request on a kept connection.
    pub(crate) fn ask(&mut self, target: &Target) {
        self.received.clear();
        self.unsent = target.request.len();
        self.awaiting = true;
    }

    /// Sends what is still to be sent. A socket that cannot take it yet is not an error.
    pub(crate) fn send(&mut self, target: &Target) -> Result<(), Errno> {
        while self.unsent > 0 {
            let start = target.request.len() - self.unsent;
            let Some(rest) = target.request.get(start..) else {
                return Ok(());
            };
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => self.unsent -= count,
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until the answer is complete or the socket is empty.
    pub(crate) fn receive(&mut self) -> Progress {
        let mut buffer = [0_u8; 16 * 1024];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((_, 0)) if !self.awaiting => return Progress::Closed,
                Ok((_, 0)) => return self.ended(),
                Ok((_, count)) => {
                    self.received
                        .extend_from_slice(buffer.get(..count).unwrap_or_default());
                    match parse(&self.received) {
                        ResponseRead::Partial => {}
                        ResponseRead::Malformed => return Progress::Failed,
                        ResponseRead::Complete { status, reusable } => {
                            self.awaiting = false;
                            return Progress::Answered { status, reusable };
                        }
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return Progress::Pending,
                Err(_) if !self.awaiting => return Progress::Closed,
                Err(_) => return Progress::Failed,
            }
        }
    }

    /// End of stream while an answer was awaited: complete only if the end of the connection frames it.
    fn ended(&mut self) -> Progress {
        self.awaiting = false;
        let Some(head) = Head::parse(&self.received) else {
            return Progress::Failed;
        };
        if head.length.is_none() && !head.chunked && head.status != 0 {
            return Progress::Answered {
                status: head.status,
                reusable: false,
            };
        }
        Progress::Failed
    }
}

enum ResponseRead {
    Partial,
    Malformed,
    Complete { status: u16, reusable: bool },
}

struct Head {
    status: u16,
    end: usize,
    length: Option<usize>,
    chunked: bool,
    close: bool,
}

impl Head {
    /// `None` while the head is incomplete; a status of 0 when it is not HTTP/1.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(bytes.get(..end)?).to_ascii_lowercase();
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first
            .strip_prefix("http/1.")
            .and_then(|rest| rest.get(2..5))
            .and_then(|code| code.parse().ok());
        let mut head = Self {
            status: status.unwrap_or(0),
            end,
            length: None,
            chunked: false,
            close: false,
        };
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            match name {
                "content-length" => head.length = value.trim().parse().ok(),
                "transfer-encoding" => head.chunked = value.contains("chunked"),
                "connection" => head.close = value.contains("close"),
                _ => {}
            }
        }
        Some(head)
    }
}

fn parse(bytes: &[u8]) -> ResponseRead {
    let Some(head) = Head::parse(bytes) else {
        return ResponseRead::Partial;
    };
    if head.status == 0 {
        return ResponseRead::Malformed;
    }
    let body = bytes.get(head.end..).unwrap_or_default();
    let complete = match head.length {
        Some(length) if body.len() > length => return ResponseRead::Malformed,
        Some(length) => body.len() == length,
        None if head.chunked => is_last_chunk_in(body),
        None => false,
    };
    if complete {
        ResponseRead::Complete {
            status: head.status,
            reusable: !head.close,
        }
    } else {
        ResponseRead::Partial
    }
}

/// Walks the chunks: only a zero chunk at a chunk boundary ends the body.
fn is_last_chunk_in(mut body: &[u8]) -> bool {
    loop {
        let Some(line_end) = body.windows(2).position(|window| window == b"\r\n") else {
            return false;
        };
        let size = body
            .get(..line_end)
            .and_then(|line| std::str::from_utf8(line).ok());
        let size = size
            .and_then(|line| line.split(';').next())
            .and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
        let Some(size) = size else { return false };
        let Some(rest) = body.get(line_end + 2..) else {
            return false;
        };
        if size == 0 {
            return rest.starts_with(b"\r\n");
        }
        let Some(next) = rest.get(size + 2..) else {
            return false;
        };
        body = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_complete(text: &str) -> bool {
        matches!(parse(text.as_bytes()), ResponseRead::Complete { .. })
    }

    #[test]
    fn content_length_frames_an_answer() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert!((0..whole.len()).all(|end| !is_complete(&whole[..end])));
        assert!(is_complete(whole));
    }

    #[test]
    fn a_zero_inside_a_chunk_does_not_end_the_body() {
        let whole =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n";
        assert!((0..whole.len()).all(|end| !is_complete(&whole[..end])));
        assert!(is_complete(whole));
    }

    #[test]
    fn close_is_honoured_and_more_than_announced_is_malformed() {
        let answer = parse(b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        assert!(matches!(
            answer,
            ResponseRead::Complete {
                status: 503,
                reusable: false
            }
        ));
        assert!(matches!(
            parse(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx"),
            ResponseRead::Malformed
        ));
    }
}
