//! A response that has been sent, for the variables of the access log and of `response_headers`.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_http::{FieldLines, reason_phrase};
use tutti_routing::{LogSecond, LogTime, ResponseInfo};

/// The end of an exchange.
pub struct Finished<'a> {
    /// When the first byte of its request was received.
    pub begun: Instant,
    /// The status of the answer.
    pub status: u16,
    /// Sent bytes of its body.
    pub body_bytes: u64,
    /// The fields of the head as sent.
    pub head: &'a FieldLines,
    /// When it was sent; `None`: not yet.
    pub time: Option<SentAt>,
}

/// Bytes of `HTTP/1.1 200 `, and of the ends of that line and of the head.
const STATUS_LINE: usize = 17;

/// A time: its second, formatted for logs, and the milliseconds.
pub type SentAt = (Rc<LogSecond>, u16);

impl ResponseInfo for Finished<'_> {
    fn status(&self) -> u16 {
        self.status
    }
    fn body_bytes_sent(&self) -> u64 {
        self.body_bytes
    }
    fn bytes_sent(&self) -> u64 {
        let head = STATUS_LINE + reason_phrase(self.status).len() + self.head.lines().len();
        self.body_bytes + head as u64
    }
    fn request_time(&self) -> Duration {
        self.begun.elapsed()
    }
    fn time(&self) -> Option<LogTime<'_>> {
        self.time.as_ref().map(log_time)
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.head {
            each(name, value.trim_ascii());
        }
    }
}

fn log_time((second, milliseconds): &SentAt) -> LogTime<'_> {
    LogTime {
        second,
        milliseconds: *milliseconds,
    }
}

/// The end of a connection that was not read as HTTP.
pub struct FinishedStream {
    /// When it was accepted.
    pub begun: Instant,
    /// The status that HTTP has for such an end; 200 if it was passed on.
    pub status: u16,
    /// Bytes that were sent to the client.
    pub sent_bytes: u64,
    /// When it ended.
    pub time: Option<SentAt>,
}

impl ResponseInfo for FinishedStream {
    fn status(&self) -> u16 {
        self.status
    }
    fn body_bytes_sent(&self) -> u64 {
        self.sent_bytes
    }
    fn request_time(&self) -> Duration {
        self.begun.elapsed()
    }
    fn time(&self) -> Option<LogTime<'_>> {
        self.time.as_ref().map(log_time)
    }
    fn each_header(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
}
