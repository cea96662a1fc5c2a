//! Clients that send exactly the bytes they are given, and the one reader of HTTP/1 replies.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;

use crate::PATIENCE;

/// A reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// The status line and the header lines as they came, with the empty line behind them.
    pub head: String,
    /// The body, chunk framing taken off.
    pub body: Vec<u8>,
    /// False if the connection ended before the body had come whole, by the length that it announced.
    pub is_whole: bool,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, or null.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The first value of a header field; the name's case does not matter.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// True if the connection can take another request.
    pub fn keeps_connection(&self) -> bool {
        let is_framed = self.is_chunked() || self.length().is_some() || has_no_body(self.status);
        self.is_whole
            && is_framed
            && !self
                .field("Connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    fn is_chunked(&self) -> bool {
        self.field("Transfer-Encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    fn length(&self) -> Option<usize> {
        self.field("Content-Length")?.parse().ok()
    }
}

/// RFC 9112, 6.3.
fn has_no_body(status: u16) -> bool {
    // A configured status below 100 is sent as one.
    status < 200 || matches!(status, 204 | 304)
}

/// Reads one reply to a request of this method; `None` when the connection closed before its first byte. What was read and belongs
/// to what follows stays in `buffer`; after an error it is empty only if nothing had come.
///
/// # Errors
/// An error of the connection, `UnexpectedEof` for a head cut short, `InvalidData` for what is no HTTP.
pub fn read_reply(
    stream: &mut impl Read,
    buffer: &mut Vec<u8>,
    method: &str,
) -> io::Result<Option<Reply>> {
    let end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if fill(stream, buffer)? == 0 {
            return match buffer.is_empty() {
                true => Ok(None),
                false => Err(ErrorKind::UnexpectedEof.into()),
            };
        }
    };
    let head = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned();
    let status = head.split_ascii_whitespace().nth(1);
    let status = status
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| wrong("no status in the answer"))?;
    buffer.drain(..end);
    let mut reply = Reply {
        status,
        head,
        body: Vec::new(),
        is_whole: true,
    };
    if method == "HEAD" || has_no_body(status) {
        return Ok(Some(reply));
    }
    if let Err(error) = read_body(stream, buffer, &mut reply) {
        buffer.splice(0..0, reply.head.into_bytes());
        return Err(error);
    }
    Ok(Some(reply))
}

fn read_body(stream: &mut impl Read, buffer: &mut Vec<u8>, reply: &mut Reply) -> io::Result<()> {
    if reply.is_chunked() {
        reply.is_whole = false;
        while let Some(chunk) = read_chunk(stream, buffer)? {
            if chunk.is_empty() {
                reply.is_whole = true;
                break;
            }
            reply.body.extend_from_slice(&chunk);
        }
    } else if let Some(length) = reply.length() {
        while buffer.len() < length && fill(stream, buffer)? > 0 {}
        reply.is_whole = buffer.len() >= length;
        reply.body = buffer.drain(..length.min(buffer.len())).collect();
    } else {
        while fill(stream, buffer)? > 0 {}
        reply.body = std::mem::take(buffer);
    }
    Ok(())
}

/// The next chunk of a body, the empty one at its end with the trailer section behind it; `None` when the connection ends first.
fn read_chunk(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some(line) = read_line(stream, buffer)? else {
        return Ok(None);
    };
    let size = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(size, 16).map_err(|_| wrong("no size of a chunk"))?;
    if size == 0 {
        // The trailer section ends with an empty line.
        loop {
            match read_line(stream, buffer)? {
                None => return Ok(None),
                Some(line) if line.is_empty() => return Ok(Some(Vec::new())),
                Some(_) => {}
            }
        }
    }
    while buffer.len() < size + 2 {
        if fill(stream, buffer)? == 0 {
            return Ok(None);
        }
    }
    let chunk = buffer.drain(..size).collect();
    match buffer.drain(..2).as_slice() {
        b"\r\n" => Ok(Some(chunk)),
        _ => Err(wrong("no line end behind a chunk")),
    }
}

fn read_line(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n") {
            let line: Vec<u8> = buffer.drain(..end + 2).collect();
            let line = String::from_utf8_lossy(&line);
            return Ok(Some(line.trim_end_matches("\r\n").to_owned()));
        }
        if fill(stream, buffer)? == 0 {
            return Ok(None);
        }
    }
}

fn fill(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 16 * 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(count) => {
                buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
                return Ok(count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// A connection that a test talks on byte by byte. Whatever goes wrong fails the test.
#[derive(Debug)]
pub struct Client {
    /// The connection itself.
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    pub fn to(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect_timeout(&address, PATIENCE).expect("a connection"))
    }

    /// Connects from this address of the machine.
    pub fn from(source: IpAddr, address: SocketAddr) -> Self {
        let family = match source {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket(family, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(source, 0)).unwrap();
        connect(&socket, &address).unwrap();
        Self::of(TcpStream::from(socket))
    }

    /// A connection that was made before.
    pub fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Sends these bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Shuts down the sending side.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes the connection with a reset.
    pub fn reset(self) {
        reset(self.stream);
    }

    /// The number of bytes that have been read and not been asked for.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Reads some bytes, to be kept for what is asked for next; 0 at the end.
    ///
    /// # Errors
    /// An error of the connection.
    pub fn fill(&mut self) -> io::Result<usize> {
        fill(&mut self.stream, &mut self.buffer)
    }

    /// Reads everything until the server closes.
    pub fn read_to_end(&mut self) -> String {
        while self.fill().expect("the server closes the connection") > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned()
    }

    /// Reads until `text` has come; everything so far.
    pub fn read_until(&mut self, text: &str) -> String {
        while find(&self.buffer, text.as_bytes()).is_none() {
            let count = self.fill().expect("more bytes");
            let so_far = String::from_utf8_lossy(&self.buffer);
            assert!(count > 0, "no `{text}` in: {so_far}");
        }
        String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned()
    }

    /// The next reply, to a request of this method.
    #[track_caller]
    pub fn response(&mut self, method: &str) -> Reply {
        let reply = read_reply(&mut self.stream, &mut self.buffer, method);
        let reply = match reply {
            Ok(reply) => reply.expect("a response before the connection ends"),
            Err(error) => panic!(
                "no response: {error}; {:?}",
                String::from_utf8_lossy(&self.buffer)
            ),
        };
        assert!(reply.is_whole, "closed within a body: {}", reply.head);
        reply
    }

    /// The next head alone.
    #[track_caller]
    pub fn head(&mut self) -> Reply {
        self.response("HEAD")
    }

    /// The next chunk of a chunked body; `None` at its end.
    #[track_caller]
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let chunk = read_chunk(&mut self.stream, &mut self.buffer).expect("a chunk");
        let chunk = chunk.expect("a chunk before the connection ends");
        (!chunk.is_empty()).then_some(chunk)
    }

    /// True if the server closes the connection without sending anything more. Waits for what comes.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.fill(), Ok(0)) && self.buffer.is_empty()
    }

    /// True if something has come that was not read yet, or the end. Does not wait.
    pub fn has_news(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let seen = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !self.buffer.is_empty()
            || !matches!(&seen, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// True if nothing at all arrives for a moment. For the pace of a client that is slow on purpose; it shows nothing about the
    /// server.
    pub fn is_quiet(&mut self) -> bool {
        let moment = Duration::from_millis(100);
        self.stream.set_read_timeout(Some(moment)).unwrap();
        let outcome = self.fill();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(outcome, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

/// Sends `bytes` over a new connection and reads one reply.
///
/// # Errors
/// An error of the connection; a reply that never starts is `UnexpectedEof`.
pub fn request(address: SocketAddr, bytes: &[u8]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    ask(&mut stream, bytes)
}

/// Sends a request and reads the reply to it.
fn ask(stream: &mut (impl Read + Write), bytes: &[u8]) -> io::Result<Reply> {
    // A write may fail because the server has answered early and closed: the reply decides.
    let written = stream.write_all(bytes);
    match read_reply(stream, &mut Vec::new(), method_of(bytes)) {
        Ok(Some(reply)) => Ok(reply),
        Ok(None) => written.and(Err(ErrorKind::UnexpectedEof.into())),
        Err(error) => written.and(Err(error)),
    }
}

/// `GET target` over a new connection.
pub fn get(address: SocketAddr, target: &str) -> io::Result<Reply> {
    request(
        address,
        format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

/// Sends `bytes` and reads until the server closes: for what is no proper reply.
///
/// # Errors
/// A failed connection. A reset while reading ends the bytes like a close does.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Ok(answer)
}

/// Sends `bytes` over a new connection to a Unix socket and reads one reply.
pub fn request_by_path(socket: &Path, bytes: &[u8]) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    ask(&mut stream, bytes)
}

/// One request to a control socket.
pub fn control(socket: &Path, method: &str, path: &str, body: &[u8]) -> io::Result<Reply> {
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
            .into_bytes();
    if !body.is_empty() || method == "PUT" || method == "POST" {
        request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    request_by_path(socket, &request)
}

fn method_of(request: &[u8]) -> &str {
    let word = request.split(|byte| *byte == b' ').next();
    std::str::from_utf8(word.unwrap_or_default()).unwrap_or_default()
}

/// A body in chunks of this size.
pub fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let chunks = body.chunks(size).flat_map(|piece| {
        let head = format!("{:x}\r\n", piece.len());
        [head.as_bytes(), piece, b"\r\n"].concat()
    });
    chunks.chain(*b"0\r\n\r\n").collect()
}

/// Closes a connection with a reset: this shows the server that the client has gone, which the end of a sending side does not.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}
