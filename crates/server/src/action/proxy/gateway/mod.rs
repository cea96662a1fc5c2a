//! Speaking FastCGI, uwsgi or SCGI with a server: the request as CGI variables, and the CGI answer as one of HTTP.
//!
//! The exchange itself is that of [`http1`](super::http1): what comes is put before its eyes as the head and the body of an HTTP answer.
//! Here is what differs: how a request is written ([`request`]), FastCGI's records around the bytes ([`Records`]), and the head.
//!
//! Must never: take for the answer what is no content of it, keep a connection on which a request has not ended, or lose what an
//! application says of its errors.

mod answer;
mod request;

use tutti_config::model::{Gateway, GatewayKind, GatewayParameter, UpstreamProtocol};
use tutti_gateway::fastcgi::{Decoder, Event, ONLY_REQUEST, ProtocolStatus};
use tutti_routing::{Decision, ScriptFailed};
use tutti_upstream::{Failure, Upstream};

use crate::plan::Cgi;
use crate::request::Request;
use crate::scripts::{NoScript, find};
use crate::step::UpstreamCall;

pub(super) use self::request::write;

/// The protocol that is spoken, where it is not HTTP.
pub(super) fn of(call: &UpstreamCall) -> Option<&Gateway> {
    match &call.upstream.model().protocol {
        UpstreamProtocol::Http => None,
        UpstreamProtocol::Gateway(gateway) => Some(gateway),
    }
}

/// True if its servers have a worker for each connection, busy or not.
pub(super) fn has_workers(call: &UpstreamCall) -> bool {
    of(call).is_some_and(|gateway| gateway.kind == GatewayKind::FastCgi)
}

/// Finds what a request to such a server needs beyond one to an HTTP server.
pub(super) fn details(
    upstream: &Upstream,
    decision: &Decision<'_>,
    request: &Request<'_>,
) -> Result<Cgi, NoScript> {
    let UpstreamProtocol::Gateway(gateway) = &upstream.model().protocol else {
        return Ok(Cgi::default());
    };
    let cache = &request.connection.local.scripts;
    let scripts = gateway.scripts.as_ref();
    let target = scripts.map(|scripts| find(scripts, decision.path(request), cache));
    let render = |parameter: &GatewayParameter| {
        let value = parameter.value.as_ref().map(|template| {
            let mut value = Vec::new();
            decision.render(template, request, &mut value)?;
            Ok(value)
        });
        Ok((parameter.name.as_str().into(), value.transpose()?))
    };
    let parameters = gateway.parameters.iter().map(render);
    Ok(Cgi {
        target: target.transpose()?,
        parameters: parameters.collect::<Result<_, ScriptFailed>>()?,
    })
}

/// How far the answer of a server that does not speak HTTP has come.
pub(super) struct Incoming {
    /// There, if it comes in FastCGI's records.
    records: Option<Records>,
    /// The head has a status line, the server's or ours.
    has_line: bool,
    /// The line is ours.
    is_cgi: bool,
}

impl Incoming {
    /// `raw` is a buffer to use.
    pub(super) fn new(gateway: &Gateway, raw: Vec<u8>) -> Self {
        let records = Records {
            raw,
            ..Records::default()
        };
        Self {
            records: (gateway.kind == GatewayKind::FastCgi).then_some(records),
            has_line: false,
            is_cgi: false,
        }
    }

    /// The buffer, for the next request.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.records.map_or_else(Vec::new, |records| records.raw)
    }

    /// The answer comes in FastCGI's records.
    pub(super) fn has_records(&self) -> bool {
        self.records.is_some()
    }

    /// The request has ended, so what has come is all there is; never known without records.
    pub(super) fn has_ended(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| records.end.is_some())
    }
}

/// FastCGI's records, on their way from the connection.
#[derive(Default)]
pub(super) struct Records {
    decoder: Decoder,
    /// As it came.
    raw: Vec<u8>,
    /// Errors that the application has told, not logged yet.
    errors: Vec<u8>,
    /// How the request ended.
    end: Option<(u32, ProtocolStatus)>,
    /// Something came behind the end.
    has_more: bool,
}

impl Records {
    /// Takes what is in `raw` apart; the answer's bytes go behind `received`.
    fn read(&mut self, received: &mut Vec<u8>) -> Result<(), Failure> {
        let mut input = self.raw.as_slice();
        let mut outcome = Ok(());
        loop {
            match self.decoder.next(&mut input) {
                Ok(Some(Event::Stdout(ONLY_REQUEST, bytes))) => received.extend_from_slice(bytes),
                Ok(Some(Event::Stderr(ONLY_REQUEST, bytes))) => {
                    self.errors.extend_from_slice(bytes);
                }
                Ok(Some(Event::End {
                    id: ONLY_REQUEST,
                    application_status,
                    protocol_status,
                })) => self.end = Some((application_status, protocol_status)),
                Ok(Some(_)) => {
                    let message = "a record of a request that it was not sent".to_owned();
                    outcome = Err(Failure::Malformed(message));
                    break;
                }
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(Failure::Malformed(error.to_string()));
                    break;
                }
            }
            if self.end.is_some() {
                // Padding may still follow.
                let rest = self.decoder.next(&mut input);
                self.has_more = !matches!(rest, Ok(None)) || !self.decoder.is_between();
                break;
            }
        }
        self.raw.clear();
        outcome
    }
}
