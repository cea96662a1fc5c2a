//! Automatic certificates that the fleet shares: documents in the store, each of which one node at a time works on.
//!
//! The acme process sends requests with numbers and names; the store and the keys are here. Each document has a lock
//! that lives as long as this node prolongs it, and data is written only while the lock still belongs to this node.
//! Must never happen: that a node that was stopped for a while overwrites what another has done since.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::sleep;
use tutti_fleet_store::keys::{ANSWERS, CHAINS, LOCKS, NODES, STATE};
use tutti_fleet_store::locks::{Lock, LockAttempt, Locks};
use tutti_fleet_store::now;
use tutti_fleet_store::records::{NodeReport, digest, read_all};
use tutti_fleet_store::seal::{SealError, SealingKeys};
use tutti_fleet_store::store::{FleetStoreError, StoreEntry};
use tutti_protocol::{Challenge, FromFleet, SharedAnswer, SharedRequest};

use crate::controller::Link;
use crate::state::Node;

/// Time for other nodes to serve a challenge response, before the authority is asked to validate. A hanging node delays
/// an order no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Time between two checks whether they do.
const LOOK: Duration = Duration::from_millis(200);

/// A clock that is ahead of all others by more seconds than this is wrong. Nodes date their answers anew every ten minutes.
const MOST_AHEAD: u64 = 86_400;

/// Longest name of a document.
const LONGEST_NAME: usize = 512;

/// Maximum documents that this node works on.
const MOST_LOCKS: usize = 100;

/// A session of the acme process: an increasing number, and `None` while there is none.
pub(crate) type Session = Option<u64>;

/// Carries out requests of the acme process.
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) store: Arc<dyn Locks>,
    pub(crate) keys: Arc<SealingKeys>,
    pub(crate) node: Arc<Node>,
    /// The time by which a lock outlives its owner.
    life: Duration,
    /// The locks of this node, by the names of the documents.
    locks: Mutex<BTreeMap<String, Arc<Lock>>>,
    sessions: watch::Sender<Session>,
}

/// Why a request was not carried out.
enum Undone {
    Lost,
    Unavailable(String),
}

impl From<FleetStoreError> for Undone {
    fn from(error: FleetStoreError) -> Undone {
        Undone::Unavailable(format!("the fleet's store: {error}"))
    }
}

impl From<SealError> for Undone {
    fn from(error: SealError) -> Undone {
        Undone::Unavailable(format!("data in the fleet's store: {error}"))
    }
}

impl Shared {
    pub(crate) fn new(
        link: Arc<Link>,
        store: Arc<dyn Locks>,
        keys: Arc<SealingKeys>,
        node: Arc<Node>,
        life: Duration,
    ) -> Shared {
        Shared {
            link,
            store,
            keys,
            node,
            life,
            locks: Mutex::default(),
            sessions: watch::Sender::new(None),
        }
    }

    fn locks(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Lock>>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a channel that reports sessions.
    pub(crate) fn sessions(&self) -> watch::Receiver<Session> {
        self.sessions.subscribe()
    }

    /// A new acme process has started, or the last has ended. The documents that the former process had claimed are
    /// released, so that other nodes can continue.
    pub(crate) fn begin_session(self: &Arc<Self>, number: u64, is_there: bool) {
        self.sessions.send_replace(is_there.then_some(number));
        for lock in std::mem::take(&mut *self.locks()).into_values() {
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                // Otherwise it expires.
                let _ = shared.store.release(&lock).await;
            });
        }
    }

    /// Carries out a request, and answers it.
    pub(crate) async fn obey(self: Arc<Self>, id: u64, request: SharedRequest) {
        let done = match request {
            SharedRequest::Claim { name } => self.claim(&name).await,
            SharedRequest::Release { name } => self.release(&name).await,
            SharedRequest::Write { lock, text, chain } => self.write(&lock, text, chain).await,
            SharedRequest::Give { lock, challenges } => self.give(&lock, &challenges).await,
            SharedRequest::CheckClock => self.check_clock().await,
            SharedRequest::Chain { name } => self.chain(&name).await,
        };
        let answer = done.unwrap_or_else(|undone| match undone {
            Undone::Lost => SharedAnswer::Lost,
            Undone::Unavailable(reason) => SharedAnswer::Unavailable { reason },
        });
        self.link.send(&FromFleet::Shared { id, answer });
    }

    async fn claim(self: &Arc<Self>, name: &str) -> Result<SharedAnswer, Undone> {
        let is_name = !name.is_empty() && name.len() <= LONGEST_NAME;
        let (is_ours, count) = {
            let locks = self.locks();
            (locks.contains_key(name), locks.len())
        };
        if !is_name || (!is_ours && count >= MOST_LOCKS) {
            let text = "too many documents at once, or not the name of a document";
            return Err(Undone::Unavailable(text.to_owned()));
        }
        if !is_ours {
            let session = *self.sessions.borrow();
            let key = format!("{LOCKS}{name}");
            let lock = match self.store.claim(&key, &self.node.name).await? {
                LockAttempt::Ours(lock) => Arc::new(lock),
                LockAttempt::Theirs(node) => return Ok(SharedAnswer::Busy { node }),
            };
            if !self.note(name, &lock, session) {
                // The requester has ended in the meantime.
                self.store.release(&lock).await?;
                return Err(Undone::Lost);
            }
            tokio::spawn(Arc::clone(self).keep(name.to_owned(), lock));
        }
        // Read after the claim: as the former owner has left it.
        let key = format!("{STATE}{name}");
        let read = match self.store.list(&key).await {
            Ok(mut found) => found
                .remove(&key)
                .map(|sealed| self.keys.open(&key, &sealed)),
            Err(error) => {
                self.release(name).await?;
                return Err(error.into());
            }
        };
        match read.transpose() {
            Ok(text) => Ok(SharedAnswer::Claimed { text }),
            Err(error) => {
                self.release(name).await?;
                Err(error.into())
            }
        }
    }

    /// Records a lock for the session that has requested it; false if that is over.
    fn note(&self, name: &str, lock: &Arc<Lock>, session: Session) -> bool {
        let mut locks = self.locks();
        // Under the guard: a session that ends now releases what is recorded.
        if *self.sessions.borrow() != session {
            return false;
        }
        locks.insert(name.to_owned(), Arc::clone(lock));
        true
    }

    /// Prolongs a lock until it is released or lost.
    async fn keep(self: Arc<Self>, name: String, lock: Arc<Lock>) {
        let is_ours = |shared: &Shared| {
            let locks = shared.locks();
            locks
                .get(&name)
                .is_some_and(|ours| Arc::ptr_eq(ours, &lock))
        };
        let mut last = Instant::now();
        let mut pause = self.life / 3;
        loop {
            sleep(pause).await;
            if !is_ours(&self) {
                return;
            }
            let begun = Instant::now();
            let is_kept = match self.store.keep(&lock).await {
                Ok(is_kept) => is_kept,
                // It is unknown: this is retried for as long as the lock may live.
                Err(_) => {
                    pause = self.life / 10;
                    if last.elapsed() < self.life {
                        continue;
                    }
                    false
                }
            };
            if !is_kept {
                if is_ours(&self) {
                    self.locks().remove(&name);
                }
                return;
            }
            last = begun;
            pause = self.life / 3;
        }
    }

    async fn release(&self, name: &str) -> Result<SharedAnswer, Undone> {
        let lock = self.locks().remove(name);
        if let Some(lock) = lock {
            // Otherwise it expires.
            let _ = self.store.release(&lock).await;
        }
        Ok(SharedAnswer::Done)
    }

    /// Changes the store if this node still owns the lock.
    async fn change(
        &self,
        name: &str,
        lasting: &[StoreEntry],
        passing: &[StoreEntry],
    ) -> Result<(), Undone> {
        let lock = self.locks().get(name).cloned();
        let lock = lock.ok_or(Undone::Lost)?;
        if self.store.write(&lock, lasting, passing).await? {
            return Ok(());
        }
        self.locks().remove(name);
        Err(Undone::Lost)
    }

    fn sealed(&self, key: String, text: Option<String>) -> Result<StoreEntry, SealError> {
        let sealed = text.map(|text| self.keys.seal(&key, &text)).transpose()?;
        Ok((key, sealed))
    }

    async fn write(
        &self,
        name: &str,
        text: Option<String>,
        chain: Option<Option<String>>,
    ) -> Result<SharedAnswer, Undone> {
        let mut entries = vec![self.sealed(format!("{STATE}{name}"), text)?];
        if let Some(chain) = chain {
            entries.push(self.sealed(format!("{CHAINS}{name}"), chain)?);
        }
        self.change(name, &entries, &[]).await?;
        Ok(SharedAnswer::Done)
    }

    async fn chain(&self, name: &str) -> Result<SharedAnswer, Undone> {
        let key = format!("{CHAINS}{name}");
        let sealed = self.store.list(&key).await?.remove(&key);
        let text = sealed.map(|sealed| self.keys.open(&key, &sealed));
        Ok(SharedAnswer::Text {
            text: text.transpose()?,
        })
    }

    async fn check_clock(&self) -> Result<SharedAnswer, Undone> {
        let answers = self.store.list(NODES).await?;
        let answers: BTreeMap<String, NodeReport> = read_all(&answers, NODES);
        Ok(SharedAnswer::Text {
            text: clock_fault(&answers, &self.node.name, now()),
        })
    }

    /// Makes all nodes serve these responses, and waits until they do.
    async fn give(&self, name: &str, challenges: &[Challenge]) -> Result<SharedAnswer, Undone> {
        let key = format!("{ANSWERS}{name}");
        if challenges.is_empty() {
            self.change(name, &[(key, None)], &[]).await?;
            return Ok(SharedAnswer::Done);
        }
        let text = serde_json::to_string(challenges);
        let text = text.map_err(|error| Undone::Unavailable(error.to_string()))?;
        let entry = self.sealed(key, Some(text))?;
        let mark = entry.1.as_deref().map(digest).unwrap_or_default();
        self.change(name, &[], &[entry]).await?;
        let end = Instant::now() + LONGEST_WAIT;
        while Instant::now() < end {
            // The responses are stored: a store that is unavailable for a moment does not remove them.
            if let Ok(answers) = self.store.list(NODES).await {
                let answers: BTreeMap<String, NodeReport> = read_all(&answers, NODES);
                // This node must be among them: its answer may not have been stored yet.
                let is_here = answers.contains_key(&self.node.name);
                let mut all = answers.values();
                if is_here && all.all(|answer| answer.certificates.is_ready(&mark)) {
                    break;
                }
            }
            sleep(LOOK).await;
        }
        Ok(SharedAnswer::Done)
    }
}

/// Returns why the clock of the node `own` must be wrong, compared with the answers of the others.
fn clock_fault(answers: &BTreeMap<String, NodeReport>, own: &str, now: u64) -> Option<String> {
    let others = answers.values().filter(|answer| answer.name != own);
    let newest = others.max_by_key(|answer| answer.time)?;
    let ahead = now.saturating_sub(newest.time);
    (ahead > MOST_AHEAD).then(|| {
        format!(
            "the clock of this node is {} hours ahead of that of the node `{}`",
            ahead / 3600,
            newest.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_of_all_others_is_wrong() {
        let answers = |times: &[u64]| {
            let answers = times.iter().enumerate().map(|(number, time)| {
                let name = format!("n{number}");
                let answer = NodeReport {
                    name: name.clone(),
                    time: *time,
                    ..NodeReport::default()
                };
                (name, answer)
            });
            answers.collect::<BTreeMap<_, _>>()
        };
        let now = 100 * 86_400;
        let fault = |times: &[u64]| clock_fault(&answers(times), "n0", now);
        // The own answer proves nothing, and a node alone cannot know.
        assert_eq!(fault(&[now]), None);
        assert_eq!(fault(&[now, now - 3600, 0]), None);
        assert_eq!(fault(&[now, now + 86_400]), None);
        let fault = fault(&[now, now - 49 * 3600, 0]).unwrap();
        assert!(
            fault.contains("49 hours ahead") && fault.contains("`n1`"),
            "{fault}"
        );
    }
}
