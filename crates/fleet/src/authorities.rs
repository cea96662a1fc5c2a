//! Challenge responses from the store to the router: whichever node an authority asks can respond.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tutti_fleet_store::records::digest;
use tutti_fleet_store::seal::SealingKeys;
use tutti_fleet_store::store::{Entries, FleetStoreError};
use tutti_log::{Level, Log};
use tutti_protocol::{Challenge, FleetAnswer, FleetRequest};

use crate::controller::Controller;
use crate::state::Node;
use crate::watching::{Follower, SOON};

/// Makes the router serve all challenge responses in the store, and reports it to the fleet.
pub(crate) struct Authorities {
    pub(crate) node: Arc<Node>,
    pub(crate) controller: Arc<Controller>,
    pub(crate) keys: Arc<SealingKeys>,
    pub(crate) log: Log,
}

impl Follower for Authorities {
    async fn process(&mut self, entries: &Entries) -> Result<Option<Duration>, FleetStoreError> {
        let mut challenges: Vec<Challenge> = Vec::new();
        let mut given = BTreeSet::new();
        for (key, sealed) in entries {
            let opened = self
                .keys
                .open(key, sealed)
                .map_err(|error| error.to_string());
            let read = opened.and_then(|text| {
                serde_json::from_str::<Vec<Challenge>>(&text).map_err(|error| error.to_string())
            });
            match read {
                Ok(more) => {
                    challenges.extend(more);
                    given.insert(digest(sealed));
                }
                Err(reason) => {
                    let text = format!("a challenge response of the fleet is skipped: {reason}");
                    self.log.line(Level::Warn, &text);
                }
            }
        }
        match self
            .controller
            .ask(FleetRequest::Challenges { challenges })
            .await
        {
            FleetAnswer::Noted => {
                self.node.gives(given);
                Ok(None)
            }
            _ => Ok(Some(SOON)),
        }
    }
}
