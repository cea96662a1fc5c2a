//! Reads the numbers of a page in Prometheus's text format, for programs that show the state of a running server.
//!
//! Reads what this server writes, and ignores what it does not understand. Rates and quantiles compare two pages; if
//! another process has started to count in between, there is no result, rather than a negative or a huge one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::families::names;

/// The values of one page, by family and labels.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    families: BTreeMap<String, Vec<(Labels, f64)>>,
}

type Labels = BTreeMap<String, String>;

impl Readings {
    /// Parses a page.
    pub fn of(text: &str) -> Readings {
        let mut families: BTreeMap<String, Vec<(Labels, f64)>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, labels, value)) = value_of(line) {
                families.entry(name).or_default().push((labels, value));
            }
        }
        Readings { families }
    }

    /// True if the page has no values.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Returns the sum of all values of a family with these labels.
    pub fn sum(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        let values = self.families.get(family).into_iter().flatten();
        let meant = values.filter(|(found, _)| has(found, labels));
        // An empty sum would be -0.
        meant.fold(0.0, |sum, (_, value)| sum + value)
    }

    /// Returns the different values of a family's label, in order.
    pub fn values_of<'r>(&'r self, family: &str, label: &str) -> BTreeSet<&'r str> {
        let values = self.families.get(family).into_iter().flatten();
        values
            .filter_map(|(labels, _)| labels.get(label).map(String::as_str))
            .collect()
    }

    /// Returns all values, each with its name in the text, `family{label="value"}`.
    pub fn all(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        let families = self.families.iter();
        families.flat_map(|(family, values)| {
            values.iter().map(move |(labels, value)| {
                let labels: Vec<String> = labels
                    .iter()
                    .map(|(name, value)| format!("{name}={value:?}"))
                    .collect();
                let name = match labels.is_empty() {
                    true => family.clone(),
                    false => format!("{family}{{{}}}", labels.join(",")),
                };
                (name, *value)
            })
        })
    }

    /// Returns the rate per second since `before`. `None` if no time has passed, or if another process counts now.
    pub fn rate(
        &self,
        before: &Readings,
        time: Duration,
        family: &str,
        labels: &[(&str, &str)],
    ) -> Option<f64> {
        let more = self.sum(family, labels) - before.sum(family, labels);
        let seconds = time.as_secs_f64();
        let is_one = seconds > 0.0 && more >= 0.0 && self.is_of_the_process_of(before);
        is_one.then(|| more / seconds)
    }

    /// Returns the quantile of the values that a histogram has counted since `before`. `None` if there are none, or if
    /// another process counts now.
    pub fn quantile(
        &self,
        before: &Readings,
        family: &str,
        labels: &[(&str, &str)],
        part: f64,
    ) -> Option<f64> {
        if !self.is_of_the_process_of(before) {
            return None;
        }
        let now = self.buckets(family, labels);
        let then = before.buckets(family, labels);
        let mut lower = (0.0, 0.0);
        let counted: Vec<(f64, f64)> = now
            .iter()
            .map(|(bound, count)| {
                let known = then.iter().find(|(other, _)| other == bound);
                (*bound, count - known.map_or(0.0, |(_, count)| *count))
            })
            .collect();
        let (_, all) = *counted.last()?;
        if all <= 0.0 {
            return None;
        }
        for (bound, count) in counted {
            if count >= all * part {
                if bound.is_infinite() || count <= lower.1 {
                    return Some(lower.0);
                }
                let inside = (all * part - lower.1) / (count - lower.1);
                return Some(lower.0 + (bound - lower.0) * inside);
            }
            lower = (bound, count);
        }
        None
    }

    /// Counters start anew with the process that handles requests.
    fn is_of_the_process_of(&self, before: &Readings) -> bool {
        let started = |readings: &Readings| {
            let start = readings.families.get(names::ROUTER_START.name)?;
            start.first().map(|(_, time)| *time)
        };
        started(self) == started(before)
    }

    /// Returns upper bounds with the counts below them, in order.
    fn buckets(&self, family: &str, labels: &[(&str, &str)]) -> Vec<(f64, f64)> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        let values = self.families.get(&format!("{family}_bucket"));
        for (found, value) in values
            .into_iter()
            .flatten()
            .filter(|(found, _)| has(found, labels))
        {
            let bound = found.get("le").and_then(|bound| number(bound));
            let Some(bound) = bound else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += value,
                None => buckets.push((bound, *value)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        buckets
    }
}

fn has(found: &Labels, labels: &[(&str, &str)]) -> bool {
    let mut labels = labels.iter();
    labels.all(|(name, value)| found.get(*name).is_some_and(|found| found == value))
}

/// Parses a line of Prometheus's text format as this server writes it: without a time stamp.
fn value_of(line: &str) -> Option<(String, Labels, f64)> {
    let (named, value) = line.rsplit_once(' ')?;
    let value = number(value)?;
    let Some((name, rest)) = named.split_once('{') else {
        return Some((named.to_owned(), Labels::new(), value));
    };
    let mut labels = Labels::new();
    let mut rest = rest;
    while let Some((label, after)) = rest.split_once("=\"") {
        let (text, end) = quoted(after)?;
        labels.insert(label.to_owned(), text);
        rest = after.get(end..)?.trim_start_matches(',');
    }
    Some((name.to_owned(), labels, value))
}

/// Returns the text up to the closing quote, and the position after it.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut plain = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((plain, place + 1)),
            '\\' => match characters.next()?.1 {
                'n' => plain.push('\n'),
                other => plain.push(other),
            },
            other => plain.push(other),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(start: u64, requests: u64) -> Readings {
        Readings::of(&format!(
            "tutti_router_start_timestamp_seconds {start}\ntutti_requests_total{{application=\"a\\\"}},b=\\n\"}} {requests}\n"
        ))
    }

    #[test]
    fn a_counter_of_another_process_gives_no_rate_whether_it_fell_or_rose() {
        let second = Duration::from_secs(1);
        let rate = |now: &Readings, before: &Readings| {
            now.rate(before, second, "tutti_requests_total", &[])
        };
        assert_eq!(rate(&page(1, 30), &page(1, 10)), Some(20.0));
        assert_eq!(rate(&page(1, 5), &page(1, 10)), None);
        assert_eq!(rate(&page(2, 5), &page(1, 10)), None);
        assert_eq!(rate(&page(2, 500), &page(1, 10)), None);
        assert_eq!(
            page(1, 30).rate(&page(1, 10), Duration::ZERO, "tutti_requests_total", &[]),
            None
        );
    }

    #[test]
    fn names_with_quotes_and_line_ends_are_read_as_they_were() {
        let labels = [("application", "a\"},b=\n")];
        let page = page(1, 7);
        assert_eq!(page.sum("tutti_requests_total", &labels), 7.0);
        let names = page.values_of("tutti_requests_total", "application");
        assert_eq!(Vec::from_iter(names), ["a\"},b=\n"]);
    }

    #[test]
    fn names_may_have_any_character() {
        let line = r#"a_total{application="a \"b\" c,d=\\e",class="2xx"} 7"#;
        let (name, labels, value) = value_of(line).unwrap();
        assert_eq!((name.as_str(), value), ("a_total", 7.0));
        assert_eq!(labels["application"], r#"a "b" c,d=\e"#);
        assert_eq!(labels["class"], "2xx");
        for line in ["", "a", "a{b=\"c} 1", "a{b=\"c\"} x", "{} 1"] {
            let _ = value_of(line);
        }
    }
}
