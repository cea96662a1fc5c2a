//! Speaking FastCGI, uwsgi or SCGI with a server: the request as CGI variables, and the CGI answer as one of HTTP.
//!
//! The exchange itself is that of [`http1`](super::http1): what comes is put before its eyes as the head and the body of an HTTP answer.
//! Here is what differs: how a request is written ([`request`]), FastCGI's records around the bytes ([`Records`]), and the head.
//!
//! Must never: take for the answer what is no content of it, keep a connection on which a request has not ended, or lose what an
//! application says of its errors.

mod request;

use tutti_config::model::{Gateway, GatewayKind, GatewayParameter, UpstreamProtocol};
use tutti_gateway::fastcgi::{Decoder, Event, ONLY_REQUEST, ProtocolStatus};
use tutti_http::HeadError;
use tutti_pool::Level;
use tutti_routing::{Decision, ScriptFailed};
use tutti_upstream::{Failure, Upstream};

use super::http1::{Fault, Talk};
use crate::gateway::{HTTP, STATUS_LINE};
use crate::plan::Cgi;
use crate::request::Request;
use crate::scripts::{NoScript, find};
use crate::step::UpstreamCall;

pub(super) use self::request::write;

/// What an application says of its errors is logged when there is this much of it, or at the end of the request.
const ERRORS_BYTES: usize = 16 * 1024;

/// What is spoken, where it is not HTTP.
pub(super) fn of(call: &UpstreamCall) -> Option<&Gateway> {
    match &call.upstream.model().protocol {
        UpstreamProtocol::Http => None,
        UpstreamProtocol::Gateway(gateway) => Some(gateway),
    }
}

/// Whether its servers have a worker for each connection, busy or not.
pub(super) fn has_workers(call: &UpstreamCall) -> bool {
    of(call).is_some_and(|gateway| gateway.kind == GatewayKind::FastCgi)
}

/// What a request to such a server needs beyond one to an HTTP server.
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
    /// What the application says of its errors, not logged yet.
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

impl Talk<'_, '_> {
    /// Reads records until there is more of the answer; `None` at its end.
    pub(super) async fn receive_records(&mut self) -> Result<Option<usize>, Fault> {
        let before = self.received.len();
        loop {
            let Some(records) = self.records() else {
                return Ok(None);
            };
            if records.end.is_some() {
                return Ok(None);
            }
            let mut raw = std::mem::take(&mut records.raw);
            let outcome = self.receive_into(&mut raw).await;
            let mut received = std::mem::take(&mut self.received);
            let Some(records) = self.records() else {
                return Ok(None);
            };
            records.raw = raw;
            let read = records.read(&mut received);
            let is_over = records.end.is_some();
            let must_log = is_over || records.errors.len() > ERRORS_BYTES;
            self.received = received;
            if must_log || read.is_err() || outcome.is_err() {
                self.log_errors();
            }
            let more = outcome?;
            read?;
            if more.is_none() && !is_over {
                self.log_errors();
                let received = self.count();
                return Err(Fault::Server(match received {
                    0 => self.closed(),
                    received => Failure::CutShort { received },
                }));
            }
            let more = self.received.len() - before;
            if more > 0 {
                return Ok(Some(more));
            }
            if is_over {
                return Ok(None);
            }
        }
    }

    fn records(&mut self) -> Option<&mut Records> {
        self.incoming.as_mut()?.records.as_mut()
    }

    /// Reads until the head is at the front of what was received; its length.
    pub(super) async fn receive_cgi_head(&mut self) -> Result<usize, Fault> {
        loop {
            if self.tell_line() {
                match self.parse_head() {
                    Ok(Some(length)) => {
                        let is_cgi = self.incoming.as_ref().is_some_and(|one| one.is_cgi);
                        let checked = if is_cgi {
                            self.head.read_as_cgi(&self.received)
                        } else {
                            Ok(())
                        };
                        let status = self.head.view(&self.received).status();
                        return match checked {
                            Ok(()) if status >= 200 => Ok(length),
                            Ok(()) => Err(no_head(HeadError::StartLine).into()),
                            Err(error) => Err(no_head(error).into()),
                        };
                    }
                    Ok(None) => {}
                    Err(Failure::Malformed(reason)) => {
                        return Err(Failure::Malformed(format!("no CGI head: {reason}")).into());
                    }
                    Err(failure) => return Err(failure.into()),
                }
            }
            if self.receive().await?.is_none() {
                return Err(self.without_head().into());
            }
        }
    }

    /// Whether it is known what the head begins with; puts a status line before that of CGI.
    fn tell_line(&mut self) -> bool {
        let Some(incoming) = &mut self.incoming else {
            return true;
        };
        if !incoming.has_line {
            let known = self.received.iter().zip(HTTP);
            let may_be_http = known.clone().all(|(byte, http)| byte == http);
            if may_be_http && self.received.len() < HTTP.len() && !incoming.has_ended() {
                return false;
            }
            incoming.has_line = true;
            if !may_be_http || self.received.len() < HTTP.len() {
                incoming.is_cgi = true;
                self.received.splice(..0, STATUS_LINE.iter().copied());
            }
        }
        true
    }

    /// The answer has ended, and has no head.
    fn without_head(&mut self) -> Failure {
        let line = match &self.incoming {
            Some(incoming) if incoming.is_cgi => STATUS_LINE.len(),
            _ => 0,
        };
        let received = self.received.len() - line;
        let end = self.records().and_then(|records| records.end);
        match end {
            Some((_, status)) if status != ProtocolStatus::Complete => {
                Failure::Malformed(status.to_string())
            }
            Some((status, _)) if received == 0 => Failure::Malformed(format!(
                "it is empty: not even a head (exit status {status})"
            )),
            None if received == 0 => self.closed(),
            _ => Failure::Malformed("no CGI head: it ends before its empty line".to_owned()),
        }
    }

    /// After the answer: waits for the end of the request; whether another can be sent on the connection.
    pub(super) async fn finish_request(&mut self) -> Result<bool, Fault> {
        if self.records().is_none() {
            return Ok(false);
        }
        loop {
            self.received.clear();
            if self.receive().await?.is_none() {
                break;
            }
        }
        let is_clean = self.records().is_some_and(|records| !records.has_more);
        Ok(is_clean && self.link.outgoing.is_done())
    }

    /// Logs what the application has said of its errors.
    pub(super) fn log_errors(&mut self) {
        let Some(records) = self.records() else {
            return;
        };
        let errors = std::mem::take(&mut records.errors);
        let name = self.call.upstream.name();
        for line in errors.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if !line.is_empty() {
                let text = format!(
                    "upstream \"{name}\" says: {}",
                    line.replace(char::is_control, " ")
                );
                self.request.connection.local.log(Level::Error, &text);
            }
        }
    }
}

fn no_head(error: HeadError) -> Failure {
    Failure::Malformed(format!("no CGI head: {error}"))
}
