//! A connection that the application has taken over from its server (Rack's hijack): the application holds one end of a pair of
//! sockets, and two threads carry what goes through the other to the client and back.
//!
//! The application writes an answer as HTTP/1 has it and, after a handshake of WebSocket, frames; the wire has messages instead. Must
//! never: hold up the thread that took the request, or let half an answer pass for a whole one.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tutti_http::websocket::{
    FrameDecoder, FrameEvent, FrameHead, MessageKind, Opcode as Frame, Role, close_code,
};
use tutti_http::{BodyDecoder, BodyLength, MessageLimits, Method, Progress, ResponseHead};
use tutti_worker::Level;
use tutti_worker::log::{line, unless_too_large};
use tutti_worker::{Detached, Message, MessageOpcode};

/// Longest message of an application, as for programs behind the relay.
const LONGEST_MESSAGE: u64 = 64 << 20;
/// Bytes read from the application at once.
const PIECE: usize = 64 << 10;
/// The code of a connection that broke off.
const ABNORMAL: [u8; 2] = close_code::ABNORMAL.to_be_bytes();
/// Both threads only carry bytes.
const STACK: usize = 128 << 10;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Connections that were taken over and have not ended.
pub fn open() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// Gives the application the connection of `exchange`. The answer's head is expected from it unless it has been sent already.
///
/// # Errors
/// When there is no descriptor or thread for it; the exchange is given up then.
pub fn take_over(exchange: Detached) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let connection = Arc::new(HijackedConnection::new(exchange, ours));
    let other = Arc::clone(&connection);
    start("to-client", move || other.carry_to_client())?;
    let other = Arc::clone(&connection);
    if let Err(error) = start("to-application", move || other.carry_to_application()) {
        // The first thread finds the end, and gives up.
        connection.shut(Shutdown::Both);
        return Err(error);
    }
    Ok(theirs.into())
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.stack_size(STACK).spawn(run).map(drop)
}

/// The reason why a connection broke off.
#[derive(Debug)]
enum Disconnect {
    /// The client has gone, which is no fault.
    ClientGone,
    Io(io::Error),
    /// The application has not said what it should.
    Application(String),
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disconnect::ClientGone => f.write_str("the client has gone"),
            Disconnect::Io(error) => write!(f, "cannot read from it: {error}"),
            Disconnect::Application(text) => f.write_str(text),
        }
    }
}

impl From<tutti_worker::ClientGone> for Disconnect {
    fn from(_: tutti_worker::ClientGone) -> Self {
        Disconnect::ClientGone
    }
}

impl From<io::Error> for Disconnect {
    fn from(error: io::Error) -> Self {
        Disconnect::Io(error)
    }
}

#[derive(Debug)]
struct HijackedConnection {
    exchange: Detached,
    socket: UnixStream,
    is_websocket: bool,
    /// The client has sent its close frame.
    has_client_closed: AtomicBool,
    /// The client has gone without one.
    has_client_gone: AtomicBool,
    method: Method,
    /// The request line, for the log.
    title: String,
}

impl HijackedConnection {
    fn new(exchange: Detached, socket: UnixStream) -> Self {
        let (is_websocket, method, title) = exchange.with(|exchange| {
            let request = exchange.request();
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let title = format!("{} {}", text(request.method()), text(request.target()));
            (
                request.is_websocket(),
                Method::from_bytes(request.method()),
                title,
            )
        });
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self {
            exchange,
            socket,
            is_websocket,
            has_client_closed: AtomicBool::new(false),
            has_client_gone: AtomicBool::new(false),
            method,
            title,
        }
    }

    fn shut(&self, how: Shutdown) {
        // It may have been shut already.
        let _ = self.socket.shutdown(how);
    }

    /// Carries what the application says, and ends the exchange.
    fn carry_to_client(&self) {
        match self.answer() {
            Ok(()) => self.exchange.finish(),
            Err(fault) => {
                if !matches!(fault, Disconnect::ClientGone) {
                    let text = format!(
                        "{}: the connection that the application has taken over: {fault}",
                        self.title
                    );
                    line(Level::Error, "", text.as_bytes());
                }
                self.exchange.abort();
            }
        }
        self.shut(Shutdown::Both);
    }

    fn answer(&self) -> Result<(), Disconnect> {
        let mut received = Received::default();
        if self.exchange.with(tutti_worker::Exchange::is_started) {
            self.exchange.with(tutti_worker::Exchange::flush);
            return match self.is_websocket {
                true => self.frames(received),
                false => self.body(received, BodyLength::UntilClose),
            };
        }
        let mut head = ResponseHead::new();
        let limits = MessageLimits::of_a_program();
        loop {
            let progress = head.parse(&received.bytes, &limits).map_err(|error| {
                Disconnect::Application(format!("its answer is not HTTP: {error}"))
            })?;
            let Progress::Complete { length } = progress else {
                if received.more(&self.socket)? {
                    continue;
                }
                let text = match received.bytes.is_empty() {
                    true => "it was closed without an answer",
                    false => "it was closed within the head of the answer",
                };
                return Err(Disconnect::Application(text.to_owned()));
            };
            let view = head.view(&received.bytes);
            let (status, until) = (view.status(), view.body_length(self.method));
            if status == 101 && !self.is_websocket {
                let text = "it answers 101 to a request that is no handshake of WebSocket; no other protocol can be carried";
                return Err(Disconnect::Application(text.to_owned()));
            }
            let unusable = |error| {
                Disconnect::Application(format!("the head of its answer cannot be sent: {error}"))
            };
            if status < 200 && status != 101 {
                if status > 101 {
                    let sent = self.exchange.with(|exchange| {
                        unless_too_large(exchange, exchange.interim(status, view.forwarded()))
                    });
                    sent.map_err(unusable)?;
                }
                received.consume(length);
                continue;
            }
            let started = self
                .exchange
                .with(|exchange| exchange.start(status, view.forwarded()));
            started.map_err(unusable)?;
            self.exchange.with(tutti_worker::Exchange::flush);
            received.consume(length);
            return match status {
                101 => self.frames(received),
                _ => self.body(received, until),
            };
        }
    }

    /// The body of an answer, without its framing.
    fn body(&self, mut received: Received, until: BodyLength) -> Result<(), Disconnect> {
        let bad = |error: tutti_http::BodyError| Disconnect::Application(error.to_string());
        let mut decoder = BodyDecoder::new(until, &MessageLimits::of_a_program()).map_err(bad)?;
        loop {
            let step = decoder.decode(&received.bytes).map_err(bad)?;
            let data = received.bytes.get(step.data).unwrap_or_default();
            self.exchange.write(data)?;
            received.consume(step.consumed);
            if step.is_finished {
                let trailers = decoder.trailers();
                return match trailers.is_empty() {
                    true => Ok(()),
                    false => self
                        .exchange
                        .with(|exchange| {
                            unless_too_large(exchange, exchange.trailers(trailers.fields()))
                        })
                        .map_err(|error| Disconnect::Application(error.to_string())),
                };
            }
            if step.consumed > 0 && !received.bytes.is_empty() {
                continue;
            }
            if !received.more(&self.socket)? {
                return match until {
                    BodyLength::UntilClose => Ok(()),
                    _ => Err(Disconnect::Application(
                        "it was closed within the body of the answer".to_owned(),
                    )),
                };
            }
        }
    }

    /// The frames of a WebSocket, as messages.
    fn frames(&self, mut received: Received) -> Result<(), Disconnect> {
        let mut decoder = FrameDecoder::new(Role::Client, LONGEST_MESSAGE);
        let mut partial = Vec::new();
        loop {
            let (consumed, event) = decoder
                .decode(&mut received.bytes, usize::MAX)
                .map_err(|fault| Disconnect::Application(fault.to_string()))?;
            let is_any = event.is_some();
            match event {
                Some(FrameEvent::Control { opcode, range }) => {
                    let bytes = received.bytes.get(range).unwrap_or_default();
                    let opcode = match opcode {
                        Frame::Close => MessageOpcode::Close,
                        Frame::Ping => MessageOpcode::Ping,
                        _ => MessageOpcode::Pong,
                    };
                    // The server answers a client's pings itself.
                    if opcode != MessageOpcode::Pong {
                        self.exchange.send_message(opcode, bytes)?;
                    }
                    if opcode == MessageOpcode::Close {
                        return Ok(());
                    }
                }
                Some(FrameEvent::Data {
                    kind,
                    range,
                    is_last,
                }) => {
                    partial.extend_from_slice(received.bytes.get(range).unwrap_or_default());
                    if is_last {
                        let opcode = match kind {
                            MessageKind::Text => MessageOpcode::Text,
                            MessageKind::Binary => MessageOpcode::Binary,
                        };
                        self.exchange.send_message(opcode, &partial)?;
                        partial.clear();
                    }
                }
                None => {}
            }
            received.consume(consumed);
            if !is_any && consumed == 0 && !received.more(&self.socket)? {
                if self.has_client_closed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if self.has_client_gone.load(Ordering::Relaxed) {
                    return Err(Disconnect::ClientGone);
                }
                let text = "it was closed without a close frame";
                return Err(Disconnect::Application(text.to_owned()));
            }
        }
    }

    /// Carries what the client says, as frames; without WebSocket only that it has gone.
    fn carry_to_application(&self) {
        let mut frame = Vec::new();
        // The client may still read, though it says nothing more.
        let mut may_read = !self.is_websocket;
        while self.is_websocket
            && let Some(message) = self.exchange.next_message()
        {
            let (opcode, bytes) = match &message {
                Message::Text(bytes) => (Frame::Text, bytes),
                Message::Binary(bytes) => (Frame::Binary, bytes),
                // No frame has this code (RFC 6455 section 7.4.1): a client that vanishes is the end of the connection.
                Message::Close(bytes) if bytes.starts_with(&ABNORMAL) => break,
                Message::Close(bytes) => {
                    self.has_client_closed.store(true, Ordering::Relaxed);
                    may_read = true;
                    (Frame::Close, bytes)
                }
                Message::Pong(bytes) => (Frame::Pong, bytes),
            };
            frame.clear();
            // A client's frames are masked (RFC 6455 section 5.3); with this mask the payload stays as it is.
            FrameHead {
                is_final: true,
                opcode,
                length: bytes.len() as u64,
                mask: Some([0; 4]),
            }
            .write(&mut frame);
            frame.extend_from_slice(bytes);
            if (&self.socket).write_all(&frame).is_err() {
                // The application reads no more; the other thread finds how it ends.
                may_read = true;
                break;
            }
        }
        if may_read {
            self.exchange.wait_until_gone();
        }
        self.has_client_gone.store(true, Ordering::Relaxed);
        self.shut(Shutdown::Both);
    }
}

impl Drop for HijackedConnection {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of the application that are still to be read.
#[derive(Debug, Default)]
struct Received {
    bytes: Vec<u8>,
}

impl Received {
    /// Waits for more. False: there is none.
    fn more(&mut self, mut socket: &UnixStream) -> io::Result<bool> {
        let before = self.bytes.len();
        self.bytes.resize(before + PIECE, 0);
        let count = loop {
            let room = self.bytes.get_mut(before..).unwrap_or_default();
            match socket.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The application has closed its end with bytes unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break 0,
                result => break result?,
            }
        };
        self.bytes.truncate(before + count);
        Ok(count > 0)
    }

    fn consume(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }
}
