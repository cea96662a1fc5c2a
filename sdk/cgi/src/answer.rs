//! The answer of a script, from its output to the client, while the request's body goes to its input.
//!
//! What must never happen: an answer that its script's end has cut short and that looks whole; waiting for one of client and script while the
//! other has something to say.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;
use tutti_event_loop::unless_gone;
use tutti_http::{
    BodyDecoder, BodyError, CGI_STATUS_LINE, HeadError, Known, MessageLimits, Method, Progress,
    ResponseHead, ResponseView,
};
use tutti_sys::process::Ended;
use tutti_worker::{ClientGone, Exchange, ResponseHeadError};

use crate::process::ScriptProcess;

/// Bytes that are moved at once.
const PIECE: usize = 64 * 1024;

/// The time that a script has to finish when the client has its whole answer and has gone: that of WebAssembly's instances.
const TO_FINISH: Duration = Duration::from_secs(5);

/// Most bytes of a script's output that a message shows.
const MOST_SHOWN: usize = 60;

/// Why a request has no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The client has gone, or the time is up.
    #[error("the client has gone")]
    Gone,
    #[error("the body of its request cannot be read: {0}")]
    RequestBody(io::Error),
    #[error("its output cannot be read: {0}")]
    Output(io::Error),
    #[error("it wrote nothing, and {0}")]
    Nothing(Ended),
    #[error("its head, which begins with {shown:?}, has no empty line at its end, and it {end}")]
    NoEnd { shown: String, end: Ended },
    #[error("it does not begin with a CGI head: {error}; it begins with {shown:?}{hint}")]
    Head {
        error: HeadError,
        shown: String,
        hint: &'static str,
    },
    #[error(
        "its head has none of the fields `Content-Type`, `Location` and `Status` (RFC 3875 §6.2); it begins with {0:?}"
    )]
    NoField(String),
    #[error("its head cannot be sent: {0}")]
    Unusable(ResponseHeadError),
    #[error("its `Content-Length` is wrong: {0}")]
    Body(BodyError),
    #[error("it {end}, {left} bytes short of its `Content-Length`")]
    CutShort { left: u64, end: Ended },
    #[error(
        "it and its child processes use {0} bytes of memory, more than `limits.memory_max`, and are killed"
    )]
    Memory(u64),
    #[error("it {0} during its response")]
    Killed(Ended),
}

impl From<ClientGone> for Failure {
    fn from(_: ClientGone) -> Self {
        Failure::Gone
    }
}

/// Passes on the answer of `script`, until that has ended; returns how it ended.
pub(crate) async fn pass_on(
    exchange: &Exchange,
    script: &mut ScriptProcess,
) -> Result<Ended, Failure> {
    let mut transfer = Transfer {
        exchange,
        script,
        received: CGI_STATUS_LINE.to_vec(),
        input: Vec::new(),
        unsent: 0..0,
        is_flushed: true,
    };
    let mut head = ResponseHead::new();
    let length = transfer.receive_head(&mut head).await?;
    let mut body = begin(exchange, head.view(&transfer.received))?;
    transfer.is_flushed = false;
    transfer.received.drain(..length);
    loop {
        let step = body.decode(&transfer.received).map_err(Failure::Body)?;
        if !step.data.is_empty() {
            transfer.send(step.data).await?;
        }
        transfer.received.drain(..step.consumed);
        if step.is_finished {
            // The rest is not for the client, but the script must be able to write it.
            transfer.received.clear();
        } else if !transfer.received.is_empty() {
            continue;
        }
        match transfer.receive().await {
            Ok(0) => break,
            Ok(_) => {}
            // It has the whole answer, so its leaving is no reason to end the script at once.
            Err(Failure::Gone) if step.is_finished => {
                let drained = timeout(TO_FINISH, transfer.drain()).await;
                drained.unwrap_or(Err(Failure::Gone))?;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    let end = transfer.end();
    match (body.remaining(), end) {
        (Some(left), end) if left > 0 => Err(Failure::CutShort { left, end }),
        (Some(_), end) => Ok(end),
        // Nothing but its end shows that the answer is whole.
        (None, Ended::Signal(..)) => Err(Failure::Killed(end)),
        (None, Ended::Code(_)) => Ok(end),
    }
}

/// Begins the answer to the client; returns the rule for the end of its body.
fn begin(exchange: &Exchange, view: ResponseView<'_>) -> Result<BodyDecoder, Failure> {
    let method = Method::from_bytes(exchange.request().method());
    exchange
        .start(view.status(), view.forwarded())
        .map_err(Failure::Unusable)?;
    let length = view.body_length(method);
    BodyDecoder::new(length, &MessageLimits::of_a_program()).map_err(Failure::Body)
}

/// A request and its answer on their ways.
struct Transfer<'t> {
    exchange: &'t Exchange,
    script: &'t mut ScriptProcess,
    /// Output of the script that has not been used. In front of its head is a status line.
    received: Vec<u8>,
    /// A part of the request's body.
    input: Vec<u8>,
    /// The part of it that the script has not taken.
    unsent: Range<usize>,
    /// The client has all that was written.
    is_flushed: bool,
}

impl Transfer<'_> {
    /// Reads more of the script's output; 0 when it has ended.
    async fn receive(&mut self) -> Result<usize, Failure> {
        let exchange = self.exchange;
        let start = self.received.len();
        self.received.resize(start + PIECE, 0);
        let outcome = unless_gone(exchange, |context| {
            if let Err(failure) = self.feed(context) {
                return Poll::Ready(Err(failure));
            }
            let room = self.received.get_mut(start..).unwrap_or_default();
            let read = self.script.poll_read(context, room);
            if read.is_pending() && !std::mem::replace(&mut self.is_flushed, true) {
                exchange.flush();
            }
            read.map_err(Failure::Output)
        });
        let count = outcome.await??;
        self.received.truncate(start + count);
        Ok(count)
    }

    /// Discards the rest of the script's output.
    async fn drain(&mut self) -> Result<(), Failure> {
        self.script.close_input();
        self.received.resize(PIECE, 0);
        loop {
            let read = poll_fn(|context| self.script.poll_read(context, &mut self.received));
            if read.await.map_err(Failure::Output)? == 0 {
                return Ok(());
            }
        }
    }

    /// Gives the script as much of the request's body as it takes.
    fn feed(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        while self.script.takes_input() {
            if !self.unsent.is_empty() {
                let rest = self.input.get(self.unsent.clone()).unwrap_or_default();
                match self.script.poll_write(context, rest) {
                    Poll::Ready(count) => self.unsent.start += count,
                    Poll::Pending => return Ok(()),
                }
                continue;
            }
            self.input.resize(PIECE, 0);
            match self.exchange.try_read_body(&mut self.input) {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => self.script.close_input(),
                Ok(Some(count)) => self.unsent = 0..count,
                // Its end would look like that of a whole body.
                Err(_) if self.exchange.is_client_gone() => return Err(Failure::Gone),
                Err(error) => return Err(Failure::RequestBody(error)),
            }
        }
        Ok(())
    }

    /// Reads until the head is there; returns its length.
    async fn receive_head(&mut self, head: &mut ResponseHead) -> Result<usize, Failure> {
        let limits = MessageLimits::of_a_program();
        loop {
            let bad = |error: HeadError, received: &[u8]| {
                let shown = shown(received);
                let hint = match shown.starts_with("HTTP/") {
                    true => "; a script writes `Status: 200` in place of a status line",
                    false => "",
                };
                Failure::Head { error, shown, hint }
            };
            let parsed = head.parse(&self.received, &limits);
            let parsed = parsed.map_err(|error| bad(error, &self.received))?;
            if let Progress::Complete { length } = parsed {
                let has = |known| head.view(&self.received).get(known).is_some();
                let is_status = |name: &[u8]| name.eq_ignore_ascii_case(b"status");
                let mut fields = head.view(&self.received).fields();
                if !has(Known::ContentType)
                    && !has(Known::Location)
                    && !fields.any(|field| is_status(field.name))
                {
                    return Err(Failure::NoField(shown(&self.received)));
                }
                head.read_as_cgi(&self.received)
                    .map_err(|error| bad(error, &self.received))?;
                return Ok(length);
            }
            if self.receive().await? == 0 {
                let end = self.end();
                return Err(match self.received.len() > CGI_STATUS_LINE.len() {
                    false => Failure::Nothing(end),
                    true => Failure::NoEnd {
                        shown: shown(&self.received),
                        end,
                    },
                });
            }
        }
    }

    /// Sends a part of what was received. Meanwhile the script gets the request's body.
    async fn send(&mut self, mut range: Range<usize>) -> Result<(), Failure> {
        unless_gone(self.exchange, |context| {
            if let Err(failure) = self.feed(context) {
                return Poll::Ready(Err(failure));
            }
            while !range.is_empty() {
                let rest = self.received.get(range.clone()).unwrap_or_default();
                match self.exchange.try_write(rest) {
                    Ok(0) => return Poll::Pending,
                    Ok(count) => range.start += count,
                    Err(gone) => return Poll::Ready(Err(gone.into())),
                }
            }
            self.is_flushed = false;
            Poll::Ready(Ok(()))
        })
        .await?
    }

    /// The end of the script, all of whose output was read.
    fn end(&self) -> Ended {
        // `receive` returns 0 only then.
        self.script.end().unwrap_or(Ended::Code(0))
    }
}

/// The beginning of the script's output, for a message.
fn shown(received: &[u8]) -> String {
    let output = received.get(CGI_STATUS_LINE.len()..).unwrap_or_default();
    let line = output.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default();
    let start = line.get(..MOST_SHOWN).unwrap_or(line);
    String::from_utf8_lossy(start).into_owned()
}
