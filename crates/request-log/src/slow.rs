//! The slow log: an entry for each request that exceeds the threshold, with its phases, and one while it is still running, with the
//! application's position in its code.
//!
//! Must never: make a request wait for its entry.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tutti_config::model::{self, SlowLogFormat, SlowLogOptions};
use tutti_sys::{log_line, time};

use crate::log_file::LogFile;

/// `slow_log` of a configuration.
pub struct SlowLogger {
    file: Arc<LogFile>,
    /// Which requests are logged, and in which format.
    pub options: SlowLogOptions,
}

/// The times of a request's phases in an application or a server. Recorded only with a slow log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// It was submitted: its body is complete, or is streamed.
    pub handed: Option<Instant>,
    /// The time that it waited until a worker began it.
    pub queued: Option<Duration>,
    /// The head of its response arrived.
    pub answered: Option<Instant>,
}

/// The answerer of a request.
#[derive(Clone, Debug)]
pub enum RequestTarget {
    /// The server itself.
    Own,
    /// The application of this name.
    Application(Box<str>),
    /// The upstream of this name.
    Upstream(Box<str>),
}

/// A request, as an entry describes it.
pub struct SlowRequest {
    /// When the first byte of its head was received.
    pub begun: Instant,
    /// When its head was complete.
    pub arrived: Instant,
    /// Its phases so far.
    pub phases: Phases,
    /// Its answerer.
    pub server: RequestTarget,
    /// `None`: it is still running.
    pub status: Option<u16>,
    /// The client's address.
    pub client: String,
    /// Its method, escaped for a line of text.
    pub method: String,
    /// Its target, escaped for a line of text.
    pub target: String,
    /// Its id in all logs.
    pub id: String,
    /// The process that serves it, if it was asked.
    pub process: Option<i32>,
    /// Its position in the code.
    pub backtrace: Vec<String>,
}

/// A phase of a request, and how long it took.
type Phase = (&'static str, Duration);

impl SlowLogger {
    /// Writes to this file.
    pub fn new(log: &model::SlowLog, file: Arc<LogFile>) -> Self {
        Self {
            file,
            options: log.options.clone(),
        }
    }

    /// Writes an entry about a request `now`. Returns a line for the daemon's log if entries were lost.
    pub fn write(&self, entry: &SlowRequest, now: Instant) -> Option<String> {
        let mut lines = Vec::new();
        let text = match self.options.format {
            SlowLogFormat::Json => entry.value(now).to_string(),
            SlowLogFormat::Text => text(entry, now, !self.file.is_syslog()),
        };
        for line in text.lines() {
            self.file.begin(&mut lines);
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
        }
        self.file.write(&lines);
        self.file.news("slow log")
    }
}

impl SlowRequest {
    /// Its phases up to `now`, in order; each ends where the next begins.
    fn phases(&self, now: Instant) -> Vec<Phase> {
        let since = |later: Instant, earlier: Instant| later.saturating_duration_since(earlier);
        let mut phases = vec![("head", since(self.arrived, self.begun))];
        // Left over from the previous request.
        let Some(handed) = self.phases.handed.filter(|handed| *handed >= self.arrived) else {
            phases.push(("answer", since(now, self.arrived)));
            return phases;
        };
        phases.push(("body", since(handed, self.arrived)));
        let answered = self.phases.answered.filter(|answered| *answered >= handed);
        let served = since(answered.unwrap_or(now), handed);
        match self.server {
            RequestTarget::Application(_) => {
                // Not begun: as far as is known, all of it was waiting.
                let queued = self.phases.queued.filter(|_| answered.is_some());
                match (queued, answered.is_some()) {
                    (Some(queued), _) => {
                        let queued = queued.min(served);
                        phases.push(("queue", queued));
                        phases.push(("worker", served - queued));
                    }
                    (None, _) => phases.push(("application", served)),
                }
            }
            _ => phases.push(("upstream", served)),
        }
        if let Some(answered) = answered {
            phases.push(("send", since(now, answered)));
        }
        phases
    }

    /// Its JSON form.
    pub(crate) fn value(&self, now: Instant) -> Value {
        let (at, milliseconds) = time::now();
        let seconds = |duration: f64| Value::from((duration * 1e6).round() / 1e6);
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
        add("time", at.rfc3339(milliseconds).into());
        add(
            "state",
            if self.status.is_some() {
                "finished"
            } else {
                "running"
            }
            .into(),
        );
        add("request_id", self.id.as_str().into());
        add("client", self.client.as_str().into());
        add("method", self.method.as_str().into());
        add("target", self.target.as_str().into());
        if let Some(status) = self.status {
            add("status", status.into());
        }
        match &self.server {
            RequestTarget::Own => {}
            RequestTarget::Application(name) => drop(add("application", name.as_ref().into())),
            RequestTarget::Upstream(name) => drop(add("upstream", name.as_ref().into())),
        }
        add("seconds", seconds(self.seconds(now)));
        let phases = self.phases(now);
        let phases = phases
            .iter()
            .map(|(name, duration)| ((*name).to_owned(), seconds(duration.as_secs_f64())));
        add("phases", Value::Object(phases.collect()));
        if let Some(process) = self.process {
            add("pid", process.into());
        }
        if !self.backtrace.is_empty() {
            let lines = self.backtrace.iter().map(|line| line.trim().into());
            add("backtrace", Value::Array(lines.collect()));
        }
        Value::Object(members)
    }

    fn seconds(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.begun).as_secs_f64()
    }
}

fn text(entry: &SlowRequest, now: Instant, has_time: bool) -> String {
    let mut text = String::new();
    if has_time {
        let (at, _) = time::now();
        text = log_line::date(&at) + " ";
    }
    let state = match entry.status {
        Some(_) => "[slow]",
        None => "[running]",
    };
    // Writing to a string cannot fail, here and below.
    let _ = write!(text, "{state} {:.3} s (", entry.seconds(now));
    for (index, (name, duration)) in entry.phases(now).iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}{name} {:.3}", duration.as_secs_f64());
    }
    text.push(')');
    if let Some(status) = entry.status {
        let _ = write!(text, ", status {status}");
    }
    match &entry.server {
        RequestTarget::Own => {}
        RequestTarget::Application(name) => {
            let _ = write!(text, ", application \"{name}\"");
        }
        RequestTarget::Upstream(name) => {
            let _ = write!(text, ", upstream \"{name}\"");
        }
    }
    if let Some(process) = entry.process {
        let _ = write!(text, ", process {process}");
    }
    let SlowRequest {
        client,
        method,
        target,
        id,
        ..
    } = entry;
    let _ = write!(
        text,
        ", client {client}, request \"{method} {target}\", id {id}"
    );
    for line in &entry.backtrace {
        let _ = write!(text, "\n  {}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(begun: Instant) -> SlowRequest {
        let after = |milliseconds| begun + Duration::from_millis(milliseconds);
        SlowRequest {
            begun,
            arrived: after(10),
            phases: Phases {
                handed: Some(after(30)),
                queued: Some(Duration::from_millis(70)),
                answered: Some(after(1_000)),
            },
            server: RequestTarget::Application("blog".into()),
            status: Some(200),
            client: "192.0.2.1".to_owned(),
            method: "GET".to_owned(),
            target: "/a?b=\\x22".to_owned(),
            id: "id-1".to_owned(),
            process: None,
            backtrace: Vec::new(),
        }
    }

    #[test]
    fn an_entry_has_the_phases_of_its_request_and_they_add_up() {
        let begun = Instant::now();
        let now = begun + Duration::from_millis(1_500);
        let text = text(&entry(begun), now, true);
        let (_, text) = text.split_at(20);
        assert_eq!(
            text,
            "[slow] 1.500 s (head 0.010, body 0.020, queue 0.070, worker 0.900, send 0.500), status 200, \
             application \"blog\", client 192.0.2.1, request \"GET /a?b=\\x22\", id id-1"
        );
        let json: Value = entry(begun).value(now);
        let phases = json["phases"].as_object().unwrap();
        let sum: f64 = phases.values().filter_map(Value::as_f64).sum();
        assert!((sum - 1.5).abs() < 1e-6, "{json}");
        assert_eq!(
            (&json["state"], &json["status"]),
            (&"finished".into(), &200.into())
        );
    }

    #[test]
    fn a_running_request_is_logged_with_its_position() {
        let begun = Instant::now();
        let mut running = entry(begun);
        running.status = None;
        running.phases.answered = None;
        running.process = Some(7);
        running.backtrace = vec![
            "process 7 is at /a.php:1 in f()".into(),
            "  called at /b.php:2".into(),
        ];
        let now = begun + Duration::from_millis(1_030);
        let text = text(&running, now, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("[running] 1.030 s (head 0.010, body 0.020, application 1.000), application \"blog\", process 7, "));
        assert_eq!(
            lines[1..],
            [
                "  process 7 is at /a.php:1 in f()",
                "    called at /b.php:2"
            ]
        );
        let json: Value = running.value(now);
        assert_eq!(json["backtrace"][1], "called at /b.php:2");
        assert_eq!(json["pid"], 7);
    }

    #[test]
    fn own_responses_have_their_phases_and_none_of_the_previous_request() {
        let begun = Instant::now();
        let mut own = entry(begun);
        own.server = RequestTarget::Own;
        own.arrived = begun + Duration::from_millis(1_200);
        let names: Vec<&str> = own
            .phases(own.arrived)
            .iter()
            .map(|phase| phase.0)
            .collect();
        assert_eq!(names, ["head", "answer"]);
    }
}
