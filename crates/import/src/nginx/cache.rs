//! `proxy_cache`, `fastcgi_cache` and their kin.
//!
//! Must never: keep answers that the source does not keep. A condition that cannot be written leaves the cache out.

use serde_json::{Map, Value, json};

use super::caching::Caching;
use super::site::{Compiler, Site};
use crate::finding::SourceLocation;
use crate::output::when;
use crate::template::Text;
use crate::units::seconds;

/// The bounds of `slice`, the second one being the default of `max_object`.
const LEAST_SLICE: u64 = 1024;
const LARGEST_SLICE: u64 = 1 << 20;

impl Compiler<'_> {
    /// `cache` for an action that asks a server of this kind.
    pub(super) fn cache(&mut self, site: &Site, kind: &str) -> Option<Value> {
        let caching = site.scope.caches.get(kind)?.clone();
        let (zone, place) = caching.zone.clone()?;
        let directive = format!("{kind}_cache");
        let Some(inactive) = self.stores.get(&zone).copied() else {
            let problem =
                format!("its zone `{zone}` is not declared: responses are not cached here");
            let hint = "also pass the file with `…_cache_path`";
            self.findings.lost(&place, &directive, &problem, hint);
            return None;
        };
        let mut cache = when("store", zone.clone());
        if let Some((key, place)) = &caching.key {
            // The server adds the range of a part itself.
            let key = key
                .replace("$slice_range", "")
                .replace("${slice_range}", "");
            let key = self.kept_text(site, &key, place)?;
            cache.insert("key".to_owned(), key.template().into());
        }
        if let Some(slice) = site.scope.slice {
            cache.insert(
                "slice".to_owned(),
                slice.clamp(LEAST_SLICE, LARGEST_SLICE).into(),
            );
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

    /// Reads the text of a cache's key; without it nothing is cached.
    fn kept_text(&mut self, site: &Site, source: &str, place: &SourceLocation) -> Option<Text> {
        match site.meaning.early_text(source) {
            Ok(text) => Some(text),
            Err(unknown) => {
                let problem = format!(
                    "there is no equivalent of the variable `${}`: responses are not cached here",
                    unknown.0
                );
                let hint = "write `cache` with another `key` or `bypass` (`docs/http/cache.md`)";
                self.findings.lost(place, "cache", &problem, hint);
                None
            }
        }
    }

    /// The requests that bypass the cache.
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
                let problem = format!("`{time}` is not a time");
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
                let problem = "responses that set cookies are never cached";
                let hint = "`\"set_cookie\": \"strip\"` caches them without their cookies";
                self.findings.note(place, directive, problem, hint);
            }
            if !cache.contains_key("cookies") {
                let problem = "unlike in nginx, responses without a lifetime are not cached for requests with cookies";
                let hint = "list the relevant ones in `cookies`; all others are then ignored";
                self.findings.note(place, directive, problem, hint);
            }
            cache.insert("valid".to_owned(), valid.into());
        }
    }
}
