//! The nodes of the fleet, sent from the source process to routers whose configuration uses them as servers; and this
//! node's departure from the fleet before a stop.
//!
//! `impl` blocks of [`Supervisor`]. Main does not interpret the data. The last list is stored on disk, so that a server
//! that starts while the store is unavailable has servers to ask. Must never happen: that an unavailable store removes
//! nodes, or that a stop waits for it forever.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tutti_log::Level;
use tutti_options::source::{LiveNode, LiveNodes};
use tutti_protocol::{EtcdPlan, SourcePlan, ToFleet, ToRouter};

use super::lifecycle::{Life, Stop};
use super::stored::{self, Shelf};
use super::supervisor::Supervisor;

/// The name of the stored list.
const KEPT: &str = "addresses";

/// Time that a graceful stop waits for other nodes to be notified. The source process needs half a second with a store
/// that answers, and at most 2.5 seconds with another; a look at the server that it has begun comes first.
const LONGEST_LEAVE: Duration = Duration::from_secs(3);

/// The list as stored.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The store that it comes from.
    of: String,
    nodes: Vec<LiveNode>,
}

/// Identifies a store.
fn name_of(store: &EtcdPlan) -> String {
    let members = store.members.iter();
    let mut members: Vec<String> = members
        .map(|member| format!("{}:{}", member.host, member.port))
        .collect();
    members.sort_unstable();
    format!("{} {}", members.join(","), store.prefix)
}

impl Supervisor {
    /// Called with the source to follow; `self` still has the former one.
    pub(super) fn follow_nodes_of(&mut self, plan: Option<&SourcePlan>) {
        let name = |plan: &SourcePlan| name_of(&plan.etcd);
        let before = self.fleet.plan.as_deref().map(name);
        let is_same = before == plan.map(name);
        if self.fleet.nodes.is_planned && is_same {
            return;
        }
        self.fleet.nodes.is_planned = true;
        self.fleet.nodes.known = match plan {
            Some(_) => LiveNodes::default(),
            None => LiveNodes {
                nodes: None,
                lost: Some(
                    "this server is not a node of a fleet; hint: name its store in `settings.source`, or with `--source`".to_owned(),
                ),
            },
        };
    }

    /// Starts with the stored list, and makes the new process follow nodes if they are needed.
    pub(super) fn begin_with_nodes(&mut self, kept: &BTreeMap<String, String>, plan: &SourcePlan) {
        let list = kept.get(KEPT);
        let list = list.and_then(|text| serde_json::from_str::<Kept>(text).ok());
        let list = list.filter(|list| list.of == name_of(&plan.etcd));
        let known = &mut self.fleet.nodes.known;
        if known.nodes.is_none()
            && let Some(list) = list
        {
            known.nodes = Some(list.nodes);
        }
        if self.fleet.nodes.is_followed {
            self.have_nodes_followed();
        }
        self.send_nodes_to_all();
    }

    /// Handles the nodes from the source process.
    pub(super) fn take_nodes(&mut self, live: LiveNodes) {
        let known = &mut self.fleet.nodes.known;
        known.lost = live.lost;
        if let Some(nodes) = live.nodes.filter(|nodes| nodes.len() <= LiveNodes::MOST)
            && known.nodes.as_ref() != Some(&nodes)
        {
            known.nodes = Some(nodes);
            self.keep_nodes();
        }
        self.send_nodes_to_all();
    }

    fn have_nodes_followed(&mut self) {
        let known = self.fleet.nodes.known.nodes.clone().unwrap_or_default();
        self.send_to_fleet(&ToFleet::FollowNodes { known }, Vec::new());
    }

    fn keep_nodes(&self) {
        let nodes = self.fleet.nodes.known.nodes.as_ref();
        let (Some(plan), Some(nodes)) = (&self.fleet.plan, nodes) else {
            return;
        };
        let kept = Kept {
            of: name_of(&plan.etcd),
            nodes: nodes.clone(),
        };
        // Strings, addresses and maps of strings: this cannot fail.
        let text = serde_json::to_string(&kept).unwrap_or_default();
        let state = &self.instance.places.state;
        match stored::keep_on(state, Shelf::Fleet, KEPT, &text) {
            Ok(unsynced) => self.warn_of_unsynced(unsynced),
            Err(error) => {
                let text = format!("cannot keep the list of nodes: {error}");
                self.log(Level::Alert, &text);
            }
        }
    }

    /// Sends a router the nodes, if it may have them.
    pub(super) fn router_follows_nodes(&mut self, pid: i32) {
        if !self.may_have_nodes(pid) {
            return;
        }
        if !std::mem::replace(&mut self.fleet.nodes.is_followed, true) {
            self.have_nodes_followed();
        }
        let known = self.fleet.nodes.known.clone();
        self.send_to_router(pid, &ToRouter::Nodes { known });
    }

    fn may_have_nodes(&self, pid: i32) -> bool {
        let rights = self.holdings.rights.get(&pid);
        rights.is_some_and(super::rights::Rights::has_nodes)
    }

    pub(super) fn send_nodes_to_all(&mut self) {
        for pid in self.router_pids() {
            if self.may_have_nodes(pid) {
                let known = self.fleet.nodes.known.clone();
                self.send_to_router(pid, &ToRouter::Nodes { known });
            }
        }
    }

    /// Called before a graceful stop: other nodes must send no more requests here. True if the stop must wait for that:
    /// it then begins by itself.
    pub(super) fn leaves_fleet_first(&mut self) -> bool {
        if self.fleet.nodes.is_leaving() {
            return true;
        }
        let is_serving = matches!(self.life, Life::Serving);
        if !is_serving || self.fleet.nodes.has_left || self.fleet.process.is_none() {
            return false;
        }
        self.log(Level::Info, "leaving the fleet");
        self.fleet.nodes.leaving = Some(Instant::now() + LONGEST_LEAVE);
        self.send_to_fleet(&ToFleet::Leave, Vec::new());
        true
    }

    /// Other nodes have been notified, or cannot be.
    pub(super) fn fleet_left(&mut self) {
        if self.is_stopping() {
            return self.fleet.kill();
        }
        if self.fleet.nodes.leaving.take().is_some() {
            self.fleet.nodes.has_left = true;
            self.begin_stop(Stop::graceful());
        }
    }

    /// The stop begins: a graceful one when others have been notified, a quick one while they are being notified.
    pub(super) fn end_fleet(&mut self, is_graceful: bool) {
        self.fleet.nodes.leaving = None;
        if is_graceful || self.fleet.process.is_none() {
            return self.fleet.kill();
        }
        self.fleet.asked.clear();
        self.fleet.restarts.cancel();
        // It ends when it has done so, at the latest with main.
        self.send_to_fleet(&ToFleet::Leave, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use tutti_options::source::EtcdMember;

    use super::*;

    #[test]
    fn a_list_is_of_one_store() {
        let store = |hosts: &[&str], prefix: &str| EtcdPlan {
            members: hosts
                .iter()
                .map(|&host| EtcdMember {
                    is_secure: false,
                    host: host.to_owned(),
                    port: 2379,
                })
                .collect(),
            prefix: prefix.to_owned(),
            user: None,
            password_file: None,
            ca: None,
            identity: None,
            server_name: None,
        };
        let one = name_of(&store(&["a", "b"], "/shop/"));
        assert_eq!(one, name_of(&store(&["b", "a"], "/shop/")));
        assert_ne!(one, name_of(&store(&["a", "b"], "/mail/")));
        assert_ne!(one, name_of(&store(&["a"], "/shop/")));
    }
}
