//! The `Date` field, rendered once a second.
//!
//! Each listen thread has its own.

use std::cell::{Cell, RefCell};

use tutti_files::dates::unix_seconds;
use tutti_http::format_date;

/// Length of an IMF-fixdate (RFC 9110 §5.6.7), `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_LEN: usize = 29;

/// The value of `Date`, rendered again when the second changes.
pub(crate) struct DateCache {
    second: Cell<u64>,
    text: RefCell<[u8; DATE_LEN]>,
}

impl DateCache {
    pub(crate) fn new() -> Self {
        Self {
            second: Cell::new(u64::MAX),
            text: RefCell::new([b' '; DATE_LEN]),
        }
    }

    /// Appends the current IMF-fixdate.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        let second = unix_seconds();
        if self.second.get() != second {
            *self.text.borrow_mut() = format_date(second);
            self.second.set(second);
        }
        out.extend_from_slice(&*self.text.borrow());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_field_is_current() {
        let cache = DateCache::new();
        let mut out = Vec::new();
        cache.append(&mut out);
        let seconds = tutti_http::parse_date(&out).unwrap();
        assert!(unix_seconds().abs_diff(seconds) <= 1);
    }
}
