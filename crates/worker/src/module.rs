//! The place of the host's program, as main has told it.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Where the host's program is installed.
pub fn module() -> PathBuf {
    match MODULE.get() {
        Some(Some(path)) => path.clone(),
        _ => std::fs::read_link("/proc/self/exe").unwrap_or_default(),
    }
}

static MODULE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Main has told it, or has not; only the first time counts.
pub(crate) fn is_at(path: Option<PathBuf>) {
    let _ = MODULE.set(path);
}
