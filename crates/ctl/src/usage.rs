//! The answer to a call that is not understood, by the command line and by the server alike: what was mistyped, and what was
//! meant.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::report::CommandError;

/// The exit code for a call that is not understood.
pub const USAGE_ERROR: u8 = 2;

/// Tells the person, and gives the exit code: `code` for a mistake, success for help that was asked for.
///
/// `commands` are the names of those there are where one was expected.
pub fn refuse(error: &clap::Error, code: u8, commands: &[&str]) -> ExitCode {
    match mistyped(error, commands) {
        Some(failure) => failure.code(code).show(),
        None => {
            // clap colours by itself where there is a terminal; help and the version go to standard output and are no mistake.
            let _ = error.print();
            if error.use_stderr() {
                ExitCode::from(code)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}

/// A word that is no command, option or value.
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
        format!("`{wrong}` is one word too many here")
    } else {
        format!("there is no {what} `{wrong}`")
    });
    // A short word with two letters exchanged is not near enough for clap.
    let nearest = || {
        let commands = commands.iter().copied().filter(|_| what == "command");
        tutti_config::nearest(&wrong, commands).map(str::to_owned)
    };
    Some(match text(near).or_else(nearest) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`--help` lists what there is"),
    })
}
