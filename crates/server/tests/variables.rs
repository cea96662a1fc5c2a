//! Variables about the connection, the servers of upstreams and the cache.

#![allow(
    clippy::unwrap_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::net::TcpListener;

use support::Site;
use support::backend::Backend;
use tutti_testkit::wait_until;

/// A site with this listener and these routes.
fn site(listener: &str, more: &str, routes: &str) -> Site {
    Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"{listener}}}}}, "routes": {routes},
                 "access_log": {{"path": "{folder}/access.log",
                    "format": "$request_uri|$upstream_addr|$upstream_status|$upstream_response_length|$cache_status|$bytes_sent|$upstream_connect_time|$upstream_header_time"}}{more}}}"#
        )
    })
}

/// The values of the line of the log about this target.
fn logged(site: &Site, target: &str) -> Vec<String> {
    let mut found = None;
    wait_until("a line in the log", || {
        let log = std::fs::read_to_string(site.path().join("access.log")).unwrap_or_default();
        let mut lines = log.lines();
        let line = lines.find(|line| line.split('|').next() == Some(target));
        found = line.map(|line| line.split('|').map(str::to_owned).collect());
        found.is_some()
    });
    found.unwrap_or_default()
}

/// A port at which no server listens.
fn nowhere() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().to_string()
}

#[test]
fn a_connection_has_its_number_and_its_ends() {
    let ends = r#"[{"action": {"return": 200, "body": "$connection $connection_requests $peer_addr $remote_addr $remote_port $proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port $server_port $scheme"}}]"#;
    let own = site("", "", ends);
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let mut client = own.connect();
        let local = client.stream.local_addr().unwrap().port();
        for number in ["1", "2", "3"] {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let text = client.response("GET").text();
            let mut words = text.split(' ');
            numbers.push(words.next().unwrap().to_owned());
            assert_eq!(words.next(), Some(number));
            let rest: Vec<&str> = words.collect();
            let port = own.address().port();
            let expected = format!("127.0.0.1 127.0.0.1 {local}     {port} http");
            assert_eq!(rest.join(" "), expected);
        }
    }
    assert!(numbers[0] == numbers[2] && numbers[3] == numbers[5]);
    assert_ne!(numbers[0], numbers[3]);

    let behind = site(r#", "proxy_protocol": {"source": ["127.0.0.1"]}"#, "", ends);
    let mut client = behind.connect();
    client.send("PROXY TCP4 203.0.113.7 192.0.2.1 5000 81\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = client.response("GET").text();
    let (_, rest) = text.split_once(" 1 ").unwrap();
    assert_eq!(
        rest,
        "127.0.0.1 203.0.113.7 5000 203.0.113.7 5000 192.0.2.1 81 81 http"
    );
}

#[test]
fn attempts_are_joined_and_other_actions_separated() {
    let backend = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let failing = Backend::answering("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n");
    let (good, gone, bad) = (
        backend.address.to_string(),
        nowhere(),
        failing.address.to_string(),
    );
    let site = site(
        "",
        &format!(
            r#", "upstreams": {{"two": {{"servers": {{"{gone}": {{"weight": 100}}, "{good}": {{}}}}}}}}"#
        ),
        &format!(
            r#"[{{"match": {{"uri": "/page"}}, "action": {{"proxy": "http://{bad}", "intercept_errors": true,
                    "error_pages": {{"404": {{"proxy": "http://{good}", "response_headers_always": {{"X-Seen": "$upstream_status"}}}}}}}}}},
                {{"match": {{"uri": "/none"}}, "action": {{"proxy": "http://{gone}"}}}},
                {{"match": {{"uri": "/own"}}, "action": {{"return": 200}}}},
                {{"action": {{"pass": "upstreams/two"}}}}]"#
        ),
    );
    assert_eq!(site.get("/two").text(), "hello");
    let two = logged(&site, "/two");
    assert_eq!(two[1], format!("{gone}, {good}"));
    assert_eq!(two[2..5], ["502, 200", "0, 5", "-"]);
    assert!(two[6].starts_with("-, 0.") && two[7].starts_with("-, 0."));

    let page = site.get("/page");
    assert_eq!(
        (page.status, page.field("X-Seen")),
        (404, Some("404 : 200"))
    );
    let line = logged(&site, "/page");
    assert_eq!(
        line[1..4],
        [
            format!("{bad} : {good}"),
            "404 : 200".into(),
            "3 : 5".into()
        ]
    );

    assert_eq!(site.get("/none").status, 502);
    assert_eq!(logged(&site, "/none")[2], "502");
    // Bytes as they were sent.
    let reply = site.exchange("GET /own HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let own = logged(&site, "/own");
    assert_eq!(own[1..4], ["-", "-", "-"]);
    assert_eq!(own[5], reply.len().to_string());
}

#[test]
fn the_cache_says_what_it_did() {
    let backend = Backend::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nhello",
    );
    let site = site(
        "",
        r#", "settings": {"cache": {"pages": {}}}"#,
        &format!(
            r#"[{{"action": {{"proxy": "http://{}", "cache": {{"store": "pages", "bypass": "$arg_past"}},
                "response_headers": {{"X-Cache": "$cache_status"}}}}}}]"#,
            backend.address
        ),
    );
    for (target, status) in [
        ("/a", Some("MISS")),
        ("/a", Some("HIT")),
        ("/a?past=1", Some("BYPASS")),
    ] {
        assert_eq!(site.get(target).field("X-Cache"), status, "{target}");
    }
}

#[test]
fn files_and_fields_have_the_groups_of_their_step() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes/main"}}}}, "routes": {{
                "main": [
                    {{"match": {{"uri": "~^/f/(?<name>.*?)(!)?$"}}, "action": {{
                        "share": "{folder}/files/$match_name",
                        "response_headers_always": {{"X-Group": "<$match_1>", "X-Mark": "$match_2"}},
                        "error_pages": {{"404": {{"pass": "routes/page"}}}}}}}},
                    {{"match": {{"uri": "~^/g(.*)$"}}, "action": {{"share": "{folder}/files/$match_1"}}}}],
                "page": [{{"match": {{"uri": "~^/(.)"}}, "action": {{"return": 410, "body": "page $match_1"}}}}]}}}}"#
        )
    });
    site.write("files/a.txt", "a");
    site.write("secret.txt", "secret");
    let found = site.get("/f/a.txt");
    assert_eq!((found.status, &*found.text()), (200, "a"));
    assert_eq!(found.field("X-Group"), Some("<a.txt>"));
    assert_eq!(
        found.field("X-Mark"),
        None,
        "an empty value omits the field"
    );
    assert_eq!(site.get("/f/a.txt!").field("X-Mark"), Some("!"));
    // The field of the error page is that of the action, whose groups it has; the page has its own.
    let missing = site.get("/f/b%FFb");
    assert_eq!((missing.status, &*missing.text()), (404, "page f"));
    assert_eq!(missing.field("X-Group"), Some("<b\u{fffd}b>"));
    // No group leads out of the folder.
    for target in [
        "/g../secret.txt",
        "/g..%2Fsecret.txt",
        "/f/..%2Fsecret.txt",
        "/g/..%2f../secret.txt",
    ] {
        let reply = site.get(target);
        assert!(
            matches!(reply.status, 400 | 403 | 404 | 410),
            "{target}: {}",
            reply.status
        );
        assert!(!reply.text().contains("secret"), "{target}");
    }
    assert_eq!(site.get("/g/a.txt").text(), "a");
    assert_eq!(site.get("/g../secret.txt").status, 403);
}

/// Nothing of the maps before stays.
#[test]
fn changed_maps_are_in_force_at_once() {
    let config = |maps: &str| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "maps": {{{maps}}},
                "routes": [{{"match": {{"if": "$map_closed"}}, "action": {{"return": 403}}}},
                           {{"action": {{"return": 200, "body": "$map_text", "limit": [{{"rate": "1000r/s", "burst": 100, "key": "$map_text"}}],
                                         "response_headers": {{"X-Map": "`${{vars.map_text}}`"}}}}}}]}}"#
        )
    };
    let first = r#""closed": {"key": "$uri", "values": {"/closed": "1"}}, "text": {"key": "$arg_a", "values": {"1": "one"}, "default": "none"}"#;
    let site = Site::new(1, |_| config(first));
    let mut client = site.connect();
    let mut ask = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let reply = client.response("GET");
        format!(
            "{} {} {}",
            reply.status,
            reply.text(),
            reply.field("X-Map").unwrap_or_default()
        )
    };
    assert_eq!(ask("/?a=1"), "200 one one");
    assert!(ask("/closed").starts_with("403"));
    // Only the values of maps change; everything that names them does not.
    let second = first.replace("/closed", "/").replace("one", "eins");
    site.configure(&config(&second)).unwrap();
    assert_eq!(ask("/closed?a=1"), "200 eins eins");
    assert!(ask("/?a=1").starts_with("403"));
    // A wrong change leaves them.
    site.configure(&config(&second.replace("/\"", "~(\"")))
        .unwrap_err();
    assert_eq!(ask("/closed?a=1"), "200 eins eins");
}

#[test]
fn a_log_has_the_length_of_a_request_and_the_beginning_of_its_body() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/none"}}, "action": {{"return": 200, "access_log": {{"path": "{folder}/other.log", "format": "$uri|$request_length"}}}}}},
                            {{"action": {{"return": 200, "response_headers": {{"X-Body": "[$request_body]"}}}}}}],
                 "access_log": {{"path": "{folder}/access.log", "format": "$request_uri|$request_length|$request_body"}}}}"#
        )
    });
    let send = |target: &str, fields: &str, body: &str| {
        let mut client = site.connect();
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        client.send(format!("{head}{body}"));
        let response = client.response("POST");
        // Only the log has it.
        assert_eq!(
            (response.status, response.field("X-Body")),
            (200, Some("[]"))
        );
        head.len()
    };
    let head = send("/short", "Content-Length: 7\r\n", "a=\"1\"\nb");
    let expected = ["/short", &(head + 7).to_string(), "a=\\x221\\x22\\x0Ab"];
    assert_eq!(logged(&site, "/short"), expected);

    let chunked = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let head = send("/chunked", "Transfer-Encoding: chunked\r\n", chunked);
    let expected = ["/chunked", &(head + 5).to_string(), "abcde"];
    assert_eq!(logged(&site, "/chunked"), expected);

    let long = "x".repeat(20_000);
    let head = send("/long", "Content-Length: 20000\r\n", &long);
    let expected = ["/long", &(head + 20_000).to_string(), &long[..16 * 1024]];
    assert_eq!(logged(&site, "/long"), expected);

    // The next request on the same connection has none of it.
    let mut client = site.connect();
    client.send("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nabGET /second HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response("POST").status, 200);
    assert_eq!(client.response("GET").status, 200);
    assert_eq!(logged(&site, "/first")[2], "ab");
    assert_eq!(logged(&site, "/second")[2], "-");
}
