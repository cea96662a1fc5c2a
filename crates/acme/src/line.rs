//! The connection to main.

use tutti_protocol::{FromAcme, ToAcme};

/// Sends requests to main, and receives its messages.
pub(crate) type Link = tutti_unprivileged::link::Link<FromAcme, ToAcme>;
