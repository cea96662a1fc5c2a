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
use tutti_routing::{LogLine, LogSecond, RequestInfo, ResponseInfo, Seen};

use crate::finished::SentAt;
use crate::log_file::LogFile;

/// Collected lines are written when there are this many bytes.
const FLUSH_BYTES: usize = 32 * 1024;

/// One entry of `access_log` in a configuration.
pub struct AccessLogger {
    file: Arc<LogFile>,
    line: LogLine,
    /// A line may have the body of its request.
    has_body: bool,
}

impl AccessLogger {
    /// Writes to this file.
    pub fn new(log: &model::AccessLog, file: Arc<LogFile>) -> Self {
        Self {
            file,
            line: LogLine::compile(log),
            has_body: log.names(&model::Variable::RequestBody),
        }
    }
}

/// All entries of `access_log` in a configuration; at least one.
pub struct AccessLogs(pub Box<[AccessLogger]>);

impl AccessLogs {
    /// True if a line may have the body of its request.
    pub fn have_bodies(&self) -> bool {
        self.0.iter().any(|logger| logger.has_body)
    }
}

/// Collected lines of one thread.
#[derive(Default)]
pub struct LogBuffer {
    /// The last used ones are the last.
    collected: RefCell<Vec<Collected>>,
    clock: Clock,
}

/// The collected lines of the requests with the same logs.
struct Collected {
    logs: Arc<AccessLogs>,
    /// The lines for each of the logs.
    lines: Vec<Vec<u8>>,
}

impl LogBuffer {
    /// Adds a line for a finished exchange to each log whose condition holds. `finished` gets the time; `report` writes a line to the
    /// daemon's log.
    pub fn append<R: ResponseInfo>(
        &self,
        logs: &Arc<AccessLogs>,
        request: &impl RequestInfo,
        finished: impl FnOnce(Option<SentAt>) -> R,
        report: impl Fn(&str),
    ) {
        let response = finished(Some(self.clock.now()));
        let exchange = Seen {
            request,
            rewritten: None,
            response: Some(&response),
        };
        let mut all = self.collected.borrow_mut();
        let Some(collected) = turned_to(&mut all, logs) else {
            return;
        };
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
        let mut all = self.collected.borrow_mut();
        all.iter_mut().for_each(Collected::flush);
        // The buffers of the last used one are kept; others may belong to a former configuration.
        let others = all.len().saturating_sub(1);
        all.drain(..others);
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

/// The collected lines for these logs, which are the last of all from now on.
fn turned_to<'c>(all: &'c mut Vec<Collected>, logs: &Arc<AccessLogs>) -> Option<&'c mut Collected> {
    match all.iter().rposition(|one| Arc::ptr_eq(&one.logs, logs)) {
        Some(position) if position + 1 == all.len() => {}
        Some(position) => all[position..].rotate_left(1),
        None => all.push(Collected {
            logs: Arc::clone(logs),
            lines: logs.0.iter().map(|_| Vec::new()).collect(),
        }),
    }
    all.last_mut()
}

impl Collected {
    fn flush(&mut self) {
        for (log, lines) in self.logs.0.iter().zip(&mut self.lines) {
            log.write(lines);
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
