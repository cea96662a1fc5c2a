//! Answers to the controller's questions and orders, and to clients that want the metrics.

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

/// After a change of `processes`, `/status` waits so long for as many as it asks for: a fork takes milliseconds.
const SETTLING: Duration = Duration::from_secs(2);

/// Clients that are answered with one look: others get a fresh one.
const MOST_SCRAPES: usize = 64;

impl RouterService {
    /// Reads files that servers are found with, one after the other.
    pub(super) async fn read_files(self, mut wanted: mpsc::UnboundedReceiver<FileWanted>) {
        while let Some(FileWanted { path, answer }) = wanted.recv().await {
            let opened = self.0.openings.guard_file(&path).await;
            let content = opened.and_then(|file| {
                content(&file).map_err(|why| format!("`{}` {why}", path.display()))
            });
            // Whoever asked may have been told to end.
            let _ = answer.send(content);
        }
    }

    /// Has main tell of the nodes of the fleet, each time that an upstream needs them anew.
    pub(super) async fn follow_nodes(self, mut needed: mpsc::UnboundedReceiver<()>) {
        while needed.recv().await.is_some() {
            self.0.openings.follow_nodes().await;
        }
    }

    /// Answers clients that want the metrics, all that wait with one look.
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
                // A client that has gone needs none.
                let _ = answer.send(text);
            }
        }
    }

    /// Answers what the controller asks.
    pub(super) async fn answer(&self, question: RouterQuery) -> (RouterReply, Vec<OwnedFd>) {
        let failed = |faults: &Diagnostics| RouterReply::Failed {
            faults: faults::to_send(faults),
        };
        match question {
            RouterQuery::Status => {
                // Beyond that it tells what there is.
                let _ = tokio::time::timeout(SETTLING, self.0.manager.settled()).await;
                let text = self.0.status().to_string();
                told("tutti-status", text.as_bytes())
            }
            RouterQuery::Metrics { media_type } => {
                let format = ExpositionFormat::accepted(&media_type);
                told("tutti-metrics", &format.write(&self.0.metrics()))
            }
            RouterQuery::Jobs { spooler, task } => {
                if let Some(why) = self.0.jobs.unread() {
                    let fault = Diagnostic::apply(Pointer::default(), &*why);
                    return (failed(&Diagnostics::one(fault)), Vec::new());
                }
                match jobs::carry_out(&self.0.jobs, &spooler, task).await {
                    Some(outcome) => told("tutti-jobs", outcome.to_string().as_bytes()),
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
                    Some(count) => told("tutti-purge", count.to_string().as_bytes()),
                    None => (RouterReply::Unknown, Vec::new()),
                }
            }
            RouterQuery::Fleet { standing } => {
                self.0.take_standing(standing);
                (RouterReply::Done, Vec::new())
            }
            RouterQuery::Restart { application } => {
                let told = match self.0.manager.restart(&application).await {
                    Ok(()) => {
                        self.0.commands.restart(&application);
                        RouterReply::Done
                    }
                    Err(RollError::Failed(failure)) => failed(&start_faults(vec![failure])),
                    Err(_) => RouterReply::Unknown,
                };
                (told, Vec::new())
            }
        }
    }
}

/// The same in the words of the cache.
fn meant(purge: PurgeScope) -> tutti_server::Purge {
    match purge {
        PurgeScope::All => tutti_server::Purge::All,
        PurgeScope::Key { key } => tutti_server::Purge::Key(key.into_bytes()),
        PurgeScope::Prefix { prefix } => tutti_server::Purge::Prefix(prefix.into_bytes()),
        PurgeScope::Tag { tag } => tutti_server::Purge::Tag(tag.into_bytes()),
    }
}

/// An answer that is the content of a file.
fn told(name: &str, content: &[u8]) -> (RouterReply, Vec<OwnedFd>) {
    match memfd::document(name, content) {
        Ok(file) => (RouterReply::Done, vec![file]),
        Err(error) => {
            let fault = Diagnostic::apply(Pointer::default(), error.to_string());
            let faults = faults::to_send(&Diagnostics::one(fault));
            (RouterReply::Failed { faults }, Vec::new())
        }
    }
}
