//! Copies of requests, to an upstream whose answers nobody waits for (`mirror`).
//!
//! A copy is a task of its own on the listen thread: it has its own head and body, its own time, and a client that throws everything
//! away. Must never: delay a request, fail one, or take what others wait for. Where there are as many copies under way as there may be,
//! or every server of the upstream has as many requests as it may, there is none.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_config::model::{Mirror, UpstreamProtocol};
use tutti_http::edits::Edit;
use tutti_http::http2::is_connection_specific;
use tutti_http::{
    BodyLength, FieldLines, Known, Limits, Method, Progress, RequestHead, Trailers, write_field,
    write_request_line,
};
use tutti_pool::Level;
use tutti_proxy::{AnswerHead, Backlog, Body, BodyFault, Cgi, Client, Destination, RequestBody};
use tutti_routing::RequestInfo as _;
use tutti_upstream::{CopyFate, Upstream};

use crate::collector::Collected;
use crate::local::Local;
use crate::request::Request;
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;

/// Sends a copy of the request, if there is to be one. `body` is all of its body.
pub(crate) fn copy(request: &Request<'_>, body: &Collected) {
    let rules = request.connection.rules.borrow();
    let router = &request.snapshot.router;
    // A request that is answered in place of another has been copied with that.
    let Some((mirror, _, upstream)) = router
        .rules()
        .mirror(&rules)
        .filter(|_| request.substitute.is_none())
    else {
        return;
    };
    let Some(upstream) = request.snapshot.upstreams.get(upstream) else {
        return;
    };
    if !is_chosen(mirror, request.connection.request_id()) {
        return;
    }
    match Copy::new(request, mirror, upstream, body) {
        Some(copy) => copy.send(mirror),
        None => upstream.note_copy(CopyFate::Dropped),
    }
}

/// Part of all requests: by their ids, which are random.
fn is_chosen(mirror: &Mirror, id: u128) -> bool {
    let place = (id as u64) as f64 / u64::MAX as f64;
    place < mirror.ratio || mirror.ratio >= 1.0
}

/// One copy, which owns all that it needs.
struct Copy {
    local: Rc<Local>,
    upstream: std::sync::Arc<Upstream>,
    head: Box<RequestHead>,
    bytes: Vec<u8>,
    body: Vec<u8>,
    edits: Vec<Edit>,
    remote: Option<SocketAddr>,
    is_https: bool,
}

impl Copy {
    /// `None`: there is no room for one, or it cannot be made.
    fn new(
        request: &Request<'_>,
        mirror: &Mirror,
        upstream: &std::sync::Arc<Upstream>,
        body: &Collected,
    ) -> Option<Self> {
        let local = &request.connection.local;
        let is_http = matches!(upstream.model().protocol, UpstreamProtocol::Http);
        if local.copies.get() >= mirror.max_pending || !is_http {
            return None;
        }
        let body: &[u8] = match body {
            Collected::None if request.view.body_length() == BodyLength::None => b"",
            Collected::Memory(bytes) if bytes.len() as u64 <= mirror.max_body_size => bytes,
            _ => return None,
        };
        let (head, bytes) = head(request, body.len())?;
        let fields = request.snapshot.guards.fields().iter();
        Some(Self {
            local: Rc::clone(local),
            upstream: std::sync::Arc::clone(upstream),
            head,
            bytes,
            body: body.to_vec(),
            // A client cannot say there who it is either.
            edits: fields.map(|name| Edit::own(name.clone(), None)).collect(),
            remote: request.remote(),
            is_https: request.is_https(),
        })
    }

    /// Sends it, and forgets it when its time has come.
    fn send(self, mirror: &Mirror) {
        let (local, upstream) = (
            Rc::clone(&self.local),
            std::sync::Arc::clone(&self.upstream),
        );
        let copies = &local.copies;
        copies.set(copies.get() + 1);
        let timeout = mirror.timeout;
        tokio::task::spawn_local(async move {
            let local = Rc::clone(&self.local);
            // In a box: most of the task is this.
            let outcome = tokio::time::timeout(timeout, Box::pin(self.run())).await;
            local.copies.set(local.copies.get().saturating_sub(1));
            upstream.note_copy(outcome.unwrap_or(CopyFate::Failed));
        });
    }

    async fn run(self) -> CopyFate {
        let destination = Destination {
            upstream: std::sync::Arc::clone(&self.upstream),
            key: Vec::new(),
            cgi: Cgi::default(),
        };
        let request = tutti_proxy::Request {
            view: self.head.view(&self.bytes),
            destination: &destination,
            rewritten: None,
            edits: &self.edits,
            body: match self.body.as_slice() {
                [] => Body::None,
                bytes => Body::Memory(bytes),
            },
        };
        let mut nobody = Nobody {
            copy: &self,
            fate: CopyFate::Failed,
        };
        let resources = &self.local.proxy;
        let _ = tutti_proxy::run(request, &mut nobody, None, resources).await;
        nobody.fate
    }
}

/// The head as the client sent it, with what belongs to this connection left out and the length of the body.
fn head(request: &Request<'_>, body: usize) -> Option<(Box<RequestHead>, Vec<u8>)> {
    let view = request.view;
    if view.method() == Method::Connect || view.origin_target().first() != Some(&b'/') {
        return None;
    }
    let mut bytes = Vec::new();
    write_request_line(&mut bytes, view.method_text(), view.origin_target());
    write_field(&mut bytes, b"Host", view.host());
    for field in view.fields() {
        let is_left_out = matches!(
            field.known,
            Known::Host
                | Known::ContentLength
                | Known::TransferEncoding
                | Known::Expect
                | Known::Te
        ) || is_connection_specific(field.known);
        if !is_left_out {
            write_field(&mut bytes, field.name, field.value);
        }
    }
    if body > 0 {
        write_field(&mut bytes, b"Content-Length", body.to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    let limits = Limits {
        large_header_buffer_size: 1 << 20,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        max_body_size: u64::MAX,
        ..Limits::default()
    };
    let mut head = Box::<RequestHead>::default();
    match head.parse(&bytes, &limits) {
        Ok(Progress::Complete { length }) if length == bytes.len() => Some((head, bytes)),
        _ => None,
    }
}

/// The client of a copy, who throws everything away.
struct Nobody<'c> {
    copy: &'c Copy,
    fate: CopyFate,
}

/// A body that is never read while it comes.
enum NoBody {}

impl RequestBody for NoBody {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<bool, BodyFault>> {
        match *self {}
    }
    fn piece(&self) -> &[u8] {
        match *self {}
    }
    fn consume(&mut self, _: usize) {
        match *self {}
    }
    fn trailers(&self) -> Trailers {
        match *self {}
    }
    fn deadline(&self) -> Millis {
        match *self {}
    }
    fn start_clock(&mut self) {
        match *self {}
    }
    fn stop_clock(&mut self) {
        match *self {}
    }
    fn awaits_continue(&self) -> bool {
        match *self {}
    }
}

impl Client for Nobody<'_> {
    type Body = NoBody;
    type Answer = ();
    type Ending = ();

    fn remote(&self) -> Option<SocketAddr> {
        self.copy.remote
    }
    fn local(&self) -> Option<SocketAddr> {
        None
    }
    fn is_https(&self) -> bool {
        self.copy.is_https
    }
    fn may_wait(&self) -> bool {
        false
    }
    fn log(&self, level: Level, line: &str) {
        self.copy.local.log(level, line);
    }
    fn complain(&self, line: &str) {
        let line = format!("a copy of a request: {line}");
        self.copy.local.complain(Level::Warn, &line);
    }
    fn interim<'f>(&mut self, _: u16, _: impl Iterator<Item = (&'f [u8], &'f [u8])>) {}
    fn send_continue(&mut self, body: &mut NoBody) {
        match *body {}
    }
    fn switch<'f>(&mut self, _: impl Iterator<Item = (&'f [u8], &'f [u8])>) {}
    fn begin<'f>(
        &mut self,
        _: &AnswerHead,
        _: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<(), Gone> {
        Ok(())
    }
    fn write<'b>(
        &mut self,
        _: &mut (),
        _: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<(), Gone> {
        Ok(())
    }
    fn finish(&mut self, _: &mut (), _: Trailers) -> Result<(), Gone> {
        Ok(())
    }
    fn end(&mut self, _: ()) {
        self.fate = CopyFate::Answered;
    }
    fn break_off(&mut self, _: &()) {}
    fn abandon(&mut self, _: u16) {}
    fn note_reset(&mut self, _: u32) {}
    fn fail(&mut self, status: u16, _: &FieldLines, _: bool) {
        // 503: there was no room for it.
        if status == 503 {
            self.fate = CopyFate::Dropped;
        }
    }
    fn refuse(&mut self, _: u16) {}
    fn discard(&mut self) {}
    fn unsent(&self) -> u64 {
        0
    }
    fn allowance(&self, most: usize) -> usize {
        most
    }
    fn deliver(&mut self, _: &mut Context<'_>) -> Result<Millis, Gone> {
        Ok(NEVER)
    }
    // The time of the copy as a whole ends it.
    fn wake_at(&self, _: Millis) {}
    fn try_send(&mut self) -> Result<bool, Gone> {
        Ok(true)
    }
    fn poll_room(&mut self, _: &mut Context<'_>, _: Backlog, _: Millis) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }
    async fn flush(&mut self) -> Result<(), Gone> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_ratio_says_how_many_are_copied() {
        let chosen = |ratio: f64| {
            let mirror = Mirror {
                upstream: String::new(),
                ratio,
                max_body_size: 0,
                max_pending: 1,
                timeout: Duration::ZERO,
            };
            let ids = (0..1000).map(|n| (u64::MAX / 1000 * n) as u128);
            ids.filter(|id| is_chosen(&mirror, *id)).count()
        };
        assert_eq!((chosen(0.0), chosen(1.0)), (0, 1000));
        assert!((90..=110).contains(&chosen(0.1)));
    }
}
