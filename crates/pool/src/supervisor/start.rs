//! Starts in progress: the first one, for which a caller waits, and rolls.

use tokio::sync::oneshot;

use super::event::{FirstReport, Restarted, Started};
use crate::failure::StartFailure;

/// Most warnings of one start.
const MOST_WARNINGS: usize = 100;

/// The handling of an application whose first start fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OnFailure {
    /// It ends.
    End,
    /// It is kept, and its start is repeated.
    TryAgain,
}

/// The first start of an application, and the caller that waits for it.
#[derive(Debug)]
pub(super) struct FirstStart {
    reply: Option<oneshot::Sender<Started>>,
    /// A failed start does not end the application: it is repeated.
    pub(super) is_lenient: bool,
    /// Known options with warnings.
    pub(super) warnings: Vec<StartFailure>,
    /// The failure that ended it; reported when all processes have ended.
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

    /// Replies with the result; only the first call has an effect.
    pub(super) fn reply(&mut self, outcome: Started) {
        if let Some(reply) = self.reply.take() {
            // The caller may have stopped waiting.
            let _ = reply.send(outcome);
        }
    }

    /// Adds a warning for the waiting caller.
    pub(super) fn warn(&mut self, warning: StartFailure) {
        if self.reply.is_some() && self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        }
    }

    /// Replies that the application is accepted, though perhaps no process can be started yet.
    pub(super) fn reply_up(&mut self, missing: Option<StartFailure>) {
        let warnings = std::mem::take(&mut self.warnings);
        self.reply(Ok(FirstReport { missing, warnings }));
    }

    /// Replies with the failure when all processes have ended.
    pub(super) fn reply_at_end(&mut self, failure: StartFailure) {
        self.failure = Some(failure);
    }

    /// Called when all processes have ended.
    pub(super) fn end(&mut self) {
        if let Some(failure) = self.failure.take() {
            self.reply(Err(failure));
        }
    }
}

/// A takeover in progress.
#[derive(Debug)]
pub(super) struct Roll {
    /// The new prototype.
    pub(super) prototype: u64,
    /// The number of its workers that must be ready.
    pub(super) target: u32,
    /// Workers of it that were ready, and have ended at their request limit.
    pub(super) left: u32,
    /// The worker is not needed: it is started only to check that it can be.
    pub(super) is_trial: bool,
    /// The callers that wait for it.
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

    /// A takeover whose worker is started only as a check. Most languages load an application in a worker, not before.
    pub(super) fn trial(prototype: u64) -> Self {
        Roll {
            is_trial: true,
            ..Roll::new(prototype, 1, Vec::new())
        }
    }

    /// Replies to the callers with the result.
    pub(super) fn end(self, outcome: &Restarted) {
        reply_all(self.replies, outcome);
    }
}

/// The roll to begin after the current one.
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

    /// The callers that requested it, if it is requested.
    pub(super) fn take(&mut self) -> Option<Vec<oneshot::Sender<Restarted>>> {
        let next = std::mem::take(self);
        (next.has_changed || !next.replies.is_empty()).then_some(next.replies)
    }

    /// Replies to the callers that it will not happen; after a changed file it is still requested.
    pub(super) fn refuse(&mut self, failure: &StartFailure) {
        reply_all(std::mem::take(&mut self.replies), &Err(failure.clone()));
    }
}

fn reply_all(replies: Vec<oneshot::Sender<Restarted>>, outcome: &Restarted) {
    for reply in replies {
        // The caller may have stopped waiting.
        let _ = reply.send(outcome.clone());
    }
}
