//! The alerts of a running server: current problems, derived from its `/status` and its metrics, and the command that
//! fixes each or shows its cause.
//!
//! The dashboard and `tutti top` show them first. Rates are compared with the same thresholds as in
//! `packaging/monitoring/alerts.yml`.
//!
//! Must never: put a name into a command without quoting it for a shell.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::exposition_parser::Readings;
use crate::families::names;
use crate::status_value::{members, number, plural, text};

/// A certificate that expires within this time should have been renewed.
pub const EXPIRES_SOON: Duration = Duration::from_secs(14 * 86_400);

/// The share of requests with a 5xx that is an alert, as in `alerts.yml`.
const MOST_ERRORS: f64 = 0.05;

/// Fewer errors between two samples are ignored: one failed request of one would be all of them.
const FEWEST_ERRORS: f64 = 3.0;

/// The average wait for a process, in seconds, that is an alert, as in `alerts.yml`.
const LONGEST_WAIT: f64 = 0.5;

/// The share of the file descriptors in use that is an alert, as in `alerts.yml`.
const MOST_FILES: f64 = 0.8;

/// Prints the end of the server's log.
const LOG: &str = "tutti log -n 50";

/// The urgency of an alert. The most urgent comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests fail, or a part of the configuration is not in force.
    Critical,
    /// It may become critical.
    Warning,
}

/// The subject of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The configuration, at this JSON pointer.
    Configuration(String),
    /// An application.
    Application,
    /// An upstream, or requests in general.
    Traffic,
    /// A spooler or a schedule.
    Jobs,
    /// A certificate.
    Certificate,
    /// The server as a whole.
    Server,
}

/// A current problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its urgency.
    pub severity: Severity,
    /// Its subject.
    pub subject: Subject,
    /// One sentence without a full stop.
    pub title: String,
    /// The reason from the server; empty if there is none.
    pub detail: String,
    /// The command that fixes it, or shows its cause.
    pub command: String,
}

/// A server at one moment, and some time before.
#[derive(Debug)]
pub struct Observation<'o> {
    /// The content of `/status`.
    pub status: &'o Value,
    /// The metrics.
    pub readings: &'o Readings,
    /// The metrics at an earlier moment, and the time since then; without them rates are not judged.
    pub before: Option<(&'o Readings, Duration)>,
    /// The time of day.
    pub time: SystemTime,
}

impl Observation<'_> {
    /// Returns all alerts, the critical ones first.
    pub fn alerts(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        self.configuration(&mut alerts);
        for (name, status) in members(self.status, "/applications") {
            self.application(name, status, &mut alerts);
        }
        for (name, status) in members(self.status, "/upstreams") {
            self.upstream(name, status, &mut alerts);
        }
        self.certificates(&mut alerts);
        self.jobs(&mut alerts);
        self.server(&mut alerts);
        alerts.sort_by_key(|alert| alert.severity);
        alerts
    }

    /// Parts of the configuration that are not in force. An application that does not start has its own alert.
    fn configuration(&self, alerts: &mut Vec<Alert>) {
        let problems = self.status.get("problems").and_then(Value::as_array);
        for problem in problems.into_iter().flatten() {
            let pointer = text(problem, "/pointer");
            let segments: Vec<String> = pointer.split('/').skip(1).map(unescaped).collect();
            if let [section, name, ..] = segments.as_slice()
                && section == "applications"
                && members(self.status, "/applications")
                    .any(|(known, status)| known == name && has_failed(status))
            {
                continue;
            }
            // A deeper part may be missing, which may be the very cause.
            let parts = segments.iter().take(2).map(|name| name.replace('/', "%2F"));
            let path = parts.collect::<Vec<_>>().join("/");
            let command = match path.as_str() {
                "" => "tutti config edit".to_owned(),
                path => format!("tutti config edit {}", quoted(path)),
            };
            let place = match pointer {
                "" => "The configuration",
                pointer => pointer,
            };
            alerts.push(Alert {
                severity: Severity::Critical,
                subject: Subject::Configuration(pointer.to_owned()),
                title: format!("{place} is not in force"),
                detail: text(problem, "/message").to_owned(),
                command,
            });
        }
    }

    fn application(&self, name: &str, status: &Value, alerts: &mut Vec<Alert>) {
        let restart = format!("tutti restart {}", quoted(name));
        let mut add = |severity, title: String, detail: String, command: &str| {
            alerts.push(Alert {
                severity,
                subject: Subject::Application,
                title,
                detail,
                command: command.to_owned(),
            });
        };
        let running = number(status, "/processes/running");
        if has_failed(status) {
            let (severity, title) = match running {
                0 => (
                    Severity::Critical,
                    format!("Application {name} cannot start"),
                ),
                _ => (
                    Severity::Warning,
                    format!("Some processes of application {name} cannot start"),
                ),
            };
            let part = |part: &str| text(status, &format!("/failures/last/{part}"));
            // The last line of a traceback is the error.
            let message = part("message").trim_end().lines().next_back();
            let parts = [message.unwrap_or_default(), part("hint")].into_iter();
            let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
            add(severity, title, parts.join("; "), &restart);
        }
        let queued = number(status, "/requests/queued");
        let wait = self.wait(name).filter(|wait| *wait > LONGEST_WAIT);
        if is_saturated(status) || wait.is_some() {
            let workers = plural(running, "worker");
            let backlog =
                (queued > 0).then(|| format!("its backlog has {}", plural(queued, "request")));
            let wait = wait.map(|wait| format!("requests wait {wait:.1} s on average"));
            let reasons: Vec<String> = backlog.into_iter().chain(wait).collect();
            let detail = format!("{}; raise `processes`", reasons.join(", and "));
            let command = format!(
                "tutti config edit {}",
                quoted(&format!("applications/{}", name.replace('/', "%2F")))
            );
            let title = format!("Application {name} is saturated: {workers} for all requests");
            add(Severity::Warning, title, detail, &command);
        }
        // All requests fail while it cannot start.
        let is_known = has_failed(status) && running == 0;
        let errors = self.errors(&format!("application {name}"), &[("application", name)]);
        if let Some(title) = errors.filter(|_| !is_known) {
            add(
                Severity::Critical,
                title,
                self.latest("application", name),
                LOG,
            );
        }
        let stopped = number(status, "/processes/stopped");
        if stopped > 0 {
            let processes = plural(stopped, "process");
            let title = format!("A signal has stopped {processes} of application {name}");
            add(Severity::Warning, title, String::new(), &restart);
        }
        for (mule, status) in members(status, "/mules") {
            if number(status, "/processes/waiting") > 0 {
                let title = format!("Mule {mule} of application {name} exits again and again");
                let detail = text(status, "/last_end/result").to_owned();
                add(Severity::Warning, title, detail, LOG);
            }
        }
    }

    fn upstream(&self, name: &str, status: &Value, alerts: &mut Vec<Alert>) {
        let servers: Vec<(&String, &Value)> = members(status, "/servers").collect();
        let is_down = |status: &Value| text(status, "/state") != "up";
        let severity = match servers.iter().all(|(_, status)| is_down(status)) {
            true => Severity::Critical,
            false => Severity::Warning,
        };
        for (server, status) in servers.iter().filter(|(_, status)| is_down(status)) {
            let (state, command) = match text(status, "/state") {
                "unresolved" => {
                    let host = server
                        .rsplit_once(':')
                        .map_or(server.as_str(), |(host, _)| host);
                    let command = format!("getent hosts {}", quoted(host));
                    ("has no address", command)
                }
                _ => {
                    let command = format!("curl -iv {}", quoted(&format!("http://{server}/")));
                    ("is down", command)
                }
            };
            alerts.push(Alert {
                severity,
                subject: Subject::Traffic,
                title: format!("Server {server} of upstream {name} {state}"),
                detail: text(status, "/health_check/last_failure").to_owned(),
                command,
            });
        }
        if let Some(title) = self.errors(&format!("upstream {name}"), &[("upstream", name)]) {
            alerts.push(Alert {
                severity: Severity::Critical,
                subject: Subject::Traffic,
                title,
                detail: self.latest("upstream", name),
                command: LOG.to_owned(),
            });
        }
    }

    fn certificates(&self, alerts: &mut Vec<Alert>) {
        let mut add = |severity, title: String, detail: &str, command: String| {
            alerts.push(Alert {
                severity,
                subject: Subject::Certificate,
                title,
                detail: detail.to_owned(),
                command,
            });
        };
        let is_automatic = |status: &Value| status.get("state").is_some();
        for (name, status) in members(self.status, "/certificates") {
            if !is_automatic(status) || number(status, "/failures") == 0 {
                continue;
            }
            let (severity, verb) = match text(status, "/state") {
                "missing" => (Severity::Critical, "ordered"),
                _ => (Severity::Warning, "renewed"),
            };
            let title = format!("Certificate {name} cannot be {verb}");
            let error = text(status, "/last_error/message");
            add(
                severity,
                title,
                error,
                format!("tutti cert renew {}", quoted(name)),
            );
        }
        let now = self.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let family = names::CERTIFICATE_EXPIRY.name;
        for name in self.readings.values_of(family, "certificate") {
            let left = self.readings.sum(family, &[("certificate", name)]) - now.as_secs_f64();
            let mut known = members(self.status, "/certificates");
            // An automatic certificate may be valid for days only.
            let is_automatic = known.any(|(known, status)| known == name && is_automatic(status));
            let (severity, title) = match left {
                left if left <= 0.0 => (
                    Severity::Critical,
                    format!("Certificate {name} has expired"),
                ),
                left if left < EXPIRES_SOON.as_secs_f64() && !is_automatic => (
                    Severity::Warning,
                    format!(
                        "Certificate {name} expires in {}",
                        plural((left / 86_400.0) as u64, "day")
                    ),
                ),
                _ => continue,
            };
            let command = match is_automatic {
                true => format!("tutti cert renew {}", quoted(name)),
                false => format!("tutti cert put {} fullchain.pem privkey.pem", quoted(name)),
            };
            add(severity, title, "", command);
        }
    }

    fn jobs(&self, alerts: &mut Vec<Alert>) {
        let mut add = |severity, title: String, detail: &str, command: String| {
            alerts.push(Alert {
                severity,
                subject: Subject::Jobs,
                title,
                detail: detail.to_owned(),
                command,
            });
        };
        for (name, status) in members(self.status, "/spoolers") {
            let problem = text(status, "/problem");
            if !problem.is_empty() {
                let title = format!("Spooler {name} does not deliver");
                add(Severity::Critical, title, problem, LOG.to_owned());
            }
            let failed = number(status, "/jobs/failed");
            if failed > 0 {
                let title = format!("Spooler {name} has {}", plural(failed, "failed job"));
                let command = format!("tutti jobs retry {}", quoted(name));
                add(Severity::Warning, title, "", command);
            }
        }
        for (name, status) in members(self.status, "/schedules") {
            let result = text(status, "/last/result");
            if !matches!(result, "" | "succeeded") {
                let title = format!("The last run of schedule {name} failed");
                add(Severity::Warning, title, result, LOG.to_owned());
            }
        }
    }

    fn server(&self, alerts: &mut Vec<Alert>) {
        let mut add = |severity, title: String, detail: &str, command: &str| {
            alerts.push(Alert {
                severity,
                subject: Subject::Server,
                title,
                detail: detail.to_owned(),
                command: command.to_owned(),
            });
        };
        if self.status.get("maintenance").is_some() {
            let title = "Maintenance is on: requests get 503".to_owned();
            add(Severity::Critical, title, "", "tutti maintenance off");
        }
        for (place, _) in members(self.status, "/maintenance_of_parts") {
            let title = format!("Maintenance is on for {place}: its requests get 503");
            let command = format!(
                "tutti config delete {}",
                quoted(&format!("{place}/maintenance"))
            );
            add(Severity::Warning, title, "", &command);
        }
        if let Some(source) = self.status.get("source") {
            if text(source, "/state") == "refused" {
                let number = number(source, "/refused/generation");
                let title = format!("This node has refused generation {number} of the fleet");
                let reason = text(source, "/refused/reason");
                add(Severity::Critical, title, reason, "tutti fleet rollback");
            }
            if source.get("connected") == Some(&Value::Bool(false)) {
                let title = "The store of the fleet does not answer".to_owned();
                add(Severity::Warning, title, text(source, "/error"), LOG);
            }
        }
        for (name, store) in members(self.status, "/limit_stores") {
            if store.get("connected") == Some(&Value::Bool(false)) {
                let title = format!("The limit store {name} does not answer");
                add(Severity::Warning, title, text(store, "/error"), LOG);
            }
        }
        let files = self.readings.sum(names::ROUTER_FILES.name, &[]);
        let most = self.readings.sum(names::ROUTER_FILES_LIMIT.name, &[]);
        if most > 0.0 && files > most * MOST_FILES {
            let title = format!("{files:.0} of {most:.0} file descriptors are in use");
            let detail = "raise `LimitNOFILE`, then restart the server";
            add(Severity::Warning, title, detail, "systemctl edit tutti");
        }
        for log in self.readings.values_of("tutti_log_lines_lost_total", "log") {
            let lost = self.rate("tutti_log_lines_lost_total", &[("log", log)]);
            if lost.is_some_and(|lost| lost > 0.0) {
                let title = format!("The {log} log loses lines");
                let detail = "its disk is full, or its reader is too slow";
                add(Severity::Warning, title, detail, "df -h");
            }
        }
    }

    fn rate(&self, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let (before, time) = self.before?;
        self.readings.rate(before, time, family, labels)
    }

    /// Returns the average time in seconds that requests have waited for a process of an application.
    fn wait(&self, application: &str) -> Option<f64> {
        let labels = [("application", application)];
        let family = names::QUEUE_WAIT.name;
        let sum = self.rate(&format!("{family}_sum"), &labels)?;
        let count = self.rate(&format!("{family}_count"), &labels)?;
        (count > 0.0).then(|| sum / count)
    }

    /// Returns the title of an alert, if too many requests with these labels failed.
    fn errors(&self, what: &str, labels: &[(&str, &str)]) -> Option<String> {
        let (_, time) = self.before?;
        let family = "tutti_requests_total";
        let all = self.rate(family, labels)?;
        let failed = self.rate(family, &[labels, &[("class", "5xx")]].concat())?;
        let is_few = failed * time.as_secs_f64() < FEWEST_ERRORS || failed < all * MOST_ERRORS;
        (!is_few).then(|| {
            let percent = 100.0 * failed / all;
            format!("{percent:.0} % of the requests to {what} fail with a 5xx")
        })
    }

    /// Returns the latest failed request to an application or an upstream.
    fn latest(&self, kind: &str, name: &str) -> String {
        let failed = self.status.pointer("/recent_requests/failed");
        let mut failed = failed.and_then(Value::as_array).into_iter().flatten();
        let latest = failed.find(|request| request.get(kind).and_then(Value::as_str) == Some(name));
        latest.map_or_else(String::new, |request| {
            let (method, target) = (text(request, "/method"), text(request, "/target"));
            format!(
                "latest: {} for {method} {target}",
                number(request, "/status")
            )
        })
    }
}

/// True if no worker of an application is idle, and as many requests wait as it has workers. `application` is its part
/// of `/status`.
pub fn is_saturated(application: &Value) -> bool {
    let running = number(application, "/processes/running");
    let queued = number(application, "/requests/queued");
    running > 0 && queued >= running && number(application, "/processes/idle") == 0
}

fn has_failed(application: &Value) -> bool {
    let last = application.pointer("/failures/last");
    last.is_some_and(Value::is_object)
}

/// Decodes a segment of a JSON pointer (RFC 6901, section 4).
fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Quotes a word for a POSIX shell if needed, in single quotes, within which no character is special.
pub fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn alerts(status: &Value, before: &str, now: &str) -> Vec<Alert> {
        let (before, now) = (Readings::of(before), Readings::of(now));
        let observation = Observation {
            status,
            readings: &now,
            before: Some((&before, Duration::from_secs(10))),
            time: UNIX_EPOCH + Duration::from_secs(NOW),
        };
        observation.alerts()
    }

    fn of_status(status: &Value) -> Vec<(Severity, String, String, String)> {
        let alerts = alerts(status, "", "").into_iter();
        alerts
            .map(|alert| (alert.severity, alert.title, alert.detail, alert.command))
            .collect()
    }

    /// The only alert: severity, title, detail, command.
    #[track_caller]
    fn one(status: &Value, severity: Severity, [title, detail, command]: [&str; 3]) {
        let expected = (severity, title.into(), detail.into(), command.into());
        assert_eq!(of_status(status), [expected]);
    }

    #[test]
    fn a_healthy_server_has_no_alerts() {
        let status = json!({
            "applications": {"a": {"processes": {"running": 2, "idle": 0}, "requests": {"queued": 1}, "failures": {"total": 3, "last": null}}},
            "upstreams": {"u": {"servers": {"10.0.0.1:80": {"state": "up"}}}},
            "spoolers": {"mail": {"jobs": {"failed": 0}}},
            "schedules": {"night": {"last": {"result": "succeeded"}}, "new": {"last": null}},
            "certificates": {"acme:le:a": {"state": "valid", "failures": 0}},
            "source": {"state": "applied", "connected": true},
        });
        let soon = NOW + 86_400;
        let readings = format!(
            "tutti_certificate_expiry_timestamp_seconds{{certificate=\"acme:le:a\"}} {soon}\n\
             tutti_router_open_files 10\ntutti_router_open_files_limit 100\n\
             tutti_log_lines_lost_total{{log=\"access\"}} 7\n"
        );
        assert_eq!(alerts(&status, &readings, &readings), []);
        for strange in [
            json!(null),
            json!({"applications": [], "upstreams": {"a": {"servers": 1}}, "problems": {}}),
        ] {
            assert_eq!(of_status(&strange), []);
        }
    }

    #[test]
    fn a_part_that_is_not_in_force_is_edited() {
        let status = json!({"problems": [{"pointer": "/listeners/*:80/tls", "message": "in use"}]});
        one(
            &status,
            Severity::Critical,
            [
                "/listeners/*:80/tls is not in force",
                "in use",
                "tutti config edit 'listeners/*:80'",
            ],
        );
    }

    #[test]
    fn an_application_that_cannot_start_has_one_alert_with_the_hint() {
        let mut status = json!({
            "applications": {"a": {"processes": {"running": 0}, "failures": {"last": {"message": "Traceback:\n  File \"a.py\"\nexit code 1\n", "hint": "see its output"}}}},
            "problems": [{"pointer": "/applications/a", "message": "exit code 1"}],
        });
        one(
            &status,
            Severity::Critical,
            [
                "Application a cannot start",
                "exit code 1; see its output",
                "tutti restart a",
            ],
        );
        status["applications"]["a"]["processes"]["running"] = json!(1);
        assert_eq!(of_status(&status)[0].0, Severity::Warning);
    }

    #[test]
    fn a_backlog_as_large_as_all_workers_is_saturation() {
        let of = |idle: u64, queued: u64| json!({"applications": {"a": {"processes": {"running": 2, "idle": idle}, "requests": {"queued": queued}}}});
        one(
            &of(0, 2),
            Severity::Warning,
            [
                "Application a is saturated: 2 workers for all requests",
                "its backlog has 2 requests; raise `processes`",
                "tutti config edit applications/a",
            ],
        );
        assert_eq!(of_status(&of(1, 2)), []);
        let waits = |sum: u64, count: u64| {
            format!(
                "tutti_application_queue_wait_seconds_sum{{application=\"a\"}} {sum}\ntutti_application_queue_wait_seconds_count{{application=\"a\"}} {count}\n"
            )
        };
        let slow = alerts(&of(1, 0), &waits(1, 10), &waits(21, 20));
        // A backlog that is empty at this moment is not worth a word.
        assert_eq!(
            slow[0].detail,
            "requests wait 2.0 s on average; raise `processes`"
        );
        assert_eq!(alerts(&of(1, 0), &waits(1, 10), &waits(2, 20)), []);
    }

    #[test]
    fn errors_are_an_alert_from_a_twentieth_of_the_requests_on() {
        let counts = |succeeded: u64, failed: u64| {
            format!(
                "tutti_requests_total{{application=\"a\",class=\"2xx\"}} {succeeded}\ntutti_requests_total{{application=\"a\",class=\"5xx\"}} {failed}\n"
            )
        };
        let status = json!({
            "applications": {"a": {}},
            "recent_requests": {"failed": [
                {"application": "b", "method": "GET", "target": "/", "status": 502},
                {"application": "a", "method": "POST", "target": "/pay", "status": 500},
            ]},
        });
        let found = alerts(&status, &counts(10, 10), &counts(85, 35));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].title,
            "25 % of the requests to application a fail with a 5xx"
        );
        assert_eq!(found[0].detail, "latest: 500 for POST /pay");
        assert_eq!(found[0].command, "tutti log -n 50");
        let dead = json!({"applications": {"a": {"processes": {"running": 0}, "failures": {"last": {"message": "no"}}}}});
        let found = alerts(&dead, &counts(0, 0), &counts(0, 50));
        assert_eq!(found.len(), 1, "{found:?}");
        // Few of many, and one of one.
        assert_eq!(alerts(&status, &counts(0, 0), &counts(970, 30)), []);
        assert_eq!(alerts(&status, &counts(0, 0), &counts(0, 1)), []);
    }

    #[test]
    fn a_server_that_is_down_is_critical_where_none_is_up() {
        let of = |other: &str| {
            json!({"upstreams": {"u": {"servers": {
                "10.0.0.1:80": {"state": "down", "health_check": {"last_failure": "refused"}},
                "b.example:80": {"state": other},
            }}}})
        };
        one(
            &of("up"),
            Severity::Warning,
            [
                "Server 10.0.0.1:80 of upstream u is down",
                "refused",
                "curl -iv http://10.0.0.1:80/",
            ],
        );
        let all = of_status(&of("unresolved"));
        assert!(all.iter().all(|alert| alert.0 == Severity::Critical));
        assert_eq!(all[1].3, "getent hosts b.example");
    }

    #[test]
    fn a_certificate_expires_or_cannot_be_renewed() {
        let readings = format!(
            "tutti_certificate_expiry_timestamp_seconds{{certificate=\"old\"}} {}\n\
             tutti_certificate_expiry_timestamp_seconds{{certificate=\"soon\"}} {}\n\
             tutti_certificate_expiry_timestamp_seconds{{certificate=\"fresh\"}} {}\n",
            NOW - 1,
            NOW + 3 * 86_400,
            NOW + 90 * 86_400
        );
        let status = json!({"certificates": {"acme:le:a": {"state": "missing", "failures": 2, "last_error": {"message": "no answer"}}}});
        let found = alerts(&status, "", &readings);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|alert| (alert.title.as_str(), alert.command.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "Certificate acme:le:a cannot be ordered",
                    "tutti cert renew acme:le:a"
                ),
                (
                    "Certificate old has expired",
                    "tutti cert put old fullchain.pem privkey.pem"
                ),
                (
                    "Certificate soon expires in 3 days",
                    "tutti cert put soon fullchain.pem privkey.pem"
                ),
            ]
        );
    }

    #[test]
    fn jobs_mules_maintenance_and_fleets_have_alerts() {
        one(
            &json!({"spoolers": {"mail": {"jobs": {"failed": 1}}}}),
            Severity::Warning,
            ["Spooler mail has 1 failed job", "", "tutti jobs retry mail"],
        );
        one(
            &json!({"schedules": {"night": {"last": {"result": "status 500"}}}}),
            Severity::Warning,
            [
                "The last run of schedule night failed",
                "status 500",
                "tutti log -n 50",
            ],
        );
        one(
            &json!({"applications": {"a": {"mules": {"m": {"processes": {"waiting": 1}, "last_end": {"result": "exit code 3"}}}}}}),
            Severity::Warning,
            [
                "Mule m of application a exits again and again",
                "exit code 3",
                "tutti log -n 50",
            ],
        );
        one(
            &json!({"maintenance": {}}),
            Severity::Critical,
            [
                "Maintenance is on: requests get 503",
                "",
                "tutti maintenance off",
            ],
        );
        one(
            &json!({"maintenance_of_parts": {"/listeners/*:8080": {"retry_after": 60}}}),
            Severity::Warning,
            [
                "Maintenance is on for /listeners/*:8080: its requests get 503",
                "",
                "tutti config delete '/listeners/*:8080/maintenance'",
            ],
        );
        one(
            &json!({"source": {"state": "refused", "connected": true, "refused": {"generation": 7, "reason": "no module"}}}),
            Severity::Critical,
            [
                "This node has refused generation 7 of the fleet",
                "no module",
                "tutti fleet rollback",
            ],
        );
        one(
            &json!({"limit_stores": {"s": {"connected": false}}}),
            Severity::Warning,
            ["The limit store s does not answer", "", "tutti log -n 50"],
        );
    }

    #[test]
    fn files_and_logs_that_run_out_have_alerts() {
        let of = |files: u64, lost: u64| {
            format!(
                "tutti_router_open_files {files}\ntutti_router_open_files_limit 100\ntutti_log_lines_lost_total{{log=\"access\"}} {lost}\n"
            )
        };
        let found = alerts(&Value::Null, &of(81, 1), &of(81, 2));
        let titles: Vec<&str> = found.iter().map(|alert| alert.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "81 of 100 file descriptors are in use",
                "The access log loses lines"
            ]
        );
    }

    #[test]
    fn a_shell_reads_a_hostile_name_as_one_word() {
        for (name, word) in [
            ("blog", "blog"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(name), word);
        }
    }
}
