//! Polls the server periodically, and keeps the last hour. Pages show the last sample: no request here asks the router
//! anything.
//!
//! Times come from the monotonic clock, so that changing the machine's time has no effect. Must never happen: a
//! negative or huge rate after another router has started to count; the graph has a gap instead.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tokio::time::timeout;
use tutti_control::Service;
use tutti_metrics::{ExpositionFormat, Readings};

/// Time between two points of the graphs: 360 of them are an hour.
pub(crate) const STEP: Duration = Duration::from_secs(10);

/// The time span of the graphs.
pub(crate) const KEPT: Duration = Duration::from_secs(3600);

/// Time between two samples while pages are being read.
const PACE: Duration = Duration::from_secs(2);

/// A reader that has not requested a page for this time is gone.
const READER_STAYS: Duration = Duration::from_secs(60);

/// A router that has not responded after this time is reported as not responding; a later response is not used.
const PATIENCE: Duration = Duration::from_secs(4);

/// A sample of the server at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) at: Instant,
    pub(crate) time: SystemTime,
    pub(crate) status: Value,
    pub(crate) readings: Readings,
}

/// The families that count requests of one kind of object, whose name is in the label.
pub(crate) struct Counted {
    requests: &'static str,
    durations: &'static str,
    label: &'static str,
}

/// Requests by application.
pub(crate) const APPLICATIONS: Counted = Counted {
    requests: "tutti_requests_total",
    durations: "tutti_request_duration_seconds",
    label: "application",
};

/// Requests by route.
pub(crate) const ROUTES: Counted = Counted {
    requests: "tutti_route_requests_total",
    durations: "tutti_route_request_duration_seconds",
    label: "route",
};

/// Requests per second, and quantiles of their durations. `None` if unknown.
#[derive(Default)]
pub(crate) struct Rates {
    pub(crate) requests: Option<f64>,
    pub(crate) client_errors: Option<f64>,
    pub(crate) server_errors: Option<f64>,
    pub(crate) median: Option<f64>,
    pub(crate) slow: Option<f64>,
}

impl Look {
    /// Returns the rates for one name since an earlier sample.
    pub(crate) fn rates(&self, before: Option<&Look>, counted: &Counted, name: &str) -> Rates {
        let Some(before) = before else {
            return Rates::default();
        };
        let time = self.at.saturating_duration_since(before.at);
        let (now, then) = (&self.readings, &before.readings);
        let label = (counted.label, name);
        let rate = |labels: &[(&str, &str)]| now.rate(then, time, counted.requests, labels);
        let quantile = |part| now.quantile(then, counted.durations, &[label], part);
        Rates {
            requests: rate(&[label]),
            client_errors: rate(&[label, ("class", "4xx")]),
            server_errors: rate(&[label, ("class", "5xx")]),
            median: quantile(0.5),
            slow: quantile(0.99),
        }
    }
}

/// The values of a point of the graphs.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Number {
    Requests,
    ServerErrors,
    ClientErrors,
    Median,
    Slow,
    Active,
    Idle,
    Received,
    Sent,
    Busy,
    Running,
    Queued,
    Memory,
}

/// The number of values.
const NUMBERS: usize = Number::Memory as usize + 1;

/// A point of the graphs.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    values: [Option<f64>; NUMBERS],
}

impl Point {
    pub(crate) fn value(&self, number: Number) -> Option<f64> {
        self.values.get(number as usize).copied().flatten()
    }
}

/// All samples so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The last sample that got a response.
    pub(crate) now: Option<Arc<Look>>,
    /// A sample ten to twenty seconds earlier, from which rates are computed.
    pub(crate) before: Option<Arc<Look>>,
    /// Since when, and why, the server does not respond.
    pub(crate) silence: Option<(SystemTime, String)>,
    /// The last hour, the oldest first.
    pub(crate) points: VecDeque<Point>,
    last_point: Option<Arc<Look>>,
}

impl Seen {
    /// Adds a sample.
    pub(crate) fn add(&mut self, look: Look) {
        let look = Arc::new(look);
        self.silence = None;
        let last = self.last_point.clone();
        // Makes the first rates available soon.
        let step = if self.points.is_empty() { PACE } else { STEP };
        // Slightly early is accepted: samples are not exact to the millisecond.
        let is_due =
            |last: &Arc<Look>| look.at.saturating_duration_since(last.at) + PACE / 2 >= step;
        if last.as_ref().is_none_or(is_due) {
            if let Some(last) = &last {
                self.points.push_back(Point {
                    at: look.at,
                    values: numbers(&look, last),
                });
            }
            self.before = last;
            self.last_point = Some(Arc::clone(&look));
        }
        let is_old = |point: &Point| look.at.saturating_duration_since(point.at) > KEPT;
        while self.points.front().is_some_and(is_old) {
            self.points.pop_front();
        }
        self.now = Some(look);
    }

    fn is_silent(&mut self, why: String) {
        let since = self.silence.take().map(|(since, _)| since);
        self.silence = Some((since.unwrap_or_else(SystemTime::now), why));
    }
}

fn numbers(now: &Look, before: &Look) -> [Option<f64>; NUMBERS] {
    let time = now.at.saturating_duration_since(before.at);
    let rate = |family: &str, labels: &[(&str, &str)]| {
        now.readings.rate(&before.readings, time, family, labels)
    };
    let quantile = |part| {
        let family = tutti_metrics::names::REQUEST_DURATION.name;
        now.readings.quantile(&before.readings, family, &[], part)
    };
    let status = |pointer: &str| now.status.pointer(pointer).and_then(Value::as_f64);
    let of_applications = |pointer: &str| {
        let applications = now.status.get("applications")?.as_object()?;
        let numbers = applications.values().map(|one| one.pointer(pointer));
        Some(
            numbers
                .filter_map(|number| number?.as_f64())
                .fold(0.0, |sum, one| sum + one),
        )
    };
    let busy = now
        .readings
        .sum("tutti_application_processes", &[("state", "busy")]);
    let router = now.readings.sum("tutti_router_resident_memory_bytes", &[]);
    let mut values = [None; NUMBERS];
    for (number, value) in [
        (Number::Requests, rate("tutti_requests_total", &[])),
        (
            Number::ServerErrors,
            rate("tutti_requests_total", &[("class", "5xx")]),
        ),
        (
            Number::ClientErrors,
            rate("tutti_requests_total", &[("class", "4xx")]),
        ),
        (Number::Median, quantile(0.5)),
        (Number::Slow, quantile(0.99)),
        (Number::Active, status("/connections/active")),
        (Number::Idle, status("/connections/idle")),
        (Number::Received, rate("tutti_received_bytes_total", &[])),
        (Number::Sent, rate("tutti_sent_bytes_total", &[])),
        (Number::Busy, Some(busy)),
        (Number::Running, of_applications("/processes/running")),
        (Number::Queued, of_applications("/requests/queued")),
        (
            Number::Memory,
            of_applications("/memory").map(|memory| memory + router),
        ),
    ] {
        if let Some(place) = values.get_mut(number as usize) {
            *place = value;
        }
    }
    values
}

/// Polls, and remembers the results.
#[derive(Default)]
pub(crate) struct Watch {
    seen: Mutex<Seen>,
    read: Mutex<Option<Instant>>,
    reader_came: tokio::sync::Notify,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all data to show. Records the reader, which makes polling faster.
    pub(crate) fn read(&self) -> Seen {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read
            .replace(Instant::now())
            .is_none_or(|at| at.elapsed() > READER_STAYS)
        {
            self.reader_came.notify_one();
        }
        drop(read);
        self.lock().clone()
    }

    fn has_reader(&self) -> bool {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.is_some_and(|at| at.elapsed() <= READER_STAYS)
    }

    /// Polls forever.
    pub(crate) async fn run(&self, service: &dyn Service) {
        loop {
            let begun = Instant::now();
            match timeout(PATIENCE, look(service)).await {
                Ok(Ok(look)) => self.lock().add(look),
                Ok(Err(why)) => self.lock().is_silent(why),
                Err(_) => self
                    .lock()
                    .is_silent("it has not answered in time".to_owned()),
            }
            let pace = if self.has_reader() { PACE } else { STEP };
            let pause = tokio::time::sleep(pace.saturating_sub(begun.elapsed()));
            tokio::select! {
                () = pause => {}
                () = self.reader_came.notified() => {}
            }
        }
    }
}

async fn look(service: &dyn Service) -> Result<Look, String> {
    let status = service.status().await?;
    let metrics = service.metrics(ExpositionFormat::default()).await?;
    Ok(Look {
        at: Instant::now(),
        time: SystemTime::now(),
        status,
        readings: Readings::of(&String::from_utf8_lossy(&metrics)),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a sample this many seconds after the first, of a router that was started then.
    pub(crate) fn look_at(first: Instant, seconds: u64, router: u64, requests: u64) -> Look {
        let text = format!(
            "tutti_router_start_timestamp_seconds {router}\n\
             tutti_requests_total{{class=\"2xx\"}} {requests}\n\
             tutti_request_duration_seconds_bucket{{le=\"0.001\"}} {requests}\n\
             tutti_request_duration_seconds_bucket{{le=\"+Inf\"}} {requests}\n"
        );
        Look {
            at: first + Duration::from_secs(seconds),
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds),
            status: json!({"connections": {"active": 3, "idle": 4}, "applications": {"a": {"processes": {"running": 2}}}}),
            readings: Readings::of(&text),
        }
    }

    #[test]
    fn a_restart_of_the_router_is_a_gap_and_nothing_that_was_before_is_lost() {
        let first = Instant::now();
        let mut seen = Seen::default();
        for (step, router, requests) in [(0, 1, 100), (10, 1, 300), (20, 2, 5), (30, 2, 1005)] {
            seen.add(look_at(first, step, router, requests));
        }
        let rates: Vec<_> = seen
            .points
            .iter()
            .map(|point| point.value(Number::Requests))
            .collect();
        assert_eq!(rates, [Some(20.0), None, Some(100.0)]);
        let slow: Vec<_> = seen
            .points
            .iter()
            .map(|point| point.value(Number::Slow))
            .collect();
        assert_eq!(slow, [Some(0.00099), None, Some(0.00099)]);
        let active: Vec<_> = seen
            .points
            .iter()
            .map(|point| point.value(Number::Active))
            .collect();
        assert_eq!(active, [Some(3.0); 3]);
    }

    #[test]
    fn an_hour_is_kept_and_no_more_however_often_it_is_looked() {
        let first = Instant::now();
        let mut seen = Seen::default();
        for second in (0..7200).step_by(2) {
            seen.add(look_at(first, second, 1, second));
        }
        assert!(
            (355..=361).contains(&seen.points.len()),
            "{}",
            seen.points.len()
        );
        let apart = seen.now.unwrap().at.duration_since(seen.before.unwrap().at);
        assert!(apart >= STEP && apart <= STEP * 2, "{apart:?}");
    }

    #[test]
    fn silence_keeps_what_was_seen_and_says_since_when() {
        let mut seen = Seen::default();
        seen.add(look_at(Instant::now(), 0, 1, 1));
        seen.is_silent("first".to_owned());
        let (since, _) = seen.silence.clone().unwrap();
        seen.is_silent("second".to_owned());
        assert_eq!(seen.silence, Some((since, "second".to_owned())));
        assert!(seen.now.is_some());
        seen.add(look_at(Instant::now(), 2, 1, 1));
        assert_eq!(seen.silence, None);
    }
}
