//! One request over a connection of its own, and the answer.
//!
//! Both servers may be broken in any way: an answer is bounded in size and in time, and what is no HTTP is an answer, too.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tutti_http::{BodyDecoder, BodyLength, MessageLimits, Method, Progress, ResponseHead};

use super::requests::Request;
use super::sites::Site;

/// A page takes this long at most; slower ones are reported.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of a body that are compared.
pub(super) const LARGEST_BODY: usize = 16 << 20;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in lower case; several lines of one field are in their order.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The value of a field; several lines as one.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let values = self.fields.iter().filter(|(known, _)| known == name);
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// Asks servers, always in the same way.
pub(super) struct Client<'f> {
    /// Header fields of every request, which have been checked.
    pub(super) fields: &'f [String],
    pub(super) tls: Arc<ClientConfig>,
}

impl Client<'_> {
    /// Sends a request to the server of a site at `address`. The error says why there is no answer.
    pub(super) fn ask(
        &self,
        site: &Site,
        address: SocketAddr,
        request: &Request,
    ) -> Result<Answer, String> {
        self.exchange(site, address, request)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("no answer within {} s", ANSWER_WITHIN.as_secs())
                }
                io::ErrorKind::ConnectionRefused => "it refuses connections".to_owned(),
                _ => error.to_string(),
            })
    }

    fn exchange(&self, site: &Site, address: SocketAddr, request: &Request) -> io::Result<Answer> {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tutti-import/{}\r\nConnection: close\r\n",
            request.method,
            request.target,
            site.authority(&request.host),
            env!("CARGO_PKG_VERSION"),
        );
        for field in self.fields {
            text.push_str(field);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let stream = Bounded {
            stream: TcpStream::connect_timeout(&address, ANSWER_WITHIN)?,
            end: Instant::now() + ANSWER_WITHIN,
        };
        let method = match request.method.as_str() {
            "HEAD" => Method::Head,
            _ => Method::Get,
        };
        if !site.is_tls {
            return talk(stream, text.as_bytes(), method);
        }
        let name = ServerName::try_from(request.host.clone())
            .unwrap_or_else(|_| ServerName::IpAddress(address.ip().into()));
        let connection =
            ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        talk(
            StreamOwned::new(connection, stream),
            text.as_bytes(),
            method,
        )
    }
}

/// A connection until a moment: TLS reads from it as often as it likes before there is a byte for us.
struct Bounded {
    stream: TcpStream,
    end: Instant,
}

impl Bounded {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn talk(mut stream: impl Read + Write, request: &[u8], method: Method) -> io::Result<Answer> {
    // A server that rejects a request early responds before it has read everything: the response counts, not the write error.
    let written = stream.write_all(request).and_then(|()| stream.flush());
    match read(&mut stream, method) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            written?;
            Err(error)
        }
        done => done,
    }
}

fn read(stream: &mut impl Read, method: Method) -> io::Result<Answer> {
    let end = Instant::now() + ANSWER_WITHIN;
    // A body is compared as far as it is kept.
    let limits = MessageLimits {
        max_body_size: u64::MAX,
        ..MessageLimits::default()
    };
    let mut received = Vec::new();
    let mut head = ResponseHead::new();
    loop {
        head.reset();
        match head.parse(&received, &limits) {
            Ok(Progress::Complete { .. }) => {
                let view = head.view(&received);
                let length = view.length();
                if !(100..200).contains(&view.status()) {
                    break;
                }
                // Early hints and their like come before the answer.
                received.drain(..length);
                continue;
            }
            Ok(_) => {}
            Err(error) => return Err(wrong(&error)),
        }
        if more(stream, &mut received, end)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection without an answer",
            ));
        }
    }
    let view = head.view(&received);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = view
        .fields()
        .map(|field| (text(field.name).to_ascii_lowercase(), text(field.value)));
    let mut answer = Answer {
        status: view.status(),
        fields: fields.collect(),
        body: Vec::new(),
    };
    let length = view.body_length(method);
    let mut rest = received.get(view.length()..).unwrap_or_default().to_vec();
    if length == BodyLength::UntilClose {
        while rest.len() < LARGEST_BODY && more(stream, &mut rest, end)? > 0 {}
        rest.truncate(LARGEST_BODY);
        answer.body = rest;
        return Ok(answer);
    }
    let mut decoder = BodyDecoder::new(length, &limits).map_err(|error| wrong(&error))?;
    loop {
        let body = &mut answer.body;
        let decoded = decoder.decode_all(&rest, |piece| body.extend_from_slice(piece));
        let (consumed, is_finished) = decoded.map_err(|error| wrong(&error))?;
        rest.drain(..consumed);
        if is_finished || answer.body.len() >= LARGEST_BODY {
            answer.body.truncate(LARGEST_BODY);
            return Ok(answer);
        }
        if more(stream, &mut rest, end)? == 0 {
            return Err(io::Error::other("its answer is cut short"));
        }
    }
}

/// Reads more bytes; 0 at the end.
fn more(stream: &mut impl Read, bytes: &mut Vec<u8>, end: Instant) -> io::Result<usize> {
    if Instant::now() > end {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut buffer = [0; 16 << 10];
    let count = match stream.read(&mut buffer) {
        // A server that ends TLS without saying so has ended it all the same.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
        read => read?,
    };
    bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
    Ok(count)
}

fn wrong(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("its answer is not HTTP: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(bytes: &[u8], method: Method) -> io::Result<Answer> {
        read(&mut io::Cursor::new(bytes.to_vec()), method)
    }

    #[test]
    fn bodies_end_as_their_heads_say() {
        for (bytes, body) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc"[..], &b"ab"[..]),
            (b"HTTP/1.1 200 OK\r\n\r\nabc", b"abc"),
            (
                b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
                b"abc",
            ),
            (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        ] {
            assert_eq!(answered(bytes, Method::Get).unwrap().body, body);
        }
        let head = answered(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            Method::Head,
        );
        assert_eq!(head.unwrap().body, b"");
    }

    #[test]
    fn an_answer_that_is_none_is_an_error() {
        for bytes in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        ] {
            assert!(answered(bytes, Method::Get).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_body_is_read_no_further_than_it_is_compared() {
        let length = format!("Content-Length: {}\r\n", LARGEST_BODY + 100_000);
        for fields in ["", &length] {
            let mut bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
            bytes.resize(bytes.len() + LARGEST_BODY + 100_000, b'x');
            assert_eq!(
                answered(&bytes, Method::Get).unwrap().body.len(),
                LARGEST_BODY
            );
        }
    }
}
