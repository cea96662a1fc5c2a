//! Automatic certificates that a fleet shares: the process for them asks the one that follows the source, and main passes on what they say.
//!
//! `impl` blocks of [`Supervisor`]. Neither of the two can reach the other without main, and main looks at nothing of it. What must never
//! happen: that an answer reaches another process than the one that asked, or that somebody waits for a process that has ended.

use tutti_protocol::{SharedAnswer, SharedNews, SharedRequest, ToAcme, ToFleet};

use super::supervisor::Supervisor;

/// Requests that are not answered yet.
const MOST_SHARED: usize = 1000;

/// Nothing can be shared, because the process that has the store is not there.
const NOBODY: &str = "the process that follows the source is not there";

impl Supervisor {
    /// The process for automatic certificates wants something of the one that follows the source.
    pub(super) fn ask_fleet(&mut self, id: u64, request: SharedRequest) {
        if self.fleet.process().is_none() || self.fleet.shared.len() >= MOST_SHARED {
            let reason = NOBODY.to_owned();
            return self.answer_shared(id, SharedAnswer::Unavailable { reason });
        }
        // Numbered anew: the next process of that kind begins with the same numbers.
        self.fleet.last_shared += 1;
        let number = self.fleet.last_shared;
        let before = self.fleet.shared.insert(number, id);
        assert!(before.is_none(), "an answer would reach another request");
        let request = ToFleet::Shared {
            id: number,
            request,
        };
        self.tell_fleet(&request, Vec::new());
    }

    fn answer_shared(&mut self, id: u64, answer: SharedAnswer) {
        self.tell_acme(&ToAcme::Shared { id, answer }, Vec::new());
    }

    pub(super) fn fleet_answers(&mut self, number: u64, answer: SharedAnswer) {
        if let Some(id) = self.fleet.shared.remove(&number) {
            self.answer_shared(id, answer);
        }
    }

    pub(super) fn pass_on_news(&mut self, news: SharedNews) {
        if self.acme.is_shared {
            self.tell_acme(&ToAcme::SharedNews { news }, Vec::new());
        }
    }

    /// There is a process for automatic certificates, or none any more: nobody waits for what the one before has asked.
    pub(super) fn tell_of_sharing(&mut self) {
        self.fleet.shared.clear();
        let acme = &self.acme;
        let is_there = acme.plan.is_some() && acme.process.is_some() && acme.is_shared;
        self.tell_fleet(&ToFleet::Sharing { is_there }, Vec::new());
        if is_there && self.fleet.process().is_none() {
            self.nothing_is_shared();
        }
    }

    /// The process that follows the source has ended: nobody answers until the next is there.
    pub(super) fn nothing_is_shared(&mut self) {
        for id in std::mem::take(&mut self.fleet.shared).into_values() {
            let reason = NOBODY.to_owned();
            self.answer_shared(id, SharedAnswer::Unavailable { reason });
        }
        self.pass_on_news(SharedNews {
            error: Some(NOBODY.to_owned()),
            ..SharedNews::default()
        });
    }

    /// The source may be another: certificates are shared with another fleet, or with none.
    pub(super) fn share_anew(&mut self) {
        if self.acme.process.is_some() && self.acme.is_shared != self.fleet.is_sharing() {
            self.acme.kill();
            self.wishes_unanswered();
            self.start_acme();
        } else {
            self.tell_of_sharing();
        }
    }
}
