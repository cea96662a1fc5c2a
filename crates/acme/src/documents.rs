//! Documents that outlive this process: main keeps them in the state folder, readable only by root; or they are in the
//! store of a fleet, for the next process on any node.
//!
//! Must never happen: that an action that must not be repeated is carried out before it is stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_protocol::{
    ACCOUNT_DOCUMENT, CERTIFICATE_DOCUMENT, CertificatePlan, FromAcme, SharedDocument,
};

use crate::failure::OrderError;
use crate::fleet::{Fleet, Unclaimed};
use crate::line::Link;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AccountDocument {
    /// URL of its directory.
    pub(crate) directory: String,
    /// Its key: PKCS#8, in Base64.
    pub(crate) key: String,
    /// Its URL at the authority; `None`: it is not registered, or unknown.
    pub(crate) url: Option<String>,
    /// The mail addresses registered with the authority.
    pub(crate) contact: Vec<String>,
    /// The root certificate of the server's own authority, in PEM, whose key this is.
    pub(crate) certificate: Option<String>,
}

/// A certificate: the order in progress, and the results of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CertificateDocument {
    /// URL of the directory of its authority.
    pub(crate) directory: String,
    pub(crate) names: Vec<String>,
    /// Key of the order in progress, in PEM.
    pub(crate) key: Option<String>,
    /// URL of the order in progress.
    pub(crate) order: Option<String>,
    /// The last certificate that was issued.
    pub(crate) issued: Option<Issued>,
    /// Failed orders since then.
    pub(crate) failures: u32,
    /// The earliest time of the next order.
    pub(crate) retry_at: Option<i64>,
    /// Why and when the last one failed.
    pub(crate) last_error: Option<(String, i64)>,
    /// Set if it was obtained on demand.
    pub(crate) demand: Option<Demand>,
}

impl CertificateDocument {
    /// True if an order is in progress that has not failed yet.
    pub(crate) fn is_under_way(&self) -> bool {
        self.order.is_some() && self.failures == 0
    }
}

/// A name ordered on demand. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Demand {
    /// Time of the last order for a client.
    pub(crate) ordered: i64,
    /// Time of the last use.
    pub(crate) used: i64,
    /// Its registered domain.
    pub(crate) domain: String,
    /// The network of the client that caused the order.
    pub(crate) client: String,
}

/// An issued certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Issued {
    /// Start of its validity.
    pub(crate) since: i64,
    /// End of its validity.
    pub(crate) until: i64,
    /// Its identifier at the authority (RFC 9773 §4.1); `None` if it cannot have one.
    pub(crate) id: Option<(String, String)>,
    /// The renewal time that the authority suggests.
    pub(crate) advised: Option<i64>,
    /// The authority suggested to renew the one before it.
    pub(crate) was_advised: bool,
    /// When to ask the authority for a suggestion again.
    pub(crate) ask_at: i64,
    /// Its serial number, by which nodes of a fleet compare certificates.
    pub(crate) serial: String,
}

/// All documents. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Documents {
    link: Arc<Link>,
    /// The fleet that these documents belong to; `None`: they belong to this node alone.
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// The node's own documents, by name; those of a fleet by their names in its store.
    texts: Arc<Mutex<BTreeMap<String, String>>>,
    /// Documents of this node from before it joined a fleet.
    former: Arc<BTreeMap<String, String>>,
}

fn account_name(name: &str) -> String {
    format!("{ACCOUNT_DOCUMENT}{name}")
}

fn certificate_name(bundle: &str) -> String {
    format!("{CERTIFICATE_DOCUMENT}{bundle}")
}

fn parsed<T: DeserializeOwned + Default>(text: Option<&String>) -> T {
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Returns the time when a document of the fleet was written; 0 if unknown.
fn written(text: Option<&String>) -> u64 {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Written {
        written: u64,
    }
    parsed::<Written>(text).written
}

impl Documents {
    pub(crate) fn new(
        link: Arc<Link>,
        texts: BTreeMap<String, String>,
        fleet: Option<Arc<Fleet>>,
    ) -> Documents {
        let (texts, former) = match fleet {
            Some(_) => (BTreeMap::new(), texts),
            None => (texts, BTreeMap::new()),
        };
        Documents {
            link,
            fleet,
            texts: Arc::new(Mutex::new(texts)),
            former: Arc::new(former),
        }
    }

    fn texts(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name under which a document is kept here.
    fn key(&self, name: &str) -> String {
        match &self.fleet {
            Some(fleet) => fleet.full(name),
            None => name.to_owned(),
        }
    }

    /// Stores documents received from the fleet. They may be older than what this process has written since.
    pub(crate) fn heard(&self, is_whole: bool, documents: &[SharedDocument]) {
        let mut texts = self.texts();
        if is_whole {
            texts.clear();
        }
        for (name, text) in documents {
            match text {
                Some(text) if written(texts.get(name)) > written(Some(text)) => {}
                Some(text) => drop(texts.insert(name.clone(), text.clone())),
                None => drop(texts.remove(name)),
            }
        }
    }

    /// A document that cannot be read counts as missing: its content starts anew.
    fn read<T: DeserializeOwned + Default>(&self, name: &str) -> T {
        let key = self.key(name);
        parsed(self.texts().get(&key))
    }

    async fn keep<T: Serialize>(
        &self,
        name: String,
        document: &T,
        chain: Option<String>,
    ) -> Result<(), OrderError> {
        let failed = |error: serde_json::Error| OrderError::new(error.to_string());
        let key = self.key(&name);
        let mut value = serde_json::to_value(document).map_err(failed)?;
        if self.fleet.is_some() {
            value["written"] = self.next_written(&key).into();
        }
        let text = value.to_string();
        if let Some(fleet) = &self.fleet {
            fleet
                .write(&key, Some(text.clone()), chain.map(Some))
                .await?;
        } else {
            let make = |id| FromAcme::Keep {
                id,
                name: name.clone(),
                text: text.clone(),
            };
            let kept = self.link.request(&make, Vec::new()).await;
            kept.map_err(|refused| {
                OrderError::new(format!("its state cannot be stored: {}", refused.message))
            })?;
        }
        self.texts().insert(key, text);
        Ok(())
    }

    /// Returns the time stamp for a document of the fleet, in milliseconds since 1970, and always later than the
    /// previous one.
    fn next_written(&self, key: &str) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        let last = written(self.texts().get(key));
        now.max(last.saturating_add(1))
    }

    pub(crate) fn account(&self, name: &str) -> AccountDocument {
        self.read(&account_name(name))
    }

    /// Returns the account that this node had before it joined a fleet, if the fleet has none yet.
    pub(crate) fn former_account(&self, name: &str) -> Option<AccountDocument> {
        let name = account_name(name);
        let key = self.key(&name);
        let is_known = self.texts().contains_key(&key);
        let former = self.former.get(&name).filter(|_| !is_known);
        former.map(|text| parsed(Some(text)))
    }

    /// Stores an account; it is on disk on return.
    pub(crate) async fn keep_account(
        &self,
        name: &str,
        document: &AccountDocument,
    ) -> Result<(), OrderError> {
        self.keep(account_name(name), document, None).await
    }

    pub(crate) fn certificate(&self, bundle: &str) -> CertificateDocument {
        self.read(&certificate_name(bundle))
    }

    /// Stores a certificate's document; it is on disk on return.
    pub(crate) async fn keep_certificate(
        &self,
        bundle: &str,
        document: &CertificateDocument,
    ) -> Result<(), OrderError> {
        self.keep(certificate_name(bundle), document, None).await
    }

    /// Stores it with the issued certificate, chain and key, for all nodes of the fleet.
    pub(crate) async fn keep_issued(
        &self,
        bundle: &str,
        document: &CertificateDocument,
        pem: String,
    ) -> Result<(), OrderError> {
        self.keep(certificate_name(bundle), document, Some(pem))
            .await
    }

    /// Returns the fleet's certificate.
    pub(crate) async fn chain(&self, fleet: &Fleet, bundle: &str) -> Result<String, OrderError> {
        fleet.chain(&self.key(&certificate_name(bundle))).await
    }

    /// Remembers a document that could not be stored, as long as this process lives: a full disk must not cause
    /// repeated orders.
    pub(crate) fn note_certificate(&self, bundle: &str, document: &CertificateDocument) {
        if let Ok(text) = serde_json::to_string(document) {
            let key = self.key(&certificate_name(bundle));
            self.texts().insert(key, text);
        }
    }

    /// Claims a certificate's document, so that no other node of the fleet works on it.
    pub(crate) async fn claim_certificate(&self, bundle: &str) -> Result<(), Unclaimed> {
        self.claim(&certificate_name(bundle)).await
    }

    pub(crate) async fn release_certificate(&self, bundle: &str) {
        self.release(&certificate_name(bundle)).await;
    }

    /// Claims an account, so that no other node of the fleet works on it.
    pub(crate) async fn claim_account(&self, name: &str) -> Result<(), Unclaimed> {
        self.claim(&account_name(name)).await
    }

    pub(crate) async fn release_account(&self, name: &str) {
        self.release(&account_name(name)).await;
    }

    async fn claim(&self, name: &str) -> Result<(), Unclaimed> {
        let Some(fleet) = &self.fleet else {
            return Ok(());
        };
        let key = fleet.full(name);
        let text = fleet.claim(&key).await?;
        // The text received earlier may be outdated.
        let mut texts = self.texts();
        match text {
            Some(text) => drop(texts.insert(key, text)),
            None => drop(texts.remove(&key)),
        }
        Ok(())
    }

    async fn release(&self, name: &str) {
        if let Some(fleet) = &self.fleet {
            fleet.release(&fleet.full(name)).await;
        }
    }

    /// Returns another node that works on a certificate.
    pub(crate) fn owner(&self, bundle: &str) -> Option<String> {
        self.fleet.as_ref()?.owner(&certificate_name(bundle))
    }

    /// Returns the plan of a certificate, in which that of a fleet counts as present if the fleet has it.
    pub(crate) fn seen(
        &self,
        wanted: &CertificatePlan,
        document: &CertificateDocument,
    ) -> CertificatePlan {
        let mut seen = wanted.clone();
        if self.fleet.is_some() {
            seen.until = document.issued.as_ref().map(|issued| issued.until);
        }
        seen
    }

    /// Returns all documents of certificates, by the name of the bundle.
    pub(crate) fn certificates(&self) -> Vec<(String, CertificateDocument)> {
        let bundles = self.bundles().into_iter();
        bundles
            .map(|bundle| {
                let document = self.certificate(&bundle);
                (bundle, document)
            })
            .collect()
    }

    /// Returns the bundles that have documents.
    pub(crate) fn bundles(&self) -> Vec<String> {
        let texts = self.texts();
        let names = texts.keys().filter_map(|key| {
            let name = match &self.fleet {
                Some(fleet) => fleet.short(key)?,
                None => key.as_str(),
            };
            name.strip_prefix(CERTIFICATE_DOCUMENT)
        });
        names.map(str::to_owned).collect()
    }

    /// Deletes a certificate's document, and everything that belongs to it.
    pub(crate) async fn discard_certificate(&self, bundle: &str) {
        let name = certificate_name(bundle);
        let key = self.key(&name);
        if let Some(fleet) = &self.fleet {
            // If this fails, another node does it.
            if fleet.write(&key, None, Some(None)).await.is_ok() {
                self.texts().remove(&key);
            }
            return;
        }
        self.texts().remove(&key);
        let make = |id| FromAcme::Discard {
            id,
            name: name.clone(),
        };
        // If this fails, it is only read in vain.
        let _ = self.link.request(&make, Vec::new()).await;
    }
}
