//! JSON pointers (RFC 6901): the place of a value in the configuration.
//!
//! A pointer always refers to the document after the change, even if the client sent only a part of it.

use std::fmt;
use std::sync::Arc;

/// `/listeners/*:8080/pass`; the empty string is the whole document. `~` and `/` in names are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer(Arc<str>);

impl Pointer {
    /// Returns the pointer to the whole document.
    pub fn root() -> Self {
        Pointer::default()
    }

    /// Creates a pointer from segments (names or indexes, not escaped).
    pub fn from_segments<S: AsRef<str>>(segments: impl IntoIterator<Item = S>) -> Self {
        let mut text = String::new();
        for segment in segments {
            push_segment(&mut text, segment.as_ref());
        }
        Pointer(text.into())
    }

    /// Wraps an already escaped pointer.
    pub fn from_escaped(text: &str) -> Self {
        Pointer(text.into())
    }

    /// Returns the pointer to the member or element called `segment`.
    #[must_use]
    pub fn child(&self, segment: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + segment.len() + 1);
        text.push_str(&self.0);
        push_segment(&mut text, segment);
        Pointer(text.into())
    }

    /// Returns the pointer to the element with this index.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.child(&index.to_string())
    }

    /// Returns this pointer inside the value at `base`.
    #[must_use]
    pub fn under(&self, base: &Pointer) -> Self {
        Pointer(format!("{}{}", base.0, self.0).into())
    }

    /// Returns its text, escaped.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the names on the path, not escaped.
    pub fn segments(&self) -> impl Iterator<Item = String> + '_ {
        self.0
            .split('/')
            .skip(1)
            .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends `/segment`, escaped (RFC 6901 §3).
pub(crate) fn push_segment(text: &mut String, segment: &str) {
    text.push('/');
    if segment.contains(['~', '/']) {
        text.push_str(&segment.replace('~', "~0").replace('/', "~1"));
    } else {
        text.push_str(segment);
    }
}
