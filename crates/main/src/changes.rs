//! The change in progress, and questions to the router: requests of the controller, and the router's answers.
//!
//! A change is prepared by the router, stored here, and put in force by the router, in this order. Storing and the
//! order to commit are one step of main, which nothing can interrupt: from then on the change is made, whatever happens
//! to the router, and the controller is notified when it is in force, or when no router can confirm it any more. `impl`
//! blocks of [`Supervisor`]. See docs/project/decisions/0310-a-controller-of-its-own.md for the effects of each
//! process's end.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use tutti_log::Level;
use tutti_protocol::{
    Cause, Change, ChangeError, Grants, Reason, RouterQuery, RouterReply, ToController, ToRouter,
};

use super::pending::{PendingChange, PendingQuestion, Stage};
use super::processes::Numbered;
use super::supervisor::Supervisor;
use super::{history, state, stored};

/// Maximum questions at once: more than people and their tools ask.
const MOST_QUESTIONS: usize = 1000;

impl Supervisor {
    /// Answers a request of the controller.
    pub(super) fn answer(&mut self, id: u64, descriptors: Vec<OwnedFd>) {
        let warnings = Vec::new();
        self.send_to_controller(&ToController::Done { id, warnings }, descriptors);
    }

    /// Rejects a request of the controller.
    pub(super) fn refuse(&mut self, id: u64, reason: Reason, message: impl Into<String>) {
        let failed = ToController::Failed {
            id,
            message: message.into(),
            reason,
            faults: Vec::new(),
        };
        self.send_to_controller(&failed, Vec::new());
    }

    /// Starts a change.
    pub(super) fn apply(&mut self, asked: u64, change: Change, grants: Grants, cause: Cause) {
        if self.is_stopping() {
            return self.refuse(asked, Reason::Unavailable, "the server is stopping");
        }
        if self.pending.change.is_some() {
            return self.refuse(asked, Reason::Refused, "another change is in progress");
        }
        let number = self.pending.next();
        self.pending.change = Some(PendingChange {
            number,
            asked,
            change,
            grants,
            cause,
            stage: Stage::Waiting,
        });
        self.ask_router();
    }

    /// Asks the serving router a question.
    pub(super) fn ask(&mut self, asked: u64, question: RouterQuery) {
        if self.pending.questions.len() >= MOST_QUESTIONS {
            let text = "too many questions at once: the router is not answering them";
            return self.refuse(asked, Reason::Unavailable, text);
        }
        if let RouterQuery::Challenges { challenges } = &question {
            self.holdings.challenges.clone_from(challenges);
        }
        let number = self.pending.next();
        let question = PendingQuestion {
            asked,
            question,
            router: None,
        };
        self.pending.questions.insert(number, question);
        self.ask_router();
    }

    /// The answer is no longer needed.
    pub(super) fn forget_question(&mut self, asked: u64) {
        let questions = &mut self.pending.questions;
        questions.retain(|_, question| question.asked != asked);
    }

    /// No router will answer any more.
    pub(super) fn refuse_questions(&mut self, why: &str) {
        for question in std::mem::take(&mut self.pending.questions).into_values() {
            self.refuse(question.asked, Reason::Unavailable, why);
        }
    }

    /// Sends the serving router everything that it has not been sent yet.
    pub(super) fn ask_router(&mut self) {
        let Some(router) = self
            .routers
            .serving
            .as_mut()
            .filter(|router| router.is_ready)
        else {
            return;
        };
        let pid = router.pid();
        let mut sent = Ok(());
        let is_waiting = |change: &&mut PendingChange| change.stage == Stage::Waiting;
        if let Some(change) = self.pending.change.as_mut().filter(is_waiting) {
            change.stage = Stage::Preparing(pid);
            if let Some(rights) = self.holdings.rights.get_mut(&pid) {
                rights.prepare(&change.grants);
            }
            let prepare = ToRouter::Prepare {
                number: change.number,
                change: change.change.clone(),
            };
            sent = sent.and(router.send(&prepare, Vec::new()));
        }
        for (number, question) in &mut self.pending.questions {
            if question.router.is_none() {
                question.router = Some(pid);
                let ask = ToRouter::Ask {
                    number: *number,
                    question: question.question.clone(),
                };
                sent = sent.and(router.send(&ask, Vec::new()));
            }
        }
        if let Err(error) = sent {
            // It is being killed, and its end answers everything that waits for it.
            self.log(Level::Alert, &format!("cannot send to the router: {error}"));
        }
    }

    /// The router has prepared the change: it is stored, or abandoned.
    pub(super) fn router_prepared(&mut self, pid: i32, number: u64) {
        let Some(mut change) = self.pending.take_unstored(pid, number) else {
            return;
        };
        match self.store(&change) {
            Ok(()) => {
                self.holdings.grants = std::mem::take(&mut change.grants);
                if let Some(rights) = self.holdings.rights.get_mut(&pid) {
                    rights.commit(Instant::now());
                }
                change.stage = Stage::Stored(pid);
                self.pending.change = Some(change);
                self.send_to_router(pid, &ToRouter::Commit { number });
            }
            Err(error) => {
                self.drop_rights(pid, number);
                let doing = match &change.change {
                    Change::Configuration { .. } => "cannot store the configuration",
                    Change::Keep { .. } => "it cannot be stored",
                    Change::Discard { .. } => "it cannot be deleted",
                };
                self.refuse(change.asked, Reason::Refused, format!("{doing}: {error}"));
            }
        }
    }

    /// The change is in force.
    pub(super) fn router_committed(&mut self, pid: i32, number: u64, warnings: Vec<ChangeError>) {
        if let Some(change) = self.pending.take_stored(pid, number) {
            let id = change.asked;
            self.send_to_controller(&ToController::Done { id, warnings }, Vec::new());
            self.hand_over_if_at_rest();
        }
    }

    /// The router could not prepare the change.
    pub(super) fn router_unprepared(&mut self, pid: i32, number: u64, faults: Vec<ChangeError>) {
        let Some(change) = self.pending.take_unstored(pid, number) else {
            return;
        };
        self.holdings.abandon_change(pid);
        let failed = ToController::Failed {
            id: change.asked,
            message: "the router cannot apply it".to_owned(),
            reason: Reason::Refused,
            faults,
        };
        self.send_to_controller(&failed, Vec::new());
    }

    /// The router answers a question.
    pub(super) fn take_router_answer(
        &mut self,
        pid: i32,
        number: u64,
        answer: RouterReply,
        descriptors: Vec<OwnedFd>,
    ) {
        let Some(question) = self.pending.take_question(pid, number) else {
            return;
        };
        match answer {
            // The controller reads the file.
            RouterReply::Done => {
                self.answer(question.asked, descriptors.into_iter().take(1).collect())
            }
            RouterReply::Unknown => {
                self.refuse(
                    question.asked,
                    Reason::Unknown,
                    "there is no such application",
                );
            }
            RouterReply::Failed { faults } => {
                let failed = ToController::Failed {
                    id: question.asked,
                    message: "the router failed to do it".to_owned(),
                    reason: Reason::Refused,
                    faults,
                };
                self.send_to_controller(&failed, Vec::new());
            }
        }
    }

    /// The controller has waited long enough for this change.
    pub(super) fn change_overdue(&mut self, asked: u64) {
        if self
            .pending
            .change
            .as_ref()
            .is_some_and(|c| c.asked == asked)
        {
            let reason = "the router did not prepare it in time; nothing has changed";
            self.give_up_change(Reason::Unavailable, reason);
        }
    }

    /// Ends the change in progress: one that is stored counts as made, another is abandoned for this reason.
    pub(super) fn give_up_change(&mut self, reason: Reason, message: &str) {
        let Some(change) = self.pending.change.take() else {
            return;
        };
        match change.stage {
            Stage::Stored(_) => return self.answer(change.asked, Vec::new()),
            Stage::Preparing(pid) => self.drop_rights(pid, change.number),
            Stage::Waiting => {}
        }
        self.refuse(change.asked, reason, message);
    }

    /// The controller has ended: no answers are needed, and a change that is not stored is dropped.
    pub(super) fn forget_pending(&mut self) {
        self.pending.questions.clear();
        if let Some(change) = self.pending.change.take()
            && let Stage::Preparing(pid) = change.stage
        {
            self.drop_rights(pid, change.number);
        }
    }

    /// A router has ended: the change that it was preparing is lost, and its questions can go to another.
    pub(super) fn router_lost(&mut self, pid: i32, how: &str) {
        self.holdings.rights.remove(&pid);
        self.lead_datagrams(self.holdings.sockets.bank());
        if self
            .pending
            .change
            .as_ref()
            .is_some_and(|change| change.stage.router() == Some(pid))
        {
            let text = format!("the router {how} while preparing it; nothing has changed");
            self.give_up_change(Reason::Refused, &text);
        }
        for asked in self.pending.unask(pid) {
            let text = format!(
                "the router {how} in the meantime; the next one starts all processes again"
            );
            self.refuse(asked, Reason::Refused, text);
        }
    }

    /// The router must drop a change, and may no longer request its resources.
    fn drop_rights(&mut self, pid: i32, number: u64) {
        self.holdings.abandon_change(pid);
        self.send_to_router(pid, &ToRouter::Abandon { number });
    }

    /// Stores a change for the next start.
    fn store(&mut self, change: &PendingChange) -> io::Result<()> {
        let folder = &self.instance.places.state;
        match &change.change {
            Change::Configuration { text } => self.store_configuration(text, &change.cause),
            Change::Keep { store, name, text } => {
                let unsynced = stored::keep(folder, *store, name, text)?;
                self.warn_of_unsynced(unsynced);
                Ok(())
            }
            Change::Discard { store, name } => stored::discard(folder, *store, name),
        }
    }

    /// Stores a configuration, which is in force from now on, and adds it to the history. The change is made whether or
    /// not that succeeds.
    pub(super) fn store_configuration(&mut self, text: &str, cause: &Cause) -> io::Result<()> {
        let folder = &self.instance.places.state;
        let unsynced = state::store(folder, text)?;
        let before = self.holdings.configuration.replace(text.to_owned());
        if let Err(error) = history::record(folder, before.as_deref(), text, cause) {
            let text =
                format!("the change is stored, but could not be added to the history: {error}");
            self.log(Level::Warn, &text);
        }
        self.warn_of_unsynced(unsynced);
        Ok(())
    }

    /// Logs that something has been stored, but may be lost if the machine crashes.
    pub(super) fn warn_of_unsynced(&self, unsynced: Option<io::Error>) {
        if let Some(error) = unsynced {
            let text = format!(
                "the change is stored, but a crash of the machine may undo it: {error}; hint: put the state folder on a file system whose folders can be synced"
            );
            self.log(Level::Warn, &text);
        }
    }
}
