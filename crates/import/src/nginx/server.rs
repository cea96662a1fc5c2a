//! A `server`: its locations, in the order in which nginx would find them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::closing;
use super::error_page::{ErrorPage, ResponseStatus};
use super::if_block::is_handler;
use super::index_file::looks_at_path;
use super::location::{
    Answer, Location, Match, Way, collect, found, named_paths, order, redirects, steps,
    steps_from_outside,
};
use super::places;
use super::rewrite::Exits;
use super::site::{Compiler, Site, ends};
use super::tree::Statement;
use super::variables::{Unknown, captures, groups};
use crate::finding::Findings;
use crate::output::slug;
use crate::template::{Piece, Text, quoted, script_of};

/// The beginning of a place's name that all names of its routes have: `slug` cuts them at 80 bytes.
const LONGEST_BEGINNING: usize = 60;

impl Compiler<'_> {
    /// Makes the routes of a server; returns the destination.
    pub(super) fn server(&mut self, name: &str, around: &Site, statement: &Statement) -> String {
        let block = statement.inner();
        closing::report_all(block, self.findings);
        let mut site = around.clone();
        site.scope = around.scope.enter(block, self.findings);
        site.meaning.unknown.extend(answer_variables(block));
        self.places = places::places(block);
        site.place = places::id(block);
        site.all_pages.clone_from(&site.scope.error_pages);
        pages_within(block, &mut site.all_pages);
        site.status_of_page = status_of_page(&site.all_pages, None);
        self.report_other_address(&site, block);
        self.report_pages_of_pages();
        let name = self.out.route_name(name);
        self.out.routes.insert(name.clone(), Value::Null);
        site.name.clone_from(&name);
        let locations = self.understood(collect(block, &mut Vec::new()));
        let is_internal = |one: &Location<'_>| one.is_internal() || one.has_internal_within();
        let has_internal = locations.iter().any(is_internal);
        let acts = |statement: &Statement| {
            matches!(statement.name(), "return" | "rewrite" | "if" | "break")
        };
        let has_rewrites = block.iter().any(acts);
        // A request that comes back from inside finds its location in a route of its own, where one from outside goes elsewhere.
        let inside = if has_internal || has_rewrites {
            let inside = self.out.route_name(&format!("{name}-locations"));
            self.out.routes.insert(inside.clone(), Value::Null);
            inside
        } else {
            name.clone()
        };
        site.entry = format!("routes/{inside}");
        // A request that no rule has changed is still one from outside.
        let outside = (has_internal && has_rewrites).then(|| {
            let outside = self.out.route_name(&format!("{name}-outside"));
            self.out.routes.insert(outside.clone(), Value::Null);
            outside
        });
        let unchanged = match &outside {
            Some(outside) => format!("routes/{outside}"),
            None => site.entry.clone(),
        };
        let exits = Exits {
            content: &unchanged,
            rewritten: &site.entry.clone(),
            block: None,
        };
        // nginx runs the rewriting directives of the server anew for the path of an internal redirect.
        let again = outside.is_some().then(|| {
            let again = self.out.route_name(&format!("{name}-again"));
            self.out.routes.insert(again.clone(), Value::Null);
            again
        });
        site.again = match &again {
            Some(again) => format!("routes/{again}"),
            None if has_rewrites => format!("routes/{name}"),
            None => site.entry.clone(),
        };
        if has_handler(block) {
            self.leads_on(&mut site);
        }
        let before = site.clone();
        let mut first = self.rewrites(&mut site, block, &exits);
        let ways = self.locations(&mut site, &before, (block, locations.as_slice()));
        self.out.routes.insert(inside.clone(), steps(&ways).into());
        if inside != name {
            if let Some(outside) = &outside {
                let steps = steps_from_outside(&ways);
                self.out.routes.insert(outside.clone(), steps.into());
            }
            if !ends(&first) {
                match outside.is_none() && has_internal {
                    true => first.extend(steps_from_outside(&ways)),
                    false => first.push(json!({"action": {"pass": unchanged}})),
                }
            }
            self.out.routes.insert(name.clone(), first.into());
        }
        let mut pages = self.pages(&site, None);
        let mut outer = around.scope.clone();
        if self.has_logs_of_servers {
            outer.logs.clear();
        }
        pages.extend(self.place_settings(&site, &outer));
        if let Some(again) = again {
            self.internal_redirects((again, &pages), &before, block);
        }
        if pages.is_empty() {
            return format!("routes/{name}");
        }
        let pass = vec![json!({"action": {"pass": format!("routes/{name}")}})];
        let steps = self.wrapped(&site, pass, pages);
        self.out.add_route(&format!("{name}-pages"), steps)
    }

    /// Makes the route of internal redirects, if something leads there.
    fn internal_redirects(
        &mut self,
        (again, pages): (String, &Map<String, Value>),
        site: &Site,
        block: &[Statement],
    ) {
        let destination = format!("\"{}\"", site.again);
        let leads = |value: &Value| value.to_string().contains(&destination);
        let mut all = self.out.routes.values().chain(pages.values());
        if !all.any(leads) {
            self.out.routes.remove(&again);
            return;
        }
        let exits = Exits {
            content: &site.entry,
            rewritten: &site.entry,
            block: None,
        };
        let mut steps = self.rewrites(&mut site.clone(), block, &exits);
        if !ends(&steps) {
            steps.push(json!({"action": {"pass": site.entry}}));
        }
        self.out.routes.insert(again, steps.into());
    }

    /// The ways of a server's locations, in order. `before`: the server before its rewriting directives.
    fn locations(
        &mut self,
        site: &mut Site,
        before: &Site,
        (block, locations): (&[Statement], &[Location<'_>]),
    ) -> Vec<Way> {
        let succeeds = |one: &&Location<'_>| returns(one.statement.inner(), |status| status < 300);
        let successful = locations.iter().filter(succeeds);
        let kind = |one: &Location<'_>| {
            let block = one.statement.inner();
            (one.how.clone(), returns(block, |status| status == 204))
        };
        site.successful = successful.map(kind).collect();
        site.paged = paged(block);
        let handled = locations
            .iter()
            .filter(|one| has_handler(one.statement.inner()));
        site.handlers = handled.map(|one| one.how.clone()).collect();
        for location in locations {
            match &location.how {
                Match::Named(name) => {
                    if has_handler(location.statement.inner()) {
                        site.named_handlers.insert(name.clone());
                    }
                    let answers = |one: &Statement| is_handler(one) || one.name() == "return";
                    if !location.statement.inner().iter().any(answers) {
                        site.named_files.insert(name.clone());
                    }
                    let route = self
                        .out
                        .route_name(&format!("{}-{}", site.name, slug(name)));
                    self.out.routes.insert(route.clone(), Value::Null);
                    site.named.insert(name.clone(), format!("routes/{route}"));
                }
                Match::Regex(..) | Match::Exact(_) | Match::Prefix(..) | Match::Unknown => {
                    site.others.push(location.how.clone());
                }
            }
        }
        self.asked(site, before, (block, locations));
        for location in locations {
            let route = match &location.how {
                Match::Named(name) => site.named.get(name),
                _ => None,
            };
            let route = route.and_then(|destination| destination.strip_prefix("routes/"));
            if let Some(route) = route.map(str::to_owned) {
                let steps = self.location_steps(site, location);
                self.out.routes.insert(route, steps.into());
            }
        }
        self.ways(site, block, locations)
    }

    /// The ways of locations that have a path, and one for all other paths.
    fn ways(&mut self, site: &Site, block: &[Statement], locations: &[Location<'_>]) -> Vec<Way> {
        let mut ways = Vec::new();
        let is_named = |location: &&Location<'_>| matches!(location.how, Match::Named(_));
        for location in locations.iter().filter(|one| !is_named(one)) {
            let name = location.statement.arguments().last();
            let name = format!("{}-{}", site.name, slug(name.map_or("", String::as_str)));
            let steps = self.location_steps(site, location);
            let action = self.out.as_action(&name, steps);
            let outside = match location.has_internal_within() && !location.is_internal() {
                true => {
                    let mut outer = site.clone();
                    outer.is_from_outside = true;
                    let steps = self.location_steps(&outer, location);
                    Some(self.out.as_action(&name, steps))
                }
                false => self.outside(site, location),
            };
            ways.push((location, Answer { action, outside }));
        }
        let mut ordered = order(&ways);
        let redirects = redirects(&ways);
        ordered.splice(0..0, redirects);
        if !locations
            .iter()
            .any(|location| location.prefix().is_some_and(|(path, _)| path == "/"))
        {
            let mut own = site.clone();
            own.prefix = Some("/".to_owned());
            let tries: Vec<Statement> = block
                .iter()
                .filter(|statement| statement.name() == "try_files")
                .cloned()
                .collect();
            let steps = self.content(&own, &tries);
            let action = self.out.as_action(&format!("{}-files", site.name), steps);
            ordered.push(Way {
                patterns: Vec::new(),
                answer: Answer::to_all(action),
            });
        }
        ordered
    }

    /// The answer of a location for requests from outside, if it is internal: 404, with its own page for that.
    fn outside(&mut self, around: &Site, location: &Location<'_>) -> Option<Value> {
        if !location.is_internal() {
            return None;
        }
        let mut site = around.clone();
        for (path, _, outer) in &location.around {
            self.enter(&mut site, outer.inner(), Some(path));
        }
        self.enter(&mut site, location.statement.inner(), None);
        let refusal = self.internal(&site, "=404", &location.statement.place);
        let pages = self.pages(&site, Some(around));
        let steps = self.wrapped(&site, vec![json!({"action": refusal})], pages);
        Some(self.out.as_action(&format!("{}-outside", site.name), steps))
    }

    /// Locations whose expression cannot be compiled may be for every path: they take all of them, and answer 403.
    fn understood<'s>(&mut self, mut locations: Vec<Location<'s>>) -> Vec<Location<'s>> {
        for location in &mut locations {
            let pattern = match &location.how {
                Match::Regex(..) => Pattern::parse(&location.how.pattern(), DECODED),
                _ => continue,
            };
            let Err(error) = pattern else {
                continue;
            };
            let problem = format!("{error}: requests that no earlier location matches get 403");
            let hint = "write the expression in another way";
            let place = &location.statement.place;
            self.findings.lost(place, "location", &problem, hint);
            location.how = Match::Unknown;
        }
        locations
    }

    /// Reports pages that have pages for their own errors, where several places have some.
    fn report_pages_of_pages(&mut self) {
        let own = self.places.iter().flat_map(|place| &place.own);
        let mut own = own.filter(|one| one.name() == "recursive_error_pages");
        let switch = own.find(|one| one.argument(0) == "on").cloned();
        let has_page = |place: &&places::Place| {
            let mut own = place.own.iter();
            own.any(|one| one.name() == "error_page")
        };
        if let Some(switch) = switch
            && self.places.iter().filter(has_page).count() > 1
        {
            let problem = "an error of a page for an error has no page";
            let hint = "name the last page in the first `error_page`";
            self.findings
                .lost(&switch.place, switch.name(), problem, hint);
        }
    }

    /// Reports a block that takes the client's address from other proxies than its listener does.
    fn report_other_address(&mut self, site: &Site, block: &[Statement]) {
        let mut statements = block.iter();
        let names = ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];
        let Some(statement) = statements.find(|one| names.contains(&one.name())) else {
            return;
        };
        if site.knows_address() {
            return;
        }
        let problem = "a listener trusts the same proxies for all requests, and other ones than are named here";
        let hint = "move it to `http`, or use a separate listener for this server";
        self.findings
            .lost(&statement.place, statement.name(), problem, hint);
    }

    /// The locations that `auth_request` asks, or whose server gets copies.
    fn asked(
        &mut self,
        site: &mut Site,
        before: &Site,
        (block, locations): (&[Statement], &[Location<'_>]),
    ) {
        let mut wanted = Vec::new();
        // The path that the client asked for is known in another field than the path of the request.
        let differs = !looks_at_path(block) || block.iter().any(is_about_request);
        let report = |compiler: &mut Self, path: &str| {
            if let Some(rewrite) = leading_away(block, path).filter(|_| differs) {
                let problem = format!(
                    "nginx applies it to the authentication requests for `{path}`, too, and takes the answer of the new path: here they are answered by their own location, or refused"
                );
                let hint = "write it into the locations that need it, then import again";
                let place = &rewrite.place;
                compiler.findings.lost(place, "rewrite", &problem, hint);
            }
        };
        named_paths(block, &mut wanted);
        let of_http = site.scope.guards.asked_paths();
        wanted.extend(of_http.map(|(path, is_mirror)| (path.to_owned(), is_mirror)));
        for (path, is_mirror) in wanted {
            let Some(location) = found(locations, &path) else {
                continue;
            };
            if is_mirror {
                let upstream = self.mirror_upstream(site, location.statement.inner());
                if let Some(upstream) = upstream {
                    site.mirrors.insert(path, upstream);
                }
            } else if !site.questions.contains_key(&path) {
                report(self, &path);
                let mut asking = site.clone();
                Self::asked_about(&mut asking);
                self.has_replaced_answers = false;
                let steps = self.location_steps(&asking, location);
                if self.has_replaced_answers {
                    continue;
                }
                let name = format!("{}-question", site.name);
                let mut route = self.out.add_route(&name, steps);
                if looks_at_path(block) {
                    asking.meaning.clone_from(&before.meaning);
                    Self::asked_about(&mut asking);
                    route = self.asked_with_rules(asking, route, (block, locations));
                }
                site.questions.insert(path, route);
            }
        }
    }

    /// Puts the rewriting directives of the server before the location of an authentication request, as nginx does. Those that do not
    /// look at the path have let the client's request in.
    fn asked_with_rules(
        &mut self,
        mut asking: Site,
        content: String,
        (block, locations): (&[Statement], &[Location<'_>]),
    ) -> String {
        let name = format!("{}-question", asking.name);
        let other = self.out.route_name(&name);
        self.out.routes.insert(other.clone(), Value::Null);
        asking.entry = format!("routes/{other}");
        asking.again.clone_from(&asking.entry);
        let rewritten = asking.entry.clone();
        let exits = Exits {
            content: &content,
            rewritten: &rewritten,
            block: None,
        };
        let around = asking.clone();
        let mut steps = self.rewrites(&mut asking, block, &exits);
        if !ends(&steps) {
            steps.push(json!({"action": {"pass": content}}));
        }
        match self.leads_to(&steps, &other, &name) {
            true => {
                let ways = self.ways(&around, block, locations);
                self.out.routes.insert(other, self::steps(&ways).into());
            }
            false => drop(self.out.routes.remove(&other)),
        }
        self.out.add_route(&name, steps)
    }

    fn location_steps(&mut self, around: &Site, location: &Location<'_>) -> Vec<Value> {
        let block = location.statement.inner();
        let mut site = around.clone();
        site.place = places::id(block);
        site.kept.clear();
        site.status_of_page = status_of_page(&site.all_pages, Some(&location.how));
        if location.how == Match::Unknown {
            return vec![json!({"action": Self::shut()})];
        }
        for (path, _, outer) in &location.around {
            self.enter(&mut site, outer.inner(), Some(path));
        }
        let path = match &location.how {
            Match::Exact(path) | Match::Prefix(path, _) => path.as_str(),
            _ => "",
        };
        let is_asked = around.is_question
            || around.questions.contains_key(path)
            || around.mirrors.contains_key(path);
        for statement in block {
            // An authentication request has no body, and a copy its own bound.
            if !(is_asked && statement.name().starts_with("proxy_pass_request_")) {
                closing::report(statement, self.findings);
            }
        }
        match &location.how {
            Match::Prefix(path, _) => self.enter(&mut site, block, Some(path)),
            Match::Exact(path) => {
                self.enter(&mut site, block, Some(path));
                site.is_exact = true;
            }
            Match::Regex(source, case) => {
                // An alias of the location around it stands at that one's path.
                self.enter(&mut site, block, None);
                site.expression = Some(source.clone());
                let uri = Text(vec![Piece::Variable("uri".to_owned())]);
                // After a `rewrite` the expression would be matched against the new path: its captures are no longer
                // known.
                let is_rewritten = block.iter().any(|statement| statement.name() == "rewrite");
                if let Some(captured) = captures(source, *case, &uri).filter(|_| !is_rewritten) {
                    site.meaning.groups.extend(groups(source, &captured));
                    site.meaning.captures = Some(captured);
                }
            }
            Match::Named(_) | Match::Unknown => self.enter(&mut site, block, None),
        }
        self.report_other_address(&site, block);
        site.keeps_path = keeps_path(block);
        site.name = format!(
            "{}-{}",
            around.name,
            slug(
                location
                    .statement
                    .arguments()
                    .last()
                    .map_or("", String::as_str)
            )
        );
        let link = self.link(&mut site, block);
        if let (Some((_, place)), None) = (&site.scope.link, &link) {
            let problem = "its check cannot be carried over: requests here get 403";
            let hint = "write `signed_link` of `authenticate` (`docs/http/access.md`)";
            self.findings.lost(place, "secure_link", problem, hint);
            return vec![json!({"action": Self::shut()})];
        }
        let mut steps = self.steps_of_content(&mut site, location);
        if let Some(link) = link {
            let options = crate::output::when("authenticate", link);
            steps = self.wrapped(&site, steps, options);
        }
        let mut pages = match site.is_question {
            true => Map::new(),
            false => self.pages(&site, Some(around)),
        };
        // Others refuse all the same.
        let refusals = refusals(block);
        let mut changing = site.scope.error_pages.iter();
        let changing = changing.find(|page| {
            let admits = match page.answer {
                ResponseStatus::Kept => false,
                ResponseStatus::Own => true,
                ResponseStatus::Fixed(status) => status < 300,
            };
            admits && page.statuses.iter().any(|status| refusals.contains(status))
        });
        if let Some(page) = changing
            && site.is_question
            && !has_handler(block)
        {
            let problem = "nginx replaces the answer to an authentication request, too, so that clients may be let in: requests that need one get 403";
            let hint = "write `error_page` into the locations that ask, then import again";
            self.findings.lost(&page.place, "error_page", problem, hint);
            self.has_replaced_answers = true;
        }
        pages.extend(self.place_settings(&site, &around.scope));
        let text = Value::from(steps.clone()).to_string();
        if !["\"share\":", "\"pass\":"]
            .iter()
            .any(|one| text.contains(one))
        {
            // Only files have types by their extension.
            pages.remove("mime_types");
            pages.remove("default_type");
        }
        self.wrapped(&site, steps, pages)
    }

    /// The steps of a location: its rewriting, the locations in it, its content.
    fn steps_of_content(&mut self, site: &mut Site, location: &Location<'_>) -> Vec<Value> {
        let block = location.statement.inner();
        let reserved = self.out.route_name(&format!("{}-content", site.name));
        let content_destination = format!("routes/{reserved}");
        self.out.routes.insert(reserved.clone(), Value::Null);
        let exits = Exits {
            content: &content_destination,
            rewritten: &site.entry.clone(),
            block: Some(block),
        };
        // nginx looks for the inner location, and at the method, before it runs the rewriting directives.
        let mut before = self.nested(site, location, block);
        if ends(&before) {
            self.out.routes.remove(&reserved);
            return before;
        }
        before.extend(self.excepted(site, block));
        let steps = self.rewrites(site, block, &exits);
        let is_led_to = self.leads_to(&steps, &reserved, &site.name);
        let is_open = !ends(&steps);
        let mut steps = [before, steps].concat();
        if is_led_to {
            let content = self.content(site, block);
            self.out.routes.insert(reserved, content.into());
            if is_open {
                steps.push(json!({"action": {"pass": content_destination}}));
            }
            return steps;
        }
        self.out.routes.remove(&reserved);
        if is_open {
            steps.extend(self.content(site, block));
        }
        steps
    }

    /// True if steps lead to a route, or one of the routes that a place has made. Their names begin with that of the place.
    pub(super) fn leads_to(&self, steps: &[Value], route: &str, place: &str) -> bool {
        let destination = format!("\"routes/{route}\"");
        let leads = |value: &Value| value.to_string().contains(&destination);
        let place = slug(place);
        // A long name is cut, to make room for a number behind it.
        let begin = place.get(..LONGEST_BEGINNING).unwrap_or(&place);
        let mut own = self.out.routes.iter();
        steps.iter().any(leads) || own.any(|(name, own)| name.starts_with(begin) && leads(own))
    }

    /// Locations within a regular expression's location are searched when that has matched.
    fn nested(&mut self, site: &Site, location: &Location<'_>, block: &[Statement]) -> Vec<Value> {
        if !matches!(location.how, Match::Regex(..)) {
            return Vec::new();
        }
        let inner = self.understood(collect(block, &mut Vec::new()));
        if inner.is_empty() {
            return Vec::new();
        }
        let mut ways = Vec::new();
        let mut site = site.clone();
        // An index file may be of another location than the one around.
        site.others.push(Match::Unknown);
        for location in &inner {
            let steps = self.location_steps(&site, location);
            let action = self.out.as_action(&format!("{}-inner", site.name), steps);
            let outside = self.outside(&site, location);
            ways.push((location, Answer { action, outside }));
        }
        match site.is_from_outside {
            true => steps_from_outside(&order(&ways)),
            false => self::steps(&order(&ways)),
        }
    }

    fn enter(&mut self, site: &mut Site, block: &[Statement], prefix: Option<&str>) {
        site.scope = site.scope.enter(block, self.findings);
        site.meaning.unknown.extend(answer_variables(block));
        site.is_exact = false;
        site.expression = None;
        site.prefix = prefix.map(str::to_owned);
        let has_alias = block.iter().any(|statement| statement.name() == "alias");
        if let Some(folder) = site.scope.folder.as_mut().filter(|_| has_alias) {
            folder.at = prefix.map(str::to_owned);
        }
        let root = block
            .iter()
            .find(|statement| matches!(statement.name(), "root" | "alias"));
        if let Some(root) = root
            && let Ok(text) = site.meaning.text(root.argument(0))
        {
            for name in ["document_root", "realpath_root"] {
                site.meaning.named.insert(name.to_owned(), text.clone());
            }
            let requested = requested_file(text, has_alias, prefix);
            site.meaning
                .named
                .insert("request_filename".to_owned(), requested);
        }
    }
}

/// All pages of a block, and of those within it, behind those around it.
fn pages_within(block: &[Statement], pages: &mut Vec<ErrorPage>) {
    for one in block {
        match one.name() {
            "error_page" => pages.extend(ErrorPage::read(one, &mut Findings::default())),
            // The depth is that of blocks, which the parser bounds.
            _ => pages_within(one.inner(), pages),
        }
    }
}

/// `$status` where a page for an error is made, as an expression: that of the error, or the one that `=` names; `=` alone leaves it to the
/// page. It is not known where the same error has one in one place and another elsewhere. `how`: the location that is the page.
fn status_of_page(pages: &[ErrorPage], how: Option<&Match>) -> Option<Result<String, Unknown>> {
    let leads_here = |page: &&ErrorPage| match how {
        Some(Match::Named(name)) => page.target == *name,
        _ => !page.target.starts_with('@'),
    };
    let mut known = BTreeMap::new();
    for page in pages.iter().filter(leads_here) {
        for status in &page.statuses {
            let value = match page.answer {
                ResponseStatus::Kept => status.to_string(),
                ResponseStatus::Own => String::new(),
                ResponseStatus::Fixed(fixed) => fixed.to_string(),
            };
            let former = known.insert(*status, value.clone());
            if former.is_some_and(|former| former != value) {
                return Some(Err(Unknown("status".to_owned())));
            }
        }
    }
    let known: Vec<String> = known
        .iter()
        .map(|(status, value)| format!("{status}: '{value}'"))
        .collect();
    let error = script_of("error_status");
    (!known.is_empty()).then(|| Ok(format!("({{{}}})[{error}]", known.join(", "))))
}

/// True if an application or a server answers in a block or one within it. The depth is that of blocks, which the parser
/// bounds.
fn has_handler(block: &[Statement]) -> bool {
    block
        .iter()
        .any(|statement| is_handler(statement) || has_handler(statement.inner()))
}

/// True if none of the directives of a location gives requests another path. The depth is that of blocks, which the parser bounds.
fn keeps_path(block: &[Statement]) -> bool {
    fn changes(block: &[Statement]) -> bool {
        block.iter().any(|one| match one.name() {
            "rewrite" | "try_files" | "error_page" => true,
            "if" => changes(one.inner()),
            _ => false,
        })
    }
    // The server in an address must be known.
    let is_fixed = |one: &Statement| is_handler(one) && !one.argument(0).contains('$');
    let answers = |one: &Statement| is_fixed(one) || one.name() == "return";
    block.iter().any(answers) && !changes(block)
}

/// True for an `if` about the target that the client asked for.
fn is_about_request(statement: &Statement) -> bool {
    let mut arguments = statement.arguments().iter();
    statement.name() == "if" && arguments.any(|one| one.contains("request_uri"))
}

/// The first directive that leads a path to another one. The depth is that of blocks, which the parser bounds.
fn leading_away<'s>(block: &'s [Statement], path: &str) -> Option<&'s Statement> {
    block.iter().find_map(|one| match one.name() {
        "rewrite" if !matches!(one.argument(2), "redirect" | "permanent") => {
            let pattern = Pattern::parse(&format!("~{}", one.argument(0)), DECODED).ok();
            let found = pattern.is_none_or(|pattern| {
                let found = pattern.found_in(path.as_bytes());
                found.unwrap_or(true)
            });
            found.then_some(one)
        }
        "if" => leading_away(one.inner(), path),
        _ => None,
    })
}

/// The statuses for which locations have pages with another status. The depth is that of blocks, which the parser bounds.
fn paged(block: &[Statement]) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    for location in block.iter().filter(|one| one.name() == "location") {
        let pages = location
            .inner()
            .iter()
            .filter(|one| one.name() == "error_page");
        for words in pages.map(Statement::arguments) {
            if words.iter().any(|word| word.starts_with('=')) {
                found.extend(words.iter().filter_map(|word| word.parse::<u16>().ok()));
            }
        }
        found.extend(paged(location.inner()));
    }
    found
}

/// True if a block answers with such a status. The depth is that of blocks, which the parser bounds.
fn returns(block: &[Statement], is_meant: fn(u16) -> bool) -> bool {
    block.iter().any(|one| match one.name() {
        "return" => one.argument(0).parse::<u16>().is_ok_and(is_meant),
        "if" => returns(one.inner(), is_meant),
        _ => false,
    })
}

/// The statuses with which a location that asks no server may refuse. The depth is that of blocks, which the parser bounds.
fn refusals(block: &[Statement]) -> BTreeSet<u16> {
    fn returned(block: &[Statement], found: &mut BTreeSet<u16>) {
        for one in block {
            match one.name() {
                "return" => found.extend(one.argument(0).parse::<u16>()),
                "if" => returned(one.inner(), found),
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    returned(block, &mut found);
    let answers = block.iter().any(|one| one.name() == "return");
    if !answers {
        found.extend([403, 404]);
    }
    found.retain(|status| *status >= 400);
    found
}

/// Returns `$request_filename`: below a `root`, or behind the path that an `alias` stands at.
pub(super) fn requested_file(mut folder: Text, is_alias: bool, prefix: Option<&str>) -> Text {
    match (is_alias, prefix) {
        (false, _) => folder.0.push(Piece::Variable("uri".to_owned())),
        (true, Some(prefix)) => {
            let script = format!("uri.slice({}.length)", quoted(prefix));
            folder.0.push(Piece::Script(script));
        }
        // The expression's captures are in the folder.
        (true, None) => {}
    }
    folder
}

/// Returns the variables of `auth_request_set`: the answer of another server gives them a value, even if built-in
/// variables have their names.
fn answer_variables(block: &[Statement]) -> impl Iterator<Item = String> {
    let sets = block.iter().filter(|one| one.name() == "auth_request_set");
    sets.map(|set| set.argument(0).trim_start_matches('$').to_owned())
}
