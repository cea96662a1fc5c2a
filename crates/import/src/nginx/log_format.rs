//! `log_format`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::tree::Statement;
use super::variables::{Meaning, Unknown};
use crate::finding::SourceLocation;
use crate::template::{Piece, Text};

/// A `log_format`.
pub(super) struct LogFormat {
    text: String,
    is_json: bool,
    pub(super) place: SourceLocation,
}

impl LogFormat {
    /// True if each server has its own value of a variable in it.
    pub(super) fn is_of_server(&self) -> bool {
        self.text.contains("$server_name") || self.text.contains("${server_name}")
    }

    /// The formats of a configuration, by name.
    pub(super) fn all(http: &[Statement]) -> BTreeMap<String, LogFormat> {
        let formats = http.iter().filter(|one| one.name() == "log_format");
        let read = |statement: &Statement| {
            let parts = statement.arguments().get(1..).unwrap_or_default();
            let format = LogFormat {
                text: parts
                    .iter()
                    .filter(|part| !part.starts_with("escape="))
                    .map(String::as_str)
                    .collect(),
                is_json: parts.iter().any(|part| part == "escape=json"),
                place: statement.place.clone(),
            };
            (statement.argument(0).to_owned(), format)
        };
        formats.map(read).collect()
    }

    /// The option `format`.
    pub(super) fn option(&self, meaning: &Meaning) -> Result<Option<Value>, Unknown> {
        let mut meaning = meaning.clone();
        // It is known in logs only.
        let body = Text(vec![Piece::Variable("request_body".to_owned())]);
        meaning.named.insert("request_body".to_owned(), body);
        let meaning = &meaning;
        match self.is_json {
            true => json_format(meaning, &self.text),
            false => {
                let text = meaning.text(&self.text)?;
                Ok(Some(text.template().into()))
            }
        }
    }
}

/// The `format` of a log whose lines are JSON, and whose values are escaped so; `None` where it is no object of texts and
/// numbers.
fn json_format(meaning: &Meaning, text: &str) -> Result<Option<Value>, Unknown> {
    /// Begins the text in place of a variable that stands for a number: no configuration has it.
    const NUMBER: char = '\u{1}';
    let mut marked = String::new();
    let (mut is_quoted, mut is_escaped) = (false, false);
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '$' if !is_quoted => {
                marked.push_str("\"\\u0001$");
                while let Some(next) = rest.next_if(|next| !", }\n".contains(*next)) {
                    marked.push(next);
                }
                marked.push('"');
                continue;
            }
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
        marked.push(character);
    }
    let Ok(Value::Object(members)) = serde_json::from_str(&marked) else {
        return Ok(None);
    };
    let mut format = Map::new();
    for (name, value) in members {
        let value = match value {
            Value::String(text) => match text.strip_prefix(NUMBER) {
                Some(number) => json!({"number": meaning.text(number)?.template()}),
                None => meaning.text(&text)?.template().into(),
            },
            Value::Number(number) => json!({"number": number.to_string()}),
            _ => return Ok(None),
        };
        format.insert(name, value);
    }
    Ok(Some(format.into()))
}
