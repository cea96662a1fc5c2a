//! The fleet that shares certificates, as seen by this process: documents that one node at a time works on.
//!
//! The source process has the store and the keys; requests to it go through main. A document's name in the store
//! contains the authority, so that nodes that use another authority for the same account do not interfere. Must never
//! happen: that an action starts while it is unknown what other nodes are doing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tutti_protocol::{
    ACCOUNT_DOCUMENT, AcmePlan, CERTIFICATE_DOCUMENT, Challenge, FromAcme, SharedAnswer,
    SharedNews, SharedRequest,
};

use crate::failure::{Cure, OrderError};
use crate::line::Link;

/// Nodes with the same task start within this time, and not all at once.
const SPREAD: u64 = 500;

/// An answer that takes longer is lost. The store's members are tried one after the other, and nodes have ten seconds.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// The names of documents in the store.
#[derive(Default)]
struct Names {
    /// The digest of an account's directory.
    authorities: BTreeMap<String, String>,
    /// The account of a bundle.
    accounts: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    /// Nodes that work on documents.
    owners: BTreeMap<String, String>,
    /// Documents that this process has claimed.
    ours: BTreeSet<String>,
}

/// Why a document was not claimed.
#[derive(Debug)]
pub(crate) enum Unclaimed {
    /// This node has claimed it.
    Busy(String),
    /// It is unknown which node has it.
    Unavailable(String),
}

impl From<Unclaimed> for OrderError {
    fn from(unclaimed: Unclaimed) -> OrderError {
        let message = match unclaimed {
            Unclaimed::Busy(node) => format!("the node `{node}` is working on it"),
            Unclaimed::Unavailable(reason) => reason,
        };
        OrderError::new(message).with(Cure::Elsewhere)
    }
}

/// The fleet (see the module).
pub(crate) struct Fleet {
    link: Arc<Link>,
    next: AtomicU64,
    asked: Mutex<HashMap<u64, oneshot::Sender<SharedAnswer>>>,
    names: Mutex<Names>,
    state: Mutex<State>,
    /// Held while working on an account: one at a time in this process, too.
    pub(crate) accounts: tokio::sync::Mutex<()>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub(crate) fn new(link: Arc<Link>, plan: &AcmePlan) -> Fleet {
        let fleet = Fleet {
            link,
            next: AtomicU64::new(1),
            asked: Mutex::default(),
            names: Mutex::default(),
            state: Mutex::default(),
            accounts: tokio::sync::Mutex::default(),
        };
        fleet.follow(plan);
        fleet
    }

    /// Uses another plan of certificates.
    pub(crate) fn follow(&self, plan: &AcmePlan) {
        let authorities = plan.accounts.iter();
        let authorities = authorities.map(|(name, account)| {
            let digest = tutti_options::acme_names::digest(&account.directory);
            (name.clone(), digest)
        });
        let accounts = plan.certificates.iter();
        let accounts = accounts.map(|(bundle, wanted)| (bundle.clone(), wanted.account.clone()));
        *locked(&self.names) = Names {
            authorities: authorities.collect(),
            accounts: accounts.collect(),
        };
    }

    /// Returns the name of a document in the store.
    pub(crate) fn full(&self, name: &str) -> String {
        let names = locked(&self.names);
        let of_bundle = |bundle: &str| {
            let planned = names.accounts.get(bundle).map(String::as_str);
            planned
                .or_else(|| Some(tutti_options::acme_names::parts(bundle)?.0))
                .map(str::to_owned)
        };
        let account = match name.strip_prefix(ACCOUNT_DOCUMENT) {
            Some(account) => Some(account.to_owned()),
            None => name.strip_prefix(CERTIFICATE_DOCUMENT).and_then(of_bundle),
        };
        let authority = account.and_then(|account| names.authorities.get(&account).cloned());
        format!("{}.{name}", authority.unwrap_or_else(|| "none".to_owned()))
    }

    /// Returns the document with this name in the store, if it belongs to the authority that its account has here.
    pub(crate) fn short<'n>(&self, full: &'n str) -> Option<&'n str> {
        let (_, name) = full.split_once('.')?;
        (self.full(name) == full).then_some(name)
    }

    /// Returns the delay before a document is claimed, because others may claim it at the same moment.
    pub(crate) fn spread(name: &str) -> Duration {
        Duration::from_millis(RandomState::new().hash_one(name) % SPREAD)
    }

    /// Delivers an answer.
    pub(crate) fn answered(&self, id: u64, answer: SharedAnswer) {
        if let Some(sender) = locked(&self.asked).remove(&id) {
            // The request may have been given up.
            let _ = sender.send(answer);
        }
    }

    /// Records which nodes work on which documents.
    pub(crate) fn heard(&self, news: &SharedNews) {
        let mut state = locked(&self.state);
        state.owners = news.owners.iter().cloned().collect();
    }

    /// Returns another node that works on a document, as far as known.
    pub(crate) fn owner(&self, name: &str) -> Option<String> {
        let full = self.full(name);
        let state = locked(&self.state);
        let owner = state.owners.get(&full);
        owner.filter(|_| !state.ours.contains(&full)).cloned()
    }

    async fn ask(&self, request: SharedRequest) -> SharedAnswer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        locked(&self.asked).insert(id, sender);
        self.link.send(&FromAcme::Shared { id, request });
        let reason = match timeout(LONGEST_ANSWER, receiver).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => "the main process has ended",
            Err(_) => "the source process has not answered",
        };
        locked(&self.asked).remove(&id);
        SharedAnswer::Unavailable {
            reason: reason.to_owned(),
        }
    }

    /// Claims a document; returns its current text.
    pub(crate) async fn claim(&self, full: &str) -> Result<Option<String>, Unclaimed> {
        let name = full.to_owned();
        match self.ask(SharedRequest::Claim { name }).await {
            SharedAnswer::Claimed { text } => {
                locked(&self.state).ours.insert(full.to_owned());
                Ok(text)
            }
            SharedAnswer::Busy { node } => Err(Unclaimed::Busy(node)),
            other => Err(Unclaimed::Unavailable(why(other).message)),
        }
    }

    /// Releases a document.
    pub(crate) async fn release(&self, full: &str) {
        let name = full.to_owned();
        // Otherwise it expires.
        let _ = self.ask(SharedRequest::Release { name }).await;
        locked(&self.state).ours.remove(full);
    }

    /// Stores a claimed document, and its certificate.
    pub(crate) async fn write(
        &self,
        full: &str,
        text: Option<String>,
        chain: Option<Option<String>>,
    ) -> Result<(), OrderError> {
        let lock = full.to_owned();
        let request = SharedRequest::Write { lock, text, chain };
        done(self.ask(request).await)
    }

    /// Makes all nodes serve these challenge responses.
    pub(crate) async fn give(
        &self,
        full: &str,
        challenges: Vec<Challenge>,
    ) -> Result<(), OrderError> {
        let lock = full.to_owned();
        done(self.ask(SharedRequest::Give { lock, challenges }).await)
    }

    /// Returns the fault of this node's clock if it is far ahead of the others'.
    pub(crate) async fn clock_fault(&self) -> Result<Option<String>, OrderError> {
        match self.ask(SharedRequest::CheckClock).await {
            SharedAnswer::Text { text } => Ok(text),
            other => Err(why(other)),
        }
    }

    /// Returns the certificate and key of a document.
    pub(crate) async fn chain(&self, full: &str) -> Result<String, OrderError> {
        let name = full.to_owned();
        match self.ask(SharedRequest::Chain { name }).await {
            SharedAnswer::Text { text: Some(text) } => Ok(text),
            SharedAnswer::Text { text: None } => {
                Err(OrderError::new("the fleet's store no longer has it").with(Cure::Elsewhere))
            }
            other => Err(why(other)),
        }
    }
}

fn done(answer: SharedAnswer) -> Result<(), OrderError> {
    match answer {
        SharedAnswer::Done => Ok(()),
        other => Err(why(other)),
    }
}

/// Why something was not done. The order has not failed: another node continues it, or this one later.
fn why(answer: SharedAnswer) -> OrderError {
    let message = match answer {
        SharedAnswer::Lost => {
            "this node was unreachable for too long, and another may have taken over".to_owned()
        }
        SharedAnswer::Unavailable { reason } => reason,
        _ => "the source process sent an unexpected answer".to_owned(),
    };
    OrderError::new(message).with(Cure::Elsewhere)
}
