//! The state of a limit that several servers share, for `/status`.

use std::time::Duration;

use crate::limit::{Bound, RequestLimit};
use crate::rate::Quota;

/// A limit that several servers share.
#[derive(Clone, Debug)]
pub struct SharedLimit {
    /// Its name, or its place in the configuration.
    pub name: String,
    /// The store that it is counted in.
    pub store: Option<String>,
    /// Nodes that share it.
    pub nodes: u32,
    /// The time per request of the whole limit.
    pub interval: Duration,
    /// The whole limit.
    pub whole: Quota,
    /// This node's share.
    pub own: Quota,
    /// Requests that exceeded its rate.
    pub beyond: u64,
}

impl SharedLimit {
    /// `None` if no other server shares it.
    pub fn of(limit: &RequestLimit) -> Option<Self> {
        let rate = limit.rate.as_ref().filter(|rate| rate.is_shared())?;
        let beyond = limit.beyond().find(|(bound, _)| *bound == Bound::Rate);
        let model = &limit.model;
        let name = model.name.as_deref().unwrap_or(model.pointer.as_str());
        Some(Self {
            name: name.to_owned(),
            store: limit.store.as_ref().map(|store| store.model.name.clone()),
            nodes: rate.nodes(),
            interval: rate.interval(),
            whole: rate.whole(),
            own: rate.own(),
            beyond: beyond.map_or(0, |(_, count)| count),
        })
    }
}
