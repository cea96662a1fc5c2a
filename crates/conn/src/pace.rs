//! Limits the bytes of responses per second.
//!
//! A [`Bandwidth`] belongs to one response, or to all with the same key, on any thread. It has an allowance that grows with time up to a
//! fraction of a second's bytes. A sender takes what it sends, and waits with one timer when nothing is left: no timer per piece.
//!
//! Must never: end a wait before there is an allowance, or let many short responses of one key send more than one long one.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// The time whose bytes may be sent at once: enough that a timer is set a few times a second, and little for a client that plays a video.
const WINDOW_NANOSECONDS: u64 = 250_000_000;

/// Bytes that may be sent at once, however low the rate is: fewer would cost more in packets than they carry.
const LEAST_BYTES: u64 = 1024;

const SECOND: u64 = 1_000_000_000;

/// An allowance of bytes per second.
#[derive(Debug)]
pub struct Bandwidth {
    bytes_per_second: u64,
    begun: Instant,
    /// Nanoseconds after `begun` until which the bytes sent so far use up the rate.
    paid: AtomicU64,
}

impl Bandwidth {
    /// This many bytes per second, at least one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            begun: Instant::now(),
            paid: AtomicU64::new(0),
        }
    }

    /// Bytes that may be sent at once after a pause.
    fn most(&self) -> u64 {
        let of_window = self.bytes_in(WINDOW_NANOSECONDS);
        of_window.max(LEAST_BYTES)
    }

    fn bytes_in(&self, nanoseconds: u64) -> u64 {
        let bytes = u128::from(nanoseconds) * u128::from(self.bytes_per_second);
        u64::try_from(bytes / u128::from(SECOND)).unwrap_or(u64::MAX)
    }

    fn time_of(&self, bytes: u64) -> u64 {
        let time = u128::from(bytes) * u128::from(SECOND);
        u64::try_from(time / u128::from(self.bytes_per_second)).unwrap_or(u64::MAX)
    }

    fn now(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.begun);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Bytes that may be sent now: none until there are half of the most, because otherwise each byte would be sent as soon as its time has
    /// come.
    fn allowance(&self, now: Instant) -> u64 {
        let owed = self.paid.load(Ordering::Relaxed);
        let owed = owed.saturating_sub(self.now(now));
        let most = self.most();
        let allowance = most.saturating_sub(self.bytes_in(owed));
        match allowance >= most / 2 {
            true => allowance,
            false => 0,
        }
    }

    /// Takes bytes that have been sent.
    fn take(&self, bytes: u64, now: Instant) {
        let (now, time) = (self.now(now), self.time_of(bytes));
        let next = |paid: u64| Some(paid.max(now).saturating_add(time));
        // It never fails: the closure returns a value.
        let _ = self
            .paid
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// The time until half of the largest allowance is there.
    fn wait(&self, now: Instant) -> Duration {
        let owed = self.paid.load(Ordering::Relaxed);
        let owed = owed.saturating_sub(self.now(now));
        let enough = self.time_of(self.most().div_ceil(2));
        Duration::from_nanos(owed.saturating_sub(enough))
    }

    /// True if everything that has been sent is paid off, so that it is as good as new.
    pub fn is_paid(&self) -> bool {
        self.paid.load(Ordering::Relaxed) <= self.now(Instant::now())
    }
}

/// The limits of one response.
#[derive(Debug)]
pub struct Pace {
    limits: Vec<Arc<Bandwidth>>,
    /// Its own limit, and the bytes that it may send before that applies.
    own: Option<(Bandwidth, u64)>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// The limits that a response shares with others, and its own: bytes per second after a number of bytes. `None`: there is no limit.
    pub fn new(limits: &[Arc<Bandwidth>], own: Option<(u64, u64)>) -> Option<Box<Self>> {
        if limits.is_empty() && own.is_none() {
            return None;
        }
        Some(Box::new(Self {
            limits: limits.to_vec(),
            own: own.map(|(rate, after)| (Bandwidth::new(rate), after)),
            sleep: None,
        }))
    }

    /// Bytes that may be sent now.
    pub fn allowance(&self) -> u64 {
        let now = Instant::now();
        let shared = self.limits.iter().map(|limit| limit.allowance(now));
        let own = self.own.as_ref();
        let own = own.map(|(limit, free)| limit.allowance(now).saturating_add(*free));
        shared.chain(own).min().unwrap_or(u64::MAX)
    }

    /// Takes bytes that have been sent.
    pub fn take(&mut self, bytes: u64) {
        let now = Instant::now();
        for limit in &self.limits {
            limit.take(bytes, now);
        }
        if let Some((limit, free)) = &mut self.own {
            let free_bytes = bytes.min(*free);
            *free -= free_bytes;
            limit.take(bytes - free_bytes, now);
        }
    }

    /// Ready when bytes may be sent; otherwise wakes the task then.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            if self.allowance() > 0 {
                return Poll::Ready(());
            }
            let now = Instant::now();
            let own = self.own.as_ref().map(|(limit, _)| limit);
            let all = self.limits.iter().map(|limit| &**limit).chain(own);
            let wait = all.map(|limit| limit.wait(now)).max().unwrap_or_default();
            // The timer's resolution is a millisecond.
            let wait = wait.max(Duration::from_millis(1));
            self.sleep = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_used_up_and_grows_with_time() {
        let limit = Bandwidth::new(100_000);
        let start = limit.begun;
        assert_eq!(limit.allowance(start), 25_000);
        limit.take(25_000, start);
        assert_eq!(limit.allowance(start), 0);
        assert_eq!(limit.wait(start), Duration::from_millis(125));
        assert!(!limit.is_paid());
        let later = |time| start + Duration::from_millis(time);
        assert_eq!(limit.allowance(later(100)), 0);
        assert_eq!(limit.allowance(later(125)), 12_500);
        assert_eq!(limit.allowance(later(200)), 20_000);
        // It does not grow beyond what may be sent at once.
        assert_eq!(limit.allowance(start + Duration::from_secs(60)), 25_000);
    }

    #[test]
    fn a_low_rate_has_a_packet_at_once() {
        let limit = Bandwidth::new(10);
        let start = limit.begun;
        assert_eq!(limit.allowance(start), 1024);
        limit.take(1024, start);
        assert_eq!(limit.allowance(start), 0);
        assert_eq!(limit.allowance(start + Duration::from_secs(51)), 0);
        assert_eq!(limit.allowance(start + Duration::from_secs(52)), 520);
    }

    #[test]
    fn a_response_has_the_least_of_its_limits() {
        let shared = Arc::new(Bandwidth::new(8_000));
        let mut pace = Pace::new(&[Arc::clone(&shared)], Some((100_000, 5_000))).unwrap();
        assert_eq!(pace.allowance(), 2_000);
        pace.take(2_000);
        assert!(pace.allowance() < 2_000);
        let mut free = Pace::new(&[], Some((4_000, 5_000))).unwrap();
        assert_eq!(free.allowance(), 6_024);
        free.take(5_000);
        assert_eq!(free.allowance(), 1_024);
        assert!(Pace::new(&[], None).is_none());
    }
}
