//! The router's knowledge of the fleet of this node: purges of caches, and the number of nodes that share limits.
//!
//! Must never: answer from a cache on disk what the fleet has purged while this server was down, as long as the store can be reached; or
//! disable a cache for longer than a moment because the store cannot be reached.

use std::time::Duration;

use tutti_config::Document;
use tutti_log::Level;
use tutti_protocol::{FleetStanding, RouterHello};

use super::service::{Inner, RouterService};

/// Maximum time that the router waits for the fleet to report missed purges. Meanwhile, responses on disk are not used.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// The environment variable of the server that sets another number of seconds.
const HOLD_VARIABLE: &str = "TUTTI_FLEET_HOLD";

fn longest_hold() -> Duration {
    let given = std::env::var(HOLD_VARIABLE).ok();
    let given = given.and_then(|text| text.parse().ok());
    given.map_or(LONGEST_HOLD, Duration::from_secs)
}

/// True if a source is followed: by a flag, or by the configuration.
fn is_node(hello: &RouterHello, document: Option<&Document>) -> bool {
    let settings = document.and_then(|document| document.root().child("settings"));
    hello.follows_source || settings.is_some_and(|settings| settings.child("source").is_some())
}

impl RouterService {
    /// Begins as a node of a fleet, if there is a source: with the last known number of nodes, and with caches on disk disabled.
    pub(super) fn begin_in_fleet(&self, hello: &RouterHello, document: Option<&Document>) {
        if is_node(hello, document) {
            self.0.server.set_nodes(hello.nodes.unwrap_or(1));
            self.0.server.hold_caches(true);
        }
    }

    /// Enables caches on disk after the waiting time, which begins now that requests are served.
    pub(super) fn release_caches_later(&self) {
        let service = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(longest_hold()).await;
            if service.0.server.hold_caches(false) {
                let text = "the fleet has not reported missed purges of caches yet; responses on disk are used until it does";
                service.0.log.line(Level::Warn, text);
            }
        });
    }
}

impl Inner {
    /// Takes the state of the fleet.
    pub(super) fn take_standing(&self, standing: FleetStanding) {
        self.server.set_nodes(standing.nodes);
        if standing.is_purged {
            self.server.hold_caches(false);
        }
    }

    /// Purges one cache, or all; returns the number of responses, or `None` if there is no such cache.
    pub(super) async fn purge(
        &self,
        store: Option<&str>,
        purge: &tutti_server::Purge,
    ) -> Option<usize> {
        self.server.purge(store, purge).await
    }
}
