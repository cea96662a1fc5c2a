//! The same program, asked the same, under Tutti and under `net/http`: what handlers see and what comes back is the same,
//! but for the differences that are listed here with their reasons.
//!
//! A difference that is listed and does not show fails the test too, so that the list only shrinks.

use std::collections::BTreeSet;

use serde_json::json;
use tutti_e2e::answer::{ask, differences};
use tutti_e2e::external::{Plain, ProgramSite};
use tutti_testkit::client;

/// The differences in one request: the place and the reason.
type Differences = &'static [(&'static str, &'static str)];

/// Asks both each of the requests; `(target or whole request, differences)`.
fn compare(requests: &[(String, Differences)]) {
    let site = ProgramSite::start(&json!({}));
    let plain = Plain::start(&site.program());
    let mut wrong = String::new();
    for (request, differs) in requests {
        let ours = ask(site.server.address(), request.as_bytes());
        let theirs = ask(plain.address(), request.as_bytes());
        let found = differences(&ours, &theirs);
        let shown: BTreeSet<_> = found.keys().map(String::as_str).collect();
        let listed: BTreeSet<_> = differs.iter().map(|(place, _)| *place).collect();
        if shown != listed {
            let start: String = request.chars().take(200).collect();
            wrong.push_str(&format!("{start:?}, listed: {listed:?}\n"));
            for (place, both) in found {
                let both: String = both.chars().take(600).collect();
                wrong.push_str(&format!("  {place}: {both}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn request(method: &str, target: &str, fields: &str, body: &str) -> String {
    format!(
        "{method} {target} HTTP/1.1\r\nHost: example.test:8080\r\nConnection: close\r\n{fields}\r\n{body}"
    )
}

fn get(target: &str) -> (String, Differences) {
    (request("GET", target, "", ""), &[])
}

fn post(target: &str, kind: &str, body: &str) -> (String, Differences) {
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    (request("POST", target, &fields, body), &[])
}

#[test]
fn what_handlers_see() {
    compare(&[
        get("/request"),
        get("/request?"),
        get("/request?a=1&b=%C3%A9;c=d"),
        get("/request?a?b"),
        get("/request/%C3%A9%20x%2Fy"),
        get("/request/a;b,c=d:e@f!'()*~"),
        get("/request/a+b$c&d"),
        (request("GET", "/request", "User-Agent: x\r\nX-Two: 1\r\nx-two: 2\r\nX-EMPTY:\r\nCookie: a=b; c=d\r\n", ""), &[]),
        (request("HEAD", "/request", "", ""), &[]),
        (request("DELETE", "/request", "", ""), &[]),
        (request("OPTIONS", "/request", "", ""), &[]),
        (request("PROPFIND", "/request", "", ""), &[]),
        post("/request", "text/plain", "a body"),
        post("/request", "text/plain", ""),
        post("/request", "text/plain", &"long ".repeat(20_000)),
        (
            request("POST", "/request", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
            &[("body", "the length is known when the program gets the request, and said")],
        ),
        ("GET /request HTTP/1.0\r\n\r\n".to_owned(), &[]),
        ("GET /request HTTP/1.0\r\nHost: old\r\n\r\n".to_owned(), &[]),
        ("GET http://absolute.test/request?a HTTP/1.1\r\nHost: absolute.test\r\nConnection: close\r\n\r\n".to_owned(),
            &[("body", "the target is handed on in origin form")]),
    ]);
}

#[test]
fn what_comes_back() {
    let names = [
        "nothing",
        "html",
        "html-in-pieces",
        "html-flushed-early",
        "png",
        "type",
        "no-type",
        "encoded",
        "length",
        "length-wrong",
        "length-before",
        "late-fields",
        "late-fields-implicit",
        "twice",
        "several",
        "odd-values",
        "redirect",
        "not-found",
        "error",
        "file",
        "read-from",
        "read-from-unsized",
        "early-hints",
        "large-head",
        "no-hijack",
        "deadlines",
        "after-return",
        "timeout-handler",
    ];
    let mut requests: Vec<_> = names
        .iter()
        .map(|name| get(&format!("/response/{name}")))
        .collect();
    for code in [200, 201, 204, 206, 304, 400, 404, 418, 500, 503, 599] {
        requests.push(get(&format!("/response/status?code={code}")));
        requests.push(get(&format!("/response/status-text?code={code}")));
    }
    for name in [
        "html",
        "length",
        "read-from",
        "file",
        "nothing",
        "error",
        "redirect",
    ] {
        requests.push((request("HEAD", &format!("/response/{name}"), "", ""), &[]));
    }
    for range in ["0-9", "5-", "-5", "9990-20000", "20000-"] {
        let fields = format!("Range: bytes={range}\r\n");
        requests.push((request("GET", "/response/file", &fields, ""), &[]));
    }
    let since = "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n";
    requests.push((request("GET", "/response/file", since, ""), &[]));
    requests.push(post("/echo", "text/x", "echoed"));
    requests.push(post("/echo", "text/x", &"0123456789".repeat(30_000)));
    requests.push(post("/response/partial-body", "text/x", "0123456789"));
    requests.push(post("/response/limited-body", "text/x", "0123456789"));
    requests.push(post("/response/limited-body", "text/x", "012"));
    requests.push(post(
        "/response/form",
        "application/x-www-form-urlencoded",
        "a=b&c=%20",
    ));
    requests.push(post(
        "/response/form?q=r",
        "multipart/form-data; boundary=X",
        "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--X--\r\n",
    ));
    requests.push(get("/big?n=1000000"));
    requests.push(get("/flush?ms=5"));
    requests.push((request("HEAD", "/flush?ms=5", "", ""), &[]));
    compare(&requests);
}

/// An answer that is cut short must look so to the client, and to the one that comes next like nothing at all.
#[test]
fn what_breaks_off() {
    let site = ProgramSite::start(&json!({"processes": 1}));
    let plain = Plain::start(&site.program());
    let pid = site.text("/pid");
    let is_whole = |address, target: &str| {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let answer = client::raw(address, bytes.as_bytes()).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.len() > 20, "{target}: no answer at all");
        let length = answer.split_once("Content-Length: ").and_then(|(_, rest)| {
            let (digits, rest) = rest.split_once("\r\n")?;
            let (_, body) = rest.split_once("\r\n\r\n")?;
            Some(digits.parse::<usize>().ok()? == body.len())
        });
        answer.starts_with("HTTP/1.1 200")
            && length.unwrap_or_else(|| answer.ends_with("0\r\n\r\n"))
    };
    for target in ["/panic-late", "/response/less-than-length"] {
        assert!(!is_whole(site.server.address(), target), "{target}");
        assert!(!is_whole(plain.address(), target), "{target}");
    }
    // net/http closes the connection without an answer; here there is one.
    for target in ["/panic", "/abort"] {
        assert_eq!(site.server.get(target).status, 502, "{target}");
    }
    assert_eq!(site.text("/pid"), pid, "the process has survived all of it");
    site.wait_for_log("http: panic serving GET /panic");
    assert!(!site.server.log().contains("panic serving GET /abort"));
}
