//! The reports of this node: to the fleet, as an answer in the store that is removed with it, and to `/status`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::{sleep, timeout};
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

/// Time between two samples while a roll-out is in progress.
const ROLLING: Duration = Duration::from_secs(1);

/// Time between two reports to `/status`: a restarted controller knows nothing.
const NEWS: Duration = Duration::from_secs(5);

/// After this node's address is removed, others may still take this long to notice, and to finish requests that are on
/// the way.
const SPREAD: Duration = Duration::from_millis(500);

/// Longest time for the store to remove this node's answer and address when the server stops. Main waits for half a
/// second more than this and [`SPREAD`].
const LONGEST_LEAVE: Duration = Duration::from_secs(2);

/// The pause before that is retried.
const LEAVE_AGAIN: Duration = Duration::from_millis(100);

/// An answer is dated anew after this time: other nodes compare their clocks with it, and this one notices another with its
/// name.
const DATED: Duration = Duration::from_secs(600);

/// While only counters change, and no roll-out waits for them, they are reported this often.
const COUNTS: Duration = Duration::from_secs(30);

/// Sends the state to the controller, forever.
pub(crate) async fn send_news(node: Arc<Node>, controller: Arc<Controller>) {
    let mut changes = node.changes();
    loop {
        changes.borrow_and_update();
        let news = Box::new(node.news());
        controller.ask(FleetRequest::News { news }).await;
        // The node owns the sender.
        let _ = timeout(NEWS, changes.changed()).await;
    }
}

/// Keeps this node's answer and its address in the store until the server stops.
pub(crate) async fn hold(
    node: Arc<Node>,
    store: Arc<dyn FleetStore>,
    controller: Arc<Controller>,
    life: Duration,
    log: Log,
) {
    let mut held = LeasedEntries::of(&node.process);
    let mut found = 0;
    let mut said = Said::default();
    let mut changes = node.changes();
    let mut backoff = Backoff::new(life / 3);
    let mut is_sent = false;
    let mut failures = 0;
    let mut contested = None;
    loop {
        changes.borrow_and_update();
        if node.is_leaving() {
            return leave(&node, &*store, &controller, &mut held).await;
        }
        if node.times_found() != found {
            found = node.times_found();
            held.say_again();
        }
        // Replacing a hanging router is main's task: the node is online anyway.
        look(&node, &controller, life / 6).await;
        let text = said.next(node.answer(), node.is_rolling(), Instant::now());
        let place = node.place(store.local_address());
        let is_held = store
            .hold(&texts(&node, text, place.as_ref()), &mut held)
            .await;
        let pause = match is_held {
            Ok(()) => {
                backoff.reset();
                failures = 0;
                let since = held
                    .is_contested()
                    .then(|| contested.unwrap_or_else(Instant::now));
                contested = since;
                // A former process of this node, if it still was there, is gone by then.
                match since.filter(|since| since.elapsed() > life) {
                    Some(_) => {
                        let text = format!(
                            "another server of the fleet has the name `{}` and reports in place of this one; hint: give each node a `name` of its own",
                            node.name
                        );
                        if node.unheld(Some(&text)) {
                            log.line(Level::Alert, &text);
                        }
                    }
                    None => drop(node.unheld(None)),
                }
                node.placed(place.as_ref().map(|place| place.address));
                let now = node.place(store.local_address());
                if now.is_none() && !std::mem::replace(&mut is_sent, true) {
                    let text = "other nodes cannot learn an address of this one, because it reaches the store on its own machine: set `address` of the source";
                    log.line(Level::Info, text);
                }
                match node.is_rolling() {
                    _ if now != place => Duration::ZERO,
                    true => ROLLING.min(life / 3),
                    false => life / 3,
                }
            }
            Err(error) => {
                failures += 1;
                // A store that cannot be read either is reported by the follower of the heads, which may notice it a
                // moment later.
                if failures >= 2 && node.unheld(Some(&error.message)) {
                    let text = format!(
                        "this node cannot report to the fleet, so that roll-outs do not see it: {error}; hint: may its user write to the store?"
                    );
                    log.line(Level::Warn, &text);
                }
                backoff.after_failure()
            }
        };
        let _ = timeout(pause, changes.changed()).await;
    }
}

/// The address of this node in the store.
#[derive(Serialize)]
struct AddressRecord<'r> {
    #[serde(flatten)]
    place: &'r LiveNode,
    /// See [`NodeReport::process`]; not read by others.
    process: &'r str,
}

/// Returns the texts of this node in the store, each of which contains the id of this process.
fn texts(node: &Node, answer: String, place: Option<&LiveNode>) -> Entries {
    let mut texts = Entries::from([(keys::node(&node.name), answer)]);
    if let Some(place) = place {
        let record = AddressRecord {
            place,
            process: &node.process,
        };
        // Strings and an address: this cannot fail.
        let text = serde_json::to_string(&record).unwrap_or_default();
        texts.insert(keys::address(&node.name), text);
    }
    texts
}

/// Removes the answer and the address of this node, and reports that to main: roll-outs do not wait for a server that
/// stops, and others send no more requests.
async fn leave(
    node: &Node,
    store: &dyn FleetStore,
    controller: &Controller,
    held: &mut LeasedEntries,
) {
    let withdrawn = async {
        while store.withdraw(held).await.is_err() {
            sleep(LEAVE_AGAIN).await;
        }
    };
    // Otherwise they expire.
    let is_withdrawn = timeout(LONGEST_LEAVE, withdrawn).await.is_ok();
    if is_withdrawn && node.is_placed() {
        sleep(SPREAD).await;
    }
    controller.send_left();
}

/// Takes a sample of the server; it may not answer within `limit`.
async fn look(node: &Node, controller: &Controller, limit: Duration) {
    match timeout(limit, controller.ask(FleetRequest::Look)).await {
        Ok(FleetAnswer::Seen {
            form,
            requests,
            errors,
            start_failures,
            router_ends,
        }) => {
            let counts = Counts {
                requests,
                errors,
                start_failures,
                router_ends,
            };
            node.seen(counts, &form);
        }
        _ => node.not_seen(),
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
    /// Returns the text of an answer: the former text, unless there is a change.
    fn next(&mut self, answer: NodeReport, is_rolling: bool, moment: Instant) -> String {
        let is_same = self.answer.as_ref().is_some_and(|before| {
            let with_counts_of_before = NodeReport {
                health: before.health,
                ..answer.clone()
            };
            let age = self.at.map(|at| moment.duration_since(at));
            let is_younger = |limit| age.is_some_and(|age| age < limit);
            (*before == answer && is_younger(DATED))
                || (*before == with_counts_of_before && is_younger(COUNTS) && !is_rolling)
        });
        if !is_same {
            let dated = NodeReport {
                time: now(),
                ..answer.clone()
            };
            self.text = serde_json::to_string(&dated).unwrap_or_default();
            self.answer = Some(answer);
            self.at = Some(moment);
        }
        self.text.clone()
    }
}

#[cfg(test)]
mod tests {
    use tutti_fleet_store::records::{NodeHealth, read_all};

    use super::*;

    #[test]
    fn each_text_has_the_id_of_the_process() {
        let node = crate::state::tests::node(None);
        let place = node.place(Some([10, 0, 0, 1].into())).unwrap();
        let texts = texts(
            &node,
            serde_json::to_string(&node.answer()).unwrap(),
            Some(&place),
        );
        assert_eq!(texts.len(), 2);
        for (name, text) in &texts {
            assert!(text.contains(&node.process), "{name}: {text}");
        }
        // Other nodes read the address as before.
        let read = read_all::<LiveNode>(&texts, keys::ADDRESSES);
        assert_eq!(read.get(&node.name), Some(&place));
    }

    #[test]
    fn counts_alone_are_sent_seldom_unless_a_client_waits() {
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
