//! The condition of an `if`, as it is written.

use std::collections::BTreeMap;

use super::variables::{Meaning, captures, groups};
use crate::template::{case, regex};

/// The condition of an `if`.
#[derive(Debug)]
pub(super) enum Condition {
    True(String),
    Compare {
        variable: String,
        operator: String,
        value: String,
    },
    File {
        test: char,
        path: String,
        negated: bool,
    },
}

impl Condition {
    /// The condition as an expression of JavaScript; `None` where it has none.
    pub(super) fn script(&self, meaning: &Meaning) -> Option<String> {
        let text = |variable: &str| meaning.text(&format!("${{{variable}}}")).ok();
        match self {
            Condition::True(variable) => {
                let value = text(variable)?.expression();
                Some(format!("!['', '0'].includes({value})"))
            }
            Condition::Compare {
                variable,
                operator,
                value,
            } => {
                let subject = text(variable)?.expression();
                let test = match operator.contains('~') {
                    true => {
                        let pattern = regex(value, case(operator.ends_with('*')))?;
                        format!("{pattern}.test({subject})")
                    }
                    false => {
                        let other = meaning.text(value).ok()?.expression();
                        format!("{subject} === {other}")
                    }
                };
                Some(match operator.starts_with('!') {
                    true => format!("!({test})"),
                    false => test,
                })
            }
            Condition::File { .. } => None,
        }
    }

    /// The expression of the captures of a pattern, and of those with names.
    pub(super) fn captures(&self, meaning: &Meaning) -> Option<(String, BTreeMap<String, String>)> {
        let Condition::Compare {
            variable,
            operator,
            value,
        } = self
        else {
            return None;
        };
        if !matches!(operator.as_str(), "~" | "~*") {
            return None;
        }
        let subject = meaning.text(&format!("${{{variable}}}")).ok()?;
        let captured = captures(value, case(operator.ends_with('*')), &subject)?;
        let named = groups(value, &captured);
        Some((captured, named))
    }

    /// Reads the words between `if` and the block, with their parentheses.
    pub(super) fn read(words: &[String]) -> Option<Condition> {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let first = words.first_mut()?;
        *first = first.strip_prefix('(')?;
        if first.is_empty() {
            words.remove(0);
        }
        let last = words.last_mut()?;
        *last = last.strip_suffix(')')?;
        if last.is_empty() {
            words.pop();
        }
        let variable = |word: &str| {
            word.strip_prefix('$')
                .map(|name| name.trim_matches(['{', '}']).to_owned())
        };
        match words.as_slice() {
            [only] => variable(only).map(Condition::True),
            [test, path] if test.trim_start_matches('!').starts_with('-') => {
                let negated = test.starts_with('!');
                let test = test.trim_start_matches(['!', '-']).chars().next()?;
                Some(Condition::File {
                    test,
                    path: (*path).to_owned(),
                    negated,
                })
            }
            [
                subject,
                operator @ ("=" | "!=" | "~" | "~*" | "!~" | "!~*"),
                value @ ..,
            ] => {
                let value = match value {
                    [] => "",
                    [value] => value,
                    _ => return None,
                };
                Some(Condition::Compare {
                    variable: variable(subject)?,
                    operator: (*operator).to_owned(),
                    value: value.to_owned(),
                })
            }
            _ => None,
        }
    }
}
