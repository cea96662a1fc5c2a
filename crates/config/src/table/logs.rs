//! Options of what is logged of requests: `access_log`, `slow_log`, and the id that a request has in all logs.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

use super::kinds::ADDRESSES;

options! {
    /// The id of a request, and who learns it
    pub struct RequestIdOptions: REQUEST_ID = "request_id" {
        /// The field that has it, in requests to applications and servers, and in answers
        header: String [kind(ValueKind::String(Text::WrittenHeader)), beyond(), default("\"X-Request-Id\"")],
        /// Addresses whose requests bring their id in that field; what others send there is left out. Without it every id
        /// is made here
        source: Unread [kind(ADDRESSES), beyond()],
        /// Tell the client, too
        response: bool [beyond(), default("false")],
    }
}

options! {
    /// The file that gets a line for each request, and what is in it
    pub struct AccessLogOptions: ACCESS_LOG = "access_log" {
        /// The file, or a syslog server
        path: PathBuf [required(), kind(ValueKind::String(Text::Log))],
        /// A line, with variables; or an object, for a line of JSON
        format: Unread [kind(LOG_FORMAT), default(DEFAULT_LOG_FORMAT)],
        /// Log only requests for which this is not empty, `0`, `false`, `null` or `undefined`
        condition: Unread [key("if"), kind(ValueKind::String(Text::Condition))],
    }
}

options! {
    /// The entries for requests that take long
    pub struct SlowLogOptions: SLOW_LOG = "slow_log" {
        /// The file, or a syslog server
        path: PathBuf [required(), kind(ValueKind::String(Text::Log)), beyond()],
        /// Requests that take longer, from their first byte on, have entries
        threshold: Duration [kind(ValueKind::Number(0.001, 86_400.0)), beyond(), default("1"), unit("seconds")],
        /// The form of an entry: lines for people, or one JSON object
        format: SlowLogFormat [beyond(), default("\"text\"")],
        /// Ask the application where it stands when the time is over. In PHP a `sleep()` returns early when it is asked
        backtrace: bool [beyond(), default("true")],
    }
}

words! {
    /// The form of an entry of the slow log.
    pub enum SlowLogFormat {
        /// Lines for people.
        Text = "text",
        /// One JSON object.
        Json = "json",
    }
}

options! {
    /// A member of a line of JSON that is a number
    pub struct LogNumberOptions: LOG_NUMBER = "log_number" {
        /// Text with variables that is a number, as `$status`; `null` is written where it is none
        number: Unread [required(), kind(ValueKind::String(Text::Template)), beyond()],
    }
}

const LOG_FORMAT: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::TemplateOrEmpty),
    ValueKind::Map(Names::Any, &LOG_VALUE),
]);
const LOG_VALUE: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::TemplateOrEmpty),
    LogNumberOptions::KIND,
]);

/// The combined log format, as JSON.
pub(crate) const DEFAULT_LOG_FORMAT: &str = concat!(
    r#""$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent "#,
    r#"\"$header_referer\" \"$header_user_agent\"""#
);

/// `access_log`: one, or several.
pub(super) const ACCESS_LOGS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Log),
    AccessLogOptions::KIND,
    ValueKind::Array(&ValueKind::OneOf(&[
        ValueKind::String(Text::Log),
        AccessLogOptions::KIND,
    ])),
]);
