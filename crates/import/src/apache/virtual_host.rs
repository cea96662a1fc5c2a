//! A virtual host's processing of a request, in Apache's order: rewriting of the server, proxies, redirects, folders;
//! in each folder access control, its rewriting, and its files.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::access::{self, Access};
use super::closing;
use super::delivery::{differing, directives_of, root_folder};
use super::environment::Time;
use super::grammar::Directive;
use super::headers::{AnswerOf, Variant};
use super::links::{self, Refused, Test};
use super::rule::{self, Rule, Rules, State, rules_of};
use super::section::{Folder, Location, Mapping, Section, Stage, Where, below, under};
use super::site::{Compiler, Site, Spot};
use crate::output::{literal, one_or_many, slug, step, when};
use crate::words::Words;

/// Directives that change the content of a place.
const OF_CONTENT: Words = Words(
    "addhandler addtype directoryindex directoryslash fallbackresource php_admin_flag php_admin_value php_flag
    php_value forcetype removehandler removetype rewritebase rewritecond rewriteengine rewriteoptions rewriterule
    sethandler",
);

/// A request's way through a site.
impl Compiler<'_> {
    /// Makes the routes of a site, and gives its destination.
    pub(super) fn site(&mut self, site: &Rc<Site>) -> String {
        let entry = Self::entry(site);
        let mut steps = self.server_redirects(site);
        steps.extend(self.folders(site));
        let steps = self.proxies(site, steps);
        let mut steps = self.server_rules(site, steps);
        self.rules_for_index(site);
        // Steps behind one for everything are never reached.
        if let Some(last) = steps.iter().position(|step| step.get("match").is_none()) {
            steps.truncate(last + 1);
        }
        self.out.routes.insert(site.name.clone(), steps.into());
        self.with_options(site, entry)
    }

    /// The destination of a site, with the options of all of its responses before it.
    fn with_options(&mut self, site: &Site, entry: String) -> String {
        let root = Mapping {
            at: String::new(),
            folder: root_folder(site),
        };
        let inner = self.delivery(&directives_of(site, &root), Some(&entry));
        let mut options = differing(inner, &self.common.clone());
        let root = self.root.clone();
        let logs = self.logs(site, root.as_deref()).own;
        let logs = (!logs.is_empty()).then(|| super::logs::one_or_all(logs));
        if let Some(logs) = logs.filter(|logs| self.common.get("access_log") != Some(logs)) {
            options.insert("access_log".to_owned(), logs);
        }
        if options.is_empty() {
            return entry;
        }
        options.insert("pass".to_owned(), entry.into());
        let steps = vec![json!({"action": options})];
        self.out.add_route(&format!("{}-options", site.name), steps)
    }

    /// An action that leads to a part of a site, with the options of its responses.
    pub(super) fn leading_to(&mut self, site: &Site, mapping: &Mapping, action: Value) -> Value {
        let options = self.delivery_of_part(site, mapping);
        match action {
            Value::Object(mut action) => {
                for (name, value) in options {
                    action.entry(name).or_insert(value);
                }
                action.into()
            }
            other => other,
        }
    }

    /// Rewriting outside of sections.
    fn server_rules(&mut self, site: &Rc<Site>, steps: Vec<Value>) -> Vec<Value> {
        let list = rule::server_rules(site);
        if list.is_empty() {
            return steps;
        }
        let content = self
            .out
            .add_route(&format!("{}-after-rules", site.name), steps);
        let entry = self.by_rule(site, &list);
        let ends = (content.clone(), entry.unwrap_or(content));
        self.apply_server_rules(site, list, ends)
    }

    /// The destination of a path that a rule outside of sections has made, without the access control of sections for paths: these are
    /// compared with the path that the client asked for. `None` if there is no such rule or section.
    fn by_rule(&mut self, site: &Rc<Site>, list: &[Rule]) -> Option<String> {
        let is_asked = |section: &Section| section.is_of_paths() && section.controls_access();
        if !list.iter().any(Rule::changes_file) || !site.sections.iter().any(is_asked) {
            return None;
        }
        let mut other = Site::clone(site);
        for section in &mut other.sections {
            if section.is_of_paths() {
                section.directives.retain(|one| !closing::is_of_access(one));
            }
        }
        // From a new path of folders' rules, it is the way of any request.
        let begin = vec![json!({"action": {"pass": Self::entry(site)}})];
        let begin = self.out.add_route(&format!("{}-by-rule", site.name), begin);
        other.name = begin.trim_start_matches("routes/").to_owned();
        let other = Rc::new(other);
        let mut steps = self.server_redirects(&other);
        steps.extend(self.folders(&other));
        let steps = self.proxies(&other, steps);
        Some(self.out.add_route(&format!("{}-files", other.name), steps))
    }

    /// True if sections of folders refuse requests of some clients, or of all.
    pub(super) fn has_closed_folders(&mut self, site: &Site) -> bool {
        let root = Mapping {
            at: String::new(),
            folder: root_folder(site),
        };
        let folders = site.sections_where(|one| {
            matches!(one.stage, Stage::Folder | Stage::FolderMatch) && one.file.is_none()
        });
        let steps = vec![json!({"action": access::refusal()})];
        let guarded = self.guarded(site, &folders, &root, &site.name, steps.clone());
        guarded != steps
    }

    /// Makes the route of index files: Apache looks at them as if they had been requested, with all directives outside of sections.
    fn rules_for_index(&mut self, site: &Rc<Site>) {
        let Some(route) = &site.index_rules else {
            return;
        };
        let name = route.trim_start_matches("routes/").to_owned();
        let mut all = self.out.routes.values();
        if !all.any(|steps| steps.to_string().contains(&format!("\"{route}\""))) {
            self.out.routes.remove(&name);
            return;
        }
        let mut files = Vec::new();
        for mapping in &site.mappings {
            let settled = self.settled_route(site, mapping);
            files.push(step(under(&mapping.at), json!({"pass": settled})));
        }
        let mut steps = self.server_redirects(site);
        let list = rule::server_rules(site);
        match list.is_empty() {
            true => steps.extend(files),
            false => {
                let wanted = format!("{}-index-files", site.name);
                let content = self.out.add_route(&wanted, files);
                steps.extend(self.apply_server_rules(site, list, (content.clone(), content)));
            }
        }
        self.out.routes.insert(name, steps.into());
    }

    /// The steps of rules outside of sections. Requests that they do not answer go on to `content`, those with another path to `entry`.
    fn apply_server_rules(
        &mut self,
        site: &Rc<Site>,
        list: Vec<Rule>,
        (content, entry): (String, String),
    ) -> Vec<Value> {
        // A host that only redirects needs no folder.
        let nowhere = || Mapping {
            at: String::new(),
            folder: "/var/empty".to_owned(),
        };
        let base = site.mappings.last().cloned().unwrap_or_else(nowhere);
        let spot = Spot {
            site: Rc::clone(site),
            sub: base.clone(),
            base,
            name: site.name.clone(),
            entry: content.clone(),
        };
        let state = State::new(self.meaning(&spot), &list);
        let rules = Rules {
            list,
            base: String::new(),
            relative: "/".to_owned(),
            spot,
            entry,
            content,
            is_folder: false,
        };
        self.rules(&rules, state)
    }

    /// Returns steps behind those of a site's redirects, and of its rules that refuse.
    pub(super) fn refusing_server_rules(
        &mut self,
        site: &Rc<Site>,
        name: &str,
        steps: Vec<Value>,
    ) -> Vec<Value> {
        let mut all = self.server_redirects(site);
        let list = rule::refusing(rule::server_rules(site));
        match list.is_empty() {
            true => all.extend(steps),
            false => {
                let content = self.out.add_route(name, steps);
                all.extend(self.apply_server_rules(site, list, (content.clone(), content)));
            }
        }
        all
    }

    /// Redirects outside of sections come before access control.
    fn server_redirects(&mut self, site: &Rc<Site>) -> Vec<Value> {
        let environment = self.environment_of_host(site, Time::Late);
        let meaning = self.meaning_of(site, environment, Time::Late);
        let fields = |one: &&Directive| one.is("header") && one.word(0) == "always";
        let always: Vec<&Directive> = site.outer.iter().chain(&site.own).filter(fields).collect();
        let mut steps = Vec::new();
        for directive in site
            .all(super::redirect::NAMES)
            .cloned()
            .collect::<Vec<_>>()
        {
            let Some(mut step) = self.redirect(&directive, &Where::default(), None) else {
                continue;
            };
            let action = step.get_mut("action").map(Value::take).unwrap_or_default();
            if let Some(step) = step.as_object_mut() {
                let action = self.with_always(action, &always, &meaning);
                step.insert("action".to_owned(), action);
            }
            steps.push(step);
        }
        steps
    }

    /// The steps of the folders; the last one takes every request.
    fn folders(&mut self, site: &Rc<Site>) -> Vec<Value> {
        let mut steps = self.closed_aliases(site);
        steps.extend(self.alias_steps(site));
        steps.extend(self.wsgi(site));
        match site
            .mappings
            .last()
            .filter(|last| last.at.is_empty())
            .cloned()
        {
            Some(root) => steps.extend(self.mapping(site, &root, false)),
            None => steps.push(json!({"action": {"return": 404}})),
        }
        steps
    }

    fn alias_steps(&mut self, site: &Rc<Site>) -> Vec<Value> {
        let mut steps = Vec::new();
        for mapping in site
            .mappings
            .iter()
            .filter(|mapping| !mapping.at.is_empty())
        {
            let name = format!("{}-{}", site.name, slug(&mapping.at));
            let inner = self.mapping(site, mapping, false);
            let destination = self.out.add_route(&name, inner);
            let with_slash = site
                .all(&["alias", "scriptalias"])
                .find(|alias| alias.argument(0).trim_end_matches('/') == mapping.at)
                .is_some_and(|alias| alias.argument(0).ends_with('/'));
            let mut patterns = vec![format!("{}/*", literal(&mapping.at))];
            if !with_slash {
                patterns.insert(0, literal(&mapping.at));
            }
            let action = self.leading_to(site, mapping, json!({"pass": destination}));
            steps.push(step(when("uri", one_or_many(patterns)), action));
        }
        steps
    }

    /// The refusal of a place, with the fields that every answer there has.
    pub(super) fn refusal_at(&mut self, spot: &Spot) -> Value {
        let environment = self.environment_of_host(&spot.site, Time::Early);
        let meaning = self.meaning_of(&spot.site, environment, Time::Early);
        self.refusal((&spot.site, &spot.site.sections), &spot.base, &meaning)
    }

    /// The steps of one folder. `is_settled`: the path is final, and no rule is applied again.
    fn mapping(&mut self, site: &Rc<Site>, base: &Mapping, is_settled: bool) -> Vec<Value> {
        let part = if base.at.is_empty() {
            site.name.clone()
        } else {
            format!("{}-{}", site.name, slug(&base.at))
        };
        // An index file is handled as if it had been requested.
        let entry = if is_settled {
            String::new()
        } else {
            self.settled_route(site, base)
        };
        let mut steps = Vec::new();
        for sub in subs(site, base) {
            let name = format!("{}-{}", site.name, slug(&sub.at));
            let spot = Spot {
                site: Rc::clone(site),
                base: base.clone(),
                sub: sub.clone(),
                name: name.clone(),
                entry: entry.clone(),
            };
            let inner = self.spot(&spot, is_settled);
            let destination = self.out.add_route(&name, inner);
            let patterns = vec![literal(&sub.at), format!("{}/*", literal(&sub.at))];
            let action = self.leading_to(site, &sub, json!({"pass": destination}));
            steps.push(step(when("uri", one_or_many(patterns)), action));
        }
        let spot = Spot {
            site: Rc::clone(site),
            base: base.clone(),
            sub: base.clone(),
            name: part.clone(),
            entry,
        };
        steps.extend(self.spot(&spot, is_settled));
        let steps = self.guarded_by_folders(&spot, steps);
        self.guarded(site, &site.sections, base, &part, steps)
    }

    /// Returns steps behind the access control of folders for paths that lead to nothing: Apache compares names of files with the first part
    /// of such a path that is missing, so that a section for names cannot be said to admit clients there.
    fn guarded_by_folders(&mut self, spot: &Spot, steps: Vec<Value>) -> Vec<Value> {
        let admits =
            |one: &Section| one.file.is_some() && one.controls_access() && !one.only_refuses();
        let site = Rc::clone(&spot.site);
        if !site.sections.iter().any(admits) {
            return steps;
        }
        let folders = site.sections_where(|one| one.file.is_none());
        let name = format!("{}-named", spot.name);
        let content = self.out.add_route(&name, steps);
        let content = json!({"pass": content});
        let plain = vec![json!({"action": content.clone()})];
        let missing = self.guarded(&site, &folders, &spot.base, &name, plain.clone());
        if missing == plain {
            return plain;
        }
        let has_other_answer =
            spot.setting("fallbackresource").is_some() || rules_at(spot).is_some();
        let mut admitting = site.sections.iter().filter(|one| admits(one));
        let directive = admitting.find_map(|one| {
            let mut directives = one.directives.iter();
            directives.find(|one| closing::is_of_access(one))
        });
        if let Some(directive) = directive.filter(|_| has_other_answer) {
            let problem = "names of files admit clients to files that exist: requests for missing ones with such a name get 403";
            let hint = "admit them in the `<Directory>` that has the rules or `FallbackResource`, then import again";
            self.findings
                .lost(&directive.place, &directive.name, problem, hint);
        }
        let missing = json!({"pass": self.out.add_route(&name, missing)});
        self.file_test(spot, &content, &content, &missing)
    }

    /// Returns steps behind those of access control.
    pub(super) fn guarded(
        &mut self,
        site: &Site,
        sections: &[Section],
        mapping: &Mapping,
        name: &str,
        steps: Vec<Value>,
    ) -> Vec<Value> {
        let environment = self.environment_of_host(site, Time::Early);
        let meaning = self.meaning_of(site, environment, Time::Early);
        let refusal = self.refusal((site, sections), mapping, &meaning);
        self.guarded_by((site, sections, mapping), name, steps, &refusal)
    }

    /// Returns steps behind those of access control, which has an action of its own for the requests that it refuses.
    pub(super) fn guarded_by(
        &mut self,
        (site, sections, mapping): (&Site, &[Section], &Mapping),
        name: &str,
        mut steps: Vec<Value>,
        refusal: &Value,
    ) -> Vec<Value> {
        let doubts = self.doubts_address;
        let environment = self.environment_of_host(site, Time::Early);
        let meaning = self.meaning_of(site, environment, Time::Early);
        for ask in [access::ordered, access::required, access::closed] {
            let mut access = Access {
                findings: self.findings,
                meaning: &meaning,
                sources: self.sources,
            };
            let rules = access::rules((sections, doubts), mapping, &mut access, ask);
            if rules.is_empty() {
                continue;
            }
            let (_, only_refusals) = access::steps(&rules, &|| Value::Null, refusal);
            if !only_refusals {
                let destination = self.out.add_route(&format!("{name}-content"), steps);
                steps = vec![json!({"action": {"pass": destination}})];
            }
            let next = steps
                .last()
                .and_then(|step| step.get("action"))
                .cloned()
                .unwrap_or_default();
            let (guards, _) = access::steps(&rules, &|| next.clone(), refusal);
            let ends = guards
                .last()
                .is_some_and(|step| step.get("match").is_none());
            steps = if ends {
                guards
            } else {
                [guards, steps].concat()
            };
        }
        steps
    }

    /// The rewriting of a place, then its content.
    fn spot(&mut self, spot: &Spot, is_settled: bool) -> Vec<Value> {
        let refused = links::refused(spot, is_settled);
        if refused.existing == Test::Settled(true) && refused.missing == Test::Settled(true) {
            return vec![self.without_links(spot)];
        }
        let steps = self.spot_with_links(spot, is_settled);
        self.behind_links(spot, refused, steps)
    }

    /// The same where rules may be applied.
    fn spot_with_links(&mut self, spot: &Spot, is_settled: bool) -> Vec<Value> {
        let found = rules_at(spot);
        let fallback = if is_settled {
            None
        } else {
            self.fallback_resource(spot)
        };
        let content = self.content(spot, fallback, None);
        // For a final path, only the rules that refuse apply.
        match found {
            Some((section, list)) if !is_settled => self.apply_rules(spot, &section, list, content),
            _ => self.refusing_rules(spot, content),
        }
    }

    /// Returns steps behind those of the rules of a place that refuse.
    pub(super) fn refusing_rules(&mut self, spot: &Spot, content: Vec<Value>) -> Vec<Value> {
        let Some((section, list)) = rules_at(spot) else {
            return content;
        };
        let list = rule::refusing(list);
        self.apply_rules(spot, &section, list, content)
    }

    /// Returns steps behind those of rules of a place.
    fn apply_rules(
        &mut self,
        spot: &Spot,
        section: &Section,
        list: Vec<Rule>,
        content: Vec<Value>,
    ) -> Vec<Value> {
        if list.is_empty() {
            return content;
        }
        let base = match (&section.folder, &section.location) {
            (Some(Folder::Path(path)), _) => {
                match below(&spot.base.folder, path) {
                    Some(rest) => format!("{}{rest}/", spot.base.at),
                    // The folder is above the one that is mapped: its path is not part of requests.
                    None => {
                        let hint = "write the rules into the mapped `<Directory>`";
                        if let Some(first) = section.directives.first() {
                            self.findings.lost(
                                &first.place,
                                "RewriteRule",
                                "rules of a folder above the mapped one: requests here get 403",
                                hint,
                            );
                        }
                        return vec![json!({"action": access::refusal()})];
                    }
                }
            }
            _ => format!("{}/", spot.base.at),
        };
        let relative = section
            .directives
            .iter()
            .rfind(|directive| directive.is("rewritebase"))
            .map_or_else(
                || base.clone(),
                |directive| format!("{}/", directive.argument(0).trim_end_matches('/')),
            );
        let content = self.out.add_route(&format!("{}-files", spot.name), content);
        let entry = Self::entry(&spot.site);
        let state = State::new(self.meaning(spot), &list);
        let rules = Rules {
            list,
            base,
            relative,
            spot: spot.clone(),
            content,
            entry,
            is_folder: true,
        };
        self.rules(&rules, state)
    }

    /// Returns steps behind the refusal of requests whose rules Apache does not apply either: it wants to follow links for them.
    fn behind_links(&mut self, spot: &Spot, refused: Refused, steps: Vec<Value>) -> Vec<Value> {
        let Refused { existing, missing } = refused;
        if existing == Test::Settled(false) && missing == Test::Settled(false) {
            return steps;
        }
        let content = self.out.add_route(&format!("{}-linked", spot.name), steps);
        let allowed = json!({"pass": content});
        let refusal = self.without_links(spot);
        let action = refusal.get("action").cloned().unwrap_or_default();
        let mut made = Vec::new();
        let mut refuse = |test: Test, steps: Vec<Value>| match test {
            Test::Settled(false) => {}
            Test::Settled(true) => made.extend(steps),
            Test::Open(test) => made.extend(steps.into_iter().map(|inner| {
                let tested = when("if", format!("`${{{test} ? 1 : ''}}`"));
                step(tested, inner.get("action").cloned().unwrap_or_default())
            })),
        };
        refuse(existing.clone().and(missing.clone()), vec![refusal]);
        if existing != missing {
            let only_existing = existing.clone().and(missing.clone().not());
            let only_missing = missing.and(existing.not());
            for (test, found, nothing) in [
                (only_existing, &action, &allowed),
                (only_missing, &allowed, &action),
            ] {
                if test != Test::Settled(false) {
                    let steps = self.file_test(spot, found, found, nothing);
                    let looked = self.out.add_route(&format!("{}-links", spot.name), steps);
                    refuse(test, vec![json!({"action": {"pass": looked}})]);
                }
            }
        }
        made.push(json!({"action": allowed}));
        made
    }

    /// Refuses requests whose rules Apache does not apply either: it wants to follow links for them.
    fn without_links(&mut self, spot: &Spot) -> Value {
        if let Some(options) = links::options_of(spot) {
            let problem = "requests here get 403 where rules apply, as in Apache: `Options` allows no links, and rules need them";
            let hint = "add `FollowSymLinks` if the rules are needed, then import again";
            self.findings
                .note(&options.place, &options.name, problem, hint);
        }
        json!({"action": access::refusal()})
    }

    /// Returns the destination of a path to which no rule is applied again.
    pub(super) fn settled(&mut self, spot: &Spot, path: &str) -> String {
        let found = spot
            .site
            .mappings
            .iter()
            .find(|mapping| below(&mapping.at, path).is_some())
            .cloned();
        let mapping = found.unwrap_or_else(|| spot.base.clone());
        self.settled_route(&spot.site, &mapping)
    }

    fn settled_route(&mut self, site: &Rc<Site>, mapping: &Mapping) -> String {
        let key = (site.name.clone(), mapping.at.clone());
        if let Some(known) = self.settled.get(&key) {
            return known.clone();
        }
        let wanted = format!(
            "{}-{}",
            site.name,
            if mapping.at.is_empty() {
                "settled".to_owned()
            } else {
                format!("{}-settled", slug(&mapping.at))
            }
        );
        let destination = self.out.add_route(&wanted, Vec::new());
        self.settled.insert(key, destination.clone());
        let steps = self.mapping(site, mapping, true);
        if let Some(name) = destination.strip_prefix("routes/") {
            self.out.routes.insert(name.to_owned(), steps.into());
        }
        destination
    }

    /// `FallbackResource`
    fn fallback_resource(&mut self, spot: &Spot) -> Option<Value> {
        let resource = spot.setting("fallbackresource")?.argument(0).to_owned();
        if resource == "disabled" {
            return None;
        }
        let path = if resource.starts_with('/') {
            resource
        } else {
            format!("{}/{resource}", spot.sub.at)
        };
        let destination = self.settled(spot, &path);
        let rewritten = crate::template::Text::literal(path.replace('%', "%25")).template();
        Some(json!({"rewrite": rewritten, "pass": destination}))
    }

    /// Adds fields of the answer to an action that ends a request's processing.
    pub(super) fn finish(&mut self, spot: &Spot, mut action: Map<String, Value>) -> Value {
        self.fields(spot, &mut action, AnswerOf::Files, &Variant::default());
        action.into()
    }
}

/// The rules of a place, if they are switched on, and the section that has them.
pub(super) fn rules_at(spot: &Spot) -> Option<(Section, Vec<Rule>)> {
    let mut sections = spot
        .sections()
        .filter(|section| section.stage != Stage::Server);
    let (section, (is_on, list)) =
        sections.find_map(|section| Some((section.clone(), rules_of(section)?)))?;
    // A section without a switch has that of the sections around it.
    let around = || {
        let above = sections.find_map(|section| rule::is_on(&section.directives));
        above.or_else(|| rule::server_switch(&spot.site))
    };
    (is_on.or_else(around) == Some(true)).then_some((section, list))
}

/// The places below a folder that have a content of their own, the deepest first.
fn subs(site: &Site, base: &Mapping) -> Vec<Mapping> {
    let mut subs: Vec<Mapping> = Vec::new();
    for section in site
        .sections
        .iter()
        .filter(|section| section.file.is_none())
    {
        let is_of_content = |directive: &Directive| {
            OF_CONTENT.contains(&directive.key)
                || super::delivery::OF_PLACE.contains(&directive.key)
                || super::redirect::NAMES.contains(&directive.key.as_str())
        };
        let no_links = |directive: &Directive| {
            directive.is("options") && super::content::follows(directive) == Some(false)
        };
        if !section
            .directives
            .iter()
            .any(|directive| is_of_content(directive) || no_links(directive))
            && !super::lists::is_apart(site, section)
        {
            continue;
        }
        let rest = match (&section.folder, &section.location) {
            (Some(Folder::Path(path)), _) => below(&base.folder, path),
            (None, Some(Location::Path(path))) => below(&base.at, path.trim_end_matches('/')),
            _ => None,
        };
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let sub = Mapping {
            at: format!("{}{rest}", base.at),
            folder: format!("{}{rest}", base.folder),
        };
        if !subs.contains(&sub) {
            subs.push(sub);
        }
    }
    subs.sort_by_key(|sub| std::cmp::Reverse(sub.at.len()));
    subs
}
