//! The state of one exchange: a request, from its head to its last line in a log, and the decisions about it.
//!
//! Made anew for each request: by HTTP/1 for each head in a connection's bytes, by each HTTP/2 or HTTP/3 stream, and by the server for a
//! request that it makes itself. The bytes of its head, and of its response, are in its [`Messages`](crate::exchange::messages::Messages);
//! its channel is in its [`ClientSide`](crate::exchange::client::Client).
//!
//! Must never: outlive its request, or be used for another one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use tutti_conn::clock::Millis;
use tutti_conn::departure::{Presence, Waited};
use tutti_conn::output::{Gone, Output};
use tutti_conn::pace::Bandwidth;
use tutti_guard::Admission;
use tutti_http::OwnedPath;
use tutti_metrics::Measured;
use tutti_pool::Whereabouts;
use tutti_request_log::{Answerer, Phases, ResponseCounts};
use tutti_routing::{ConnectionNumbers, RuleSet, ScopeNumber};

use crate::exchange::attempts::Attempts;
use crate::exchange::client::ClientSide;
use crate::exchange::received::ReceivedBody;
use crate::exchange::trace::Traced;
use crate::fields::forwarded::Origin;
use crate::local::Local;
use crate::substitute::Substitute;

/// The facts about one request, and the decisions about it.
pub(crate) struct Exchange {
    /// When its first byte was received.
    pub(crate) begun: Instant,
    /// When its head was complete.
    pub(crate) arrived: Instant,
    /// When its body was complete, if that was collected before the action.
    pub(crate) collected: Cell<Option<Instant>>,
    /// Its number on this thread.
    serial: u64,
    /// Its connection, and its number there.
    pub(crate) connection: ConnectionNumbers,
    /// The servers of upstreams that it was sent to.
    pub(crate) attempts: Attempts,
    /// Names what the cache did (`$cache_status`).
    pub(crate) cache_status: Cell<&'static str>,
    /// The client that the request's fields name.
    pub(crate) origin: Cell<Origin>,
    /// Its answerer.
    pub(crate) answerer: Cell<Answerer>,
    /// The last route that was searched.
    pub(crate) route: Cell<Option<usize>>,
    /// The path after a `rewrite`.
    pub(crate) rewritten: RefCell<Option<Rc<OwnedPath>>>,
    /// The decisions of guards.
    pub(crate) admission: Admission,
    /// Its settings: those of its listener, or of its action once it is routed.
    pub(crate) settings: Cell<ScopeNumber>,
    /// `Set-Cookie` that keeps the client at a server of an upstream.
    pub(crate) cookie: RefCell<Option<String>>,
    /// The rules for its response.
    pub(crate) rules: RefCell<RuleSet>,
    /// The bandwidths that its response shares with others.
    pub(crate) bandwidths: RefCell<Vec<Arc<Bandwidth>>>,
    /// Its trace, if requests are traced.
    pub(crate) traced: Traced,
    /// The times of its phases, if there is a slow log.
    pub(crate) phases: Cell<Phases>,
    /// Asks the application for its position in the code, if there is a slow log.
    pub(crate) whereabouts: Cell<Option<Box<Whereabouts>>>,
    /// The received part of its body.
    pub(crate) received: ReceivedBody,
    /// The request that is answered in its place.
    pub(crate) substitute: Option<Box<Substitute>>,
    /// The access log and the metrics have it.
    is_logged: Cell<bool>,
    /// Part of its body has not arrived.
    is_body_coming: Cell<bool>,
    has_response_begun: Cell<bool>,
    has_waited_within_response: Cell<bool>,
}

impl Exchange {
    /// The exchange of a request, whose first byte was received at `begun`, or just now; `settings` are those of its listener.
    pub(crate) fn new(client: &ClientSide, settings: ScopeNumber, begun: Option<Instant>) -> Self {
        client.local.counters().requests.add(1);
        let arrived = Instant::now();
        let connection = client.count_request();
        let own = Self::at(&client.local, connection, begun.unwrap_or(arrived), arrived);
        own.settings.set(settings);
        own
    }

    fn at(local: &Local, connection: ConnectionNumbers, begun: Instant, arrived: Instant) -> Self {
        Self {
            begun,
            arrived,
            collected: Cell::default(),
            serial: local.next_serial(),
            connection,
            attempts: Attempts::default(),
            cache_status: Cell::default(),
            origin: Cell::default(),
            answerer: Cell::default(),
            route: Cell::default(),
            rewritten: RefCell::default(),
            admission: Admission::default(),
            settings: Cell::default(),
            cookie: RefCell::default(),
            rules: RefCell::default(),
            bandwidths: RefCell::default(),
            traced: Traced::default(),
            phases: Cell::default(),
            whereabouts: Cell::default(),
            received: ReceivedBody::default(),
            substitute: None,
            is_logged: Cell::new(false),
            is_body_coming: Cell::new(false),
            has_response_begun: Cell::new(false),
            has_waited_within_response: Cell::new(false),
        }
    }

    /// The exchange of an equal request that the server makes itself; it is neither counted nor logged.
    pub(crate) fn for_refresh(&self, local: &Local, is_https: bool) -> Self {
        let now = Instant::now();
        let own = Self {
            admission: self.admission.of_same_client(),
            ..Self::at(local, self.connection, now, now)
        };
        own.is_logged.set(true);
        own.settings.set(self.settings.get());
        own.answerer.set(self.answerer.get());
        own.origin.set(Origin {
            is_https: Some(is_https),
            ..self.origin.get()
        });
        own
    }

    /// Called before it is logged; false if that has been done.
    pub(crate) fn note_logged(&self) -> bool {
        !self.is_logged.replace(true)
    }

    /// True if the access log and the metrics have it.
    pub(crate) fn is_logged(&self) -> bool {
        self.is_logged.get()
    }

    /// Counts it as answered with this status after `took`.
    pub(crate) fn count(
        &self,
        client: &ClientSide,
        counts: &ResponseCounts,
        status: u16,
        took: Duration,
    ) {
        let (thread, took) = (client.local.thread, Measured::from(took));
        if let Some(classes) = client.listener.counters.requests.of(thread) {
            classes.add(status);
        }
        counts.note(thread, self.answerer.get(), status, took);
        if let Some(route) = self.route.get() {
            counts.note_route(thread, route, status, took);
        }
    }

    /// Called when the response begins.
    pub(crate) fn note_response_begun(&self) {
        self.has_response_begun.set(true);
    }

    /// Called before the beginning of a response whose end is not known is sent, and when a task waits within any response: a client that
    /// has ended its sending side before has not left because of the response.
    pub(crate) fn note_earlier_end(&self, client: &ClientSide) {
        if !self.has_waited_within_response.replace(true) {
            client.note_earlier_end(self.arrived);
        }
    }

    /// The state of the client while it waits for a response; wakes the task when it changes.
    pub(crate) fn presence(&self, client: &ClientSide, cx: &mut Context<'_>) -> Presence {
        let arrived = self.arrived;
        let has_response_begun = self.has_response_begun.get();
        if has_response_begun {
            self.note_earlier_end(client);
        }
        let waited = Waited {
            arrived,
            has_response_begun,
        };
        client.presence(waited, cx)
    }

    /// True if the client may still be sending its request's body, which is not read.
    pub(crate) fn lingers(&self) -> bool {
        let substitute = self.substitute.as_ref();
        substitute.is_some_and(|substitute| substitute.lingers)
    }

    /// Notes whether part of the request's body has not arrived.
    pub(crate) fn set_body_coming(&self, is_coming: bool) {
        self.is_body_coming.set(is_coming);
    }

    /// True if part of the request's body has not come.
    pub(crate) fn is_body_coming(&self) -> bool {
        self.is_body_coming.get()
    }

    /// Sends all of `output`. A logged exchange is not in progress any more.
    pub(crate) async fn flush(
        &self,
        client: &ClientSide,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        client.flush(output, send_timeout).await?;
        if self.is_logged.get() {
            self.admission.end();
        }
        Ok(())
    }

    /// Its number; each thread counts its own, distinguished by the remainder.
    pub(crate) fn number(&self, local: &Local) -> u64 {
        let threads = local.shared.counters.len() as u64;
        self.serial * threads + u64::from(local.thread)
    }

    /// A unique number that cannot be guessed, the same at every call.
    pub(crate) fn request_id(&self, local: &Local) -> u128 {
        u128::from(local.hash(self.serial, 0)) << 64 | u128::from(local.hash(self.serial, 1))
    }

    /// The same, for its span.
    pub(crate) fn span_id(&self, local: &Local) -> u64 {
        local.hash(self.serial, 2)
    }
}
