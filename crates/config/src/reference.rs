//! The reference page, from the option table.
//!
//! Called by `cargo xtask`, which writes it to the documentation; never edited by hand.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::table::{Kind, Object, Opt, ROOT, Support, TYPES};

/// Every object with its options: name, type, default, unit, effect. Markdown.
pub fn reference_markdown() -> String {
    let mut page =
        String::from("# Configuration reference\n\nMade from the option table; do not edit.\n");
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&'static Object> = vec![&ROOT];
    while let Some(table) = waiting.pop() {
        if !seen.insert(table.name) {
            continue;
        }
        section(table, &mut page);
        let mut inner = Vec::new();
        for option in table.all() {
            objects(&option.kind, &mut inner);
        }
        waiting.extend(inner.into_iter().rev());
    }
    page
}

fn section(table: &'static Object, page: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(page, "\n## {}\n\n{}.\n\n", table.name, table.summary);
    page.push_str("| Option | Value | Default | Effect |\n|---|---|---|---|\n");
    for option in table.all() {
        let _ = writeln!(page, "{}", row(option));
    }
}

fn row(option: &Opt) -> String {
    let mut effect = option.effect.to_owned();
    if option.required {
        effect.push_str(". Required");
    }
    if !option.needs.is_empty() {
        let _ = write!(effect, ". Only with `{}`", option.needs.join("`, `"));
    }
    if option.support == Support::Later {
        effect.push_str(". *Not supported by this version yet*");
    }
    let unit = if option.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", option.unit)
    };
    let default = match option.default {
        "" => String::new(),
        default => format!("`{}`", cell(default)),
    };
    format!(
        "| `{}` | {}{unit} | {default} | {} |",
        option.name,
        cell(&value(&option.kind)),
        cell(&effect)
    )
}

/// A `|` would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn value(kind: &Kind) -> String {
    match kind {
        Kind::Object(table) => format!(
            "object: [{}](#{})",
            table.name,
            table.name.replace(' ', "-")
        ),
        Kind::Map(_, values) => format!("object; each value: {}", value(values)),
        Kind::Array(element) => format!("array; each element: {}", value(element)),
        Kind::OneOf(kinds) => kinds.iter().map(value).collect::<Vec<_>>().join(", or "),
        Kind::Application => {
            let types: Vec<String> = TYPES
                .iter()
                .map(|known| format!("[{0}](#{0})", known.object.name))
                .collect();
            format!("object: {}", types.join(", "))
        }
        _ => kind.words(),
    }
}

fn objects(kind: &Kind, found: &mut Vec<&'static Object>) {
    match kind {
        Kind::Object(table) => found.push(table),
        Kind::Map(_, inner) | Kind::Array(inner) => objects(inner, found),
        Kind::OneOf(kinds) => kinds.iter().for_each(|kind| objects(kind, found)),
        Kind::Application => found.extend(TYPES.iter().map(|known| known.object)),
        _ => {}
    }
}
