//! Automatic certificates that a fleet shares: main forwards requests of the acme process to the source process, and
//! the answers back.
//!
//! `impl` blocks of [`Supervisor`]. The two processes can communicate only through main, which does not interpret their
//! messages. Must never happen: that an answer reaches a process other than the requester, or that a process waits for
//! one that has ended.

use tutti_protocol::{SharedAnswer, SharedNews, SharedRequest, ToAcme, ToFleet};

use super::supervisor::Supervisor;

/// Maximum unanswered requests.
const MOST_SHARED: usize = 1000;

/// The reason why nothing can be shared: the process with the store is not running.
const NO_SOURCE: &str = "the source process is not running";

impl Supervisor {
    /// Forwards a request of the acme process to the source process.
    pub(super) fn ask_fleet(&mut self, id: u64, request: SharedRequest) {
        if self.fleet.process().is_none() || self.fleet.shared.len() >= MOST_SHARED {
            let reason = NO_SOURCE.to_owned();
            return self.answer_shared(id, SharedAnswer::Unavailable { reason });
        }
        // Renumbered: the next acme process starts with the same numbers.
        self.fleet.last_shared += 1;
        let number = self.fleet.last_shared;
        let before = self.fleet.shared.insert(number, id);
        assert!(before.is_none(), "an answer would reach another request");
        let request = ToFleet::Shared {
            id: number,
            request,
        };
        self.send_to_fleet(&request, Vec::new());
    }

    fn answer_shared(&mut self, id: u64, answer: SharedAnswer) {
        self.send_to_acme(&ToAcme::Shared { id, answer }, Vec::new());
    }

    pub(super) fn fleet_answers(&mut self, number: u64, answer: SharedAnswer) {
        if let Some(id) = self.fleet.shared.remove(&number) {
            self.answer_shared(id, answer);
        }
    }

    pub(super) fn pass_on_news(&mut self, news: SharedNews) {
        if self.acme.is_shared {
            self.send_to_acme(&ToAcme::SharedNews { news }, Vec::new());
        }
    }

    /// An acme process has started, or ended: requests of the former one need no answer.
    pub(super) fn send_sharing(&mut self) {
        self.fleet.shared.clear();
        let acme = &self.acme;
        let is_there = acme.plan.is_some() && acme.process.is_some() && acme.is_shared;
        self.send_to_fleet(&ToFleet::Sharing { is_there }, Vec::new());
        if is_there && self.fleet.process().is_none() {
            self.nothing_is_shared();
        }
    }

    /// The source process has ended: there are no answers until the next one runs.
    pub(super) fn nothing_is_shared(&mut self) {
        for id in std::mem::take(&mut self.fleet.shared).into_values() {
            let reason = NO_SOURCE.to_owned();
            self.answer_shared(id, SharedAnswer::Unavailable { reason });
        }
        self.pass_on_news(SharedNews {
            error: Some(NO_SOURCE.to_owned()),
            ..SharedNews::default()
        });
    }

    /// The source may have changed: certificates are shared with another fleet, or with none.
    pub(super) fn share_anew(&mut self) {
        if self.acme.process.is_some() && self.acme.is_shared != self.fleet.is_sharing() {
            self.acme.kill();
            self.wishes_unanswered();
            self.start_acme();
        } else {
            self.send_sharing();
        }
    }
}
