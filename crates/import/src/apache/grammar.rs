//! Apache's grammar: lines, continued lines, words and quotes.
//!
//! It is that of "Configuration Files" in httpd's manual.

use std::rc::Rc;

use crate::finding::SourceLocation;

/// A directive, or a section with those in it.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) place: SourceLocation,
    /// As it is written.
    pub(super) name: String,
    /// In lower case, as it is compared.
    pub(super) key: String,
    pub(super) arguments: Vec<String>,
    /// The text behind the name, with its quotes.
    pub(super) raw: String,
    pub(super) block: Option<Vec<Directive>>,
}

impl Directive {
    pub(super) fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    pub(super) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    pub(super) fn is(&self, key: &str) -> bool {
        self.key == key
    }

    /// An expression from the argument of this index on: one word in quotes, or all of the line.
    pub(super) fn expression(&self, index: usize) -> String {
        if self.arguments.len() <= index + 1 {
            return self.argument(index).to_owned();
        }
        let mut rest = self.raw.as_str();
        for _ in 0..index {
            rest = rest
                .split_once(char::is_whitespace)
                .map_or("", |(_, rest)| rest.trim_start());
        }
        rest.to_owned()
    }

    /// An argument in lower case.
    pub(super) fn word(&self, index: usize) -> String {
        self.argument(index).to_ascii_lowercase()
    }

    /// True for `on`.
    pub(super) fn is_on(&self) -> bool {
        self.word(0) == "on"
    }
}

/// A line, with those that continue it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) place: SourceLocation,
    pub(super) text: String,
}

/// Lines, continued ones joined, without comments.
pub(super) fn lines(file: &Rc<str>, text: &str) -> Vec<Line> {
    let mut all = Vec::new();
    let mut begun: Option<Line> = None;
    for (index, physical) in text.split('\n').enumerate() {
        let physical = physical.strip_suffix('\r').unwrap_or(physical);
        let (part, goes_on) = match physical.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (physical, false),
        };
        let line = begun.get_or_insert_with(|| Line {
            place: SourceLocation {
                file: Rc::clone(file),
                line: index + 1,
            },
            text: String::new(),
        });
        line.text.push_str(part);
        if goes_on {
            continue;
        }
        all.extend(begun.take());
    }
    all.extend(begun);
    for line in &mut all {
        line.text = line.text.trim().to_owned();
    }
    all.retain(|line| !(line.text.is_empty() || line.text.starts_with('#')));
    all
}

pub(super) fn directive(place: &SourceLocation, text: &str) -> Directive {
    let mut words = words(text);
    let name = if words.is_empty() {
        String::new()
    } else {
        words.remove(0)
    };
    let raw = text.get(name.len()..).unwrap_or_default();
    Directive {
        place: place.clone(),
        key: name.to_ascii_lowercase(),
        raw: raw.trim().to_owned(),
        name,
        arguments: words,
        block: None,
    }
}

/// Words, as Apache reads them: a quote counts at the beginning of a word.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        while characters.next_if(|next| next.is_whitespace()).is_some() {}
        let Some(first) = characters.peek().copied() else {
            return words;
        };
        let quote = matches!(first, '"' | '\'').then_some(first);
        if quote.is_some() {
            characters.next();
        }
        let mut word = String::new();
        while let Some(character) = characters.next() {
            match (character, quote) {
                (end, Some(quote)) if end == quote => break,
                (space, None) if space.is_whitespace() => break,
                ('\\', _) => match characters.peek().copied() {
                    Some('\\') => {
                        word.push('\\');
                        characters.next();
                    }
                    Some(next) if Some(next) == quote => {
                        word.push(next);
                        characters.next();
                    }
                    _ => word.push('\\'),
                },
                (other, _) => word.push(other),
            }
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        for (text, expected) in [
            ("a b  c", vec!["a", "b", "c"]),
            (r#"a "b c" 'd "e"'"#, vec!["a", "b c", "d \"e\""]),
            (r#"a "b\"c" d\.e f\\g"#, vec!["a", "b\"c", r"d\.e", r"f\g"]),
            (
                r#"RewriteCond %{HTTP:X} ="""#,
                vec!["RewriteCond", "%{HTTP:X}", "=\"\""],
            ),
            ("a \"open", vec!["a", "open"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_joined_and_counted() {
        let read = lines(&"f".into(), "# no\\\n\n a \\\n  b\nc\n # x\nd");
        let read: Vec<(usize, &str)> = read
            .iter()
            .map(|line| (line.place.line, line.text.as_str()))
            .collect();
        assert_eq!(read, [(3, "a   b"), (5, "c"), (7, "d")]);
    }
}
