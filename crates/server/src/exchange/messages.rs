//! The messages of exchanges in memory: received requests, and unsent responses.
//!
//! A connection of HTTP/1 has them while it is not idle, for all the requests in its input; an HTTP/2 or HTTP/3 stream for its one request.
//! Their buffers belong to the thread.

use std::sync::Arc;

use tutti_conn::output::Output;
use tutti_http::{BodyDecoder, Method, RequestHead};
use tutti_routing::ScopeNumber;

use crate::exchange::Exchange;
use crate::exchange::body::{BodyTerms, ClientBody};
use crate::exchange::client::ClientSide;
use crate::exchange::refusals::Unread;
use crate::exchange::request::Request;
use crate::exchange::respond;
use crate::local::Local;
use crate::snapshot::{RequestSettings, Snapshot};

/// The bytes of requests and responses, and their configuration.
pub(crate) struct Messages {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The number of the listener there.
    listener: Option<usize>,
    /// The settings of the listener's requests.
    pub(crate) settings: ScopeNumber,
    /// Received bytes; those before `position` have been processed.
    pub(crate) input: Vec<u8>,
    pub(crate) position: usize,
    /// The head that is being read or processed, over `input[position..]`.
    pub(crate) head: Box<RequestHead>,
    pub(crate) output: Output,
}

impl Messages {
    /// For a client that has sent `input`.
    pub(crate) fn new(client: &ClientSide, input: Vec<u8>) -> Self {
        let local = &client.local;
        let (snapshot, listener) = local.snapshot_at(&client.listener);
        Self {
            settings: snapshot.settings_at(listener),
            snapshot,
            listener,
            input,
            position: 0,
            head: local.take_head(),
            output: Output::new(local.buffers.take()),
        }
    }

    /// Takes the configuration in force, so that a client that always has sent the beginning of its next request does not keep the
    /// former one. No exchange may be under way.
    pub(crate) fn renew(&mut self, client: &ClientSide) {
        if client.local.has_in_force(&self.snapshot) {
            return;
        }
        (self.snapshot, self.listener) = client.local.snapshot_at(&client.listener);
        self.settings = self.snapshot.settings_at(self.listener);
    }

    /// The settings before a request is routed.
    pub(crate) fn listener_settings(&self) -> &RequestSettings {
        self.snapshot.settings.get(self.settings)
    }

    /// The settings of the request of this exchange.
    pub(crate) fn settings(&self, exchange: &Exchange) -> &RequestSettings {
        self.snapshot.settings.get(exchange.settings.get())
    }

    /// True if everything that has been read is answered.
    pub(crate) fn is_done(&self) -> bool {
        self.position >= self.input.len()
    }

    /// The unprocessed bytes.
    pub(crate) fn rest(&self) -> &[u8] {
        self.input.get(self.position..).unwrap_or_default()
    }

    /// The request whose head is at the front of the input.
    pub(crate) fn request<'a>(
        &'a self,
        client: &'a ClientSide,
        exchange: &'a Exchange,
    ) -> Request<'a> {
        let view = self.head.view(self.rest());
        Request::new(client, exchange, (&self.snapshot, self.listener), view)
    }

    /// That request, and the output for its response.
    pub(crate) fn parts<'a>(
        &'a mut self,
        client: &'a ClientSide,
        exchange: &'a Exchange,
    ) -> (Request<'a>, &'a mut Output) {
        let rest = self.input.get(self.position..).unwrap_or_default();
        let view = self.head.view(rest);
        let request = Request::new(client, exchange, (&self.snapshot, self.listener), view);
        (request, &mut self.output)
    }

    /// Where the body of that request begins in the input.
    pub(crate) fn body_start(&self) -> usize {
        self.position + self.head.view(self.rest()).length()
    }

    /// The body of that request, and the output for its response.
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

    /// That request without its body, which is read in `input` from now on. What is left there at the end must be given to
    /// [`take_back`](Self::take_back).
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

    /// Takes the rest of a body's input, which belongs after the head: the next request.
    pub(crate) fn take_back(&mut self, client: &ClientSide, input: Vec<u8>) {
        self.input.extend_from_slice(&input);
        client.local.buffers.give(input);
    }

    /// Answers an exchange without a valid request (its head is malformed, or did not arrive); the connection ends.
    pub(crate) fn refuse(
        &mut self,
        client: &ClientSide,
        exchange: &Exchange,
        status: u16,
        reason: &str,
    ) {
        // The head cannot be parsed, but its method can: a client that sent HEAD takes any content for the next response.
        let method = match self.rest().trim_ascii_start().starts_with(b"HEAD ") {
            true => Method::Head,
            false => Method::Other,
        };
        let made = respond::refusal(client, self.settings(exchange), status, method);
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

    /// Returns the buffers to the thread.
    pub(crate) fn give_back(self, local: &Local) {
        let input = self.give_back_to_reuse_input(local);
        local.buffers.give(input);
    }

    /// Returns the buffers to the thread, except that of the input, which is for the next read.
    pub(crate) fn give_back_to_reuse_input(self, local: &Local) -> Vec<u8> {
        let (buffer, fields) = self.output.into_memory();
        local.buffers.give(buffer);
        local.give_fields(fields);
        local.give_head(self.head);
        self.input
    }
}
