//! Recognizes files that a share should not serve by their names: scripts, private keys, databases.

use std::path::{Path, PathBuf};

/// Suspicious files that are considered in each folder.
const MOST_FILES: usize = 50;

/// Maximum folders below those of all shares together that are searched. The response to a change waits for the search.
pub(crate) const MOST_FOLDERS: usize = 500;

/// The depth of the deepest folder that is searched; the folder of the share has depth 0.
const DEEPEST_FOLDER: usize = 2;

/// Endings of scripts, which a server executes.
const SCRIPTS: &[&str] = &[
    ".php", ".phtml", ".phar", ".cgi", ".pl", ".psgi", ".py", ".rb", ".jsp", ".asp", ".aspx",
];

/// Endings of key files, and the names of SSH keys.
const KEYS: &[&str] = &[
    ".key",
    ".pem",
    ".p12",
    ".pfx",
    ".jks",
    ".ppk",
    ".kdbx",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
];

/// Endings of databases and their dumps.
const DATA: &[&str] = &[
    ".sql", ".sql.gz", ".sql.bz2", ".sql.xz", ".sql.zst", ".sql.zip", ".dump", ".sqlite",
    ".sqlite3", ".db", ".mdb", ".rdb", ".bak",
];

/// The reason why a file should not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sort<'d> {
    /// It is a source of this application.
    Source(&'d str),
    Hidden,
    Script,
    Key,
    Data,
}

impl Sort<'_> {
    /// Returns the kind of a file by its name, and the ending that identified it.
    pub(crate) fn of(name: &str) -> Option<(Sort<'static>, &'static str)> {
        let name = name.to_ascii_lowercase();
        let tables = [
            (Sort::Script, SCRIPTS),
            (Sort::Key, KEYS),
            (Sort::Data, DATA),
        ];
        tables.into_iter().find_map(|(sort, endings)| {
            let ending = endings.iter().find(|ending| name.ends_with(**ending))?;
            Some((sort, *ending))
        })
    }
}

/// Returns scripts, keys and data in a folder and in the visible folders below it, the first [`MOST_FILES`] of each
/// folder. Each folder below counts against `folders_left`.
pub(crate) fn sorted(
    folder: &Path,
    folders_left: &mut usize,
    list: &mut dyn FnMut(&Path) -> Vec<String>,
) -> Vec<(PathBuf, Sort<'static>, &'static str)> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.get(looked_at).cloned() {
        looked_at += 1;
        let mut left = MOST_FILES;
        for name in list(&folder) {
            match name.strip_suffix('/') {
                Some(inner) if depth < DEEPEST_FOLDER && !inner.starts_with('.') => {
                    if let Some(left) = folders_left.checked_sub(1) {
                        *folders_left = left;
                        folders.push((folder.join(inner), depth + 1));
                    }
                }
                Some(_) => {}
                None => {
                    if let (Some((sort, ending)), 1..) = (Sort::of(&name), left) {
                        left -= 1;
                        found.push((folder.join(&name), sort, ending));
                    }
                }
            }
        }
    }
    found
}
