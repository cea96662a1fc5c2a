//! Trailer fields (RFC 9110 §6.5): those after a body that may be forwarded.
//!
//! A trailer arrives when a message has already been processed. It may be useful for the final recipient (`grpc-status`, a checksum), but a
//! field that affects framing, routing, authentication or caching would come too late to be evaluated.
//!
//! Must never: keep a field of that kind, or a byte that would end a line.

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;

use crate::field::trim;
use crate::field_lines::FieldLines;
use crate::known_fields::Known;

/// Trailer fields that may be forwarded, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    fields: FieldLines,
}

impl Trailers {
    /// The fields of a trailer section that a decoder has checked.
    pub(crate) fn of_section(section: &[u8]) -> Self {
        let mut trailers = Self::default();
        for line in section.split(|byte| *byte == b'\n') {
            let colon = memchr(b':', line);
            if let Some((name, value)) = colon.and_then(|colon| line.split_at_checked(colon)) {
                let value = value.strip_prefix(b":").unwrap_or(value);
                trailers.push(name, trim(value.strip_suffix(b"\r").unwrap_or(value)));
            }
        }
        trailers
    }

    /// Adds a field, unless it may not be forwarded.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        if may_trail(name) {
            // An invalid field is omitted like a forbidden one.
            let _ = self.fields.try_push(name, value);
        }
    }

    /// Removes the fields with these names.
    pub fn remove(&mut self, is_removed: impl Fn(&[u8]) -> bool) {
        self.fields.retain(|name, _| !is_removed(name));
    }

    /// The fields of a list of HTTP/2.
    pub fn of_map(map: &HeaderMap) -> Self {
        let mut trailers = Self::default();
        for (name, value) in map {
            trailers.push(name.as_str().as_bytes(), value.as_bytes());
        }
        trailers
    }

    /// Converts them to a list of HTTP/2; `None` if there are none.
    pub fn to_map(&self) -> Option<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in self.fields() {
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                map.append(name, value);
            }
        }
        (!map.is_empty()).then_some(map)
    }

    /// Names and values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.fields.iter()
    }

    /// As field lines.
    pub fn lines(&self) -> &[u8] {
        self.fields.lines()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// In addition to the names in [`Known`]: fields that RFC 9110 §6.5.1 forbids in trailers, and fields about the client.
const HEAD_ONLY: [&[u8]; 25] = [
    b"age",
    b"cache-control",
    b"clear-site-data",
    b"content-encoding",
    b"content-range",
    b"content-security-policy",
    b"expires",
    b"forwarded",
    b"max-forwards",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"retry-after",
    b"set-cookie",
    b"strict-transport-security",
    b"vary",
    b"warning",
    b"www-authenticate",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-proto",
    b"x-real-ip",
    b"x-sendfile",
    b"x-accel-redirect",
];

/// True if a field is permitted after a body.
pub fn may_trail(name: &[u8]) -> bool {
    // All other known fields affect framing or routing, make conditions, or describe the body.
    matches!(Known::from_name(name), Known::Other | Known::Priority)
        && !HEAD_ONLY
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitted_trailers_are_forwarded() {
        let section = b"grpc-status: 0\r\nX-Sum:\t a: b \r\nempty:\r\nSet-Cookie: a=1\r\nAUTHORIZATION: x\r\nIf-Match: *\r\n\
            content-type: a/b\r\nX-Forwarded-For: ::1\r\nlast: \xff\r\n";
        let trailers = Trailers::of_section(section);
        assert_eq!(
            trailers.lines(),
            b"grpc-status: 0\r\nX-Sum: a: b\r\nempty: \r\nlast: \xff\r\n"
        );
        let names: Vec<_> = trailers.fields().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"grpc-status"[..], b"X-Sum", b"empty", b"last"]);
        assert!(Trailers::of_section(b"").is_empty());
    }

    #[test]
    fn trailers_pass_through_the_lists_of_http2() {
        let mut map = HeaderMap::new();
        for (name, value) in [("grpc-status", "0"), ("x", "1"), ("x", "2"), ("vary", "a")] {
            map.append(name, HeaderValue::from_static(value));
        }
        let trailers = Trailers::of_map(&map);
        let lines = b"grpc-status: 0\r\nx: 1\r\nx: 2\r\n";
        assert_eq!(trailers.lines(), lines);
        map.remove("vary");
        assert_eq!(trailers.to_map(), Some(map));
        assert_eq!(Trailers::default().to_map(), None);
        assert!(Trailers::of_map(&HeaderMap::new()).is_empty());
    }

    #[test]
    fn no_field_ends_its_line() {
        let mut trailers = Trailers::default();
        trailers.push(b"a", b"1\r\nb: 2");
        trailers.push(b"a\r\nb", b"1");
        trailers.push(b"a", b"1\0");
        trailers.push(b"", b"1");
        trailers.push(b":status", b"200");
        assert!(trailers.is_empty());
    }
}
