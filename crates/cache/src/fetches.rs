//! Fetches in progress: a request for the same response waits for the first, for as long as the caller allows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// A fetch in progress.
#[derive(Debug)]
pub struct Flight {
    begun: Instant,
    has_landed: AtomicBool,
    landed: Notify,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            has_landed: AtomicBool::new(false),
            landed: Notify::new(),
        }
    }
}

impl Flight {
    /// When the fetch began.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Completes when the fetch has ended, with or without a response.
    pub async fn landed(&self) {
        let notified = self.landed.notified();
        let mut notified = std::pin::pin!(notified);
        // Registered before the check, so that an end in between is not missed.
        notified.as_mut().enable();
        if !self.has_landed.load(Ordering::Acquire) {
            notified.await;
        }
    }

    fn land(&self) {
        self.has_landed.store(true, Ordering::Release);
        self.landed.notify_waiters();
    }
}

/// All fetches of a store in progress, by the hash of their keys.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<HashMap<u64, Arc<Flight>>>);

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Flight>>> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lead, or the fetch of the request that has it.
    pub(crate) fn lead(self: &Arc<Self>, hash: u64) -> Result<Lead, Arc<Flight>> {
        let mut flights = self.lock();
        if let Some(flight) = flights.get(&hash) {
            return Err(Arc::clone(flight));
        }
        let flight = Arc::<Flight>::default();
        flights.insert(hash, Arc::clone(&flight));
        Ok(Lead {
            flights: Arc::clone(self),
            hash,
            flight,
        })
    }
}

/// The right to fetch the response for a key while other requests wait. Dropping it wakes them.
#[derive(Debug)]
pub struct Lead {
    flights: Arc<Flights>,
    hash: u64,
    flight: Arc<Flight>,
}

impl Drop for Lead {
    fn drop(&mut self) {
        let gone = self.flights.lock().remove(&self.hash);
        self.flight.land();
        debug_assert!(
            gone.is_some_and(|gone| Arc::ptr_eq(&gone, &self.flight)),
            "another fetch's lead"
        );
    }
}
