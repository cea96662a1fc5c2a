//! The router's own state of each slot, allocated when a slot is first used.
//!
//! Slots are allocated lowest first, and an application has far more of them than concurrent requests. Must never happen: an entry moves or
//! is freed while the table exists.

use std::sync::OnceLock;

/// Entries that are allocated at once.
const ROW: usize = 64;

/// An entry for each number below a length.
#[derive(Debug)]
pub struct Table<T> {
    rows: Box<[OnceLock<Box<[T]>>]>,
    length: u32,
}

impl<T: Default> Table<T> {
    /// Makes no entry.
    pub fn new(length: u32) -> Self {
        let rows = (length as usize).div_ceil(ROW);
        Self {
            rows: (0..rows).map(|_| OnceLock::new()).collect(),
            length,
        }
    }

    /// The entry of this number, allocated with its row at the first call; `None` if it is not below the length.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        if number >= self.length {
            return None;
        }
        let number = number as usize;
        let row = self.rows.get(number / ROW)?.get_or_init(make_row);
        debug_assert_eq!(row.len(), ROW);
        row.get(number % ROW)
    }

    /// The allocated entries with their numbers, in ascending order.
    pub fn made(&self) -> impl Iterator<Item = (u32, &T)> {
        let rows = (0..self.length).step_by(ROW).zip(&self.rows);
        rows.filter_map(|(first, row)| Some((first, row.get()?)))
            .flat_map(move |(first, row)| (first..self.length).zip(row.iter()))
    }
}

#[cold]
fn make_row<T: Default>() -> Box<[T]> {
    (0..ROW).map(|_| T::default()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn only_rows_that_are_used_are_made() {
        let table = Table::<AtomicU32>::new(1000);
        assert_eq!(table.made().count(), 0);
        table.get(200).unwrap().store(7, Ordering::Relaxed);
        table.get(999).unwrap().store(8, Ordering::Relaxed);
        assert!(table.get(1000).is_none());
        assert!(table.get(u32::MAX).is_none());
        let set = |&(_, entry): &(u32, &AtomicU32)| entry.load(Ordering::Relaxed) > 0;
        let found: Vec<u32> = table.made().filter(set).map(|(number, _)| number).collect();
        assert_eq!(found, [200, 999]);
        // The last row ends with the table.
        assert_eq!(table.made().count(), ROW + 1000 % ROW);
        assert_eq!(table.get(200).unwrap().load(Ordering::Relaxed), 7);
    }

    #[test]
    fn threads_that_ask_first_get_the_same_entry() {
        let table = Table::<AtomicU32>::new(64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..64 {
                        table.get(number).unwrap().fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(
            table
                .made()
                .all(|(_, entry)| entry.load(Ordering::Relaxed) == 4)
        );
    }
}
