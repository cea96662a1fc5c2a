//! When a schedule is due, and which of its runs were missed. No I/O.

use tutti_config::model::{Schedule, Times};
use tutti_config::table::Missed;

use crate::queue::Time;

/// A run that begins so much later than it was due still counts as that run: a busy machine, a router that is replaced. Milliseconds.
const GRACE: Time = 60_000;

/// Runs that are counted one by one; a larger number is cut.
const MOST_COUNTED: u64 = 100_000;

/// The last run of a schedule, as the store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// Everything that was due up to this time has been handled; 0: unknown.
    pub(crate) settled: Time,
    /// When the last run began; 0: none has.
    pub(crate) started: Time,
    /// When it ended.
    pub(crate) ended: Time,
    /// Why it failed; empty: it did not.
    pub(crate) error: String,
}

/// Counts of runs since the router was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Runs that were answered 2xx.
    pub succeeded: u64,
    /// Runs that were not.
    pub failed: u64,
    /// Runs that did not begin because the former one was in progress.
    pub skipped: u64,
    /// Runs that were due while the server was stopped or the clock was changed.
    pub missed: u64,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// A run is to begin.
    pub(crate) is_due: bool,
    /// Number of missed runs.
    pub(crate) missed: u64,
    /// Everything up to this time has been handled.
    pub(crate) settled: Time,
    /// When to check again.
    pub(crate) next: Option<Time>,
    /// The clock was set back so far that its times start anew.
    pub(crate) is_set_back: bool,
}

/// Checks what is due at `now`, if everything up to `settled` has been handled.
pub(crate) fn look(schedule: &Schedule, settled: Time, now: Time) -> Look {
    if settled == 0 || is_set_back(schedule, settled, now) {
        return Look {
            settled: now,
            next: next(&schedule.times, now),
            is_set_back: settled != 0,
            ..Look::default()
        };
    }
    let (count, latest) = due(&schedule.times, settled, now);
    if count == 0 {
        return Look {
            settled,
            next: next(&schedule.times, settled),
            ..Look::default()
        };
    }
    let is_fresh = now.saturating_sub(latest) <= GRACE;
    let missed = count - u64::from(is_fresh);
    Look {
        is_due: is_fresh || schedule.options.missed == Missed::RunOnce,
        missed,
        settled: latest,
        next: next(&schedule.times, latest),
        is_set_back: false,
    }
}

/// True if the clock was set back by more than the time between two runs. With a smaller change, no run is due until the clock is where it
/// was, so that none happens twice; that may omit one run, but not more.
fn is_set_back(schedule: &Schedule, settled: Time, now: Time) -> bool {
    let ahead = settled.saturating_sub(now);
    let pause = next(&schedule.times, settled).map_or(0, |next| next.saturating_sub(settled));
    ahead > pause.max(GRACE)
}

/// Returns the number of times that were due after `settled` and up to `now`, and the latest.
fn due(times: &Times, settled: Time, now: Time) -> (u64, Time) {
    match times {
        Times::Every(_) => {
            let count = now.saturating_sub(settled) / pause(times);
            (count, settled + count * pause(times))
        }
        Times::Cron(table) => {
            let (mut count, mut latest) = (0, settled);
            while count < MOST_COUNTED
                && let Some(time) = table.next(latest)
                && time <= now
            {
                count += 1;
                latest = time;
            }
            // The rest of a very long time is ignored.
            match count < MOST_COUNTED {
                true => (count, latest),
                false => (count, now),
            }
        }
    }
}

fn next(times: &Times, after: Time) -> Option<Time> {
    match times {
        Times::Every(_) => Some(after.saturating_add(pause(times))),
        Times::Cron(table) => table.next(after),
    }
}

/// At least a second, as for the option.
fn pause(times: &Times) -> Time {
    match times {
        Times::Every(pause) => u64::try_from(pause.as_millis()).unwrap_or(u64::MAX).max(1),
        Times::Cron(_) => 1,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A schedule of the configuration.
    fn schedule(members: &str) -> Arc<Schedule> {
        let text =
            format!(r#"{{"routes": [], "schedules": {{"a": {{"pass": "routes", {members}}}}}}}"#);
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let config =
            tutti_config::validate(&document, &tutti_config::ValidationContext::default()).unwrap();
        Arc::clone(&config.schedules["a"])
    }

    const MINUTE: Time = 60_000;
    /// 2026-01-01, midnight.
    const START: Time = 1_767_225_600_000;

    #[test]
    fn a_schedule_is_due_at_its_times_and_once() {
        for members in [r#""cron": "*/10 * * * *""#, r#""every": 600"#] {
            let schedule = schedule(members);
            let first = look(&schedule, 0, START);
            assert_eq!(
                (first.is_due, first.next),
                (false, Some(START + 10 * MINUTE))
            );
            assert!(!look(&schedule, START, START + 9 * MINUTE).is_due);
            let due = look(&schedule, START, START + 10 * MINUTE + 5);
            assert_eq!((due.is_due, due.missed), (true, 0));
            assert_eq!(due.settled, START + 10 * MINUTE);
            assert!(!look(&schedule, due.settled, START + 10 * MINUTE + 6).is_due);
        }
    }

    #[test]
    fn missed_runs_are_counted_and_made_up_for_only_if_wished() {
        let now = START + 35 * MINUTE;
        for (missed, is_due) in [("skip", false), ("run_once", true)] {
            let members = format!(r#""cron": "*/10 * * * *", "missed": "{missed}""#);
            let found = look(&schedule(&members), START, now);
            assert_eq!((found.is_due, found.missed), (is_due, 3), "{missed}");
            assert_eq!(found.next, Some(START + 40 * MINUTE));
        }
        // The last is due just now, and counts as usual.
        let found = look(&schedule(r#""every": 600"#), START, START + 30 * MINUTE);
        assert_eq!((found.is_due, found.missed), (true, 2));
    }

    #[test]
    fn a_clock_that_is_set_back_brings_no_run_again_and_stops_none_for_long() {
        let schedule = schedule(r#""every": 600"#);
        let little = look(&schedule, START, START - 5 * MINUTE);
        assert_eq!(
            (little.is_due, little.next),
            (false, Some(START + 10 * MINUTE))
        );
        let far = look(&schedule, START, START - 300 * MINUTE);
        assert!(far.is_set_back && !far.is_due);
        assert_eq!(far.next, Some(START - 290 * MINUTE));
    }

    /// Issue 28: an hour forward and back again stopped a schedule of every ten minutes for that hour.
    #[test]
    fn a_clock_that_was_wrong_for_a_while_leaves_out_one_run_at_most() {
        for times in [r#""every": 600"#, r#""cron": "*/10 * * * *""#] {
            let schedule = schedule(times);
            for wrong in [11, 50, 60, 600, 600_000] {
                let forward = look(&schedule, START, START + wrong * MINUTE);
                let back = look(&schedule, forward.settled, START + MINUTE);
                let next = back.next.unwrap();
                assert!(next <= START + 21 * MINUTE, "{times} {wrong}: {next}");
            }
        }
        let daily = schedule(r#""cron": "0 0 * * *""#);
        // Twenty minutes: the run at midnight does not happen twice.
        let back = look(&daily, START, START - 20 * MINUTE);
        assert_eq!(back.next, Some(START + 24 * 60 * MINUTE));
    }
}
