//! The server's part of the metrics: connections, bytes, requests and upstreams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tutti_conn::clock::now_millis;
use tutti_conn::counters::StreamCounters;
use tutti_metrics::{Classes, Page, names};
use tutti_upstream::{CheckStatus, ServerGroup, ServerStatus};

use crate::server::Server;

impl Server {
    /// Adds the server's families to a page.
    pub fn measure(&self, page: &mut Page) {
        let totals = self.totals();
        page.add(names::CONNECTIONS, &["active"], totals.active);
        page.add(names::CONNECTIONS, &["idle"], totals.idle);
        page.add(names::CONNECTIONS_CLOSED, &[], totals.closed);
        page.add(names::RECEIVED, &[], totals.received);
        page.add(names::SENT, &[], totals.sent);
        let held = self.held();
        page.add(names::HELD, &["memory"], held.memory as u64);
        page.add(names::HELD, &["encoders"], held.encoders as u64);
        page.add(names::HELD, &["disk"], held.disk);
        self.measure_listeners(page);
        self.measure_guards(page);
        self.live().counts.measure(page);
        for (log, count) in self.lost_lines() {
            page.add(names::LOG_LINES_LOST, &[log], count);
        }
        for store in self.caches() {
            let name = store.name.as_str();
            for (result, count) in store.requests {
                page.add(names::CACHE_REQUESTS, &[name, result], count);
            }
            for (event, count) in store.responses {
                page.add(names::CACHE_RESPONSES, &[name, event], count);
            }
            page.add(names::CACHE_SIZE, &[name], store.memory);
            page.add(names::CACHE_ENTRIES, &[name], store.entries);
            if let Some(disk) = &store.disk {
                for (event, count) in disk.responses {
                    page.add(names::CACHE_DISK_RESPONSES, &[name, event], count);
                }
                page.add(names::CACHE_DISK_SIZE, &[name], disk.size);
                page.add(names::CACHE_DISK_ENTRIES, &[name], disk.entries);
            }
        }
        let live = self.live();
        for (name, upstreams) in live.upstreams_by_name() {
            let retries = upstreams.iter().map(|one| one.retries()).sum::<u64>();
            page.add(names::UPSTREAM_RETRIES, &[name], retries);
            // Mirrored requests go to named upstreams: there is one of each.
            for (fate, count) in upstreams.first().iter().flat_map(|one| one.copies()) {
                page.add(names::MIRRORED, &[name, fate], count);
            }
            let status = |one: &&Arc<ServerGroup>| one.status(now_millis());
            let servers: Vec<ServerStatus> = upstreams.iter().flat_map(status).collect();
            measure_servers(name, &servers, page);
        }
    }

    /// Lines that logs of requests have lost, by kind of log.
    pub fn lost_lines(&self) -> [(&'static str, u64); 2] {
        self.live().logs.lost().counts()
    }

    fn measure_guards(&self, page: &mut Page) {
        let live = self.live();
        for limit in live.guards.limits() {
            let effect = match limit.model.options.dry_run {
                true => "logged",
                false => "refused",
            };
            for (bound, count) in limit.beyond() {
                let labels = [limit.model.pointer.as_str(), bound.word(), effect];
                page.add(names::LIMITED, &labels, count);
            }
        }
        for (kind, count) in live.guards.not_let_in() {
            page.add(names::UNAUTHENTICATED, &[kind.word()], count);
        }
    }

    fn measure_listeners(&self, page: &mut Page) {
        let live = self.live();
        for entry in &live.listeners {
            let (name, counters) = (entry.listener.name(), &entry.listener.counters);
            let accepted = counters.accepted.load(Ordering::Relaxed);
            page.add(names::CONNECTIONS_ACCEPTED, &[name], accepted);
            let refused = counters.refused.load(Ordering::Relaxed);
            page.add(names::CONNECTIONS_REFUSED, &[name], refused);
            for (class, count) in Classes::sum(counters.requests.all()) {
                page.add(names::LISTENER_REQUESTS, &[name, class], count);
            }
            if entry.stream.is_some() {
                measure_streams(name, &counters.streams, page);
            }
            if entry.listener.receives_datagrams() {
                for (reason, count) in counters.streams.dropped() {
                    page.add(names::DATAGRAMS_DROPPED, &[name, reason.word()], count);
                }
            }
            if !entry.speaks_tls() {
                continue;
            }
            let succeeded = counters.handshakes.load(Ordering::Relaxed);
            page.add(names::HANDSHAKES, &[name], succeeded);
            for (reason, count) in counters.no_tls() {
                page.add(names::HANDSHAKES_FAILED, &[name, reason.word()], count);
            }
        }
    }
}

/// The connections of a listener that are not read as HTTP from their beginning.
fn measure_streams(listener: &str, counters: &StreamCounters, page: &mut Page) {
    for (outcome, count) in counters.outcomes() {
        page.add(names::STREAMS, &[listener, outcome.word()], count);
    }
    let open = counters.open.load(Ordering::Relaxed);
    page.add(names::STREAMS_OPEN, &[listener], open);
    let received = counters.received.load(Ordering::Relaxed);
    page.add(names::STREAM_BYTES, &[listener, "received"], received);
    let sent = counters.sent.load(Ordering::Relaxed);
    page.add(names::STREAM_BYTES, &[listener, "sent"], sent);
}

/// The servers of an upstream. Several addresses of one name are one server here, because they depend on the resolver, not on the
/// configuration.
fn measure_servers(upstream: &str, servers: &[ServerStatus], page: &mut Page) {
    let mut names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of_name = || servers.iter().filter(move |server| server.name == name);
        let labels = [upstream, name];
        let is_up = |server: &&ServerStatus| server.is_up && !server.is_unresolved;
        page.add(
            names::UPSTREAM_UP,
            &labels,
            of_name().filter(is_up).count() as u64,
        );
        let sum = |number: fn(&ServerStatus) -> u64| of_name().map(number).sum::<u64>();
        page.add(
            names::UPSTREAM_ACTIVE,
            &labels,
            sum(|one| one.active.into()),
        );
        page.add(names::UPSTREAM_REQUESTS, &labels, sum(|one| one.requests));
        page.add(names::UPSTREAM_FAILURES, &labels, sum(|one| one.failures));
        if of_name().any(|server| server.checks.is_some()) {
            let checks = |number: fn(&CheckStatus) -> u64| -> u64 {
                of_name()
                    .filter_map(|one| one.checks.as_ref())
                    .map(number)
                    .sum()
            };
            let [passed, failed] = [checks(|one| one.passed), checks(|one| one.failed)];
            page.add(names::UPSTREAM_CHECKS, &[upstream, name, "passed"], passed);
            page.add(names::UPSTREAM_CHECKS, &[upstream, name, "failed"], failed);
        }
    }
}
