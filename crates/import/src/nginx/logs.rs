//! `access_log` and `log_format`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::scope::Scope;
use super::site::Compiler;
use super::tree::Statement;
use super::variables::{Meaning, Unknown};
use crate::finding::SourceLocation;
use crate::output::when;

/// A `log_format`.
pub(super) struct LogFormat {
    text: String,
    is_json: bool,
    place: SourceLocation,
}

impl LogFormat {
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

    fn option(&self) -> Result<Option<Value>, Unknown> {
        let meaning = Meaning::default();
        match self.is_json {
            true => json_format(&meaning, &self.text),
            false => {
                let text = meaning.text(&self.text)?;
                Ok(Some(text.template().into()))
            }
        }
    }
}

impl Compiler<'_> {
    /// The value of `access_log` for the logs of a place.
    pub(super) fn logs(&mut self, scope: &Scope, meaning: &Meaning) -> Value {
        let mut logs = Vec::new();
        for (words, place) in &scope.logs {
            logs.extend(self.log(words, place, meaning));
        }
        match logs.len() {
            0 => false.into(),
            1 => logs.remove(0),
            _ => logs.into(),
        }
    }

    fn log(
        &mut self,
        words: &[String],
        place: &SourceLocation,
        meaning: &Meaning,
    ) -> Option<Value> {
        let path = words.first().filter(|path| *path != "off")?;
        if path.contains('$') {
            let problem = "its file depends on the request";
            let hint = "write `$host` into its `format`, and divide the file later";
            self.findings.lost(place, "access_log", problem, hint);
            return None;
        }
        let mut log = when("path", path.clone());
        for word in words.get(1..).unwrap_or_default() {
            match word.split_once('=') {
                Some(("if", condition)) => match meaning.text(condition) {
                    Ok(text) => drop(log.insert("if".to_owned(), text.template().into())),
                    Err(unknown) => {
                        let problem = format!(
                            "there is no equivalent of `${}`: all requests are logged",
                            unknown.0
                        );
                        let hint = "write it as `if` of the log";
                        self.findings.lost(place, "access_log", &problem, hint);
                    }
                },
                Some(_) => {}
                None => self.format(word, place, &mut log),
            }
        }
        Some(log.into())
    }

    fn format(&mut self, name: &str, place: &SourceLocation, log: &mut Map<String, Value>) {
        let Some(format) = self.formats.get(name) else {
            if !matches!(name, "combined" | "gzip") {
                let problem =
                    format!("its format `{name}` is not in the source: the default one is used");
                let hint = "pass the file with the `log_format`";
                self.findings.lost(place, "access_log", &problem, hint);
            }
            return;
        };
        let hint = "`docs/reference/variables.md` lists the available variables; an object is a line of JSON";
        let problem = match format.option() {
            Ok(Some(format)) => {
                log.insert("format".to_owned(), format);
                return;
            }
            Ok(None) => {
                "it is not one JSON object of plain members: the default format is used".to_owned()
            }
            Err(unknown) => format!(
                "there is no equivalent of `${}`: the default format is used",
                unknown.0
            ),
        };
        self.findings
            .lost(&format.place, "log_format", &problem, hint);
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
