//! Documents, kept from one process to the next by main, in the state folder, readable by root only; or in the store of a fleet, for the next
//! process on whatever node.
//!
//! Must never happen: that something is done which is not to be done twice before it is kept.

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
    /// Its serial number, by which nodes of a fleet know what they have.
    pub(crate) serial: String,
}

/// All documents. Clones are the same thing.
#[derive(Clone)]
pub(crate) struct Documents {
    link: Arc<Link>,
    /// The fleet whose documents these are; `None`: they are this node's own.
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// The node's own documents, by name; those of a fleet by their names in its store.
    texts: Arc<Mutex<BTreeMap<String, String>>>,
    /// Documents of this node from before it shared any.
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

/// When a document of the fleet was written; 0: nobody knows.
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

    /// The name under which a document is known here.
    fn key(&self, name: &str) -> String {
        match &self.fleet {
            Some(fleet) => fleet.full(name),
            None => name.to_owned(),
        }
    }

    /// Notes documents of the fleet. News may be older than what this process has written itself since.
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

    /// One that cannot be read is as one that is not there: what it kept is begun anew.
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

    /// When a document of the fleet is written, in milliseconds since 1970, and in any case later than the last time.
    fn next_written(&self, key: &str) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
        let last = written(self.texts().get(key));
        now.max(last.saturating_add(1))
    }

    pub(crate) fn account(&self, name: &str) -> AccountDocument {
        self.read(&account_name(name))
    }

    /// The account that this node had before it was one of a fleet, if the fleet has none yet.
    pub(crate) fn former_account(&self, name: &str) -> Option<AccountDocument> {
        let name = account_name(name);
        let key = self.key(&name);
        let is_known = self.texts().contains_key(&key);
        let former = self.former.get(&name).filter(|_| !is_known);
        former.map(|text| parsed(Some(text)))
    }

    /// Keeps an account; it is on disk then.
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

    /// Keeps a certificate's document; it is on disk then.
    pub(crate) async fn keep_certificate(
        &self,
        bundle: &str,
        document: &CertificateDocument,
    ) -> Result<(), OrderError> {
        self.keep(certificate_name(bundle), document, None).await
    }

    /// Keeps it with the certificate that has come, chain and key, for all nodes of the fleet.
    pub(crate) async fn keep_issued(
        &self,
        bundle: &str,
        document: &CertificateDocument,
        pem: String,
    ) -> Result<(), OrderError> {
        self.keep(certificate_name(bundle), document, Some(pem))
            .await
    }

    /// The certificate that the fleet has.
    pub(crate) async fn chain(&self, fleet: &Fleet, bundle: &str) -> Result<String, OrderError> {
        fleet.chain(&self.key(&certificate_name(bundle))).await
    }

    /// Notes what could not be kept, for as long as this process lives: a full disk must not have orders repeated.
    pub(crate) fn note_certificate(&self, bundle: &str, document: &CertificateDocument) {
        if let Ok(text) = serde_json::to_string(document) {
            let key = self.key(&certificate_name(bundle));
            self.texts().insert(key, text);
        }
    }

    /// Works at a certificate's document alone, as far as the nodes of a fleet are concerned.
    pub(crate) async fn claim_certificate(&self, bundle: &str) -> Result<(), Unclaimed> {
        self.claim(&certificate_name(bundle)).await
    }

    pub(crate) async fn release_certificate(&self, bundle: &str) {
        self.release(&certificate_name(bundle)).await;
    }

    /// The same of an account.
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
        // The text that was heard may be of before.
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

    /// Another node that works at a certificate.
    pub(crate) fn owner(&self, bundle: &str) -> Option<String> {
        self.fleet.as_ref()?.owner(&certificate_name(bundle))
    }

    /// A certificate as it is wanted: that of a fleet is there if the fleet has it.
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
        let names = texts.keys().filter_map(|key| {
            let name = match &self.fleet {
                Some(fleet) => fleet.short(key)?,
                None => key.as_str(),
            };
            name.strip_prefix(CERTIFICATE_DOCUMENT)
        });
        names.map(str::to_owned).collect()
    }

    /// Forgets a certificate's document, and what belongs to it.
    pub(crate) async fn discard_certificate(&self, bundle: &str) {
        let name = certificate_name(bundle);
        let key = self.key(&name);
        if let Some(fleet) = &self.fleet {
            // Left over, another node does it.
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
        // Left over, it is only read in vain.
        let _ = self.link.request(&make, Vec::new()).await;
    }
}
