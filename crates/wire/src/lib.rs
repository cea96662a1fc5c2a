//! The transport between the router and the language workers of one application.
//!
//! Contains the layout of the shared-memory segment (`layout`, in prose `spec/wire.md`), the lock-free parts that both sides run (`queue`,
//! `idle`, `slotmap`, `ring`), the encodings (`request`, `response`), the router's side ([`router::Segment`]) and the worker's
//! ([`worker::Worker`]), and the messages between router and prototype ([`control`]).
//!
//! Called by `pool` (router side) and `worker` (worker side). What must never happen: a request lost silently or run twice; a byte that the
//! router reads from the segment and uses without a check; a panic or an out-of-bounds access because of data that a worker wrote.

mod idle;
mod pull;
mod queue;
mod ring;
mod slotmap;
mod state;
mod sync;

#[cfg(not(loom))]
#[doc(hidden)]
#[cfg(feature = "bench")]
pub mod bench;
#[cfg(not(loom))]
pub mod command;
#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
mod descriptors;
#[cfg(not(loom))]
mod forked;
#[cfg(all(not(loom), any(test, fuzzing)))]
#[doc(hidden)]
pub mod hostile;
#[cfg(not(loom))]
mod interrupt;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
pub mod message;
#[cfg(not(loom))]
pub mod request;
#[cfg(not(loom))]
pub mod response;
#[cfg(not(loom))]
pub mod router;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod span;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod versions;
#[cfg(not(loom))]
pub mod worker;

#[cfg(all(test, not(loom)))]
mod golden;
#[cfg(all(test, any(loom, miri)))]
mod models;
#[cfg(all(test, not(loom)))]
mod properties;

#[cfg(not(loom))]
pub use self::{
    idle::Wake,
    layout::Layout,
    message::{MessageOpcode, Piece, PieceHead},
    request::{BodyRef, TooLarge, WireRequestHead, WireRequestView},
    response::{ResponseFields, ResponseHeadError, WireResponseHead},
    router::{CancelOutcome, Fate, Readable, Readiness, Segment, WorkerSnapshot},
    span::{RawSpan, SpanMut},
    state::{SlotKind, SlotState},
    table::Table,
    versions::Versions,
};

/// A slot of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// A worker wrote invalid data. The request is answered 502 and the worker should be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The counters of a byte ring are impossible.
    Ring,
    /// The response head is malformed.
    Head,
    /// The response status is outside 200 to 599, and not a permitted 101.
    Status(u32),
    /// A piece of a WebSocket message is malformed.
    Message,
    /// No such slot.
    Slot,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ring => f.write_str("worker corrupted a ring's counters"),
            Self::Head => f.write_str("worker sent a malformed response head"),
            Self::Status(status) => {
                write!(f, "worker sent status {status}, outside 200 to 599")
            }
            Self::Message => f.write_str("worker sent a malformed WebSocket message"),
            Self::Slot => f.write_str("slot does not exist"),
        }
    }
}

impl std::error::Error for Violation {}

/// The time of the clock that the pool and the workers go by.
#[inline]
pub fn now() -> std::time::Instant {
    #[cfg(simulated)]
    return tutti_simulated::now();
    #[cfg(not(simulated))]
    std::time::Instant::now()
}

/// CLOCK_MONOTONIC in microseconds: the clock of `begun_us`.
#[cfg(simulated)]
pub fn now_us() -> u64 {
    tutti_simulated::elapsed().as_micros() as u64
}

/// CLOCK_MONOTONIC in milliseconds: the clock of `deadline_ms` and `idle_since_ms`.
#[cfg(simulated)]
pub fn now_ms() -> u64 {
    tutti_simulated::elapsed().as_millis() as u64
}

/// CLOCK_MONOTONIC in microseconds: the clock of `begun_us`.
#[cfg(not(any(loom, simulated)))]
pub fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// CLOCK_MONOTONIC in milliseconds, to the kernel's tick (4 ms): the clock of `deadline_ms` and `idle_since_ms`.
#[cfg(not(any(loom, simulated)))]
pub fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
