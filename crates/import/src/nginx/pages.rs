//! Pages for errors, and the way to locations that only an answer leads to (`X-Accel-Redirect`).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::error_page::{ErrorPage, ResponseStatus};
use super::location::Match;
use super::site::{Compiler, Site};
use crate::output::{step, when};
use crate::template::{Piece, Text};

/// Holds for requests with another method than GET and HEAD, also where one for a page stands in for them.
const NO_FILE_METHOD: &str = "`${/^(GET|HEAD) /.test(vars.request_line) ? '' : 1}`";

impl Compiler<'_> {
    /// `error_pages` and `intercept_errors` of a place, where they are others than those around it.
    pub(super) fn pages(&mut self, site: &Site, around: Option<&Site>) -> Map<String, Value> {
        let mut options = Map::new();
        let pages = site.scope.error_pages.clone();
        let is_own = around.is_none_or(|around| around.scope.error_pages != pages);
        // A request may come from a location with other pages: these end where another location begins.
        let ended = around.map(|_| &site.paged).into_iter().flatten();
        // Lists are inherited whole or not at all.
        let outer = around.filter(|_| is_own).into_iter();
        let outer = outer.flat_map(|around| &around.scope.error_pages);
        let ended: BTreeSet<u16> = ended
            .chain(outer.flat_map(|page| &page.statuses))
            .copied()
            .filter(|status| (400..600).contains(status))
            .collect();
        let mut actions = Map::new();
        for page in &pages {
            let is_wanted = |status: &&u16| is_own || ended.contains(status);
            let statuses: Vec<u16> = page.statuses.iter().filter(is_wanted).copied().collect();
            let Some(action) = self.page(site, page).filter(|_| !statuses.is_empty()) else {
                continue;
            };
            for status in statuses {
                let mut action = action.clone();
                let is_kept = page.answer == ResponseStatus::Kept;
                if let Some(action) = action.as_object_mut()
                    && is_kept
                    && self.is_successful(site, page)
                {
                    action.insert("response_status".to_owned(), status.into());
                }
                // The first one that names a status has it, as in nginx.
                actions.entry(status.to_string()).or_insert(action);
            }
        }
        for status in ended {
            let own = actions.entry(status.to_string());
            own.or_insert_with(|| json!({"return": status}));
        }
        if !actions.is_empty() {
            options.insert("error_pages".to_owned(), actions.into());
        }
        let around = around.and_then(|around| around.scope.intercepts);
        if let Some(intercepts) = site.scope.intercepts.filter(|_| !pages.is_empty())
            && around != Some(intercepts)
        {
            options.insert("intercept_errors".to_owned(), intercepts.into());
        }
        options
    }

    /// True if a page is of a location that answers with a status below 300: in nginx, the status of the error stays.
    fn is_successful(&mut self, site: &Site, page: &ErrorPage) -> bool {
        let mut successful = site.successful.iter();
        let found = successful.find(|(how, _)| match how {
            Match::Named(name) => *name == page.target,
            other => {
                let pattern = Pattern::parse(&other.pattern(), DECODED).ok();
                pattern.is_none_or(|pattern| {
                    let found = pattern.found_in(page.target.as_bytes());
                    found.unwrap_or(true)
                })
            }
        });
        if found.is_some_and(|(_, has_no_body)| *has_no_body) {
            let problem = "the page may be answered with 204: clients get this status in place of the error's";
            let hint = "write a `return` with the status of the error into its location";
            self.findings.lost(&page.place, "error_page", problem, hint);
        }
        found.is_some()
    }

    fn page(&mut self, site: &Site, page: &ErrorPage) -> Option<Value> {
        let mut inner = site.clone();
        let status = Text(vec![Piece::Variable("error_status".to_owned())]);
        inner.meaning.named.insert("status".to_owned(), status);
        let is_elsewhere = ["http://", "https://", "$scheme"]
            .iter()
            .any(|begin| page.target.starts_with(begin));
        if is_elsewhere {
            let status = match page.answer {
                ResponseStatus::Fixed(status @ (301 | 302 | 303 | 307 | 308)) => status,
                _ => 302,
            };
            let location = self.text(&inner, &page.target, &page.place, "error_page")?;
            return Some(json!({"return": status, "location": location.template()}));
        }
        let mut action = if page.target.starts_with('@') {
            let Some(route) = site.named.get(&page.target) else {
                let problem = format!("there is no location `{}`", page.target);
                let hint = "write the location, or another page";
                self.findings
                    .lost(&page.place, "error_page", &problem, hint);
                return None;
            };
            let route = route.clone();
            let has_files = site.named_files.contains(&page.target);
            let route = match has_files {
                true => self.page_of_files(route),
                false => route,
            };
            when("pass", route)
        } else {
            let target = match page.target.starts_with('/') {
                true => page.target.clone(),
                false => format!("/{}", page.target),
            };
            let path = self.new_path(&inner, &target, &page.place, "error_page")?;
            Map::from_iter([
                ("rewrite".to_owned(), path.into()),
                ("pass".to_owned(), site.again.clone().into()),
            ])
        };
        match page.answer {
            ResponseStatus::Kept => {}
            ResponseStatus::Own => drop(action.insert("response_status".to_owned(), "own".into())),
            ResponseStatus::Fixed(status @ 200..600) => {
                action.insert("response_status".to_owned(), status.into());
            }
            ResponseStatus::Fixed(status) => {
                let problem = format!(
                    "{status} is not a valid response status: the status of the error is kept"
                );
                let hint = "`response_status` must be from 200 to 599";
                self.findings
                    .lost(&page.place, "error_page", &problem, hint);
            }
        }
        Some(Value::Object(action))
    }

    /// The route of a page for errors at which files may answer. In nginx the request keeps its method there, and no file can be posted to; the
    /// request for a page is a GET here.
    fn page_of_files(&mut self, route: String) -> String {
        if let Some(made) = self.page_routes.get(&route) {
            return made.clone();
        }
        let steps = vec![
            step(when("if", NO_FILE_METHOD), json!({"return": 405})),
            json!({"action": {"pass": route.clone()}}),
        ];
        let made = self.out.add_route(
            &format!("{}-page", route.trim_start_matches("routes/")),
            steps,
        );
        self.page_routes.insert(route, made.clone());
        made
    }

    /// Lets answers of applications and servers lead to locations, also those that cannot be reached from outside.
    pub(super) fn leads_on(&mut self, site: &mut Site) {
        let wanted = format!("{}-by-answer", site.name);
        let steps = vec![json!({"action": {"pass": site.again}})];
        site.by_answer = Some(self.out.add_route(&wanted, steps));
    }
}
