//! The responses that somebody wants to be gone.

/// The responses that are to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Everything with this text of a key.
    Key(Vec<u8>),
    /// Everything whose key begins so.
    Prefix(Vec<u8>),
    /// Everything with this tag.
    Tag(Vec<u8>),
}
