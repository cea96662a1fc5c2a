//! HTTP/1.1 with a server: sends the request, and passes its answer to the client, both at once ([`Link`]).
//!
//! Must never: pass on an answer whose end is uncertain, treat bytes after one answer as the next, or reuse a connection in an unknown
//! state.

use std::ops::Range;
use std::task::Context;

use smallvec::SmallVec;
use tutti_conn::clock::now_millis;
use tutti_conn::output::Gone;
use tutti_http::{
    BodyDecoder, HeadError, Known, MessageLimits, PerConnection, Progress, ResponseHead,
    ResponseView, Trailers, Version,
};
use tutti_upstream::{GroupServer, UpstreamConnection, UpstreamError};

use crate::attempt::{
    AttemptError, Done, Forwarding, ServerFault, StepError, framing, has_asked_for, upgrade,
};
use crate::cgi::{self, Incoming};
use crate::client::{AnswerHead, Client};
use crate::head::{self, HeadOptions};
use crate::link::{CONTINUE_AFTER, Event, Link};
use crate::outgoing::{Outgoing, Source, Upload};
use crate::request::ProxyRequest;
use crate::wait::{self, Deadline, has_enough};

/// Room for one read of a body.
const READ_BYTES: usize = 64 * 1024;

/// A request and its answer on one connection.
pub(crate) struct Exchange<'t, C: Client> {
    pub(crate) request: &'t ProxyRequest<'t>,
    pub(crate) client: &'t mut C,
    pub(crate) link: Link<'t, C::Body>,
    /// Received bytes that have not been processed.
    pub(crate) received: Vec<u8>,
    pub(crate) head: &'t mut ResponseHead,
    /// Set if the server does not speak HTTP.
    pub(crate) incoming: Option<Incoming>,
    /// Received bytes of the answer.
    count: u64,
    /// Those of them that are heads of interim responses.
    interim_bytes: usize,
    /// Part of it has been passed to the client.
    has_begun: bool,
    /// Another server is there for an answer of `retry_statuses`.
    may_pass_over: bool,
}

/// Sends the request on this connection, and passes the answer to the client.
pub(crate) async fn attempt<C: Client>(
    forwarding: &mut Forwarding<'_, C>,
    server: &GroupServer,
    connection: UpstreamConnection,
) -> Result<Done<C::Ending>, AttemptError> {
    let Forwarding {
        request,
        client,
        upload,
        scratch,
        times,
        may_pass_over,
        ..
    } = forwarding;
    let mut bytes = std::mem::take(&mut scratch.sent);
    bytes.clear();
    let spoken = cgi::of(request);
    let framing = framing(request, upload.is_some());
    let mut patience = 0;
    match spoken {
        Some(gateway) => cgi::write(&mut bytes, request, &**client, gateway)?,
        None => {
            let terms = HeadOptions {
                framing,
                upgrade: upgrade(request),
                expects_continue: upload.as_ref().is_some_and(|one| one.awaits_continue()),
            };
            head::write(&mut bytes, request, &**client, server, &terms);
            patience = CONTINUE_AFTER;
        }
    }
    let incoming = spoken.map(|gateway| Incoming::new(gateway, std::mem::take(&mut scratch.raw)));
    let has_records = incoming.as_ref().is_some_and(Incoming::has_records);
    let source = match upload {
        Some(upload) => Source::Client(upload),
        None => Source::Kept(request.body),
    };
    let outgoing = Outgoing::new(bytes, source, framing, has_records);
    let deadline = Deadline::new(times.until);
    let mut exchange = Exchange {
        request,
        client: &mut **client,
        link: Link::new(connection, outgoing, (times, &deadline), patience),
        received: std::mem::take(&mut scratch.received),
        head: &mut scratch.head,
        incoming,
        count: 0,
        interim_bytes: 0,
        has_begun: false,
        may_pass_over: *may_pass_over,
    };
    exchange.received.clear();
    exchange.head.reset();
    let outcome = exchange.run(server).await;
    if outcome.is_err() && !exchange.has_begun {
        exchange.client.discard();
    }
    let Exchange {
        link,
        received,
        has_begun,
        incoming,
        ..
    } = exchange;
    let Link {
        connection,
        mut outgoing,
        ..
    } = link;
    scratch.raw = incoming.map_or_else(Vec::new, Incoming::into_buffer);
    let was_sent = match &outcome {
        // It was not begun; but a body that was sent may not be there any more.
        Err(StepError::Server(UpstreamError::Refused(_))) => {
            outgoing.upload().is_some_and(|upload| upload.was_taken())
        }
        _ => outgoing.has_begun(),
    };
    scratch.sent = outgoing.into_buffer();
    if let Ok(End::Switched) = outcome {
        return Ok(Done::Switched {
            connection,
            received,
        });
    }
    scratch.received = received;
    match outcome {
        Ok(End::Answered(ending, may_keep)) => {
            Ok(Done::Answered(ending, may_keep.then_some(connection)))
        }
        Ok(End::Switched) => Err(AttemptError::Client(Gone::Closed)),
        Err(StepError::Client(gone)) => Err(gone.into()),
        // The client already has a head.
        Err(StepError::Body(_)) if has_begun => Err(Gone::Closed.into()),
        Err(StepError::Body(status)) => Err(AttemptError::Body(status)),
        Err(StepError::Server(failure)) => Err(AttemptError::Server(ServerFault {
            failure,
            was_sent,
            has_begun,
        })),
    }
}

/// The result of an exchange.
enum End<E> {
    /// True if the connection can be kept.
    Answered(E, bool),
    Switched,
}

impl<C: Client> Exchange<'_, C> {
    /// The whole exchange.
    async fn run(&mut self, server: &GroupServer) -> Result<End<C::Ending>, StepError> {
        if self.incoming.is_some() {
            let length = self.receive_cgi_head().await?;
            self.pass_over()?;
            server.answered(now_millis());
            return self.pass_on(length).await;
        }
        let length = self.receive_head().await?;
        if self.head.view(&self.received).status() == 101 {
            self.pass_upgrade_on();
            self.received.drain(..length);
            return Ok(End::Switched);
        }
        self.pass_over()?;
        server.answered(now_millis());
        self.pass_on(length).await
    }

    /// Fails with the status of the answer if another server is tried for it.
    fn pass_over(&mut self) -> Result<(), UpstreamError> {
        let status = self.head.view(&self.received).status();
        let statuses = &self.request.upstream().options().retry_statuses;
        let was_taken = |upload: &mut Upload<C::Body>| upload.was_taken();
        if self.may_pass_over
            && !self.has_begun
            && statuses.contains(&status)
            && !self.link.outgoing.upload().is_some_and(was_taken)
        {
            return Err(UpstreamError::Status(status));
        }
        Ok(())
    }

    /// Reads more of the answer; `None` at the end of the stream.
    pub(crate) async fn receive(&mut self) -> Result<Option<usize>, StepError> {
        if self.incoming.as_ref().is_some_and(Incoming::has_records) {
            return self.receive_records().await;
        }
        let mut received = std::mem::take(&mut self.received);
        let outcome = self.receive_into(&mut received).await;
        self.received = received;
        outcome
    }

    /// Reads more from the connection; `None` at the end of the stream.
    pub(crate) async fn receive_into(
        &mut self,
        received: &mut Vec<u8>,
    ) -> Result<Option<usize>, StepError> {
        let room = self.client.allowance(READ_BYTES);
        if received.capacity() == received.len() {
            received.reserve(received.len().max(room));
        } else if room < READ_BYTES {
            // One read takes no more than may be buffered.
            received.shrink_to(received.len() + room);
        }
        let outcome = loop {
            let (deadline, link) = (self.link.deadline, &mut self.link);
            let before = self.client.unsent();
            let event = wait::server(self.client, deadline, |context| {
                link.poll(context, received)
            })
            .await?;
            self.has_begun |= self.client.unsent() < before;
            match event {
                Ok(Ok(Event::Read(outcome))) => break Ok(outcome),
                Ok(Ok(Event::Continue)) => self.send_continue().await?,
                Ok(Err(fault)) => return Err(fault.into()),
                Err(timed_out) => break Err(timed_out),
            }
        };
        let count = self.count;
        match outcome {
            Err(wait::TimedOut) => {
                let received = self.link.outgoing.is_done().then_some(count);
                let options = self.request.upstream().options();
                let failure = self.link.times.failure(options, received);
                Err(StepError::Server(failure))
            }
            Ok(Ok(0)) => Ok(None),
            Ok(Ok(more)) => {
                self.count += more as u64;
                self.link.note_read();
                Ok(Some(more))
            }
            Ok(Err(source)) => {
                let unsent = self.link.without_answer().filter(|_| count == 0);
                Err(StepError::Server(unsent.unwrap_or(
                    UpstreamError::Receive {
                        received: count,
                        source,
                    },
                )))
            }
        }
    }

    /// Sends 100 (Continue) to the client.
    async fn send_continue(&mut self) -> Result<(), StepError> {
        let Some(upload) = self.link.outgoing.upload() else {
            return Ok(());
        };
        self.has_begun |= self.client.unsent() > 0;
        Ok(upload.send_continue(self.client).await?)
    }

    /// Reads until the head of the final answer has been received; returns its length.
    async fn receive_head(&mut self) -> Result<usize, StepError> {
        loop {
            match self.parse_head()? {
                Some(length) => {
                    let view = self.head.view(&self.received);
                    match view.status() {
                        101 => {
                            check_switch(&view, upgrade(self.request))?;
                            return Ok(length);
                        }
                        100 | 102..=199 => {
                            if view.status() == 100 && self.link.awaits_continue() {
                                self.send_continue().await?;
                            }
                            self.count_interim(length)?;
                            self.pass_interim_on(length).await?;
                            self.received.drain(..length);
                            self.head.reset();
                        }
                        _ => return Ok(length),
                    }
                }
                None => {
                    if self.receive().await?.is_none() {
                        return Err(match self.count {
                            0 => self.closed().into(),
                            received => UpstreamError::CutShort { received }.into(),
                        });
                    }
                }
            }
        }
    }

    /// Bounds the interim responses of a request together as one head is: each extends the server's timeout.
    fn count_interim(&mut self, length: usize) -> Result<(), UpstreamError> {
        let most = self.request.upstream().options().max_head_size;
        self.interim_bytes += length;
        match self.interim_bytes > most {
            true => Err(UpstreamError::Malformed(format!(
                "its interim responses are longer than {most} bytes"
            ))),
            false => Ok(()),
        }
    }

    /// The length of the received head, if it is complete.
    pub(crate) fn parse_head(&mut self) -> Result<Option<usize>, UpstreamError> {
        let most = self.request.upstream().options().max_head_size;
        match self.head.parse(&self.received, &limits(most)) {
            Ok(Progress::Complete { length }) => Ok(Some(length)),
            Ok(Progress::Incomplete) => Ok(None),
            Err(HeadError::FieldsTooLarge | HeadError::RequestLineTooLong) => Err(
                UpstreamError::Malformed(format!("its head is longer than {most} bytes")),
            ),
            Err(error) => Err(UpstreamError::Malformed(error.to_string())),
        }
    }

    /// Bytes of the answer received.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The connection was closed without an answer.
    pub(crate) fn closed(&mut self) -> UpstreamError {
        self.link.without_answer().unwrap_or(UpstreamError::Closed)
    }

    /// Passes on an interim answer, except a 100 that the client has had already; HTTP/1.0 has none (RFC 9110 §15.2). All of it is sent, so
    /// that it does not count as the beginning of the answer.
    async fn pass_interim_on(&mut self, length: usize) -> Result<(), Gone> {
        let view = self.head.view(&self.received);
        debug_assert_eq!(view.length(), length);
        if view.status() == 100 || self.request.view.version() == Version::Http10 {
            return Ok(());
        }
        let of_connection = PerConnection::of(view.fields());
        let fields = end_to_end(&view, &of_connection);
        self.client.interim(view.status(), fields);
        self.client.flush().await
    }

    /// Sends 101 with the protocol that the server names.
    fn pass_upgrade_on(&mut self) {
        let view = self.head.view(&self.received);
        let connection = [(&b"Connection"[..], &b"Upgrade"[..])];
        let protocol = view.get(Known::Upgrade);
        let protocol = protocol.map(|protocol| (&b"Upgrade"[..], protocol));
        let of_connection = PerConnection::of(view.fields());
        let fields = end_to_end(&view, &of_connection);
        self.client.switch(fields.chain(connection).chain(protocol));
    }

    /// Passes on the answer whose head has been received.
    async fn pass_on(&mut self, length: usize) -> Result<End<C::Ending>, StepError> {
        self.begin_answer(length).await?;
        let method = self.request.method();
        let view = self.head.view(&self.received);
        let end = view.body_length(method);
        let may_keep = view.keep_alive(method);
        let head = AnswerHead {
            status: view.status(),
            length: self.declared(&view, length),
            has_server: view.get(Known::Server).is_some(),
            has_date: view.get(Known::Date).is_some(),
            may_persist: !self.link.awaits_continue(),
            may_have_trailers: false,
        };
        // PHP-FPM writes `Content-type`; field names get their usual case, as those of Tutti's own PHP have.
        let is_cgi = self.incoming.is_some();
        let mut answer = {
            let of_connection = PerConnection::of(view.fields());
            let fields = end_to_end(&view, &of_connection).map(|(name, value)| {
                let is_type = is_cgi && name.eq_ignore_ascii_case(b"content-type");
                (if is_type { b"Content-Type" } else { name }, value)
            });
            // It says which protocol the server wants (RFC 9110 §15.5.22); HTTP/2 has no such field.
            let may_upgrade = head.status == 426 && self.request.view.version() < Version::Http2;
            let protocol = view.get(Known::Upgrade).filter(|_| may_upgrade);
            let connection = protocol.map(|_| (&b"Connection"[..], &b"Upgrade"[..]));
            let protocol = protocol.map(|protocol| (&b"Upgrade"[..], protocol));
            self.client
                .begin(&head, fields.chain(connection).chain(protocol))?
        };
        let decoder = BodyDecoder::new(end, &limits(usize::MAX))
            .map_err(|error| UpstreamError::Malformed(error.to_string()));
        let outcome = match decoder {
            Ok(decoder) => self.pass_body_on(length, decoder, &mut answer).await,
            Err(failure) => Err(failure.into()),
        };
        let ended = match outcome {
            Ok(_) if self.incoming.is_some() => self.finish_request().await,
            // After a server that did not take the whole request, the connection cannot be reused.
            Ok(is_clean) => Ok(may_keep && is_clean && self.link.outgoing.is_done()),
            Err(fault) => Err(fault),
        };
        match ended {
            Ok(may_keep) => {
                let ending = self.client.end(answer);
                Ok(End::Answered(ending, may_keep))
            }
            Err(fault) => {
                // Otherwise another answer follows, or the client has had none.
                if self.has_begun {
                    self.client.break_off(&answer);
                }
                Err(fault)
            }
        }
    }

    /// Sends 100 (Continue) to a waiting client before the head of a success that is incomplete: the server may continue only when it has
    /// the body. Any other answer may mean that the body is not needed.
    async fn begin_answer(&mut self, length: usize) -> Result<(), StepError> {
        if !self.link.awaits_continue() {
            return Ok(());
        }
        let view = self.head.view(&self.received);
        let come = (self.received.len() - length) as u64;
        let is_whole = view.content_length().is_some_and(|length| length <= come);
        if (200..300).contains(&view.status()) && !is_whole {
            self.send_continue().await?;
        } else if let Some(upload) = self.link.outgoing.upload() {
            upload.start_clock();
        }
        Ok(())
    }

    /// The length of the body, or of the body that was omitted for `HEAD`. If it was received completely, the length is known without being
    /// declared.
    fn declared(&self, view: &ResponseView<'_>, head_length: usize) -> Option<u64> {
        let whole = || {
            let has_ended = self.incoming.as_ref().is_some_and(Incoming::has_ended);
            let is_head = self.request.is_head();
            (has_ended && !is_head).then(|| (self.received.len() - head_length) as u64)
        };
        view.content_length().or_else(whole)
    }

    /// Returns true if no bytes came after the body.
    async fn pass_body_on(
        &mut self,
        head_length: usize,
        mut decoder: BodyDecoder,
        answer: &mut C::Answer,
    ) -> Result<bool, StepError> {
        let mut position = head_length;
        loop {
            let mut pieces: SmallVec<[Range<usize>; 8]> = SmallVec::new();
            let is_finished = loop {
                let rest = self.received.get(position..).unwrap_or_default();
                let found = decoder
                    .decode(rest)
                    .map_err(|error| UpstreamError::Malformed(error.to_string()))?;
                if !found.data.is_empty() {
                    pieces.push(position + found.data.start..position + found.data.end);
                }
                position += found.consumed;
                if found.is_finished || found.consumed == 0 {
                    break found.is_finished;
                }
            };
            let received = &self.received;
            let bytes = |range: &Range<usize>| received.get(range.clone()).unwrap_or_default();
            let (deadline, link) = (self.link.deadline, &mut self.link);
            let feed = |context: &mut Context<'_>| link.poll_send(context);
            let client = (self.request, &mut *self.client, &mut *answer);
            self.has_begun |= wait::write(client, pieces.iter().map(bytes), deadline, feed).await?;
            if is_finished {
                self.client.finish(answer, decoder.trailers())?;
                return Ok(position == self.received.len());
            }
            self.received.drain(..position);
            position = 0;
            if !self.client.wants_more(answer) {
                return Ok(false);
            }
            if has_enough(self.request, self.client) {
                // Not needed while the client is waited for.
                self.received.shrink_to_fit();
                // The client may take more while more arrives, within a limit.
                let (deadline, link) = (self.link.deadline, &mut self.link);
                let feed = |context: &mut Context<'_>| link.poll_send(context);
                wait::client(self.request, self.client, deadline, feed).await?;
                self.has_begun = true;
            }
            if self.receive().await?.is_none() {
                let received = self.count;
                if !matches!(decoder, BodyDecoder::UntilClose) {
                    return Err(UpstreamError::CutShort { received }.into());
                }
                self.client.finish(answer, Trailers::default())?;
                return Ok(false);
            }
        }
    }
}

/// Checks that a 101 names a requested protocol: the bytes after it are not parsed.
fn check_switch(view: &ResponseView<'_>, asked: Option<&[u8]>) -> Result<(), UpstreamError> {
    let mut answered = view.fields().filter(|field| field.known == Known::Upgrade);
    let wrong = match (asked, answered.next(), answered.next()) {
        (None, ..) => "it switches protocols without being asked",
        (_, None, _) => "it switches protocols without naming one",
        (Some(asked), Some(protocol), None) if has_asked_for(asked, protocol.value) => {
            return Ok(());
        }
        _ => "it switches to a protocol that was not requested",
    };
    Err(UpstreamError::Malformed(wrong.to_owned()))
}

/// The fields for the client: all but those of the connection. Cheap to clone.
fn end_to_end<'v, 'c>(
    view: &ResponseView<'v>,
    connection: &'c PerConnection<'v>,
) -> impl Iterator<Item = (&'v [u8], &'v [u8])> + Clone + use<'v, 'c> {
    view.fields()
        .filter(move |field| !connection.has(field.name, field.known))
        .map(|field| (field.name, field.value))
}

fn limits(most: usize) -> MessageLimits {
    MessageLimits {
        large_header_buffer_size: most,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        max_body_size: u64::MAX,
        ..MessageLimits::default()
    }
}
