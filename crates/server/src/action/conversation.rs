//! A request that an application has taken, and its body where that still comes.
//!
//! Whoever waits for the application waits here, because meanwhile the body must go on: what the client sends is handed to the
//! application as far as that has room for it, and the client is read no faster than that. The response comes when it comes, also before
//! the body has ended.
//!
//! An application that streams often begins its answer before it reads: a client that waits for 100 (Continue) gets it before the head of
//! a success that is not complete, or neither side would ever go on.
//!
//! Must never: keep the client waiting for 100 (Continue) while the application waits for the body, send it once the response has begun,
//! or count the time in which the application does not take the body against the client.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tutti_pool::{ApplicationExchange, ExchangeError, WireResponseHead};

use crate::action::abandon::Abandonment;
use crate::early_hints;
use crate::exchange::body::ClientBody;
use crate::exchange::client::ClientSide;
use crate::exchange::request::Request;
use tutti_conn::buffer_space::BufferSpace;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_conn::response_buffers::OverflowFile;
use tutti_proxy::BodyStreamError;

/// Bytes of one response that are kept in memory for a client that does not take them.
const ABSORBED_BYTES: usize = 512 * 1024;

/// Looks at the client in a row, before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// The exchange, with what feeds it.
pub(crate) struct Conversation<'a> {
    pub(crate) exchange: ApplicationExchange,
    client: &'a ClientSide,
    /// Decides whether the request goes on without its client.
    abandonment: &'a Abandonment<'a>,
    /// Where what does not fit in memory waits for a slow client.
    store: Option<&'a OverflowFile>,
    /// `None`: there is no body, or the application has all of it.
    body: Option<Box<ClientBody<'a>>>,
}

impl<'a> Conversation<'a> {
    /// `body` is what is to be handed over while it comes, if anything.
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
            store: request.snapshot.store.as_ref(),
            body,
        }
    }

    /// True if the connection can go on after the response, as far as the body is concerned: a client that still waits for 100
    /// (Continue) when the response begins may or may not send its body (RFC 9110 §10.1.1).
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

    /// Waits for the head of the response; `output` is empty, and may then have what the client was told of its body, or before the response.
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
            let channel = &self.client.channel;
            while deadline != NEVER && channel.poll_send(output, cx)?.is_ready() {
                if channel.has_sent(output) {
                    deadline = NEVER;
                }
            }
            self.pause(deadline, cx)
        })
        .await
    }

    /// Waits until the application has more of the response, or ends it, or the client has taken some of `output`, if there is
    /// anything in it; the client has `send_timeout` for that.
    pub(crate) async fn more(
        &mut self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<Result<(), ExchangeError>, BodyStreamError> {
        if let Some(body) = &mut self.body {
            body.start_clock();
        }
        let client = self.client;
        let is_sending = !client.channel.has_sent(output);
        poll_fn(|cx| {
            self.poll_body(cx)?;
            match client.room(output, ABSORBED_BYTES, self.store) {
                BufferSpace::Some => {
                    if let Poll::Ready(more) = self.exchange.poll_more(cx) {
                        return Poll::Ready(Ok(more));
                    }
                }
                BufferSpace::Made => cx.waker().wake_by_ref(),
                BufferSpace::None => {}
            }
            if is_sending && client.poll_send(output, cx)?.is_ready() {
                return Poll::Ready(Ok(Ok(())));
            }
            self.pause(client.owes_of(output, send_timeout), cx)
        })
        .await
    }

    /// Nothing to do now: is the client still there? It is not asked while it has something to take.
    fn pause<T>(&self, deadline: Millis, cx: &mut Context<'_>) -> Poll<Result<T, BodyStreamError>> {
        let has_begun = || self.exchange.waited().is_some();
        let is_complete = self.body.is_none();
        if deadline == NEVER
            && self
                .abandonment
                .poll_taken(is_complete, has_begun, cx)
                .is_ready()
        {
            return Poll::Ready(Err(Gone::Closed.into()));
        }
        if deadline <= now_millis() {
            return Poll::Ready(Err(Gone::TimedOut.into()));
        }
        let body = self.body.as_ref().map_or(NEVER, |body| body.deadline());
        self.client.set_deadline(deadline.min(body));
        Poll::Pending
    }

    /// Hands over what there is of the body and finds room.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Result<(), BodyStreamError> {
        let Some(body) = &mut self.body else {
            return Ok(());
        };
        // Before the look, or room that comes meanwhile would be missed. That the exchange has ended, its response tells.
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

    /// The response is complete, in `output` or sent: reads what is left of the body, if that is little; whether the connection can go on.
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
