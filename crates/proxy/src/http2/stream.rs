//! One request to an HTTP/2 server, and its answer to the client: a stream.
//!
//! Both directions are active at once, for as long as either side has something to send.
//!
//! Must never: let an incomplete answer look complete, or report a request as not begun when the server may have begun it.

use std::future::Future as _;
use std::iter::once;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, DATE, SERVER};
use http::uri::Scheme;
use smallvec::SmallVec;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::output::Gone;
use tutti_http::{Known, PerConnection, RequestFraming, Trailers};
use tutti_upstream::{GroupServer, UpstreamError};

use super::head::RequestHead;
use super::upload::{Upload, is_empty, is_whole};
use crate::attempt::{AttemptError, Done, Forwarding, ServerFault, Times, framing};
use crate::client::{AnswerHead, BodyStreamError, Client};
use crate::head::{self, HeadOptions};
use crate::outgoing::Source;
use crate::request::ProxyRequest;
use crate::sessions::Lease;
use crate::wait::{self, Deadline, has_enough};

/// Why an exchange failed.
enum ExchangeError {
    /// The server failed. It may have begun the request.
    Server(UpstreamError),
    /// The server refused the request without having begun it.
    Refused(String),
    Client(Gone),
    /// The request's body is refused with this status.
    Body(u16),
}

impl From<Gone> for ExchangeError {
    fn from(gone: Gone) -> Self {
        Self::Client(gone)
    }
}

impl From<BodyStreamError> for ExchangeError {
    fn from(fault: BodyStreamError) -> Self {
        match fault {
            BodyStreamError::Refused(status) => Self::Body(status),
            BodyStreamError::Gone(gone) => Self::Client(gone),
        }
    }
}

/// A request that has been sent, and its answer.
struct Exchange<'e, C: Client> {
    request: &'e ProxyRequest<'e>,
    client: &'e mut C,
    lease: &'e Lease,
    times: &'e Times,
    body: Source<'e, C::Body>,
    upload: Upload<'e>,
    deadline: Deadline,
    /// Received bytes of the answer's body.
    count: u64,
    /// Part of the answer has been passed to the client.
    has_begun: bool,
    /// Another server is there for an answer of `retry_statuses`.
    may_pass_over: bool,
}

/// Sends the request to this server on this connection, and passes the answer to the client.
pub(crate) async fn attempt<C: Client>(
    forwarding: &mut Forwarding<'_, C>,
    server: &GroupServer,
    lease: &Lease,
) -> Result<Done<C::Ending>, AttemptError> {
    let Forwarding {
        request,
        client,
        upload,
        times,
        may_pass_over,
        ..
    } = forwarding;
    let terms = HeadOptions {
        // The end of the stream ends the body.
        framing: match framing(request, upload.is_some()) {
            RequestFraming::Chunked => RequestFraming::None,
            framing => framing,
        },
        upgrade: None,
        expects_continue: false,
    };
    let mut head = RequestHead::default();
    head::write(&mut head, request, &**client, server, &terms);
    let scheme = if request.upstream().tls().is_some() {
        Scheme::HTTPS
    } else {
        Scheme::HTTP
    };
    let head = head.into_request(scheme)?;
    let body = match upload {
        Some(upload) => Source::Client(upload),
        None => Source::Kept(request.body),
    };
    let is_empty = is_empty(&body);
    let begun = lease.client().send_request(head, is_empty);
    let Ok((response, stream)) = begun else {
        let failure = UpstreamError::Refused("it has closed the connection".to_owned());
        return Err(ServerFault::unsent(failure).into());
    };
    let mut exchange = Exchange {
        request,
        client: &mut **client,
        lease,
        times,
        upload: Upload::new(request, stream, is_empty),
        body,
        deadline: Deadline::new(times.until),
        count: 0,
        has_begun: false,
        may_pass_over: *may_pass_over,
    };
    let outcome = exchange.run(server, response).await;
    if !exchange.upload.is_done() || outcome.is_err() {
        exchange.upload.cancel();
    }
    let (has_begun, is_whole) = (exchange.has_begun, is_whole(&exchange.body));
    if outcome.is_err() && !has_begun {
        exchange.client.discard();
    }
    match outcome {
        Ok(ending) => {
            lease.answered();
            Ok(Done::Answered(ending, None))
        }
        Err(ExchangeError::Server(failure)) => Err(AttemptError::Server(ServerFault {
            failure,
            was_sent: true,
            has_begun,
        })),
        Err(ExchangeError::Refused(text)) => Err(AttemptError::Server(ServerFault {
            failure: UpstreamError::Refused(text),
            was_sent: !is_whole,
            has_begun,
        })),
        Err(ExchangeError::Client(gone)) => Err(gone.into()),
        Err(ExchangeError::Body(_)) if has_begun => Err(Gone::Closed.into()),
        Err(ExchangeError::Body(status)) => Err(AttemptError::Body(status)),
    }
}

impl<C: Client> Exchange<'_, C> {
    async fn run(
        &mut self,
        server: &GroupServer,
        mut response: ResponseFuture,
    ) -> Result<C::Ending, ExchangeError> {
        self.deadline.set(self.times.read);
        if let Source::Client(upload) = &mut self.body {
            // A stream of messages may pause; the server's timeout limits this, too.
            upload.stop_clock();
            if upload.awaits_continue() {
                upload.send_continue(self.client).await?;
            }
        }
        let answer = self
            .wait(|context| Pin::new(&mut response).poll(context))
            .await?;
        let (parts, mut body) = answer.map_err(|error| self.fault(&error))?.into_parts();
        self.pass_over(parts.status.as_u16())?;
        server.answered(now_millis());
        let length = content_length(&parts.headers)?;
        let is_over = body.is_end_stream();
        let head = AnswerHead {
            status: parts.status.as_u16(),
            length: length.or((is_over && !self.request.is_head()).then_some(0)),
            has_server: parts.headers.contains_key(SERVER),
            has_date: parts.headers.contains_key(DATE),
            may_persist: true,
            may_have_trailers: !is_over,
        };
        let connection = PerConnection::default();
        let fields = parts.headers.iter().map(|(name, value)| {
            let name = name.as_str().as_bytes();
            (name, value.as_bytes())
        });
        let fields: SmallVec<[(&[u8], &[u8]); 16]> = fields
            .filter(|(name, _)| !connection.has(name, Known::from_name(name)))
            .collect();
        let fields = fields.iter().copied();
        let mut answer = self.client.begin(&head, fields)?;
        let outcome = self.pass_body_on(&mut body, &mut answer).await;
        match outcome {
            Ok(()) => Ok(self.client.end(answer)),
            Err(fault) => {
                if self.has_begun {
                    self.client.break_off(&answer);
                }
                Err(fault)
            }
        }
    }

    /// Fails with the status of the answer if another server is tried for it.
    fn pass_over(&self, status: u16) -> Result<(), ExchangeError> {
        let statuses = &self.request.upstream().options().retry_statuses;
        let was_taken = matches!(&self.body, Source::Client(upload) if upload.was_taken());
        if self.may_pass_over && !self.has_begun && !was_taken && statuses.contains(&status) {
            return Err(ExchangeError::Server(UpstreamError::Status(status)));
        }
        Ok(())
    }

    async fn pass_body_on(
        &mut self,
        body: &mut RecvStream,
        answer: &mut C::Answer,
    ) -> Result<(), ExchangeError> {
        while let Some(data) = self.wait(|context| body.poll_data(context)).await? {
            let data: Bytes = data.map_err(|error| self.fault(&error))?;
            self.count += data.len() as u64;
            let (upload, body_sent) = (&mut self.upload, &mut self.body);
            let feed = |context: &mut Context<'_>| upload.poll(context, body_sent, || {});
            let client = (self.request, &mut *self.client, &mut *answer);
            self.has_begun |= wait::write(client, once(&*data), &self.deadline, feed).await?;
            // Fails only for more bytes than were received.
            let _ = body.flow_control().release_capacity(data.len());
            if !self.client.wants_more(answer) {
                return Ok(());
            }
            if has_enough(self.request, self.client) {
                // The client may take more while more arrives, within a limit.
                let (upload, body) = (&mut self.upload, &mut self.body);
                let feed = |context: &mut Context<'_>| upload.poll(context, body, || {});
                wait::client(self.request, self.client, &self.deadline, feed).await?;
                self.has_begun = true;
            }
        }
        let trailers = self.wait(|context| body.poll_trailers(context)).await?;
        let trailers = trailers.map_err(|error| self.fault(&error))?;
        let trailers = trailers.map_or_else(Trailers::default, |fields| Trailers::of_map(&fields));
        // `h2` has checked the declared length.
        Ok(self.client.finish(answer, trailers)?)
    }

    /// Waits for the answer while the request's body is sent.
    async fn wait<T>(
        &mut self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, ExchangeError> {
        let (upload, body) = (&mut self.upload, &mut self.body);
        let (deadline, times) = (&self.deadline, self.times);
        let before = self.client.unsent();
        let outcome = wait::server(self.client, deadline, |context| {
            let mut has_progress = false;
            if let Err(fault) = upload.poll(context, body, || has_progress = true) {
                return Poll::Ready(Err(fault));
            }
            if has_progress {
                deadline.set(limit(upload, times));
            }
            if let Poll::Ready(value) = poll(context) {
                return Poll::Ready(Ok(value));
            }
            Poll::Pending
        })
        .await?;
        self.has_begun |= self.client.unsent() < before;
        match outcome {
            Ok(value) => {
                self.deadline.set(times.read);
                Ok(value?)
            }
            Err(wait::TimedOut) => {
                let limit = limit(&self.upload, times);
                self.lease
                    .timed_out(self.deadline.due().saturating_sub(limit));
                let received = (!self.upload.awaits_server()).then_some(self.count);
                let options = self.request.upstream().options();
                Err(ExchangeError::Server(times.failure(options, received)))
            }
        }
    }

    /// Classifies an error of the stream or its connection.
    fn fault(&mut self, error: &h2::Error) -> ExchangeError {
        if let Some(error) = self.upload.take_error() {
            return ExchangeError::Server(UpstreamError::Send(error));
        }
        let reason = error.reason();
        if error.is_remote() && error.is_go_away() {
            // Only requests after the last one that the server accepts end with this (RFC 9113 §6.8).
            let text = format!(
                "it closes the connection before it began the request ({})",
                name(reason)
            );
            return ExchangeError::Refused(text);
        }
        if error.is_remote() && reason == Some(Reason::REFUSED_STREAM) {
            let text = "it refused the request (REFUSED_STREAM)".to_owned();
            return ExchangeError::Refused(text);
        }
        if error.is_remote() && error.is_reset() {
            return ExchangeError::Server(UpstreamError::Reset {
                reason: name(reason),
                code: reason.unwrap_or(Reason::INTERNAL_ERROR).into(),
            });
        }
        let failure = match error.get_io() {
            Some(_) if self.count == 0 && !self.has_begun => UpstreamError::Closed,
            Some(_) => UpstreamError::CutShort {
                received: self.count,
            },
            None => UpstreamError::Malformed(error.to_string()),
        };
        ExchangeError::Server(failure)
    }
}

/// Returns the longest time that the server may make no progress.
fn limit(upload: &Upload<'_>, times: &Times) -> Millis {
    match upload.awaits_server() {
        true => times.send,
        false => times.read,
    }
}

/// The name of a reason (RFC 9113 §7).
fn name(reason: Option<Reason>) -> String {
    reason.map_or_else(|| "no reason".to_owned(), |reason| format!("{reason:?}"))
}

/// The declared length of an answer.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, ExchangeError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let digits = value.as_bytes();
    let length = value.to_str().ok().and_then(|text| text.parse().ok());
    let is_certain = values.all(|other| other == value) && digits.iter().all(u8::is_ascii_digit);
    match length {
        Some(length) if is_certain => Ok(Some(length)),
        _ => {
            let message = "its Content-Length is invalid".to_owned();
            Err(ExchangeError::Server(UpstreamError::Malformed(message)))
        }
    }
}
