//! The cache of responses, in front of servers and applications: docs/http/cache.md by example, and what attackers try.

#[path = "cache/origin.rs"]
mod origin;
#[path = "cache/personal.rs"]
mod personal;
#[path = "cache/slices.rs"]
mod slices;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use origin::{Origin, answer, field};
use serde_json::{Value, json};
use tutti_e2e::clocks::Clocks;
use tutti_e2e::documents::{chapter, json_examples};
use tutti_testkit::client::{self, Reply};
use tutti_testkit::server::built;
use tutti_testkit::{Server, ServerOptions, guide, wait_until};

/// A server in front of this origin, with these options of `cache`.
fn caching(origin: &Origin, cache: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    configure(&server, origin, cache);
    server
}

fn configure(server: &Server, origin: &Origin, cache: &Value) {
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": {"proxy": origin.url(), "cache": cache}}],
            "settings": {"cache": {"pages": {}}},
        }),
    );
}

/// The answer to a configuration with these options of `cache`, and these stores.
fn with_store(cache: &Value, stores: &Value) -> (u16, String) {
    let server = Server::start(&ServerOptions::default());
    let config = json!({
        "routes": [{"action": {"proxy": "http://127.0.0.1:1", "cache": cache}}],
        "settings": {"cache": stores},
    });
    let reply = server.call("PUT", "/config", &config);
    (reply.status, reply.text())
}

/// A request with these fields, each with its end.
fn send(server: &Server, method: &str, target: &str, fields: &str) -> Reply {
    let text = format!(
        "{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n"
    );
    client::request(server.address(), text.as_bytes()).unwrap()
}

fn get(server: &Server, target: &str) -> Reply {
    send(server, "GET", target, "")
}

fn cache_status(reply: &Reply) -> &str {
    reply.field("cache-status").unwrap_or_default()
}

fn is_hit(reply: &Reply) -> bool {
    cache_status(reply).starts_with("Tutti; hit")
}

/// An origin that numbers its answers.
fn counting(fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        answer(200, fields, &format!("answer {number}"))
    })
}

#[test]
fn a_response_is_used_again() {
    let origin = counting("Cache-Control: max-age=600\r\nETag: \"a\"\r\nX-Own: yes\r\n");
    let server = caching(&origin, &json!("pages"));
    let first = get(&server, "/x?y");
    assert_eq!(
        cache_status(&first),
        "Tutti; fwd=uri-miss; fwd-status=200; stored"
    );
    let second = get(&server, "/x?y");
    assert!(is_hit(&second), "{}", cache_status(&second));
    assert_eq!(second.text(), "answer 1");
    assert!(second.field("age").unwrap().parse::<u64>().unwrap() < 60);
    assert_eq!(second.field("x-own"), Some("yes"));
    assert!(second.field("date").is_some());
    // A HEAD gets the same without the body, another target is another response.
    let head = send(&server, "HEAD", "/x?y", "");
    assert!(is_hit(&head) && head.field("content-length") == Some("8"));
    assert_eq!(get(&server, "/x?z").text(), "answer 2");
    // The client has it already, or wants a part.
    for tags in ["\"a\"", "\"b\"\r\nIf-None-Match: \"a\""] {
        let fields = format!("If-None-Match: {tags}\r\n");
        let same = send(&server, "GET", "/x?y", &fields);
        assert_eq!((same.status, same.text().as_str()), (304, ""), "{tags}");
    }
    let part = send(&server, "GET", "/x?y", "Range: bytes=0-1\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "an"));
    assert_eq!(part.field("content-range"), Some("bytes 0-1/8"));
    let none = send(&server, "GET", "/x?y", "Range: bytes=90-\r\n");
    assert_eq!(
        (none.status, none.field("content-range")),
        (416, Some("bytes */8"))
    );
    let other = send(
        &server,
        "GET",
        "/x?y",
        "Range: bytes=0-1\r\nIf-Range: \"b\"\r\n",
    );
    assert_eq!((other.status, other.text().as_str()), (200, "answer 1"));
    assert_eq!(origin.count(), 2);
    // A method that changes something makes it invalid.
    assert_eq!(
        send(&server, "POST", "/x?y", "Content-Length: 0\r\n").status,
        200
    );
    assert_eq!(get(&server, "/x?y").text(), "answer 4");
}

#[test]
fn a_client_that_has_the_response_gets_304_and_fills_the_cache() {
    let origin = counting("Cache-Control: max-age=600\r\nETag: \"a\"\r\n");
    let server = caching(&origin, &json!("pages"));
    let tags = "If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n";
    let first = send(&server, "GET", "/", tags);
    assert_eq!((first.status, first.text().as_str()), (304, ""));
    assert_eq!(field(&origin.heads()[0], "if-none-match"), None);
    assert_eq!(get(&server, "/").text(), "answer 1");
}

#[test]
fn what_is_for_one_client_is_not_stored() {
    let origin = Origin::start(|head| {
        let target = head.split(' ').nth(1).unwrap();
        let fields = match target {
            "/no-store" => "Cache-Control: no-store, max-age=600\r\n",
            "/private" => "Cache-Control: private, max-age=600\r\n",
            "/cookie" => "Cache-Control: max-age=600\r\nSet-Cookie: a=1\r\n",
            "/vary" => "Cache-Control: max-age=600\r\nVary: *\r\n",
            "/targeted" => "Cache-Control: max-age=600\r\nCDN-Cache-Control: no-store\r\n",
            "/silent" => "",
            _ => "Cache-Control: max-age=600\r\n",
        };
        answer(200, fields, "x")
    });
    let server = caching(&origin, &json!("pages"));
    for (target, why) in [
        ("/no-store", "no-store"),
        ("/private", "private"),
        ("/cookie", "set-cookie"),
        ("/vary", "vary"),
        ("/targeted", "no-store"),
        ("/silent", "no-lifetime"),
    ] {
        for _ in 0..2 {
            let reply = get(&server, target);
            let detail = format!("Tutti; fwd=uri-miss; fwd-status=200; detail={why}");
            assert_eq!(cache_status(&reply), detail, "{target}");
        }
    }
    for _ in 0..2 {
        let reply = send(&server, "GET", "/", "Authorization: Basic YTpi\r\n");
        assert!(
            cache_status(&reply).ends_with("detail=authorization"),
            "{}",
            cache_status(&reply)
        );
    }
    // Nor does a request with it get what others have got.
    assert!(!is_hit(&get(&server, "/")));
    assert!(is_hit(&get(&server, "/")));
    assert!(!is_hit(&send(
        &server,
        "GET",
        "/",
        "Authorization: Basic YTpi\r\n"
    )));
    let status = server.status("/cache/pages");
    assert_eq!(status["entries"], json!(1));
}

#[test]
fn times_of_the_configuration_are_not_for_clients_with_cookies() {
    let origin = counting("");
    let server = caching(
        &origin,
        &json!({"store": "pages", "valid": {"200": 600, "any": 5}}),
    );
    let with_cookie = || send(&server, "GET", "/", "Cookie: session=1\r\n");
    assert_eq!(with_cookie().text(), "answer 1");
    assert_eq!(get(&server, "/").text(), "answer 2");
    assert_eq!(get(&server, "/").text(), "answer 2");
    assert_eq!(with_cookie().text(), "answer 3");
    // Where it is known which cookies matter, others do not.
    let cookies = json!({"store": "pages", "valid": 600, "cookies": "session*"});
    configure(&server, &origin, &cookies);
    assert_eq!(
        cache_status(&with_cookie()),
        "Tutti; fwd=bypass; fwd-status=200"
    );
    assert_eq!(
        send(&server, "GET", "/", "Cookie: _ga=1\r\n").text(),
        "answer 2"
    );
    let bypass = json!({"store": "pages", "valid": 600, "bypass": "$arg_fresh"});
    configure(&server, &origin, &bypass);
    assert!(cache_status(&get(&server, "/?fresh=1")).starts_with("Tutti; fwd=bypass"));
    assert!(!cache_status(&get(&server, "/?fresh=0")).starts_with("Tutti; fwd=bypass"));
}

/// Issue 28, 1.7: only the first of two fields was looked at.
#[test]
fn any_field_with_cookies_makes_a_request_personal() {
    let origin = counting("");
    let server = caching(&origin, &json!({"store": "pages", "valid": 600}));
    let two = |fields: &str| send(&server, "GET", "/", fields).text();
    assert_eq!(two("Cookie:\r\nCookie: session=1\r\n"), "answer 1");
    assert_eq!(get(&server, "/").text(), "answer 2");
    assert_eq!(two("Cookie:\r\nCookie: session=2\r\n"), "answer 3");
    assert_eq!(two("Cookie:\r\nCookie:\r\n"), "answer 2");
    let no_store = "Cache-Control: no-cache\r\nCache-Control: no-store\r\n";
    assert!(!cache_status(&send(&server, "GET", "/other", no_store)).ends_with("; stored"));
}

/// Issue 28, 1.7: what one action tells the origin was no part of the key, so that others got what was made for internal clients.
#[test]
fn fields_that_the_server_sets_are_part_of_the_key() {
    let origin = Origin::start(|head| {
        let said = |name| field(head, name).unwrap_or_default();
        let body = [said("x-internal"), said("x-plan"), said("x-vary")].join("/");
        answer(200, "Cache-Control: max-age=600\r\nVary: X-Vary\r\n", &body)
    });
    let server = Server::start(&ServerOptions::default());
    let action =
        |fields: Value| json!({"proxy": origin.url(), "cache": "pages", "request_headers": fields});
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [
                {"match": {"headers": {"X-From": "office"}},
                 "action": action(json!({"X-Internal": "1", "X-Plan": "$header_x_plan"}))},
                {"match": {"headers": {"X-From": "proxy"}},
                 "action": action(json!({"X-Real-IP": "$remote_addr", "X-Id": "$request_id"}))},
                {"match": {"headers": {"X-From": "vary"}},
                 "action": action(json!({"X-Vary": "$request_id"}))},
                {"action": {"proxy": origin.url(), "cache": "pages"}},
            ],
            "settings": {"cache": {"pages": {}}},
        }),
    );
    let office = |plan: &str| {
        send(
            &server,
            "GET",
            "/",
            &format!("X-From: office\r\nX-Plan: {plan}\r\n"),
        )
    };
    assert_eq!(office("gold").text(), "1/gold/");
    assert_eq!(office("basic").text(), "1/basic/");
    assert_eq!(get(&server, "/").text(), "//");
    assert!(is_hit(&office("gold")) && is_hit(&get(&server, "/")));
    assert_eq!(office("gold").text(), "1/gold/");
    // Address and id differ with each request, and say nothing that other actions do not tell.
    let behind = || send(&server, "GET", "/", "X-From: proxy\r\n");
    assert!(!is_hit(&behind()));
    assert!(is_hit(&behind()));
    // Unless the response says that it was chosen by them.
    let varied = || send(&server, "GET", "/", "X-From: vary\r\n");
    let first = varied().text();
    assert_ne!(first, varied().text());
    // One purge is for all of them.
    assert_eq!(
        send(&server, "POST", "/", "Content-Length: 0\r\n").status,
        200
    );
    assert!(!is_hit(&office("gold")));
}

/// RFC 10008 §2: QUERY is safe, so that it makes nothing invalid.
#[test]
fn a_query_leaves_what_is_stored_and_is_not_stored_itself() {
    let origin = counting("Cache-Control: max-age=600\r\nAccept-Query: application/sql\r\n");
    let server = caching(&origin, &json!("pages"));
    assert_eq!(get(&server, "/").text(), "answer 1");
    for method in ["QUERY", "PROPFIND", "REPORT"] {
        let reply = send(&server, method, "/", "Content-Length: 0\r\n");
        assert_eq!(
            cache_status(&reply),
            "Tutti; fwd=method; fwd-status=200",
            "{method}"
        );
        assert_eq!(reply.field("accept-query"), Some("application/sql"));
        assert_eq!(get(&server, "/").text(), "answer 1", "{method}");
    }
    // An unknown method may change anything.
    send(&server, "FROB", "/", "Content-Length: 0\r\n");
    assert_ne!(get(&server, "/").text(), "answer 1");
}

/// Issue 28, 1.8: while the time of day was set forward and back, ages stood still.
#[test]
fn a_clock_that_is_set_changes_no_age() {
    const YEAR: i64 = 31_536_000;
    let clocks = Clocks::new();
    let mut clock = clocks.make("server");
    let origin = counting("Cache-Control: max-age=2\r\n");
    let words = std::iter::once("env".to_owned());
    let server = Server::start(&ServerOptions {
        wrapper: words.chain(clock.environment()).collect(),
        ..ServerOptions::default()
    });
    configure(&server, &origin, &json!("pages"));
    clock.set(YEAR);
    // The clocks are compared now and then.
    server.wait_for_log("was set forward by 3153");
    let first = get(&server, "/").text();
    clock.set(0);
    // It would be fresh for a year.
    wait_until("the response is not fresh any more", || {
        get(&server, "/").text() != first
    });
    server.wait_for_log("was set back by 3153");
}

#[test]
fn responses_are_chosen_by_vary() {
    let origin = Origin::start(|head| {
        let language = field(head, "accept-language").unwrap_or_default();
        answer(
            200,
            "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n",
            &language,
        )
    });
    let server = caching(&origin, &json!("pages"));
    let ask = |language: &str| {
        send(
            &server,
            "GET",
            "/",
            &format!("Accept-Language: {language}\r\n"),
        )
    };
    for _ in 0..2 {
        for language in ["de", "en"] {
            assert_eq!(ask(language).text(), language);
        }
    }
    assert_eq!(origin.count(), 2);
    // However many there are, few are kept.
    for number in 0..200 {
        ask(&format!("x-{number}"));
    }
    let entries = server.status("/cache/pages/entries").as_u64().unwrap();
    assert!(entries <= 64, "{entries}");
}

#[test]
fn a_stale_response_is_validated() {
    let origin = Origin::start(|head| match field(head, "if-none-match") {
        Some(tag) if tag == "\"a\"" => answer(
            304,
            "ETag: \"a\"\r\nCache-Control: max-age=600\r\nX-New: 1\r\n",
            "",
        ),
        _ => answer(200, "ETag: \"a\"\r\nCache-Control: max-age=0\r\n", "body"),
    });
    let server = caching(&origin, &json!("pages"));
    assert_eq!(get(&server, "/").text(), "body");
    let validated = get(&server, "/");
    assert_eq!((validated.status, validated.text().as_str()), (200, "body"));
    assert!(
        cache_status(&validated).starts_with("Tutti; fwd=stale; fwd-status=304"),
        "{}",
        cache_status(&validated)
    );
    assert_eq!(validated.field("x-new"), Some("1"));
    assert!(is_hit(&get(&server, "/")));
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_stale_response_stands_in_for_an_error() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => answer(
            200,
            "Cache-Control: max-age=0, stale-if-error=600\r\n",
            "good",
        ),
        1 => answer(503, "", "broken"),
        _ => String::new(),
    });
    let server = caching(&origin, &json!("pages"));
    assert_eq!(get(&server, "/").text(), "good");
    for status in [503, 502] {
        let reply = get(&server, "/");
        assert_eq!((reply.status, reply.text().as_str()), (200, "good"));
        let expected = format!("fwd-status={status}");
        assert!(
            cache_status(&reply).contains(&expected),
            "{}",
            cache_status(&reply)
        );
    }
    // There is no stale response where there was none before.
    assert_eq!(get(&server, "/other").status, 502);
}

#[test]
fn equal_misses_are_one_request() {
    let gate = Arc::new(Barrier::new(2));
    let held = Arc::clone(&gate);
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            held.wait();
        }
        answer(200, "Cache-Control: max-age=600\r\n", "one")
    });
    let server = caching(&origin, &json!({"store": "pages", "lock_timeout": 60}));
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..12).map(|_| scope.spawn(|| get(&server, "/"))).collect();
        wait_until("all requests are there", || {
            server.status("/connections/active").as_u64() >= Some(12)
        });
        gate.wait();
        let replies: Vec<Reply> = asked.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(replies.iter().all(|reply| reply.text() == "one"));
    });
    assert_eq!(origin.count(), 1);
    let requests = server.status("/cache/pages/requests");
    let count = |name: &str| requests[name].as_u64().unwrap();
    // One whose turn came late found the response in the cache.
    assert_eq!(count("coalesced") + count("hit"), 11, "{requests}");
    assert!(count("coalesced") > 0, "{requests}");
}

#[test]
fn no_client_waits_for_a_request_that_does_not_end() {
    let count = AtomicUsize::new(0);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(60));
        }
        answer(200, "Cache-Control: max-age=600\r\n", "one")
    });
    let server = caching(&origin, &json!({"store": "pages", "lock_timeout": 0.2}));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| get(&server, "/"));
        wait_until("the first has been sent on", || origin.count() == 1);
        assert_eq!(get(&server, "/").text(), "one");
        release.send(()).unwrap();
        assert_eq!(slow.join().unwrap().text(), "one");
    });
}

#[test]
fn what_is_not_stored_makes_no_client_wait() {
    let all = Arc::new(Barrier::new(3));
    let together = Arc::clone(&all);
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        // The first answer says that it is not stored; the others come only if they are asked for together.
        if count.fetch_add(1, Ordering::Relaxed) > 0 {
            together.wait();
        }
        answer(200, "Cache-Control: no-store\r\n", "own")
    });
    let server = caching(&origin, &json!({"store": "pages", "lock_timeout": 600}));
    get(&server, "/");
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| get(&server, "/"))).collect();
        for one in asked {
            assert_eq!(one.join().unwrap().text(), "own");
        }
    });
}

#[test]
fn no_client_puts_something_into_what_others_get() {
    // It believes everything that frameworks are known to believe.
    let origin = Origin::start(|head| {
        let believed = [
            "x-forwarded-host",
            "x_forwarded_host",
            "x-original-url",
            "x-http-method-override",
            "x-forwarded-proto",
        ];
        let seen: Vec<String> = believed
            .iter()
            .filter_map(|name| field(head, name))
            .collect();
        let host = field(head, "host").unwrap_or_default();
        let body = format!(
            "{} {host} {}",
            head.split("\r\n\r\n").nth(1).unwrap_or_default(),
            seen.join(" ")
        );
        answer(200, "Cache-Control: public, max-age=600\r\n", &body)
    });
    let server = caching(&origin, &json!("pages"));
    let http = json!({"discard_unsafe_fields": false});
    server.put("/config/settings/http", &http);
    for (number, fields) in [
        "X-Forwarded-Host: evil\r\n",
        "X_Forwarded_Host: evil\r\n",
        "x.forwarded.host: evil\r\n",
        "X-Original-URL: /evil\r\n",
        "X-HTTP-Method-Override: evil\r\n",
        "X_HTTP_Method: evil\r\n",
        "X-Forwarded-Proto: evil\r\n",
        "Forwarded: host=evil\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("/{number}");
        send(&server, "GET", &target, fields);
        let reply = get(&server, &target);
        assert!(!reply.text().contains("evil"), "{fields}: {}", reply.text());
    }
    // A body with GET, which no key has.
    let fat = send(&server, "GET", "/fat", "Content-Length: 0\r\n");
    assert_eq!(fat.status, 200);
    let text = "GET /fat HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 4\r\n\r\nevil";
    client::request(server.address(), text.as_bytes()).unwrap();
    assert!(!get(&server, "/fat").text().contains("evil"));
    // An address in the request line beside another host.
    let text = "GET http://a.example/host HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n";
    let _ = client::request(server.address(), text.as_bytes());
    assert!(!get(&server, "/host").text().contains("evil"));
    let text = "GET /case HTTP/1.1\r\nHost: A.EXAMPLE\r\nConnection: close\r\n\r\n";
    client::request(server.address(), text.as_bytes()).unwrap();
    assert!(!get(&server, "/case").text().contains("EXAMPLE"));
}

#[test]
fn a_response_that_is_not_whole_is_not_stored() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        let whole = answer(200, "Cache-Control: max-age=600\r\n", "all of it");
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => whole[..whole.len() - 4].to_owned(),
            _ => whole,
        }
    });
    let server = caching(&origin, &json!("pages"));
    let text = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let cut = client::raw(server.address(), text.as_bytes()).unwrap();
    assert!(!cut.ends_with(b"all of it"));
    let second = get(&server, "/");
    assert!(!is_hit(&second) && second.text() == "all of it");
    assert!(is_hit(&get(&server, "/")));
}

#[test]
fn responses_are_purged() {
    let origin = Origin::start(|head| {
        let target = head.split(' ').nth(1).unwrap();
        let fields = format!(
            "Cache-Control: max-age=600\r\nSurrogate-Key: all page{}\r\n",
            target.replace('/', "-")
        );
        answer(200, &fields, "x")
    });
    let server = caching(&origin, &json!("pages"));
    let fill = || {
        for target in ["/a/1", "/a/2", "/b"] {
            get(&server, target);
            assert!(is_hit(&get(&server, target)), "{target}");
        }
    };
    let purge = |path: &str| server.call("DELETE", path, &Value::Null);
    for (path, count) in [
        ("/control/cache/pages/keys/http%3A%2F%2Fa.example%2Fb", 1),
        (
            "/control/cache/pages/prefixes/http%3A%2F%2Fa.example%2Fa%2F",
            2,
        ),
        ("/control/cache/pages/tags/page-a-1", 1),
        ("/control/cache/pages/tags/all", 3),
        ("/control/cache/pages", 3),
        ("/control/cache/pages/tags/none", 0),
    ] {
        fill();
        let reply = purge(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let expected = format!("{count} responses purged.");
        assert_eq!(reply.json()["success"], json!(expected), "{path}");
        let left = server.status("/cache/pages/entries");
        assert_eq!(left, json!(3 - count), "{path}");
    }
    assert_eq!(purge("/control/cache/other").status, 404);
    assert_eq!(
        server
            .call("GET", "/control/cache/pages", &Value::Null)
            .status,
        405
    );
    let metrics = client::control(server.control(), "GET", "/metrics", b"")
        .unwrap()
        .text();
    assert!(
        metrics.contains("tutti_cache_responses_total{cache=\"pages\",event=\"purged\"} 10"),
        "{metrics}"
    );
}

#[test]
fn a_purge_counts_for_what_was_on_its_way() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |_| {
        let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(60));
        answer(200, "Cache-Control: max-age=600\r\n", "old")
    });
    let server = caching(&origin, &json!("pages"));
    std::thread::scope(|scope| {
        let held = scope.spawn(|| get(&server, "/held"));
        wait_until("it has been sent on", || origin.count() == 1);
        server.call("DELETE", "/control/cache/pages", &Value::Null);
        release.send(()).unwrap();
        assert_eq!(held.join().unwrap().text(), "old");
    });
    release.send(()).unwrap();
    assert!(!is_hit(&get(&server, "/held")));
}

#[test]
fn memory_is_bounded() {
    let body = "x".repeat(100_000);
    let origin = Origin::start(move |_| answer(200, "Cache-Control: max-age=600\r\n", &body));
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": {"proxy": origin.url(), "cache": "small"}}],
            "settings": {"cache": {"small": {"memory": "1M", "max_object": "200K"}}},
        }),
    );
    for number in 0..40 {
        assert_eq!(get(&server, &format!("/{number}")).text().len(), 100_000);
    }
    let status = server.status("/cache/small");
    assert!(status["memory"].as_u64().unwrap() <= 1 << 20, "{status}");
    assert!(
        status["responses"]["evicted"].as_u64().unwrap() >= 30,
        "{status}"
    );
    let last = get(&server, "/39");
    assert!(is_hit(&last) && last.text().len() == 100_000);
}

/// A server that keeps and compresses the responses of an application in Python.
fn with_compressed_pages(source: &str) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.write("pages.py", source);
    server.put(
        "/config",
        &json!({
            "settings": {"http": {"compression": {"compressors": [{"encoding": "gzip"}]}}, "cache": {"pages": {}}},
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": {"pass": "applications/app", "cache": "pages"}}],
            "applications": {"app": {"type": "python", "path": server.folder(), "module": "pages"}},
        }),
    );
    server
}

#[test]
fn answers_of_applications_are_kept_and_compressed() {
    let server = with_compressed_pages(
        "import itertools\nnumbers = itertools.count(1)\ndef application(environ, start_response):\n    body = (f'answer {next(numbers)} ' * 9000).encode()\n    start_response('200 OK', [('Content-Type', 'text/plain'), ('Cache-Control', 'max-age=600')])\n    return [body[:9], body[9:]]\n",
    );
    let compressed = || send(&server, "GET", "/", "Accept-Encoding: gzip\r\n");
    assert_eq!(compressed().field("content-encoding"), Some("gzip"));
    // The same answer for one who takes it as it is; larger than what is sent at once.
    let plain = get(&server, "/");
    assert!(is_hit(&plain), "{}", cache_status(&plain));
    assert_eq!(plain.text(), "answer 1 ".repeat(9000));
    let again = compressed();
    assert!(is_hit(&again) && again.body.len() < 10_000);
    assert_eq!(again.field("content-encoding"), Some("gzip"));
}

#[test]
fn parts_of_kept_answers_have_the_fields_of_the_whole() {
    let server = with_compressed_pages(
        "def application(environ, start_response):\n    start_response('200 OK', [('Content-Type', 'text/plain'), ('Cache-Control', 'max-age=600'), ('ETag', '\"one\"')])\n    return [b'answer ' * 1000]\n",
    );
    let at = |target: &str, status: u16, fields: &str| {
        let answer = send(&server, "GET", target, fields);
        assert_eq!(answer.status, status);
        if status == 304 {
            let of_content = ["content-length", "content-type", "content-encoding"];
            assert_eq!(of_content.map(|name| answer.field(name)), [None; 3]);
        }
        let field = |name| answer.field(name).unwrap_or_default().to_owned();
        (field("etag"), field("vary"))
    };
    let of = |tag: &str| (tag.to_owned(), "Accept-Encoding".to_owned());
    // A client that has the response already is the first.
    let first = "Accept-Encoding: gzip\r\nIf-None-Match: W/\"one\"\r\n";
    assert_eq!(at("/", 304, first), of("W/\"one\""));
    assert_eq!(
        at("/other", 304, "If-None-Match: \"one\"\r\n"),
        of("\"one\"")
    );
    let fields = |status, fields: &str| at("/", status, fields);
    // RFC 9110 §15.4.5: a 304 has the `ETag` and the `Vary` that this client's 200 has.
    let gzip = "Accept-Encoding: gzip\r\n";
    assert_eq!(fields(200, gzip), of("W/\"one\""));
    let unchanged = format!("{gzip}If-None-Match: W/\"one\"\r\n");
    assert_eq!(fields(304, &unchanged), of("W/\"one\""));
    assert_eq!(fields(200, ""), of("\"one\""));
    assert_eq!(fields(304, "If-None-Match: \"one\"\r\n"), of("\"one\""));
    // RFC 9110 §15.3.7: so has a 206, which is a part of what is not compressed.
    assert_eq!(fields(206, "Range: bytes=0-5\r\n"), of("\"one\""));
}

#[test]
fn mistakes_are_reported_with_their_cure() {
    let server = Server::start(&ServerOptions::default());
    let try_with = |action: Value, cache: Value| {
        let config = json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": action}],
            "settings": {"cache": cache},
        });
        server.call("PUT", "/config", &config).text()
    };
    let to = "http://127.0.0.1:1";
    let wrong = try_with(json!({"proxy": to, "cache": "page"}), json!({"pages": {}}));
    assert!(
        wrong.contains("there is no store `page`") && wrong.contains("pages"),
        "{wrong}"
    );
    let wrong = try_with(
        json!({"return": 200, "cache": "pages"}),
        json!({"pages": {}}),
    );
    assert!(wrong.contains("cache"), "{wrong}");
    let valid = json!({"store": "pages", "valid": {"20x": 5}});
    let wrong = try_with(json!({"proxy": to, "cache": valid}), json!({"pages": {}}));
    assert!(wrong.contains("`20x` is not a status"), "{wrong}");
    let wrong = try_with(json!({"proxy": to}), json!({"pages": {"memory": "1M"}}));
    assert!(wrong.contains("more than a quarter"), "{wrong}");
}

#[test]
fn a_stale_response_is_used_while_a_newer_one_is_fetched() {
    let count = AtomicUsize::new(0);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |head| {
        assert_eq!(field(head, "x-own").as_deref(), Some("yes"));
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            let fields = "Cache-Control: max-age=0, stale-while-revalidate=600\r\n";
            return answer(200, fields, "old");
        }
        let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(60));
        answer(200, "Cache-Control: max-age=600\r\n", "new")
    });
    let server = caching(&origin, &json!("pages"));
    let ask = || send(&server, "GET", "/", "X-Own: yes\r\n");
    assert_eq!(ask().text(), "old");
    // However often: one request goes out for all, and no client waits for it.
    for _ in 0..5 {
        assert_eq!(ask().text(), "old");
    }
    wait_until("a newer one is asked for", || origin.count() == 2);
    release.send(()).unwrap();
    wait_until("it is there", || ask().text() == "new");
    assert_eq!(origin.count(), 2);
    let requests = server.status("/cache/pages/requests");
    assert!(requests["stale"].as_u64() >= Some(5), "{requests}");
}

/// The examples of docs/http/cache.md, with this origin behind them.
fn documented(origin: &Origin, server: &Server) -> Vec<Value> {
    let port = format!("127.0.0.1:{}", server.port());
    let places = [
        ("*:8080", port.as_str()),
        ("http://127.0.0.1:9000", &origin.url()),
    ];
    json_examples(include_str!("../../../docs/http/cache.md"), &places)
}

#[test]
fn every_example_applies_and_serves() {
    let origin = counting("Cache-Control: max-age=600\r\n");
    let server = Server::start(&ServerOptions::default());
    let examples = documented(&origin, &server);
    assert!(examples.len() >= 3);
    for example in examples {
        server.put("/config", &example);
        let first = get(&server, "/?page=1").text();
        let second = get(&server, "/?page=1");
        assert!(is_hit(&second) && second.text() == first, "{example}");
        assert!(!is_hit(&send(
            &server,
            "GET",
            "/x?preview=1",
            "Cookie: PHPSESSID=1\r\n"
        )));
    }
}

#[test]
fn the_commands_of_the_guide_purge() {
    let origin = counting("Cache-Control: max-age=600\r\nSurrogate-Key: article-17\r\n");
    let server = Server::start(&ServerOptions::default());
    let examples = documented(&origin, &server);
    server.put("/config", &examples[0]);
    let commands = guide::commands(chapter(
        include_str!("../../../docs/http/cache.md"),
        "Purging",
    ));
    let control = server.control().display().to_string();
    let places = [
        ("sudo curl", "curl -sS"),
        ("/run/tutti/control.sock", &control),
    ];
    let mut count = 0;
    for command in guide::filled(&commands, &places) {
        let text = "GET /news HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n";
        client::request(server.address(), text.as_bytes()).unwrap();
        let done = Command::new("sh").args(["-c", &command]).output().unwrap();
        let reply: Value = serde_json::from_slice(&done.stdout).unwrap();
        let expected = json!({"success": "1 responses purged."});
        assert_eq!(reply, expected, "{command}");
        let again = client::request(server.address(), text.as_bytes()).unwrap();
        assert!(!is_hit(&again), "{command}");
        count += 1;
    }
    assert_eq!(count, 4);
}

/// Mark Nottingham's cases for HTTP caches. tests/conformance/cache/known.txt has those that fail, with the reasons.
#[test]
fn the_cases_for_http_caches_pass() {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/cache/run.py");
    let done = Command::new("python3")
        .arg(run)
        .arg("--tutti")
        .arg(built("tutti"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        done.status.success(),
        "{}{}",
        text(&done.stdout),
        text(&done.stderr)
    );
}

#[test]
fn the_response_to_an_authenticated_client_is_not_for_others() {
    let origin = Origin::start(|head| {
        let kept = "Cache-Control: max-age=600\r\n";
        match head.starts_with("GET /led") {
            true => answer(200, "X-Accel-Redirect: /inner/x\r\n", ""),
            false => answer(200, kept, "page"),
        }
    });
    let server = Server::start(&ServerOptions::default());
    let key = server.write("key", "a secret that is long enough for HS256");
    let jwt = json!({"algorithms": ["HS256"], "key_file": key, "cookie": "token"});
    let cache = json!({"store": "pages", "cookies": []});
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes/site"}},
            "routes": {
                "site": [{"action": {
                    "authenticate": {"jwt": jwt},
                    "proxy": origin.url(),
                    "cache": cache,
                    "internal": {"/inner/": "routes/inner"},
                }}],
                "inner": [{"action": {"proxy": origin.url(), "cache": cache}}],
            },
            "settings": {"cache": {"pages": {}}},
        }),
    );
    let token = r#"
import base64, hmac, json, time
part = lambda data: base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b'=')
text = part({'alg': 'HS256', 'typ': 'JWT'}) + b'.' + part({'sub': 'a', 'exp': int(time.time()) + 600})
digest = hmac.digest(b'a secret that is long enough for HS256', text, 'sha256')
print((text + b'.' + base64.urlsafe_b64encode(digest).rstrip(b'=')).decode())
"#;
    let made = Command::new("python3")
        .args(["-c", token])
        .output()
        .unwrap();
    let token = String::from_utf8(made.stdout).unwrap();
    let fields = format!("Cookie: token={}\r\n", token.trim());
    // Also the response that an internal redirect leads to.
    for target in ["/", "/", "/led", "/led"] {
        let reply = send(&server, "GET", target, &fields);
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (200, "page"),
            "{target}: {}",
            server.log()
        );
        assert!(
            cache_status(&reply).ends_with("detail=authorization"),
            "{target}: {}",
            cache_status(&reply)
        );
    }
    assert_eq!(get(&server, "/").status, 401);
}

/// A client gets the file that an answer leads to, and the page for an error; neither the answer nor the error is kept.
#[test]
fn what_is_answered_in_place_of_an_answer_is_not_kept() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |head| {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let kept = "Cache-Control: max-age=600\r\n";
        match head {
            _ if head.starts_with("GET /led") => {
                let fields = format!("{kept}X-Accel-Redirect: /protected/a.txt\r\n");
                answer(200, &fields, "not this")
            }
            _ if head.starts_with("GET /gone") => answer(404, kept, "not this"),
            _ if head.starts_with("GET /stale") && number > 1 => answer(503, "", "not this"),
            _ => answer(
                200,
                "Cache-Control: max-age=0, stale-if-error=600\r\nETag: \"a\"\r\n",
                "kept",
            ),
        }
    });
    let server = Server::start(&ServerOptions::default());
    let file = server.write("protected/a.txt", "the file");
    let folder = std::path::Path::new(&file).parent().unwrap().display();
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes/site"}},
            "routes": {
                "site": [{"action": {
                    "proxy": origin.url(),
                    "cache": "pages",
                    "internal": {"/protected/": "routes/protected"},
                    "intercept_errors": true,
                    "error_pages": {"4xx": {"return": 410}, "5xx": {"return": 503}},
                }}],
                "protected": [{"action": {"share": format!("{folder}$uri"), "prefix": "/protected"}}],
            },
            "settings": {"cache": {"pages": {}}},
        }),
    );
    // An answer that stands in for an error goes before the page for it.
    assert_eq!(get(&server, "/stale").text(), "kept");
    assert_eq!(get(&server, "/stale").text(), "kept");
    assert_eq!(origin.count(), 2);
    for number in 1..=2 {
        let led = get(&server, "/led");
        assert_eq!((led.status, led.text().as_str()), (200, "the file"));
        assert_eq!(led.field("x-accel-redirect"), None);
        assert_eq!(get(&server, "/gone").status, 410);
        assert_eq!(origin.count(), 2 + 2 * number);
    }
    assert_eq!(server.status("/cache/pages/entries"), json!(1));
}
