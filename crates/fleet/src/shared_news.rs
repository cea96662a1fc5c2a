//! Changes of the documents that the fleet shares, for the acme process.

use std::sync::Arc;
use std::time::Duration;

use tutti_fleet_store::keys::{ACME, LOCKS, STATE};
use tutti_fleet_store::locks::Owner;
use tutti_fleet_store::seal::SealingKeys;
use tutti_fleet_store::store::{Entries, FleetStoreError};
use tutti_protocol::{FromFleet, SharedNews};

use crate::shared::Shared;
use crate::watching::{Follower, follow};

/// Sends the changes forever, while there is an acme process.
pub(crate) async fn send_changes(shared: Arc<Shared>, longest_pause: Duration) {
    let mut sessions = shared.sessions();
    loop {
        let session = *sessions.borrow_and_update();
        let changes = Changes {
            shared: &shared,
            sent: None,
        };
        let following = async {
            match session {
                Some(_) => follow(&*shared.store, ACME, longest_pause, changes).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = following => {}
            changed = sessions.changed() => {
                // The sender belongs to the observed object.
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends all documents, and then each change.
struct Changes<'a> {
    shared: &'a Shared,
    sent: Option<Entries>,
}

impl Changes<'_> {
    fn send(&self, news: SharedNews) {
        self.shared.link.send(&FromFleet::SharedNews { news });
    }
}

impl Follower for Changes<'_> {
    fn found(&mut self, _server: String) {
        self.sent = None;
    }

    async fn process(&mut self, entries: &Entries) -> Result<Option<Duration>, FleetStoreError> {
        let (news, known) = news(&self.shared.keys, self.sent.as_ref(), entries.clone());
        self.send(news);
        self.sent = Some(known);
        Ok(None)
    }

    fn lost(&mut self, error: FleetStoreError) {
        self.send(SharedNews {
            error: Some(format!("the fleet's store: {error}")),
            ..SharedNews::default()
        });
    }
}

/// Returns the difference between the documents that were sent and the current ones, and the documents known
/// afterwards. A document that cannot be decrypted counts as unknown, and is reported each time.
fn news(keys: &SealingKeys, sent: Option<&Entries>, mut entries: Entries) -> (SharedNews, Entries) {
    let mut news = SharedNews {
        is_whole: sent.is_none(),
        ..SharedNews::default()
    };
    let mut unopened = Vec::new();
    let none = Entries::new();
    let before = sent.unwrap_or(&none);
    for (key, text) in &entries {
        if let Some(name) = key.strip_prefix(LOCKS) {
            news.owners.push((name.to_owned(), Owner::node_of(text)));
            continue;
        }
        let Some(name) = key.strip_prefix(STATE) else {
            continue;
        };
        if before.get(key) == Some(text) {
            continue;
        }
        match keys.open(key, text) {
            Ok(text) => news.documents.push((name.to_owned(), Some(text))),
            Err(error) => {
                // Without it no action may start: it may contain an order.
                news.error = Some(format!(
                    "the document `{name}` in the fleet's store: {error}"
                ));
                unopened.push(key.clone());
            }
        }
    }
    for key in unopened {
        entries.remove(&key);
    }
    let gone = before.keys().filter(|key| !entries.contains_key(*key));
    let gone = gone.filter_map(|key| key.strip_prefix(STATE));
    let gone = gone.map(|name| (name.to_owned(), None));
    news.documents.extend(gone);
    (news, entries)
}

#[cfg(test)]
mod tests {
    use tutti_fleet_store::seal::new_key;

    use super::*;

    #[test]
    fn changes_are_sent_once_and_unreadable_entries_each_time() {
        let keys = SealingKeys::read(&new_key().unwrap()).unwrap();
        let other = SealingKeys::read(&new_key().unwrap()).unwrap();
        let key = |name: &str| format!("{STATE}{name}");
        let sealed = |keys: &SealingKeys, name: &str, text: &str| {
            (key(name), keys.seal(&key(name), text).unwrap())
        };
        let lock = (format!("{LOCKS}a"), Owner::new("web-1").to_text());
        let first = Entries::from([sealed(&keys, "a", "1"), lock]);
        let (sent, known) = news(&keys, None, first.clone());
        assert!(sent.is_whole && sent.error.is_none());
        assert_eq!(sent.documents, [("a".to_owned(), Some("1".to_owned()))]);
        assert_eq!(sent.owners, [("a".to_owned(), "web-1".to_owned())]);
        let mut second = first.clone();
        second.extend([sealed(&other, "b", "2")]);
        let (sent, known) = news(&keys, Some(&known), second.clone());
        assert!(sent.error.is_some() && sent.documents.is_empty() && !sent.is_whole);
        let (sent, known) = news(&keys, Some(&known), second);
        assert!(sent.error.is_some());
        let (sent, _) = news(&keys, Some(&known), Entries::new());
        assert_eq!(sent.documents, [("a".to_owned(), None)]);
        assert!(sent.error.is_none() && sent.owners.is_empty());
    }
}
