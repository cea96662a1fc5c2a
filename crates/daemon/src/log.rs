//! The daemon's log: one line is one `write`, so lines of all processes mix without tearing.
//!
//! Main opens the file and gives it to the router; both write lines of the same form,
//! `YYYY/MM/DD HH:MM:SS [level] PID#TID message`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tutti_pool::{Level, LogSink};
use tutti_sys::error::context;
use tutti_sys::{process, time};

/// Where log lines go. Cloning gives a handle on the same log.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    file: Arc<ArcSwap<File>>,
}

impl Log {
    /// A log to an open file.
    pub(crate) fn to(file: OwnedFd) -> Log {
        Log {
            file: Arc::new(ArcSwap::from_pointee(file.into())),
        }
    }

    /// A log to standard error.
    pub(crate) fn to_stderr() -> io::Result<Log> {
        Ok(Log::to(rustix::io::fcntl_dupfd_cloexec(
            rustix::stdio::stderr(),
            3,
        )?))
    }

    /// From now on lines go to this file.
    pub(crate) fn replace(&self, file: OwnedFd) {
        self.file.store(Arc::new(file.into()));
    }

    /// A second descriptor of the file in use.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.file.load().try_clone()?.into())
    }

    /// Writes one line. A log that cannot be written is not worth stopping for.
    pub(crate) fn line(&self, level: Level, message: &str) {
        if level == Level::Debug {
            return;
        }
        let _ = (&**self.file.load()).write_all(&format_line(level, message));
    }

    /// Writes bytes as they are, with a newline.
    pub(crate) fn raw(&self, line: &[u8]) {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        let _ = (&**self.file.load()).write_all(&bytes);
    }
}

impl LogSink for Log {
    fn log(&self, level: Level, message: &str) {
        self.line(level, message);
    }

    fn output(&self, _application: &str, line: &[u8]) {
        self.raw(line);
    }
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
    let at = time::local(SystemTime::now());
    format!(
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02} [{}] {}#{} {}\n",
        at.year,
        at.month,
        at.day,
        at.hour,
        at.minute,
        at.second,
        level_name(level),
        process::id(),
        process::thread_id(),
        message.trim_end_matches('\n'),
    )
    .into_bytes()
}

/// Opens a log file for append, making it when it is not there. The names of the standard streams give the stream
/// itself: opening `/dev/stdout` by name fails where it is a socket (systemd's journal), and where it is a file it
/// would be written from two places at once.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    let named = |e| context(format!("opening log `{}`", path.display()), e);
    let stream = match path.to_str() {
        Some("/dev/stdout" | "/proc/self/fd/1") => Some(rustix::stdio::stdout()),
        Some("/dev/stderr" | "/proc/self/fd/2") => Some(rustix::stdio::stderr()),
        _ => None,
    };
    if let Some(stream) = stream {
        return rustix::io::fcntl_dupfd_cloexec(stream, 3).map_err(|e| named(e.into()));
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOCTTY)
        .open(path)
        .map(OwnedFd::from)
        .map_err(named)
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
}
