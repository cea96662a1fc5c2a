//! Options for logging requests: `access_log`, `slow_log`, and the id that a request has in all logs.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

use super::kinds::ADDRESSES;

options! {
    /// The id of a request, and the fields it is sent in
    pub struct RequestIdOptions: REQUEST_ID = "request_id" {
        /// The field with the id in requests to applications and servers, and in responses
        header: String [kind(ValueKind::String(Text::WrittenHeader)), beyond(), default("\"X-Request-Id\"")],
        /// Addresses that are trusted to send a request's id in that field; the field of other clients is ignored.
        /// Without it the server makes every id
        source: Unread [kind(ADDRESSES), beyond()],
        /// Send it to the client, too
        response: bool [beyond(), default("false")],
    }
}

options! {
    /// A file with one line for each request, and the format of the line
    pub struct AccessLogOptions: ACCESS_LOG = "access_log" {
        /// The file, or a syslog server
        path: PathBuf [required(), kind(ValueKind::String(Text::Log))],
        /// The line, with variables; or an object, for a line of JSON
        format: Unread [kind(LOG_FORMAT), default(DEFAULT_LOG_FORMAT)],
        /// Log only requests for which this is not empty, `0`, `false`, `null` or `undefined`
        condition: Unread [key("if"), kind(ValueKind::String(Text::Condition))],
    }
}

options! {
    /// Entries for slow requests
    pub struct SlowLogOptions: SLOW_LOG = "slow_log" {
        /// The file, or a syslog server
        path: PathBuf [required(), kind(ValueKind::String(Text::Log)), beyond()],
        /// Log requests that take longer, counted from their first byte
        threshold: Duration [kind(ValueKind::Number(0.001, 86_400.0)), beyond(), default("1"), unit("seconds")],
        /// The form of an entry: lines for people, or one JSON object
        format: SlowLogFormat [beyond(), default("\"text\"")],
        /// When the time is over, ask the application for a backtrace. In PHP this makes a `sleep()` return early
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
        /// Text with variables that yields a number, such as `$status`; `null` is written if it is none
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
pub(super) const ACCESS_LOGS: ValueKind =
    ValueKind::OneOf(&[LOG_FILE, AccessLogOptions::KIND, LOG_LIST]);

/// `access_log` of a listener or an action: the same, or none.
pub(super) const OWN_ACCESS_LOGS: ValueKind = ValueKind::OneOf(&[
    ValueKind::Boolean,
    LOG_FILE,
    AccessLogOptions::KIND,
    LOG_LIST,
]);

const LOG_FILE: ValueKind = ValueKind::String(Text::Log);
const LOG_LIST: ValueKind =
    ValueKind::Array(&ValueKind::OneOf(&[LOG_FILE, AccessLogOptions::KIND]));
