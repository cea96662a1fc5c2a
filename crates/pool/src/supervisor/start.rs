//! Starts under way: the first one, which somebody waits for, and rolls.

use tokio::sync::oneshot;

use super::event::{FirstReport, Restarted, Started};
use crate::failure::StartFailure;

/// Most warnings of one start.
const MOST_WARNINGS: usize = 100;

/// The fate of an application whose first start fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OnFailure {
    /// It ends.
    End,
    /// It is kept, and its start is tried again.
    TryAgain,
}

/// The first start of an application, and who waits to hear of it.
#[derive(Debug)]
pub(super) struct FirstStart {
    reply: Option<oneshot::Sender<Started>>,
    /// A start that fails does not end the application: it is tried again.
    pub(super) is_lenient: bool,
    /// Options that are not as they should be, as far as is known.
    pub(super) warnings: Vec<StartFailure>,
    /// The failure that ended it; told when all processes have ended.
    failure: Option<StartFailure>,
}

impl FirstStart {
    pub(super) fn new(reply: oneshot::Sender<Started>, on_failure: OnFailure) -> Self {
        FirstStart {
            reply: Some(reply),
            is_lenient: on_failure == OnFailure::TryAgain,
            warnings: Vec::new(),
            failure: None,
        }
    }

    /// Tells how it went; only the first time counts.
    pub(super) fn tell(&mut self, outcome: Started) {
        if let Some(reply) = self.reply.take() {
            // Who does not wait any more needs no answer.
            let _ = reply.send(outcome);
        }
    }

    /// Notes a warning for the one who waits.
    pub(super) fn warn(&mut self, warning: StartFailure) {
        if self.reply.is_some() && self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        }
    }

    /// Tells that the application is there, though perhaps nothing of it can be started yet.
    pub(super) fn tell_up(&mut self, missing: Option<StartFailure>) {
        let warnings = std::mem::take(&mut self.warnings);
        self.tell(Ok(FirstReport { missing, warnings }));
    }

    /// Has the failure told when all has ended.
    pub(super) fn tell_at_end(&mut self, failure: StartFailure) {
        self.failure = Some(failure);
    }

    /// All processes have ended.
    pub(super) fn end(&mut self) {
        if let Some(failure) = self.failure.take() {
            self.tell(Err(failure));
        }
    }
}

/// A takeover under way.
#[derive(Debug)]
pub(super) struct Roll {
    /// The new prototype.
    pub(super) prototype: u64,
    /// How many of its workers must be up.
    pub(super) target: u32,
    /// Workers of it that were up, and have left since at their own limit of requests.
    pub(super) left: u32,
    /// Nobody needs its worker: it is started only to see that the application can be.
    pub(super) is_trial: bool,
    /// Who asked for it.
    replies: Vec<oneshot::Sender<Restarted>>,
}

impl Roll {
    pub(super) fn new(
        prototype: u64,
        target: u32,
        replies: Vec<oneshot::Sender<Restarted>>,
    ) -> Self {
        Roll {
            prototype,
            target,
            left: 0,
            is_trial: false,
            replies,
        }
    }

    /// One whose worker is started only to see whether that is possible. Most languages load an application in a worker, not before.
    pub(super) fn trial(prototype: u64) -> Self {
        Roll {
            is_trial: true,
            ..Roll::new(prototype, 1, Vec::new())
        }
    }

    /// Tells who asked for it how it went.
    pub(super) fn end(self, outcome: &Restarted) {
        tell_all(self.replies, outcome);
    }
}

/// The roll that is wanted after the one under way.
#[derive(Debug, Default)]
pub(super) struct NextRoll {
    replies: Vec<oneshot::Sender<Restarted>>,
    /// A watched file has changed.
    has_changed: bool,
}

impl NextRoll {
    pub(super) fn ask(&mut self, reply: oneshot::Sender<Restarted>) {
        self.replies.push(reply);
    }

    pub(super) fn file_changed(&mut self) {
        self.has_changed = true;
    }

    /// Those who asked for it, if it is wanted.
    pub(super) fn take(&mut self) -> Option<Vec<oneshot::Sender<Restarted>>> {
        let next = std::mem::take(self);
        (next.has_changed || !next.replies.is_empty()).then_some(next.replies)
    }

    /// Tells those who asked that there will be none; a changed file still wants one.
    pub(super) fn refuse(&mut self, failure: &StartFailure) {
        tell_all(std::mem::take(&mut self.replies), &Err(failure.clone()));
    }
}

fn tell_all(replies: Vec<oneshot::Sender<Restarted>>, outcome: &Restarted) {
    for reply in replies {
        // Who does not wait any more needs no answer.
        let _ = reply.send(outcome.clone());
    }
}
