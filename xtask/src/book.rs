//! The source of the documents' site: all documents at their places, a table of contents, and links that lead somewhere there.
//!
//! `make site` gives it to mdBook. Links to files that are no documents become addresses below `SOURCE_URL`, where the sources can be read; without it they
//! are plain text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::documents::{all, links};

/// Pages of the repository itself, after the guides.
const PROJECT: &[(&str, &str)] = &[
    ("ARCHITECTURE.md", "Architecture"),
    ("CONTRIBUTING.md", "Contributing"),
    ("SECURITY.md", "Security"),
    ("CHANGELOG.md", "Changelog"),
    ("spec/wire.md", "The wire between server and worker"),
    ("bench/README.md", "The bench"),
];

/// Writes the source of the book into `folder`, which is made new.
pub(crate) fn write(root: &Path, folder: &Path, source_url: Option<&str>) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("`{}` cannot be removed", folder.display()))?;
    }
    let documents = all(root)?;
    let contents = contents(root, &documents)?;
    let listed: BTreeSet<&str> = documents
        .iter()
        .map(String::as_str)
        .filter(|document| contents.contains(&format!("({document})")))
        .collect();
    let place = |file: &str| -> Result<PathBuf> {
        let page = folder.join("src").join(file);
        std::fs::create_dir_all(page.parent().context("a page without a folder")?)?;
        Ok(page)
    };
    for document in &listed {
        let text = std::fs::read_to_string(root.join(document))
            .with_context(|| format!("`{document}` cannot be read"))?;
        let pictures = pictures(document, &text);
        for picture in &pictures {
            std::fs::copy(root.join(picture), place(picture)?)
                .with_context(|| format!("`{picture}`, which {document} shows"))?;
        }
        let mut kept = listed.clone();
        kept.extend(pictures.iter().map(String::as_str));
        std::fs::write(
            place(document)?,
            redirected(document, &text, &kept, source_url),
        )?;
    }
    std::fs::write(folder.join("src/SUMMARY.md"), contents)?;
    std::fs::copy(root.join("packaging/book.toml"), folder.join("book.toml"))
        .context("packaging/book.toml cannot be copied")?;
    Ok(())
}

/// The pictures that a document shows.
fn pictures(document: &str, text: &str) -> Vec<String> {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let is_picture = |target: &&str| target.ends_with(".svg") || target.ends_with(".png");
    let targets = links(text).into_iter().map(|(_, target)| target);
    let own = targets
        .filter(is_picture)
        .filter(|target| !target.contains("://"));
    own.map(|target| normal(&folder.join(target))).collect()
}

/// The table of contents: the guides in the order of docs/README.md, the repository's own pages, the decisions.
fn contents(root: &Path, documents: &[String]) -> Result<String> {
    let guides = std::fs::read_to_string(root.join("docs/README.md"))
        .context("docs/README.md cannot be read")?;
    let mut text = String::from("# Contents\n\n[Tutti](README.md)\n\n# Guides\n\n");
    for (_, target) in links(&guides) {
        let document = format!("docs/{target}");
        if documents.contains(&document) {
            let _ = writeln!(text, "- [{}]({document})", title(root, &document)?);
        }
    }
    text.push_str("\n# The project\n\n");
    for (document, name) in PROJECT {
        let _ = writeln!(text, "- [{name}]({document})");
    }
    text.push_str("\n# Decisions\n\n");
    for document in documents
        .iter()
        .filter(|document| document.starts_with("docs/project/decisions/"))
    {
        let _ = writeln!(text, "- [{}]({document})", title(root, document)?);
    }
    Ok(text)
}

/// A page's own first heading.
fn title(root: &Path, document: &str) -> Result<String> {
    let text = std::fs::read_to_string(root.join(document))
        .with_context(|| format!("`{document}` cannot be read"))?;
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    Ok(heading.unwrap_or(document).replace('`', ""))
}

/// The text with links that lead out of the book changed.
fn redirected(
    document: &str,
    text: &str,
    listed: &BTreeSet<&str>,
    source_url: Option<&str>,
) -> String {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut changed = String::with_capacity(text.len());
    let mut done = 0;
    for (offset, target) in links(text) {
        let file = target.split('#').next().unwrap_or_default();
        let path = normal(&folder.join(file));
        if file.is_empty() || listed.contains(path.as_str()) {
            // mdBook makes `index.html` of a README, and leaves the links to it as they are.
            if let Some(place) = file.strip_suffix("README.md") {
                changed.push_str(text.get(done..offset + 2).unwrap_or_default());
                let _ = write!(changed, "{place}index.md");
                done = offset + 2 + file.len();
            }
            continue;
        }
        // From the `[` that belongs to this `](`, to the closing parenthesis.
        let before = text.get(done..offset).unwrap_or_default();
        let Some(begin) = opening(before) else {
            continue;
        };
        let name = before.get(begin + 1..).unwrap_or_default();
        changed.push_str(before.get(..begin).unwrap_or_default());
        match source_url {
            Some(url) => drop(write!(
                changed,
                "[{name}]({}/{path})",
                url.trim_end_matches('/')
            )),
            None => changed.push_str(name),
        }
        done = offset + 2 + target.len() + 1;
    }
    changed.push_str(text.get(done..).unwrap_or_default());
    changed
}

/// The place of the bracket that is not closed in this text.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (place, letter) in text.char_indices().rev() {
        match letter {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(place),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A path without `..`.
fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_are_text_or_addresses() {
        let listed = BTreeSet::from(["docs/http/tls.md", "ARCHITECTURE.md"]);
        let text = "See [TLS](tls.md#names), [the journeys](../ARCHITECTURE.md), [a [b]](../crates/a.rs) and [decisions](decisions).";
        let plain = redirected("docs/a.md", text, &listed, None);
        assert_eq!(
            plain,
            "See [TLS](tls.md#names), [the journeys](../ARCHITECTURE.md), a [b] and decisions."
        );
        let linked = redirected("docs/a.md", text, &listed, Some("https://example.org/t/"));
        assert!(linked.contains("[a [b]](https://example.org/t/crates/a.rs) and [decisions](https://example.org/t/docs/decisions)."), "{linked}");
    }

    #[test]
    fn links_to_a_readme_lead_to_its_page() {
        let listed = BTreeSet::from(["docs/http/tls.md", "README.md", "bench/README.md"]);
        let text = "[a](../bench/README.md#b), [c](tls.md), [d](../README.md), [e](../crates/README.md), [f](../README.md)";
        let expected =
            "[a](../bench/index.md#b), [c](tls.md), [d](../index.md), e, [f](../index.md)";
        assert_eq!(redirected("docs/a.md", text, &listed, None), expected);
    }

    #[test]
    fn every_guide_is_in_the_book() {
        let root = crate::workspace::root().unwrap();
        let documents = all(&root).unwrap();
        let contents = contents(&root, &documents).unwrap();
        for document in documents
            .iter()
            .filter(|document| document.starts_with("docs/") && *document != "docs/README.md")
        {
            assert!(
                contents.contains(&format!("({document})")),
                "docs/README.md does not name {document}"
            );
        }
    }
}
