//! A shared cache of responses (RFC 9111): how long a response is fresh, whether it may be stored, which stored response answers a request,
//! and the memory and the file ([`disk`]) that hold them.
//!
//! `tutti-server` looks a request up before it calls an application or an upstream, and hands their responses over. The caller passes the
//! times, which are those of a monotonic clock. Only [`disk`] does I/O.
//!
//! Must never: give one client a response made for another, use more than the configured memory, or let requests wait for ever for a fetch
//! that does not end.

#![forbid(unsafe_code)]

mod asked;
mod clock;
mod counts;
mod directives;
pub mod disk;
mod disk_hold;
mod eviction;
mod flight;
mod freshness;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod purge;
mod recording;
mod status;
mod store;
mod stored;
mod stores;
mod storing;
mod told;
mod validators;
mod vary;
mod wanted;

pub use asked::{Asked, values};
pub use clock::{Moment, now};
pub use counts::Counts;
pub use directives::{Directives, asks_not_to_store};
pub use disk_hold::DiskHold;
pub use flight::{Flight, Lead};
pub use freshness::{Freshness, Use};
pub use key::{Key, is_cookie_named, overrides_method};
pub use purge::Purge;
pub use recording::{Altered, Purpose, Recording, State, Terms};
pub use status::CacheStatus;
pub use store::{DiskLimits, Found, Limits, Manner, Room, Store};
pub use stored::{Stored, freshened};
pub use stores::stores;
pub use storing::{Answer, Defaults, NotStored, StatusRange, judge};
pub use told::{Forward, Hit, hit};
pub use vary::Vary;
pub use wanted::{Wanted, wanted};

/// Milliseconds: a duration, or a time on the clock that [`now`] reads.
pub type Millis = u64;
