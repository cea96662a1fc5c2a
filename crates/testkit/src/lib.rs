//! Tests only: a server on temporary folders, clients that send bytes as they are, and waiting for conditions.
//!
//! Used by the end-to-end, fault and real-site tests. It knows the server only from outside: flags, control socket,
//! `/proc`, log. Nothing here may sleep for a fixed time and hope, and nothing may outlive the test that started it.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

pub mod client;
pub mod edits;
pub mod load;
pub mod processes;
pub mod program;
pub mod server;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use client::{Reply, request};
pub use load::{Load, LoadOptions, Outcome};
pub use server::{Server, ServerOptions};

/// Waits until `condition` holds; panics with `what` if it does not within `limit`.
///
/// # Panics
/// When the time is over.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(3));
    }
}

/// A port nobody listens on right now, on 127.0.0.1.
///
/// # Panics
/// When the machine has none left.
pub fn free_port() -> u16 {
    // Below those that the kernel hands out (ip_local_port_range), which anybody may get before it is used here; each only once, and
    // processes that run side by side begin at different ones.
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(start) % COUNT + FIRST;
        let port = u16::try_from(number).expect("below 32,000");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}
