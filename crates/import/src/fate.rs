//! The fate of a directive: its outcome, with the reason or the remedy.
//!
//! The readers of the sources say it of each directive that they are asked about; `reference` makes the table of it.

/// The outcome of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is carried over.
    Carried,
    /// It is carried over with a difference, which is reported.
    Different,
    /// Nothing has to be written for it.
    Harmless,
    /// It is lost, and requests that it applies to get 403.
    Closed,
    /// It is lost.
    Lost,
}

/// The fate of a directive: the outcome, and the reason or the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) outcome: Outcome,
    pub(crate) why: &'static str,
}

impl Fate {
    const fn new(outcome: Outcome, why: &'static str) -> Self {
        Self { outcome, why }
    }

    pub(crate) const fn carried() -> Self {
        Self::new(Outcome::Carried, "")
    }

    pub(crate) const fn different(why: &'static str) -> Self {
        Self::new(Outcome::Different, why)
    }

    pub(crate) const fn harmless(why: &'static str) -> Self {
        Self::new(Outcome::Harmless, why)
    }

    pub(crate) const fn closed(why: &'static str) -> Self {
        Self::new(Outcome::Closed, why)
    }

    pub(crate) const fn lost(why: &'static str) -> Self {
        Self::new(Outcome::Lost, why)
    }
}
