//! `limit_req` and `limit_conn`, as `limits`.

use serde_json::{Map, Value};

use super::site::{Compiler, Site};
use crate::finding::SourceLocation;
use crate::output::when;

/// nginx's own for requests beyond a bound.
const REFUSED: u16 = 503;

/// Bytes that nginx needs for a state on 64 bits (its documentation of `limit_req_zone`).
const BYTES_OF_STATE: u64 = 128;

/// Keys that are remembered unless `keys` says more.
const USUAL_KEYS: u64 = 65_536;

/// The longest wait within `burst`, which the configuration's check holds to.
const LONGEST_WAIT: f64 = 60.0;

/// Requests in a second of `10r/s` or `30r/m`.
fn per_second(rate: &str) -> Option<f64> {
    let (number, unit) = rate.split_once("r/")?;
    let number: f64 = number.parse().ok()?;
    match unit {
        "s" => Some(number),
        "m" => Some(number / 60.0),
        _ => None,
    }
}

impl Compiler<'_> {
    /// `limit` of a place.
    pub(super) fn bounds(&mut self, site: &Site) -> Map<String, Value> {
        let guards = &site.scope.guards;
        let mut names: Vec<Value> = Vec::new();
        for (zone, words, place) in guards.requests.clone() {
            let limit = self.rate(&zone, &words, &place);
            names.extend(self.limit(site, (true, zone), limit, &place));
        }
        for (zone, words, place) in guards.concurrent.clone() {
            let count = words.first().and_then(|word| word.parse::<u32>().ok());
            let limit = count
                .filter(|count| (1..=1_000_000).contains(count))
                .map(|count| when("concurrent", count));
            names.extend(self.limit(site, (false, zone), limit, &place));
        }
        match names.len() {
            0 => Map::new(),
            1 => when("limit", names.pop().unwrap_or_default()),
            _ => when("limit", names),
        }
    }

    /// Returns the rate of a zone, and the burst that a place allows.
    fn rate(
        &mut self,
        zone: &str,
        words: &[String],
        place: &SourceLocation,
    ) -> Option<Map<String, Value>> {
        let rate = self.zones.get(&(true, zone.to_owned()))?.rate.clone()?;
        let a_second = per_second(&rate)?;
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let mut burst: u32 = option("burst=")
            .and_then(|burst| burst.parse().ok())
            .unwrap_or(0);
        let delays = burst > 0 && !words.iter().any(|word| word == "nodelay");
        if option("delay=").is_some() {
            self.findings.note(
                place,
                "limit_req",
                "all requests within `burst` are delayed, including the first ones",
                "`delay` applies to all of them or none",
            );
        }
        let most = (LONGEST_WAIT * a_second) as u32;
        if delays && burst > most {
            let problem =
                format!("no request is delayed for more than a minute: `burst` is {most}");
            let hint = "remove `delay` to allow more at once";
            self.findings.note(place, "limit_req", &problem, hint);
            burst = most;
        }
        let mut limit = when("rate", rate);
        if burst > 0 {
            limit.insert("burst".to_owned(), burst.min(1_000_000).into());
        }
        if delays && burst > 0 {
            limit.insert("delay".to_owned(), true.into());
        }
        Some(limit)
    }

    /// Completes a bound with its zone's key, and gives its name.
    fn limit(
        &mut self,
        site: &Site,
        (is_rate, name): (bool, String),
        limit: Option<Map<String, Value>>,
        place: &SourceLocation,
    ) -> Option<Value> {
        let directive = if is_rate { "limit_req" } else { "limit_conn" };
        let zone = self.zones.get(&(is_rate, name.clone())).cloned();
        let (Some(mut limit), Some(zone)) = (limit, zone) else {
            let problem = format!("its zone `{name}` is not declared correctly");
            let hint = "also pass the file with the zone; requests are not limited here";
            self.findings.lost(place, directive, &problem, hint);
            return None;
        };
        // A client of IPv6 has a whole network of addresses, which Tutti counts as one without a key.
        if !matches!(zone.key.as_str(), "$binary_remote_addr" | "$remote_addr") {
            match site.meaning.early_text(&zone.key) {
                Ok(key) => drop(limit.insert("key".to_owned(), key.template().into())),
                Err(unknown) => {
                    let problem = format!(
                        "there is no equivalent of `${}` of its zone: requests are counted by address",
                        unknown.0
                    );
                    let hint = "set the `key` to count by (`docs/http/access.md`)";
                    self.findings.lost(place, directive, &problem, hint);
                }
            }
        }
        let guards = &site.scope.guards;
        let (status, is_dry_run) = match is_rate {
            true => (guards.request_status, guards.is_request_dry_run),
            false => (guards.concurrent_status, guards.is_concurrent_dry_run),
        };
        let status = status.filter(|status| (400..600).contains(status));
        limit.insert("status".to_owned(), status.unwrap_or(REFUSED).into());
        if is_dry_run {
            limit.insert("dry_run".to_owned(), true.into());
        }
        let keys = zone.size.map_or(0, |size| size / BYTES_OF_STATE);
        if is_rate && keys > USUAL_KEYS {
            limit.insert("keys".to_owned(), keys.min(16_777_216).into());
        }
        Some(self.named_limit(limit, &name, directive, place).into())
    }

    /// The name of an equal bound that is there already, or a new one.
    fn named_limit(
        &mut self,
        limit: Map<String, Value>,
        zone: &str,
        directive: &str,
        place: &SourceLocation,
    ) -> String {
        let limit = Value::Object(limit);
        // Zones with equal bounds are counted separately.
        let own = crate::output::slug(zone);
        let is_own = |name: &str| {
            let number = name
                .strip_prefix(&own)
                .and_then(|rest| rest.strip_prefix('-'));
            name == own || number.is_some_and(|number| number.parse::<usize>().is_ok())
        };
        let mut known = self.out.limits.iter();
        if let Some((name, _)) = known.find(|(name, known)| **known == limit && is_own(name)) {
            return name.clone();
        }
        let name = crate::output::unused(&self.out.limits, zone);
        if name != crate::output::slug(zone) {
            let problem = format!(
                "requests are counted separately from `{zone}` elsewhere, which has a different limit"
            );
            let hint = "for a shared count, use one of `limits`";
            self.findings.note(place, directive, &problem, hint);
        }
        self.out.limits.insert(name.clone(), limit);
        name
    }
}
