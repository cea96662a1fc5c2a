//! Settings of listeners and actions: `http`, access logs, maintenance.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use support::Site;
use support::backend::Backend;
use tutti_testkit::{PATIENCE, client::Client, wait_until};

/// The status and the body of a response over HTTP/2 to a request with this body.
fn over_http2(address: SocketAddr, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://test{target}"))
        .body(())
        .unwrap();
    let body = Bytes::copy_from_slice(body);
    runtime.block_on(async {
        let talk = async {
            let socket = tokio::net::TcpStream::connect(address).await.unwrap();
            let (client, connection) = h2::client::handshake(socket).await.unwrap();
            let connection = tokio::spawn(connection);
            let mut client = client.ready().await.unwrap();
            let (response, mut stream) = client.send_request(request, body.is_empty()).unwrap();
            if !body.is_empty() {
                // A server that refuses the request may have reset the stream.
                let _ = stream.send_data(body, true);
            }
            let (head, mut receive) = response.await.unwrap().into_parts();
            let mut content = Vec::new();
            while let Some(Ok(data)) = receive.data().await {
                content.extend_from_slice(&data);
                let _ = receive.flow_control().release_capacity(data.len());
            }
            connection.abort();
            (head.status.as_u16(), content)
        };
        tokio::time::timeout(PATIENCE, talk)
            .await
            .expect("an answer in time")
    })
}

/// The status of a POST with a body of this length, over HTTP/1 and over HTTP/2.
fn post(site: &Site, listener: usize, target: &str, length: usize) -> u16 {
    let address = site.server.listeners()[listener].bound_address().unwrap();
    let body = vec![b'x'; length];
    let mut client = Client::to(address);
    client.send(format!(
        "POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n"
    ));
    client.send(&body);
    let status = client.response("POST").status;
    let (other, _) = over_http2(address, "POST", target, &body);
    assert_eq!(status, other, "{target} {length}");
    status
}

#[test]
fn the_largest_body_is_that_of_the_innermost_level() {
    let site = Site::new(2, |_| {
        r#"{"listeners": {
                "127.0.0.1:1": {"pass": "routes/main"},
                "127.0.0.1:2": {"pass": "routes/main", "http": {"max_body_size": 300}}},
            "settings": {"http": {"max_body_size": 100}},
            "routes": {
                "main": [
                    {"match": {"uri": "/large/*"}, "action": {"pass": "routes/inner", "http": {"max_body_size": "1K"}}},
                    {"match": {"uri": "/none"}, "action": {"return": 200, "http": {"max_body_size": 0}}},
                    {"action": {"return": 200, "http": {"server_version": false}}}],
                "inner": [
                    {"match": {"uri": "/large/small"}, "action": {"return": 200, "http": {"max_body_size": 10}}},
                    {"action": {"return": 200}}]}}"#
            .to_owned()
    });
    for (listener, target, most) in [
        (0, "/", 100),
        (1, "/", 300),
        (0, "/large/x", 1024),
        (1, "/large/x", 1024),
        (1, "/large/small", 10),
        (0, "/none", 0),
        (1, "/none", 0),
    ] {
        if most > 0 {
            assert_eq!(
                post(&site, listener, target, most),
                200,
                "{target} {listener}"
            );
        }
        assert_eq!(
            post(&site, listener, target, most + 1),
            413,
            "{target} {listener}"
        );
    }
    // A body of unknown length is measured as it arrives.
    let chunked = "POST /large/small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   b\r\n01234567890\r\n0\r\n\r\n";
    let mut client = site.connect();
    client.send(chunked);
    assert_eq!(client.response("POST").status, 413);
    // The other options are those of the outer level.
    let server = |target| site.get(target).field("Server").unwrap().to_owned();
    assert_eq!(server("/"), "Tutti");
    assert_ne!(server("/large/x"), "Tutti");
}

#[test]
fn a_streamed_body_is_limited_before_the_server_gets_it_all() {
    let backend = Backend::new(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let site = Site::new(2, |_| {
        let proxy = format!(
            r#""proxy": "http://{}", "proxy_options": {{"request_buffering": false}}"#,
            backend.address
        );
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/small"}}, "action": {{{proxy}, "http": {{"max_body_size": 100}}}}}},
                            {{"action": {{{proxy}}}}}]}}"#
        )
    });
    assert_eq!(post(&site, 0, "/small", 100), 200);
    assert_eq!(post(&site, 0, "/small", 101), 413);
    assert_eq!(post(&site, 0, "/other", 101), 200);
}

#[test]
fn compression_can_be_off_or_different_in_one_action() {
    let site = Site::new(2, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "settings": {{"http": {{"compression": {{"types": "text/plain", "compressors": [{{"encoding": "gzip"}}]}}}}}},
                 "routes": [
                    {{"match": {{"uri": "/off/*"}}, "action": {{"share": "{folder}$uri", "http": {{"compression": false}}}}}},
                    {{"match": {{"uri": "/css/*"}}, "action": {{"share": "{folder}$uri", "http": {{"compression": {{"types": "text/css"}}}}}}}},
                    {{"match": {{"uri": "/br/*"}}, "action": {{"share": "{folder}$uri", "http": {{"compression": {{"compressors": {{"encoding": "br"}}}}}}}}}},
                    {{"action": {{"share": "{folder}$uri"}}}}]}}"#
        )
    });
    for folder in ["", "off/", "css/", "br/"] {
        site.write(&format!("{folder}a.txt"), "text ".repeat(500));
        site.write(&format!("{folder}a.css"), "a {} ".repeat(500));
    }
    let coding = |target: &str| {
        let reply = site.request("GET", target, "Accept-Encoding: gzip, br\r\n");
        assert_eq!(reply.status, 200);
        reply.field("Content-Encoding").map(str::to_owned)
    };
    for (target, expected) in [
        ("/a.txt", Some("gzip")),
        ("/a.css", None),
        ("/off/a.txt", None),
        ("/css/a.txt", None),
        ("/css/a.css", Some("gzip")),
        ("/br/a.txt", Some("br")),
        ("/br/a.css", None),
    ] {
        assert_eq!(coding(target).as_deref(), expected, "{target}");
    }
}

#[test]
fn rules_for_heads_are_those_of_the_listener() {
    let site = Site::new(2, |_| {
        r#"{"listeners": {
                "127.0.0.1:1": {"pass": "routes"},
                "127.0.0.1:2": {"pass": "routes", "http": {
                    "merge_slashes": false, "backslashes": true, "chunked_transform": false,
                    "large_header_buffer_size": 500, "large_header_buffers": 1,
                    "request_id": {"response": true}}}},
            "routes": [{"match": {"uri": "/a/b"}, "action": {"return": 204}}, {"action": {"return": 200}}]}"#
            .to_owned()
    });
    let ask = |listener: usize, head: &str| {
        let address = site.server.listeners()[listener].bound_address().unwrap();
        let mut client = Client::to(address);
        client.send(head);
        client.response("GET")
    };
    let both = |head: &str| [0, 1].map(|listener| ask(listener, head).status);
    assert_eq!(both("GET /a//b HTTP/1.1\r\nHost: a\r\n\r\n"), [204, 200]);
    assert_eq!(both("GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n"), [400, 200]);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n",
        "x".repeat(1000)
    );
    assert_eq!(both(&long), [200, 431]);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(both(chunked), [200, 411]);
    let plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(ask(0, plain).field("X-Request-Id"), None);
    assert!(ask(1, plain).field("X-Request-Id").is_some());
    // Over HTTP/2, too.
    let address = |listener: usize| site.server.listeners()[listener].bound_address().unwrap();
    assert_eq!(over_http2(address(0), "GET", "/a//b", b"").0, 204);
    assert_eq!(over_http2(address(1), "GET", "/a//b", b"").0, 200);
}

#[test]
fn a_connection_has_the_timeouts_of_its_listener() {
    let site = Site::new(2, |_| {
        r#"{"listeners": {
                "127.0.0.1:1": {"pass": "routes"},
                "127.0.0.1:2": {"pass": "routes", "http": {"idle_timeout": 0}},
                "127.0.0.1:3": {"pass": "routes", "http": {"header_read_timeout": 1}}},
            "routes": [{"action": {"return": 200, "http": {"body_read_timeout": 0}}}]}"#
            .to_owned()
    });
    let client = |listener: usize| {
        let address = site.server.listeners()[listener].bound_address().unwrap();
        Client::to(address)
    };
    let plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    // The second request is answered on the first, and the other connection ends.
    let mut kept = client(0);
    let mut ended = client(1);
    for client in [&mut kept, &mut ended] {
        client.send(plain);
        assert_eq!(client.response("GET").status, 200);
    }
    assert!(ended.read_to_end().starts_with("HTTP/1.1 408 "));
    kept.send(plain);
    assert_eq!(kept.response("GET").status, 200);
    let mut slow = client(2);
    slow.send("GET / HTTP/1.1\r\n");
    assert!(slow.read_to_end().starts_with("HTTP/1.1 408 "));
    // That of the action.
    kept.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(kept.response("POST").status, 408);
}

#[test]
fn access_logs_of_listeners_and_actions_replace_the_outer_ones() {
    let site = Site::new(2, |folder| {
        format!(
            r#"{{"listeners": {{
                    "127.0.0.1:1": {{"pass": "routes/main"}},
                    "127.0.0.1:2": {{"pass": "routes/main", "access_log": {{"path": "{folder}/second.log", "format": "second $uri"}}}}}},
                 "access_log": {{"path": "{folder}/all.log", "format": "all $uri $status"}},
                 "routes": {{"main": [
                    {{"match": {{"uri": "/none/*"}}, "action": {{"pass": "routes/inner", "access_log": false}}}},
                    {{"match": {{"uri": "/empty"}}, "action": {{"return": 200, "access_log": []}}}},
                    {{"match": {{"uri": "/two"}}, "action": {{"return": 404,
                        "error_pages": {{"404": {{"share": "{folder}/page.html"}}}},
                        "access_log": [{{"path": "{folder}/two.log", "format": "two $uri $status"}},
                                       {{"path": "{folder}/errors.log", "format": "errors $uri", "if": "$arg_log"}}]}}}},
                    {{"action": {{"return": 200}}}}],
                  "inner": [
                    {{"match": {{"uri": "/none/own"}}, "action": {{"return": 200, "access_log": "{folder}/own.log"}}}},
                    {{"action": {{"return": 200}}}}]}}}}"#
        )
    });
    site.write("page.html", "a page");
    let get = |listener: usize, target: &str| {
        let address = site.server.listeners()[listener].bound_address().unwrap();
        let mut client = Client::to(address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response("GET").status
    };
    for listener in [0, 1] {
        for target in ["/none/x", "/none/own", "/empty"] {
            assert_eq!(get(listener, target), 200);
        }
    }
    // The request of an error page has the settings of the action that failed.
    assert_eq!(get(0, "/two"), 404);
    assert_eq!(get(0, "/two?log=1"), 404);
    let address = site.server.listeners()[0].bound_address().unwrap();
    assert_eq!(over_http2(address, "GET", "/two", b"").0, 404);
    for listener in [0, 1] {
        assert_eq!(get(listener, "/last"), 200);
    }
    let read = |name: &str| std::fs::read_to_string(site.path().join(name)).unwrap_or_default();
    wait_until("every line is written", || {
        read("all.log").ends_with("/last 200\n") && read("second.log").ends_with("/last\n")
    });
    assert_eq!(read("all.log"), "all /last 200\n");
    assert_eq!(read("second.log"), "second /last\n");
    assert_eq!(read("two.log"), "two /two 404\n".repeat(3));
    assert_eq!(read("errors.log"), "errors /two\n");
    assert_eq!(read("own.log").lines().count(), 2);
}

#[test]
fn maintenance_of_an_action_closes_only_that_part() {
    let site = Site::new(2, |folder| {
        format!(
            r#"{{"listeners": {{
                    "127.0.0.1:1": {{"pass": "routes/main"}},
                    "127.0.0.1:2": {{"pass": "routes/main", "maintenance": {{"retry_after": 9}}}}}},
                 "routes": {{"main": [
                    {{"match": {{"uri": "/shop/*"}}, "action": {{"pass": "routes/shop",
                        "maintenance": {{"retry_after": 77, "page": "{folder}/shop.html"}}}}}},
                    {{"match": {{"uri": "/own"}}, "action": {{"return": 200, "maintenance": {{"except": "127.0.0.1"}}}}}},
                    {{"action": {{"return": 200}}}}],
                  "shop": [{{"action": {{"return": 200}}}}]}}}}"#
        )
    });
    site.write("shop.html", "the shop is closed");
    let get = |listener: usize, target: &str| {
        let address = site.server.listeners()[listener].bound_address().unwrap();
        let mut client = Client::to(address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let reply = client.response("GET");
        let (status, _) = over_http2(address, "GET", target, b"");
        assert_eq!(status, reply.status, "{target}");
        let retry = reply.field("Retry-After").unwrap_or_default().to_owned();
        (reply.status, retry, reply.text())
    };
    let closed = (503, "77".to_owned(), "the shop is closed".to_owned());
    assert_eq!(get(0, "/shop/a"), closed);
    assert_eq!(get(0, "/").0, 200);
    // A client that an inner maintenance excepts is not excepted from an outer one.
    assert_eq!(get(0, "/own").0, 200);
    for (target, retry) in [("/shop/a", "77"), ("/", "9"), ("/own", "9")] {
        let (status, after, _) = get(1, target);
        assert_eq!((status, after.as_str()), (503, retry), "{target}");
    }
}
