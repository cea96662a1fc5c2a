//! The number of nodes, which is what each divides the fleet's limits by, and the router's news of it.
//!
//! Nodes are those whose answers are in the store. It must never happen that a node takes itself for alone because the store is away, or
//! because it is back before the answers of the others are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tutti_fleet_store::keys::NODES;
use tutti_fleet_store::store::FleetStore;
use tutti_protocol::{FleetAnswer, FleetRequest, FleetText};

use crate::controller::Controller;
use crate::state::Node;
use tutti_dialer::Backoff;

/// Between two words to the router where nothing has changed: another may have begun.
const NEWS: Duration = Duration::from_secs(5);

/// The pause after a word that no router has taken.
const AGAIN: Duration = Duration::from_secs(1);

/// A number of nodes that does not fall because of the store.
#[derive(Debug)]
struct Count {
    known: Option<u32>,
    /// Since when the store is there.
    since: Option<Instant>,
}

impl Count {
    fn new(known: Option<u32>) -> Count {
        Count { known, since: None }
    }

    /// The store has this number. Within the first life of answers it may have lost some that are about to come again.
    fn seen(&mut self, number: u64, now: Instant, life: Duration) -> u32 {
        let number = u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let since = *self.since.get_or_insert(now);
        let is_over = now.duration_since(since) >= life;
        let known = self.known.filter(|known| *known > number && !is_over);
        *self.known.insert(known.unwrap_or(number))
    }

    /// The store is not there.
    fn lost(&mut self) {
        self.since = None;
    }
}

/// Counts nodes for ever.
pub(crate) async fn count(
    node: Arc<Node>,
    store: Arc<dyn FleetStore>,
    controller: Arc<Controller>,
    life: Duration,
) {
    let mut count = Count::new(node.nodes());
    let mut backoff = Backoff::new(life / 3);
    loop {
        let pause = match store.count(NODES).await {
            Ok(number) => {
                backoff.reset();
                let nodes = count.seen(number, Instant::now(), life);
                if node.nodes() != Some(nodes) {
                    node.has_nodes(nodes);
                    controller.keep_beside(FleetText::Nodes, nodes.to_string());
                }
                life / 3
            }
            Err(_) => {
                count.lost();
                backoff.after_failure()
            }
        };
        sleep(pause).await;
    }
}

/// Tells the router how the fleet is, for ever.
pub(crate) async fn tell(node: Arc<Node>, controller: Arc<Controller>) {
    let mut changes = node.changes();
    let mut told = None;
    loop {
        changes.borrow_and_update();
        let standing = node.standing();
        let now = Instant::now();
        let is_told =
            told.is_some_and(|(known, at)| known == standing && now.duration_since(at) < NEWS);
        if !is_told {
            let request = FleetRequest::Standing { standing };
            told = match controller.ask(request).await {
                FleetAnswer::Noted => Some((standing, now)),
                _ => None,
            };
        }
        match told {
            // The sender is the node's.
            Some(_) => drop(timeout(NEWS, changes.changed()).await),
            None => sleep(AGAIN).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_falls_only_when_the_store_has_been_there_for_a_while() {
        let life = Duration::from_secs(15);
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut count = Count::new(Some(3));
        // The answers of the others are not there yet.
        assert_eq!(count.seen(1, at(0), life), 3);
        assert_eq!(count.seen(2, at(10), life), 3);
        assert_eq!(count.seen(2, at(15), life), 2);
        assert_eq!(count.seen(4, at(16), life), 4);
        assert_eq!(count.seen(1, at(17), life), 1);
        count.seen(4, at(18), life);
        // Away, and back.
        count.lost();
        assert_eq!(count.seen(0, at(100), life), 4);
        assert_eq!(count.seen(5, at(101), life), 5);
        assert_eq!(count.seen(0, at(115), life), 1);
    }
}
