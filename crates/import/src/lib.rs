//! Configurations of other servers, as Tutti's own.
//!
//! Owns the formats of nginx, Apache, PHP-FPM, uWSGI, Caddy, gunicorn and Puma, and their counterparts in Tutti. Called by the program
//! `tutti-import`. It reads files through [`Sources`] and runs nothing: a configuration that is a program (gunicorn's, Puma's) is read for
//! its literals. It must never panic on any input, never leave out a directive without a [`Finding`] about it, and never open what the
//! source closes: where a rule of access control cannot be carried over, the place refuses all clients.

#![forbid(unsafe_code)]

mod acceptance;
mod apache;
mod caddy;
mod fate;
mod finding;
mod fpm;
mod gunicorn;
mod hidden_scripts;
mod ini;
mod literal;
mod mime;
mod nginx;
mod output;
mod program;
mod puma;
mod reference;
mod sources;
mod template;
mod units;
mod uwsgi;
mod words;

use std::path::{Path, PathBuf};

pub use fate::Outcome;
use finding::Findings;
pub use finding::{Finding, Importance, UnreadableSource};
pub use nginx::tree::{Statement, parse as parse_nginx};
pub use reference::{Row, pages as reference_pages, rows as reference_rows};
use serde_json::Value;
pub use sources::{Disk, LARGEST_FILE, Sources};
pub use tutti_ctl::import::ForeignServer;

/// A configuration of Tutti, and the findings about the parts of the source that are not in it.
#[derive(Debug)]
pub struct Imported {
    /// The configuration.
    pub configuration: Value,
    /// Remarks about the source, by file and line.
    pub findings: Vec<Finding>,
}

impl Imported {
    /// True if nothing was lost.
    pub fn is_whole(&self) -> bool {
        let lost = |finding: &Finding| finding.importance == Importance::Lost;
        !self.findings.iter().any(lost)
    }
}

/// Reads a configuration of another server. A server with all modules accepts the result.
pub fn import(
    source: ForeignServer,
    files: &[PathBuf],
    sources: &dyn Sources,
) -> Result<Imported, UnreadableSource> {
    let mut findings = Findings::default();
    let mut configuration = match source {
        ForeignServer::Nginx => nginx::import(files, sources, &mut findings)?,
        ForeignServer::Apache => apache::import(files, sources, &mut findings)?,
        ForeignServer::Fpm => fpm::import(files, sources, &mut findings)?,
        ForeignServer::Uwsgi => uwsgi::import(files, sources, &mut findings)?,
        ForeignServer::Caddy => caddy::import(files, sources, &mut findings)?,
        ForeignServer::Gunicorn => gunicorn::import(files, sources, &mut findings)?,
        ForeignServer::Puma => puma::import(files, sources, &mut findings)?,
    };
    let file = files.first().map_or(Path::new(""), PathBuf::as_path);
    acceptance::make_acceptable(&mut configuration, file, &mut findings);
    hidden_scripts::hide_scripts(&mut configuration, file, sources, &mut findings);
    Ok(Imported {
        configuration,
        findings: findings.into_list(),
    })
}
