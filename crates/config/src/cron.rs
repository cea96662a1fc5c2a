//! Cron expressions in time zones: when a schedule is due. No I/O: the time zones are built into this program.
//!
//! `croner` parses and searches, `jiff` knows the zones. Part of the typed configuration, used by the code that runs
//! schedules. Must never: accept an expression that never matches.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Why a timetable is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CronError {
    /// The expression cannot be parsed, for this reason.
    Expression(String),
    /// It matches no time.
    Never,
    /// There is no such time zone.
    Zone,
}

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

impl PartialEq for Timetable {
    fn eq(&self, other: &Timetable) -> bool {
        self.cron.as_str() == other.cron.as_str() && self.zone == other.zone
    }
}

impl Timetable {
    /// Parses five fields (minute, hour, day of the month, month, day of the week), or a name such as `@daily`.
    pub(crate) fn new(expression: &str, zone: &str) -> Result<Timetable, CronError> {
        let zone = TimeZone::get(zone).map_err(|_| CronError::Zone)?;
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(expression);
        let cron = cron.map_err(|error| CronError::Expression(error.to_string()))?;
        let timetable = Timetable { cron, zone };
        // Any start works: the years repeat.
        match timetable.next(1_700_000_000_000) {
            Some(_) => Ok(timetable),
            None => Err(CronError::Never),
        }
    }

    /// Returns the first time after this one, both in milliseconds since 1970. `None`: beyond the end of the calendar.
    pub fn next(&self, after: u64) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(after).ok()?).ok()?;
        let after = Zoned::new(after, self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok()
    }
}

/// Formats a time for people and programs: RFC 3339, in UTC, to the second.
pub fn written(time: u64) -> String {
    let seconds = i64::try_from(time / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| String::new(), |time| time.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Returns the next times after `after`, in UTC.
    fn times(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let table = Timetable::new(expression, zone).unwrap();
        let after: Timestamp = after.parse().unwrap();
        let mut time = u64::try_from(after.as_millisecond()).unwrap();
        let mut next = || {
            time = table.next(time).unwrap();
            written(time)
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn fields_are_those_of_cron() {
        let night = times("0 3 * * *", "UTC", "2026-01-31T03:00:00Z", 2);
        assert_eq!(night, ["2026-02-01T03:00:00Z", "2026-02-02T03:00:00Z"]);
        let weekdays = times("*/30 9 * * MON-FRI", "UTC", "2026-01-02T09:10:00Z", 2);
        assert_eq!(weekdays, ["2026-01-02T09:30:00Z", "2026-01-05T09:00:00Z"]);
        // Vixie's cron: either the day of the month or the day of the week must match.
        let either = times("0 0 13 * FRI", "UTC", "2026-01-09T12:00:00Z", 2);
        assert_eq!(either, ["2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"]);
        assert_eq!(
            times("@daily", "UTC", "2026-01-09T12:00:00Z", 1),
            ["2026-01-10T00:00:00Z"]
        );
    }

    #[test]
    fn a_fixed_time_comes_once_on_the_days_the_clock_is_set() {
        // 2 to 3 does not exist on 29 March, and exists twice on 25 October.
        let spring = times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(spring, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
        let autumn = times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        let hourly = times("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4);
        let hours = ["00", "01", "02", "03"].map(|hour| format!("2026-10-25T{hour}:00:00Z"));
        assert_eq!(hourly, hours);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for wrong in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "a b c d e",
            "*/0 * * * *",
        ] {
            let fault = Timetable::new(wrong, "UTC").unwrap_err();
            assert!(
                matches!(fault, CronError::Expression(_)),
                "{wrong}: {fault:?}"
            );
        }
        assert_eq!(
            Timetable::new("0 0 30 2 *", "UTC").unwrap_err(),
            CronError::Never
        );
        assert_eq!(
            Timetable::new("0 0 * * *", "Europe/Berlim").unwrap_err(),
            CronError::Zone
        );
    }
}
