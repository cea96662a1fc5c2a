//! The messages between main and the process that follows a source, and what it and the controller say to each other through main.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;
use tutti_options::source::{EtcdMember, LiveNode, LiveNodes};

use crate::challenge::Challenge;
use crate::shared::{SharedAnswer, SharedNews, SharedRequest};

use super::purge::PurgeScope;

/// `by` of a change that comes from a source: no client of the control API is called so.
pub const FLEET: &str = "fleet";

/// The source of the configuration, and this node in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePlan {
    /// The name of this node; `None`: the machine's.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Its address for other nodes; `None`: the one from which it reaches the store.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// File with the keys that certificates of the fleet are sealed with.
    pub secret_file: Option<PathBuf>,
    pub etcd: EtcdPlan,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdPlan {
    pub members: Vec<EtcdMember>,
    /// The beginning of all keys.
    pub prefix: String,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// File with who vouches for members.
    pub ca: Option<PathBuf>,
    /// Files with the certificate that is shown to them, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that their certificates are for.
    pub server_name: Option<String>,
}

/// The files of a source, which main reads: they may be root's alone.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSecrets {
    pub password: Option<String>,
    /// Who vouches for members, as PEM.
    pub ca: Option<String>,
    /// The certificate that is shown to them, and its key, as PEM.
    pub identity: Option<(String, String)>,
    /// The text of the secret file, or why it cannot be read: the configuration comes without it.
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
    /// How the log is written.
    pub log: LogStyle,
    pub plan: SourcePlan,
    /// The content of its files, or why they cannot be read.
    pub secrets: Result<SourceSecrets, String>,
    /// The text that the process before this one has had kept last.
    pub kept: Option<String>,
    /// The same of certificates.
    pub kept_certificates: Option<String>,
    /// The purge of caches that it has made last, likewise.
    pub purged: Option<String>,
    /// The number of nodes that it has seen last, likewise.
    pub nodes: Option<u32>,
}

/// The fleet that a router is a node of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStanding {
    /// Nodes that share what is the whole fleet's; 1: there is no other.
    pub nodes: u32,
    /// All purges of caches that the store has are made.
    pub is_purged: bool,
}

/// Texts that main keeps for the next process of this kind, beside the document in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetText {
    /// The purge of caches that was made last.
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

/// A request of this process to the controller, which main passes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FleetRequest {
    /// Put this document in force.
    Apply {
        generation: u64,
        /// The head that it comes from: `all`, or a label.
        selector: String,
        text: String,
    },
    /// Store this certificate and put it in force where the configuration names it.
    Certificate {
        name: String,
        /// Chain and key.
        pem: String,
    },
    /// Delete this certificate, unless the configuration names it.
    Discard { name: String },
    /// Have the router give these answers to authorities, and no others.
    Challenges { challenges: Vec<Challenge> },
    /// Tell how the server is.
    Look,
    /// The news, for `/status`.
    News { news: Box<SourceNews> },
    /// Purge caches.
    Purge {
        /// The cache, by its name; `None`: all.
        cache: Option<String>,
        /// The responses that go.
        purge: PurgeScope,
    },
    /// The fleet is so.
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
    },
    /// It has a fault, and nothing has changed.
    Refused {
        /// The place of the first fault, a JSON pointer.
        pointer: String,
        /// All faults, in one sentence.
        reason: String,
    },
    /// How the server is.
    Seen {
        /// A digest of the configuration in force, without what is the node's own.
        form: String,
        /// Requests since a router began.
        requests: u64,
        /// Those of them with a 5xx.
        errors: u64,
        /// Starts of applications that have failed.
        start_failures: u64,
    },
    Noted,
    /// These responses are gone.
    Purged,
    /// It cannot be done now, and is worth another try.
    Unavailable {
        reason: String,
    },
}

/// The news of a source. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceNews {
    /// The name of this node.
    pub name: String,
    /// Its address for other nodes, as it is in the store.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Where it is connected to.
    pub endpoint: Option<String>,
    /// Why it is not.
    pub error: Option<String>,
    /// The generation that this node is to run.
    pub wanted: Option<u64>,
    /// Since when it is to.
    pub wanted_since: Option<u64>,
    /// The generation that it has put in force last.
    pub generation: Option<u64>,
    pub since: Option<u64>,
    /// The head that it is of: `all`, or a label.
    pub selector: Option<String>,
    /// Somebody has changed the configuration since.
    pub differs: bool,
    /// Nodes that are there, with this one, once they have been counted.
    pub nodes: Option<u32>,
    /// The number of the purge of caches that was made last; 0: none.
    #[serde(default)]
    pub purge: u64,
    pub refused: Option<RefusedDocument>,
    pub certificates: FleetCertificates,
}

/// Certificates of the fleet, as this node has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetCertificates {
    /// The id of the key that this node seals with.
    pub key: Option<String>,
    /// Why it takes part in none.
    pub error: Option<String>,
    /// The names of those that it has taken up.
    pub taken: Vec<String>,
    /// Those that it could not take up: what it had under the name before stays in force.
    pub refused: BTreeMap<String, RefusedCertificate>,
}

/// A certificate that this node could not take up.
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
    /// Tell of the nodes of the fleet from now on: [`FromFleet::Nodes`].
    FollowNodes {
        /// Those that were told before: they have time to be in the store again.
        known: Vec<LiveNode>,
    },
    /// The server stops: take its address out of the store; answered with [`FromFleet::Left`].
    Leave,
    /// The process for automatic certificates wants this; answered with [`FromFleet::Shared`].
    Shared { id: u64, request: SharedRequest },
    /// There is a process for automatic certificates from now on, which knows nothing yet; or there is none any more.
    Sharing { is_there: bool },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Give a sign of life: [`FromFleet::Alive`].
    Probe { number: u64 },
}

/// From this process to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromFleet {
    /// A sign of life.
    Alive { number: u64 },
    /// Pass this on to the controller.
    Tell { id: u64, request: FleetRequest },
    /// The nodes of the fleet, or why they cannot be followed.
    Nodes {
        /// Without nodes, what was told before still holds.
        known: LiveNodes,
    },
    /// Other nodes do not send requests here any more, as far as they can be told.
    Left,
    /// The answer for the process for automatic certificates.
    Shared { id: u64, answer: SharedAnswer },
    /// News for that process.
    SharedNews { news: SharedNews },
    /// Keep this about certificates for the next process of this kind.
    KeepCertificates { text: String },
    /// Keep this for the next process of this kind.
    Keep { text: String },
    KeepBeside {
        /// Which text it is.
        name: FleetText,
        text: String,
    },
}
