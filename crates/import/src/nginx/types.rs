//! The types of files and texts: `types`, `default_type`, `charset`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::tree::Statement;
use crate::finding::SourceLocation;
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
    /// The place of a directive that makes them others than those of the whole server.
    pub(super) own: Option<SourceLocation>,
}

impl Types {
    pub(super) fn take(&mut self, statement: &Statement) {
        if matches!(statement.name(), "types" | "default_type") {
            self.own = Some(statement.place.clone());
        }
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

    /// True if these are the types of the whole server, by ending.
    pub(super) fn are(&self, all: &BTreeMap<String, String>) -> bool {
        let usual = matches!(self.default(), DEFAULT_TYPE | "application/octet-stream");
        usual && self.by_ending.as_deref() == Some(all)
    }

    /// `Content-Type` of files; `None` if there are too many types.
    pub(super) fn field(&self) -> Option<String> {
        let endings = self.endings();
        let endings: Vec<(String, String)> = endings
            .into_iter()
            .map(|(ending, mime)| (ending.to_owned(), mime.to_owned()))
            .collect();
        match endings.len() {
            0 => Some(Text::literal(self.default()).template()),
            1..=MOST_ENDINGS => Some(by_ending(self.default(), &endings)),
            _ => None,
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
