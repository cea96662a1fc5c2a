//! A response that has been sent, for the variables of the access log and of `response_headers`.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_http::FieldLines;
use tutti_routing::{LogSecond, LogTime, ResponseInfo};

/// The end of an exchange.
pub struct Finished<'a> {
    /// When the first byte of its request came.
    pub begun: Instant,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of its body that were sent.
    pub body_bytes: u64,
    /// The fields of the response's head as it was sent.
    pub head: &'a FieldLines,
    /// When it was sent; `None`: it is not, yet.
    pub time: Option<SentAt>,
}

/// A moment: its second, as logs write it, and the milliseconds that have passed of it.
pub type SentAt = (Rc<LogSecond>, u16);

impl ResponseInfo for Finished<'_> {
    fn status(&self) -> u16 {
        self.status
    }
    fn body_bytes_sent(&self) -> u64 {
        self.body_bytes
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
