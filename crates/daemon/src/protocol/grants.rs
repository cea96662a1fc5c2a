//! What a configuration lets a router have of main: nothing else is given to it, whatever it asks for.
//!
//! Computed by the controller from the checked configuration, kept by main for each router. What must never happen: that anything
//! a router says decides whose rights a process has, or which file or place is opened.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use tutti_options::isolation::Isolation;

use super::Place;

/// Everything that serving a configuration needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grants {
    /// Where to listen.
    pub(crate) places: Vec<PlaceGrant>,
    /// Logs to be opened.
    pub(crate) logs: Vec<PathBuf>,
    /// Folders for request bodies.
    pub(crate) spools: Vec<PathBuf>,
    /// What may be started.
    pub(crate) applications: Vec<ApplicationGrant>,
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlaceGrant {
    pub(crate) place: Place,
    /// Longest queue.
    pub(crate) backlog: i32,
}

/// An application's prototype.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApplicationGrant {
    pub(crate) name: String,
    /// Language, to be found among the modules.
    pub(crate) kind: String,
    /// Version of the module.
    pub(crate) version: String,
    /// User to become.
    pub(crate) user: Option<String>,
    /// Group to become.
    pub(crate) group: Option<String>,
    /// What to put around it.
    pub(crate) isolation: Option<Isolation>,
    /// The start document but for the numbers that only a router knows: `threads` and `workers` are 0.
    pub(crate) start: String,
}
