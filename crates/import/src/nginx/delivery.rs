//! Texts that are replaced in responses, fields after their bodies, and types: as blocks have them, and as options of an
//! action or a listener.

use serde_json::{Map, Value};

use super::scope::Scope;
use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::finding::SourceLocation;
use crate::output::one_or_many;

/// The longest text that the server looks for (`replacement` in `docs/reference/options.md`).
const LONGEST_FIND: usize = 1024;

/// `add_trailer` and `sub_filter` of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    trailers: Vec<(String, String, SourceLocation)>,
    replacements: Vec<(String, String, SourceLocation)>,
    replaces_all: bool,
    replace_types: Vec<String>,
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

impl Compiler<'_> {
    /// The options of a place for its responses, where they differ from those around it.
    pub(super) fn response_options(&mut self, site: &Site, around: &Scope) -> Map<String, Value> {
        let scope = &site.scope;
        let own = scope.responses.iter();
        let own = own.filter(|(name, value)| around.responses.get(*name) != Some(*value));
        let mut options: Map<String, Value> = own
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        options.extend(scope.types.options(&around.types));
        if scope.delivery == around.delivery {
            return options;
        }
        let delivery = scope.delivery.clone();
        let mut trailers = Map::new();
        for (name, value, place) in &delivery.trailers {
            if let Some(text) = self.text(site, value, place, "add_trailer") {
                trailers.insert(name.clone(), text.template().into());
            }
        }
        if !trailers.is_empty() || !around.delivery.trailers.is_empty() {
            options.insert("trailers".to_owned(), trailers.into());
        }
        self.replacements(site, &delivery, around, &mut options);
        options
    }

    fn replacements(
        &mut self,
        site: &Site,
        delivery: &Delivery,
        around: &Scope,
        options: &mut Map<String, Value>,
    ) {
        let mut replacements = Vec::new();
        for (find, with, place) in &delivery.replacements {
            if find.contains('$') || find.is_empty() || find.len() > LONGEST_FIND {
                let problem = "the text to replace is empty, too long, or depends on the request";
                let hint = "write the text itself into `replace` (`docs/http/delivery.md`)";
                self.findings.lost(place, "sub_filter", problem, hint);
                continue;
            }
            let Some(with) = self.text(site, with, place, "sub_filter") else {
                continue;
            };
            let mut replacement = Map::from_iter([
                ("find".to_owned(), Value::from(find.clone())),
                ("with".to_owned(), with.template().into()),
                // nginx does not look at the case of letters.
                ("ignore_case".to_owned(), true.into()),
            ]);
            if !delivery.replaces_all {
                replacement.insert("once".to_owned(), true.into());
            }
            replacements.push(Value::Object(replacement));
        }
        if replacements.is_empty() && around.delivery.replacements.is_empty() {
            return;
        }
        if !replacements.is_empty() && !delivery.replace_types.is_empty() {
            let mut types = vec!["text/html".to_owned()];
            let others = delivery.replace_types.iter();
            types.extend(others.filter(|one| *one != "text/html").cloned());
            options.insert("replace_types".to_owned(), one_or_many(types));
        }
        options.insert("replace".to_owned(), replacements.into());
    }
}
