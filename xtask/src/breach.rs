//! A rule that is not kept, and the place where.

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) place: String,
    pub(crate) message: String,
}

impl Breach {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }
}
