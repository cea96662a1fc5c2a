//! Rust source as the checks need it: comments and literals blanked, tests cut off.

use std::path::Path;

use anyhow::{Context, Result};

/// One file of a crate's `src`.
pub(crate) struct SourceFile {
    /// Relative to the repository.
    pub(crate) path: String,
    /// Relative to the crate's `src`.
    pub(crate) inside: String,
    pub(crate) text: String,
    /// `text` with comments and literals replaced by spaces: same offsets, same lines.
    pub(crate) code: String,
}

impl SourceFile {
    /// Where the tests at the end of the file begin, or its end.
    pub(crate) fn end_of_production(&self) -> usize {
        let mark = "#[cfg(test)]\nmod tests {";
        self.code
            .find(mark)
            .or_else(|| self.code.find("#[cfg(all(test, not(loom)))]\nmod tests {"))
            .unwrap_or(self.code.len())
    }

    /// Whether the whole file is tests, by its name.
    pub(crate) fn is_test(&self) -> bool {
        self.inside.ends_with("tests.rs") || self.inside.split('/').any(|part| part == "tests")
    }

    /// The code before its tests.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() {
            ""
        } else {
            self.code
                .get(..self.end_of_production())
                .unwrap_or_default()
        }
    }
}

/// All `.rs` files below `folder/src`, sorted by path.
pub(crate) fn read_crate(root: &Path, folder: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let source = folder.join("src");
    let mut folders = vec![source.clone()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current)
            .with_context(|| format!("{} cannot be listed", current.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                let code = blank(&text);
                let relative = |base: &Path| {
                    path.strip_prefix(base)
                        .unwrap_or(&path)
                        .to_string_lossy()
                        .into_owned()
                };
                files.push(SourceFile {
                    path: relative(root),
                    inside: relative(&source),
                    text,
                    code,
                });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Replaces comments and the contents of string and character literals by spaces; keeps line ends and length.
pub(crate) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        match end {
            Some(end) => {
                for byte in code.get_mut(at..end).unwrap_or_default() {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
                at = end;
            }
            None => at += 1,
        }
    }
    String::from_utf8(code).unwrap_or_default()
}

/// The end of the comment or literal that begins at `at`, if one does.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let before = at
        .checked_sub(1)
        .and_then(|index| bytes.get(index))
        .copied()
        .unwrap_or(b' ');
    let is_inside_word = before.is_ascii_alphanumeric() || before == b'_';
    match rest {
        [b'/', b'/', ..] => Some(
            at + rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len()),
        ),
        [b'/', b'*', ..] => Some(at + block_comment(rest)),
        [b'"', ..] => Some(at + string(rest)),
        [b'r', b'"' | b'#', ..] if !is_inside_word || before == b'b' || before == b'c' => {
            raw_string(rest).map(|length| at + length)
        }
        [b'\'', b'\\', ..] => {
            let close = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
            Some(at + close + 4)
        }
        // A lifetime has no quote after its first letter; a character (of up to four bytes) has.
        [b'\'', ..] => {
            let width = utf8_width(*rest.get(1)?);
            (rest.get(1 + width) == Some(&b'\'')).then_some(at + width + 2)
        }
        _ => None,
    }
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest.get(at..) {
            Some([b'/', b'*', ..]) => {
                depth += 1;
                at += 2;
            }
            Some([b'*', b'/', ..]) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest
        .iter()
        .skip(1)
        .take_while(|byte| **byte == b'#')
        .count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.extend(std::iter::repeat_n(b'#', hashes));
    let body = rest.get(2 + hashes..)?;
    let length = body
        .windows(close.len())
        .position(|window| window == close)?;
    Some(2 + hashes + length + close.len())
}

#[cfg(test)]
mod tests {
    use super::blank;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let text = "let a = \"unsafe {\"; // unsafe\n/* unsafe /* nested */ unsafe */ let b = r#\"unsafe \"x\" \"#;\nunsafe_code()";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.lines().count(), 3);
        assert!(!code.contains("unsafe "));
        assert!(code.contains("let b = "));
        assert!(code.contains("unsafe_code()"));
    }

    #[test]
    fn lifetimes_are_no_character_literals() {
        assert_eq!(
            blank("fn f<'a>(x: &'a str) -> char { '\"' }"),
            "fn f<'a>(x: &'a str) -> char {     }"
        );
        assert_eq!(
            blank("['ä', '\\'', '\\u{1F600}']"),
            "[    ,     ,            ]"
        );
        assert_eq!(blank("b\"x\" br\"y\" 'static"), "b    b     'static");
    }
}
