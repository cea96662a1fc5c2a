//! Automatic certificates.

use std::fmt;

use tutti_document::Pointer;

use crate::table::{AcmeOptions, NameserverOptions, OnDemandOptions};

/// An account of `settings.acme`.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeAccount {
    /// Texts and paths.
    pub options: AcmeOptions,
    /// External account binding.
    pub eab: Option<Eab>,
    /// Name server that accepts updates.
    pub nameserver: Option<NameserverOptions>,
    /// Certificates for names that clients ask for.
    pub on_demand: Option<OnDemandOptions>,
}

/// A key that binds an account to an external one. Not shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Eab {
    /// The id of the key.
    pub kid: String,
    /// The key.
    pub key: Vec<u8>,
}

impl fmt::Debug for Eab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Eab({})", self.kid)
    }
}

/// A certificate that the server obtains automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeCertificate {
    /// Where it was written.
    pub pointer: Pointer,
    /// Name of the account.
    pub account: String,
    /// In lower case, sorted, each once.
    pub names: Vec<String>,
}

impl AcmeCertificate {
    /// True for the name of a bundle of such a certificate. It need not exist yet.
    pub fn is_named_by(bundle: &str) -> bool {
        tutti_options::acme_names::is_bundle(bundle)
    }

    /// Returns the name of its bundle, which differs for different names.
    pub fn bundle(&self) -> String {
        tutti_options::acme_names::bundle(&self.account, &self.names)
    }
}
