//! The messages and failures of the command line.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use super::style;

/// Why a command failed: printed on stderr, with a hint if there is a remedy.
#[derive(Debug)]
pub struct CommandError {
    message: String,
    hint: Option<String>,
    /// Printed instead of the message: excerpts of the source with carets.
    excerpt: Option<String>,
    code: u8,
}

impl CommandError {
    /// Creates a failure; `message` has no trailing period.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            excerpt: None,
            code: 1,
        }
    }

    /// Ends the program with this code instead of 1.
    #[must_use]
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds an excerpt of the source.
    #[must_use]
    pub(crate) fn excerpt(mut self, excerpt: String) -> Self {
        self.excerpt = Some(excerpt);
        self
    }

    /// Adds a line with the event that led to the failed step.
    #[must_use]
    pub(crate) fn with_cause(mut self, cause: &str) -> Self {
        self.message.push_str("\n  ");
        self.message.push_str(cause);
        self
    }

    /// Returns the message in one sentence, without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Formats the failure for people.
    pub(crate) fn text(&self) -> String {
        // Each fault of an excerpt has its own `error:`; one more would repeat it.
        let mut text = match &self.excerpt {
            Some(excerpt) => excerpt.clone(),
            None => format!("{} {}\n", style::bad("error:"), self.message),
        };
        if let Some(hint) = &self.hint {
            text.push_str(&format!("{} {hint}\n", style::place("hint:")));
        }
        text
    }

    /// Prints the failure and returns the exit code.
    pub fn show(&self) -> ExitCode {
        // If stderr is closed, there is nowhere to report to.
        let _ = io::stderr().write_all(self.text().as_bytes());
        ExitCode::from(self.code)
    }
}

/// Why a line could not be printed first.
static UNPRINTED: OnceLock<CommandError> = OnceLock::new();

/// Prints one line on stdout. A failure is reported when the command has ended ([`end`]), because it does more than
/// print.
pub(crate) fn say(line: &str) {
    if let Err(failure) = write(format!("{line}\n").as_bytes()) {
        let _ = UNPRINTED.set(failure);
    }
}

/// Writes bytes to stdout.
pub fn write(bytes: &[u8]) -> Result<ExitCode, CommandError> {
    match io::stdout().write_all(bytes) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => unwritten(&error),
    }
}

/// The outcome of a command whose output could not be written.
pub(crate) fn unwritten(error: &io::Error) -> Result<ExitCode, CommandError> {
    match error.kind() {
        // The reader has gone (`| head`).
        io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        _ => Err(CommandError::new(format!(
            "cannot write to stdout: {error}"
        ))),
    }
}

/// Reports the failure of a command, and returns its exit status.
pub(crate) fn end(done: Result<ExitCode, CommandError>) -> ExitCode {
    match (done, UNPRINTED.get()) {
        (Err(failure), _) => failure.show(),
        (Ok(_), Some(failure)) => failure.show(),
        (Ok(code), None) => code,
    }
}
