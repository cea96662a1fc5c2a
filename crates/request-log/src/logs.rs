//! Opens the logs of a configuration, and keeps those that are open.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_config::model::{AccessLog, LogTarget};
use tutti_config::{Config, Diagnostic, Pointer};

use crate::access_log::{AccessLogger, AccessLogs};
use crate::log_file::{LogFile, Lost};
use crate::slow::SlowLogger;

/// Lines lost since the server started, by kind of log.
#[derive(Clone, Debug, Default)]
pub struct LostLines {
    /// Lines of access logs.
    pub access: Lost,
    /// Lines of the slow log.
    pub slow: Lost,
}

/// The logs of a configuration.
#[derive(Default)]
pub struct Logs {
    /// `None`: there is no access log.
    pub access: Option<Arc<AccessLogs>>,
    /// Those of listeners and actions, by their numbers in [`Config::scopes`].
    scoped: BTreeMap<usize, Arc<AccessLogs>>,
    /// `None`: slow requests are not logged.
    pub slow: Option<Arc<SlowLogger>>,
    /// Each file and each server once for each kind of log.
    files: Vec<Arc<LogFile>>,
    lost: LostLines,
}

impl LostLines {
    /// The counts by their label.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let count = |lost: &Lost| lost.load(Ordering::Relaxed);
        [("access", count(&self.access)), ("slow", count(&self.slow))]
    }
}

impl Logs {
    /// No logs; continues the counts of others.
    pub fn after(previous: &Logs) -> Logs {
        Logs {
            lost: previous.lost.clone(),
            ..Logs::default()
        }
    }

    /// Opens the logs of `config`; files that `previous` has open are kept.
    ///
    /// # Errors
    /// Each that cannot be opened, at its place.
    pub fn open(
        config: &Config,
        previous: &Logs,
        mut open_file: impl FnMut(&std::path::Path) -> io::Result<std::os::fd::OwnedFd>,
    ) -> Result<Logs, Vec<Diagnostic>> {
        let mut logs = Logs::after(previous);
        let mut faults = Vec::new();
        let lost = logs.lost.clone();
        let mut open = |target: &LogTarget, lost: &Lost| -> io::Result<Arc<LogFile>> {
            // A file that access log and slow log share counts for the log that opened it first.
            let is_it = |file: &&Arc<LogFile>| file.target() == target;
            let found = logs.files.iter().chain(&previous.files).find(is_it);
            let file = match found {
                Some(file) => Arc::clone(file),
                None => LogFile::open(target, lost, &mut open_file)?,
            };
            if !logs.files.iter().any(|known| Arc::ptr_eq(known, &file)) {
                logs.files.push(Arc::clone(&file));
            }
            Ok(file)
        };
        let mut open_all = |all: &[AccessLog]| {
            let mut access = Vec::new();
            for wanted in all {
                match open(&wanted.target, &lost.access) {
                    Ok(file) => access.push(AccessLogger::new(wanted, file)),
                    Err(error) => {
                        faults.push(fault("access log", &wanted.target, &wanted.pointer, &error));
                    }
                }
            }
            (!access.is_empty()).then(|| Arc::new(AccessLogs(access.into())))
        };
        let access = open_all(&config.access_logs);
        let scopes = config.scopes.iter().enumerate();
        let scoped = scopes
            .filter_map(|(number, scope)| Some((number, open_all(scope.access_logs.as_ref()?)?)))
            .collect();
        if let Some(wanted) = &config.slow_log {
            match open(&wanted.target, &lost.slow) {
                Ok(file) => logs.slow = Some(Arc::new(SlowLogger::new(wanted, file))),
                Err(error) => {
                    faults.push(fault("slow log", &wanted.target, &wanted.pointer, &error));
                }
            }
        }
        logs.access = access;
        logs.scoped = scoped;
        match faults.is_empty() {
            true => Ok(logs),
            false => Err(faults),
        }
    }

    /// The access logs of the listener or action with this number.
    pub fn of_scope(&self, scope: usize) -> Option<&Arc<AccessLogs>> {
        self.scoped.get(&scope)
    }

    /// The logs that are written to this file.
    pub fn at<'l>(&'l self, path: &'l std::path::Path) -> impl Iterator<Item = &'l Arc<LogFile>> {
        let files = self.files.iter();
        files.filter(move |file| file.target().path() == Some(path))
    }

    /// Lost lines.
    pub fn lost(&self) -> &LostLines {
        &self.lost
    }
}

fn fault(kind: &str, target: &LogTarget, pointer: &Pointer, error: &io::Error) -> Diagnostic {
    let message = format!("cannot open the {kind} `{target}`: {error}");
    Diagnostic::apply(pointer.clone(), message)
        .suggest("the folder must exist, and the server must be allowed to write there")
}
