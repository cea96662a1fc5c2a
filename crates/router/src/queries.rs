//! Answers to the controller's questions and orders, and to clients that request the metrics.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::sync::mpsc;
use tutti_config::{Diagnostic, Diagnostics, Pointer};
use tutti_metrics::ExpositionFormat;
use tutti_pool::RollError;
use tutti_protocol::{PurgeScope, RouterQuery, RouterReply};
use tutti_server::{FileWanted, Scrape};
use tutti_sys::memfd;
use tutti_unprivileged::faults;

use super::guard_files::content;
use super::jobs;
use super::problems::start_faults;
use super::service::RouterService;

/// Maximum time that `/status` waits after a change of `processes` for the new number: a fork takes milliseconds.
const SETTLING: Duration = Duration::from_secs(2);

/// Most clients that get the same snapshot of the metrics.
const MOST_SCRAPES: usize = 64;

impl RouterService {
    /// Reads files that are needed to find servers, one after the other.
    pub(super) async fn read_files(self, mut wanted: mpsc::UnboundedReceiver<FileWanted>) {
        while let Some(FileWanted { path, answer }) = wanted.recv().await {
            let opened = self.0.openings.guard_file(&path).await;
            let content = opened.and_then(|file| {
                content(&file).map_err(|why| format!("`{}` {why}", path.display()))
            });
            // The caller may be ending.
            let _ = answer.send(content);
        }
    }

    /// Requests the list of the fleet's nodes from main, each time that an upstream needs it anew.
    pub(super) async fn follow_nodes(self, mut needed: mpsc::UnboundedReceiver<()>) {
        while needed.recv().await.is_some() {
            self.0.openings.follow_nodes().await;
        }
    }

    /// Answers clients that request the metrics; all that wait get the same page.
    pub(super) async fn answer_scrapes(self, mut asked: mpsc::UnboundedReceiver<Scrape>) {
        let mut waiting = Vec::new();
        while asked.recv_many(&mut waiting, MOST_SCRAPES).await > 0 {
            let page = self.0.metrics();
            let mut written: Vec<(ExpositionFormat, Vec<u8>)> = Vec::new();
            for Scrape { format, answer } in waiting.drain(..) {
                let known = written.iter().find(|(known, _)| *known == format);
                let text = known.map_or_else(|| format.write(&page), |(_, text)| text.clone());
                if known.is_none() {
                    written.push((format, text.clone()));
                }
                // The client may have disconnected.
                let _ = answer.send(text);
            }
        }
    }

    /// Answers a question of the controller.
    pub(super) async fn answer(&self, question: RouterQuery) -> (RouterReply, Vec<OwnedFd>) {
        let failed = |faults: &Diagnostics| RouterReply::Failed {
            faults: faults::to_send(faults),
        };
        match question {
            RouterQuery::Status => {
                // After that time it reports the current state.
                let _ = tokio::time::timeout(SETTLING, self.0.manager.settled()).await;
                let text = self.0.status().to_string();
                with_content("tutti-status", text.as_bytes())
            }
            RouterQuery::Metrics { media_type } => {
                let format = ExpositionFormat::accepted(&media_type);
                with_content("tutti-metrics", &format.write(&self.0.metrics()))
            }
            RouterQuery::Jobs { spooler, task } => {
                if let Some(why) = self.0.jobs.unread() {
                    let fault = Diagnostic::apply(Pointer::default(), &*why);
                    return (failed(&Diagnostics::one(fault)), Vec::new());
                }
                match jobs::carry_out(&self.0.jobs, &spooler, task).await {
                    Some(outcome) => with_content("tutti-jobs", outcome.to_string().as_bytes()),
                    None => (RouterReply::Unknown, Vec::new()),
                }
            }
            RouterQuery::Challenges { challenges } => {
                match self.0.answer_authorities(&challenges) {
                    Ok(()) => (RouterReply::Done, Vec::new()),
                    Err(why) => {
                        let fault = Diagnostic::apply(Pointer::default(), why);
                        (failed(&Diagnostics::one(fault)), Vec::new())
                    }
                }
            }
            RouterQuery::Purge { store, purge } => {
                match self.0.purge(store.as_deref(), &meant(purge)).await {
                    Some(count) => with_content("tutti-purge", count.to_string().as_bytes()),
                    None => (RouterReply::Unknown, Vec::new()),
                }
            }
            RouterQuery::Fleet { standing } => {
                self.0.take_standing(standing);
                (RouterReply::Done, Vec::new())
            }
            RouterQuery::Restart { application } => {
                let outcome = match self.0.manager.restart(&application).await {
                    Ok(()) => {
                        self.0.commands.restart(&application);
                        RouterReply::Done
                    }
                    Err(RollError::Failed(failure)) => failed(&start_faults(vec![failure])),
                    Err(_) => RouterReply::Unknown,
                };
                (outcome, Vec::new())
            }
        }
    }
}

/// Converts it to the cache's type.
fn meant(purge: PurgeScope) -> tutti_server::Purge {
    match purge {
        PurgeScope::All => tutti_server::Purge::All,
        PurgeScope::Key { key } => tutti_server::Purge::Key(key.into_bytes()),
        PurgeScope::Prefix { prefix } => tutti_server::Purge::Prefix(prefix.into_bytes()),
        PurgeScope::Tag { tag } => tutti_server::Purge::Tag(tag.into_bytes()),
    }
}

/// Makes an answer with the content of a file.
fn with_content(name: &str, content: &[u8]) -> (RouterReply, Vec<OwnedFd>) {
    match memfd::document(name, content) {
        Ok(file) => (RouterReply::Done, vec![file]),
        Err(error) => {
            let fault = Diagnostic::apply(Pointer::default(), error.to_string());
            let faults = faults::to_send(&Diagnostics::one(fault));
            (RouterReply::Failed { faults }, Vec::new())
        }
    }
}
