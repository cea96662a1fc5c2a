//! The messages between main and the process that follows a source, and those that it and the controller exchange through main.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;
use tutti_options::source::{EtcdMember, LiveNode, LiveNodes};

use super::purge::PurgeScope;
use crate::challenge::Challenge;
use crate::shared::{SharedAnswer, SharedNews, SharedRequest};

/// `by` of a change that comes from a source: no client of the control API has this name.
pub const FLEET: &str = "fleet";

/// The source of the configuration, and this node in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePlan {
    /// The name of this node; `None`: the machine's.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Its address for other nodes; `None`: the one from which it connects to the store.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// File with the keys that seal certificates of the fleet.
    pub secret_file: Option<PathBuf>,
    pub etcd: EtcdPlan,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdPlan {
    pub members: Vec<EtcdMember>,
    /// The prefix of all keys.
    pub prefix: String,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// File with the authorities trusted for members.
    pub ca: Option<PathBuf>,
    /// Files with the client certificate for members, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name in their certificates.
    pub server_name: Option<String>,
}

/// The files of a source, which main reads because they may be readable for root only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSecrets {
    pub password: Option<String>,
    /// The authorities trusted for members, as PEM.
    pub ca: Option<String>,
    /// The client certificate for members, and its key, as PEM.
    pub identity: Option<(String, String)>,
    /// The text of the secret file, or why it cannot be read: the configuration works without it.
    pub secret: Option<Result<String, String>>,
}

impl std::fmt::Debug for SourceSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SourceSecrets")
    }
}

/// The first message that such a process gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetHello {
    /// The style of the log.
    pub log: LogStyle,
    pub plan: SourcePlan,
    /// The content of its files, or why they cannot be read.
    pub secrets: Result<SourceSecrets, String>,
    /// The document that the previous process stored last.
    pub kept: Option<String>,
    /// The same for certificates.
    pub kept_certificates: Option<String>,
    /// The last purge of caches, likewise.
    pub purged: Option<String>,
    /// The last known number of nodes, likewise.
    pub nodes: Option<u32>,
}

/// The fleet that a router is a node of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStanding {
    /// Nodes that share the limits of the fleet; 1: there is no other.
    pub nodes: u32,
    /// All purges of caches in the store have been made.
    pub is_purged: bool,
}

/// Texts that main stores for the next process of this kind, in addition to the document in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetText {
    /// The last purge of caches.
    Purged,
    Nodes,
}

impl FleetText {
    /// Its name in the state folder.
    pub fn name(self) -> &'static str {
        match self {
            FleetText::Purged => "purged",
            FleetText::Nodes => "count",
        }
    }
}

/// A request of this process to the controller, forwarded by main.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FleetRequest {
    /// Put this document in force.
    Apply {
        generation: u64,
        /// The head it comes from: `all`, or a label.
        selector: String,
        text: String,
    },
    /// Store this certificate, and put it in force if the configuration names it.
    Certificate {
        name: String,
        /// Chain and key.
        pem: String,
    },
    /// Delete this certificate, unless the configuration names it.
    Discard { name: String },
    /// Make the router give exactly these answers to authorities.
    Challenges { challenges: Vec<Challenge> },
    /// Report the state of the server.
    Look,
    /// The state for `/status`.
    News { news: Box<SourceNews> },
    /// Purge caches.
    Purge {
        /// The cache, by its name; `None`: all.
        cache: Option<String>,
        /// The responses to remove.
        purge: PurgeScope,
    },
    /// The state of the fleet.
    Standing { standing: FleetStanding },
}

/// The controller's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FleetAnswer {
    /// The document is in force.
    Applied {
        /// A digest of it on this node: see [`FleetAnswer::Seen`].
        form: String,
        /// Routers that had ended before the document was applied; main fills it in.
        #[serde(default)]
        router_ends: u64,
    },
    /// It has a fault, and nothing has changed.
    Refused {
        /// The place of the first fault, a JSON pointer.
        pointer: String,
        /// All faults, in one sentence.
        reason: String,
    },
    /// The state of the server.
    Seen {
        /// A digest of the configuration in force, without the parts that are specific to this node.
        form: String,
        /// Requests since the router began.
        requests: u64,
        /// Requests with a 5xx status.
        errors: u64,
        /// Failed starts of applications.
        start_failures: u64,
        /// Routers that have ended since main began; main fills it in.
        #[serde(default)]
        router_ends: u64,
    },
    Noted,
    /// The responses have been removed.
    Purged,
    /// It cannot be done now, and should be tried again.
    Unavailable {
        reason: String,
    },
}

/// The state of a source. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceNews {
    /// The name of this node.
    pub name: String,
    /// Its address for other nodes, as it is in the store.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// The endpoint that it is connected to.
    pub endpoint: Option<String>,
    /// Why it is not connected.
    pub error: Option<String>,
    /// The generation that this node should run.
    pub wanted: Option<u64>,
    /// Since when it should.
    pub wanted_since: Option<u64>,
    /// The generation that it put in force last.
    pub generation: Option<u64>,
    pub since: Option<u64>,
    /// The head that it follows: `all`, or a label.
    pub selector: Option<String>,
    /// The configuration was changed locally since.
    pub differs: bool,
    /// Live nodes, including this one, once they have been counted.
    pub nodes: Option<u32>,
    /// The number of the last purge of caches; 0: none.
    #[serde(default)]
    pub purge: u64,
    pub refused: Option<RefusedDocument>,
    pub certificates: FleetCertificates,
}

/// Certificates of the fleet on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetCertificates {
    /// The id of the key that this node seals with.
    pub key: Option<String>,
    /// Why it takes part in none.
    pub error: Option<String>,
    /// The names of the certificates in use.
    pub taken: Vec<String>,
    /// Certificates that could not be used: the former one of that name stays in force.
    pub refused: BTreeMap<String, RefusedCertificate>,
}

/// A certificate that this node could not use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCertificate {
    pub reason: String,
    pub at: u64,
}

/// A document that this node could not put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDocument {
    pub generation: u64,
    /// The place of its fault.
    pub pointer: String,
    pub reason: String,
    pub at: u64,
}

/// From main to this process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToFleet {
    /// Comes first. Descriptor: the log.
    Hello(Box<FleetHello>),
    /// The controller's answer to a request.
    Answer { id: u64, answer: FleetAnswer },
    /// Report the nodes of the fleet from now on, by [`FromFleet::Nodes`].
    FollowNodes {
        /// Nodes that were reported before: they have time to appear in the store again.
        known: Vec<LiveNode>,
    },
    /// The server stops: remove its address from the store; answered by [`FromFleet::Left`].
    Leave,
    /// A request of the process for automatic certificates; answered by [`FromFleet::Shared`].
    Shared { id: u64, request: SharedRequest },
    /// A process for automatic certificates has started, which knows nothing yet; or there is none any more.
    Sharing { is_there: bool },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Answer with [`FromFleet::Alive`].
    Probe { number: u64 },
}

/// From this process to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromFleet {
    /// The answer to a probe.
    Alive { number: u64 },
    /// Forward this to the controller.
    Tell { id: u64, request: FleetRequest },
    /// The nodes of the fleet, or why they cannot be followed.
    Nodes {
        /// Without nodes, the former report still holds.
        known: LiveNodes,
    },
    /// Other nodes do not send requests here any more, as far as they could be reached.
    Left,
    /// The answer for the process for automatic certificates.
    Shared { id: u64, answer: SharedAnswer },
    /// An update for that process.
    SharedNews { news: SharedNews },
    /// Store this state of certificates for the next process of this kind.
    KeepCertificates { text: String },
    /// Store this for the next process of this kind.
    Keep { text: String },
    KeepBeside {
        /// Which text it is.
        name: FleetText,
        text: String,
    },
}
