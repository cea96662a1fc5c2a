//! New documents, from the store to the controller.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tutti_fleet_store::keys::{self, HEADS};
use tutti_fleet_store::records::{Head, Refusal, State, Version, choose, digest, read_all};
use tutti_fleet_store::store::{Entries, Store, StoreError};
use tutti_log::{Level, Log};
use tutti_protocol::{FleetAnswer, FleetRequest};

use crate::controller::Controller;
use crate::pause::Pauses;
use crate::state::{Node, Task};

/// The pause before a document is brought again that could not be looked at.
const AGAIN: Duration = Duration::from_secs(1);

/// Everything that following needs.
struct Follower {
    node: Arc<Node>,
    store: Arc<dyn Store>,
    controller: Arc<Controller>,
    log: Log,
}

/// Follows the heads for ever.
pub(crate) async fn follow(
    node: Arc<Node>,
    store: Arc<dyn Store>,
    controller: Arc<Controller>,
    log: Log,
    longest_pause: Duration,
) {
    let mut pauses = Pauses::new(longest_pause);
    let follower = Follower {
        node,
        store,
        controller,
        log,
    };
    let mut was_there = None;
    loop {
        let Err(error) = follower.follow_once(&mut pauses, &mut was_there).await;
        follower.node.lost(&error.message);
        if was_there != Some(false) {
            was_there = Some(false);
            let text = format!(
                "the source cannot be reached, the configuration stays as it is: {}",
                error.message
            );
            follower.log.line(Level::Warn, &text);
        }
        sleep(pauses.after_failure()).await;
    }
}

impl Follower {
    /// Follows the heads until that is not possible any more.
    async fn follow_once(
        &self,
        pauses: &mut Pauses,
        was_there: &mut Option<bool>,
    ) -> Result<Infallible, StoreError> {
        let mut following = self.store.follow(HEADS).await?;
        let mut entries = following.next().await?;
        pauses.begin_anew();
        let endpoint = self.store.connected_to();
        if *was_there != Some(true) {
            *was_there = Some(true);
            let at = endpoint.as_deref().unwrap_or_default();
            let text = format!(
                "following the source at `{at}` as node `{}`",
                self.node.name
            );
            self.log.line(Level::Notice, &text);
        }
        self.node.found(endpoint);
        loop {
            let is_done = self.bring(&entries).await?;
            entries = match is_done {
                true => following.next().await?,
                // Not dropped while something has come: it would be lost with the future.
                false => match timeout(AGAIN, following.next()).await {
                    Ok(next) => next?,
                    Err(_) => entries,
                },
            };
        }
    }

    /// Brings the node to what the heads say; false if that is to be tried again.
    async fn bring(&self, entries: &Entries) -> Result<bool, StoreError> {
        let heads: BTreeMap<String, Head> = read_all(entries, HEADS);
        let node = &self.node;
        let chosen = choose(&heads, &node.name, &node.labels);
        let is_rolling = heads.values().any(|head| head.state == State::Rolling);
        let Task::Apply(version, selector) = node.want(chosen, is_rolling) else {
            return Ok(true);
        };
        let key = keys::document(version.generation);
        let mut found = self.store.list(&key).await?;
        let Some(text) = found.remove(&key) else {
            let text = format!(
                "the store has no document of generation {}",
                version.generation
            );
            self.log.line(Level::Warn, &text);
            return Ok(false);
        };
        if digest(&text) != version.digest {
            let reason = "the store has another document of this generation than the one that was rolled out";
            self.refuse(version, "", reason);
            return Ok(true);
        }
        let request = FleetRequest::Apply {
            generation: version.generation,
            selector: selector.clone(),
            text,
        };
        match self.controller.ask(request).await {
            FleetAnswer::Applied { form } => {
                let generation = version.generation;
                let kept = node.applied(version, selector, form);
                self.controller.keep(kept);
                let text = format!("generation {generation} of the fleet is in force");
                self.log.line(Level::Notice, &text);
                Ok(true)
            }
            FleetAnswer::Refused { pointer, reason } => {
                self.refuse(version, &pointer, &reason);
                Ok(true)
            }
            FleetAnswer::Unavailable { reason } => {
                let text = format!("generation {} waits: {reason}", version.generation);
                self.log.line(Level::Info, &text);
                Ok(false)
            }
            FleetAnswer::Seen { .. } | FleetAnswer::Noted | FleetAnswer::Purged => Ok(false),
        }
    }

    fn refuse(&self, version: Version, pointer: &str, reason: &str) {
        let text = format!(
            "generation {} of the fleet cannot be used, nothing has changed: {reason}",
            version.generation
        );
        self.log.line(Level::Alert, &text);
        self.node.refused(Refusal {
            version,
            pointer: pointer.to_owned(),
            reason: reason.to_owned(),
        });
    }
}
