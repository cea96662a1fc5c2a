//! Stores the results of a server's health checks.
//!
//! Written by the one task that checks the server, read by all threads without a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_config::model::HealthCheckOptions;

/// The health of a server according to its checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerHealth {
    /// It has not been checked yet.
    #[default]
    Unknown,
    /// It is healthy.
    Passing,
    /// It is unhealthy: it gets no requests as long as another server is healthy.
    Failing,
}

/// The health checks in `/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckStatus {
    /// The current health.
    pub health: ServerHealth,
    /// Successful checks.
    pub passed: u64,
    /// Failed checks.
    pub failed: u64,
    /// Why the last failed check failed.
    pub last_failure: Option<String>,
}

/// The checks of a server so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    health: AtomicU8,
    passed: AtomicU64,
    failed: AtomicU64,
    row: Mutex<Row>,
}

#[derive(Debug, Default)]
struct Row {
    /// Consecutive checks that contradict the current health.
    against: u32,
    last_failure: Option<String>,
    /// The options of the checks from which the health is known.
    rules: Option<HealthCheckOptions>,
}

impl Checks {
    pub(crate) fn health(&self) -> ServerHealth {
        match self.health.load(Ordering::Relaxed) {
            0 => ServerHealth::Unknown,
            1 => ServerHealth::Passing,
            _ => ServerHealth::Failing,
        }
    }

    fn set(&self, health: ServerHealth) {
        let number = match health {
            ServerHealth::Unknown => 0,
            ServerHealth::Passing => 1,
            ServerHealth::Failing => 2,
        };
        self.health.store(number, Ordering::Relaxed);
    }

    /// Notes a check. Returns the new health if it changed and should be logged: a first success is not. Results under other options are
    /// discarded.
    pub(crate) fn note(
        &self,
        outcome: Result<(), String>,
        rules: &HealthCheckOptions,
    ) -> Option<ServerHealth> {
        let mut row = self.row();
        if row.rules.as_ref() != Some(rules) {
            *row = Row {
                rules: Some(rules.clone()),
                ..Row::default()
            };
            self.set(ServerHealth::Unknown);
        }
        let (said, needed) = match &outcome {
            Ok(()) => (ServerHealth::Passing, rules.passes),
            Err(_) => (ServerHealth::Failing, rules.fails),
        };
        match outcome {
            Ok(()) => self.passed.fetch_add(1, Ordering::Relaxed),
            Err(why) => {
                row.last_failure = Some(why);
                self.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
        let known = self.health();
        if known == said {
            row.against = 0;
            return None;
        }
        row.against = row.against.saturating_add(1);
        if known != ServerHealth::Unknown && row.against < needed {
            return None;
        }
        row.against = 0;
        self.set(said);
        (known, said)
            .ne(&(ServerHealth::Unknown, ServerHealth::Passing))
            .then_some(said)
    }

    /// Discards the health: checks begin anew.
    pub(crate) fn forget(&self) {
        *self.row() = Row::default();
        self.set(ServerHealth::Unknown);
    }

    pub(crate) fn status(&self) -> CheckStatus {
        CheckStatus {
            health: self.health(),
            passed: self.passed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_failure: self.row().last_failure.clone(),
        }
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        // A number and a text, each valid by itself.
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RULES: HealthCheckOptions = HealthCheckOptions {
        uri: None,
        host: None,
        statuses: Vec::new(),
        grpc_service: None,
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        fails: 3,
        passes: 2,
    };

    /// Returns the health after each of these checks; `+` succeeds.
    fn run(checks: &Checks, outcomes: &str) -> String {
        run_by(&RULES, checks, outcomes)
    }

    fn run_by(rules: &HealthCheckOptions, checks: &Checks, outcomes: &str) -> String {
        let outcomes = outcomes.chars();
        let states = outcomes.map(|one| {
            let outcome = match one {
                '+' => Ok(()),
                _ => Err("no".to_owned()),
            };
            let before = checks.health();
            let change = checks.note(outcome, rules);
            let is_news =
                checks.health() != before && (before, one) != (ServerHealth::Unknown, '+');
            assert_eq!(change.is_some(), is_news);
            match checks.health() {
                ServerHealth::Unknown => '?',
                ServerHealth::Passing => 'p',
                ServerHealth::Failing => 'f',
            }
        });
        states.collect()
    }

    #[test]
    fn it_takes_some_in_a_row() {
        assert_eq!(run(&Checks::default(), "+--+---+--++-"), "ppppppfffffpp");
        assert_eq!(run(&Checks::default(), "+-+-+-"), "pppppp");
    }

    #[test]
    fn the_first_one_decides_alone() {
        assert_eq!(run(&Checks::default(), "-+-++"), "ffffp");
        let checks = Checks::default();
        assert_eq!(run(&checks, "+--"), "ppp");
        let other = HealthCheckOptions { fails: 2, ..RULES };
        assert_eq!(run_by(&other, &checks, "-"), "f");
        let status = checks.status();
        assert_eq!((status.passed, status.failed), (1, 3));
    }
}
