//! A node's share of a bound that is the whole fleet's: the bound by the number of nodes.

use std::sync::atomic::{AtomicU32, Ordering};

/// More nodes than a fleet has. What a limiter takes for a debt is bounded by it.
pub(crate) const MOST_NODES: u32 = 10_000;

/// The number of nodes that share bounds, one for all limits of a server.
#[derive(Debug)]
pub struct FleetShare(AtomicU32);

impl Default for FleetShare {
    fn default() -> Self {
        FleetShare(AtomicU32::new(1))
    }
}

impl FleetShare {
    /// There are so many from now on, with this one.
    pub fn set(&self, nodes: u32) {
        self.0.store(nodes.clamp(1, MOST_NODES), Ordering::Relaxed);
    }

    /// So many.
    pub fn nodes(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
