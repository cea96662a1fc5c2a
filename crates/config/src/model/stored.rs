//! Names of what is stored beside the configuration.

use super::written_at::WrittenAt;

/// Something that is stored beside the configuration (a certificate bundle, a script module), and where it is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredName {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// Name under `/certificates` or `/js_modules`.
    pub name: String,
}
