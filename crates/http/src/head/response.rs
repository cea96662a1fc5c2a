//! The head of a response, for the proxy and for tests: as strict as for requests.

use httparse::{ParserConfig, Response, Status};

use crate::body::BodyLength;
use crate::error::HeadError;
use crate::field::{Fields, FirstOf, parse_content_length};
use crate::forward::PerConnection;
use crate::framing::status_has_body;
use crate::head::request::{ConnectionOptions, check_transfer_encoding};
use crate::head::storage::Storage;
use crate::head::{BufferSpan, Progress};
use crate::known_fields::Known;
use crate::limits::MessageLimits;
use crate::method::Method;
use crate::version::Version;

/// Prefixed to the head of a CGI answer, so that it can be parsed as HTTP.
pub const CGI_STATUS_LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// A response head: state of the parser and reusable storage of its result.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    storage: Storage,
    status: u16,
    reason: BufferSpan,
    version: Version,
    content_length: Option<u64>,
    is_chunked: bool,
    keep_alive: bool,
    upgrade: bool,
}

impl ResponseHead {
    /// Storage for one head.
    pub fn new() -> Self {
        Self::default()
    }

    /// Discards an incomplete head.
    pub fn reset(&mut self) {
        self.storage.reset();
    }

    /// Reads a head from the start of `buffer`; see [`crate::RequestHead::parse`]. Interim responses (1xx) are heads of their own.
    ///
    /// # Errors
    /// Any [`HeadError`]: the upstream's fault, so a proxy answers 502 and closes that connection.
    pub fn parse(&mut self, buffer: &[u8], limits: &MessageLimits) -> Result<Progress, HeadError> {
        let (status, reason) = (&mut self.status, &mut self.reason);
        let version = &mut self.version;
        let progress = self.storage.read(buffer, limits, |buffer, room, found| {
            let mut response = Response::new(&mut []);
            let Status::Complete(length) = ParserConfig::default()
                .parse_response_with_uninit_headers(&mut response, buffer, room)?
            else {
                return Ok(None);
            };
            *status = response.code.unwrap_or_default();
            // `httparse` returns a constant "" for an invalid or missing reason phrase.
            *reason = match response.reason.unwrap_or_default() {
                "" => BufferSpan::default(),
                reason => BufferSpan::locate(buffer, reason.as_bytes()),
            };
            *version = Version::of_minor(response.version);
            found.keep(response.headers);
            Ok(Some(length))
        })?;
        if progress != Progress::Incomplete {
            self.examine(buffer)?;
        }
        Ok(progress)
    }

    /// Evaluates the head of a CGI answer (RFC 3875 §6) that was parsed after [`CGI_STATUS_LINE`]: its status is that of `Status`, else
    /// 302 with a `Location`, else 200. Removes the fields `Status` and `Transfer-Encoding`, which CGI does not define.
    ///
    /// # Errors
    /// [`HeadError::StartLine`]: `Status` is not the status of a final response.
    pub fn read_as_cgi(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        let is_status = |name: &[u8]| name.eq_ignore_ascii_case(b"status");
        let mut fields = self.storage.fields.iter();
        let found = fields.position(|field| is_status(field.name.of(buffer)));
        self.status = match found {
            Some(index) => {
                let field = self.storage.fields.remove(index);
                let value = field.value.of(buffer);
                parse_cgi_status(value).ok_or(HeadError::StartLine)?
            }
            None if self.storage.get(Known::Location, buffer).is_some() => 302,
            None => 200,
        };
        self.storage
            .fields
            .retain(|field| field.known != Known::TransferEncoding);
        self.reason = BufferSpan::default();
        self.examine(buffer)
    }

    /// The parsed head over the bytes it was parsed from.
    pub fn view<'a>(&'a self, buffer: &'a [u8]) -> ResponseView<'a> {
        ResponseView { head: self, buffer }
    }

    fn examine(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        if !(100..=999).contains(&self.status) {
            return Err(HeadError::StartLine);
        }
        self.storage.first = FirstOf::default();
        self.content_length = None;
        self.is_chunked = false;
        let mut connection = ConnectionOptions::default();
        for (index, field) in self.storage.fields.iter().enumerate() {
            let is_first = self.storage.first.note(field.known, index);
            let value = field.value.of(buffer);
            match field.known {
                Known::ContentLength if !is_first => return Err(HeadError::ContentLengthRepeated),
                Known::ContentLength => {
                    self.content_length =
                        Some(parse_content_length(value).ok_or(HeadError::ContentLength)?);
                }
                Known::TransferEncoding if !is_first => return Err(HeadError::TransferEncoding),
                Known::TransferEncoding if self.version == Version::Http10 => {
                    return Err(HeadError::TransferEncodingVersion);
                }
                Known::TransferEncoding => {
                    check_transfer_encoding(value)?;
                    self.is_chunked = true;
                }
                Known::Connection => connection.read(value),
                _ => {}
            }
        }
        if self.is_chunked && self.content_length.is_some() {
            return Err(HeadError::LengthConflict);
        }
        self.keep_alive = connection.is_persistent(self.version);
        self.upgrade = connection.upgrade;
        Ok(())
    }
}

/// Three digits, and perhaps a reason after a space.
fn parse_cgi_status(value: &[u8]) -> Option<u16> {
    let digits = value.get(..3)?;
    let is_whole = value.get(3).is_none_or(|byte| *byte == b' ');
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_whole && is_number && status >= 200).then_some(status)
}

/// A parsed response head over its bytes.
#[derive(Clone, Copy, Debug)]
pub struct ResponseView<'a> {
    head: &'a ResponseHead,
    buffer: &'a [u8],
}

impl<'a> ResponseView<'a> {
    /// Bytes of the head with its empty line.
    pub fn length(&self) -> usize {
        self.head.storage.length
    }

    /// 100 to 999.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The reason phrase; empty if there is none or it is not ASCII.
    pub fn reason(&self) -> &'a [u8] {
        self.head.reason.of(self.buffer)
    }

    /// The HTTP version of the response.
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// The value of `Content-Length`, which for `HEAD` and 304 is not the length of the body.
    pub fn content_length(&self) -> Option<u64> {
        self.head.content_length
    }

    /// Where the body ends, for a response to `method` (RFC 9112 §6.3).
    pub fn body_length(&self, method: Method) -> BodyLength {
        if method == Method::Head || !status_has_body(self.head.status) {
            return BodyLength::None;
        }
        match (self.head.is_chunked, self.head.content_length) {
            (true, _) => BodyLength::Chunked,
            (false, Some(0)) => BodyLength::None,
            (false, Some(length)) => BodyLength::Known(length),
            (false, None) => BodyLength::UntilClose,
        }
    }

    /// True if the server keeps the connection open after a response to `method`.
    pub fn keep_alive(&self, method: Method) -> bool {
        self.head.keep_alive && self.body_length(method) != BodyLength::UntilClose
    }

    /// `Connection` names `upgrade`.
    pub fn is_upgrade(&self) -> bool {
        self.head.upgrade
    }

    /// The fields for a client: without those of the connection, but with the length of the body, which is checked, and with `Trailer`.
    pub fn forwarded(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let connection = PerConnection::of(self.fields());
        self.fields().filter_map(move |field| {
            let is_kept = match field.known {
                Known::ContentLength | Known::Trailer => !connection.is_named(field.name),
                known => !connection.has(field.name, known),
            };
            is_kept.then_some((field.name, field.value))
        })
    }

    /// All fields in order, names in their own case.
    pub fn fields(&self) -> Fields<'a> {
        self.head.storage.all(self.buffer)
    }

    /// The value of the first field of this name, in constant time.
    pub fn get(&self, known: Known) -> Option<&'a [u8]> {
        self.head.storage.get(known, self.buffer)
    }

    /// The values of all fields of this name, ASCII case ignored.
    pub fn get_all<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.head.storage.get_all(name, self.buffer)
    }
}
