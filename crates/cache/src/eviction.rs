//! The order in which responses are evicted: those that were not requested a second time first.
//!
//! Two queues (S3-FIFO without its ghost queue): new responses enter a short queue, and move to the long one only if they were used
//! meanwhile. So a crawler that walks through a site does not evict the popular responses.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::stored::Stored;

/// The share of the responses that the short queue may have: one in ten.
const NEW_PART: usize = 10;

/// Queues of the stored responses. A response that was removed elsewhere leaves its queue when its turn comes.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    new: VecDeque<Weak<Stored>>,
    proven: VecDeque<Weak<Stored>>,
}

impl Queues {
    /// Adds a response. `live` is the number of stored responses.
    pub(crate) fn enter(&mut self, stored: &Arc<Stored>, live: usize) {
        self.new.push_back(Arc::downgrade(stored));
        // Replaced responses are still in the queues.
        if self.new.len() + self.proven.len() > 2 * live + 64 {
            self.new.retain(|one| one.strong_count() > 0);
            self.proven.retain(|one| one.strong_count() > 0);
        }
    }

    /// The next response to evict; `None`: the queues are empty.
    pub(crate) fn next(&mut self) -> Option<Arc<Stored>> {
        // A response survives once for each visit, so this loop ends.
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
