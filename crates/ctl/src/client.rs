//! A client of the control API: one request per connection over a unix or TCP socket.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tutti_config::Format;
use tutti_http::{BodyDecoder, BodyLength, MessageLimits, Method, Progress, ResponseHead};
use tutti_protocol::Token;

use super::control_address::{ControlArguments, default_sockets};
use super::excerpt;
use super::report::CommandError;

/// RFC 3986 section 2.3, and characters that are harmless in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'*')
    .remove(b'@')
    .remove(b'[')
    .remove(b']');

/// A change is answered when its workers are ready, and a large application takes time to start.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);

/// The address of a server, and how to authenticate.
pub(crate) struct ControlClient {
    address: String,
    token: Option<Token>,
    patience: Duration,
}

/// The response of the server.
pub(crate) struct ControlResponse {
    /// HTTP status.
    pub(crate) status: u16,
    /// `ETag`, if there was one.
    pub(crate) etag: Option<String>,
    /// The body as received.
    pub(crate) body: Vec<u8>,
}

/// Percent-encodes one member name for use in a path.
pub(crate) fn encode(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// Turns `listeners`, `/listeners/*:80` or `/config/listeners` into a path below `/config`.
pub(crate) fn config_path(given: Option<&str>) -> String {
    let given = given.unwrap_or_default().trim_matches('/');
    let given = given
        .strip_prefix("config/")
        .unwrap_or(if given == "config" { "" } else { given });
    let mut path = "/config".to_owned();
    for segment in given.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        // A name that is already encoded is kept: a name with a slash in it must be written with `%2F`.
        let plain = percent_encoding::percent_decode_str(segment).decode_utf8_lossy();
        path.push_str(&encode(&plain));
    }
    path
}

impl ControlClient {
    /// Finds the server: `--control`, or the first default socket that exists.
    pub(crate) fn new(arguments: &ControlArguments) -> Result<Self, CommandError> {
        let token = arguments.control_token.as_deref();
        let token = token
            .map(tutti_main::read_token)
            .transpose()
            .map_err(|error| CommandError::new(error.to_string()))?;
        if let Some(address) = &arguments.control {
            return Ok(Self {
                address: address.clone(),
                token,
                patience: ANSWER_WITHIN,
            });
        }
        let sockets = default_sockets();
        match sockets.iter().find(|socket| socket.exists()) {
            Some(socket) => Ok(Self {
                address: format!("unix:{}", socket.display()),
                token,
                patience: ANSWER_WITHIN,
            }),
            None => {
                let tried: Vec<_> = sockets
                    .iter()
                    .map(|socket| format!("`{}`", socket.display()))
                    .collect();
                Err(CommandError::new(format!(
                    "no server found: no control socket at {}",
                    tried.join(" or ")
                ))
                .hint(
                    "start the server with `tuttid`, or name its socket with `--control unix:PATH`",
                ))
            }
        }
    }

    /// Creates a client of the server at `address`.
    pub(crate) fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            token: None,
            patience: ANSWER_WITHIN,
        }
    }

    /// Waits so long for a response, instead of as long as a change may take.
    pub(crate) fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the process of a server on this machine, if it can be determined.
    pub(crate) fn server_process(&self) -> Option<OwnedFd> {
        let stream = connect_unix(self.address.strip_prefix("unix:")?).ok()?;
        tutti_sys::process::listening(&stream).ok()
    }

    /// True while something accepts connections at the address.
    pub(crate) fn is_there(&self) -> bool {
        match self.address.strip_prefix("unix:") {
            Some(path) => connect_unix(path).is_ok(),
            None => TcpStream::connect(&self.address).is_ok(),
        }
    }

    /// Sends a request with a JSON body, and reads the response.
    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        if_match: Option<&str>,
    ) -> Result<ControlResponse, CommandError> {
        let body = body.map(|bytes| (bytes, Format::Json.media_type()));
        self.send(method, path, body, if_match)
    }

    /// Sends a request with a body of any media type, and reads the response.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&[u8], &str)>,
        if_match: Option<&str>,
    ) -> Result<ControlResponse, CommandError> {
        let condition = if_match.map(|tag| ("If-Match", tag));
        self.ask(method, path, body, condition)
    }

    /// Adds a JSON value; 412 if there already is one.
    pub(crate) fn create(&self, path: &str, body: &[u8]) -> Result<ControlResponse, CommandError> {
        let body = Some((body, Format::Json.media_type()));
        self.ask("PUT", path, body, Some(("If-None-Match", "*")))
    }

    /// Reads a resource in the format of `accept`.
    pub(crate) fn read(&self, path: &str, accept: &str) -> Result<ControlResponse, CommandError> {
        self.ask("GET", path, None, Some(("Accept", accept)))
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<(&[u8], &str)>,
        field: Option<(&str, &str)>,
    ) -> Result<ControlResponse, CommandError> {
        self.exchange(method, path, body, field).map_err(|error| {
            let failed = |why: &dyn Display| {
                let address = &self.address;
                CommandError::new(format!("cannot reach the server at `{address}`: {why}"))
            };
            let failure = failed(&error);
            match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => failed(&format!(
                    "it has not responded within {} s",
                    self.patience.as_secs()
                )),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    failure.hint("is it running? `--control` names another socket")
                }
                io::ErrorKind::PermissionDenied => {
                    failure.hint("the control socket belongs to another user: try with sudo")
                }
                _ => failure,
            }
        })
    }

    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<(&[u8], &str)>,
        field: Option<(&str, &str)>,
    ) -> io::Result<ControlResponse> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nUser-Agent: tutti/{}\r\n",
            env!("CARGO_PKG_VERSION")
        );
        if let Some(token) = &self.token {
            request.push_str(&format!("Authorization: {}\r\n", token.authorization()));
        }
        if let Some((name, value)) = field {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some((body, media_type)) = body {
            request.push_str(&format!(
                "Content-Type: {media_type}\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body.map_or(&[][..], |(body, _)| body));
        let mut answer = Vec::new();
        match self.address.strip_prefix("unix:") {
            Some(path) => {
                let stream = connect_unix(path)?;
                stream.set_read_timeout(Some(self.patience))?;
                talk(stream, &bytes, &mut answer)?;
            }
            None => {
                let stream = connect_inet(&self.address, self.patience)?;
                stream.set_read_timeout(Some(self.patience))?;
                talk(stream, &bytes, &mut answer)?;
            }
        }
        parse(&answer)
    }
}

fn connect_unix(path: &str) -> io::Result<UnixStream> {
    match path.strip_prefix('@') {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            UnixStream::connect_addr(&address)
        }
        None => UnixStream::connect(Path::new(path)),
    }
}

/// Connects to the first of its addresses that accepts.
fn connect_inet(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in address.to_socket_addrs()? {
        outcome = TcpStream::connect_timeout(&address, patience);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn talk(mut stream: impl Read + Write, request: &[u8], answer: &mut Vec<u8>) -> io::Result<()> {
    // A server that rejects a request early responds before it has read everything: the response counts, not the write
    // error.
    let written = stream.write_all(request);
    let read = stream.read_to_end(answer);
    if answer.is_empty() {
        written?;
        read?;
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it closed the connection without a response",
        ));
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> io::Result<ControlResponse> {
    let wrong = |what: &str| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("its answer is not HTTP: {what}"),
        )
    };
    let limits = MessageLimits::default();
    let mut head = ResponseHead::new();
    match head.parse(bytes, &limits) {
        Ok(Progress::Complete { .. }) => {}
        Ok(_) => return Err(wrong("the head is cut short")),
        Err(error) => return Err(wrong(&error.to_string())),
    }
    let view = head.view(bytes);
    let rest = bytes.get(view.length()..).unwrap_or_default();
    let etag = view
        .get_all(b"ETag")
        .next()
        .map(|tag| String::from_utf8_lossy(tag).into_owned());
    let length = view.body_length(Method::Get);
    let body = if length == BodyLength::UntilClose {
        rest.to_vec()
    } else {
        let mut decoder =
            BodyDecoder::new(length, &limits).map_err(|error| wrong(&error.to_string()))?;
        let mut body = Vec::new();
        let (_, is_finished) = decoder
            .decode_all(rest, |piece| body.extend_from_slice(piece))
            .map_err(|error| wrong(&error.to_string()))?;
        if !is_finished {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "its response was cut short",
            ));
        }
        body
    };
    Ok(ControlResponse {
        status: view.status(),
        etag,
        body,
    })
}

impl ControlResponse {
    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Result<Value, CommandError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| CommandError::new(format!("the server's answer is not JSON: {error}")))
    }

    /// Turns an error response into a failure, and prints the warnings of a success; `sent` is the text that their
    /// places refer to.
    pub(crate) fn succeeded(&self, sent: Option<(&str, &[u8])>) -> Result<(), CommandError> {
        if (200..300).contains(&self.status) {
            excerpt::show_warnings(&self.json().unwrap_or_default(), sent.as_slice());
            return Ok(());
        }
        if self.status == 401 {
            return Err(CommandError::new("the server requires a token")
                .hint("name the file that it was started with: `--control-token FILE`"));
        }
        if self.status == 412 {
            return Err(CommandError::new(
                "someone else has changed the configuration in the meantime",
            )
            .hint("read it again, and repeat the change"));
        }
        Err(excerpt::failure(
            &self.json().unwrap_or_default(),
            self.status,
            sent.as_slice(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_be_written_as_people_write_them() {
        assert_eq!(config_path(None), "/config");
        assert_eq!(config_path(Some("/")), "/config");
        assert_eq!(config_path(Some("listeners")), "/config/listeners");
        assert_eq!(
            config_path(Some("/config/listeners/*:80")),
            "/config/listeners/*:80"
        );
        assert_eq!(
            config_path(Some("listeners/unix:%2Frun%2Fa")),
            "/config/listeners/unix:%2Frun%2Fa"
        );
        assert_eq!(
            config_path(Some("applications/my site")),
            "/config/applications/my%20site"
        );
    }

    #[test]
    fn a_server_that_hangs_is_reported_after_the_patience() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let client = ControlClient::at(&format!("unix:{}", path.display()));
        let client = client.within(Duration::from_millis(1));
        let failure = client.call("GET", "/status", None, None).err().unwrap();
        let text = failure.text();
        assert!(
            text.contains("cannot reach the server at `unix:/"),
            "{text}"
        );
        assert!(text.contains("it has not responded within"), "{text}");
    }

    #[test]
    fn a_cut_answer_is_an_error_and_a_whole_one_is_read() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: \"x\"\r\n\r\n{}";
        let answer = parse(whole).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, b"{}");
        assert_eq!(answer.etag.as_deref(), Some("\"x\""));
        assert!(parse(&whole[..whole.len() - 1]).is_err());
        assert!(parse(b"SSH-2.0-OpenSSH\r\n").is_err());
    }
}
