//! A request that an application has accepted, with its body if that is streamed.
//!
//! All waiting for the application is done here, because meanwhile the body must continue: what the client sends is passed to the
//! application as far as that has room, and the client is read no faster than that. The response may come at any time, even before the body
//! has ended.
//!
//! A streaming application often begins its response before it reads: a client that waits for 100 (Continue) gets it before the head of an
//! incomplete success, otherwise neither side would continue.
//!
//! Must never: keep the client waiting for 100 (Continue) while the application waits for the body, send it once the response has begun, or
//! count the time in which the application does not read against the client.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_conn::response_buffers::OverflowFile;
use tutti_pool::{ApplicationExchange, ExchangeError, WireResponseHead};
use tutti_proxy::BodyStreamError;

use crate::action::abandon::Abandonment;
use crate::early_hints;
use crate::exchange::body::ClientBody;
use crate::exchange::client::ClientSide;
use crate::exchange::request::Request;

/// Bytes of one response kept in memory for a slow client.
const ABSORBED_BYTES: usize = 512 * 1024;

/// Rounds in a row before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// The exchange with its streamed body.
pub(crate) struct Conversation<'a> {
    pub(crate) exchange: ApplicationExchange,
    client: &'a ClientSide,
    /// Decides whether the request continues without its client.
    abandonment: &'a Abandonment<'a>,
    /// Where bytes for a slow client wait that do not fit in memory.
    store: Option<&'a OverflowFile>,
    /// `None`: there is no body, or the application has all of it.
    body: Option<Box<ClientBody<'a>>>,
}

impl<'a> Conversation<'a> {
    /// `body` is streamed, if there is any.
    pub(crate) fn new(
        request: &Request<'a>,
        exchange: ApplicationExchange,
        body: Option<Box<ClientBody<'a>>>,
        abandonment: &'a Abandonment<'a>,
    ) -> Self {
        Self {
            exchange,
            client: request.client,
            abandonment,
            store: request.settings().store.as_ref(),
            body,
        }
    }

    /// The exchange alone, for a connection that switches protocols.
    pub(crate) fn into_exchange(self) -> ApplicationExchange {
        self.exchange
    }

    /// True if, with respect to the body, the connection can be reused after the response: a client that still waits for 100 (Continue)
    /// when the response begins may or may not send its body (RFC 9110 §10.1.1).
    pub(crate) fn may_persist(&self) -> bool {
        !self
            .body
            .as_ref()
            .is_some_and(|body| body.awaits_continue())
    }

    /// True if part of the body has not been read from the client.
    pub(crate) fn is_body_coming(&self) -> bool {
        self.body.is_some()
    }

    /// Waits for the head of the response; `output` is empty, and may then contain 100 (Continue) or interim responses.
    pub(crate) async fn head(
        &mut self,
        request: &Request<'_>,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<Result<WireResponseHead, ExchangeError>, BodyStreamError> {
        let mut deadline = NEVER;
        poll_fn(|cx| {
            self.poll_body(cx)?;
            if let Some(body) = &mut self.body
                && body.awaits_continue()
                && self.exchange.wants_body()
            {
                body.send_continue(output);
                deadline = now_millis().saturating_add(send_timeout);
            }
            while let Poll::Ready(head) = self.exchange.poll_head(cx) {
                if let Ok(head) = &head
                    && head.is_interim()
                {
                    early_hints::pass_on(request, head.status, head.fields(), output);
                    deadline = now_millis().saturating_add(send_timeout);
                    continue;
                }
                if let (Ok(head), Some(body)) = (&head, &mut self.body)
                    && body.awaits_continue()
                    && (200..300).contains(&head.status)
                    && self.exchange.ready().is_ok_and(|ready| !ready.finished)
                {
                    body.send_continue(output);
                }
                return Poll::Ready(Ok(head));
            }
            let client = self.client;
            while deadline != NEVER && client.poll_send(output, cx)?.is_ready() {
                if client.channel.has_sent(output) {
                    deadline = NEVER;
                }
            }
            self.pause(deadline, cx)
        })
        .await
    }

    /// Waits until the application has more of the response, or ends it, and `output` has room for more. Meanwhile the client takes what is
    /// there, and has `send_timeout` for that.
    pub(crate) async fn more(
        &mut self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<Result<(), ExchangeError>, BodyStreamError> {
        if let Some(body) = &mut self.body {
            body.start_clock();
        }
        let client = self.client;
        poll_fn(|cx| {
            if self.poll_room(output, send_timeout, cx)?.is_pending() {
                return Poll::Pending;
            }
            if let Poll::Ready(more) = self.exchange.poll_more(cx) {
                return Poll::Ready(Ok(more));
            }
            while !client.channel.has_sent(output) && client.poll_send(output, cx)?.is_ready() {}
            self.pause(client.owes_of(output, send_timeout), cx)
        })
        .await
    }

    /// Waits until there is room for more of the response in `output`, for which the client has `send_timeout`.
    pub(crate) async fn room(
        &mut self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<(), BodyStreamError> {
        poll_fn(|cx| self.poll_room(output, send_timeout, cx)).await
    }

    fn poll_room(
        &mut self,
        output: &mut Output,
        send_timeout: Millis,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BodyStreamError>> {
        self.poll_body(cx)?;
        let client = self.client;
        let limits = (ABSORBED_BYTES, self.store);
        match client.poll_room(output, limits, cx)? {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.pause(client.owes_of(output, send_timeout), cx),
        }
    }

    /// Called when nothing can be done: checks whether the client is connected, unless bytes wait for it.
    fn pause<T>(&self, deadline: Millis, cx: &mut Context<'_>) -> Poll<Result<T, BodyStreamError>> {
        let has_begun = || self.exchange.waited().is_some();
        let is_complete = self.body.is_none();
        if deadline == NEVER {
            let abandonment = self.abandonment;
            if abandonment
                .poll_taken(is_complete, has_begun, cx)
                .is_ready()
            {
                return Poll::Ready(Err(Gone::Closed.into()));
            }
        } else if deadline <= now_millis() {
            return Poll::Ready(Err(Gone::TimedOut.into()));
        }
        let body = self.body.as_ref().map_or(NEVER, |body| body.deadline());
        self.client.set_deadline(deadline.min(body));
        Poll::Pending
    }

    /// Passes on what there is of the body, and makes room.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<(), BodyStreamError> {
        let Some(body) = &mut self.body else {
            return Ok(());
        };
        // Before the check, so that room that becomes free meanwhile is not missed. The end of the exchange is reported by its response.
        let _ = self.exchange.watch(cx);
        for _ in 0..TURNS {
            match body.poll_ready(cx)? {
                Poll::Pending => return Ok(()),
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    self.exchange.finish_body();
                    self.body = None;
                    return Ok(());
                }
            }
            let piece = body.piece().len();
            let taken = self.exchange.write_body(body.piece());
            body.consume(taken);
            if taken < piece {
                return Ok(());
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Called when the response is complete, in `output` or sent: reads the rest of the body, if that is little; returns whether the
    /// connection can be reused.
    pub(crate) async fn drain(
        self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<bool, Gone> {
        let Some(body) = self.body else {
            return Ok(true);
        };
        // The application's slot is free from here on.
        drop(self.exchange);
        body.drain(output, send_timeout).await
    }
}
