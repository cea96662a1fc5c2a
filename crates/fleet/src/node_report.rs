//! The words of this node: to the fleet, by an answer in the store that goes with it, and to `/status`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tutti_dialer::Backoff;
use tutti_fleet_store::keys;
use tutti_fleet_store::now;
use tutti_fleet_store::records::NodeReport;
use tutti_fleet_store::store::{Entries, FleetStore, LeasedEntries};
use tutti_log::{Level, Log};
use tutti_options::source::LiveNode;
use tutti_protocol::{FleetAnswer, FleetRequest};

use crate::controller::Controller;
use crate::state::{Counts, Node};

/// Between two looks while a roll-out is under way.
const ROLLING: Duration = Duration::from_secs(1);

/// Between two words to `/status`: a controller that was started anew knows nothing.
const NEWS: Duration = Duration::from_secs(5);

/// After this node's address is gone, others may still take so long to hear of it, and to end with what they have sent on the way.
const SPREAD: Duration = Duration::from_millis(500);

/// While nothing but counts changes, and nobody waits for them, they are told this often.
const COUNTS: Duration = Duration::from_secs(30);

/// Tells the controller the news, for ever.
pub(crate) async fn tell_news(node: Arc<Node>, controller: Arc<Controller>) {
    let mut changes = node.changes();
    loop {
        changes.borrow_and_update();
        let news = Box::new(node.news());
        controller.ask(FleetRequest::News { news }).await;
        // The sender is the node's.
        let _ = timeout(NEWS, changes.changed()).await;
    }
}

/// Keeps this node's answer and its address in the store, for ever.
pub(crate) async fn hold(
    node: Arc<Node>,
    store: Arc<dyn FleetStore>,
    controller: Arc<Controller>,
    life: Duration,
    log: Log,
) {
    let mut held = LeasedEntries::default();
    let mut found = 0;
    let mut said = Said::default();
    let mut changes = node.changes();
    let mut backoff = Backoff::new(life / 3);
    let (mut is_told, mut has_left) = (false, false);
    loop {
        changes.borrow_and_update();
        if node.times_found() != found {
            found = node.times_found();
            held.say_again();
        }
        if !node.is_leaving() {
            // A router that hangs is main's to replace: the node is there all the same.
            let _ = timeout(life / 6, look(&node, &controller)).await;
        }
        let text = said.next(node.answer(), node.is_rolling(), Instant::now());
        let was_placed = node.is_placed();
        let place = node.place(store.local_address());
        let is_held = store
            .hold(&texts(&node, text, place.as_ref()), &mut held)
            .await;
        if node.is_leaving() && place.is_none() && !std::mem::replace(&mut has_left, true) {
            let spread = match is_held {
                Ok(()) if was_placed => SPREAD,
                // Nobody has to be told, or can be.
                _ => Duration::ZERO,
            };
            tokio::spawn(leave(Arc::clone(&controller), spread));
        }
        let pause = match is_held {
            Ok(()) => {
                backoff.reset();
                node.placed(place.as_ref().map(|place| place.address));
                let now = node.place(store.local_address());
                if now.is_none() && !node.is_leaving() && !std::mem::replace(&mut is_told, true) {
                    let text = "other nodes are not told an address of this one, which reaches the store from its own machine: `address` of the source says one";
                    log.line(Level::Info, text);
                }
                match node.is_rolling() {
                    _ if now != place => Duration::ZERO,
                    true => ROLLING.min(life / 3),
                    false => life / 3,
                }
            }
            // Whoever follows the heads tells of it.
            Err(_) => backoff.after_failure(),
        };
        let _ = timeout(pause, changes.changed()).await;
    }
}

/// The texts of this node in the store.
fn texts(node: &Node, answer: String, place: Option<&LiveNode>) -> Entries {
    let mut texts = Entries::from([(keys::node(&node.name), answer)]);
    if let Some(place) = place {
        // Strings and an address: this cannot fail.
        let text = serde_json::to_string(place).unwrap_or_default();
        texts.insert(keys::address(&node.name), text);
    }
    texts
}

async fn leave(controller: Arc<Controller>, spread: Duration) {
    tokio::time::sleep(spread).await;
    controller.tell_left();
}

async fn look(node: &Node, controller: &Controller) {
    if let FleetAnswer::Seen {
        form,
        requests,
        errors,
        start_failures,
    } = controller.ask(FleetRequest::Look).await
    {
        let counts = Counts {
            requests,
            errors,
            start_failures,
        };
        node.seen(counts, &form);
    }
}

/// The last answer.
#[derive(Default)]
struct Said {
    answer: Option<NodeReport>,
    text: String,
    at: Option<Instant>,
}

impl Said {
    /// The text of an answer: the last one's, unless there is news in it.
    fn next(&mut self, answer: NodeReport, is_rolling: bool, moment: Instant) -> String {
        let is_same = self.answer.as_ref().is_some_and(|before| {
            let with_counts_of_before = NodeReport {
                health: before.health,
                ..answer.clone()
            };
            let is_recent = self.at.is_some_and(|at| moment.duration_since(at) < COUNTS);
            *before == answer || (*before == with_counts_of_before && is_recent && !is_rolling)
        });
        if !is_same {
            let told = NodeReport {
                time: now(),
                ..answer.clone()
            };
            self.text = serde_json::to_string(&told).unwrap_or_default();
            self.answer = Some(answer);
            self.at = Some(moment);
        }
        self.text.clone()
    }
}

#[cfg(test)]
mod tests {
    use tutti_fleet_store::records::NodeHealth;

    use super::*;

    #[test]
    fn counts_alone_are_told_seldom_unless_somebody_waits() {
        let answer = |requests| NodeReport {
            health: NodeHealth {
                requests,
                ..NodeHealth::default()
            },
            ..NodeReport::default()
        };
        let mut said = Said::default();
        let begin = Instant::now();
        let first = said.next(answer(1), false, begin);
        assert_eq!(said.next(answer(2), false, begin), first);
        let second = said.next(answer(2), true, begin);
        assert_ne!(second, first);
        let later = begin + COUNTS;
        assert_ne!(said.next(answer(3), false, later), second);
        let differs = NodeReport {
            differs: true,
            ..answer(3)
        };
        assert!(said.next(differs, false, later).contains("true"));
    }
}
