//! Detects that the machine's time of day was changed, and reports it: to the log, to the metrics and to jobs, whose times are times of
//! day.

use std::time::Duration;

use tutti_log::Level;
use tutti_sys::clock::{ClockWatch, Jump};

use super::service::RouterService;

/// Interval between comparisons of the clocks.
const PAUSE: Duration = Duration::from_secs(5);

/// Compares the clocks as long as the router runs.
pub(super) async fn watch(service: RouterService) {
    let mut watch = ClockWatch::default();
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(jump) = watch.look() else {
            continue;
        };
        service.0.jumps.note(jump);
        service.0.log.line(Level::Warn, &line(jump));
        service.0.jobs.look_again();
    }
}

fn line(jump: Jump) -> String {
    let (by, direction) = match jump {
        Jump::Forward(by) => (by, "forward"),
        Jump::Back(by) => (by, "back"),
    };
    format!(
        "the time of day of this machine was set {direction} by {} seconds; ages, timeouts and intervals are not affected; schedules with `cron` follow the new time; hint: if this happens again, look for two services that set the clock",
        by.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_reported_with_its_direction() {
        let hour = Duration::from_secs(3600);
        assert!(line(Jump::Back(hour)).contains("set back by 3600 seconds"));
        assert!(line(Jump::Forward(hour)).contains("set forward by 3600 seconds"));
    }
}
