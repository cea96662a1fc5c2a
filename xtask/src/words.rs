//! Plain English: words that are not used in comments, messages and documents, and that no comment begins with.
//!
//! The words are those of `packaging/vale`, which Vale holds the same texts to; this check needs no Vale. Code between backticks is left alone, and so is
//! a name within a message.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::breach::Breach;
use crate::passages::{self, Passage};
use crate::sentences::GENERATED;
use crate::workspace::relative;

/// Folders that are read.
const FOLDERS: &[&str] = &[
    ".ci",
    ".github",
    "bench",
    "crates",
    "docs",
    "fuzz",
    "packaging",
    "sdk",
    "spec",
    "tests",
    "xtask",
];

/// Folders that are not ours to write: what is built or fetched, and the sentences that Vale's rules are tried on.
const LEFT_OUT: &[&str] = &["target", "node_modules", "corpus", "packaging/vale/test"];

/// The words, as Vale reads them.
struct Rules {
    /// Each with what takes its place.
    words: Vec<(Vec<String>, String)>,
    /// Words that a comment does not begin with.
    openings: Vec<String>,
}

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let rules = Rules::read(root)?;
    let mut breaches = Vec::new();
    for folder in FOLDERS {
        rules.look_through(root, &root.join(folder), &mut breaches)?;
    }
    for entry in passages::entries(root)? {
        if entry.file_type()?.is_file() {
            rules.look_at(root, &entry.path(), &mut breaches)?;
        }
    }
    Ok(breaches)
}

impl Rules {
    fn read(root: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = root.join("packaging/vale/styles").join(name);
            std::fs::read_to_string(&path)
                .with_context(|| format!("{} cannot be read", path.display()))
        };
        let words: Vec<_> = rows(&read("Tutti/Words.yml")?, "swap:")
            .filter_map(|row| row.split_once(": "))
            .map(|(words, instead)| {
                let words = words.split(' ').map(str::to_owned).collect();
                (words, instead.trim_matches('"').to_owned())
            })
            .collect();
        let openings: Vec<_> = rows(&read("Comments/Openings.yml")?, "tokens:")
            .filter_map(|row| row.strip_prefix("- ^")?.strip_suffix("\\b"))
            .map(str::to_owned)
            .collect();
        ensure!(
            !words.is_empty() && !openings.is_empty(),
            "packaging/vale/styles has no words"
        );
        Ok(Self { words, openings })
    }

    fn look_through(&self, root: &Path, folder: &Path, found: &mut Vec<Breach>) -> Result<()> {
        if LEFT_OUT.iter().any(|left_out| folder.ends_with(left_out)) {
            return Ok(());
        }
        for entry in passages::entries(folder)? {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.look_through(root, &entry.path(), found)?;
            } else if kind.is_file() {
                self.look_at(root, &entry.path(), found)?;
            }
        }
        Ok(())
    }

    fn look_at(&self, root: &Path, path: &Path, found: &mut Vec<Breach>) -> Result<()> {
        if GENERATED.iter().any(|page| path.ends_with(page)) {
            return Ok(());
        }
        let text =
            std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let name = relative(root, path);
        for (line, fault) in self.faults(&name, &String::from_utf8_lossy(&text)) {
            found.push(Breach::new(format!("{name}:{line}"), fault));
        }
        Ok(())
    }

    /// The lines of a file, each with what is wrong there.
    fn faults(&self, name: &str, text: &str) -> Vec<(usize, String)> {
        let passages = passages::read(name, text);
        passages
            .iter()
            .flat_map(|passage| self.judge(passage))
            .collect()
    }

    fn judge(&self, passage: &Passage) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let words = passage.words();
        let lower: Vec<String> = words.iter().map(|word| word.text.to_lowercase()).collect();
        for (first, word) in words.iter().enumerate() {
            let is_opening = passage.is_comment && word.begins_paragraph;
            if is_opening && self.openings.contains(&word.text) {
                let fault = format!(
                    "`{}` begins no comment: write a sentence with a verb, such as `Returns …`, `Holds …` or `True if …`",
                    word.text
                );
                found.push((word.line, fault));
            }
            for (unwanted, instead) in &self.words {
                let end = first + unwanted.len();
                if lower.get(first..end) != Some(unwanted.as_slice()) {
                    continue;
                }
                let here = words.get(first..end).unwrap_or_default();
                let is_phrase = here.iter().skip(1).all(|word| word.follows);
                if is_phrase && !here.iter().any(|word| word.is_name) {
                    let fault = format!("`{}`: write {instead}", unwanted.join(" "));
                    found.push((word.line, fault));
                }
            }
        }
        found
    }
}

/// The indented lines below a key of YAML.
fn rows<'a>(text: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let below = text.lines().skip_while(move |line| *line != key).skip(1);
    below
        .take_while(|line| line.starts_with("  "))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    /// The lines that are marked, and no others.
    #[test]
    fn the_same_sentences_are_bad_as_for_vale() {
        let root = workspace::root().unwrap();
        let rules = Rules::read(&root).unwrap();
        for name in ["bad.md", "bad.rs", "bad.py"] {
            let text =
                std::fs::read_to_string(root.join("packaging/vale/test").join(name)).unwrap();
            let mut found: Vec<_> = rules
                .faults(name, &text)
                .into_iter()
                .map(|(line, _)| line)
                .collect();
            found.dedup();
            let expected: Vec<_> = (1..)
                .zip(text.lines())
                .filter(|(_, line)| line.contains("(!)"))
                .map(|(line, _)| line)
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn words_that_a_line_ends_between_are_found() {
        let rules = Rules {
            words: vec![(vec!["is".to_owned(), "blue".to_owned()], String::new())],
            openings: Vec::new(),
        };
        for (text, count) in [
            ("// It is\n// blue.", 1),
            ("f(\"It is \\\n   blue\");", 1),
            ("f(\"It is blue\");", 1),
            ("// It is, blue.\nlet it = is(blue);", 0),
        ] {
            assert_eq!(rules.faults("a.rs", text).len(), count, "{text}");
        }
    }
}
