//! Keys, transactions and leases of one member.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::calls::Calls;
use super::error::EtcdError;
use super::messages::{
    Authenticate, AuthenticateAnswer, CREATE, Compaction, CompactionAnswer, Compare, Compared,
    DeleteRange, EQUAL, LeaseGrant, LeaseGrantAnswer, LeaseKeepAlive, LeaseKeepAliveAnswer,
    LeaseRevoke, LeaseRevokeAnswer, Put, PutAnswer, Range, RangeAnswer, Request, RequestOp, Txn,
    TxnAnswer, VALUE,
};
use super::pairs::Pair;
use super::transport::{ClusterOptions, EtcdEndpoint, Transport};
use super::watch::Watch;

/// Minimum time for a member to check a password. That is slow on purpose (bcrypt, 0.1 seconds of a processor by
/// default), and continues after the caller has given up: many callers that retry would keep it from answering at all.
const PATIENCE_FOR_PASSWORDS: Duration = Duration::from_secs(20);

/// The error for an answer that etcd never gives.
fn foreign(what: &str) -> EtcdError {
    EtcdError::Foreign(what.to_owned())
}

/// A change of a key in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sets this value.
    Put(Pair),
    /// Sets this value until a lease ends.
    Hold(Pair, i64),
    /// Deletes the key.
    Delete(Vec<u8>),
}

/// The result of a keep-alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// The lease continues.
    Held,
    /// The lease has ended, with all its keys.
    Lost,
}

/// A connection to a member. Clones share it.
#[derive(Clone)]
pub struct EtcdClient {
    calls: Arc<Calls>,
    endpoint: EtcdEndpoint,
    local: Option<IpAddr>,
}

impl EtcdClient {
    /// Connects to a member, and authenticates.
    ///
    /// # Errors
    /// It cannot be reached, is not trusted, or does not know the user.
    pub async fn connect(
        endpoint: &EtcdEndpoint,
        options: &ClusterOptions,
    ) -> Result<EtcdClient, EtcdError> {
        let connecting = Transport::connect(endpoint, options);
        let transport = match timeout(options.patience, connecting).await {
            Ok(connected) => connected?,
            Err(_) => return Err(EtcdError::Silent(options.patience.as_secs_f64())),
        };
        let local = transport.local;
        let mut calls = Calls::new(transport, endpoint, options.patience);
        if let Some((name, password)) = &options.user {
            let question = Authenticate {
                name: name.clone(),
                password: password.clone(),
            };
            let method = "etcdserverpb.Auth/Authenticate";
            calls.set_patience(options.patience.max(PATIENCE_FOR_PASSWORDS));
            let answer: AuthenticateAnswer = calls.call(method, &question).await?;
            calls.authorize(&answer.token)?;
            calls.set_patience(options.patience);
        }
        Ok(EtcdClient {
            calls: Arc::new(calls),
            endpoint: endpoint.clone(),
            local,
        })
    }

    /// The connected member.
    pub fn endpoint(&self) -> &EtcdEndpoint {
        &self.endpoint
    }

    /// Returns the local address of the connection.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.local
    }

    /// Returns all keys with this prefix, and their revision.
    pub async fn list(&self, prefix: &[u8]) -> Result<(Vec<Pair>, i64), EtcdError> {
        self.range(Range::of(prefix)).await
    }

    /// Returns the names of all keys with this prefix.
    pub async fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, EtcdError> {
        let question = Range {
            keys_only: true,
            ..Range::of(prefix)
        };
        let (pairs, _) = self.range(question).await?;
        Ok(pairs.into_iter().map(|pair| pair.key).collect())
    }

    /// Returns the number of keys with this prefix.
    pub async fn count(&self, prefix: &[u8]) -> Result<u64, EtcdError> {
        let question = Range {
            keys_only: true,
            count_only: true,
            ..Range::of(prefix)
        };
        let answer: RangeAnswer = self.calls.call("etcdserverpb.KV/Range", &question).await?;
        u64::try_from(answer.count).map_err(|_| foreign("a number of keys is negative"))
    }

    async fn range(&self, question: Range) -> Result<(Vec<Pair>, i64), EtcdError> {
        let answer: RangeAnswer = self.calls.call("etcdserverpb.KV/Range", &question).await?;
        let revision = answer.header.unwrap_or_default().revision;
        // The next revision is requested later.
        if revision < 1 || revision == i64::MAX {
            return Err(foreign("a revision is out of range"));
        }
        if answer.more || usize::try_from(answer.count) != Ok(answer.pairs.len()) {
            return Err(foreign("a list is not whole"));
        }
        if !answer
            .pairs
            .iter()
            .all(|pair| pair.key.starts_with(&question.key))
        {
            return Err(foreign("a list has keys that were not requested"));
        }
        let pairs = answer.pairs.into_iter().map(|pair| Pair {
            key: pair.key,
            value: pair.value,
        });
        Ok((pairs.collect(), revision))
    }

    /// Makes all changes if each key has the expected value (`None`: no such key), otherwise none; returns whether they
    /// were made.
    ///
    /// # Errors
    /// As for every call. It is then unknown whether they were made.
    pub async fn swap(
        &self,
        expected: &[(Vec<u8>, Option<Vec<u8>>)],
        operations: Vec<Operation>,
    ) -> Result<bool, EtcdError> {
        let compare = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| Compare {
            result: EQUAL,
            target: if value.is_some() { VALUE } else { CREATE },
            key: key.clone(),
            to: Some(match value {
                Some(value) => Compared::Value(value.clone()),
                None => Compared::Create(0),
            }),
        };
        let put = |pair: Pair, lease| {
            Request::Put(Put {
                key: pair.key,
                value: pair.value,
                lease,
            })
        };
        let operation = |operation| RequestOp {
            request: Some(match operation {
                Operation::Put(pair) => put(pair, 0),
                Operation::Hold(pair, lease) => put(pair, lease),
                Operation::Delete(key) => Request::Delete(DeleteRange { key }),
            }),
        };
        let question = Txn {
            compare: expected.iter().map(compare).collect(),
            success: operations.into_iter().map(operation).collect(),
        };
        let answer: TxnAnswer = self.calls.call("etcdserverpb.KV/Txn", &question).await?;
        Ok(answer.succeeded)
    }

    /// Sets a value that ends with the lease.
    ///
    /// # Errors
    /// As for every call; also if there is no such lease.
    pub async fn put(&self, key: &[u8], value: &[u8], lease: i64) -> Result<(), EtcdError> {
        let question = Put {
            key: key.to_vec(),
            value: value.to_vec(),
            lease,
        };
        let PutAnswer {} = self.calls.call("etcdserverpb.KV/Put", &question).await?;
        Ok(())
    }

    /// Creates a lease of this length.
    pub async fn grant(&self, length: Duration) -> Result<i64, EtcdError> {
        let question = LeaseGrant {
            seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX).max(1),
        };
        let method = "etcdserverpb.Lease/LeaseGrant";
        let answer: LeaseGrantAnswer = self.calls.call(method, &question).await?;
        match answer.error.as_str() {
            // A value without a lease would stay forever.
            "" if answer.id == 0 => Err(foreign("a lease has no id")),
            "" => Ok(answer.id),
            error => Err(EtcdError::Foreign(error.to_owned())),
        }
    }

    /// Prolongs a lease.
    pub async fn keep_alive(&self, lease: i64) -> Result<KeepAlive, EtcdError> {
        let question = LeaseKeepAlive { id: lease };
        let method = "etcdserverpb.Lease/LeaseKeepAlive";
        let exchange = async {
            let stream = self.calls.open(method).await;
            let mut stream = stream?;
            stream.say(&question)?;
            stream.next::<LeaseKeepAliveAnswer>().await
        };
        match self.calls.in_time(exchange).await? {
            Some(answer) if answer.id != lease => Err(foreign("an answer is about another lease")),
            Some(answer) if answer.seconds > 0 => Ok(KeepAlive::Held),
            _ => Ok(KeepAlive::Lost),
        }
    }

    /// Ends a lease, with all its keys. One that has ended already is no error.
    pub async fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        let question = LeaseRevoke { id: lease };
        let method = "etcdserverpb.Lease/LeaseRevoke";
        let revoked = self.calls.call::<_, LeaseRevokeAnswer>(method, &question);
        match revoked.await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes all revisions before this one.
    pub async fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        let question = Compaction { revision };
        let CompactionAnswer {} = self
            .calls
            .call("etcdserverpb.KV/Compact", &question)
            .await?;
        Ok(())
    }

    /// Watches all keys with this prefix, from a revision on.
    pub async fn watch(&self, prefix: &[u8], revision: i64) -> Result<Watch, EtcdError> {
        Watch::begin(&self.calls, prefix, revision).await
    }
}
