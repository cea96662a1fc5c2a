//! Every directive of the sources, and what becomes of it.
//!
//! The names are those of each source's own reference. Their fates are asked of the same lists that the importer asks, so that the pages
//! of the docs that are generated from this table (`docs/reference/import-*.md`) say what the importer does. Must never: call a directive
//! harmless that keeps clients out.

mod apache;
mod nginx;
mod others;
mod page;

pub use page::pages;

use crate::ForeignServer;
use crate::fate::{Fate, Outcome};

/// A directive at a place.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name; Apache's in lower case.
    pub name: &'static str,
    /// The block in which it stands, or the module that it is of; empty where that makes no difference.
    pub place: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason or the remedy.
    pub why: &'static str,
}

impl Row {
    fn new(name: &'static str, place: &'static str, fate: Fate) -> Self {
        Self {
            name,
            place,
            outcome: fate.outcome,
            why: fate.why,
        }
    }
}

/// Returns the table of a source.
pub fn rows(source: ForeignServer) -> Vec<Row> {
    match source {
        ForeignServer::Nginx => {
            let all = nginx::DIRECTIVES.iter();
            let each = all.flat_map(|(blocks, names)| {
                names.iter().flat_map(|name| {
                    blocks.split(' ').map(move |block| {
                        Row::new(name, block, crate::nginx::closing::fate(name, block))
                    })
                })
            });
            each.collect()
        }
        ForeignServer::Apache => {
            let all = apache::DIRECTIVES.iter();
            let each = all.flat_map(|(module, names)| {
                names
                    .iter()
                    .map(|name| Row::new(name, module, crate::apache::closing::fate(name)))
            });
            each.collect()
        }
        ForeignServer::Caddy => {
            let directives = others::CADDY_DIRECTIVES.iter();
            let options = others::CADDY_OPTIONS.iter();
            directives
                .map(|name| Row::new(name, "site", crate::caddy::fate(name)))
                .chain(options.map(|name| {
                    Row::new(name, "global option", crate::caddy::fate_of_option(name))
                }))
                .collect()
        }
        ForeignServer::Fpm => plain(&others::FPM, crate::fpm::fate),
        ForeignServer::Uwsgi => plain(&crate::uwsgi::options::OPTIONS, crate::uwsgi::fate),
        ForeignServer::Gunicorn => plain(&others::GUNICORN, crate::gunicorn::fate),
        ForeignServer::Puma => plain(&others::PUMA, crate::puma::fate),
    }
}

fn plain(names: &'static crate::words::Words, fate: fn(&str) -> Fate) -> Vec<Row> {
    names
        .iter()
        .map(|name| Row::new(name, "", fate(name)))
        .collect()
}
