//! Answers to authorities that ask whether names are ours, from the store to the router: whatever node they ask, it answers.

use std::collections::BTreeSet;

use tutti_fleet_store::records::digest;
use tutti_fleet_store::seal::SealingKeys;
use tutti_fleet_store::store::Entries;
use tutti_log::{Level, Log};
use tutti_protocol::{Challenge, FleetAnswer, FleetRequest};

use crate::controller::Controller;
use crate::state::Node;
use crate::watching::Again;

/// Has the router give all answers that are in the store, and tells the fleet once it does.
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
                let text = format!("an answer of the fleet to an authority is left out: {reason}");
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
