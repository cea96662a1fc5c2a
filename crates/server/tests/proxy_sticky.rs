//! Clients that stay at a server of an upstream by a cookie.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::Site;
use support::backend::Backend;

fn config(servers: &[(&Backend, &str)], sticky: &str, more: &str) -> String {
    let servers: Vec<String> = servers
        .iter()
        .map(|(backend, options)| format!(r#""{}": {{{options}}}"#, backend.address))
        .collect();
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
             "routes": [{{"action": {{"pass": "upstreams/u"{more}}}}}],
             "upstreams": {{"u": {{"servers": {{{}}}, "sticky": {{{sticky}}}}}}},
             "settings": {{"cache": {{"pages": {{}}}}}}}}"#,
        servers.join(", ")
    )
}

fn site(servers: &[(&Backend, &str)], sticky: &str, more: &str) -> Site {
    let config = config(servers, sticky, more);
    Site::new(1, move |_| config.clone())
}

/// The value of the cookie that an answer sets.
fn value(cookie: Option<&str>) -> Option<String> {
    let (_, value) = cookie?.split(';').next()?.split_once('=')?;
    Some(value.to_owned())
}

/// Asks with this cookie; returns who answered, and the new cookie.
fn ask(site: &Site, cookie: &str) -> (String, Option<String>) {
    let answer = site.request("GET", "/", &format!("Cookie: x=y; at={cookie}; z=1\r\n"));
    assert_eq!(answer.status, 200);
    let who = answer.text().split(' ').next().unwrap().to_owned();
    (who, value(answer.field("Set-Cookie")))
}

#[test]
fn a_client_stays_where_its_cookie_leads() {
    let (a, b) = (Backend::echoing("a"), Backend::echoing("b"));
    let site = site(&[(&a, ""), (&b, "")], r#""cookie": "at""#, "");
    let first = site.get("/");
    let cookie = first.field("Set-Cookie").unwrap().to_owned();
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax"),
        "{cookie}"
    );
    assert!(!cookie.contains("127.0.0.1"), "{cookie}");
    let kept = value(Some(&cookie)).unwrap();
    let who = first.text().split(' ').next().unwrap().to_owned();
    for _ in 0..4 {
        assert_eq!(ask(&site, &kept), (who.clone(), None));
    }
    // A value that was not made here leads nowhere in particular, and is replaced.
    let mut wrong = vec![
        String::new(),
        "0".repeat(32),
        format!("{kept}0"),
        kept.to_uppercase(),
    ];
    wrong.extend([a.address.to_string(), b.address.to_string()]);
    for wrong in wrong.iter().filter(|wrong| **wrong != kept) {
        let (_, renewed) = ask(&site, wrong);
        assert!(renewed.is_some(), "{wrong}");
    }
    // Two cookies of one name are none.
    let both = format!("Cookie: at={kept}; at={kept}\r\n");
    assert!(
        site.request("GET", "/", &both)
            .field("Set-Cookie")
            .is_some()
    );
}

#[test]
fn a_server_that_is_gone_is_replaced_and_the_cookie_too() {
    let (a, b) = (Backend::echoing("a"), Backend::echoing("b"));
    let sticky = r#""cookie": "at""#;
    let site = site(&[(&a, ""), (&b, r#""backup": true"#)], sticky, "");
    let kept = value(site.get("/").field("Set-Cookie")).unwrap();
    assert_eq!(ask(&site, &kept), ("a".to_owned(), None));

    // It drains: it gets no requests any more.
    site.configure(&config(&[(&a, r#""weight": 0"#), (&b, "")], sticky, ""))
        .unwrap();
    let (who, renewed) = ask(&site, &kept);
    assert_eq!(who, "b");
    let renewed = renewed.unwrap();
    assert_eq!(ask(&site, &renewed), ("b".to_owned(), None));

    // It has left the group: its cookie leads to no server that is not there.
    site.configure(&config(&[(&b, "")], sticky, "")).unwrap();
    let (who, other) = ask(&site, &kept);
    assert_eq!((who.as_str(), other), ("b", Some(renewed.clone())));
    site.configure(&config(&[(&a, ""), (&b, "")], sticky, ""))
        .unwrap();
    assert_eq!(ask(&site, &kept), ("a".to_owned(), None), "the key stays");
    assert_eq!(ask(&site, &renewed), ("b".to_owned(), None));
}

#[test]
fn a_refused_body_sets_no_cookie() {
    let silent = Backend::new(|peer| {
        peer.request_head();
        peer.wait_closed();
    });
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{"{}": {{}}}}, "sticky": {{}}, "request_buffering": false}}}}}}"#,
        silent.address
    );
    let site = Site::new(1, move |_| config.clone());
    let mut client = site.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n");
    let answer = client.response("POST");
    assert_eq!((answer.status, answer.field("Set-Cookie")), (400, None));
}

#[test]
fn a_failed_server_s_clients_move_on() {
    let broken = Backend::new(|peer| {
        peer.request();
        peer.finish();
    });
    let good = Backend::echoing("good");
    let site = site(
        &[(&broken, ""), (&good, r#""backup": true"#)],
        r#""cookie": "at", "path": "/app", "secure": true, "same_site": "strict", "max_age": 60"#,
        "",
    );
    let answer = site.get("/");
    assert_eq!(answer.text(), "good GET / HTTP/1.1");
    assert_eq!(
        answer.head.matches("Set-Cookie").count(),
        1,
        "{}",
        answer.head
    );
    let cookie = answer.field("Set-Cookie").unwrap();
    let kept = value(Some(cookie)).unwrap();
    assert_eq!(
        cookie,
        format!("at={kept}; Path=/app; Max-Age=60; Secure; HttpOnly; SameSite=Strict")
    );
    assert_eq!(ask(&site, &kept), ("good".to_owned(), None));
}

#[test]
fn a_cached_answer_has_no_cookie_of_another_client() {
    let a = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\na",
            );
        }
    });
    let site = site(&[(&a, "")], r#""cookie": "at""#, r#", "cache": "pages""#);
    assert!(site.get("/").field("Set-Cookie").is_some());
    assert_eq!(site.get("/").field("Set-Cookie"), None);
    assert_eq!(a.requests().len(), 1);
}
