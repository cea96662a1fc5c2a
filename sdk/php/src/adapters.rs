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
    let mut folders: Vec<PathBuf> = ["../share/tutti/php", "../../../share/tutti/php"]
        .iter()
        .map(|path| modules.join(path))
        .collect();
    if cfg!(debug_assertions) {
        folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("resident"));
    }
    folders
}

/// Their folder, if it is there. It is made visible in another root, at the same path.
pub(crate) fn find() -> Option<PathBuf> {
    places()
        .iter()
        .find_map(|folder| folder.canonicalize().ok())
}

/// Their folder, or where it should be. Called once.
pub(crate) fn folder() -> &'static CStr {
    let found = find()
        .or_else(|| places().into_iter().next())
        .unwrap_or_default();
    let text = CString::new(found.as_os_str().as_bytes()).unwrap_or_default();
    Box::leak(text.into_boxed_c_str())
}
