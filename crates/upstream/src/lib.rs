//! Servers of upstreams: which one gets a request, the addresses of their names, the connections to them, and their health.
//!
//! Owns the path from a configured upstream to a connection on which a request can be sent, for any protocol. `server` gets a [`ServerClaim`] on
//! a server from a [`ServerGroup`], takes a [`UpstreamConnection`] from its thread's [`Pools`] or opens one, uses it, and reports the result to the
//! claim. Nothing here depends on HTTP.
//!
//! There are two kinds of state: [`ServerGroup`] and [`GroupServer`] are shared by all threads and contain only numbers; connections belong to the
//! thread whose event loop watches them, and never leave it. Both survive a change of the configuration for servers that are still in it.
//!
//! Must never happen: a connection is handed out that the server has closed or on which unexpected bytes have arrived; a claim is not
//! released; a request waits although a server has capacity.

#![forbid(unsafe_code)]

pub mod authorities;
mod balance;
mod checks;
mod computed;
mod connection;
mod contention;
mod datagrams;
mod failure;
mod group;
mod lookup;
mod names;
mod pools;
mod queue;
mod server;
mod services;
pub mod status_address;
mod sticky;
mod target;
mod waiting;

use std::sync::LazyLock;
use std::time::Instant;

pub use checks::{CheckStatus, ServerHealth};
pub use connection::UpstreamConnection;
pub use contention::{InFlight, MAX_WAIT, ThreadQueue};
pub use datagrams::UpstreamDatagrams;
pub use failure::UpstreamError;
pub use group::{CopyFate, ServerChoice, ServerClaim, ServerGroup, Tried, Unavailable};
pub use names::{NameEvent, addresses, keep_resolved};
pub use pools::Pools;
pub use queue::QueueEntry;
pub use server::{Fresh, GroupServer, ServerStatus};
pub use sticky::StickyKey;
pub use target::ResolvedTarget;
pub use waiting::WhenFull;

/// Milliseconds on a monotonic clock; the same for all threads.
pub type Millis = u64;

/// Converts a duration.
pub(crate) fn millis(duration: std::time::Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 4)
}

/// Microseconds on a monotonic clock; the same for all threads.
pub(crate) type Micros = u64;

/// The current time.
pub(crate) fn micros() -> Micros {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Micros::try_from(START.elapsed().as_micros()).unwrap_or(Micros::MAX)
}
