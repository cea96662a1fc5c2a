//! HTTP/2 frame by frame, for requests that no conforming client sends; header blocks are literals without compression (RFC 7541 §6.2.2).

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tutti_testkit::PATIENCE;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Fields as a header block.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0); // not indexed, with a new name
        for text in [name, value] {
            // A length with a prefix of seven bits (RFC 7541 §5.1).
            let mut rest = text.len();
            if rest < 127 {
                block.push(rest as u8);
            } else {
                block.push(127);
                rest -= 127;
                while rest >= 128 {
                    block.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                block.push(rest as u8);
            }
            block.extend(text.bytes());
        }
    }
    block
}

/// The header block of a GET.
pub(crate) fn get(target: &str) -> Vec<u8> {
    block(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", target),
    ])
}

/// A connection on which frames are sent and read.
pub(crate) struct Frames {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Frames {
    /// A connection that has been opened.
    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Connects; sends the preface and these settings.
    pub(crate) fn to(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut frames = Self::of(TcpStream::connect(address).unwrap());
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        opening.extend(frame(SETTINGS, 0, 0, &payload));
        // The acknowledgement of the server's SETTINGS, which will arrive: its windows apply once they are acknowledged.
        opening.extend(frame(SETTINGS, ACK, 0, b""));
        frames.send(&opening);
        frames
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends at most this often, until the server reads no more. The server is expected to have closed the connection.
    pub(crate) fn flood(&mut self, bytes: &[u8], times: usize) {
        for _ in 0..times {
            if self.stream.write_all(bytes).is_err() {
                return;
            }
        }
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(head) = self.buffer.get(..9) {
                let length =
                    usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                if self.buffer.len() >= 9 + length {
                    let bytes: Vec<u8> = self.buffer.drain(..9 + length).collect();
                    return Some(Frame {
                        kind: bytes[3],
                        flags: bytes[4],
                        stream: u32::from_be_bytes(bytes[5..9].try_into().unwrap()),
                        payload: bytes[9..].to_vec(),
                    });
                }
            }
            let mut bytes = [0; 16 * 1024];
            let read = match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                read => read.expect("something comes"),
            };
            if read == 0 {
                return None;
            }
            self.buffer.extend_from_slice(&bytes[..read]);
        }
    }

    /// The next frame, if it arrives soon; otherwise `None`.
    pub(crate) fn soon(&mut self) -> Option<Frame> {
        if self.buffer.is_empty() {
            let timeout = Some(Duration::from_millis(50));
            self.stream.set_read_timeout(timeout).unwrap();
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
            if let Err(error) = peeked
                && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            {
                return None;
            }
        }
        Some(self.next().expect("the connection is open"))
    }

    /// The next frame of this kind; skips others.
    pub(crate) fn next_of(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().expect("the connection is open");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// The error code of the GOAWAY that ends the connection, not 0; the end of the connection follows.
    pub(crate) fn error(&mut self) -> u32 {
        let mut code = None;
        while let Some(frame) = self.next() {
            if frame.kind == GOAWAY {
                code = Some(frame.code());
            }
        }
        code.expect("a GOAWAY")
    }

    /// Reads a stream to its end. Returns the first byte of its header block, which for a usual status is that of the static table, and its
    /// body; `None` if it is reset.
    pub(crate) fn response(&mut self, stream: u32) -> Option<(u8, Vec<u8>)> {
        let mut status = 0;
        let mut body = Vec::new();
        loop {
            let frame = self.next().expect("the connection is open");
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                HEADERS => status = frame.payload[0],
                DATA => body.extend(&frame.payload),
                RST_STREAM => return None,
                _ => {}
            }
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                return Some((status, body));
            }
        }
    }
}

/// `:status: 200` in the static table (RFC 7541, appendix A).
pub(crate) const OK: u8 = 0x88;
