//! The effect of a rule of rewriting: it refuses, redirects, hands on, or changes the path.

use serde_json::{Value, json};

use super::condition::{Captures, Meaning};
use super::proxy::guards;
use super::rule::{Rule, Rules, State};
use super::section::Mapping;
use super::site::Compiler;
use crate::output::when;
use crate::template::QUERY;
use crate::template::{Piece, Text};

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
        for (name, _) in &flags {
            if matches!(
                name.as_str(),
                "CO" | "COOKIE" | "T" | "TYPE" | "H" | "HANDLER"
            ) {
                let hint = "set it with `response_headers`, or `settings.http.static.mime_types`";
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
        let is_last = has(&["L", "LAST", "END"]);
        if target == "-" {
            return Ok(if is_last {
                Effect::Ends
            } else {
                Effect::Nothing
            });
        }
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let unknown = |name: String| format!("there is no equivalent of `{name}`");
        let mut text = state.meaning.text(path, captured).map_err(unknown)?;
        let is_relative = !is_absolute && !path.starts_with(['/', '%']);
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
        self.report_query(rule, query);
        for piece in &mut text.0 {
            if let Piece::Text(text) = piece {
                // Literal text of a `rewrite` is percent-decoded.
                *text = text.replace('%', "%25");
            }
        }
        let then = if is_last || has(&["PT", "PASSTHROUGH"]) {
            self.after(rules, &text, has(&["END"]))
        } else {
            let mut later = state.clone();
            later.is_rewritten = true;
            self.rest(rules, &later)
        };
        Ok(Effect::Act(
            json!({"rewrite": text.template(), "pass": then}),
        ))
    }

    /// Where a request goes with its new path: to a script without any rules again, else through all of them.
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

    fn report_query(&mut self, rule: &Rule, query: Option<&str>) {
        let kept = matches!(query, None | Some("" | "%{QUERY_STRING}"));
        if let (false, Some(query)) = (kept, query) {
            let problem =
                format!("the query `{query}` is not carried over: the client's query is kept");
            let hint = "write it into the `rewrite` (`docs/http/rewriting.md`), unless the application reads `REQUEST_URI`, as most do";
            self.findings
                .lost(&rule.directive.place, "RewriteRule", &problem, hint);
        }
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
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.contains(['$', '%']) {
            return Err("the server depends on the request".to_owned());
        }
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        self.report_query(rule, query);
        let text = state
            .meaning
            .text(path, captured)
            .map_err(|name| format!("there is no equivalent of `{name}`"))?;
        let mut action = self
            .server(
                &rules.spot.site,
                &rule.directive,
                &format!("{scheme}://{authority}"),
            )
            .ok_or_else(|| "the server is not valid".to_owned())?;
        action.insert("rewrite".to_owned(), text.template().into());
        // Access is checked with the original path.
        let site = &rules.spot.site;
        let mapping = Mapping {
            at: String::new(),
            folder: String::new(),
        };
        let part = format!("{}-proxy", site.name);
        let inner = self.guarded(
            &guards(site),
            &mapping,
            &part,
            vec![json!({"action": action})],
        );
        Ok(match inner.as_slice() {
            [only] if only.get("match").is_none() => {
                only.get("action").cloned().unwrap_or_default()
            }
            _ => json!({"pass": self.out.add_route(&part, inner)}),
        })
    }
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
        let query = format!("({QUERY})");
        text.0.push(Piece::Script(format!(
            "{query} !== '' ? '{joint}' + {query} : ''"
        )));
    }
    let mut action = when("return", status);
    action.insert("location".to_owned(), text.template().into());
    Ok(action.into())
}
