//! Changes of responses that blocks have: texts, fields after the body, redirects and cookies of servers behind.

use super::tree::Statement;
use crate::finding::SourceLocation;

/// `add_trailer` and `sub_filter` of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    pub(super) trailers: Vec<(String, String, SourceLocation)>,
    pub(super) replacements: Vec<(String, String, SourceLocation)>,
    pub(super) replaces_all: bool,
    pub(super) replace_types: Vec<String>,
}

impl PartialEq for Delivery {
    /// Compares what is written, wherever it stands.
    fn eq(&self, other: &Delivery) -> bool {
        fn written(
            all: &[(String, String, SourceLocation)],
        ) -> impl Iterator<Item = (&String, &String)> {
            all.iter().map(|(name, value, _)| (name, value))
        }
        written(&self.trailers).eq(written(&other.trailers))
            && written(&self.replacements).eq(written(&other.replacements))
            && self.replaces_all == other.replaces_all
            && self.replace_types == other.replace_types
    }
}

impl Delivery {
    /// Lists of directives are inherited whole or not at all.
    pub(super) fn enter(&mut self, statements: &[Statement]) {
        let has = |name: &str| statements.iter().any(|statement| statement.name() == name);
        if has("add_trailer") {
            self.trailers.clear();
        }
        if has("sub_filter") {
            self.replacements.clear();
        }
    }

    pub(super) fn take(&mut self, statement: &Statement) {
        let pair = || {
            (
                statement.argument(0).to_owned(),
                statement.argument(1).to_owned(),
                statement.place.clone(),
            )
        };
        match statement.name() {
            "add_trailer" => self.trailers.push(pair()),
            "sub_filter" => self.replacements.push(pair()),
            "sub_filter_once" => self.replaces_all = statement.argument(0) == "off",
            "sub_filter_types" => self.replace_types = statement.arguments().to_vec(),
            _ => {}
        }
    }
}

/// `proxy_redirect` and the cookies of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The words of each `proxy_redirect`; none: the default.
    pub(super) redirects: Vec<(Vec<String>, SourceLocation)>,
    pub(super) cookies: Vec<(String, Vec<String>, SourceLocation)>,
}

impl Changes {
    /// Lists of directives are inherited whole or not at all.
    pub(super) fn enter(&mut self, statements: &[Statement]) {
        let has = |name: &str| statements.iter().any(|statement| statement.name() == name);
        if has("proxy_redirect") {
            self.redirects.clear();
        }
        self.cookies.retain(|(known, ..)| !has(known));
    }

    pub(super) fn take(&mut self, statement: &Statement) {
        let words = statement.arguments().to_vec();
        let place = statement.place.clone();
        match statement.name() {
            "proxy_redirect" => self.redirects.push((words, place)),
            name @ ("proxy_cookie_domain" | "proxy_cookie_path" | "proxy_cookie_flags") => {
                self.cookies.push((name.to_owned(), words, place));
            }
            _ => {}
        }
    }
}
