//! A client of raw frames: sends what the script says, right or wrong, and checks what it hears.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longest silence. A large message may take longer on a machine that does other work too.
const PATIENCE: Duration = Duration::from_secs(30);

/// The example of RFC 6455 §1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A frame to send.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Any four bits.
    pub opcode: u8,
    /// The last of its message.
    pub is_final: bool,
    /// The three reserved bits.
    pub reserved: u8,
    /// Content.
    pub payload: Vec<u8>,
}

impl Frame {
    /// A whole message or control frame.
    pub fn new(opcode: u8, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            opcode,
            is_final: true,
            reserved: 0,
            payload: payload.into(),
        }
    }

    /// The same, to be continued.
    pub fn open(mut self) -> Self {
        self.is_final = false;
        self
    }

    /// The same with these reserved bits.
    pub fn reserved(mut self, bits: u8) -> Self {
        self.reserved = bits;
        self
    }

    fn append(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_final) << 7 | self.reserved << 4 | self.opcode);
        match self.payload.len() {
            short @ 0..=125 => out.push(0x80 | short as u8),
            medium @ 126..=0xffff => {
                out.push(0x80 | 126);
                out.extend_from_slice(&(medium as u16).to_be_bytes());
            }
            long => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        let mask = [0x4d, 0x00, 0xa7, 0xff];
        out.extend_from_slice(&mask);
        let masked = self.payload.iter().zip(mask.iter().cycle());
        out.extend(masked.map(|(byte, key)| byte ^ key));
    }
}

/// The bytes of frames.
pub fn build(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.append(&mut bytes);
    }
    bytes
}

/// One thing that the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A whole message: 1 text, 2 binary.
    Message(u8, Vec<u8>),
    /// Its payload.
    Ping(Vec<u8>),
    /// Its payload.
    Pong(Vec<u8>),
    /// Its payload.
    Close(Vec<u8>),
    /// The server has closed the connection.
    End,
}

impl Heard {
    /// In short, for people.
    pub fn describe(&self) -> String {
        let bytes = |bytes: &[u8]| match bytes.len() {
            0..=40 => format!("\"{}\"", bytes.escape_ascii()),
            long => format!("{long} bytes"),
        };
        match self {
            Self::Message(1, text) => format!("text {}", bytes(text)),
            Self::Message(_, data) => format!("binary {}", bytes(data)),
            Self::Ping(payload) => format!("ping {}", bytes(payload)),
            Self::Pong(payload) => format!("pong {}", bytes(payload)),
            Self::Close(payload) => match payload.split_first_chunk::<2>() {
                Some((code, reason)) => {
                    format!("close {} {}", u16::from_be_bytes(*code), bytes(reason))
                }
                None => "close without code".to_owned(),
            },
            Self::End => "end of the connection".to_owned(),
        }
    }
}

/// A connection after the handshake.
pub struct WebSocketClient {
    stream: TcpStream,
    inbox: VecDeque<u8>,
    has_ended: bool,
    /// A message that comes in frames.
    partial: Option<(u8, Vec<u8>)>,
}

impl WebSocketClient {
    /// Connects and shakes hands; `fields` are further lines of the request. The head of the response comes with it.
    ///
    /// # Errors
    /// The fault of the response.
    pub fn open(address: SocketAddr, target: &str, fields: &str) -> Result<(Self, String), String> {
        let stream =
            TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).expect("nodelay");
        stream.set_nonblocking(true).expect("non-blocking");
        let mut client = Self {
            stream,
            inbox: VecDeque::new(),
            has_ended: false,
            partial: None,
        };
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n{fields}\r\n"
        );
        client.send(request.as_bytes())?;
        let head = client.head()?;
        let field = |name: &str| {
            let mut lines = head
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once(": "));
            lines
                .find(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_ascii_lowercase())
        };
        let is_right = head.starts_with("HTTP/1.1 101 ")
            && field("Upgrade").as_deref() == Some("websocket")
            && field("Connection").as_deref() == Some("upgrade")
            && head.contains(&format!(": {ACCEPT}\r\n"));
        if is_right {
            Ok((client, head))
        } else {
            Err(format!("no handshake: {head}"))
        }
    }

    fn head(&mut self) -> Result<String, String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = self.bytes(1)?;
            head.extend_from_slice(
                &byte.ok_or_else(|| {
                    format!("closed within the response: {}", head.escape_ascii())
                })?,
            );
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    /// Sends bytes, and keeps what arrives meanwhile: neither side has to wait for the other. A server that has closed the connection
    /// is found out when reading.
    ///
    /// # Errors
    /// The server took nothing for too long.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() && !self.has_ended {
            match self.stream.write(bytes) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN | PollFlags::OUT)?;
                    self.receive();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn wait(&self, events: PollFlags) -> Result<(), String> {
        let timeout = Timespec::try_from(PATIENCE).expect("a short time");
        let mut watched = [PollFd::new(&self.stream, events)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) => Err("nothing happens".to_owned()),
            _ => Ok(()),
        }
    }

    /// Takes what has arrived.
    fn receive(&mut self) {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(read) => {
                    self.inbox.extend(buffer.get(..read).unwrap_or_default());
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.has_ended = true,
            }
            return;
        }
    }

    /// Exactly so many bytes; `None` if the server closes before the first.
    fn bytes(&mut self, count: usize) -> Result<Option<Vec<u8>>, String> {
        while self.inbox.len() < count {
            if self.has_ended {
                return if self.inbox.is_empty() {
                    Ok(None)
                } else {
                    Err("closed within a frame".to_owned())
                };
            }
            self.wait(PollFlags::IN)?;
            self.receive();
        }
        Ok(Some(self.inbox.drain(..count).collect()))
    }

    fn exactly<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.bytes(N)?.ok_or("closed within a frame")?;
        Ok(bytes.try_into().expect("as many as asked for"))
    }

    /// The next message or control frame.
    ///
    /// # Errors
    /// A frame that a server must not send, or silence.
    pub fn hear(&mut self) -> Result<Heard, String> {
        loop {
            let Some(head) = self.bytes(2)? else {
                return match self.partial {
                    None => Ok(Heard::End),
                    Some(_) => Err("closed within a message".to_owned()),
                };
            };
            let (first, second) = (head[0], head[1]);
            if first & 0x70 != 0 {
                return Err(format!("a reserved bit in {first:#04x}"));
            }
            if second & 0x80 != 0 {
                return Err("a masked frame from the server".to_owned());
            }
            let length = match second {
                126 => u64::from(u16::from_be_bytes(self.exactly()?)),
                127 => u64::from_be_bytes(self.exactly()?),
                short => u64::from(short),
            };
            if second == 126 && length < 126 || second == 127 && length < 65_536 {
                return Err(format!("a length of {length} in a long form"));
            }
            let length = usize::try_from(length).expect("a length in memory");
            let payload = self.bytes(length)?.ok_or("closed within a frame")?;
            let (is_final, opcode) = (first & 0x80 != 0, first & 0x0f);
            if opcode >= 8 && (!is_final || length > 125) {
                return Err("a control frame in pieces or too long".to_owned());
            }
            match opcode {
                0..=2 => {
                    if let Some((opcode, data)) = self.message(opcode, is_final, payload)? {
                        return Ok(Heard::Message(opcode, data));
                    }
                }
                8 => return Ok(Heard::Close(payload)),
                9 => return Ok(Heard::Ping(payload)),
                10 => return Ok(Heard::Pong(payload)),
                _ => return Err(format!("unknown opcode {opcode}")),
            }
        }
    }

    fn message(
        &mut self,
        opcode: u8,
        is_final: bool,
        payload: Vec<u8>,
    ) -> Result<Option<(u8, Vec<u8>)>, String> {
        let (opcode, data) = match (self.partial.take(), opcode) {
            (None, 0) => return Err("a continuation of nothing".to_owned()),
            (None, opcode) => (opcode, payload),
            (Some((opcode, mut data)), 0) => {
                data.extend_from_slice(&payload);
                (opcode, data)
            }
            (Some(_), _) => return Err("a message within a message".to_owned()),
        };
        if !is_final {
            self.partial = Some((opcode, data));
            return Ok(None);
        }
        if opcode == 1 && std::str::from_utf8(&data).is_err() {
            return Err("text that is not UTF-8".to_owned());
        }
        Ok(Some((opcode, data)))
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Closes the sending side.
    ///
    /// # Errors
    /// The words of the kernel.
    pub fn finish(&self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }
}
