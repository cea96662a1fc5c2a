//! Changes and questions that the controller waits for: the router that was asked, and the progress of a change.

use std::collections::BTreeMap;

use tutti_protocol::{Cause, Change, Grants, RouterQuery};

/// A change that is not in force yet.
pub(super) struct PendingChange {
    pub(super) number: u64,
    /// The controller's request id.
    pub(super) asked: u64,
    pub(super) change: Change,
    pub(super) grants: Grants,
    pub(super) cause: Cause,
    pub(super) stage: Stage,
}

/// The progress of a change. Routers are identified by their process ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not sent to a router yet: none is ready.
    Waiting,
    /// This router prepares it.
    Preparing(i32),
    /// It is stored, and this router puts it in force.
    Stored(i32),
}

impl Stage {
    /// Returns the router that has the change.
    pub(super) fn router(self) -> Option<i32> {
        match self {
            Stage::Waiting => None,
            Stage::Preparing(router) | Stage::Stored(router) => Some(router),
        }
    }
}

/// A question that has no answer yet.
pub(super) struct PendingQuestion {
    /// The controller's request id.
    pub(super) asked: u64,
    pub(super) question: RouterQuery,
    /// The router that was asked.
    pub(super) router: Option<i32>,
}

/// The requests that the controller waits for.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) change: Option<PendingChange>,
    pub(super) questions: BTreeMap<u64, PendingQuestion>,
    /// The last number that was assigned.
    pub(super) number: u64,
}

impl Pending {
    /// Assigns the next number.
    pub(super) fn next(&mut self) -> u64 {
        self.number += 1;
        assert!(
            !self.questions.contains_key(&self.number),
            "an answer would reach another question"
        );
        self.number
    }

    /// True if nothing is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.change.is_none() && self.questions.is_empty()
    }

    /// Removes the change if this router has prepared it and it is not stored.
    pub(super) fn take_unstored(&mut self, pid: i32, number: u64) -> Option<PendingChange> {
        self.take_at(Stage::Preparing(pid), number)
    }

    /// Removes the change if this router has put it in force.
    pub(super) fn take_stored(&mut self, pid: i32, number: u64) -> Option<PendingChange> {
        self.take_at(Stage::Stored(pid), number)
    }

    fn take_at(&mut self, stage: Stage, number: u64) -> Option<PendingChange> {
        self.change
            .take_if(|change| change.stage == stage && change.number == number)
    }

    /// Removes a question that this router was asked.
    pub(super) fn take_question(&mut self, pid: i32, number: u64) -> Option<PendingQuestion> {
        if self.questions.get(&number)?.router != Some(pid) {
            return None;
        }
        self.questions.remove(&number)
    }

    /// A router has ended: its questions go to the next one. Returns the requests that the next one cannot answer,
    /// because it starts all processes again.
    pub(super) fn unask(&mut self, pid: i32) -> Vec<u64> {
        let mut lost = Vec::new();
        self.questions.retain(|_, question| {
            if question.router != Some(pid) {
                return true;
            }
            question.router = None;
            let is_lost = matches!(question.question, RouterQuery::Restart { .. });
            if is_lost {
                lost.push(question.asked);
            }
            !is_lost
        });
        lost
    }
}
