//! `proxy_cache`, `fastcgi_cache` and their kin.
//!
//! Must never: keep what the source does not keep. A condition that cannot be written leaves the cache out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::finding::{Findings, Place};
use crate::output::when;
use crate::template::Text;
use crate::units::seconds;

/// nginx's own: what nobody asks for in this time is removed.
const INACTIVE: f64 = 600.0;

/// The cache of a block, for one kind of server behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Caching {
    zone: Option<(String, Place)>,
    key: Option<(String, Place)>,
    valid: Vec<(Vec<String>, Place)>,
    /// Texts, one of which sends a request past the cache unless it is empty or `0`.
    past: Vec<(String, Place)>,
    stale: Vec<String>,
    is_background: bool,
    lock_timeout: Option<f64>,
    ignored: Vec<String>,
}

/// By the kind of server behind: `proxy`, `fastcgi`, `uwsgi`, `scgi`.
pub(super) type Caches = BTreeMap<String, Caching>;

/// The kind and the rest of a directive of a cache.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (kind, rest) = name.split_once('_')?;
    let is_kind = matches!(kind, "proxy" | "fastcgi" | "uwsgi" | "scgi");
    let is_ours = rest.starts_with("cache") || matches!(rest, "no_cache" | "ignore_headers");
    (is_kind && is_ours).then_some((kind, rest))
}

/// True for a directive that is read here.
pub(super) fn reads(name: &str) -> bool {
    parts(name).is_some_and(|(_, rest)| rest != "cache_purge")
}

/// Lists of directives are inherited whole or not at all.
pub(super) fn enter(caches: &mut Caches, statements: &[Statement]) {
    for statement in statements {
        let Some((kind, rest)) = parts(statement.name()) else {
            continue;
        };
        let caching = caches.entry(kind.to_owned()).or_default();
        match rest {
            "cache_valid" => caching.valid.clear(),
            "cache_bypass" | "no_cache" => caching.past.clear(),
            _ => {}
        }
    }
}

pub(super) fn take(caches: &mut Caches, statement: &Statement, findings: &mut Findings) {
    let Some((kind, rest)) = parts(statement.name()) else {
        return;
    };
    let caching = caches.entry(kind.to_owned()).or_default();
    let place = &statement.place;
    let first = statement.argument(0);
    let note = |problem: &str, hint: &str, findings: &mut Findings| {
        findings.note(place, statement.name(), problem, hint);
    };
    match rest {
        "cache" => caching.zone = (first != "off").then(|| (first.to_owned(), place.clone())),
        "cache_key" => caching.key = Some((first.to_owned(), place.clone())),
        "cache_valid" => {
            let valid = (statement.arguments().to_vec(), place.clone());
            caching.valid.push(valid);
        }
        "cache_bypass" | "no_cache" => {
            let words = statement.arguments().iter();
            caching
                .past
                .extend(words.map(|word| (word.clone(), place.clone())));
        }
        "cache_use_stale" => caching.stale = statement.arguments().to_vec(),
        "cache_background_update" => caching.is_background = first == "on",
        "cache_lock_timeout" => caching.lock_timeout = seconds(first),
        "ignore_headers" => caching.ignored = statement.arguments().to_vec(),
        "cache_methods" if statement.arguments().iter().any(|word| word == "POST") => findings
            .lost(
                place,
                statement.name(),
                "answers to GET and HEAD are kept, not those to POST",
                "let such requests be GETs",
            ),
        "cache_min_uses" => note(
            "an answer is kept from the first request on",
            "what is asked for least goes first",
            findings,
        ),
        _ => note(
            "nothing is written for it",
            "Tutti does this by itself (`docs/cache.md`)",
            findings,
        ),
    }
}

/// The stores that a configuration declares: how long each keeps what nobody asks for.
pub(super) fn stores(http: &[Statement], findings: &mut Findings) -> BTreeMap<String, f64> {
    let mut stores = BTreeMap::new();
    for statement in http
        .iter()
        .filter(|one| one.name().ends_with("_cache_path"))
    {
        let option = |name: &str| {
            let mut words = statement.arguments().iter();
            words.find_map(|word| word.strip_prefix(name))
        };
        let zone = option("keys_zone=").unwrap_or_default();
        let zone = zone.split(':').next().unwrap_or_default();
        let inactive = option("inactive=").and_then(seconds).unwrap_or(INACTIVE);
        stores.insert(zone.to_owned(), inactive);
        let size = option("max_size=").unwrap_or("any size");
        findings.note(
            &statement.place,
            statement.name(),
            &format!("answers are kept in memory, 64 MiB of them, not on a disk ({size})"),
            "`memory` of the store in `settings.cache` says how much",
        );
    }
    stores
}

impl Compiler<'_> {
    /// `cache` for an action that asks a server of this kind.
    pub(super) fn cache(&mut self, site: &Site, kind: &str) -> Option<Value> {
        let caching = site.scope.caches.get(kind)?.clone();
        let (zone, place) = caching.zone.clone()?;
        let directive = format!("{kind}_cache");
        let Some(inactive) = self.stores.get(&zone).copied() else {
            let problem = format!("its zone `{zone}` is not declared: nothing is kept here");
            let hint = "give the file with `…_cache_path`, too";
            self.findings.lost(&place, &directive, &problem, hint);
            return None;
        };
        let mut cache = when("store", zone.clone());
        if let Some((key, place)) = &caching.key {
            let key = self.kept_text(site, key, place)?;
            cache.insert("key".to_owned(), key.template().into());
        }
        self.past(site, &caching, &mut cache)?;
        self.lifetimes(&caching, &directive, &mut cache);
        let is_stale = |word: &str| caching.stale.iter().any(|stale| stale == word);
        if [
            "error", "timeout", "http_500", "http_502", "http_503", "http_504",
        ]
        .iter()
        .any(|word| is_stale(word))
        {
            cache.insert("stale_if_error".to_owned(), json!(inactive));
        }
        if is_stale("updating") && caching.is_background {
            cache.insert("stale_while_revalidate".to_owned(), json!(inactive));
        }
        if let Some(time) = caching.lock_timeout {
            cache.insert("lock_timeout".to_owned(), json!(time.min(3600.0)));
        }
        let stores = self
            .out
            .settings
            .entry("cache")
            .or_insert_with(|| json!({}));
        if let Some(stores) = stores.as_object_mut() {
            stores.entry(zone).or_insert_with(|| json!({}));
        }
        Some(cache.into())
    }

    /// A text that says what is kept apart; nothing is kept where it cannot be read.
    fn kept_text(&mut self, site: &Site, source: &str, place: &Place) -> Option<Text> {
        match site.meaning.text(source) {
            Ok(text) => Some(text),
            Err(unknown) => {
                let problem = format!(
                    "there is nothing like the variable `${}`: nothing is kept here",
                    unknown.0
                );
                let hint = "write `cache` with another `key` or `bypass` (`docs/cache.md`)";
                self.findings.lost(place, "cache", &problem, hint);
                None
            }
        }
    }

    /// Which requests go past the cache.
    fn past(
        &mut self,
        site: &Site,
        caching: &Caching,
        cache: &mut Map<String, Value>,
    ) -> Option<()> {
        let mut texts: Vec<Text> = Vec::new();
        let mut cookies: Vec<Value> = Vec::new();
        for (source, place) in &caching.past {
            let text = self.kept_text(site, source, place)?;
            if let Some(cookie) = source.strip_prefix("$cookie_") {
                cookies.push(cookie.into());
            }
            let is_never = matches!(text.as_literal().as_deref(), Some("" | "0"));
            if !is_never && !texts.contains(&text) {
                texts.push(text);
            }
        }
        if !cookies.is_empty() {
            cookies.dedup();
            cache.insert("cookies".to_owned(), cookies.into());
        }
        let all: Vec<String> = texts.iter().map(Text::expression).collect();
        if !all.is_empty() {
            let script = format!(
                "`${{[{}].some((value) => value !== '' && value !== '0') ? 1 : ''}}`",
                all.join(", ")
            );
            cache.insert("bypass".to_owned(), script.into());
        }
        Some(())
    }

    /// `valid`, from `…_cache_valid`.
    fn lifetimes(&mut self, caching: &Caching, directive: &str, cache: &mut Map<String, Value>) {
        let mut valid = Map::new();
        for (words, place) in &caching.valid {
            let Some((time, statuses)) = words.split_last() else {
                continue;
            };
            let Some(time) = seconds(time) else {
                let problem = format!("`{time}` is no time");
                let hint = "write seconds, or `60s`, `5m`";
                self.findings.lost(place, directive, &problem, hint);
                continue;
            };
            let usual = ["200", "301", "302"].map(str::to_owned);
            let statuses = if statuses.is_empty() {
                usual.as_slice()
            } else {
                statuses
            };
            for status in statuses {
                let entry = valid.entry(status.clone());
                entry.or_insert_with(|| json!(time.min(31_536_000.0)));
            }
        }
        let is_ignored = |field: &str| {
            let mut ignored = caching.ignored.iter();
            ignored.any(|ignored| ignored.eq_ignore_ascii_case(field))
        };
        if let Some((_, place)) = caching.zone.as_ref().filter(|_| !valid.is_empty()) {
            if is_ignored("Cache-Control") {
                cache.insert("force_valid".to_owned(), true.into());
            }
            if is_ignored("Set-Cookie") {
                let problem = "answers that set cookies are not kept, whatever is ignored";
                let hint = "`\"set_cookie\": \"strip\"` keeps them without their cookies";
                self.findings.note(place, directive, problem, hint);
            }
            if !cache.contains_key("cookies") {
                let problem = "answers without a lifetime of their own are not kept for requests with cookies, which nginx does";
                let hint = "`cookies` names those that matter; the others do not, then";
                self.findings.note(place, directive, problem, hint);
            }
            cache.insert("valid".to_owned(), valid.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_known_by_kind() {
        assert_eq!(
            parts("fastcgi_cache_valid"),
            Some(("fastcgi", "cache_valid"))
        );
        assert_eq!(parts("proxy_no_cache"), Some(("proxy", "no_cache")));
        assert_eq!(parts("open_file_cache"), None);
    }
}
