//! The response to a wrong call, of the command line and of the server: the mistyped word, and the likely intended one.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::report::CommandError;

/// The exit code for wrong arguments.
pub const USAGE_ERROR: u8 = 2;

/// Prints the error and returns the exit code: `code` for a mistake, success for requested help.
///
/// `commands` are the valid names if a command was expected.
pub fn refuse(error: &clap::Error, code: u8, commands: &[&str]) -> ExitCode {
    match mistyped(error, commands) {
        Some(failure) => failure.code(code).show(),
        None => {
            // clap colours its output on a terminal; help and the version go to standard output and are not errors.
            let _ = error.print();
            if error.use_stderr() {
                ExitCode::from(code)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}

/// Returns the failure for a word that is not a command, option or value.
fn mistyped(error: &clap::Error, commands: &[&str]) -> Option<CommandError> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let (what, wrong, near) = match error.kind() {
        ErrorKind::InvalidSubcommand => (
            "command",
            text(ContextKind::InvalidSubcommand)?,
            ContextKind::SuggestedSubcommand,
        ),
        ErrorKind::UnknownArgument => (
            "option",
            text(ContextKind::InvalidArg)?,
            ContextKind::SuggestedArg,
        ),
        _ => return None,
    };
    let is_word = what == "option" && !wrong.starts_with('-');
    let failure = CommandError::new(if is_word {
        format!("unexpected argument `{wrong}`")
    } else {
        format!("there is no {what} `{wrong}`")
    });
    // A short word with two letters swapped is not similar enough for clap.
    let nearest = || {
        let commands = commands.iter().copied().filter(|_| what == "command");
        tutti_config::nearest(&wrong, commands).map(str::to_owned)
    };
    Some(match text(near).or_else(nearest) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("see `--help`"),
    })
}
