//! Speaking HTTP/1.1 with a server: the request out, the answer in and on to the client.
//!
//! Both go on at once ([`Link`]).
//!
//! Must never: pass on an answer whose end is not certain, take bytes behind one answer for the next, or keep a connection whose
//! state is unknown.

use std::io;
use std::ops::Range;
use std::task::Context;

use smallvec::SmallVec;
use tutti_http::{
    BodyDecoder, HeadError, Known, Limits, PerConnection, Progress, ResponseHead, ResponseView,
    Trailers,
};
use tutti_upstream::{Connection, Failure, Server};

use super::attempt::{Done, Times, Trouble, framing, not_compressed, upgrade};
use super::gateway::{self, Incoming};
use super::head;
use super::head::Way;
use super::link::{CONTINUE_AFTER, Event, Link};
use super::outgoing::{Outgoing, Source, Upload};
use super::wait::{self, Deadline, backlog, enough};
use crate::action::answer::{Answer, Begun, Head};
use crate::body;
use crate::output::{Gone, Output};
use crate::request::Request;
use crate::respond::{Late, Own, Persistence};
use crate::scratch::Scratch;
use crate::step::UpstreamCall;

/// Room for one read of a body.
const READ_BYTES: usize = 64 * 1024;

/// One exchange on one connection.
pub(super) struct Talk<'t, 'r> {
    pub(super) request: &'t Request<'r>,
    pub(super) call: &'t UpstreamCall,
    pub(super) output: &'t mut Output,
    pub(super) link: Link<'t, 'r>,
    /// Bytes that have come and not been dealt with.
    pub(super) received: Vec<u8>,
    pub(super) head: ResponseHead,
    /// There, if the server does not speak HTTP.
    pub(super) incoming: Option<Incoming>,
    /// Bytes of the answer that have come.
    count: u64,
    /// Something of it has gone to the client.
    has_begun: bool,
}

/// Sends the request on this connection, and the answer to the client.
pub(super) async fn exchange<'r>(
    request: &Request<'r>,
    (call, upload): (&UpstreamCall, Option<&mut Upload<'r>>),
    times: &Times,
    output: &mut Output,
    (server, connection): (&Server, Connection),
    scratch: &mut Scratch,
) -> Result<Done, Trouble> {
    let mut bytes = std::mem::take(&mut scratch.sent);
    bytes.clear();
    let spoken = gateway::of(call);
    let framing = framing(request, &call.body, upload.is_some());
    let mut patience = 0;
    match spoken {
        Some(gateway) => gateway::write(&mut bytes, request, call, gateway)?,
        None => {
            let way = Way {
                framing,
                upgrade: upgrade(request, call),
                expects_continue: upload.as_ref().is_some_and(|one| one.awaits_continue()),
            };
            head::write(&mut bytes, request, call, server, &way);
            patience = CONTINUE_AFTER;
        }
    }
    let incoming = spoken.map(|gateway| Incoming::new(gateway, std::mem::take(&mut scratch.raw)));
    let has_records = incoming.as_ref().is_some_and(Incoming::has_records);
    let source = match upload {
        Some(upload) => Source::Client(upload),
        None => Source::Collected(&call.body),
    };
    let outgoing = Outgoing::new(bytes, source, framing, has_records);
    let deadline = Deadline::new();
    let mut talk = Talk {
        request,
        call,
        output,
        link: Link::new(connection, outgoing, (times, &deadline), patience),
        received: std::mem::take(&mut scratch.received),
        head: std::mem::take(&mut scratch.head),
        incoming,
        count: 0,
        has_begun: false,
    };
    talk.received.clear();
    talk.head.reset();
    let outcome = talk.run().await;
    if outcome.is_err() && !talk.has_begun {
        talk.output.discard();
    }
    let Talk {
        link,
        received,
        head,
        has_begun,
        incoming,
        ..
    } = talk;
    let Link {
        connection,
        outgoing,
        ..
    } = link;
    scratch.raw = incoming.map_or_else(Vec::new, Incoming::into_buffer);
    let was_sent = outgoing.has_begun();
    scratch.sent = outgoing.into_buffer();
    scratch.head = head;
    if let Ok(End::Upgraded(head)) = outcome {
        return Ok(Done::Upgraded {
            connection,
            received,
            head,
        });
    }
    scratch.received = received;
    match outcome {
        Ok(End::Answered(persistence, may_keep, late)) => Ok(Done::Answered(
            persistence,
            may_keep.then_some(connection),
            late,
        )),
        Ok(End::Upgraded(_)) => Err(Trouble::Client(Gone::Closed)),
        Err(Fault::Gone(gone)) => Err(gone.into()),
        // It is too late to say so in another way.
        Err(Fault::Body(_)) if has_begun => Err(Gone::Closed.into()),
        Err(Fault::Body(status)) => Err(Trouble::Body(status)),
        Err(Fault::Server(failure)) => Err(Trouble::Server {
            failure,
            was_sent,
            has_begun,
        }),
    }
}

/// How an exchange ended.
enum End {
    /// True if the connection can be kept.
    Answered(Persistence, bool, Option<Box<Late>>),
    /// With the head, for the access log.
    Upgraded(Vec<u8>),
}

/// Why a step of an exchange got no further.
pub(super) enum Fault {
    Server(Failure),
    Gone(Gone),
    /// The client's body will not come whole: the status that says why.
    Body(u16),
}

impl From<body::Fault> for Fault {
    fn from(fault: body::Fault) -> Self {
        match fault {
            body::Fault::Refused(status) => Self::Body(status),
            body::Fault::Gone(gone) => Self::Gone(gone),
        }
    }
}

impl From<Gone> for Fault {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Server(failure)
    }
}

impl Talk<'_, '_> {
    /// The whole exchange.
    async fn run(&mut self) -> Result<End, Fault> {
        if self.incoming.is_some() {
            let length = self.receive_cgi_head().await?;
            return self.pass_on(length).await;
        }
        let length = self.receive_head().await?;
        if self.head.view(&self.received).status() == 101 {
            let head = self.pass_upgrade_on();
            self.received.drain(..length);
            return Ok(End::Upgraded(head));
        }
        self.pass_on(length).await
    }

    /// Reads more of the answer. Nothing more came: `None`.
    pub(super) async fn receive(&mut self) -> Result<Option<usize>, Fault> {
        if self.incoming.as_ref().is_some_and(Incoming::has_records) {
            return self.receive_records().await;
        }
        let mut received = std::mem::take(&mut self.received);
        let outcome = self.receive_into(&mut received).await;
        self.received = received;
        outcome
    }

    /// Reads more of what comes on the connection. Nothing more came: `None`.
    pub(super) async fn receive_into(
        &mut self,
        received: &mut Vec<u8>,
    ) -> Result<Option<usize>, Fault> {
        let room = self.request.connection.allowance(self.output, READ_BYTES);
        if received.capacity() == received.len() {
            received.reserve(received.len().max(room));
        } else if room < READ_BYTES {
            // One read brings no more than may wait.
            received.shrink_to(received.len() + room);
        }
        let outcome = loop {
            let (deadline, link) = (self.link.deadline, &mut self.link);
            let before = self.output.len();
            let event = wait::server(self.request, self.output, deadline, |context| {
                link.poll(context, received)
            })
            .await?;
            self.has_begun |= self.output.len() < before;
            match event {
                Ok(Ok(Event::Read(outcome))) => break Ok(outcome),
                Ok(Ok(Event::Continue)) => self.say_continue().await?,
                Ok(Err(fault)) => return Err(fault.into()),
                Err(timed_out) => break Err(timed_out),
            }
        };
        let count = self.count;
        match outcome {
            Err(wait::TimedOut) => Err(Fault::Server(if self.link.outgoing.is_done() {
                Failure::ReadTimeout {
                    received: count,
                    limit: self.call.upstream.options().read_timeout,
                }
            } else {
                Failure::SendTimeout(self.call.upstream.options().send_timeout)
            })),
            Ok(Ok(0)) => Ok(None),
            Ok(Ok(more)) => {
                self.count += more as u64;
                self.link.note_read();
                Ok(Some(more))
            }
            Ok(Err(source)) => {
                let unsent = self.link.without_answer().filter(|_| count == 0);
                Err(Fault::Server(unsent.unwrap_or(Failure::Receive {
                    received: count,
                    source,
                })))
            }
        }
    }

    /// Tells the client to send its body.
    async fn say_continue(&mut self) -> Result<(), Fault> {
        let Some(upload) = self.link.outgoing.upload() else {
            return Ok(());
        };
        // Alone, so that it is not taken for a beginning of the answer.
        self.has_begun |= !self.output.is_empty();
        upload.send_continue(self.output);
        let send_timeout = self.request.snapshot.timeouts.send;
        let connection = self.request.connection;
        Ok(connection.flush(self.output, send_timeout).await?)
    }

    /// Reads until the head of the final answer is at the front of what was received; its length.
    async fn receive_head(&mut self) -> Result<usize, Fault> {
        loop {
            match self.parse_head()? {
                Some(length) => {
                    let view = self.head.view(&self.received);
                    match view.status() {
                        101 if upgrade(self.request, self.call).is_none() => {
                            let message = "it changes the protocol without being asked".to_owned();
                            return Err(Failure::Malformed(message).into());
                        }
                        100 | 102..=199 => {
                            if view.status() == 100 && self.link.awaits_continue() {
                                self.say_continue().await?;
                            }
                            self.pass_interim_on(length);
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
                            received => Failure::CutShort { received }.into(),
                        });
                    }
                }
            }
        }
    }

    /// The length of the head at the front of what was received, if it is whole.
    pub(super) fn parse_head(&mut self) -> Result<Option<usize>, Failure> {
        let most = self.call.upstream.options().max_head_size;
        match self.head.parse(&self.received, &limits(most)) {
            Ok(Progress::Complete { length }) => Ok(Some(length)),
            Ok(Progress::Incomplete) => Ok(None),
            Err(HeadError::FieldsTooLarge | HeadError::RequestLineTooLong) => Err(
                Failure::Malformed(format!("its head is longer than {most} bytes")),
            ),
            Err(error) => Err(Failure::Malformed(error.to_string())),
        }
    }

    /// Bytes of the answer that have come, as they came.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The connection was closed without an answer.
    pub(super) fn closed(&mut self) -> Failure {
        self.link.without_answer().unwrap_or(Failure::Closed)
    }

    /// An interim answer: the client's own wish for 100 has been met, HTTP/1.0 knows none (RFC 9110 §15.2).
    fn pass_interim_on(&mut self, length: usize) {
        let view = self.head.view(&self.received);
        debug_assert_eq!(view.length(), length);
        if view.status() == 100 || self.request.view.version_minor() == 0 {
            return;
        }
        let out = &mut self.output.bytes;
        let writer = tutti_http::ResponseHeadWriter::begin(out, view.status());
        writer.finish();
        out.truncate(out.len() - 2);
        for (name, value) in end_to_end(&view) {
            tutti_http::write_field(out, name, value);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The head that says that the protocol changes, with the protocol the server names.
    fn pass_upgrade_on(&mut self) -> Vec<u8> {
        let view = self.head.view(&self.received);
        let out = &mut self.output.bytes;
        let start = out.len();
        out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\n");
        for (name, value) in end_to_end(&view) {
            tutti_http::write_field(out, name, value);
        }
        tutti_http::write_field(out, b"Connection", b"Upgrade");
        if let Some(protocol) = view.get(Known::Upgrade) {
            tutti_http::write_field(out, b"Upgrade", protocol);
        }
        out.extend_from_slice(b"\r\n");
        self.request.connection.traced.tell(out, start);
        out.get(start..).unwrap_or_default().to_vec()
    }

    /// Sends the answer on whose head is at the front of what was received.
    async fn pass_on(&mut self, length: usize) -> Result<End, Fault> {
        self.begin_answer(length).await?;
        let method = self.request.view.method();
        let view = self.head.view(&self.received);
        let end = view.body_length(method);
        let may_keep = view.keep_alive(method);
        let head = Head {
            status: view.status(),
            length: self.declared(&view, length),
            may_persist: !self.link.awaits_continue(),
            own: Own {
                server: view.get(Known::Server).is_none(),
                date: view.get(Known::Date).is_none(),
            },
        };
        let changes = &self.call.changes;
        // PHP-FPM writes `Content-type`; field names are in their usual case, as those of Tutti's own PHP are.
        let is_cgi = self.incoming.is_some();
        let fields = end_to_end(&view).map(|(name, value)| {
            let is_type = is_cgi && name.eq_ignore_ascii_case(b"content-type");
            (if is_type { b"Content-Type" } else { name }, value)
        });
        let begun = Begun::new(self.request, &head, fields, changes, self.output);
        let persistence = begun.persistence;
        let mut answer = Answer::new(begun).map_err(|error| self.not_compressed(&error))?;
        let decoder = BodyDecoder::new(end, &limits(usize::MAX))
            .map_err(|error| Failure::Malformed(error.to_string()));
        let outcome = match decoder {
            Ok(decoder) => self.pass_body_on(length, decoder, &mut answer).await,
            Err(failure) => Err(failure.into()),
        };
        let ended = match outcome {
            Ok(_) if self.incoming.is_some() => self.finish_request().await,
            // A server that did not want the whole request cannot get another on this connection.
            Ok(is_clean) => Ok(may_keep && is_clean && self.link.outgoing.is_done()),
            Err(fault) => Err(fault),
        };
        match ended {
            Ok(may_keep) => {
                let late = answer.end(self.request, self.output);
                Ok(End::Answered(persistence, may_keep, late))
            }
            Err(fault) => {
                // Else another answer follows, or the client has had none.
                if self.has_begun {
                    answer.log(self.request);
                }
                Err(fault)
            }
        }
    }

    /// A client that waits for 100 (Continue) gets it before the head of a success that is not complete: the server may go on only when
    /// it has the body. Whatever else it answers may be why the body need not come.
    async fn begin_answer(&mut self, length: usize) -> Result<(), Fault> {
        if !self.link.awaits_continue() {
            return Ok(());
        }
        let view = self.head.view(&self.received);
        let come = (self.received.len() - length) as u64;
        let is_whole = view.content_length().is_some_and(|length| length <= come);
        if (200..300).contains(&view.status()) && !is_whole {
            self.say_continue().await?;
        } else if let Some(upload) = self.link.outgoing.upload() {
            upload.start_clock();
        }
        Ok(())
    }

    /// The client must see that the rest of the answer does not come.
    fn not_compressed(&self, error: &io::Error) -> Fault {
        Fault::Gone(not_compressed(self.request, error))
    }

    /// The length of the body, or of the body that `HEAD` would have had without. One that has come whole has it without being told.
    fn declared(&self, view: &ResponseView<'_>, head_length: usize) -> Option<u64> {
        let whole = || {
            let has_ended = self.incoming.as_ref().is_some_and(Incoming::has_ended);
            let is_head = self.request.is_head();
            (has_ended && !is_head).then(|| (self.received.len() - head_length) as u64)
        };
        view.content_length().or_else(whole)
    }

    /// True: nothing came behind the body.
    async fn pass_body_on(
        &mut self,
        head_length: usize,
        mut decoder: BodyDecoder,
        answer: &mut Answer,
    ) -> Result<bool, Fault> {
        let mut position = head_length;
        loop {
            let mut pieces: SmallVec<[Range<usize>; 8]> = SmallVec::new();
            let is_finished = loop {
                let rest = self.received.get(position..).unwrap_or_default();
                let found = decoder
                    .decode(rest)
                    .map_err(|error| Failure::Malformed(error.to_string()))?;
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
            answer
                .write(pieces.iter().map(bytes), self.output)
                .map_err(|error| self.not_compressed(&error))?;
            if is_finished {
                answer
                    .finish(self.request, decoder.trailers(), self.output)
                    .map_err(|error| self.not_compressed(&error))?;
                return Ok(position == self.received.len());
            }
            self.received.drain(..position);
            position = 0;
            if self.output.len() > enough(self.request, self.call, self.output) {
                // Nobody needs it while the client is waited for.
                self.received.shrink_to_fit();
                // The bytes that it does not take now it may take while more comes, up to a bound.
                let most = backlog(self.request, self.call);
                let (deadline, link) = (self.link.deadline, &mut self.link);
                let feed = |context: &mut Context<'_>| link.poll_send(context);
                wait::client(self.request, self.output, most, deadline, feed).await?;
                self.has_begun = true;
            }
            if self.receive().await?.is_none() {
                let received = self.count;
                if !matches!(decoder, BodyDecoder::UntilClose) {
                    return Err(Failure::CutShort { received }.into());
                }
                answer
                    .finish(self.request, Trailers::default(), self.output)
                    .map_err(|error| self.not_compressed(&error))?;
                return Ok(false);
            }
        }
    }
}

/// The fields for the client.
fn end_to_end<'v>(
    view: &ResponseView<'v>,
) -> impl Iterator<Item = (&'v [u8], &'v [u8])> + Clone + use<'v> {
    let connection = PerConnection::of(view.fields());
    view.fields()
        .filter(move |field| !connection.has(field.name, field.known))
        .map(|field| (field.name, field.value))
}

fn limits(most: usize) -> Limits {
    Limits {
        large_header_buffer_size: most,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        max_body_size: u64::MAX,
        ..Limits::default()
    }
}
