//! New documents, from the store to the controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_fleet_store::keys::{self, HEADS};
use tutti_fleet_store::records::{
    DocumentVersion, Rejection, Rollout, choose, digest, read_all, selectors,
};
use tutti_fleet_store::store::{Entries, FleetStore, FleetStoreError};
use tutti_log::{Level, Log};
use tutti_protocol::{FleetAnswer, FleetRequest};

use crate::certificates::Certificates;
use crate::controller::Controller;
use crate::state::{Node, Task};
use crate::watching::{Follower, SOON};

/// Applies the documents that the heads select.
pub(crate) struct Heads {
    pub(crate) node: Arc<Node>,
    pub(crate) store: Arc<dyn FleetStore>,
    pub(crate) controller: Arc<Controller>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) log: Log,
    /// The last line about a document that waits.
    pub(crate) said: Option<String>,
    /// The store was available at the last attempt; a change is logged.
    pub(crate) was_there: Option<bool>,
}

impl Follower for Heads {
    fn found(&mut self, server: String) {
        if self.was_there.replace(true) != Some(true) {
            let text = format!(
                "following the source at `{server}` as node `{}`",
                self.node.name
            );
            self.log.line(Level::Notice, &text);
        }
        self.node.found(server);
    }

    /// Applies the document that the heads select.
    async fn process(&mut self, entries: &Entries) -> Result<Option<Duration>, FleetStoreError> {
        let heads: BTreeMap<String, Rollout> = read_all(entries, HEADS);
        let node = &self.node;
        if let Some(selector) = unreadable(entries, &heads, &node.labels) {
            self.say_once(
                Level::Alert,
                format!(
                    "the current configuration stays in force: this version cannot read the roll-out for `{selector}`"
                ),
            );
            return Ok(None);
        }
        let chosen = choose(&heads, &node.name, &node.labels);
        let is_rolling = heads.values().any(|head| head.waits_for(&node.name));
        let (version, selector) = match node.want(chosen, is_rolling, Instant::now()) {
            Task::Nothing => return Ok(None),
            Task::Later(pause) => return Ok(Some(pause)),
            Task::Apply(version, selector) => (version, selector),
        };
        let key = keys::document(version.generation);
        let mut found = self.store.list(&key).await?;
        let Some(text) = found.remove(&key) else {
            let reason = "the store does not have this document";
            return Ok(Some(self.refuse(version, "", reason)));
        };
        if digest(&text) != version.digest {
            let reason =
                "the store's document for this generation is not the one that was rolled out";
            return Ok(Some(self.refuse(version, "", reason)));
        }
        // It may need a certificate that was stored with it.
        if let Some(reason) = self.certificates.bring_now().await? {
            self.say_once(
                Level::Info,
                format!(
                    "generation {} waits for certificates of the fleet: {reason}",
                    version.generation
                ),
            );
            return Ok(Some(SOON));
        }
        Ok(self.apply(version, selector, text).await)
    }

    fn lost(&mut self, error: FleetStoreError) {
        self.node.lost(&error.message);
        if self.was_there.replace(false) != Some(false) {
            let text = format!(
                "cannot reach the configuration source; the current configuration stays in force: {}",
                error.message
            );
            self.log.line(Level::Warn, &text);
        }
    }
}

impl Heads {
    /// Applies a document. Returns the pause after which to try again.
    async fn apply(
        &mut self,
        version: DocumentVersion,
        selector: String,
        text: String,
    ) -> Option<Duration> {
        let node = &self.node;
        if let Some(kept) = node.attempts() {
            self.controller.keep(kept);
        }
        let request = FleetRequest::Apply {
            generation: version.generation,
            selector: selector.clone(),
            text,
        };
        match self.controller.ask(request).await {
            FleetAnswer::Applied { form, router_ends } => {
                let generation = version.generation;
                let kept = node.applied(version, selector, form, router_ends);
                self.controller.keep(kept);
                let text = format!("generation {generation} of the fleet is in force");
                self.log.line(Level::Notice, &text);
                self.said = None;
                None
            }
            FleetAnswer::Refused { pointer, reason } => {
                if let Some(kept) = node.attempt_refused() {
                    self.controller.keep(kept);
                }
                Some(self.refuse(version, &pointer, &reason))
            }
            FleetAnswer::Unavailable { reason } => {
                let text = format!("generation {} waits: {reason}", version.generation);
                self.say_once(Level::Info, text);
                Some(SOON)
            }
            FleetAnswer::Seen { .. } | FleetAnswer::Noted | FleetAnswer::Purged => Some(SOON),
        }
    }

    /// Logs why the current document stays, unless that is known: it is tried again and again.
    fn say_once(&mut self, level: Level, text: String) {
        if self.said.as_ref() != Some(&text) {
            self.log.line(level, &text);
            self.said = Some(text);
        }
    }

    /// Records that a document cannot be used. Returns the pause before it is tried again.
    fn refuse(&self, version: DocumentVersion, pointer: &str, reason: &str) -> Duration {
        let text = format!(
            "generation {} of the fleet cannot be used, nothing has changed: {reason}",
            version.generation
        );
        let refusal = Rejection {
            version,
            pointer: pointer.to_owned(),
            reason: reason.to_owned(),
        };
        let (is_news, pause) = self.node.refused(refusal, Instant::now());
        // A repetition is not news.
        let level = if is_news { Level::Alert } else { Level::Info };
        self.log.line(level, &text);
        pause
    }
}

/// Returns the selector of a head that this version cannot read, if it may be the one that applies to a node with these
/// labels: the heads after it must not apply in its place.
fn unreadable(
    entries: &Entries,
    heads: &BTreeMap<String, Rollout>,
    labels: &BTreeMap<String, String>,
) -> Option<String> {
    let is_there = |selector: &String| entries.contains_key(&keys::head(selector));
    selectors(labels).find(|selector| is_there(selector) && !heads.contains_key(selector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_cannot_be_read_is_not_passed_over() {
        let labels = BTreeMap::from([("role".to_owned(), "web".to_owned())]);
        let none = BTreeMap::new();
        let head = |selector: &str| (keys::head(selector), "{\"later\": 1}".to_owned());
        let of_others = Entries::from([head("role=db")]);
        assert_eq!(unreadable(&of_others, &none, &labels), None);
        for selector in ["role=web", "all"] {
            let entries = Entries::from([head(selector)]);
            let found = unreadable(&entries, &none, &labels);
            assert_eq!(found.as_deref(), Some(selector));
        }
    }
}
