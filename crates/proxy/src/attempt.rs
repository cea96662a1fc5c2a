//! One attempt to have a server answer a request: what it is given, and how it ends, whatever the protocol.

use std::rc::Rc;

use tutti_conn::clock::{Millis, millis};
use tutti_conn::output::Gone;
use tutti_http::{BodyLength, Known, RequestFraming, is_field_name};
use tutti_upstream::{UpstreamConnection, UpstreamError};

use crate::client::{BodyStreamError, Client};
use crate::outgoing::Upload;
use crate::request::{BufferedBody, ProxyRequest, Unsendable};
use crate::resources::{Resources, Scratch};

/// A request on its way to an upstream, with everything that an attempt needs.
pub(crate) struct Forwarding<'p, C: Client> {
    pub(crate) request: ProxyRequest<'p>,
    pub(crate) client: &'p mut C,
    /// The body, where it is sent while it comes.
    pub(crate) upload: Option<Upload<C::Body>>,
    pub(crate) resources: &'p Rc<Resources>,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) times: Times,
}

/// Timeouts in the units they are used in.
pub(crate) struct Times {
    pub(crate) connect: Millis,
    pub(crate) send: Millis,
    pub(crate) read: Millis,
}

impl Times {
    pub(crate) fn of(request: &ProxyRequest<'_>) -> Self {
        let options = request.upstream().options();
        Self {
            connect: millis(options.connect_timeout),
            send: millis(options.send_timeout),
            read: millis(options.read_timeout),
        }
    }
}

/// Why an attempt got no answer, or not a whole one.
pub(crate) enum AttemptError {
    /// The server's fault.
    Server(ServerFault),
    /// The client has gone.
    Client(Gone),
    /// The request cannot be said in the server's protocol; nothing was sent.
    Request(Unsendable),
    /// Its body is not as it must be, or does not come: the status for the client, who has got nothing yet.
    Body(u16),
}

/// A failure of a server, and how far the request had got.
pub(crate) struct ServerFault {
    pub(crate) failure: UpstreamError,
    /// Something of the request was sent.
    pub(crate) was_sent: bool,
    /// Something of the answer has gone to the client; else nothing of it waits for it either.
    pub(crate) has_begun: bool,
}

impl ServerFault {
    /// Nothing of the request was sent.
    pub(crate) fn unsent(failure: UpstreamError) -> Self {
        Self {
            failure,
            was_sent: false,
            has_begun: false,
        }
    }
}

impl From<ServerFault> for AttemptError {
    fn from(fault: ServerFault) -> Self {
        Self::Server(fault)
    }
}

impl From<Unsendable> for AttemptError {
    fn from(unsendable: Unsendable) -> Self {
        Self::Request(unsendable)
    }
}

impl From<Gone> for AttemptError {
    fn from(gone: Gone) -> Self {
        Self::Client(gone)
    }
}

/// Why a step of an attempt got no further.
pub(crate) enum StepError {
    /// The server's fault.
    Server(UpstreamError),
    Client(Gone),
    /// The client's body will not come whole: the status that says why.
    Body(u16),
}

impl From<BodyStreamError> for StepError {
    fn from(fault: BodyStreamError) -> Self {
        match fault {
            BodyStreamError::Refused(status) => Self::Body(status),
            BodyStreamError::Gone(gone) => Self::Client(gone),
        }
    }
}

impl From<Gone> for StepError {
    fn from(gone: Gone) -> Self {
        Self::Client(gone)
    }
}

impl From<UpstreamError> for StepError {
    fn from(failure: UpstreamError) -> Self {
        Self::Server(failure)
    }
}

/// An attempt that went well.
pub(crate) enum Done<E> {
    /// The client has the answer, or it waits for it. The connection is here if another request can be sent on it.
    Answered(E, Option<UpstreamConnection>),
    /// The server has changed the protocol, as the client has been told; these bytes came behind its head.
    Switched {
        connection: UpstreamConnection,
        received: Vec<u8>,
    },
}

/// The protocols that the client asks for, if that is passed on. HTTP itself is not, in clear text or within TLS (RFC 2817): its bytes
/// would go past everything that is configured here. Nor is what is no list of protocols, which a server might read as such.
pub(crate) fn upgrade<'r>(request: &ProxyRequest<'r>) -> Option<&'r [u8]> {
    let facts = request.view.facts();
    let has_body = !matches!(request.body, BufferedBody::None)
        || request.view.body_length() != BodyLength::None;
    if !facts.wants_upgrade || has_body {
        return None;
    }
    let mut fields = request.view.fields();
    let mut asked = fields
        .by_ref()
        .filter(|field| field.known == Known::Upgrade);
    let (protocols, None) = (asked.next()?.value, asked.next()) else {
        return None;
    };
    members(protocols).all(may_tunnel).then_some(protocols)
}

/// True if a server that is asked for these protocols may answer that it speaks `answered` from now on (RFC 9110 §7.8).
pub(crate) fn has_asked_for(protocols: &[u8], answered: &[u8]) -> bool {
    members(answered).all(|one| members(protocols).any(|asked| asked.eq_ignore_ascii_case(one)))
}

fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// `protocol-name ["/" protocol-version]`, both tokens, and not HTTP.
fn may_tunnel(protocol: &[u8]) -> bool {
    const HTTP: [&[u8]; 4] = [b"h2", b"h2c", b"http", b"tls"];
    let mut parts = protocol.splitn(2, |byte| *byte == b'/');
    let name = parts.next().unwrap_or_default();
    is_field_name(name)
        && parts.next().is_none_or(is_field_name)
        && !HTTP.iter().any(|http| name.eq_ignore_ascii_case(http))
}

/// How the body is framed for the server.
pub(crate) fn framing(request: &ProxyRequest<'_>, comes_later: bool) -> RequestFraming {
    let facts = request.view.facts();
    match request.body {
        BufferedBody::None if comes_later => match facts.content_length {
            Some(length) if !facts.is_chunked => RequestFraming::Length(length),
            _ => RequestFraming::Chunked,
        },
        BufferedBody::None if facts.content_length.is_none() && !facts.is_chunked => {
            RequestFraming::None
        }
        body => RequestFraming::Length(body.len()),
    }
}
