//! The servers of upstreams that a request was sent to, for `$upstream_…`.
//!
//! Values of several attempts are joined as nginx documents it: by commas, and by a colon where another action was performed in place of the
//! one before (an error page, an internal redirect).

use std::cell::RefCell;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_config::model::UpstreamVariable;
use tutti_upstream::GroupServer;

/// The attempts of a request, in order. Empty, it owns no memory.
#[derive(Default)]
pub(crate) struct Attempts(RefCell<Vec<Attempt>>);

/// One attempt to have a server answer.
struct Attempt {
    server: Arc<GroupServer>,
    /// It is the first one of its action.
    is_first: bool,
    begun: Instant,
    /// Time until there was a connection.
    connected: Option<Duration>,
    /// Time until the head of the answer came.
    answered: Option<Duration>,
    /// Time until the attempt ended.
    ended: Option<Duration>,
    /// The status of the answer, or the one that the failure of the server means.
    status: Option<u16>,
    /// Bytes of the answer's body so far.
    bytes: u64,
}

impl Attempts {
    /// Begins an attempt; `is_first`: of its action.
    pub(crate) fn begin(&self, server: &Arc<GroupServer>, is_first: bool) {
        self.0.borrow_mut().push(Attempt {
            server: Arc::clone(server),
            is_first,
            begun: Instant::now(),
            connected: None,
            answered: None,
            ended: None,
            status: None,
            bytes: 0,
        });
    }

    fn last(&self, note: impl FnOnce(&mut Attempt)) {
        self.0.borrow_mut().last_mut().map(note);
    }

    /// There is a connection to the server.
    pub(crate) fn connected(&self) {
        self.last(|attempt| attempt.connected = Some(attempt.begun.elapsed()));
    }

    /// The head of the answer has come.
    pub(crate) fn answered(&self, status: u16) {
        self.last(|attempt| {
            attempt.answered = Some(attempt.begun.elapsed());
            attempt.status = Some(status);
        });
    }

    /// A part of the answer's body has come.
    pub(crate) fn received(&self, bytes: usize) {
        self.last(|attempt| attempt.bytes += bytes as u64);
    }

    /// The answer is complete.
    pub(crate) fn ended(&self) {
        self.last(|attempt| attempt.ended = Some(attempt.begun.elapsed()));
    }

    /// The server failed.
    pub(crate) fn failed(&self, status: u16) {
        self.last(|attempt| {
            attempt.ended = Some(attempt.begun.elapsed());
            attempt.status = Some(status);
        });
    }

    /// Appends the value of a variable.
    pub(crate) fn write(&self, variable: UpstreamVariable, out: &mut Vec<u8>) {
        for (index, attempt) in self.0.borrow().iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(if attempt.is_first { b" : " } else { b", " });
            }
            attempt.write(variable, out);
        }
    }
}

impl Attempt {
    /// Writes `-` for a time or a status that is not known. Writing to a vector cannot fail.
    fn write(&self, variable: UpstreamVariable, out: &mut Vec<u8>) {
        let mut time = |time: Option<Duration>| {
            let _ = match time {
                Some(time) => write!(out, "{}.{:03}", time.as_secs(), time.subsec_millis()),
                None => write!(out, "-"),
            };
        };
        match variable {
            UpstreamVariable::ConnectTime => time(self.connected),
            UpstreamVariable::HeaderTime => time(self.answered),
            UpstreamVariable::ResponseTime => {
                time(Some(self.ended.unwrap_or_else(|| self.begun.elapsed())));
            }
            UpstreamVariable::Addr => {
                let _ = write!(out, "{}", self.server.address());
            }
            UpstreamVariable::ResponseLength => {
                let _ = write!(out, "{}", self.bytes);
            }
            UpstreamVariable::Status => {
                let _ = match self.status {
                    Some(status) => write!(out, "{status}"),
                    None => write!(out, "-"),
                };
            }
        }
    }
}
