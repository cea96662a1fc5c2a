//! Servers by name: a small name server changes its answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use support::Site;
use support::backend::Backend;
use tutti_testkit::names::{DnsAnswer, NameServer};
use tutti_testkit::wait_until;

fn config(name_server: SocketAddr, target: &str) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{"{target}": {{}}}}}}}},
             "settings": {{"resolver": {{"servers": "{name_server}", "min_ttl": 0.1, "timeout": 30}}}}}}"#
    )
}

fn site(name_server: &NameServer, target: &str) -> Site {
    let config = config(name_server.address, target);
    Site::new(1, move |_| config.clone())
}

/// Servers called `a` and `b` at the same port of 127.0.0.1 and 127.0.0.2.
fn pair() -> (Backend, Backend, u16) {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if let Ok(second) = TcpListener::bind(("127.0.0.2", port)) {
            let (a, b) = (
                Backend::echoing_on(first, "a"),
                Backend::echoing_on(second, "b"),
            );
            return (a, b, port);
        }
    }
}

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

#[test]
fn all_addresses_of_a_name_are_used_and_followed_when_they_change() {
    let (a, b, port) = pair();
    let names = NameServer::new(DnsAnswer::addresses([FIRST, SECOND]));
    let site = site(&names, &format!("app.internal:{port}"));
    // The first request waits for the resolution.
    for _ in 0..10 {
        assert_eq!(site.get("/x").status, 200);
    }
    assert_eq!((a.requests().len(), b.requests().len()), (5, 5));

    names.set_all_answers(DnsAnswer::addresses([SECOND]));
    wait_until("only the second address", || {
        site.server.upstreams()[0].1.len() == 1
    });
    let before = a.requests().len();
    for _ in 0..6 {
        assert_eq!(site.get("/x").text(), "b GET /x HTTP/1.1");
    }
    assert_eq!(a.requests().len(), before);
    let name = &site.server.upstreams()[0].1[0].name;
    assert_eq!(*name, format!("app.internal:{port} (127.0.0.2)"));

    // The good addresses are kept when the resolution fails.
    names.set_all_answers(DnsAnswer::Failure);
    site.log
        .wait_for("the name `app.internal` cannot be resolved");
    site.log.wait_for("its last addresses are kept");
    assert_eq!(site.get("/x").text(), "b GET /x HTTP/1.1");
    names.set_all_answers(DnsAnswer::Nothing);
    names.set_all_answers(DnsAnswer::addresses([FIRST]));
    site.log
        .wait_for("the name `app.internal` is resolved again");
    assert_eq!(site.get("/x").text(), "a GET /x HTTP/1.1");
}

#[test]
fn a_name_that_leads_nowhere_is_accepted_and_tried_again() {
    let (_a, _b, port) = pair();
    let names = NameServer::new(DnsAnswer::Nothing);
    let site = site(&names, &format!("late.internal:{port}"));
    assert_eq!(site.get("/").status, 502);
    site.log
        .wait_for("the name `late.internal` cannot be resolved: the name does not exist");
    site.log
        .wait_for("upstream \"u\" has no server: its names have no addresses");
    let status = site.server.upstreams().remove(0).1.remove(0);
    assert!(status.is_unresolved, "{status:?}");
    names.set_all_answers(DnsAnswer::addresses([FIRST]));
    wait_until("the name to lead somewhere", || site.get("/").status == 200);
}

#[test]
fn a_change_of_the_configuration_keeps_addresses_and_connections() {
    let (a, _b, port) = pair();
    let names = NameServer::new(DnsAnswer::addresses([FIRST]));
    let target = format!("app.internal:{port}");
    let site = site(&names, &target);
    assert_eq!(site.get("/").status, 200);
    names.set_all_answers(DnsAnswer::Failure);
    let changed = config(names.address, &target)
        .replace(r#"{"servers": {"app"#, r#"{"retries": 1, "servers": {"app"#);
    assert_ne!(changed, config(names.address, &target));
    site.configure(&changed).unwrap();
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 200);
    }
    assert_eq!(a.connections(), 1);
}

/// The request waited for a lookup that had been cancelled, and got 502.
#[test]
fn a_request_that_waits_for_a_name_outlasts_a_change() {
    let (_a, _b, port) = pair();
    let names = NameServer::new(DnsAnswer::addresses([FIRST]));
    names.hold();
    let config = |options: &str| {
        config(names.address, &format!("app.internal:{port}")).replace(
            r#"{"servers": {"app"#,
            &format!(r#"{{{options}"connect_timeout": 60, "servers": {{"app"#),
        )
    };
    let site = Site::new(1, |_| config(""));
    let mut client = site.connect();
    client.send("GET /x HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("the request to wait", || {
        site.server.upstreams()[0].1[0].is_unresolved && names.query_count("app.internal") > 0
    });
    site.configure(&config(r#""retries": 1, "#)).unwrap();
    wait_until("another lookup", || names.query_count("app.internal") > 2);
    names.release();
    assert_eq!(client.response("GET").text(), "a GET /x HTTP/1.1");
    assert_eq!(site.get("/x").status, 200);
}

#[test]
fn the_hosts_file_goes_first() {
    let (_a, _b, port) = pair();
    let names = NameServer::new(DnsAnswer::Nothing);
    let site = site(&names, &format!("localhost:{port}"));
    // There may also be `::1`, where nothing listens: another address is tried.
    for _ in 0..4 {
        assert_eq!(site.get("/").text(), "a GET / HTTP/1.1");
    }
}
