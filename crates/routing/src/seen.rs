//! A request with its current path and its response.

use std::net::SocketAddr;

use tutti_config::model::{OutOfSteps, Pointer, TlsVariable, UpstreamVariable};
use tutti_http::{OwnedPath, RequestPath};
use tutti_script::{Modules, ScriptError};

use crate::info::{ConnectionNumbers, RequestInfo, ResponseInfo, RouteEvent};

/// A request with the path after a `rewrite`, and the response.
pub struct Seen<'a, R: ?Sized> {
    /// The request itself.
    pub request: &'a R,
    /// The current path, if it was rewritten.
    pub rewritten: Option<&'a OwnedPath>,
    /// The response, once there is one.
    pub response: Option<&'a dyn ResponseInfo>,
}

impl<'a, R: RequestInfo + ?Sized> Seen<'a, R> {
    /// With the current path.
    pub(crate) fn on_its_way(request: &'a R, rewritten: Option<&'a OwnedPath>) -> Self {
        Self {
            request,
            rewritten,
            response: request.response(),
        }
    }
}

impl<R: RequestInfo + ?Sized> RequestInfo for Seen<'_, R> {
    fn request_path(&self) -> RequestPath<'_> {
        self.rewritten
            .map_or_else(|| self.request.request_path(), OwnedPath::as_path)
    }
    // `$request_uri` is the client's target, even after a `rewrite`.
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
    fn peer(&self) -> Option<SocketAddr> {
        self.request.peer()
    }
    fn announced(&self) -> Option<SocketAddr> {
        self.request.announced()
    }
    fn announced_server(&self) -> Option<SocketAddr> {
        self.request.announced_server()
    }
    fn connection(&self) -> ConnectionNumbers {
        self.request.connection()
    }
    fn hostname(&self) -> &[u8] {
        self.request.hostname()
    }
    fn write_upstream(&self, variable: UpstreamVariable, out: &mut Vec<u8>) {
        self.request.write_upstream(variable, out);
    }
    fn body_bytes_received(&self) -> u64 {
        self.request.body_bytes_received()
    }
    fn write_body(&self, out: &mut Vec<u8>) {
        self.request.write_body(out);
    }
    fn cache_status(&self) -> &'static str {
        self.request.cache_status()
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.request.each_field(name, each);
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        self.request.each_header(each);
    }
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        self.request.tls(variable)
    }
    fn request_id(&self) -> u128 {
        self.request.request_id()
    }
    fn write_user(&self, out: &mut Vec<u8>) {
        self.request.write_user(out);
    }
    fn given_request_id(&self) -> Option<&[u8]> {
        self.request.given_request_id()
    }
    fn error_status(&self) -> Option<u16> {
        self.request.error_status()
    }
    fn modules(&self) -> Option<&Modules> {
        self.request.modules()
    }
    fn script_failed(&self, template: &str, failure: &ScriptError) {
        self.request.script_failed(template, failure);
    }
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        self.request.pattern_failed(out_of_steps, place);
    }
    fn is_noted(&self) -> bool {
        self.request.is_noted()
    }
    fn note(&self, event: RouteEvent<'_>) {
        self.request.note(event);
    }
    fn response(&self) -> Option<&dyn ResponseInfo> {
        self.response
    }
}
