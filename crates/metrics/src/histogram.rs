//! Durations in exponential buckets, like Prometheus's native histograms.
//!
//! Schema 2: four buckets per doubling, so a quantile is off by at most a tenth. The classic buckets of the text
//! formats are the bounds that are powers of two: both formats report the same numbers.

use std::time::Duration;

/// The schema of native histograms: a bucket's bounds differ by a factor of 2^(2^-SCHEMA).
pub(crate) const SCHEMA: i32 = 2;

/// Buckets for each doubling: 2^SCHEMA.
const PER_DOUBLING: i32 = 4;

/// Bucket 0 covers everything up to 2^LOWEST seconds: a microsecond. No request is answered faster.
const LOWEST: i32 = -20;

/// The last bucket begins at 2^HIGHEST seconds: half an hour.
const HIGHEST: i32 = 11;

/// The number of buckets: those in between, the first and the last.
pub const BUCKETS: usize = ((HIGHEST - LOWEST) * PER_DOUBLING) as usize + 2;

/// The classic buckets, as powers of two of a second: 122 µs to 64 s.
pub(crate) const CLASSIC: std::ops::RangeInclusive<i32> = -13..=6;

/// 2^(1/4), 2^(2/4) and 2^(3/4) as fractions of 2^63, rounded up: the bounds within a doubling.
const CUTS: [u64; 3] = [
    0x9837_f051_8db8_a970,
    0xb504_f333_f9de_6485,
    0xd744_fcca_d69d_6af5,
];

/// 2^30/10^9 - 1, as a fraction of 2^64: converts nanoseconds to units of 2^-30 seconds.
const MORE_THAN_NANOS: u128 = 0x12e0_be82_6d69_4b2e;

/// Returns the bucket of a duration: the first one whose [`upper_bound`] is not below it.
pub fn bucket_of(duration: Duration) -> usize {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
    // A nanosecond is not a power of two of a second; 2^-30 seconds is.
    let units = nanos.saturating_add(((u128::from(nanos) * MORE_THAN_NANOS) >> 64) as u64);
    // A bound belongs to the bucket below it.
    let above = units.saturating_sub(1);
    if above >> (30 + LOWEST) == 0 {
        return 0;
    }
    let zeros = above.leading_zeros();
    let mantissa = above << zeros;
    let cut: i32 = CUTS.iter().map(|cut| i32::from(mantissa >= *cut)).sum();
    let doubling = 63 - zeros as i32 - 30;
    let bucket = (doubling - LOWEST) * PER_DOUBLING + cut + 1;
    usize::try_from(bucket).unwrap_or_default().min(BUCKETS - 1)
}

/// The upper bound of a bucket in seconds; of the last one, infinity.
pub fn upper_bound(bucket: usize) -> f64 {
    if bucket + 1 >= BUCKETS {
        return f64::INFINITY;
    }
    (f64::from(native_index(bucket)) / f64::from(PER_DOUBLING)).exp2()
}

/// The index of a bucket in a native histogram of this schema: its upper bound is 2^(index/4).
pub(crate) fn native_index(bucket: usize) -> i32 {
    LOWEST * PER_DOUBLING + bucket as i32
}

/// Counted durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The count of each of the [`BUCKETS`].
    pub counts: Vec<u64>,
    /// The sum of all, in seconds.
    pub sum: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            sum: 0.0,
        }
    }
}

impl Histogram {
    /// Returns the total count.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the classic buckets: upper bound in seconds, and the number of durations up to it. Excludes the bucket
    /// for all.
    pub(crate) fn classic(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        CLASSIC.map(|power| {
            let last = (power - LOWEST) * PER_DOUBLING;
            let last = usize::try_from(last).unwrap_or_default();
            let below: u64 = self.counts.iter().take(last + 1).sum();
            (f64::from(power).exp2(), below)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_the_bucket_whose_bounds_hold_it() {
        let mut nanos: u64 = 1;
        while nanos < 10_000_000_000_000 {
            for near in [nanos - 1, nanos, nanos + 1] {
                let seconds = near as f64 / 1e9;
                let bucket = bucket_of(Duration::from_nanos(near));
                // The conversion may be off by a nanosecond.
                assert!(seconds <= upper_bound(bucket) + 1.1e-9, "{near}");
                assert!(
                    bucket == 0 || seconds > upper_bound(bucket - 1) - 1.1e-9,
                    "{near} in {bucket}"
                );
            }
            nanos += nanos / 7 + 1;
        }
        assert_eq!(bucket_of(Duration::ZERO), 0);
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_second_belongs_to_the_bucket_up_to_a_second() {
        let bucket = bucket_of(Duration::from_secs(1));
        assert!((upper_bound(bucket) - 1.0).abs() < f64::EPSILON);
        assert!(upper_bound(bucket_of(Duration::from_nanos(1_000_000_010))) > 1.0);
        assert_eq!(native_index(bucket), 0);
    }

    #[test]
    fn classic_buckets_are_sums_of_those_below() {
        let mut histogram = Histogram::default();
        for millis in [1, 3, 500, 600, 1_000, 70_000] {
            histogram.counts[bucket_of(Duration::from_millis(millis))] += 1;
        }
        let classic: Vec<(f64, u64)> = histogram.classic().collect();
        let at = |bound: f64| classic.iter().find(|(le, _)| *le == bound).map(|(_, n)| *n);
        assert_eq!(at(0.0009765625), Some(0));
        assert_eq!(at(0.001953125), Some(1));
        assert_eq!(at(0.5), Some(3));
        assert_eq!(at(1.0), Some(5));
        assert_eq!(at(64.0), Some(5));
        assert_eq!(histogram.count(), 6);
    }
}
