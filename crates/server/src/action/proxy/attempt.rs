//! One attempt to have a server answer a request: what it is given, and how it ends, whatever the protocol.

use std::io;

use tutti_http::{BodyLength, Known, RequestFraming};
use tutti_pool::Level;
use tutti_upstream::{Connection, Failure};

use super::outgoing::Upload;
use crate::clock::{Millis, millis};
use crate::collector::Collected;
use crate::gateway::Unsendable;
use crate::output::Gone;
use crate::request::Request;
use crate::respond::{Late, Persistence};
use crate::step::UpstreamCall;

/// A request, and its body where that comes while it is sent.
pub(super) type Asking<'a, 'r> = (&'a UpstreamCall, Option<&'a mut Upload<'r>>);

/// Timeouts in the units they are used in.
pub(super) struct Times {
    pub(super) connect: Millis,
    pub(super) send: Millis,
    pub(super) read: Millis,
}

impl Times {
    pub(super) fn of(call: &UpstreamCall) -> Self {
        let options = call.upstream.options();
        Self {
            connect: millis(options.connect_timeout),
            send: millis(options.send_timeout),
            read: millis(options.read_timeout),
        }
    }
}

/// Why an exchange got no further.
pub(super) enum Trouble {
    /// The server's fault.
    Server {
        failure: Failure,
        /// Something of the request was sent.
        was_sent: bool,
        /// Something of the answer has gone to the client; else nothing of it is in the output either.
        has_begun: bool,
    },
    /// The client has gone.
    Client(Gone),
    /// It cannot be said in the server's protocol; nothing was sent.
    Request(Unsendable),
    /// Its body is not as it must be, or does not come: the status for the client, who has got nothing yet.
    Body(u16),
}

impl From<Unsendable> for Trouble {
    fn from(unsendable: Unsendable) -> Self {
        Self::Request(unsendable)
    }
}

impl From<Gone> for Trouble {
    fn from(gone: Gone) -> Self {
        Self::Client(gone)
    }
}

/// An exchange that went well.
pub(super) enum Done {
    /// The answer is in the output (not logged yet if it waits in a file), and the connection here, if another request can be sent on it.
    Answered(Persistence, Option<Connection>, Option<Box<Late>>),
    /// The server has changed the protocol; these bytes came behind its head, which is in the output.
    Upgraded {
        connection: Connection,
        received: Vec<u8>,
        head: Vec<u8>,
    },
}

/// The protocol the client asks for, if that is passed on. HTTP/2 is not: what it carries would go past everything that is
/// configured here.
pub(super) fn upgrade<'v>(request: &Request<'v>, call: &UpstreamCall) -> Option<&'v [u8]> {
    let facts = request.view.facts();
    let has_body =
        !matches!(call.body, Collected::None) || request.view.body_length() != BodyLength::None;
    if !facts.wants_upgrade || has_body {
        return None;
    }
    let protocol = request.view.get(Known::Upgrade)?;
    let is_http2 = |name: &[u8]| name.trim_ascii().eq_ignore_ascii_case(b"h2c");
    (!protocol.split(|byte| *byte == b',').any(is_http2)).then_some(protocol)
}

/// How the body is framed for the server.
pub(super) fn framing(
    request: &Request<'_>,
    body: &Collected,
    comes_later: bool,
) -> RequestFraming {
    let facts = request.view.facts();
    match body {
        Collected::None if comes_later => match facts.content_length {
            Some(length) if !facts.is_chunked => RequestFraming::Length(length),
            _ => RequestFraming::Chunked,
        },
        Collected::None if facts.content_length.is_none() && !facts.is_chunked => {
            RequestFraming::None
        }
        body => RequestFraming::Length(body.len()),
    }
}

/// The client must see that the rest of an answer does not come.
pub(super) fn not_compressed(request: &Request<'_>, error: &io::Error) -> Gone {
    let message = format!("cannot compress an answer: {error}");
    request.connection.local.complain(Level::Error, &message);
    request.finished(500, 0, b"");
    Gone::Closed
}
