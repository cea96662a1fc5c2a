//! The order in which responses go when memory is short: those that nobody asked for again first.
//!
//! Two queues (S3-FIFO without its list of the departed): what is new goes into a short one, and from there into the long one only if it was
//! used meanwhile, so that a crawler's walk through a site does not drive out what is asked for all the time.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::stored::Stored;

/// The part of the responses that the short queue may have.
const NEW_PART: usize = 10;

/// Queues of what is stored. What has been removed elsewhere leaves them when its turn comes.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    new: VecDeque<Weak<Stored>>,
    proven: VecDeque<Weak<Stored>>,
}

impl Queues {
    /// Enters a response. `live` is the number of those that are stored.
    pub(crate) fn enter(&mut self, stored: &Arc<Stored>, live: usize) {
        self.new.push_back(Arc::downgrade(stored));
        // Responses that were replaced leave their places behind.
        if self.new.len() + self.proven.len() > 2 * live + 64 {
            self.new.retain(|one| one.strong_count() > 0);
            self.proven.retain(|one| one.strong_count() > 0);
        }
    }

    /// The next to go; `None`: there is none.
    pub(crate) fn next(&mut self) -> Option<Arc<Stored>> {
        // Each visit is taken back when it saves, so this ends.
        loop {
            let all = self.new.len() + self.proven.len();
            let is_new = self.proven.is_empty() || self.new.len() * NEW_PART > all;
            let queue = match is_new {
                true => &mut self.new,
                false => &mut self.proven,
            };
            let Some(one) = queue.pop_front() else {
                if all == 0 {
                    return None;
                }
                std::mem::swap(&mut self.new, &mut self.proven);
                continue;
            };
            let Some(stored) = one.upgrade() else {
                continue;
            };
            if !stored.take_visit() {
                return Some(stored);
            }
            self.proven.push_back(one);
        }
    }
}
