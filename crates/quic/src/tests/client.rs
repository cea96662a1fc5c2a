//! A client: QUIC by `quinn-proto`, HTTP/3 by the bytes of frames.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt,
};
use tutti_http::http3::frame::{DATA, FrameHead, HEADERS};
use tutti_http::http3::{MessagePart, MessageReader, decode, encode_fields};

use super::network::now;

/// The address of the server.
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 443);

pub(super) struct TestClient {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) state: Connection,
    address: SocketAddr,
    pub(super) is_connected: bool,
    /// Why the connection ended.
    pub(super) lost: Option<ConnectionError>,
    /// The streams that the server has stopped, with its codes.
    pub(super) stopped: HashMap<StreamId, u64>,
}

/// The received part of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) trailers: String,
    pub(super) end: End,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    NotYet,
    Whole,
    Reset(u64),
}

impl TestClient {
    pub(super) fn new(config: ClientConfig, number: u16) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 2], 1000 + number));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let connected = endpoint.connect(now(), config, SERVER.into(), "localhost");
        let (handle, state) = connected.unwrap();
        Self {
            endpoint,
            handle,
            state,
            address,
            is_connected: false,
            lost: None,
            stopped: HashMap::new(),
        }
    }

    /// Passes the datagrams to be sent to `each`.
    pub(super) fn send(&mut self, mut each: impl FnMut(SocketAddr, Vec<u8>)) {
        if self.state.poll_timeout().is_some_and(|due| due <= now()) {
            self.state.handle_timeout(now());
        }
        self.note_events();
        loop {
            let mut bytes = Vec::new();
            let Some(sent) = self.state.poll_transmit(now(), 1, &mut bytes) else {
                return;
            };
            bytes.truncate(sent.size);
            each(self.address, bytes);
        }
    }

    /// Receives a datagram; false if it is for another client.
    pub(super) fn receive(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        if to != self.address {
            return false;
        }
        let (from, bytes) = (SERVER.into(), BytesMut::from(bytes));
        let event = self
            .endpoint
            .handle(now(), from, None, None, bytes, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.state.handle_event(event);
        }
        self.note_events();
        true
    }

    fn note_events(&mut self) {
        while let Some(event) = self.state.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.state.handle_event(answer);
            }
        }
        while let Some(event) = self.state.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.stopped.insert(id, error_code.into_inner());
                }
                _ => {}
            }
        }
    }

    /// Opens a stream with these bytes, if the server permits one more.
    pub(super) fn open(&mut self, bytes: &[u8]) -> Option<StreamId> {
        let id = self.state.streams().open(Dir::Bi)?;
        assert_eq!(self.write(id, bytes), bytes.len(), "the window has room");
        Some(id)
    }

    /// Begins a request with a body.
    pub(super) fn post(&mut self) -> StreamId {
        self.open(&head("POST")).expect("room for a stream")
    }

    /// Sends a request without a body.
    pub(super) fn get(&mut self) -> StreamId {
        let id = self.open(&head("GET")).expect("room for a stream");
        self.finish(id);
        id
    }

    /// Writes as much as there is room for; returns how much that was.
    pub(super) fn write(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        let mut written = 0;
        while let Ok(count) = self.state.send_stream(id).write(&bytes[written..]) {
            written += count;
            if written == bytes.len() {
                break;
            }
        }
        written
    }

    pub(super) fn finish(&mut self, id: StreamId) {
        self.state.send_stream(id).finish().unwrap();
    }

    /// Resets the sending side of a stream.
    pub(super) fn reset(&mut self, id: StreamId) {
        self.state.send_stream(id).reset(CANCELLED).unwrap();
    }

    /// Stops the receiving side of a stream.
    pub(super) fn stop(&mut self, id: StreamId) {
        self.state.recv_stream(id).stop(CANCELLED).unwrap();
    }

    /// Reads at most `most` bytes of a stream.
    pub(super) fn read(&mut self, id: StreamId, most: usize) -> (Vec<u8>, End) {
        let mut stream = self.state.recv_stream(id);
        let mut bytes = Vec::new();
        let mut chunks = stream.read(true).unwrap();
        loop {
            let end = match chunks.next(most - bytes.len()) {
                Ok(Some(chunk)) => {
                    bytes.extend_from_slice(&chunk.bytes);
                    if bytes.len() < most {
                        continue;
                    }
                    End::NotYet
                }
                Ok(None) => End::Whole,
                Err(ReadError::Blocked) => End::NotYet,
                Err(ReadError::Reset(code)) => End::Reset(code.into_inner()),
            };
            return (bytes, end);
        }
    }

    /// Reads what has arrived of a response since the last call.
    pub(super) fn response(&mut self, id: StreamId) -> Response {
        let (bytes, end) = self.read(id, usize::MAX);
        Response {
            end,
            ..parse(&bytes)
        }
    }

    /// The frames on the server's control stream after its type: each frame's type, and its payload if complete.
    pub(super) fn control_frames(&mut self, read: &mut Vec<u8>) -> Vec<(u64, Vec<u8>)> {
        // The first stream that a server opens.
        let id = StreamId::new(quinn_proto::Side::Server, Dir::Uni, 0);
        read.extend(self.read(id, usize::MAX).0);
        let (mut rest, mut frames) = (&read[1..], Vec::new());
        while let Some((head, length)) = FrameHead::read(rest) {
            let (payload, behind) = rest[length..].split_at(head.length as usize);
            frames.push((head.kind, payload.to_vec()));
            rest = behind;
        }
        frames
    }
}

/// Parses a response.
pub(super) fn parse(bytes: &[u8]) -> Response {
    let mut response = Response::default();
    let (mut reader, mut rest) = (MessageReader::new(1 << 16), bytes);
    while let Some(part) = reader.next(&mut rest).unwrap() {
        match part {
            MessagePart::Head(section) => response.head = fields(&section),
            MessagePart::Data(data) => response.body.extend_from_slice(data),
            MessagePart::Trailers(section) => response.trailers = fields(&section),
        }
    }
    response
}

/// A line for each field.
fn fields(section: &[u8]) -> String {
    let mut lines = String::new();
    let read = decode(section, 1 << 16, |name, value| {
        let (name, value) = (name.escape_ascii(), value.escape_ascii());
        lines += &format!("{name}: {value}\n");
    });
    read.unwrap();
    lines
}

/// The code for a cancelled request (RFC 9114 §8.1: H3_REQUEST_CANCELLED).
const CANCELLED: VarInt = VarInt::from_u32(0x10c);

/// A frame.
pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = payload.len() as u64;
    FrameHead { kind, length }.write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// The head of a request.
pub(super) fn head(method: &str) -> Vec<u8> {
    let fields = [
        (&b":method"[..], method.as_bytes()),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", b"/"),
    ];
    frame(HEADERS, &encode_fields(fields.into_iter()))
}

/// A DATA frame.
pub(super) fn data(length: usize) -> Vec<u8> {
    frame(DATA, &vec![b'x'; length])
}

/// Limits of a client that never end a connection by themselves, with this window for each response.
pub(super) fn limits(window: u32) -> Arc<TransportConfig> {
    let mut limits = TransportConfig::default();
    limits
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(window));
    Arc::new(limits)
}

/// Closes without a reason.
pub(super) fn close(client: &mut TestClient) {
    client.state.close(now(), VarInt::from_u32(0), Bytes::new());
}
