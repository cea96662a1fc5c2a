//! The messages between main and the process for automatic certificates, and what it and the controller say to each other through main.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;

use crate::challenge::Challenge;
use crate::shared::{SharedAnswer, SharedNews, SharedRequest};

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
    /// A fleet shares them: its documents are those that count, and news of them follow.
    pub is_shared: bool,
}

/// The certificates to get, and from whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmePlan {
    /// By name.
    pub accounts: BTreeMap<String, AccountPlan>,
    /// By the name of the bundle.
    pub certificates: BTreeMap<String, CertificatePlan>,
}

impl AcmePlan {
    /// True for the bundle of a certificate that it names, or that may be got on demand.
    pub fn allows(&self, bundle: &str) -> bool {
        let is_on_demand = || {
            let (account, _) = tutti_options::acme_names::parts(bundle)?;
            self.on_demand(account)
        };
        self.certificates.contains_key(bundle) || is_on_demand().is_some()
    }

    /// How an account gets certificates on demand, if it does.
    pub fn on_demand(&self, account: &str) -> Option<&OnDemandPlan> {
        self.accounts.get(account)?.on_demand.as_ref()
    }
}

/// Certificates that are got when a client asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnDemandPlan {
    /// URL that says which names may have one.
    pub ask: String,
    /// Names that are ordered for the first time in an hour: all, of one registered domain, for one client.
    pub hourly: [u32; 3],
    pub most: usize,
    /// Seconds after which an unused one is let go.
    pub unused: i64,
}

/// A name server that takes updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameserverPlan {
    pub server: SocketAddr,
    /// The zone that has the records.
    pub zone: Option<String>,
    pub key: String,
    pub algorithm: String,
    pub secret_file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountPlan {
    pub directory: String,
    pub contact: Vec<String>,
    /// Name and key of the binding to an account elsewhere.
    pub eab: Option<(String, Vec<u8>)>,
    pub profile: Option<String>,
    /// How names are shown to be ours.
    pub challenge: ChallengeKind,
    /// Program for records in the DNS.
    pub hook: Option<PathBuf>,
    /// Name server that takes those records.
    pub nameserver: Option<NameserverPlan>,
    /// Who vouches for the directory; `None`: the authorities of the system.
    pub roots: Option<PathBuf>,
    pub on_demand: Option<OnDemandPlan>,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificatePlan {
    pub account: String,
    pub names: Vec<String>,
    /// Until when it holds, if it is stored.
    pub until: Option<i64>,
    /// It was got on demand: it is renewed while it is used.
    pub is_on_demand: bool,
}

/// A message of this process to the controller, which main passes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ForController {
    /// A certificate has come: store it and put it in force.
    Certificate {
        bundle: String,
        /// Chain and key.
        pem: String,
    },
    /// A certificate that was got on demand is not used any more: delete it.
    Release { bundle: String },
    /// Have the router give these answers, and no others.
    Challenges { challenges: Vec<Challenge> },
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
    Plan { plan: Box<AcmePlan> },
    /// A client asks for this name; answered with [`FromAcme::Wanted`].
    Want {
        id: u64,
        account: String,
        name: String,
        /// Who asks.
        client: Option<IpAddr>,
    },
    /// Order this certificate now, although it is not due; answered with [`FromAcme::Wanted`].
    Renew { id: u64, bundle: String },
    /// A certificate that was got on demand has been used.
    Used { account: String, name: String },
    /// A request succeeded.
    Done { id: u64 },
    /// A request failed.
    Failed {
        id: u64,
        /// In one sentence.
        message: String,
    },
    /// The answer to [`FromAcme::Shared`].
    Shared { id: u64, answer: SharedAnswer },
    /// News of what the fleet shares.
    SharedNews { news: SharedNews },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Give a sign of life: [`FromAcme::Alive`].
    Probe { number: u64 },
}

/// From this process to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromAcme {
    /// A sign of life.
    Alive { number: u64 },
    /// Keep a document for the next process of this kind: it is on disk when this is answered.
    Keep { id: u64, name: String, text: String },
    /// Keep a document no longer.
    Discard { id: u64, name: String },
    /// Run the hook of an account.
    RunHook {
        id: u64,
        account: String,
        /// Put the record there, or remove it.
        is_present: bool,
        /// Name of the record.
        name: String,
        value: String,
    },
    /// Pass this on to the source process.
    Shared { id: u64, request: SharedRequest },
    /// The certificate that [`ToAcme::Want`] or [`ToAcme::Renew`] asks for is in force, or there is none.
    Wanted { id: u64, error: Option<String> },
    /// Pass this on to the controller; answered when that has done it.
    Tell { id: u64, message: ForController },
}
