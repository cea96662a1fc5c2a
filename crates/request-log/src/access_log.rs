//! The access log: lines are collected per thread and written, whole, before the thread sleeps.
//!
//! One `write` for all lines since the last one, to a descriptor opened for append, so that threads and other processes do not split each
//! other's lines. Lines wait only while the thread is busy, and are written at the latest when there are [`FLUSH_BYTES`]. A log that cannot
//! be written is reported once a minute, and delays no request ([`LogFile`]).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tutti_config::model;
use tutti_routing::{LogLine, LogSecond, RequestInfo, Seen};

use crate::finished::{Finished, SentAt};
use crate::log_file::LogFile;

/// Collected lines are written when there are this many bytes.
const FLUSH_BYTES: usize = 32 * 1024;

/// One entry of `access_log` in a configuration.
pub struct AccessLogger {
    file: Arc<LogFile>,
    line: LogLine,
}

impl AccessLogger {
    /// Writes to this file.
    pub fn new(log: &model::AccessLog, file: Arc<LogFile>) -> Self {
        Self {
            file,
            line: LogLine::compile(log),
        }
    }
}

/// All entries of `access_log` in a configuration; at least one.
pub struct AccessLogs(pub Box<[AccessLogger]>);

/// Collected lines of one thread.
#[derive(Default)]
pub struct LogBuffer {
    collected: RefCell<Collected>,
    clock: Clock,
}

#[derive(Default)]
struct Collected {
    /// The logs for the lines.
    logs: Option<Arc<AccessLogs>>,
    /// The lines for each of the logs.
    lines: Vec<Vec<u8>>,
}

impl LogBuffer {
    /// Adds a line for a finished exchange to each log whose condition holds. `finished` gets the time; `report` writes a line to the
    /// daemon's log.
    pub fn append<'f>(
        &self,
        logs: &Arc<AccessLogs>,
        request: &impl RequestInfo,
        finished: impl FnOnce(Option<SentAt>) -> Finished<'f>,
        report: impl Fn(&str),
    ) {
        let response = finished(Some(self.clock.now()));
        let exchange = Seen {
            request,
            rewritten: None,
            response: Some(&response),
        };
        let mut collected = self.collected.borrow_mut();
        collected.turn_to(logs);
        for (log, lines) in logs.0.iter().zip(&mut collected.lines) {
            if !log.line.is_wanted(&exchange) {
                continue;
            }
            log.file.begin(lines);
            log.line.render(&exchange, lines);
            if lines.len() >= FLUSH_BYTES {
                log.write(lines);
            }
            if let Some(news) = log.file.news("access log") {
                report(&news);
            }
        }
    }

    /// Writes the collected lines.
    pub fn flush(&self) {
        self.collected.borrow_mut().flush();
    }
}

impl AccessLogger {
    fn write(&self, lines: &mut Vec<u8>) {
        if !lines.is_empty() {
            self.file.write(lines);
            lines.clear();
        }
    }
}

impl Collected {
    /// Makes room for lines of these logs.
    fn turn_to(&mut self, logs: &Arc<AccessLogs>) {
        let before = self.logs.as_ref();
        if before.is_some_and(|before| Arc::ptr_eq(before, logs)) {
            return;
        }
        self.flush();
        self.lines.resize_with(logs.0.len(), Vec::new);
        self.logs = Some(Arc::clone(logs));
    }

    fn flush(&mut self) {
        if let Some(logs) = &self.logs {
            for (log, lines) in logs.0.iter().zip(&mut self.lines) {
                log.write(lines);
            }
        }
    }
}

/// The local time; each second is formatted once.
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
    let time = tutti_sys::time::local(SystemTime::UNIX_EPOCH + Duration::from_secs(unix));
    let month = time.month_name();
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
