//! A log of requests: a file, a stream, or a syslog server, used by one configuration or several in turn.
//!
//! Never blocks its writer. Lines that cannot be written are lost, counted, and reported at intervals ([`Losses`]).

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use tutti_config::model::LogTarget;
use tutti_conn::clock::now_millis;
use tutti_log::Losses;
use tutti_log::syslog::{self, Syslog};
use tutti_sys::log_stream::{Later, LogStream, LossCount};

/// Counts the lines that all logs of one kind have lost since the server started.
pub type Lost = Arc<AtomicU64>;

/// An open log.
#[derive(Debug)]
pub struct LogFile {
    target: LogTarget,
    /// The prefix of messages for a syslog server.
    syslog: Option<Syslog>,
    stream: ArcSwap<LogStream>,
    lost: Arc<LossCount>,
    losses: Losses,
}

impl LogFile {
    /// Opens it; `open` opens a file. Its losses are added to those of all logs of its kind.
    ///
    /// # Errors
    /// Those of `open`, or no descriptor is left.
    pub fn open(
        target: &LogTarget,
        lost: &Lost,
        open: impl FnOnce(&Path) -> io::Result<OwnedFd>,
    ) -> io::Result<Arc<Self>> {
        let lost = Arc::new(LossCount::within(Arc::clone(lost)));
        let stream = match target {
            LogTarget::File(path) => stream(open(path)?, &lost),
            LogTarget::Syslog(target) => {
                syslog::stream(target, Later::Thread, None, Arc::clone(&lost))?
            }
        };
        Ok(Arc::new(Self {
            target: target.clone(),
            syslog: match target {
                LogTarget::File(_) => None,
                LogTarget::Syslog(target) => Some(Syslog::new(target)),
            },
            stream: ArcSwap::new(stream),
            lost,
            losses: Losses::default(),
        }))
    }

    /// Where its lines go.
    pub fn target(&self) -> &LogTarget {
        &self.target
    }

    /// Writes to this descriptor from now on.
    pub fn replace(&self, descriptor: OwnedFd) {
        self.stream.store(stream(descriptor, &self.lost));
    }

    /// True if each line is a separate message.
    pub fn is_syslog(&self) -> bool {
        self.syslog.is_some()
    }

    /// Appends the prefix of a line for this log.
    pub fn begin(&self, out: &mut Vec<u8>) {
        if let Some(syslog) = &self.syslog {
            syslog.begin(None, out);
        }
    }

    /// Writes whole lines.
    pub fn write(&self, lines: &[u8]) {
        self.stream.load().write(lines);
    }

    /// The line for the daemon's log about lost lines, if it is due; `kind` names this log.
    pub fn news(&self, kind: &str) -> Option<String> {
        let stream = self.stream.load();
        if stream.lost() == 0 {
            return None;
        }
        let name = format!("{kind} \"{}\"", self.target);
        self.losses.news(&name, &stream, now_millis())
    }
}

fn stream(descriptor: OwnedFd, lost: &Arc<LossCount>) -> Arc<LogStream> {
    LogStream::new(descriptor, Later::Thread, None, Arc::clone(lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_one_log_is_reported_for_that_log_alone() {
        let folder = tempfile::tempdir().unwrap();
        let total = Lost::default();
        let open = |path: &Path| {
            let target = LogTarget::File(path.to_owned());
            let open = |path: &Path| {
                let file = std::fs::File::options()
                    .append(true)
                    .create(true)
                    .open(path)?;
                Ok(file.into())
            };
            LogFile::open(&target, &total, open).unwrap()
        };
        let full = open(Path::new("/dev/full"));
        let other = open(&folder.path().join("log"));
        for log in [&full, &other] {
            log.write(b"one\ntwo\n");
        }
        let news = full.news("access log").unwrap();
        assert!(
            news.contains("\"/dev/full\"") && news.contains("2 lines are lost"),
            "{news}"
        );
        assert_eq!(other.news("access log"), None);
        assert_eq!(total.load(std::sync::atomic::Ordering::Relaxed), 2);
    }
}
