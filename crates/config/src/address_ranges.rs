//! Ranges of addresses, each with a number, of which the smallest that contains an address applies.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// Ranges that do not overlap, in order: the first address, the last one of the same family, the number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AddressRanges(Vec<(IpAddr, IpAddr, usize)>);

impl AddressRanges {
    /// Takes ranges that may overlap.
    pub(crate) fn new(ranges: &[AddressRange]) -> Self {
        let mut disjoint = Vec::new();
        for is_v4 in [true, false] {
            let ranges = ranges.iter().filter(|range| range.is_v4 == is_v4);
            let address = |bits: u128| match u32::try_from(bits) {
                Ok(bits) if is_v4 => Ipv4Addr::from_bits(bits).into(),
                _ => IpAddr::V6(bits.into()),
            };
            for (first, last, value) in split(&ranges.collect::<Vec<_>>()) {
                disjoint.push((address(first), address(last), value));
            }
        }
        Self(disjoint)
    }

    /// The number for an address, by binary search.
    pub(crate) fn get(&self, address: IpAddr) -> Option<usize> {
        let after = self.0.partition_point(|(first, ..)| *first <= address);
        let (_, last, number) = self.0.get(after.checked_sub(1)?)?;
        // All IPv4 addresses are less than those of IPv6.
        let is_inside = address <= *last && address.is_ipv4() == last.is_ipv4();
        is_inside.then_some(*number)
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressRange {
    pub(crate) is_v4: bool,
    pub(crate) first: u128,
    pub(crate) last: u128,
    /// Its number.
    pub(crate) value: usize,
}

/// Splits ranges of one family into those that do not overlap, in order.
fn split(ranges: &[&AddressRange]) -> Vec<(u128, u128, usize)> {
    // The places where a range begins, or the one after its end.
    let begin = ranges.iter().map(|range| (range.first, true, *range));
    let end = ranges
        .iter()
        .filter_map(|range| Some((range.last.checked_add(1)?, false, *range)));
    let mut events: Vec<(u128, bool, &AddressRange)> = begin.chain(end).collect();
    events.sort_unstable();
    let mut made: Vec<(u128, u128, usize)> = Vec::new();
    // Those that contain the current place, the smallest first.
    let mut open: BTreeSet<(u128, &AddressRange)> = BTreeSet::new();
    let mut events = events.into_iter().peekable();
    while let Some((place, is_begin, range)) = events.next() {
        let entry = (range.last - range.first, range);
        match is_begin {
            true => open.insert(entry),
            false => open.remove(&entry),
        };
        let next = events.peek().map(|(next, ..)| *next);
        if next == Some(place) {
            continue;
        }
        let Some((_, smallest)) = open.first() else {
            continue;
        };
        let last = next.map_or(u128::MAX, |next| next - 1);
        match made.last_mut() {
            Some((_, end, value)) if *value == smallest.value && *end + 1 == place => *end = last,
            _ => made.push((place, last, smallest.value)),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u128, last: u128, value: usize) -> AddressRange {
        AddressRange {
            is_v4: false,
            first,
            last,
            value,
        }
    }

    #[test]
    fn ranges_are_split_where_smaller_ones_begin_and_end() {
        let all = [
            range(0, u128::MAX, 0),
            range(10, 19, 1),
            range(12, 13, 2),
            range(15, 24, 3),
            range(25, 25, 3),
            range(u128::MAX, u128::MAX, 4),
        ];
        // The first of two ranges of the same size applies.
        let expected = [
            (0, 9, 0),
            (10, 11, 1),
            (12, 13, 2),
            (14, 19, 1),
            (20, 25, 3),
            (26, u128::MAX - 1, 0),
            (u128::MAX, u128::MAX, 4),
        ];
        assert_eq!(split(&all.iter().collect::<Vec<_>>()), expected);
        assert_eq!(split(&[]), []);
        assert_eq!(split(&[&range(5, 5, 0)]), [(5, 5, 0)]);
    }

    #[test]
    fn nested_ranges_are_split_like_a_search_of_all_finds_them() {
        let many = 10_000;
        let all: Vec<AddressRange> = (0..many)
            .map(|number| range(number, 3 * many - number, number as usize))
            .collect();
        let made = split(&all.iter().collect::<Vec<_>>());
        for place in (0..4 * many).step_by(97) {
            let inside = all
                .iter()
                .filter(|one| (one.first..=one.last).contains(&place));
            let smallest = inside.min_by_key(|one| one.last - one.first);
            let found = made
                .iter()
                .find(|(first, last, _)| (*first..=*last).contains(&place));
            let value = found.map(|(.., value)| *value);
            assert_eq!(value, smallest.map(|one| one.value), "{place}");
        }
    }
}
