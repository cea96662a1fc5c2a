//! The messages between main and the processes that it starts for itself: the controller, the routers, and those for automatic certificates
//! and for the source of the configuration.
//!
//! Each kind of process has a line of its own and message types of its own, so that main's code cannot take what a router says
//! for what the controller says: [`FromController`] may change what the server does, [`FromRouter`] may ask for what serving needs
//! within the [`Grants`] that the controller has computed.
//!
//! | Module | holds |
//! |---|---|
//! | `acme` | what main and the process for automatic certificates say to each other |
//! | `challenge` | answers to authorities that ask whether names are ours |
//! | `controller` | what main and the controller say to each other |
//! | `fleet` | what main and the process that follows a source say to each other |
//! | `router` | what main and a router say to each other |
//! | `shared` | what those two say to each other through main: automatic certificates that a fleet shares |
//! | `grants` | what a configuration lets a router have |
//! | `packet` | how a message travels |
//! | `access` | who may use the control API |
//! | `purge` | responses that are to go from caches |
//! | `user` | as whom such a process is to run |
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
pub use packet::{LONGEST, LONGEST_OF_ROUTER, Packet, read_large, receive};
pub use purge::PurgeScope;
pub use router::{FromRouter, QuicHello, RouterHello, RouterReply, StatusPlace, ToRouter};
use serde::{Deserialize, Serialize};
pub use shared::{SharedAnswer, SharedDocument, SharedNews, SharedRequest};
use tutti_sys::listen::SocketName;
use tutti_sys::process::Ended;
pub use user::{BECOME, read_user, written_user};

/// Descriptor of the message socket in the controller and in a router.
pub const LINE: i32 = 3;

/// Argument zero of the router; it also tells the program which role to take.
pub const ROUTER_TITLE: &str = "tutti: router";

/// The same of the controller.
pub const CONTROLLER_TITLE: &str = "tutti: controller";

/// The same of the process for automatic certificates.
pub const ACME_TITLE: &str = "tutti: acme";

/// The same of the process that follows a source.
pub const FLEET_TITLE: &str = "tutti: fleet";

/// The same of a process that checks a configuration in the trial of an upgrade, and ends.
pub const CHECK_TITLE: &str = "tutti: check";

/// The document that such a process looks at, as a memory file in the place of the line.
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
    /// Those of them that it cannot be started without: its loader and libraries.
    #[serde(default)]
    pub libraries: Vec<PathBuf>,
}

/// A place to listen at, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindAddress {
    /// Address and port.
    Inet(SocketAddr),
    /// A socket file.
    Path(PathBuf),
    /// A name in the kernel's own space.
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

    /// Saturates: a router in wrong hands may say any number.
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

/// How a process ended, as it travels.
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

/// A kind of thing that is stored beside the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// Certificate bundles.
    Certificates,
    /// Script modules.
    JsModules,
}

/// A configuration file as main has read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigFile {
    /// As the person would write it.
    pub name: String,
    /// Its content. Comments may have bytes that are not UTF-8.
    #[serde(with = "content")]
    pub bytes: Vec<u8>,
}

/// Who made a change, and which: for the history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `root (uid 0), curl/8.5.0`
    pub by: String,
    /// `PUT /config/routes`
    pub change: String,
}

/// A change of the configuration or of something that is stored beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Change {
    /// This text is to be the configuration.
    Configuration { text: String },
    /// Something is stored under this name, in the place of what had it.
    Keep {
        store: StoreKind,
        name: String,
        text: String,
    },
    /// The thing of this name is stored no longer.
    Discard { store: StoreKind, name: String },
}

/// Something to be done with the jobs of a spooler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum JobTask {
    /// Tell those that were given up.
    List,
    /// Try those again that were given up.
    Retry {
        /// The number of one; `None`: all.
        job: Option<String>,
    },
    /// Remove those that were given up.
    Remove {
        /// The number of one; `None`: all.
        job: Option<String>,
    },
    /// Remove everything that is left of a spooler which is in the configuration no more.
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
    /// Give these answers to those who ask whether names are ours, and no others.
    Challenges { challenges: Vec<Challenge> },
    /// Purge a store of responses; answered with a memory file that has the number of them.
    Purge {
        /// Its name; `None`: all stores.
        store: Option<String>,
        /// The responses that go.
        purge: PurgeScope,
    },
    /// The fleet is so, of which this server is a node.
    Fleet { standing: FleetStanding },
    /// Replace the processes of an application.
    Restart {
        /// Its name.
        application: String,
    },
}

/// A fault as it travels: text only, to be rebuilt by who tells it to a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeError {
    /// It was not the machine's: the configuration is at fault.
    pub is_invalid: bool,
    /// Its place in the configuration, a JSON pointer.
    pub pointer: String,
    /// In one sentence.
    pub message: String,
    /// The value found there.
    pub value: Option<String>,
    /// The values that could be there.
    pub expected: Option<String>,
    /// The cure.
    pub suggestion: Option<String>,
}
