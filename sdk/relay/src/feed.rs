//! A connection to the program while the request's body still goes out: what there is of it is sent on whenever the answer is waited for.
//!
//! Must never: wait for the client while the program has something to say, or send more of a body than the program takes.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll};

use tutti_event_loop::unless_gone;
use tutti_http::RequestFraming;
use tutti_worker::Exchange;

use crate::connection::RelayConnection;
use crate::error::RelayError;
use crate::head::{framing, write_piece, write_request};

/// Bytes of a body given to the program at once.
const PIECE: usize = 64 * 1024;

/// A connection, and the body that goes out on it beside the answer that comes in.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) connection: Box<RelayConnection>,
    /// `None`: the request has been sent.
    pub(crate) feed: Option<Feed>,
}

impl Transfer {
    pub(crate) fn new(connection: Box<RelayConnection>) -> Self {
        Self {
            connection,
            feed: None,
        }
    }

    /// The failure to get an answer, where nothing of a request with a body had left for the program.
    pub(crate) fn unsent(&self, failure: RelayError) -> RelayError {
        let is_untouched = self.feed.as_ref().is_some_and(|feed| !feed.is_touched);
        match failure {
            RelayError::Receive(error) if is_untouched => RelayError::Unsent(error),
            RelayError::Closed if is_untouched => {
                RelayError::Unsent(io::ErrorKind::BrokenPipe.into())
            }
            failure => failure,
        }
    }

    /// Reads more of the answer; how many bytes, 0 at the end. Meanwhile the body goes on.
    pub(crate) fn poll_receive(
        &mut self,
        exchange: &Exchange,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_feed(exchange, context);
        self.connection.poll_receive(context)
    }

    /// Passes bytes of the answer on that have been received. Meanwhile the body goes on.
    pub(crate) async fn pass(
        &mut self,
        exchange: &Exchange,
        mut range: Range<usize>,
    ) -> Result<(), RelayError> {
        unless_gone(exchange, |context| {
            self.poll_feed(exchange, context);
            while !range.is_empty() {
                let rest = self.connection.received.get(range.clone());
                match exchange.try_write(rest.unwrap_or_default()) {
                    Ok(0) => return Poll::Pending,
                    Ok(count) => range.start += count,
                    Err(tutti_worker::ClientGone) => {
                        return Poll::Ready(Err(RelayError::ClientGone));
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?
    }

    fn poll_feed(&mut self, exchange: &Exchange, context: &mut Context<'_>) {
        if let Some(feed) = &mut self.feed {
            feed.poll(exchange, &mut self.connection, context);
        }
    }
}

/// A request on its way to the program.
#[derive(Debug)]
pub(crate) struct Feed {
    framing: RequestFraming,
    /// To be sent from `sent` on.
    out: Vec<u8>,
    sent: usize,
    piece: Vec<u8>,
    state: State,
    /// The program may have seen something of it.
    is_touched: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// More of the body is to come.
    Reading,
    /// The end of it is in `out`.
    Ending,
    Done,
    /// The program takes no more, or the client sends no more: what the program says now is the answer, or there is none.
    Broken,
}

impl Feed {
    /// The head, to be followed by the body as it comes.
    pub(crate) fn begin(exchange: &Exchange, tells_client: bool) -> Self {
        let request = exchange.request();
        let framing = framing(&request);
        let mut out = Vec::with_capacity(1024);
        write_request(&mut out, &request, framing, None, tells_client);
        Self {
            framing,
            out,
            sent: 0,
            piece: Vec::new(),
            state: State::Reading,
            is_touched: false,
        }
    }

    /// True if the program has the whole request.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Sends what there is, as far as the program takes it.
    fn poll(
        &mut self,
        exchange: &Exchange,
        connection: &mut RelayConnection,
        context: &mut Context<'_>,
    ) {
        while matches!(self.state, State::Reading | State::Ending) {
            let rest = self.out.get(self.sent..).unwrap_or_default();
            if !rest.is_empty() {
                match connection.poll_write(context, rest) {
                    Poll::Ready(Ok(count)) if count > 0 => {
                        self.sent += count;
                        self.is_touched = true;
                    }
                    Poll::Ready(_) => self.state = State::Broken,
                    Poll::Pending => return,
                }
                continue;
            }
            self.out.clear();
            self.sent = 0;
            if self.state == State::Ending {
                self.state = State::Done;
                return;
            }
            self.piece.resize(PIECE, 0);
            match exchange.try_read_body(&mut self.piece) {
                Ok(None) => return,
                Ok(Some(count)) => {
                    let bytes = self.piece.get(..count).unwrap_or_default();
                    write_piece(self.framing, bytes, &mut self.out);
                    if count == 0 {
                        self.state = State::Ending;
                    }
                }
                Err(_) => self.state = State::Broken,
            }
        }
    }
}
