//! A client of HTTP/3 that says whatever a test likes: fields of any bytes, frames in any order.
//!
//! Requests are written here, in the plainest form that QPACK has; only answers are read by the server's own code.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use quinn::{Connection, ReadError, ReadToEndError, RecvStream};
use tutti_http::http3::decode;

use crate::http3::connect_quic;

/// Kinds of frames (RFC 9114 §7.2).
pub const DATA: u64 = 0;
/// The other one.
pub const HEADERS: u64 = 1;

/// A field: name and value, whatever they are.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Answered(RawResponse),
    /// The server gave the stream up, with this code.
    Reset(u64),
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawResponse {
    /// Its fields, `:status` among them.
    pub fields: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl RawResponse {
    /// The status.
    pub fn status(&self) -> u16 {
        let status = self.fields.get(":status").map(|status| status.parse());
        status.and_then(Result::ok).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Outcome {
    /// True if no request has come of it: a status for mistakes of clients, or a stream that is given up.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Answered(answer) => [400, 413, 417, 431, 501].contains(&answer.status()),
            Self::Reset(_) => true,
        }
    }

    /// The answer.
    pub fn answered(self) -> RawResponse {
        match self {
            Self::Answered(answer) => answer,
            Self::Reset(code) => panic!("reset with {code:#x}"),
        }
    }
}

/// A connection.
pub struct Raw {
    /// QUIC's side of it.
    pub quic: Connection,
}

impl Raw {
    /// Connects to a port of this machine.
    pub async fn connect(port: u16) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let quic = connect_quic(address).await;
        Self { quic }
    }

    /// The answer to a GET with these fields more.
    pub async fn get(&self, path: &str, more: &[Field<'_>]) -> RawResponse {
        let head = head("GET", path, more);
        self.send(&head, None, &[]).await.answered()
    }

    /// Sends a head, a body and trailers, each where it is given, and returns what becomes of them.
    pub async fn send(
        &self,
        head: &[Field<'_>],
        body: Option<&[u8]>,
        trailers: &[Field<'_>],
    ) -> Outcome {
        let receiving = self.begin(head, body, trailers).await;
        Self::outcome(receiving).await
    }

    /// Sends likewise, and leaves the answer to [`outcome`](Self::outcome).
    pub async fn begin(
        &self,
        head: &[Field<'_>],
        body: Option<&[u8]>,
        trailers: &[Field<'_>],
    ) -> RecvStream {
        let mut bytes = frame(HEADERS, &section(head));
        if let Some(body) = body {
            bytes.extend(frame(DATA, body));
        }
        if !trailers.is_empty() {
            bytes.extend(frame(HEADERS, &section(trailers)));
        }
        self.write(&bytes).await
    }

    /// Sends these bytes as all that a stream has.
    pub async fn write(&self, bytes: &[u8]) -> RecvStream {
        let (mut sending, receiving) = self.quic.open_bi().await.expect("a stream");
        // A server that refuses a request need not read it.
        if sending.write_all(bytes).await.is_ok() {
            let _ = sending.finish();
        }
        receiving
    }

    /// Waits for the end of a request.
    pub async fn outcome(mut receiving: RecvStream) -> Outcome {
        match receiving.read_to_end(1 << 24).await {
            Ok(bytes) => Outcome::Answered(answer(&bytes)),
            Err(ReadToEndError::Read(ReadError::Reset(code))) => Outcome::Reset(code.into_inner()),
            Err(other) => panic!("{other}"),
        }
    }
}

/// The head of a request of `site.example`, with these fields more.
pub fn head<'f>(method: &'f str, path: &'f str, more: &[Field<'f>]) -> Vec<Field<'f>> {
    let mut head: Vec<Field<'f>> = vec![
        (b":method", method.as_bytes()),
        (b":scheme", b"https"),
        (b":authority", b"site.example"),
        (b":path", path.as_bytes()),
    ];
    head.extend_from_slice(more);
    head
}

/// A frame.
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    number(kind, &mut bytes);
    number(payload.len() as u64, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// A field section without tables and without Huffman's code (RFC 9204 §4.5.6).
pub fn section(fields: &[Field<'_>]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    for (name, value) in fields {
        prefixed(0x20, 3, name, &mut bytes);
        prefixed(0, 7, value, &mut bytes);
    }
    bytes
}

/// A string behind its length, which begins in the last `bits` bits of a byte (RFC 7541 §5.1).
fn prefixed(flags: u8, bits: u32, text: &[u8], out: &mut Vec<u8>) {
    let most = (1_usize << bits) - 1;
    if text.len() < most {
        out.push(flags | text.len() as u8);
    } else {
        out.push(flags | most as u8);
        let mut rest = text.len() - most;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(text);
}

/// An integer of QUIC (RFC 9000 §16), in four bytes where one does not do.
fn number(value: u64, out: &mut Vec<u8>) {
    match u8::try_from(value) {
        Ok(short) if short < 0x40 => out.push(short),
        _ => out.extend_from_slice(&(0x8000_0000 | value as u32).to_be_bytes()),
    }
}

/// Reads an integer and takes it from the front.
fn take_number(bytes: &mut &[u8]) -> u64 {
    let first = *bytes.first().expect("a number");
    let length = 1 << (first >> 6);
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    let mask = u64::MAX >> (64 - 8 * length + 2);
    number
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
        & mask
}

/// The frames of a stream as they come, in any pieces.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Content of the frame of DATA that has begun, which is to come.
    rest: u64,
}

/// A frame, or some of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole field section.
    Head(BTreeMap<String, String>),
    /// Some content.
    Data(Vec<u8>),
}

impl Frames {
    /// Takes what has come, and returns what that makes.
    pub fn take(&mut self, come: &[u8]) -> Vec<Frame> {
        self.bytes.extend_from_slice(come);
        let mut found = Vec::new();
        loop {
            if self.rest > 0 {
                let count = self.rest.min(self.bytes.len() as u64) as usize;
                if count == 0 {
                    return found;
                }
                found.push(Frame::Data(self.bytes.drain(..count).collect()));
                self.rest -= count as u64;
                continue;
            }
            let mut left = &self.bytes[..];
            let (Some(kind), Some(length)) = (try_number(&mut left), try_number(&mut left)) else {
                return found;
            };
            let head = self.bytes.len() - left.len();
            if kind == DATA {
                self.rest = length;
                self.bytes.drain(..head);
                continue;
            }
            let Some(payload) = left.get(..length as usize) else {
                return found;
            };
            if kind == HEADERS {
                found.push(Frame::Head(fields(payload)));
            }
            self.bytes.drain(..head + length as usize);
        }
    }
}

/// Reads an integer, if it is there whole.
fn try_number(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1_usize << (bytes.first()? >> 6);
    (bytes.len() >= length).then(|| take_number(bytes))
}

fn fields(section: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    decode(section, 1 << 16, |name, value| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.insert(text(name), text(value));
    })
    .expect("a section");
    fields
}

fn answer(mut bytes: &[u8]) -> RawResponse {
    let mut answer = RawResponse::default();
    while !bytes.is_empty() {
        let (kind, length) = (take_number(&mut bytes), take_number(&mut bytes));
        let (payload, rest) = bytes.split_at(length as usize);
        bytes = rest;
        match kind {
            DATA => answer.body.extend_from_slice(payload),
            HEADERS => answer.fields.extend(fields(payload)),
            _ => {}
        }
    }
    answer
}
