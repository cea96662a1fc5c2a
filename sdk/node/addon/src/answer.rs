//! An answer as Node.js writes it, HTTP/1, on its way into an exchange.

use std::ops::Range;

use tutti_http::{BodyDecoder, BodyError, HeadError, Limits, Method, Progress, ResponseHead};
use tutti_worker::{ClientGone, Exchange};

/// How far the answer has come. JavaScript knows these numbers (channel.js).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Everything that was written has been taken.
    Taken = 0,
    /// There is no room for the rest: attention tells when there is.
    Full = 1,
    /// The answer is whole.
    Whole = 2,
    /// Nobody reads it any more.
    Gone = 3,
}

/// The reason why an answer cannot be passed on.
#[derive(Debug)]
pub(crate) enum Fault {
    Head(HeadError),
    Unusable(tutti_worker::HeadError),
    Body(BodyError),
    Upgraded,
    CutShort,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Head(error) => write!(f, "the program's answer is not HTTP/1: {error}"),
            Fault::Unusable(error) => {
                write!(f, "the program's answer cannot be passed on: {error}")
            }
            Fault::Body(error) => write!(
                f,
                "the body of the program's answer is not what its head says: {error}"
            ),
            Fault::Upgraded => write!(f, "the program changed the protocol without being asked"),
            Fault::CutShort => write!(f, "the program broke its answer off"),
        }
    }
}

/// The answer to one request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The bytes that were written and not passed on yet, from `at` on.
    pub(crate) written: Vec<u8>,
    at: usize,
    /// Bytes of the body that wait for room, and the place after them.
    waiting: Option<(Range<usize>, usize)>,
    /// Once the head has been passed on.
    decoder: Option<BodyDecoder>,
    is_finished: bool,
}

impl Answer {
    /// Passes on what there is, as far as there is room.
    pub(crate) fn pass_on(
        &mut self,
        exchange: &Exchange,
        head: &mut ResponseHead,
    ) -> Result<State, Fault> {
        if self.decoder.is_none() && !self.pass_head(exchange, head)? {
            return Ok(State::Taken);
        }
        let state = self.pass_body(exchange)?;
        if state == State::Taken {
            // The beginning of a chunk's size may be left.
            self.written.drain(..self.at.min(self.written.len()));
            self.at = 0;
        }
        Ok(state)
    }

    /// True once it has been passed on.
    fn pass_head(&mut self, exchange: &Exchange, head: &mut ResponseHead) -> Result<bool, Fault> {
        loop {
            let rest = self.written.get(self.at..).unwrap_or_default();
            let Progress::Complete { length } = head
                .parse(rest, &Limits::of_a_program())
                .map_err(Fault::Head)?
            else {
                return Ok(false);
            };
            let view = head.view(rest);
            match view.status() {
                101 => return Err(Fault::Upgraded),
                ..101 => {}
                status @ ..200 => exchange
                    .interim(status, view.forwarded())
                    .map_err(Fault::Unusable)?,
                status => {
                    let method = Method::from_bytes(exchange.request().method());
                    let until = view.body_length(method);
                    exchange
                        .start(status, view.forwarded())
                        .map_err(Fault::Unusable)?;
                    let decoder =
                        BodyDecoder::new(until, &Limits::of_a_program()).map_err(Fault::Body)?;
                    self.decoder = Some(decoder);
                    self.at += length;
                    return Ok(true);
                }
            }
            self.at += length;
        }
    }

    fn pass_body(&mut self, exchange: &Exchange) -> Result<State, Fault> {
        loop {
            if let Some((range, after)) = &mut self.waiting {
                while range.start < range.end {
                    let rest = self.written.get(range.clone()).unwrap_or_default();
                    match exchange.try_write(rest) {
                        Ok(0) => {
                            exchange.flush();
                            return Ok(State::Full);
                        }
                        Ok(count) => range.start += count,
                        Err(ClientGone) => return Ok(State::Gone),
                    }
                }
                self.at = *after;
                self.waiting = None;
            }
            if self.is_finished {
                return Ok(State::Whole);
            }
            let Some(decoder) = &mut self.decoder else {
                return Ok(State::Taken);
            };
            let rest = self.written.get(self.at..).unwrap_or_default();
            let step = decoder.decode(rest).map_err(Fault::Body)?;
            self.is_finished = step.is_finished;
            if step.is_finished {
                let trailers = decoder.trailers();
                if !trailers.is_empty() {
                    exchange
                        .trailers(trailers.fields())
                        .map_err(Fault::Unusable)?;
                }
            }
            if step.consumed == 0 && !step.is_finished {
                exchange.flush();
                return Ok(match exchange.is_client_gone() {
                    true => State::Gone,
                    false => State::Taken,
                });
            }
            let data = step.data.start + self.at..step.data.end + self.at;
            self.waiting = Some((data, self.at + step.consumed));
        }
    }

    /// The application has closed the connection, which may have been the end of the answer.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        let ends_so = matches!(self.decoder, Some(BodyDecoder::UntilClose));
        match (ends_so && self.waiting.is_none()) || self.is_whole() {
            true => Ok(()),
            false => Err(Fault::CutShort),
        }
    }

    /// True if all of it has been passed on.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_finished && self.waiting.is_none()
    }

    /// True if something was written after the answer's end.
    pub(crate) fn has_more(&self) -> bool {
        self.at < self.written.len()
    }
}
