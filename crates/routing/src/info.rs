//! The questions of routing about a request.
//!
//! Implemented by the server for its parsed request head, by the access log for the finished exchange, and by tests.

use std::net::SocketAddr;
use std::time::Duration;

use tutti_config::model::{OutOfSteps, Pointer, TlsVariable, UpstreamVariable};
use tutti_http::RequestPath;
use tutti_script::{Modules, ScriptError};

/// An event on a request's way through the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEvent<'a> {
    /// The conditions of this step do not hold: the route (`None`: the unnamed one) and the number of the step.
    Discarded(Option<&'a str>, usize),
    /// The conditions of this step hold.
    Selected(Option<&'a str>, usize),
    /// The path was rewritten to this one.
    Rewritten(&'a [u8]),
    /// A share has a file, and its `found` action decides.
    Found,
    /// The action of a share for folders is used: there is one.
    Folder,
    /// A share has no file.
    Fallback,
}

/// A request, and its response if there is one.
///
/// Everything is borrowed from the request: no method may allocate.
pub trait RequestInfo {
    /// The current path and query.
    fn request_path(&self) -> RequestPath<'_>;
    /// The path, decoded.
    fn path(&self) -> &[u8] {
        self.request_path().path()
    }
    /// The undecoded part after `?`; `None` without `?`.
    fn query(&self) -> Option<&[u8]> {
        self.request_path().query()
    }
    /// The client's target, path and query, encoded; not changed by a `rewrite` (`$request_uri`).
    fn target(&self) -> &[u8];
    /// The method as received.
    fn method(&self) -> &[u8];
    /// The host: lower case, without port and trailing period. May be empty.
    fn host(&self) -> &[u8];
    /// The request line as received.
    fn request_line(&self) -> &[u8];
    /// True if the client uses https.
    fn is_https(&self) -> bool;
    /// The client's address; `None`: a unix socket.
    fn remote(&self) -> Option<SocketAddr>;
    /// The local address; `None`: a unix socket.
    fn local(&self) -> Option<SocketAddr>;
    /// The other end of the connection, which may be a proxy; `None`: a unix socket.
    fn peer(&self) -> Option<SocketAddr> {
        self.remote()
    }
    /// The client's address that a proxy has announced by the PROXY protocol.
    fn announced(&self) -> Option<SocketAddr> {
        None
    }
    /// The server's address that it has announced.
    fn announced_server(&self) -> Option<SocketAddr> {
        None
    }
    /// The connection.
    fn connection(&self) -> ConnectionNumbers {
        ConnectionNumbers::default()
    }
    /// The name of the machine.
    fn hostname(&self) -> &[u8] {
        b""
    }
    /// Calls `each` with the value of every header field called `name` (lower case), in order.
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8]));
    /// Calls `each` with name (as received) and value of every header field, in order.
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8]));
    /// The facts of the connection's TLS; empty without.
    fn tls(&self, variable: TlsVariable) -> &[u8];
    /// A random number, the same all through the request (`$request_id`).
    fn request_id(&self) -> u128;
    /// The request id from a trusted client, instead of that number.
    fn given_request_id(&self) -> Option<&[u8]> {
        None
    }

    /// Appends the name of the user, if known (`$remote_user`).
    fn write_user(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Appends a fact about the servers of an upstream that it was sent to.
    fn write_upstream(&self, variable: UpstreamVariable, out: &mut Vec<u8>) {
        let _ = (variable, out);
    }

    /// Bytes of its body that were received so far.
    fn body_bytes_received(&self) -> u64 {
        0
    }

    /// Appends the beginning of its body, as far as it was received and is kept for the access log.
    fn write_body(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Names what the cache did; empty without a cache.
    fn cache_status(&self) -> &'static str {
        ""
    }

    /// The status of the error that an error page replaces; `None`: the request itself is answered.
    fn error_status(&self) -> Option<u16> {
        None
    }

    /// The modules available to scripts; `None`: there are none.
    fn modules(&self) -> Option<&Modules> {
        None
    }
    /// Called when a script (with the text `template`) failed.
    fn script_failed(&self, template: &str, failure: &ScriptError) {
        let _ = (template, failure);
    }
    /// Called when a regular expression exceeded its step limit; `place`: the condition.
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        let _ = (out_of_steps, place);
    }

    /// True if [`note`](Self::note) needs the events of the decision (`log_route`); that costs time at every step.
    fn is_noted(&self) -> bool {
        false
    }
    /// Called for each event on the way to the decision.
    fn note(&self, event: RouteEvent<'_>) {
        let _ = event;
    }

    /// The response; `None`: there is none yet, and its variables are empty.
    fn response(&self) -> Option<&dyn ResponseInfo> {
        None
    }
}

/// The number of a connection, and of a request on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionNumbers {
    /// Unique in the process.
    pub number: u64,
    /// Requests on it up to this one.
    pub requests: u64,
}

/// A response, for the variables of the access log and of `response_headers`.
pub trait ResponseInfo {
    /// Its status.
    fn status(&self) -> u16;
    /// Bytes of its body that were sent.
    fn body_bytes_sent(&self) -> u64;
    /// Bytes of its head, as HTTP/1 writes it, and of its body that were sent.
    fn bytes_sent(&self) -> u64 {
        self.body_bytes_sent()
    }
    /// Time since the request began.
    fn request_time(&self) -> Duration;
    /// When it was sent; `None`: not yet.
    fn time(&self) -> Option<LogTime<'_>>;
    /// Calls `each` with name and value of every field of its head, in order.
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8]));
}

/// A time, formatted for logs.
#[derive(Clone, Copy, Debug)]
pub struct LogTime<'a> {
    /// The second.
    pub second: &'a LogSecond,
    /// The milliseconds in that second.
    pub milliseconds: u16,
}

/// A second of the local time, formatted once for all its lines.
#[derive(Clone, Debug, Default)]
pub struct LogSecond {
    /// Seconds since 1970.
    pub unix: u64,
    /// `31/Dec/1986:19:40:00 +0300`.
    pub common: String,
    /// `1986-12-31T19:40:00`.
    pub iso: String,
    /// `+03:00`.
    pub offset: String,
}
