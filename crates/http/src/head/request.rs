//! The head of a request: parsed in place, checked as a whole, and read through a view.

use std::borrow::Cow;

use httparse::{Request, Status};

use crate::body::BodyLength;
use crate::error::HeadError;
use crate::field::{Fields, FirstOf, is_safe_name, list_members, parse_content_length};
use crate::head::storage::Storage;
use crate::head::{BufferSpan, Progress, RawFields};
use crate::host;
use crate::known_fields::Known;
use crate::limits::MessageLimits;
use crate::method::Method;
use crate::path::{Forms, RequestPath, Room};
use crate::version::Version;

/// The form of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `host:port`, of `CONNECT` only.
    Authority,
    /// `*`, of `OPTIONS` only.
    Asterisk,
}

/// The consequences of the fields for this message and its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFacts {
    /// The value of `Content-Length`.
    pub content_length: Option<u64>,
    /// The body is chunked.
    pub is_chunked: bool,
    /// The body ends with the stream (HTTP/2, no `Content-Length`).
    pub is_until_end: bool,
    /// The client accepts another response on this connection (RFC 9112 §9.3). Never set for HTTP/2, where a stream has one.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body. Never set for HTTP/1.0 or without a body.
    pub expects_continue: bool,
    /// `Connection: upgrade` and an `Upgrade` field, in HTTP/1.1.
    pub wants_upgrade: bool,
    /// Some fields were dropped because of their name (`discard_unsafe_fields`).
    pub has_discarded_fields: bool,
}

/// The position of a decoded text: in the caller's buffer, or, if it differs from the received one, in the head's own storage.
#[derive(Clone, Copy, Debug, Default)]
enum Text {
    #[default]
    Empty,
    Sent(BufferSpan),
    Stored,
    Fixed(&'static [u8]),
}

impl Text {
    fn resolve<'a>(self, buffer: &'a [u8], stored: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Empty => b"",
            Self::Sent(span) => span.of(buffer),
            Self::Stored => stored,
            Self::Fixed(text) => text,
        }
    }
}

/// The position of the request line in a head that was composed, not parsed.
pub(crate) struct Composed {
    pub(crate) method: BufferSpan,
    pub(crate) target: BufferSpan,
    pub(crate) line: BufferSpan,
    pub(crate) has_body: bool,
    pub(crate) version: Version,
}

/// A request head: state of the parser and reusable storage of its result.
///
/// Keep one per connection (or take one from a pool while a request is read): after the first request nothing is allocated
/// unless a head has more than 32 fields or a path that needs decoding is longer than any before.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    storage: Storage,
    method: Method,
    method_text: BufferSpan,
    target: BufferSpan,
    target_form: TargetForm,
    line: BufferSpan,
    version: Version,
    facts: MessageFacts,
    path: Text,
    /// Path and query for forwarding.
    path_target: Text,
    path_storage: Room,
    query: Option<BufferSpan>,
    host: BufferSpan,
    host_name: Text,
    host_storage: Vec<u8>,
}

impl RequestHead {
    /// Storage for one head.
    pub fn new() -> Self {
        Self::default()
    }

    /// Discards an incomplete head, before the next request or connection. A complete or refused one needs no reset.
    pub fn reset(&mut self) {
        self.storage.reset();
    }

    /// Parses a head from the start of `buffer`.
    ///
    /// While the result is [`Progress::Incomplete`], call again with the same bytes and more after them. Empty lines before the request
    /// line are skipped (RFC 9112 §2.2).
    ///
    /// # Errors
    /// Any [`HeadError`]: answer its status and close the connection.
    pub fn parse(&mut self, buffer: &[u8], limits: &MessageLimits) -> Result<Progress, HeadError> {
        let progress = self
            .storage
            .read(buffer, limits, |buffer, room, found| {
                let mut request = Request::new(&mut []);
                let Status::Complete(length) = request.parse_with_uninit_headers(buffer, room)?
                else {
                    return Ok(None);
                };
                let method = request.method.unwrap_or_default().as_bytes();
                self.method = Method::from_bytes(method);
                self.method_text = BufferSpan::locate(buffer, method);
                self.target =
                    BufferSpan::locate(buffer, request.path.unwrap_or_default().as_bytes());
                self.version = Version::of_minor(request.version);
                let line_end = self.target.end() + " HTTP/1.1".len();
                self.line = BufferSpan {
                    offset: self.method_text.offset,
                    length: (line_end - self.method_text.start()) as u32,
                };
                found.keep(request.headers);
                Ok(Some(length))
            })
            .map_err(|error| refine_version_error(error, buffer))?;
        if progress != Progress::Incomplete {
            self.examine(buffer, limits)?;
        }
        Ok(progress)
    }

    /// The parsed head over the bytes it was parsed from.
    ///
    /// `buffer` must contain the bytes with which `parse` completed (it may be longer, and may have moved). Before that the view is empty.
    pub fn view<'a>(&'a self, buffer: &'a [u8]) -> RequestView<'a> {
        RequestView { head: self, buffer }
    }

    /// Forgets the fields.
    pub(crate) fn clear_fields(&mut self) {
        self.storage.reset();
        self.storage.fields.clear();
    }

    pub(crate) fn fields_mut(&mut self) -> &mut RawFields {
        &mut self.storage.fields
    }

    /// Takes the composed head in `buffer`, whose fields have been noted, for a request of HTTP/2 or 3, and checks it like a parsed one.
    pub(crate) fn adopt(
        &mut self,
        buffer: &[u8],
        composed: Composed,
        limits: &MessageLimits,
    ) -> Result<(), HeadError> {
        self.storage.check_length(buffer, limits)?;
        self.method_text = composed.method;
        self.method = Method::from_bytes(composed.method.of(buffer));
        self.target = composed.target;
        self.line = composed.line;
        self.version = composed.version;
        self.examine(buffer, limits)?;
        self.facts.keep_alive = false;
        match (composed.has_body, self.facts.content_length) {
            (true, None) => self.facts.is_until_end = true,
            // The stream has ended already.
            (false, Some(1..)) => return Err(HeadError::ContentLength),
            _ => {}
        }
        self.facts.expects_continue &= composed.has_body;
        Ok(())
    }

    /// Evaluates the fields and the target, and refuses what is ambiguous.
    fn examine(&mut self, buffer: &[u8], limits: &MessageLimits) -> Result<(), HeadError> {
        self.facts = MessageFacts::default();
        if limits.discard_unsafe_fields {
            let fields = &mut self.storage.fields;
            let before = fields.len();
            fields
                .retain(|field| field.known != Known::Other || is_safe_name(field.name.of(buffer)));
            self.facts.has_discarded_fields = fields.len() != before;
        }
        self.examine_fields(buffer)?;
        self.examine_target(buffer, limits)?;
        self.examine_host(buffer)
    }

    fn examine_fields(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        self.storage.first = FirstOf::default();
        let mut connection = ConnectionOptions::default();
        let mut coding = None;
        for (index, field) in self.storage.fields.iter().enumerate() {
            let is_first = self.storage.first.note(field.known, index);
            let value = || field.value.of(buffer);
            match field.known {
                Known::Host if !is_first => return Err(HeadError::HostConflict),
                Known::ContentLength if !is_first => return Err(HeadError::ContentLengthRepeated),
                // A leading zero makes an octal number for some readers.
                Known::ContentLength if matches!(value(), [b'0', _, ..]) => {
                    return Err(HeadError::ContentLength);
                }
                Known::ContentLength => {
                    self.facts.content_length =
                        Some(parse_content_length(value()).ok_or(HeadError::ContentLength)?);
                }
                Known::TransferEncoding if !is_first => return Err(HeadError::TransferEncoding),
                Known::TransferEncoding => coding = Some(check_transfer_encoding(value())),
                Known::Connection => connection.read(value()),
                Known::Expect if self.version > Version::Http10 => {
                    if !value().eq_ignore_ascii_case(b"100-continue") {
                        return Err(HeadError::Expectation);
                    }
                    self.facts.expects_continue = true;
                }
                _ => {}
            }
        }
        if let Some(coding) = coding {
            if self.version == Version::Http10 {
                return Err(HeadError::TransferEncodingVersion);
            }
            if self.facts.content_length.is_some() {
                return Err(HeadError::LengthConflict);
            }
            coding?;
            self.facts.is_chunked = true;
        }
        self.facts.expects_continue &= self.facts.is_chunked
            || self.version >= Version::Http2
            || self.facts.content_length.is_some_and(|length| length > 0);
        self.facts.keep_alive = connection.is_persistent(self.version);
        self.facts.wants_upgrade = self.version > Version::Http10
            && connection.upgrade
            && self.storage.first.get(Known::Upgrade).is_some();
        Ok(())
    }

    fn examine_target(&mut self, buffer: &[u8], limits: &MessageLimits) -> Result<(), HeadError> {
        let target = self.target.of(buffer);
        // A fragment is never sent (RFC 9110 §7.1), and a URI has only ASCII (RFC 3986 §2).
        if memchr::memchr(b'#', target).is_some() || !target.is_ascii() {
            return Err(HeadError::Target);
        }
        self.host = BufferSpan::default();
        self.query = None;
        self.path = Text::Sent(self.target);
        self.path_target = self.path;
        match (self.method, target) {
            (Method::Connect, _) => {
                let (host, port) = host::split_port(target);
                if host.is_empty() || port.is_none_or(<[u8]>::is_empty) {
                    return Err(HeadError::Target);
                }
                self.target_form = TargetForm::Authority;
                self.host = self.target;
                self.path = Text::Empty;
                self.path_target = Text::Empty;
                Ok(())
            }
            (_, [b'/', ..]) => {
                self.target_form = TargetForm::Origin;
                self.split_path(buffer, self.target, limits)
            }
            (Method::Options, b"*") => {
                self.target_form = TargetForm::Asterisk;
                Ok(())
            }
            _ => {
                let scheme = absolute_scheme(target).ok_or(HeadError::Target)?;
                let rest = target.get(scheme.len() + 3..).unwrap_or_default();
                let authority_end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
                let (authority, path_and_query) = rest.split_at(authority_end);
                if authority.is_empty() {
                    return Err(HeadError::HostInvalid); // RFC 9110 §4.2.1
                }
                self.target_form = TargetForm::Absolute;
                self.host = BufferSpan::locate(buffer, authority);
                self.split_path(buffer, BufferSpan::locate(buffer, path_and_query), limits)
            }
        }
    }

    /// Splits path and query, and parses the path.
    fn split_path(
        &mut self,
        buffer: &[u8],
        sent: BufferSpan,
        limits: &MessageLimits,
    ) -> Result<(), HeadError> {
        let target = sent.of(buffer);
        let path_length = memchr::memchr(b'?', target).unwrap_or(target.len());
        let (path, query) = target.split_at(path_length);
        self.query = query
            .get(1..)
            .map(|query| BufferSpan::locate(buffer, query));
        // An absolute target without a path (RFC 9110 §4.2.3).
        let has_path = !path.is_empty();
        let path: &[u8] = if has_path { path } else { b"/" };
        let forms = match &limits.paths {
            Some(rules) => self.path_storage.read(path, rules),
            None => Ok(Forms::default()),
        };
        let forms = forms.map_err(HeadError::Path)?;
        self.path = match (forms.is_decoded_new, has_path) {
            (true, _) => Text::Stored,
            (false, true) => Text::Sent(BufferSpan::locate(buffer, path)),
            (false, false) => Text::Fixed(b"/"),
        };
        self.path_target = match (forms.is_encoded_new, has_path) {
            (false, true) => Text::Sent(sent),
            (false, false) if query.is_empty() => Text::Fixed(b"/"),
            (is_new, _) => {
                let encoded = &mut self.path_storage.encoded;
                if !is_new {
                    encoded.clear();
                    encoded.push(b'/');
                }
                encoded.extend_from_slice(query);
                Text::Stored
            }
        };
        Ok(())
    }

    /// Determines the host of the request: exactly one valid host. An absolute target overrides `Host`, which is changed accordingly (RFC
    /// 9112 §3.2.2), so that the server and its applications agree.
    fn examine_host(&mut self, buffer: &[u8]) -> Result<(), HeadError> {
        let Storage { fields, first, .. } = &mut self.storage;
        let field = first
            .get(Known::Host)
            .and_then(|index| fields.get_mut(index));
        let name = match field {
            None if self.version > Version::Http10 => return Err(HeadError::HostMissing),
            None => host::name_of(self.host.of(buffer))?,
            // It means that the target has no authority (RFC 9110 §7.2), which every target of HTTP has (§4.2.1).
            Some(field) if field.value.is_empty() => return Err(HeadError::HostInvalid),
            Some(field) => {
                let name = host::name_of(field.value.of(buffer))?;
                if self.host.is_empty() {
                    self.host = field.value;
                    name
                } else {
                    field.value = self.host;
                    host::name_of(self.host.of(buffer))?
                }
            }
        };
        self.host_name = if name.iter().any(u8::is_ascii_uppercase) {
            self.host_storage.clear();
            self.host_storage
                .extend(name.iter().map(u8::to_ascii_lowercase));
            Text::Stored
        } else {
            Text::Sent(BufferSpan::locate(buffer, name))
        };
        Ok(())
    }
}

/// The scheme of an absolute target, if it is one of HTTP's.
fn absolute_scheme(target: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memchr(b':', target)?;
    let (scheme, rest) = target.split_at(colon);
    let is_http = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    (is_http && rest.starts_with(b"://")).then_some(scheme)
}

/// `chunked`, alone: the server decodes nothing else, and everything else is used for request smuggling.
pub(crate) fn check_transfer_encoding(value: &[u8]) -> Result<(), HeadError> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    // Well-formed but unknown codings before a final `chunked` are 501 (RFC 9112 §6.1); everything else is 400.
    let is_known_coding = |name: &[u8]| {
        [
            b"gzip".as_slice(),
            b"x-gzip",
            b"compress",
            b"x-compress",
            b"deflate",
        ]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
    };
    let mut members: smallvec::SmallVec<[&[u8]; 4]> = list_members(value).collect();
    let last = members.pop().unwrap_or_default();
    if last.eq_ignore_ascii_case(b"chunked")
        && !members.is_empty()
        && members.iter().all(|name| is_known_coding(name))
    {
        return Err(HeadError::TransferCodingUnsupported);
    }
    Err(HeadError::TransferEncoding)
}

/// The options in all `Connection` fields that the server evaluates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
    pub(crate) upgrade: bool,
}

impl ConnectionOptions {
    pub(crate) fn read(&mut self, value: &[u8]) {
        for option in list_members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    /// RFC 9112 §9.3.
    pub(crate) fn is_persistent(self, version: Version) -> bool {
        !self.close && (version > Version::Http10 || self.keep_alive)
    }
}

/// A line that does not end in `HTTP/digit.digit` is malformed (400), not of another version (505).
fn refine_version_error(error: HeadError, buffer: &[u8]) -> HeadError {
    if error != HeadError::Version {
        return error;
    }
    let start = buffer
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))
        .unwrap_or_default();
    let rest = buffer.get(start..).unwrap_or_default();
    let line = rest
        .get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
        .unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut parts = line.split(|&byte| byte == b' ').skip(2);
    match (parts.next(), parts.next()) {
        (Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]), None)
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            HeadError::Version
        }
        _ => HeadError::StartLine,
    }
}

/// A parsed request head over its bytes.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    head: &'a RequestHead,
    buffer: &'a [u8],
}

impl<'a> RequestView<'a> {
    /// The head and its bytes, for a request that outlives this one.
    pub fn copied(&self) -> (RequestHead, Vec<u8>) {
        let bytes = self.buffer.get(..self.length()).unwrap_or_default();
        (self.head.clone(), bytes.to_vec())
    }

    /// Bytes of the head with its empty line.
    pub fn length(&self) -> usize {
        self.head.storage.length
    }

    /// The method, if it is one the server knows.
    pub fn method(&self) -> Method {
        self.head.method
    }

    /// The method as received.
    pub fn method_text(&self) -> &'a [u8] {
        self.head.method_text.of(self.buffer)
    }

    /// The whole request line without its line end, as received (`$request_line`).
    pub fn request_line(&self) -> &'a [u8] {
        self.head.line.of(self.buffer)
    }

    /// The request target as received, for logs; everything else uses the [`request_path`](Self::request_path).
    pub fn target(&self) -> &'a [u8] {
        self.head.target.of(self.buffer)
    }

    /// The form of the target.
    pub fn target_form(&self) -> TargetForm {
        self.head.target_form
    }

    /// The path and query of the request: the only ones that later stages use.
    pub fn request_path(&self) -> RequestPath<'a> {
        let room = &self.head.path_storage;
        RequestPath::new(
            self.head.path.resolve(self.buffer, &room.decoded),
            self.head.path_target.resolve(self.buffer, &room.encoded),
            self.query(),
        )
    }

    /// The path, decoded; see [`RequestPath::path`].
    pub fn path(&self) -> &'a [u8] {
        self.request_path().path()
    }

    /// The path encoded, and the query; see [`RequestPath::target`].
    pub fn origin_target(&self) -> &'a [u8] {
        self.request_path().target()
    }

    /// The undecoded part after the first `?` of the target; `None` without `?`.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.head.query.map(|query| query.of(self.buffer))
    }

    /// The HTTP version of the request.
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// Host and port of the request, as sent: the target's authority if it has one, else `Host`. May be empty.
    pub fn host(&self) -> &'a [u8] {
        self.head.host.of(self.buffer)
    }

    /// The host in lower case without port and trailing period (`$host`). May be empty.
    pub fn host_name(&self) -> &'a [u8] {
        self.head
            .host_name
            .resolve(self.buffer, &self.head.host_storage)
    }

    /// The consequences of the fields for message and connection.
    pub fn facts(&self) -> &'a MessageFacts {
        &self.head.facts
    }

    /// Where the body ends.
    pub fn body_length(&self) -> BodyLength {
        match self.head.facts {
            MessageFacts {
                is_chunked: true, ..
            } => BodyLength::Chunked,
            MessageFacts {
                content_length: Some(length),
                ..
            } if length > 0 => BodyLength::Known(length),
            MessageFacts {
                is_until_end: true, ..
            } => BodyLength::UntilEnd,
            _ => BodyLength::None,
        }
    }

    /// All fields that were kept, in order, names in their own case.
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

    /// The values of all fields of this name, joined by commas as one list (RFC 9110 §5.3).
    pub fn get_list(&self, known: Known) -> Option<Cow<'a, [u8]>> {
        let first = self.get(known)?;
        let mut list = Cow::Borrowed(first);
        for field in self.fields().filter(|field| field.known == known).skip(1) {
            let list = list.to_mut();
            list.extend_from_slice(b", ");
            list.extend_from_slice(field.value);
        }
        Some(list)
    }

    /// True if the client accepts trailer fields (RFC 9110 §10.1.4).
    pub fn asks_for_trailers(&self) -> bool {
        self.version() > Version::Http10
            && self
                .get_all(b"TE")
                .flat_map(list_members)
                .any(|member| member.eq_ignore_ascii_case(b"trailers"))
    }
}
