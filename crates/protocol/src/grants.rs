//! The grants: what a configuration lets a router have of main. Nothing else is given to it, whatever it asks for.
//!
//! Computed by the controller from the checked configuration, kept by main for each router. What must never happen: that anything
//! a router says decides whose rights a process has, or which file or place is opened.

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
    /// Where to take datagrams, of QUIC.
    #[serde(default)]
    pub datagrams: Vec<SocketAddr>,
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

/// The file of a store of responses.
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
    /// The start document but for `threads` and `workers`, which only a router knows.
    pub start: String,
}

/// A command of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandGrant {
    /// The application's grant, which says as whom and where it runs.
    pub application: ApplicationGrant,
    /// Its place in the configuration: of processes of one place and number there is never more than one at a time.
    pub place: String,
    /// How many processes may run it at once.
    pub processes: u32,
    /// The start document of its runner.
    pub start: String,
    /// Milliseconds that it may take to end: main kills what is left after that.
    pub stop_timeout: u64,
}
