//! A request with its response, for the variables of the access log and of `response_headers`.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_config::model::{OutOfSteps, Pointer, TlsVariable};
use tutti_http::FieldLines;
use tutti_routing::{Failure, Modules, RequestInfo, Rewritten};

/// A finished exchange, for the log's variables.
pub(crate) struct Finished<'a, R> {
    pub(crate) request: &'a R,
    /// When its first byte came.
    pub(crate) begun: Instant,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// The fields of the response's head as it was sent.
    pub(crate) head: &'a FieldLines,
    /// `$time_local`.
    pub(crate) time: Rc<str>,
    /// The path as a `rewrite` made it; for `response_headers`.
    pub(crate) rewritten: Option<&'a Rewritten>,
}

impl<R: RequestInfo> RequestInfo for Finished<'_, R> {
    fn path(&self) -> &[u8] {
        self.rewritten
            .map_or_else(|| self.request.path(), |rewritten| &rewritten.path)
    }
    fn query(&self) -> Option<&[u8]> {
        self.request.query()
    }
    fn target(&self) -> &[u8] {
        self.request.target()
    }
    fn method(&self) -> &[u8] {
        self.request.method()
    }
    fn host(&self) -> &[u8] {
        self.request.host()
    }
    fn request_line(&self) -> &[u8] {
        self.request.request_line()
    }
    fn is_https(&self) -> bool {
        self.request.is_https()
    }
    fn remote(&self) -> Option<SocketAddr> {
        self.request.remote()
    }
    fn local(&self) -> Option<SocketAddr> {
        self.request.local()
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.request.each_field(name, each);
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.request.each_header(each);
    }
    fn modules(&self) -> Option<&Modules> {
        self.request.modules()
    }
    fn script_failed(&self, template: &str, failure: &Failure) {
        self.request.script_failed(template, failure);
    }
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        self.request.pattern_failed(out_of_steps, place);
    }
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        self.request.tls(variable)
    }
    fn request_id(&self) -> u128 {
        self.request.request_id()
    }
    fn status(&self) -> Option<u16> {
        Some(self.status)
    }
    fn body_bytes_sent(&self) -> Option<u64> {
        Some(self.body_bytes)
    }
    fn request_time(&self) -> Option<Duration> {
        Some(self.begun.elapsed())
    }
    fn time_local(&self) -> &[u8] {
        self.time.as_bytes()
    }
    fn each_response_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.each_response_header(&mut |found, value| {
            if found.eq_ignore_ascii_case(name) {
                each(value);
            }
        });
    }
    fn each_response_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.head {
            each(name, value.trim_ascii());
        }
    }
}
