//! The configuration as requests see it: compiled, and made ready as a whole from the one before it and from what it needs outside.
//!
//! `server` calls [`Snapshot::prepare`] for a change and swaps the outcome in; its listen threads read the [`Snapshot`] that is in force. Nothing
//! here is changed once it is made, and nothing here serves a request. [`Surroundings`] gives what a configuration needs from outside: sockets, logs,
//! spools, applications.
//!
//! Must never: touch the configuration in force, whatever fails; leave behind what was opened for one that failed; or open again what has not changed.

#![forbid(unsafe_code)]

mod entrance;
mod faults;
mod snapshot;
mod spoken;
mod surroundings;

pub use entrance::ListenerEntry;
pub use snapshot::{Prepared, Snapshot, SpoolsNeeded, Timeouts};
pub use surroundings::Surroundings;
