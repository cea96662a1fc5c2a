//! The passages of a file that people read: its comments, the messages of a Rust source, the text of a document. Code is left out, also code between
//! backticks.

use std::fs::DirEntry;
use std::path::Path;

use anyhow::{Context, Result};

/// The entries of a folder, sorted by name.
pub(crate) fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let mut entries = std::fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("{} cannot be listed", folder.display()))?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

/// Text that belongs together, with the line that it begins in.
pub(crate) struct Passage {
    line: usize,
    text: String,
    pub(crate) is_comment: bool,
}

/// One word of a passage.
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) begins_paragraph: bool,
    /// Only space is between it and the word before.
    pub(crate) follows: bool,
    /// It is part of a name, such as `{nobody}`, `"nobody"` or `user nobody`.
    pub(crate) is_name: bool,
}

/// Signs that make a name of the word beside them.
const SIGNS: &[char] = &['"', '{', '}', '/', '=', '_', '@', '\\', '<', '>'];

impl Passage {
    /// Its words but for those between backticks.
    pub(crate) fn words(&self) -> Vec<Word> {
        let text = without_code(&self.text);
        let is_one_word = !self.is_comment && !self.text.trim().contains(char::is_whitespace);
        let mut words: Vec<Word> = Vec::new();
        let mut line = self.line;
        let mut rest = text.as_str();
        while let Some(start) = rest.find(char::is_alphanumeric) {
            let (gap, word) = rest.split_at(start);
            let end = word.find(|letter: char| !letter.is_alphanumeric());
            let (word, behind) = word.split_at(end.unwrap_or(word.len()));
            line += gap.matches('\n').count();
            let is_gap_empty = gap.chars().all(char::is_whitespace);
            let is_user = matches!(gap.trim(), "" | "=")
                && words
                    .last()
                    .is_some_and(|last| last.text.eq_ignore_ascii_case("user"));
            words.push(Word {
                text: word.to_owned(),
                line,
                begins_paragraph: is_gap_empty && (words.is_empty() || gap.contains("\n\n")),
                follows: is_gap_empty && !words.is_empty(),
                is_name: gap.ends_with(SIGNS)
                    || behind.starts_with(SIGNS)
                    || is_user
                    || is_one_word,
            });
            rest = behind;
        }
        words
    }
}

/// The text with a backtick for each letter of code; code ends with its paragraph at the latest.
fn without_code(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let mut is_code = false;
        let plain = |letter| {
            is_code ^= letter == '`';
            if is_code && letter != '\n' {
                '`'
            } else {
                letter
            }
        };
        paragraph.chars().map(plain).collect::<String>()
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// The way in which a language writes comments and text.
struct Syntax {
    line: &'static str,
    block: (&'static str, &'static str),
    /// The marks that text is between; it ends with its line in all languages but Rust.
    quotes: &'static [char],
    is_rust: bool,
    /// A comment begins a line, or comes after a space; text between three quotes that begins a line is one, too.
    is_script: bool,
}

const RUST: Syntax = Syntax {
    line: "//",
    block: ("/*", "*/"),
    quotes: &['"'],
    is_rust: true,
    is_script: false,
};
const BRACES: Syntax = Syntax {
    line: "//",
    block: ("/*", "*/"),
    quotes: &['"', '\'', '`'],
    is_rust: false,
    is_script: false,
};
const SCRIPT: Syntax = Syntax {
    line: "#",
    block: ("\"\"\"", "\"\"\""),
    quotes: &['"', '\''],
    is_rust: false,
    is_script: true,
};

/// The passages of a file, by its name; none of a file that is not read here.
pub(crate) fn read(name: &str, text: &str) -> Vec<Passage> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    let syntax = match ending {
        "md" => return document(text),
        "rs" => &RUST,
        "c" | "h" | "go" | "java" | "js" | "mjs" | "ts" | "php" | "inc" => &BRACES,
        "py" | "rb" | "ru" | "pl" | "pm" | "psgi" | "sh" | "toml" | "yml" | "yaml" => &SCRIPT,
        _ if file == "Makefile" || text.starts_with("#!") => &SCRIPT,
        _ => return Vec::new(),
    };
    source(text, syntax)
}

/// A passage for each line of a document that is no code. The addresses of links are left out.
fn document(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let mut parts = line.split("](");
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                text.push(']');
                text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
            }
            passages.push(Passage {
                line: number,
                text,
                is_comment: false,
            });
        }
    }
    passages
}

/// Comments, those of lines that follow one another as one, and in Rust the literals.
fn source(text: &str, syntax: &Syntax) -> Vec<Passage> {
    let mut scanner = Scanner {
        text,
        at: 0,
        line: 1,
        line_start: 0,
        next: 0,
        passages: Vec::new(),
    };
    while let Some(letter) = scanner.rest().chars().next() {
        let taken = scanner
            .line_comment(syntax)
            .or_else(|| scanner.block_comment(syntax))
            .or_else(|| scanner.literal(syntax, letter))
            .unwrap_or(letter.len_utf8());
        scanner.advance(taken);
    }
    scanner.passages
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    line_start: usize,
    /// The line after a comment that fills its own; 0 if there is none.
    next: usize,
    passages: Vec<Passage>,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Its line up to here.
    fn before(&self) -> &'a str {
        self.text.get(self.line_start..self.at).unwrap_or_default()
    }

    fn begins_line(&self) -> bool {
        self.before().trim().is_empty()
    }

    fn advance(&mut self, taken: usize) {
        let done = self.rest().get(..taken).unwrap_or_default();
        self.line += done.matches('\n').count();
        if let Some(end) = done.rfind('\n') {
            self.line_start = self.at + end + 1;
        }
        self.at += taken;
    }

    fn add(&mut self, text: String, is_comment: bool) {
        let line = self.line;
        self.passages.push(Passage {
            line,
            text,
            is_comment,
        });
    }

    /// The length of the comment that begins here and ends with the line.
    fn line_comment(&mut self, syntax: &Syntax) -> Option<usize> {
        let mark = syntax.line;
        if !self.rest().starts_with(mark) {
            return None;
        }
        let may_begin =
            !syntax.is_script || self.begins_line() || self.before().ends_with(char::is_whitespace);
        if !may_begin {
            return None;
        }
        let comment = self.rest().lines().next().unwrap_or_default();
        let words = comment
            .trim_start_matches(|letter| mark.contains(letter) || letter == '!')
            .trim();
        let begins_line = self.begins_line();
        let is_next = begins_line && self.next == self.line;
        match self.passages.last_mut().filter(|_| is_next) {
            Some(last) => {
                last.text.push('\n');
                last.text.push_str(words);
            }
            None => self.add(words.to_owned(), true),
        }
        self.next = if begins_line { self.line + 1 } else { 0 };
        Some(comment.len())
    }

    fn block_comment(&mut self, syntax: &Syntax) -> Option<usize> {
        let (open, close) = syntax.block;
        let inner = self.rest().strip_prefix(open)?;
        if syntax.is_script && !self.begins_line() {
            return None;
        }
        let length = inner.find(close).unwrap_or(inner.len());
        let lines = inner.get(..length).unwrap_or_default().split('\n');
        let words: Vec<&str> = lines
            .map(|line| line.trim().trim_start_matches('*').trim())
            .collect();
        self.add(words.join("\n"), true);
        Some((open.len() + length + close.len()).min(self.rest().len()))
    }

    /// The length of a text or of a single letter.
    fn literal(&mut self, syntax: &Syntax, letter: char) -> Option<usize> {
        let rest = self.rest();
        if syntax.is_rust && letter == 'r' && !self.before().ends_with(is_of_name) {
            let hashes = rest.get(1..)?.trim_start_matches('#');
            let open = rest.len() - hashes.len() + 1;
            if let Some(inner) = hashes.strip_prefix('"') {
                let close = format!("\"{}", "#".repeat(open - 2));
                let length = inner.find(&close).unwrap_or(inner.len());
                self.add(inner.get(..length)?.to_owned(), false);
                return Some((open + length + close.len()).min(rest.len()));
            }
        }
        if syntax.is_rust && letter == '\'' {
            // Not a lifetime.
            let is_letter = rest.starts_with("'\\") || rest.chars().nth(2) == Some('\'');
            let end = is_letter.then(|| rest.get(2..)?.find('\'')).flatten();
            return end.map(|end| 2 + end + 1);
        }
        if !syntax.quotes.contains(&letter) {
            return None;
        }
        let ends_with_line = !syntax.is_rust && letter != '`';
        let inner = rest.get(letter.len_utf8()..)?;
        let mut is_escaped = false;
        let end = inner.char_indices().find(|&(_, next)| {
            let ends = !is_escaped && (next == letter || ends_with_line && next == '\n');
            is_escaped = !is_escaped && next == '\\';
            ends
        });
        let length = end.map_or(inner.len(), |(place, _)| place);
        if syntax.is_rust {
            self.add(without_escapes(inner.get(..length)?), false);
        }
        let is_closed = inner.get(length..)?.starts_with(letter);
        Some(1 + length + usize::from(is_closed))
    }
}

/// A literal with as many lines, and spaces for its escapes.
fn without_escapes(literal: &str) -> String {
    ["\\n", "\\t", "\\r", "\\\n"]
        .iter()
        .fold(literal.to_owned(), |text, escape| {
            let blank = if escape.ends_with('\n') { " \n" } else { "  " };
            text.replace(escape, blank)
        })
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::read;

    fn passages(name: &str, text: &str) -> Vec<(usize, String)> {
        let passages = read(name, text);
        passages
            .into_iter()
            .map(|passage| (passage.line, passage.text))
            .collect()
    }

    #[test]
    fn comments_and_literals_of_rust_are_read_and_its_code_is_not() {
        let text = "//! One\n//! two.\n\nfn f<'a>() { // three\n    g('\"', '\\'', \"fo\\\"ur \\\n    five\", r#\"si\"x\"#);\n}\n/* seven\n * eight */\n";
        let expected = [
            (1, "One\ntwo."),
            (4, "three"),
            (5, "fo\\\"ur  \n    five"),
            (6, "si\"x"),
            (8, "seven\neight"),
        ];
        assert_eq!(
            passages("a.rs", text),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }

    #[test]
    fn other_languages_have_their_comments_read() {
        for (name, text, expected) in [
            (
                "a.py",
                "x = '# no'  # one\n\"\"\"Two.\"\"\"\ny = \"\"\"no\"\"\"",
                vec![(1, "one"), (2, "Two.")],
            ),
            (
                "run",
                "#!/bin/sh\necho ${x#y} \"it's\" # one",
                vec![(1, "/bin/sh"), (2, "one")],
            ),
            (
                "a.js",
                "f(\"// no\", `\n// no\n`); // one",
                vec![(3, "one")],
            ),
            (
                "a.md",
                "One [two](a/b.md).\n```\nno\n```\n",
                vec![(1, "One [two].")],
            ),
            ("a.png", "// no", vec![]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(line, text)| (line, text.to_owned()))
                .collect();
            assert_eq!(passages(name, text), expected, "{name}");
        }
    }

    #[test]
    fn names_and_code_are_no_words() {
        let of = |name: &str, text: &str| {
            let passages = read(name, text);
            let words = passages.iter().flat_map(|passage| passage.words());
            words
                .filter(|word| word.text == "blue")
                .map(|word| word.is_name)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("a.rs", "// `blue` and blue."), [false]);
        for name in [
            "\"blue\"",
            "\"user blue;\"",
            "\"user = blue\"",
            "\"to {blue}\"",
            "\"GET /blue\"",
            "r#\"{\"user\": \"blue\"}\"#",
        ] {
            assert_eq!(of("a.rs", name), [true], "{name}");
        }
    }
}
