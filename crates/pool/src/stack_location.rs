//! Asks a worker where in its code it is, for a slow request.
//!
//! Must never happen: that asking ends the worker or its request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tutti_wire::SlotId;

use crate::generation::Generation;
use crate::runtime;
use crate::stack_replies::StackRequest;

/// A worker that does not answer in this time is in the kernel, or writes its output elsewhere.
const PATIENCE: Duration = Duration::from_secs(1);

/// All lines of one answer arrive within this time: some languages write them one by one.
const SETTLED: Duration = Duration::from_millis(100);

/// Where a worker is in its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLocation {
    /// Its process.
    pub process: i32,
    /// The lines of its answer; empty without an answer.
    pub lines: Vec<String>,
}

/// A reference to a submitted request, for questions about it.
#[derive(Debug, Clone)]
pub struct Whereabouts {
    pub(crate) generation: Arc<Generation>,
    pub(crate) slot: SlotId,
    /// Distinguishes this use of the slot from the next.
    pub(crate) serial: u64,
}

impl Whereabouts {
    /// Asks the worker. `None`: no worker has begun the request, or it has been answered.
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
        let begun = runtime::timeout(PATIENCE, has_begun.notified()).await;
        if begun.is_ok() {
            runtime::sleep(SETTLED).await;
        }
        Some(StackLocation {
            process,
            lines: shared.answers.take(process),
        })
    }
}
