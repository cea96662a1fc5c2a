//! The latest requests that failed or were slow, for `/status` and the dashboard.
//!
//! Kept in memory, a fixed number of each kind, so that an operator sees failures before a log is configured. `server` records each
//! finished request; other threads read. Must never: make a request wait, grow, or store a query, which may contain a secret.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::slow::SlowRequest;

/// Requests that are kept of each kind.
const KEPT: usize = 20;

/// The threshold for slow requests without a slow log.
pub const SLOW: Duration = Duration::from_secs(1);

/// The latest failed and slow requests.
#[derive(Default)]
pub struct Recent {
    kept: Mutex<Kept>,
}

/// Requests in the form of `/status`, the oldest first.
#[derive(Default)]
struct Kept {
    failed: VecDeque<Value>,
    slow: VecDeque<Value>,
}

impl Recent {
    /// Records a request that has ended `now`: as failed if its status is 500 or more, else as slow. Skips it if another thread is writing.
    pub fn note(&self, mut entry: SlowRequest, now: Instant) {
        let Ok(mut kept) = self.kept.try_lock() else {
            return;
        };
        if let Some(query) = entry.target.find('?') {
            entry.target.truncate(query);
        }
        let list = match entry.status {
            Some(500..) => &mut kept.failed,
            _ => &mut kept.slow,
        };
        if list.len() >= KEPT {
            list.pop_front();
        }
        list.push_back(entry.value(now));
    }

    /// The failed and the slow requests, each with the latest first.
    pub fn latest(&self) -> [Vec<Value>; 2] {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        [&kept.failed, &kept.slow].map(|list| list.iter().rev().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::{Phases, RequestTarget};

    #[test]
    fn the_latest_are_kept_and_no_query() {
        let recent = Recent::default();
        let now = Instant::now();
        let note = |number: usize, status| {
            let entry = SlowRequest {
                begun: now,
                arrived: now,
                phases: Phases::default(),
                server: RequestTarget::Own,
                status: Some(status),
                client: "192.0.2.1".to_owned(),
                method: "GET".to_owned(),
                target: format!("/{number}?token=secret"),
                id: String::new(),
                process: None,
                backtrace: Vec::new(),
            };
            recent.note(entry, now);
        };
        (0..100).for_each(|number| note(number, 502));
        note(7, 200);
        let [failed, slow] = recent.latest();
        assert_eq!((failed.len(), slow.len()), (KEPT, 1));
        assert_eq!(failed[0]["target"], "/99");
        assert_eq!(failed[KEPT - 1]["target"], "/80");
        assert_eq!(
            (&slow[0]["target"], &slow[0]["status"]),
            (&"/7".into(), &200.into())
        );
    }
}
