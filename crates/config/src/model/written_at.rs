//! The place where a value was written, which is not part of the value.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use tutti_document::Pointer;

/// The place where a value was written, for messages.
///
/// Two of them are always equal, so that the derived equality of a model ignores its place: an upstream that a change
/// moves to another route is still the same upstream.
#[derive(Clone, Default)]
pub struct WrittenAt(Pointer);

impl Deref for WrittenAt {
    type Target = Pointer;

    fn deref(&self) -> &Pointer {
        &self.0
    }
}

impl From<Pointer> for WrittenAt {
    fn from(pointer: Pointer) -> Self {
        Self(pointer)
    }
}

impl From<WrittenAt> for Pointer {
    fn from(place: WrittenAt) -> Self {
        place.0
    }
}

impl PartialEq for WrittenAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for WrittenAt {}

impl Hash for WrittenAt {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for WrittenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for WrittenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
