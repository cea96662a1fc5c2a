//! Servers that variables of a `proxy` name: `allow` decides, before and after the name is resolved.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use support::Site;
use support::backend::Backend;
use tutti_testkit::names::{DnsAnswer, NameServer};
use tutti_testkit::{refusing_address, wait_until};

fn config(proxy: &str, allow: &str, name_server: SocketAddr) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
             "routes": [{{"action": {{"proxy": "{proxy}", "proxy_options": {{"allow": [{allow}], "connect_timeout": 30}}}}}}],
             "settings": {{"resolver": {{"servers": "{name_server}", "min_ttl": 0.1, "timeout": 30}}}}}}"#
    )
}

fn site(proxy: &str, allow: &str, name_server: SocketAddr) -> Site {
    let config = config(proxy, allow, name_server);
    Site::new(1, move |_| config.clone())
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[test]
fn a_variable_names_the_server_and_the_list_decides() {
    let (a, b) = (Backend::echoing("a"), Backend::echoing("b"));
    let allow = format!(r#""{}", "{}""#, a.address, b.address);
    let site = site("http://$arg_to", &allow, refusing_address());
    for _ in 0..3 {
        let to = a.address;
        assert_eq!(
            site.get(&format!("/x?to={to}")).text(),
            format!("a GET /x?to={to} HTTP/1.1")
        );
        let to = b.address;
        assert_eq!(
            site.get(&format!("/x?to={to}")).text(),
            format!("b GET /x?to={to} HTTP/1.1")
        );
    }
    assert_eq!((a.connections(), b.connections()), (1, 1), "they are kept");

    let other = Backend::echoing("never");
    for to in [
        other.address.to_string(),
        format!("127.0.0.2:{}", a.address.port()),
        format!("localhost:{}", a.address.port()),
        format!("[::1]:{}", a.address.port()),
    ] {
        assert_eq!(site.get(&format!("/x?to={to}")).status, 403, "{to}");
        site.log.wait_for(&format!(
            "403: proxy \"http://$arg_to\": `allow` does not permit the server `{to}`"
        ));
    }
    assert!(other.requests().is_empty());
    for (to, reason) in [
        ("", "the address of the server is empty"),
        (
            "unix:/run/x.sock",
            "a computed address cannot be a unix socket",
        ),
        ("a/b", "has a path after the address"),
        ("a:99999", "is not a port number"),
    ] {
        assert_eq!(site.get(&format!("/x?to={to}")).status, 502, "{to}");
        site.log.wait_for(reason);
    }
}

#[test]
fn a_name_is_resolved_once_and_only_to_permitted_addresses() {
    let backend = Backend::echoing("a");
    let port = backend.address.port();
    let names = NameServer::new(DnsAnswer::addresses([LOOPBACK]));
    let allow = format!(r#""*.internal:{port}", "127.0.0.1:{port}""#);
    let proxy = format!("http://${{arg_to}}.internal:{port}");
    let site = site(&proxy, &allow, names.address);
    for _ in 0..3 {
        let answer = site.get("/?to=app");
        assert_eq!(answer.text(), "a GET /?to=app HTTP/1.1");
    }
    assert_eq!(backend.connections(), 1);

    // Another address of this machine is not in the list: neither a name nor a later answer leads there.
    names.set_all_answers(DnsAnswer::addresses([IpAddr::V4(Ipv4Addr::new(
        127, 0, 0, 2,
    ))]));
    assert_eq!(site.get("/?to=rebound").status, 502);
    site.log.wait_for("the name `rebound.internal` cannot be resolved: `allow` does not permit its address 127.0.0.2:");
    site.log.wait_for(
        "the name `app.internal` cannot be resolved: `allow` does not permit its address 127.0.0.2:",
    );
    assert_eq!(site.get("/?to=app").text(), "a GET /?to=app HTTP/1.1");
    names.set_all_answers(DnsAnswer::addresses([LOOPBACK]));
    wait_until("the name to lead to a permitted address", || {
        site.get("/?to=rebound").status == 200
    });
}

#[test]
fn a_change_of_the_configuration_changes_the_list() {
    let backend = Backend::echoing("a");
    let to = backend.address;
    let name_server = refusing_address();
    let site = site("http://$arg_to", &format!(r#""{to}""#), name_server);
    assert_eq!(site.get(&format!("/?to={to}")).status, 200);
    site.configure(&config("http://$arg_to", r#""10.0.0.0/8""#, name_server))
        .unwrap();
    assert_eq!(site.get(&format!("/?to={to}")).status, 403);
    site.configure(&config(
        "http://$arg_to",
        &format!(r#""{to}""#),
        name_server,
    ))
    .unwrap();
    assert_eq!(site.get(&format!("/?to={to}")).status, 200);
}

/// The request waited for a lookup that had been cancelled, and got 502.
#[test]
fn a_request_that_waits_for_a_computed_name_outlasts_a_change() {
    let backend = Backend::echoing("a");
    let port = backend.address.port();
    let names = NameServer::new(DnsAnswer::addresses([LOOPBACK]));
    names.hold();
    let allow = format!(r#""*.internal:{port}", "127.0.0.1:{port}""#);
    let proxy = format!("http://${{arg_to}}.internal:{port}");
    let config = |options: &str| {
        let text = config(&proxy, &allow, names.address);
        text.replace(
            r#""connect_timeout": 30"#,
            &format!(r#""connect_timeout": 60{options}"#),
        )
    };
    let site = Site::new(1, |_| config(""));
    let mut client = site.connect();
    client.send("GET /?to=app HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("its lookup", || names.query_count("app.internal") > 0);
    site.configure(&config(r#", "retries": 1"#)).unwrap();
    let mut other = site.connect();
    other.send("GET /?to=other HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("another lookup", || names.query_count("other.internal") > 0);
    names.release();
    assert_eq!(client.response("GET").text(), "a GET /?to=app HTTP/1.1");
    assert_eq!(other.response("GET").status, 200);
}
