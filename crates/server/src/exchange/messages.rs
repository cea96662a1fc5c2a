//! The messages of exchanges in memory: the requests that have come in, and the responses that have not gone out.
//!
//! A connection of HTTP/1 has them while it is not idle, for all the requests in its input; a stream of HTTP/2 or 3 for its one request. Their buffers are
//! the thread's.

use std::sync::Arc;

use tutti_conn::output::Output;
use tutti_http::{BodyDecoder, Method, RequestHead};

use crate::exchange::Exchange;
use crate::exchange::body::{BodyTerms, ClientBody};
use crate::exchange::client::ClientSide;
use crate::exchange::refusals::Unread;
use crate::exchange::request::Request;
use crate::exchange::respond;
use crate::local::Local;
use crate::snapshot::Snapshot;

/// The bytes of requests and responses, and the configuration that they are for.
pub(crate) struct Messages {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Bytes read; those before `position` are done with.
    pub(crate) input: Vec<u8>,
    pub(crate) position: usize,
    /// The head being read or acted on, over `input[position..]`.
    pub(crate) head: Box<RequestHead>,
    pub(crate) output: Output,
}

impl Messages {
    /// The messages of a client that has sent `input`.
    pub(crate) fn new(client: &ClientSide, input: Vec<u8>) -> Self {
        let local = &client.local;
        Self {
            snapshot: local.snapshot_of(&client.listener),
            input,
            position: 0,
            head: local.take_head(),
            output: Output::new(local.buffers.take()),
        }
    }

    /// True if all that has been read is answered.
    pub(crate) fn is_done(&self) -> bool {
        self.position >= self.input.len()
    }

    /// The bytes that are not done with.
    pub(crate) fn rest(&self) -> &[u8] {
        self.input.get(self.position..).unwrap_or_default()
    }

    /// The request whose head is in front of the input.
    pub(crate) fn request<'a>(
        &'a self,
        client: &'a ClientSide,
        exchange: &'a Exchange,
    ) -> Request<'a> {
        let view = self.head.view(self.rest());
        Request::new(client, exchange, &self.snapshot, view)
    }

    /// That request, and where its response goes.
    pub(crate) fn parts<'a>(
        &'a mut self,
        client: &'a ClientSide,
        exchange: &'a Exchange,
    ) -> (Request<'a>, &'a mut Output) {
        let rest = self.input.get(self.position..).unwrap_or_default();
        let request = Request::new(client, exchange, &self.snapshot, self.head.view(rest));
        (request, &mut self.output)
    }

    /// Where the body of that request begins in the input.
    pub(crate) fn body_start(&self) -> usize {
        self.position + self.head.view(self.rest()).length()
    }

    /// The body of that request, and where its response goes.
    pub(crate) fn body<'a>(
        &'a mut self,
        client: &'a ClientSide,
        exchange: &'a Exchange,
        decoder: BodyDecoder,
    ) -> (ClientBody<'a>, &'a mut Output) {
        let terms = BodyTerms::of(&self.request(client, exchange), decoder);
        let start = self.body_start();
        let body = ClientBody::new((client, exchange), &mut self.input, start, terms);
        (body, &mut self.output)
    }

    /// That request beside its body, which is read in `input` from now on. What is left there in the end is to be taken back.
    pub(crate) fn detach_body<'a>(
        &'a mut self,
        client: &'a ClientSide,
        exchange: &'a Exchange,
        decoder: BodyDecoder,
        input: &'a mut Vec<u8>,
    ) -> (Request<'a>, ClientBody<'a>, &'a mut Output) {
        let start = self.body_start();
        input.extend(self.input.drain(start.min(self.input.len())..));
        let (request, output) = self.parts(client, exchange);
        let terms = BodyTerms::of(&request, decoder);
        let body = ClientBody::new((client, exchange), input, 0, terms);
        (request, body, output)
    }

    /// Takes back what is left of a body's input in the end: the next request, behind the head.
    pub(crate) fn take_back(&mut self, client: &ClientSide, input: Vec<u8>) {
        self.input.extend_from_slice(&input);
        client.local.buffers.give(input);
    }

    /// Answers an exchange without a request (its head is malformed, or did not come); the connection ends.
    pub(crate) fn refuse(
        &mut self,
        client: &ClientSide,
        exchange: &Exchange,
        status: u16,
        reason: &str,
    ) {
        // The head cannot be read, but its method can: a client that asks with HEAD takes any content for the next response.
        let method = match self.rest().trim_ascii_start().starts_with(b"HEAD ") {
            true => Method::Head,
            false => Method::Other,
        };
        let made = respond::refusal(client, &self.snapshot, status, method);
        Unread {
            client,
            exchange,
            snapshot: &self.snapshot,
            status,
            reason,
            head: &made.head.fields,
            body_bytes: made.body_bytes(),
        }
        .log();
        made.put(client, &mut self.output);
    }

    /// Gives the buffers back to the thread.
    pub(crate) fn give_back(self, local: &Local) {
        local.buffers.give(self.input);
        local.buffers.give(self.output.bytes);
        local.give_head(self.head);
    }
}
