//! The daemon's log, as server and pool write to it.

use tutti_log::{Level, Log};
use tutti_pool::LogSink;

/// Writes lines of the server, and the output of applications.
pub(super) struct Sink(pub(super) Log);

impl LogSink for Sink {
    fn log(&self, level: Level, message: &str) {
        self.0.line(level, message);
    }

    fn log_of_request(&self, level: Level, message: &str, id: &str) {
        self.0.line_of_request(level, message, id);
    }

    fn output(&self, application: &str, process: i32, line: &[u8]) {
        self.0.output(application, process, line);
    }
}
