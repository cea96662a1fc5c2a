//! A detected application, and the rejection of one that was not, with a configuration to start from.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::report::CommandError;

/// An application for `applications`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its description: `Django application`.
    pub(crate) what: String,
    /// Without `processes`.
    pub(crate) options: Value,
    /// One process serves several requests at once.
    pub(crate) is_concurrent: bool,
    /// A request path, and the folder whose files are served there instead of the application.
    pub(crate) files: Option<(&'static str, PathBuf)>,
    /// A remaining task for the user.
    pub(crate) hint: Option<String>,
}

/// Where frameworks keep public files, in the order checked: Laravel and Symfony, then Yii, Zend, and others; last, the
/// folders for built files.
pub(crate) const PUBLIC_FOLDERS: &[&str] = &[
    "public", "web", "htdocs", "www", "html", "dist", "build", "_site",
];

/// Returns a failure with a configuration to start from.
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
        "`{}` is {what} (it has `{mark}`), but it is not clear how to run it; served as files, its sources would be public",
        folder.display()
    ))
    .hint(format!(
        "put this into site.json, {how}, and start `tuttid --no-daemon --config site.json`:\n{configuration:#}\n      \
         or name a folder of files: `tutti run {}/DIR`",
        folder.display()
    ))
}

/// Returns a program that a shell starts with its port in `$PORT`.
pub(super) fn shell(folder: &Path, command: &str) -> Value {
    external(folder, &["/bin/sh", "-c", command])
}

/// Quotes a path as one word for a shell.
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
