//! The ranges of the file that bodies have.
//!
//! A body has one contiguous range, because a worker is given an offset and a length, and its range does not move, because moving would copy
//! what has been written. While the longest body is short, every range is as long as it, and the one freed last is allocated first, so that
//! the same pages are reused. Otherwise the file has no room for many bodies of that length, although few will be that long. Then a range
//! begins in the middle of the largest gap, and grows there: `n` bodies at once have room for about a `2n`th of the file each. Neither an
//! announced length nor a slow client keeps room that it does not fill.
//!
//! Must never: give a byte of the file to two bodies.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges begin at multiples of this, the granularity in which blocks can be freed.
pub(crate) const PAGE: u64 = 4096;

/// The shortest range: room for a request head that does not fit a slot.
const LEAST: u64 = 1 << 20;

/// If no body is longer than this, ranges have a fixed length: there are at least 8192.
const FIXED: u64 = 1 << 30;

/// End of the file with ranges of a fixed length. ext4 with 4 KiB blocks ends at 16 TiB ("Maximum file size", kernel documentation
/// filesystems/ext4); half of it leaves room for file systems with less.
const FIXED_END: u64 = 8 << 40;

/// End of the file with ranges that grow, whose second one begins in the middle: 4 TiB is the end of a file of ext4 with 1 KiB blocks.
const END: u64 = 4 << 40;

/// The ranges in use.
#[derive(Debug)]
pub(crate) enum Ranges {
    /// All have the same length.
    Fixed {
        stride: u64,
        /// Numbers of free ranges below `next`.
        free: Vec<u32>,
        next: u32,
    },
    /// Each grows with its body: the ends by the starts.
    Growing(BTreeMap<u64, u64>),
}

impl Ranges {
    /// For bodies of up to `max_body` bytes. Also returns the length of the longest body that there is room for.
    pub(crate) fn new(max_body: u64) -> (Self, u64) {
        if max_body > FIXED {
            return (Self::Growing(BTreeMap::new()), max_body.min(END));
        }
        let stride = max_body.max(LEAST).next_multiple_of(PAGE);
        let (free, next) = (Vec::new(), 0);
        (Self::Fixed { stride, free, next }, stride)
    }

    /// A range for one body; `None`: the file has no room for one more.
    pub(crate) fn allocate(&mut self) -> Option<Range<u64>> {
        match self {
            Self::Fixed { stride, free, next } => {
                let number = free.pop().or_else(|| {
                    let has_room = (u64::from(*next) + 1) * *stride <= FIXED_END;
                    has_room.then(|| std::mem::replace(next, *next + 1))
                })?;
                let start = u64::from(number) * *stride;
                Some(start..start + *stride)
            }
            Self::Growing(used) => {
                let gap = largest_gap(used);
                // The front of the file is in no body's way.
                let start = match gap.start {
                    0 => 0,
                    start => (start + (gap.end - start) / 2).next_multiple_of(PAGE),
                };
                let end = start + LEAST;
                (end <= gap.end).then(|| {
                    used.insert(start, end);
                    start..end
                })
            }
        }
    }

    /// Extends a range to `end` or beyond; returns its new end, `None` if another range is in the way.
    pub(crate) fn grow(&mut self, range: &Range<u64>, end: u64) -> Option<u64> {
        let Self::Growing(used) = self else {
            return None;
        };
        let next = used.range(range.end..).next();
        let most = next.map_or(END, |(start, _)| *start);
        // Twice as long, so that a long body seldom asks.
        let doubled = range.end + (range.end - range.start);
        let end = (end <= most).then(|| end.next_multiple_of(PAGE).max(doubled).min(most))?;
        used.insert(range.start, end);
        Some(end)
    }

    /// Frees a range.
    pub(crate) fn release(&mut self, range: &Range<u64>) {
        match self {
            Self::Fixed { stride, free, .. } => {
                free.extend(u32::try_from(range.start / *stride));
            }
            Self::Growing(used) => {
                used.remove(&range.start);
            }
        }
    }

    /// The number of ranges in use.
    pub(crate) fn in_use(&self) -> usize {
        match self {
            Self::Fixed { free, next, .. } => (*next as usize).saturating_sub(free.len()),
            Self::Growing(used) => used.len(),
        }
    }
}

/// The longest range between those in use.
fn largest_gap(used: &BTreeMap<u64, u64>) -> Range<u64> {
    let mut largest = 0..0;
    let mut from = 0;
    for (start, end) in used.iter().chain([(&END, &END)]) {
        if start - from > largest.end - largest.start {
            largest = from..*start;
        }
        from = *end;
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_same_length_end_where_the_file_must() {
        let (mut ranges, limit) = Ranges::new(FIXED);
        assert_eq!(limit, FIXED);
        let held: Vec<_> = (0..8192).map_while(|_| ranges.allocate()).collect();
        assert_eq!((held.len(), held[8191].end), (8192, FIXED_END));
        assert_eq!(ranges.allocate(), None);
        ranges.release(&held[7]);
        assert_eq!(ranges.allocate().as_ref(), Some(&held[7]));
    }

    #[test]
    fn growing_ranges_never_meet() {
        let (mut ranges, limit) = Ranges::new(u64::MAX);
        assert_eq!(limit, END);
        let mut held: Vec<Range<u64>> = (0..1000).map_while(|_| ranges.allocate()).collect();
        for step in 0..9 {
            for (number, range) in held.iter_mut().enumerate() {
                // Half of them grow, to 512 MiB.
                if number % 2 == 0 {
                    let end = range.start + (1 << (21 + step));
                    range.end = ranges.grow(range, end).unwrap();
                }
            }
            // Others come and go.
            let left = held.remove(step);
            ranges.release(&left);
            held.extend(ranges.allocate());
        }
        held.sort_by_key(|range| range.start);
        assert_eq!(ranges.in_use(), 1000);
        assert!(held.is_sorted_by(|one, next| one.end <= next.start));
        assert!(held.iter().all(|range| range.end <= END));
    }

    #[test]
    fn a_range_grows_to_the_next_one_and_no_further() {
        let (mut ranges, _) = Ranges::new(END);
        let (mut first, second) = (ranges.allocate().unwrap(), ranges.allocate().unwrap());
        assert_eq!(ranges.grow(&first, second.start + 1), None);
        first.end = ranges.grow(&first, second.start).unwrap();
        assert_eq!(first.end, second.start);
        assert_eq!(ranges.grow(&second, END), Some(END));
        assert_eq!(ranges.allocate(), None);
        ranges.release(&first);
        assert_eq!(ranges.allocate(), Some(0..LEAST));
    }
}
