//! How a program is told where to listen, and how long it may take.

use std::time::Duration;

pub use tutti_options::external::Listen;

use crate::preload::Preload;

/// Where the program listens, and until when.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// How it is told; with `preload` it is not, and listens at a UNIX socket.
    pub listen: Listen,
    /// A path that is asked for until it is answered with less than 500.
    pub probe: Option<String>,
    /// How long a program may take to listen.
    pub start_limit: Duration,
    /// The module that the program's runtime loads first.
    pub preload: Option<Preload>,
}
