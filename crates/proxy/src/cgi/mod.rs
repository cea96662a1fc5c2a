//! FastCGI, uwsgi and SCGI with a server: the request as CGI variables, and the CGI answer converted to HTTP.
//!
//! [`http1`](crate::http1) runs the exchange: it gets the answer as the head and body of an HTTP answer. This module has the differences:
//! how a request is written ([`request`]), FastCGI's records around the bytes ([`Records`]), and the head.
//!
//! Must never: treat other output as content of the answer, reuse a connection on which a request has not ended, or lose the error output
//! of an application.

pub(crate) mod frame;
mod request;
mod response;

use tutti_config::model::{Gateway, GatewayKind, UpstreamProtocol};
use tutti_gateway::fastcgi::{ONLY_REQUEST, ProtocolStatus, RecordDecoder, RecordEvent};
use tutti_upstream::UpstreamError;

pub(crate) use self::request::write;
use crate::request::ProxyRequest;

/// The protocol of the server, unless it is HTTP.
pub(crate) fn of<'r>(request: &ProxyRequest<'r>) -> Option<&'r Gateway> {
    match &request.destination.upstream.model().protocol {
        UpstreamProtocol::Http => None,
        UpstreamProtocol::Gateway(gateway) => Some(gateway),
    }
}

/// True if its servers use a worker for each open connection, busy or idle.
pub(crate) fn has_workers(request: &ProxyRequest<'_>) -> bool {
    of(request).is_some_and(|gateway| gateway.kind == GatewayKind::FastCgi)
}

/// The progress of an answer from a server that does not speak HTTP.
pub(crate) struct Incoming {
    /// Set for FastCGI records.
    records: Option<Records>,
    /// The head has a status line, the server's or ours.
    has_line: bool,
    /// The status line is ours.
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

    /// Returns the buffer for the next request.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.records.map_or_else(Vec::new, |records| records.raw)
    }

    /// True if the answer arrives in FastCGI records.
    pub(crate) fn has_records(&self) -> bool {
        self.records.is_some()
    }

    /// True if the request has ended, so that no more will arrive; unknown without records.
    pub(crate) fn has_ended(&self) -> bool {
        let records = self.records.as_ref();
        records.is_some_and(|records| records.end.is_some())
    }
}

/// Decodes FastCGI records.
#[derive(Default)]
pub(crate) struct Records {
    decoder: RecordDecoder,
    /// Undecoded bytes.
    raw: Vec<u8>,
    /// Error output of the application that has not been logged.
    errors: Vec<u8>,
    /// The result of the request.
    end: Option<(u32, ProtocolStatus)>,
    /// Bytes came after the end.
    has_more: bool,
}

impl Records {
    /// Decodes `raw`; appends the answer's bytes to `received`.
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
                    let message = "a record with an unknown request id".to_owned();
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
