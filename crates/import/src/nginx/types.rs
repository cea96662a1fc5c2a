//! The types of files and texts: `types`, `default_type`, `charset`.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::tree::Statement;
use crate::output::one_or_many;
use crate::template::{Piece, Text, quoted};
use crate::words::Words;

/// nginx's own types, which any `types` replaces.
const BUILT_IN: [(&str, &str); 3] = [
    ("html", "text/html"),
    ("gif", "image/gif"),
    ("jpg", "image/jpeg"),
];

/// The type of everything else, if `default_type` says nothing.
const DEFAULT_TYPE: &str = "text/plain";

/// The types that `charset` applies to, if `charset_types` says nothing.
const CHARSET_TYPES: Words = Words(
    "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
);

/// More endings than these in one expression are not readable.
pub(super) const MOST_ENDINGS: usize = 12;

/// The types of a block, as nginx's modules merge them.
#[derive(Clone, Debug, Default)]
pub(super) struct Types {
    /// By ending, without a period; `None`: nginx's own.
    by_ending: Option<Rc<BTreeMap<String, String>>>,
    default: Option<String>,
    charset: Option<String>,
    charset_types: Option<Vec<String>>,
    /// True if nginx's own values hold where the source says nothing.
    is_settled: bool,
}

impl Types {
    pub(super) fn take(&mut self, statement: &Statement) {
        match statement.name() {
            "types" => {
                self.by_ending = Some(Rc::new(types_of(statement)));
            }
            "default_type" => self.default = Some(statement.argument(0).to_owned()),
            "charset" => self.charset = Some(statement.argument(0).to_owned()),
            "charset_types" => self.charset_types = Some(statement.arguments().to_vec()),
            _ => {}
        }
    }

    /// All of them, by ending.
    pub(super) fn endings(&self) -> Vec<(&str, &str)> {
        match &self.by_ending {
            Some(types) => types
                .iter()
                .map(|(ending, mime)| (ending.as_str(), mime.as_str()))
                .collect(),
            None => BUILT_IN.to_vec(),
        }
    }

    /// Fixes the types of the main file, where it says nothing, to nginx's own; `all` are those of the whole server.
    pub(super) fn settle(&mut self, all: &BTreeMap<String, String>) {
        self.is_settled = true;
        if self.by_ending.is_some() {
            self.by_ending = Some(Rc::new(all.clone()));
        }
    }

    /// The options `mime_types` and `default_type` of a place, where they differ from those around it.
    pub(super) fn options(&self, around: &Types) -> Map<String, Value> {
        let mut options = Map::new();
        // Those of the whole server are settings of it.
        let is_of_server = self.by_ending.is_some() && self.is_settled && !around.is_settled;
        let is_own = self.by_ending != around.by_ending || self.is_settled != around.is_settled;
        if is_own && !is_of_server {
            let mut entries: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (ending, mime) in self.endings() {
                entries.entry(mime).or_default().push(format!(".{ending}"));
            }
            let entries = entries.into_iter();
            let entries: Map<String, Value> = entries
                .map(|(mime, endings)| (mime.to_owned(), one_or_many(endings)))
                .collect();
            options.insert("mime_types".to_owned(), entries.into());
        }
        if self.default != around.default || self.is_settled != around.is_settled {
            let value = match self.default() {
                "" => Value::Bool(false),
                default => default.into(),
            };
            options.insert("default_type".to_owned(), value);
        }
        options
    }

    /// The types that have a character set.
    pub(super) fn charset_types(&self) -> Vec<String> {
        match &self.charset_types {
            Some(types) => [&["text/html".to_owned()], types.as_slice()].concat(),
            None => CHARSET_TYPES.iter().map(str::to_owned).collect(),
        }
    }

    pub(super) fn default(&self) -> &str {
        self.default.as_deref().unwrap_or(DEFAULT_TYPE)
    }

    /// A type with the character set, if it has one.
    pub(super) fn with_charset(&self, mime: &str) -> String {
        let Some(charset) = self.charset.as_deref().filter(|charset| *charset != "off") else {
            return mime.to_owned();
        };
        let has = match &self.charset_types {
            Some(types) => mime == "text/html" || types.iter().any(|one| one == mime || one == "*"),
            None => CHARSET_TYPES.contains(mime),
        };
        match has && !charset.contains('$') {
            true => format!("{mime}; charset={charset}"),
            false => mime.to_owned(),
        }
    }
}

/// The types of a block, by ending.
pub(super) fn types_of(statement: &Statement) -> BTreeMap<String, String> {
    let entries = statement.inner().iter();
    let entries = entries.flat_map(|entry| {
        let endings = entry.arguments().iter();
        endings.map(|ending| (ending.to_ascii_lowercase(), entry.name().to_owned()))
    });
    entries.collect()
}

/// The type of a path by its ending, as a template.
pub(super) fn by_ending(usual: &str, endings: &[(String, String)]) -> String {
    let choices: Vec<String> = endings
        .iter()
        .map(|(ending, mime)| format!("{}: {}", quoted(ending), quoted(mime)))
        .collect();
    let script = format!(
        r"({{{}}})[((/\.([^.\/]+)$/.exec(uri) ?? [])[1] ?? '').toLowerCase()] ?? {}",
        choices.join(", "),
        quoted(usual)
    );
    Text(vec![Piece::Script(script)]).template()
}
