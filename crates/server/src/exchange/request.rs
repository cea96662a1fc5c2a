//! A request with a complete head, in its context.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tutti_config::model::{OutOfSteps, PageStatus, Pointer, TlsVariable, UpstreamVariable};
use tutti_conn::departure::Presence;
use tutti_conn::output::{Gone, Output};
use tutti_conn::pace::Pace;
use tutti_files::compression::{Choice, Described};
use tutti_files::conditional::Preconditions;
use tutti_files::range;
use tutti_http::{
    FieldLines, Known, Method, NO_FIELDS, OutgoingHead, RequestPath, RequestView, Version,
    cookie_pairs,
};
use tutti_pool::Level;
use tutti_request_log::Answerer;
use tutti_request_log::Finished;
use tutti_request_log::{Phases, RequestTarget, SLOW, SlowRequest};
use tutti_routing::{
    ConnectionNumbers, Modules, RequestInfo, ResponseHeader, RouteEvent, ScriptError, Seen,
};

use crate::exchange::Exchange;
use crate::exchange::channel::Channel;
use crate::exchange::client::ClientSide;
use crate::exchange::refusals;
use crate::exchange::respond::{self, Page, Persistence};
use crate::exchange::route_log;
use crate::fields::response_headers::{self, Refused};
use crate::fields::{charset, request_id};
use crate::plan::Changes;
use crate::snapshot::{ListenerEntry, RequestSettings, Snapshot};
use crate::substitute::{Mended, Substitute};

/// A request in its context.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) client: &'a ClientSide,
    pub(crate) exchange: &'a Exchange,
    pub(crate) snapshot: &'a Snapshot,
    /// The number of its listener there; `None`: that was removed while the request was in transit.
    pub(crate) listener: Option<usize>,
    pub(crate) view: RequestView<'a>,
    /// As the client sent it; differs from `view` for a substitute.
    pub(crate) original: RequestView<'a>,
    /// Set if it is answered in place of the client's.
    pub(crate) substitute: Option<&'a Substitute>,
}

impl<'a> Request<'a> {
    /// The request with the head `view`, or its substitute.
    pub(crate) fn new(
        client: &'a ClientSide,
        exchange: &'a Exchange,
        (snapshot, listener): (&'a Snapshot, Option<usize>),
        view: RequestView<'a>,
    ) -> Self {
        let substitute = exchange.substitute.as_deref();
        Self {
            client,
            exchange,
            snapshot,
            listener,
            view: substitute.map_or(view, Substitute::view),
            original: view,
            substitute,
        }
    }

    /// Its settings: those of its listener, or of its action once it is routed.
    pub(crate) fn settings(&self) -> &'a RequestSettings {
        self.snapshot.settings.get(self.exchange.settings.get())
    }

    /// Its listener in the configuration.
    pub(crate) fn entrance(&self) -> Option<&'a ListenerEntry> {
        self.snapshot.entrances().nth(self.listener?)
    }

    /// Sends all of `output`.
    pub(crate) async fn flush(&self, output: &mut Output) -> Result<(), Gone> {
        let send_timeout = self.settings().timeouts.send;
        self.exchange.flush(self.client, output, send_timeout).await
    }

    /// Ready when the client can receive no response any more; wakes the task then.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.exchange.presence(self.client, cx) {
            Presence::Gone => Poll::Ready(()),
            Presence::Here | Presence::SendsNoMore { .. } => Poll::Pending,
        }
    }

    /// Waits for `future`, as long as the client is connected.
    pub(crate) async fn unless_gone<F: Future>(&self, future: F) -> Result<F::Output, Gone> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            self.poll_gone(cx).map(|()| Err(Gone::Closed))
        })
        .await
    }

    /// The client's request, for the logs.
    fn as_sent(&self) -> Self {
        Self {
            view: self.original,
            ..*self
        }
    }

    /// The user that a guard has identified, for what answers the request; empty if there is none.
    pub(crate) fn user(&self) -> Vec<u8> {
        let mut user = Vec::new();
        self.write_user(&mut user);
        user
    }

    /// The value of a cookie; `None`: there is none, or more than one.
    pub(crate) fn cookie(&self, name: &str) -> Option<&'a [u8]> {
        let fields = self.view.get_all(b"Cookie");
        let mut values = fields.flat_map(cookie_pairs).filter_map(|pair| {
            let rest = pair.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=")
        });
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// The error that this request replaces.
    pub(crate) fn mended(&self) -> Option<Mended> {
        self.substitute.and_then(|substitute| substitute.mended)
    }

    /// The status of the response, if the action returns this one.
    pub(crate) fn status(&self, own: u16) -> u16 {
        match self.mended() {
            Some(Mended { status, answer }) => match answer {
                PageStatus::Kept => status,
                PageStatus::Own => own,
                PageStatus::Fixed(fixed) => fixed,
            },
            None => own,
        }
    }

    /// Appends a page and logs the request.
    pub(crate) fn page(&self, page: &Page<'_>, changes: &Changes, output: &mut Output) {
        let local = &self.client.local;
        let mut made = respond::page(local, self.settings(), self.view.version(), page);
        self.adjust(changes, &mut made.head);
        self.finished(page.status, made.body_bytes(), &made.head.fields);
        self.pace(output);
        made.put(self.client, output);
    }

    /// Limits the rate at which a response that begins now is sent.
    pub(crate) fn pace(&self, output: &mut Output) {
        let bandwidths = self.exchange.bandwidths.borrow();
        output.set_pace(Pace::new(&bandwidths, self.settings().limit_rate));
    }

    /// Appends the head of a response that is logged later. Returns its fields if the access log needs them.
    pub(crate) fn put(&self, head: OutgoingHead, output: &mut Output) -> FieldLines {
        match head.status {
            // The connection has no responses any more.
            101 => output.lift_pace(),
            _ => self.pace(output),
        }
        let mut logged = FieldLines::new();
        if self.settings().access_logs.is_some() {
            logged = self.client.local.take_fields();
            logged.append(&head.fields);
        }
        respond::put(self.client, head, output);
        logged
    }

    /// Adds the trace and the request id to the fields of the response.
    pub(crate) fn identify(&self, fields: &mut FieldLines) {
        self.exchange.admission.add_fields(fields);
        if let Some(cookie) = &*self.exchange.cookie.borrow() {
            fields.push(b"Set-Cookie", cookie.as_bytes());
        }
        self.exchange.traced.append_fields(fields);
        let wanted = self.settings().request_id.as_deref();
        request_id::set_field(wanted, fields, || refusals::id(self));
    }

    /// Announces HTTP/3 to clients of older versions (RFC 7838), unless the response has `Alt-Svc`.
    fn advertise_http3(&self, fields: &mut FieldLines) {
        if self.view.version() < Version::Http3
            && let Some(spoken) = self.entrance().and_then(|entry| entry.http3.as_ref())
            && let Some(value) = &spoken.alt_svc
            && fields.get_all(b"Alt-Svc").next().is_none()
        {
            fields.push(b"Alt-Svc", value.as_bytes());
        }
    }

    /// Applies `response_headers` and `response_headers_always` to a complete head, and adds the trace.
    pub(crate) fn adjust(&self, changes: &Changes, head: &mut OutgoingHead) {
        self.identify(&mut head.fields);
        self.advertise_http3(&mut head.fields);
        if let Some(charset) = &self.settings().charset {
            charset::add(charset, &mut head.fields);
        }
        if self.substitute.is_none() && changes.headers.is_empty() {
            return;
        }
        let mut before: &[ResponseHeader] = &[];
        if let Some(substitute) = self.substitute {
            substitute.kept.apply(head.status, &mut head.fields);
            before = &substitute.headers;
        }
        let is_good = (200..400).contains(&head.status);
        let before = before
            .iter()
            .filter(|one| !response_headers::replace(&changes.headers, one));
        let applying = before.chain(&changes.headers);
        let mut applying = applying
            .filter(|change| is_good || change.always)
            .peekable();
        if applying.peek().is_none() {
            return;
        }
        let response = Finished {
            begun: self.exchange.begun,
            status: head.status,
            body_bytes: 0,
            head: &head.fields,
            time: None,
        };
        let described = Seen {
            request: self,
            rewritten: changes.rewritten.as_deref(),
            response: Some(&response),
        };
        let values = response_headers::values(applying, &described, |name, refused| {
            let target = String::from_utf8_lossy(self.view.target());
            let message = match refused {
                Refused::Value => format!(
                    "`response_headers`: the value of `{name}` has a control character, so the field is omitted; {target}"
                ),
                Refused::Framing => format!(
                    "`response_headers`: `{name}` determines how a response is sent, which only the server decides, so it is not changed; hint: remove `{name}`"
                ),
            };
            let local = &self.client.local;
            local.log_failure_of(Level::Warn, &message, || refusals::id(self));
        });
        response_headers::apply(&values, &mut head.fields);
    }

    pub(crate) fn is_head(&self) -> bool {
        self.view.method() == Method::Head
    }

    /// True if trailer fields of the response have a reader: an HTTP/1 client must ask for them (RFC 9110 §6.5.1).
    pub(crate) fn takes_trailers(&self) -> bool {
        self.view.version() >= Version::Http2 || self.view.asks_for_trailers()
    }

    /// The decision whether to keep the connection after this request.
    pub(crate) fn persistence(&self) -> Persistence {
        let lingers = self.substitute.is_some_and(|substitute| substitute.lingers);
        let keep_alive = self.original.facts().keep_alive && !lingers;
        Persistence::of(keep_alive && !self.client.is_ending())
    }

    /// The fields that make the request conditional.
    pub(crate) fn conditions(&self) -> Preconditions<'a> {
        Preconditions {
            range: self.range(),
            ..Preconditions::of(&self.view)
        }
    }

    /// `Range`, unless it has more ranges than a request may have: then it is ignored.
    pub(crate) fn range(&self) -> Option<&'a [u8]> {
        let range = self.view.get(Known::Range)?;
        (range::count(range) <= self.settings().max_ranges).then_some(range)
    }

    /// Chooses how a response is compressed.
    pub(crate) fn compression(&self, response: &Described<'_>) -> Choice {
        let Some(compression) = &self.settings().compression else {
            return Choice::Never;
        };
        let accepted = self.view.get_all(b"Accept-Encoding");
        let choice = compression.choose(response, self.view.version(), accepted);
        choice.unwrap_or_else(|out_of_steps| {
            let place = Pointer::from_escaped("/settings/http/compression/types");
            self.client.local.log_failure(
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
        self.exchange.arrived
    }

    /// When the action could begin: the head was complete, and the body if it is collected.
    pub(crate) fn complete_at(&self) -> Instant {
        self.exchange.collected.get().unwrap_or(self.arrived())
    }

    /// Logs the request, whose response has been produced, and records its span. `head` has the fields of the response's head.
    pub(crate) fn finished(&self, status: u16, body_bytes: u64, head: &FieldLines) {
        let status = self.sent_status(status);
        if self.snapshot.tracer.is_some() {
            let duration = self.arrived().elapsed();
            self.exchange.traced.end(status, duration);
        }
        self.log_access(status, body_bytes, head);
    }

    /// The status that the client gets instead of this one: on a stream, a success would accept a WebSocket. Logs this.
    fn sent_status(&self, status: u16) -> u16 {
        let Channel::Stream(stream) = &self.client.channel else {
            return status;
        };
        // Logs show the status of HTTP/1 for a WebSocket in every protocol.
        let sent = stream.sent_status(status).filter(|_| status != 101);
        let sent = sent.unwrap_or(status);
        if sent == 400 && sent != status {
            let reason = format!(
                "the response to a WebSocket handshake has the status {status} instead of 101"
            );
            refusals::refused(&self.client.local, self, sent, &reason);
        }
        sent
    }

    /// Called when the client has disconnected, or was given up, before there was a response. Its line has nginx's status: 400 if its body
    /// is incomplete, 408 if it was too slow, 499 if it did not wait; its span has the error `aborted`.
    pub(crate) fn left(&self, gone: Gone) {
        let status = match gone {
            Gone::TimedOut => 408,
            Gone::Closed if self.exchange.is_body_coming() => 400,
            Gone::Closed => 499,
        };
        self.log_access(status, 0, &NO_FIELDS);
    }

    /// Writes the access log, the slow log and the metrics.
    fn log_access(&self, status: u16, body_bytes: u64, head: &FieldLines) {
        if !self.exchange.note_logged() {
            return;
        }
        let now = Instant::now();
        let took = now.saturating_duration_since(self.exchange.begun);
        self.exchange
            .count(self.client, &self.snapshot.counts, status, took);
        self.note_failed_or_slow(status, now, took);
        let Some(logs) = &self.settings().access_logs else {
            return;
        };
        // It is part of the request that it is about.
        if self.snapshot.is_question(self.client.listener.id) {
            return;
        }
        let local = &self.client.local;
        let finished = |time| Finished {
            begun: self.exchange.begun,
            status,
            body_bytes,
            head,
            time,
        };
        let log_error = |message: &str| local.log(Level::Alert, message);
        let rewritten = self.exchange.rewritten.borrow();
        let seen = Seen {
            request: &self.as_sent(),
            rewritten: rewritten.as_deref(),
            response: None,
        };
        local.access_log.append(logs, &seen, finished, log_error);
    }
}

impl Request<'_> {
    /// Writes an entry of the slow log if the request was slow, and keeps it for `/status` if it was slow or failed.
    fn note_failed_or_slow(&self, status: u16, now: Instant, took: Duration) {
        let slow_log = self.snapshot.logs.slow.as_ref();
        let threshold = slow_log.map_or(SLOW, |log| log.options.threshold);
        // A connection that switched protocols lasts as long as it is used.
        let is_slow = took >= threshold && status != 101;
        if !is_slow && status < 500 {
            return;
        }
        let entry = self.slow_entry(Some(status));
        let local = &self.client.local;
        if let Some(log) = slow_log.filter(|_| is_slow)
            && let Some(news) = log.write(&entry, now)
        {
            local.log(Level::Alert, &news);
        }
        local.shared.recent.note(entry, now);
    }

    /// An entry of the slow log.
    pub(crate) fn slow_entry(&self, status: Option<u16>) -> SlowRequest {
        let exchange = self.exchange;
        let server = match exchange.answerer.get() {
            Answerer::Application(index) => {
                let application = self.snapshot.applications.get(index);
                application.map(|one| RequestTarget::Application(one.name().as_ref().into()))
            }
            Answerer::Upstream(index) => {
                let upstream = self.snapshot.upstreams.get(index);
                upstream.map(|one| RequestTarget::Upstream(one.name().into()))
            }
            _ => None,
        };
        SlowRequest {
            begun: exchange.begun,
            arrived: exchange.arrived,
            phases: exchange.phases.get(),
            server: server.unwrap_or(RequestTarget::Own),
            status,
            client: refusals::client(self.remote()),
            method: refusals::shown(self.original.method_text()),
            target: refusals::shown(self.original.origin_target()),
            id: refusals::id(self),
            process: None,
            backtrace: Vec::new(),
        }
    }

    /// Notes a time of the request, if there is a slow log.
    pub(crate) fn note_phase(&self, note: impl FnOnce(&mut Phases)) {
        if self.snapshot.logs.slow.is_some() {
            let mut phases = self.exchange.phases.get();
            note(&mut phases);
            self.exchange.phases.set(phases);
        }
    }
}

impl RequestInfo for Request<'_> {
    fn is_noted(&self) -> bool {
        self.snapshot.logs_routes
    }
    fn note(&self, event: RouteEvent<'_>) {
        if self.snapshot.logs_routes {
            let number = self.exchange.number(&self.client.local);
            route_log::note(&self.client.local, number, event);
        }
    }
    fn request_path(&self) -> RequestPath<'_> {
        self.view.request_path()
    }
    // The client's target, whatever is answered in its place.
    fn target(&self) -> &[u8] {
        self.original.origin_target()
    }
    fn method(&self) -> &[u8] {
        self.view.method_text()
    }
    fn host(&self) -> &[u8] {
        self.view.host_name()
    }
    fn request_line(&self) -> &[u8] {
        self.original.request_line()
    }
    fn is_https(&self) -> bool {
        let stated = self.exchange.origin.get().is_https;
        stated.unwrap_or_else(|| self.client.is_https())
    }
    fn remote(&self) -> Option<SocketAddr> {
        let stated = self.exchange.origin.get().address;
        stated.or_else(|| self.client.client_address())
    }
    fn local(&self) -> Option<SocketAddr> {
        self.client.local_address()
    }
    fn peer(&self) -> Option<SocketAddr> {
        self.client.peer.address()
    }
    fn announced(&self) -> Option<SocketAddr> {
        self.client.proxied_addresses().map(|both| both.source)
    }
    fn announced_server(&self) -> Option<SocketAddr> {
        self.client.proxied_addresses().map(|both| both.destination)
    }
    fn connection(&self) -> ConnectionNumbers {
        self.exchange.connection
    }
    fn hostname(&self) -> &[u8] {
        static NAME: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
            std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
        });
        NAME.trim_ascii_end().as_bytes()
    }
    fn write_upstream(&self, variable: UpstreamVariable, out: &mut Vec<u8>) {
        self.exchange.attempts.write(variable, out);
    }
    fn cache_status(&self) -> &'static str {
        self.exchange.cache_status.get()
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.view.get_all(name).for_each(each);
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for field in self.view.fields() {
            each(field.name, field.value);
        }
    }
    fn body_bytes_received(&self) -> u64 {
        self.exchange.received.bytes()
    }
    fn write_body(&self, out: &mut Vec<u8>) {
        self.exchange.received.write_beginning(out);
    }
    fn error_status(&self) -> Option<u16> {
        self.mended().map(|mended| mended.status)
    }
    fn modules(&self) -> Option<&Modules> {
        Some(&self.snapshot.modules)
    }
    fn script_failed(&self, template: &str, failure: &ScriptError) {
        self.client.local.log_failure_of(
            Level::Error,
            &format!(
                "the script {} failed: {failure}{}",
                route_log::script(template),
                route_log::cure(failure)
            ),
            || refusals::id(self),
        );
    }
    fn pattern_failed(&self, out_of_steps: OutOfSteps<'_>, place: &Pointer) {
        self.client.local.log_failure_of(
            Level::Error,
            &format!(
                "{}, so the request gets 500",
                route_log::undecided(out_of_steps, place)
            ),
            || refusals::id(self),
        );
    }
    fn tls(&self, variable: TlsVariable) -> &[u8] {
        let facts = self.client.channel.facts();
        facts.map_or(b"", |facts| facts.value(variable))
    }
    fn request_id(&self) -> u128 {
        self.exchange.request_id(&self.client.local)
    }
    fn write_user(&self, out: &mut Vec<u8>) {
        self.exchange.admission.write_user(out);
    }
    fn given_request_id(&self) -> Option<&[u8]> {
        let client = self.client.client_address();
        request_id::given(self.settings().request_id.as_deref(), &self.view, client)
    }
}
