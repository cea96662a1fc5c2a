//! Limits concurrent requests per key.
//!
//! Must never: forget a request in progress, or count one that has ended. There are at most as many entries as requests in progress.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

/// Parts with separate locks, each held for a change of a number.
const PARTS: usize = 64;

/// The number of requests in progress, by key.
#[derive(Debug)]
pub struct Concurrency {
    parts: Box<[Mutex<FxHashMap<u64, u32>>]>,
    hasher: RandomState,
    most: u32,
}

/// A request in progress, until this is dropped.
#[derive(Debug)]
pub struct Permit {
    counted: Arc<Concurrency>,
    key: u64,
}

impl Concurrency {
    /// At most this many at once per key.
    pub fn new(most: u32) -> Arc<Self> {
        Arc::new(Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            most,
        })
    }

    /// Counts a request of this key; `None`: the limit is reached.
    pub fn enter(self: &Arc<Self>, key: &[u8]) -> Option<Permit> {
        let key = self.hasher.hash_one(key);
        {
            let mut part = self.part(key)?;
            let number = part.entry(key).or_default();
            if *number >= self.most {
                return None;
            }
            *number += 1;
        }
        Some(Permit {
            counted: Arc::clone(self),
            key,
        })
    }

    fn part(&self, key: u64) -> Option<MutexGuard<'_, FxHashMap<u64, u32>>> {
        let part = self.parts.get(key as usize % PARTS)?;
        // A number changes in one step.
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(mut part) = self.counted.part(self.key) else {
            return;
        };
        if let Some(number) = part.get_mut(&self.key) {
            *number = number.saturating_sub(1);
            if *number == 0 {
                part.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_so_many_at_once() {
        let counted = Concurrency::new(2);
        let first = counted.enter(b"a").unwrap();
        let _second = counted.enter(b"a").unwrap();
        assert!(counted.enter(b"a").is_none());
        assert!(counted.enter(b"b").is_some());
        drop(first);
        assert!(counted.enter(b"a").is_some());
    }

    #[test]
    fn ended_requests_leave_no_entry() {
        let counted = Concurrency::new(1);
        for key in 0..1000_u32 {
            drop(counted.enter(&key.to_be_bytes()).unwrap());
        }
        let kept: usize = counted
            .parts
            .iter()
            .map(|part| part.lock().unwrap().len())
            .sum();
        assert_eq!(kept, 0);
    }
}
