//! The path of the host's program, from main.

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

/// The path in the variable that main set for this process; removes the variable.
pub(crate) fn from_variable() -> Option<PathBuf> {
    std::env::var_os(MODULE_VARIABLE).map(PathBuf::from)
}

/// Stores the path; only the first call has an effect.
pub(crate) fn is_at(path: Option<PathBuf>) {
    let _ = MODULE.set(path);
}
