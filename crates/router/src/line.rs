//! The router's socket to main.

use tutti_protocol::{FromRouter, ToRouter};

/// Sends requests to main, and receives its messages.
pub(crate) type Link = tutti_unprivileged::link::Link<FromRouter, ToRouter>;
