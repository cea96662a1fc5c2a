//! Locks in etcd: keys under a lease.

use std::sync::Arc;

use tutti_dialer::BoxFuture;

use crate::etcd::EtcdStore;
use crate::etcd_client::{EtcdClient, KeepAlive, Operation, Pair};
use crate::locks::{Lock, LockAttempt, Locks, Owner};
use crate::store::{FleetStore, FleetStoreError, StoreEntry};

impl EtcdStore {
    pub(crate) fn operation(&self, (name, text): &StoreEntry, lease: Option<i64>) -> Operation {
        let key = self.key(name);
        match (text, lease) {
            (None, _) => Operation::Delete(key),
            (Some(text), None) => Operation::Put(pair(key, text)),
            (Some(text), Some(lease)) => Operation::Hold(pair(key, text), lease),
        }
    }

    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), FleetStoreError> {
        self.with(|client| async move { client.revoke(lease).await })
            .await
    }

    /// Makes changes if a key has this text (`None`: if there is no such key).
    pub(crate) async fn change_if(
        &self,
        expected: (&str, Option<&str>),
        operations: Vec<Operation>,
    ) -> Result<bool, FleetStoreError> {
        let (name, text) = expected;
        let compared = [(self.key(name), text.map(|text| text.as_bytes().to_vec()))];
        let (compared, operations) = (&compared, operations.as_slice());
        let swap =
            |client: EtcdClient| async move { client.swap(compared, operations.to_vec()).await };
        self.with(swap).await
    }
}

fn pair(key: Vec<u8>, text: &str) -> Pair {
    Pair {
        key,
        value: text.as_bytes().to_vec(),
    }
}

impl Locks for Arc<EtcdStore> {
    fn claim<'a>(
        &'a self,
        name: &'a str,
        node: &'a str,
    ) -> BoxFuture<'a, Result<LockAttempt, FleetStoreError>> {
        Box::pin(async move {
            // Most claims in a large fleet end here, without a lease.
            let mut found = self.list(name).await?;
            if let Some(text) = found.remove(name) {
                return Ok(LockAttempt::Theirs(Owner::node_of(&text)));
            }
            let life = self.life();
            let lease = self
                .with(|client| async move { client.grant(life).await })
                .await?;
            let text = Owner::new(node).to_text();
            let entry = (name.to_owned(), Some(text.clone()));
            let operations = vec![self.operation(&entry, Some(lease))];
            let made = match self.change_if((name, None), operations).await {
                Ok(true) => Ok(true),
                // An earlier attempt may have succeeded, with only its answer lost.
                Ok(false) => self.has(&entry).await,
                Err(error) => Err(error),
            };
            if let Ok(true) = made {
                return Ok(LockAttempt::Ours(Lock {
                    name: name.to_owned(),
                    text,
                    number: lease,
                }));
            }
            // If this fails, the lease expires, and the lock with it.
            let _ = self.revoke(lease).await;
            made?;
            let owner = self.list(name).await?.remove(name);
            let owner = owner.map(|text| Owner::node_of(&text));
            Ok(LockAttempt::Theirs(
                owner.unwrap_or_else(|| "unknown".to_owned()),
            ))
        })
    }

    fn keep<'a>(&'a self, lock: &'a Lock) -> BoxFuture<'a, Result<bool, FleetStoreError>> {
        Box::pin(async move {
            let lease = lock.number;
            let kept = self
                .with(|client| async move { client.keep_alive(lease).await })
                .await?;
            Ok(kept == KeepAlive::Held)
        })
    }

    fn release<'a>(&'a self, lock: &'a Lock) -> BoxFuture<'a, Result<(), FleetStoreError>> {
        Box::pin(async move { self.revoke(lock.number).await })
    }

    fn write<'a>(
        &'a self,
        lock: &'a Lock,
        lasting: &'a [StoreEntry],
        passing: &'a [StoreEntry],
    ) -> BoxFuture<'a, Result<bool, FleetStoreError>> {
        Box::pin(async move {
            let operations = lasting
                .iter()
                .map(|entry| self.operation(entry, None))
                .chain(
                    passing
                        .iter()
                        .map(|entry| self.operation(entry, Some(lock.number))),
                );
            let operations = operations.collect();
            let expected = (lock.name.as_str(), Some(lock.text.as_str()));
            if self.change_if(expected, operations).await? {
                return Ok(true);
            }
            match lasting.iter().chain(passing).next() {
                Some(first) if first.1.is_some() => self.has(first).await,
                _ => Ok(false),
            }
        })
    }
}
