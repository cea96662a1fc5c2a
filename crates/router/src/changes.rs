//! A change in the router: prepared on main's order, then committed or undone on the next.
//!
//! Called with main's messages. Main has one change in progress at a time; a slow router may still be at an abandoned one when the next
//! comes, and begins that one afterwards. What must never happen: that a change is in force which main has not stored.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tutti_protocol::{Change, FromRouter};
use tutti_unprivileged::faults;

use super::line::Link;
use super::service::RouterService;

/// The change in progress, if there is one.
pub(super) struct Changes {
    service: RouterService,
    link: Arc<Link>,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    number: u64,
    /// Commits it once it is prepared.
    commit: oneshot::Sender<()>,
    task: AbortHandle,
}

impl Changes {
    pub(super) fn new(service: RouterService, link: Arc<Link>) -> Changes {
        Changes {
            service,
            link,
            under_way: None,
        }
    }

    /// Prepares it and reports the result.
    pub(super) fn prepare(&mut self, number: u64, change: Change) {
        let (commit, committed) = oneshot::channel();
        let (service, link) = (self.service.clone(), Arc::clone(&self.link));
        let task = tokio::spawn(async move {
            let _alone = service.0.changing.lock().await;
            let ready = match service.0.prepare_change(change).await {
                Ok(ready) => ready,
                Err(faults) => {
                    let faults = faults::to_send(&faults);
                    return link.send(&FromRouter::Unprepared { number, faults });
                }
            };
            link.send(&FromRouter::Prepared { number });
            // Dropping it undoes everything that was opened and started for it.
            if committed.await.is_ok() {
                let warnings = faults::to_send(&service.0.commit_change(ready).await);
                service.try_again();
                link.send(&FromRouter::Committed { number, warnings });
            }
        });
        self.under_way = Some(UnderWay {
            number,
            commit,
            task: task.abort_handle(),
        });
    }

    /// Called when main has stored it.
    pub(super) fn commit(&mut self, number: u64) {
        if let Some(change) = self.take(number) {
            // A task that has ended has reported why.
            let _ = change.commit.send(());
        }
    }

    /// Called when it is abandoned, in any state.
    pub(super) fn abandon(&mut self, number: u64) {
        if let Some(change) = self.take(number) {
            change.task.abort();
        }
    }

    fn take(&mut self, number: u64) -> Option<UnderWay> {
        self.under_way.take_if(|change| change.number == number)
    }
}
