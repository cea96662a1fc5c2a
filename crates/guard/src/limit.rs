//! A limit of the configuration, and its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tutti_config::model;
use tutti_config::model::LimitScope;

use crate::concurrency::Concurrency;
use crate::fleet_share::FleetShare;
use crate::rate::{Quota, RateLimiter};
use crate::valkey::{Away, CountStore, Taken};

/// One limit. Its counts belong to it, wherever it is written in the next configuration.
#[derive(Debug)]
pub struct RequestLimit {
    /// Its configuration.
    pub model: Arc<model::Limit>,
    /// Requests in a time.
    pub rate: Option<Arc<RateLimiter>>,
    /// The store that counts requests per time for several servers; `rate` is used when it does not answer.
    pub store: Option<Arc<CountStore>>,
    /// Concurrent requests.
    pub concurrency: Option<Arc<Concurrency>>,
    /// Requests that exceeded it, by bound.
    beyond: Arc<[AtomicU64; Bound::ALL.len()]>,
}

/// The bounds that a limit may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Requests in a time.
    Rate,
    /// Concurrent requests.
    Concurrent,
}

impl Bound {
    /// All of them.
    pub const ALL: [Bound; 2] = [Self::Rate, Self::Concurrent];

    /// Its label in the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrent => "concurrent",
        }
    }
}

impl RequestLimit {
    /// Without any counts.
    pub fn new(
        model: &Arc<model::Limit>,
        share: &Arc<FleetShare>,
        store: Option<Arc<CountStore>>,
    ) -> Self {
        let options = &model.options;
        let is_shared = options.scope == LimitScope::Fleet || store.is_some();
        let rate = model.rate.map(|rate| {
            let limiter = RateLimiter::new(rate, options.burst, options.keys);
            Arc::new(match is_shared {
                true => limiter.shared(share),
                false => limiter,
            })
        });
        Self {
            model: Arc::clone(model),
            rate,
            store,
            concurrency: options.concurrent.map(Concurrency::new),
            beyond: Arc::default(),
        }
    }

    /// With the counts of this one, for the same limit in the next configuration.
    pub fn moved(&self, model: &Arc<model::Limit>) -> Self {
        Self {
            model: Arc::clone(model),
            rate: self.rate.clone(),
            store: self.store.clone(),
            concurrency: self.concurrency.clone(),
            beyond: Arc::clone(&self.beyond),
        }
    }

    /// True if it has this configuration and store, so that its counts are kept.
    pub fn is(&self, model: &model::Limit, store: Option<&Arc<CountStore>>) -> bool {
        let is_there = match (&self.store, store) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        *self.model == *model && is_there
    }

    /// Has the store count a request of this key.
    ///
    /// # Errors
    /// There is no answer in time, or no store.
    pub async fn take_from_store(&self, key: &[u8]) -> Result<Taken, Away> {
        let (Some(store), Some(rate)) = (&self.store, &self.rate) else {
            return Err(Away);
        };
        let bound = crate::valkey::CountedBound {
            interval: rate.interval(),
            requests: rate.whole().requests,
        };
        store.count(self.name(), key, bound).await
    }

    /// Counts a request that exceeds a bound.
    pub fn note_beyond(&self, bound: Bound) {
        if let Some(count) = self.beyond.get(bound as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests that exceeded its bounds.
    pub fn beyond(&self) -> impl Iterator<Item = (Bound, u64)> + '_ {
        let has = |bound: &Bound| match bound {
            Bound::Rate => self.rate.is_some(),
            Bound::Concurrent => self.concurrency.is_some(),
        };
        let counts = Bound::ALL.into_iter().zip(&*self.beyond);
        counts
            .filter(move |(bound, _)| has(bound))
            .map(|(bound, count)| (bound, count.load(Ordering::Relaxed)))
    }

    /// The name that clients see.
    pub fn name(&self) -> &str {
        self.model.name.as_deref().unwrap_or("default")
    }

    /// Adds the fields that show a client its quota (draft-ietf-httpapi-ratelimit-headers-10).
    pub fn announce(
        &self,
        quota: Quota,
        (remaining, reset): (u64, Duration),
        put: &mut dyn FnMut(&str, &str),
    ) {
        // A string in structured fields permits no other characters (RFC 9651 §3.3.3).
        let is_kept = |letter: &char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
        let name: String = self.name().chars().filter(is_kept).collect();
        let (capacity, window) = (quota.requests, seconds(quota.window));
        put(
            "RateLimit-Policy",
            &format!("\"{name}\";q={capacity};w={window}"),
        );
        put(
            "RateLimit",
            &format!("\"{name}\";r={remaining};t={}", seconds(reset)),
        );
    }
}

/// Whole seconds, at least one: rounded up, so that a client does not retry too early.
pub fn seconds(time: Duration) -> u64 {
    (time.as_nanos().div_ceil(1_000_000_000) as u64).max(1)
}
