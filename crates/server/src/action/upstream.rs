//! Requests to an upstream: converts one for the proxy, and implements its client.
//!
//! The proxy is a separate crate (`tutti-proxy`) and depends on neither connections nor the configuration. Here its [`Client`] is
//! implemented with them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tutti_cache::now as now_wall;
use tutti_config::model::{
    self, Balance, ComputedServer, ComputedServerError, GatewayParameter, Template,
    UpstreamProtocol,
};
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_http::edits::Edit;
use tutti_http::{FieldLines, Method, NO_FIELDS, OutgoingHead, Trailers};
use tutti_pool::Level;
use tutti_proxy::{
    AnswerHead, BodyStreamError, BufferLimits, BufferedBody, Cgi, Client, ForwardResult, NoScript,
    RequestBody, UpstreamDestination, find,
};
use tutti_request_log::Phases;
use tutti_routing::{Decision, RequestInfo as _, ScriptFailed, Seen};
use tutti_upstream::{GroupServer, ServerGroup};

use crate::early_hints;
use crate::exchange::body::ClientBody;
use crate::exchange::channel::Channel;
use crate::exchange::collector::{ActionBody, Collected};
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange::respond::Own;
use crate::exchange::stream::Stream;
use crate::exchange_step::{ExchangeStep, Tunnel};
use crate::fields::response_rewrite::{OwnAddress, rewrite};
use crate::internal_redirect::{self, Begun, ErrorResponse, Instead};
use crate::plan::Changes;
use crate::writer::{Head, Writer};

/// Determines the destination of a request in the upstream: evaluates the variables in the configuration.
///
/// # Errors
/// There is no script for the path, or a script for a value failed.
pub(crate) fn destination(
    upstream: &Arc<ServerGroup>,
    decision: &Decision<'_>,
    request: &Request<'_>,
) -> Result<UpstreamDestination, NoScript> {
    let upstream = &match &upstream.model().computed {
        Some(computed) => computed_server(upstream, computed, decision, request)?,
        None => Arc::clone(upstream),
    };
    let mut key = Vec::new();
    if let Balance::Hash(template) = &upstream.model().balance {
        decision
            .render(template, request, &mut key)
            .map_err(failed)?;
    }
    let body = decision.request_body.map(|template| {
        let mut body = Vec::new();
        let rendered = decision.render(template, request, &mut body);
        rendered.map(|()| body)
    });
    Ok(UpstreamDestination {
        upstream: Arc::clone(upstream),
        body: body.transpose().map_err(failed)?,
        method: decision
            .request_method
            .map(|method| Method::from_bytes(method.as_bytes())),
        cookie: (upstream.model().group.sticky.as_ref())
            .and_then(|sticky| request.cookie(&sticky.cookie))
            .map(<[u8]>::to_vec),
        key,
        cgi: cgi(upstream, decision, request)?,
    })
}

/// Determines the server that a computed address names.
fn computed_server(
    upstream: &ServerGroup,
    computed: &ComputedServer,
    decision: &Decision<'_>,
    request: &Request<'_>,
) -> Result<Arc<ServerGroup>, NoScript> {
    let mut address = Vec::new();
    decision
        .render(&computed.address, request, &mut address)
        .map_err(failed)?;
    let local = &request.client.local;
    let name = upstream.name();
    let server = computed.server(&address).map_err(|error| match error {
        ComputedServerError::NotAllowed(_) => {
            refusals::refused(local, request, 403, &format!("proxy \"{name}\": {error}"));
            NoScript::Status(403)
        }
        _ => {
            refusals::failed(local, request, 502, &format!("proxy \"{name}\": {error}"));
            NoScript::Status(502)
        }
    })?;
    let group = upstream.of_computed(computed, &server, now_millis());
    group.ok_or_else(|| {
        let reason = format!("proxy \"{name}\": too many servers have requests");
        refusals::failed(local, request, 503, &reason);
        NoScript::Status(503)
    })
}

/// Determines what a request needs for a server that takes CGI variables.
fn cgi(
    upstream: &ServerGroup,
    decision: &Decision<'_>,
    request: &Request<'_>,
) -> Result<Cgi, NoScript> {
    let UpstreamProtocol::Gateway(gateway) = &upstream.model().protocol else {
        return Ok(Cgi::default());
    };
    let cache = &request.client.local.proxy.scripts;
    let scripts = gateway.scripts.as_ref();
    let target = scripts.map(|scripts| find(scripts, decision.path(request), cache));
    let render = |parameter: &GatewayParameter| {
        let value = parameter.value.as_ref().map(|template| {
            let mut value = Vec::new();
            decision.render(template, request, &mut value)?;
            Ok(value)
        });
        Ok((parameter.name.as_str().into(), value.transpose()?))
    };
    let parameters = gateway.parameters.iter().map(render);
    Ok(Cgi {
        target: target.transpose()?,
        parameters: parameters.collect::<Result<_, _>>().map_err(failed)?,
    })
}

fn failed(_: ScriptFailed) -> NoScript {
    NoScript::Status(500)
}

/// Sends a request to its upstream. Bytes that cannot be sent to the client at once are in `output`.
pub(crate) async fn run<'r>(
    request: &Request<'r>,
    (destination, changes): (&UpstreamDestination, &Changes),
    body: ActionBody<'r>,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let (collected, body) = body.parts();
    request.note_phase(|phases| {
        *phases = Phases {
            handed: Some(Instant::now()),
            ..Phases::default()
        };
    });
    let user = request.user();
    let asked = tutti_proxy::ProxyRequest {
        view: request.view,
        destination,
        path: changes.request_path(&request.view),
        edits: &changes.edits,
        body: match (&destination.body, &collected) {
            (Some(bytes), _) | (None, Collected::Memory(bytes)) => BufferedBody::Memory(bytes),
            (None, Collected::None | Collected::Job(_)) => BufferedBody::None,
            (None, Collected::Spool(region)) => BufferedBody::Spooled(region),
        },
        user: &user,
    };
    let mut client = Requester {
        request,
        upstream: destination.upstream.model(),
        changes,
        output,
        head: FieldLines::new(),
        is_first: true,
    };
    let resources = &request.client.local.proxy;
    let outcome = tutti_proxy::run(asked, &mut client, body, resources).await;
    let Requester { output, head, .. } = client;
    request.client.set_deadline(NEVER);
    let (outcome, rest) = outcome?;
    let step = match outcome {
        ForwardResult::Answered(step) => step,
        ForwardResult::Tunnel(to_server) => {
            ExchangeStep::Tunnel(Box::new(Tunnel { to_server, head }))
        }
    };
    let Some(rest) = rest else {
        return Ok(step);
    };
    match step {
        ExchangeStep::End(persistence) => {
            let is_read = persistence.is_open()
                && rest.drain(output, request.settings().timeouts.send).await?;
            Ok(if is_read { step } else { ExchangeStep::Linger })
        }
        ExchangeStep::Send(mut response) => {
            response.lingers = true;
            Ok(ExchangeStep::Send(response))
        }
        ExchangeStep::Substitute(mut substitute) => {
            substitute.lingers = true;
            Ok(ExchangeStep::Substitute(substitute))
        }
        _ => Ok(step),
    }
}

/// Bytes of a discarded answer that are read, so that its connection can be kept.
const DISCARDED_BYTES: usize = 256 * 1024;

/// The use of a server's answer.
enum Given {
    /// The client gets it.
    Answer(Writer),
    /// It is replaced; this many bytes of it have arrived.
    Nothing(Instead, usize),
}

/// The client of a request that goes to an upstream.
struct Requester<'c, 'r> {
    request: &'c Request<'r>,
    upstream: &'c model::Upstream,
    changes: &'c Changes,
    output: &'c mut Output,
    /// The fields of the 101 response's head, if the access log needs them.
    head: FieldLines,
    /// No server has been chosen yet.
    is_first: bool,
}

impl Requester<'_, '_> {
    fn send_timeout(&self) -> Millis {
        self.request.settings().timeouts.send
    }

    /// The fields of an answer after `rewrite_response`; `None`: they stay.
    fn rewritten<'f>(
        &self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Option<FieldLines> {
        let rules = self.upstream.rewrite.as_deref()?;
        let servers = self.upstream.servers.iter();
        let host = self.changes.edits.iter().filter(|edit| edit.is_of("host"));
        let host = host.filter_map(Edit::field).map(|(_, value)| value);
        let own = OwnAddress {
            is_https: self.upstream.tls.is_some(),
            authorities: servers.map(|one| one.name.as_bytes()).chain(host).collect(),
        };
        let seen = Seen {
            request: self.request,
            rewritten: self.changes.rewritten.as_deref(),
            response: None,
        };
        let render = |template: &Template| {
            let mut value = Vec::new();
            tutti_routing::render(template, &seen, &mut value).ok()?;
            Some(value)
        };
        Some(rewrite(rules, &own, fields, render))
    }

    fn stream(&self) -> Option<&Stream> {
        match &self.request.client.channel {
            Channel::Stream(stream) => Some(stream),
            _ => None,
        }
    }
}

impl<'r> Client for Requester<'_, 'r> {
    type Body = ClientBody<'r>;
    type Answer = Given;
    type Ending = ExchangeStep;

    fn remote(&self) -> Option<SocketAddr> {
        self.request.remote()
    }

    fn local(&self) -> Option<SocketAddr> {
        self.request.local()
    }

    fn is_https(&self) -> bool {
        self.request.is_https()
    }

    fn note_attempt(&mut self, server: &Arc<GroupServer>) {
        let is_first = std::mem::take(&mut self.is_first);
        self.request.exchange.attempts.begin(server, is_first);
    }

    fn note_connected(&mut self) {
        self.request.exchange.attempts.connected();
    }

    fn note_failed(&mut self, status: u16) {
        self.request.exchange.attempts.failed(status);
    }

    fn log(&self, level: Level, line: &str) {
        self.request.client.local.log(level, line);
    }

    fn log_limited(&self, line: &str) {
        let local = &self.request.client.local;
        local.log_failure_of(Level::Error, line, || refusals::id(self.request));
    }

    fn keep_at(&mut self, cookie: Option<String>) {
        self.request.exchange.cookie.replace(cookie);
    }

    fn interim<'f>(&mut self, status: u16, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        early_hints::pass_on(self.request, status, fields, self.output);
    }

    fn send_continue(&mut self, body: &mut ClientBody<'r>) {
        body.send_continue(self.output);
    }

    fn switch<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        let fields: FieldLines = fields.collect();
        let mut fields = self.rewritten(fields.iter()).unwrap_or(fields);
        self.request.identify(&mut fields);
        let status = 101;
        self.head = self
            .request
            .put(OutgoingHead { status, fields }, self.output);
    }

    fn begin<'f>(
        &mut self,
        head: &AnswerHead,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<Given, Gone> {
        self.request
            .note_phase(|phases| phases.answered = Some(Instant::now()));
        self.request.exchange.attempts.answered(head.status);
        let head = Head {
            status: head.status,
            length: head.length,
            own: Own {
                server: !head.has_server,
                date: !head.has_date,
            },
            may_persist: head.may_persist,
            may_have_trailers: head.may_have_trailers,
        };
        let (request, changes) = (self.request, self.changes);
        let begun = match self.rewritten(fields.clone()) {
            Some(fields) => {
                internal_redirect::begin(request, &head, fields.iter(), changes, self.output)
            }
            None => internal_redirect::begin(request, &head, fields, changes, self.output),
        };
        Ok(match begun {
            Begun::Sent(writer) => Given::Answer(writer),
            Begun::Held => Given::Answer(Writer::held(self.request, head.status)),
            Begun::Replaced(instead) => Given::Nothing(instead, 0),
        })
    }

    fn write<'b>(
        &mut self,
        answer: &mut Given,
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<usize, Gone> {
        let length = pieces.clone().map(<[u8]>::len).sum();
        let taken = match answer {
            Given::Answer(answer) => answer.write(self.request, pieces, self.output)?,
            Given::Nothing(_, discarded) => {
                *discarded += length;
                length
            }
        };
        self.request.exchange.attempts.received(taken);
        if let Given::Answer(answer) = answer
            && length > 0
            && taken == length
        {
            // It may be all for a long time.
            answer.flush_encoder(self.request, self.output)?;
        }
        Ok(taken)
    }

    fn wants_more(&self, answer: &Given) -> bool {
        !matches!(answer, Given::Nothing(_, discarded) if *discarded > DISCARDED_BYTES)
    }

    fn finish(&mut self, answer: &mut Given, trailers: Trailers) -> Result<(), Gone> {
        let Given::Answer(answer) = answer else {
            return Ok(());
        };
        answer.finish(self.request, trailers, self.output)
    }

    fn end(&mut self, answer: Given) -> ExchangeStep {
        self.request.exchange.attempts.ended();
        let answer = match answer {
            Given::Answer(answer) => answer,
            Given::Nothing(instead, _) => {
                return instead.into_step(self.request, false, self.output);
            }
        };
        answer.end(self.request, self.output).into()
    }

    fn break_off(&mut self, answer: &Given) {
        if let Given::Answer(answer) = answer {
            answer.log(self.request);
        }
    }

    fn abandon(&mut self, status: u16, reset: Option<u32>) {
        if let Some((stream, code)) = self.stream().zip(reset) {
            stream.abort_with(code.into());
        }
        self.request.finished(status, 0, &NO_FIELDS);
    }

    fn fail(&mut self, status: u16, fields: &FieldLines, is_body_coming: bool) -> ExchangeStep {
        // No server has answered.
        self.request.exchange.cookie.take();
        if let Some(recording) = &self.changes.cache
            && recording.holds_error(status, now_wall())
        {
            return ExchangeStep::End(self.request.persistence());
        }
        let failure = ErrorResponse {
            status,
            fields,
            is_body_coming,
        };
        let changes = Changes::default();
        match status >= 400 {
            true => internal_redirect::fail(self.request, &failure, &changes, self.output),
            // A failed gRPC call has the status 200.
            false => internal_redirect::page(self.request, &failure, &changes, self.output),
        }
    }

    fn refuse(&mut self, status: u16) -> ExchangeStep {
        // No server has answered.
        self.request.exchange.cookie.take();
        internal_redirect::refuse(self.request, status, self.output)
    }

    fn discard(&mut self) {
        self.output.discard();
    }

    fn unsent(&self) -> u64 {
        self.output.len()
    }

    fn allowance(&self, most: usize) -> usize {
        self.request.client.allowance(self.output, most)
    }

    fn deliver(&mut self, context: &mut Context<'_>) -> Result<Millis, Gone> {
        let client = self.request.client;
        while !client.channel.has_sent(self.output) {
            if client.poll_send(self.output, context)?.is_pending() {
                break;
            }
        }
        client.note_held(self.output);
        let deadline = client.owes_of(self.output, self.send_timeout());
        match self.request.poll_gone(context) {
            Poll::Ready(()) => Err(Gone::Closed),
            Poll::Pending => Ok(deadline),
        }
    }

    fn wake_at(&self, time: Millis) {
        self.request.client.set_deadline(time);
    }

    fn try_send(&mut self) -> Result<bool, Gone> {
        self.request.client.channel.try_send(self.output)
    }

    fn poll_room(
        &mut self,
        context: &mut Context<'_>,
        backlog: BufferLimits,
        wake: Millis,
    ) -> Poll<Result<(), Gone>> {
        let client = self.request.client;
        let store = self.request.settings().store.as_ref();
        let store = store.filter(|_| backlog.may_spill);
        let limits = (backlog.memory, store);
        let polled = client.poll_room(self.output, limits, context);
        if polled.is_pending() {
            let deadline = client.owes(self.send_timeout());
            if deadline <= now_millis() {
                return Poll::Ready(Err(Gone::TimedOut));
            }
            client.set_deadline(deadline.min(wake));
        }
        polled
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        self.request.flush(self.output).await
    }
}

impl RequestBody for ClientBody<'_> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, BodyStreamError>> {
        self.poll_ready(context)
    }

    fn piece(&self) -> &[u8] {
        self.piece()
    }

    fn consume(&mut self, count: usize) {
        self.consume(count);
    }

    fn trailers(&self) -> Trailers {
        self.trailers()
    }

    fn deadline(&self) -> Millis {
        self.deadline()
    }

    fn start_clock(&mut self) {
        self.start_clock();
    }

    fn stop_clock(&mut self) {
        self.stop_clock();
    }

    fn awaits_continue(&self) -> bool {
        self.awaits_continue()
    }
}
