//! Why an application or a worker could not start.

use tutti_options::UnreadableValue;

/// Why an application or a worker could not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {message}")]
pub struct StartError {
    /// The step that failed: `loading php.ini`.
    pub step: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// The option at fault, as a JSON pointer inside the application without its first `/`.
    pub member: Option<String>,
}

impl StartError {
    /// An error without a hint.
    pub fn new(step: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self {
            step: step.into(),
            message: message.to_string(),
            hint: None,
            member: None,
        }
    }

    /// Names the option at fault: `root`, `targets/admin/script`. The error then points there.
    #[must_use]
    pub fn member(mut self, member: impl Into<String>) -> Self {
        self.member = Some(member.into());
        self
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<UnreadableValue> for StartError {
    fn from(unreadable: UnreadableValue) -> Self {
        Self::new("reading the configuration", &unreadable)
            .member(unreadable.member)
            .hint("server and language host must be of one version")
    }
}
