//! Answers of upstreams that are changed or passed over: addresses, cookies, statuses, the time for a whole request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::Site;
use support::backend::Backend;
use tutti_testkit::wait_until;

/// A site with this configuration beside its listener.
fn site(rest: String) -> Site {
    Site::new(1, move |_| {
        format!(r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, {rest}}}"#)
    })
}

/// A site that sends everything to an upstream.
fn upstream(servers: &str, options: &str) -> Site {
    site(format!(
        r#""routes": [{{"action": {{"pass": "upstreams/u"}}}}],
           "upstreams": {{"u": {{"servers": {{{servers}}}, {options}}}}}"#
    ))
}

/// A server that answers with these status, fields and content, and counts requests.
fn answering(head: &str, body: &str) -> Backend {
    let answer = format!(
        "HTTP/1.1 {head}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Backend::new(move |peer| {
        while peer.request().is_some() {
            peer.send(&answer);
        }
    })
}

#[test]
fn addresses_and_cookies_of_a_server_become_those_of_the_site() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let own = asked.field("Host").unwrap().to_owned();
            peer.send(format!(
                "HTTP/1.1 302 Found\r\nLocation: http://{own}/two/next?a=b\r\nContent-Location: http://{own}/two/here\r\n\
                 Refresh: 3; url=http://{own}/two/soon\r\nX-Other: http://{own}/two/\r\n\
                 Set-Cookie: sid=1; Domain=.app.internal; Path=/two/x\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let address = backend.address;
    let action = |rewrite: &str| {
        site(format!(
            r#""routes": [{{"action": {{"proxy": "http://{address}", "request_headers": {{"Host": "app.internal"}},
                 "proxy_options": {{"rewrite_response": {{{rewrite}}}}}}}}}]"#
        ))
    };
    let own = action(r#""location": true"#);
    let answer = own.get("/");
    assert_eq!(answer.field("Location"), Some("/two/next?a=b"));
    assert_eq!(answer.field("Content-Location"), Some("/two/here"));
    assert_eq!(answer.field("Refresh"), Some("3; url=/two/soon"));
    assert_eq!(answer.field("X-Other"), Some("http://app.internal/two/"));

    let pairs = action(
        r#""location": {"http://app.internal/two/": "https://$host/one/"}, "cookie_domain": {"app.internal": "$host"},
           "cookie_path": {"/two/": "/one/"},
           "cookie_attributes": {"*": {"secure": true, "http_only": true, "same_site": "lax"}}"#,
    );
    let answer = pairs.get("/");
    assert_eq!(answer.field("Location"), Some("https://test/one/next?a=b"));
    assert_eq!(
        answer.field("Set-Cookie"),
        Some("sid=1; Domain=test; Path=/one/x; Secure; HttpOnly; SameSite=Lax")
    );
}

#[test]
fn a_status_moves_a_request_to_the_next_server() {
    let busy = answering("503 Busy\r\nX-From: busy\r\n", "busy");
    let good = Backend::echoing("good");
    let servers = format!(r#""{}": {{}}, "{}": {{}}"#, busy.address, good.address);
    let retrying = upstream(&servers, r#""retry_statuses": [429, 503], "max_fails": 0"#);
    for _ in 0..4 {
        assert_eq!(retrying.get("/").text(), "good GET / HTTP/1.1");
    }
    assert!(!busy.requests().is_empty());
    retrying
        .log
        .wait_for(&format!("server {}: answered 503; GET /", busy.address));
    // A request that may have an effect is not repeated.
    let statuses: Vec<u16> = (0..2)
        .map(|_| {
            retrying
                .request("POST", "/", "Content-Length: 0\r\n")
                .status
        })
        .collect();
    assert!(
        statuses.contains(&503) && statuses.contains(&200),
        "{statuses:?}"
    );

    // Without the option the client gets what it says.
    let plain = upstream(&servers, r#""max_fails": 0"#);
    let statuses: Vec<u16> = (0..2).map(|_| plain.get("/").status).collect();
    assert!(
        statuses.contains(&503) && statuses.contains(&200),
        "{statuses:?}"
    );
}

#[test]
fn the_last_server_s_answer_is_the_client_s() {
    let first = answering("503 Busy\r\nX-From: a\r\n", "first");
    let second = answering("503 Busy\r\nX-From: b\r\n", "second");
    let servers = format!(r#""{}": {{}}, "{}": {{}}"#, first.address, second.address);
    let site = upstream(&servers, r#""retry_statuses": [503], "max_fails": 0"#);
    let answer = site.get("/");
    assert_eq!(answer.status, 503);
    assert!(
        answer.field("X-From").is_some(),
        "it is no page of this server"
    );
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));

    // It counts as a failure, and a server that rests is no other one.
    let site = upstream(&servers, r#""retry_statuses": [503], "fail_timeout": 600"#);
    assert_eq!(site.get("/").status, 503);
    site.log.wait_for("gets no requests for 600s");
    let before = first.requests().len() + second.requests().len();
    assert_eq!(site.get("/").status, 503);
    assert_eq!(first.requests().len() + second.requests().len(), before + 1);
}

#[test]
fn a_status_is_passed_on_where_the_other_server_has_no_capacity() {
    let (go, full) = Backend::gated(b"full");
    let limited = answering("429 Slow down\r\nX-From: limited\r\n", "later");
    let site = upstream(
        &format!(
            r#""{}": {{"max_connections": 1}}, "{}": {{}}"#,
            full.address, limited.address
        ),
        r#""retry_statuses": [429], "queue_timeout": 1000"#,
    );
    let mut first = site.connect();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the first arrives", || full.requests().len() == 1);
    for _ in 0..2 {
        let answer = site.get("/");
        assert_eq!(
            (answer.status, answer.field("X-From")),
            (429, Some("limited"))
        );
    }
    go.send(()).unwrap();
    assert_eq!(first.response("GET").text(), "full");
}

#[test]
fn failures_that_are_not_named_are_not_retried() {
    let bad = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.send("no HTTP at all\r\n\r\n");
        }
    });
    let good = Backend::echoing("good");
    let servers = format!(
        r#""{}": {{}}, "{}": {{"backup": true}}"#,
        bad.address, good.address
    );
    for (failures, status) in [
        (r#"["error", "timeout"]"#, 502),
        (r#"["malformed"]"#, 200),
        ("[]", 502),
    ] {
        let options = format!(r#""max_fails": 0, "retry_failures": {failures}"#);
        assert_eq!(
            upstream(&servers, &options).get("/").status,
            status,
            "{failures}"
        );
    }
}

#[test]
fn servers_have_limits_of_failures_of_their_own() {
    let bad = answering("503 Busy\r\n", "");
    let good = Backend::echoing("good");
    let servers = format!(
        r#""{}": {{"max_fails": 1, "fail_timeout": 600}}, "{}": {{}}"#,
        bad.address, good.address
    );
    let site = upstream(&servers, r#""retry_statuses": [503], "max_fails": 0"#);
    for _ in 0..4 {
        assert_eq!(site.get("/").status, 200);
    }
    assert_eq!(bad.requests().len(), 1);
    site.log
        .wait_for(&format!("server {} gets no requests for 600s", bad.address));
}

#[test]
fn a_group_without_servers_is_503() {
    for servers in [
        "",
        r#""127.0.0.1:9": {"weight": 0}, "127.0.0.1:10": {"weight": 0}"#,
    ] {
        let site = upstream(servers, r#""retries": 3"#);
        assert_eq!(site.get("/").status, 503);
        site.log
            .wait_for("upstream \"u\" has no servers, or all of them have weight 0");
    }
}

#[test]
fn a_whole_request_has_a_limit_of_time() {
    let silent = Backend::new(|peer| {
        peer.request();
        peer.wait_closed();
    });
    // It sends a little again and again, so that no other timeout notices.
    let trickling = Backend::new(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        peer.send("x");
        peer.wait_closed();
    });
    let options = r#""timeout": 0.2, "read_timeout": 60"#;
    let other = Backend::echoing("other");
    let servers = format!(
        r#""{}": {{}}, "{}": {{"backup": true}}"#,
        silent.address, other.address
    );
    let site = upstream(&servers, options);
    // No other server is tried, and a client that is slow itself takes no server away.
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 504);
    }
    site.log.wait_for("the `timeout` of the whole request");
    assert!(other.requests().is_empty());
    let options = r#""timeout": 3, "read_timeout": 60"#;
    let site = upstream(&format!(r#""{}": {{}}"#, trickling.address), options);
    let answer = site.exchange("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nx"), "{answer}");
    site.log.wait_for("the `timeout` of the whole request");
}

#[test]
fn trace_is_refused_and_the_name_of_a_server_can_be_removed() {
    let backend = answering("200 OK\r\nServer: other\r\n", "x");
    let address = backend.address;
    let site = site(format!(
        r#""routes": [
             {{"match": {{"uri": "/own"}}, "action": {{"return": 200, "response_headers": {{"Server": null}}}}}},
             {{"match": {{"uri": "/error"}}, "action": {{"return": 404, "response_headers_always": {{"server": null}}}}}},
             {{"match": {{"uri": "/hidden"}}, "action": {{"proxy": "http://{address}", "response_headers": {{"Server": null}}}}}},
             {{"action": {{"proxy": "http://{address}"}}}}]"#
    ));
    assert_eq!(site.get("/").field("Server"), Some("other"));
    for path in ["/own", "/error", "/hidden"] {
        assert_eq!(site.get(path).field("Server"), None, "{path}");
    }
    let before = backend.requests().len();
    for path in ["/", "/own"] {
        let answer = site.request("TRACE", path, "Cookie: secret\r\n");
        assert_eq!(answer.status, 405, "{path}");
        assert!(
            answer
                .field("Allow")
                .is_some_and(|allow| allow.contains("GET"))
        );
        assert!(!answer.text().contains("secret"));
    }
    assert_eq!(backend.requests().len(), before);
}

#[test]
fn an_answer_that_requires_another_protocol_says_which() {
    let backend = answering(
        "426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
        "upgrade",
    );
    let site = upstream(
        &format!(r#""{}": {{}}"#, backend.address),
        r#""retries": 0"#,
    );
    let answer = site.get("/");
    assert_eq!(
        (answer.status, answer.field("Upgrade")),
        (426, Some("websocket"))
    );
    assert!(
        answer.head.contains("Connection: Upgrade\r\n"),
        "{}",
        answer.head
    );
}

/// Failed an assertion of the cache, which had begun to record the first one.
#[test]
fn an_answer_that_breaks_off_is_not_stored_in_place_of_the_next() {
    let broken = Backend::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nx",
    );
    let good = answering("200 OK\r\nCache-Control: max-age=600\r\n", "whole");
    let site = site(format!(
        r#""routes": [{{"action": {{"pass": "upstreams/u", "cache": "pages"}}}}],
           "settings": {{"cache": {{"pages": {{}}}}}},
           "upstreams": {{"u": {{"servers": {{"{}": {{}}, "{}": {{"backup": true}}}}}}}}"#,
        broken.address, good.address
    ));
    for _ in 0..2 {
        assert_eq!(site.get("/").text(), "whole");
    }
    assert_eq!((broken.requests().len(), good.requests().len()), (1, 1));
}

/// The answer of a FastCGI application that sends this and ends the request with this protocol status.
fn fastcgi(content: &str, status: u8) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    let mut records = Vec::new();
    if length > 0 {
        records.extend([1, 6, 0, 1, 0, length, 0, 0]);
        records.extend(content.as_bytes());
    }
    records.extend([1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, status, 0, 0, 0]);
    records
}

/// A request that an application had rejected was taken for one that it had begun, and POST went to no other server.
#[test]
fn a_request_that_fastcgi_rejects_goes_to_the_next_server() {
    let server = |answer: Vec<u8>| {
        Backend::new(move |peer| {
            use std::io::Read as _;
            let mut bytes = [0; 4096];
            while peer.stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                peer.send(&answer);
            }
        })
    };
    let good = server(fastcgi("Status: 201\r\n\r\nok", 0));
    for (content, status, expected) in [
        ("", 2, 201),
        ("", 1, 201),
        ("", 3, 201),
        // It has begun.
        ("Status", 2, 502),
        ("", 0, 502),
    ] {
        let rejecting = server(fastcgi(content, status));
        let site = upstream(
            &format!(
                r#""{}": {{}}, "{}": {{"backup": true}}"#,
                rejecting.address, good.address
            ),
            r#""fastcgi": {"root": "/srv", "script": "a.php", "check_files": false}"#,
        );
        let mut client = site.connect();
        client.send("POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody");
        let answer = client.response("POST");
        assert_eq!(answer.status, expected, "{status} after {content:?}");
    }
}
