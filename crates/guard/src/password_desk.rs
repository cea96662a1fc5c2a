//! Where passwords are looked at: on threads of their own, few at a time, for hashing one takes a tenth of a second of a processor on purpose.
//!
//! Must never: hold up a listen thread, or let whoever tries passwords keep more than a few processors busy or more than a bounded number waiting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::concurrency::Concurrency;
use crate::passwords::{Question, Remembered};

/// Passwords that may wait to be looked at.
const MOST_WAITING: usize = 64;

/// Those of one client among them.
const MOST_OF_CLIENT: u32 = 8;

/// Too many passwords wait.
#[derive(Debug)]
pub struct Busy;

/// One for the whole server.
#[derive(Debug)]
pub struct PasswordDesk {
    remembered: Option<Remembered>,
    /// Those that are looked at.
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    of_client: Arc<Concurrency>,
}

impl Default for PasswordDesk {
    fn default() -> Self {
        Self {
            remembered: Remembered::new().ok(),
            places: Arc::new(Semaphore::new(processors().div_ceil(2))),
            waiting: Arc::default(),
            of_client: Concurrency::new(MOST_OF_CLIENT),
        }
    }
}

/// Asked once: each configuration has a desk before it takes over that of the one before it, and the answer is read from the files of a cgroup.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A password that waits or is looked at.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PasswordDesk {
    /// True if the password is right. Needs a runtime of tokio, whose threads for blocking it takes.
    ///
    /// # Errors
    /// Too many wait.
    pub async fn ask(&self, name: &str, question: Question, client: &str) -> Result<bool, Busy> {
        let remembered = self.remembered.as_ref();
        let tag = remembered.map(|remembered| remembered.tag(name, &question));
        if let (Some(remembered), Some(tag)) = (remembered, tag)
            && remembered.knows(tag, Instant::now())
        {
            return Ok(true);
        }
        let _of_client = self.of_client.enter(client.as_bytes()).ok_or(Busy)?;
        let waiting = Waiting(Arc::clone(&self.waiting));
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            return Err(Busy);
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| Busy)?;
        // Where the client goes meanwhile, the hash still is being made: its place is taken until it is.
        let looking = tokio::task::spawn_blocking(move || {
            let is_right = question.answer();
            drop((place, waiting));
            is_right
        });
        let is_right = looking.await.unwrap_or(false);
        if is_right && let (Some(remembered), Some(tag)) = (remembered, tag) {
            remembered.note(tag, Instant::now());
        }
        Ok(is_right)
    }
}
