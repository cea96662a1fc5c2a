//! The effect of a rule of rewriting: it refuses, redirects, hands on, or changes the path.

use serde_json::{Value, json};

use super::meaning::{Captures, Meaning};
use super::proxy::guards;
use super::rule::{Rule, Rules, State};
use super::section::{Location, Mapping, Section};
use super::site::Compiler;
use crate::output::when;
use crate::template::{Piece, Text, script_text};

/// The effect of a rule.
pub(super) enum Effect {
    Nothing,
    /// The rules end here.
    Ends,
    Act(Value),
}

impl Compiler<'_> {
    /// The effect of a rule where it holds.
    pub(super) fn effect(
        &mut self,
        rules: &Rules,
        rule: &Rule,
        captured: Captures<'_>,
        state: &State,
    ) -> Result<Effect, String> {
        let flags = rule.flags();
        let has = |names: &[&str]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
        let target = rule.directive.argument(1);
        if has(&["F", "FORBIDDEN"]) {
            return Ok(Effect::Act(json!({"return": 403})));
        }
        if has(&["G", "GONE"]) {
            return Ok(Effect::Act(json!({"return": 410})));
        }
        for (name, value) in &flags {
            let is_served =
                matches!(name.as_str(), "T" | "TYPE") && target == "-" && !value.contains("httpd");
            if matches!(
                name.as_str(),
                "CO" | "COOKIE" | "T" | "TYPE" | "H" | "HANDLER"
            ) && !is_served
            {
                let hint = "set it with `response_headers`, or `mime_types` of the action";
                self.findings.lost(
                    &rule.directive.place,
                    "RewriteRule",
                    &format!("the flag `{name}` has no equivalent"),
                    hint,
                );
            }
        }
        let is_absolute = [
            "http://",
            "https://",
            "ws://",
            "wss://",
            "balancer://",
            "fcgi://",
            "%{REQUEST_SCHEME}://",
        ]
        .iter()
        .any(|begin| target.starts_with(begin));
        let redirects = flags
            .iter()
            .find(|(name, _)| matches!(name.as_str(), "R" | "REDIRECT"));
        if has(&["P", "PROXY"]) {
            return self.proxied(rules, rule, captured, state).map(Effect::Act);
        }
        if let Some(status) = redirects
            .and_then(|(_, value)| value.parse::<u16>().ok())
            .filter(|status| !(300..400).contains(status))
        {
            return Ok(Effect::Act(json!({"return": status})));
        }
        if target == "-" {
            return Ok(self.without_path(rules, rule, state));
        }
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let unknown = |name: String| format!("there is no equivalent of `{name}`");
        let mut text = state.meaning.text(path, captured).map_err(unknown)?;
        // The values of a map have their own beginning.
        let is_relative = !is_absolute && !path.starts_with(['/', '%']) && !path.starts_with("${");
        if is_relative {
            let mut whole = Text::literal(rules.relative.clone());
            whole.extend(text);
            text = whole;
        }
        if redirects.is_some() || is_absolute {
            let status = redirects.map(|(_, value)| value.as_str());
            return redirected(status, text, query, &flags, &state.meaning, captured)
                .map(Effect::Act);
        }
        for piece in &mut text.0 {
            if let Piece::Text(text) = piece {
                // Literal text of a `rewrite` is percent-decoded.
                *text = text.replace('%', "%25");
            }
        }
        let then = self.then(rules, rule, state, &text);
        let same = format!("{} === (vars.uri ?? '') ? 1 : ''", text.expression());
        let text = with_query(text, query, &flags, &state.meaning, captured)?;
        let begins_anew = rules.is_folder && then == rules.entry;
        let action = json!({"rewrite": text.template(), "pass": then});
        if !rules.is_folder && !state.is_rewritten && !has(&["PT", "PASSTHROUGH"]) {
            return Ok(Effect::Act(self.behind_locations(rules, rule, action)));
        }
        if !begins_anew {
            return Ok(Effect::Act(action));
        }
        // A path that stays as it is does not begin the rules anew.
        let same = script_text(same).template();
        let steps = vec![
            json!({"match": {"if": same}, "action": {"pass": rules.content}}),
            json!({"action": action}),
        ];
        let changed = self
            .out
            .add_route(&format!("{}-changed", rules.spot.name), steps);
        Ok(Effect::Act(json!({"pass": changed})))
    }

    /// Returns the action of a rule outside of sections behind the access control of `<Location>`, which Apache compares with the path that
    /// the client asked for.
    fn behind_locations(&mut self, rules: &Rules, rule: &Rule, action: Value) -> Value {
        let site = &rules.spot.site;
        let sections = site.sections_where(Section::is_of_paths);
        self.report_admitting(rules, rule, &sections);
        let mapping = Mapping {
            at: String::new(),
            folder: String::new(),
        };
        let part = format!("{}-rule", site.name);
        let steps = vec![json!({"action": action})];
        let inner = self.guarded(site, &sections, &mapping, &part, steps);
        self.out.as_action(&part, inner)
    }

    /// Reports a section for paths that lets clients in, whatever the folders of the path that a rule makes say: here, both are asked.
    fn report_admitting(&mut self, rules: &Rules, rule: &Rule, sections: &[Section]) {
        let admits =
            |one: &&Section| one.controls_access() && !one.only_refuses() && may_hold(one, rule);
        let Some(section) = sections.iter().find(admits) else {
            return;
        };
        if !self.has_closed_folders(&rules.spot.site) {
            return;
        }
        if let Some(first) = section.directives.first() {
            let problem = format!(
                "Apache admits clients by the section with `{}` ({}:{}), whatever the sections of folders say about the path that the rule makes: here requests get 403 where these refuse",
                first.name, first.place.file, first.place.line
            );
            let hint =
                "write the access control into the `<Directory>` of the files, then import again";
            let directive = &rule.directive;
            self.findings
                .lost(&directive.place, &directive.name, &problem, hint);
        }
    }

    /// The effect of a rule that leaves the path as it is.
    fn without_path(&mut self, rules: &Rules, rule: &Rule, state: &State) -> Effect {
        let flags = rule.flags();
        let is_last = flags
            .iter()
            .any(|(name, _)| matches!(name.as_str(), "L" | "LAST" | "END"));
        if let Some(next) = rule.next_index(&rules.list, state.index) {
            let mut later = state.clone();
            later.index = next;
            return Effect::Act(json!({"pass": self.rest(rules, &later)}));
        }
        let mut types = flags
            .iter()
            .filter(|(name, _)| matches!(name.as_str(), "T" | "TYPE"));
        if let Some((_, kind)) = types.next() {
            let pass = match is_last {
                true => rules.end(state).clone(),
                false => self.rest(rules, state),
            };
            // Whatever the name of the file is.
            return Effect::Act(json!({"pass": pass, "mime_types": {}, "default_type": kind}));
        }
        match is_last {
            true => Effect::Ends,
            false => Effect::Nothing,
        }
    }

    /// Where a request goes with its new path.
    fn then(&mut self, rules: &Rules, rule: &Rule, state: &State, text: &Text) -> String {
        let flags = rule.flags();
        let has = |names: &[&str]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
        let mut later = state.clone();
        later.is_rewritten = true;
        // Its value is still that of the path before.
        let status = "REDIRECT_STATUS".to_owned();
        later.meaning.unknown.insert(status);
        if let Some(next) = rule.next_index(&rules.list, state.index) {
            later.index = next;
            return self.rest(rules, &later);
        }
        if !rules.is_folder && has(&["PT", "PASSTHROUGH"]) {
            return rules.content.clone();
        }
        match has(&["L", "LAST", "END", "PT", "PASSTHROUGH"]) {
            true => self.after(rules, text, has(&["END"])),
            false => self.rest(rules, &later),
        }
    }

    /// Where a request goes behind the last rule: to a script without any rules again, else through all of them.
    fn after(&mut self, rules: &Rules, text: &Text, is_end: bool) -> String {
        let last = text.0.last();
        let is_script = matches!(last, Some(Piece::Text(text)) if text.ends_with(".php"))
            || text
                .0
                .iter()
                .any(|piece| matches!(piece, Piece::Text(text) if text.contains(".php/")));
        if rules.is_folder && (is_script || is_end) {
            let first = match text.0.first() {
                Some(Piece::Text(first)) => first.clone(),
                _ => rules.base.clone(),
            };
            return self.settled(&rules.spot, &first);
        }
        rules.entry.clone()
    }

    /// `[P]`
    fn proxied(
        &mut self,
        rules: &Rules,
        rule: &Rule,
        captured: Captures<'_>,
        state: &State,
    ) -> Result<Value, String> {
        let target = rule.directive.argument(1);
        let (scheme, rest) = target
            .split_once("://")
            .ok_or_else(|| "the server is not valid".to_owned())?;
        // `%{REQUEST_URI}` begins with the slash that ends the authority.
        let ends = rest.find("%{REQUEST_URI}").filter(|_| !rest.contains('/'));
        let at = ends.or_else(|| rest.find('/')).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.contains(['$', '%']) {
            return Err("the server depends on the request".to_owned());
        }
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        let text = state
            .meaning
            .text(path, captured)
            .map_err(|name| format!("there is no equivalent of `{name}`"))?;
        let mut text = with_query(text, query, &rule.flags(), &state.meaning, captured)?;
        let server = format!("{scheme}://{authority}");
        let members = self.path_of_members(&rules.spot.site, &rule.directive, &server);
        let members = members.ok_or_else(|| "the servers have different paths".to_owned())?;
        text.0.insert(
            0,
            Piece::Text(members.replace('%', "%25").replace('?', "%3F")),
        );
        let mapping = Mapping {
            at: String::new(),
            folder: String::new(),
        };
        let mut action = self
            .server(&rules.spot.site, &rule.directive, &server)
            .ok_or_else(|| "the server is not valid".to_owned())?;
        action.insert("rewrite".to_owned(), text.template().into());
        // Access is checked with the original path.
        let site = &rules.spot.site;
        let part = format!("{}-proxy", site.name);
        let steps = self.answered(&rules.spot, action);
        let inner = self.guarded(site, &guards(site), &mapping, &part, steps);
        Ok(match inner.as_slice() {
            [only] if only.get("match").is_none() => {
                only.get("action").cloned().unwrap_or_default()
            }
            _ => json!({"pass": self.out.add_route(&part, inner)}),
        })
    }
}

/// True if a section for paths may hold for a path that a rule applies to.
fn may_hold(section: &Section, rule: &Rule) -> bool {
    let Some(Location::Path(path)) = &section.location else {
        return true;
    };
    let pattern = rule.directive.argument(0).trim_start_matches('^');
    let pattern = pattern
        .strip_prefix("/?")
        .or(pattern.strip_prefix('/'))
        .unwrap_or(pattern);
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/-_".contains(one);
    let end = pattern.find(|one| !is_plain(one));
    let begin = pattern.get(..end.unwrap_or(pattern.len()));
    let begin = format!("/{}", begin.unwrap_or_default());
    let path = path.trim_end_matches('/');
    begin.starts_with(path) || path.starts_with(&begin)
}

/// A new path with the query that it begins, as `rewrite` has it.
fn with_query(
    mut text: Text,
    query: Option<&str>,
    flags: &[(String, String)],
    meaning: &Meaning,
    captured: Captures<'_>,
) -> Result<Text, String> {
    let has = |names: &[&str]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
    // A `?` of a value is none of the template.
    for piece in &mut text.0 {
        if let Piece::Text(text) = piece {
            *text = text.replace('?', "%3F");
        }
    }
    let drops = has(&["QSD", "QSDISCARD"]);
    let (query, appends) = match query {
        Some(query) => match query.strip_suffix("%{QUERY_STRING}") {
            Some(rest) => (Some(rest.trim_end_matches('&')), true),
            None => (Some(query), has(&["QSA", "QSAPPEND"])),
        },
        None => (None, !drops),
    };
    let query = query.filter(|query| !query.is_empty());
    match (query, appends) {
        (None, true) => {}
        (None, false) => text.push("?"),
        (Some(query), _) => {
            text.push("?");
            let unknown = |name: String| format!("there is no equivalent of `{name}`");
            let mut inner = meaning.text(query, captured).map_err(unknown)?;
            if inner
                .0
                .iter()
                .any(|piece| matches!(piece, Piece::Text(text) if text.contains('?')))
            {
                return Err("its query has a `?`".to_owned());
            }
            let is_plain = |text: &Text| !text.0.iter().any(|one| matches!(one, Piece::Script(_)));
            let is_whole_plain = is_plain(&text) && is_plain(&inner);
            text.extend(std::mem::take(&mut inner));
            match (appends, is_whole_plain) {
                // Without it, a name that is set here is left out of the client's arguments.
                (true, true) => {
                    text.push("&");
                    text.0.push(Piece::Variable("query".to_owned()));
                }
                (true, false) => {}
                (false, _) => text.push("?"),
            }
        }
    }
    Ok(text)
}

/// The answer of `[R]`. `status` is its value.
fn redirected(
    status: Option<&str>,
    mut text: Text,
    query: Option<&str>,
    flags: &[(String, String)],
    meaning: &Meaning,
    captured: Captures<'_>,
) -> Result<Value, String> {
    let has = |names: &[&str]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
    let status = match status {
        Some("permanent") => 301,
        Some("seeother") => 303,
        Some(number) => number.parse().unwrap_or(302),
        None => 302,
    };
    let drops = has(&["QSD", "QSDISCARD"]) || query.is_some() && !has(&["QSA", "QSAPPEND"]);
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        text.push("?");
        let unknown = |name: String| format!("there is no equivalent of `{name}`");
        text.extend(meaning.text(query, captured).map_err(unknown)?);
    }
    if !drops {
        let joint = if query.is_some_and(|query| !query.is_empty()) {
            "&"
        } else {
            "?"
        };
        text.0.push(Piece::Script(format!(
            "vars.query ? '{joint}' + vars.query : ''"
        )));
    }
    let mut action = when("return", status);
    action.insert("location".to_owned(), text.template().into());
    Ok(action.into())
}
