//! Guards of actions: limits on requests, CORS, and authentication.
//!
//! Makes the decisions and stores their state; opens no file, and knows no connection except the one for a question. [`valkey`] counts what
//! several servers share. `server` calls it on its listen threads, which share one instance.
//!
//! Must never: use more memory than its limits permit, however many clients or keys there are; block a listen thread; or admit a client
//! because a decision could not be made.

#![forbid(unsafe_code)]

mod admission;
pub mod auth_request;
mod concurrency;
pub mod cors;
mod des_crypt;
mod fleet_share;
mod guards;
mod identity;
mod key_set;
mod legacy_hashes;
mod limit;
mod password_desk;
pub mod passwords;
mod rate;
mod shared_limit;
pub mod signed_link;
pub mod token;
pub mod valkey;

pub use admission::{Admission, CountedAt};
pub use concurrency::{Concurrency, Permit};
pub use fleet_share::FleetShare;
pub use guards::{ActionGuard, AuthKind, GuardTable};
pub use identity::{Identity, IdentityState};
pub use key_set::{KeyFetch, KeySet};
pub use limit::{Bound, RequestLimit, seconds};
pub use password_desk::{Busy, PasswordDesk};
pub use rate::{Quota, RateLimiter};
pub use shared_limit::SharedLimit;
pub use valkey::Taken;
