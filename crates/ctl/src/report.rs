//! The messages of the command line, and how it fails.

use std::io::{self, Write};
use std::process::ExitCode;

use super::style;

/// Why a command did not do what was asked: told on stderr, with a hint where there is a cure.
#[derive(Debug)]
pub struct CommandError {
    message: String,
    hint: Option<String>,
    /// Printed instead of the message: excerpts with carets.
    excerpt: Option<String>,
    code: u8,
}

impl CommandError {
    /// Something went wrong; `message` says what, without a period.
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

    /// Adds what to do.
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

    /// In one sentence, without what to do.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The message for the person.
    pub(crate) fn text(&self) -> String {
        // An excerpt has an `error:` of its own for each fault; one more would say the same again.
        let mut text = match &self.excerpt {
            Some(excerpt) => excerpt.clone(),
            None => format!("{} {}\n", style::bad("error:"), self.message),
        };
        if let Some(hint) = &self.hint {
            text.push_str(&format!("{} {hint}\n", style::place("hint:")));
        }
        text
    }

    /// Tells the person and gives the exit code.
    pub fn show(&self) -> ExitCode {
        // Nobody is left to tell when stderr is closed.
        let _ = io::stderr().write_all(self.text().as_bytes());
        ExitCode::from(self.code)
    }
}

/// One line on stdout.
pub(crate) fn say(line: &str) {
    // A closed pipe (`| head`) is no error of ours.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Bytes on stdout.
pub fn write(bytes: &[u8]) -> Result<ExitCode, CommandError> {
    match io::stdout().write_all(bytes) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(CommandError::new(format!(
            "cannot write to stdout: {error}"
        ))),
    }
}
