//! IMF-fixdate (RFC 9110 §5.6.7).

use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;

/// 9999-12-31T23:59:59Z, the last second that the format can express.
const LAST_SECOND: u64 = 253_402_300_799;

/// Formats a time in seconds since 1970 as `Date`, 29 bytes. Times after the year 9999 become its last second.
pub fn format_date(unix_seconds: u64) -> [u8; 29] {
    let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(unix_seconds.min(LAST_SECOND)));
    let mut out = [b' '; 29];
    // Every date up to the last second has this length.
    let _ = write!(out.as_mut_slice(), "{date}");
    out
}

/// Reads any of the three date formats of RFC 9110 §5.6.7 as seconds since 1970; `None` for anything else.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    time.duration_since(UNIX_EPOCH)
        .as_ref()
        .map(Duration::as_secs)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_were_written() {
        let mut second = 0_u64;
        while second <= LAST_SECOND {
            assert_eq!(parse_date(&format_date(second)), Some(second));
            second += 86_399 * 17 + 12_345; // about 17 days: 170,000 dates through every month and leap rule
        }
    }

    #[test]
    fn leap_days_and_the_last_second_are_right() {
        assert_eq!(&format_date(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(&format_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn all_three_forms_are_read() {
        assert_eq!(&format_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_date(b"yesterday"), None);
        assert_eq!(&format_date(u64::MAX)[..16], b"Fri, 31 Dec 9999");
    }
}
