//! Changes of responses of servers behind, and the choice among them: `proxy_redirect`, `proxy_cookie_…`,
//! `proxy_next_upstream`.

use serde_json::{Map, Value, json};
use tutti_config::pattern::Case;

use super::changes::Changes;
use super::scope::Scope;
use super::site::{Compiler, Site};
use super::tree::Statement;
use super::variables::{captures, groups};
use crate::finding::{Findings, SourceLocation};
use crate::template::{Piece, Text, quoted, script_text};
use crate::units::seconds;

/// The address of a server in redirects, and the path that a client knows in its place.
pub(super) type OwnAddress = (String, String);

impl Compiler<'_> {
    /// `rewrite_response` of a server; `None` where nothing is changed.
    pub(super) fn rewrite_response(
        &mut self,
        site: &Site,
        own: Option<OwnAddress>,
    ) -> Option<Value> {
        let changes = site.scope.changes.clone();
        let mut options = Map::new();
        let locations = self.locations_of_redirects(site, &changes, own);
        if !locations.is_empty() {
            options.insert("location".to_owned(), locations.into());
        }
        for (name, words, place) in &changes.cookies {
            if matches!(words.as_slice(), [word] if word == "off") {
                continue;
            }
            let entries = match name.as_str() {
                "proxy_cookie_flags" => flags_of(words).map(|entry| vec![entry]),
                "proxy_cookie_domain" => self
                    .change(site, words, place, name)
                    .map(|(from, to)| vec![("cookie_domain", from, to)]),
                _ => self.cookie_path(site, words, place),
            };
            let Some(entries) = entries else {
                let problem = "it has an expression, or a value that depends on the request";
                let hint = "write the values in `rewrite_response` (`docs/proxy/upstreams.md`)";
                self.findings.lost(place, name, problem, hint);
                continue;
            };
            for (option, from, to) in entries {
                let all = options.entry(option).or_insert_with(|| json!({}));
                if let Some(all) = all.as_object_mut() {
                    all.entry(from).or_insert(to);
                }
            }
        }
        (!options.is_empty()).then(|| options.into())
    }

    /// The beginnings of addresses in redirects, each with the one in its place.
    fn locations_of_redirects(
        &mut self,
        site: &Site,
        changes: &Changes,
        own: Option<OwnAddress>,
    ) -> Map<String, Value> {
        let mut locations = Map::new();
        if has_expression(changes) {
            return locations;
        }
        let usual = [(vec!["default".to_owned()], place_of_default())];
        let redirects = match changes.redirects.as_slice() {
            [] => usual.as_slice(),
            redirects => redirects,
        };
        for (words, place) in redirects {
            let change = match words.as_slice() {
                [word] if word == "off" => continue,
                [word] if word == "default" => match &own {
                    Some((from, to)) => Some((from.clone(), Value::from(to.clone()))),
                    None => continue,
                },
                words => self.change(site, words, place, "proxy_redirect"),
            };
            match change {
                // The first one that matches counts in nginx.
                Some((from, to)) => drop(locations.entry(from).or_insert(to)),
                None => {
                    let problem = "it has an expression, or an address that depends on the request";
                    let hint = "write the beginnings of addresses as `location` of `rewrite_response` (`docs/proxy/upstreams.md`)";
                    self.findings.lost(place, "proxy_redirect", problem, hint);
                }
            }
        }
        locations
    }

    /// The field of redirects that expressions change: the first rule that matches counts, as in nginx. `None` where there is no
    /// expression, or it cannot be written, which is reported.
    pub(super) fn redirects_by_expression(
        &mut self,
        site: &Site,
        own: Option<&OwnAddress>,
    ) -> Option<Text> {
        let changes = site.scope.changes.clone();
        if !has_expression(&changes) {
            return None;
        }
        let field = Text(vec![Piece::Variable("response_header_location".to_owned())]);
        let sent = field.expression();
        let mut script = sent.clone();
        for (words, place) in changes.redirects.iter().rev() {
            let changed = match (words.as_slice(), own) {
                ([word], _) if word == "off" => continue,
                ([_], Some((from, to))) => {
                    Some((starts_with(&sent, from), behind(&quoted(to), &sent, from)))
                }
                ([_], None) => continue,
                ([from, to], _) => self.changed(site, (from, to), (&field, place)),
                _ => None,
            };
            let Some((test, value)) = changed else {
                let problem = "it has an expression that cannot be written in JavaScript, or an address that depends on the request";
                let hint =
                    "write `Location` as a script in `response_headers` (`docs/http/scripting.md`)";
                self.findings.lost(place, "proxy_redirect", problem, hint);
                continue;
            };
            script = format!("{test} ? {value} : {script}");
        }
        Some(script_text(script))
    }

    /// A test of a field and its new value, for the words of a `proxy_redirect`.
    fn changed(
        &mut self,
        site: &Site,
        (from, to): (&str, &str),
        (field, place): (&Text, &SourceLocation),
    ) -> Option<(String, String)> {
        let sent = field.expression();
        let Some(pattern) = from.strip_prefix('~') else {
            let from = site.meaning.text(from).ok()?.as_literal()?;
            let to = self.text(site, to, place, "proxy_redirect")?;
            return Some((
                starts_with(&sent, &from),
                behind(&to.expression(), &sent, &from),
            ));
        };
        let (pattern, case) = match pattern.strip_prefix('*') {
            Some(pattern) => (pattern, Case::Ignore),
            None => (pattern, Case::Exact),
        };
        let captured = captures(pattern, case, field)?;
        let mut inner = site.clone();
        inner.meaning.groups.extend(groups(pattern, &captured));
        inner.meaning.captures = Some(captured.clone());
        let to = self.text(&inner, to, place, "proxy_redirect")?;
        Some((captured, to.expression()))
    }

    /// A text that is replaced, and the one in its place; `None` where the first is an expression or not constant.
    fn change(
        &mut self,
        site: &Site,
        words: &[String],
        place: &SourceLocation,
        name: &str,
    ) -> Option<(String, Value)> {
        let [from, to] = words else {
            return None;
        };
        let from = site.meaning.text(from).ok()?.as_literal()?;
        if from.starts_with('~') || from.is_empty() {
            return None;
        }
        let to = self.text(site, to, place, name)?;
        Some((from, to.template().into()))
    }

    /// `proxy_cookie_path`. Attributes behind the path are a usual way to set those of all cookies.
    fn cookie_path(
        &mut self,
        site: &Site,
        words: &[String],
        place: &SourceLocation,
    ) -> Option<Vec<(&'static str, String, Value)>> {
        let [from, to] = words else {
            return None;
        };
        let (path, attributes) = match to.split_once(';') {
            Some((path, attributes)) => (path.trim(), attributes),
            None => (to.as_str(), ""),
        };
        let (from, path) = match from.strip_prefix('~') {
            Some(pattern) => beginnings(pattern, path)?,
            None => (from.clone(), path.to_owned()),
        };
        let mut entries = Vec::new();
        if !attributes.is_empty() {
            let flags = attributes.split(';').map(|flag| flag.trim().to_owned());
            let flags: Vec<String> = flags.filter(|flag| !flag.is_empty()).collect();
            let words = [&["~".to_owned()], flags.as_slice()].concat();
            // Only cookies with another path would not get them.
            entries.push(flags_of(&words).filter(|_| from == "/")?);
        }
        if path != from {
            let words = [from, path];
            let (from, to) = self.change(site, &words, place, "proxy_cookie_path")?;
            entries.push(("cookie_path", from, to));
        }
        Some(entries)
    }
}

/// True if an expression says which redirects are changed.
fn has_expression(changes: &Changes) -> bool {
    let mut all = changes.redirects.iter();
    all.any(|(words, _)| words.first().is_some_and(|word| word.starts_with('~')))
}

fn starts_with(sent: &str, from: &str) -> String {
    format!("{sent}.startsWith({})", quoted(from))
}

/// A text and the part of a field that follows its beginning.
fn behind(to: &str, sent: &str, from: &str) -> String {
    format!("{to} + {sent}.slice({}.length)", quoted(from))
}

/// The default is written nowhere.
fn place_of_default() -> SourceLocation {
    SourceLocation {
        file: "".into(),
        line: 0,
    }
}

/// The beginning of a path, and the one in its place, for a regular expression and its replacement that keep all that follows; `None` for
/// other expressions.
fn beginnings(pattern: &str, replacement: &str) -> Option<(String, String)> {
    let rest = pattern.strip_suffix('$').unwrap_or(pattern);
    let rest = rest.strip_prefix('^')?;
    let begin = match rest {
        "(.+)" => "",
        rest => rest.strip_suffix("(.*)")?,
    };
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/_-".contains(one);
    let to = replacement.strip_suffix("$1")?;
    match begin {
        "" if to.is_empty() => Some(("/".to_owned(), "/".to_owned())),
        begin if begin.ends_with('/') && begin.chars().all(is_plain) => {
            Some((begin.to_owned(), to.to_owned()))
        }
        _ => None,
    }
}

/// True for a regular expression that all names of cookies match.
fn is_all(cookie: &str) -> bool {
    let pattern = cookie
        .strip_prefix('~')
        .map(|rest| rest.trim_start_matches('*'));
    pattern.is_some_and(|pattern| {
        let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
        matches!(pattern, "" | "." | ".*" | ".+" | "(.*)" | "(.+)")
    })
}

/// The attributes of a cookie for the flags of nginx; `None` for an expression, or a flag that has none.
fn flags_of(words: &[String]) -> Option<(&'static str, String, Value)> {
    let (cookie, flags) = words.split_first()?;
    let cookie = match cookie.as_str() {
        cookie if is_all(cookie) => "*",
        cookie if cookie.starts_with('~') || cookie.contains('$') => return None,
        cookie => cookie,
    };
    let mut attributes = Map::new();
    for flag in flags {
        let (name, value): (&str, Value) = match flag.to_ascii_lowercase().as_str() {
            "secure" => ("secure", true.into()),
            "nosecure" => ("secure", false.into()),
            "httponly" => ("http_only", true.into()),
            "nohttponly" => ("http_only", false.into()),
            "samesite=strict" => ("same_site", "strict".into()),
            "samesite=lax" => ("same_site", "lax".into()),
            "samesite=none" => ("same_site", "none".into()),
            "nosamesite" => ("same_site", "omit".into()),
            "off" => continue,
            _ => return None,
        };
        attributes.insert(name.to_owned(), value);
    }
    Some(("cookie_attributes", cookie.to_owned(), attributes.into()))
}

impl Scope {
    /// `…_next_upstream` and its kin: when another server is tried.
    pub(super) fn next_server(
        &mut self,
        rest: &str,
        statement: &Statement,
        findings: &mut Findings,
    ) {
        let first = statement.argument(0);
        match rest {
            "next_upstream" if first == "off" => {
                self.options.insert("retries".to_owned(), 0.into());
            }
            "next_upstream" => self.failures(statement, findings),
            "next_upstream_tries" => {
                let tries = first.parse::<u32>().ok();
                let is_off = self.options.get("retries") == Some(&json!(0));
                // Without a bound all servers are tried.
                if let Some(retries) = tries
                    .and_then(|tries| tries.checked_sub(1))
                    .filter(|_| !is_off)
                {
                    let retries = retries.min(1000);
                    self.options.insert("retries".to_owned(), retries.into());
                }
            }
            _ => {
                if let Some(seconds) = seconds(first) {
                    self.options
                        .insert("retry_timeout".to_owned(), seconds.into());
                }
            }
        }
    }

    /// The failures and statuses after which another server is tried.
    fn failures(&mut self, statement: &Statement, findings: &mut Findings) {
        let (mut failures, mut statuses) = (Vec::new(), Vec::new());
        let mut is_for_all = false;
        for word in statement.arguments() {
            let status = word.strip_prefix("http_").map(str::parse::<u16>);
            match (word.as_str(), status) {
                ("error" | "timeout", _) => failures.push(word.as_str()),
                ("invalid_header", _) => failures.push("malformed"),
                ("non_idempotent", _) => is_for_all = true,
                (_, Some(Ok(status @ 400..=599))) => statuses.push(status),
                _ => {
                    let problem = format!("`{word}` does not count as a failure in Tutti");
                    let hint =
                        "see `retry_failures` and `retry_statuses` in `docs/reference/options.md`";
                    findings.lost(&statement.place, statement.name(), &problem, hint);
                }
            }
        }
        if self.options.get("retries") == Some(&json!(0)) {
            self.options.remove("retries");
        }
        self.options
            .insert("retry_failures".to_owned(), failures.into());
        self.options.remove("retry_statuses");
        if !statuses.is_empty() {
            self.options
                .insert("retry_statuses".to_owned(), statuses.into());
        }
        self.options.remove("retry_methods");
        if is_for_all {
            let methods = [
                "GET", "HEAD", "OPTIONS", "QUERY", "PUT", "DELETE", "POST", "PATCH", "LOCK",
            ];
            self.options
                .insert("retry_methods".to_owned(), methods.to_vec().into());
        }
    }
}
