//! Requests whose client disconnects before an application has begun them.
//!
//! Such a request has been received completely: a job that a client submits without waiting for the result, as WordPress does for its cron,
//! must not be lost because all processes are busy. A safe method (RFC 9110 §9.2.1) only asks for the response, which has no recipient any
//! more.

use std::cell::Cell;
use std::task::{Context, Poll};

use tutti_conn::departure::Presence;
use tutti_http::is_safe;
use tutti_pool::{Abandoned, ApplicationPool};

use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::request::Request;

/// Decides whether a request is still worth its work.
pub(crate) struct Abandonment<'a> {
    client: &'a ClientSide,
    exchange: &'a Exchange,
    application: &'a ApplicationPool,
    is_safe: bool,
    /// The client has requested another protocol, which it cannot use once it has closed its sending side.
    is_upgrade: bool,
    /// The client disconnected while the request waited, and the request is run anyway.
    is_run: Cell<bool>,
}

impl<'a> Abandonment<'a> {
    pub(crate) fn new(
        request: &Request<'a>,
        application: &'a ApplicationPool,
        is_upgrade: bool,
    ) -> Self {
        Self {
            client: request.client,
            exchange: request.exchange,
            application,
            is_safe: is_safe(request.view.method_text()),
            is_upgrade,
            is_run: Cell::new(false),
        }
    }

    fn presence(&self, cx: &mut Context<'_>) -> Presence {
        match self.exchange.presence(self.client, cx) {
            Presence::SendsNoMore { .. } if self.is_upgrade => Presence::Gone,
            presence => presence,
        }
    }

    /// Ready when a request that waits for the application is abandoned. `is_complete`: its body has been received.
    pub(crate) fn poll_waiting(&self, is_complete: bool, cx: &mut Context<'_>) -> Poll<()> {
        let presence = self.presence(cx);
        let by_policy = |by_method| match self.application.abandoned() {
            Some(Abandoned::Run) => false,
            Some(Abandoned::Drop) => true,
            None => by_method,
        };
        let is_dropped = match presence {
            _ if self.is_run.get() => false,
            Presence::Here => false,
            Presence::Gone if !is_complete => true,
            Presence::SendsNoMore { .. } if !is_complete => false,
            Presence::Gone => by_policy(self.is_safe),
            Presence::SendsNoMore { is_late } => by_policy(self.is_safe && is_late),
        };
        if is_dropped {
            return Poll::Ready(());
        }
        if presence == Presence::Gone {
            self.is_run.set(true);
        }
        Poll::Pending
    }

    /// Ready when a request that the application has accepted is abandoned; `has_begun`: a process is working on it.
    pub(crate) fn poll_taken(
        &self,
        is_complete: bool,
        has_begun: impl Fn() -> bool,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_run.get() {
            return Poll::Pending;
        }
        match self.presence(cx) {
            Presence::Here => Poll::Pending,
            Presence::Gone if has_begun() => Poll::Ready(()),
            Presence::SendsNoMore { .. } if has_begun() => Poll::Pending,
            _ => self.poll_waiting(is_complete, cx),
        }
    }

    /// True if the request is run for a client that has disconnected, so that its response has no recipient.
    pub(crate) fn is_run(&self) -> bool {
        self.is_run.get()
    }
}
