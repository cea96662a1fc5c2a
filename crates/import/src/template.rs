//! Texts with variables, between another server's syntax and a template of Tutti.
//!
//! A text with plain variables only becomes a plain template; else it is a JavaScript template literal, which sees the
//! same variables.

use tutti_config::pattern::Case;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text.
    Text(String),
    /// A variable of Tutti, without the `$`.
    Variable(String),
    /// A JavaScript expression that gives a string.
    Script(String),
}

/// Pieces, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub Vec<Piece>);

impl Text {
    /// A text without variables.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Text(vec![Piece::Text(text.into())])
    }

    /// The text, if there are no variables in it.
    pub(crate) fn as_literal(&self) -> Option<String> {
        let mut whole = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => whole.push_str(text),
                Piece::Variable(_) | Piece::Script(_) => return None,
            }
        }
        Some(whole)
    }

    /// Appends text.
    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(Piece::Text(last)) = self.0.last_mut() {
            last.push_str(text);
        } else {
            self.0.push(Piece::Text(text.to_owned()));
        }
    }

    /// Appends another text.
    pub(crate) fn extend(&mut self, other: Text) {
        for piece in other.0 {
            match piece {
                Piece::Text(text) => self.push(&text),
                piece => self.0.push(piece),
            }
        }
    }

    pub(crate) fn template(&self) -> String {
        let is_script = |piece: &Piece| matches!(piece, Piece::Script(_));
        if self.0.iter().any(is_script) {
            return self.script_template();
        }
        let mut template = String::new();
        for (index, piece) in self.0.iter().enumerate() {
            match piece {
                // A backtick at the front would make it a script.
                Piece::Text(text) if index == 0 && text.starts_with('`') => {
                    return self.script_template();
                }
                Piece::Text(text) => template.push_str(&text.replace('$', "${dollar}")),
                Piece::Variable(name) => {
                    let next = self.0.get(index + 1);
                    let follows =
                        matches!(next, Some(Piece::Text(text)) if text.starts_with(is_name));
                    if follows || name.contains('-') {
                        template.push_str(&format!("${{{name}}}"));
                    } else {
                        template.push_str(&format!("${name}"));
                    }
                }
                Piece::Script(_) => {}
            }
        }
        template
    }

    fn script_template(&self) -> String {
        let mut template = "`".to_owned();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => {
                    let escaped = text.replace('\\', "\\\\").replace('`', "\\`");
                    template.push_str(&escaped.replace("${", "\\${"));
                }
                Piece::Variable(name) => template.push_str(&format!("${{{}}}", script_of(name))),
                Piece::Script(script) => template.push_str(&format!("${{{script}}}")),
            }
        }
        template + "`"
    }

    /// A JavaScript expression with the same value.
    pub(crate) fn expression(&self) -> String {
        let mut terms: Vec<String> = Vec::new();
        for piece in &self.0 {
            terms.push(match piece {
                Piece::Text(text) => quoted(text),
                Piece::Variable(name) => script_of(name),
                Piece::Script(script) => format!("({script})"),
            });
        }
        match terms.as_slice() {
            [] => "''".to_owned(),
            [only] => only.clone(),
            _ => format!("({})", terms.join(" + ")),
        }
    }
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

/// Returns the value of a variable in a script; an absent one is empty.
pub(crate) fn script_of(name: &str) -> String {
    if name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        format!("(vars.{name} ?? '')")
    } else {
        format!("(vars[{}] ?? '')", quoted(name))
    }
}

/// A string of JavaScript.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = "'".to_owned();
    for character in text.chars() {
        match character {
            '\'' => quoted.push_str("\\'"),
            '\\' => quoted.push_str("\\\\"),
            '`' => quoted.push_str("\\x60"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\u{2028}' => quoted.push_str("\\u2028"),
            '\u{2029}' => quoted.push_str("\\u2029"),
            other => quoted.push(other),
        }
    }
    quoted + "'"
}

/// A regular expression of JavaScript, from one of PCRE. `None` where the two mean different things.
pub(crate) fn regex(source: &str, case: Case) -> Option<String> {
    // Possessive quantifiers, and verbs.
    let unknown = ["*+", "++", "?+", "}+", "(*"];
    if unknown.iter().any(|word| source.contains(word)) {
        return None;
    }
    let (source, inner_case) = match source.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (source, false),
    };
    let mut script = "/".to_owned();
    let mut in_class = false;
    let mut characters = source.replace("(?P<", "(?<");
    if characters.is_empty() {
        characters = "(?:)".to_owned();
    }
    let mut rest = characters.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => {
                script.push('\\');
                match rest.next()? {
                    // A backtick would end the literal that this stands in.
                    '`' => script.push_str("x60"),
                    next if is_same_escape(next, rest.clone()) => script.push(next),
                    _ => return None,
                }
            }
            '/' => script.push_str("\\/"),
            '`' => script.push_str("\\x60"),
            '\n' => script.push_str("\\n"),
            '\r' => script.push_str("\\r"),
            '\u{2028}' | '\u{2029}' => return None,
            '[' if in_class => {
                // A POSIX class.
                if rest.as_str().starts_with([':', '.', '=']) {
                    return None;
                }
                script.push('[');
            }
            '[' => {
                in_class = true;
                script.push('[');
                if rest.as_str().starts_with('^') {
                    script.extend(rest.next());
                }
                // The first character of a class; JavaScript has empty classes.
                if rest.as_str().starts_with(']') {
                    rest.next();
                    script.push_str("\\]");
                }
            }
            ']' => {
                in_class = false;
                script.push(']');
            }
            // Atomic and conditional groups, recursion, comments, options in the middle.
            '(' if !in_class
                && rest
                    .as_str()
                    .strip_prefix('?')
                    .is_some_and(|kind| !kind.starts_with([':', '=', '!', '<'])) =>
            {
                return None;
            }
            other => script.push(other),
        }
    }
    if in_class {
        return None;
    }
    script.push('/');
    if case == Case::Ignore || inner_case {
        script.push('i');
    }
    // `.` is any character in a path, but a line feed; PCRE's own default is the same.
    Some(script)
}

/// True if a backslash before `next` means the same in PCRE and JavaScript; `rest` follows.
fn is_same_escape(next: char, mut rest: std::str::Chars<'_>) -> bool {
    match next {
        'x' => (0..2).all(|_| rest.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
        _ => !next.is_ascii_alphabetic() || "dDwWsSbBnrtf".contains(next),
    }
}

/// A text that an expression gives.
pub(crate) fn script_text(script: String) -> Text {
    Text(vec![Piece::Script(script)])
}

/// The expression for the captures of a regular expression in a text.
pub(crate) fn captures(pattern: &str, case: Case, subject: &Text) -> Option<String> {
    let expression = regex(pattern, case)?;
    Some(format!("{expression}.exec({})", subject.expression()))
}

/// A text in a regular expression.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// The case of an expression with a flag that says whether to ignore it.
pub(crate) fn case(is_ignored: bool) -> Case {
    match is_ignored {
        true => Case::Ignore,
        false => Case::Exact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_variables_make_a_plain_template() {
        let mut text = Text::literal("/srv/$x");
        text.0.push(Piece::Variable("uri".to_owned()));
        text.push("index.php");
        assert_eq!(text.template(), "/srv/${dollar}x${uri}index.php");
    }

    #[test]
    fn a_script_makes_a_template_literal() {
        let mut text = Text::literal("a`${b}\\");
        text.0.push(Piece::Script("1 + 1".to_owned()));
        text.0.push(Piece::Variable("host".to_owned()));
        assert_eq!(
            text.template(),
            "`a\\`\\${b}\\\\${1 + 1}${(vars.host ?? '')}`"
        );
    }

    #[test]
    fn expressions_are_carried_over_or_refused() {
        assert_eq!(
            regex("^/a/(.*)$", Case::Exact).as_deref(),
            Some("/^\\/a\\/(.*)$/")
        );
        assert_eq!(regex("(?i)x", Case::Exact).as_deref(), Some("/x/i"));
        // The first character of a class is one of it; JavaScript has empty classes.
        for (source, script) in [
            (r"[][<>]", r"/[\][<>]/"),
            (r"[^]x]y", r"/[^\]x]y/"),
            (r"[\]]\x41(?<n>a)\1", r"/[\]]\x41(?<n>a)\1/"),
        ] {
            assert_eq!(
                regex(source, Case::Exact).as_deref(),
                Some(script),
                "{source}"
            );
        }
        for source in [
            "(?>a)",
            "a(?|b)",
            "(?P<n>a)(?P=n)",
            "a(?#b)",
            "(*UTF)a",
            "a(?i)b",
            "a{2}+",
            r"\p{Cyrillic}",
            r"\R",
            r"\N",
            r"\vx",
            r"\x4",
            r"\x{41}",
            r"\g{1}",
            r"\A",
            r"\e",
            r"[a[:digit:]]",
            r"[[:alpha:]]",
            "[]",
        ] {
            assert_eq!(regex(source, Case::Exact), None, "{source}");
        }
    }
}
