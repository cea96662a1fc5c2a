//! Local time, as log lines show it.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in the machine's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Year, e.g. 2026.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 60.
    pub second: u8,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// Converts to local time. Costs a lock and some arithmetic in the C library: callers that need it per request
/// keep the result for the second.
pub fn local(at: SystemTime) -> LocalTime {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let time = libc::time_t::try_from(seconds).unwrap_or(0);
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live values of the right type; `localtime_r` keeps neither.
    unsafe { libc::localtime_r(&raw const time, parts.as_mut_ptr()) };
    // SAFETY: zeroed to begin with, and all zeroes is a valid `tm`, whether the call succeeded or not.
    let parts = unsafe { parts.assume_init() };
    let small = |value: libc::c_int| u8::try_from(value).unwrap_or(0);
    LocalTime {
        year: parts.tm_year + 1900,
        month: small(parts.tm_mon + 1),
        day: small(parts.tm_mday),
        hour: small(parts.tm_hour),
        minute: small(parts.tm_min),
        second: small(parts.tm_sec),
        offset: i32::try_from(parts.tm_gmtoff).unwrap_or(0),
    }
}

/// The local time and the milliseconds that have passed of its second. The C library is asked once a second and thread.
pub fn now() -> (LocalTime, u16) {
    thread_local! {
        static LAST: std::cell::Cell<Option<(u64, LocalTime)>> = const { std::cell::Cell::new(None) };
    }
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let milliseconds = u16::try_from(since.subsec_millis()).unwrap_or(0);
    let time = match LAST.get() {
        Some((second, time)) if second == since.as_secs() => time,
        _ => {
            let time = local(now);
            LAST.set(Some((since.as_secs(), time)));
            time
        }
    };
    (time, milliseconds)
}

impl LocalTime {
    /// As RFC 3339 has it.
    pub fn rfc3339(&self, milliseconds: u16) -> String {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.unsigned_abs() / 60;
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{milliseconds:03}{sign}{:02}:{:02}",
            self.year,
            self.month,
            self.day,
            self.hour,
            self.minute,
            self.second,
            minutes / 60,
            minutes % 60,
        )
    }

    /// The name of its month, of three letters.
    pub fn month_name(&self) -> &'static str {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let month = usize::from(self.month.saturating_sub(1));
        MONTHS.get(month).copied().unwrap_or("Jan")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_known_moment_is_right_in_any_zone() {
        let time = local(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        // 2001-09-09 01:46:40 UTC; the seconds are the same in every zone of whole minutes.
        assert_eq!((time.year, time.month, time.second), (2001, 9, 40));
        let minutes = i32::from(time.hour) * 60 + i32::from(time.minute) - time.offset / 60;
        assert_eq!(minutes.rem_euclid(24 * 60), 106);
    }
}
