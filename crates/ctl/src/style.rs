//! Colours, for people: on a terminal, unless `NO_COLOR` is set (no-color.org) or it is a dumb one.

use std::io::IsTerminal;

/// Bold.
pub fn strong(text: &str) -> String {
    paint("1", text)
}

/// Red and bold: faults.
pub fn bad(text: &str) -> String {
    paint("1;31", text)
}

/// Green and bold: success.
pub fn good(text: &str) -> String {
    paint("1;32", text)
}

/// Cyan: places and hints.
pub fn place(text: &str) -> String {
    paint("36", text)
}

/// Dim: secondary information.
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
    // Errors go to stderr and tables to stdout; colour is used only if both are terminals, so that it never ends up in
    // a file.
    !quiet && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}
