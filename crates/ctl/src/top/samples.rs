//! A sample of the server: `/status`, and the counters and histograms of `/metrics`.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value};
use tutti_metrics::status_value::number;
use tutti_metrics::{Alert, Observation, Readings};

use crate::client::ControlClient;
use crate::control_address::ControlArguments;
use crate::report::CommandError;

/// The server answers within milliseconds; older numbers must not be shown as current.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The server at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Instant,
    time: SystemTime,
    pub(super) status: Value,
    readings: Readings,
}

/// A row for an application.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) busy: u64,
    pub(super) running: u64,
    pub(super) starting: u64,
    pub(super) queued: u64,
    /// Requests per second, and those of them with a 5xx.
    pub(super) rate: f64,
    pub(super) errors: f64,
    /// Seconds; `None` if there were no responses.
    pub(super) median: Option<f64>,
    pub(super) slow: Option<f64>,
    pub(super) restarts: u64,
    pub(super) memory: u64,
}

/// A row for a route.
#[derive(Debug)]
pub(super) struct RouteRow {
    pub(super) name: String,
    /// Requests per second: all, 4xx, 5xx.
    pub(super) rates: [f64; 3],
    /// p50 and p99 in seconds; `None` if there were no requests.
    pub(super) quantiles: [Option<f64>; 2],
}

impl Sample {
    /// Takes a sample.
    pub(super) fn now(control: &ControlArguments) -> Result<Sample, CommandError> {
        let client = ControlClient::new(control)?.within(ANSWER_WITHIN);
        let status = client.call("GET", "/status", None, None)?;
        status.succeeded(None)?;
        let metrics = client.read("/metrics", "text/plain;version=0.0.4")?;
        // Older servers have none.
        let text = if metrics.status == 200 {
            String::from_utf8_lossy(&metrics.body).into_owned()
        } else {
            String::new()
        };
        Ok(Sample::of(Instant::now(), status.json()?, &text))
    }

    pub(super) fn of(at: Instant, status: Value, text: &str) -> Sample {
        Sample {
            at,
            time: SystemTime::now(),
            status,
            readings: Readings::of(text),
        }
    }

    pub(super) fn number(&self, pointer: &str) -> u64 {
        number(&self.status, pointer)
    }

    /// The rate per second since the earlier sample.
    pub(super) fn rate(&self, before: &Sample, family: &str, labels: &[(&str, &str)]) -> f64 {
        let time = self.at.saturating_duration_since(before.at);
        let rate = self.readings.rate(&before.readings, time, family, labels);
        rate.unwrap_or_default()
    }

    /// The quantile of request durations since the earlier sample, in seconds.
    pub(super) fn quantile(
        &self,
        before: &Sample,
        labels: &[(&str, &str)],
        part: f64,
    ) -> Option<f64> {
        let before = &before.readings;
        self.readings.quantile(before, DURATIONS, labels, part)
    }

    /// The alerts, with rates since the earlier sample.
    pub(super) fn alerts(&self, before: &Sample) -> Vec<Alert> {
        let time = self.at.saturating_duration_since(before.at);
        let observation = Observation {
            status: &self.status,
            readings: &self.readings,
            before: Some((&before.readings, time)),
            time: self.time,
        };
        observation.alerts()
    }

    /// The sum of a number over all applications.
    pub(super) fn of_applications(&self, pointer: &str) -> u64 {
        let applications = self.status.get("applications").and_then(Value::as_object);
        let numbers = applications
            .into_iter()
            .flat_map(Map::values)
            .filter_map(|status| status.pointer(pointer)?.as_u64());
        numbers.sum()
    }

    /// The memory of the router and of all applications, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let router = self.readings.sum("tutti_router_resident_memory_bytes", &[]);
        router as u64 + self.of_applications("/memory")
    }

    /// A row for each application.
    pub(super) fn applications(&self, before: &Sample) -> Vec<Row> {
        let empty = Map::new();
        let applications = self.status.get("applications").and_then(Value::as_object);
        let rows = applications.unwrap_or(&empty).iter().map(|(name, status)| {
            let number = |pointer: &str| number(status, pointer);
            let label = ("application", name.as_str());
            let running = number("/processes/running");
            Row {
                name: name.clone(),
                busy: running.saturating_sub(number("/processes/idle")),
                running,
                starting: number("/processes/starting"),
                queued: number("/requests/queued"),
                rate: self.rate(before, REQUESTS, &[label]),
                errors: self.rate(before, REQUESTS, &[label, ("class", "5xx")]),
                median: self.quantile(before, &[label], 0.5),
                slow: self.quantile(before, &[label], 0.99),
                restarts: number("/restarts"),
                memory: number("/memory"),
            }
        });
        rows.collect()
    }

    /// Returns a row for each route: requests per second, those with a 4xx and a 5xx, p50 and p99 in seconds.
    pub(super) fn routes(&self, before: &Sample) -> Vec<RouteRow> {
        let names = self.readings.values_of(ROUTE_REQUESTS, "route");
        let rows = names.into_iter().map(|name| {
            let label = ("route", name);
            let quantile = |part| {
                let before = &before.readings;
                self.readings
                    .quantile(before, ROUTE_DURATIONS, &[label], part)
            };
            let class = |class| self.rate(before, ROUTE_REQUESTS, &[label, ("class", class)]);
            RouteRow {
                name: name.to_owned(),
                rates: [
                    self.rate(before, ROUTE_REQUESTS, &[label]),
                    class("4xx"),
                    class("5xx"),
                ],
                quantiles: [quantile(0.5), quantile(0.99)],
            }
        });
        rows.collect()
    }

    /// Returns name, state, requests in progress, requests per second and failures of each server of an upstream.
    pub(super) fn servers(&self, before: &Sample) -> Vec<[String; 6]> {
        let mut rows = Vec::new();
        let upstreams = self.status.get("upstreams").and_then(Value::as_object);
        for (upstream, status) in upstreams.into_iter().flatten() {
            let servers = status.get("servers").and_then(Value::as_object);
            for (server, status) in servers.into_iter().flatten() {
                let number = |member: &str| {
                    let number = status.get(member).and_then(Value::as_u64);
                    number.unwrap_or_default().to_string()
                };
                let labels = [("upstream", upstream.as_str()), ("server", server)];
                let rate = self.rate(before, "tutti_upstream_server_requests_total", &labels);
                let state = status.get("state").and_then(Value::as_str);
                rows.push([
                    upstream.clone(),
                    server.clone(),
                    match state.unwrap_or_default() {
                        "up" => "healthy",
                        other => other,
                    }
                    .to_owned(),
                    number("active"),
                    format!("{rate:.0}"),
                    number("failures"),
                ]);
            }
        }
        rows
    }
}

/// The counter of all requests.
pub(super) const REQUESTS: &str = "tutti_requests_total";

/// Their durations.
const DURATIONS: &str = "tutti_request_duration_seconds";

/// The counter of requests by route.
const ROUTE_REQUESTS: &str = "tutti_route_requests_total";

/// Their durations.
const ROUTE_DURATIONS: &str = "tutti_route_request_duration_seconds";

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// Two samples of a busy server, two seconds apart.
    pub(in crate::top) fn two() -> (Sample, Sample) {
        let start = Instant::now();
        let status = |total: u64| {
            json!({
                "server": {"version": "0.1.0", "pid": 4711, "uptime": 273_900},
                "connections": {"accepted": 9000, "active": 1024, "idle": 300, "closed": 7},
                "requests": {"total": total},
                "applications": {
                    "blog": {"processes": {"running": 5, "starting": 1, "idle": 3}, "restarts": 8,
                        "requests": {"active": 2, "queued": 6, "total": total, "oldest": [{"request": "GET /slow?n=1", "age": 12.34, "pid": 100}, {"request": "GET /next", "age": 0.2, "pid": null}]},
                        "memory": 125_829_120, "pids": [100, 101], "failures": {"total": 1, "last": {"message": "exit code 1"}}},
                    "shop": {"processes": {"running": 2, "starting": 0, "idle": 2}, "requests": {"active": 0, "queued": 0, "total": 0}, "restarts": 0,
                        "memory": 17_825_792, "pids": [200], "failures": {"total": 0, "last": null}}
                },
                "upstreams": {"api": {"servers": {"10.0.0.1:80": {"state": "up", "active": 1, "requests": 20, "failures": 3}}}},
            })
        };
        let metrics = |times: u64| {
            format!(
                "# HELP tutti_requests Requests\n# TYPE tutti_requests counter\n\
                 tutti_requests_total{{action=\"application\",application=\"blog\",class=\"2xx\"}} {}\n\
                 tutti_requests_total{{action=\"application\",application=\"blog\",class=\"5xx\"}} {}\n\
                 tutti_requests_total{{action=\"share\",class=\"2xx\"}} {}\n\
                 tutti_request_duration_seconds_bucket{{action=\"application\",application=\"blog\",le=\"0.001\"}} {}\n\
                 tutti_request_duration_seconds_bucket{{action=\"application\",application=\"blog\",le=\"0.002\"}} {}\n\
                 tutti_request_duration_seconds_bucket{{action=\"application\",application=\"blog\",le=\"+Inf\"}} {}\n\
                 tutti_route_requests_total{{route=\"routes/site\",class=\"2xx\"}} {}\n\
                 tutti_route_requests_total{{route=\"routes/site\",class=\"5xx\"}} {}\n\
                 tutti_route_request_duration_seconds_bucket{{route=\"routes/site\",le=\"0.001\"}} {}\n\
                 tutti_route_request_duration_seconds_bucket{{route=\"routes/site\",le=\"+Inf\"}} {}\n\
                 tutti_sent_bytes_total {}\n",
                1000 * times,
                10 * times,
                500 * times,
                500 * times,
                1000 * times,
                1010 * times,
                500 * times,
                10 * times,
                510 * times,
                510 * times,
                2_097_152 * times,
            )
        };
        (
            Sample::of(start, status(1000), &metrics(1)),
            Sample::of(start + Duration::from_secs(2), status(3000), &metrics(3)),
        )
    }

    #[test]
    fn rates_and_times_are_those_since_the_last_look() {
        let (before, now) = two();
        let rows = now.applications(&before);
        let blog = &rows[0];
        assert_eq!(blog.name, "blog");
        assert_eq!((blog.rate, blog.errors), (1010.0, 10.0));
        assert_eq!((blog.busy, blog.running), (2, 5));
        // 1,000 of 2,020 below a millisecond, 2,000 below two.
        let median = blog.median.unwrap();
        assert!((0.001..0.001_02).contains(&median), "{median}");
        assert!((0.0019..=0.002).contains(&blog.slow.unwrap()), "{blog:?}");
        assert_eq!(rows[1].median, None);
        let route = &now.routes(&before)[0];
        assert_eq!(
            (route.name.as_str(), route.rates),
            ("routes/site", [510.0, 0.0, 10.0])
        );
        assert_eq!(route.quantiles, [Some(0.0005), Some(0.00099)]);
        assert_eq!(now.of_applications("/processes/running"), 7);
        assert_eq!(now.memory(), 125_829_120 + 17_825_792);
        assert_eq!(now.rate(&before, REQUESTS, &[("class", "2xx")]), 1500.0);
        assert_eq!(
            now.rate(&before, "tutti_sent_bytes_total", &[]),
            2_097_152.0
        );
        // Another router counts from 0.
        assert_eq!(before.rate(&now, REQUESTS, &[]), 0.0);
    }
}
