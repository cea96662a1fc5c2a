//! The response of an application on its way to the client.
//!
//! It goes from shared memory to the socket without a copy while the socket takes it; what it does not take is absorbed into memory,
//! up to [`ABSORBED_BYTES`], so that a slow client does not hold the worker; beyond that the worker waits.
//!
//! Must never: send a second head, a body that contradicts its `Content-Length`, or the end of a response that was cut short.

use tutti_http::{
    DeclaredBody, Known, LAST_CHUNK, ResponseDecision, ResponseFraming, ResponseQuestion,
    chunk_head, frame_response,
};
use tutti_pool::{Exchange, Readable, ResponseHead};

use crate::channel::Channel;
use crate::clock::now_millis;
use crate::connections::NEVER;
use crate::output::{Gone, Output};
use crate::request::{Changes, Request, Step};
use crate::respond::{self, Persistence};
use crate::sender::unless_gone;
use crate::socket::BodyPart;

/// Bytes of one response that are kept for a client that does not take them.
const ABSORBED_BYTES: usize = 512 * 1024;

/// Sends the response whose head has come. What the socket does not take at once at the end stays in `output`.
pub(crate) async fn send(
    request: &Request<'_>,
    head: &ResponseHead,
    exchange: &mut Exchange,
    changes: &Changes,
    output: &mut Output,
) -> Result<Step, Gone> {
    let response = begin(request, head, exchange, changes, output);
    let mut transfer = Transfer {
        framing: response.framing,
        body_bytes: 0,
    };
    let outcome = transfer.run(request, exchange, output).await;
    request.finished(head.status, transfer.body_bytes, &response.head);
    outcome.map(|()| Step::End(response.persistence))
}

/// A response whose head has been decided.
struct Response {
    framing: ResponseFraming,
    persistence: Persistence,
    /// The head, kept where the access log may ask for its fields.
    head: Vec<u8>,
}

/// Writes the head of the response.
fn begin(
    request: &Request<'_>,
    head: &ResponseHead,
    exchange: &Exchange,
    changes: &Changes,
    output: &mut Output,
) -> Response {
    let mut declared = None;
    let mut own = respond::Own {
        server: true,
        date: true,
    };
    for (name, value) in head.fields() {
        match Known::from_name(name) {
            Known::ContentLength => {
                declared = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.trim().parse::<u64>().ok())
            }
            Known::Date => own.date = false,
            Known::Server => own.server = false,
            _ => {}
        }
    }
    // A response that is whole already needs no chunks.
    let whole = || {
        exchange
            .ready()
            .ok()
            .filter(|readable| readable.finished)
            .map(|readable| readable.len() as u64)
    };
    let body = declared
        .or_else(whole)
        .map_or(DeclaredBody::Unknown, DeclaredBody::Length);
    let question = ResponseQuestion {
        version_minor: request.view.version_minor(),
        method: request.view.method(),
        status: head.status,
        body,
        keep_alive: request.persistence().is_open(),
    };
    let decision = frame_response(&question);
    let out = &mut output.bytes;
    let start = out.len();
    respond::begin_with(
        out,
        &request.connection.local,
        request.snapshot,
        head.status,
        own,
    );
    for (name, value) in head.fields() {
        // Framing and connection are the server's to say (RFC 9112 §6, RFC 9110 §7.6.1).
        let is_ours = matches!(
            Known::from_name(name),
            Known::ContentLength
                | Known::TransferEncoding
                | Known::Connection
                | Known::KeepAlive
                | Known::Trailer
                | Known::Upgrade
        );
        if !is_ours {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    let persistence = end(out, &decision);
    request.adjust(head.status, changes, out, start);
    let keeps_head = request.snapshot.access_log.is_some();
    let head = if keeps_head {
        out.get(start..).unwrap_or_default().to_vec()
    } else {
        Vec::new()
    };
    Response {
        framing: decision.framing,
        persistence,
        head,
    }
}

fn end(out: &mut Vec<u8>, decision: &ResponseDecision) -> Persistence {
    if let Some(length) = decision.content_length {
        out.extend_from_slice(b"Content-Length: ");
        respond::append_number(out, length);
        out.extend_from_slice(b"\r\n");
    } else if decision.framing == ResponseFraming::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    let persistence = decision.connection.into();
    respond::end(out, persistence);
    persistence
}

/// Sending a body.
struct Transfer {
    framing: ResponseFraming,
    body_bytes: u64,
}

impl Transfer {
    async fn run(
        &mut self,
        request: &Request<'_>,
        exchange: &mut Exchange,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let connection = request.connection;
        let send_timeout = request.snapshot.timeouts.send;
        loop {
            // A worker that died, or gave up, in the middle: the client must see that the response is not whole.
            let Ok(readable) = exchange.ready() else {
                return Err(Gone::Closed);
            };
            let (length, finished) = (readable.len(), readable.finished);
            self.send(&connection.channel, &readable, output)?;
            exchange.consume(length);
            if finished {
                return self.check_whole();
            }
            if connection.channel.has_sent(output) {
                connection.set_deadline(NEVER);
                if unless_gone(connection, exchange.more()).await?.is_err() {
                    return Err(Gone::Closed);
                }
            } else if output.pending().len() < ABSORBED_BYTES {
                let deadline = now_millis().saturating_add(send_timeout);
                tokio::select! {
                    sent = connection.send_some(output, deadline) => sent?,
                    more = exchange.more() => if more.is_err() { return Err(Gone::Closed) },
                }
            } else {
                let deadline = now_millis().saturating_add(send_timeout);
                connection.send_some(output, deadline).await?;
            }
        }
    }

    /// Sends what is in `output` and then `readable`, framed, as far as the channel takes it; the rest is kept in `output`.
    fn send(
        &mut self,
        channel: &Channel,
        readable: &Readable<'_>,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let mut length = readable.len();
        let mut suffix: &[u8] = b"";
        match self.framing {
            ResponseFraming::NoBody => length = 0,
            // More than was declared is not sent: it would be taken for the next response.
            ResponseFraming::Length(declared) => {
                length =
                    length.min(usize::try_from(declared - self.body_bytes).unwrap_or(usize::MAX))
            }
            ResponseFraming::Chunked => {
                if length > 0 {
                    output
                        .bytes
                        .extend_from_slice(chunk_head(length, &mut [0; 18]));
                    suffix = b"\r\n";
                }
                if readable.finished {
                    suffix = if length > 0 {
                        b"\r\n0\r\n\r\n"
                    } else {
                        LAST_CHUNK
                    };
                }
            }
            ResponseFraming::UntilClose => {}
        }
        self.body_bytes += length as u64;
        let [first, second] = readable.spans;
        let first = first.truncated(length);
        let second = second.truncated(length - first.len);
        let part = BodyPart {
            spans: [first, second],
            suffix,
        };
        channel.send_body(output, &part)
    }

    /// The application has finished: did it keep its word?
    fn check_whole(&self) -> Result<(), Gone> {
        match self.framing {
            // Less than was declared: the client waits for the rest, and must see that it does not come.
            ResponseFraming::Length(declared) if self.body_bytes < declared => Err(Gone::Closed),
            _ => Ok(()),
        }
    }
}
