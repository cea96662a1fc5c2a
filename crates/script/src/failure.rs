//! Why a script has no value.

use crate::limits::{MEMORY_LIMIT, TIME_LIMIT};

/// Why a script has no value for a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It threw an error, with this name and message.
    #[error("{0}")]
    Thrown(String),
    /// It ran for longer than [`TIME_LIMIT`].
    #[error("it took more than {} ms", TIME_LIMIT.as_millis())]
    Time,
    /// It needed more than [`MEMORY_LIMIT`].
    #[error("it needed more than {} MiB of memory", MEMORY_LIMIT >> 20)]
    Memory,
}
