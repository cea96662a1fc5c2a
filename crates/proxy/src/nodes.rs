//! Nodes of the fleet as servers of an upstream: the live ones, as main reports them.
//!
//! Runs on the monitor's thread, like the resolution of names. The list comes from the process that follows the fleet's store; it must be
//! requested once.
//!
//! Must never happen: that a failure of the store removes working addresses.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tutti_config::model::{LiveNode, LiveNodes, UpstreamAddress};
use tutti_upstream::{NameEvent, ResolvedTarget, ServerGroup};

/// Access to the nodes of the fleet.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The known nodes.
    pub known: watch::Receiver<LiveNodes>,
    /// Requests the list.
    pub wanted: UnboundedSender<()>,
}

/// Keeps the nodes that a server stands for up to date as servers of an upstream, for as long as this runs. `index` is that of
/// [`ServerGroup::names`]. `log` is called once when a problem begins, and once when it ends.
pub(crate) async fn keep_updated(
    upstream: Arc<ServerGroup>,
    index: usize,
    server: UpstreamAddress,
    nodes: Nodes,
    log: impl Fn(NameEvent, &str),
) {
    let UpstreamAddress::Fleet { selector, port } = server else {
        return;
    };
    // An error means that the server stops.
    let _ = nodes.wanted.send(());
    let mut known = nodes.known;
    let mut logged = LastLoggedNodes::default();
    loop {
        let now = known.borrow_and_update().clone();
        let targets = now.nodes.map(|nodes| targets(&nodes, &selector, port));
        let is_empty = targets.as_ref().is_some_and(Vec::is_empty);
        let has_some = match (targets, &now.lost) {
            (None, None) => false,
            (targets, _) => upstream.resolved(index, targets),
        };
        for (event, text) in logged.next(&selector, is_empty, now.lost, has_some) {
            log(event, &text);
        }
        if known.changed().await.is_err() {
            return;
        }
    }
}

/// All nodes have the same weight.
fn targets(nodes: &[LiveNode], selector: &str, port: u16) -> Vec<ResolvedTarget> {
    let meant = nodes.iter().filter(|node| node.is_meant_by(selector));
    let mut targets: Vec<ResolvedTarget> = meant
        .map(|node| ResolvedTarget {
            priority: 0,
            host: Some(node.name.as_str().into()),
            address: SocketAddr::new(node.address, port),
            weight: 1,
        })
        .collect();
    targets.sort_unstable();
    targets
}

/// The last logged state.
#[derive(Default)]
struct LastLoggedNodes {
    is_lost: bool,
    is_empty: bool,
}

impl LastLoggedNodes {
    /// Returns the lines to log. The reason why the store cannot be followed may change with each attempt: only the first is logged.
    fn next(
        &mut self,
        selector: &str,
        is_empty: bool,
        lost: Option<String>,
        has_some: bool,
    ) -> Vec<(NameEvent, String)> {
        let mut lines = Vec::new();
        let was_lost = std::mem::replace(&mut self.is_lost, lost.is_some());
        match lost {
            Some(why) if !was_lost => {
                let kept = match has_some {
                    true => "; their last addresses are kept",
                    false => "",
                };
                let text =
                    format!("the nodes `{selector}` of the fleet cannot be followed: {why}{kept}");
                lines.push((NameEvent::Lost, text));
            }
            None if was_lost => {
                let text = format!("the nodes `{selector}` of the fleet are followed again");
                lines.push((NameEvent::Found, text));
            }
            _ => {}
        }
        let was_empty = std::mem::replace(&mut self.is_empty, is_empty);
        match (is_empty, was_empty) {
            (true, false) => {
                let text = format!("no live node of the fleet matches `{selector}`");
                lines.push((NameEvent::Lost, text));
            }
            (false, true) => {
                let text = format!("nodes of the fleet match `{selector}` again");
                lines.push((NameEvent::Found, text));
            }
            _ => {}
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, last: u8, role: &str) -> LiveNode {
        LiveNode {
            name: name.to_owned(),
            address: [10, 0, 0, last].into(),
            labels: [("role".to_owned(), role.to_owned())].into(),
        }
    }

    #[test]
    fn nodes_are_chosen_by_label() {
        let nodes = [node("b", 2, "web"), node("a", 1, "web"), node("c", 3, "db")];
        let of = |selector| {
            let targets = targets(&nodes, selector, 80).into_iter();
            targets
                .map(|one| one.address.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("all"), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]);
        assert_eq!(of("role=web"), ["10.0.0.1:80", "10.0.0.2:80"]);
        assert!(of("role=mail").is_empty());
    }

    #[test]
    fn each_change_is_logged_once() {
        let mut logged = LastLoggedNodes::default();
        let mut next = |is_empty, lost: Option<&str>, has_some| {
            let lines = logged.next("all", is_empty, lost.map(str::to_owned), has_some);
            lines.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert!(next(false, None, true).is_empty());
        let lost = next(false, Some("refused"), true);
        assert!(lost[0].ends_with("followed: refused; their last addresses are kept"));
        assert!(next(false, Some("silent"), true).is_empty());
        assert!(next(false, None, true)[0].ends_with("are followed again"));
        assert!(next(true, None, false)[0].starts_with("no live node"));
        assert!(next(true, None, false).is_empty());
        assert!(next(false, None, true)[0].starts_with("nodes of the fleet match"));
        assert!(next(false, Some("refused"), false)[0].ends_with(": refused"));
    }
}
