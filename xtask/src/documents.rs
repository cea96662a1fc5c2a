//! Every file that the documents name exists, and every test.

use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;

const DOCUMENTS: &[&str] = &[
    "ARCHITECTURE.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "docs/performance.md",
    "docs/README.md",
    "docs/compat.md",
    "docs/freeunit.md",
];

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for document in DOCUMENTS {
        let path = root.join(document);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{document} cannot be read"))?;
        let folder = path.parent().unwrap_or(root);
        for (offset, file, test) in tests_named(&text) {
            let source = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            if !source.contains(&format!("fn {test}(")) {
                breaches.push(Breach::new(
                    format!("{document}:{}", line_of(&text, offset)),
                    format!("there is no test `{test}` in `{file}`"),
                ));
            }
        }
        for (offset, target) in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !folder.join(file).exists() {
                breaches.push(Breach::new(
                    format!("{document}:{}", line_of(&text, offset)),
                    format!("`{file}` does not exist"),
                ));
            }
        }
    }
    Ok(breaches)
}

/// The tests named as `PATH.rs::TEST` in backticks: offset, path, test.
fn tests_named(text: &str) -> Vec<(usize, &str, &str)> {
    text.match_indices(".rs::")
        .filter_map(|(offset, _)| {
            let start = text.get(..offset)?.rfind('`')? + 1;
            let end = offset + text.get(offset..)?.find('`')?;
            let (file, test) = text.get(start..end)?.split_once("::")?;
            Some((offset, file, test))
        })
        .collect()
}

/// The targets of Markdown links that are no addresses, with their offsets.
fn links(text: &str) -> Vec<(usize, &str)> {
    text.match_indices("](")
        .filter_map(|(offset, _)| {
            let rest = text.get(offset + 2..)?;
            let target = rest.get(..rest.find(')')?)?;
            (!target.contains("://") && !target.starts_with("mailto:")).then_some((offset, target))
        })
        .collect()
}

/// The line number of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::{links, tests_named};

    #[test]
    fn tests_are_named_by_file_and_name() {
        let text = "| a | `tests/a.rs::one` |\n`x` `crates/b/tests/c.rs::two`";
        let named: Vec<(&str, &str)> = tests_named(text)
            .into_iter()
            .map(|(_, file, test)| (file, test))
            .collect();
        assert_eq!(
            named,
            [("tests/a.rs", "one"), ("crates/b/tests/c.rs", "two")]
        );
    }

    #[test]
    fn relative_links_are_found_and_addresses_are_not() {
        let text = "[a](crates/a.rs) [b](https://example.org/x) [c](#part) [d](docs/d.md#part)";
        let targets: Vec<&str> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(targets, ["crates/a.rs", "#part", "docs/d.md#part"]);
    }
}
