//! Copies of requests to an upstream whose responses are discarded (`mirror`).
//!
//! A copy is a separate task on the listen thread: it has its own head, body and timeout, and a client that discards everything. Must
//! never: delay a request, make one fail, or use what others wait for. If the limit of concurrent copies is reached, or every server of the
//! upstream is busy, no copy is sent.

use std::net::SocketAddr;
use std::rc::Rc;

use tutti_config::model::{Balance, Mirror, UpstreamProtocol};
use tutti_http::edits::Edit;
use tutti_http::http2::is_connection_specific;
use tutti_http::{
    BodyLength, Known, MessageLimits, Method, PathRules, PerConnection, Progress, RequestHead,
    write_field, write_request_line,
};
use tutti_pool::Level;
use tutti_proxy::{BufferedBody, Cgi, DiscardingClient, UpstreamDestination};
use tutti_routing::{RequestInfo as _, Seen};
use tutti_upstream::{CopyFate, ServerGroup};

use crate::exchange::collector::Collected;
use crate::exchange::request::Request;
use crate::local::Local;

/// Sends a copy of the request, if configured. `body` is its whole body.
pub(crate) fn copy(request: &Request<'_>, body: &Collected) {
    let rules = request.exchange.rules.borrow();
    let router = &request.snapshot.router;
    // The request that this one replaces has been copied. Jobs are not copied.
    let Some((mirror, _, upstream)) = router
        .rules()
        .mirror(&rules)
        .filter(|_| request.substitute.is_none() && !matches!(body, Collected::Job(_)))
    else {
        return;
    };
    let Some(upstream) = request.snapshot.upstreams.get(upstream) else {
        return;
    };
    if !is_chosen(mirror, request.exchange.request_id(&request.client.local)) {
        return;
    }
    match Copy::new(request, mirror, upstream, body) {
        Some(copy) => copy.send(mirror),
        None => upstream.note_copy(CopyFate::Dropped),
    }
}

/// Selects a share of all requests, by their random ids.
fn is_chosen(mirror: &Mirror, id: u128) -> bool {
    let place = (id as u64) as f64 / u64::MAX as f64;
    place < mirror.options.ratio || mirror.options.ratio >= 1.0
}

/// One copy, which owns all its data.
struct Copy {
    local: Rc<Local>,
    upstream: std::sync::Arc<ServerGroup>,
    head: Box<RequestHead>,
    bytes: Vec<u8>,
    body: Vec<u8>,
    /// The value that a hash uses.
    key: Vec<u8>,
    edits: Vec<Edit>,
    remote: Option<SocketAddr>,
    is_https: bool,
}

impl Copy {
    /// `None`: the limit is reached, or it cannot be made.
    fn new(
        request: &Request<'_>,
        mirror: &Mirror,
        upstream: &std::sync::Arc<ServerGroup>,
        body: &Collected,
    ) -> Option<Self> {
        let local = &request.client.local;
        let is_http = matches!(upstream.model().protocol, UpstreamProtocol::Http);
        if local.copies.get() >= mirror.options.max_pending || !is_http {
            return None;
        }
        let body: &[u8] = match body {
            Collected::None if request.view.body_length() == BodyLength::None => b"",
            Collected::Memory(bytes) if bytes.len() as u64 <= mirror.options.max_body_size => bytes,
            _ => return None,
        };
        let mut key = Vec::new();
        if let Balance::Hash(template) = &upstream.model().balance {
            let seen = Seen {
                request,
                rewritten: None,
                response: None,
            };
            tutti_routing::render(template, &seen, &mut key).ok()?;
        }
        let (head, bytes) = head(request, body.len())?;
        let fields = request.snapshot.guards.fields().iter();
        Some(Self {
            local: Rc::clone(local),
            upstream: std::sync::Arc::clone(upstream),
            head,
            bytes,
            body: body.to_vec(),
            key,
            // Identity fields of a client are removed there, too.
            edits: fields.map(|name| Edit::own(name.clone(), None)).collect(),
            remote: request.remote(),
            is_https: request.is_https(),
        })
    }

    /// Sends it, and drops it at its timeout.
    fn send(self, mirror: &Mirror) {
        let (local, upstream) = (
            Rc::clone(&self.local),
            std::sync::Arc::clone(&self.upstream),
        );
        let copies = &local.copies;
        copies.set(copies.get() + 1);
        let timeout = mirror.options.timeout;
        tokio::task::spawn_local(async move {
            let local = Rc::clone(&self.local);
            // Boxed: most of the task is this.
            let outcome = tokio::time::timeout(timeout, Box::pin(self.run())).await;
            local.copies.set(local.copies.get().saturating_sub(1));
            upstream.note_copy(outcome.unwrap_or(CopyFate::Failed));
        });
    }

    async fn run(mut self) -> CopyFate {
        let destination = UpstreamDestination {
            upstream: std::sync::Arc::clone(&self.upstream),
            key: std::mem::take(&mut self.key),
            cookie: None,
            cgi: Cgi::default(),
            body: None,
            method: None,
        };
        let request = tutti_proxy::ProxyRequest {
            view: self.head.view(&self.bytes),
            destination: &destination,
            path: self.head.view(&self.bytes).request_path(),
            edits: &self.edits,
            body: match self.body.as_slice() {
                [] => BufferedBody::None,
                bytes => BufferedBody::Memory(bytes),
            },
            user: b"",
        };
        let log = |level: Level, line: &str| self.local.log(level, line);
        let log_error = |line: &str| {
            let line = format!("mirrored request: {line}");
            self.local.log_failure(Level::Warn, &line);
        };
        let mut sink = DiscardingClient::new(self.remote, self.is_https, &log, &log_error);
        let resources = &self.local.proxy;
        let _ = tutti_proxy::run(request, &mut sink, None, resources).await;
        match sink.outcome() {
            Ok(()) => CopyFate::Answered,
            // There was no capacity for it.
            Err(503) => CopyFate::Dropped,
            Err(_) => CopyFate::Failed,
        }
    }
}

/// The client's head, without the fields of this connection and with the length of the body.
fn head(request: &Request<'_>, body: usize) -> Option<(Box<RequestHead>, Vec<u8>)> {
    let view = request.view;
    if view.method() == Method::Connect || view.origin_target().first() != Some(&b'/') {
        return None;
    }
    let mut bytes = Vec::new();
    write_request_line(&mut bytes, view.method_text(), view.origin_target());
    write_field(&mut bytes, b"Host", view.host());
    let per_connection = PerConnection::of_request(&view);
    for field in view.fields() {
        let is_left_out = per_connection.is_named(field.name)
            || matches!(
                field.known,
                Known::Host
                    | Known::ContentLength
                    | Known::TransferEncoding
                    | Known::Expect
                    | Known::Te
            )
            || is_connection_specific(field.known);
        if !is_left_out {
            write_field(&mut bytes, field.name, field.value);
        }
    }
    if body > 0 {
        write_field(&mut bytes, b"Content-Length", body.to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    let limits = MessageLimits {
        large_header_buffer_size: 1 << 20,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        paths: Some(PathRules::CHECKED),
        max_body_size: u64::MAX,
        ..MessageLimits::default()
    };
    let mut head = Box::<RequestHead>::default();
    match head.parse(&bytes, &limits) {
        Ok(Progress::Complete { length }) if length == bytes.len() => Some((head, bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tutti_config::model::MirrorOptions;

    use super::*;

    #[test]
    fn the_ratio_says_how_many_are_copied() {
        let chosen = |ratio: f64| {
            let mirror = Mirror {
                upstream: String::new(),
                options: MirrorOptions {
                    ratio,
                    ..MirrorOptions::default()
                },
            };
            let ids = (0..1000).map(|n| (u64::MAX / 1000 * n) as u128);
            ids.filter(|id| is_chosen(&mirror, *id)).count()
        };
        assert_eq!((chosen(0.0), chosen(1.0)), (0, 1000));
        assert!((90..=110).contains(&chosen(0.1)));
    }
}
