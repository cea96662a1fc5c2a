//! Selects the responses to purge.

/// The responses to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Responses whose key has this text.
    Key(Vec<u8>),
    /// Responses whose key begins with this text.
    Prefix(Vec<u8>),
    /// Responses with this tag.
    Tag(Vec<u8>),
}
