//! Builds the typed configuration from a document, and checks relations between several places: destinations must
//! exist, modules must be installed, numbers must be consistent.
//!
//! Second half of validation. It also runs if the first half found faults: it uses everything readable and silently
//! skips the rest, which has been reported already. Its result counts only if there are no faults at all.

mod acme;
mod applications;
mod builder;
mod cache;
mod compression;
mod dashboard;
mod delivery;
mod fleet_nodes;
mod forwarded;
mod gateways;
mod guards;
mod identity;
mod jobs;
mod kubernetes;
mod limit_stores;
mod listeners;
mod maps;
mod pass;
mod reader;
mod response_rewrite;
mod returned;
mod routes;
mod scope;
mod settings;
mod source;
mod stored;
mod streams;
mod telemetry;
mod tls;
mod upstreams;

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_document::{Diagnostic, Diagnostics, Document, Pointer};

use self::builder::Builder;
pub(crate) use self::maps::declare as declare_maps;
use self::pass::Sections;
pub(crate) use self::reader::patterns;
use self::reader::{Reader, each};
use self::settings::slow_log;
use crate::check::{self, Faults};
use crate::context::ValidationContext;
use crate::model::Config;
use crate::pattern::within_bounds;
use crate::table::RootOptions;
use crate::template::with_own_maps;

/// Checks a document and builds the typed configuration.
///
/// # Errors
/// Every fault, in the order of the document as far as it was sent.
pub fn validate(document: &Document, context: &ValidationContext) -> Result<Config, Diagnostics> {
    checking(|| checked(document, context))
}

/// Runs `work`, which checks one configuration: neither its regular expressions nor its maps are those of another one.
pub(crate) fn checking<T>(work: impl FnOnce() -> T) -> T {
    within_bounds(|| with_own_maps(work))
}

fn checked(document: &Document, context: &ValidationContext) -> Result<Config, Diagnostics> {
    let mut faults = Faults::new(document);
    let of_maps = declare_maps(document.root());
    check::check(document, &mut faults);
    // A fault that the table has found comes first.
    for (fault, node) in of_maps {
        if !faults.has(node) {
            faults.value(fault, node);
        }
    }
    let mut builder = Builder {
        root: document.root(),
        sections: Sections::of(document.root()),
        context,
        faults,
        certificate_files: Vec::new(),
        limits: BTreeMap::new(),
        streams: BTreeMap::new(),
        in_error_page: false,
        acme_certificates: Vec::new(),
        on_demand: None,
        scopes: Vec::new(),
    };
    let config = builder.config();
    let mut list = builder.faults.list;
    let more = builder.faults.more;
    if list.is_empty() {
        return Ok(config);
    }
    list.sort_by(|a, b| {
        let place = |fault: &Diagnostic| fault.location.map(|location| location.offset);
        (&a.file, place(a)).cmp(&(&b.file, place(b)))
    });
    if more > 0 {
        list.push(Diagnostic::more(more));
    }
    Err(Diagnostics(list))
}

impl Builder<'_> {
    fn config(&mut self) -> Config {
        let root = Reader::new(self.root, Pointer::root());
        let mut config = Config::default();
        if let Some((node, pointer)) = root.get(&RootOptions::limits) {
            self.named_limits(node, &pointer);
        }
        if let Some((node, pointer)) = root.get(&RootOptions::streams) {
            self.named_streams(node, &pointer);
        }
        if let Some((node, pointer)) = root.get(&RootOptions::listeners) {
            config.listeners = self.listeners(node, &pointer);
        }
        if let Some((node, pointer)) = root.get(&RootOptions::routes) {
            config.routes = self.routes(node, &pointer);
        }
        self.check_internal_routes();
        if let Some((node, pointer)) = root.get(&RootOptions::applications) {
            for member in node.members() {
                let application = self.application(member, pointer.child(&member.name));
                if let Some(application) = application {
                    config
                        .applications
                        .insert(member.name.to_string(), Arc::new(application));
                }
            }
        }
        if let Some((node, pointer)) = root.get(&RootOptions::upstreams) {
            config.upstreams = self.upstreams(node, &pointer);
        }
        if let Some((node, pointer)) = root.get(&RootOptions::spoolers) {
            config.spoolers = self.spoolers(node, &pointer);
        }
        if let Some((node, pointer)) = root.get(&RootOptions::schedules) {
            config.schedules = self.schedules(node, &pointer);
        }
        config.settings = self.settings(&root.inner_or_nothing(&RootOptions::settings));
        if let Some((node, pointer)) = root.get(&RootOptions::access_log) {
            let logs = each(node, &pointer).into_iter();
            config.access_logs = logs
                .filter_map(|(node, pointer)| self.access_log(node, pointer))
                .collect();
        }
        config.slow_log = root
            .inner(&RootOptions::slow_log)
            .and_then(|log| slow_log(&log));
        config.certificate_files = std::mem::take(&mut self.certificate_files);
        config.scopes = std::mem::take(&mut self.scopes);
        config.acme_certificates = std::mem::take(&mut self.acme_certificates);
        config
    }
}
