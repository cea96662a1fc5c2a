//! Why an application could not be started: the step, the problem, the hint, and the output of its processes.

use std::fmt;

/// A failed start, reported as an error at the application's place in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// Application.
    pub name: String,
    /// JSON pointer of the application object.
    pub pointer: String,
    /// The step that failed, e.g. `find module`, `exec`, `load`, `start worker`.
    pub step: String,
    /// The problem.
    pub message: String,
    /// The remedy, if known.
    pub hint: Option<String>,
    /// The end of the processes' output on stderr and stdout.
    pub stderr: String,
}

impl StartFailure {
    /// A failure without output of the process.
    pub fn new(
        spec: &crate::spec::AppSpec,
        step: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        StartFailure {
            name: spec.name.to_string(),
            pointer: spec.pointer.clone(),
            step: step.into(),
            message: message.into(),
            hint: None,
            stderr: String::new(),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Points at an option of the application: a JSON pointer inside it, without the first `/`.
    #[must_use]
    pub(crate) fn at(mut self, member: Option<&str>) -> Self {
        if let Some(member) = member {
            self.pointer = format!("{}/{member}", self.pointer);
        }
        self
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "application \"{}\" failed to start ({}): {}",
            self.name, self.step, self.message
        )?;
        if let Some(hint) = &self.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StartFailure {}
