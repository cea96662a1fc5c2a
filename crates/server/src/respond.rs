//! Writing response heads and the server's own pages.
//!
//! Everything the server itself answers with goes through here; an application's response takes its status line and the `Server`
//! and `Date` fields from here too.

use tutti_http::{
    ConnectionField, ERROR_PAGE_TYPE, ResponseDecision, ResponseFraming, reason_phrase,
    write_error_page,
};

use crate::local::Local;
use crate::snapshot::Snapshot;

/// What the last field says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Stays open; HTTP/1.1 needs no field for it.
    KeepAlive,
    /// Stays open; an HTTP/1.0 client must be told.
    KeepAliveOld,
    Close,
    /// HTTP/2: the stream ends, and no field may speak of the connection.
    Stream,
}

impl From<ConnectionField> for Persistence {
    fn from(field: ConnectionField) -> Self {
        match field {
            ConnectionField::Nothing => Self::KeepAlive,
            ConnectionField::KeepAlive => Self::KeepAliveOld,
            ConnectionField::Close => Self::Close,
            ConnectionField::Stream => Self::Stream,
        }
    }
}

impl Persistence {
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::KeepAlive | Self::KeepAliveOld)
    }
}

/// Appends the status line, `Server` and `Date`.
pub(crate) fn begin(out: &mut Vec<u8>, local: &Local, snapshot: &Snapshot, status: u16) {
    begin_with(out, local, snapshot, status, Own::ALL);
}

/// Which of the server's own fields to write.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    pub(crate) server: bool,
    pub(crate) date: bool,
}

impl Own {
    pub(crate) const ALL: Self = Self {
        server: true,
        date: true,
    };
}

/// Appends the status line and the server's own fields.
pub(crate) fn begin_with(
    out: &mut Vec<u8>,
    local: &Local,
    snapshot: &Snapshot,
    status: u16,
    own: Own,
) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        append_status(out, status);
        out.push(b' ');
        out.extend_from_slice(reason_phrase(status).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if own.server {
        out.extend_from_slice(&snapshot.server_field);
    }
    if own.date {
        out.extend_from_slice(b"Date: ");
        local.date.append(out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the `Connection` field, if there is one, and the empty line.
pub(crate) fn end(out: &mut Vec<u8>, persistence: Persistence) {
    out.extend_from_slice(match persistence {
        Persistence::KeepAlive | Persistence::Stream => b"\r\n".as_slice(),
        Persistence::KeepAliveOld => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    });
}

/// Appends what the decision says about length and connection, and the empty line.
pub(crate) fn end_framed(out: &mut Vec<u8>, decision: &ResponseDecision) -> Persistence {
    if let Some(length) = decision.content_length {
        out.extend_from_slice(b"Content-Length: ");
        append_number(out, length);
        out.extend_from_slice(b"\r\n");
    } else if decision.framing == ResponseFraming::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    let persistence = decision.connection.into();
    end(out, persistence);
    persistence
}

/// Appends one field.
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    tutti_http::write_field(out, name.as_bytes(), value);
}

/// Appends a number.
pub(crate) fn append_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a status as three digits (Unit: 000 to 999 may be returned).
fn append_status(out: &mut Vec<u8>, status: u16) {
    let digit = |value: u16| b'0' + (value % 10) as u8;
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status)]);
}

/// An answer that is complete in the output, and of which part is in a file: what its line in the access log needs.
pub(crate) struct Late {
    pub(crate) status: u16,
    pub(crate) head: Vec<u8>,
    pub(crate) persistence: Persistence,
    pub(crate) body_bytes: u64,
    /// The client may still be sending when it has the answer.
    pub(crate) lingers: bool,
}

/// A whole response made by the server.
pub(crate) struct Page<'a> {
    pub(crate) status: u16,
    pub(crate) is_head: bool,
    pub(crate) persistence: Persistence,
    /// Complete field lines.
    pub(crate) fields: &'a [u8],
}

/// Appends a response without content, or, for a status of 400 and above, with the error page. Returns the bytes of the body.
pub(crate) fn page(out: &mut Vec<u8>, local: &Local, snapshot: &Snapshot, page: &Page<'_>) -> u64 {
    begin(out, local, snapshot, page.status);
    out.extend_from_slice(page.fields);
    if page.status < 400 {
        // RFC 9110 §8.6: no `Content-Length` in 204 and 1xx; in 304 it would speak of the file.
        if page.status >= 200 && page.status != 204 && page.status != 304 {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        end(out, page.persistence);
        return 0;
    }
    let mut body = local.buffers.take();
    write_error_page(page.status, &mut body);
    field(out, "Content-Type", ERROR_PAGE_TYPE);
    out.extend_from_slice(b"Content-Length: ");
    append_number(out, body.len() as u64);
    out.extend_from_slice(b"\r\n");
    end(out, page.persistence);
    let length = body.len() as u64;
    if !page.is_head {
        out.extend_from_slice(&body);
    }
    local.buffers.give(body);
    if page.is_head { 0 } else { length }
}

/// Appends an error page for a client that could not make itself understood; it says `Connection: close`. Returns the bytes
/// of the body.
pub(crate) fn refusal(out: &mut Vec<u8>, local: &Local, snapshot: &Snapshot, status: u16) -> u64 {
    let refused = Page {
        status,
        is_head: false,
        persistence: Persistence::Close,
        fields: b"",
    };
    page(out, local, snapshot, &refused)
}

/// Appends a 400 whose content is `text`, for a person at a client that speaks the wrong protocol.
pub(crate) fn hint(out: &mut Vec<u8>, local: &Local, snapshot: &Snapshot, text: &str) {
    begin(out, local, snapshot, 400);
    field(out, "Content-Type", b"text/plain");
    out.extend_from_slice(b"Content-Length: ");
    append_number(out, text.len() as u64);
    out.extend_from_slice(b"\r\n");
    end(out, Persistence::Close);
    out.extend_from_slice(text.as_bytes());
}

/// Calls `each` with name and value of every field of a response's head.
pub(crate) fn each_field(head: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) {
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        if let Some(colon) = memchr::memchr(b':', line) {
            let (name, value) = line.split_at(colon);
            each(name, value.get(1..).unwrap_or_default().trim_ascii());
        }
    }
}
