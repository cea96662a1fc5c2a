//! The grants: what a configuration permits a router to get from main. Main refuses everything else.
//!
//! Computed by the controller from the checked configuration, stored by main for each router. What must never happen: that a router decides
//! the rights of a process, or which file or address is opened.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::isolation::Isolation;

use super::BindAddress;

/// Everything that serving a configuration needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Where to listen.
    pub places: Vec<PlaceGrant>,
    /// UDP addresses.
    #[serde(default)]
    pub datagrams: Vec<SocketAddr>,
    /// Those of them that are for streams, not for QUIC.
    #[serde(default)]
    pub stream_datagrams: Vec<SocketAddr>,
    pub logs: Vec<PathBuf>,
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Folders for request bodies.
    pub spools: Vec<PathBuf>,
    #[serde(default)]
    pub jobs: bool,
    #[serde(default)]
    pub caches: Vec<CacheGrant>,
    #[serde(default)]
    pub nodes: bool,
    /// Applications that may be started.
    pub applications: Vec<ApplicationGrant>,
    /// Commands that may be run.
    #[serde(default)]
    pub commands: Vec<CommandGrant>,
}

/// The file of a cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CacheGrant {
    pub name: String,
    /// The folder; `None`: in the state folder.
    pub folder: Option<PathBuf>,
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceGrant {
    /// Address, file or name.
    pub place: BindAddress,
    pub backlog: i32,
}

/// An application's prototype.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationGrant {
    /// Its name in the configuration.
    pub name: String,
    /// Language, to be found among the modules.
    pub kind: String,
    pub version: String,
    pub user: Option<String>,
    pub group: Option<String>,
    /// Its isolation from the system.
    pub isolation: Option<Isolation>,
    /// The start document without `threads` and `workers`, which only a router knows.
    pub start: String,
}

/// A command of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandGrant {
    /// The application's grant, with the user and the isolation.
    pub application: ApplicationGrant,
    /// Its place in the configuration: there is never more than one process with the same place and number.
    pub place: String,
    /// The number of processes that may run it at once.
    pub processes: u32,
    /// The start document of its runner.
    pub start: String,
    /// Milliseconds that it may take to end: main kills the rest after that.
    pub stop_timeout: u64,
}
