//! What can be found out about a script before there is a request.

use std::cell::RefCell;

use crate::Failure;
use crate::engine::{Engine, HEAD_LINES, Thrown};
use crate::modules::{Module, Modules};

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What is wrong, without a period.
    pub message: String,
    /// Line and column inside the script, counted from 1, where they are known.
    pub place: Option<(usize, usize)>,
    /// What to do about it.
    pub hint: Option<&'static str>,
}

impl Fault {
    fn new(message: impl Into<String>, hint: &'static str) -> Fault {
        Fault {
            message: message.into(),
            place: None,
            hint: Some(hint),
        }
    }

    fn of(thrown: &Thrown, lines_before: usize) -> Fault {
        let place = place(&thrown.stack)
            .and_then(|(line, column)| Some((line.checked_sub(lines_before)?, column)))
            .filter(|(line, _)| *line > 0);
        Fault {
            message: thrown.failure.to_string(),
            place,
            hint: None,
        }
    }
}

/// Names that mean something in a template already.
const TAKEN: [&str; 7] = [
    "uri",
    "host",
    "remoteAddr",
    "args",
    "cookies",
    "headers",
    "vars",
];

thread_local! {
    /// Made for the first template, and again after one that met a limit.
    static CHECKER: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// Whether `source` is a template literal that can be compiled.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check_template(source: &str) -> Result<(), Fault> {
    let is_closed = source.len() > 1 && source.starts_with('`') && source.ends_with('`');
    if !is_closed {
        return Err(Fault::new(
            "the template literal is not closed",
            "it begins and ends with a backtick; one inside is written \\\\` in JSON",
        ));
    }
    if source.contains('\0') {
        return Err(Fault::new("the template literal contains NUL", "remove it"));
    }
    CHECKER.with_borrow_mut(|checker| {
        if checker.is_none() {
            let engine = Engine::with(&Modules::default());
            *checker = Some(engine.map_err(|thrown| Fault::of(&thrown, 0))?);
        }
        let checked = checker
            .as_ref()
            .map_or(Ok(()), |engine| engine.check(source));
        checked.map_err(|thrown| {
            if !matches!(thrown.failure, Failure::Thrown(_)) {
                *checker = None;
            }
            Fault::of(&thrown, HEAD_LINES)
        })
    })
}

/// Whether a module can be loaded: what it does when it is loaded is done, in an engine of its own.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check_module(module: &Module) -> Result<(), Fault> {
    check_name(&module.name)?;
    if module.source.contains('\0') {
        return Err(Fault::new(
            "the module contains NUL",
            "it must be JavaScript text",
        ));
    }
    let modules = Modules::new(vec![module.clone()]);
    Engine::with(&modules)
        .map(drop)
        .map_err(|thrown| Fault::of(&thrown, 0))
}

/// Templates write the name, so it has to be one of JavaScript.
fn check_name(name: &str) -> Result<(), Fault> {
    let hint = "use letters, digits and `_`, as in /js_modules/http";
    let mut letters = name.chars();
    let is_first = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '_' | '$'));
    if !is_first || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$')) {
        return Err(Fault::new(
            "the name of a module is a name of JavaScript",
            hint,
        ));
    }
    if TAKEN.contains(&name) {
        let message = format!("`{name}` is a value of the request in every template");
        return Err(Fault::new(message, "choose another name"));
    }
    // A word of the language, `class`, is no name either.
    check_template(&format!(
        "`${{((x) => {{ let {name} = x; return {name}; }})(1)}}`"
    ))
    .map_err(|_| {
        Fault::new(
            format!("`{name}` is a word of JavaScript"),
            "choose another name",
        )
    })
}

/// Line and column of the innermost call: `    at name (file:3:14)`.
fn place(stack: &str) -> Option<(usize, usize)> {
    let first = stack.lines().next()?.trim_end().trim_end_matches(')');
    let mut numbers = first.rsplit(':');
    let column = numbers.next()?.parse().ok()?;
    let line = numbers.next()?.parse().ok()?;
    Some((line, column))
}
