//! The request logs: their content and their destinations.

use tutti_document::Pointer;
use tutti_options::log_target::LogTarget;

use super::condition::Condition;
use crate::table::{DEFAULT_LOG_FORMAT, SlowLogOptions};
use crate::template::Template;
use crate::variables::Variable;

/// `access_log`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// Where it was written.
    pub pointer: Pointer,
    /// The file, or a syslog server.
    pub target: LogTarget,
    /// The format of a line.
    pub format: LogFormat,
    /// Only requests for which this is true are logged.
    pub condition: Option<Condition>,
}

/// `slow_log`.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowLog {
    /// Where it was written.
    pub pointer: Pointer,
    /// The file, or a syslog server.
    pub target: LogTarget,
    /// Which requests are logged, and in which form.
    pub options: SlowLogOptions,
}

/// The format of an access log line.
#[derive(Clone, Debug, PartialEq)]
pub enum LogFormat {
    /// Text with variables.
    Text(Template),
    /// One JSON object per line; members in order.
    Json(Vec<(String, LogValue)>),
}

impl AccessLog {
    /// True if a line may have this variable.
    pub fn names(&self, variable: &Variable) -> bool {
        let is_in_format = match &self.format {
            LogFormat::Text(template) => template.names(variable),
            LogFormat::Json(members) => {
                let mut values = members.iter();
                values.any(|(_, value)| value.template.names(variable))
            }
        };
        let condition = self.condition.as_ref();
        is_in_format || condition.is_some_and(|condition| condition.template.names(variable))
    }
}

/// The value of a member of such a line.
#[derive(Clone, Debug, PartialEq)]
pub struct LogValue {
    /// Text with variables.
    pub template: Template,
    /// Written as a number, `null` if it is none; otherwise as a string.
    pub is_number: bool,
}

impl Default for LogFormat {
    fn default() -> Self {
        let text: String = serde_json::from_str(DEFAULT_LOG_FORMAT).unwrap_or_default();
        LogFormat::Text(Template::parse(&text).unwrap_or_default())
    }
}
