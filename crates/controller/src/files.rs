//! Configuration files and the history, both of which main reads and keeps.
//!
//! Called at the first start, for a reload, and by the control API. What must never happen: that files with a fault take the
//! place of a configuration that works.

use std::os::fd::OwnedFd;

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer};
use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::{Cause, ConfigFile, ControllerHello, FromController};
use tutti_role::{context, log_faults};

use super::line::Link;

/// The configuration that the server begins with.
pub(super) enum Beginning {
    /// The stored configuration, if there is one; with the faults of files that would have come first.
    Stored(Option<Document>, Diagnostics),
    /// The configuration of the files. It is not stored yet.
    Files(Document),
    /// Nothing: the files have these faults, and nothing takes their place. With what to do about it, if there is something.
    Nothing(Diagnostics, Option<&'static str>),
}

impl Beginning {
    /// Decides. Files come first; where they have a fault, the start fails, or what was stored last is used if that was asked for.
    pub(super) fn choose(
        hello: &ControllerHello,
        stored: Option<Document>,
        log: &Log,
    ) -> Beginning {
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
            (Err(faults), None) => Beginning::Nothing(faults, None),
            (Err(faults), Some(_)) if !hello.is_lenient => Beginning::Nothing(
                faults,
                Some(
                    "the configuration that was in force before is stored; `--lenient` starts with it",
                ),
            ),
            (Err(faults), stored) => {
                log.line(
                    Level::Alert,
                    "the configuration files cannot be used; `--lenient`: going on with what was in force before",
                );
                log_faults(log, &faults);
                Beginning::Stored(stored, faults)
            }
        }
    }
}

/// Who made the change that a start with configuration files is.
pub(super) fn cause() -> Cause {
    Cause {
        by: "tutti".to_owned(),
        change: "start with the configuration files".to_owned(),
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
    let text = fetch(link, &|id| FromController::ReadFiles { id }).await;
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
    let text = fetch(link, &|id| FromController::History { id }).await?;
    serde_json::from_slice(&text.unwrap_or_default()).map_err(|error| error.to_string())
}

/// The configuration after a change.
pub(super) async fn past(link: &Link, number: u64) -> Result<Option<Document>, String> {
    let Some(text) = fetch(link, &|id| FromController::Past { id, number }).await? else {
        return Ok(None);
    };
    let mut document = tutti_config::parse(&text).map_err(|faults| faults.to_string())?;
    document.forget_source();
    Ok(Some(document))
}

/// The memory file that main answers with, if it does.
async fn fetch(
    link: &Link,
    make: &(dyn Fn(u64) -> FromController + Sync),
) -> Result<Option<Vec<u8>>, String> {
    let done = link.request(make, Vec::new()).await;
    let done = done.map_err(|refused| refused.message)?;
    let file: Option<OwnedFd> = done.descriptors.into_iter().next();
    file.map(|file| {
        tutti_protocol::read_large(file, tutti_protocol::LONGEST).map_err(|error| error.to_string())
    })
    .transpose()
}
