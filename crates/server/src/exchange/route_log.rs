//! `settings.http.log_route`: logs what happens to a request on its way through the routes.
//!
//! The lines are those of Unit's documentation ("Router events"): `*N` numbers the requests of the server.

use std::fmt::Write as _;

use tutti_config::model::{OutOfSteps, Pointer};
use tutti_config::pattern::BACKTRACK_LIMIT;
use tutti_pool::Level;
use tutti_routing::{RouteEvent, ScriptError};

use crate::local::Local;

/// Logs the beginning of a request.
pub(crate) fn begin(local: &Local, number: u64, request_line: &[u8]) {
    let line = format!("http request line \"{}\"", Plain(request_line));
    log(local, number, Level::Notice, &line);
}

/// Logs an event on its way.
pub(crate) fn note(local: &Local, number: u64, event: RouteEvent<'_>) {
    let (level, text) = match event {
        RouteEvent::Discarded(route, step) => (
            Level::Info,
            format!("\"{}\" discarded", LoggedStep(route, step)),
        ),
        RouteEvent::Selected(route, step) => (
            Level::Notice,
            format!("\"{}\" selected", LoggedStep(route, step)),
        ),
        RouteEvent::Rewritten(path) => (
            Level::Notice,
            format!("URI rewritten to \"{}\"", Plain(path)),
        ),
        RouteEvent::Found => (Level::Notice, "\"found\" taken".to_owned()),
        RouteEvent::Folder => (Level::Notice, "\"folder\" taken".to_owned()),
        RouteEvent::Fallback => (Level::Notice, "\"fallback\" taken".to_owned()),
    };
    log(local, number, level, &text);
}

fn log(local: &Local, number: u64, level: Level, text: &str) {
    local.log(level, &format!("*{number} {text}"));
}

/// A step in the notation of the control API.
struct LoggedStep<'a>(Option<&'a str>, usize);

impl std::fmt::Display for LoggedStep<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(route) => write!(f, "routes/{route}/{}", self.1),
            None => write!(f, "routes/{}", self.1),
        }
    }
}

/// Characters of a script or an expression in the log; enough to find it in the configuration.
const SHOWN: usize = 100;

/// A script for the log: on one line, and truncated.
pub(crate) fn script(template: &str) -> String {
    let shown: String = template.chars().take(SHOWN).collect();
    let rest = if shown.len() < template.len() {
        "…"
    } else {
        ""
    };
    format!("{}{rest}", Plain(shown.as_bytes()))
}

/// Returns a hint for a script that failed, if there is one.
pub(crate) fn cure(failure: &ScriptError) -> &'static str {
    match failure {
        ScriptError::Thrown(text) if text.ends_with(" is not defined") => {
            "; a module can be used if `settings/js_module` names it"
        }
        _ => "",
    }
}

/// Describes a regular expression that could not be evaluated, with its place and a hint.
pub(crate) fn undecided(out_of_steps: OutOfSteps<'_>, place: &Pointer) -> String {
    // It comes from the configuration, so its backslashes are kept; but control characters are replaced.
    let shown: String = out_of_steps
        .expression
        .chars()
        .take(SHOWN)
        .map(|letter| {
            if letter.is_control() {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect();
    format!(
        "`{place}`: the regular expression `{shown}` could not be evaluated: it needs more than {BACKTRACK_LIMIT} backtracking steps (hint: \
         one without repetitions inside of repetitions, back-references and look-around needs none)"
    )
}

/// A client's bytes, escaped so that they cannot forge a line.
pub(crate) struct Plain<'a>(pub(crate) &'a [u8]);

impl std::fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || matches!(character, '"' | '\\') {
                    write!(f, "\\x{:02X}", u32::from(character))?;
                } else {
                    f.write_char(character)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}
