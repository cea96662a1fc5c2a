//! A connection that is passed on, as logs and the key of a hash see it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tutti_config::model::{TlsVariable, UpstreamVariable};
use tutti_http::RequestPath;
use tutti_pool::Level;
use tutti_request_log::{AccessLogs, FinishedStream};
use tutti_routing::{ConnectionNumbers, RequestInfo};

use crate::exchange::attempts::Attempts;
use crate::exchange::client::Ends;
use crate::snapshot::Snapshot;

/// The facts of a connection. It has no request: what only requests have is empty.
pub(crate) struct StreamInfo<'a> {
    /// Its client.
    pub(crate) ends: &'a Ends,
    /// The address that it was made to.
    pub(crate) local: Option<SocketAddr>,
    /// The name that its client asks for; empty if that is not known.
    pub(crate) server_name: &'a str,
    /// The servers that were tried.
    pub(crate) attempts: &'a Attempts,
    /// Bytes from the client.
    pub(crate) received: u64,
}

/// The access logs of a listener. They are kept instead of the configuration: a connection may last for days.
pub(crate) type StreamLogs = Option<Arc<AccessLogs>>;

/// The access logs of a listener with this id.
pub(crate) fn logs_of(snapshot: &Snapshot, listener: u64) -> StreamLogs {
    let settings = snapshot.settings_of(listener);
    snapshot.settings.get(settings).access_logs.clone()
}

/// The end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct StreamEnd {
    /// When it began.
    pub(crate) begun: Instant,
    /// The status that HTTP has for such an end.
    pub(crate) status: u16,
    /// Bytes for the client.
    pub(crate) sent: u64,
}

impl StreamInfo<'_> {
    /// Writes its line to these logs.
    pub(crate) fn log_access(&self, logs: &StreamLogs, end: StreamEnd) {
        let Some(logs) = logs else {
            return;
        };
        let local = &self.ends.local;
        let finished = |time| FinishedStream {
            begun: end.begun,
            status: end.status,
            sent_bytes: end.sent,
            time,
        };
        let log_error = |message: &str| local.log(Level::Alert, message);
        local.access_log.append(logs, self, finished, log_error);
    }
}

impl RequestInfo for StreamInfo<'_> {
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
        false
    }
    fn remote(&self) -> Option<SocketAddr> {
        self.ends.client_address()
    }
    fn local(&self) -> Option<SocketAddr> {
        self.local
    }
    fn peer(&self) -> Option<SocketAddr> {
        self.ends.peer.address()
    }
    fn announced(&self) -> Option<SocketAddr> {
        self.ends.proxied_addresses().map(|both| both.source)
    }
    fn announced_server(&self) -> Option<SocketAddr> {
        self.ends.proxied_addresses().map(|both| both.destination)
    }
    fn connection(&self) -> ConnectionNumbers {
        self.ends.numbers()
    }
    fn each_field(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) {}
    fn each_header(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        match variable {
            TlsVariable::ServerName => self.server_name.as_bytes(),
            _ => b"",
        }
    }
    fn request_id(&self) -> u128 {
        u128::from(self.ends.numbers().number)
    }
    fn body_bytes_received(&self) -> u64 {
        self.received
    }
    fn write_upstream(&self, variable: UpstreamVariable, out: &mut Vec<u8>) {
        self.attempts.write(variable, out);
    }
}
