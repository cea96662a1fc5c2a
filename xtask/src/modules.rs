//! No cycles among the modules of a crate, judged by its top-level modules and what their code names with `crate::`.

use std::collections::{BTreeMap, BTreeSet};

use crate::Breach;
use crate::source::SourceFile;

/// Uses that close a cycle today (crate, module, what it uses): small helpers and types on the wrong side, to be moved when
/// their file is next touched. The list only shrinks.
const TOLERATED: &[(&str, &str, &str)] = &[
    ("config", "document", "print"),
    ("config", "model", "address"),
    ("http", "chunked", "body"),
    ("http", "field", "head"),
    ("pool", "generation", "exchange"),
    ("pool", "generation", "supervisor"),
    ("pool", "supervisor", "application"),
    ("routing", "action", "router"),
    ("sdk/php", "ffi", "serving"),
    ("worker", "serve", "prototype"),
];

pub(crate) fn check(name: &str, files: &[SourceFile]) -> Vec<Breach> {
    let is_tolerated = |from: &str, to: &str| TOLERATED.contains(&(name, from, to));
    let modules: BTreeSet<String> = files.iter().filter_map(top_module).collect();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut unneeded: Vec<(&str, &str)> = TOLERATED
        .iter()
        .filter(|(listed, ..)| *listed == name)
        .map(|(_, from, to)| (*from, *to))
        .collect();
    for file in files {
        let Some(module) = top_module(file) else {
            continue;
        };
        for used in named_modules(file.production()) {
            if used == module || !modules.contains(&used) {
                continue;
            }
            if is_tolerated(&module, &used) {
                unneeded.retain(|(from, to)| (*from, *to) != (module.as_str(), used.as_str()));
            } else {
                uses.entry(module.clone()).or_default().insert(used);
            }
        }
    }
    let place = format!("crate {name}");
    let cyclic = cycles(&uses)
        .into_iter()
        .map(|cycle| format!("modules use each other: {}", cycle.join(" → ")));
    let stale = unneeded.into_iter().map(|(from, to)| {
        format!("`{from}` does not use `{to}` any more: take it off the list in xtask")
    });
    cyclic
        .chain(stale)
        .map(|message| Breach::new(&place, message))
        .collect()
}

/// `router/free.rs` and `router.rs` → `router`; the crate's root and binaries have none.
fn top_module(file: &SourceFile) -> Option<String> {
    let first = file.inside.split('/').next()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (!matches!(module, "lib" | "main" | "bin" | "build") && !file.is_test())
        .then(|| module.to_owned())
}

/// The first segments of all `crate::` paths, those in braces too.
fn named_modules(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (offset, _) in code.match_indices("crate::") {
        // `pub(in crate::x)` is about visibility, not use.
        if code.get(..offset).unwrap_or_default().ends_with("in ") {
            continue;
        }
        let rest = code.get(offset + "crate::".len()..).unwrap_or_default();
        match rest.strip_prefix('{') {
            Some(list) => found.extend(list_heads(list)),
            None => found.extend(word(rest)),
        }
    }
    found
}

fn word(text: &str) -> Option<String> {
    let end = text
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    text.get(..end)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// The heads of a braced list: `{a::{b, c}, d}` → a, d.
fn list_heads(list: &str) -> Vec<String> {
    let (mut depth, mut heads, mut is_start) = (0_usize, Vec::new(), true);
    for (offset, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            _ if is_start && !letter.is_whitespace() => {
                heads.extend(word(list.get(offset..).unwrap_or_default()));
                is_start = false;
            }
            _ => {}
        }
    }
    heads
}

/// One cycle for each strongly connected group, found by walking from each module back to itself.
fn cycles(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in uses.keys() {
        if found.iter().any(|cycle| cycle.contains(start)) {
            continue;
        }
        if let Some(mut path) = path_between(uses, start, start) {
            path.push(start.clone());
            found.push(path);
        }
    }
    found
}

/// The shortest way from one module to another, by breadth.
fn path_between(
    uses: &BTreeMap<String, BTreeSet<String>>,
    from: &str,
    to: &str,
) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way
                .last()
                .and_then(|last| uses.get(last))
                .into_iter()
                .flatten()
            {
                if next == to {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    let mut way = way.clone();
                    way.push(next.clone());
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_braces_are_seen() {
        let code = "use crate::{alpha::{One, Two}, beta};\nfn f() { crate::gamma::g(); }\npub(in crate::delta) struct X;";
        assert_eq!(
            named_modules(code).into_iter().collect::<Vec<_>>(),
            ["alpha", "beta", "gamma"]
        );
    }

    #[test]
    fn a_cycle_over_three_modules_is_found() {
        let edge = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
        let cyclic = BTreeMap::from([
            edge("a", "b"),
            edge("b", "c"),
            edge("c", "a"),
            edge("d", "a"),
        ]);
        assert_eq!(cycles(&cyclic), [["a", "b", "c", "a"]]);
        assert!(cycles(&BTreeMap::from([edge("a", "b"), edge("b", "c")])).is_empty());
    }
}
