//! The fleet's certificates for all its nodes, from the store to the controller.
//!
//! They are decrypted here and nowhere else. Must never happen: that one that cannot be decrypted or used replaces the
//! former one, or that a document that needs one is applied before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tutti_fleet_store::keys::CERTIFICATES;
use tutti_fleet_store::records::digest;
use tutti_fleet_store::seal::SealingKeys;
use tutti_fleet_store::store::{Entries, FleetStore, FleetStoreError};
use tutti_log::{Level, Log};
use tutti_protocol::{FleetAnswer, FleetRequest};

use crate::controller::Controller;
use crate::state::Node;
use crate::watching::{Follower, SOON};

/// The keys of this node; an error is the reason why it has none.
pub(crate) type OwnKeys = Result<Arc<SealingKeys>, String>;

/// Parses the keys in the text of a secret file.
pub(crate) fn own_keys(secret: Option<Result<String, String>>) -> OwnKeys {
    match secret {
        None => {
            Err("this node has no key of the fleet: set `secret_file` of its source".to_owned())
        }
        Some(Err(reason)) => Err(reason),
        Some(Ok(text)) => match SealingKeys::read(&text) {
            Ok(keys) => Ok(Arc::new(keys)),
            Err(reason) => Err(format!("the secret file cannot be used: {reason}")),
        },
    }
}

/// The certificates that the controller has accepted, as main keeps them for the next process: digests of the stored
/// texts, by name.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Taken(BTreeMap<String, String>);

/// Certificates that were sent, and those that were rejected.
struct Outcome {
    taken: Taken,
    /// Digests of those that were rejected: they are logged once, and retried after a while.
    refused: BTreeMap<String, String>,
    /// This process has sent all of them: the controller's own may have been changed before.
    is_checked: bool,
}

/// Tells which certificates are left after all were sent.
#[derive(Default)]
struct Brought {
    /// Why the controller has not accepted one that it may accept soon.
    waits: Option<String>,
    /// It has rejected one, or uses one that the fleet no longer has.
    is_incomplete: bool,
}

impl Brought {
    /// Returns the pause before the next attempt.
    fn pause(&self) -> Option<Duration> {
        match self.waits {
            Some(_) => Some(SOON),
            None => self.is_incomplete.then_some(LATER),
        }
    }
}

/// Why the controller has not accepted a certificate.
enum NotTaken {
    /// It may accept it soon.
    Yet(String),
    /// It cannot be used.
    Refused(String),
}

/// The certificates that are sent to the controller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Those that it has not accepted yet.
    New,
    /// All: one of them may have been deleted or replaced on this node by hand.
    All,
}

/// The pause before certificates that were rejected, or are still in use, are tried again.
const LATER: Duration = Duration::from_secs(30);

pub(crate) struct Certificates {
    node: Arc<Node>,
    store: Arc<dyn FleetStore>,
    controller: Arc<Controller>,
    log: Log,
    keys: OwnKeys,
    /// Held while certificates are sent: one after the other.
    outcome: Mutex<Outcome>,
}

/// Sends those that change in the store.
impl Follower for Arc<Certificates> {
    async fn process(&mut self, _entries: &Entries) -> Result<Option<Duration>, FleetStoreError> {
        Ok(self.bring(Extent::New).await?.pause())
    }
}

impl Certificates {
    pub(crate) fn new(
        node: Arc<Node>,
        store: Arc<dyn FleetStore>,
        controller: Arc<Controller>,
        log: Log,
        keys: OwnKeys,
        kept: Option<&str>,
    ) -> Certificates {
        let taken = kept.and_then(|text| serde_json::from_str::<Taken>(text).ok());
        let taken = taken.unwrap_or_default();
        node.certificates(|certificates| {
            certificates.taken = taken.0.keys().cloned().collect();
            certificates.key = keys.as_ref().ok().map(|keys| keys.id().to_owned());
        });
        Certificates {
            node,
            store,
            controller,
            log,
            keys,
            outcome: Mutex::new(Outcome {
                taken,
                refused: BTreeMap::new(),
                is_checked: false,
            }),
        }
    }

    /// Sends all that are in the store now: must be called before a document that may need them. Returns why the
    /// controller has not accepted all of them yet, if so: the document has to wait.
    pub(crate) async fn bring_now(&self) -> Result<Option<String>, FleetStoreError> {
        let brought = self.bring(Extent::All).await?;
        Ok(brought.waits)
    }

    /// Synchronizes the controller with the store.
    async fn bring(&self, extent: Extent) -> Result<Brought, FleetStoreError> {
        let mut outcome = self.outcome.lock().await;
        // Listed while no other call sends any: an older list would undo newer changes.
        let entries = &self.store.list(CERTIFICATES).await?;
        let keys = match &self.keys {
            Ok(keys) => Arc::clone(keys),
            Err(reason) => {
                self.without_keys(reason, entries.is_empty());
                return Ok(Brought::default());
            }
        };
        let before = outcome.taken.0.clone();
        let extent = match outcome.is_checked {
            true => extent,
            false => Extent::All,
        };
        let mut brought = self.send(&mut outcome, &keys, entries, extent).await;
        outcome.is_checked |= brought.waits.is_none();
        let is_gone = |name: &str| !entries.contains_key(&format!("{CERTIFICATES}{name}"));
        brought.is_incomplete |= !self.let_go_of(&mut outcome, &is_gone).await;
        outcome.refused.retain(|name, _| !is_gone(name));
        let is_listed = |name: &str| {
            outcome.refused.contains_key(name)
                || (is_gone(name) && outcome.taken.0.contains_key(name))
        };
        self.node.certificates(|certificates| {
            certificates.error = None;
            certificates.refused.retain(|name, _| is_listed(name));
            certificates.taken = outcome.taken.0.keys().cloned().collect();
        });
        if outcome.taken.0 != before {
            let kept = serde_json::to_string(&outcome.taken).unwrap_or_default();
            self.controller.keep_certificates(kept);
        }
        Ok(brought)
    }

    /// Sends certificates of the store.
    async fn send(
        &self,
        outcome: &mut Outcome,
        keys: &SealingKeys,
        entries: &Entries,
        extent: Extent,
    ) -> Brought {
        let mut brought = Brought::default();
        for (key, sealed) in entries {
            let Some(name) = key.strip_prefix(CERTIFICATES) else {
                continue;
            };
            let mark = digest(sealed);
            if extent == Extent::New && outcome.taken.0.get(name) == Some(&mark) {
                continue;
            }
            let opened = keys.open(key, sealed).map_err(|error| error.to_string());
            match self.take(name, opened).await {
                Ok(()) => {
                    outcome.refused.remove(name);
                    outcome.taken.0.insert(name.to_owned(), mark);
                }
                Err(NotTaken::Yet(reason)) => {
                    brought.waits = Some(format!("`{name}`: {reason}"));
                }
                Err(NotTaken::Refused(reason)) => {
                    let known = outcome.refused.insert(name.to_owned(), mark.clone());
                    if known.as_ref() != Some(&mark) {
                        self.refuse(name, reason);
                    }
                    // The cause may be on this node, such as its clock.
                    brought.is_incomplete = true;
                }
            }
        }
        brought
    }

    /// Deletes those that the fleet no longer has; false: some are in use.
    async fn let_go_of(
        &self,
        outcome: &mut Outcome,
        is_gone: &(dyn Fn(&str) -> bool + Sync),
    ) -> bool {
        let taken = outcome.taken.0.keys();
        let gone: Vec<String> = taken.filter(|name| is_gone(name)).cloned().collect();
        let mut are_all_gone = true;
        for name in gone {
            match self.let_go(&name).await {
                true => drop(outcome.taken.0.remove(&name)),
                false => are_all_gone = false,
            }
        }
        are_all_gone
    }

    /// This node cannot decrypt anything: it reports so if that matters.
    fn without_keys(&self, reason: &str, is_empty: bool) {
        // A node with a configured file has one that cannot be used.
        let matters = !is_empty || self.node.wants_key;
        let error = matters.then(|| reason.to_owned());
        let is_new = self.node.certificates(|certificates| {
            let is_new = certificates.error != error;
            certificates.error = error.clone();
            is_new
        });
        if let (true, Some(error)) = (is_new, error) {
            let text = format!("certificates of the fleet are not applied: {error}");
            self.log.line(Level::Alert, &text);
        }
    }

    /// Makes the controller accept one.
    async fn take(&self, name: &str, opened: Result<String, String>) -> Result<(), NotTaken> {
        let request = FleetRequest::Certificate {
            name: name.to_owned(),
            pem: opened.map_err(NotTaken::Refused)?,
        };
        match self.controller.ask(request).await {
            FleetAnswer::Noted => Ok(()),
            FleetAnswer::Refused { reason, .. } => Err(NotTaken::Refused(reason)),
            FleetAnswer::Unavailable { reason } => Err(NotTaken::Yet(reason)),
            _ => Err(NotTaken::Yet("the answer is unexpected".to_owned())),
        }
    }

    fn refuse(&self, name: &str, reason: String) {
        let text = format!(
            "the certificate `{name}` of the fleet cannot be used, and the former one stays in force: {reason}"
        );
        self.log.line(Level::Alert, &text);
        self.node.refuse_certificate(name, reason);
    }

    /// Makes the controller delete one; false: it is in use.
    async fn let_go(&self, name: &str) -> bool {
        let request = FleetRequest::Discard {
            name: name.to_owned(),
        };
        match self.controller.ask(request).await {
            FleetAnswer::Noted => {
                let text = format!("the certificate `{name}` was deleted from the fleet");
                self.log.line(Level::Notice, &text);
                true
            }
            FleetAnswer::Refused { reason, .. } => {
                self.node.refuse_certificate(name, reason);
                false
            }
            _ => false,
        }
    }
}
