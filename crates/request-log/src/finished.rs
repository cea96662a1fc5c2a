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
        let (second, milliseconds) = self.time.as_ref()?;
        Some(LogTime {
            second,
            milliseconds: *milliseconds,
        })
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.head {
            each(name, value.trim_ascii());
        }
    }
}
