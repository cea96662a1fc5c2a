//! Names of objects stored beside the configuration.

use super::written_at::WrittenAt;

/// An object stored beside the configuration (a certificate bundle, a script module), and the place that names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredName {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// Name under `/certificates` or `/js_modules`.
    pub name: String,
}
