//! A shared cache of responses (RFC 9111): how long a response is fresh, whether it may be stored, which stored response answers a request,
//! and the memory and the file ([`disk`]) that hold them.
//!
//! `tutti-server` looks a request up before it calls an application or an upstream, and hands their responses over. The caller passes the
//! times, which are those of a monotonic clock. Only [`disk`] does I/O.
//!
//! Must never: give one client a response made for another, use more than the configured memory, or let requests wait for ever for a fetch
//! that does not end.

#![forbid(unsafe_code)]

mod cache_status;
mod clock;
mod counts;
mod directives;
pub mod disk;
mod disk_hold;
mod eviction;
mod fetches;
mod freshness;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod lookup;
mod purge;
mod recording;
mod requested_part;
mod rest;
mod slice;
mod status;
mod store;
mod stored;
mod stores;
mod storing;
mod validators;
mod vary;

pub use cache_status::{ForwardReason, Hit, hit};
pub use clock::{ClockReading, now};
pub use counts::CacheCounts;
pub use directives::{Directives, asks_not_to_store};
pub use disk_hold::DiskHold;
pub use fetches::{Flight, Lead};
pub use freshness::{Freshness, Use};
pub use key::{Key, is_cookie_named, overrides_method};
pub use lookup::{CacheLookup, values};
pub use purge::Purge;
pub use recording::{Altered, Purpose, Recording, RecordingState, RequestTerms};
pub use requested_part::{RequestedPart, wanted};
pub use rest::{Rest, RestFailure};
pub use slice::{Slice, is_same_version, total};
pub use status::CacheStatus;
pub use store::{BodyReservation, DiskLimits, Found, LookupMode, ResponseStore, StoreLimits};
pub use stored::{Stored, freshened};
pub use stores::stores;
pub use storing::{Defaults, NotStored, StatusRange, TimedResponse, judge};
pub use vary::Vary;

/// Milliseconds: a duration, or a time on the clock that [`now`] reads.
pub type Millis = u64;
