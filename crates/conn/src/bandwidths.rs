//! The bandwidth that all responses with the same key share.
//!
//! Must never: forget a key whose responses have sent more than their share so far, so that many short responses are limited like a long one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pace::Bandwidth;

/// Parts with separate locks, each held for a look-up.
const PARTS: usize = 64;

/// Entries of a part above which those without use are removed.
const TIDY: usize = 256;

/// The bandwidth of each key.
#[derive(Debug)]
pub struct Bandwidths {
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
    bytes_per_second: u64,
}

#[derive(Debug, Default)]
struct Part {
    known: HashMap<u64, Arc<Bandwidth>>,
    /// Entries after which it is tidied.
    tidy: usize,
}

impl Bandwidths {
    /// This many bytes per second and key.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            bytes_per_second,
        }
    }

    /// The bandwidth of a key.
    pub fn of(&self, key: &[u8]) -> Arc<Bandwidth> {
        let new = || Arc::new(Bandwidth::new(self.bytes_per_second));
        let key = self.hasher.hash_one(key);
        let Some(part) = self.parts.get(key as usize % PARTS) else {
            return new();
        };
        // An entry is added or removed whole.
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.known.len() > part.tidy.max(TIDY) {
            // One that is in use, or owes something, is kept; there are at most as many as responses in a short time.
            part.known
                .retain(|_, one| Arc::strong_count(one) > 1 || !one.is_paid());
            part.tidy = 2 * part.known.len();
        }
        Arc::clone(part.known.entry(key).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(all: &Bandwidths) -> usize {
        let parts = all.parts.iter();
        parts.map(|part| part.lock().unwrap().known.len()).sum()
    }

    #[test]
    fn a_key_has_one_bandwidth() {
        let all = Bandwidths::new(1000);
        let (first, second) = (all.of(b"a"), all.of(b"b"));
        assert!(Arc::ptr_eq(&first, &all.of(b"a")));
        assert!(!Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn unused_ones_are_forgotten() {
        let all = Bandwidths::new(1000);
        let kept = all.of(b"kept");
        for key in 0..100_000_u32 {
            all.of(&key.to_be_bytes());
        }
        assert!(number(&all) <= PARTS * (TIDY + 2), "{}", number(&all));
        assert!(Arc::ptr_eq(&kept, &all.of(b"kept")));
    }
}
