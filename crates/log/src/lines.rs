//! A line of the daemon's log in the configured form.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tutti_options::logging::{Level, LogForm, LogStyle};
use tutti_sys::{log_line, time};

use crate::syslog::Syslog;

/// The content of a line.
pub(crate) struct Entry<'a> {
    pub(crate) level: Level,
    pub(crate) process: i32,
    pub(crate) thread: i32,
    /// The part of the server; `None`: that of this process.
    pub(crate) role: Option<&'static str>,
    pub(crate) application: Option<&'a str>,
    pub(crate) message: Cow<'a, str>,
    /// The id of the request that it concerns.
    pub(crate) request: Option<&'a str>,
}

/// Formats lines.
#[derive(Debug)]
pub(crate) struct Writer {
    style: LogStyle,
    syslog: Option<Syslog>,
    role: &'static str,
}

impl Writer {
    pub(crate) fn new(style: &LogStyle, role: &'static str) -> Writer {
        Writer {
            syslog: style.syslog.as_ref().map(Syslog::new),
            style: style.clone(),
            role,
        }
    }

    pub(crate) fn style(&self) -> &LogStyle {
        &self.style
    }

    /// True if lines go to a file, in text.
    pub(crate) fn is_plain_text(&self) -> bool {
        self.syslog.is_none() && self.style.format == LogForm::Text
    }

    /// Formats an entry with its line end; for a syslog server, text of several lines becomes as many messages.
    pub(crate) fn line(&self, entry: &Entry<'_>) -> Vec<u8> {
        let mut line = Vec::with_capacity(entry.message.len() + 100);
        let text = match self.style.format {
            LogForm::Json => self.json(entry),
            LogForm::Text => text(entry),
        };
        match &self.syslog {
            None => {
                if self.style.format == LogForm::Text {
                    let head = log_line::head(entry.level.word(), entry.process, entry.thread);
                    line.extend_from_slice(head.as_bytes());
                }
                line.extend_from_slice(text.as_bytes());
                line.push(b'\n');
            }
            Some(syslog) => {
                for part in text.lines() {
                    syslog.begin(Some(entry.level.severity()), &mut line);
                    if let (LogForm::Text, Some(application)) =
                        (self.style.format, entry.application)
                        && entry.role.is_some()
                    {
                        let whose = format!("\"{application}\" [{}]: ", entry.process);
                        line.extend_from_slice(whose.as_bytes());
                    }
                    line.extend_from_slice(part.as_bytes());
                    line.push(b'\n');
                }
            }
        }
        line
    }

    fn json(&self, entry: &Entry<'_>) -> String {
        let (at, milliseconds) = time::now();
        let mut members = Map::new();
        let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
        add("time", at.rfc3339(milliseconds).into());
        add("level", entry.level.word().into());
        add("role", entry.role.unwrap_or(self.role).into());
        add("pid", entry.process.into());
        add("tid", entry.thread.into());
        if let Some(application) = entry.application {
            add("application", application.into());
        }
        if let Some(id) = entry.request {
            add("request_id", id.into());
        }
        add("message", entry.message.as_ref().into());
        Value::Object(members).to_string()
    }
}

fn text(entry: &Entry<'_>) -> String {
    match entry.request {
        Some(id) => format!("{}, id {id}", entry.message),
        None => entry.message.clone().into_owned(),
    }
}

/// Returns the application that a message concerns: messages of the pool begin with its name, in quotes.
pub(crate) fn named_application(message: &str) -> Option<&str> {
    let (name, rest) = message.strip_prefix('"')?.split_once('"')?;
    rest.starts_with([':', ' ']).then_some(name)
}

#[cfg(test)]
mod tests {
    use tutti_options::syslog::SyslogTarget;

    use super::*;

    fn line(style: &LogStyle, message: &str) -> String {
        let entry = Entry {
            level: Level::Warn,
            process: 1,
            thread: 2,
            role: None,
            application: named_application(message),
            message: message.into(),
            request: Some("id-1"),
        };
        String::from_utf8(Writer::new(style, "router").line(&entry)).unwrap()
    }

    #[test]
    fn a_line_of_text_has_the_documented_form() {
        let line = line(&LogStyle::default(), "hello");
        let (date, rest) = line.split_at(20);
        let digits = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let shape: String = date.chars().map(digits).collect();
        assert_eq!(shape, "0000/00/00 00:00:00 ");
        assert_eq!(rest, "[warn] 1#2 hello, id id-1\n");
    }

    #[test]
    fn a_line_of_json_has_the_same_facts_as_members() {
        let style = LogStyle {
            format: LogForm::Json,
            ..LogStyle::default()
        };
        let line = line(&style, "\"blog\": two\nlines and a \"quote\"");
        assert_eq!(line.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["level"], "warn");
        assert_eq!(value["role"], "router");
        assert_eq!((&value["pid"], &value["tid"]), (&1.into(), &2.into()));
        assert_eq!(value["application"], "blog");
        assert_eq!(value["request_id"], "id-1");
        assert_eq!(value["message"], "\"blog\": two\nlines and a \"quote\"");
        let time = value["time"].as_str().unwrap();
        assert_eq!((time.len(), &time[10..11], &time[19..20]), (29, "T", "."));
    }

    #[test]
    fn each_line_for_a_syslog_server_is_a_message_with_the_lines_severity() {
        let style = LogStyle {
            syslog: SyslogTarget::parse("syslog:").unwrap().ok(),
            ..LogStyle::default()
        };
        let lines = line(&style, "one\ntwo");
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("<188>") && lines[0].ends_with("]: one"),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("<188>") && lines[1].ends_with("]: two, id id-1"));
    }
}
