//! A worker in tokio's event loop: its requests, the news of its exchanges, and the runtime around them.

mod current;
mod orphans;
mod runtime;

pub use current::{is_leaving, listen, next_request, readable, unless_gone, wake_taker};
pub use orphans::reap_orphans;
pub use runtime::{Runtime, behind_the_others};
