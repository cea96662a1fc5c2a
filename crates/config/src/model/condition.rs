//! Conditions of routes and logs that are templates.

use crate::template::Template;

/// `if`: a template tested for truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// It had a leading `!`.
    pub negated: bool,
    /// The text that is tested.
    pub template: Template,
}
