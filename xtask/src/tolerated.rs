//! The exceptions from the rules, for now. Every table here only becomes shorter, and its numbers only smaller.

/// Circles of files: the crate, and the files in its `src`, sorted.
pub(crate) const CIRCLES: &[(&str, &[&str])] = &[];

/// Crates that tests need with other features than programs: small ones, with few users.
pub(crate) const BUILT_TWICE: &[&str] = &["tokio-tungstenite"];

/// Names of public types that more than one crate defines, each with the reason.
pub(crate) const TYPE_NAMES: &[(&str, &str)] = &[(
    "Millis",
    "an alias of `u64`, by which each crate says what its clock counts in",
)];
