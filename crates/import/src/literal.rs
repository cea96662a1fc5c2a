//! Literals of Python and Ruby: strings, numbers, truth values, lists and dictionaries. Nothing is evaluated.

use serde_json::{Map, Number, Value};

/// Lists within lists; settings have two.
const DEEPEST: usize = 16;

/// A reader of literals.
pub(crate) struct Literals<'t> {
    text: &'t str,
    /// Ruby's words: symbols, `nil`, `=>`.
    is_ruby: bool,
}

impl<'t> Literals<'t> {
    pub(crate) fn python(text: &'t str) -> Self {
        Literals {
            text,
            is_ruby: false,
        }
    }

    pub(crate) fn ruby(text: &'t str) -> Self {
        Literals {
            text,
            is_ruby: true,
        }
    }

    /// The text that is left.
    pub(crate) fn rest(&self) -> &'t str {
        self.text
    }

    /// The literal at the front; `None` if there is none.
    pub(crate) fn value(&mut self) -> Option<Value> {
        self.at(0)
    }

    fn skip(&mut self) {
        loop {
            self.text = self.text.trim_start();
            match self.text.strip_prefix('#') {
                Some(comment) => self.text = comment.split_once('\n').map_or("", |(_, tail)| tail),
                None => return,
            }
        }
    }

    fn take(&mut self, word: &str) -> bool {
        match self.text.strip_prefix(word) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn at(&mut self, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        // Within brackets a literal may go over several lines.
        if depth > 0 {
            self.skip();
        } else {
            self.text = self.text.trim_start_matches([' ', '\t']);
        }
        let first = self.text.chars().next()?;
        match first {
            '\'' | '"' => {
                let mut whole = self.string()?;
                // Python joins what stands side by side.
                loop {
                    let before = self.text;
                    if depth > 0 {
                        self.skip();
                    } else {
                        self.text = self.text.trim_start_matches([' ', '\t']);
                    }
                    if self.is_ruby || !self.text.starts_with(['\'', '"']) {
                        self.text = before;
                        return Some(whole.into());
                    }
                    whole.push_str(&self.string()?);
                }
            }
            '[' => self.list('[', "]", depth),
            '(' if !self.is_ruby => self.list('(', ")", depth),
            '{' => self.dictionary(depth),
            ':' if self.is_ruby => {
                self.text = self.text.get(1..)?;
                if self.text.starts_with(['"', '\'']) {
                    return self.string().map(Value::from);
                }
                self.word().map(Value::from)
            }
            digit if digit.is_ascii_digit() || digit == '-' => self.number(),
            _ => {
                let before = self.text;
                let value = match self.word()?.as_str() {
                    "True" | "true" => Value::Bool(true),
                    "False" | "false" => Value::Bool(false),
                    "None" | "nil" => Value::Null,
                    _ => {
                        self.text = before;
                        return None;
                    }
                };
                Some(value)
            }
        }
    }

    fn word(&mut self) -> Option<String> {
        let end = self
            .text
            .find(|character: char| !(character.is_alphanumeric() || character == '_'))
            .unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn number(&mut self) -> Option<Value> {
        let end = self
            .text
            .find(|character: char| {
                !(character.is_ascii_digit() || matches!(character, '_' | '.' | '-'))
            })
            .unwrap_or(self.text.len());
        let (digits, rest) = self.text.split_at(end);
        // `2 * 3`, `0x10`, `1e3` and `a.b` are recognised by the characters that follow.
        if rest.starts_with(|next: char| next.is_alphanumeric()) {
            return None;
        }
        let plain = digits.replace('_', "");
        let value = match plain.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => Value::Number(Number::from_f64(plain.parse().ok()?)?),
        };
        self.text = rest;
        Some(value)
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.text.get(..1)?;
        let triple = quote.repeat(3);
        let quote = if !self.is_ruby && self.text.starts_with(&triple) {
            triple.as_str()
        } else {
            quote
        };
        let mut characters = self.text.get(quote.len()..)?;
        let mut string = String::new();
        loop {
            if let Some(rest) = characters.strip_prefix(quote) {
                self.text = rest;
                return Some(string);
            }
            let character = characters.chars().next()?;
            characters = characters.get(character.len_utf8()..)?;
            match character {
                '\\' => {
                    let escaped = characters.chars().next()?;
                    characters = characters.get(escaped.len_utf8()..)?;
                    match escaped {
                        'n' => string.push('\n'),
                        't' => string.push('\t'),
                        '\n' => {}
                        '\\' | '\'' | '"' => string.push(escaped),
                        _ => return None,
                    }
                }
                // Ruby evaluates what is in there.
                '#' if self.is_ruby && quote == "\"" && characters.starts_with('{') => return None,
                '\n' if quote.len() == 1 => return None,
                other => string.push(other),
            }
        }
    }

    fn list(&mut self, opening: char, closing: &str, depth: usize) -> Option<Value> {
        self.text = self.text.strip_prefix(opening)?;
        let mut values = Vec::new();
        let mut commas = 0_usize;
        loop {
            self.skip();
            if self.take(closing) {
                // `(1)` is no tuple.
                return match values.pop() {
                    Some(only) if opening == '(' && commas == 0 => Some(only),
                    last => {
                        values.extend(last);
                        Some(values.into())
                    }
                };
            }
            values.push(self.at(depth + 1)?);
            self.skip();
            if self.take(",") {
                commas += 1;
            } else if !self.text.starts_with(closing) {
                return None;
            }
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<Value> {
        self.text = self.text.strip_prefix('{')?;
        let mut members = Map::new();
        loop {
            self.skip();
            if self.take("}") {
                return Some(members.into());
            }
            let key = if self.is_ruby && self.text.starts_with(|first: char| first.is_alphabetic())
            {
                let key = self.word()?;
                self.text = self.text.strip_prefix(':')?;
                key
            } else {
                let key = self.at(depth + 1)?;
                self.skip();
                if !(self.take("=>") || self.take(":")) {
                    return None;
                }
                key.as_str().map_or_else(|| key.to_string(), str::to_owned)
            };
            members.insert(key, self.at(depth + 1)?);
            self.skip();
            if !self.take(",") && !self.text.starts_with('}') {
                return None;
            }
        }
    }
}

/// The positions of the equals signs that assign a value: not those of comparisons, nor of Ruby's `=>`.
pub(crate) fn assignments(text: &str) -> impl DoubleEndedIterator<Item = usize> {
    let signs = text.match_indices('=').map(|(at, _)| at);
    signs.filter(|at| {
        let before = text.get(..*at).unwrap_or_default();
        let behind = text.get(at + 1..).unwrap_or_default();
        !before.ends_with(['=', '!', '<', '>']) && !behind.starts_with(['=', '~', '>'])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn python() {
        for (text, value) in [
            ("'a' \"b\"", Some(json!("ab"))),
            ("[1, 2.5, # three\n 'x',]", Some(json!([1, 2.5, "x"]))),
            ("('a', 'b')", Some(json!(["a", "b"]))),
            ("('a')", Some(json!("a"))),
            (
                "{'a': True, 'b': None}",
                Some(json!({"a": true, "b": null})),
            ),
            ("'''a\nb'''", Some(json!("a\nb"))),
            ("os.cpu_count()", None),
            ("'open", None),
            ("[[[", None),
        ] {
            assert_eq!(Literals::python(text).value(), value, "{text}");
        }
        let mut product = Literals::python("2 * 3");
        assert_eq!((product.value(), product.rest()), (Some(json!(2)), " * 3"));
    }

    #[test]
    fn ruby() {
        for (text, value) in [
            (":production", Some(json!("production"))),
            ("\"a#{b}\"", None),
            (
                "{cert: 'a', :key => 'b'}",
                Some(json!({"cert": "a", "key": "b"})),
            ),
            ("nil", Some(Value::Null)),
        ] {
            assert_eq!(Literals::ruby(text).value(), value, "{text}");
        }
    }
}
