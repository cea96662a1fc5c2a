//! Index files: Apache asks for each name of `DirectoryIndex` as if it had been requested, access control and rules
//! that refuse included.
//!
//! A name that is refused is passed over, whether there is such a file or not. Where no later name has a file, the folder
//! is refused. Must never: list a folder, or hand it to a front controller, that Apache refuses because of a name.

use std::rc::Rc;

use serde_json::{Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::content::{IndexChain, may_hold};
use super::headers::{AnswerOf, Variant};
use super::rule::{Rule, rules_of};
use super::section::{Extent, Location, Section, Stage, Where};
use super::site::{Compiler, Spot};
use super::virtual_host::rules_at;
use crate::template::{Piece, Text};

impl Compiler<'_> {
    /// Returns the action for a path that ends with a slash: the first index that exists, handled as if it had been
    /// requested. `number`: the first name that is looked at; `is_refused`: a name before it is refused.
    pub(super) fn index_chain(
        &mut self,
        chain: &IndexChain<'_>,
        number: usize,
        is_refused: bool,
    ) -> Value {
        let spot = chain.spot;
        let Some(name) = chain.names.get(number) else {
            return match is_refused {
                true => self.refusal_at(spot),
                false => chain.last.clone(),
            };
        };
        if name.starts_with('/') {
            return self.index_elsewhere(spot, name);
        }
        let sample = format!("{}/{name}", spot.sub.at);
        let is_handled = chain.handled.iter().any(|one| may_hold(&one.wide, &sample));
        let next = match &chain.fallback {
            Some(fallback) if !is_handled => fallback.clone(),
            _ => self.index_chain(chain, number + 1, is_refused),
        };
        if !is_handled && !is_named(spot, name) {
            return self.index_file(spot, name, next);
        }
        // On the settled way, the index goes back to its beginning, with a path that ends with no slash.
        let entry = match (&spot.site.index_rules, spot.entry.as_str()) {
            _ if may_lead_elsewhere(spot) => Self::entry(&spot.site),
            (Some(rules), _) => rules.clone(),
            (None, "") => self.settled(spot, &spot.base.at.clone()),
            (None, entry) => entry.to_owned(),
        };
        let path = Text(vec![Piece::Variable("uri".to_owned()), literal(name)]).template();
        let mut share = self.share_of(spot, name);
        share.insert("found".to_owned(), json!({"rewrite": path, "pass": entry}));
        share.insert("fallback".to_owned(), next.clone());
        let refused = self.index_chain(chain, number + 1, true);
        // Without a file behind it, a folder is refused or does not exist: both serve nothing.
        if next == refused || next == json!({"return": 404}) || !is_named(spot, name) {
            return share.into();
        }
        let Some(checks) = self.checked_index(spot, name, &entry, (next, refused)) else {
            return share.into();
        };
        let checked = json!({"rewrite": path, "pass": checks});
        let Some(fallback) = &chain.fallback else {
            return checked;
        };
        // Without a folder, there is no index to be refused.
        let mut folder = self.share(spot);
        folder.insert("folder".to_owned(), checked);
        folder.insert("fallback".to_owned(), fallback.clone());
        folder.into()
    }

    /// The route of the path of an index file: access control and the rules that refuse, then the file. The path of the
    /// folder goes on to the first of two actions if there is no such file, and to the second if access control refuses
    /// it. `None`: there is nothing that refuses it.
    fn checked_index(
        &mut self,
        spot: &Spot,
        name: &str,
        entry: &str,
        (next, refused): (Value, Value),
    ) -> Option<String> {
        let route = format!("{}-index", spot.name);
        let cut = name.encode_utf16().count();
        let folder = format!("(vars.uri ?? '').slice(0, -{cut})");
        let folder = Text(vec![Piece::Script(folder)]).template();
        let back = |compiler: &mut Self, action: Value| {
            let steps = vec![json!({"action": action})];
            json!({"rewrite": folder, "pass": compiler.out.add_route(&route, steps)})
        };
        let next = back(self, next);
        let refused = back(self, refused);
        let mut share = self.share(spot);
        share.insert("found".to_owned(), json!({"pass": entry}));
        share.insert("fallback".to_owned(), next);
        let file = vec![json!({"action": share})];
        let mut steps = self.refusing_rules(spot, file.clone());
        let site = Rc::clone(&spot.site);
        steps = self.guarded_by((&site, &site.sections, &spot.base), &route, steps, &refused);
        if site.index_rules.is_some() {
            steps = self.refusing_server_rules(&site, &route, steps);
        }
        (steps != file).then(|| self.out.add_route(&route, steps))
    }

    /// An index that has the path of another file.
    fn index_elsewhere(&mut self, spot: &Spot, name: &str) -> Value {
        let mut rules = spot.site.sections.iter().filter_map(rules_of);
        let acts = rules.any(|(is_on, list)| is_on != Some(false) && list.iter().any(Rule::acts));
        // Rules see it as if it had been requested.
        let destination = match acts && !name.ends_with('/') {
            true => Self::entry(&spot.site),
            false => self.settled(spot, name),
        };
        let path = Text::literal(name.replace('%', "%25").replace('?', "%3F"));
        // There is none without the folder.
        let mut share = self.share(spot);
        let leads = json!({"rewrite": path.template(), "pass": destination});
        share.insert("folder".to_owned(), leads);
        share.insert("fallback".to_owned(), json!({"return": 404}));
        share.into()
    }

    /// An index that no directive names.
    fn index_file(&mut self, spot: &Spot, name: &str, next: Value) -> Value {
        let mut share = self.share_of(spot, name);
        share.insert("fallback".to_owned(), next);
        let variants = self.variants(spot, &Where::default(), AnswerOf::Files);
        let variant = variants
            .into_iter()
            .find(|variant: &Variant| variant.is_for(name))
            .unwrap_or_default();
        self.fields(spot, &mut share, AnswerOf::Files, &variant);
        share.into()
    }
}

/// A name of a file in a path to rewrite to, which is percent-decoded.
fn literal(name: &str) -> Piece {
    Piece::Text(name.replace('%', "%25"))
}

/// True if a section has directives for this name, or rules that may refuse it.
fn is_named(spot: &Spot, name: &str) -> bool {
    let refuses = |section: &Section| {
        let rules = rules_of(section).filter(|(is_on, _)| is_on.unwrap_or(true));
        rules.is_some_and(|(_, list)| list.iter().any(Rule::refuses))
    };
    let mut sections = spot.site.sections.iter();
    let mut own = spot
        .sections()
        .filter(|section| section.stage != Stage::Server);
    spot.site.index_rules.is_some()
        || may_lead_elsewhere(spot)
        || own.any(refuses)
        || sections.any(|section| is_of_name(section, spot, name))
}

/// True if rules of a place with an entry may lead the path of an index file elsewhere, and not that of its folder.
fn may_lead_elsewhere(spot: &Spot) -> bool {
    !spot.entry.is_empty()
        && rules_at(spot).is_some_and(|(_, list)| list.iter().any(Rule::may_change_file))
}

/// True if a section is about files of this name, and not about their folders as well.
fn is_of_name(section: &Section, spot: &Spot, name: &str) -> bool {
    let place = section.place(&spot.sub, Extent::Wide);
    if place.is_none_or(|place| place.is_everywhere()) {
        return false;
    }
    let is_found = |source: &str| {
        let pattern = Pattern::parse(&format!("~{source}"), DECODED).ok();
        pattern.is_none_or(|pattern| pattern.found_in(name.as_bytes()).unwrap_or(true))
    };
    match (&section.file, &section.location) {
        (Some(source), _) => is_found(source),
        (None, Some(Location::Path(path))) => path.rsplit('/').next() == Some(name),
        (None, Some(Location::Match(source))) => may_go_on(source, name),
        (None, None) => {
            section.test.is_some() || section.expression.is_some() || section.is_unknown
        }
    }
}

/// True if a path that an expression is found in may end within `name`: then it may be about the file, and not about its folder.
fn may_go_on(source: &str, name: &str) -> bool {
    let plain = source.strip_prefix('^').filter(|plain| {
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || "/-_".contains(character);
        plain.chars().all(is_plain)
    });
    plain.is_none_or(|plain| {
        let last = plain.rsplit('/').next().unwrap_or_default();
        !last.is_empty() && name.starts_with(last)
    })
}
