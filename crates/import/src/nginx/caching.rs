//! The directives of caches, as blocks have them: `proxy_cache`, `fastcgi_cache` and their kin.

use std::collections::BTreeMap;

use super::tree::Statement;
use crate::finding::{Findings, SourceLocation};
use crate::units::seconds;

/// nginx's default: entries that are not requested for this time are removed.
const INACTIVE: f64 = 600.0;

/// The cache of a block, for one kind of server behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Caching {
    pub(super) zone: Option<(String, SourceLocation)>,
    pub(super) key: Option<(String, SourceLocation)>,
    pub(super) valid: Vec<(Vec<String>, SourceLocation)>,
    /// Texts, one of which sends a request past the cache unless it is empty or `0`.
    pub(super) past: Vec<(String, SourceLocation)>,
    pub(super) stale: Vec<String>,
    pub(super) is_background: bool,
    pub(super) lock_timeout: Option<f64>,
    pub(super) ignored: Vec<String>,
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
                "only responses to GET and HEAD are cached, not those to POST",
                "use GET for such requests",
            ),
        "cache_min_uses" => note(
            "a response is cached from the first request on",
            "the least used responses are evicted first",
            findings,
        ),
        _ => note(
            "it has no effect in Tutti",
            "Tutti does this automatically (`docs/http/cache.md`)",
            findings,
        ),
    }
}

/// Returns the stores that a configuration declares: how long each keeps entries that are not requested.
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
            &format!("responses are cached in 64 MiB of memory, not on disk ({size})"),
            "`memory` of the store in `settings.cache` sets the size",
        );
    }
    stores
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
