//! The access log: lines are collected per thread and written, whole, before the thread sleeps.
//!
//! One `write` for all lines since the last one, to a descriptor opened for append, so that threads and other processes do not tear
//! each other's lines. Nothing waits longer than the thread is busy; a line is written at the latest when [`FLUSH_BYTES`] have
//! collected. A log that cannot be written is reported once a minute and costs no request.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use tutti_config::model;
use tutti_log::LineLimit;
use tutti_routing::{LogLine, LogSecond, RequestInfo, Seen};
use tutti_sys::log_stream::{Later, LogStream};

use crate::finished::{Finished, SentAt};
use tutti_conn::clock::now_millis;

/// Lines are written at the latest when so much has collected.
const FLUSH_BYTES: usize = 32 * 1024;

/// One line in this time says that a log cannot be written.
const LINE_WINDOW: Duration = Duration::from_secs(60);

/// The file, as opened last.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    stream: ArcSwap<LogStream>,
}

impl LogFile {
    pub(crate) fn new(path: &Path, descriptor: OwnedFd) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            stream: ArcSwap::new(stream(descriptor)),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes to this descriptor from now on.
    pub(crate) fn replace(&self, descriptor: OwnedFd) {
        self.stream.store(stream(descriptor));
    }
}

fn stream(descriptor: OwnedFd) -> Arc<LogStream> {
    LogStream::new(descriptor, Later::Thread, None)
}

/// Opens a log for append; creates it if need be.
pub(crate) fn open_append(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY;
    // 0644 is what Unit and nginx create logs with.
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?)
}

/// `access_log` of a configuration.
pub(crate) struct AccessLog {
    pub(crate) file: Arc<LogFile>,
    pub(crate) line: LogLine,
}

impl AccessLog {
    pub(crate) fn new(log: &model::AccessLog, file: Arc<LogFile>) -> Arc<Self> {
        Arc::new(Self {
            file,
            line: LogLine::compile(log),
        })
    }
}

/// Lines of one thread that have not been written.
pub(crate) struct LogBuffer {
    lines: RefCell<Vec<u8>>,
    /// Where they belong.
    file: RefCell<Option<Arc<LogFile>>>,
    clock: Clock,
    limit: LineLimit,
    failure: RefCell<Option<io::Error>>,
}

impl Default for LogBuffer {
    fn default() -> Self {
        Self {
            lines: RefCell::default(),
            file: RefCell::default(),
            clock: Clock::default(),
            limit: LineLimit::new(LINE_WINDOW, 1),
            failure: RefCell::default(),
        }
    }
}

impl LogBuffer {
    /// Adds a line for a finished exchange, if the configuration wants one. `finished` is given the time;
    /// `complain`, a line for the log.
    pub(crate) fn append<'f>(
        &self,
        log: &AccessLog,
        request: &impl RequestInfo,
        finished: impl FnOnce(Option<SentAt>) -> Finished<'f>,
        complain: impl Fn(&str),
    ) {
        let response = finished(Some(self.clock.now()));
        let exchange = Seen {
            request,
            rewritten: None,
            response: Some(&response),
        };
        if !log.line.is_wanted(&exchange) {
            return;
        }
        let is_same = self
            .file
            .borrow()
            .as_ref()
            .is_some_and(|file| Arc::ptr_eq(file, &log.file));
        if !is_same {
            self.flush();
            *self.file.borrow_mut() = Some(Arc::clone(&log.file));
        }
        log.line.render(&exchange, &mut self.lines.borrow_mut());
        if self.lines.borrow().len() >= FLUSH_BYTES {
            self.flush();
        }
        if let Some(error) = self.failure.take() {
            let message = format!(
                "cannot write the access log \"{}\": {error}; lines are lost",
                log.file.path.display()
            );
            if self.limit.admit(&message, now_millis()).is_some() {
                complain(&message);
            }
        }
        let stream = log.file.stream.load();
        if !stream.has_waiting() {
            let lost = stream.take_lost();
            if lost > 0 {
                complain(&format!(
                    "{lost} lines of the access log \"{}\" are lost: whoever reads it stood still, and nothing waits for that",
                    log.file.path.display()
                ));
            }
        }
    }

    /// Writes what has collected.
    pub(crate) fn flush(&self) {
        let mut lines = self.lines.borrow_mut();
        if lines.is_empty() {
            return;
        }
        if let Some(file) = &*self.file.borrow()
            && let Err(error) = file.stream.load().write(&lines)
        {
            *self.failure.borrow_mut() = Some(error);
        }
        lines.clear();
    }
}

/// The local time; a second of it is written once.
#[derive(Default)]
struct Clock {
    second: RefCell<Rc<LogSecond>>,
}

impl Clock {
    fn now(&self) -> SentAt {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let unix = u64::try_from(now.tv_sec).unwrap_or(0);
        let milliseconds = u16::try_from(now.tv_nsec / 1_000_000).unwrap_or(0);
        if self.second.borrow().unix != unix {
            *self.second.borrow_mut() = Rc::new(second(unix));
        }
        (Rc::clone(&self.second.borrow()), milliseconds)
    }
}

fn second(unix: u64) -> LogSecond {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let time = tutti_sys::time::local(SystemTime::UNIX_EPOCH + Duration::from_secs(unix));
    let month = MONTHS
        .get(usize::from(time.month.saturating_sub(1)))
        .copied()
        .unwrap_or("Jan");
    let (sign, offset) = (
        if time.offset < 0 { '-' } else { '+' },
        time.offset.unsigned_abs() / 60,
    );
    let (hours, minutes) = (offset / 60, offset % 60);
    let (year, day) = (time.year, time.day);
    let clock = format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second);
    LogSecond {
        unix,
        common: format!("{day:02}/{month}/{year:04}:{clock} {sign}{hours:02}{minutes:02}"),
        iso: format!("{year:04}-{:02}-{day:02}T{clock}", time.month),
        offset: format!("{sign}{hours:02}:{minutes:02}"),
    }
}
