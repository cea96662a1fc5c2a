//! The cost of a rate limit: time of a request, and memory of a million keys.
//!
//! `cargo bench -p tutti-guard --bench rate`. Prints medians of batches, in the form that `bench/harness` reads.

#![allow(
    missing_docs,
    clippy::print_stdout,
    reason = "a program that prints figures"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tutti_config::model::Rate;
use tutti_guard::RateLimiter;

const BATCHES: usize = 200;
const TAKES: u32 = 5_000;
const KEYS: u32 = 1_000_000;

fn main() {
    let rate = Rate {
        requests: NonZeroU32::MIN.saturating_add(9),
        per: Duration::from_secs(1),
    };
    let before = resident_kib();
    let limiter = RateLimiter::new(rate, 20, KEYS as usize);
    // The order of a stranger's addresses: no two neighbours in a row.
    let key = |number: u32| (number.wrapping_mul(0x9E37_79B1) % KEYS).to_be_bytes();
    for number in 0..KEYS {
        black_box(limiter.take(&number.to_be_bytes(), Instant::now()));
    }
    let keys = resident_kib().saturating_sub(before);
    let mut next = 0;
    measure("rate limit: one key", &mut || {
        limiter.take(&key(7), Instant::now())
    });
    measure("rate limit: 1000000 keys", &mut || {
        next += 1;
        limiter.take(&key(next), Instant::now())
    });
    println!("rate limit: memory of 1000000 keys   {keys} KiB");
}

/// Runs batches, and prints the median of what one of each takes.
fn measure<T>(what: &str, take: &mut dyn FnMut() -> T) {
    let mut times: Vec<u128> = (0..BATCHES)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..TAKES {
                black_box(take());
            }
            begun.elapsed().as_nanos() / u128::from(TAKES)
        })
        .collect();
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get(times.len() * part / 100)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{what}   median {} ns ({}..{})  p99 {} ns",
        at(50),
        at(0),
        at(90),
        at(99)
    );
}

/// Memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}
