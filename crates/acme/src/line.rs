//! The line to main.

use tutti_protocol::{FromAcme, ToAcme};

/// Asks main, and hears its news.
pub(crate) type Link = tutti_unprivileged::link::Link<FromAcme, ToAcme>;
