//! JavaScript template literals, through the server: one request for each place that permits them.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::Site;
use tutti_testkit::wait_until;

const AGENT: &str = "User-Agent: Mozilla/5.0\r\n";

#[test]
fn a_script_in_every_place_of_an_action() {
    let site = Site::new(1, |folder| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                "routes": [
                  {{"match": {{"if": "`${{uri.endsWith('.php') && args.x == 'a b'}}`"}}, "action": {{"return": 403}}}},
                  {{"match": {{"uri": "/go/*"}}, "action": {{"return": 302, "location": "`https://${{host}}${{uri.slice(3)}}`"}}}},
                  {{"match": {{"uri": "/no/*"}}, "action": {{"return": 302, "location": "`${{missing.member}}`"}}}},
                  {{"match": {{"uri": "/lost"}}, "action": {{"share": "`${{missing.member}}`", "fallback": {{"return": 204}}}}}},
                  {{"match": {{"uri": "/climb/*"}}, "action": {{"share": "`{folder}/${{args.path}}`"}}}},
                  {{"match": {{"uri": "/new/*"}}, "action": {{"rewrite": "`${{uri.slice(4)}}`", "share": "`{folder}${{uri}}`"}}}},
                  {{"action": {{"share": "`{folder}${{uri}}`",
                               "response_headers": {{"X-Was": "`${{cookies.was}} ${{vars.status}} ${{vars.response_header_content_type}}`",
                                                    "ETag": "`${{missing.member}}`"}}}}}}]}}"#
        )
    });
    site.write("a.txt", "text");
    assert_eq!(site.get("/x.php?x=a+b").status, 403);
    assert_eq!(site.get("/x.php").status, 404);
    let moved = site.request("GET", "/go/on", "");
    assert_eq!(moved.status, 302);
    assert!(moved.field("Location").unwrap().ends_with("/on"));
    assert_eq!(site.get("/no/where").status, 500);
    assert_eq!(site.get("/lost").status, 500);
    assert_eq!(site.get("/new/a.txt").text(), "text");
    let file = site.request("GET", "/a.txt", "Cookie: was=here\r\n");
    assert_eq!(file.text(), "text");
    assert_eq!(file.field("X-Was"), Some("here 200 text/plain"));
    assert_eq!(file.field("ETag"), None);
    assert_eq!(site.get("/climb/?path=a.txt").status, 200);
    assert_ne!(site.get("/climb/?path=../../../../etc/passwd").status, 200);
    wait_until("failures are in the log", || {
        let lines = site.log.lines().join("\n");
        lines.contains(
            "the script `${missing.member}` failed: ReferenceError: missing is not defined",
        )
    });
}

#[test]
fn a_script_that_hangs_costs_its_own_request() {
    let site = Site::new(1, |_| {
        r#"{"listeners": {"127.0.0.1:1": {"pass": "routes"}},
            "routes": [{"match": {"uri": "/loop"}, "action": {"pass": "`${(() => { for (;;); })()}`"}},
                       {"match": {"uri": "/memory"}, "action": {"pass": "`${(() => { const a = []; for (;;) a.push('x'.repeat(1000)) })()}`"}},
                       {"match": {"uri": "/regex"}, "action": {"pass": "`${/^(a+)+$/.test(args.a)}`"}},
                       {"match": {"uri": "/deep"}, "action": {"pass": "`${(() => { const f = () => f() + 1; return f() })()}`"}},
                       {"action": {"return": 200, "location": "`${uri}`"}}]}"#
            .to_owned()
    });
    let evil = format!("/regex?a={}b", "a".repeat(60));
    for target in ["/loop", "/memory", evil.as_str(), "/deep"] {
        assert_eq!(site.request("GET", target, AGENT).status, 500, "{target}");
        assert_eq!(site.get("/fine").field("Location"), Some("/fine"));
    }
}

#[test]
fn the_example_of_the_guide_works() {
    let guide = include_str!("../../../docs/http/scripting.md");
    let example = guide
        .split("```json\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let site = Site::new(1, |folder| {
        example
            .replace("127.0.0.1:8080", "127.0.0.1:1")
            .replace("/srv/sites", folder)
    });
    std::fs::create_dir(site.path().join("example.com")).unwrap();
    site.write("example.com/a.txt", "text");
    let get = |target: &str, fields: &str| {
        site.exchange(format!(
            "GET {target} HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n{fields}\r\n"
        ))
    };
    assert!(get("/", "User-Agent: curl/8.0\r\n").starts_with("HTTP/1.1 204"));
    assert!(get("/old/x", AGENT).contains("Location: /new/x\r\n"));
    assert!(get("/old/x?keep=yes", AGENT).starts_with("HTTP/1.1 404"));
    let file = get("/a.txt", "Cookie: colour=blue\r\n");
    assert!(
        file.contains("X-Colour: blue\r\n") && file.ends_with("text"),
        "{file}"
    );
}
