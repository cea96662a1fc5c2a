//! Response heads, written into a buffer that is used again.
//!
//! The only way to put a field on the wire is through [`ResponseHeadWriter::field`], which refuses what would end the line: an
//! application cannot split a response, whatever it puts into a header.

use crate::framing::{ConnectionField, ResponseDecision, ResponseFraming};
use crate::status::reason_phrase;

/// A field that would not survive the wire: its name is not a token, or its value has a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid response field")]
pub struct InvalidField;

/// True if a byte may be part of a token (RFC 9110 §5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
};

/// True if `name` is a field name.
pub fn is_field_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte))
}

/// True if `value` can be sent: no NUL, CR, LF or other control character but the tab.
pub fn is_field_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// Writes one response head behind what is in a buffer.
///
/// Nothing is sent before [`ResponseHeadWriter::finish`]; [`ResponseHeadWriter::abandon`] takes back what was written, so that an
/// invalid head can become an error page.
#[derive(Debug)]
pub struct ResponseHeadWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> ResponseHeadWriter<'a> {
    /// Writes the status line: always `HTTP/1.1`, the version this server speaks (RFC 9110 §6.2). A status beyond three digits is
    /// written as 500.
    pub fn begin(out: &'a mut Vec<u8>, status: u16) -> Self {
        let start = out.len();
        if status == 200 {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            let status = if (100..=999).contains(&status) {
                status
            } else {
                500
            };
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
            out.push(b' ');
            out.extend_from_slice(reason_phrase(status).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Self { out, start }
    }

    /// Writes a field, name as given.
    ///
    /// # Errors
    /// [`InvalidField`], and nothing is written.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<&mut Self, InvalidField> {
        if !is_field_name(name) || !is_field_value(value) {
            return Err(InvalidField);
        }
        self.put(name, value);
        Ok(self)
    }

    /// Writes `Server`. Text that cannot be a field value is left out.
    pub fn server(&mut self, product: &str) -> &mut Self {
        if is_field_value(product.as_bytes()) {
            self.put(b"Server", product.as_bytes());
        }
        self
    }

    /// Writes `Date`, as [`crate::format_date`] gives it; formatted once a second is often enough.
    pub fn date(&mut self, date: &[u8; 29]) -> &mut Self {
        self.put(b"Date", date);
        self
    }

    /// Writes `Content-Length`.
    pub fn content_length(&mut self, length: u64) -> &mut Self {
        self.put(
            b"Content-Length",
            itoa::Buffer::new().format(length).as_bytes(),
        );
        self
    }

    /// Writes the fields a decision asks for: `Content-Length` or `Transfer-Encoding`, and `Connection`.
    pub fn framing(&mut self, decision: &ResponseDecision) -> &mut Self {
        if let Some(length) = decision.content_length {
            self.content_length(length);
        } else if decision.framing == ResponseFraming::Chunked {
            self.out
                .extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        match decision.connection {
            ConnectionField::Nothing | ConnectionField::Stream => {}
            ConnectionField::Close => self.out.extend_from_slice(b"Connection: close\r\n"),
            ConnectionField::KeepAlive => self.out.extend_from_slice(b"Connection: keep-alive\r\n"),
        }
        self
    }

    /// Ends the head; returns its length.
    pub fn finish(self) -> usize {
        self.out.extend_from_slice(b"\r\n");
        self.out.len() - self.start
    }

    /// Removes what this writer wrote.
    pub fn abandon(self) {
        self.out.truncate(self.start);
    }

    /// Writes a field whose parts are known to be clean.
    fn put(&mut self, name: &[u8], value: &[u8]) {
        self.out.reserve(name.len() + value.len() + 4);
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cannot_end_its_line() {
        let mut out = b"before".to_vec();
        let mut writer = ResponseHeadWriter::begin(&mut out, 200);
        for (name, value) in [
            (&b"X"[..], &b"a\r\nSet-Cookie: b"[..]),
            (b"X", b"a\n"),
            (b"X", b"a\r"),
            (b"X", b"a\0"),
            (b"X", b"\x7f"),
            (b"X\r\nY", b"a"),
            (b"X Y", b"a"),
            (b"X:", b"a"),
            (b"", b"a"),
            (b"\xc3\xa9", b"a"),
        ] {
            assert_eq!(
                writer.field(name, value).err(),
                Some(InvalidField),
                "{name:?}: {value:?}"
            );
        }
        writer
            .field(b"x-oK_!", "tab\there, é, ".as_bytes())
            .unwrap();
        writer.finish();
        assert_eq!(
            out,
            "beforeHTTP/1.1 200 OK\r\nx-oK_!: tab\there, é, \r\n\r\n".as_bytes()
        );
    }

    #[test]
    fn an_abandoned_head_leaves_what_was_before() {
        let mut out = b"before".to_vec();
        let mut writer = ResponseHeadWriter::begin(&mut out, 404);
        writer.server("Tutti");
        writer.abandon();
        assert_eq!(out, b"before");
    }

    #[test]
    fn statuses_without_a_phrase_keep_the_space() {
        for (status, line) in [
            (404, "HTTP/1.1 404 Not Found\r\n\r\n"),
            (299, "HTTP/1.1 299 \r\n\r\n"),
            (7, "HTTP/1.1 500 Internal Server Error\r\n\r\n"),
            (1000, "HTTP/1.1 500 Internal Server Error\r\n\r\n"),
        ] {
            let mut out = Vec::new();
            assert_eq!(
                ResponseHeadWriter::begin(&mut out, status).finish(),
                line.len()
            );
            assert_eq!(out, line.as_bytes());
        }
    }
}
