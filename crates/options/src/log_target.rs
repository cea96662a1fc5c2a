//! The destination of log lines, as options name it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::syslog::SyslogTarget;

/// The destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// A file, or a stream by its path.
    File(PathBuf),
    /// Messages to a server.
    Syslog(SyslogTarget),
}

impl LogTarget {
    /// Parses a destination; `None` if it is a syslog server with mistakes.
    pub fn parse(text: &str) -> Option<LogTarget> {
        match SyslogTarget::parse(text) {
            None => Some(LogTarget::File(text.into())),
            Some(target) => target.ok().map(LogTarget::Syslog),
        }
    }

    /// The path of a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            LogTarget::File(path) => Some(path),
            LogTarget::Syslog(_) => None,
        }
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::File(path) => path.display().fmt(f),
            LogTarget::Syslog(target) => write!(f, "syslog:server={}", target.server),
        }
    }
}
