//! A request whose head is there, what it is to be answered with, and what is left to do for it.

use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tutti_config::model::{Compressor, OutOfSteps, Pointer, TlsVariable};
use tutti_http::{BodyDecoder, Known, Method, RequestView, ResponseFraming, list_members};
use tutti_pool::{Application, Exchange, Level, Region};
use tutti_routing::{
    Decision, Failure, Modules, RequestInfo, ResponseHeader, Rewritten, RouteEvent,
};
use tutti_upstream::{Claim, Connection as UpstreamConnection, Upstream};

use crate::clock::Millis;
use crate::compression::{Choice, Described};
use crate::connection::Connection;
use crate::files::cache::CachedFile;
use crate::files::conditional::Conditions;
use crate::holdings::EncoderCharge;
use crate::output::Gone;
use crate::refusals;
use crate::request_headers::Edit;
use crate::respond::{self, Late, Page, Persistence};
use crate::response_headers;
use crate::route_log;
use crate::scripts::Target;
use crate::snapshot::Snapshot;

/// What comes next on a connection.
pub(crate) enum Step {
    /// Read (the rest of) a head; it must be there by the deadline, which begins with its first byte.
    ReadHead { deadline: Option<Millis> },
    /// Send what there is to send, then look for further requests.
    Flush,
    /// Read the request's body, then do this.
    Body {
        plan: Box<Plan>,
        decoder: BodyDecoder,
    },
    /// Send the rest of a file.
    File(FileTail),
    /// Hand the request to an application.
    Application(Box<Call>),
    /// Send the request to an upstream.
    Upstream(Box<UpstreamCall>),
    /// A server has changed the protocol, and the response is in the output.
    Tunnel(Box<Tunnel>),
    /// An application has accepted a WebSocket handshake, and the response is in the output.
    WebSocket(Box<Upgraded>),
    /// The response is complete in the output.
    End(Persistence),
    /// The same, but part of it waits in a file for a slow client: it is logged when the client has it.
    Late(Box<Late>),
    /// The response is complete in the output, but the client may still be sending.
    Linger,
    /// No request: the client begins to speak HTTP/2.
    Http2,
}

/// What a request is answered with. Owned: it outlives the buffers.
pub(crate) struct Plan {
    pub(crate) act: Act,
    pub(crate) changes: Changes,
}

/// The kinds of plans.
pub(crate) enum Act {
    /// The server's own page, or an empty response; with these field lines.
    Page {
        status: u16,
        fields: Vec<u8>,
    },
    File(Rc<CachedFile>),
    Application {
        application: Arc<Application>,
        target: Option<Box<str>>,
    },
    Upstream(Box<Destination>),
}

/// What the configuration changes about a request and its response, beyond the action.
#[derive(Default)]
pub(crate) struct Changes {
    /// `rewrite`.
    pub(crate) rewritten: Option<Box<Rewritten>>,
    /// `response_headers`.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `request_headers`, for whoever gets the request.
    pub(crate) edits: Vec<Edit>,
}

impl Act {
    pub(crate) fn page(status: u16) -> Self {
        Self::Page {
            status,
            fields: Vec::new(),
        }
    }
}

impl Plan {
    pub(crate) fn new(act: Act) -> Self {
        Self {
            act,
            changes: Changes::default(),
        }
    }

    pub(crate) fn with(act: Act, decision: Decision<'_>, edits: Vec<Edit>) -> Self {
        Self {
            act,
            changes: Changes {
                headers: decision.response_headers.to_vec(),
                rewritten: decision.rewritten,
                edits,
            },
        }
    }
}

/// A request on its way to an application.
pub(crate) struct Call {
    pub(crate) application: Arc<Application>,
    pub(crate) target: Option<Box<str>>,
    pub(crate) changes: Changes,
    pub(crate) body: Collected,
    /// `Sec-WebSocket-Accept`, if the request asks for WebSocket.
    pub(crate) upgrade: Option<[u8; 28]>,
}

/// The upstream a request goes to.
pub(crate) struct Destination {
    pub(crate) upstream: Arc<Upstream>,
    /// What a hash looks at.
    pub(crate) key: Vec<u8>,
    /// Where the server speaks CGI.
    pub(crate) cgi: Cgi,
}

/// What a request in CGI variables needs beyond one in HTTP.
#[derive(Default)]
pub(crate) struct Cgi {
    /// The script, of an application that has scripts.
    pub(crate) target: Option<Rc<Target>>,
    /// `params`; without a value a variable is left out.
    pub(crate) parameters: Vec<(Box<str>, Option<Vec<u8>>)>,
}

/// A request on its way to an upstream.
pub(crate) struct UpstreamCall {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) key: Vec<u8>,
    pub(crate) cgi: Cgi,
    pub(crate) changes: Changes,
    pub(crate) body: Collected,
}

impl Destination {
    pub(crate) fn call(self, changes: Changes, body: Collected) -> UpstreamCall {
        UpstreamCall {
            upstream: self.upstream,
            key: self.key,
            cgi: self.cgi,
            changes,
            body,
        }
    }
}

/// A connection that is a tunnel to a server from now on. The response that says so is in the output.
pub(crate) struct Tunnel {
    /// The server is not relieved of it before its end.
    pub(crate) claim: Claim,
    pub(crate) connection: UpstreamConnection,
    /// What came behind the server's head.
    pub(crate) received: Vec<u8>,
    /// The response's head, kept where the access log may ask for its fields.
    pub(crate) head: Vec<u8>,
    /// Longest time without a byte.
    pub(crate) timeout: Millis,
}

/// A connection that is a WebSocket from now on.
pub(crate) struct Upgraded {
    pub(crate) exchange: Exchange,
    /// The response's head, kept where the access log may ask for its fields.
    pub(crate) head: Vec<u8>,
}

/// A request's body.
#[derive(Default)]
pub(crate) enum Collected {
    #[default]
    None,
    Memory(Vec<u8>),
    Spool(Region),
}

impl Collected {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spool(region) => region.len(),
        }
    }
}

impl Call {
    pub(crate) fn new(
        application: Arc<Application>,
        target: Option<Box<str>>,
        changes: Changes,
    ) -> Self {
        Self {
            application,
            target,
            changes,
            body: Collected::None,
            upgrade: None,
        }
    }
}

/// The part of a response that goes from a file's descriptor to the socket.
pub(crate) struct FileTail {
    pub(crate) file: Rc<CachedFile>,
    /// In order.
    pub(crate) segments: SmallVec<[Segment; 1]>,
    pub(crate) persistence: Persistence,
    pub(crate) status: u16,
    /// Length of the response's body.
    pub(crate) body_bytes: u64,
    /// The response's head, kept where the access log may ask for its fields.
    pub(crate) head: Vec<u8>,
    /// The file is compressed on its way.
    pub(crate) compressed: Option<Compressing>,
}

/// How a body is compressed and framed.
pub(crate) struct Compressing {
    pub(crate) compressor: Compressor,
    pub(crate) framing: ResponseFraming,
    /// The memory for that.
    pub(crate) _encoder: EncoderCharge,
}

/// A piece of a body.
pub(crate) enum Segment {
    /// Bytes of the file.
    File(Range<u64>),
    /// Text around the parts of a multipart body.
    Text(Vec<u8>),
}

/// A request in its context.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) view: RequestView<'a>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        snapshot: &'a Snapshot,
        view: RequestView<'a>,
    ) -> Self {
        Self {
            connection,
            snapshot,
            view,
        }
    }

    /// Appends a page and logs the request.
    pub(crate) fn page(&self, page: &Page<'_>, changes: &Changes, out: &mut Vec<u8>) {
        let start = out.len();
        let body_bytes = respond::page(out, &self.connection.local, self.snapshot, page);
        let body = out.split_off(out.len() - body_bytes as usize);
        self.adjust(page.status, changes, out, start);
        self.finished(
            page.status,
            body_bytes,
            out.get(start..).unwrap_or_default(),
        );
        out.extend_from_slice(&body);
    }

    /// Applies `response_headers` to the head that begins at `start` of `out` and is its end, and says to which trace it belongs.
    pub(crate) fn adjust(&self, status: u16, changes: &Changes, out: &mut Vec<u8>, start: usize) {
        self.connection.traced.tell(out, start);
        if changes.headers.is_empty() || !(200..400).contains(&status) {
            return;
        }
        let head = out.split_off(start);
        let rewritten = changes.rewritten.as_deref();
        let described = Finished {
            request: self,
            status,
            body_bytes: 0,
            head: &head,
            time: "".into(),
            rewritten,
        };
        response_headers::apply(&changes.headers, &described, &head, out, |name| {
            let target = String::from_utf8_lossy(self.view.target());
            let message = format!(
                "`response_headers`: the value of `{name}` has a control character, so the field is left out; {target}"
            );
            self.connection.local.complain(Level::Warn, &message);
        });
    }

    /// Answers with an error for its body's sake, and ends the connection.
    pub(crate) fn refuse(&self, status: u16, out: &mut Vec<u8>) -> Step {
        if let Some(reason) = refusals::body_reason(status) {
            refusals::refused(&self.connection.local, self, status, reason);
        }
        let page = Page {
            status,
            is_head: self.is_head(),
            persistence: Persistence::Close,
            fields: b"",
        };
        self.page(&page, &Changes::default(), out);
        Step::Linger
    }

    pub(crate) fn is_head(&self) -> bool {
        self.view.method() == Method::Head
    }

    /// Whether trailer fields of the response reach somebody who reads them: over HTTP/1 only a client that says so gets some
    /// (RFC 9110 §6.5.1).
    pub(crate) fn takes_trailers(&self) -> bool {
        self.view.version_minor() == 2 || self.asks_for_trailers()
    }

    /// Whether the client says that it takes trailer fields.
    pub(crate) fn asks_for_trailers(&self) -> bool {
        self.view.version_minor() > 0
            && self
                .view
                .get_all(b"TE")
                .flat_map(list_members)
                .any(|member| member.eq_ignore_ascii_case(b"trailers"))
    }

    /// Whether the connection stays open after this request.
    pub(crate) fn persistence(&self) -> Persistence {
        if self.view.version_minor() == 2 {
            Persistence::Stream
        } else if !self.view.facts().keep_alive || self.connection.is_ending() {
            Persistence::Close
        } else if self.view.version_minor() == 0 {
            Persistence::KeepAliveOld
        } else {
            Persistence::KeepAlive
        }
    }

    /// The fields that make the request conditional.
    pub(crate) fn conditions(&self) -> Conditions<'a> {
        let get = |known| self.view.get(known);
        Conditions {
            if_match: get(Known::IfMatch),
            if_none_match: get(Known::IfNoneMatch),
            if_modified_since: get(Known::IfModifiedSince),
            if_unmodified_since: get(Known::IfUnmodifiedSince),
            if_range: get(Known::IfRange),
            range: get(Known::Range),
        }
    }

    /// Whether a response is to be compressed.
    pub(crate) fn compression(&self, response: &Described<'_>) -> Choice {
        let Some(compression) = &self.snapshot.compression else {
            return Choice::Never;
        };
        let accepted = self.view.get_all(b"Accept-Encoding");
        let choice = compression.choose(response, self.view.version_minor(), accepted);
        choice.unwrap_or_else(|out_of_steps| {
            let place = Pointer::from_escaped("/settings/http/compression/types");
            self.connection.local.complain(
                Level::Error,
                &format!(
                    "{}, so the response is not compressed",
                    route_log::undecided(out_of_steps, &place)
                ),
            );
            Choice::Never
        })
    }

    /// When the head was complete.
    pub(crate) fn arrived(&self) -> Instant {
        self.connection.arrived.get()
    }

    /// The response has been produced: log it, and record its span. `head` is the response's head.
    pub(crate) fn finished(&self, status: u16, body_bytes: u64, head: &[u8]) {
        if self.snapshot.tracer.is_some() {
            let duration = self.arrived().elapsed();
            self.connection.traced.end(status, duration);
        }
        self.log_access(status, body_bytes, head);
    }

    /// The client has gone, or was given up, before there was an answer. Its line says what nginx's says: 400 if its body is not whole,
    /// 408 if it took nothing for too long, 499 if it did not wait; its span says that it was broken off.
    pub(crate) fn left(&self, gone: Gone) {
        let status = match gone {
            Gone::TimedOut => 408,
            Gone::Closed if self.connection.is_body_coming() => 400,
            Gone::Closed => 499,
        };
        self.log_access(status, 0, b"");
    }

    fn log_access(&self, status: u16, body_bytes: u64, head: &[u8]) {
        if !self.connection.note_logged() {
            return;
        }
        let Some(log) = &self.snapshot.access_log else {
            return;
        };
        let local = &self.connection.local;
        let describe = |time| Finished {
            request: self,
            status,
            body_bytes,
            head,
            time,
            rewritten: None,
        };
        local
            .access_log
            .append(log, describe, |message| local.log(Level::Alert, message));
    }
}

impl RequestInfo for Request<'_> {
    fn is_noted(&self) -> bool {
        self.snapshot.logs_routes
    }
    fn note(&self, event: RouteEvent<'_>) {
        if self.snapshot.logs_routes {
            let number = self.connection.number();
            route_log::note(&self.connection.local, number, event);
        }
    }
    fn path(&self) -> &[u8] {
        self.view.path()
    }
    fn query(&self) -> Option<&[u8]> {
        self.view.query()
    }
    fn target(&self) -> &[u8] {
        self.view.origin_target()
    }
    fn method(&self) -> &[u8] {
        self.view.method_text()
    }
    fn host(&self) -> &[u8] {
        self.view.host_name()
    }
    fn request_line(&self) -> &[u8] {
        self.view.request_line()
    }
    fn is_https(&self) -> bool {
        let told = self.connection.origin.get().is_https;
        told.unwrap_or_else(|| self.connection.is_https())
    }
    fn remote(&self) -> Option<SocketAddr> {
        let told = self.connection.origin.get().address;
        told.or_else(|| self.connection.client_address())
    }
    fn local(&self) -> Option<SocketAddr> {
        self.connection.local_address()
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.view.get_all(name).for_each(each);
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for field in self.view.fields() {
            each(field.name, field.value);
        }
    }
    fn modules(&self) -> Option<&Modules> {
        Some(&self.snapshot.modules)
    }
    fn script_failed(&self, template: &str, failure: &Failure) {
        self.connection.local.complain(
            Level::Error,
            &format!(
                "the script {} failed: {failure}{}",
                route_log::script(template),
                route_log::cure(failure)
            ),
        );
    }
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        self.connection.local.complain(
            Level::Error,
            &format!(
                "{}, so the request gets 500",
                route_log::undecided(out_of_steps, place)
            ),
        );
    }
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        let facts = self.connection.channel.facts();
        facts.map_or(b"", |facts| facts.value(variable))
    }
    fn request_id(&self) -> u128 {
        self.connection.request_id()
    }
}

/// A finished exchange, for the log's variables.
#[derive(Clone)]
struct Finished<'a> {
    request: &'a Request<'a>,
    status: u16,
    body_bytes: u64,
    /// The response's head as it was sent.
    head: &'a [u8],
    /// `$time_local`.
    time: Rc<str>,
    /// What a `rewrite` made of the path; for `response_headers`.
    rewritten: Option<&'a Rewritten>,
}

impl RequestInfo for Finished<'_> {
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
        Some(self.request.connection.begun.get().elapsed())
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
        respond::each_field(self.head, each);
    }
}
