//! Which rules hold for an answer, by their numbers.

use smallvec::SmallVec;

/// The rules that hold for an answer: those of the action first, then those of what has led there, those of the listener last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet(SmallVec<[u32; 4]>);

impl RuleSet {
    /// Those of a listener.
    pub(crate) fn of(listener: Option<u32>) -> Self {
        Self(listener.into_iter().collect())
    }

    /// Puts the rules of an action before them.
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
