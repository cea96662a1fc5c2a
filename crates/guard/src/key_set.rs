//! The keys of tokens: those that are known, and when they are fetched again.
//!
//! Must never: let whoever sends tokens with keys that nobody has make the server fetch more often than now and then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::token::VerificationKeys;
use arc_swap::ArcSwapOption;

/// Shortest time between two attempts to fetch keys.
const PAUSE: Duration = Duration::from_secs(10);

/// Keys, and when they came.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: ArcSwapOption<VerificationKeys>,
    times: Mutex<Times>,
    /// Held while they are fetched: others wait for the same answer.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// The last attempt.
    tried: Option<Instant>,
    /// The last that brought keys.
    fetched: Option<Instant>,
}

impl KeySet {
    /// Those that are known.
    pub fn now(&self) -> Option<Arc<VerificationKeys>> {
        self.keys.load_full()
    }

    /// They are these from now on.
    pub fn put(&self, keys: VerificationKeys) {
        self.keys.store(Some(Arc::new(keys)));
    }

    /// Those that are known, if they have been fetched lately.
    pub fn fresh(&self, now: Instant, refresh: Duration) -> Option<Arc<VerificationKeys>> {
        let fetched = self.times().fetched?;
        (now.duration_since(fetched) < refresh)
            .then(|| self.now())
            .flatten()
    }

    /// Fetches them anew, unless that was tried a moment ago.
    pub async fn renew<F: Future<Output = Result<VerificationKeys, String>>>(
        &self,
        asked: Instant,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), String> {
        let _alone = self.fetching.lock().await;
        {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            // Somebody else has done it while this one waited, or tried it just before.
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
