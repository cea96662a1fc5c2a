//! Logs each request that the server refuses or cannot serve: one line, with the reason, the client and the request line.
//!
//! Also writes the access log for requests that ended before they could be routed, so that attacks are visible.
//!
//! Must never: let a client forge a line, or fill the log (the lines are rate-limited in [`Local`]).

use std::net::SocketAddr;

use tutti_config::model::TlsVariable;
use tutti_http::websocket::WebSocketError;
use tutti_http::{FieldLines, RequestPath};
use tutti_pool::Level;
use tutti_request_log::Finished;
use tutti_routing::RequestInfo;

use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::route_log::Plain;
use crate::local::Local;
use crate::snapshot::Snapshot;

/// Bytes of a request line that are logged: enough to find it in the access log.
const SHOWN: usize = 200;

/// The client and the request line, for the end of a line of the log.
pub(crate) fn origin(request: &impl RequestInfo) -> String {
    let line = shown(request.request_line());
    let client = client(request.remote());
    format!("client {client}, request \"{line}\"")
}

/// The beginning of a client's bytes, escaped for a log.
pub(crate) fn shown(line: &[u8]) -> String {
    let shown = line.get(..SHOWN).unwrap_or(line);
    let rest = if shown.len() < line.len() { "…" } else { "" };
    format!("{}{rest}", Plain(shown))
}

/// The id of the request in all logs.
pub(crate) fn id(request: &impl RequestInfo) -> String {
    let mut id = Vec::new();
    tutti_routing::request_id(request, &mut id);
    String::from_utf8_lossy(&id).into_owned()
}

pub(crate) fn client(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "unix:".to_owned(), |address| address.ip().to_string())
}

/// A request is refused because of the client. A file that may not be read is usually a mistake in the configuration.
pub(crate) fn refused(local: &Local, request: &impl RequestInfo, status: u16, reason: &str) {
    let level = if status == 403 {
        Level::Warn
    } else {
        Level::Info
    };
    let message = format!("{status}: {reason}, {}", origin(request));
    local.log_client_error_of(level, &message, || id(request));
}

/// A WebSocket connection is closed because of its client. A limit of the configuration is logged as a warning.
pub(crate) fn closed(local: &Local, request: &impl RequestInfo, fault: WebSocketError) {
    let (level, cure) = if fault.is_limit() {
        (Level::Warn, " of `http.websocket`")
    } else {
        (Level::Info, "")
    };
    let message = format!(
        "{}: the WebSocket is closed: {fault}{cure}, {}",
        fault.close_code(),
        origin(request)
    );
    local.log_client_error_of(level, &message, || id(request));
}

/// A request fails because of this server or its configuration.
pub(crate) fn failed(local: &Local, request: &impl RequestInfo, status: u16, reason: &str) {
    let message = format!("{status}: {reason}, {}", origin(request));
    local.log_failure_of(Level::Error, &message, || id(request));
}

/// Why a request is refused whose body is invalid or does not arrive; `None`: that has been logged already.
pub(crate) fn body_reason(status: u16) -> Option<&'static str> {
    Some(match status {
        400 => "the body is malformed",
        408 => "the body did not arrive in time (`body_read_timeout`)",
        411 => "the body has no length (`chunked_transform`)",
        413 => "the body is too large (`max_body_size`)",
        _ => return None,
    })
}

/// The end of a request that could not be parsed.
pub(crate) struct Unread<'a> {
    pub(crate) client: &'a ClientSide,
    pub(crate) exchange: &'a Exchange,
    pub(crate) snapshot: &'a Snapshot,
    /// The status of the answer; 400 if the client did not wait for it.
    pub(crate) status: u16,
    pub(crate) reason: &'a str,
    /// The fields of the answer's head, and the length of its body.
    pub(crate) head: &'a FieldLines,
    pub(crate) body_bytes: u64,
}

impl Unread<'_> {
    /// Writes both logs.
    pub(crate) fn log(&self) {
        let local = &self.client.local;
        let client = client(self.client.client_address());
        let listener = &self.client.listener.name;
        let message = format!(
            "{}: {}, client {client}, listener \"{listener}\"",
            self.status, self.reason
        );
        local.log_client_error_of(Level::Info, &message, || id(self));
        self.log_access();
    }

    /// Writes the access log and the metrics.
    pub(crate) fn log_access(&self) {
        let local = &self.client.local;
        if self.exchange.note_logged() {
            let took = self.exchange.begun.elapsed();
            self.exchange
                .count(self.client, &self.snapshot.counts, self.status, took);
        }
        if let Some(logs) = &self
            .snapshot
            .settings
            .get(self.exchange.settings.get())
            .access_logs
        {
            let finished = |time| Finished {
                begun: self.exchange.begun,
                status: self.status,
                body_bytes: self.body_bytes,
                head: self.head,
                time,
            };
            let log_error = |message: &str| local.log(Level::Alert, message);
            local.access_log.append(logs, self, finished, log_error);
        }
    }
}

/// For the access log's variables.
impl RequestInfo for Unread<'_> {
    fn request_path(&self) -> RequestPath<'_> {
        RequestPath::default()
    }
    fn target(&self) -> &[u8] {
        b""
    }
    fn method(&self) -> &[u8] {
        b""
    }
    fn host(&self) -> &[u8] {
        b""
    }
    fn request_line(&self) -> &[u8] {
        b""
    }
    fn is_https(&self) -> bool {
        self.client.is_https()
    }
    fn remote(&self) -> Option<SocketAddr> {
        self.client.client_address()
    }
    fn local(&self) -> Option<SocketAddr> {
        self.client.local_address()
    }
    fn each_field(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) {}
    fn each_header(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        let facts = self.client.channel.facts();
        facts.map_or(b"", |facts| facts.value(variable))
    }
    fn request_id(&self) -> u128 {
        self.exchange.request_id(&self.client.local)
    }
}
