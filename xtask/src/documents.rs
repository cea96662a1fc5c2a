//! Every file that the documents name exists, every heading they lead to, and every test and constant.

use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;

/// Folders with documents, besides the root of the repository; those of `docs` may have folders of their own.
const FOLDERS: &[&str] = &["docs", "bench", "spec"];

/// All documents, by their paths in the repository.
pub(crate) fn all(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders: Vec<String> = vec![String::new()];
    folders.extend(FOLDERS.iter().map(|&folder| folder.to_owned()));
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder))
            .with_context(|| format!("`{folder}` cannot be read"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            if path.ends_with(".md") {
                found.push(path);
            } else if folder.starts_with("docs") && entry.file_type()?.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for document in &all(root)? {
        let path = root.join(document);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{document} cannot be read"))?;
        let folder = path.parent().unwrap_or(root);
        for (offset, file, name) in items_named(&text) {
            let source = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            let is_constant = !name.contains(|letter: char| letter.is_ascii_lowercase());
            let (kind, definition) = match is_constant {
                true => ("constant", format!("const {name}: ")),
                false => ("test", format!("fn {name}(")),
            };
            if !source.contains(&definition) {
                breaches.push(Breach::new(
                    format!("{document}:{}", line_of(&text, offset)),
                    format!("there is no {kind} `{name}` in `{file}`"),
                ));
            }
        }
        for (offset, target) in links(&text) {
            if let Some(fault) = fault_of_link(&path, folder, &text, target) {
                breaches.push(Breach::new(
                    format!("{document}:{}", line_of(&text, offset)),
                    fault,
                ));
            }
        }
    }
    Ok(breaches)
}

/// The tests and constants named as `PATH.rs::NAME` in backticks: offset, path, name.
fn items_named(text: &str) -> Vec<(usize, &str, &str)> {
    text.match_indices(".rs::")
        .filter_map(|(offset, _)| {
            let start = text.get(..offset)?.rfind('`')? + 1;
            let end = offset + text.get(offset..)?.find('`')?;
            let (file, test) = text.get(start..end)?.split_once("::")?;
            Some((offset, file, test))
        })
        .collect()
}

/// Says why a link leads nowhere: there is no such file, or no such heading in it.
fn fault_of_link(path: &Path, folder: &Path, text: &str, target: &str) -> Option<String> {
    let (file, part) = target
        .split_once('#')
        .map_or((target, None), |(file, part)| (file, Some(part)));
    let named = if file.is_empty() {
        path.to_owned()
    } else {
        folder.join(file)
    };
    if !named.exists() {
        return Some(format!("`{file}` does not exist"));
    }
    let part = part.filter(|_| named.extension().is_some_and(|extension| extension == "md"))?;
    let other = if file.is_empty() {
        text.to_owned()
    } else {
        std::fs::read_to_string(&named).ok()?
    };
    let is_there = headings(&other).iter().any(|heading| heading == part)
        || other.contains(&format!("id=\"{part}\""));
    (!is_there).then(|| format!("`{}` has no heading `#{part}`", named.display()))
}

/// The names by which headings are linked to: lower case, without punctuation, a hyphen for each space.
fn headings(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let plain = |letter: char| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        };
        let name: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(plain)
            .collect();
        let same = found.iter().filter(|other| **other == name).count();
        found.push(if same == 0 {
            name
        } else {
            format!("{name}-{same}")
        });
    }
    found
}

/// The targets of Markdown links that are no addresses, with their offsets: not those within code.
pub(crate) fn links(text: &str) -> Vec<(usize, &str)> {
    text.match_indices("](")
        .filter(|(offset, _)| !is_within_code(text, *offset))
        .filter_map(|(offset, _)| {
            let rest = text.get(offset + 2..)?;
            let target = rest.get(..rest.find(')')?)?;
            (!target.contains("://") && !target.starts_with("mailto:")).then_some((offset, target))
        })
        .collect()
}

/// True for a place in a block of code, or between backticks of its line.
fn is_within_code(text: &str, offset: usize) -> bool {
    let before = text.get(..offset).unwrap_or_default();
    let fences = before
        .lines()
        .filter(|line| line.trim_start().starts_with("```"))
        .count();
    let line = before.rsplit('\n').next().unwrap_or_default();
    fences % 2 == 1 || line.matches('`').count() % 2 == 1
}

/// The line number of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::{headings, items_named, links};

    #[test]
    fn headings_are_linked_to_by_plain_names() {
        let text = "# Jobs: the spooler\n```sh\n# no heading\n```\n## `limits`, in short\n## Options\n## Options\n";
        assert_eq!(
            headings(text),
            [
                "jobs-the-spooler",
                "limits-in-short",
                "options",
                "options-1"
            ]
        );
    }

    #[test]
    fn tests_are_named_by_file_and_name() {
        let text = "| a | `tests/a.rs::one` |\n`x` `crates/b/tests/c.rs::two`";
        let named: Vec<(&str, &str)> = items_named(text)
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
