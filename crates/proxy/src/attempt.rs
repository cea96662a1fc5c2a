//! One attempt to have a server answer a request: its input and its outcome, for every protocol.

use std::rc::Rc;
use std::time::Duration;

use tutti_config::model::UpstreamOptions;
use tutti_conn::clock::{Millis, millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_http::{BodyLength, Known, RequestFraming, is_field_name};
use tutti_upstream::{UpstreamConnection, UpstreamError};

use crate::client::{BodyStreamError, Client};
use crate::outgoing::Upload;
use crate::request::{BufferedBody, ProxyRequest, Unsendable};
use crate::resources::{Resources, Scratch};

/// A request that is being sent to an upstream, with everything an attempt needs.
pub(crate) struct Forwarding<'p, C: Client> {
    pub(crate) request: ProxyRequest<'p>,
    pub(crate) client: &'p mut C,
    /// The body, if it is streamed.
    pub(crate) upload: Option<Upload<C::Body>>,
    pub(crate) resources: &'p Rc<Resources>,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) times: Times,
    /// Another server is there for an answer of `retry_statuses`.
    pub(crate) may_pass_over: bool,
}

/// Timeouts in the units in which they are used.
pub(crate) struct Times {
    pub(crate) connect: Millis,
    pub(crate) send: Millis,
    pub(crate) read: Millis,
    /// When the whole request must have been answered.
    pub(crate) until: Millis,
    /// The time for it.
    whole: Option<Duration>,
    /// When no further server is tried.
    retry_until: Millis,
}

impl Times {
    pub(crate) fn of(request: &ProxyRequest<'_>) -> Self {
        let options = request.upstream().options();
        let after = |limit: Option<Duration>| {
            limit.map_or(NEVER, |limit| now_millis().saturating_add(millis(limit)))
        };
        Self {
            until: after(options.timeout.0),
            whole: options.timeout.0,
            retry_until: after(options.retry_timeout.0),
            connect: millis(options.connect_timeout),
            send: millis(options.send_timeout),
            read: millis(options.read_timeout),
        }
    }

    /// The failure of a server, if the time for the whole request is over.
    pub(crate) fn overdue(&self) -> Option<UpstreamError> {
        let limit = self.whole.filter(|_| self.until <= now_millis())?;
        Some(UpstreamError::Overdue { limit })
    }

    /// The failure of a server that was too slow: to send more of its answer, of which it has sent so many bytes, or, without a number, to
    /// take more of the request.
    pub(crate) fn failure(
        &self,
        options: &UpstreamOptions,
        received: Option<u64>,
    ) -> UpstreamError {
        self.overdue().unwrap_or(match received {
            Some(received) => UpstreamError::ReadTimeout {
                received,
                limit: options.read_timeout,
            },
            None => UpstreamError::SendTimeout(options.send_timeout),
        })
    }

    /// True if another server may still be tried.
    pub(crate) fn allow_retry(&self) -> bool {
        now_millis() < self.until.min(self.retry_until)
    }
}

/// Why an attempt yielded no complete answer.
pub(crate) enum AttemptError {
    /// The server failed.
    Server(ServerFault),
    /// The client has disconnected.
    Client(Gone),
    /// The request cannot be expressed in the server's protocol; nothing was sent.
    Request(Unsendable),
    /// The body is invalid or does not arrive: the status for the client, which has not received anything yet.
    Body(u16),
}

/// A failure of a server, and how far the request had got.
pub(crate) struct ServerFault {
    pub(crate) failure: UpstreamError,
    /// Part of the request was sent.
    pub(crate) was_sent: bool,
    /// Part of the answer was passed to the client; otherwise none of it is buffered for the client either.
    pub(crate) has_begun: bool,
}

impl ServerFault {
    /// No part of the request was sent.
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

/// Why a step of an attempt failed.
pub(crate) enum StepError {
    /// The server failed.
    Server(UpstreamError),
    Client(Gone),
    /// The client's body is incomplete: the status that says why.
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

/// The result of a successful attempt.
pub(crate) enum Done<E> {
    /// The answer was passed to the client. The connection is included if it can take another request.
    Answered(E, Option<UpstreamConnection>),
    /// The server has switched protocols, and the client was sent its 101; these bytes came after its head.
    Switched {
        connection: UpstreamConnection,
        received: Vec<u8>,
    },
}

/// The protocols that the client requests, if that is passed on. HTTP itself is not, in clear text or within TLS (RFC 2817): its requests
/// would bypass everything that is configured here. Neither is a malformed list, which a server might interpret differently.
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

/// True if a server that was asked for these protocols may switch to `answered` (RFC 9110 §7.8).
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

/// Returns the framing of the body for the server.
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
