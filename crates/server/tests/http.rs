//! HTTP/1.1 on a connection: bytes in, bytes out.

mod support;

use std::time::{Duration, Instant};

use support::Site;
use tutti_testkit::wait_until;

fn status_line(response: &str) -> &str {
    response.lines().next().unwrap_or_default()
}

#[test]
fn a_file_is_answered_with_its_bytes() {
    let site = Site::sharing("{}");
    site.write("a.txt", "hello");
    let mut client = site.connect();
    for _ in 0..3 {
        client.send("GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
        let response = client.response("GET");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.field("Content-Type"), Some("text/plain"));
        assert_eq!(response.field("Connection"), None);
        assert!(response.field("Server").unwrap().starts_with("Tutti/"));
        assert!(response.field("Date").unwrap().ends_with(" GMT"));
    }
}

#[test]
fn persistence_follows_version_and_wishes() {
    let site = Site::sharing("{}");
    for (request, connection, stays) in [
        ("GET /return/ HTTP/1.1\r\nHost: a\r\n\r\n", None, true),
        (
            "GET /return/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            Some("close"),
            false,
        ),
        ("GET /return/ HTTP/1.0\r\n\r\n", Some("close"), false),
        (
            "GET /return/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            Some("keep-alive"),
            true,
        ),
    ] {
        let mut client = site.connect();
        client.send(request);
        let response = client.response("GET");
        assert_eq!(response.status, 200);
        assert_eq!(response.field("Connection"), connection, "{request}");
        if stays {
            client.send(request);
            assert_eq!(client.response("GET").status, 200, "{request}");
        } else {
            assert!(client.is_closed(), "{request}");
        }
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::sharing("{}");
    let large = vec![b'x'; 200_000];
    site.write("large", &large);
    site.write("a", "A");
    let mut client = site.connect();
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    let post = "POST /return/ HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc";
    client.send(
        [
            one("/a"),
            one("/large"),
            one("/nothing"),
            post.into(),
            one("/a"),
            one("/large"),
            one("/return/"),
        ]
        .concat(),
    );
    for (status, body) in [
        (200, &b"A"[..]),
        (200, &large),
        (404, b""),
        (200, b""),
        (200, b"A"),
        (200, &large),
        (200, b""),
    ] {
        let response = client.response("GET");
        assert_eq!(response.status, status);
        if status == 200 {
            assert!(response.body == body);
        }
    }
}

#[test]
fn many_pipelined_requests_to_a_client_that_reads_late_are_all_answered() {
    let site = Site::sharing("{}");
    site.write("a", vec![b'x'; 10_000]);
    let mut client = site.connect();
    let mut writer = client.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let request = "GET /a HTTP/1.1\r\nHost: test\r\n\r\n".repeat(2_000);
        std::io::Write::write_all(&mut writer, request.as_bytes()).unwrap();
    });
    for _ in 0..2_000 {
        assert_eq!(client.response("GET").body.len(), 10_000);
    }
    sender.join().unwrap();
}

#[test]
fn the_split_of_the_bytes_does_not_matter() {
    let site = Site::sharing("{}");
    site.write("a", "A");
    site.age("a");
    let stream = "GET /a HTTP/1.1\r\nHost: test\r\n\r\nPOST /return/x HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n\
                  3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\n\r\nHEAD /a HTTP/1.1\r\nHost: test\r\n\r\n\
                  GET /missing HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let normal = |text: String| {
        text.lines()
            .filter(|line| !line.starts_with("Date: "))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let expected = normal(site.exchange(stream));
    assert_eq!(expected.matches("HTTP/1.1 200 OK").count(), 3, "{expected}");
    assert_eq!(
        expected.matches("HTTP/1.1 404 Not Found").count(),
        1,
        "{expected}"
    );
    // A small generator, so that a failure can be repeated: multiplier and increment of Knuth's MMIX.
    let mut seed = 1_u64;
    let mut next = |limit: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % limit
    };
    for round in 0..60 {
        let mut client = site.connect();
        let mut rest = stream.as_bytes();
        let longest = [1, 3, 20, 200][round % 4];
        while !rest.is_empty() {
            let (now, later) = rest.split_at((1 + next(longest)).min(rest.len()));
            client.send(now);
            rest = later;
        }
        assert_eq!(normal(client.read_to_end()), expected, "in round {round}");
    }
}

#[test]
fn malformed_requests_are_refused_and_the_connection_ends() {
    let site = Site::sharing(
        r#"{"max_body_size": 100, "large_header_buffer_size": 1024, "large_header_buffers": 2}"#,
    );
    let long = "x".repeat(1100);
    let many: String = (0..20)
        .map(|n| format!("X-{n}: {}\r\n", "y".repeat(150)))
        .collect();
    for (request, status) in [
        ("GET\r\n\r\n".to_owned(), "400 Bad Request"),
        ("GET / HTTP/1.1\r\n\r\n".into(), "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".into(), "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n".into(), "400 Bad Request"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".into(), "505 HTTP Version Not Supported"),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), "414 URI Too Long"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), "431 Request Header Fields Too Large"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), "431 Request Header Fields Too Large"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(), "400 Bad Request"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".into(), "501 Not Implemented"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n".into(), "400 Bad Request"),
        ("POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n".into(), "413 Content Too Large"),
        ("POST /return/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n".into(), "413 Content Too Large"),
        ("POST /return/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".into(), "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-maybe\r\n\r\n".into(), "417 Expectation Failed"),
        ("GET /../x HTTP/1.1\r\nHost: a\r\n\r\n".into(), "400 Bad Request"),
        ("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n".into(), "400 Bad Request"),
    ] {
        let mut client = site.connect();
        client.send(&request);
        // The response arrives although the client continues to send, and is not lost to a reset.
        client.send("garbage");
        let answer = client.read_to_end();
        let reason = status.split_once(' ').unwrap().1;
        assert!(status_line(&answer).starts_with(&format!("HTTP/1.1 {}", &status[..3])), "{request:?}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{request:?}: {answer}");
        assert!(answer.contains("Content-Type: text/html") && answer.contains(reason.split(' ').next().unwrap()), "{answer}");
    }
}

#[test]
fn a_large_body_that_is_refused_does_not_cost_the_answer() {
    let site = Site::sharing(r#"{"max_body_size": 1000}"#);
    let mut client = site.connect();
    client.send("POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
    // Far more than the sockets' buffers hold: the server must read it.
    client.send(vec![b'x'; 3_000_000]);
    client.finish();
    assert!(client.read_to_end().starts_with("HTTP/1.1 413 "));
}

#[test]
fn an_unwanted_body_is_drained_and_the_connection_is_kept() {
    let site = Site::sharing("{}");
    let mut client = site.connect();
    let body = vec![b'x'; 1_000_000];
    for _ in 0..3 {
        client.send("POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
        client.send(&body);
        assert_eq!(client.response("POST").status, 200);
    }
}

#[test]
fn a_client_that_expects_continue_gets_it() {
    let site = Site::sharing("{}");
    let mut client = site.connect();
    client.send(
        "POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    let interim = client.response("POST");
    assert_eq!(interim.head, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("abc");
    assert_eq!(client.response("POST").status, 200);
    // A client that sends at once does not need it.
    client.send(
        "POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    );
    assert_eq!(client.response("POST").status, 200);
    // A body that will be refused is refused before it is sent.
    client.send("POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.response("POST").status, 413);
}

#[test]
fn a_slow_head_or_body_is_answered_408() {
    let site = Site::sharing(r#"{"header_read_timeout": 1, "body_read_timeout": 1}"#);
    for request in [
        "GET / HTTP/1.1\r\nHos",
        "POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
    ] {
        let start = Instant::now();
        let answer = site.exchange(request);
        assert!(
            answer.starts_with("HTTP/1.1 408 ") && answer.contains("Connection: close"),
            "{request:?}: {answer}"
        );
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(900), "{took:?}");
    }
}

#[test]
fn the_head_has_one_deadline_and_the_body_one_per_read() {
    let site = Site::sharing(r#"{"header_read_timeout": 1, "body_read_timeout": 5}"#);
    let mut client = site.connect();
    client.send("POST /return/ HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n");
    for byte in ["a", "b", "c", "d", "e", "f"] {
        // Each pause is shorter than the timeout, but all together are longer: the head must be complete within a second.
        let mut late = site.connect();
        late.send("GET /");
        assert_eq!(late.response("GET").status, 408);
        client.send(byte);
    }
    assert_eq!(client.response("POST").status, 200);

    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\n");
    // If each line extended the time, the head would end by being too large: 431.
    while client.is_quiet() {
        let _ = std::io::Write::write_all(&mut client.stream, b"X: y\r\n");
    }
    assert!(client.read_to_end().starts_with("HTTP/1.1 408 "));
}

#[test]
fn an_idle_connection_ends_with_408_and_so_does_one_never_used() {
    // The request of the first must come before the time for it is over.
    let site = Site::sharing(r#"{"idle_timeout": 1, "header_read_timeout": 5}"#);
    let mut used = site.connect();
    used.send("GET /return/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(used.response("GET").status, 200);
    let mut unused = site.connect();
    let answer = used.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let answer = unused.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

/// Issue 28, 2.6: the client took the content for its next response.
#[test]
fn a_head_that_is_refused_gets_no_content() {
    let site = Site::sharing("{}");
    for (line, status) in [
        ("HEAD /%2e%2e/x HTTP/1.1", 400),
        ("HEAD /a b HTTP/1.1", 400),
        ("HEAD / HTTP/1.2", 505),
        ("HEAD /", 400),
    ] {
        let answer = site.exchange(format!("{line}\r\nHost: a\r\n\r\n"));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains("\r\nContent-Length: "), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{line}: {answer}");
    }
    let answer = site.exchange("GET /%2e%2e/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("</h1>\n"), "{answer}");
}

#[test]
fn a_client_that_takes_nothing_is_dropped_after_send_timeout() {
    let site = Site::sharing(r#"{"send_timeout": 1}"#);
    // More than the buffers of two sockets can hold, even after the kernel has grown them.
    let file = std::fs::File::create(site.path().join("large")).unwrap();
    file.set_len(64 << 20).unwrap();
    let mut client = site.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the connection is closed", || {
        site.server.totals().closed == 1
    });
    assert!(client.read_to_end().len() < 64 << 20);
}

#[test]
fn connections_and_requests_are_counted() {
    let site = Site::sharing("{}");
    let mut clients: Vec<_> = (0..5).map(|_| site.connect()).collect();
    wait_until("all are accepted", || site.server.totals().idle == 5);
    for (n, client) in clients.iter_mut().enumerate() {
        client.send("GET /return/ HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response("GET");
        // A client that has its response finds it counted.
        assert_eq!(site.server.totals().requests, n as u64 + 1);
    }
    // The last request may not have ended yet.
    wait_until("all are idle again", || site.server.totals().idle == 5);
    clients[0].send("GET /retu");
    wait_until("one is active", || site.server.totals().active == 1);
    let totals = site.server.totals();
    assert_eq!((totals.accepted, totals.idle, totals.closed), (5, 4, 0));
    clients.truncate(2);
    wait_until("three have ended", || site.server.totals().closed == 3);
    assert_eq!(site.server.totals().active, 1);
}

#[test]
fn server_version_can_be_left_out() {
    let site = Site::sharing(r#"{"server_version": false}"#);
    assert_eq!(site.get("/return/").field("Server"), Some("Tutti"));
}

#[test]
fn bodies_without_a_length_can_be_refused() {
    let site = Site::sharing(r#"{"chunked_transform": false}"#);
    let chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n";
    assert_eq!(site.request("POST", "/return/1", chunked).status, 411);
    let site = Site::sharing("{}");
    assert_eq!(site.request("POST", "/return/1", chunked).status, 200);
}

#[test]
fn the_way_through_the_routes_can_be_logged() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes/main"}}}}, "settings": {{"http": {{"log_route": true}}}},
                 "routes": {{"main": [{{"match": {{"uri": "/other"}}, "action": {{"return": 403}}}},
                                      {{"match": {{"method": "GET"}}, "action": {{"rewrite": "/backend/", "pass": "routes/second"}}}}],
                             "second": [{{"action": {{"share": "{folder}/none", "fallback": {{"return": 404}}}}}}]}}}}"#
        )
    });
    assert_eq!(site.get("/a\"b").status, 404);
    let lines: Vec<String> = site.log.lines().clone();
    // The number of the request is the same in all of them.
    let (number, _) = lines[0]
        .strip_prefix("Notice: *")
        .unwrap()
        .split_once(' ')
        .unwrap();
    assert_eq!(
        lines,
        [
            format!(r#"Notice: *{number} http request line "GET /a\x22b HTTP/1.1""#),
            format!(r#"Info: *{number} "routes/main/0" discarded"#),
            format!(r#"Notice: *{number} "routes/main/1" selected"#),
            format!(r#"Notice: *{number} URI rewritten to "/backend/""#),
            format!(r#"Notice: *{number} "routes/second/0" selected"#),
            format!(r#"Notice: *{number} "fallback" taken"#),
        ]
    );
}

/// Issue 10: a deny rule whose regular expression ran out of steps let the request through, and `types` was ignored.
#[test]
fn a_regular_expression_without_an_answer_is_a_500_that_the_log_explains() {
    const ENDLESS: &str = r"^.?(?:(a+)(a+)(a+))+\\1\\2\\3(?=c)";
    let long = "a".repeat(60);
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                "settings": {{"http": {{"static": {{"mime_types": {{"{long}/a": ".a"}}}},
                    "compression": {{"types": "~{ENDLESS}", "compressors": {{"encoding": "gzip"}}}}}}}},
                "routes": [
                  {{"match": {{"uri": "~{ENDLESS}"}}, "action": {{"return": 403}}}},
                  {{"match": {{"uri": "/types/*"}},
                   "action": {{"share": "{folder}/x.a", "types": "!~{ENDLESS}", "fallback": {{"return": 200}}}}}},
                  {{"action": {{"share": "{folder}/x.a"}}}}]}}"#
        )
    });
    site.write("x.a", "text");
    for _ in 0..20 {
        assert_eq!(site.get(&format!("/{long}")).status, 500);
    }
    assert_eq!(site.get("/types/").status, 500);
    let whole = site.request("GET", "/", "Accept-Encoding: gzip\r\n");
    assert_eq!((whole.status, whole.text().as_str()), (200, "text"));
    for place in [
        "`/routes/0/action`",
        "`/routes/1/action`",
        "`/settings/http/compression/types`",
    ] {
        site.log
            .wait_for(&format!("{place}: the regular expression"));
    }
    assert!(
        site.log.count("/routes/0/action") < 20,
        "not a line for each request"
    );
}

/// CHANGES of FreeUnit 1.35.4: connections that sent nothing and ended were kept, and used CPU time.
#[test]
fn connections_of_a_port_scan_are_closed_at_once() {
    const SCANS: u64 = 300;
    let site = Site::sharing("{}");
    for number in 0..SCANS {
        let mut client = site.connect();
        match number % 3 {
            0 => {}
            1 => client.send("GET / HT"),
            _ => client.finish(),
        }
    }
    wait_until("all of them are closed", || {
        let totals = site.server.totals();
        (totals.accepted, totals.closed, totals.active, totals.idle) == (SCANS, SCANS, 0, 0)
    });
    assert_eq!(site.get("/return/").status, 200);
}

/// Issue 29: the state of a request was kept at its connection, and reset manually for the next one.
#[test]
fn a_request_leaves_nothing_behind_for_the_next_one_on_its_connection() {
    const ANNA: &str = "$2y$04$jSz1tXNKo.beld/S8xsOwesNQxGVCl6/Vwe3Mk.oO4XqSnTLal1w.";
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes", "forwarded": {{
                   "client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto", "source": ["127.0.0.1"]}}}}}},
                 "access_log": {{"path": "{folder}/access.log",
                   "format": "$remote_addr <$remote_user> $uri <$error_status> $status $body_bytes_sent"}},
                 "routes": [
                   {{"match": {{"uri": "/rewritten"}}, "action": {{"rewrite": "/elsewhere", "return": 200}}}},
                   {{"match": {{"uri": "/user"}}, "action": {{"authenticate": {{"basic": {{"users": {{"anna": "{ANNA}"}}}}}}, "return": 200}}}},
                   {{"match": {{"uri": "/one"}}, "action": {{"limit": {{"concurrent": 1}}, "return": 200}}}},
                   {{"match": {{"uri": "/cors"}}, "action": {{"cors": {{"origins": ["https://a.example"]}}, "return": 200}}}},
                   {{"match": {{"uri": "/page"}}, "action": {{"return": 404, "response_headers": {{"X-Page": "yes"}}, "error_pages": {{"404": {{"return": 410}}, "400": {{"return": 201}}}}}}}},
                   {{"match": {{"uri": "/missing"}}, "action": {{"return": 404}}}},
                   {{"action": {{"return": 204}}}}]}}"#
        )
    });
    let log = || std::fs::read_to_string(site.path().join("access.log")).unwrap();
    let forwarded = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";
    let cases = [
        ("/rewritten", "", 200),
        ("/user", "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n", 200),
        ("/user", "", 401),
        ("/plain", forwarded, 204),
        ("/one", "", 200),
        ("/cors", "Origin: https://a.example\r\n", 200),
        ("/page", "", 410),
        ("/plain", "Content-Length: 3\r\n", 204),
    ];
    let mut logged = 0;
    for (path, fields, status) in cases {
        let mut client = site.connect();
        let body = if fields.contains("Length") { "abc" } else { "" };
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}"
        ));
        assert_eq!(client.response("GET").status, status, "{path}");
        let before = logged + 1;
        wait_until("it is logged", || log().lines().count() == before);
        for (next, fields, status) in [("/next", "", 204), ("/missing", "", 404), ("/one", "", 200)]
        {
            client.send(format!("GET {next} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let reply = client.response("GET");
            assert_eq!(reply.status, status, "{next} after {path}");
            for field in ["Access-Control-Allow-Origin", "X-Page", "WWW-Authenticate"] {
                assert_eq!(reply.field(field), None, "{next} after {path}");
            }
        }
        // It is refused before routing, so it has no error page.
        client.send("GET / HTTP/1.1\r\n: x\r\n\r\n");
        let reply = client.response("GET");
        assert_eq!(reply.status, 400, "after {path}");
        assert!(client.is_closed());
        logged = before + 4;
        wait_until("all of them are logged", || log().lines().count() == logged);
        let bytes = reply.text().len();
        let text = log();
        let lines: Vec<&str> = text.lines().skip(before).collect();
        let page = lines[1].rsplit(' ').next().unwrap_or_default();
        assert_eq!(
            lines,
            [
                "127.0.0.1 <-> /next <-> 204 0".to_owned(),
                format!("127.0.0.1 <-> /missing <-> 404 {page}"),
                "127.0.0.1 <-> /one <-> 200 0".to_owned(),
                format!("127.0.0.1 <-> - <-> 400 {bytes}"),
            ],
            "after {path}"
        );
    }
}
