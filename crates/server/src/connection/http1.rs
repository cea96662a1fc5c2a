//! HTTP/1: the requests in a connection's bytes, one after the other.
//!
//! Every complete request in the input is answered into one output buffer, which is sent in one write. The first one that has to wait stops
//! the others, with its [`ExchangeStep`]; [`run`] continues with it, boxed while that lasts.

use std::pin::Pin;
use std::time::Instant;

use tutti_conn::clock::now_millis;
use tutti_conn::output::Gone;
use tutti_http::http2::Preface;
use tutti_http::{NO_FIELDS, Progress};

use crate::boxed::boxed;
use crate::exchange::Exchange;
use crate::exchange::arrival;
use crate::exchange::client::ClientSide;
use crate::exchange::messages::Messages;
use crate::exchange::refusals::Unread;
use crate::exchange_step::ExchangeStep;
use crate::local::Local;
use crate::pipeline::{self, Ending};

/// If more than this waits to be sent, pipelined requests wait: a client that does not read must not fill the memory.
const OUTPUT_BYTES: u64 = 64 * 1024;

/// The next thing to do on a connection.
pub(crate) enum Next {
    /// Read more of a head, or nothing, if everything that has been read is answered.
    Read,
    /// Send the output, then look for further requests.
    Flush,
    /// Continue this exchange, which is boxed from here on: one that is answered at once needs no box.
    Exchange(Box<Exchange>, ExchangeStep),
    /// The client speaks HTTP/2.
    Http2,
}

/// Unfinished requests of a connection.
pub(crate) struct Reader {
    pub(crate) messages: Messages,
    /// When the first byte of the current head was received.
    head_begun: Option<Instant>,
    /// No request has been read on the connection.
    may_be_http2: bool,
}

/// Unfinished requests, with the next step.
pub(crate) struct Work {
    pub(crate) reader: Reader,
    pub(crate) next: Next,
}

impl Reader {
    /// `is_first`: `input` begins with the first byte of the connection.
    pub(crate) fn new(client: &ClientSide, input: Vec<u8>, is_first: bool) -> Self {
        Self {
            messages: Messages::new(client, input),
            head_begun: None,
            may_be_http2: is_first,
        }
    }

    /// Returns the buffers to the thread.
    pub(crate) fn give_back(self, local: &Local) {
        self.messages.give_back(local);
    }

    /// Answers complete requests with the configuration in force, until one needs more bytes or has to wait.
    pub(crate) fn answer_complete(&mut self, client: &ClientSide) -> Next {
        self.messages.renew(client);
        if self.may_be_http2
            && let Some(next) = self.begins_http2(client)
        {
            return next;
        }
        let messages = &mut self.messages;
        loop {
            let rest = messages.input.get(messages.position..).unwrap_or_default();
            let settings = messages.snapshot.settings.get(messages.settings);
            let length = match messages.head.parse(rest, &settings.limits) {
                Ok(Progress::Incomplete) => {
                    if !rest.is_empty() {
                        self.head_begun.get_or_insert_with(Instant::now);
                    }
                    return Next::Read;
                }
                Ok(Progress::Complete { length }) => length,
                Err(error) => {
                    let exchange = Exchange::new(client, messages.settings, self.head_begun.take());
                    messages.refuse(client, &exchange, error.status(), &error.to_string());
                    return Next::Exchange(Box::new(exchange), ExchangeStep::Linger);
                }
            };
            self.may_be_http2 = false;
            let exchange = Exchange::new(client, messages.settings, self.head_begun.take());
            let (request, output) = messages.parts(client, &exchange);
            arrival::note(&request);
            match pipeline::start(&request, output) {
                // It counts in concurrency limits until its client has the response.
                ExchangeStep::End(persistence)
                    if persistence.is_open()
                        && (!exchange.admission.holds_permits()
                            || client.channel.try_send(output) == Ok(true)) =>
                {
                    messages.position += length;
                }
                step => return Next::Exchange(Box::new(exchange), step),
            }
            if messages.output.len() > OUTPUT_BYTES {
                return Next::Flush;
            }
        }
    }

    /// Returns the next step if the first bytes of a connection are HTTP/2's preface, or may become it.
    fn begins_http2(&self, client: &ClientSide) -> Option<Next> {
        let messages = &self.messages;
        let is_spoken = || messages.snapshot.http2_of(client.listener.id).is_some();
        match Preface::of(&messages.input) {
            Preface::Whole if is_spoken() => Some(Next::Http2),
            Preface::Part if is_spoken() => Some(Next::Read),
            _ => None,
        }
    }

    /// Reads the rest of a head; `None`: there is nothing more to do.
    async fn read_head(&mut self, client: &ClientSide) -> Result<Option<Next>, Gone> {
        let timeouts = self.messages.listener_settings().timeouts;
        client
            .flush(&mut self.messages.output, timeouts.send)
            .await?;
        if self.messages.is_done() {
            return Ok(None);
        }
        self.messages.input.drain(..self.messages.position);
        self.messages.position = 0;
        let deadline = now_millis().saturating_add(timeouts.header_read);
        loop {
            match client.read_more(&mut self.messages.input, deadline).await {
                Ok(()) => {}
                Err(Gone::TimedOut) => {
                    let exchange =
                        Exchange::new(client, self.messages.settings, self.head_begun.take());
                    let reason = "the head did not arrive in time (`header_read_timeout`)";
                    self.messages.refuse(client, &exchange, 408, reason);
                    return Ok(Some(Next::Exchange(
                        Box::new(exchange),
                        ExchangeStep::Linger,
                    )));
                }
                Err(gone) => {
                    self.broken_off(client);
                    return Err(gone);
                }
            }
            match self.answer_complete(client) {
                // Still the same head.
                Next::Read if self.messages.position == 0 => {}
                next => return Ok(Some(next)),
            }
        }
    }

    /// Called when the client has disconnected in the middle of a head.
    fn broken_off(&mut self, client: &ClientSide) {
        let exchange = Exchange::new(client, self.messages.settings, self.head_begun.take());
        Unread {
            client,
            exchange: &exchange,
            snapshot: &self.messages.snapshot,
            status: 400,
            reason: "the client disconnected within the head of a request",
            head: &NO_FIELDS,
            body_bytes: 0,
        }
        .log();
    }
}

/// Handles the requests of a connection in a boxed future, so that an idle connection does not pay for it.
pub(crate) fn start<'c>(
    client: &'c ClientSide,
    work: &'c mut Work,
) -> Pin<Box<impl Future<Output = Ending> + use<'c>>> {
    boxed(|| run(client, work))
}

/// Handles the requests of a connection until it is idle or ends.
async fn run(client: &ClientSide, work: &mut Work) -> Ending {
    let Work { reader, next } = work;
    loop {
        *next = match std::mem::replace(next, Next::Read) {
            Next::Exchange(mut exchange, step) => {
                match pipeline::run(client, &mut reader.messages, &mut exchange, step).await {
                    Ending::Idle => {
                        reader.messages.position = reader.messages.body_start();
                        reader.answer_complete(client)
                    }
                    ending => return ending,
                }
            }
            Next::Http2 => return Ending::Http2(std::mem::take(&mut reader.messages.input)),
            Next::Flush => {
                let timeout = reader.messages.listener_settings().timeouts.send;
                match client.flush(&mut reader.messages.output, timeout).await {
                    Ok(()) => reader.answer_complete(client),
                    Err(_) => return Ending::Abort,
                }
            }
            Next::Read => match reader.read_head(client).await {
                Ok(Some(next)) => next,
                Ok(None) => return Ending::Idle,
                Err(_) => return Ending::Abort,
            },
        };
    }
}
