//! Requests being read from a connection's bytes, and what is left to do for the one at the front.
//!
//! Every complete request in the input is answered into one output buffer, which goes out in one write. The first one that needs
//! waiting for something stays at the front, with its [`Step`].

use std::sync::Arc;

use tutti_http::http2::Preface;
use tutti_http::{BodyDecoder, Method, NO_FIELDS, Progress, RequestHead};

use crate::arrival;
use crate::body::{ClientBody, Terms};
use crate::connection::Connection;
use crate::dispatch;
use crate::local::Local;
use crate::refusals::Unread;
use crate::request::Request;
use crate::respond;
use crate::snapshot::Snapshot;
use crate::step::Step;
use crate::substitute::Substitute;
use tutti_conn::output::Output;

/// With more than this to send, pipelined requests wait: a client that does not read its answers must not make us keep them.
const OUTPUT_BYTES: u64 = 64 * 1024;

/// The requests of a connection that are not finished, and the next step for the first of them.
pub(crate) struct Pipeline {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Bytes read; those before `position` are done with.
    pub(crate) input: Vec<u8>,
    pub(crate) position: usize,
    /// The head being read or acted on, over `input[position..]`.
    pub(crate) head: Box<RequestHead>,
    pub(crate) output: Output,
    pub(crate) step: Step,
    /// The request that is answered in place of that one.
    pub(crate) substitute: Option<Box<Substitute>>,
}

impl Pipeline {
    /// The request whose head is in front of the input.
    pub(crate) fn request<'a>(&'a self, connection: &'a Connection) -> Request<'a> {
        let rest = self.input.get(self.position..).unwrap_or_default();
        Request::new(connection, &self.snapshot, self.head.view(rest))
            .or_substitute(self.substitute.as_deref())
    }

    /// That request, and where its response goes.
    pub(crate) fn parts<'a>(
        &'a mut self,
        connection: &'a Connection,
    ) -> (Request<'a>, &'a mut Output) {
        let rest = self.input.get(self.position..).unwrap_or_default();
        (
            Request::new(connection, &self.snapshot, self.head.view(rest))
                .or_substitute(self.substitute.as_deref()),
            &mut self.output,
        )
    }

    /// The body of that request, and where its response goes.
    pub(crate) fn body<'a>(
        &'a mut self,
        connection: &'a Connection,
        decoder: BodyDecoder,
    ) -> (ClientBody<'a>, &'a mut Output) {
        let request = self.request(connection);
        let start = self.position + request.original.length();
        let terms = Terms::of(&request, decoder);
        let body = ClientBody::new(connection, &mut self.input, start, terms);
        (body, &mut self.output)
    }

    /// That request beside its body, which is read in `input` from now on. What is left there in the end belongs behind the head.
    pub(crate) fn detach_body<'a>(
        &'a mut self,
        connection: &'a Connection,
        decoder: BodyDecoder,
        input: &'a mut Vec<u8>,
    ) -> (Request<'a>, ClientBody<'a>, &'a mut Output) {
        let start = self.position + self.request(connection).original.length();
        input.extend(self.input.drain(start.min(self.input.len())..));
        let (request, output) = self.parts(connection);
        let terms = Terms::of(&request, decoder);
        (
            request,
            ClientBody::new(connection, input, 0, terms),
            output,
        )
    }

    /// True if the client may still be sending the body of its request, which nobody reads.
    pub(crate) fn lingers(&self) -> bool {
        let substitute = self.substitute.as_ref();
        substitute.is_some_and(|substitute| substitute.lingers)
    }

    /// Gives the buffers back to the thread.
    pub(crate) fn give_back(self, local: &Local) {
        local.buffers.give(self.input);
        local.buffers.give(self.output.bytes);
        local.give_head(self.head);
    }

    /// Reads and answers complete requests from `pipeline.input`, until one needs more than what is there.
    pub(crate) fn answer_complete(&mut self, connection: &Connection) {
        let pipeline = self;
        if connection.is_new() && pipeline.begins_http2(connection) {
            return;
        }
        loop {
            let rest = pipeline.input.get(pipeline.position..).unwrap_or_default();
            match pipeline.head.parse(rest, &pipeline.snapshot.limits) {
                Ok(Progress::Incomplete) => {
                    if !rest.is_empty() {
                        connection.note_begin();
                    }
                    pipeline.step = Step::ReadHead { deadline: None };
                    return;
                }
                Ok(Progress::Complete { length }) => {
                    connection.note_request();
                    pipeline.substitute = None;
                    let request =
                        Request::new(connection, &pipeline.snapshot, pipeline.head.view(rest));
                    arrival::note(&request);
                    match dispatch::start(&request, &mut pipeline.output) {
                        Step::End(persistence) if persistence.is_open() => {
                            pipeline.position += length;
                        }
                        step => {
                            pipeline.step = step;
                            return;
                        }
                    }
                    if pipeline.output.len() > OUTPUT_BYTES {
                        pipeline.step = Step::Flush;
                        return;
                    }
                }
                Err(error) => {
                    connection.note_request();
                    pipeline.refuse(connection, error.status(), &error.to_string());
                    return;
                }
            }
        }
    }

    /// True if the first bytes of a connection are HTTP/2's preface, or may become it; then the step is set.
    fn begins_http2(&mut self, connection: &Connection) -> bool {
        let preface = Preface::of(&self.input);
        let is_spoken = || self.snapshot.http2_of(connection.listener.id).is_some();
        self.step = match preface {
            Preface::Whole if is_spoken() => Step::Http2,
            Preface::Part if is_spoken() => Step::ReadHead { deadline: None },
            _ => return false,
        };
        true
    }

    /// Answers without a request (its head is malformed, or did not come); the connection ends.
    pub(crate) fn refuse(&mut self, connection: &Connection, status: u16, reason: &str) {
        // The head cannot be read, but its method can: a client that asks with HEAD takes any content for the next response.
        let rest = self.input.get(self.position..).unwrap_or_default();
        let method = match rest.trim_ascii_start().starts_with(b"HEAD ") {
            true => Method::Head,
            false => Method::Other,
        };
        let made = respond::refusal(connection, &self.snapshot, status, method);
        Unread {
            connection,
            snapshot: &self.snapshot,
            status,
            reason,
            head: &made.head.fields,
            body_bytes: made.body_bytes(),
        }
        .log();
        made.put(connection, &mut self.output);
        self.step = Step::Linger;
    }

    /// The client has gone in the middle of a head.
    pub(crate) fn broken_off(&self, connection: &Connection) {
        connection.note_request();
        Unread {
            connection,
            snapshot: &self.snapshot,
            status: 400,
            reason: "the client went away within the head of a request",
            head: &NO_FIELDS,
            body_bytes: 0,
        }
        .log();
    }
}
