//! A `server` block on its way: what its locations share, and what is known where a directive stands.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::error_page::ErrorPage;
use super::location::Match;
use super::scope::{Header, RealIp, Scope};
use super::tree::Statement;
use super::variables::{Meaning, Unknown};
use crate::finding::{Findings, SourceLocation};
pub(super) use crate::output::ends;
use crate::output::{Output, when};
use crate::template::{Piece, Text, quoted, script_of, script_text};

/// Everything that is being made.
pub(super) struct Compiler<'f> {
    pub(super) out: Output,
    pub(super) findings: &'f mut Findings,
    pub(super) pools: Vec<crate::fpm::Pool>,
    /// The routes of what comes after a `rewrite`: by the place of the rest in memory, and where it ends.
    pub(super) rewritten: BTreeMap<(usize, usize, String), String>,
    /// Ways through locations that an `if` gives other settings or variables.
    pub(super) variants: usize,
    /// Rewrites within rewrites that are being carried over.
    pub(super) depth: usize,
    pub(super) formats: BTreeMap<String, super::log_format::LogFormat>,
    /// Variables of maps that the client's address decides.
    pub(super) address_maps: BTreeSet<String>,
    /// Groups of servers, by name.
    pub(super) groups: BTreeMap<String, Statement>,
    pub(super) sources: &'f dyn crate::sources::Sources,
    /// The folder of the configuration, in which relative paths of passwords and certificates begin.
    pub(super) folder: std::path::PathBuf,
    /// Zones of `limit_req` (true) and `limit_conn`, by name.
    pub(super) zones: BTreeMap<(bool, String), super::guards::Zone>,
    /// The types of the whole server, by ending.
    pub(super) types: BTreeMap<String, String>,
    /// The logs of `http` have a format that is another for each server.
    pub(super) has_logs_of_servers: bool,
    /// The options of listeners for responses.
    pub(super) responses: Map<String, Value>,
    /// The `map`s, by the names of their variables.
    pub(super) maps: BTreeMap<String, Statement>,
    /// The places of the server that is being made.
    pub(super) places: Vec<super::places::Place>,
    /// The directives of `http` that its servers inherit.
    pub(super) around: Vec<Statement>,
    /// The answers of the authentication request that is being made may be replaced by those of a page.
    pub(super) has_replaced_answers: bool,
    /// Routes of pages for errors to `@name`, by its destination.
    pub(super) page_routes: BTreeMap<String, String>,
    /// Stores of caches, and how long each keeps entries that are not requested.
    pub(super) stores: BTreeMap<String, f64>,
}

/// A place in a server: its settings, the meaning of its variables, and where requests go on from here.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Begins the names of its routes.
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) meaning: Meaning,
    /// The destination that finds a location for a path anew.
    pub(super) entry: String,
    /// The destination of internal redirects: the directives of the server that rewrite paths, and then [`entry`](Site::entry).
    pub(super) again: String,
    /// Destinations of `@name`.
    pub(super) named: BTreeMap<String, String>,
    /// The locations of the server, to which an index file may belong.
    pub(super) others: Vec<Match>,
    /// Those of them that answer with a status of their own below 300, which does not count behind `error_page`; and whether it is 204.
    pub(super) successful: Vec<(Match, bool)>,
    /// Statuses for which a location has a page with another status: it does not count in other locations.
    pub(super) paged: BTreeSet<u16>,
    /// The locations of the server in which a server or an application answers.
    pub(super) handlers: Vec<Match>,
    /// Destinations `@name` from which a server or an application answers.
    pub(super) named_handlers: BTreeSet<String>,
    /// Destinations `@name` at which files may answer.
    pub(super) named_files: BTreeSet<String>,
    /// The path that the location begins with.
    pub(super) prefix: Option<String>,
    /// The regular expression of the location.
    pub(super) expression: Option<String>,
    /// Its server has requests for other hosts than its first name.
    pub(super) has_other_hosts: bool,
    /// None of its directives gives requests another path.
    pub(super) keeps_path: bool,
    /// Its requests come from clients, who find no internal location.
    pub(super) is_from_outside: bool,
    /// It is compared whole.
    pub(super) is_exact: bool,
    /// Its links are signed, and that is checked before its content.
    pub(super) has_signed_link: bool,
    /// Its requests are the authentication requests of `auth_request`.
    pub(super) is_question: bool,
    /// Destinations that `auth_request` asks, by path.
    pub(super) questions: BTreeMap<String, String>,
    /// Upstreams of `mirror`, by path.
    pub(super) mirrors: BTreeMap<String, String>,
    /// The number of the way through its location, if an `if` gives it other settings or variables.
    pub(super) variant: usize,
    /// The route to which answers may lead.
    pub(super) by_answer: Option<String>,
    /// The proxies that its listeners trust for the client's address.
    pub(super) believed: Vec<RealIp>,
    /// The block of the server or location, as [`places::id`](super::places::id) has it.
    pub(super) place: usize,
    /// Variables that this place sets, and whether their values may come from another one.
    pub(super) kept: BTreeMap<String, bool>,
    /// The pages for errors of the whole server.
    pub(super) all_pages: Vec<ErrorPage>,
    /// `$status` for the pages of its server, empty outside of them; `None`: no page leads here.
    pub(super) status_of_page: Option<Result<String, Unknown>>,
}

impl Site {
    /// True if the client's address is the one that the source means here. A listener trusts the same proxies for all its requests, and a
    /// block of the source may trust others.
    pub(super) fn knows_address(&self) -> bool {
        self.believed
            .iter()
            .all(|believed| believed.is_like(&self.scope.real_ip))
    }

    /// True if a server or an application may answer requests for a path.
    pub(super) fn is_handled(&self, target: &str) -> bool {
        let path = target.split('?').next().unwrap_or_default();
        self.handlers.iter().any(|how| {
            let pattern = Pattern::parse(&how.pattern(), DECODED).ok();
            // The values of variables may be any.
            let is_known = !path.contains('$');
            pattern.filter(|_| is_known).is_none_or(|pattern| {
                let found = pattern.found_in(path.as_bytes());
                found.unwrap_or(true)
            })
        })
    }

    /// The location `@name` that answers in place of a status, with the status that it has itself.
    pub(super) fn named_page(&self, status: u16) -> Option<&String> {
        let mut pages = self.scope.error_pages.iter();
        let page = pages.find(|page| page.statuses.contains(&status))?;
        let is_own = page.answer == super::error_page::ResponseStatus::Own;
        is_own.then(|| self.named.get(&page.target)).flatten()
    }
}

impl Compiler<'_> {
    /// The path of a file that may be relative to the folder of the configuration.
    pub(super) fn beside(&self, path: &str) -> String {
        self.folder.join(path).display().to_string()
    }

    /// Reads a text at its place; one that cannot be read is reported, and gives `None`.
    pub(super) fn text(
        &mut self,
        site: &Site,
        source: &str,
        place: &SourceLocation,
        name: &str,
    ) -> Option<Text> {
        if let Some(variable) = self.set_elsewhere(site, source) {
            let problem = format!(
                "nginx keeps the value of `${variable}` when another location passes the request on; here it has only the value of this location"
            );
            let hint = "set it in this location, too";
            self.findings.lost(place, name, &problem, hint);
        }
        match early(site, source, name) {
            Ok(text) => Some(text),
            Err(Unknown(variable)) => {
                self.findings.lost(
                    place,
                    name,
                    &format!("there is no equivalent of the variable `${variable}`"),
                    "`docs/reference/variables.md` lists the available variables",
                );
                None
            }
        }
    }

    /// Adds fields of the answer to an action that ends the processing of a request.
    pub(super) fn finish(&mut self, site: &Site, mut action: Map<String, Value>) -> Value {
        let is_behind = action.contains_key("proxy")
            || action
                .get("pass")
                .and_then(Value::as_str)
                .is_some_and(|to| !to.starts_with("routes/"));
        let returned = action.get("return").and_then(Value::as_u64);
        let mut sometimes = Map::new();
        let mut always = match action.remove("response_headers_always") {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        for hidden in &site.scope.hidden {
            always.insert(hidden.clone(), Value::Null);
        }
        if site.scope.has_no_etag && action.contains_key("share") {
            always.insert("ETag".to_owned(), Value::Null);
        }
        let has_type = |fields: &Map<String, Value>| {
            let mut names = fields.keys();
            names.any(|name| name.eq_ignore_ascii_case("content-type"))
        };
        if let Some((charset, place)) = site.scope.charset_text.clone()
            && !has_type(&always)
            && let Some(charset) = self.text(site, &charset, &place, "charset")
        {
            let value = with_charset(&charset, &site.scope.types.charset_types());
            always.insert("Content-Type".to_owned(), value.into());
        }
        if let Some((expires, place)) = site.scope.expires.clone() {
            self.expires(site, &expires, &place, &mut sometimes);
        }
        for header in site.scope.headers.clone() {
            let is_replaced = ["Last-Modified", "ETag"]
                .iter()
                .any(|own| header.name.eq_ignore_ascii_case(own));
            if header.value.is_empty() && is_replaced {
                let is_gone = |known: &String| known.eq_ignore_ascii_case(&header.name);
                if !always.keys().any(is_gone) {
                    sometimes.insert(header.name, Value::Null);
                }
                continue;
            }
            // The guard passes it on.
            let is_of_guard = site.scope.guards.is_for_client(&header.name, &header.value);
            if header.value.is_empty() || is_of_guard {
                continue;
            }
            // The server alone determines where an answer ends.
            let own = [
                "Server",
                "Date",
                "Content-Length",
                "Transfer-Encoding",
                "Connection",
            ];
            if own.iter().any(|own| header.name.eq_ignore_ascii_case(own)) {
                let problem = format!("Tutti itself sets `{}`", header.name);
                let hint = "remove the directive";
                let (place, name) = (&header.place, "add_header");
                let is_visible = ["Server", "Date"]
                    .iter()
                    .any(|own| header.name.eq_ignore_ascii_case(own));
                match is_visible {
                    false => self.findings.note(place, name, &problem, hint),
                    true => self.findings.lost(place, name, &problem, hint),
                }
                continue;
            }
            let Some(text) = self.text(site, &header.value, &header.place, "add_header") else {
                continue;
            };
            // nginx adds these to few statuses.
            if !header.always && returned.is_some_and(|status| !takes_fields(status)) {
                continue;
            }
            let value = text.template();
            let mut hidden = site.scope.hidden.iter();
            let is_set = match hidden.any(|hidden| hidden.eq_ignore_ascii_case(&header.name)) {
                true => set_hidden(&mut always, &mut sometimes, &header, value),
                false => set(&mut always, &mut sometimes, (&header, is_behind), value),
            };
            if !is_set {
                let problem = format!(
                    "another `{}` is set, and they cannot be joined",
                    header.name
                );
                let hint = "set both in one value, by a script (`docs/http/scripting.md`)";
                self.findings
                    .lost(&header.place, "add_header", &problem, hint);
            }
        }
        if !sometimes.is_empty() {
            action.insert("response_headers".to_owned(), sometimes.into());
        }
        if !always.is_empty() {
            action.insert("response_headers_always".to_owned(), always.into());
        }
        Value::Object(action)
    }

    /// `expires`: the fields of a time, or of the times that a `map` has.
    fn expires(
        &mut self,
        site: &Site,
        expires: &str,
        place: &SourceLocation,
        fields: &mut Map<String, Value>,
    ) {
        let name = expires.strip_prefix('$').unwrap_or_default();
        let by_map = self.changed_map(&site.meaning, (name, "cache_control"), &cache_control);
        let value = match by_map {
            Some(text) => Some(text.template()),
            None => cache_control(expires).or_else(|| timed_cache_control(expires)),
        };
        match value {
            Some(value) if value.is_empty() => {}
            Some(value) => {
                fields.insert("Cache-Control".to_owned(), value.into());
                let fixed = |time: &str| Some(fixed_time(time).unwrap_or_default().to_owned());
                let times = self.changed_map(&site.meaning, (name, "expires"), &fixed);
                if let Some(times) = times {
                    fields.insert("Expires".to_owned(), times.template().into());
                    return;
                }
                if let Some(fixed) = fixed_time(expires) {
                    fields.insert("Expires".to_owned(), fixed.into());
                }
            }
            None => self.findings.lost(
                place,
                "expires",
                &format!("`{expires}` depends on the response or the file"),
                "write `Cache-Control` with `add_header`, or a `match` for each kind of file",
            ),
        }
    }

    /// Completes the action of an application or a server behind: its answer may lead on.
    pub(super) fn behind(&mut self, site: &Site, mut action: Map<String, Value>) -> Value {
        let ignores = site.scope.caches.values().any(|caching| {
            let mut ignored = caching.ignored.iter();
            ignored.any(|name| name.eq_ignore_ascii_case("x-accel-redirect"))
        });
        let leads_on = !site.is_question && !ignores;
        if ignores {
            // nginx passes such fields on to no client.
            let fields = action.entry("response_headers_always");
            if let Some(fields) = fields.or_insert_with(|| json!({})).as_object_mut() {
                fields.insert("X-Accel-Redirect".to_owned(), Value::Null);
            }
        }
        if let Some(route) = site.by_answer.as_ref().filter(|_| leads_on) {
            action.insert("internal".to_owned(), route.clone().into());
        }
        self.finish(site, action)
    }

    /// A refusal in place of what cannot be carried over. No page for errors stands in for it: its location may be open.
    pub(super) fn shut() -> Value {
        json!({"return": 403, "body": "403 Forbidden\n"})
    }

    /// An answer with a status and nothing else.
    pub(super) fn status(&mut self, site: &Site, status: u16) -> Value {
        self.finish(site, when("return", status))
    }

    /// Returns steps that refuse the clients which the rules of `allow` and `deny` do not let in.
    pub(super) fn access(&mut self, site: &Site) -> Vec<Value> {
        let mut steps = Vec::new();
        let mut allowed: Vec<String> = Vec::new();
        for rule in &site.scope.access {
            match (rule.allows, rule.pattern()) {
                (true, Some(pattern)) => allowed.push(format!("!{pattern}")),
                (true, None) => break,
                (false, pattern) => {
                    let is_all = pattern.is_none();
                    let patterns: Vec<String> =
                        pattern.into_iter().chain(allowed.iter().cloned()).collect();
                    let conditions = if patterns.is_empty() {
                        Map::new()
                    } else {
                        when("source", crate::output::one_or_many(patterns))
                    };
                    let action = self.status(site, 403);
                    steps.push(crate::output::step(conditions, action));
                    if is_all {
                        break;
                    }
                }
            }
        }
        steps
    }
}

/// The type of a response with a character set that depends on the request.
fn with_charset(charset: &Text, types: &[String]) -> String {
    let sent = script_of("response_header_content_type");
    let types: Vec<String> = types.iter().map(|one| quoted(one)).collect();
    let has = match types.iter().any(|one| one == "'*'") {
        true => "type".to_owned(),
        false => format!("[{}].includes(type.toLowerCase())", types.join(", ")),
    };
    let choose = format!("charset && {has} ? type + '; charset=' + charset : type");
    let script = format!(
        "((type, charset) => {choose})({sent}, {})",
        charset.expression()
    );
    Text(vec![Piece::Script(script)]).template()
}

/// False for the statuses below 400 of answers that have no fields of `add_header` without `always`: the server leaves those above to itself.
fn takes_fields(status: u64) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308 | 400..)
}

/// True for a field of which a response may have several, each with a part of the list: those of a server behind stay.
fn is_list(name: &str) -> bool {
    const LISTS: [&str; 5] = [
        "cache-control",
        "content-security-policy",
        "link",
        "permissions-policy",
        "vary",
    ];
    LISTS.contains(&name.to_ascii_lowercase().as_str())
}

/// The entry of a field, removed.
fn taken(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let key = fields.keys().find(|key| key.eq_ignore_ascii_case(name))?;
    let key = key.clone();
    fields.remove(&key)
}

/// Sets a field in responses of all statuses, or in those of successful ones; false if it cannot stand beside another one of its name.
fn set(
    always: &mut Map<String, Value>,
    sometimes: &mut Map<String, Value>,
    (header, is_behind): (&Header, bool),
    value: String,
) -> bool {
    let (target, other) = match header.always {
        true => (always, sometimes),
        false => (sometimes, always),
    };
    if header.name.eq_ignore_ascii_case("Set-Cookie") {
        let former = taken(target, &header.name);
        target.insert(header.name.clone(), another(former, value));
        return true;
    }
    let is_added = is_behind && is_list(&header.name);
    let former = taken(other, &header.name).or_else(|| taken(target, &header.name));
    // Without a server behind, there is no other field that would stay, but for the type.
    let can_stay = is_added || !is_behind && !header.name.eq_ignore_ascii_case("Content-Type");
    let joined = joined(former.as_ref(), value, (is_added, can_stay));
    let is_set = joined.is_some();
    if let Some(value) = joined.or(former) {
        target.insert(header.name.clone(), value);
    }
    is_set
}

/// The same for a field that is removed from all responses of a server behind.
fn set_hidden(
    always: &mut Map<String, Value>,
    sometimes: &mut Map<String, Value>,
    header: &Header,
    value: String,
) -> bool {
    let set = taken(always, &header.name).filter(|set| !set.is_null());
    let former = taken(sometimes, &header.name);
    let name = || header.name.clone();
    if let Some(set) = set {
        always.insert(name(), set);
        return false;
    }
    if header.always && former.is_none() {
        always.insert(name(), value.into());
        return true;
    }
    always.insert(name(), Value::Null);
    let (value, is_set) = match (former, header.always) {
        (Some(former), true) => (former, false),
        (former, _) => (another(former, value), true),
    };
    sometimes.insert(name(), value);
    is_set
}

/// The value of a field behind the former one. nginx sends several fields of one name; those that are lists mean the same joined
/// (RFC 9110 §5.3). `None`: they cannot be joined, and those of the server behind must not stay beside them.
fn joined(
    former: Option<&Value>,
    value: String,
    (is_added, can_stay): (bool, bool),
) -> Option<Value> {
    let added = former.and_then(|former| former.get("add"));
    let text = added.or(former).and_then(Value::as_str);
    // Two scripts are none.
    let is_script = |text: &str| text.starts_with('`');
    let joined = text
        .filter(|former| !is_script(former) && !is_script(&value))
        .map(|former| format!("{former}, {value}"));
    Some(match (joined, text) {
        (Some(joined), _) if added.is_some() => json!({"add": joined}),
        (Some(joined), _) => joined.into(),
        (None, Some(former)) if can_stay => json!({"add": [former, &value]}),
        (None, Some(_)) if added.is_none() => return None,
        _ if added.is_some() => another(former.cloned(), value),
        _ if is_added => json!({"add": value}),
        _ => value.into(),
    })
}

/// Adds a field to those of its name.
fn another(former: Option<Value>, value: String) -> Value {
    let former = former.as_ref().and_then(|former| former.get("add"));
    let former = former.map(crate::output::texts).unwrap_or_default();
    json!({"add": crate::output::one_or_many([former, vec![value]].concat())})
}

/// Values that variables have in nginx as long as a response has not begun.
const EARLY: [(&str, &str); 10] = [
    ("body_bytes_sent", "0"),
    ("bytes_sent", "0"),
    ("gzip_ratio", ""),
    ("limit_conn_status", ""),
    ("limit_req_status", ""),
    ("pipe", "."),
    ("request_completion", ""),
    ("request_time", "0.000"),
    ("slice_range", ""),
    ("status", "000"),
];

/// The same until a server is asked.
const BEFORE_PROXIES: [(&str, &str); 4] = [
    ("proxy_host", ""),
    ("proxy_port", ""),
    ("request_body", ""),
    ("request_body_file", ""),
];

/// Variables that have a value in logs alone, or another one than in nginx.
const OF_LOGS: [&str; 5] = [
    "binary_remote_addr",
    "msec",
    "nginx_version",
    "time_iso8601",
    "time_local",
];

/// Reads the text of a directive, which may stand before the response.
fn early(site: &Site, source: &str, name: &str) -> Result<Text, Unknown> {
    if !matches!(name, "access_log" | "error_page")
        && super::variables::names(source).any(|used| used == "status")
        && let Some(of_page) = site.status_of_page.clone()
    {
        let mut inner = site.clone();
        inner.status_of_page = None;
        let other = early(&inner, "$status", name)?.expression();
        let script = format!("{} || {other}", of_page?);
        inner
            .meaning
            .named
            .insert("status".to_owned(), script_text(script));
        return early(&inner, source, name);
    }
    let is_early = !matches!(name, "add_header" | "add_trailer" | "access_log");
    let is_before = matches!(name, "return" | "rewrite" | "if");
    let values = EARLY
        .iter()
        .filter(|(known, _)| is_early || *known != "status");
    let values = values.chain(BEFORE_PROXIES.iter().filter(|_| is_before));
    let used: Vec<&str> = super::variables::names(source).collect();
    if let Some(absent) = used.iter().find(|name| OF_LOGS.contains(name)) {
        return Err(Unknown((*absent).to_owned()));
    }
    let used: Vec<&(&str, &str)> = values.filter(|(known, _)| used.contains(known)).collect();
    if used.is_empty() {
        return site.meaning.text(source);
    }
    let mut meaning = site.meaning.clone();
    for (known, value) in used {
        let known = (*known).to_owned();
        meaning
            .named
            .entry(known)
            .or_insert_with(|| Text::literal(*value));
    }
    meaning.text(source)
}

/// The `Expires` of the words that name a fixed time.
fn fixed_time(expires: &str) -> Option<&'static str> {
    match expires {
        "epoch" => Some("Thu, 01 Jan 1970 00:00:01 GMT"),
        "max" => Some("Thu, 31 Dec 2037 23:55:55 GMT"),
        _ => None,
    }
}

/// The field of a time that is counted from the change of the file (`modified +24h`), or that is a time of day (`@15h30m`).
fn timed_cache_control(expires: &str) -> Option<String> {
    let seconds = match (expires.strip_prefix("modified "), expires.strip_prefix('@')) {
        (Some(time), _) => {
            let (sign, time) = match time.strip_prefix('-') {
                Some(time) => ("-", time),
                None => ("", time.trim_start_matches('+')),
            };
            let seconds = crate::units::seconds(time)? as u64;
            let changed = script_of("response_header_last_modified");
            // A response without the time of a change is new.
            format!("Math.floor(((Date.parse({changed}) || now) - now) / 1000) + {sign}{seconds}")
        }
        (_, Some(time)) => {
            let seconds = crate::units::seconds(time)? as u64;
            let today = "new Date(now).setHours(0, 0, 0, 0)";
            format!("Math.floor(({today} + {seconds}000 - now + 86400000) % 86400000 / 1000)")
        }
        _ => return None,
    };
    let choose = "seconds < 0 ? 'no-cache' : 'max-age=' + seconds";
    let script = format!(
        "((now) => ((seconds) => {choose})({seconds}))(Math.floor(Date.now() / 1000) * 1000)"
    );
    Some(Text(vec![Piece::Script(script)]).template())
}

/// The field that `expires` stands for, empty if there is none; `None` for a time that depends on the file.
fn cache_control(expires: &str) -> Option<String> {
    Some(match expires {
        "off" | "" => String::new(),
        "epoch" => "no-cache".to_owned(),
        "max" => "max-age=315360000".to_owned(),
        text if text.starts_with('-') => "no-cache".to_owned(),
        text => {
            let seconds = crate::units::seconds(text.trim_start_matches('+'))?;
            format!("max-age={}", seconds as u64)
        }
    })
}
