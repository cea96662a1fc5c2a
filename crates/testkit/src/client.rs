//! Clients that send exactly the bytes they are given.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::load::read_answer;

/// Longest time a test waits for one answer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Header lines as they came, without the status line.
    pub head: String,
    /// The body, chunk framing taken off.
    pub body: Vec<u8>,
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
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends `bytes` over a new connection and reads one answer.
///
/// # Errors
/// Whatever the connection says; an answer that never starts is `UnexpectedEof`.
pub fn request(address: SocketAddr, bytes: &[u8]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let mut raw = Vec::new();
    let answer = read_answer(&mut stream, &mut raw)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = raw
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or(raw.len());
    let head = String::from_utf8_lossy(raw.get(..head).unwrap_or_default()).into_owned();
    let head = head
        .split_once("\r\n")
        .map(|(_, fields)| fields.to_owned())
        .unwrap_or_default();
    Ok(Reply {
        status: answer.status,
        head,
        body: answer.body,
    })
}

/// `GET target` over a new connection.
///
/// # Errors
/// As [`request`].
pub fn get(address: SocketAddr, target: &str) -> io::Result<Reply> {
    request(
        address,
        format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

/// Sends `bytes` and reads until the server closes: for what is no proper answer.
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

/// One request to a control socket: status and body.
///
/// # Errors
/// Whatever the connection says, or an answer that is not HTTP.
pub fn control(socket: &Path, method: &str, path: &str, body: &[u8]) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
            .into_bytes();
    if !body.is_empty() || method == "PUT" || method == "POST" {
        request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    let written = stream.write_all(&request);
    let mut raw = Vec::new();
    let read = stream.read_to_end(&mut raw);
    if raw.is_empty() {
        written?;
        read?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = String::from_utf8_lossy(&raw);
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer");
    let (head, _) = text.split_once("\r\n\r\n").ok_or_else(wrong)?;
    let body = raw.get(head.len() + 4..).unwrap_or_default().to_vec();
    let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .ok_or_else(wrong)?;
    Ok(Reply {
        status,
        head: fields.to_owned(),
        body,
    })
}
