//! The messages between main and the process for automatic certificates, and those that it and the controller exchange through main.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;

use crate::challenge::Challenge;
use crate::shared::{SharedAnswer, SharedNews, SharedRequest};

/// Prefixes of the names of documents, followed by the name of the account or the bundle.
pub const ACCOUNT_DOCUMENT: &str = "account-";
/// See [`ACCOUNT_DOCUMENT`].
pub const CERTIFICATE_DOCUMENT: &str = "certificate-";

/// The first message that such a process gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AcmeHello {
    /// The style of the log.
    pub log: LogStyle,
    /// All documents that it has stored, by name.
    pub documents: BTreeMap<String, String>,
    /// The certificates to get.
    pub plan: AcmePlan,
    /// A fleet shares the documents: the fleet's count, and updates follow.
    pub is_shared: bool,
}

/// The certificates to get, and their authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmePlan {
    /// By name.
    pub accounts: BTreeMap<String, AccountPlan>,
    /// By the name of the bundle.
    pub certificates: BTreeMap<String, CertificatePlan>,
}

impl AcmePlan {
    /// True for the bundle of a certificate that the plan names, or that may be obtained on demand.
    pub fn allows(&self, bundle: &str) -> bool {
        let is_on_demand = || {
            let (account, _) = tutti_options::acme_names::parts(bundle)?;
            self.on_demand(account)
        };
        self.certificates.contains_key(bundle) || is_on_demand().is_some()
    }

    /// Returns an account's plan for certificates on demand, if it has one.
    pub fn on_demand(&self, account: &str) -> Option<&OnDemandPlan> {
        self.accounts.get(account)?.on_demand.as_ref()
    }
}

/// Certificates that are obtained when a client asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnDemandPlan {
    /// URL that decides which names may have one.
    pub ask: String,
    /// First orders per hour: in all, of one registered domain, for one client.
    pub hourly: [u32; 3],
    pub most: usize,
    /// Seconds after which an unused certificate is deleted.
    pub unused: i64,
}

/// A name server that accepts updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameserverPlan {
    pub server: SocketAddr,
    /// The zone of the records.
    pub zone: Option<String>,
    pub key: String,
    pub algorithm: String,
    pub secret_file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountPlan {
    pub directory: String,
    pub contact: Vec<String>,
    /// Name and key of the external account binding.
    pub eab: Option<(String, Vec<u8>)>,
    pub profile: Option<String>,
    /// The method by which control of names is proved.
    pub challenge: ChallengeKind,
    /// Program for records in the DNS.
    pub hook: Option<PathBuf>,
    /// Name server that takes those records.
    pub nameserver: Option<NameserverPlan>,
    /// The authorities trusted for the directory; `None`: those of the system.
    pub roots: Option<PathBuf>,
    pub on_demand: Option<OnDemandPlan>,
}

/// The method by which control of names is proved.
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
    /// Its expiry, if it is stored.
    pub until: Option<i64>,
    /// It was obtained on demand: it is renewed while it is used.
    pub is_on_demand: bool,
}

/// A message of this process to the controller, forwarded by main.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ForController {
    /// A certificate has been issued: store it and put it in force.
    Certificate {
        bundle: String,
        /// Chain and key.
        pem: String,
    },
    /// A certificate obtained on demand is not used any more: delete it.
    Release { bundle: String },
    /// Make the router give exactly these answers.
    Challenges { challenges: Vec<Challenge> },
    /// The state for `/status`.
    Status {
        /// By the name of the bundle.
        certificates: BTreeMap<String, CertificateNews>,
    },
}

/// The state of an automatic certificate. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateNews {
    /// An order is in progress.
    pub is_ordering: bool,
    /// When the next order is due.
    pub next_order: Option<i64>,
    /// Failed orders since the last success.
    pub failures: u32,
    /// Why the last one failed, and when.
    pub last_error: Option<(String, i64)>,
    /// The root certificate of the server's own authority, in PEM, if that issues it.
    #[serde(default)]
    pub authority: Option<String>,
}

/// From main to this process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToAcme {
    /// Comes first. Descriptor: the log.
    Hello(Box<AcmeHello>),
    /// The certificates to get have changed.
    Plan { plan: Box<AcmePlan> },
    /// A client needs a certificate for this name; answered by [`FromAcme::Wanted`].
    Want {
        id: u64,
        account: String,
        name: String,
        /// The address of the client.
        client: Option<IpAddr>,
    },
    /// Order this certificate now, although it is not due; answered by [`FromAcme::Wanted`].
    Renew { id: u64, bundle: String },
    /// A certificate obtained on demand has been used.
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
    /// An update of what the fleet shares.
    SharedNews { news: SharedNews },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Answer with [`FromAcme::Alive`].
    Probe { number: u64 },
}

/// From this process to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromAcme {
    /// The answer to a probe.
    Alive { number: u64 },
    /// Store a document for the next process of this kind: it is on disk when this is answered.
    Keep { id: u64, name: String, text: String },
    /// Delete a stored document.
    Discard { id: u64, name: String },
    /// Run the hook of an account.
    RunHook {
        id: u64,
        account: String,
        /// Create the record, or remove it.
        is_present: bool,
        /// Name of the record.
        name: String,
        value: String,
    },
    /// Forward this to the source process.
    Shared { id: u64, request: SharedRequest },
    /// The certificate of [`ToAcme::Want`] or [`ToAcme::Renew`] is in force, or could not be obtained.
    Wanted { id: u64, error: Option<String> },
    /// Forward this to the controller; answered after the controller.
    Tell { id: u64, message: ForController },
}
