//! The place of the host's program, as main has told it.

use std::path::PathBuf;
use std::sync::OnceLock;

use tutti_wire::control::MODULE_VARIABLE;

/// Where the host's program is installed.
pub fn module() -> PathBuf {
    match MODULE.get() {
        Some(Some(path)) => path.clone(),
        _ => std::fs::read_link("/proc/self/exe").unwrap_or_default(),
    }
}

static MODULE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// The place that main has told this process, which starts with it.
pub(crate) fn told() -> Option<PathBuf> {
    std::env::var_os(MODULE_VARIABLE).map(PathBuf::from)
}

/// Main has told it, or has not; only the first time counts.
pub(crate) fn is_at(path: Option<PathBuf>) {
    let _ = MODULE.set(path);
}
