//! The keys of tokens, and when they are fetched again.
//!
//! Must never: fetch more often than at intervals because a client sends tokens with unknown keys, or count a fetch that did not end as an
//! attempt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use crate::token::VerificationKeys;

/// Shortest time between two attempts to fetch keys.
const PAUSE: Duration = Duration::from_secs(10);

/// Keys, and the time of their arrival.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: ArcSwapOption<VerificationKeys>,
    attempts: Mutex<Attempts>,
}

#[derive(Debug, Default)]
struct Attempts {
    /// The beginning of the last one.
    begun: Option<Instant>,
    /// The end of the last successful one.
    fetched: Option<Instant>,
    /// The last one that ended has failed.
    has_failed: bool,
    /// Closed at the end of the current one.
    under_way: Option<watch::Receiver<()>>,
}

impl KeySet {
    /// The known keys.
    pub fn now(&self) -> Option<Arc<VerificationKeys>> {
        self.keys.load_full()
    }

    /// Replaces the keys.
    pub fn put(&self, keys: VerificationKeys) {
        self.keys.store(Some(Arc::new(keys)));
    }

    /// The known keys, unless newer ones must be waited for.
    ///
    /// Keys that are due are still used while the next ones are fetched, and as long as they cannot be fetched. Keys that are twice as old are
    /// not: no request has come for long, and one of them may have been withdrawn.
    pub fn usable(&self, now: Instant, refresh: Duration) -> Option<Arc<VerificationKeys>> {
        let attempts = self.attempts();
        let is_usable = attempts.has_failed || attempts.is_within(now, 2 * refresh);
        is_usable.then(|| self.now()).flatten()
    }

    /// True if newer keys should be fetched.
    pub fn is_due(&self, now: Instant, refresh: Duration) -> bool {
        !self.attempts().is_within(now, refresh)
    }

    /// Begins to fetch keys, unless that is being done or was tried a moment ago.
    pub fn begin(self: &Arc<Self>, now: Instant) -> Option<KeyFetch> {
        let mut attempts = self.attempts();
        let is_soon = |begun| now.saturating_duration_since(begun) < PAUSE;
        if attempts.under_way.is_some() || attempts.begun.is_some_and(is_soon) {
            return None;
        }
        let (end, under_way) = watch::channel(());
        attempts.begun = Some(now);
        attempts.under_way = Some(under_way);
        Some(KeyFetch {
            keys: Arc::clone(self),
            has_ended: false,
            _end: end,
        })
    }

    /// Waits for the end of the current fetch, if there is one.
    pub async fn settle(&self) {
        let under_way = self.attempts().under_way.clone();
        if let Some(mut under_way) = under_way {
            // Nothing is ever sent: it fails at the end.
            let _ = under_way.changed().await;
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempts {
    /// True if keys have been fetched within a time.
    fn is_within(&self, now: Instant, time: Duration) -> bool {
        self.fetched
            .is_some_and(|fetched| now.saturating_duration_since(fetched) < time)
    }
}

/// A fetch of keys. If it is dropped before its end, it does not count, and the next request begins another.
#[derive(Debug)]
pub struct KeyFetch {
    keys: Arc<KeySet>,
    has_ended: bool,
    _end: watch::Sender<()>,
}

impl KeyFetch {
    /// Ends it with the new keys, or `None` if they could not be fetched.
    pub fn end(mut self, keys: Option<VerificationKeys>) {
        let mut attempts = self.keys.attempts();
        attempts.under_way = None;
        attempts.has_failed = keys.is_none();
        if let Some(keys) = keys {
            self.keys.put(keys);
            attempts.fetched = Some(Instant::now());
        }
        drop(attempts);
        self.has_ended = true;
    }
}

impl Drop for KeyFetch {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut attempts = self.keys.attempts();
            attempts.under_way = None;
            attempts.begun = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFRESH: Duration = Duration::from_secs(300);

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn keys_are_fetched_again_only_now_and_then() {
        let set = Arc::new(KeySet::default());
        let start = Instant::now();
        let mut attempts = 0;
        for later in [0, 1, 9, 11] {
            if let Some(fetch) = set.begin(start + seconds(later)) {
                attempts += 1;
                fetch.end(None);
            }
        }
        assert_eq!(attempts, 2);
        assert!(set.is_due(start, REFRESH));
        assert!(set.usable(start, REFRESH).is_none());
    }

    #[test]
    fn a_fetch_that_was_dropped_does_not_count() {
        let set = Arc::new(KeySet::default());
        let start = Instant::now();
        let fetch = set.begin(start).unwrap();
        assert!(set.begin(start + seconds(60)).is_none(), "one at a time");
        drop(fetch);
        assert!(set.begin(start).is_some());
    }

    #[test]
    fn requests_wait_for_the_end_of_a_fetch() {
        use std::task::{Context, Waker};

        let set = Arc::new(KeySet::default());
        let fetch = set.begin(Instant::now()).unwrap();
        let mut waits = std::pin::pin!(set.settle());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        fetch.end(Some(VerificationKeys::default()));
        assert!(waits.as_mut().poll(&mut context).is_ready());
        assert!(set.now().is_some());
    }

    #[test]
    fn keys_stay_in_use_while_the_next_ones_are_fetched() {
        let set = Arc::new(KeySet::default());
        let start = Instant::now();
        let fetch = set.begin(start).unwrap();
        fetch.end(Some(VerificationKeys::default()));
        let is_usable = |later| set.usable(start + seconds(later), REFRESH).is_some();
        assert!(!set.is_due(start + seconds(299), REFRESH));
        assert!(set.is_due(start + seconds(301), REFRESH));
        let fetch = set.begin(start + seconds(301)).unwrap();
        assert!(is_usable(301), "the service may not answer for long");
        assert!(!is_usable(601), "a key may have been withdrawn long ago");
        fetch.end(None);
        assert!(is_usable(601), "old keys are better than none");
        let _again = set.begin(start + seconds(601)).unwrap();
        assert!(is_usable(602), "the service did not answer the last time");
    }
}
