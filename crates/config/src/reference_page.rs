//! The reference page, generated from the option table.
//!
//! Called by `cargo xtask`, which writes it to the documentation; never edited by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::mime_types::MIME_TYPES;
use crate::table::{Object, Opt, Origin, ROOT, TYPES, ValueKind};

/// The version that rows do not mention.
const FIRST_VERSION: &str = "0.1";

/// The head of the page: rules that apply to every option.
const HEAD: &str = "# Configuration reference

Made from the option table that the server itself checks with; do not edit. How configurations are written, sent and kept is in
[configuration.md](../start/configuration.md); a [JSON Schema](../../spec/config.schema.json) for editors is made from the same table.

Every option is in Tutti since version 0.1 unless its row says otherwise. Those marked *beyond Unit* are unknown to NGINX Unit.
A value of another type, a number out of range, a name that does not exist, and an option without the one it needs are refused
with 400 and a list of all faults, each with its place; what strings are refused for stands under [values](#values).
";

/// Every object with its options: name, type, unit, default, effect, origin. Markdown.
pub fn reference_markdown() -> String {
    let mut page = String::from(HEAD);
    let mut texts = BTreeMap::new();
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
            strings(&option.kind, &mut texts);
        }
        waiting.extend(inner.into_iter().rev());
    }
    page.push_str("\n## built-in MIME types\n\nWithout regard to case; `mime_types` of [static](#static) adds to them or overrides them.\n\n| MIME type | File names end in |\n|---|---|\n");
    for (mime, extensions) in MIME_TYPES {
        let _ = writeln!(page, "| `{mime}` | `{}` |", extensions.join("` `"));
    }
    page.push_str("\n## values\n\n| Value | What it is, and what is refused |\n|---|---|\n");
    for (name, rules) in texts {
        // An anchor for links from the rows above.
        let _ = writeln!(
            page,
            "| <a id=\"{}\"></a>{name} | {} |",
            anchor(name),
            cell(rules)
        );
    }
    page
}

fn anchor(name: &str) -> String {
    format!("value-{}", name.replace(' ', "-"))
}

/// Collects the kinds of strings that need an explanation.
fn strings(kind: &ValueKind, found: &mut BTreeMap<&'static str, &'static str>) {
    match kind {
        ValueKind::String(text) => found.extend(text.rules()),
        ValueKind::Map(_, inner) | ValueKind::Array(inner) => strings(inner, found),
        ValueKind::OneOf(kinds) => kinds.iter().for_each(|kind| strings(kind, found)),
        _ => {}
    }
}

fn section(table: &'static Object, page: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(page, "\n## {}\n\n{}.\n\n", table.name, table.summary);
    page.push_str("| Option | Value | Default | Effect |\n|---|---|---|---|\n");
    for option in table.all() {
        let _ = writeln!(page, "{}", row(table, option));
    }
}

fn row(table: &Object, option: &Opt) -> String {
    let mut effect = option.effect.to_owned();
    if option.required {
        effect.push_str(". Required");
    }
    if !option.needs.is_empty() {
        let _ = write!(effect, ". Only with `{}`", option.needs.join("`, `"));
    }
    if option.origin == Origin::Beyond {
        effect.push_str(". *Beyond Unit*");
    }
    if option.since != FIRST_VERSION {
        let _ = write!(effect, ". Since {}", option.since);
    }
    let unit = if option.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", option.unit)
    };
    let default = match option.default {
        "" => String::new(),
        _ if table.inherits => "as outside".to_owned(),
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

fn value(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Object(table) => format!(
            "object: [{}](#{})",
            table().name,
            table().name.replace(' ', "-")
        ),
        ValueKind::Map(_, values) => format!("object; each value: {}", value(values)),
        ValueKind::Array(element) => format!("array; each element: {}", value(element)),
        ValueKind::OneOf(kinds) => kinds.iter().map(value).collect::<Vec<_>>().join(", or "),
        ValueKind::Application => {
            let types: Vec<String> = TYPES
                .iter()
                .map(|known| format!("[{0}](#{0})", known.object.name))
                .collect();
            format!("object: {}", types.join(", "))
        }
        ValueKind::String(text) => match text.rules() {
            Some((name, _)) => format!("[{name}](#{})", anchor(name)),
            None => text.words(),
        },
        _ => kind.words(),
    }
}

fn objects(kind: &ValueKind, found: &mut Vec<&'static Object>) {
    match kind {
        ValueKind::Object(table) => found.push(table()),
        ValueKind::Map(_, inner) | ValueKind::Array(inner) => objects(inner, found),
        ValueKind::OneOf(kinds) => kinds.iter().for_each(|kind| objects(kind, found)),
        ValueKind::Application => found.extend(TYPES.iter().map(|known| known.object)),
        _ => {}
    }
}
