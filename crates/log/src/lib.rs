//! The daemon's log: one line is one `write`, so lines of all processes mix without tearing, and a writer never waits
//! for the reader of a pipe ([`tutti_sys::log_stream`]).
//!
//! Main opens the file and passes it to the processes that it starts for itself; all write lines of the same form,
//! `YYYY/MM/DD HH:MM:SS [level] PID#TID message`, or one JSON object each, or messages to a syslog server, as the
//! command line configures ([`LogStyle`]). Must never happen: that a configuration makes the server write a log to a
//! place that is not for logs.

#![forbid(unsafe_code)]

mod limit;
mod lines;
mod lost_lines;
pub mod syslog;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
pub use tutti_options::logging::{Level, LogForm, LogStyle};
use tutti_sys::error::context;
use tutti_sys::guarded::{self, LogPlace};
use tutti_sys::log_stream::{Later, LogStream, LossCount, LossLine};
use tutti_sys::{log_line, process};

pub use self::limit::LineLimit;
use self::lines::{Entry, Writer};
pub use self::lost_lines::Losses;

/// The destination of log lines. A clone is a handle on the same log.
#[derive(Debug, Clone)]
pub struct Log {
    file: Arc<ArcSwap<LogStream>>,
    later: Later,
    writer: Arc<Writer>,
    /// Lost lines of this process.
    lost: Arc<LossCount>,
}

impl Log {
    /// Creates a log that writes text to an open file. Its writer has no threads, and must call [`flush`](Self::flush)
    /// in its loop.
    pub fn to(file: OwnedFd) -> Log {
        Log::with(file, Later::Caller, &LogStyle::default(), "main")
    }

    /// Creates a log in another style; for a syslog server the file is a socket of [`syslog::socket`].
    pub fn of_main(file: OwnedFd, style: &LogStyle) -> Log {
        Log::with(file, Later::Caller, style, "main")
    }

    /// Creates the log of a process that may have threads; `role` is its name.
    pub fn of_threads(file: OwnedFd, style: &LogStyle, role: &'static str) -> Log {
        Log::with(file, Later::Thread, style, role)
    }

    fn with(file: OwnedFd, later: Later, style: &LogStyle, role: &'static str) -> Log {
        let writer = Arc::new(Writer::new(style, role));
        let lost = Arc::default();
        let stream = stream(file, later, &writer, &lost);
        Log {
            file: Arc::new(ArcSwap::new(stream)),
            later,
            writer,
            lost,
        }
    }

    /// Creates a log that writes to standard error.
    pub fn to_stderr(style: &LogStyle) -> io::Result<Log> {
        let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
        Ok(Log::of_main(stderr, style))
    }

    /// Writes to this file from now on.
    pub fn replace(&self, file: OwnedFd) {
        self.file
            .store(stream(file, self.later, &self.writer, &self.lost));
    }

    /// Returns the style in which lines are written.
    pub fn style(&self) -> &LogStyle {
        self.writer.style()
    }

    /// A second descriptor of the file in use.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.load().descriptor().try_clone_to_owned()
    }

    /// Returns the stream to poll for writability, while lines wait for a slow reader.
    pub fn waiting(&self) -> Option<Arc<LogStream>> {
        let file = self.file.load_full();
        file.has_waiting().then_some(file)
    }

    /// Writes waiting lines, as far as there is room.
    pub fn flush(&self) {
        self.file.load().flush();
    }

    /// Returns the number of lines of this process that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// True if lines of this level are written.
    pub fn has(&self, level: Level) -> bool {
        level <= self.style().level
    }

    /// Writes one line. A log that cannot be written is no reason to stop.
    pub fn line(&self, level: Level, message: &str) {
        self.entry(level, message, None);
    }

    /// Writes a line about the request with this id.
    pub fn line_of_request(&self, level: Level, message: &str, id: &str) {
        self.entry(level, message, Some(id));
    }

    fn entry(&self, level: Level, message: &str, request: Option<&str>) {
        if !self.has(level) {
            return;
        }
        let entry = Entry {
            level,
            process: process::id(),
            thread: process::thread_id(),
            role: None,
            application: lines::named_application(message),
            message: message.trim_end_matches('\n').into(),
            request,
        };
        self.file.load().write(&self.writer.line(&entry));
    }

    /// Writes a line printed by an application, with the time, its process id and its name. A line that already has the
    /// form of this log keeps its time, level and process; it is named as the application's all the same, because an
    /// application may print what a client has sent.
    pub fn output(&self, application: &str, process: i32, line: &[u8]) {
        let own = log_line::parts(line).and_then(|(level, process, thread, message)| {
            Some((Level::from_word(level)?, process, thread, message))
        });
        let (level, process, thread, message) =
            own.unwrap_or((Level::Notice, process, process, line));
        if !self.has(level) {
            return;
        }
        if self.writer.is_plain_text() {
            let mut whole = Vec::with_capacity(line.len() + 80);
            match own {
                Some(_) => {
                    let head = line.len() - message.len();
                    whole.extend_from_slice(line.get(..head).unwrap_or_default());
                }
                None => whole
                    .extend_from_slice(log_line::head(level.word(), process, thread).as_bytes()),
            }
            // A language host has named it.
            if lines::named_application(&String::from_utf8_lossy(message)) != Some(application) {
                whole.extend_from_slice(format!("\"{application}\" output: ").as_bytes());
            }
            whole.extend_from_slice(message);
            whole.push(b'\n');
            return self.file.load().write(&whole);
        }
        let entry = Entry {
            level,
            process,
            thread,
            role: Some("application"),
            application: Some(application),
            message: String::from_utf8_lossy(message),
            request: None,
        };
        self.file.load().write(&self.writer.line(&entry));
    }
}

fn stream(
    file: OwnedFd,
    later: Later,
    writer: &Arc<Writer>,
    lost: &Arc<LossCount>,
) -> Arc<LogStream> {
    let of = Arc::clone(writer);
    // Called when the reader continues, or the disk has room again.
    let loss_line = LossLine::by(move |count| {
        let (lines, are) = lost_lines::words(count);
        let message = format!(
            "{lines} of this log {are} lost: it could not be written, or its reader was too slow, and the server does not wait for it"
        );
        of.line(&Entry {
            level: Level::Warn,
            process: process::id(),
            thread: process::thread_id(),
            role: None,
            application: None,
            message: message.into(),
            request: None,
        })
    });
    match &writer.style().syslog {
        Some(target) => syslog::stream_of(file, target, later, Some(loss_line), Arc::clone(lost)),
        None => LogStream::new(file, later, Some(loss_line), Arc::clone(lost)),
    }
}

/// Mode of new logs: lines may contain secrets of clients, and applications need not read them. Existing files keep
/// their mode, so a log that others may read must be created before, like logrotate's `create` does.
const MODE: u32 = 0o640;

/// Opens the log at this path to append, and creates it if it is missing: a regular file, or a stream by its name (see
/// [`guarded`]).
///
/// # Errors
/// The reason, with the path.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    open_where(path, |_| Ok(()))
}

/// Opens a log that the configuration names.
///
/// # Errors
/// As for [`open`], and for a folder of the system.
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

/// System folders that contain no logs. A log is written only where [`guarded`] allows it; this keeps a configuration
/// from creating a file there that another program reads.
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

/// Devices that a configuration may name: data written to them is not stored.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/tty", "/dev/console"];

/// `path` contains no links.
fn may_hold_logs(path: &Path) -> io::Result<()> {
    let is_device = DEVICES.iter().any(|device| path == Path::new(device));
    if is_device || !NO_LOGS.iter().any(|folder| path.starts_with(folder)) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "cannot write a log to `{}`: choose a folder for logs, such as `/var/log`",
            path.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 10, 1.25: an application's output had neither time nor process nor application.
    #[test]
    fn output_of_an_application_says_when_and_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::to(open(&path).unwrap());
        log.output("blog", 42, b"hello");
        let own = b"2026/01/02 03:04:05 [error] 7#7 \"blog\": php message: x";
        log.output("blog", 42, own);
        // The text of a client, or one by which an application pretends to be the server.
        for message in [
            "[alert] 1#1 main has ended",
            "[alert] 1#1 \"shop\": cannot start",
            "[odd] 1#1 x",
        ] {
            let line = format!("2026/01/02 03:04:05 {message}");
            log.output("blog", 42, line.as_bytes());
        }
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0].get(20..),
            Some("[notice] 42#42 \"blog\" output: hello")
        );
        assert!(log_line::has_form(lines[0].as_bytes()));
        assert_eq!(lines[1].as_bytes(), own);
        assert_eq!(
            lines[2],
            "2026/01/02 03:04:05 [alert] 1#1 \"blog\" output: main has ended"
        );
        assert_eq!(
            lines[3],
            "2026/01/02 03:04:05 [alert] 1#1 \"blog\" output: \"shop\": cannot start"
        );
        assert_eq!(
            lines[4].get(20..),
            Some("[notice] 42#42 \"blog\" output: 2026/01/02 03:04:05 [odd] 1#1 x")
        );
    }

    #[test]
    fn replaced_file_gets_the_next_line() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        let log = Log::to(open(&first).unwrap());
        log.line(Level::Info, "one");
        log.replace(open(&second).unwrap());
        log.line(Level::Debug, "not wanted");
        log.line(Level::Error, "two");
        assert!(std::fs::read_to_string(first).unwrap().ends_with(" one\n"));
        let second = std::fs::read_to_string(second).unwrap();
        assert!(second.ends_with(" two\n") && second.lines().count() == 1);
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
