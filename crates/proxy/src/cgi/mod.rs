//! Speaking FastCGI, uwsgi or SCGI with a server: the request as CGI variables, and the CGI answer as one of HTTP.
//!
//! The exchange itself is that of [`http1`](crate::http1): it is given the answer as the head and the body of an HTTP answer.
//! Here are the differences: how a request is written ([`request`]), FastCGI's records around the bytes ([`Records`]), and the head.
//!
//! Must never: take for the answer what is no content of it, keep a connection on which a request has not ended, or lose what an
//! application says of its errors.

pub(crate) mod frame;
mod request;
mod response;

use tutti_config::model::{Gateway, GatewayKind, UpstreamProtocol};
use tutti_gateway::fastcgi::{ONLY_REQUEST, ProtocolStatus, RecordDecoder, RecordEvent};
use tutti_upstream::UpstreamError;

pub(crate) use self::request::write;
use crate::request::ProxyRequest;

/// The protocol that is spoken, where it is not HTTP.
pub(crate) fn of<'r>(request: &ProxyRequest<'r>) -> Option<&'r Gateway> {
    match &request.destination.upstream.model().protocol {
        UpstreamProtocol::Http => None,
        UpstreamProtocol::Gateway(gateway) => Some(gateway),
    }
}

/// True if its servers have a worker for each connection, busy or not.
pub(crate) fn has_workers(request: &ProxyRequest<'_>) -> bool {
    of(request).is_some_and(|gateway| gateway.kind == GatewayKind::FastCgi)
}

/// How far the answer of a server that does not speak HTTP has come.
pub(crate) struct Incoming {
    /// Set if it comes in FastCGI's records.
    records: Option<Records>,
    /// The head has a status line, the server's or ours.
    has_line: bool,
    /// The line is ours.
    is_cgi: bool,
}

impl Incoming {
    /// `raw` is a buffer to use.
    pub(crate) fn new(gateway: &Gateway, raw: Vec<u8>) -> Self {
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
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.records.map_or_else(Vec::new, |records| records.raw)
    }

    /// The answer comes in FastCGI's records.
    pub(crate) fn has_records(&self) -> bool {
        self.records.is_some()
    }

    /// True if the request has ended, so that nothing more will come; never known without records.
    pub(crate) fn has_ended(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| records.end.is_some())
    }
}

/// FastCGI's records, on their way from the connection.
#[derive(Default)]
pub(crate) struct Records {
    decoder: RecordDecoder,
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
    /// Takes `raw` apart; the answer's bytes go behind `received`.
    fn read(&mut self, received: &mut Vec<u8>) -> Result<(), UpstreamError> {
        let mut input = self.raw.as_slice();
        let mut outcome = Ok(());
        loop {
            match self.decoder.next(&mut input) {
                Ok(Some(RecordEvent::Stdout(ONLY_REQUEST, bytes))) => {
                    received.extend_from_slice(bytes)
                }
                Ok(Some(RecordEvent::Stderr(ONLY_REQUEST, bytes))) => {
                    self.errors.extend_from_slice(bytes);
                }
                Ok(Some(RecordEvent::End {
                    id: ONLY_REQUEST,
                    application_status,
                    protocol_status,
                })) => self.end = Some((application_status, protocol_status)),
                Ok(Some(_)) => {
                    let message = "a record of a request that it was not sent".to_owned();
                    outcome = Err(UpstreamError::Malformed(message));
                    break;
                }
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(UpstreamError::Malformed(error.to_string()));
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
