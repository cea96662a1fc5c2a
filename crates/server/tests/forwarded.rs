//! Addresses of clients from proxies in front: `forwarded` of a listener, and the older `client_ip`.

mod support;

use support::Site;
use tutti_testkit::client::Reply;

/// A redirect that names the client's address and port, and under `/s/` whether the scheme is HTTPS.
fn site(listener: &str) -> Site {
    let listener = listener.to_owned();
    Site::new(1, move |_| configuration(&listener))
}

fn configuration(listener: &str) -> String {
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"{listener}}}}},
            "routes": [{{"match": {{"scheme": "https", "uri": "/s/"}}, "action": {{"return": 204}}}},
                       {{"match": {{"source": "192.0.2.0/24"}}, "action": {{"return": 403}}}},
                       {{"action": {{"return": 302, "location": "/$remote_addr"}}}}]}}"#
    )
}

fn client(response: &Reply) -> &str {
    response.field("Location").unwrap_or("none")
}

#[test]
fn only_a_trusted_peer_is_believed() {
    let fields = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n";
    let names = r#""client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto""#;
    let trusting = site(&format!(
        r#", "forwarded": {{{names}, "source": "127.0.0.0/8"}}"#
    ));
    assert_eq!(
        client(&trusting.request("GET", "/", fields)),
        "/203.0.113.7"
    );
    assert_eq!(trusting.request("GET", "/s/", fields).status, 204);
    let wary = site(&format!(
        r#", "forwarded": {{{names}, "source": "10.0.0.0/8"}}"#
    ));
    assert_eq!(client(&wary.request("GET", "/", fields)), "/127.0.0.1");
    assert_eq!(wary.request("GET", "/s/", fields).status, 302);
    let plain = site("");
    assert_eq!(client(&plain.request("GET", "/", fields)), "/127.0.0.1");
}

#[test]
fn the_older_form_does_the_same() {
    let site = site(r#", "client_ip": {"header": "X-Real-IP", "source": ["127.0.0.1"]}"#);
    assert_eq!(
        client(&site.request("GET", "/", "x-real-ip: 203.0.113.7\r\n")),
        "/203.0.113.7"
    );
}

#[test]
fn conditions_on_the_source_see_the_client() {
    let site = site(
        r#", "forwarded": {"client_ip": "X-Forwarded-For", "recursive": true, "source": ["127.0.0.1", "198.51.100.0/24"]}"#,
    );
    let fields = "X-Forwarded-For: 192.0.2.18, 198.51.100.178\r\n";
    assert_eq!(site.request("GET", "/", fields).status, 403);
    let claimed = "X-Forwarded-For: 192.0.2.18, 203.0.113.7\r\nX-Forwarded-For: 198.51.100.178\r\n";
    assert_eq!(client(&site.request("GET", "/", claimed)), "/203.0.113.7");
}

#[test]
fn each_request_of_a_connection_has_its_own_client_and_a_change_counts_for_the_next() {
    let trusting = r#", "forwarded": {"client_ip": "X-Forwarded-For", "source": "127.0.0.1"}"#;
    let site = site(trusting);
    let mut kept = site.connect();
    let mut ask = |field: &str| {
        kept.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
        client(&kept.response("GET")).to_owned()
    };
    let field = "X-Forwarded-For: 203.0.113.7\r\n";
    assert_eq!(ask(field), "/203.0.113.7");
    assert_eq!(ask(""), "/127.0.0.1");
    assert_eq!(ask("X-Forwarded-For: nonsense\r\n"), "/127.0.0.1");
    assert_eq!(ask(field), "/203.0.113.7");
    site.configure(&configuration("")).unwrap();
    assert_eq!(ask(field), "/127.0.0.1");
}

/// Issue 10: a `source` without addresses trusted every peer.
#[test]
fn a_source_without_addresses_trusts_no_peer() {
    let fields = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n";
    for listener in [
        r#", "forwarded": {"client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto", "source": []}"#,
        r#", "client_ip": {"header": "X-Forwarded-For", "source": []}"#,
    ] {
        let site = site(listener);
        assert_eq!(
            client(&site.request("GET", "/", fields)),
            "/127.0.0.1",
            "{listener}"
        );
        assert_eq!(site.request("GET", "/s/", fields).status, 302, "{listener}");
    }
}

/// Issue 10: the same for the peers that may announce clients.
#[test]
fn without_a_named_proxy_no_peer_may_announce_clients() {
    let site = site(r#", "proxy_protocol": {"source": []}"#);
    let mut direct = site.connect();
    direct.send("PROXY TCP4 203.0.113.7 192.0.2.1 5000 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = direct.read_to_end();
    assert!(!answer.contains("203.0.113.7"), "{answer}");
}
