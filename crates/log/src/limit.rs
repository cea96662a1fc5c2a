//! A limit on log lines about something that may happen many times at once.
//!
//! The same line is written once in a time window; different lines are each written, up to a limit, so that a
//! persistent failure does not hide another. Lines left out are counted.

use std::cell::RefCell;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

/// The limit of one thread on its lines.
#[derive(Debug)]
pub struct LineLimit {
    window: Duration,
    different: usize,
    state: RefCell<Window>,
}

#[derive(Debug, Default)]
struct Window {
    /// Milliseconds.
    began: Option<u64>,
    /// Hashes of the lines written in it.
    written: Vec<u64>,
    /// Lines left out since one was last written.
    left_out: u64,
}

impl LineLimit {
    /// Admits each line once in `window`, and at most this many `different` ones: more may come from names that clients
    /// choose.
    pub fn new(window: Duration, different: usize) -> LineLimit {
        LineLimit {
            window,
            different,
            state: RefCell::default(),
        }
    }

    /// Returns the number of lines that were left out before this one; `None` if this one is left out too. `now` is in
    /// milliseconds, from a monotonic clock.
    pub fn admit(&self, line: &str, now: u64) -> Option<u64> {
        let state = &mut *self.state.borrow_mut();
        let is_over = |began| u128::from(now.saturating_sub(began)) >= self.window.as_millis();
        if state.began.is_none_or(is_over) {
            state.began = Some(now);
            state.written.clear();
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(line);
        if state.written.len() >= self.different || state.written.contains(&hash) {
            state.left_out += 1;
            return None;
        }
        state.written.push(hash);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_are_counted_and_new_ones_are_written() {
        let limit = LineLimit::new(Duration::from_secs(1), 8);
        assert_eq!(limit.admit("a", 0), Some(0));
        for now in 1..=3 {
            assert_eq!(limit.admit("a", now), None);
        }
        assert_eq!(limit.admit("b", 4), Some(3));
        assert_eq!(limit.admit("b", 999), None);
        assert_eq!(limit.admit("b", 1_000), Some(1));
        assert_eq!(limit.admit("a", 1_001), Some(0));
    }

    #[test]
    fn lines_that_never_repeat_are_bounded() {
        let limit = LineLimit::new(Duration::from_secs(1), 8);
        let written = (0..1_000).filter(|number| limit.admit(&number.to_string(), 0).is_some());
        assert_eq!(written.count(), 8);
        assert_eq!(limit.admit("later", 1_000), Some(992));
    }
}
