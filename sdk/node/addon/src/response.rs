//! An answer as Node.js writes it, HTTP/1, on its way into an exchange.

use std::ops::Range;

use tutti_http::{
    BodyDecoder, BodyError, HeadError, MessageLimits, Method, Progress, ResponseHead,
};
use tutti_worker::log::unless_too_large;
use tutti_worker::{ClientGone, Exchange};

/// The state of the response. JavaScript knows these numbers (channel.js).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Everything that was written has been taken.
    Taken = 0,
    /// There is no room for the rest: attention tells when there is.
    Full = 1,
    /// The answer is whole.
    Whole = 2,
    /// It has no reader any more.
    Gone = 3,
}

/// The reason why an answer cannot be passed on.
#[derive(Debug)]
pub(crate) enum ResponseError {
    Head(HeadError),
    Unusable(tutti_worker::ResponseHeadError),
    Body(BodyError),
    Upgraded,
    CutShort,
}

impl std::fmt::Display for ResponseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ResponseError::Head(error) => write!(f, "the program's answer is not HTTP/1: {error}"),
            ResponseError::Unusable(error) => {
                write!(f, "the program's answer cannot be passed on: {error}")
            }
            ResponseError::Body(error) => write!(
                f,
                "the body of the program's answer is not what its head says: {error}"
            ),
            ResponseError::Upgraded => {
                write!(
                    f,
                    "the program answered 101 (Switching Protocols) to a request that did not ask for it"
                )
            }
            ResponseError::CutShort => {
                write!(
                    f,
                    "the program closed the connection in the middle of its response"
                )
            }
        }
    }
}

/// The way of an answer to the client: the exchange of its request.
pub(crate) trait Sink {
    fn method(&self) -> Method;
    fn interim<'f>(
        &self,
        status: u16,
        fields: impl Fields<'f>,
    ) -> Result<(), tutti_worker::ResponseHeadError>;
    fn start<'f>(
        &self,
        status: u16,
        fields: impl Fields<'f>,
    ) -> Result<(), tutti_worker::ResponseHeadError>;
    /// Takes as many bytes as there is room for.
    fn try_write(&self, bytes: &[u8]) -> Result<usize, ClientGone>;
    fn flush(&self);
    fn trailers<'f>(&self, fields: impl Fields<'f>) -> Result<(), tutti_worker::ResponseHeadError>;
    fn is_client_gone(&self) -> bool;
}

/// Names and values of fields.
pub(crate) trait Fields<'f>: Iterator<Item = (&'f [u8], &'f [u8])> + Clone {}

impl<'f, I: Iterator<Item = (&'f [u8], &'f [u8])> + Clone> Fields<'f> for I {}

impl Sink for Exchange {
    fn method(&self) -> Method {
        Method::from_bytes(self.request().method())
    }
    fn interim<'f>(
        &self,
        status: u16,
        fields: impl Fields<'f>,
    ) -> Result<(), tutti_worker::ResponseHeadError> {
        unless_too_large(self, Exchange::interim(self, status, fields))
    }
    fn start<'f>(
        &self,
        status: u16,
        fields: impl Fields<'f>,
    ) -> Result<(), tutti_worker::ResponseHeadError> {
        Exchange::start(self, status, fields)
    }
    fn try_write(&self, bytes: &[u8]) -> Result<usize, ClientGone> {
        Exchange::try_write(self, bytes)
    }
    fn flush(&self) {
        Exchange::flush(self);
    }
    fn trailers<'f>(&self, fields: impl Fields<'f>) -> Result<(), tutti_worker::ResponseHeadError> {
        unless_too_large(self, Exchange::trailers(self, fields))
    }
    fn is_client_gone(&self) -> bool {
        Exchange::is_client_gone(self)
    }
}

/// The answer to one request.
#[derive(Debug, Default)]
pub(crate) struct ResponseParser {
    /// The bytes that were written and not passed on yet, from `at` on.
    pub(crate) written: Vec<u8>,
    at: usize,
    /// Bytes of the body that wait for room, and the place after them.
    waiting: Option<(Range<usize>, usize)>,
    /// Once the head has been passed on.
    decoder: Option<BodyDecoder>,
    is_finished: bool,
}

impl ResponseParser {
    /// Passes on what there is, as far as there is room.
    pub(crate) fn pass_on(
        &mut self,
        exchange: &impl Sink,
        head: &mut ResponseHead,
    ) -> Result<State, ResponseError> {
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
    fn pass_head(
        &mut self,
        exchange: &impl Sink,
        head: &mut ResponseHead,
    ) -> Result<bool, ResponseError> {
        // It may have a part of another response's head.
        head.reset();
        loop {
            let rest = self.written.get(self.at..).unwrap_or_default();
            let Progress::Complete { length } = head
                .parse(rest, &MessageLimits::of_a_program())
                .map_err(ResponseError::Head)?
            else {
                return Ok(false);
            };
            let view = head.view(rest);
            match view.status() {
                101 => return Err(ResponseError::Upgraded),
                ..101 => {}
                status @ ..200 => exchange
                    .interim(status, view.forwarded())
                    .map_err(ResponseError::Unusable)?,
                status => {
                    let until = view.body_length(exchange.method());
                    exchange
                        .start(status, view.forwarded())
                        .map_err(ResponseError::Unusable)?;
                    let decoder = BodyDecoder::new(until, &MessageLimits::of_a_program())
                        .map_err(ResponseError::Body)?;
                    self.decoder = Some(decoder);
                    self.at += length;
                    return Ok(true);
                }
            }
            self.at += length;
        }
    }

    fn pass_body(&mut self, exchange: &impl Sink) -> Result<State, ResponseError> {
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
            let step = decoder.decode(rest).map_err(ResponseError::Body)?;
            self.is_finished = step.is_finished;
            if step.is_finished {
                let trailers = decoder.trailers();
                if !trailers.is_empty() {
                    exchange
                        .trailers(trailers.fields())
                        .map_err(ResponseError::Unusable)?;
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
    pub(crate) fn end(&self) -> Result<(), ResponseError> {
        let ends_so = matches!(self.decoder, Some(BodyDecoder::UntilClose));
        match (ends_so && self.waiting.is_none()) || self.is_whole() {
            true => Ok(()),
            false => Err(ResponseError::CutShort),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A client that takes `room` bytes, and notes what it is given.
    struct RecordingClient {
        method: Method,
        room: Cell<usize>,
        is_gone: Cell<bool>,
        got: RefCell<String>,
    }

    impl RecordingClient {
        fn new(method: &str) -> Self {
            Self {
                method: Method::from_bytes(method.as_bytes()),
                room: Cell::new(usize::MAX),
                is_gone: Cell::new(false),
                got: RefCell::default(),
            }
        }

        fn note<'f>(
            &self,
            what: &str,
            fields: impl Fields<'f>,
        ) -> Result<(), tutti_worker::ResponseHeadError> {
            let mut got = self.got.borrow_mut();
            got.push_str(&format!("[{what}"));
            for (name, value) in fields {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                got.push_str(&format!(" {}={}", text(name), text(value)));
            }
            got.push(']');
            Ok(())
        }
    }

    impl Sink for RecordingClient {
        fn method(&self) -> Method {
            self.method
        }
        fn interim<'f>(
            &self,
            status: u16,
            fields: impl Fields<'f>,
        ) -> Result<(), tutti_worker::ResponseHeadError> {
            self.note(&format!("interim {status}"), fields)
        }
        fn start<'f>(
            &self,
            status: u16,
            fields: impl Fields<'f>,
        ) -> Result<(), tutti_worker::ResponseHeadError> {
            self.note(&status.to_string(), fields)
        }
        fn try_write(&self, bytes: &[u8]) -> Result<usize, ClientGone> {
            if self.is_gone.get() {
                return Err(ClientGone);
            }
            let count = bytes.len().min(self.room.get());
            self.room.set(self.room.get() - count);
            let taken = bytes.get(..count).unwrap_or_default();
            self.got
                .borrow_mut()
                .push_str(&String::from_utf8_lossy(taken));
            Ok(count)
        }
        fn flush(&self) {}
        fn trailers<'f>(
            &self,
            fields: impl Fields<'f>,
        ) -> Result<(), tutti_worker::ResponseHeadError> {
            self.note("behind", fields)
        }
        fn is_client_gone(&self) -> bool {
            self.is_gone.get()
        }
    }

    /// An answer that Node.js writes in these pieces; the state after the last of them.
    fn written(
        client: &RecordingClient,
        pieces: &[&[u8]],
    ) -> (ResponseParser, Result<State, ResponseError>) {
        let (mut answer, mut head) = (ResponseParser::default(), ResponseHead::new());
        let mut outcome = Ok(State::Taken);
        for piece in pieces {
            answer.written.extend_from_slice(piece);
            outcome = answer.pass_on(client, &mut head);
        }
        (answer, outcome)
    }

    const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello";

    #[test]
    fn an_answer_is_the_same_in_whatever_pieces_it_is_written() {
        for length in [1, 2, 7, WHOLE.len()] {
            let client = RecordingClient::new("GET");
            let pieces: Vec<&[u8]> = WHOLE.chunks(length).collect();
            let (answer, outcome) = written(&client, &pieces);
            assert_eq!(outcome.unwrap(), State::Whole, "{length}");
            assert_eq!(*client.got.borrow(), "[200 Content-Length=5 X-A=b]hello");
            assert!(answer.is_whole() && !answer.has_more());
        }
    }

    #[test]
    fn answers_before_the_one_and_fields_behind_it_are_passed_on_without_their_framing() {
        let client = RecordingClient::new("GET");
        let text = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwh\r\n3\r\nole\r\n0\r\nX-Sum: 5\r\n\r\n";
        let (_, outcome) = written(&client, &[text]);
        assert_eq!(outcome.unwrap(), State::Whole);
        let got = client.got.borrow();
        assert!(
            got.starts_with("[interim 103 Link=</a>][200 Trailer=X-Sum"),
            "{got}"
        );
        assert!(
            got.contains("]whole[behind ") && !got.contains("chunked"),
            "{got}"
        );
    }

    /// The part of another response's head was taken for the beginning of this one, and this one's end was never found.
    #[test]
    fn responses_whose_heads_come_in_parts_do_not_disturb_each_other() {
        let mut head = ResponseHead::new();
        let clients = [RecordingClient::new("GET"), RecordingClient::new("GET")];
        let mut answers = [ResponseParser::default(), ResponseParser::default()];
        let mut write = |index: usize, text: &str| {
            answers[index].written.extend_from_slice(text.as_bytes());
            answers[index].pass_on(&clients[index], &mut head).unwrap()
        };
        let long = "x".repeat(60);
        let begun = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Long: {long}");
        assert_eq!(write(0, &begun), State::Taken);
        // Its head ends before the place up to which the other was searched.
        let whole = format!("HTTP/1.1 200 OK\r\nContent-Length: 120\r\n\r\n{long}{long}");
        assert_eq!(write(1, &whole), State::Whole);
        assert_eq!(write(0, "\r\n\r\nhello"), State::Whole);
    }

    #[test]
    fn a_full_client_gets_the_rest_when_there_is_room() {
        let client = RecordingClient::new("GET");
        client.room.set(2);
        let (mut answer, outcome) = written(&client, &[WHOLE]);
        assert_eq!(outcome.unwrap(), State::Full);
        assert!(!answer.is_whole());
        client.room.set(100);
        let state = answer.pass_on(&client, &mut ResponseHead::new());
        assert_eq!(state.unwrap(), State::Whole);
        assert!(client.got.borrow().ends_with("]hello"));
    }

    #[test]
    fn a_client_that_has_gone_is_noticed_also_while_nothing_is_written() {
        let client = RecordingClient::new("GET");
        client.is_gone.set(true);
        assert_eq!(written(&client, &[WHOLE]).1.unwrap(), State::Gone);
        let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(written(&client, &[begun]).1.unwrap(), State::Gone);
    }

    #[test]
    fn the_method_and_the_status_say_whether_there_is_a_body() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(
            written(&RecordingClient::new("HEAD"), &[head]).1.unwrap(),
            State::Whole
        );
        assert_eq!(
            written(&RecordingClient::new("GET"), &[head]).1.unwrap(),
            State::Taken
        );
        let empty = b"HTTP/1.1 304 Not Modified\r\n\r\n";
        assert_eq!(
            written(&RecordingClient::new("GET"), &[empty]).1.unwrap(),
            State::Whole
        );
    }

    #[test]
    fn the_end_of_the_connection_is_an_end_only_where_nothing_else_is() {
        let client = RecordingClient::new("GET");
        let (answer, outcome) = written(&client, &[b"HTTP/1.1 200 OK\r\n\r\nall of it"]);
        assert_eq!(outcome.unwrap(), State::Taken);
        assert!(answer.end().is_ok());
        assert!(client.got.borrow().ends_with("]all of it"));
        let (answer, _) = written(
            &client,
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"],
        );
        assert!(matches!(answer.end(), Err(ResponseError::CutShort)));
        let (answer, _) = written(&client, &[b"HTTP/1.1 200"]);
        assert!(matches!(answer.end(), Err(ResponseError::CutShort)));
    }

    #[test]
    fn what_is_no_answer_is_a_fault() {
        let fault = |text: &[u8]| {
            written(&RecordingClient::new("GET"), &[text])
                .1
                .unwrap_err()
        };
        assert!(matches!(fault(b"nonsense\r\n\r\n"), ResponseError::Head(_)));
        let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n";
        assert!(matches!(fault(upgrade), ResponseError::Upgraded));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
        assert!(matches!(fault(chunked), ResponseError::Body(_)));
    }

    #[test]
    fn bytes_behind_an_answer_are_noticed() {
        let client = RecordingClient::new("GET");
        let (answer, outcome) = written(&client, &[WHOLE, b"more"]);
        assert_eq!(outcome.unwrap(), State::Whole);
        assert!(answer.has_more());
        assert!(client.got.borrow().ends_with("]hello"));
    }
}
