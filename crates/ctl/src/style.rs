//! Colours, where somebody looks: on a terminal, unless `NO_COLOR` is set (no-color.org) or it is a dumb one.

use std::io::IsTerminal;

/// Bold.
pub fn strong(text: &str) -> String {
    paint("1", text)
}

/// Red and bold: what is wrong.
pub fn bad(text: &str) -> String {
    paint("1;31", text)
}

/// Green and bold: what went well.
pub(crate) fn good(text: &str) -> String {
    paint("1;32", text)
}

/// Cyan: places and hints.
pub fn place(text: &str) -> String {
    paint("36", text)
}

/// Dim: what is there for completeness.
pub fn quiet(text: &str) -> String {
    paint("2", text)
}

fn paint(code: &str, text: &str) -> String {
    if is_colourful() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// True if there are colours.
pub(crate) fn is_colourful() -> bool {
    let quiet = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    // Errors go to stderr and tables to stdout; colour only where both are seen, so that neither ends up in a file.
    !quiet && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}
