//! A request's pseudo-fields and fields, written as a head and checked like one.

use crate::error::HeadError;
use crate::field::FieldRef;
use crate::head::request::{Composed, RequestHead};
use crate::head::{BufferSpan, RawField, RawFields};
use crate::http2::is_connection_specific;
use crate::known_fields::Known;
use crate::limits::MessageLimits;
use crate::token::{is_field_name, is_field_value};
use crate::version::Version;

/// A `Sec-WebSocket-Key`: 16 bytes in base64.
pub type WebSocketKey = [u8; 24];

/// The parts of a request without its fields.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:path`; for a plain `CONNECT`, `:authority`.
    pub target: &'a [u8],
    /// `:authority`.
    pub authority: Option<&'a [u8]>,
    /// Method and authority have been found valid, as those of HTTP/2 have, but for white space around the authority.
    pub is_checked: bool,
    /// A body follows.
    pub has_body: bool,
    /// It is an extended `CONNECT` for WebSocket (RFC 8441). It becomes the equivalent handshake of RFC 6455 with this key, so that
    /// the application or upstream need not know the difference.
    pub websocket: Option<&'a WebSocketKey>,
    /// [`Version::Http2`] or [`Version::Http3`].
    pub version: Version,
}

/// A field of a request that is composed.
#[derive(Clone, Copy, Debug)]
pub struct RequestField<'f> {
    pub(crate) field: FieldRef<'f>,
    /// Name and value have been found valid, but for white space around the value.
    pub(crate) is_checked: bool,
}

impl<'f> From<(&'f [u8], &'f [u8])> for RequestField<'f> {
    fn from((name, value): (&'f [u8], &'f [u8])) -> Self {
        let known = Known::from_name(name);
        Self {
            field: FieldRef { name, value, known },
            is_checked: false,
        }
    }
}

impl RequestField<'_> {
    /// §8.2.1: no control character, and no white space at either end.
    fn check_value(&self) -> Result<(), HeadError> {
        let value = self.field.value;
        let is_trimmed = !matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t']);
        if is_trimmed && (self.is_checked || is_field_value(value)) {
            Ok(())
        } else {
            Err(HeadError::FieldValue)
        }
    }
}

/// The end of the request line.
fn version_text(version: Version) -> &'static [u8] {
    match version {
        Version::Http3 => b" HTTP/3.0\r\n",
        _ => b" HTTP/2.0\r\n",
    }
}

impl RequestHead {
    /// Writes a request of HTTP/2 or 3 into `buffer`, which is cleared, as a head for [`view`](RequestHead::view).
    ///
    /// `fields` may be called more than once. `Host` comes first and has the value of `:authority`; crumbs of `Cookie` become one field
    /// (RFC 9113 §8.2.3).
    ///
    /// # Errors
    /// Any [`HeadError`]: answer its status, or reset the stream. The connection may continue.
    pub fn compose<'f, I>(
        &mut self,
        buffer: &mut Vec<u8>,
        opening: &Opening<'_>,
        fields: impl Fn() -> I,
        limits: &MessageLimits,
    ) -> Result<(), HeadError>
    where
        I: Iterator<Item: Into<RequestField<'f>>>,
    {
        let fields = || fields().map(Into::into);
        buffer.clear();
        self.clear_fields();
        let composed = write_line(buffer, opening)?;
        let is_extended = opening.websocket.is_some();
        let mut writer = Writer {
            buffer,
            fields: self.fields_mut(),
            limits,
        };
        if let Some(authority) = opening.authority {
            writer.field(RequestField {
                field: FieldRef {
                    name: b"host",
                    value: authority,
                    known: Known::Host,
                },
                is_checked: opening.is_checked,
            })?;
        }
        let mut has_cookie = false;
        for one in fields() {
            let FieldRef { name, value, known } = one.field;
            match known {
                Known::Host => match opening.authority {
                    None => writer.field(one)?,
                    Some(authority) if authority.eq_ignore_ascii_case(value) => {}
                    Some(_) => return Err(HeadError::HostConflict),
                },
                Known::Cookie if std::mem::replace(&mut has_cookie, true) => {}
                Known::Cookie => writer.cookies(fields())?,
                Known::Te if !value.eq_ignore_ascii_case(b"trailers") => {
                    return Err(HeadError::ConnectionField);
                }
                known if is_connection_specific(known) => return Err(HeadError::ConnectionField),
                // The client's key is meaningless here, and must not replace the handshake's.
                Known::Other if is_extended && name == b"sec-websocket-key" => {}
                _ => writer.field(one)?,
            }
        }
        if let Some(key) = opening.websocket {
            writer.own(b"connection", b"upgrade")?;
            writer.own(b"upgrade", b"websocket")?;
            writer.own(b"sec-websocket-key", key)?;
        }
        buffer.extend_from_slice(b"\r\n");
        self.adopt(buffer, composed, limits)
    }
}

/// Writes the request line.
fn write_line(buffer: &mut Vec<u8>, opening: &Opening<'_>) -> Result<Composed, HeadError> {
    let is_extended = opening.websocket.is_some();
    let method = if is_extended { b"GET" } else { opening.method };
    if !opening.is_checked && !is_field_name(method) {
        return Err(HeadError::StartLine);
    }
    // Visible or non-ASCII, as for HTTP/1.
    let is_target = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    if opening.target.is_empty() || !opening.target.iter().all(is_target) {
        return Err(HeadError::Target);
    }
    let method = append(buffer, method);
    buffer.push(b' ');
    let target = append(buffer, opening.target);
    let version = version_text(opening.version);
    let line_length = buffer.len() + version.len() - "\r\n".len();
    buffer.extend_from_slice(version);
    Ok(Composed {
        method,
        target,
        line: BufferSpan {
            offset: 0,
            length: line_length as u32,
        },
        has_body: opening.has_body && !is_extended,
        version: opening.version,
    })
}

/// Appends `text`, and returns its position.
pub(crate) fn append(buffer: &mut Vec<u8>, text: &[u8]) -> BufferSpan {
    let span = BufferSpan {
        offset: buffer.len() as u32,
        length: text.len() as u32,
    };
    buffer.extend_from_slice(text);
    span
}

struct Writer<'a> {
    buffer: &'a mut Vec<u8>,
    fields: &'a mut RawFields,
    limits: &'a MessageLimits,
}

impl Writer<'_> {
    /// Writes a field line of ours.
    fn own(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        self.field((name, value).into())
    }

    /// Writes a field line.
    fn field(&mut self, one: RequestField<'_>) -> Result<(), HeadError> {
        let FieldRef { name, value, known } = one.field;
        // §8.2.1: a name in upper case is malformed.
        let is_name = || is_field_name(name) && !name.iter().any(u8::is_ascii_uppercase);
        if !one.is_checked && !is_name() {
            return Err(HeadError::FieldName);
        }
        self.line(name, known, |buffer| {
            one.check_value()?;
            buffer.extend_from_slice(value);
            Ok(())
        })
    }

    /// Writes all crumbs as one field.
    fn cookies<'f>(
        &mut self,
        fields: impl Iterator<Item = RequestField<'f>>,
    ) -> Result<(), HeadError> {
        let crumbs = fields.filter(|one| one.field.known == Known::Cookie);
        self.line(b"cookie", Known::Cookie, |buffer| {
            let mut delimiter: &[u8] = b"";
            for crumb in crumbs {
                crumb.check_value()?;
                // An empty one would leave white space at the end of the field.
                if !crumb.field.value.is_empty() {
                    buffer.extend_from_slice(delimiter);
                    buffer.extend_from_slice(crumb.field.value);
                    delimiter = b"; ";
                }
            }
            Ok(())
        })
    }

    fn line(
        &mut self,
        name: &[u8],
        known: Known,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), HeadError>,
    ) -> Result<(), HeadError> {
        if self.fields.len() >= self.limits.max_fields
            || self.buffer.len() > self.limits.max_head_bytes()
        {
            return Err(HeadError::FieldsTooLarge);
        }
        let name = append(self.buffer, name);
        self.buffer.extend_from_slice(b": ");
        let start = self.buffer.len();
        write(self.buffer)?;
        self.fields.push(RawField {
            known,
            name,
            value: BufferSpan {
                offset: start as u32,
                length: (self.buffer.len() - start) as u32,
            },
        });
        self.buffer.extend_from_slice(b"\r\n");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::handshake::{self, Handshake};
    use crate::{BodyLength, Method, PathError};

    type Field = (&'static str, &'static str);

    fn compose(
        opening: &Opening<'_>,
        fields: &[Field],
        limits: &MessageLimits,
    ) -> Result<(RequestHead, Vec<u8>), HeadError> {
        let mut head = RequestHead::new();
        let mut buffer = b"what was there before".to_vec();
        let fields = || {
            fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        };
        head.compose(&mut buffer, opening, fields, limits)?;
        Ok((head, buffer))
    }

    const GET: Opening<'_> = Opening {
        method: b"GET",
        target: b"/a/../b%20c?q=1",
        authority: Some(b"Example.org:8080"),
        is_checked: false,
        has_body: false,
        websocket: None,
        version: Version::Http2,
    };

    #[test]
    fn a_request_reads_like_one_of_http1() {
        let fields = [
            ("accept", "*/*"),
            ("cookie", "a=1"),
            ("x-empty", ""),
            ("cookie", "b=2"),
            ("te", "trailers"),
            ("cookie", "c=3"),
            // Issue 10, found by fuzzing: the field ended with a space.
            ("cookie", ""),
        ];
        let (head, buffer) = compose(&GET, &fields, &MessageLimits::default()).unwrap();
        assert_eq!(
            buffer,
            b"GET /a/../b%20c?q=1 HTTP/2.0\r\nhost: Example.org:8080\r\naccept: */*\r\ncookie: a=1; b=2; c=3\r\nx-empty: \r\n\
              te: trailers\r\n\r\n"
        );
        let view = head.view(&buffer);
        assert_eq!(view.length(), buffer.len());
        assert_eq!(view.method(), Method::Get);
        assert_eq!(view.request_line(), b"GET /a/../b%20c?q=1 HTTP/2.0");
        assert_eq!(view.target(), b"/a/../b%20c?q=1");
        assert_eq!(view.path(), b"/b c");
        assert_eq!(view.query(), Some(&b"q=1"[..]));
        assert_eq!(view.host(), b"Example.org:8080");
        assert_eq!(view.host_name(), b"example.org");
        assert_eq!(view.version(), Version::Http2);
        assert_eq!(view.get(Known::Cookie), Some(&b"a=1; b=2; c=3"[..]));
        assert_eq!(view.fields().len(), 5);
        assert_eq!(view.body_length(), BodyLength::None);
        assert!(!view.facts().keep_alive);
    }

    #[test]
    fn a_head_may_be_used_again() {
        let limits = MessageLimits::default();
        let (mut head, mut buffer) = compose(&GET, &[("accept", "*/*")], &limits).unwrap();
        let post = Opening {
            method: b"POST",
            target: b"/",
            has_body: true,
            ..GET
        };
        let fields = [(&b"content-length"[..], &b"7"[..])];
        head.compose(&mut buffer, &post, || fields.into_iter(), &limits)
            .unwrap();
        let view = head.view(&buffer);
        assert_eq!(view.body_length(), BodyLength::Known(7));
        assert_eq!(view.get(Known::Accept), None);
        let parsed = b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        head.parse(parsed, &limits).unwrap();
        assert_eq!(head.view(parsed).version(), Version::Http11);
        assert_eq!(head.view(parsed).body_length(), BodyLength::Chunked);
    }

    #[test]
    fn a_body_without_length_ends_with_its_stream() {
        let post = Opening {
            method: b"POST",
            has_body: true,
            ..GET
        };
        let (head, buffer) = compose(
            &post,
            &[("expect", "100-continue")],
            &MessageLimits::default(),
        )
        .unwrap();
        let view = head.view(&buffer);
        assert_eq!(view.body_length(), BodyLength::UntilEnd);
        assert!(view.facts().expects_continue);
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn ambiguous_requests_are_refused() {
        let cases: &[(Opening<'_>, &[Field], HeadError)] = &[
            (GET, &[("host", "other")], HeadError::HostConflict),
            (
                Opening {
                    authority: None,
                    ..GET
                },
                &[],
                HeadError::HostMissing,
            ),
            (
                Opening {
                    authority: None,
                    ..GET
                },
                &[("host", "a"), ("host", "a")],
                HeadError::HostConflict,
            ),
            (
                Opening {
                    authority: Some(b"user@host"),
                    ..GET
                },
                &[],
                HeadError::HostInvalid,
            ),
            (
                Opening {
                    authority: Some(b"h\r\nx: y"),
                    ..GET
                },
                &[],
                HeadError::FieldValue,
            ),
            (
                Opening {
                    method: b"GET /x HTTP/1.1\r\nx:",
                    ..GET
                },
                &[],
                HeadError::StartLine,
            ),
            (Opening { method: b"", ..GET }, &[], HeadError::StartLine),
            (
                Opening {
                    target: b"/ HTTP/1.1\r\nx: y",
                    ..GET
                },
                &[],
                HeadError::Target,
            ),
            (Opening { target: b"", ..GET }, &[], HeadError::Target),
            (
                Opening {
                    target: b"x",
                    ..GET
                },
                &[],
                HeadError::Target,
            ),
            (
                Opening {
                    target: b"*",
                    ..GET
                },
                &[],
                HeadError::Target,
            ),
            (
                Opening {
                    target: b"/a#b",
                    ..GET
                },
                &[],
                HeadError::Target,
            ),
            (
                Opening {
                    target: b"/..",
                    ..GET
                },
                &[],
                HeadError::Path(PathError::AboveRoot),
            ),
            (GET, &[("x", "a\r\nb: c")], HeadError::FieldValue),
            (GET, &[("x", "a\0")], HeadError::FieldValue),
            (GET, &[("x", " a")], HeadError::FieldValue),
            (GET, &[("x", "a\t")], HeadError::FieldValue),
            (
                GET,
                &[("cookie", "a"), ("cookie", "b\n")],
                HeadError::FieldValue,
            ),
            (GET, &[("X-Upper", "a")], HeadError::FieldName),
            (GET, &[("x y", "a")], HeadError::FieldName),
            (GET, &[("x:", "a")], HeadError::FieldName),
            (GET, &[("", "a")], HeadError::FieldName),
            (GET, &[("connection", "close")], HeadError::ConnectionField),
            (
                GET,
                &[("transfer-encoding", "chunked")],
                HeadError::ConnectionField,
            ),
            (GET, &[("keep-alive", "1")], HeadError::ConnectionField),
            (
                GET,
                &[("proxy-connection", "close")],
                HeadError::ConnectionField,
            ),
            (GET, &[("upgrade", "h2c")], HeadError::ConnectionField),
            (GET, &[("te", "gzip")], HeadError::ConnectionField),
            (GET, &[("content-length", "1")], HeadError::ContentLength),
            (GET, &[("content-length", "x")], HeadError::ContentLength),
            (
                GET,
                &[("content-length", "0"), ("content-length", "0")],
                HeadError::ContentLengthRepeated,
            ),
        ];
        for (opening, fields, error) in cases {
            let outcome = compose(opening, fields, &MessageLimits::default()).map(|_| ());
            assert_eq!(outcome, Err(*error), "{opening:?} {fields:?}");
        }
    }

    #[test]
    fn sizes_are_bounded_as_for_http1() {
        let limits = MessageLimits {
            large_header_buffer_size: 64,
            large_header_buffers: 3,
            max_fields: 5,
            ..MessageLimits::default()
        };
        let long: &'static str = "x".repeat(60).leak();
        let outcome = |opening: &Opening<'_>, fields: &[Field]| {
            compose(opening, fields, &limits).map(|_| ()).unwrap_err()
        };
        let target = [b"/".as_slice(), long.as_bytes()].concat();
        let far = Opening {
            target: &target,
            ..GET
        };
        assert_eq!(outcome(&far, &[]), HeadError::RequestLineTooLong);
        assert_eq!(
            outcome(&GET, &[("x-long", long)]),
            HeadError::FieldsTooLarge
        );
        assert_eq!(outcome(&GET, &[("a", "b"); 6]), HeadError::FieldsTooLarge);
        let half = &long[..50];
        assert_eq!(outcome(&GET, &[("a", half); 3]), HeadError::FieldsTooLarge);
        assert!(compose(&GET, &[("a", "b"); 4], &limits).is_ok());
    }

    #[test]
    fn a_head_of_many_lines_is_no_larger_than_one_of_http1() {
        let limits = MessageLimits {
            large_header_buffer_size: 64,
            large_header_buffers: 3,
            ..MessageLimits::default()
        };
        let value: &'static str = "x".repeat(40).leak();
        assert!(compose(&GET, &[("a", value); 2], &limits).is_ok());
        let outcome = compose(&GET, &[("a", value); 12], &limits).map(|_| ());
        assert_eq!(outcome, Err(HeadError::FieldsTooLarge));
    }

    #[test]
    fn a_host_like_the_authority_is_left_out() {
        let fields = [("host", "example.ORG:8080"), ("a", "b")];
        let (_, buffer) = compose(&GET, &fields, &MessageLimits::default()).unwrap();
        assert_eq!(
            buffer,
            b"GET /a/../b%20c?q=1 HTTP/2.0\r\nhost: Example.org:8080\r\na: b\r\n\r\n"
        );
    }

    #[test]
    fn white_space_around_a_value_is_refused_in_a_checked_section_too() {
        let limits = MessageLimits::default();
        for (value, expected) in [
            (&b"a b"[..], Ok(())),
            (b" a", Err(HeadError::FieldValue)),
            (b"a\t", Err(HeadError::FieldValue)),
        ] {
            let mut section = crate::section::Section::default();
            assert!(section.push(b"x", value, Known::Other));
            let mut head = RequestHead::new();
            let fields = || section.checked_fields();
            let outcome = head.compose(&mut Vec::new(), &GET, fields, &limits);
            assert_eq!(outcome, expected, "{}", value.escape_ascii());
        }
        for authority in [&b" a"[..], b"a\t"] {
            let checked = Opening {
                authority: Some(authority),
                is_checked: true,
                ..GET
            };
            let outcome = compose(&checked, &[], &limits).map(|_| ());
            assert_eq!(outcome, Err(HeadError::FieldValue));
        }
    }

    #[test]
    fn an_extended_connect_becomes_the_handshake_of_http1() {
        let key = b"dGhlIHNhbXBsZSBub25jZQ==";
        let opening = Opening {
            method: b"CONNECT",
            target: b"/chat",
            has_body: true,
            websocket: Some(key),
            ..GET
        };
        let fields = [
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "nonsense"),
            ("sec-websocket-protocol", "chat"),
        ];
        let (head, buffer) = compose(&opening, &fields, &MessageLimits::default()).unwrap();
        let view = head.view(&buffer);
        assert_eq!(view.request_line(), b"GET /chat HTTP/2.0");
        assert_eq!(
            handshake::check(&view),
            Handshake::Valid(handshake::accept(key))
        );
        assert_eq!(view.body_length(), BodyLength::None);
    }

    #[test]
    fn a_plain_connect_has_an_authority_for_a_target() {
        let opening = Opening {
            method: b"CONNECT",
            target: b"db.internal:5432",
            authority: Some(b"db.internal:5432"),
            ..GET
        };
        let (head, buffer) = compose(&opening, &[], &MessageLimits::default()).unwrap();
        assert_eq!(head.view(&buffer).method(), Method::Connect);
        assert_eq!(head.view(&buffer).path(), b"");
    }
}
