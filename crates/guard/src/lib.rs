//! Stands before actions: bounds on requests, pages of other origins, and who may.
//!
//! Owns the decisions and what they are remembered by, and nothing else: it opens no file, and knows no connection but the one that a question goes over. What several servers count
//! together is [`valkey`]'s. `server` asks it on its
//! listen threads, which all share one of everything here.
//!
//! Must never: take more memory than its bounds say, however many clients or keys there are; hold up a listen thread; or let somebody in because
//! something could not be decided.

#![forbid(unsafe_code)]

mod admission;
pub mod auth_request;
mod concurrency;
pub mod cors;
mod fleet_share;
mod guards;
mod identity;
mod key_set;
mod limit;
mod password_desk;
pub mod passwords;
mod rate;
mod shared_limit;
pub mod token;
pub mod valkey;

pub use admission::Admission;
pub use concurrency::{Concurrency, Permit};
pub use fleet_share::FleetShare;
pub use guards::{ActionGuard, AuthKind, GuardTable};
pub use identity::{Identity, IdentityState};
pub use key_set::KeySet;
pub use limit::{Bound, RequestLimit, seconds};
pub use password_desk::{Busy, PasswordDesk};
pub use rate::{Quota, RateLimiter};
pub use shared_limit::SharedLimit;
pub use valkey::Taken;
