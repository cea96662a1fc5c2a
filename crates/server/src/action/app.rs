//! Handing a request to an application, and its response to the client.
//!
//! The body has been read before (a slow client occupies no worker). The response goes from shared memory to the socket without a
//! copy while the socket takes it; what it does not take is absorbed into memory, up to [`ABSORBED_BYTES`], so that a slow client
//! does not hold the worker either; beyond that the worker waits.
//!
//! Must never: send a second head, a body that contradicts its `Content-Length`, or the end of a response that was cut short.

use std::future::poll_fn;
use std::io::{Cursor, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use rustix::net::SendFlags;
use smallvec::SmallVec;
use tutti_http::{
    DeclaredBody, Known, LAST_CHUNK, ResponseDecision, ResponseFraming, ResponseQuestion,
    chunk_head, frame_response,
};
use tutti_pool::{
    Application, Body, Exchange, ExchangeError, Level, Readable, Region, RequestHead, ResponseHead,
    SubmitError,
};
use tutti_sys::span::{Span, write_spans};

use crate::clock::now_millis;
use crate::connection::Connection;
use crate::connections::NEVER;
use crate::request::{Changes, Request, Step};
use crate::respond::{self, Page, Persistence};
use crate::sender::{Gone, Output};

/// Bytes of one response that are kept for a client that does not take them.
const ABSORBED_BYTES: usize = 512 * 1024;

/// A request on its way to an application.
pub(crate) struct Call {
    pub(crate) application: Arc<Application>,
    pub(crate) target: Option<Box<str>>,
    pub(crate) changes: Changes,
    pub(crate) body: Collected,
}

/// A request's body.
#[derive(Default)]
pub(crate) enum Collected {
    #[default]
    None,
    Memory(Vec<u8>),
    Spool(Region),
}

impl Call {
    pub(crate) fn new(
        application: Arc<Application>,
        target: Option<Box<str>>,
        changes: Changes,
    ) -> Self {
        Self {
            application,
            target,
            changes,
            body: Collected::None,
        }
    }
}

/// Collects a body: in memory while it is small, in the application's spool beyond that.
pub(crate) struct Collector<'a> {
    application: &'a Application,
    /// Larger bodies go to the spool.
    memory_limit: usize,
    body: Collected,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(application: &'a Application, memory_limit: usize) -> Self {
        Self {
            application,
            memory_limit,
            body: Collected::None,
        }
    }

    /// Adds bytes; the status if that is not possible.
    pub(crate) fn add(&mut self, data: &[u8], connection: &Connection) -> Result<(), u16> {
        let outcome = match &mut self.body {
            Collected::Spool(region) => region.append(data),
            Collected::None if data.len() <= self.memory_limit => {
                self.body = Collected::Memory(data.to_vec());
                Ok(())
            }
            Collected::Memory(bytes) if bytes.len() + data.len() <= self.memory_limit => {
                bytes.extend_from_slice(data);
                Ok(())
            }
            Collected::None => self.spool(&[], data),
            Collected::Memory(bytes) => {
                let bytes = std::mem::take(bytes);
                self.spool(&bytes, data)
            }
        };
        outcome.map_err(|error| {
            connection.local.complain(
                Level::Error,
                &format!("\"{}\": {error}", self.application.name()),
            );
            error.status()
        })
    }

    fn spool(&mut self, first: &[u8], second: &[u8]) -> Result<(), tutti_pool::SpoolError> {
        let mut region = self.application.spool().allocate()?;
        region.append(first)?;
        region.append(second)?;
        self.body = Collected::Spool(region);
        Ok(())
    }

    pub(crate) fn finish(self) -> Collected {
        self.body
    }
}

/// Runs a request through its application. What cannot be sent at once is in `output`.
pub(crate) async fn run(
    request: &Request<'_>,
    call: Call,
    output: &mut Output,
) -> Result<Step, Gone> {
    let connection = request.connection;
    // What was answered before must not wait for this.
    if !output.is_empty() {
        connection
            .flush(output, SendFlags::empty(), request.snapshot.timeouts.send)
            .await?;
    }
    connection.set_deadline(NEVER);
    let Call {
        application,
        target,
        changes,
        body,
    } = call;
    let mut exchange =
        match submit(request, &application, target.as_deref(), &changes, body).await? {
            Ok(exchange) => exchange,
            Err(error) => return Ok(submit_failed(request, &application, &error, output)),
        };
    let head = match unless_gone(connection, exchange.head()).await? {
        Ok(head) => head,
        Err(error) => return Ok(exchange_failed(request, &application, &error, output)),
    };
    let response = begin(request, &head, &exchange, &changes, output);
    let sent = transfer(request, &mut exchange, &response, output).await;
    request.finished(head.status, sent.body_bytes, &response.head);
    match sent.outcome {
        Ok(()) => Ok(Step::End(if sent.is_whole {
            response.persistence
        } else {
            Persistence::Close
        })),
        Err(gone) => Err(gone),
    }
}

async fn submit(
    request: &Request<'_>,
    application: &Arc<Application>,
    target: Option<&str>,
    changes: &Changes,
    body: Collected,
) -> Result<Result<Exchange, SubmitError>, Gone> {
    let view = request.view;
    let fields: SmallVec<[(&[u8], &[u8]); 32]> = view
        .fields()
        .map(|field| (field.name, field.value))
        .collect();
    let remote = Address::of(request.connection.peer.address());
    let local = Address::of(request.connection.local_address());
    let body_length = match &body {
        Collected::None => view.facts().content_length,
        Collected::Memory(bytes) => Some(bytes.len() as u64),
        Collected::Spool(region) => Some(region.len()),
    };
    let rewritten = changes.rewritten.as_deref();
    let head = RequestHead {
        method: view.method_text(),
        target: rewritten.map_or_else(|| view.origin_target(), |rewritten| &rewritten.target),
        path: rewritten.map_or_else(|| view.path(), |rewritten| &rewritten.path),
        query: view.query().unwrap_or_default(),
        version_minor: view.version_minor(),
        tls: false,
        scheme: b"http",
        remote_address: remote.text(),
        remote_port: remote.port,
        local_address: local.text(),
        local_port: local.port,
        server_name: view.host_name(),
        target_name: target.unwrap_or_default().as_bytes(),
        content_length: body_length,
        fields: &fields,
        arrived_ms: 0,
        deadline_ms: 0,
    };
    let body = match &body {
        Collected::Memory(bytes) => Body::Inline(bytes),
        _ => match body {
            Collected::Spool(region) => Body::Spooled(region),
            _ => Body::None,
        },
    };
    unless_gone(
        request.connection,
        application.submit(&head, body, request.arrived()),
    )
    .await
}

/// An address as text, in place; that of a unix socket is `unix:`, as in Unit's logs.
struct Address {
    /// 46 bytes is `INET6_ADDRSTRLEN` (inet_ntop(3)).
    text: Cursor<[u8; 46]>,
    port: u16,
}

impl Address {
    fn of(address: Option<SocketAddr>) -> Self {
        let mut text = Cursor::new([0; 46]);
        // Any address fits.
        let _ = match address {
            Some(address) => write!(text, "{}", address.ip()),
            None => text.write_all(b"unix:"),
        };
        Self {
            text,
            port: address.map_or(0, |address| address.port()),
        }
    }

    fn text(&self) -> &[u8] {
        let length = usize::try_from(self.text.position()).unwrap_or(0);
        self.text.get_ref().get(..length).unwrap_or_default()
    }
}

/// Waits for `future`, but not longer than the client is there. A client that closes its sending side after a request counts as gone:
/// closing a connection altogether looks the same from here.
async fn unless_gone<F: Future>(connection: &Connection, future: F) -> Result<F::Output, Gone> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        match connection.io.poll_read_ready(cx) {
            Poll::Ready(Ok(guard)) if guard.ready().is_read_closed() => {
                Poll::Ready(Err(Gone::Closed))
            }
            Poll::Ready(Err(_)) => Poll::Ready(Err(Gone::Closed)),
            // More requests behind this one wait in the kernel; then the end of the connection shows when the answer is sent.
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn submit_failed(
    request: &Request<'_>,
    application: &Application,
    error: &SubmitError,
    output: &mut Output,
) -> Step {
    let level = match error {
        SubmitError::QueueFull { .. } | SubmitError::Timeout | SubmitError::Stopped => Level::Warn,
        _ => Level::Error,
    };
    request
        .connection
        .local
        .complain(level, &format!("\"{}\": {error}", application.name()));
    let retry_after = match error {
        SubmitError::QueueFull { retry_after } => Some(retry_after.as_secs().max(1)),
        SubmitError::Timeout => Some(1),
        _ => None,
    };
    fail(request, error.status(), retry_after, output)
}

fn exchange_failed(
    request: &Request<'_>,
    application: &Application,
    error: &ExchangeError,
    output: &mut Output,
) -> Step {
    // The pool has logged the deaths and overdue requests of its workers, which it knows more about.
    if matches!(
        error,
        ExchangeError::Aborted
            | ExchangeError::Timeout { begun: false }
            | ExchangeError::StartFailed(_)
    ) {
        request.connection.local.complain(
            Level::Error,
            &format!("\"{}\": {error}", application.name()),
        );
    }
    fail(request, error.status(), None, output)
}

fn fail(request: &Request<'_>, status: u16, retry_after: Option<u64>, output: &mut Output) -> Step {
    let mut fields = Vec::new();
    if let Some(seconds) = retry_after {
        fields.extend_from_slice(b"Retry-After: ");
        respond::append_number(&mut fields, seconds);
        fields.extend_from_slice(b"\r\n");
    }
    let persistence = request.persistence();
    let page = Page {
        status,
        is_head: request.is_head(),
        persistence,
        fields: &fields,
    };
    request.page(&page, &Changes::default(), &mut output.bytes);
    Step::End(persistence)
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

/// How sending a response ended.
struct Sent {
    body_bytes: u64,
    /// The client got what it was promised.
    is_whole: bool,
    outcome: Result<(), Gone>,
}

/// Sends the body. What the socket does not take at once at the end stays in `output`.
async fn transfer(
    request: &Request<'_>,
    exchange: &mut Exchange,
    response: &Response,
    output: &mut Output,
) -> Sent {
    let mut transfer = Transfer {
        framing: response.framing,
        body_bytes: 0,
        is_whole: false,
    };
    let outcome = transfer.run(request, exchange, output).await;
    Sent {
        body_bytes: transfer.body_bytes,
        is_whole: transfer.is_whole,
        outcome,
    }
}

struct Transfer {
    framing: ResponseFraming,
    body_bytes: u64,
    is_whole: bool,
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
            self.send(connection.io.get_ref(), &readable, output)?;
            exchange.consume(length);
            if finished {
                return self.check_whole();
            }
            if output.is_empty() {
                connection.set_deadline(NEVER);
                if unless_gone(connection, exchange.more()).await?.is_err() {
                    return Err(Gone::Closed);
                }
            } else if output.pending().len() < ABSORBED_BYTES {
                let deadline = now_millis().saturating_add(send_timeout);
                tokio::select! {
                    sent = connection.attempt(|socket| progress(output, socket), deadline) => sent?,
                    more = exchange.more() => if more.is_err() { return Err(Gone::Closed) },
                }
            } else {
                let deadline = now_millis().saturating_add(send_timeout);
                connection
                    .attempt(|socket| progress(output, socket), deadline)
                    .await?;
            }
        }
    }

    /// Sends what is in `output` and then `readable`, in one call if the socket takes it; the rest is kept in `output`.
    fn send(
        &mut self,
        socket: &OwnedFd,
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
        let pending = output.pending().len();
        let total = pending + length + suffix.len();
        if total == 0 {
            return Ok(());
        }
        let spans = [
            Span::of(output.pending()),
            Span {
                ptr: first.ptr,
                len: first.len,
            },
            Span {
                ptr: second.ptr,
                len: second.len,
            },
            Span::of(suffix),
        ];
        let sent = match write_spans(socket.as_fd(), &spans) {
            Ok(sent) => sent,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) =>
            {
                0
            }
            Err(_) => return Err(Gone::Closed),
        };
        if sent < total {
            first.copy_to(&mut output.bytes);
            second.copy_to(&mut output.bytes);
            output.bytes.extend_from_slice(suffix);
            output.advance(sent);
        } else {
            output.advance(pending);
        }
        Ok(())
    }

    /// The application has finished: did it keep its word?
    fn check_whole(&mut self) -> Result<(), Gone> {
        match self.framing {
            // Less than was declared: the client waits for the rest, and must see that it does not come.
            ResponseFraming::Length(declared) if self.body_bytes < declared => Err(Gone::Closed),
            _ => {
                self.is_whole = true;
                Ok(())
            }
        }
    }
}

/// Sends more of `output`; false if the socket is full.
fn progress(output: &mut Output, socket: &OwnedFd) -> Result<bool, Gone> {
    let before = output.pending().len();
    Ok(output.try_send(socket, SendFlags::empty())? || output.pending().len() < before)
}
