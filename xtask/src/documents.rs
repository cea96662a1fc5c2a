//! Every file that the documents name exists.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{Breach, line_of};

const DOCUMENTS: &[&str] = &[
    "ARCHITECTURE.md",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "docs/performance.md",
    "docs/README.md",
];

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for document in DOCUMENTS {
        let path = root.join(document);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{document} cannot be read"))?;
        let folder = path.parent().unwrap_or(root);
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

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn relative_links_are_found_and_addresses_are_not() {
        let text = "[a](crates/a.rs) [b](https://example.org/x) [c](#part) [d](docs/d.md#part)";
        let targets: Vec<&str> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(targets, ["crates/a.rs", "#part", "docs/d.md#part"]);
    }
}
