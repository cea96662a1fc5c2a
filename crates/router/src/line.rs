//! The router's line to main.

use tutti_protocol::{FromRouter, ToRouter};

/// Asks main, and hears its news.
pub(crate) type Link = tutti_unprivileged::link::Link<FromRouter, ToRouter>;
