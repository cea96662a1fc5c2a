//! The exchanges that Java has, by number: any of its threads may use one, until it has ended.
//!
//! Java keeps a number, never a pointer: what an application does with a request that is over finds nothing here. Called by
//! [`ffi`](crate::ffi) alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tutti_worker::{Detached, Exchange};

use crate::websocket::WebSocket;

/// So many locks for the numbers, so that threads seldom meet at one.
const SHARDS: usize = 16;

/// The exchanges by number, in shards.
type Shards = [Mutex<HashMap<u64, Arc<Held>>>; SHARDS];

static HELD: LazyLock<Shards> = LazyLock::new(Default::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An exchange that threads share.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) exchange: Detached,
    /// Its frames, if the request asks for a WebSocket.
    pub(crate) websocket: Option<WebSocket>,
    /// The reason why the head could not be sent.
    fault: Mutex<String>,
}

impl Held {
    /// Keeps the text of a failure.
    pub(crate) fn set_fault(&self, fault: String) {
        *lock(&self.fault) = fault;
    }

    /// The text of the last failure.
    pub(crate) fn fault(&self) -> String {
        lock(&self.fault).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in one call leaves nothing half done that another relies on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard(number: u64) -> &'static Mutex<HashMap<u64, Arc<Held>>> {
    let index = (number % SHARDS as u64) as usize;
    // The remainder is below the length.
    HELD.get(index).unwrap_or(&HELD[0])
}

/// The number of the next exchange.
pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Notes an exchange under this number.
pub(crate) fn hold(number: u64, exchange: Detached) {
    let is_websocket = exchange.with(|exchange: &Exchange| exchange.request().is_websocket());
    let held = Held {
        exchange,
        websocket: is_websocket.then(WebSocket::new),
        fault: Mutex::default(),
    };
    lock(shard(number)).insert(number, Arc::new(held));
}

/// The exchange of this number, if it has not ended.
pub(crate) fn find(number: u64) -> Option<Arc<Held>> {
    lock(shard(number)).get(&number).cloned()
}

/// Takes the exchange of this number away, to be ended. Of all who want to end it one gets it.
pub(crate) fn take(number: u64) -> Option<Arc<Held>> {
    lock(shard(number)).remove(&number)
}
