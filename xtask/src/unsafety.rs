//! `unsafe` only where the architecture allows it, each block with a `// SAFETY:` comment right above.

use crate::Breach;
use crate::place;
use crate::source::SourceFile;

/// Folders and files that may contain `unsafe`, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/sys/src/", "the safe face of Linux"),
    ("crates/wire/src/map.rs", "maps the segment"),
    (
        "crates/wire/src/span.rs",
        "bytes that the other side may change at any time",
    ),
    (
        "crates/wire/src/interrupt.rs",
        "a signal handler that touches a mapped word",
    ),
    ("sdk/", "foreign language runtimes"),
];

pub(crate) fn check(file: &SourceFile) -> Vec<Breach> {
    let is_allowed = ALLOWED.iter().any(|(path, _)| file.path.starts_with(path));
    let mut breaches = Vec::new();
    for (offset, _) in file.code.match_indices("unsafe") {
        if !is_word(&file.code, offset, "unsafe".len()) {
            continue;
        }
        if !is_allowed {
            breaches.push(Breach::new(
                place(file, offset),
                "`unsafe` is allowed only in `sys`, `sdk` and wire's mapping modules",
            ));
        } else if needs_reason(&file.code, offset) && !has_reason(&file.text, offset) {
            breaches.push(Breach::new(
                place(file, offset),
                "no `// SAFETY:` comment above this `unsafe`",
            ));
        }
    }
    breaches
}

fn is_word(code: &str, offset: usize, length: usize) -> bool {
    let is_letter = |index: Option<usize>| {
        index
            .and_then(|index| code.as_bytes().get(index))
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    !is_letter(offset.checked_sub(1)) && !is_letter(Some(offset + length))
}

/// A block or an implementation asserts something; `unsafe fn`, `unsafe extern` and `#[unsafe(…)]` announce it.
fn needs_reason(code: &str, offset: usize) -> bool {
    let rest = code
        .get(offset + "unsafe".len()..)
        .unwrap_or_default()
        .trim_start();
    rest.starts_with('{') || rest.starts_with("impl")
}

/// Whether the lines above the statement that holds the block are a comment with `SAFETY:`.
fn has_reason(text: &str, offset: usize) -> bool {
    let before: Vec<&str> = text
        .get(..offset)
        .unwrap_or_default()
        .lines()
        .rev()
        .collect();
    if before.first().is_some_and(|line| line.contains("SAFETY:")) {
        return true;
    }
    // Up to the start of the statement, then the comment; a statement may be broken over some lines.
    let mut statement_lines = 0;
    for line in before.iter().skip(1) {
        let line = line.trim();
        if line.starts_with("//") {
            if line.contains("SAFETY:") {
                return true;
            }
        } else if !line.starts_with("#[") {
            statement_lines += 1;
            if statement_lines > 4 || line.ends_with(['}', ';']) {
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::blank;

    fn breaches(path: &str, text: &str) -> usize {
        let file = SourceFile {
            path: path.to_owned(),
            inside: "x.rs".to_owned(),
            text: text.to_owned(),
            code: blank(text),
        };
        check(&file).len()
    }

    #[test]
    fn unsafe_outside_the_allowed_places_is_a_breach() {
        assert_eq!(
            breaches("crates/pool/src/x.rs", "// SAFETY: none\nunsafe { f() }"),
            1
        );
        assert_eq!(
            breaches("crates/pool/src/x.rs", "#![forbid(unsafe_code)] // unsafe"),
            0
        );
    }

    #[test]
    fn a_block_needs_its_reason_above() {
        assert_eq!(
            breaches("crates/sys/src/x.rs", "let a = 1;\nlet b = unsafe { f() };"),
            1
        );
        assert_eq!(
            breaches(
                "crates/sys/src/x.rs",
                "// SAFETY: f has no preconditions.\nlet b =\n    unsafe { f() };"
            ),
            0
        );
        assert_eq!(
            breaches(
                "crates/sys/src/x.rs",
                "// SAFETY: of another.\nlet a = 1;\nlet b = unsafe { f() };"
            ),
            1
        );
        assert_eq!(
            breaches("crates/sys/src/x.rs", "unsafe extern \"C\" { fn f(); }"),
            0
        );
    }
}
