//! A change as the router makes it: ready on the order of main, in force or gone without a trace on the next.
//!
//! Called with main's news. Main has one change under way at a time; a router that is slow may still be at one that has been given
//! up when the next comes, and then begins that one after it. What must never happen: that a change is in force which main has
//! not stored.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tutti_protocol::{Change, FromRouter};
use tutti_unprivileged::faults;

use super::line::Link;
use super::service::RouterService;

/// The change under way, if there is one.
pub(super) struct Changes {
    service: RouterService,
    link: Arc<Link>,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    number: u64,
    /// Puts it in force once it is ready.
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

    /// Makes it ready and says so, or why not.
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
            // Dropping what is ready gives back all that was opened and started for it.
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

    /// Main has stored it.
    pub(super) fn commit(&mut self, number: u64) {
        if let Some(change) = self.take(number) {
            // A task that is not there any more has said why.
            let _ = change.commit.send(());
        }
    }

    /// It will not be, however far it is.
    pub(super) fn abandon(&mut self, number: u64) {
        if let Some(change) = self.take(number) {
            change.task.abort();
        }
    }

    fn take(&mut self, number: u64) -> Option<UnderWay> {
        self.under_way.take_if(|change| change.number == number)
    }
}
