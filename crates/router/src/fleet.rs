//! The fleet that this server is a node of, as the router has to know it: purges of caches, and the number of nodes that share limits.
//!
//! Must never: answer from a cache on disk what the fleet has purged while this server was away, as long as the store can be reached; or
//! hold a cache back for longer than a moment because it cannot.

use std::time::Duration;

use tutti_config::Document;
use tutti_log::Level;
use tutti_protocol::{FleetStanding, RouterHello};

use super::service::{Inner, RouterService};

/// The time that the fleet has to say which purges were missed. Responses on disk are not used as long as that lasts.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// The variable in the server's environment for another number of seconds.
const HOLD_VARIABLE: &str = "TUTTI_FLEET_HOLD";

fn longest_hold() -> Duration {
    let given = std::env::var(HOLD_VARIABLE).ok();
    let given = given.and_then(|text| text.parse().ok());
    given.map_or(LONGEST_HOLD, Duration::from_secs)
}

/// True if a source is followed: that of a flag, or that of the configuration.
fn is_node(hello: &RouterHello, document: Option<&Document>) -> bool {
    let settings = document.and_then(|document| document.root().child("settings"));
    hello.follows_source || settings.is_some_and(|settings| settings.child("source").is_some())
}

impl RouterService {
    /// Begins as a node of a fleet, if there is a source: with the number of nodes that is known, and without what is on disk.
    pub(super) fn begin_in_fleet(&self, hello: &RouterHello, document: Option<&Document>) {
        if is_node(hello, document) {
            self.0.server.set_nodes(hello.nodes.unwrap_or(1));
            self.0.server.hold_caches(true);
        }
    }

    /// Lets what is on disk be used once the fleet has had its time, which begins now that requests are served.
    pub(super) fn release_caches_later(&self) {
        let service = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(longest_hold()).await;
            if service.0.server.hold_caches(false) {
                let text = "the fleet has not said which purges of caches were missed: what is on disk is used until it does";
                service.0.log.line(Level::Warn, text);
            }
        });
    }
}

impl Inner {
    /// The fleet is so.
    pub(super) fn take_standing(&self, standing: FleetStanding) {
        self.server.set_nodes(standing.nodes);
        if standing.is_purged {
            self.server.hold_caches(false);
        }
    }

    /// Purges a store of responses, or all; how many there were, or `None`: there is no such store.
    pub(super) async fn purge(
        &self,
        store: Option<&str>,
        purge: &tutti_server::Purge,
    ) -> Option<usize> {
        self.server.purge(store, purge).await
    }
}
