//! An application that was found, and the refusal of one that was not, with a configuration to go on from.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::report::CommandError;

/// An application as `applications` has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// For the person: `Django application`.
    pub(crate) what: String,
    /// Without `processes`.
    pub(crate) options: Value,
    /// One process serves several requests at once by itself.
    pub(crate) is_concurrent: bool,
    /// A path of requests, and the folder whose files answer them in place of the application.
    pub(crate) files: Option<(&'static str, PathBuf)>,
    /// A thing that is still to be done.
    pub(crate) hint: Option<String>,
}

/// Where frameworks keep what the web may see, in the order asked: Laravel and Symfony, then Yii, Zend, and others; last, where
/// what was built is put.
pub(crate) const PUBLIC_FOLDERS: &[&str] = &[
    "public", "web", "htdocs", "www", "html", "dist", "build", "_site",
];

/// Refuses, with a configuration to go on from.
pub(super) fn refusal(
    folder: &Path,
    mark: &str,
    what: &str,
    how: &str,
    options: Value,
) -> CommandError {
    let configuration = json!({
        "listeners": {"127.0.0.1:8080": {"pass": "applications/site"}},
        "applications": {"site": options}
    });
    CommandError::new(format!(
        "`{}` is {what} (it has `{mark}`), and how to run it cannot be told; served as files, everybody could read its sources",
        folder.display()
    ))
    .hint(format!(
        "put this into site.json, {how}, and start `tuttid --no-daemon --config site.json`:\n{configuration:#}\n      \
         or name a folder of files: `tutti run {}/DIR`",
        folder.display()
    ))
}

/// A program that a shell starts with its port in `$PORT`.
pub(super) fn shell(folder: &Path, command: &str) -> Value {
    external(folder, &["/bin/sh", "-c", command])
}

/// A path as one word of a shell.
pub(super) fn word(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

pub(super) fn external(folder: &Path, command: &[&str]) -> Value {
    let (executable, arguments) = command.split_first().unwrap_or((&"app", &[]));
    json!({
        "type": "external",
        "protocol": "http",
        "working_directory": folder,
        "executable": executable,
        "arguments": arguments
    })
}
