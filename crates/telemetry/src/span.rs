//! The facts that are recorded about a request.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::context::TraceContext;

/// Longest text of an attribute, in bytes; longer ones are truncated. A queue full of spans has a bounded size.
pub const MAX_TEXT: usize = 2048;

/// A completed request.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its trace context.
    pub context: TraceContext,
    /// `tracestate` of a request with a parent; otherwise empty.
    pub tracestate: String,
    /// When its head was complete.
    pub started: SystemTime,
    /// Time until its response had been produced.
    pub duration: Duration,
    /// As the client wrote it.
    pub method: Box<str>,
    /// As the client wrote it, without the query.
    pub path: Box<str>,
    /// True if the client uses https.
    pub is_https: bool,
    /// The requested host; may be empty.
    pub host: Box<str>,
    /// The port it was received on; 0 for a unix socket.
    pub port: u16,
    /// `1.1`.
    pub protocol_version: &'static str,
    /// The client; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// Its `User-Agent`.
    pub user_agent: Option<Box<str>>,
    /// Its id in the logs.
    pub request_id: Box<str>,
    /// Status of the response; `None`: the request did not complete.
    pub status: Option<u16>,
}
