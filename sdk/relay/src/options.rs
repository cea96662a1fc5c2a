//! The ways in which a program learns where to listen, and the time that it may take.

use std::time::Duration;

pub use tutti_options::external::Listen;

use crate::preload::Preload;

/// Where the program listens, and until when.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// The way in which it learns the address; with `preload` it does not, and listens at a UNIX socket.
    pub listen: Listen,
    /// A path that is asked for until it is answered with less than 500.
    pub probe: Option<String>,
    /// The longest time that a program may take to listen.
    pub start_limit: Duration,
    /// The module that the program's runtime loads first.
    pub preload: Option<Preload>,
}
