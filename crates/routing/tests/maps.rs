//! Values of maps, and groups of the regular expressions of steps.

#![allow(
    clippy::unwrap_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use support::{Request, get, router};
use tutti_routing::{DecisionKind, Router};

/// A router that answers with the map `x`, whose options are these; other maps may follow.
fn mapped(maps: &str) -> Router {
    router(&format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "maps": {{{maps}}},
            "routes": [{{"action": {{"return": 200, "location": "<$map_x>"}}}}]}}"#
    ))
}

fn value(router: &Router, request: Request) -> String {
    let decision = router.decide(0, &request);
    let mut out = Vec::new();
    match decision.action {
        DecisionKind::Return(answer) => {
            let location = answer.location.as_ref().unwrap();
            decision.render(location, &request, &mut out).unwrap();
        }
        _ => out.extend_from_slice(b"no return"),
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn texts_are_found_exactly_and_then_by_expression() {
    let router = mapped(
        r#""x": {"key": "$arg_a", "default": "none of $arg_a", "values": {
            "": "empty", "One": "1", "\\~tilde": "text", "\\\\back": "slash",
            "~^(?<first>[a-z]+)-([0-9]+)$": "${match_2}/${match_first}/$match_0/$method",
            "~*^LOUD": "any case", "~^l": "second", "~(?<gone>x)?y$": "[$match_gone]"}}"#,
    );
    for (asked, expected) in [
        ("/?a=one", "<1>"),
        ("/?a=ONE", "<1>"),
        ("/", "<empty>"),
        ("/?a=ones", "<none of ones>"),
        ("/?a=~tilde", "<text>"),
        ("/?a=\\back", "<slash>"),
        ("/?a=abc-12", "<12/abc/abc-12/GET>"),
        ("/?a=ABC-12", "<none of ABC-12>"),
        ("/?a=loudly", "<any case>"),
        ("/?a=low", "<second>"),
        ("/?a=y", "<[]>"),
        ("/?a=%FF", "<none of \u{fffd}>"),
    ] {
        assert_eq!(value(&router, get(asked)), expected, "{asked}");
    }
}

#[test]
fn hosts_have_the_longest_name_that_matches() {
    let router = mapped(
        r#""x": {"hosts": {
            "a.example.com": "exact", "*.example.com": "end", "*.b.example.com": "longer end", ".example.org": "both",
            "mail.*": "beginning", "mail.eu.*": "longer beginning", "~^www\\d\\.": "expression"}, "default": "none"}"#,
    );
    for (host, expected) in [
        ("a.example.com", "<exact>"),
        ("c.example.com", "<end>"),
        ("c.b.example.com", "<longer end>"),
        ("b.example.com", "<end>"),
        ("example.com", "<none>"),
        ("example.org", "<both>"),
        ("x.y.example.org", "<both>"),
        ("notexample.org", "<none>"),
        ("mail.example.net", "<beginning>"),
        ("mail.eu.example.net", "<longer beginning>"),
        ("mail.example.com", "<end>"),
        ("mail", "<none>"),
        ("www1.example.net", "<expression>"),
        (".example.com", "<none>"),
        ("mail.", "<none>"),
        ("a.example.com.", "<exact>"),
        ("C.Example.COM", "<end>"),
        ("", "<none>"),
    ] {
        assert_eq!(value(&router, get("/").host(host)), expected, "{host}");
    }
    // A text that cannot be a name, as a client may send it in an argument, costs no search of its parts.
    let router = mapped(
        r#""x": {"key": "$arg_a", "hosts": {"*.example.com": "end", "~^a": "expression"}, "default": "none"}"#,
    );
    let long = format!("/?a={}.example.com", ".b".repeat(200));
    assert_eq!(value(&router, get(&long)), "<none>");
    assert_eq!(value(&router, get("/?a=b.example.com")), "<end>");
    assert_eq!(value(&router, get("/?a=a.example.net")), "<expression>");
}

#[test]
fn addresses_have_the_value_of_the_smallest_range() {
    let router = mapped(
        r#""x": {"addresses": {
            "0.0.0.0/0": "any", "10.0.0.0/8": "ten", "10.1.0.0/16": "ten one", "10.1.2.3": "host",
            "10.0.255.0-10.1.0.9": "range", "255.255.255.255": "last", "0.0.0.0": "first", "2001:db8::/32": "six"},
            "default": "none"}"#,
    );
    for (address, expected) in [
        ("192.0.2.1", "<any>"),
        ("10.9.9.9", "<ten>"),
        ("10.0.254.255", "<ten>"),
        ("10.0.255.0", "<range>"),
        ("10.1.0.9", "<range>"),
        ("10.1.0.10", "<ten one>"),
        ("10.1.2.2", "<ten one>"),
        ("10.1.2.3", "<host>"),
        ("10.1.2.4", "<ten one>"),
        ("10.2.0.0", "<ten>"),
        ("255.255.255.255", "<last>"),
        ("0.0.0.0", "<first>"),
    ] {
        let request = get("/").from(&format!("{address}:1"));
        assert_eq!(value(&router, request), expected, "{address}");
    }
    assert_eq!(value(&router, get("/").from("[2001:db8::1]:1")), "<six>");
    assert_eq!(value(&router, get("/").from("[2001:db9::1]:1")), "<none>");
    // A mapped address is the one in it; a unix socket has none.
    assert_eq!(
        value(&router, get("/").from("[::ffff:10.1.2.3]:1")),
        "<host>"
    );
    assert_eq!(value(&router, get("/").from("unix")), "<none>");
}

#[test]
fn shares_divide_the_texts_and_stay() {
    let router = mapped(
        r#""x": {"key": "$arg_a", "shares": [{"percent": 10, "value": "a"}, {"percent": 30.5, "value": "b"}], "default": "c"}"#,
    );
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..2000 {
        let asked = format!("/?a=client-{number}");
        let found = value(&router, get(&asked));
        assert_eq!(found, value(&router, get(&asked)));
        *counts.entry(found).or_insert(0) += 1;
    }
    for (value, about) in [("<a>", 200), ("<b>", 610), ("<c>", 1190)] {
        let count = counts[value];
        assert!((about - 80..about + 80).contains(&count), "{counts:?}");
    }
    // nginx's `split_clients` gives these clients the same shares.
    let nginx = NGINX_SHARES.chars().enumerate();
    for (number, expected) in nginx {
        let found = value(&router, get(&format!("/?a=10.0.0.{number}")));
        assert_eq!(found, format!("<{expected}>"), "{number}");
    }
    let all = mapped(
        r#""x": {"key": "$arg_a", "shares": [{"percent": 100, "value": "a"}], "default": "c"}"#,
    );
    assert!((0..100).all(|number| value(&all, get(&format!("/?a={number}"))) == "<a>"));
}

/// Answers of nginx 1.22.1 with `split_clients $arg_a $x {10% a; 30.5% b; * c;}` for `10.0.0.0` and the addresses after it.
const NGINX_SHARES: &str = "bccbcbaccccccccccbcbccbabccccbbbcccbbccccccbcaaccbbcccccbcbcbcccbbcccbccbbabaccaccbcbccbbbbccbccbcccbbaccbcccbcbccbcbbcaccccccccccbcbcbcccbcccbcacbbbbcccbbbbcccccbcbcbbcbacccccccccbcccbccbcacaccccccbcbabcbcbcccbaabbbbccbcbccbcbbababcababbaacabcbbcbbbcccbca";

/// They are evaluated before the script, and only those that it names.
#[test]
fn scripts_see_the_maps_that_they_name() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes"}},
            "maps": {
                "a": {"key": "$arg_a", "values": {"1": "one", "~(x+)+\\1y": "no"}, "default": "none"},
                "b": {"key": "`${vars.map_a}-b`", "values": {"one-b": "two"}},
                "c": {"key": "$arg_a", "values": {"~(x+)+\\1y": "no"}, "default": "c"}},
            "routes": [{"match": {"uri": "/c"}, "action": {"return": 202, "location": "`${vars.map_b}${vars.map_c ?? ''}`"}},
                       {"action": {"return": 201, "location": "`${vars.map_b} ${vars['map' + '_c']} ${vars.map_a.length}`"}}]}"#,
    );
    assert_eq!(support::ask(&router, get("/?a=1")), "201 two undefined 3");
    assert_eq!(support::ask(&router, get("/?a=2")), "201  undefined 4");
    assert_eq!(support::ask(&router, get("/c?a=1")), "202 twoc");
    // A map without a value is a failure of the script.
    let long = format!("/c?a={}", "x".repeat(4000));
    assert_eq!(support::ask(&router, get(&long)), "202 failed");
}

#[test]
fn maps_use_maps_and_decide_where_requests_go() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes/${map_where}"}},
            "maps": {
                "where": {"key": "$map_kind$map_site", "values": {"~^api(.*)$": "$map_kind-$match_1"}, "default": "site"},
                "site": {"hosts": {"a.example": "1"}, "default": "2"},
                "kind": {"key": "$uri", "values": {"~^/api/": "api"}}},
            "routes": {"api-1": [{"action": {"return": 201}}], "api-2": [{"action": {"return": 202}}],
                       "site": [{"match": {"if": "$map_kind"}, "action": {"return": 500}},
                                {"action": {"rewrite": "/$map_site?k=$map_site", "return": 203, "location": "$uri?$query"}}]}}"#,
    );
    for (asked, host, expected) in [
        ("/api/x", "a.example", "201"),
        ("/api/x", "b.example", "202"),
        ("/x", "b.example", "203 /2?k=2"),
    ] {
        assert_eq!(support::ask(&router, get(asked).host(host)), expected);
    }
}

#[test]
fn an_action_has_the_groups_of_its_step() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes/main"}},
            "routes": {
                "main": [
                    {"match": {"uri": "~^/x/(?<name>[a-z]+)/(.*)$"}, "action": {"share": ["/a/$match_2", "/b/$match_name/$match_1/$match_0"]}},
                    {"match": {"uri": ["~^/one/(y)?(.)", "~^/two/((.))", "!/two/n"]}, "action": {"return": 201, "location": "<$match_1|$match_2>"}},
                    {"match": {"host": "~^(?<user>[a-z]+)\\.example\\.com$", "uri": "~^/~(.*)"}, "action": {"rewrite": "/$host_match_user$match_1", "return": 202, "location": "$uri $match_1"}},
                    {"match": {"uri": "~^/to/(.+)$"}, "action": {"rewrite": "/from/$match_1", "pass": "routes/$match_1"}},
                    {"match": {"uri": "~^/query/(.*)$"}, "action": {"rewrite": "/q?id=$match_1", "return": 204, "location": "$request_uri $uri?$query"}}],
                "next": [
                    {"match": {"uri": "~^/(from)/"}, "action": {"return": 203, "location": "$match_1 $uri"}}]}}"#,
    );
    for (asked, host, expected) in [
        ("/x/ab/c/d", "a", "/a/c/d /b/ab/ab//x/ab/c/d"),
        ("/one/z", "a", "201 <|z>"),
        ("/one/yz", "a", "201 <y|z>"),
        ("/two/z", "a", "201 <z|z>"),
        ("/two/n", "a", "not found"),
        ("/~b", "Me.example.com", "202 /meb b"),
        ("/to/next", "a", "203 from /from/next"),
        ("/to/main", "a", "not found"),
        ("/to/other", "a", "not found"),
        // A value never adds an argument or ends the query.
        (
            "/query/a%26b%3Dc%23d",
            "a",
            "204 /query/a%26b%3Dc%23d /q?id=a%26b%3Dc%23d",
        ),
    ] {
        let host = host.to_ascii_lowercase().leak();
        assert_eq!(
            support::ask(&router, get(asked).host(host)),
            expected,
            "{asked}"
        );
    }
}

/// The fallback of a share belongs to the step of the share.
#[test]
fn a_fallback_has_the_groups_of_its_step() {
    let router = support::routes(
        r#"[{"match": {"uri": "~^/x/(.*)$"}, "action": {"share": "/a$uri", "rewrite": "/y",
                "fallback": {"share": "/b$uri", "fallback": {"return": 201, "location": "$match_1 $uri"}}}}]"#,
    );
    let request = get("/x/1");
    let decision = router.decide(0, &request);
    let decision = router.fallback(decision, &request).unwrap();
    let decision = router.fallback(decision, &request).unwrap();
    assert_eq!(support::described(&decision, &request), "201 1 /y");
}

/// An expression that matches within its limit of steps is searched for its groups within the same limit.
#[test]
fn groups_without_an_answer_are_a_failure() {
    let router = support::routes(
        r#"[{"match": {"uri": ["~(a+)+\\1b", "~(.)c"]}, "action": {"return": 200, "location": "$match_1"}}]"#,
    );
    let long = format!("/{}", "a".repeat(4000));
    assert_eq!(support::ask(&router, get(&long)), "failed");
    assert_eq!(support::ask(&router, get("/bc")), "200 b");
}

/// A pattern that runs out of steps decides nothing: the default may be what admits a client.
#[test]
fn an_expression_without_an_answer_is_a_failure() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes"}},
            "maps": {"x": {"key": "$uri", "values": {"~(a+)+\\1b": "no"}, "default": ""}},
            "routes": [{"match": {"if": "$map_x"}, "action": {"return": 403}}, {"action": {"return": 200}}]}"#,
    );
    let long = format!("/{}", "a".repeat(4000));
    assert_eq!(support::ask(&router, get(&long)), "failed");
    assert_eq!(support::ask(&router, get("/aab")), "403");
}

/// The example of `docs/http/rewriting.md`.
#[test]
fn the_guide_says_what_happens() {
    let page = include_str!("../../../docs/http/rewriting.md");
    let mut examples = page.split("```json\n").skip(1);
    let mut example = || router(examples.next().unwrap().split("```").next().unwrap());
    let groups = example();
    for (request, expected) in [
        (get("/img/64/cat"), "200"),
        (get("/img/x/cat"), "not found"),
        (
            get("/").host("me.example.com"),
            "302 https://example.com/~me/",
        ),
    ] {
        assert_eq!(support::ask(&groups, request), expected);
    }
    let request = get("/img/64/cat");
    let decision = groups.decide(0, &request);
    let target = decision.request_path(&request).target().to_vec();
    assert_eq!(String::from_utf8(target).unwrap(), "/images/cat?size=64");
    let router = example();
    let shop = |target: &str| get(target).host("www.example.com");
    for (request, expected) in [
        (shop("/about.html"), "301 /about/"),
        (shop("/news/2026-11"), "301 /archive/2026/11/"),
        (shop("/admin/x").from("192.0.2.9:1"), "200"),
        (shop("/admin/x").from("198.51.100.1:1"), "403"),
        (shop("/"), "200"),
        (get("/").host("x.example.org"), "200"),
        (get("/").host("other.example"), "404"),
    ] {
        assert_eq!(support::ask(&router, request), expected);
    }
}
