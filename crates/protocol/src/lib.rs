//! The messages between main and the processes that it starts for itself: the controller, the routers, and those for automatic certificates
//! and for the source of the configuration.
//!
//! Each kind of process has its own socket and its own message types, so that main's code cannot confuse a router's message with the
//! controller's: [`FromController`] may change what the server does, [`FromRouter`] may request what serving needs within the [`Grants`]
//! that the controller has computed.
//!
//! | Module | holds |
//! |---|---|
//! | `acme` | messages between main and the process for automatic certificates |
//! | `challenge` | answers to authorities that check the control of names |
//! | `controller` | messages between main and the controller |
//! | `fleet` | messages between main and the process that follows a source |
//! | `router` | messages between main and a router |
//! | `shared` | messages between those two through main: automatic certificates that a fleet shares |
//! | `grants` | what a configuration permits a router to get |
//! | `packet` | the encoding of a message |
//! | `access` | the access rules of the control API |
//! | `purge` | responses to remove from caches |
//! | `user` | the user of such a process |
//!
//! `id` is the number of a request, which its answer repeats, and `number` that of a probe.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the names of most members say what they are")]

mod access;
mod acme;
mod challenge;
mod content;
mod controller;
mod fleet;
mod grants;
mod packet;
mod purge;
mod router;
mod shared;
mod user;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use access::{ControlAccess, Token};
pub use acme::{
    ACCOUNT_DOCUMENT, AccountPlan, AcmeHello, AcmePlan, CERTIFICATE_DOCUMENT, CertificateNews,
    CertificatePlan, ChallengeKind, ForController, FromAcme, NameserverPlan, OnDemandPlan, ToAcme,
};
pub use challenge::Challenge;
pub use controller::{ControllerHello, FromController, GivenSource, Reason, ToController};
pub use fleet::{
    EtcdPlan, FLEET, FleetAnswer, FleetCertificates, FleetHello, FleetRequest, FleetStanding,
    FleetText, FromFleet, RefusedCertificate, RefusedDocument, SourceNews, SourcePlan,
    SourceSecrets, ToFleet,
};
pub use grants::{ApplicationGrant, CacheGrant, CommandGrant, Grants, PlaceGrant};
pub use packet::{LONGEST, LONGEST_OF_ROUTER, Packet, Received, read_large, receive};
pub use purge::PurgeScope;
pub use router::{
    FromRouter, PassedJob, PassedJobAnswer, QuicHello, RouterHello, RouterReply, StatusPlace,
    ToRouter,
};
use serde::{Deserialize, Serialize};
pub use shared::{SharedAnswer, SharedDocument, SharedNews, SharedRequest};
use tutti_sys::listen::SocketName;
use tutti_sys::process::Ended;
pub use user::{BECOME, read_user, written_user};

/// Descriptor of the message socket in the controller and in a router.
pub const LINE: i32 = 3;

/// Argument zero of the router; it also selects the role of the program.
pub const ROUTER_TITLE: &str = "tutti: router";

/// Argument zero of the controller.
pub const CONTROLLER_TITLE: &str = "tutti: controller";

/// Argument zero of the process for automatic certificates.
pub const ACME_TITLE: &str = "tutti: acme";

/// Argument zero of the process that follows a source.
pub const FLEET_TITLE: &str = "tutti: fleet";

/// Argument zero of a process that checks a configuration for the trial of an upgrade, and ends.
pub const CHECK_TITLE: &str = "tutti: check";

/// The document that such a process checks, as a memory file in place of the socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckDocument {
    pub modules: Vec<LanguageModule>,
    pub configuration: String,
}

/// A language host found in the modules directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanguageModule {
    /// `php`, `python`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Full version of the language.
    pub version: String,
    #[serde(default)]
    pub path: PathBuf,
    /// Files and folders that it needs in another root.
    #[serde(default)]
    pub dependencies: Vec<PathBuf>,
    /// Those of them without which it cannot be started: its loader and libraries.
    #[serde(default)]
    pub libraries: Vec<PathBuf>,
}

/// An address to listen at, in a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindAddress {
    /// Address and port.
    Inet(SocketAddr),
    /// A socket file.
    Path(PathBuf),
    /// An abstract name.
    Abstract(String),
}

impl From<&SocketName> for BindAddress {
    fn from(endpoint: &SocketName) -> BindAddress {
        match endpoint {
            SocketName::Inet(address) => BindAddress::Inet(*address),
            SocketName::Path(path) => BindAddress::Path(path.clone()),
            SocketName::Abstract(name) => {
                BindAddress::Abstract(String::from_utf8_lossy(name).into_owned())
            }
        }
    }
}

/// The counts of a router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouterCounts {
    pub accepted: u64,
    /// Connections with a request.
    pub active: u64,
    /// Connections without one.
    pub idle: u64,
    pub closed: u64,
    pub requests: u64,
}

impl std::ops::Add for RouterCounts {
    type Output = RouterCounts;

    /// Saturates: a compromised router may send any number.
    fn add(self, other: RouterCounts) -> RouterCounts {
        RouterCounts {
            accepted: self.accepted.saturating_add(other.accepted),
            active: self.active.saturating_add(other.active),
            idle: self.idle.saturating_add(other.idle),
            closed: self.closed.saturating_add(other.closed),
            requests: self.requests.saturating_add(other.requests),
        }
    }
}

impl From<BindAddress> for SocketName {
    fn from(place: BindAddress) -> SocketName {
        match place {
            BindAddress::Inet(address) => SocketName::Inet(address),
            BindAddress::Path(path) => SocketName::Path(path),
            BindAddress::Abstract(name) => SocketName::Abstract(name.into_bytes()),
        }
    }
}

/// The exit status of a process, in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReport {
    Code(i32),
    Signal(i32),
}

impl From<Ended> for ExitReport {
    fn from(ended: Ended) -> ExitReport {
        match ended {
            Ended::Code(code) => ExitReport::Code(code),
            Ended::Signal(signal, _) => ExitReport::Signal(signal),
        }
    }
}

/// A kind of object that is stored in addition to the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// Certificate bundles.
    Certificates,
    /// Script modules.
    JsModules,
}

/// A configuration file, as main has read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigFile {
    /// The path as the user wrote it.
    pub name: String,
    /// Its content. Comments may have bytes that are not UTF-8.
    #[serde(with = "content")]
    pub bytes: Vec<u8>,
}

/// The origin and the kind of a change, for the history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `root (uid 0), curl/8.5.0`
    pub by: String,
    /// `PUT /config/routes`
    pub change: String,
}

/// A change of the configuration, or of an object stored in addition to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Change {
    /// Replace the configuration by this text.
    Configuration { text: String },
    /// Store an object under this name, replacing one that has it.
    Keep {
        store: StoreKind,
        name: String,
        text: String,
    },
    /// Delete the object with this name.
    Discard { store: StoreKind, name: String },
}

/// An operation on the jobs of a spooler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum JobTask {
    /// List failed jobs.
    List,
    /// Retry failed jobs.
    Retry {
        /// The number of one; `None`: all.
        job: Option<String>,
    },
    /// Remove failed jobs.
    Remove {
        /// The number of one; `None`: all.
        job: Option<String>,
    },
    /// Remove everything of a spooler that is not in the configuration any more.
    Discard,
}

/// A question of the controller to the router, or an order that changes no configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum RouterQuery {
    /// The content of `/status`; answered with a memory file of JSON.
    Status,
    /// The metrics; answered with a memory file.
    Metrics {
        /// The media type of their format.
        media_type: String,
    },
    /// Do something with the jobs of a spooler; answered with a memory file of JSON.
    Jobs {
        /// Its name.
        spooler: String,
        task: JobTask,
    },
    /// Give exactly these answers to authorities that check names.
    Challenges { challenges: Vec<Challenge> },
    /// Purge a cache; answered with a memory file that contains the number of responses.
    Purge {
        /// Its name; `None`: all caches.
        store: Option<String>,
        /// The responses to remove.
        purge: PurgeScope,
    },
    /// The state of the fleet of which this server is a node.
    Fleet { standing: FleetStanding },
    /// Replace the processes of an application.
    Restart {
        /// Its name.
        application: String,
    },
}

/// A fault in a message: text only, from which its recipient makes an answer for a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeError {
    /// The configuration is at fault, not the machine.
    pub is_invalid: bool,
    /// Its place in the configuration, a JSON pointer.
    pub pointer: String,
    /// In one sentence.
    pub message: String,
    /// The value found there.
    pub value: Option<String>,
    /// The values that could be there.
    pub expected: Option<String>,
    /// The suggestion.
    pub suggestion: Option<String>,
}
