//! Sessions stored by the server, `session.cache_size` of them, shared by all listen threads.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::StoresServerSessions;

/// A bounded store; the oldest session is evicted for a new one.
pub(crate) struct Sessions {
    size: usize,
    timeout: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<Vec<u8>, Session>,
    /// Oldest first; may contain names of removed sessions.
    order: VecDeque<Vec<u8>>,
}

struct Session {
    until: Instant,
    value: Vec<u8>,
}

impl Sessions {
    pub(crate) fn new(size: usize, timeout: Duration) -> Self {
        Sessions {
            size,
            timeout,
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No panic can leave it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sessions are secrets.
        write!(f, "Sessions({})", self.size)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let now = Instant::now();
        let Some(until) = now.checked_add(self.timeout) else {
            return false;
        };
        let mut kept = self.kept();
        let Kept { sessions, order } = &mut *kept;
        while sessions.len() >= self.size {
            match order.pop_front() {
                Some(oldest) => sessions.remove(&oldest),
                None => return false,
            };
        }
        // Resumed sessions are still in the order: their names are removed before they outnumber the rest.
        if order.len() >= 2 * self.size {
            order.retain(|key| sessions.contains_key(key));
        }
        order.push_back(key.clone());
        sessions.insert(key, Session { until, value });
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let kept = self.kept();
        let session = kept.sessions.get(key)?;
        (session.until > Instant::now()).then(|| session.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let session = self.kept().sessions.remove(key)?;
        (session.until > Instant::now()).then_some(session.value)
    }

    fn can_cache(&self) -> bool {
        self.size > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_and_taken_names_are_let_go_of() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        for name in 0..100u8 {
            assert!(sessions.put(vec![name], vec![name]));
            if name % 2 == 0 {
                assert_eq!(sessions.take(&[name]), Some(vec![name]));
            }
        }
        assert_eq!(sessions.get(&[99]), Some(vec![99]));
        assert_eq!(sessions.get(&[97]), Some(vec![97]));
        assert_eq!(sessions.get(&[95]), None);
        assert!(sessions.kept().order.len() <= 5);
    }

    #[test]
    fn expired_sessions_are_not_found() {
        let sessions = Sessions::new(2, Duration::ZERO);
        sessions.put(vec![1], vec![1]);
        assert_eq!(sessions.get(&[1]), None);
        assert_eq!(sessions.take(&[1]), None);
        assert!(!Sessions::new(0, Duration::ZERO).can_cache());
    }
}
