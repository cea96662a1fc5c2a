//! Checks servers that speak FastCGI, uwsgi or SCGI by a request of CGI variables.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tutti_config::model::{Gateway, GatewayKind};
use tutti_gateway::cgi::{CgiRequest, variables};
use tutti_gateway::fastcgi::{ONLY_REQUEST, RecordDecoder, RecordEvent, stdin_end};
use tutti_http::{CGI_STATUS_LINE, MessageLimits, Progress, ResponseHead, split_port};
use tutti_upstream::UpstreamConnection;

use crate::cgi::frame::{HTTP, Put, SOFTWARE, frame, place};
use crate::scripts::{ScriptCache, find};

/// Most bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 * 1024;

/// Sends the request of a check; returns the status of the answer.
pub(crate) async fn ask(
    gateway: &Gateway,
    connection: UpstreamConnection,
    (uri, host): (&str, &str),
) -> Result<u16, String> {
    let request = request(gateway, uri, host)?;
    let mut io = connection.into_io();
    let sent = io.write_all(&request).await;
    sent.map_err(|error| format!("sending the request failed: {error}"))?;
    let mut raw = Vec::new();
    let mut answer = PartialResponse::new(gateway.kind);
    loop {
        raw.clear();
        let received = (&mut io).take(ANSWER_BYTES as u64).read_buf(&mut raw).await;
        match received {
            Ok(0) => break,
            Ok(_) => {
                if answer.take(&raw)? || answer.bytes.len() >= ANSWER_BYTES {
                    break;
                }
            }
            Err(error) => return Err(format!("reading its answer failed: {error}")),
        }
    }
    status(answer.bytes)
}

/// The complete request. Its path is that of a script, if the application has one for it; otherwise the name itself is the script's, so
/// that the `ping.path` of PHP-FPM can be requested.
fn request(gateway: &Gateway, uri: &str, host: &str) -> Result<Vec<u8>, String> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let path = path.as_bytes();
    let fields = [(&b"Host"[..], host.as_bytes())];
    let cgi = CgiRequest {
        method: b"GET",
        target: uri.as_bytes(),
        query: query.as_bytes(),
        protocol: b"HTTP/1.1",
        is_https: false,
        remote_address: b"127.0.0.1",
        remote_port: 0,
        local_address: b"127.0.0.1",
        local_port: 80,
        server_name: split_port(host.as_bytes()).0,
        software: SOFTWARE,
        user: b"",
        content_length: None,
        fields: &fields,
    };
    let target = gateway.scripts.as_ref().and_then(|scripts| {
        // The server itself knows its files.
        let mut rules = scripts.clone();
        rules.check_files = false;
        find(&rules, path, &ScriptCache::default()).ok()
    });
    let place = place(gateway, target.as_deref(), path);
    let mut out = Vec::new();
    let framed = frame(&mut out, gateway.kind, false, None, |put: &mut Put<'_>| {
        let said = &gateway.parameters;
        let is_said = |name: &[u8]| said.iter().any(|said| said.name.as_bytes() == name);
        variables(&cgi, &place, is_said, put);
        for parameter in said {
            // Without a request, variables have no values.
            if let Some(value) = parameter
                .value
                .as_ref()
                .and_then(|value| value.as_literal())
            {
                put(parameter.name.as_bytes(), &[value.as_bytes()]);
            }
        }
    });
    framed.map_err(|unsendable| unsendable.reason)?;
    if gateway.kind == GatewayKind::FastCgi {
        stdin_end(&mut out, ONLY_REQUEST);
    }
    Ok(out)
}

/// The received part of an answer.
struct PartialResponse {
    /// Set for FastCGI records.
    records: Option<RecordDecoder>,
    bytes: Vec<u8>,
}

impl PartialResponse {
    fn new(kind: GatewayKind) -> Self {
        Self {
            records: (kind == GatewayKind::FastCgi).then(RecordDecoder::new),
            bytes: Vec::new(),
        }
    }

    /// Adds received bytes; true at the end of the answer.
    fn take(&mut self, mut raw: &[u8]) -> Result<bool, String> {
        let Some(decoder) = &mut self.records else {
            self.bytes.extend_from_slice(raw);
            return Ok(false);
        };
        loop {
            match decoder.next(&mut raw) {
                Ok(Some(RecordEvent::Stdout(ONLY_REQUEST, bytes))) => {
                    self.bytes.extend_from_slice(bytes)
                }
                Ok(Some(RecordEvent::End { .. })) => return Ok(true),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(false),
                Err(error) => return Err(format!("invalid response: {error}")),
            }
        }
    }
}

/// The status of a CGI or HTTP answer.
fn status(mut answer: Vec<u8>) -> Result<u16, String> {
    if answer.is_empty() {
        return Err("it closed the connection before it answered".to_owned());
    }
    let is_cgi = !answer.starts_with(HTTP);
    if is_cgi {
        answer.splice(..0, CGI_STATUS_LINE.iter().copied());
    }
    let mut head = ResponseHead::new();
    let parsed = head.parse(&answer, &MessageLimits::default());
    let parsed = parsed.and_then(|progress| match progress {
        Progress::Complete { .. } if is_cgi => head.read_as_cgi(&answer).map(|()| true),
        progress => Ok(matches!(progress, Progress::Complete { .. })),
    });
    match parsed {
        Ok(true) => Ok(head.view(&answer).status()),
        Ok(false) => Err("its answer ends before its empty line".to_owned()),
        Err(error) => Err(format!("invalid response: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_cgi_and_http() {
        let of = |answer: &str| status(answer.as_bytes().to_vec());
        assert_eq!(of("Content-Type: text/plain\r\n\r\npong"), Ok(200));
        assert_eq!(of("Status: 503 Busy\r\n\r\n"), Ok(503));
        assert_eq!(of("HTTP/1.1 404 Not Found\r\n\r\n"), Ok(404));
        assert!(of("Content-Type: text/plain").is_err());
        assert!(of("").is_err());
    }
}
