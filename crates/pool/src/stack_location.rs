//! Asks a worker where it stands in its code, for a request that takes long.
//!
//! Must never happen: that the worker is ended or its request given up for having been asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tutti_wire::SlotId;

use crate::generation::Generation;
use crate::stack_replies::StackRequest;

/// A worker that says nothing in this time is in the kernel, or writes its output elsewhere.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lines of one answer come within this time: some languages write them one by one.
const SETTLED: Duration = Duration::from_millis(100);

/// The place where a worker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLocation {
    /// Its process.
    pub process: i32,
    /// The lines of its answer; empty if there was none.
    pub lines: Vec<String>,
}

/// A request that an application has taken, to be asked about from beside it.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    pub(crate) generation: Arc<Generation>,
    pub(crate) slot: SlotId,
    /// Tells this use of the slot from the next.
    pub(crate) serial: u64,
}

impl Whereabouts {
    /// Asks. `None`: no worker has begun the request, or it is answered.
    pub async fn ask(self) -> Option<StackLocation> {
        let shared = Arc::clone(&self.generation.shared);
        let (reply, asked) = oneshot::channel();
        self.generation.ask(StackRequest {
            slot: self.slot,
            serial: self.serial,
            reply,
        });
        drop(self);
        shared.signal.raise();
        let process = asked.await.ok()?;
        let has_begun = shared.answers.begun(process)?;
        let begun = tokio::time::timeout(PATIENCE, has_begun.notified()).await;
        if begun.is_ok() {
            tokio::time::sleep(SETTLED).await;
        }
        Some(StackLocation {
            process,
            lines: shared.answers.take(process),
        })
    }
}
