//! The daemon's log as the command line configures it: `--log-format`, `--log-level`, and a syslog server as `--log`.
//!
//! Main reads the flags and passes them to the processes that it starts for itself, so that all lines have the same
//! form from the first one on.

use serde::{Deserialize, Serialize};

use crate::syslog::SyslogTarget;

/// Severity of a line, the most severe first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A fault of the server itself.
    Alert,
    /// A request or a process was lost.
    Error,
    /// Something that needs attention.
    Warn,
    /// An event in the server's life, such as a start.
    Notice,
    /// Detail.
    #[default]
    Info,
    /// For developers.
    Debug,
}

impl Level {
    /// All of them, the most severe first.
    pub const ALL: [Level; 6] = [
        Level::Alert,
        Level::Error,
        Level::Warn,
        Level::Notice,
        Level::Info,
        Level::Debug,
    ];

    /// As a line has it.
    pub const fn word(self) -> &'static str {
        match self {
            Level::Alert => "alert",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// Parses the name of a level; `warning` is accepted as well.
    pub fn from_word(word: &str) -> Option<Level> {
        let word = if word == "warning" { "warn" } else { word };
        Level::ALL.into_iter().find(|level| level.word() == word)
    }

    /// Its number in RFC 5424 §6.2.1.
    pub const fn severity(self) -> u8 {
        match self {
            Level::Alert => 1,
            Level::Error => 3,
            Level::Warn => 4,
            Level::Notice => 5,
            Level::Info => 6,
            Level::Debug => 7,
        }
    }
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogForm {
    /// `YYYY/MM/DD HH:MM:SS [level] PID#TID message`.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// The style of the daemon's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStyle {
    /// The form of a line.
    pub format: LogForm,
    /// The least severe level that is written.
    pub level: Level,
    /// The syslog server that gets the lines; `None`: they go to a file or a stream.
    pub syslog: Option<SyslogTarget>,
}
