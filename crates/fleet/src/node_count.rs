//! The number of nodes, by which each divides the fleet's limits, for the router.
//!
//! Nodes are those with an answer in the store. Must never happen: that a node considers itself alone because the store
//! is unavailable, or because it is back before the answers of the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tutti_dialer::Backoff;
use tutti_fleet_store::keys::NODES;
use tutti_fleet_store::store::FleetStore;
use tutti_protocol::{FleetAnswer, FleetRequest, FleetText};

use crate::controller::Controller;
use crate::state::Node;

/// Time between two reports to the router without changes: another router may have started.
const NEWS: Duration = Duration::from_secs(5);

/// The pause after a report that no router has received.
const AGAIN: Duration = Duration::from_secs(1);

/// A number of nodes that does not fall because of the store.
#[derive(Debug)]
struct Count {
    known: Option<u32>,
    /// Since when the store has been available.
    since: Option<Instant>,
}

impl Count {
    fn new(known: Option<u32>) -> Count {
        Count { known, since: None }
    }

    /// The store has this number. Within the first lifetime of answers it may have lost some that are about to return.
    fn seen(&mut self, number: u64, now: Instant, life: Duration) -> u32 {
        let number = u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let since = *self.since.get_or_insert(now);
        let is_over = now.duration_since(since) >= life;
        let known = self.known.filter(|known| *known > number && !is_over);
        *self.known.insert(known.unwrap_or(number))
    }

    /// The store is not available.
    fn lost(&mut self) {
        self.since = None;
    }
}

/// Counts nodes forever.
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

/// Reports the state of the fleet to the router, forever.
pub(crate) async fn report(node: Arc<Node>, controller: Arc<Controller>) {
    let mut changes = node.changes();
    let mut reported = None;
    loop {
        changes.borrow_and_update();
        let standing = node.standing();
        let now = Instant::now();
        let is_known =
            reported.is_some_and(|(known, at)| known == standing && now.duration_since(at) < NEWS);
        if !is_known {
            let request = FleetRequest::Standing { standing };
            reported = match controller.ask(request).await {
                FleetAnswer::Noted => Some((standing, now)),
                _ => None,
            };
        }
        match reported {
            // The node owns the sender.
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
        // The answers of the others are not stored yet.
        assert_eq!(count.seen(1, at(0), life), 3);
        assert_eq!(count.seen(2, at(10), life), 3);
        assert_eq!(count.seen(2, at(15), life), 2);
        assert_eq!(count.seen(4, at(16), life), 4);
        assert_eq!(count.seen(1, at(17), life), 1);
        count.seen(4, at(18), life);
        // Unavailable, and available again.
        count.lost();
        assert_eq!(count.seen(0, at(100), life), 4);
        assert_eq!(count.seen(5, at(101), life), 5);
        assert_eq!(count.seen(0, at(115), life), 1);
    }
}
