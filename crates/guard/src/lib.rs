//! What stands before an action: bounds on requests, pages of other origins, and who may.
//!
//! Owns the decisions and what they are remembered by, and nothing else: it opens no file, and knows no connection. `server` asks it on its
//! listen threads, which all share one of everything here.
//!
//! Must never: take more memory than its bounds say, however many clients or keys there are; wait; or let somebody in because something
//! could not be decided.

#![forbid(unsafe_code)]

mod concurrency;
pub mod cors;
pub mod passwords;
mod rate;
pub mod token;

pub use concurrency::{Concurrency, Permit};
pub use rate::{RateLimiter, Taken};
