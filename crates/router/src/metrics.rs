//! Collects the metrics on a page: the server's, the pool's, and the router's own.
//!
//! Everything is computed on request; only the counters of requests are maintained all the time, by the server's threads. Counters begin at
//! 0 with the router: another one, after a crash or an upgrade, counts from there, as Prometheus expects of a restarted process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tutti_metrics::{Page, names};
use tutti_pool::AppMeasures;
use tutti_sys::clock::Jump;
use tutti_sys::proc;
use tutti_telemetry::SpanCounts;
use tutti_unprivileged::certificates::Certificates;

/// The seconds since 1970.
pub(super) fn unix_time() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// The number of changes of the time of day since the router was started.
#[derive(Default)]
pub(super) struct Jumps {
    forward: AtomicU64,
    back: AtomicU64,
}

impl Jumps {
    pub(super) fn note(&self, jump: Jump) {
        let counter = match jump {
            Jump::Forward(_) => &self.forward,
            Jump::Back(_) => &self.back,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts, by their label.
    pub(super) fn counts(&self) -> [(&'static str, u64); 2] {
        [
            ("forward", self.forward.load(Ordering::Relaxed)),
            ("back", self.back.load(Ordering::Relaxed)),
        ]
    }
}

/// The router's own facts.
pub(super) struct Facts<'a> {
    /// Configurations that were put in force.
    pub(super) generation: u64,
    /// When the last one was put in force, in seconds since 1970.
    pub(super) changed: f64,
    /// When the router was started.
    pub(super) started: f64,
    pub(super) problems: usize,
    pub(super) applications: Vec<(Arc<str>, AppMeasures)>,
    pub(super) certificates: &'a Certificates,
    pub(super) spans: Option<SpanCounts>,
    /// Lines of the daemon's log that this process has lost.
    pub(super) lost: u64,
    /// The number of changes of the time of day, by direction.
    pub(super) jumps: [(&'static str, u64); 2],
}

/// Adds the facts to a page.
pub(super) fn measure(facts: &Facts<'_>, page: &mut Page) {
    page.add(names::BUILD, &[env!("CARGO_PKG_VERSION")], 1_u64);
    page.add(names::CONFIGURATION_GENERATION, &[], facts.generation);
    page.add(names::CONFIGURATION_TIME, &[], facts.changed);
    page.add(names::CONFIGURATION_PROBLEMS, &[], facts.problems as u64);
    for (name, bundle) in facts.certificates.iter() {
        page.add(names::CERTIFICATE_EXPIRY, &[name], bundle.expiry() as f64);
    }
    for (name, measures) in &facts.applications {
        measure_application(name, measures, page);
    }
    if let Some(spans) = facts.spans {
        page.add(names::SPANS, &["exported"], spans.exported);
        page.add(names::SPANS, &["dropped"], spans.dropped);
    }
    page.add(names::LOG_LINES_LOST, &["daemon"], facts.lost);
    for (direction, count) in facts.jumps {
        page.add(names::CLOCK_JUMPS, &[direction], count);
    }
    measure_self(facts.started, page);
}

fn measure_application(name: &str, measures: &AppMeasures, page: &mut Page) {
    let status = &measures.status;
    let busy = status.running.saturating_sub(status.idle);
    for (state, count) in [
        ("busy", busy),
        ("idle", status.idle),
        ("starting", status.starting),
    ] {
        page.add(names::PROCESSES, &[name, state], count);
    }
    page.add(names::APPLICATION_ACTIVE, &[name], status.active);
    page.add(names::APPLICATION_QUEUED, &[name], status.queued);
    page.add(names::APPLICATION_RESTARTS, &[name], measures.restarts);
    page.add(
        names::APPLICATION_START_FAILURES,
        &[name],
        measures.failures,
    );
    page.add(names::QUEUE_WAIT, &[name], measures.waits.clone());
    for (end, count) in &measures.ends {
        page.add(names::PROCESS_ENDS, &[name, end.word()], *count);
    }
    page.add(names::APPLICATION_MEMORY, &[name], measures.memory());
}

/// The router process itself. What the system does not report is omitted.
fn measure_self(started: f64, page: &mut Page) {
    let own = std::process::id().cast_signed();
    page.add(names::ROUTER_START, &[], started);
    if let Ok(memory) = proc::rss(own) {
        page.add(names::ROUTER_MEMORY, &[], memory);
    }
    if let Ok(time) = proc::cpu_time(own) {
        page.add(names::ROUTER_PROCESSOR, &[], time.as_secs_f64());
    }
    if let Ok(count) = proc::open_files(own) {
        page.add(names::ROUTER_FILES, &[], count);
    }
    if let Some(limit) = proc::open_files_limit() {
        page.add(names::ROUTER_FILES_LIMIT, &[], limit);
    }
}
