//! Configuration files and the history, which main reads and keeps.

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer};
use tutti_protocol::{ConfigFile, FromController};

use super::line::{Link, fetch};

/// Combines all files into one document.
pub(super) fn combine(files: &[ConfigFile]) -> Result<Document, Diagnostics> {
    let files: Vec<tutti_config::File> = files
        .iter()
        .map(|file| tutti_config::File {
            name: file.name.clone(),
            bytes: file.bytes.clone(),
        })
        .collect();
    tutti_config::combine(&files, &|name| std::env::var(name).ok())
}

/// The faults of files that cannot be read.
pub(super) fn unreadable(reason: &str) -> Diagnostics {
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

/// Returns the last changes, as main reports them.
pub(super) async fn history(link: &Link) -> Result<serde_json::Value, String> {
    let text = fetch(link, &|id| FromController::History { id }).await?;
    serde_json::from_slice(&text.unwrap_or_default()).map_err(|error| error.to_string())
}

/// Returns the configuration after a change.
pub(super) async fn past(link: &Link, number: u64) -> Result<Option<Document>, String> {
    let Some(text) = fetch(link, &|id| FromController::Past { id, number }).await? else {
        return Ok(None);
    };
    let mut document = tutti_config::parse(&text).map_err(|faults| faults.to_string())?;
    document.forget_source();
    Ok(Some(document))
}
