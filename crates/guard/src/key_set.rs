//! The keys of tokens, and when they are fetched again.
//!
//! Must never: fetch more often than at intervals because a client sends tokens with unknown keys.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use crate::token::VerificationKeys;

/// Shortest time between two attempts to fetch keys.
const PAUSE: Duration = Duration::from_secs(10);

/// Keys, and the time of their arrival.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: ArcSwapOption<VerificationKeys>,
    times: Mutex<Times>,
    /// Held during a fetch: other requests wait for the same result.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// The last attempt.
    tried: Option<Instant>,
    /// The last successful fetch.
    fetched: Option<Instant>,
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

    /// The known keys, if they have been fetched recently.
    pub fn fresh(&self, now: Instant, refresh: Duration) -> Option<Arc<VerificationKeys>> {
        let fetched = self.times().fetched?;
        (now.duration_since(fetched) < refresh)
            .then(|| self.now())
            .flatten()
    }

    /// Fetches the keys again, unless that was tried a moment ago.
    pub async fn renew<F: Future<Output = Result<VerificationKeys, String>>>(
        &self,
        asked: Instant,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), String> {
        let _alone = self.fetching.lock().await;
        {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            // Another request fetched them while this one waited, or just before.
            let is_soon = |tried: Instant| tried >= asked || asked.duration_since(tried) < PAUSE;
            if times.tried.is_some_and(is_soon) {
                return Ok(());
            }
            times.tried = Some(Instant::now());
        }
        let keys = fetch().await?;
        self.put(keys);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.fetched = Some(Instant::now());
        Ok(())
    }

    fn times(&self) -> Times {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_again_only_now_and_then() {
        let set = KeySet::default();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let mut attempts = 0;
        runtime.block_on(async {
            let start = Instant::now();
            for later in [0, 1, 9, 11] {
                let asked = start + Duration::from_secs(later);
                let fetch = || {
                    attempts += 1;
                    std::future::ready(Err("not there".to_owned()))
                };
                let _ = set.renew(asked, fetch).await;
            }
        });
        assert_eq!(attempts, 2);
        assert!(set.fresh(Instant::now(), Duration::from_secs(60)).is_none());
    }
}
