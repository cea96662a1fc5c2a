//! Changes of the configuration: one at a time, in order of arrival, each to its end.

use std::sync::Arc;

use tokio::sync::Mutex;
use tutti_config::{Diagnostics, Document, Pointer};

use crate::answer::Answer;
use crate::etag::{self, Conditions};
use crate::service::Service;

/// What a client wants done at a path.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// Replace or add.
    Put(Vec<u8>),
    /// Append to an array.
    Post(Vec<u8>),
    /// Remove.
    Delete,
}

/// A change to come.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) path: Vec<String>,
    pub(crate) edit: Edit,
    pub(crate) conditions: Conditions,
}

/// Takes changes in turn.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// tokio's mutex is fair: first come, first served.
    turn: Mutex<()>,
}

impl Changes {
    /// Waits for its turn, edits the configuration of that moment, and applies it.
    ///
    /// Runs as a task of its own: a client that leaves does not stop it half-way.
    pub(crate) async fn run(self: Arc<Self>, service: Arc<dyn Service>, change: Change) -> Answer {
        let worker = tokio::spawn(async move {
            let _turn = self.turn.lock().await;
            carry_out(&*service, change).await
        });
        worker.await.unwrap_or_else(|_| {
            Answer::error(
                500,
                "Internal error.",
                Some("The change failed unexpectedly; see the log."),
            )
        })
    }
}

async fn carry_out(service: &dyn Service, change: Change) -> Answer {
    let current = service.document();
    let tag = current.get(&change.path).ok().map(etag::of);
    if !change.conditions.allow_change(tag.as_deref()) {
        return Answer::changed_meanwhile();
    }
    let edited = match edit(&current, &change.path, change.edit) {
        Ok(edited) => edited,
        Err(faults) => return Answer::faults(&faults),
    };
    // As documented for Unit: what makes no difference does nothing.
    if edited != *current
        && let Err(faults) = service.apply(edited).await
    {
        return Answer::faults(&faults);
    }
    let mut answer = Answer::success("Reconfiguration done.");
    answer.etag = service.document().get(&change.path).ok().map(etag::of);
    answer
}

fn edit(current: &Document, path: &[String], edit: Edit) -> Result<Document, Diagnostics> {
    let mut document = current.clone();
    document.forget_source();
    let base = Pointer::from_segments(path);
    match edit {
        Edit::Put(bytes) => {
            let part = tutti_config::parse(&bytes).map_err(|faults| faults.under(&base))?;
            document.put(path, part)?;
        }
        Edit::Post(bytes) => {
            let part = tutti_config::parse(&bytes).map_err(|faults| faults.under(&base))?;
            document.post(path, part)?;
        }
        Edit::Delete => document.delete(path)?,
    }
    Ok(document)
}
