//! The rules for a response, by their numbers.

use smallvec::SmallVec;

/// The rules for a response: those of the action first, then those on the way to it, those of the listener last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet(SmallVec<[u32; 4]>);

impl RuleSet {
    /// The rules of a listener.
    pub(crate) fn of(listener: Option<u32>) -> Self {
        Self(listener.into_iter().collect())
    }

    /// Prepends the rules of an action.
    pub(crate) fn add(&mut self, rules: Option<u32>) {
        if let Some(rules) = rules
            && !self.0.contains(&rules)
        {
            self.0.insert(0, rules);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}
