//! The heads of responses, and the server's own pages.
//!
//! A head is data ([`OutgoingHead`]) until it is complete: the server's own fields, those of a file, an application or another server, and
//! the configured changes. Then [`put`] passes it to the writer of the connection's protocol; the access log reads the same data.

use tutti_conn::output::Output;
use tutti_http::{
    ConnectionField, ERROR_PAGE_TYPE, FieldLines, Known, Method, NO_FIELDS, OutgoingHead, Version,
    write_error_page,
};

use crate::exchange::channel::Channel;
use crate::exchange::client::ClientSide;
pub(crate) use crate::fields::server_date::Own;
use crate::local::Local;
use crate::snapshot::RequestSettings;

/// The state of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It takes another request.
    KeepAlive,
    /// It ends, as every HTTP/2 or HTTP/3 stream does.
    Close,
}

impl Persistence {
    /// Converts from whether the connection is kept.
    pub(crate) fn of(keep_alive: bool) -> Self {
        match keep_alive {
            true => Self::KeepAlive,
            false => Self::Close,
        }
    }

    pub(crate) fn is_open(self) -> bool {
        self == Self::KeepAlive
    }
}

/// A head with `Server` and `Date`.
pub(crate) fn begin(local: &Local, settings: &RequestSettings, status: u16) -> OutgoingHead {
    begin_with(local, settings, status, Own::ALL)
}

/// A head with these of the server's own fields.
pub(crate) fn begin_with(
    local: &Local,
    settings: &RequestSettings,
    status: u16,
    own: Own,
) -> OutgoingHead {
    let mut fields = local.take_fields();
    local
        .own_fields
        .append(own, settings.shows_version, &mut fields);
    OutgoingHead { status, fields }
}

/// Appends a head to the output, in the protocol of the connection.
pub(crate) fn put(client: &ClientSide, head: OutgoingHead, output: &mut Output) {
    match &client.channel {
        Channel::Stream(_) => output.push_head(head),
        Channel::Transport(_) | Channel::Discard => {
            head.write_http1(&mut output.bytes);
            client.local.give_fields(head.fields);
        }
    }
}

/// True for fields of framing and connection, which only the server sets (RFC 9112 §6, RFC 9110 §7.6.1).
pub(crate) fn is_framing(known: Known) -> bool {
    matches!(
        known,
        Known::ContentLength
            | Known::TransferEncoding
            | Known::Connection
            | Known::KeepAlive
            | Known::Trailer
            | Known::Upgrade
    )
}

/// A complete response made by the server.
pub(crate) struct Page<'a> {
    pub(crate) status: u16,
    pub(crate) is_head: bool,
    pub(crate) persistence: Persistence,
    /// Fields in addition to the server's own and those of the content.
    pub(crate) fields: &'a FieldLines,
}

/// A page with its head, not in the output yet.
pub(crate) struct Made {
    pub(crate) head: OutgoingHead,
    /// The content for the client.
    body: Vec<u8>,
}

impl Made {
    /// Bytes of content for the client.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body.len() as u64
    }

    /// Appends head and content to the output, and returns the memory.
    pub(crate) fn put(self, client: &ClientSide, output: &mut Output) {
        put(client, self.head, output);
        output.bytes.extend_from_slice(&self.body);
        client.local.buffers.give(self.body);
    }
}

/// Makes a response without content, or, for a status of 400 and above, with the error page.
pub(crate) fn page(
    local: &Local,
    settings: &RequestSettings,
    version: Version,
    page: &Page<'_>,
) -> Made {
    let mut head = begin(local, settings, page.status);
    let fields = &mut head.fields;
    fields.append(page.fields);
    let mut body = Vec::new();
    if page.status >= 400 {
        body = local.buffers.take();
        write_error_page(page.status, &mut body);
        fields.push(b"Content-Type", ERROR_PAGE_TYPE);
        fields.push_number(b"Content-Length", body.len() as u64);
        if page.is_head {
            body.clear();
        }
    } else if page.status >= 200 && page.status != 204 && page.status != 304 {
        // RFC 9110 §8.6: no `Content-Length` in 204 and 1xx; in 304 it would be that of the file.
        fields.push(b"Content-Length", b"0");
    }
    head.push_connection(ConnectionField::of(version, page.persistence.is_open()));
    Made { head, body }
}

/// Makes the error page for a client whose request with this method could not be parsed; its connection ends.
pub(crate) fn refusal(
    client: &ClientSide,
    settings: &RequestSettings,
    status: u16,
    method: Method,
) -> Made {
    let refused = Page {
        status,
        is_head: method == Method::Head,
        persistence: Persistence::Close,
        fields: &NO_FIELDS,
    };
    page(&client.local, settings, client.version(), &refused)
}

/// Makes a 400 with the content `text`, for the user of a client that speaks plain HTTP to a TLS port.
pub(crate) fn hint(local: &Local, settings: &RequestSettings, text: &str) -> OutgoingHead {
    let mut head = begin(local, settings, 400);
    head.fields.push(b"Content-Type", b"text/plain");
    head.fields
        .push_number(b"Content-Length", text.len() as u64);
    head.push_connection(ConnectionField::Close);
    head
}
