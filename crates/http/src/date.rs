//! IMF-fixdate (RFC 9110 §5.6.7), formatted at most once a second.

use std::time::{Duration, UNIX_EPOCH};

/// 9999-12-31T23:59:59Z, the last second the format can tell.
const LAST_SECOND: u64 = 253_402_300_799;

/// The `Date` of a moment in seconds since 1970, 29 bytes. Later than the year 9999 is told as its last second.
pub fn format_date(unix_seconds: u64) -> [u8; 29] {
    const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];

    let seconds = unix_seconds.min(LAST_SECOND);
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[0..3].copy_from_slice(DAYS[(days % 7) as usize]);
    put_two(&mut out, 5, day);
    out[8..11].copy_from_slice(MONTHS[(month - 1) as usize]);
    put_two(&mut out, 12, year / 100);
    put_two(&mut out, 14, year % 100);
    put_two(&mut out, 17, second_of_day / 3600);
    put_two(&mut out, 20, second_of_day / 60 % 60);
    put_two(&mut out, 23, second_of_day % 60);
    out
}

fn put_two(out: &mut [u8; 29], at: usize, number: u64) {
    out[at] = b'0' + (number / 10 % 10) as u8;
    out[at + 1] = b'0' + (number % 10) as u8;
}

/// Year, month (1–12) and day (1–31) of a day since 1970-01-01: 400-year eras, years counted from March so that the
/// leap day is the last of its year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Reads any of the three date formats of RFC 9110 §5.6.7 as seconds since 1970; `None` for anything else.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    time.duration_since(UNIX_EPOCH)
        .as_ref()
        .map(Duration::as_secs)
        .ok()
}

/// The text of the current second, so that it is formatted once and copied often. One for each thread.
#[derive(Clone, Debug)]
pub struct DateCache {
    second: u64,
    text: [u8; 29],
}

impl DateCache {
    /// A cache that holds 1970.
    pub fn new() -> Self {
        Self {
            second: 0,
            text: format_date(0),
        }
    }

    /// The date of `unix_seconds`.
    pub fn get(&mut self, unix_seconds: u64) -> &[u8; 29] {
        if unix_seconds != self.second {
            self.second = unix_seconds;
            self.text = format_date(unix_seconds);
        }
        &self.text
    }
}

impl Default for DateCache {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn dates_agree_with_httpdate() {
        let mut second = 0_u64;
        while second <= LAST_SECOND {
            let expected =
                httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
            assert_eq!(std::str::from_utf8(&format_date(second)).unwrap(), expected);
            assert_eq!(parse_date(expected.as_bytes()), Some(second));
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
    fn the_cache_follows_time_both_ways() {
        let mut cache = DateCache::new();
        assert_eq!(cache.get(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cache.get(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cache.get(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
