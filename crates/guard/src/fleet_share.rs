//! A node's share of a fleet's limit: the limit divided by the number of nodes.

use std::sync::atomic::{AtomicU32, Ordering};

/// More nodes than a fleet has; bounds the debt in a limiter.
pub(crate) const MOST_NODES: u32 = 10_000;

/// The number of nodes that share limits, one for all limits of a server.
#[derive(Debug)]
pub struct FleetShare(AtomicU32);

impl Default for FleetShare {
    fn default() -> Self {
        FleetShare(AtomicU32::new(1))
    }
}

impl FleetShare {
    /// Sets the number of nodes, including this one.
    pub fn set(&self, nodes: u32) {
        self.0.store(nodes.clamp(1, MOST_NODES), Ordering::Relaxed);
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
