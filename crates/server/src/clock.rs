//! Time as one listen thread sees it: a coarse monotonic clock for deadlines, and the `Date` field rendered once a second.
//!
//! Owned by each thread's [`Local`](crate::thread::Local); never shared. `CLOCK_MONOTONIC_COARSE` and `CLOCK_REALTIME_COARSE`
//! advance with the kernel's tick (1 to 10 ms) and cost a fifth of the exact clocks: deadlines are in seconds, so the tick is enough.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
pub(crate) use tutti_files::dates::unix_seconds;
use tutti_http::format_date;

/// Length of an IMF-fixdate (RFC 9110 §5.6.7), `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_LEN: usize = 29;

/// Milliseconds on the coarse monotonic clock.
pub(crate) type Millis = u64;

/// Now, in milliseconds of the coarse monotonic clock.
pub(crate) fn now_millis() -> Millis {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    (time.tv_sec as u64)
        .saturating_mul(1000)
        .saturating_add(time.tv_nsec as u64 / 1_000_000)
}

/// A `Duration` as the milliseconds deadlines are kept in.
pub(crate) fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4)
}

/// The value of `Date`, rendered again when the second changes.
pub(crate) struct DateCache {
    second: Cell<u64>,
    text: RefCell<[u8; DATE_LEN]>,
}

impl DateCache {
    pub(crate) fn new() -> Self {
        Self {
            second: Cell::new(u64::MAX),
            text: RefCell::new([b' '; DATE_LEN]),
        }
    }

    /// Appends the current IMF-fixdate.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        let second = unix_seconds();
        if self.second.get() != second {
            *self.text.borrow_mut() = format_date(second);
            self.second.set(second);
        }
        out.extend_from_slice(&*self.text.borrow());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_field_is_current() {
        let cache = DateCache::new();
        let mut out = Vec::new();
        cache.append(&mut out);
        let seconds = tutti_http::parse_date(&out).unwrap();
        assert!(unix_seconds().abs_diff(seconds) <= 1);
    }
}
