//! Events of keys as they arrive.
//!
//! A watch can hang silently if the member is stopped, or the network is interrupted. So a silent watch asks for its
//! progress, and fails if there is no answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tutti_options::visible;

use super::calls::{Calls, Stream};
use super::error::EtcdError;
use super::messages::{
    DELETE, PUT, WatchAnswer, WatchCreate, WatchEvent, WatchOrder, WatchProgress, WatchRequest,
};
use super::pairs::{Pair, end_of};

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// It has this value now.
    Put(Pair),
    /// The key was deleted.
    Delete(Vec<u8>),
}

/// A watch in progress.
pub struct Watch {
    stream: Stream,
    patience: Duration,
    /// The time of its last message, or of the question for its progress. Not of one call: callers that wait for less
    /// time than the patience would never notice that it is silent.
    heard_at: Instant,
    /// It was asked for its progress since its last message.
    is_asked: bool,
    revision: i64,
    cluster: u64,
    prefix: Vec<u8>,
    // Keeps the connection open as long as the watch.
    _calls: Arc<Calls>,
}

impl Watch {
    pub(crate) async fn begin(
        calls: &Arc<Calls>,
        prefix: &[u8],
        start: i64,
    ) -> Result<Watch, EtcdError> {
        let create = WatchRequest {
            order: Some(WatchOrder::Create(WatchCreate {
                key: prefix.to_vec(),
                end: end_of(prefix),
                start,
                progress: true,
            })),
        };
        let beginning = async {
            let mut stream = calls.open("etcdserverpb.Watch/Watch").await?;
            stream.say(&create)?;
            let first = stream.next::<WatchAnswer>().await?;
            let ended = || EtcdError::Ended("it has not begun".to_owned());
            let first = first.ok_or_else(ended)?;
            if !(first.created || first.canceled) || !first.events.is_empty() {
                let text = "a watch begins with something else than its beginning";
                return Err(EtcdError::Foreign(text.to_owned()));
            }
            Ok::<_, EtcdError>((stream, first))
        };
        let (stream, first) = calls.in_time(beginning).await?;
        let mut watch = Watch {
            stream,
            patience: calls.patience(),
            heard_at: Instant::now(),
            is_asked: false,
            revision: 0,
            prefix: prefix.to_vec(),
            cluster: first.header.clone().unwrap_or_default().cluster,
            _calls: Arc::clone(calls),
        };
        watch.accept(&first)?;
        Ok(watch)
    }

    /// Returns the next events. Cancel-safe: the next call continues.
    ///
    /// # Errors
    /// It has ended or hangs: the keys must be listed again.
    pub async fn next(&mut self) -> Result<Vec<KeyChange>, EtcdError> {
        let progress = WatchRequest {
            order: Some(WatchOrder::Progress(WatchProgress {})),
        };
        loop {
            let until = self.heard_at + self.patience;
            let heard = timeout_at(until, self.stream.next::<WatchAnswer>()).await;
            self.heard_at = Instant::now();
            let answer = match heard {
                Ok(answer) => answer?,
                Err(_) if self.is_asked => {
                    return Err(EtcdError::Silent(self.patience.as_secs_f64()));
                }
                Err(_) => {
                    self.stream.say(&progress)?;
                    self.is_asked = true;
                    continue;
                }
            };
            let Some(answer) = answer else {
                return Err(EtcdError::Ended("etcd has closed it".to_owned()));
            };
            self.is_asked = false;
            self.accept(&answer)?;
            if !answer.events.is_empty() {
                let events = answer.events.into_iter();
                return events.map(|one| event(one, &self.prefix)).collect();
            }
        }
    }

    /// Checks that the watch continues as before.
    fn accept(&mut self, answer: &WatchAnswer) -> Result<(), EtcdError> {
        if answer.compacted > 0 {
            return Err(EtcdError::Ended(
                "the revisions it needs are compacted".to_owned(),
            ));
        }
        if answer.canceled {
            return Err(EtcdError::Ended(visible(&answer.reason)));
        }
        let header = answer.header.clone().unwrap_or_default();
        // A store that was restored from a copy has other revisions, or is another cluster.
        if header.revision < self.revision || header.cluster != self.cluster {
            return Err(EtcdError::Ended(
                "this is not the store that it was".to_owned(),
            ));
        }
        self.revision = header.revision;
        Ok(())
    }
}

/// Reads an event. An unreadable one ends the watch: its key must be listed again.
fn event(event: WatchEvent, prefix: &[u8]) -> Result<KeyChange, EtcdError> {
    let foreign = |what: &str| EtcdError::Foreign(what.to_owned());
    let pair = event.pair.ok_or_else(|| foreign("an event has no key"))?;
    if !pair.key.starts_with(prefix) {
        return Err(foreign("an event is about a key that is not watched"));
    }
    match event.kind {
        DELETE => Ok(KeyChange::Delete(pair.key)),
        PUT => Ok(KeyChange::Put(Pair {
            key: pair.key,
            value: pair.value,
        })),
        _ => Err(foreign("an event is of no type that there is")),
    }
}
