//! The messages between main and the process for automatic certificates, and what it and the controller say to each other through main.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;

/// The documents of an account and of a certificate are named so, with the name of the account or the bundle behind it.
pub const ACCOUNT_DOCUMENT: &str = "account-";
/// See [`ACCOUNT_DOCUMENT`].
pub const CERTIFICATE_DOCUMENT: &str = "certificate-";

/// The first message that such a process gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AcmeHello {
    /// How the log is written.
    pub log: LogStyle,
    /// Everything that it has had kept, by name.
    pub documents: BTreeMap<String, String>,
    /// The certificates to get.
    pub plan: AcmePlan,
}

/// The certificates to get, and from whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmePlan {
    /// By name.
    pub accounts: BTreeMap<String, AccountPlan>,
    /// By the name of the bundle.
    pub certificates: BTreeMap<String, CertificatePlan>,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountPlan {
    /// URL of the directory.
    pub directory: String,
    /// Mail addresses.
    pub contact: Vec<String>,
    /// Name and key of the binding to an account elsewhere.
    pub eab: Option<(String, Vec<u8>)>,
    /// Profile of certificates.
    pub profile: Option<String>,
    /// How names are shown to be ours.
    pub challenge: ChallengeKind,
    /// Program for records in the DNS.
    pub hook: Option<PathBuf>,
    /// Who vouches for the directory; `None`: the authorities of the system.
    pub roots: Option<PathBuf>,
}

/// How names are shown to be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeKind {
    /// By an answer to a request.
    Http,
    /// By a certificate in a handshake.
    TlsAlpn,
    /// By a record in the DNS.
    Dns,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificatePlan {
    /// Name of the account.
    pub account: String,
    /// The names it is for.
    pub names: Vec<String>,
    /// It is stored.
    pub is_stored: bool,
}

/// An answer that the server gives to whoever asks whether a name is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Challenge {
    /// To a request for `/.well-known/acme-challenge/TOKEN` (RFC 8555 §8.3).
    Http {
        /// The last part of the path.
        token: String,
        /// The content.
        answer: String,
    },
    /// To a handshake for `acme-tls/1` (RFC 8737).
    TlsAlpn {
        /// The name that is asked for.
        name: String,
        /// Certificate and key.
        pem: String,
    },
}

/// A message of this process to the controller, which main passes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ForController {
    /// A certificate has come: store it and put it in force.
    Certificate {
        /// Name of its bundle.
        bundle: String,
        /// Chain and key.
        pem: String,
    },
    /// Have the router give these answers, and no others.
    Challenges {
        /// All of them.
        challenges: Vec<Challenge>,
    },
    /// The news, for `/status`.
    Status {
        /// By the name of the bundle.
        certificates: BTreeMap<String, CertificateNews>,
    },
}

/// The state of an automatic certificate. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateNews {
    /// An order is under way.
    pub is_ordering: bool,
    /// When the next order is due.
    pub next_order: Option<i64>,
    /// Orders that have failed since the last that did not.
    pub failures: u32,
    /// Why the last one failed, and when.
    pub last_error: Option<(String, i64)>,
}

/// From main to this process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToAcme {
    /// Comes first. Descriptor: the log.
    Hello(Box<AcmeHello>),
    /// Other certificates are to be got.
    Plan {
        /// All of them.
        plan: Box<AcmePlan>,
    },
    /// A request succeeded.
    Done {
        /// Number of the request.
        id: u64,
    },
    /// A request failed.
    Failed {
        /// Number of the request.
        id: u64,
        /// In one sentence.
        message: String,
    },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
}

/// From this process to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromAcme {
    /// Keep a document for the next process of this kind: it is on disk when this is answered.
    Keep {
        /// Number of the request.
        id: u64,
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
    /// Keep a document no longer.
    Discard {
        /// Number of the request.
        id: u64,
        /// Its name.
        name: String,
    },
    /// Run the hook of an account.
    RunHook {
        /// Number of the request.
        id: u64,
        /// The account.
        account: String,
        /// Put the record there, or remove it.
        is_present: bool,
        /// Name of the record.
        name: String,
        /// Its value.
        value: String,
    },
    /// Pass this on to the controller; answered when that has done it.
    Tell {
        /// Number of the request.
        id: u64,
        /// The message.
        message: ForController,
    },
}
