//! Time as one listen thread sees it: a coarse monotonic clock for deadlines, and the `Date` field rendered once a second.
//!
//! Owned by each thread's [`Local`](crate::thread::Local); never shared. `CLOCK_MONOTONIC_COARSE` and `CLOCK_REALTIME_COARSE`
//! advance with the kernel's tick (1 to 10 ms) and cost a fifth of the exact clocks: deadlines are in seconds, so the tick is enough.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

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

/// Whole seconds since the epoch.
pub(crate) fn unix_seconds() -> u64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec.max(0) as u64
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
            *self.text.borrow_mut() = imf_fixdate(second);
            self.second.set(second);
        }
        out.extend_from_slice(&*self.text.borrow());
    }
}

/// An instant as IMF-fixdate.
pub(crate) fn imf_fixdate(second: u64) -> [u8; DATE_LEN] {
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second.min(MAX_DATE)));
    let mut out = [b' '; DATE_LEN];
    for (to, from) in out.iter_mut().zip(text.as_bytes()) {
        *to = *from;
    }
    out
}

/// The last second of the year 9999: the format has four digits for the year, and `httpdate` refuses more.
const MAX_DATE: u64 = 253_402_300_799;

/// A date field (any of the three forms of RFC 9110 §5.6.7) as seconds since the epoch.
pub(crate) fn parse_http_date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let time: SystemTime = httpdate::parse_http_date(text).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        assert_eq!(&imf_fixdate(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                parse_http_date(text.as_bytes()),
                Some(784_111_777),
                "{text}"
            );
        }
        assert_eq!(parse_http_date(b"yesterday"), None);
        assert_eq!(&imf_fixdate(u64::MAX)[..16], b"Fri, 31 Dec 9999");
    }

    #[test]
    fn the_date_field_is_current() {
        let cache = DateCache::new();
        let mut out = Vec::new();
        cache.append(&mut out);
        let seconds = parse_http_date(&out).unwrap();
        assert!(unix_seconds().abs_diff(seconds) <= 1);
    }
}
