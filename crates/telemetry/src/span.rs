//! Holds the facts that are recorded of a request.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::context::TraceContext;

/// Longest text of an attribute, in bytes; what is longer is cut. A queue full of spans has a bounded size.
pub const MAX_TEXT: usize = 2048;

/// A request that was served.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it belongs.
    pub context: TraceContext,
    /// `tracestate` of a request with a parent; else empty.
    pub tracestate: String,
    /// When its head was complete.
    pub started: SystemTime,
    /// Until its answer had been produced.
    pub duration: Duration,
    /// As the client wrote it.
    pub method: Box<str>,
    /// As the client wrote it, without the query.
    pub path: Box<str>,
    /// True if the client uses https.
    pub is_https: bool,
    /// The host it asked for; may be empty.
    pub host: Box<str>,
    /// The port it came to; 0 of a unix socket.
    pub port: u16,
    /// `1.1`.
    pub protocol_version: &'static str,
    /// The client; `None` on a unix socket.
    pub client: Option<IpAddr>,
    /// The name it gives itself (`User-Agent`).
    pub user_agent: Option<Box<str>>,
    /// Its id in the logs.
    pub request_id: Box<str>,
    /// Status of the answer; `None`: it did not end as it should.
    pub status: Option<u16>,
}
