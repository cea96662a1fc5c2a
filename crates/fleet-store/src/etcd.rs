//! etcd as a store: several members, any of which may be dead, hang, or be restored from an older copy.
//!
//! One connection at a time. A failed call is repeated with the next member, once with each. Followed keys are listed
//! again with each connection: no revision is remembered beyond a watch, since a restored store has others.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tutti_dialer::{BoxFuture, random_below};

use crate::etcd_client::{
    ClusterOptions, EtcdClient, EtcdError, KeepAlive, KeyChange, Operation, Pair, Watch,
};
use crate::store::{Entries, FleetStore, FleetStoreError, Following, LeasedEntries, StoreEntry};

/// Maximum events that are reported together.
const MOST_AT_ONCE: usize = 1000;

/// Maximum bytes of events that are reported together: ten of etcd's largest requests.
const MOST_BYTES_AT_ONCE: usize = 16 << 20;

/// Maximum bytes of followed keys: fifty documents of etcd's largest request, which is more than a fleet keeps.
const MOST_FOLLOWED: usize = 128 << 20;

/// The longest stored text: etcd accepts requests of 1.5 MiB.
pub const LONGEST_TEXT: usize = 1 << 20;

/// A store in an etcd.
pub struct EtcdStore {
    options: ClusterOptions,
    prefix: String,
    /// The time by which a held text outlives its owner.
    life: Duration,
    state: Mutex<MemberConnection>,
    /// Held while one call connects: others wait for its connection instead of opening another, each of which costs
    /// etcd a password check.
    connecting: tokio::sync::Mutex<()>,
}

/// The connection, and the next member to try.
struct MemberConnection {
    client: Option<EtcdClient>,
    next: usize,
}

impl From<EtcdError> for FleetStoreError {
    fn from(error: EtcdError) -> FleetStoreError {
        FleetStoreError {
            is_final: error.is_final(),
            message: error.to_string(),
        }
    }
}

impl EtcdStore {
    /// Creates a store whose names are below a prefix, and whose held texts have this lifetime. It starts with a random
    /// member, so that the nodes of a fleet are distributed.
    pub fn new(options: ClusterOptions, prefix: &str, life: Duration) -> EtcdStore {
        let members = u64::try_from(options.endpoints.len()).unwrap_or(1);
        let next = usize::try_from(random_below(members)).unwrap_or_default();
        EtcdStore {
            options,
            prefix: prefix.to_owned(),
            life,
            state: Mutex::new(MemberConnection { client: None, next }),
            connecting: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// Returns the name of a key, without the prefix.
    fn name(&self, key: &[u8]) -> Option<String> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(&self.prefix).map(str::to_owned)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, MemberConnection> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current connection, or one to the next member.
    async fn client(&self) -> Result<EtcdClient, EtcdError> {
        let connected = || self.state().client.clone();
        if let Some(client) = connected() {
            return Ok(client);
        }
        let _turn = self.connecting.lock().await;
        if let Some(client) = connected() {
            return Ok(client);
        }
        let next = self.state().next;
        let endpoints = self.options.endpoints.iter();
        let endpoint = endpoints
            .cycle()
            .nth(next % self.options.endpoints.len().max(1));
        let none = || EtcdError::Unusable("there is no endpoint".to_owned());
        let endpoint = endpoint.ok_or_else(none)?;
        match EtcdClient::connect(endpoint, &self.options).await {
            Ok(client) => {
                self.state().client = Some(client.clone());
                Ok(client)
            }
            Err(error) => {
                let endpoint = endpoint.to_string();
                self.leave(&endpoint);
                Err(at(&endpoint, error))
            }
        }
    }

    /// Makes the next call use another member than this, unless it does already.
    fn leave(&self, endpoint: &str) {
        let mut state = self.state();
        let connected = state.client.as_ref();
        if connected.is_some_and(|client| client.endpoint().to_string() != endpoint) {
            return;
        }
        state.client = None;
        state.next = state.next.wrapping_add(1);
    }

    /// Makes a call with one member after the other, until it succeeds.
    pub(crate) async fn with<T, F>(
        &self,
        call: impl Fn(EtcdClient) -> F,
    ) -> Result<T, FleetStoreError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let mut failure = None;
        // One more than there are members: an existing connection may be broken.
        for _ in 0..=self.options.endpoints.len() {
            let client = match self.client().await {
                Ok(client) => client,
                Err(error) if error.is_final() => return Err(error.into()),
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            let endpoint = client.endpoint().to_string();
            match call(client).await {
                Ok(done) => return Ok(done),
                Err(error) => {
                    // Even after a rejection: tokens expire.
                    self.leave(&endpoint);
                    let is_final = error.is_final();
                    failure = Some(at(&endpoint, error));
                    if is_final {
                        break;
                    }
                }
            }
        }
        let failure = failure.map(FleetStoreError::from);
        Err(failure.unwrap_or_else(|| FleetStoreError {
            message: "there is no endpoint".to_owned(),
            is_final: true,
        }))
    }

    /// Stores a text until a lease ends, in place of its owner's `former` one, or of any text if there is none. False:
    /// another owner has stored one in the meantime.
    async fn hold_one(
        self: &Arc<Self>,
        (name, text): (&str, &str),
        (owner, former): (&str, Option<&str>),
        lease: i64,
    ) -> Result<bool, FleetStoreError> {
        let entry = (name.to_owned(), Some(text.to_owned()));
        let Some(former) = former else {
            let key = self.key(name);
            let (key, text) = (key.as_slice(), text.as_bytes());
            let put = |client: EtcdClient| async move { client.put(key, text, lease).await };
            return self.with(put).await.map(|()| true);
        };
        // It is absent if the lease has ended.
        for expected in [Some(former), None] {
            let operation = vec![self.operation(&entry, Some(lease))];
            if self.change_if((name, expected), operation).await? {
                return Ok(true);
            }
        }
        let found = self.list(name).await?.remove(name);
        match found {
            // An earlier attempt may have succeeded, with only its answer lost; or the store is an older copy of itself.
            Some(found) if found.contains(owner) => {
                let operation = vec![self.operation(&entry, Some(lease))];
                self.change_if((name, Some(&found)), operation).await
            }
            _ => Ok(false),
        }
    }

    /// Returns how long a held text outlives its owner.
    pub(crate) fn life(&self) -> Duration {
        self.life
    }

    /// True if a name has this text.
    pub(crate) async fn has(
        self: &Arc<Self>,
        (name, text): &StoreEntry,
    ) -> Result<bool, FleetStoreError> {
        let found = self.list(name).await?;
        Ok(found.get(name) == text.as_ref())
    }

    fn entries(&self, pairs: Vec<Pair>) -> Entries {
        let entries = pairs.into_iter().filter_map(|pair| {
            // A value that is not text must not look like one that is absent: its reader rejects it.
            let text = String::from_utf8(pair.value)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            Some((self.name(&pair.key)?, text))
        });
        entries.collect()
    }
}

/// Creates an error that names the member.
fn at(endpoint: &str, error: EtcdError) -> EtcdError {
    match error {
        EtcdError::Connection(text) => EtcdError::Connection(format!("`{endpoint}`: {text}")),
        EtcdError::Foreign(text) => EtcdError::Foreign(format!("`{endpoint}`: {text}")),
        EtcdError::Silent(seconds) => {
            EtcdError::Connection(format!("`{endpoint}`: no answer within {seconds} seconds"))
        }
        other => other,
    }
}

impl FleetStore for Arc<EtcdStore> {
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Entries, FleetStoreError>> {
        Box::pin(async move {
            let key = self.key(prefix);
            let key = key.as_slice();
            let listed = self.with(|client| async move { client.list(key).await });
            let (pairs, _) = listed.await?;
            Ok(self.entries(pairs))
        })
    }

    fn names<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, FleetStoreError>> {
        Box::pin(async move {
            let key = self.key(prefix);
            let key = key.as_slice();
            let keys = self.with(|client| async move { client.keys(key).await });
            let keys = keys.await?;
            Ok(keys.iter().filter_map(|key| self.name(key)).collect())
        })
    }

    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, FleetStoreError>> {
        Box::pin(async move {
            let key = self.key(prefix);
            let key = key.as_slice();
            self.with(|client| async move { client.count(key).await })
                .await
        })
    }

    fn swap<'a>(
        &'a self,
        expected: &'a [StoreEntry],
        wanted: &'a [StoreEntry],
    ) -> BoxFuture<'a, Result<bool, FleetStoreError>> {
        Box::pin(async move {
            let bytes = |text: &Option<String>| text.clone().map(String::into_bytes);
            let compared = expected
                .iter()
                .map(|(name, text)| (self.key(name), bytes(text)));
            let compared: Vec<_> = compared.collect();
            let operations = wanted.iter().map(|(name, text)| match bytes(text) {
                Some(value) => Operation::Put(Pair {
                    key: self.key(name),
                    value,
                }),
                None => Operation::Delete(self.key(name)),
            });
            let operations: Vec<_> = operations.collect();
            let (compared, operations) = (compared.as_slice(), operations.as_slice());
            let swap = |client: EtcdClient| async move {
                client.swap(compared, operations.to_vec()).await
            };
            if self.with(swap).await? {
                return Ok(true);
            }
            // An earlier attempt may have succeeded, with only its answer lost.
            match wanted.first() {
                Some(first) if first.1.is_some() => self.has(first).await,
                _ => Ok(false),
            }
        })
    }

    fn follow<'a>(
        &'a self,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Following>, FleetStoreError>> {
        Box::pin(async move {
            let key = self.key(prefix);
            let key = key.as_slice();
            let begin = |client: EtcdClient| async move {
                let (pairs, revision) = client.list(key).await?;
                let watch = client.watch(key, revision + 1).await?;
                Ok::<_, EtcdError>((pairs, watch, client.endpoint().to_string()))
            };
            let (pairs, watch, endpoint) = self.with(begin).await?;
            let following = EtcdFollowing {
                entries: self.entries(pairs),
                store: Arc::clone(self),
                endpoint,
                watch,
                is_changed: true,
            };
            Ok(Box::new(following) as Box<dyn Following>)
        })
    }

    fn hold<'a>(
        &'a self,
        texts: &'a Entries,
        held: &'a mut LeasedEntries,
    ) -> BoxFuture<'a, Result<(), FleetStoreError>> {
        Box::pin(async move {
            if let Some(number) = held.number {
                let kept = self.with(|client| async move { client.keep_alive(number).await });
                if kept.await? == KeepAlive::Lost {
                    held.number = None;
                }
            }
            if held.number.is_some() && held.texts == *texts {
                return Ok(());
            }
            let number = match held.number {
                Some(number) => number,
                None => {
                    held.texts.clear();
                    let life = self.life;
                    let granted = self.with(|client| async move { client.grant(life).await });
                    *held.number.insert(granted.await?)
                }
            };
            let mut stored = texts.clone();
            for (name, text) in texts {
                debug_assert!(
                    text.contains(&held.owner),
                    "`{name}` without its owner would look like a text of another one"
                );
                if held.texts.get(name) == Some(text) {
                    continue;
                }
                let former = held.written.get(name).map(String::as_str);
                let owner = (held.owner.as_str(), former);
                match self.hold_one((name, text), owner, number).await? {
                    true => drop(held.written.insert(name.clone(), text.clone())),
                    false => drop(stored.remove(name)),
                }
            }
            held.is_contested = stored.len() < texts.len();
            let gone = held.texts.keys().filter(|name| !texts.contains_key(*name));
            let gone: Vec<StoreEntry> = gone.map(|name| (name.clone(), None)).collect();
            if !gone.is_empty() {
                self.swap(&[], &gone).await?;
            }
            held.texts = stored;
            Ok(())
        })
    }

    fn withdraw<'a>(
        &'a self,
        held: &'a mut LeasedEntries,
    ) -> BoxFuture<'a, Result<(), FleetStoreError>> {
        Box::pin(async move {
            if let Some(number) = held.number {
                self.revoke(number).await?;
                *held = LeasedEntries::of(&std::mem::take(&mut held.owner));
            }
            Ok(())
        })
    }

    fn local_address(&self) -> Option<IpAddr> {
        let state = self.state();
        state.client.as_ref().and_then(EtcdClient::local_address)
    }
}

/// Keys that are listed and watched.
struct EtcdFollowing {
    store: Arc<EtcdStore>,
    endpoint: String,
    entries: Entries,
    watch: Watch,
    /// The entries have changed since the caller received them: the call that changed them was cancelled, or there was
    /// none yet.
    is_changed: bool,
}

impl EtcdFollowing {
    /// Applies the next events, with those that have arrived in the meantime: a thousand nodes may answer at once, and
    /// followers read all answers each time.
    async fn update(&mut self) -> Result<(), EtcdError> {
        let events = self.watch.next().await?;
        let mut bytes = self.apply(events)?;
        for _ in 0..MOST_AT_ONCE {
            if bytes > MOST_BYTES_AT_ONCE {
                break;
            }
            match timeout(Duration::ZERO, self.watch.next()).await {
                Ok(more) => bytes += self.apply(more?)?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Applies events, and returns their bytes. Must be called before the next wait: the caller may cancel it, and the
    /// watch does not report them again.
    fn apply(&mut self, events: Vec<KeyChange>) -> Result<usize, EtcdError> {
        self.is_changed = true;
        let bytes = events.iter().map(size).sum();
        for event in events {
            match event {
                KeyChange::Put(pair) => {
                    let entries = self.store.entries(vec![pair]);
                    self.entries.extend(entries);
                }
                KeyChange::Delete(key) => {
                    if let Some(name) = self.store.name(&key) {
                        self.entries.remove(&name);
                    }
                }
            }
        }
        let entries = self.entries.iter();
        let all: usize = entries.map(|(name, text)| name.len() + text.len()).sum();
        match all > MOST_FOLLOWED {
            true => Err(EtcdError::Foreign(format!(
                "there is more than {MOST_FOLLOWED} bytes to follow"
            ))),
            false => Ok(bytes),
        }
    }
}

impl Following for EtcdFollowing {
    fn server(&self) -> String {
        self.endpoint.clone()
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Entries, FleetStoreError>> {
        Box::pin(async move {
            if !self.is_changed
                && let Err(error) = self.update().await
            {
                // The cause of the watch's end may affect other calls, too.
                self.store.leave(&self.endpoint);
                return Err(error.into());
            }
            self.is_changed = false;
            Ok(self.entries.clone())
        })
    }
}

/// Returns the bytes of an event.
fn size(event: &KeyChange) -> usize {
    match event {
        KeyChange::Put(pair) => pair.key.len() + pair.value.len(),
        KeyChange::Delete(key) => key.len(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::etcd_client::hostile_member::{
        begun, client, member_that_loses_an_answer, news, options, pair, run, stream,
    };

    #[test]
    fn a_text_that_was_stored_without_an_answer_is_not_contested() {
        run(async {
            let endpoint = member_that_loses_an_answer(b"t/a").await;
            let options = options(&endpoint);
            let store = Arc::new(EtcdStore::new(options, "t/", Duration::from_secs(15)));
            let mut held = LeasedEntries::of("owner");
            for number in 1..=3 {
                let text = format!("text {number} of owner");
                let texts = Entries::from([("a".to_owned(), text)]);
                store.hold(&texts, &mut held).await.unwrap();
                assert!(!held.is_contested(), "{texts:?}");
                assert_eq!(store.list("").await.unwrap(), texts);
            }
        });
    }

    #[test]
    fn an_event_survives_a_caller_that_stops_waiting() {
        run(async {
            let said = [begun(), news(0, Some(pair(b"t/a")))];
            let client = client(stream(&said)).await;
            let watch = client.watch(b"t/", 9).await.unwrap();
            let options = options(client.endpoint());
            let mut following = EtcdFollowing {
                store: Arc::new(EtcdStore::new(options, "t/", Duration::from_secs(15))),
                endpoint: String::new(),
                entries: Entries::new(),
                watch,
                is_changed: false,
            };
            // Each call is polled once and dropped, as by a caller whose time is over.
            let polled = async {
                loop {
                    let mut next = following.next();
                    let polled = poll_fn(|context| Poll::Ready(next.as_mut().poll(context)));
                    if let Poll::Ready(entries) = polled.await {
                        return entries;
                    }
                    drop(next);
                    tokio::task::yield_now().await;
                }
            };
            let entries = timeout(Duration::from_secs(20), polled).await.unwrap();
            assert_eq!(entries.unwrap().keys().collect::<Vec<_>>(), ["a"]);
        });
    }
}
