//! Instants as HTTP writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Length of an IMF-fixdate (RFC 9110 §5.6.7), `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_LEN: usize = 29;

/// Whole seconds since the epoch.
pub fn unix_seconds() -> u64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec.max(0) as u64
}

/// An instant as IMF-fixdate.
pub fn imf_fixdate(second: u64) -> [u8; DATE_LEN] {
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
pub fn parse_http_date(value: &[u8]) -> Option<u64> {
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
}
