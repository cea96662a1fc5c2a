//! The pages of the docs that are made from the table.

use super::{Row, rows};
use crate::ForeignServer;
use crate::fate::Outcome;
use crate::finding::with_guides;

/// The sources of each page: path, title, and the sources with their titles.
type Page = (
    &'static str,
    &'static str,
    &'static [(ForeignServer, &'static str)],
);

const PAGES: &[Page] = &[
    (
        "docs/reference/import-nginx.md",
        "nginx's directives",
        &[(ForeignServer::Nginx, "")],
    ),
    (
        "docs/reference/import-apache.md",
        "Apache's directives",
        &[(ForeignServer::Apache, "")],
    ),
    (
        "docs/reference/import-others.md",
        "Directives of Caddy, PHP-FPM, uWSGI, gunicorn and Puma",
        &[
            (ForeignServer::Caddy, "Caddy"),
            (ForeignServer::Fpm, "PHP-FPM"),
            (ForeignServer::Uwsgi, "uWSGI"),
            (ForeignServer::Gunicorn, "gunicorn"),
            (ForeignServer::Puma, "Puma"),
        ],
    ),
];

/// Returns the path and the text of each page.
pub fn pages() -> Vec<(&'static str, String)> {
    PAGES.iter().map(|page| (page.0, text(page))).collect()
}

fn text((_, title, sources): &Page) -> String {
    let mut text = format!(
        "<!-- Made from the importer's own lists by `cargo xtask generate`. -->\n\n# {title}\n\nThis is what `tutti import` makes of each directive ([guide](../start/import.md)).\n\n"
    );
    for outcome in [
        Outcome::Carried,
        Outcome::Different,
        Outcome::Harmless,
        Outcome::Closed,
        Outcome::Lost,
    ] {
        let meaning = match outcome {
            Outcome::Carried => {
                "it is in the result; a value that cannot be carried over is reported"
            }
            Outcome::Different => "it is in the result, and the difference is reported",
            Outcome::Harmless => "nothing has to be written for it, for the reason in the table",
            Outcome::Closed => {
                "it is reported as not carried over, and requests that it applies to get 403, because it may keep clients out or hide source code"
            }
            Outcome::Lost => "it is reported as not carried over, with the remedy in the table",
        };
        text.push_str(&format!("- *{}*: {meaning}.\n", word(outcome)));
    }
    text.push_str("\nA directive that is not in the table is reported as not carried over; if it may be a check, requests that it applies to get 403.\n");
    for (source, title) in *sources {
        if !title.is_empty() {
            text.push_str(&format!("\n## {title}\n"));
        }
        text.push('\n');
        text.push_str(&table(&rows(*source)));
    }
    text
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Carried => "carried over",
        Outcome::Different => "with a difference",
        Outcome::Harmless => "harmless",
        Outcome::Closed => "closes",
        Outcome::Lost => "lost",
    }
}

/// A table with one row for each directive and fate; the places with the same fate are in one cell.
fn table(rows: &[Row]) -> String {
    let mut merged: Vec<(Row, Vec<&'static str>)> = Vec::new();
    for row in rows {
        let same = merged.iter_mut().find(|(known, _)| {
            known.name == row.name && known.outcome == row.outcome && known.why == row.why
        });
        match same {
            Some((_, places)) => places.push(row.place),
            None => merged.push((row.clone(), vec![row.place])),
        }
    }
    merged.sort_by_key(|(row, _)| (row.name, row.outcome));
    let has_places = rows.iter().any(|row| !row.place.is_empty());
    let mut text = match has_places {
        true => "| directive | in | outcome | |\n|---|---|---|---|\n".to_owned(),
        false => "| directive | outcome | |\n|---|---|---|\n".to_owned(),
    };
    for (row, places) in merged {
        let places: Vec<&str> = places
            .into_iter()
            .map(|place| {
                if place == "lif" {
                    "if in location"
                } else {
                    place
                }
            })
            .collect();
        let places = match has_places {
            true => format!(" {} |", places.join(", ")),
            false => String::new(),
        };
        let why = row.why.replace('|', "\\|");
        let why = with_guides(&why, |guide| {
            let name = guide.rsplit_once('/').map_or(guide, |(_, name)| name);
            match guide.strip_prefix("reference/") {
                Some(name) => format!("[{name}]({name}.md)"),
                None => format!("[{name}](../{guide}.md)"),
            }
        });
        text.push_str(&format!(
            "| `{}` |{places} {} | {why} |\n",
            row.name,
            word(row.outcome)
        ));
    }
    text
}
