//! Configuration files and the history, both of which main reads and keeps.
//!
//! Called at the first start, for a reload, and by the control API. What must never happen: that files with a fault take the
//! place of a configuration that works.

use std::os::fd::OwnedFd;

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer};
use tutti_pool::Level;

use super::link::Link;
use super::service::{RouterService, context, fault};
use super::{log_faults, restore};
use crate::log::Log;
use crate::protocol::{self, Cause, ConfigFile, Hello, ToMain};

/// What the server begins with.
pub(super) enum Beginning {
    /// What is stored, if anything is; with the faults of files that would have come first.
    Stored(Option<Document>, Diagnostics),
    /// What the files say. It is not stored yet.
    Files(Document),
    /// Nothing: the files have these faults, and nothing is stored.
    Nothing(Diagnostics),
}

impl Beginning {
    /// Decides. Files come first; where they have a fault, what was stored last still works.
    pub(super) fn choose(hello: &Hello, stored: Option<Document>, log: &Log) -> Beginning {
        let files = match &hello.files {
            None => return Beginning::Stored(stored, Diagnostics::default()),
            Some(Ok(files)) => combine(files),
            Some(Err(reason)) => Err(unreadable(reason)),
        };
        let checked = files.and_then(|document| {
            tutti_config::validate(&document, &context(&hello.modules)).map(|_| document)
        });
        match (checked, stored) {
            (Ok(document), Some(stored)) if document == stored => {
                Beginning::Stored(Some(stored), Diagnostics::default())
            }
            (Ok(document), _) => Beginning::Files(document),
            (Err(faults), None) => Beginning::Nothing(faults),
            (Err(faults), stored) => {
                log.line(
                    Level::Alert,
                    "the configuration files cannot be used; going on with what was in force before",
                );
                log_faults(log, &faults);
                Beginning::Stored(stored, faults)
            }
        }
    }

    /// What is going to be served, for what has to be known before.
    pub(super) fn document(&self) -> Option<&Document> {
        match self {
            Beginning::Stored(document, _) => document.as_ref(),
            Beginning::Files(document) => Some(document),
            Beginning::Nothing(_) => None,
        }
    }

    /// Puts it in force; false if there is nothing to serve.
    pub(super) async fn begin(self, service: &RouterService, link: &Link, log: &Log) -> bool {
        match self {
            Beginning::Stored(None, _) => {}
            Beginning::Stored(Some(document), faults) => {
                restore(service, log, document).await;
                service.add_problems(faults);
            }
            Beginning::Files(document) => {
                let cause = Cause {
                    by: "tutti".to_owned(),
                    change: "start with the configuration files".to_owned(),
                };
                // A full disk is no reason not to serve what the files say.
                if let Err(faults) = store(link, &document, cause).await {
                    log_faults(log, &faults);
                }
                restore(service, log, document).await;
            }
            Beginning::Nothing(faults) => {
                log_faults(log, &faults);
                let message = format!("the configuration files cannot be used:\n{faults}");
                link.tell(&ToMain::Unfit { message });
                return false;
            }
        }
        true
    }
}

fn combine(files: &[ConfigFile]) -> Result<Document, Diagnostics> {
    let files: Vec<tutti_config::File> = files
        .iter()
        .map(|file| tutti_config::File {
            name: file.name.clone(),
            bytes: file.text.clone().into_bytes(),
        })
        .collect();
    tutti_config::combine(&files, &|name| std::env::var(name).ok())
}

fn unreadable(reason: &str) -> Diagnostics {
    Diagnostics::one(Diagnostic::apply(Pointer::root(), reason))
}

/// Reads the files again; `None` if the server was started without any.
pub(super) async fn read(link: &Link) -> Result<Option<Document>, Diagnostics> {
    let text = fetch(link, &|id| ToMain::ReadFiles { id }).await;
    let text = text.map_err(|reason| unreadable(&reason))?;
    let files: Vec<ConfigFile> = serde_json::from_slice(&text.unwrap_or_default())
        .map_err(|e| unreadable(&e.to_string()))?;
    if files.is_empty() {
        return Ok(None);
    }
    combine(&files).map(Some)
}

/// The last changes, as main tells them.
pub(super) async fn history(link: &Link) -> Result<serde_json::Value, String> {
    let text = fetch(link, &|id| ToMain::History { id }).await?;
    serde_json::from_slice(&text.unwrap_or_default()).map_err(|error| error.to_string())
}

/// The configuration after a change.
pub(super) async fn past(link: &Link, number: u64) -> Result<Option<Document>, String> {
    let Some(text) = fetch(link, &|id| ToMain::Past { id, number }).await? else {
        return Ok(None);
    };
    let mut document = tutti_config::parse(&text).map_err(|faults| faults.to_string())?;
    document.forget_source();
    Ok(Some(document))
}

/// Has main store a configuration.
pub(super) async fn store(
    link: &Link,
    document: &Document,
    cause: Cause,
) -> Result<(), Diagnostics> {
    let configuration = document.to_json();
    let make = |id| ToMain::Store {
        id,
        configuration: configuration.clone(),
        cause: cause.clone(),
    };
    let stored = link.request(&make, Vec::new()).await;
    stored.map(drop).map_err(|refused| {
        let message = format!("cannot store the configuration: {}", refused.message);
        Diagnostics::one(fault(Pointer::default(), message, refused.hint))
    })
}

/// The memory file that main answers with, if it does.
async fn fetch(
    link: &Link,
    make: &(dyn Fn(u64) -> ToMain + Sync),
) -> Result<Option<Vec<u8>>, String> {
    let done = link.request(make, Vec::new()).await;
    let done = done.map_err(|refused| refused.message)?;
    let file: Option<OwnedFd> = done.descriptors.into_iter().next();
    file.map(|file| protocol::read_large(file).map_err(|error| error.to_string()))
        .transpose()
}
