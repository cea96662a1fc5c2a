//! Documents, kept from one process to the next by main, in the state folder, readable by root only.
//!
//! Must never happen: that something is done which is not to be done twice before it is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_protocol::{ACCOUNT_DOCUMENT, CERTIFICATE_DOCUMENT, FromAcme};

use crate::failure::Failure;
use crate::line::Link;

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AccountDocument {
    /// URL of the directory it belongs to.
    pub(crate) directory: String,
    /// Its key: PKCS#8, in Base64.
    pub(crate) key: String,
    /// Its name for the authority, a URL; `None`: it is not registered, or nobody knows.
    pub(crate) url: Option<String>,
    /// The mail addresses that the authority has.
    pub(crate) contact: Vec<String>,
}

/// A certificate: the order under way, and what has come of those before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CertificateDocument {
    /// URL of the directory that it is got from.
    pub(crate) directory: String,
    /// The names it is for.
    pub(crate) names: Vec<String>,
    /// Key of the order under way, in PEM.
    pub(crate) key: Option<String>,
    /// URL of the order under way.
    pub(crate) order: Option<String>,
    /// The last one that has come.
    pub(crate) issued: Option<Issued>,
    /// Orders that have failed since then.
    pub(crate) failures: u32,
    /// No order before this time.
    pub(crate) retry_at: Option<i64>,
    /// Why the last one failed, and when.
    pub(crate) last_error: Option<(String, i64)>,
    /// It was got because a client asked for it.
    pub(crate) demand: Option<Demand>,
}

impl CertificateDocument {
    /// True if an order is under way that has not failed yet.
    pub(crate) fn is_under_way(&self) -> bool {
        self.order.is_some() && self.failures == 0
    }
}

/// A name that clients ask for. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Demand {
    /// When it was ordered last, for a client.
    pub(crate) ordered: i64,
    /// When it was used last.
    pub(crate) used: i64,
    /// The registered domain that it belongs to.
    pub(crate) domain: String,
    /// The network of the client it was ordered for.
    pub(crate) client: String,
}

/// A certificate that has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Issued {
    /// It holds from this time on.
    pub(crate) since: i64,
    /// It holds until this time.
    pub(crate) until: i64,
    /// Its name for the authority (RFC 9773 §4.1); `None` where it can have none.
    pub(crate) id: Option<(String, String)>,
    /// When the authority wishes it to be renewed.
    pub(crate) advised: Option<i64>,
    /// When the authority is to be asked again for its wish.
    pub(crate) ask_at: i64,
}

/// All documents. Clones are the same thing.
#[derive(Clone)]
pub(crate) struct Documents {
    link: Arc<Link>,
    texts: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Documents {
    pub(crate) fn new(link: Arc<Link>, texts: BTreeMap<String, String>) -> Documents {
        Documents {
            link,
            texts: Arc::new(Mutex::new(texts)),
        }
    }

    fn texts(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that cannot be read is as one that is not there: what it kept is begun anew.
    fn read<T: DeserializeOwned + Default>(&self, name: &str) -> T {
        let texts = self.texts();
        let text = texts.get(name);
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    async fn keep<T: Serialize>(&self, name: String, document: &T) -> Result<(), Failure> {
        let text =
            serde_json::to_string(document).map_err(|error| Failure::new(error.to_string()))?;
        let make = |id| FromAcme::Keep {
            id,
            name: name.clone(),
            text: text.clone(),
        };
        let kept = self.link.request(&make, Vec::new()).await;
        kept.map_err(|refused| {
            Failure::new(format!("its state cannot be stored: {}", refused.message))
        })?;
        self.texts().insert(name, text);
        Ok(())
    }

    pub(crate) fn account(&self, name: &str) -> AccountDocument {
        self.read(&format!("{ACCOUNT_DOCUMENT}{name}"))
    }

    /// Keeps an account; it is on disk then.
    pub(crate) async fn keep_account(
        &self,
        name: &str,
        document: &AccountDocument,
    ) -> Result<(), Failure> {
        self.keep(format!("{ACCOUNT_DOCUMENT}{name}"), document)
            .await
    }

    pub(crate) fn certificate(&self, bundle: &str) -> CertificateDocument {
        self.read(&format!("{CERTIFICATE_DOCUMENT}{bundle}"))
    }

    /// Keeps a certificate's document; it is on disk then.
    pub(crate) async fn keep_certificate(
        &self,
        bundle: &str,
        document: &CertificateDocument,
    ) -> Result<(), Failure> {
        self.keep(format!("{CERTIFICATE_DOCUMENT}{bundle}"), document)
            .await
    }

    /// Notes what could not be kept, for as long as this process lives: a full disk must not have orders repeated.
    pub(crate) fn note_certificate(&self, bundle: &str, document: &CertificateDocument) {
        if let Ok(text) = serde_json::to_string(document) {
            self.texts()
                .insert(format!("{CERTIFICATE_DOCUMENT}{bundle}"), text);
        }
    }

    /// All documents of certificates, by the name of the bundle.
    pub(crate) fn certificates(&self) -> Vec<(String, CertificateDocument)> {
        let bundles = self.bundles().into_iter();
        bundles
            .map(|bundle| {
                let document = self.certificate(&bundle);
                (bundle, document)
            })
            .collect()
    }

    /// The bundles that there are documents of.
    pub(crate) fn bundles(&self) -> Vec<String> {
        let texts = self.texts();
        let names = texts
            .keys()
            .filter_map(|name| name.strip_prefix(CERTIFICATE_DOCUMENT));
        names.map(str::to_owned).collect()
    }

    /// Forgets a certificate's document.
    pub(crate) async fn discard_certificate(&self, bundle: &str) {
        let name = format!("{CERTIFICATE_DOCUMENT}{bundle}");
        self.texts().remove(&name);
        let make = |id| FromAcme::Discard {
            id,
            name: name.clone(),
        };
        // Left over, it is only read in vain.
        let _ = self.link.request(&make, Vec::new()).await;
    }
}
