//! Lists of words: names of directives and options that share a fate.

/// Words with white space between them.
pub(crate) struct Words(pub(crate) &'static str);

impl Words {
    /// Iterates over all of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.0.split_ascii_whitespace()
    }

    /// True if this is one of them.
    pub(crate) fn contains(&self, word: &str) -> bool {
        self.iter().any(|one| one == word)
    }

    /// True if `name` begins with one of them.
    pub(crate) fn begin(&self, name: &str) -> bool {
        self.iter().any(|prefix| name.starts_with(prefix))
    }
}
