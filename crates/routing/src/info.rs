//! The questions that routing asks about a request.
//!
//! Implemented by the server over its parsed request head, by the access log over the finished exchange, and by tests.

use std::net::SocketAddr;
use std::time::Duration;

use tutti_config::model::{OutOfSteps, Pointer, TlsVariable};
use tutti_http::RequestPath;
use tutti_script::{Modules, ScriptError};

/// An event on a request's way through the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEvent<'a> {
    /// The conditions of this step do not hold: route (`None`: the one without a name), number of the step.
    Discarded(Option<&'a str>, usize),
    /// They do.
    Selected(Option<&'a str>, usize),
    /// The path is another one now.
    Rewritten(&'a [u8]),
    /// A share has a file, and the action for that decides.
    Found,
    /// A share had nothing to serve.
    Fallback,
}

/// A request, and where there is one its response.
///
/// Everything is borrowed from the request: asking must not allocate.
pub trait RequestInfo {
    /// The path that the request has by now, and its query.
    fn request_path(&self) -> RequestPath<'_>;
    /// The path, decoded.
    fn path(&self) -> &[u8] {
        self.request_path().path()
    }
    /// The part that follows `?`, not decoded; `None` without `?`.
    fn query(&self) -> Option<&[u8]> {
        self.request_path().query()
    }
    /// The target that the client asked for, path and query, encoded; a `rewrite` changes nothing (`$request_uri`).
    fn target(&self) -> &[u8];
    /// The method as it came.
    fn method(&self) -> &[u8];
    /// The host: lower case, without port and trailing period. May be empty.
    fn host(&self) -> &[u8];
    /// The request line as it came.
    fn request_line(&self) -> &[u8];
    /// True if the client uses https.
    fn is_https(&self) -> bool;
    /// Where the request comes from; `None`: a unix socket.
    fn remote(&self) -> Option<SocketAddr>;
    /// Where it came to; `None`: a unix socket.
    fn local(&self) -> Option<SocketAddr>;
    /// Calls `each` with the value of every header field called `name` (lower case), in order.
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8]));
    /// Calls `each` with name (as it came) and value of every header field, in order.
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8]));
    /// The facts of the connection's TLS; empty without.
    fn tls(&self, variable: TlsVariable) -> &[u8];
    /// A random number, the same all through the request (`$request_id`).
    fn request_id(&self) -> u128;
    /// The id that somebody who is believed has given the request, in place of that number.
    fn given_request_id(&self) -> Option<&[u8]> {
        None
    }

    /// Appends the name of who the request is from, if that is known (`$remote_user`).
    fn write_user(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// The status of the error that an answer is made in place of; `None`: it is for the request itself.
    fn error_status(&self) -> Option<u16> {
        None
    }

    /// The modules that scripts of the configuration see; `None`: there are none.
    fn modules(&self) -> Option<&Modules> {
        None
    }
    /// A script (its text is `template`) has no value.
    fn script_failed(&self, template: &str, failure: &ScriptError) {
        let _ = (template, failure);
    }
    /// A regular expression of the configuration has no answer for the request; `place`: what it had to decide about.
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        let _ = (out_of_steps, place);
    }

    /// True if [`note`](Self::note) wants to know how the decision comes about (`log_route`); it costs a look at every step.
    fn is_noted(&self) -> bool {
        false
    }
    /// Something on the way to the decision.
    fn note(&self, event: RouteEvent<'_>) {
        let _ = event;
    }

    /// The response; `None`: there is none yet, and its variables are empty.
    fn response(&self) -> Option<&dyn ResponseInfo> {
        None
    }
}

/// A response, for the variables of the access log and of `response_headers`.
pub trait ResponseInfo {
    /// Its status.
    fn status(&self) -> u16;
    /// Bytes of its body that were sent.
    fn body_bytes_sent(&self) -> u64;
    /// Time since the request began.
    fn request_time(&self) -> Duration;
    /// When it was sent; `None`: it is not, yet.
    fn time(&self) -> Option<LogTime<'_>>;
    /// Calls `each` with name and value of every field of its head, in order.
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8]));
}

/// A moment, as logs write it.
#[derive(Clone, Copy, Debug)]
pub struct LogTime<'a> {
    /// The second it is in.
    pub second: &'a LogSecond,
    /// The part of it that has passed.
    pub milliseconds: u16,
}

/// A second of the local time, written once for all lines of it.
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
