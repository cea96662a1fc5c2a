//! Where the adapters for frameworks are, which come with the server: `TUTTI_RESIDENT` for scripts.

use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The places where they may be.
fn places() -> Vec<PathBuf> {
    let program = tutti_worker::module();
    let modules = program.parent().unwrap_or(Path::new("/"));
    // Beside the modules in a build and in `/opt`; or under `/usr/share` when they are in `/usr/lib/tutti/modules`.
    [1, 3]
        .into_iter()
        .filter_map(|levels| modules.ancestors().nth(levels))
        .map(|folder| folder.join("share/tutti/php"))
        .chain(option_env!("TUTTI_PHP_SOURCE").map(PathBuf::from))
        .collect()
}

/// Their folder, if it is there. It is made visible in another root at this very path, which is looked for there again: links in it are not resolved,
/// and an empty folder that another start has left to mount on is not taken for it.
pub(crate) fn find() -> Option<PathBuf> {
    places()
        .into_iter()
        .find(|folder| folder.join("resident.php").is_file())
}

/// Their folder, or where it should be. Called once.
pub(crate) fn folder() -> &'static CStr {
    let found = find()
        .or_else(|| places().into_iter().next())
        .unwrap_or_default();
    let text = CString::new(found.as_os_str().as_bytes()).unwrap_or_default();
    Box::leak(text.into_boxed_c_str())
}
