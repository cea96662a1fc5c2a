//! Servers by SRV records (RFC 2782): a small name server changes its answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use support::Site;
use support::backend::Backend;
use tutti_testkit::names::{DnsAnswer, NameServer, Record};
use tutti_testkit::{Load, LoadOptions, wait_until};
use tutti_upstream::ServerStatus;

const SERVICE: &str = "_http._tcp.app.internal";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server `app.internal` with the service `http`, at the name server.
fn config(names: &NameServer, upstream: &str, server: &str, timeout: f64) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{{upstream} "servers": {{"app.internal": {{"service": "http"{server}}}}}}}}},
             "settings": {{"resolver": {{"servers": "{}", "min_ttl": 0.1, "timeout": {timeout}}}}}}}"#,
        names.address
    )
}

fn site(names: &NameServer) -> Site {
    let config = config(names, "", "", 30.0);
    Site::new(1, move |_| config.clone())
}

/// A name server that knows the hosts of the targets, but no service yet.
fn names() -> NameServer {
    let names = NameServer::new(DnsAnswer::Nothing);
    for host in ["a", "b", "c"] {
        names.set_answer(&format!("{host}.internal"), DnsAnswer::addresses([HERE]));
    }
    names
}

/// A record that leads to the server of this name.
fn record(priority: u16, weight: u16, backend: &Backend, host: &str) -> Record {
    let port = backend.address.port();
    Record::service(priority, weight, port, &format!("{host}.internal."))
}

fn says(names: &NameServer, records: impl IntoIterator<Item = Record>) {
    names.set_answer(SERVICE, DnsAnswer::Records(records.into_iter().collect()));
}

fn status(site: &Site) -> Vec<ServerStatus> {
    site.server.upstreams().remove(0).1
}

/// Waits until these hosts are targets, with their weights.
fn wait_for(site: &Site, expected: &[(&str, u16)]) {
    wait_until(&format!("the targets {expected:?}"), || {
        let status = status(site);
        let targets = status.iter().filter_map(|server| server.target.as_ref());
        let found: Vec<(&str, u16)> = targets
            .map(|target| (target.host.as_deref().unwrap(), target.weight))
            .collect();
        let hosts = expected
            .iter()
            .map(|(host, weight)| (format!("{host}.internal"), *weight));
        found
            .iter()
            .map(|(host, weight)| ((*host).to_owned(), *weight))
            .eq(hosts)
    });
}

/// The number of responses of each server to this number of requests.
fn answers(site: &Site, count: usize) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for _ in 0..count {
        let reply = site.get("/x");
        assert_eq!(reply.status, 200, "{}", reply.text());
        let text = reply.text();
        let name = text.split(' ').next().unwrap().to_owned();
        *answers.entry(name).or_default() += 1;
    }
    answers
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

fn backends() -> [Backend; 3] {
    ["a", "b", "c"].map(Backend::echoing)
}

#[test]
fn targets_appear_change_and_vanish_and_their_weights_count() {
    let [a, b, c] = backends();
    let names = names();
    says(
        &names,
        [
            record(10, 3, &a, "a"),
            record(10, 1, &b, "b"),
            record(20, 9, &c, "c"),
        ],
    );
    let site = site(&names);
    // The first request waits for the service. The lower priority comes first, and one server gets three of four requests.
    assert_eq!(answers(&site, 8), counts(&[("a", 6), ("b", 2)]));
    let shown = status(&site).remove(1);
    assert_eq!(shown.name, format!("app.internal ({})", b.address));
    let target = shown.target.unwrap();
    assert_eq!((target.priority, target.weight), (10, 1));
    assert_eq!((shown.requests, shown.is_up), (2, true));

    says(&names, [record(10, 1, &a, "a"), record(10, 4, &b, "b")]);
    wait_for(&site, &[("a", 1), ("b", 4)]);
    assert_eq!(answers(&site, 10), counts(&[("a", 2), ("b", 8)]));
    assert_eq!(status(&site)[1].requests, 10, "it is the same server");

    says(&names, [record(0, 0, &c, "c")]);
    wait_for(&site, &[("c", 0)]);
    assert_eq!(answers(&site, 3), counts(&[("c", 3)]));
    says(&names, [record(0, 5, &a, "a"), record(0, 5, &c, "c")]);
    wait_for(&site, &[("a", 5), ("c", 5)]);
    assert_eq!(answers(&site, 4), counts(&[("a", 2), ("c", 2)]));
}

#[test]
fn a_higher_priority_serves_only_while_no_lower_one_can() {
    let [a, b, c] = backends();
    let names = names();
    let dead = tutti_testkit::refusing_address();
    names.set_answer("dead.internal", DnsAnswer::addresses([dead.ip()]));
    let refuses = Record::service(1, 1, dead.port(), "dead.internal");
    says(
        &names,
        [
            record(3, 1, &c, "c"),
            record(2, 1, &b, "b"),
            refuses.clone(),
        ],
    );
    let site = site(&names);
    // A request that the first server refuses goes to the second, never to the third.
    assert_eq!(answers(&site, 6), counts(&[("b", 6)]));
    says(
        &names,
        [record(3, 1, &c, "c"), refuses, record(0, 1, &a, "a")],
    );
    wait_for(&site, &[("a", 1), ("dead", 1), ("c", 1)]);
    assert_eq!(answers(&site, 6), counts(&[("a", 6)]));
}

#[test]
fn services_stand_beside_servers_and_their_options_hold_for_each_target() {
    let [a, b, c] = backends();
    let names = names();
    says(&names, [record(7, 50, &a, "a"), record(7, 150, &b, "b")]);
    let site = site(&names);
    let both = config(&names, "", r#", "weight": 2"#, 30.0).replace(
        r#""servers": {"app"#,
        &format!(r#""servers": {{"{}": {{}}, "app"#, c.address),
    );
    site.configure(&both).unwrap();
    wait_for(&site, &[("a", 50), ("b", 150)]);
    // On average a target gets its share by weight.
    assert_eq!(answers(&site, 10), counts(&[("a", 2), ("b", 6), ("c", 2)]));
    let backup = config(&names, "", r#", "backup": true"#, 30.0).replace(
        r#""servers": {"app"#,
        &format!(r#""servers": {{"{}": {{}}, "app"#, c.address),
    );
    site.configure(&backup).unwrap();
    wait_for(&site, &[("a", 50), ("b", 150)]);
    assert_eq!(answers(&site, 4), counts(&[("c", 4)]));
}

#[test]
fn a_failed_lookup_removes_no_target() {
    let [a, b, _] = backends();
    let names = names();
    says(&names, [record(0, 1, &a, "a"), record(0, 1, &b, "b")]);
    // Garbage is no answer, for which this is waited.
    let config = config(&names, "", "", 3.0);
    let site = Site::new(1, move |_| config.clone());
    assert_eq!(answers(&site, 4), counts(&[("a", 2), ("b", 2)]));
    let is_back = "the service `_http._tcp.app.internal` is resolved again";
    let answers_of_no_use = [
        DnsAnswer::Failure,
        DnsAnswer::Refused,
        DnsAnswer::Garbage,
        DnsAnswer::Nothing,
        DnsAnswer::Records(Vec::new()),
        // Nothing can listen on port 0, and addresses are not services.
        DnsAnswer::addresses([HERE]),
    ];
    for (count, answer) in answers_of_no_use.into_iter().enumerate() {
        names.set_answer(SERVICE, answer.clone());
        let lost = format!("the service `{SERVICE}` cannot be resolved: ");
        wait_until(&format!("{answer:?} to be noticed"), || {
            site.log.count(&lost) == count + 1
        });
        let log = site.log.all();
        let line = log.lines().rfind(|line| line.contains(&lost)).unwrap();
        assert!(line.contains("; its last addresses are kept"), "{line}");
        assert_eq!(answers(&site, 4), counts(&[("a", 2), ("b", 2)]));
        says(&names, [record(0, 1, &a, "a"), record(0, 1, &b, "b")]);
        wait_until("the service to be back", || {
            site.log.count(is_back) == count + 1
        });
    }
}

#[test]
fn a_service_that_leads_nowhere_is_accepted_and_tried_again() {
    let [a, ..] = backends();
    let names = names();
    let site = site(&names);
    assert_eq!(site.get("/").status, 502);
    site.log.wait_for(
        "the service `_http._tcp.app.internal` cannot be resolved: the name does not exist",
    );
    let nowhere = status(&site).remove(0);
    assert!(nowhere.is_unresolved, "{nowhere:?}");
    assert_eq!(nowhere.name, "app.internal");
    says(&names, [record(0, 1, &a, "a")]);
    wait_until("the service to lead somewhere", || {
        site.get("/").status == 200
    });
    // The target `.` is an answer: the service is no longer available.
    says(&names, [Record::service(0, 0, 0, ".")]);
    wait_until("the service to be gone", || site.get("/").status == 502);
    site.log.wait_for(
        "the service `_http._tcp.app.internal` is declared unavailable by the target `.`",
    );
    assert!(status(&site)[0].is_unresolved);
    says(&names, [record(0, 1, &a, "a")]);
    wait_until("the service to be there again", || {
        site.get("/").status == 200
    });
}

#[test]
fn a_target_without_addresses_takes_nothing_from_the_others() {
    let [a, b, c] = backends();
    let names = names();
    names.set_answer("c.internal", DnsAnswer::Failure);
    let all = || {
        [
            record(0, 1, &a, "a"),
            record(0, 1, &b, "b"),
            record(0, 1, &c, "c"),
        ]
    };
    says(&names, all());
    let site = site(&names);
    assert_eq!(answers(&site, 4), counts(&[("a", 2), ("b", 2)]));
    site.log.wait_for("the target `c.internal` of the service");
    assert!(site.log.has("it gets no requests"));
    names.set_answer("c.internal", DnsAnswer::addresses([HERE]));
    wait_for(&site, &[("a", 1), ("b", 1), ("c", 1)]);
    site.log
        .wait_for("no longer has an unresolved target `c.internal`");
    // An address that was good is kept as long as the service names it.
    names.set_answer("b.internal", DnsAnswer::Nothing);
    site.log
        .wait_for("the target `b.internal` of the service `_http._tcp.app.internal` cannot be resolved: the name does not exist; its last addresses are kept");
    assert_eq!(answers(&site, 3), counts(&[("a", 1), ("b", 1), ("c", 1)]));
    says(&names, [record(0, 1, &a, "a"), record(0, 1, &c, "c")]);
    wait_for(&site, &[("a", 1), ("c", 1)]);
}

#[test]
fn addresses_that_come_along_are_not_asked_for() {
    let [a, b, _] = backends();
    let names = names();
    let records = vec![record(0, 1, &a, "a"), record(0, 1, &b, "b")];
    let along = vec![
        ("a.internal".to_owned(), HERE),
        // The address of a host that is not a target.
        ("c.internal".to_owned(), IpAddr::from([192, 0, 2, 1])),
    ];
    names.set_answer(SERVICE, DnsAnswer::WithAddresses(records, along));
    let site = site(&names);
    assert_eq!(answers(&site, 4), counts(&[("a", 2), ("b", 2)]));
    assert_eq!(names.query_count("a.internal"), 0);
    assert!(names.query_count("b.internal") > 0);
    assert_eq!(names.query_count("c.internal"), 0);
}

/// Issue 15: a service with many targets has an answer that is too long for a datagram.
#[test]
fn an_answer_that_is_cut_is_asked_for_over_tcp() {
    let names = names();
    let hosts = |count: u8| {
        let record = |last| Record::service(0, 1, 80, &format!("target-{last:03}.internal."));
        (1..=count).map(record).collect::<Vec<_>>()
    };
    for last in 1..=100 {
        let address = IpAddr::from([127, 0, 0, last]);
        let name = format!("target-{last:03}.internal");
        names.set_answer(&name, DnsAnswer::addresses([address]));
    }
    says(&names, hosts(100));
    let site = site(&names);
    let wait_for = |count| {
        wait_until(&format!("{count} targets"), || {
            let status = status(&site);
            status.iter().filter(|one| one.target.is_some()).count() == count
        });
    };
    wait_for(100);
    assert!(names.tcp_query_count() > 0);
    // No TCP server answers: no target is removed.
    names.is_deaf_over_tcp(true);
    let lost = format!("the service `{SERVICE}` cannot be resolved");
    wait_until("that to be noticed", || site.log.count(&lost) == 1);
    wait_for(100);
    names.is_deaf_over_tcp(false);
    says(&names, hosts(90));
    wait_for(90);
    // A short answer fits into a datagram.
    says(&names, hosts(2));
    wait_for(2);
    let asked = (names.tcp_query_count(), names.query_count(SERVICE));
    wait_until("another look", || names.query_count(SERVICE) > asked.1);
    assert_eq!(names.tcp_query_count(), asked.0);
}

#[test]
fn a_change_of_the_configuration_keeps_targets_and_connections() {
    let [a, ..] = backends();
    let names = names();
    says(&names, [record(0, 1, &a, "a")]);
    let site = site(&names);
    assert_eq!(answers(&site, 1), counts(&[("a", 1)]));
    names.set_all_answers(DnsAnswer::Failure);
    site.configure(&config(&names, r#""retries": 1,"#, "", 30.0))
        .unwrap();
    assert_eq!(answers(&site, 3), counts(&[("a", 3)]));
    assert_eq!(a.connections(), 1);
}

#[test]
fn no_request_is_lost_while_targets_change() {
    let [a, b, c] = backends();
    let backends = [("a", &a), ("b", &b), ("c", &c)];
    let names = names();
    says(&names, [record(0, 1, &a, "a")]);
    let config = config(&names, "", "", 0.5);
    let site = Site::new(2, move |_| config.clone());
    assert_eq!(site.get("/").status, 200);
    let load = Load::start(&LoadOptions::get(site.address(), "/x", 4));
    let is_known = |host: &str, weight: u16| {
        let status = status(&site);
        status.iter().any(|server| {
            let target = server.target.as_ref();
            target.is_some_and(|target| {
                target.weight == weight
                    && target.host.as_deref() == Some(&format!("{host}.internal"))
            })
        })
    };
    for round in 1..=20_u16 {
        // Each round omits another target and changes all weights.
        let out = usize::from(round) % backends.len();
        let now: Vec<Record> = backends
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != out)
            .map(|(index, (host, backend))| {
                record((index as u16 + round) % 2, round, backend, host)
            })
            .collect();
        let first = backends[(out + 1) % backends.len()].0;
        if round % 10 == 0 {
            let before = names.query_count(SERVICE);
            names.set_answer(SERVICE, DnsAnswer::Garbage);
            wait_until("the garbage to be taken", || {
                names.query_count(SERVICE) > before
            });
        }
        says(&names, now);
        wait_until("the targets of this round", || is_known(first, round));
        assert!(load.wait_for_answers(20, tutti_testkit::PATIENCE));
    }
    let outcome = load.stop();
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");
    for (name, backend) in backends {
        assert!(backend.requests().len() > 20, "{name} had its share");
    }
}
