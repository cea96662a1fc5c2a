//! Checks a script before there is a request.

use std::cell::RefCell;
use std::sync::Arc;

use crate::engine::{Engine, HEAD_LINES, Thrown};
use crate::failure::ScriptError;
use crate::modules::{Modules, ScriptModule};

/// A fault in a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// The message, without a period.
    pub message: String,
    /// Line and column inside the script, counted from 1, where they are known.
    pub place: Option<(usize, usize)>,
    /// The module it is in; none for a template.
    pub module: Option<Arc<str>>,
    /// The cure.
    pub hint: Option<&'static str>,
}

impl CompileError {
    fn new(message: impl Into<String>, hint: &'static str) -> CompileError {
        CompileError {
            message: message.into(),
            place: None,
            module: None,
            hint: Some(hint),
        }
    }

    /// A fault of a template.
    fn of_template(thrown: &Thrown, source: &str) -> CompileError {
        let place = place(&thrown.stack)
            .and_then(|(_, line, column)| letters(source, line.checked_sub(HEAD_LINES)?, column));
        CompileError {
            message: thrown.failure.to_string(),
            place,
            module: None,
            hint: None,
        }
    }

    /// A fault of the module that was to be loaded, or of one that it imports.
    fn of_modules(thrown: &Thrown, modules: &Modules) -> CompileError {
        let called = place(&thrown.stack)
            .and_then(|(file, line, column)| Some((modules.get(file)?, line, column)));
        CompileError {
            message: thrown.failure.to_string(),
            place: called.and_then(|(module, line, column)| letters(&module.source, line, column)),
            module: match called {
                Some((module, ..)) => Some(Arc::clone(&module.name)),
                None => thrown.module.clone(),
            },
            hint: None,
        }
    }

    fn of_module(self, module: &ScriptModule) -> CompileError {
        let module = Some(Arc::clone(&module.name));
        CompileError { module, ..self }
    }

    /// Bytes of `source` before the place.
    pub fn offset(&self, source: &str) -> Option<usize> {
        let (line, column) = self.place?;
        let mut lines = source.split_inclusive('\n');
        let before: usize = lines
            .by_ref()
            .take(line.checked_sub(1)?)
            .map(str::len)
            .sum();
        let letters = lines.next().unwrap_or_default().chars();
        let within: usize = letters
            .take(column.saturating_sub(1))
            .map(char::len_utf8)
            .sum();
        Some(before + within)
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

/// Compiles `source` as a template literal.
pub fn check_template(source: &str) -> Result<(), CompileError> {
    let is_closed = source.len() > 1 && source.starts_with('`') && source.ends_with('`');
    if !is_closed {
        return Err(CompileError::new(
            "the template literal is not closed",
            "it begins and ends with a backtick; a backtick inside is written \\\\` in JSON",
        ));
    }
    if source.contains('\0') {
        return Err(CompileError::new(
            "the template literal contains NUL",
            "remove it",
        ));
    }
    CHECKER.with_borrow_mut(|checker| {
        if checker.is_none() {
            let engine = Engine::new(&Modules::default());
            *checker = Some(engine.map_err(|thrown| CompileError::of_template(&thrown, source))?);
        }
        let checked = checker
            .as_ref()
            .map_or(Ok(()), |engine| engine.check(source));
        checked.map_err(|thrown| {
            if !matches!(thrown.failure, ScriptError::Thrown(_)) {
                *checker = None;
            }
            CompileError::of_template(&thrown, source)
        })
    })
}

/// Loads a module in an engine of its own, which does all that the module does when it is loaded. It may import `others`.
pub fn check_module(module: &ScriptModule, others: &Modules) -> Result<(), CompileError> {
    check_text(module)?;
    let all = others.with(module.clone());
    Engine::new(&all)
        .and_then(|engine| engine.load(std::iter::once(module)).map(drop))
        .map_err(|thrown| CompileError::of_modules(&thrown, &all))
}

/// Loads these together, as each thread does that evaluates templates.
pub fn check_modules(modules: &Modules) -> Result<(), CompileError> {
    modules.iter().try_for_each(check_text)?;
    Engine::new(modules)
        .and_then(|engine| engine.load(modules.iter()).map(drop))
        .map_err(|thrown| CompileError::of_modules(&thrown, modules))
}

fn check_text(module: &ScriptModule) -> Result<(), CompileError> {
    let checked = check_name(&module.name).and_then(|()| match module.source.contains('\0') {
        true => Err(CompileError::new(
            "the module contains NUL",
            "it must be JavaScript text",
        )),
        false => Ok(()),
    });
    checked.map_err(|fault| fault.of_module(module))
}

/// Templates write the name, so it has to be one of JavaScript.
fn check_name(name: &str) -> Result<(), CompileError> {
    let hint = "use letters, digits and `_`, as in /js_modules/http";
    let mut letters = name.chars();
    let is_first = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '_' | '$'));
    if !is_first || !letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$')) {
        return Err(CompileError::new(
            "the name of a module is a name of JavaScript",
            hint,
        ));
    }
    if TAKEN.contains(&name) {
        let message = format!("`{name}` is a value of the request in every template");
        return Err(CompileError::new(message, "choose another name"));
    }
    // A word of the language, `class`, is no name either.
    check_template(&format!(
        "`${{((x) => {{ let {name} = x; return {name}; }})(1)}}`"
    ))
    .map_err(|_| {
        CompileError::new(
            format!("`{name}` is a word of JavaScript"),
            "choose another name",
        )
    })
}

/// File, line and column of the innermost call: `    at name (file:3:14)`.
fn place(stack: &str) -> Option<(&str, usize, usize)> {
    let first = stack.lines().next()?.trim_end().trim_end_matches(')');
    let mut parts = first.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    let file = parts.next()?.rsplit(['(', ' ']).next()?;
    Some((file, line, column))
}

/// Line and column in letters: the engine counts bytes of UTF-8.
fn letters(source: &str, line: usize, column: usize) -> Option<(usize, usize)> {
    let text = source.split('\n').nth(line.checked_sub(1)?)?;
    let starts = text.char_indices();
    let before = starts.take_while(|(at, _)| *at + 1 < column).count();
    Some((line, before + 1))
}
