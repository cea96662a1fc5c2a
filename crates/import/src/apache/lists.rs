//! Lists of folders: `Options Indexes`.
//!
//! Apache leaves out of a list what it would not serve. Here the list's own `deny` leaves it out, since other steps
//! refuse it. If a refusal cannot be written as a pattern, there is no list, which is reported. Must never: list what
//! the source hides.

use serde_json::Value;

use super::grammar::Directive;
use super::headers::{AnswerOf, Variant};
use super::rule::rules_of;
use super::section::{Extent, Folder, Location, Section, Stage, alternatives_of, of_glob};
use super::site::{Compiler, Site, Spot};
use crate::output::one_or_many;

/// Beginnings of path expressions for names that begin with a period.
const IN_PATH: [&str; 6] = [
    r"^\.",
    r"/\.",
    r"(?:^|/)\.",
    r"(^|/)\.",
    r"^.*/\.",
    r"^(.*/)?\.",
];

const HINT: &str = "write `listing` into a `share` for it, with `deny` for files to hide (`docs/http/delivery.md`)";

impl Compiler<'_> {
    /// The action that lists a folder without an index, where there are lists.
    pub(super) fn list(&mut self, spot: &Spot, fallback: &Option<Value>) -> Option<Value> {
        if !self.has_lists {
            return None;
        }
        self.report_patterns(spot);
        let options = spot
            .sections()
            .find_map(|section| lists(section).map(|_| section))
            .filter(|section| lists(section) == Some(true))?
            .directives
            .iter()
            .rfind(|directive| directive.is("options"))?
            .clone();
        let hidden = match hidden(spot) {
            Ok(hidden) => hidden,
            Err(by) => {
                let problem = format!(
                    "lists of folders are not carried over here: `{}` ({}:{}) hides some of their entries",
                    by.name, by.place.file, by.place.line
                );
                let name = format!("{} Indexes", options.name);
                self.findings.lost(&options.place, &name, &problem, HINT);
                return None;
            }
        };
        let hint = "check the list, or write an `index` yourself";
        self.findings.note(&options.place, &options.name, "lists of folders are plain here, without icons, descriptions, `HeaderName` and `ReadmeName`, and never contain names that begin with a period", hint);
        let mut share = self.share_of(spot, "");
        share.insert("listing".to_owned(), "html".into());
        if !hidden.is_empty() {
            share.insert("deny".to_owned(), one_or_many(hidden));
        }
        if let Some(fallback) = fallback {
            share.insert("fallback".to_owned(), fallback.clone());
        }
        self.fields(spot, &mut share, AnswerOf::Files, &Variant::default());
        Some(share.into())
    }

    /// Lists that are switched on for folders or paths of an expression, which have no step of their own.
    fn report_patterns(&mut self, spot: &Spot) {
        for section in &spot.site.sections {
            let is_pattern = matches!(section.folder, Some(Folder::Match(_)))
                || matches!(section.location, Some(Location::Match(_)));
            let is_elsewhere = || {
                let place = section.place(&spot.sub, Extent::Narrow);
                place.is_none_or(|place| place.is_everywhere())
            };
            if !is_pattern || lists(section) != Some(true) || is_elsewhere() {
                continue;
            }
            for options in section
                .directives
                .iter()
                .filter(|directive| directive.is("options"))
            {
                let name = format!("{} Indexes", options.name);
                self.findings.lost(
                    &options.place,
                    &name,
                    "lists of folders that match an expression are not carried over",
                    HINT,
                );
            }
        }
    }
}

/// True if a section has lists of folders, false if it has none; `None`, if it has no directive about it.
pub(super) fn lists(section: &Section) -> Option<bool> {
    let options = section
        .directives
        .iter()
        .filter(|directive| directive.is("options"));
    options.rev().find_map(switched)
}

fn switched(options: &Directive) -> Option<bool> {
    let mut said = None;
    for word in &options.arguments {
        let (is_on, bare) = match word.strip_prefix('-') {
            Some(bare) => (false, bare),
            None => (true, word.trim_start_matches('+')),
        };
        if ["Indexes", "All"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(bare))
        {
            said = Some(is_on);
        }
    }
    let first = options.arguments.first();
    let is_absolute = first.is_some_and(|first| !first.starts_with(['+', '-']));
    said.or(is_absolute.then_some(false))
}

/// True if a place below a folder needs a step of its own for its list: it switches lists, or lets some clients in and so shows them what
/// the list around leaves out for all.
pub(super) fn is_apart(site: &Site, section: &Section) -> bool {
    let is_listed = || site.sections.iter().any(|one| lists(one) == Some(true));
    match lists(section) {
        Some(true) => true,
        Some(false) => is_listed(),
        None => {
            let mut asks = section.directives.iter().filter(|one| refuses(one));
            asks.any(|one| !refuses_all(one)) && is_listed()
        }
    }
}

/// Returns the patterns of paths that a list leaves out; the error is a directive that hides something and cannot be
/// written as a pattern.
fn hidden(spot: &Spot) -> Result<Vec<String>, Box<Directive>> {
    let mut hidden: Vec<Value> = ignored(spot).into_iter().map(Value::from).collect();
    for section in spot
        .site
        .sections
        .iter()
        .filter(|section| section.stage != Stage::Server)
    {
        let Some(place) = section.place(&spot.sub, Extent::Wide) else {
            continue;
        };
        if is_of_hidden_names(section) {
            continue;
        }
        if let Some((is_on, rules)) = rules_of(section)
            && is_on.unwrap_or(true)
            && let Some(rule) = rules.iter().find(|rule| {
                rule.refuses() && !is_of_hidden_name(rule.directive.argument(0), &IN_PATH)
            })
        {
            return Err(Box::new(rule.directive.clone()));
        }
        let Some(by) = section.directives.iter().find(|one| refuses(one)) else {
            continue;
        };
        // Refusals of some clients do not matter where they are about the whole place, which has let the request in.
        let mut conditions = place.conditions();
        match conditions.remove("uri") {
            _ if conditions.contains_key("if") => return Err(Box::new(by.clone())),
            None => {}
            Some(Value::Array(patterns)) => hidden.extend(patterns),
            Some(pattern) => hidden.push(pattern),
        }
    }
    let mut patterns: Vec<String> = Vec::new();
    for pattern in hidden.iter().filter_map(Value::as_str) {
        if !patterns.iter().any(|known| known == pattern) {
            patterns.push(pattern.to_owned());
        }
    }
    Ok(patterns)
}

/// Patterns of `IndexIgnore`.
fn ignored(spot: &Spot) -> Vec<String> {
    let mut patterns = Vec::new();
    for section in spot.sections() {
        for directive in section.directives.iter().rev() {
            if directive.is("indexignorereset") && directive.is_on() {
                return patterns;
            }
            if directive.is("indexignore") {
                let names = directive
                    .arguments
                    .iter()
                    .filter(|name| !name.starts_with('.'));
                patterns.extend(names.map(|name| {
                    let name = name.rsplit('/').next().unwrap_or_default();
                    format!("~/{}$", of_glob(name))
                }));
            }
        }
    }
    patterns
}

/// True if it denies some clients.
fn refuses(directive: &Directive) -> bool {
    match directive.key.as_str() {
        "require" => !(directive.word(0) == "all" && directive.word(1) == "granted"),
        "requireall" | "requireany" | "limit" | "limitexcept" => {
            directive.inner().iter().any(refuses)
        }
        "requirenone" | "deny" => true,
        "order" => directive.word(0).starts_with("allow"),
        _ => false,
    }
}

/// True if it denies all clients.
fn refuses_all(directive: &Directive) -> bool {
    directive.is("require") && directive.word(0) == "all" && directive.word(1) == "denied"
}

/// True if it is about names alone that begin with a period, which no list has.
fn is_of_hidden_names(section: &Section) -> bool {
    let of_folder = |path: &str| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with('.'))
    };
    let folder = match &section.folder {
        Some(Folder::Match(source)) => is_of_hidden_name(source, &IN_PATH),
        Some(Folder::Path(path)) => of_folder(path),
        None => false,
    };
    let location = match &section.location {
        Some(Location::Match(source)) => is_of_hidden_name(source, &IN_PATH),
        Some(Location::Path(path)) => of_folder(path.trim_end_matches('/')),
        None => false,
    };
    let file = section.file.as_deref();
    folder || location || file.is_some_and(|source| is_of_hidden_name(source, &[r"^\."]))
}

fn is_of_hidden_name(source: &str, ways: &[&str]) -> bool {
    let source = source.strip_prefix("(?i)").unwrap_or(source);
    alternatives_of(source)
        .iter()
        .all(|one| ways.iter().any(|way| one.starts_with(way)))
}
