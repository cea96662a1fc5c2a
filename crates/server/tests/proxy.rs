//! Requests through the proxy, bytes in and bytes out, to servers that a test controls.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::Site;
use support::backend::Backend;
use support::h2_client::over_http2;
use tutti_testkit::{ClosedPort, PATIENCE, refusing_address, wait_until};

/// A site that sends everything to `target` with these options.
fn proxy(backend: &Backend, options: &str) -> Site {
    proxy_to(&format!("http://{}", backend.address), options, "{}")
}

fn proxy_to(target: &str, options: &str, http: &str) -> Site {
    let (target, options, http) = (target.to_owned(), options.to_owned(), http.to_owned());
    Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {http}}},
                 "routes": [{{"action": {{"proxy": "{target}", "proxy_options": {{{options}}}}}}}]}}"#
        )
    })
}

/// A site that sends everything to an upstream.
fn upstream(servers: &str, options: &str) -> Site {
    let config = upstream_config(servers, options);
    Site::new(1, move |_| config.clone())
}

fn upstream_config(servers: &str, options: &str) -> String {
    let comma = if options.is_empty() { "" } else { ", " };
    format!(
        r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "upstreams/u"}}}},
             "upstreams": {{"u": {{"servers": {{{servers}}}{comma}{options}}}}}}}"#
    )
}

#[test]
fn a_request_is_written_anew_and_its_answer_too() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let head = asked.head.clone();
            peer.send(
                "HTTP/1.1 201 Made\r\nConnection: X-Hop, close-not\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
                 Proxy-Connection: keep-alive\r\nX-Own: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nServer: other\r\n",
            );
            peer.send(format!("Content-Length: {}\r\n\r\n{head}", head.len()));
        }
    });
    let site = proxy(&backend, "");
    let mut client = site.connect();
    client.send(
        "GET http://host.example:81/a%20b/../c?d=%2e HTTP/1.1\r\nHost: other\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\n\
         Keep-Alive: 1\r\nTE: trailers\r\nProxy-Connection: close\r\nX-Kept: yes\r\nCookie: a=b\r\n\r\n",
    );
    let answer = client.response("GET");
    assert_eq!(answer.status, 201);
    assert_eq!(
        answer.text(),
        "GET /c?d=%2e HTTP/1.1\r\nHost: host.example:81\r\nX-Kept: yes\r\nCookie: a=b\r\nTE: trailers\r\nConnection: TE\r\n\r\n"
    );
    assert_eq!(answer.field("X-Own"), Some("2"));
    assert_eq!(answer.field("Server"), Some("other"));
    assert!(answer.field("Date").is_some());
    assert_eq!(answer.head.matches("Set-Cookie").count(), 2);
    for gone in ["X-Hop", "Keep-Alive", "Proxy-Connection", "Connection"] {
        assert_eq!(answer.field(gone), None, "{gone}");
    }
}

#[test]
fn clients_cannot_set_the_fields_of_client_certificates() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.answer(asked.head.as_bytes());
        }
    });
    let address = backend.address;
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "routes": [
                 {{"match": {{"uri": "/trusted"}}, "action": {{"proxy": "http://{address}",
                    "request_headers": {{"Client-Cert": "$header_client_cert"}}}}}},
                 {{"action": {{"proxy": "http://{address}"}}}}]}}"#
        )
    });
    let fields = "Client-Cert: :AA==:\r\nclient-cert-chain: :BB==:\r\nCLIENT_CERT: :CC==:\r\nX-Client-Cert: kept\r\n";
    assert_eq!(
        site.request("GET", "/", fields).text(),
        "GET / HTTP/1.1\r\nHost: test\r\nX-Client-Cert: kept\r\n\r\n"
    );
    assert_eq!(
        site.request("GET", "/trusted", fields).text(),
        "GET /trusted HTTP/1.1\r\nHost: test\r\nX-Client-Cert: kept\r\nClient-Cert: :AA==:\r\n\r\n"
    );
}

#[test]
fn a_connection_serves_many_requests() {
    let backend = Backend::echoing("a");
    let site = proxy(&backend, "");
    let mut client = site.connect();
    for number in 0..20 {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let answer = client.response("GET");
        assert_eq!(answer.text(), format!("a GET /{number} HTTP/1.1"));
    }
    // Pipelined, and from another client.
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").text(), "a GET /x HTTP/1.1");
    assert_eq!(client.response("GET").text(), "a GET /y HTTP/1.1");
    assert_eq!(site.get("/z").text(), "a GET /z HTTP/1.1");
    assert_eq!(backend.connections(), 1);
}

#[test]
fn without_keepalive_each_request_has_its_connection() {
    let backend = Backend::echoing("a");
    let site = proxy(&backend, r#""keepalive": 0"#);
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 200);
    }
    assert_eq!(backend.connections(), 3);
}

#[test]
fn bodies_of_every_framing_reach_the_server_whole() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let framing = asked.field("Content-Length").unwrap_or("none").to_owned();
            let sum: u64 = asked.body.iter().map(|byte| u64::from(*byte)).sum();
            peer.answer(format!("{framing} {} {sum}", asked.body.len()).as_bytes());
        }
    });
    let site = proxy(&backend, "");
    let expect = |body: &[u8]| {
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        format!("{0} {0} {sum}", body.len())
    };
    for length in [0, 1, 1000, 20_000, 100_000, 5_000_000] {
        let body: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
        let mut client = site.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n"
        ));
        client.send(&body);
        assert_eq!(client.response("POST").text(), expect(&body), "{length}");
        client.send("PUT / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(7000) {
            client.send(format!("{:x}\r\n", chunk.len()));
            client.send(chunk);
            client.send("\r\n");
        }
        client.send("0\r\nTrailer-Field: x\r\n\r\n");
        assert_eq!(
            client.response("PUT").text(),
            expect(&body),
            "{length} chunked"
        );
    }
    assert_eq!(site.get("/").text(), "none 0 0");
}

#[test]
fn responses_of_every_framing_arrive_whole() {
    let body = "0123456789".repeat(50_000);
    let chunked: String = body
        .as_bytes()
        .chunks(9_999)
        .map(|chunk| {
            format!(
                "{:X};x=y\r\n{}\r\n",
                chunk.len(),
                String::from_utf8_lossy(chunk)
            )
        })
        .collect();
    let whole = body.clone();
    let backend = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            if asked.line().contains("/length") {
                peer.answer(whole.as_bytes());
            } else if asked.line().contains("/chunked") {
                peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n");
                peer.send(format!("{chunked}0\r\nX: 1\r\n\r\n"));
            } else {
                peer.send(format!(
                    "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{whole}"
                ));
                peer.finish();
                return;
            }
        }
    });
    let site = proxy(&backend, "");
    for (path, framing) in [
        ("/length", "Content-Length"),
        ("/chunked", "Transfer-Encoding"),
        ("/close", "Transfer-Encoding"),
        ("/length", "Content-Length"),
    ] {
        let answer = site.get(path);
        assert_eq!(answer.status, 200);
        assert!(answer.field(framing).is_some(), "{path}: {}", answer.head);
        assert_eq!(answer.text(), body, "{path}");
        assert_eq!(answer.field("Trailer"), None);
    }
    // An HTTP/1.0 client takes no chunks.
    for path in ["/chunked", "/close"] {
        let answer = site.exchange(format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{path}");
    }
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.send(match asked.line().split(' ').nth(1) {
                Some("/204") => "HTTP/1.1 204 No Content\r\n\r\n",
                Some("/304") => "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"a\"\r\n\r\n",
                Some("/interim") => {
                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
                     HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                }
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
            });
        }
    });
    let target = format!("http://{}", backend.address);
    let site = proxy_to(&target, "", r#"{"early_hints": "always"}"#);
    let mut client = site.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("HEAD").field("Content-Length"), Some("10"));
    client.send("GET /204 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").field("Content-Length"), None);
    client.send("GET /304 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("GET").field("ETag"), Some("\"a\""));
    client.send("GET /interim HTTP/1.1\r\nHost: a\r\n\r\n");
    let hints = client.response("GET");
    assert_eq!((hints.status, hints.field("Link")), (103, Some("</a.css>")));
    assert_eq!(client.response("GET").text(), "ok");
    assert_eq!(backend.connections(), 1);
}

/// A client that had an interim answer, or the configured hints, lost its connection when the server failed.
#[test]
fn a_server_that_fails_after_an_interim_answer_is_replaced() {
    for ending in ["", "no head at all\r\n\r\n"] {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = std::sync::Mutex::new(receiver);
        let failing = Backend::new(move |peer| {
            peer.request();
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n");
            receiver.lock().unwrap().recv().unwrap();
            peer.send(ending);
        });
        let backup = Backend::echoing("backup");
        let (failing, backup) = (failing.address, backup.address);
        let site = Site::new(1, move |_| {
            format!(
                r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {{"early_hints": "always"}}}},
                     "routes": [{{"action": {{"pass": "upstreams/u", "early_hints": "</a.css>"}}}}],
                     "upstreams": {{"u": {{"servers": {{"{failing}": {{}}, "{backup}": {{"backup": true}}}}}}}}}}"#
            )
        });
        let mut client = site.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        for link in ["</a.css>", "</b.css>"] {
            let hints = client.response("GET");
            assert_eq!((hints.status, hints.field("Link")), (103, Some(link)));
        }
        sender.send(()).unwrap();
        assert_eq!(client.response("GET").text(), "backup GET / HTTP/1.1");
    }
}

#[test]
fn errors_of_a_server_are_502_or_504_with_the_reason() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(70_000));
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(2000);
    for (what, answer, status, reason) in [
        (
            "closes",
            "",
            502,
            "closed the connection before it answered",
        ),
        (
            "half a head",
            "HTTP/1.1 200 OK\r\nContent-",
            502,
            "in the middle of its answer",
        ),
        ("garbage", "no HTTP at all\r\n\r\n", 502, "invalid response"),
        (
            "another version",
            "HTTP/2 200 OK\r\n\r\n",
            502,
            "invalid response",
        ),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            502,
            "repeated `Content-Length`",
        ),
        (
            "two framings",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
            502,
            "both `Content-Length` and `Transfer-Encoding`",
        ),
        (
            "an unknown coding",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            502,
            "transfer coding",
        ),
        (
            "a folded field",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
            502,
            "malformed field",
        ),
        (
            "101 unasked",
            "HTTP/1.1 101 Hello\r\nUpgrade: x\r\n\r\n",
            502,
            "without being asked",
        ),
        ("a long head", long.as_str(), 502, "longer than 65536 bytes"),
        (
            "interim heads without end",
            hints.as_str(),
            502,
            "its interim responses are longer than 65536 bytes",
        ),
    ] {
        let bytes = answer.as_bytes().to_vec();
        let backend = Backend::new(move |peer| {
            peer.request();
            peer.send(&bytes);
            peer.finish();
            peer.wait_closed();
        });
        let site = proxy(&backend, r#""retries": 0"#);
        assert_eq!(site.get("/path").status, status, "{what}");
        site.log.wait_for(reason);
        site.log.wait_for(&format!("server {}", backend.address));
        site.log.wait_for("GET /path");
    }
}

#[test]
fn a_server_that_is_not_there_is_502_and_one_that_is_silent_504() {
    let closed = refusing_address().to_string();
    let site = proxy_to(&format!("http://{closed}"), "", "{}");
    assert_eq!(site.get("/").status, 502);
    site.log.wait_for(&format!(
        "server {closed}: cannot connect: Connection refused"
    ));
    let silent = Backend::new(|peer| {
        peer.request();
        peer.wait_closed();
    });
    let site = proxy(&silent, r#""read_timeout": 0.1"#);
    assert_eq!(site.get("/").status, 504);
    site.log.wait_for("sent nothing for 100ms, after 0 bytes");
    let site = proxy_to("http://unix:/nowhere/socket", "", "{}");
    assert_eq!(site.get("/").status, 502);
    site.log
        .wait_for("server unix:/nowhere/socket: cannot connect: No such file");
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    for (what, answer) in [
        ("length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
        (
            "chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        ),
        (
            "bad chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        ),
    ] {
        let backend = Backend::new(move |peer| {
            peer.request();
            peer.send(answer);
            peer.finish();
            peer.wait_closed();
        });
        let site = proxy(&backend, "");
        let mut client = site.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let text = client.read_to_end();
        // Depends on whether data had been sent before the end.
        let is_seen = text.starts_with("HTTP/1.1 502") || text.starts_with("HTTP/1.1 200 OK");
        assert!(is_seen && !text.ends_with("0\r\n\r\n"), "{what}: {text}");
        site.log.wait_for("server ");
    }
}

#[test]
fn bytes_behind_an_answer_are_not_the_next_one() {
    let backend = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad");
        }
    });
    let site = proxy(&backend, "");
    for _ in 0..3 {
        assert_eq!(site.get("/").text(), "ok");
    }
    assert_eq!(backend.connections(), 3);
}

#[test]
fn a_kept_connection_that_was_closed_costs_no_request() {
    // Each connection answers one request, and closes on the next one.
    let backend = Backend::new(|peer| {
        if peer.request().is_some() {
            peer.answer(b"ok");
            peer.request();
        }
    });
    let site = proxy(&backend, "");
    for number in 0..5 {
        assert_eq!(site.get("/").status, 200, "{number}");
    }
    // A request that must not be repeated is not: it may have had an effect.
    let answer = site.request("POST", "/", "Content-Length: 0\r\n");
    assert_eq!(answer.status, 502);
    assert_eq!(
        backend
            .requests()
            .iter()
            .filter(|line| line.starts_with("POST"))
            .count(),
        1
    );
}

#[test]
fn a_connection_that_is_seen_to_be_closed_is_not_used() {
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let has_ended = std::sync::Arc::clone(&ended);
    let backend = Backend::new(move |peer| {
        if peer.request().is_some() {
            peer.answer(b"ok");
            peer.finish();
            has_ended.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let site = proxy(&backend, "");
    for number in 1..=5 {
        let answer = site.request("POST", "/", "Content-Length: 0\r\n");
        assert_eq!(answer.status, 200, "{number}");
        // Before that the connection may be used, and a POST is not repeated.
        wait_until("the connection has ended", || {
            ended.load(std::sync::atomic::Ordering::SeqCst) == number
        });
    }
}

#[test]
fn servers_take_turns_by_weight() {
    let (a, b) = (Backend::echoing("a"), Backend::echoing("b"));
    let site = upstream(
        &format!(
            r#""{}": {{}}, "{}": {{"weight": 0.5}}"#,
            a.address, b.address
        ),
        "",
    );
    let order: String = (0..9)
        .map(|_| site.get("/").text().chars().next().unwrap())
        .collect();
    assert_eq!(order, "abaabaaba");
}

#[test]
fn a_server_of_weight_0_gets_nothing() {
    let (a, b) = (Backend::echoing("a"), Backend::echoing("b"));
    let site = upstream(
        &format!(r#""{}": {{"weight": 0}}, "{}": {{}}"#, a.address, b.address),
        "",
    );
    for _ in 0..5 {
        assert!(site.get("/").text().starts_with('b'));
    }
    let site = upstream(&format!(r#""{}": {{"weight": 0}}"#, a.address), "");
    assert_eq!(site.get("/").status, 503);
    site.log
        .wait_for("upstream \"u\" has no servers, or all of them have weight 0");
    assert_eq!(a.connections(), 0);
}

#[test]
fn another_server_is_asked_where_that_is_safe() {
    let closed = refusing_address().to_string();
    let good = Backend::echoing("good");
    // The first server of a round.
    let servers = |first: &str| format!(r#""{first}": {{}}, "{}": {{}}"#, good.address);
    let site = upstream(&servers(&closed), "");
    let answer = site.request("POST", "/", "Content-Length: 0\r\n");
    assert_eq!(answer.status, 200, "nothing of it was sent");
    site.log.wait_for("gets no requests for 10s");
    for _ in 0..4 {
        assert_eq!(site.get("/").status, 200);
    }
    // A server that takes the request and closes.
    let closes = || {
        Backend::new(|peer| {
            peer.request();
        })
    };
    let bad = closes();
    let site = upstream(&servers(&bad.address.to_string()), "");
    assert_eq!(site.get("/").status, 200, "GET may be repeated");
    assert_eq!(bad.connections(), 1);
    let bad = closes();
    let site = upstream(&servers(&bad.address.to_string()), "");
    let answer = site.request("POST", "/", "Content-Length: 0\r\n");
    assert_eq!(answer.status, 502, "POST may not");
    let bad = closes();
    let site = upstream(&servers(&bad.address.to_string()), r#""retries": 0"#);
    assert_eq!(site.get("/").status, 502, "no retries are wanted");
}

/// Issue 10: a PUT or DELETE that had been executed was sent to a second server.
#[test]
fn unsafe_requests_are_not_retried_unless_configured() {
    let good = Backend::echoing("good");
    let asked = |method: &str, options: &str| {
        // It takes the request, and closes.
        let bad = Backend::new(|peer| {
            peer.request();
        });
        let servers = format!(r#""{}": {{}}, "{}": {{}}"#, bad.address, good.address);
        let site = upstream(&servers, options);
        let status = site.request(method, "/", "Content-Length: 0\r\n").status;
        assert_eq!(bad.connections(), 1);
        status
    };
    for method in ["GET", "OPTIONS", "QUERY"] {
        assert_eq!(asked(method, ""), 200, "{method}");
    }
    for method in ["PUT", "DELETE", "POST", "PATCH"] {
        assert_eq!(asked(method, ""), 502, "{method}");
    }
    let own = r#""retry_methods": ["PUT", "QUERY"]"#;
    for (method, status) in [("PUT", 200), ("QUERY", 200), ("DELETE", 502), ("GET", 502)] {
        assert_eq!(asked(method, own), status, "{method}");
    }
}

#[test]
fn where_all_are_down_one_is_asked_all_the_same() {
    let (one, two) = (ClosedPort::new(), refusing_address());
    let site = upstream(&format!(r#""{}": {{}}, "{two}": {{}}"#, one.address()), "");
    for _ in 0..3 {
        assert_eq!(site.get("/").status, 502);
    }
    let _up = Backend::on(one.listen(), |peer| {
        while peer.request().is_some() {
            peer.answer(b"");
        }
    });
    wait_until("it is asked again", || site.get("/").status == 200);
}

#[test]
fn a_backup_is_used_only_without_the_others() {
    let (closed, backup) = (refusing_address().to_string(), Backend::echoing("backup"));
    let a = Backend::echoing("a");
    let site = upstream(
        &format!(
            r#""{}": {{}}, "{}": {{"backup": true}}"#,
            a.address, backup.address
        ),
        "",
    );
    for _ in 0..4 {
        assert!(site.get("/").text().starts_with("a "));
    }
    let site = upstream(
        &format!(
            r#""{closed}": {{}}, "{}": {{"backup": true}}"#,
            backup.address
        ),
        "",
    );
    for _ in 0..4 {
        assert!(site.get("/").text().starts_with("backup "));
    }
}

#[test]
fn fields_of_the_request_are_changed() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.answer(asked.head.as_bytes());
        }
    });
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"proxy": "http://{}", "rewrite": "/new$uri", "request_headers":
                     {{"Host": "backend:1", "X-Was": "$header_x_was and $uri", "X-More": {{"add": "2"}}, "Cookie": null,
                       "X-Bad": "$arg_bad", "X-Absent": "$arg_absent", "X-Added": {{"add": "$arg_absent"}}}},
                     "proxy_options": {{"forwarded_headers": "both"}}}}}}]}}"#,
            backend.address
        )
    });
    let answer = site.request(
        "GET",
        "/a?bad=1",
        "X-Was: old\r\nX-More: 1\r\nX-Absent: forged\r\nCookie: a=b\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\n",
    );
    assert_eq!(
        answer.text(),
        "GET /new/a?bad=1 HTTP/1.1\r\nHost: backend:1\r\nX-More: 1\r\nX-Was: old and /new/a\r\nX-More: 2\r\nX-Bad: 1\r\n\
         X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Port: 80\r\nX-Forwarded-Host: test\r\n\
         Forwarded: for=127.0.0.1;proto=http;host=\"test\"\r\n\r\n"
    );
}

#[test]
fn the_body_of_the_request_is_replaced() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let fields = [
                "Content-Length",
                "Content-Type",
                "Content-Encoding",
                "Transfer-Encoding",
            ];
            let fields = fields.map(|name| asked.fields(name).join(",")).join("|");
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            let method = asked.line().split(' ').next().unwrap_or_default();
            peer.answer(format!("{method}|{fields}|{body}").as_bytes());
        }
    });
    let site = Site::new(1, move |_| {
        let address = backend.address;
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "upstreams": {{"u": {{"servers": {{"{address}": {{}}}}}}}},
                 "routes": [
                    {{"match": {{"uri": "/empty"}}, "action": {{"pass": "upstreams/u", "request_body": ""}}}},
                    {{"match": {{"uri": "/typed"}}, "action": {{"pass": "upstreams/u", "request_body": "{{}}", "request_headers": {{"Content-Type": "application/json"}}}}}},
                    {{"match": {{"uri": "/streamed"}}, "action": {{"proxy": "http://{address}", "request_body": "new", "proxy_options": {{"request_buffering": false}}}}}},
                    {{"match": {{"uri": "~^/named/(.*)$"}}, "action": {{"proxy": "http://{address}", "request_body": "$match_1"}}}},
                    {{"action": {{"proxy": "http://{address}", "request_body": "a=$arg_a"}}}}]}}"#
        )
    });
    let chunked = "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\nContent-Type: text/x\r\n\r\n5\r\nhello\r\n0\r\n";
    let counted = "Content-Type: text/x\r\nContent-Length: 5\r\n\r\nhello";
    for (method, target, rest, expected) in [
        ("POST", "/?a=12", counted, "POST|4|text/x|||a=12"),
        ("PUT", "/?a=12", chunked, "PUT|4|text/x|||a=12"),
        ("GET", "/?a=1", "", "GET|3||||a=1"),
        ("DELETE", "/", "", "DELETE|2||||a="),
        ("POST", "/empty", counted, "POST|0|text/x|||"),
        ("POST", "/typed", counted, "POST|2|application/json|||{}"),
        ("POST", "/streamed", counted, "POST|3|text/x|||new"),
        ("POST", "/named/x%20y", "", "POST|3||||x y"),
    ] {
        let mut client = site.connect();
        // Twice: the client's own body has been read.
        for _ in 0..2 {
            client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{rest}"));
            if !rest.ends_with("hello") {
                client.send("\r\n");
            }
            assert_eq!(client.response(method).text(), expected);
        }
        let body: &[u8] = if rest.is_empty() { b"" } else { b"hello" };
        let other = over_http2(site.address(), method, target, body);
        let expected = expected.replace("|text/x|", "||");
        assert_eq!(other.text(), expected);
    }
    // A body that is too large is still refused.
    let large = "Content-Length: 100000000\r\n";
    assert_eq!(site.request("POST", "/", large).status, 413);
    let refused = site.configure(
        r#"{"listeners": {}, "applications": {}, "routes": [{"action": {"pass": "routes", "request_body": "x"}}]}"#,
    );
    let faults = format!("{:?}", refused.unwrap_err());
    assert!(
        faults.contains("`request_body` has no effect here"),
        "{faults}"
    );
}

/// The server gets another method, and the client the response to its own.
#[test]
fn the_method_of_the_request_is_replaced() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            let line = asked.line().to_owned();
            peer.answer(format!("{line}|{body}").as_bytes());
        }
    });
    let site = Site::new(1, move |_| {
        let address = backend.address;
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "upstreams": {{"u": {{"servers": {{"{address}": {{}}}}}}}},
                 "routes": [
                    {{"match": {{"uri": "/u"}}, "action": {{"pass": "upstreams/u", "request_method": "POST", "request_body": "new"}}}},
                    {{"match": {{"uri": "/get"}}, "action": {{"proxy": "http://{address}", "request_method": "GET", "request_body": ""}}}},
                    {{"action": {{"proxy": "http://{address}", "request_method": "PUT"}}}}]}}"#
        )
    });
    for (method, target, expected) in [
        ("GET", "/u", "POST /u HTTP/1.1|new"),
        ("HEAD", "/u", ""),
        ("POST", "/get", "GET /get HTTP/1.1|"),
        ("POST", "/x?a=b", "PUT /x?a=b HTTP/1.1|hello"),
        ("GET", "/x", "PUT /x HTTP/1.1|"),
        ("HEAD", "/x", ""),
    ] {
        let mut client = site.connect();
        let body = if method == "POST" { "hello" } else { "" };
        let length = body.len();
        // Twice: the responses are framed as those to the client's own method.
        for _ in 0..2 {
            client.send(format!(
                "{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
            assert_eq!(
                client.response(method).text(),
                expected,
                "{method} {target}"
            );
        }
        let other = over_http2(site.address(), method, target, body.as_bytes());
        assert_eq!(other.text(), expected, "{method} {target}");
    }
    for (action, fault) in [
        (
            r#""pass": "routes", "request_method": "GET""#,
            "has no effect here",
        ),
        (
            r#""proxy": "http://127.0.0.1:1", "request_method": "HEAD""#,
            "request_method",
        ),
    ] {
        let text = format!(r#"{{"listeners": {{}}, "routes": [{{"action": {{{action}}}}}]}}"#);
        let faults = format!("{:?}", site.configure(&text).unwrap_err());
        assert!(faults.contains(fault), "{faults}");
    }
}

/// Issue 10: a field set by both `request_headers` and `forwarded_headers` was sent twice.
#[test]
fn each_forwarded_field_is_sent_once() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.answer(asked.head.as_bytes());
        }
    });
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"action": {{"proxy": "http://{}", "request_headers":
                     {{"X-Forwarded-For": "$remote_addr, ours", "x-forwarded-proto": null, "X-Forwarded-Host": {{"add": "added"}},
                       "Forwarded": "for=us"}},
                     "proxy_options": {{"forwarded_headers": "both"}}}}}}]}}"#,
            backend.address
        )
    });
    let sent = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-Host: x\r\nForwarded: for=x\r\n";
    assert_eq!(
        site.request("GET", "/", sent).text(),
        "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 127.0.0.1, ours\r\nX-Forwarded-Host: added\r\nForwarded: for=us\r\n\
         X-Forwarded-Port: 80\r\n\r\n"
    );
}

#[test]
fn the_server_is_left_when_the_client_goes() {
    let (sender, closed) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let backend = Backend::new(move |peer| {
        peer.request();
        peer.wait_closed();
        sender.lock().unwrap().send(()).unwrap();
    });
    let site = proxy(&backend, "");
    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request arrives", || backend.requests().len() == 1);
    client.reset();
    closed.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn a_change_drops_no_request_and_closes_idle_connections() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let backend = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            if asked.line().contains("/slow") {
                wait.lock().unwrap().recv().unwrap();
            }
            peer.answer(b"ok");
        }
    });
    let site = upstream(
        &format!(r#""{}": {{}}"#, backend.address),
        r#""keepalive_timeout": 1000"#,
    );
    assert_eq!(site.get("/").status, 200);
    let mut client = site.connect();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request arrives", || backend.requests().len() == 2);
    // Options change but the server does not, so its connections are kept.
    site.configure(&upstream_config(
        &format!(r#""{}": {{}}"#, backend.address),
        r#""keepalive_timeout": 1000, "retries": 0"#,
    ))
    .unwrap();
    site.configure(r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}}, "routes": []}"#)
        .unwrap();
    assert_eq!(site.get("/").status, 404);
    go.send(()).unwrap();
    assert_eq!(client.response("GET").text(), "ok");
}

#[test]
fn two_changed_proxies_of_one_url_keep_their_own_counts() {
    let backend = Backend::echoing("a");
    let address = backend.address;
    let config = |timeout: u32| {
        let action = |extra: u32| {
            let timeout = timeout + extra;
            format!(
                r#""action": {{"proxy": "http://{address}", "proxy_options": {{"read_timeout": {timeout}}}}}"#
            )
        };
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/one"}}, {}}}, {{{}}}]}}"#,
            action(0),
            action(1)
        )
    };
    let site = Site::new(1, |_| config(100));
    for path in ["/one", "/two", "/two"] {
        assert_eq!(site.get(path).status, 200);
    }
    let counts = || {
        let servers = site.server.upstreams().remove(0).1;
        let mut counts: Vec<u64> = servers.iter().map(|server| server.requests).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(counts(), [1, 2]);
    site.configure(&config(200)).unwrap();
    assert_eq!(counts(), [1, 2]);
}

#[test]
fn an_upgraded_connection_carries_bytes_both_ways() {
    let backend = Backend::new(|peer| {
        let asked = peer.request().unwrap();
        assert_eq!(asked.field("Connection"), Some("Upgrade"));
        let protocol = asked.field("Upgrade").unwrap().to_owned();
        peer.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nX-Own: 1\r\n\r\nhello "
        ));
        let early = peer.bytes(5).unwrap();
        peer.send(&early);
        let more = peer.bytes(100_000).unwrap();
        peer.send(&more);
        // The client has finished; the server sends its last bytes.
        peer.wait_closed();
        peer.send("bye");
    });
    let site = proxy(&backend, "");
    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: own/1\r\n\r\nearly");
    let answer = client.response("GET");
    assert_eq!(answer.status, 101);
    assert_eq!(answer.field("Upgrade"), Some("own/1"));
    assert_eq!(answer.field("Connection"), Some("Upgrade"));
    assert_eq!(answer.field("X-Own"), Some("1"));
    let more = "x".repeat(100_000);
    client.send(&more);
    client.finish();
    assert_eq!(client.read_to_end(), format!("hello early{more}bye"));
}

#[test]
fn http2_is_not_smuggled_through_an_upgrade() {
    let backend = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            peer.answer(asked.head.as_bytes());
        }
    });
    let site = proxy(&backend, "");
    let answer = site.request(
        "GET",
        "/",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    );
    assert_eq!(answer.text(), "GET / HTTP/1.1\r\nHost: test\r\n\r\n");
}

#[test]
fn a_slow_client_does_not_hold_the_server() {
    let (sender, done) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let body = vec![b'x'; 8 * 1024 * 1024];
    let backend = Backend::new(move |peer| {
        peer.request();
        peer.answer(&body);
        sender.lock().unwrap().send(()).unwrap();
    });
    let site = proxy(&backend, r#""buffer_size": "16M""#);
    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    done.recv_timeout(PATIENCE).unwrap();
    assert_eq!(client.response("GET").body.len(), 8 * 1024 * 1024);
}

#[test]
fn requests_wait_for_a_server_with_room() {
    let (go, backend) = Backend::gated(b"ok");
    let site = upstream(
        &format!(r#""{}": {{"max_connections": 1}}"#, backend.address),
        r#""queue": 1, "queue_timeout": 1000"#,
    );
    let ask = || {
        let mut client = site.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let mut first = ask();
    wait_until("the first arrives", || backend.requests().len() == 1);
    let mut second = ask();
    // The queue has room for one: the other of these two is refused.
    let mut third = ask();
    wait_until("one of them is refused", || {
        second.has_news() || third.has_news()
    });
    let refused = match second.has_news() {
        true => &mut second,
        false => &mut third,
    };
    assert_eq!(refused.response("GET").status, 503);
    assert_eq!(backend.requests().len(), 1);
    go.send(()).unwrap();
    assert_eq!(first.response("GET").text(), "ok");
    wait_until("the one that waited arrives", || {
        backend.requests().len() == 2
    });
    go.send(()).unwrap();
    site.log
        .wait_for("upstream \"u\" has no capacity: all servers have reached `max_connections`");
}

#[test]
fn the_head_of_an_answer_ends_the_rest_of_a_server() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let main = Backend::new(move |peer| {
        while let Some(asked) = peer.request() {
            if asked.line().contains("/fail") {
                peer.finish();
            } else if asked.line().contains("/long") {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
                wait.lock().unwrap().recv().unwrap();
                peer.send("long");
            } else {
                peer.answer(b"main");
            }
        }
    });
    let backup =
        Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nbackup".to_owned());
    let site = upstream(
        &format!(
            r#""{}": {{}}, "{}": {{"backup": true}}"#,
            main.address, backup.address
        ),
        r#""fail_timeout": 2"#,
    );
    assert_eq!(site.get("/fail").text(), "backup");
    site.log.wait_for("gets no requests for 2s");
    wait_until("the rest is over", || site.server.upstreams()[0].1[0].is_up);
    let mut long = site.connect();
    long.send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the head has come", || long.has_news());
    assert_eq!(site.get("/").text(), "main");
    go.send(()).unwrap();
    assert_eq!(long.response("GET").text(), "long");
}

#[test]
fn a_retry_without_a_server_keeps_no_other_request_waiting() {
    let (go, full) = Backend::gated(b"full");
    let choosy = Backend::new(|peer| {
        while let Some(asked) = peer.request() {
            match asked.line().contains("/limited") {
                true => peer.finish(),
                false => peer.answer(b"choosy"),
            }
        }
    });
    let site = upstream(
        &format!(
            r#""{}": {{"max_connections": 1}}, "{}": {{}}"#,
            full.address, choosy.address
        ),
        r#""queue_timeout": 1000, "max_fails": 0"#,
    );
    let mut first = site.connect();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the first arrives", || full.requests().len() == 1);
    // It fails at one server, and the other has no capacity for it.
    assert_eq!(site.get("/limited").status, 502);
    assert_eq!(site.get("/").text(), "choosy");
    go.send(()).unwrap();
    assert_eq!(first.response("GET").text(), "full");
}
