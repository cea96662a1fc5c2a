//! `access_log`.

use serde_json::{Map, Value};

use super::log_format::LogFormat;
use super::scope::Scope;
use super::site::Compiler;
use super::variables::Meaning;
use crate::finding::SourceLocation;
use crate::output::when;

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

    /// True if one of the logs of a place has a format that is another for each server.
    pub(super) fn has_logs_of_servers(&self, scope: &Scope) -> bool {
        let mut words = scope
            .logs
            .iter()
            .flat_map(|(words, _)| words.iter().skip(1));
        words.any(|word| self.formats.get(word).is_some_and(LogFormat::is_of_server))
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
            let hint = "write `$host` into its `format`, and split the file later";
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
                None => self.format(word, place, meaning, &mut log),
            }
        }
        Some(log.into())
    }

    fn format(
        &mut self,
        name: &str,
        place: &SourceLocation,
        meaning: &Meaning,
        log: &mut Map<String, Value>,
    ) {
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
        let problem = match format.option(meaning) {
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
