//! `ErrorDocument` of a site.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::section::{Extent, Mapping, Stage};
use super::site::{Compiler, Site};
use crate::template::Text;

impl Compiler<'_> {
    /// The destination of a site, with its pages for errors before it.
    pub(super) fn with_pages(&mut self, site: &Site, entry: String) -> String {
        let mut documents: Vec<&Directive> = Vec::new();
        let whole = Mapping {
            at: String::new(),
            folder: site
                .mappings
                .last()
                .filter(|mapping| mapping.at.is_empty())
                .map(|mapping| mapping.folder.clone())
                .unwrap_or_default(),
        };
        // The last one counts, and that of a folder before the site's.
        for section in site.sections.iter().rev() {
            // Those outside of sections come after them.
            if section.stage == Stage::Server {
                continue;
            }
            let place = section.place(&whole, Extent::Narrow);
            let is_whole = place.is_some_and(|place| place.is_everywhere());
            for directive in section.directives.iter().rev() {
                if !directive.is("errordocument") {
                    continue;
                }
                if is_whole {
                    documents.push(directive);
                } else {
                    let hint = "write `error_pages` into the actions of that place";
                    let problem = "pages for errors of a part of a site are not carried over";
                    self.findings
                        .lost(&directive.place, &directive.name, problem, hint);
                }
            }
        }
        for own in [&site.own, &site.outer] {
            documents.extend(own.iter().rev().filter(|one| one.is("errordocument")));
        }
        let mut pages = Map::new();
        let mut said: Vec<&str> = Vec::new();
        for document in documents {
            let status = document.argument(0);
            if said.contains(&status) {
                continue;
            }
            said.push(status);
            if let Some(action) = self.page(document, &entry) {
                pages.insert(status.to_owned(), action);
            }
        }
        if pages.is_empty() {
            return entry;
        }
        let steps = vec![json!({"action": {"pass": entry, "error_pages": pages}})];
        self.out.add_route(&format!("{}-pages", site.name), steps)
    }

    fn page(&mut self, document: &Directive, entry: &str) -> Option<Value> {
        let target = document.argument(1);
        if matches!(target, "" | "default") {
            return None;
        }
        let mut lost = |problem: &str, hint: &str| {
            self.findings
                .lost(&document.place, &document.name, problem, hint);
        };
        let status: Option<u16> = document.argument(0).parse().ok();
        let has_page =
            |status: &u16| (400..600).contains(status) && !matches!(status, 408 | 413 | 431);
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
            lost(
                "its text is not carried over",
                "write the text as `body` of the action in `error_pages` (`docs/http/delivery.md`)",
            );
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !query.is_empty() {
            lost(
                "its query is not carried over",
                "send `$error_status` to the page in `request_headers`",
            );
        }
        let path = Text::literal(path.replace('%', "%25")).template();
        Some(json!({"rewrite": path, "pass": entry}))
    }
}
