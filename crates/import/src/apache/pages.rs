//! `ErrorDocument` of a site.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::section::{Extent, Mapping, Section};
use super::site::{Compiler, Site};
use crate::output::step;
use crate::template::Text;

impl Compiler<'_> {
    /// Returns `error_pages` of directives; `entry`: where their paths are looked up.
    pub(super) fn error_pages(
        &mut self,
        directives: &[Directive],
        entry: Option<&str>,
    ) -> Map<String, Value> {
        let mut pages = Map::new();
        let mut said: Vec<&str> = Vec::new();
        let charset = directives.iter().rfind(|one| one.is("adddefaultcharset"));
        let charset = charset.map(|one| one.word(0)).filter(|word| word != "on");
        // The last one counts.
        for document in directives
            .iter()
            .rev()
            .filter(|one| one.is("errordocument"))
        {
            let status = document.argument(0);
            if said.contains(&status) {
                continue;
            }
            said.push(status);
            if let Some(action) = self.page(document, entry, charset.as_deref()) {
                pages.insert(status.to_owned(), action);
            }
        }
        pages
    }

    /// The refusal of a place with the pages of its parts for that: requests are refused before they get to the options of a part.
    pub(super) fn with_pages_of_parts(
        &mut self,
        (site, sections): (&Site, &[Section]),
        mapping: &Mapping,
        refusal: Value,
    ) -> Value {
        let entry = Self::entry(site);
        let mut steps = Vec::new();
        // The last one counts.
        for section in sections.iter().rev() {
            let is_own = |one: &Directive| one.is("errordocument") && one.argument(0) == "403";
            let place = section.place(mapping, Extent::Narrow);
            let Some(place) = place.filter(|_| section.directives.iter().any(is_own)) else {
                continue;
            };
            if place.is_everywhere() {
                break;
            }
            let page = self.error_pages(&section.directives, Some(&entry));
            let page = page
                .get("403")
                .cloned()
                .unwrap_or_else(super::access::refusal);
            let mut action = refusal.clone();
            if let Some(action) = action.as_object_mut() {
                action.insert("error_pages".to_owned(), json!({"403": page}));
            }
            steps.push(step(place.conditions(), action));
        }
        if steps.is_empty() {
            return refusal;
        }
        steps.push(json!({"action": refusal}));
        self.out.as_action(&format!("{}-refused", site.name), steps)
    }

    fn page(
        &mut self,
        document: &Directive,
        entry: Option<&str>,
        charset: Option<&str>,
    ) -> Option<Value> {
        let target = document.argument(1);
        if matches!(target, "" | "default") {
            return None;
        }
        let mut lost = |problem: &str, hint: &str| {
            self.findings
                .lost(&document.place, &document.name, problem, hint);
        };
        let status: Option<u16> = document.argument(0).parse().ok();
        let has_page = |status: &u16| (400..600).contains(status) && !matches!(status, 408 | 431);
        if !status.as_ref().is_some_and(has_page) {
            lost(
                "this status cannot have a custom page",
                "pages are for errors from 400 to 599, except for malformed requests",
            );
            return None;
        }
        if target.starts_with("http://") || target.starts_with("https://") {
            let location = Text::literal(target).template();
            return Some(json!({"return": 302, "location": location}));
        }
        if !target.starts_with('/') {
            // A lone quote before it is that of Apache 1.3.
            let text = target.strip_prefix('"').unwrap_or(target);
            let mut kind = "text/html".to_owned();
            match charset {
                Some("off") => {}
                Some(charset) => kind.push_str(&format!("; charset={charset}")),
                None if text.is_ascii() => kind.push_str("; charset=iso-8859-1"),
                None => kind.push_str("; charset=utf-8"),
            }
            if text.contains("%{") {
                lost(
                    "the expressions in the text are not evaluated",
                    "write `error_pages` with a `return` whose `body` has variables (`docs/http/delivery.md`)",
                );
            }
            let body = Text::literal(text).template();
            return Some(json!({"return": status, "body": body, "content_type": kind}));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut path = Text::literal(path.replace('%', "%25"));
        if !query.is_empty() {
            path.push(&format!("?{query}?"));
        }
        let Some(entry) = entry else {
            lost(
                "an `ErrorDocument` in a section other than a folder is not carried over",
                "write `error_pages` into the action of that part (`docs/http/delivery.md`)",
            );
            return None;
        };
        Some(json!({"rewrite": path.template(), "pass": entry}))
    }
}
