//! Names of what is stored beside the configuration.

use tutti_document::Pointer;

/// Something that is stored beside the configuration (a certificate bundle, a script module), and where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredName {
    /// Where it was written.
    pub pointer: Pointer,
    /// Name under `/certificates` or `/js_modules`.
    pub name: String,
}
