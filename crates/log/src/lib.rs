//! The daemon's log: one line is one `write`, so lines of all processes mix without tearing, and no writer ever waits for
//! the reader of a pipe ([`tutti_sys::log_stream`]).
//!
//! Main opens the file and gives it to the processes that it starts for itself; all write lines of the same form,
//! `YYYY/MM/DD HH:MM:SS [level] PID#TID message`. What must never happen: that a configuration has a log written where none belongs.

#![forbid(unsafe_code)]

mod limit;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tutti_sys::error::context;
use tutti_sys::guarded::{self, LogPlace};
use tutti_sys::log_stream::{Later, LogStream};
use tutti_sys::{log_line, process};

pub use self::limit::LineLimit;

/// Severity of a line for the daemon's log, in the terms of its log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A fault of the server itself.
    Alert,
    /// A request or a process was lost.
    Error,
    /// Something to look at.
    Warn,
    /// Life of the server.
    Notice,
    /// Detail.
    Info,
    /// For developers.
    Debug,
}

/// Where log lines go. Cloning gives a handle on the same log.
#[derive(Debug, Clone)]
pub struct Log {
    file: Arc<ArcSwap<LogStream>>,
    later: Later,
}

impl Log {
    /// A log to an open file. Its writer has a loop that calls [`flush`](Self::flush): it has no threads.
    pub fn to(file: OwnedFd) -> Log {
        Log::with(file, Later::Caller)
    }

    /// The log of a process that may have threads.
    pub fn of_threads(file: OwnedFd) -> Log {
        Log::with(file, Later::Thread)
    }

    fn with(file: OwnedFd, later: Later) -> Log {
        Log {
            file: Arc::new(ArcSwap::new(LogStream::new(file, later, Some(lost)))),
            later,
        }
    }

    /// A log to standard error.
    ///
    /// # Errors
    /// There is none, or no descriptor is left.
    pub fn to_stderr() -> io::Result<Log> {
        Ok(Log::to(rustix::io::fcntl_dupfd_cloexec(
            rustix::stdio::stderr(),
            3,
        )?))
    }

    /// From now on lines go to this file.
    pub fn replace(&self, file: OwnedFd) {
        self.file
            .store(LogStream::new(file, self.later, Some(lost)));
    }

    /// A second descriptor of the file in use.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.load().descriptor().try_clone_to_owned()
    }

    /// Where to wait for room, while lines wait for a reader that stands still.
    pub fn waiting(&self) -> Option<Arc<LogStream>> {
        let file = self.file.load_full();
        file.has_waiting().then_some(file)
    }

    /// Writes what waits, as far as there is room.
    pub fn flush(&self) {
        self.file.load().flush();
    }

    /// Writes one line. A log that cannot be written is not worth stopping for.
    pub fn line(&self, level: Level, message: &str) {
        if level == Level::Debug {
            return;
        }
        let _ = self.file.load().write(&format_line(level, message));
    }

    /// Writes bytes as they are, with a newline.
    pub fn raw(&self, line: &[u8]) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        let _ = self.file.load().write(&bytes);
    }
}

impl Log {
    /// Writes a line that an application has printed, with the time, the number of its process and its name, unless it has the form
    /// of this log.
    pub fn output(&self, application: &str, process: i32, line: &[u8]) {
        if log_line::has_form(line) {
            return self.raw(line);
        }
        let head = log_line::head(level_name(Level::Notice), process, process);
        let mut whole = format!("{head}\"{application}\" output: ").into_bytes();
        whole.extend_from_slice(line);
        self.raw(&whole);
    }
}

/// Told when the reader of a pipe goes on.
fn lost(count: u64) -> Vec<u8> {
    let text = format!(
        "{count} lines of this log are lost: whoever reads it stood still, and nothing waits for that"
    );
    format_line(Level::Warn, &text)
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Alert => "alert",
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Notice => "notice",
        Level::Info => "info",
        Level::Debug => "debug",
    }
}

fn format_line(level: Level, message: &str) -> Vec<u8> {
    let head = log_line::head(level_name(level), process::id(), process::thread_id());
    let mut line = head.into_bytes();
    line.extend_from_slice(message.trim_end_matches('\n').as_bytes());
    line.push(b'\n');
    line
}

/// Mode of logs that are made: what Unit and nginx create logs with.
const MODE: u32 = 0o644;

/// Opens the log of this path to append, and makes it where it is missing: a regular file, or a stream by its name (see
/// [`guarded`]).
///
/// # Errors
/// The reason against it, with the path.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    open_where(path, |_| Ok(()))
}

/// The same for a log that the configuration names.
///
/// # Errors
/// As above, and a folder of the system.
pub fn open_configured(path: &Path) -> io::Result<OwnedFd> {
    open_where(path, may_hold_logs)
}

fn open_where(path: &Path, is_allowed: fn(&Path) -> io::Result<()>) -> io::Result<OwnedFd> {
    let opened = guarded::log_place(path).and_then(|place| match place {
        LogPlace::Stream(stream) => Ok(stream),
        LogPlace::File(named) => {
            is_allowed(&named.path())?;
            named.open_log(MODE)
        }
    });
    opened.map_err(|e| context(format!("opening log `{}`", path.display()), e))
}

/// Folders of the system that hold no logs. A log goes only where [`guarded`] allows it; this keeps a configuration from
/// growing a file there that another program reads.
const NO_LOGS: [&str; 12] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/root",
    "/run/systemd",
    "/sbin",
    "/sys",
    "/usr",
];

/// The devices that a configuration may name: what is written to them is not kept.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/tty", "/dev/console"];

/// `path` holds no links.
fn may_hold_logs(path: &Path) -> io::Result<()> {
    let is_device = DEVICES.iter().any(|device| path == Path::new(device));
    if is_device || !NO_LOGS.iter().any(|folder| path.starts_with(folder)) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "no log can be written to `{}`: choose a folder for logs, such as `/var/log`",
            path.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_documented_form() {
        let line = String::from_utf8(format_line(Level::Notice, "hello\n")).unwrap();
        let (date, rest) = line.split_at(20);
        let shape: String = date
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert_eq!(shape, "0000/00/00 00:00:00 ");
        assert_eq!(
            rest,
            format!(
                "[notice] {}#{} hello\n",
                process::id(),
                process::thread_id()
            )
        );
    }

    /// Issue 10, 1.25: an application's output had neither time nor process nor application.
    #[test]
    fn output_of_an_application_says_when_and_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::to(open(&path).unwrap());
        log.output("blog", 42, b"hello");
        let own = b"2026/01/02 03:04:05 [error] 7#7 \"blog\": php message: x";
        log.output("blog", 42, own);
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0].get(20..),
            Some("[notice] 42#42 \"blog\" output: hello")
        );
        assert!(log_line::has_form(lines[0].as_bytes()));
        assert_eq!(lines[1].as_bytes(), own);
    }

    #[test]
    fn replaced_file_gets_the_next_line() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        let log = Log::to(open(&first).unwrap());
        log.line(Level::Info, "one");
        log.replace(open(&second).unwrap());
        log.raw(b"two");
        assert!(std::fs::read_to_string(first).unwrap().ends_with(" one\n"));
        assert_eq!(std::fs::read_to_string(second).unwrap(), "two\n");
    }
    #[test]
    fn logs_are_not_opened_where_none_belong() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/stdout", at("stream")).unwrap();
        for path in [
            Path::new("/etc/passwd"),
            Path::new("/usr/lib/x"),
            &at("link"),
            &at("../../etc/x"),
            folder.path(),
        ] {
            assert!(open_configured(path).is_err(), "{}", path.display());
        }
        for path in [&at("access.log"), &at("stream"), Path::new("/dev/null")] {
            assert!(open_configured(path).is_ok(), "{}", path.display());
        }
    }
}
