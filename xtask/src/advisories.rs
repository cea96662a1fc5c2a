//! Security advisories are in OSV format (<https://ossf.github.io/osv-schema/>), as far as scanners depend on it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::breach::Breach;

const FOLDER: &str = "docs/security";

/// Members that every advisory has, as text.
const TEXTS: [&str; 5] = ["schema_version", "id", "summary", "details", "published"];

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let mut examples = 0;
    for entry in std::fs::read_dir(root.join(FOLDER)).context("no advisories")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let place = format!("{FOLDER}/{name}");
        if name.ends_with(".md") && name != "README.md" {
            // A page about something else.
            continue;
        }
        let text = std::fs::read_to_string(root.join(&place)).context("an advisory")?;
        let found = match name.strip_suffix(".json") {
            Some(id) => faults(&text, Some(id)),
            None => {
                let example = text.split("```json\n").nth(1).unwrap_or_default();
                examples += 1;
                faults(example.split("```").next().unwrap_or_default(), None)
            }
        };
        breaches.extend(found.into_iter().map(|fault| Breach::new(&place, fault)));
    }
    if examples != 1 {
        breaches.push(Breach::new(
            FOLDER,
            "README.md has the example of an advisory",
        ));
    }
    Ok(breaches)
}

/// The faults of an advisory; `id` is the name of its file.
fn faults(text: &str, id: Option<&str>) -> Vec<String> {
    let advisory: Value = match serde_json::from_str(text) {
        Ok(advisory) => advisory,
        Err(error) => return vec![format!("is no JSON: {error}")],
    };
    let mut faults = Vec::new();
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    for name in TEXTS.iter().chain(&["modified"]) {
        if text(&advisory, name).is_empty() {
            faults.push(format!("`{name}` is missing"));
        }
    }
    if id.is_some_and(|id| text(&advisory, "id") != id) {
        faults.push("`id` is not the name of the file".to_owned());
    }
    for name in ["published", "modified"] {
        let time = text(&advisory, name);
        if time.len() != "2026-01-01T00:00:00Z".len() || !time.ends_with('Z') {
            faults.push(format!(
                "`{name}` is no time in UTC such as `2026-01-01T00:00:00Z`"
            ));
        }
    }
    let affected = advisory["affected"].as_array().cloned().unwrap_or_default();
    if affected.is_empty() {
        faults.push("`affected` is missing".to_owned());
    }
    let ranges = affected
        .iter()
        .flat_map(|one| one["ranges"].as_array().cloned());
    let ranges: Vec<Value> = ranges.flatten().collect();
    if ranges.is_empty() {
        faults.push("`ranges` is missing".to_owned());
    }
    for range in ranges {
        let events = range["events"].as_array().cloned().unwrap_or_default();
        let begins = events
            .first()
            .is_some_and(|event| event["introduced"].is_string());
        let ends = events
            .last()
            .is_some_and(|event| event["fixed"].is_string());
        if range["type"] != "SEMVER" || !begins || !ends {
            faults.push("a range is of type `SEMVER`, from `introduced` to `fixed`".to_owned());
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advisory_is_whole() {
        let good = r#"{"schema_version": "1.7.0", "id": "TUTTI-1-1", "summary": "a", "details": "b",
            "published": "2026-01-01T00:00:00Z", "modified": "2026-01-01T00:00:00Z",
            "affected": [{"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.0.0"}]}]}]}"#;
        assert_eq!(faults(good, Some("TUTTI-1-1")), Vec::<String>::new());
        assert_eq!(faults(good, Some("TUTTI-1-2")).len(), 1);
        for (from, to) in [
            ("SEMVER", "GIT"),
            ("{\"fixed\": \"1.0.0\"}", "{\"introduced\": \"1.0.0\"}"),
            ("\"summary\": \"a\", ", ""),
            ("00:00Z\", \"modified", "00:00+01:00\", \"modified"),
            ("\"affected\"", "\"effected\""),
            ("{", ""),
        ] {
            assert!(good.contains(from));
            assert!(
                !faults(&good.replacen(from, to, 1), None).is_empty(),
                "{to}"
            );
        }
    }
}
