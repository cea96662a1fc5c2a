//! Keeps the results of a server's health checks.
//!
//! Written by the one task that checks it, read by all threads without a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_config::model::HealthCheckOptions;

/// The state of a server by its checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerHealth {
    /// It has not been checked yet.
    #[default]
    Unknown,
    /// It works.
    Passing,
    /// It does not: it gets no requests as long as another server does.
    Failing,
}

/// The part of `/status` that tells of a server's checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckStatus {
    /// Their verdict.
    pub health: ServerHealth,
    /// Those that succeeded.
    pub passed: u64,
    /// Those that did not.
    pub failed: u64,
    /// Why the last of those did not.
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
    /// Checks in a row that said the opposite of what is known.
    against: u32,
    last_failure: Option<String>,
    /// The options of the checks that this is known by.
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

    /// Takes note of a check. What is known now, if that is to be told: that it works, only where it did not. What other checks than these
    /// have shown does not count.
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

    pub(crate) fn status(&self) -> CheckStatus {
        CheckStatus {
            health: self.health(),
            passed: self.passed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_failure: self.row().last_failure.clone(),
        }
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        // A number and a text, each right by itself.
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

    /// Returns the state after each of these checks; `+` succeeds.
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
            let told = checks.note(outcome, rules);
            let is_news =
                checks.health() != before && (before, one) != (ServerHealth::Unknown, '+');
            assert_eq!(told.is_some(), is_news);
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
