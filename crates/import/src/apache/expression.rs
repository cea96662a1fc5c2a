//! Expressions of `<If>`, `Require expr` and `expr=`, as expressions of JavaScript.
//!
//! The grammar is that of "Expressions in Apache HTTP Server" in httpd's manual. An operator that JavaScript cannot
//! express is an error.

use tutti_config::pattern::Case;

use super::meaning::{Captures, Meaning};
use crate::template::{Text, case, quoted, regex};

/// Parentheses within parentheses.
const DEEPEST: usize = 32;

/// Comparisons of numbers, each with the operator of JavaScript.
pub(super) const COMPARISONS: [(&str, &str); 6] = [
    ("-eq", "==="),
    ("-ne", "!=="),
    ("-lt", "<"),
    ("-le", "<="),
    ("-gt", ">"),
    ("-ge", ">="),
];

/// The number that a text begins with, as Apache reads it; 0 if there is none.
pub(super) fn as_number(expression: &str) -> String {
    format!("(parseInt({expression}) || 0)")
}

/// Translates a condition. The error says why there is no equivalent.
pub(super) fn condition(source: &str, meaning: &Meaning) -> Result<String, String> {
    let mut reader = Reader {
        rest: source.trim(),
        meaning,
        depth: 0,
    };
    let whole = reader.any()?;
    match reader.rest.trim() {
        "" => Ok(whole),
        rest => Err(format!("`{rest}` is not understood")),
    }
}

/// Translates a text with variables: the value of `Header … expr=`.
pub(super) fn text(source: &str, meaning: &Meaning) -> Result<Text, String> {
    meaning
        .text(source, Captures::default())
        .map_err(|name| format!("there is no equivalent of `{name}`"))
}

struct Reader<'r> {
    rest: &'r str,
    meaning: &'r Meaning,
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Takes a word that ends where it stands.
    fn take_word(&mut self, word: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(word);
        let ends = |rest: &&str| !rest.starts_with(|next: char| next.is_alphanumeric());
        match rest.filter(ends) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<String, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("it is too deep".to_owned());
        }
        let mut parts = vec![self.all()?];
        while self.take("||") || self.take_word("-o") {
            parts.push(self.all()?);
        }
        self.depth -= 1;
        Ok(parts.join(" || "))
    }

    fn all(&mut self) -> Result<String, String> {
        let mut parts = vec![self.one()?];
        while self.take("&&") || self.take_word("-a") {
            parts.push(self.one()?);
        }
        Ok(parts.join(" && "))
    }

    fn one(&mut self) -> Result<String, String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.rest = self.rest.get(1..).unwrap_or_default();
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err("it is too deep".to_owned());
            }
            let inner = self.one()?;
            self.depth -= 1;
            return Ok(format!("!({inner})"));
        }
        if self.take("(") {
            let inner = self.any()?;
            return match self.take(")") {
                true => Ok(format!("({inner})")),
                false => Err("a parenthesis is not closed".to_owned()),
            };
        }
        for word in ["true", "false"] {
            if self.take_word(word) {
                return Ok(word.to_owned());
            }
        }
        if let Some(test) = self.unary()? {
            return Ok(test);
        }
        let left = self.word()?;
        self.compared(left)
    }

    fn unary(&mut self) -> Result<Option<String>, String> {
        for (operator, test) in [("-n", "!== ''"), ("-z", "=== ''"), ("-T", "")] {
            if self.take_word(operator) {
                let word = self.word()?;
                return Ok(Some(match test {
                    "" => format!("!/^(0|off|false|no|)$/i.test({word})"),
                    test => format!("{word} {test}"),
                }));
            }
        }
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix('-') {
            Some(rest) if rest.starts_with(|next: char| next.is_ascii_alphabetic()) => {
                let operator = rest.split(|end: char| !end.is_ascii_alphabetic()).next();
                Err(format!(
                    "there is no equivalent of `-{}`",
                    operator.unwrap_or_default()
                ))
            }
            _ => Ok(None),
        }
    }

    fn compared(&mut self, left: String) -> Result<String, String> {
        for (operator, negated) in [("=~", false), ("!~", true)] {
            if self.take(operator) {
                let expression = self.regex()?;
                let not = if negated { "!" } else { "" };
                return Ok(format!("{not}{expression}.test({left})"));
            }
        }
        for (operator, script) in COMPARISONS {
            if self.take_word(operator) || self.take_word(operator.trim_start_matches('-')) {
                let right = self.word()?;
                return Ok(format!(
                    "{} {script} {}",
                    as_number(&left),
                    as_number(&right)
                ));
            }
        }
        for (operator, script) in [
            ("==", "==="),
            ("!=", "!=="),
            ("<=", "<="),
            (">=", ">="),
            ("=", "==="),
            ("<", "<"),
            (">", ">"),
        ] {
            if self.take(operator) {
                let right = self.word()?;
                return Ok(format!("{left} {script} {right}"));
            }
        }
        let negated = self.take_word("-not");
        if self.take_word("-in") || self.take_word("in") {
            if !self.take("{") {
                return Err("a list of another kind than `{…}`".to_owned());
            }
            let mut words = vec![self.word()?];
            while self.take(",") {
                words.push(self.word()?);
            }
            if !self.take("}") {
                return Err("a list is not closed".to_owned());
            }
            let not = if negated { "!" } else { "" };
            return Ok(format!("{not}[{}].includes({left})", words.join(", ")));
        }
        let shown: String = self.rest.chars().take(20).collect();
        Err(format!("`{shown}` is not understood"))
    }

    fn regex(&mut self) -> Result<String, String> {
        self.rest = self.rest.trim_start();
        let mut characters = self.rest.chars();
        let separator = match characters.next() {
            Some('m') => characters.next(),
            first => first.filter(|first| *first == '/'),
        };
        let separator = separator.ok_or_else(|| "a regular expression is missing".to_owned())?;
        let rest = characters.as_str();
        let mut end = None;
        let mut is_escaped = false;
        for (at, character) in rest.char_indices() {
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                other if other == separator => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let end = end.ok_or_else(|| "a regular expression is not closed".to_owned())?;
        let (source, rest) = rest.split_at(end);
        let rest = rest.get(separator.len_utf8()..).unwrap_or_default();
        let after = rest.trim_start_matches(|flag: char| flag.is_ascii_alphabetic());
        let flags = rest.get(..rest.len() - after.len()).unwrap_or_default();
        self.rest = after;
        if flags.chars().any(|flag| flag != 'i') {
            return Err(format!("the flags `{flags}` of a regular expression"));
        }
        let source = source.replace(&format!("\\{separator}"), &separator.to_string());
        regex(&source, case(!flags.is_empty()))
            .filter(|_| regex(&source, Case::Exact).is_some())
            .ok_or_else(|| format!("`{source}` cannot be written in JavaScript"))
    }

    /// A word, as an expression that gives a string.
    fn word(&mut self) -> Result<String, String> {
        let mut terms = vec![self.term()?];
        loop {
            self.rest = self.rest.trim_start();
            let Some(rest) = self.rest.strip_prefix('.') else {
                break;
            };
            self.rest = rest;
            terms.push(self.term()?);
        }
        Ok(match terms.as_slice() {
            [only] => only.clone(),
            _ => format!("({})", terms.join(" + ")),
        })
    }

    fn term(&mut self) -> Result<String, String> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next();
        match first {
            Some(quote @ ('\'' | '"')) => {
                let inner = self.rest.get(1..).unwrap_or_default();
                let (word, rest) = inner
                    .split_once(quote)
                    .ok_or_else(|| "a text is not closed".to_owned())?;
                self.rest = rest;
                if word.contains('\\') || word.contains('$') {
                    return Err(format!("`{word}` has a backslash or a capture"));
                }
                Ok(text(word, self.meaning)?.expression())
            }
            Some('%') => {
                let end = self
                    .rest
                    .find('}')
                    .ok_or_else(|| "a variable is not closed".to_owned())?;
                let (variable, rest) = self.rest.split_at(end + 1);
                self.rest = rest;
                Ok(text(variable, self.meaning)?.expression())
            }
            Some(digit) if digit.is_ascii_digit() => {
                let end = self
                    .rest
                    .find(|end: char| !end.is_ascii_digit())
                    .unwrap_or(self.rest.len());
                let (digits, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(quoted(digits))
            }
            Some(letter) if letter.is_ascii_alphabetic() => self.function(),
            _ => {
                let shown: String = self.rest.chars().take(20).collect();
                Err(format!("`{shown}` is not understood"))
            }
        }
    }

    fn function(&mut self) -> Result<String, String> {
        let end = self
            .rest
            .find(|end: char| !(end.is_ascii_alphanumeric() || end == '_'))
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if !self.take("(") {
            return Err(format!("`{name}` is not understood"));
        }
        let argument = self.rest.trim_start();
        let script = match name {
            "tolower" | "toupper" => {
                let word = self.word()?;
                let method = if name == "tolower" {
                    "toLowerCase"
                } else {
                    "toUpperCase"
                };
                format!("{word}.{method}()")
            }
            "req" | "http" | "resp" | "reqenv" | "env" => {
                let quote = argument.chars().next().unwrap_or_default();
                let inner = argument
                    .strip_prefix(['\'', '"'])
                    .and_then(|inner| inner.split_once(quote));
                let (field, rest) = inner.ok_or_else(|| format!("the argument of `{name}`"))?;
                self.rest = rest;
                text(&format!("%{{{name}:{field}}}"), self.meaning)?.expression()
            }
            _ => return Err(format!("there is no equivalent of `{name}()`")),
        };
        match self.take(")") {
            true => Ok(script),
            false => Err(format!("`{name}(` is not closed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::section::Mapping;
    use super::*;

    #[test]
    fn what_javascript_can_say_is_translated() {
        let meaning = Meaning {
            mapping: Mapping {
                at: String::new(),
                folder: "/srv".to_owned(),
            },
            environment: BTreeMap::new(),
            set_later: BTreeSet::new(),
            unknown: BTreeSet::new(),
            doubts_address: true,
            server: "s".to_owned(),
            maps: BTreeMap::new(),
            has_response: false,
        };
        for (source, expected) in [
            (
                "%{REQUEST_METHOD} == 'GET'",
                Some("(vars.method ?? '') === 'GET'"),
            ),
            (
                "-n %{QUERY_STRING} && !(%{HTTP_HOST} =~ /^www\\./i)",
                Some("(vars.query ?? '') !== '' && !((/^www\\./i.test((vars.header_host ?? ''))))"),
            ),
            (
                "%{HTTP:X-A} in {'a', 'b'}",
                Some("['a', 'b'].includes((vars.header_x_a ?? ''))"),
            ),
            (
                "tolower(req('X-A')) != 'b'",
                Some("(vars.header_x_a ?? '').toLowerCase() !== 'b'"),
            ),
            (
                "%{HTTP:X-N} -gt 5",
                Some("(parseInt((vars.header_x_n ?? '')) || 0) > (parseInt('5') || 0)"),
            ),
            (
                "%{REQUEST_URI} =~ m#^/sub/#",
                Some("/^\\/sub\\//.test((vars.uri ?? ''))"),
            ),
            ("%{REMOTE_ADDR} == '10.0.0.1'", None),
            ("-R '10.0.0.0/8'", None),
            ("%{TIME_HOUR} > 9", None),
            ("%{QUERY_STRING} =~ /a", None),
            ("true false", None),
        ] {
            let translated = condition(source, &meaning).ok();
            assert_eq!(translated.as_deref(), expected, "{source}");
        }
    }
}
