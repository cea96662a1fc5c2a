//! Cells that count: one set per thread, which only that thread writes, and any thread may read.
//!
//! An increment is a plain load and store, not a locked instruction, on a cache line that no other thread writes.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::histogram::{BUCKETS, Histogram, bucket_of};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Increases it. Only the owning thread may call this.
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Decreases it. Only the owning thread may call this.
    pub fn subtract(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_sub(n),
            Ordering::Relaxed,
        );
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A `T` for each listen thread on separate cache lines: each thread writes its own, and any thread may read all.
#[derive(Debug)]
pub struct PerThread<T>(Box<[Alone<T>]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone<T>(T);

impl<T: Default> PerThread<T> {
    /// Creates the cells for this many threads.
    pub fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Alone::default()).collect())
    }
}

impl<T> PerThread<T> {
    /// Returns the one of a thread; `None` if there are fewer threads.
    pub fn of(&self, thread: u32) -> Option<&T> {
        self.0.get(thread as usize).map(|alone| &alone.0)
    }

    /// Those of all threads.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|alone| &alone.0)
    }
}

/// Requests by status class: 1xx to 5xx.
#[derive(Debug, Default)]
pub struct Classes([Counter; 5]);

impl Classes {
    /// Their names in the metrics.
    pub const NAMES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

    /// Counts a request. Only the owning thread may call this.
    pub fn add(&self, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        if let Some(counter) = self.0.get(class) {
            counter.add(1);
        }
    }

    /// Returns the classes with their sums over all threads.
    pub fn sum<'a>(threads: impl Iterator<Item = &'a Classes>) -> [(&'static str, u64); 5] {
        let mut sums = Self::NAMES.map(|name| (name, 0));
        for thread in threads {
            for (sum, counter) in sums.iter_mut().zip(&thread.0) {
                sum.1 += counter.get();
            }
        }
        sums
    }
}

/// A duration as it is counted: several cells can count it without finding its bucket again.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    bucket: usize,
    nanos: u64,
}

impl From<Duration> for Measured {
    fn from(duration: Duration) -> Self {
        Self {
            bucket: bucket_of(duration),
            nanos: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// Durations in buckets.
#[derive(Debug)]
pub struct Durations {
    buckets: [Counter; BUCKETS],
    nanos: Counter,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            buckets: array::from_fn(|_| Counter::default()),
            nanos: Counter::default(),
        }
    }
}

impl Durations {
    /// Counts a duration. Only the owning thread may call this.
    pub fn add(&self, duration: impl Into<Measured>) {
        let duration = duration.into();
        if let Some(bucket) = self.buckets.get(duration.bucket) {
            bucket.add(1);
        }
        self.nanos.add(duration.nanos);
    }

    /// Returns the sum over all threads.
    pub fn sum<'a>(threads: impl Iterator<Item = &'a Durations>) -> Histogram {
        let mut sum = Histogram::default();
        let mut nanos: u64 = 0;
        for thread in threads {
            for (sum, counter) in sum.counts.iter_mut().zip(&thread.buckets) {
                *sum += counter.get();
            }
            nanos = nanos.wrapping_add(thread.nanos.get());
        }
        sum.sum = Duration::from_nanos(nanos).as_secs_f64();
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_in_its_class_and_an_impossible_status_in_none() {
        let threads = PerThread::<Classes>::new(2);
        for (thread, status) in [
            (0, 200),
            (1, 204),
            (1, 599),
            (0, 101),
            (0, 99),
            (0, 600),
            (7, 200),
        ] {
            if let Some(classes) = threads.of(thread) {
                classes.add(status);
            }
        }
        let sums = Classes::sum(threads.all()).map(|(_, sum)| sum);
        assert_eq!(sums, [1, 2, 0, 0, 1]);
    }

    #[test]
    fn durations_of_all_threads_are_one_histogram() {
        let threads = PerThread::<Durations>::new(2);
        for (thread, millis) in [(0, 1), (1, 1), (1, 1500)] {
            threads
                .of(thread)
                .unwrap()
                .add(Duration::from_millis(millis));
        }
        let sum = Durations::sum(threads.all());
        assert_eq!(sum.counts[bucket_of(Duration::from_millis(1))], 2);
        assert_eq!((sum.count(), sum.sum), (3, 1.502));
    }
}
