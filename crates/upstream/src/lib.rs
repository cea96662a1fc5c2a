//! Servers that requests are sent to: which one is asked, where their names lead, the connections to them, and
//! what is known of their health.
//!
//! Owns the way from an upstream of the configuration to a connection on which a request can be sent, whatever protocol is spoken
//! there. `server` asks an [`ServerGroup`] for a [`ServerClaim`] on one of its servers, takes a [`UpstreamConnection`] to it from its thread's
//! [`Pools`] or opens one, speaks on it, and tells the claim how it went. Nothing here knows HTTP.
//!
//! Two kinds of state: [`ServerGroup`] and [`GroupServer`] are shared by all threads and hold only numbers; connections belong to the thread
//! whose event loop watches them, and never leave it. Both outlive a change of the configuration for servers that are still in it.
//!
//! Must never happen: a connection handed out that the server has closed or on which something unasked has arrived; a claim that
//! is not given back; a request left waiting where a server has room.

#![forbid(unsafe_code)]

pub mod authorities;
mod balance;
mod checks;
mod connection;
mod contention;
mod failure;
mod group;
mod lookup;
mod names;
mod pools;
mod queue;
mod server;
mod services;
pub mod status_address;
mod target;

use std::sync::LazyLock;
use std::time::Instant;

pub use checks::{CheckStatus, ServerHealth};
pub use connection::UpstreamConnection;
pub use contention::{InFlight, MAX_WAIT, ThreadQueue};
pub use failure::UpstreamError;
pub use group::{CopyFate, ServerClaim, ServerGroup, Tried, Unavailable};
pub use names::{NameEvent, addresses, keep_resolved};
pub use pools::Pools;
pub use queue::QueueEntry;
pub use server::{Fresh, GroupServer, ServerStatus};
pub use target::ResolvedTarget;

/// Milliseconds on a monotonic clock; the same for all threads.
pub type Millis = u64;

/// A duration in those.
pub(crate) fn millis(duration: std::time::Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 4)
}

/// Microseconds on a monotonic clock; the same for all threads.
pub(crate) type Micros = u64;

/// The present time in those.
pub(crate) fn micros() -> Micros {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Micros::try_from(START.elapsed().as_micros()).unwrap_or(Micros::MAX)
}
