//! Types of files and of texts: `types`, `default_type`, `charset`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::tree::Statement;
use crate::finding::SourceLocation;
use crate::template::{quoted, script_text};

/// The types that a character set is said for.
const WITH_CHARSET: [&str; 6] = [
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

/// The most endings in one expression.
const MOST_ENDINGS: usize = 12;

/// Types of files of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    /// By ending; nginx's own three where no block around has `types`.
    by_ending: Option<BTreeMap<String, String>>,
    usual: Option<String>,
    charset: Option<(String, SourceLocation)>,
    /// The place of a directive that makes them others than those of the whole server.
    own: Option<SourceLocation>,
}

impl Kinds {
    /// Lists are inherited whole or not at all.
    pub(super) fn enter(&mut self, statements: &[Statement]) {
        if statements
            .iter()
            .any(|statement| statement.name() == "types")
        {
            self.by_ending = None;
        }
    }

    /// Says whether the whole server has these types by itself: where the source has the usual list, or is a part.
    pub(super) fn settle(&mut self, main: Option<&SourceLocation>) {
        let is_short = self.endings().len() <= MOST_ENDINGS;
        self.own = main.filter(|_| is_short).cloned();
    }

    /// True for types that each place has for itself.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The place of a type that the server as a whole does not have.
    pub(super) fn place(&self) -> Option<&SourceLocation> {
        self.own.as_ref()
    }

    /// True if these are the types of the whole server, by ending.
    pub(super) fn are(&self, all: &BTreeMap<String, String>) -> bool {
        let usual = self.usual.as_deref().unwrap_or("text/plain");
        let is_usual = matches!(usual, "text/plain" | "application/octet-stream");
        is_usual && self.charset.is_none() && self.by_ending.as_ref() == Some(all)
    }

    /// The place of `charset`.
    pub(super) fn charset(&self) -> Option<&SourceLocation> {
        self.charset.as_ref().map(|(_, place)| place)
    }

    fn endings(&self) -> Vec<String> {
        match &self.by_ending {
            Some(types) => types.keys().cloned().collect(),
            None => ["html", "gif", "jpg"].map(str::to_owned).to_vec(),
        }
    }

    /// `Content-Type` of files; `None` where there are too many types for an expression. `index` is the ending of a folder's
    /// index.
    pub(super) fn field(&self, index: &str) -> Option<Value> {
        let mut endings = self.endings();
        if !index.is_empty() {
            endings.push("/".to_owned());
        }
        match endings.len() {
            0 => Some(self.of_ending("").into()),
            1..=MOST_ENDINGS => Some(self.expression(&endings, index)),
            _ => None,
        }
    }

    /// `Content-Type` of what a share serves: of the file that it names, or that the path names.
    pub(super) fn of_share(&self, share: &str, index: &str) -> Option<Value> {
        let ending = |name: &str| {
            let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
            let is_plain = ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
            match is_plain {
                true => ending.to_ascii_lowercase(),
                false => String::new(),
            }
        };
        match ending(share.trim_end_matches('`')) {
            named if !named.is_empty() => Some(self.of_ending(&named).into()),
            _ => self.field(&ending(index)),
        }
    }

    /// `Content-Type` of an answer to a path with one of several endings.
    pub(super) fn of_endings(&self, endings: &[String]) -> Value {
        self.expression(endings, "")
    }

    fn expression(&self, endings: &[String], index: &str) -> Value {
        let mut script = String::new();
        for ending in endings {
            let (tail, kind) = match ending.as_str() {
                "/" => ("/".to_owned(), self.of_ending(index)),
                ending => (format!(".{ending}"), self.of_ending(ending)),
            };
            let (tail, kind) = (quoted(&tail), quoted(&kind));
            script.push_str(&format!(
                "vars.uri.toLowerCase().endsWith({tail}) ? {kind} : "
            ));
        }
        script.push_str(&quoted(&self.of_ending("")));
        json!(script_text(script).template())
    }

    /// The type of a file whose name ends so.
    pub(super) fn of_ending(&self, ending: &str) -> String {
        let own = |ending: &str| match ending {
            "html" => Some("text/html"),
            "gif" => Some("image/gif"),
            "jpg" => Some("image/jpeg"),
            _ => None,
        };
        let known = match &self.by_ending {
            Some(types) => types.get(ending).map(String::as_str),
            None => own(ending),
        };
        let kind = known.unwrap_or_else(|| self.usual.as_deref().unwrap_or("text/plain"));
        match &self.charset {
            Some((charset, _)) if WITH_CHARSET.contains(&kind) => {
                format!("{kind}; charset={charset}")
            }
            _ => kind.to_owned(),
        }
    }

    pub(super) fn take(&mut self, statement: &Statement) {
        self.own = Some(statement.place.clone());
        let first = statement.argument(0);
        match statement.name() {
            "default_type" => self.usual = Some(first.to_owned()),
            "charset" => {
                let said = (first.to_owned(), statement.place.clone());
                self.charset = Some(said).filter(|(name, _)| name != "off");
            }
            _ => {
                let types = self.by_ending.get_or_insert_default();
                for entry in statement.inner() {
                    for ending in entry.arguments() {
                        types.insert(ending.to_ascii_lowercase(), entry.name().to_owned());
                    }
                }
            }
        }
    }
}
