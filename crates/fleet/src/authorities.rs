//! Challenge responses from the store to the router: whichever node an authority asks can respond.

use std::collections::BTreeSet;

use tutti_fleet_store::records::digest;
use tutti_fleet_store::seal::SealingKeys;
use tutti_fleet_store::store::Entries;
use tutti_log::{Level, Log};
use tutti_protocol::{Challenge, FleetAnswer, FleetRequest};

use crate::controller::Controller;
use crate::state::Node;
use crate::watching::Again;

/// Makes the router serve all challenge responses in the store, and reports it to the fleet.
pub(crate) async fn give(
    node: &Node,
    controller: &Controller,
    keys: &SealingKeys,
    log: &Log,
    entries: &Entries,
) -> Again {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut given = BTreeSet::new();
    for (key, sealed) in entries {
        let opened = keys.open(key, sealed).map_err(|error| error.to_string());
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
                log.line(Level::Warn, &text);
            }
        }
    }
    match controller
        .ask(FleetRequest::Challenges { challenges })
        .await
    {
        FleetAnswer::Noted => {
            node.gives(given);
            Again::Never
        }
        _ => Again::Soon,
    }
}
