//! `RewriteCond`.

use tutti_config::pattern::Case;

use super::expression::{COMPARISONS, as_number};
use super::grammar::Directive;
use super::meaning::{Captures, Meaning};
use crate::template::{Piece, Text, captures, case, regex};

/// A condition, carried over.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// A test of the requested file.
    Asked { test: char, negated: bool },
    /// A test of another file.
    File {
        path: Text,
        test: char,
        negated: bool,
    },
    /// The protocol.
    Scheme(&'static str),
    /// An expression for the path, and whether it is not to match.
    Path { expression: String, negated: bool },
    /// An expression of JavaScript.
    Test(String),
    /// It always holds, or never.
    Always(bool),
}

/// A condition and its captures.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) condition: Condition,
    pub(super) captures: Option<String>,
    pub(super) or_next: bool,
}

/// Flags in brackets.
pub(super) fn flags(text: &str) -> Vec<(String, String)> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let flags = inner
        .split(',')
        .map(str::trim)
        .filter(|flag| !flag.is_empty());
    flags
        .map(|flag| match flag.split_once('=') {
            Some((name, value)) => (name.to_ascii_uppercase(), value.to_owned()),
            None => (flag.to_ascii_uppercase(), String::new()),
        })
        .collect()
}

/// Reads a condition. The error says why it cannot be carried over.
pub(super) fn compile(
    directive: &Directive,
    meaning: &Meaning,
    captured: Captures<'_>,
) -> Result<Compiled, String> {
    let (subject, pattern) = (directive.argument(0), directive.argument(1));
    let flags = flags(directive.argument(2));
    let has = |names: [&str; 2]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
    let ignore_case = has(["NC", "NOCASE"]);
    let or_next = has(["OR", "ORNEXT"]);
    let (negated, pattern) = match pattern.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let done = |condition, captures| {
        Ok(Compiled {
            condition,
            captures,
            or_next,
        })
    };
    if subject.eq_ignore_ascii_case("expr") {
        let test = super::expression::condition(pattern, meaning)?;
        let test = if negated { format!("!({test})") } else { test };
        return done(Condition::Test(test), None);
    }
    if let Some(test) = pattern.strip_prefix('-').filter(|test| test.len() == 1) {
        let test = test.chars().next().unwrap_or('f');
        return done(file_test(subject, test, negated, meaning, captured)?, None);
    }
    if let Some((comparison, number)) = number(pattern) {
        let text = meaning
            .text(subject, captured)
            .map_err(|unknown| format!("there is no equivalent of `{unknown}`"))?;
        let test = format!("{} {comparison} {number}", as_number(&text.expression()));
        let test = if negated { format!("!({test})") } else { test };
        return done(Condition::Test(test), None);
    }
    if subject.eq_ignore_ascii_case("%{HTTPS}") {
        let is_on = matches!(pattern, "=on" | "on" | "^on$" | "^on" | "on$");
        let is_off = matches!(pattern, "=off" | "off" | "^off$" | "^off" | "off$");
        if is_on || is_off {
            return done(
                Condition::Scheme(if is_on != negated { "https" } else { "http" }),
                None,
            );
        }
    }
    let text = meaning
        .text(subject, captured)
        .map_err(|unknown| format!("there is no equivalent of `{unknown}`"))?;
    let not = |test: String| if negated { format!("!({test})") } else { test };
    if let Some((comparison, value)) = ["<=", ">=", "<", ">"]
        .iter()
        .find_map(|one| Some((one, pattern.strip_prefix(one)?)))
    {
        let value = crate::template::quoted(value.trim_matches('"'));
        let test = format!("{} {comparison} {value}", text.expression());
        return done(Condition::Test(not(test)), None);
    }
    if let Some(value) = pattern.strip_prefix('=') {
        let value = value.trim_matches('"');
        if let Some(known) = text.as_literal() {
            let same = if ignore_case {
                known.eq_ignore_ascii_case(value)
            } else {
                known == value
            };
            return done(Condition::Always(same != negated), None);
        }
        let test = format!(
            "{} === {}",
            text.expression(),
            crate::template::quoted(value)
        );
        return done(Condition::Test(not(test)), None);
    }
    let unwritable = || format!("`{pattern}` cannot be written in JavaScript");
    let captures = captures(pattern, case(ignore_case), &text).ok_or_else(unwritable)?;
    let is_path = text == Text(vec![Piece::Variable("uri".to_owned())]);
    if is_path {
        let expression = anchored("", pattern, case(ignore_case)).ok_or_else(unwritable)?;
        return done(
            Condition::Path {
                expression,
                negated,
            },
            Some(captures),
        );
    }
    let expression = regex(pattern, case(ignore_case)).ok_or_else(unwritable)?;
    let test = format!("{expression}.test({})", text.expression());
    done(Condition::Test(not(test)), Some(captures))
}

fn file_test(
    subject: &str,
    test: char,
    negated: bool,
    meaning: &Meaning,
    captured: Captures<'_>,
) -> Result<Condition, String> {
    // A link is served as the file that it leads to.
    let test = match test {
        'f' | 'F' | 's' | 'U' | 'x' => 'f',
        'd' => 'd',
        'e' => 'e',
        'l' | 'h' | 'L' => 'l',
        other => return Err(format!("`-{other}` is not a file test")),
    };
    let asked = [
        "%{REQUEST_FILENAME}",
        "%{SCRIPT_FILENAME}",
        "%{DOCUMENT_ROOT}%{REQUEST_URI}",
        "%{DOCUMENT_ROOT}/%{REQUEST_URI}",
        // In a server, the name of the file is still the path.
        "%{DOCUMENT_ROOT}%{REQUEST_FILENAME}",
        "%{DOCUMENT_ROOT}/%{REQUEST_FILENAME}",
    ];
    if asked.contains(&subject.to_ascii_uppercase().as_str()) {
        return Ok(Condition::Asked { test, negated });
    }
    if test == 'l' {
        return Err("`-l` of a path other than the requested one".to_owned());
    }
    let path = meaning
        .text(subject, captured)
        .map_err(|unknown| format!("there is no equivalent of `{unknown}`"))?;
    Ok(Condition::File {
        path,
        test,
        negated,
    })
}

/// `-gt5` and its kin: the operator of JavaScript, and the number.
fn number(pattern: &str) -> Option<(&'static str, i64)> {
    COMPARISONS.iter().find_map(|(name, operator)| {
        let number = pattern.strip_prefix(name)?.trim().parse().ok()?;
        Some((*operator, number))
    })
}

/// An expression that is looked for in what follows `base` and a slash (in the whole path, where `base` is `""` and no folder's), so that it
/// begins where a path begins. Its groups keep their numbers.
pub(super) fn anchored(base: &str, source: &str, case: Case) -> Option<String> {
    let mut parts = Vec::new();
    for one in super::section::alternatives_of(source) {
        let (begins, body) = match one.strip_prefix('^') {
            Some(body) => (true, body),
            None => (false, one),
        };
        // An anchor in a group means the beginning of the rest.
        let mut before = ' ';
        let mut whole = String::new();
        for character in body.chars() {
            match character {
                '^' if !matches!(before, '[' | '\\') && !base.is_empty() => {
                    whole.push_str(&format!("(?<=^{})", crate::template::escaped(base)));
                }
                other => whole.push(other),
            }
            before = character;
        }
        parts.push(if begins { whole } else { format!(".*?{whole}") });
    }
    let body = match parts.as_slice() {
        [only] => only.clone(),
        _ => format!("(?:{})", parts.join("|")),
    };
    let body = if case == Case::Ignore {
        format!("(?i:{body})")
    } else {
        body
    };
    Some(format!("{}{body}", crate::template::escaped(base)))
}

/// True for an expression that every path has.
pub(super) fn is_everything(source: &str) -> bool {
    matches!(
        source,
        "" | "^" | ".*" | "^.*" | "^.*$" | ".*$" | "(.*)" | "^(.*)" | "^(.*)$" | "(.*)$" | "$"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_a_folder_become_those_of_a_path() {
        for (base, source, expected) in [
            ("/", r"^index\.php$", Some(r"/index\.php$")),
            ("/blog/", "a|^b", Some("/blog/(?:.*?a|b)")),
            ("/", "(^a|b)", Some("/.*?((?<=^/)a|b)")),
            ("", r"(^|/)\.", Some(r".*?(^|/)\.")),
            ("", "^/x", Some("/x")),
            ("/", "[^/]+", Some("/.*?[^/]+")),
        ] {
            assert_eq!(
                anchored(base, source, Case::Exact).as_deref(),
                expected,
                "{base} {source}"
            );
        }
    }
}
