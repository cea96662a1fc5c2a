//! The source of the documents' site: all documents at their places, a table of contents, and links that lead somewhere there.
//!
//! `make site` gives it to mdBook. Links to files that are no documents become addresses below `SOURCE_URL`, where the sources can be read; without it they
//! are plain text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::documents::{all, links};

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
    for file in ["book.toml", "version.js"] {
        std::fs::copy(root.join("packaging/site").join(file), folder.join(file))
            .with_context(|| format!("packaging/site/{file} cannot be copied"))?;
    }
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

/// The table of contents: the sections of docs/README.md, each with the pages that its landing page and theirs link to.
fn contents(root: &Path, documents: &[String]) -> Result<String> {
    let mut text =
        String::from("# Contents\n\n[Tutti](README.md)\n\n[Documentation](docs/README.md)\n");
    let mut listed = BTreeSet::from(["README.md".to_owned(), "docs/README.md".to_owned()]);
    for section in targets(root, "docs/README.md", documents)? {
        let _ = writeln!(text, "\n# {}\n", title(root, &section)?);
        listed.insert(section.clone());
        entries(root, documents, &section, 0, &mut listed, &mut text)?;
    }
    Ok(text)
}

/// A landing page, and below it the pages it links to that are not listed yet.
fn entries(
    root: &Path,
    documents: &[String],
    page: &str,
    depth: usize,
    listed: &mut BTreeSet<String>,
    text: &mut String,
) -> Result<()> {
    let indent = "  ".repeat(depth);
    let _ = writeln!(text, "{indent}- [{}]({page})", title(root, page)?);
    if !page.ends_with("/README.md") || !page.starts_with("docs/") {
        return Ok(());
    }
    for target in targets(root, page, documents)? {
        if listed.insert(target.clone()) {
            entries(root, documents, &target, depth + 1, listed, text)?;
        }
    }
    Ok(())
}

/// The documents that the list items of a page link to, in their order.
fn targets(root: &Path, page: &str, documents: &[String]) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(page))
        .with_context(|| format!("`{page}` cannot be read"))?;
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let items: String = text
        .lines()
        .filter(|line| line.starts_with("- "))
        .flat_map(|line| [line, "\n"])
        .collect();
    Ok(links(&items)
        .into_iter()
        .map(|(_, target)| normal(&folder.join(target)))
        .filter(|target| documents.contains(target))
        .collect())
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
        let listed = BTreeSet::from(["docs/tls.md", "ARCHITECTURE.md"]);
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
        let listed = BTreeSet::from(["docs/tls.md", "README.md", "bench/README.md"]);
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
        for document in documents.iter().filter(|page| page.starts_with("docs/")) {
            assert!(
                contents.contains(&format!("({document})")),
                "no landing page links to {document}"
            );
        }
    }
}
