//! `settings.http.log_route`: what happens to a request on its way through the routes, in the server's log.
//!
//! The lines are those of Unit's documentation ("Router events"): `*N` numbers the requests of the server.

use std::fmt::Write as _;

use tutti_config::model::{OutOfSteps, Pointer};
use tutti_config::pattern::BACKTRACK_LIMIT;
use tutti_pool::Level;
use tutti_routing::{RouteEvent, ScriptError};

use crate::local::Local;

/// A request begins.
pub(crate) fn begin(local: &Local, number: u64, request_line: &[u8]) {
    let line = format!("http request line \"{}\"", Plain(request_line));
    log(local, number, Level::Notice, &line);
}

/// Something on its way.
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
        RouteEvent::Fallback => (Level::Notice, "\"fallback\" taken".to_owned()),
    };
    log(local, number, level, &text);
}

fn log(local: &Local, number: u64, level: Level, text: &str) {
    local.log(level, &format!("*{number} {text}"));
}

/// A step as the control API names it.
struct LoggedStep<'a>(Option<&'a str>, usize);

impl std::fmt::Display for LoggedStep<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(route) => write!(f, "routes/{route}/{}", self.1),
            None => write!(f, "routes/{}", self.1),
        }
    }
}

/// Characters of a script or an expression in the log; more is not needed to find it in the configuration.
const SHOWN: usize = 100;

/// A script as the log shows it: on one line, and not all of a long one.
pub(crate) fn script(template: &str) -> String {
    let shown: String = template.chars().take(SHOWN).collect();
    let rest = if shown.len() < template.len() {
        "…"
    } else {
        ""
    };
    format!("{}{rest}", Plain(shown.as_bytes()))
}

/// Returns the cure for a script that failed, where one can be told.
pub(crate) fn cure(failure: &ScriptError) -> &'static str {
    match failure {
        ScriptError::Thrown(text) if text.ends_with(" is not defined") => {
            "; a module can be used if `settings/js_module` names it"
        }
        _ => "",
    }
}

/// That a regular expression has no answer, where, and what to do about it.
pub(crate) fn undecided(out_of_steps: OutOfSteps<'_>, place: &Pointer) -> String {
    // It is the configuration's own, so its backslashes stay; but a line of the log ends where the server says.
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
        "`{place}`: nobody can tell whether the regular expression `{shown}` matches: it needs more than {BACKTRACK_LIMIT} steps back (hint: \
         one without repetitions inside of repetitions, back-references and look-around needs none)"
    )
}

/// Bytes of a client that cannot forge a line.
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
