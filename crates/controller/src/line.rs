//! The controller's line to main.

use tutti_protocol::{FromController, ToController};

/// Asks main, and hears its news.
pub(crate) type Link = tutti_role::link::Link<FromController, ToController>;
