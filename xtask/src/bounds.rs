//! The table of bounds in the threat model: each row names what bounds a number, its metric and its test, and all of these exist.
//!
//! `documents` looks for the constants and tests; this looks for options and metrics, and for rows in which one is missing.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;

/// The page with the table.
const PAGE: &str = "docs/security/threat-model.md";
/// The page that has a section for each object, with a row for each of its options.
const OPTIONS: &str = "docs/reference/options.md";
/// The page with a row for each metric.
const METRICS: &str = "docs/operate/metrics.md";
/// A bound that is neither an option nor a constant.
const OTHER_BOUNDS: &[&str] = &["the same", "the requests under way", "the configuration:"];

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let read = |name: &str| {
        std::fs::read_to_string(root.join(name)).with_context(|| format!("{name} cannot be read"))
    };
    let page = read(PAGE)?;
    let options = options(&read(OPTIONS)?);
    let metrics = read(METRICS)?;
    let metrics = first_names(&metrics);
    let mut breaches = Vec::new();
    let mut rows = 0;
    for (number, line) in page.lines().enumerate() {
        let mut breach = |message: String| {
            breaches.push(Breach::new(format!("{PAGE}:{}", number + 1), message));
        };
        for option in options_named(line) {
            if !options.contains(&option) {
                let (name, section) = option;
                breach(format!("`{section}` has no option `{name}`"));
            }
        }
        let Some([what, bound, metric, test]) = row(line) else {
            continue;
        };
        rows += 1;
        for name in quoted(metric) {
            if !metrics.contains(name) {
                breach(format!("there is no metric `{name}`"));
            }
        }
        let is_bound = bound.contains('`') || OTHER_BOUNDS.iter().any(|one| bound.starts_with(one));
        if !is_bound {
            breach(format!("{what} has no bound"));
        }
        if !test.contains('`') {
            breach(format!("the bound of {what} has no test"));
        }
        if !metric.contains('`') && metric != "–" {
            breach(format!("{what} has neither a metric nor a –"));
        }
    }
    if rows == 0 {
        breaches.push(Breach::new(PAGE, "it has no table of bounds"));
    }
    Ok(breaches)
}

/// The cells of a row of a table of bounds; those of other tables have another number, and heads and rules name nothing.
fn row(line: &str) -> Option<[&str; 4]> {
    let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let cells: Vec<&str> = cells.split(" | ").collect();
    let cells: [&str; 4] = cells.try_into().ok()?;
    (cells[0] != "what grows").then_some(cells)
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The options that a line links to: name and section.
fn options_named(line: &str) -> Vec<(String, String)> {
    let links = line.match_indices("`](../reference/options.md#");
    links
        .filter_map(|(offset, link)| {
            let name = line.get(..offset)?.rsplit('`').next()?;
            let section = line.get(offset + link.len()..)?.split(')').next()?;
            Some((name.to_owned(), section.to_owned()))
        })
        .collect()
}

/// All options: name and section, as links have it.
fn options(reference: &str) -> BTreeSet<(String, String)> {
    let mut section = String::new();
    let mut found = BTreeSet::new();
    for line in reference.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.replace(' ', "-");
        } else if let Some(name) = first_name(line) {
            found.insert((name.to_owned(), section.clone()));
        }
    }
    found
}

/// The names at the beginning of the rows of all tables.
fn first_names(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(first_name).collect()
}

fn first_name(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split('`').next()
}
