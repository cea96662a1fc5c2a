//! A response that has been sent, for the variables of the access log and of `response_headers`.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_http::FieldLines;
use tutti_routing::{LogSecond, LogTime, ResponseInfo};

/// The end of an exchange.
pub(crate) struct Finished<'a> {
    /// When the first byte of its request came.
    pub(crate) begun: Instant,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// The fields of the response's head as it was sent.
    pub(crate) head: &'a FieldLines,
    /// When it was sent; `None`: it is not, yet.
    pub(crate) time: Option<SentAt>,
}

/// A moment: its second, as logs write it, and the milliseconds that have passed of it.
pub(crate) type SentAt = (Rc<LogSecond>, u16);

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
