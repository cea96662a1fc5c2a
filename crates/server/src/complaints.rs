//! Lines for the log about what may happen to very many requests at once.
//!
//! What is said is said once a second and thread; different things are, up to a bound, each said, so that what fails all the time does
//! not hide what fails beside it.

use std::cell::RefCell;
use std::hash::{BuildHasher, BuildHasherDefault};

use rustc_hash::FxHasher;

use crate::clock::Millis;

/// For so long a line is not repeated.
const WINDOW: Millis = 1_000;

/// Different lines in one window: more may name what clients choose.
const DIFFERENT: usize = 8;

/// Which lines have been logged lately.
#[derive(Default)]
pub(crate) struct Complaints(RefCell<Window>);

#[derive(Default)]
struct Window {
    began: Option<Millis>,
    /// Hashes of the lines logged in it.
    logged: Vec<u64>,
    /// Lines left out since one was logged last.
    left_out: u64,
}

impl Complaints {
    /// How many lines were left out before this one; `None`: leave this one out too.
    pub(crate) fn admit(&self, line: &str, now: Millis) -> Option<u64> {
        let mut window = self.0.borrow_mut();
        if window
            .began
            .is_none_or(|began| now.saturating_sub(began) >= WINDOW)
        {
            window.began = Some(now);
            window.logged.clear();
        }
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(line);
        if window.logged.len() == DIFFERENT || window.logged.contains(&hash) {
            window.left_out += 1;
            return None;
        }
        window.logged.push(hash);
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_counted_and_what_is_new_is_told() {
        let complaints = Complaints::default();
        assert_eq!(complaints.admit("a", 0), Some(0));
        for now in 1..=3 {
            assert_eq!(complaints.admit("a", now), None);
        }
        assert_eq!(complaints.admit("b", 4), Some(3));
        assert_eq!(complaints.admit("b", 999), None);
        assert_eq!(complaints.admit("b", 1_000), Some(1));
        assert_eq!(complaints.admit("a", 1_001), Some(0));
    }

    #[test]
    fn lines_that_never_repeat_are_bounded() {
        let complaints = Complaints::default();
        let told = (0..1_000).filter(|number| complaints.admit(&number.to_string(), 0).is_some());
        assert_eq!(told.count(), DIFFERENT);
        assert_eq!(complaints.admit("later", 1_000), Some(992));
    }
}
