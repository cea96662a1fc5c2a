//! From a configuration and a request to the action that is taken.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Request, ask, config, described, get, router, routes};
use tutti_config::{ValidationContext, parse, validate};
use tutti_routing::{LogLine, Router};

/// True if the request fulfils the match object.
fn holds(conditions: &str, request: Request) -> bool {
    let router = routes(&format!(
        r#"[{{"match": {conditions}, "action": {{"return": 200}}}}]"#
    ));
    ask(&router, request) == "200"
}

const APPLICATIONS: &str = r#""applications": {
    "blog": {"type": "php", "root": "/www/blog"},
    "localhost": {"type": "php", "root": "/www/localhost"},
    "app_example.com": {"type": "php", "targets": {"front": {"root": "/f"}, "back": {"root": "/b"}}}}"#;

#[test]
fn the_main_job_is_routed() {
    let router = router(
        r#"{"listeners": {"*:8080": {"pass": "routes"}},
            "routes": [{"match": {"uri": "!/index.php"},
                        "action": {"share": "/var/www/site$uri", "fallback": {"pass": "applications/site"}}}],
            "applications": {"site": {"type": "php", "processes": {"max": 120, "spare": 5, "idle_timeout": 20},
                                      "root": "/var/www/site/", "script": "index.php"}}}"#,
    );
    let request = get("/style.css?v=1");
    let decision = router.decide(0, &request);
    assert_eq!(described(&decision, &request), "/var/www/site/style.css");
    let decision = router.fallback(decision, &request).unwrap();
    assert_eq!(described(&decision, &request), "site");
    assert!(router.fallback(decision, &request).is_err());
    assert_eq!(ask(&router, get("/index.php")), "not found");
}

#[test]
fn the_first_matching_step_acts() {
    let router = routes(
        r#"[{"match": {"uri": "/a*"}, "action": {"return": 201}},
            {"match": {"uri": "/ab"}, "action": {"return": 202}},
            {"action": {"return": 203}},
            {"action": {"return": 204}}]"#,
    );
    assert_eq!(ask(&router, get("/ab")), "201");
    assert_eq!(ask(&router, get("/b")), "203");
}

#[test]
fn hosts_have_no_case_and_methods_neither() {
    assert!(holds(r#"{"host": "EXAMPLE.com"}"#, get("/")));
    assert!(holds(r#"{"host": "~^Ex"}"#, get("/")));
    assert!(!holds(r#"{"host": "example.org"}"#, get("/")));
    assert!(holds(r#"{"method": "post"}"#, get("/").method("POST")));
    assert!(!holds(r#"{"method": ["!HEAD", "!GET"]}"#, get("/")));
    assert!(!holds(r#"{"uri": "/A"}"#, get("/a")), "paths have case");
}

#[test]
fn conditions_are_all_needed() {
    let both = r#"{"host": "example.com", "uri": "/x"}"#;
    assert!(holds(both, get("/x")));
    assert!(!holds(both, get("/y")));
    assert!(!holds(both, get("/x").host("other")));
    assert!(holds(r#"{"scheme": "https"}"#, get("/").https()));
    assert!(!holds(r#"{"scheme": "http"}"#, get("/").https()));
    assert!(holds("{}", get("/")));
}

#[test]
fn arguments_match_as_documented() {
    let pair = r#"{"arguments": {"key1": "4861", "key2": "a4f3"}}"#;
    assert!(holds(pair, get("/?key1=4861&key2=a4f3")));
    assert!(holds(pair, get("/?key2=a4f3&key1=4861")));
    assert!(!holds(pair, get("/?key1=4861")));
    assert!(holds(
        r#"{"arguments": {"key": "*"}}"#,
        get("/?key=4861&key=a4f3")
    ));
    assert!(!holds(
        r#"{"arguments": {"key": "a*"}}"#,
        get("/?key=4861&key=a4f3")
    ));
    let either = r#"{"arguments": [{"arg1": "pattern"}, {"arg2": "pattern"}]}"#;
    assert!(holds(either, get("/?arg2=pattern")));
    assert!(!holds(either, get("/?arg3=pattern")));
    let strict = r#"{"arguments": {"mode": "strict", "access": "!full"}}"#;
    assert!(holds(strict, get("/?mode=strict&access=read")));
    assert!(!holds(strict, get("/?mode=strict&access=full")));
    assert!(
        !holds(strict, get("/?mode=strict")),
        "the argument must be there"
    );
    assert!(holds(
        r#"{"arguments": {"word": "*%C3*"}}"#,
        get("/?word=%C3%96l")
    ));
    // Issue 28, 2.5.
    for query in ["/?q=a+b", "/?q=a%20b", "/?q=a%2Bb"] {
        assert!(
            holds(r#"{"arguments": {"q": "a+b"}}"#, get(query)),
            "{query}"
        );
        assert!(holds(r#"{"query": "q=a+b"}"#, get(query)), "{query}");
        assert!(
            !holds(r#"{"arguments": {"q": "!a+b"}}"#, get(query)),
            "{query}"
        );
    }
    assert!(!holds(r#"{"arguments": {"q": "a%2Bb"}}"#, get("/?q=a+b")));
}

#[test]
fn the_query_is_compared_whole_and_decoded() {
    assert!(holds(r#"{"query": ["utf8", "utf16"]}"#, get("/?utf8")));
    assert!(!holds(r#"{"query": ["utf8", "utf16"]}"#, get("/?utf8&x")));
    assert!(holds(
        r#"{"query": "%7Efuzzy word search"}"#,
        get("/?~fuzzy%20word+search")
    ));
    assert!(holds(r#"{"query": ""}"#, get("/")));
}

#[test]
fn headers_and_cookies_match_as_documented() {
    let headers = r#"{"headers": [{"Accept-Encoding": "*gzip*", "User-Agent": "Mozilla/5.0*"}, {"User-Agent": "curl*"}]}"#;
    assert!(holds(headers, get("/").field("user-agent", "CURL/8.5")));
    assert!(!holds(
        headers,
        get("/").field("user-agent", "Mozilla/5.0 (X11)")
    ));
    let mozilla = get("/")
        .field("User-Agent", "Mozilla/5.0 (X11)")
        .field("accept-encoding", "br, GZIP");
    assert!(holds(headers, mozilla));
    let cookie = r#"{"cookies": {"session": "!"}}"#;
    assert!(holds(cookie, get("/").field("Cookie", "a=1; session=x")));
    assert!(!holds(cookie, get("/").field("Cookie", "session=")));
    assert!(!holds(cookie, get("/")));
}

#[test]
fn addresses_are_compared() {
    let source = r#"{"source": ["192.0.2.0/24", "!192.0.2.9"]}"#;
    assert!(holds(source, get("/")));
    assert!(!holds(source, get("/").from("192.0.2.9:1")));
    assert!(!holds(source, get("/").from("unix")));
    assert!(holds(r#"{"source": "unix"}"#, get("/").from("unix")));
    assert!(holds(r#"{"destination": "*:8080"}"#, get("/")));
    assert!(!holds(r#"{"destination": "*:80"}"#, get("/")));
    // Issue 28, 2.4: they opened the route to every client.
    for empty in [r#"{"source": []}"#, r#"{"destination": []}"#] {
        assert!(!holds(empty, get("/")), "{empty}");
        assert!(!holds(empty, get("/").from("unix")), "{empty}");
    }
}

#[test]
fn conditions_can_be_templates() {
    assert!(holds(r#"{"if": "$arg_debug"}"#, get("/?debug=1")));
    assert!(!holds(r#"{"if": "$arg_debug"}"#, get("/?debug=0")));
    assert!(holds(r#"{"if": "!$arg_debug"}"#, get("/")));
}

#[test]
fn destinations_can_be_computed() {
    let by = |pass: &str| {
        router(&format!(
            r#"{{"listeners": {{"*:80": {{"pass": "{pass}"}}}}, {APPLICATIONS}}}"#
        ))
    };
    let by_uri = by("applications$uri");
    assert_eq!(ask(&by_uri, get("/blog")), "blog");
    assert_eq!(ask(&by_uri, get("/none")), "not found");
    assert_eq!(ask(&by_uri, get("/blog/more")), "not found");
    assert_eq!(ask(&by_uri, get("/")), "not found");
    assert_eq!(
        ask(&by("applications/$host"), get("/").host("localhost")),
        "localhost"
    );
    let by_both = by("applications/app_$host$uri");
    assert_eq!(ask(&by_both, get("/back")), "app_example.com/back");
    assert_eq!(ask(&by_both, get("/other")), "not found");
}

#[test]
fn routes_can_be_chosen_by_method() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes/${method}_route"}},
            "routes": {"GET_route": [{"action": {"return": 201}}], "PUT_route": [{"action": {"return": 202}}]}}"#,
    );
    assert_eq!(ask(&router, get("/")), "201");
    assert_eq!(ask(&router, get("/").method("PUT")), "202");
    assert_eq!(ask(&router, get("/").method("HEAD")), "not found");
}

#[test]
fn names_with_slashes_are_encoded() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes/slashes%2Fin%2Froute%2Fname"}},
            "routes": {"slashes/in/route/name": [{"action": {"return": 200}}]}}"#,
    );
    assert_eq!(ask(&router, get("/")), "200");
}

#[test]
fn routes_chain_and_circles_are_cut() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes/main"}},
            "routes": {"main": [{"match": {"uri": "/loop"}, "action": {"pass": "routes/other"}},
                                {"action": {"pass": "routes/end"}}],
                       "other": [{"action": {"pass": "routes/main"}}],
                       "end": [{"match": {"uri": "/x"}, "action": {"return": 200}}]}}"#,
    );
    assert_eq!(ask(&router, get("/x")), "200");
    assert_eq!(ask(&router, get("/y")), "not found");
    assert_eq!(ask(&router, get("/loop")), "loop");
}

#[test]
fn circles_through_fallbacks_are_cut() {
    let router = routes(r#"[{"action": {"share": "/none", "fallback": {"pass": "routes"}}}]"#);
    let request = get("/");
    let mut decision = router.decide(0, &request);
    for _ in 0..1000 {
        decision = match router.fallback(decision, &request) {
            Ok(next) => next,
            Err(last) => return assert_eq!(described(&last, &request), "loop"),
        };
    }
    panic!("the circle is not cut");
}

#[test]
fn templates_have_their_values() {
    let router =
        routes(r#"[{"action": {"return": 301, "location": "https://$host$request_uri"}}]"#);
    assert_eq!(ask(&router, get("/a?b=c")), "301 https://example.com/a?b=c");
    let share = |path: &str, request: Request| {
        ask(
            &routes(&format!(r#"[{{"action": {{"share": "{path}"}}}}]"#)),
            request,
        )
    };
    let cookie = get("/").field("cookie", "app_session=abc");
    assert_eq!(
        share("/data/www/$cookie_app_session", cookie),
        "/data/www/abc"
    );
    assert_eq!(share("/$arg_Color", get("/?Color=Red&Color=Blue")), "/Blue");
    assert_eq!(
        share(
            "/$header_accept-encoding",
            get("/").field("Accept-Encoding", "br")
        ),
        "/br"
    );
    assert_eq!(
        share(
            "/$header_Accept_Encoding",
            get("/").field("Accept-Encoding", "br")
        ),
        "/br"
    );
    assert_eq!(share("/$dollar${dollar}x", get("/")), "/$$x");
    assert_eq!(share("/$remote_addr/$method", get("/")), "/192.0.2.7/GET");
    assert_eq!(
        share(
            "/$scheme:$remote_port:$server_addr:$server_port",
            get("/").https()
        ),
        "/https:40000:127.0.0.1:8080"
    );
    assert_eq!(
        share("/$query,$arg_a,$raw_arg_A", get("/?a=%20&a=2")),
        "/a=%20&a=2,2,%20"
    );
    // A script has the same variables.
    assert_eq!(
        share(
            "`/${vars.query},${vars.arg_a},${vars.raw_arg_A},${vars.raw_arg_b}`",
            get("/?a=%20&a=2")
        ),
        "/a=%20&a=2,2,%20,undefined"
    );
    // The header of a PROXY protocol is not one of forwarded fields.
    assert_eq!(share("/$proxy_protocol_addr", get("/")), "/");
}

/// Issue 10, 2.2: `$request_uri` is the original target.
#[test]
fn a_rewrite_changes_the_path_and_keeps_the_query() {
    let router = routes(
        r#"[{"match": {"uri": "/v1/*"}, "action": {"return": 200, "location": "$uri $request_uri"}},
            {"action": {"rewrite": "/v1/$uri", "pass": "routes"}}]"#,
    );
    let request = get("/a%20b?x=1");
    let decision = router.decide(0, &request);
    assert_eq!(described(&decision, &request), "200 /v1/a b /a%20b?x=1");
    assert_eq!(decision.path(&request), b"/v1/a b");
    let path = decision.request_path(&request);
    assert_eq!(path.target(), b"/v1/a%20b?x=1");
}

/// Issue 31, 4.1: in JavaScript, a `?` became part of the path.
#[test]
fn a_rewrite_in_javascript_may_have_a_query() {
    for (template, asked, path, target) in [
        ("`/i.php?q=${uri}`", "/a%26b", "/i.php", "/i.php?q=/a%26b"),
        (
            "`/i.php?q=${uri}&r=1`",
            "/a?s=%20&q=x",
            "/i.php",
            "/i.php?q=/a&r=1&s=%20",
        ),
        ("`/i.php?q=${uri}?`", "/a?s=1", "/i.php", "/i.php?q=/a"),
        ("`/i.php?${''}`", "/a?s=1", "/i.php", "/i.php?s=1"),
        // A `?`, a `&` and U+0001 in a value stay what they are; no path contains NUL.
        (
            "`/x${args.p}?q=${args.p}`",
            "/a?p=%3F%26%01%00",
            "/x?&\u{1}",
            "/x%3F&%01?q=?%26%01%00&p=%3F%26%01%00",
        ),
        ("`/new${uri}`", "/a%3Fb?c", "/new/a?b", "/new/a%3Fb?c"),
        ("`/a b${uri ? '?' : '&'}`", "/a", "/a b?", "/a%20b%3F"),
    ] {
        is_rewritten(template, asked, (path, target));
    }
}

/// Checks the path and the target that a `rewrite` makes of a target.
fn is_rewritten(template: &str, asked: &str, (path, target): (&str, &str)) {
    let router = routes(&format!(
        r#"[{{"action": {{"rewrite": "{template}", "return": 200}}}}]"#
    ));
    let request = get(asked);
    let decision = router.decide(0, &request);
    let found = decision.request_path(&request);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(found.path()), path, "{template} {asked}");
    assert_eq!(text(found.target()), target, "{template} {asked}");
}

/// Issue 31, 4.1.
#[test]
fn values_begin_no_query_and_all_arguments_may_follow() {
    for (template, asked, path, target) in [
        // A `?` of a value never begins the query.
        (
            "/v1/$arg_x",
            "/a?x=b%3Fc%3Dd",
            "/v1/b?c=d",
            "/v1/b%3Fc=d?x=b%3Fc%3Dd",
        ),
        // All arguments of the client, also those that the template sets, as in nginx.
        (
            "/i.php?q=1&$query",
            "/a?q=2&r=%26",
            "/i.php",
            "/i.php?q=1&q=2&r=%26",
        ),
        ("/i.php?q=1&$query", "/a", "/i.php", "/i.php?q=1"),
        ("/i.php?$query", "/a?b&c", "/i.php", "/i.php?b&c"),
        ("/i.php?$query", "/a", "/i.php", "/i.php"),
        (
            "/i.php?q=$raw_arg_Q",
            "/a?q=x%26y&q=z",
            "/i.php",
            "/i.php?q=x%2526y",
        ),
    ] {
        is_rewritten(template, asked, (path, target));
    }
}

/// Issue 28, 2.3: a `?` in the template became part of the path, and `$request_uri` was decoded twice.
#[test]
fn a_rewrite_may_have_a_query() {
    for (template, asked, path, target) in [
        (
            "/index.php?url=$uri",
            "/a/b",
            "/index.php",
            "/index.php?url=/a/b",
        ),
        (
            "/index.php?url=$uri",
            "/a%26b%20c%3fd",
            "/index.php",
            "/index.php?url=/a%26b%20c?d",
        ),
        // The other arguments of the client follow; it cannot override those of the template.
        (
            "/i.php?q=$uri",
            "/a?page=2&q=/b&q%5B%5D=c&%20q=d",
            "/i.php",
            "/i.php?q=/a&page=2",
        ),
        (
            "/i.php?a_b=1",
            "/a?a.b=2&a+b=3&c",
            "/i.php",
            "/i.php?a_b=1&c",
        ),
        (
            "/i.php?$uri",
            "/forum/x?page=2",
            "/i.php",
            "/i.php?/forum/x&page=2",
        ),
        ("/i.php?", "/a?page=2", "/i.php", "/i.php"),
        ("/i.php?q=1?", "/a?page=2", "/i.php", "/i.php?q=1"),
        ("/i.php", "/a?page=2", "/i.php", "/i.php?page=2"),
        (
            "/i.php?q=$arg_q&r=$method",
            "/a?q=%26r%3Dx",
            "/i.php",
            "/i.php?q=%26r%3Dx&r=GET",
        ),
        (
            "/i.php?next=$request_uri",
            "/a?b=c&d",
            "/i.php",
            "/i.php?next=/a?b%3Dc%26d&b=c&d",
        ),
        (
            "/v1$request_uri",
            "/a%20b/c?d=%20e",
            "/v1/a b/c",
            "/v1/a%20b/c?d=%20e",
        ),
        ("/v1$request_uri", "/%2561", "/v1/%61", "/v1/%2561"),
        ("/v1$request_uri?x=1", "/a?b", "/v1/a", "/v1/a?b&x=1"),
        ("/v1$request_uri?x=1", "/a", "/v1/a", "/v1/a?x=1"),
        // An encoded slash stays one, and a question mark in a name is not the query.
        (
            "/v1$uri",
            "/group%2Fproject?x",
            "/v1/group/project",
            "/v1/group%2Fproject?x",
        ),
        ("/v1$uri", "/a%3fb", "/v1/a?b", "/v1/a%3fb"),
        ("/new $uri", "/a", "/new /a", "/new%20/a"),
        (
            "/$arg_x/b",
            "/a?x=..%2F..%2Fe",
            "/e/b",
            "/e/b?x=..%2F..%2Fe",
        ),
    ] {
        is_rewritten(template, asked, (path, target));
    }
    // Conditions after it see the new arguments.
    let router = routes(
        r#"[{"match": {"arguments": {"url": "/a"}}, "action": {"return": 201}},
            {"action": {"rewrite": "/i?url=$uri", "pass": "routes"}}]"#,
    );
    let request = get("/a");
    assert_eq!(described(&router.decide(0, &request), &request), "201");
}

#[test]
fn response_headers_are_those_of_the_last_action() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes/a"}},
            "routes": {"a": [{"action": {"pass": "routes/b", "response_headers": {"X-A": "1"}}}],
                       "b": [{"action": {"return": 200, "response_headers": {"X-B": "$host", "X-C": null}}}]}}"#,
    );
    let request = get("/");
    let decision = router.decide(0, &request);
    let headers = decision.response_headers();
    let names: Vec<&str> = headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["X-B", "X-C"]);
    assert!(headers[1].value.is_none());
    assert_eq!(decision.pointer.as_str(), "/routes/b/0/action");
}

/// With many steps an index is used: it must decide like trying one after the other.
#[test]
fn many_steps_decide_like_few() {
    let patterns = [
        r#"{"host": "a.example.com"}"#,
        r#"{"host": ["b.example.com", "*.example.org"]}"#,
        r#"{"host": "*.example.com", "uri": "/x/*"}"#,
        r#"{"uri": "/x/exact"}"#,
        r#"{"uri": ["*.php", "!/x/no.php"]}"#,
        r#"{"uri": "/x*y"}"#,
        r#"{"uri": "~^/r\\d+$"}"#,
        r#"{"host": "!a.example.com", "uri": "/n"}"#,
        r#"{"method": "PUT"}"#,
        r#"{"host": "B.Example.COM", "uri": "/deep/er/*"}"#,
        r#"{"uri": ["/deep*", "/deep/*"]}"#,
        r#"{"uri": ""}"#,
    ];
    let steps: Vec<String> = patterns
        .iter()
        .enumerate()
        .map(|(number, conditions)| {
            format!(
                r#"{{"match": {conditions}, "action": {{"return": {}}}}}"#,
                300 + number
            )
        })
        .collect();
    let many = routes(&format!("[{}]", steps.join(",")));
    let single: Vec<Router> = steps
        .iter()
        .map(|step| routes(&format!("[{step}]")))
        .collect();
    let hosts = [
        "a.example.com",
        "b.example.com",
        "c.example.org",
        "example.com",
        "",
        "x.a.example.com",
    ];
    let paths = [
        "/",
        "/x/exact",
        "/x/1",
        "/x/no.php",
        "/i.php",
        "/xy",
        "/x/zy",
        "/r12",
        "/r",
        "/n",
        "/deep/er/1",
        "/deep",
        "/dee",
        "*",
    ];
    let mut matched = 0;
    for host in hosts {
        for path in paths {
            for method in ["GET", "PUT"] {
                let request = || get(path).host(host).method(method);
                let first = single
                    .iter()
                    .map(|router| ask(router, request()))
                    .find(|decision| decision != "not found");
                assert_eq!(
                    ask(&many, request()),
                    first.clone().unwrap_or("not found".into()),
                    "{method} {host}{path}"
                );
                matched += usize::from(first.is_some());
            }
        }
    }
    assert!(
        matched > 80,
        "{matched} of {} requests match something",
        hosts.len() * paths.len() * 2
    );
}

fn line(log: &str, request: &Request) -> Option<String> {
    let config = config(&format!(r#"{{"access_log": {log}}}"#));
    let line = LogLine::compile(&config.access_logs[0]);
    if !line.is_wanted(request) {
        return None;
    }
    let mut out = Vec::new();
    line.render(request, &mut out);
    Some(String::from_utf8(out).unwrap())
}

#[test]
fn the_default_log_line_is_the_combined_one() {
    let request = get("/").field("User-Agent", "Godzilla/5.0");
    assert_eq!(
        line(r#""/var/log/access.log""#, &request).unwrap(),
        "192.0.2.7 - - [21/Oct/2015:16:29:00 -0700] \"GET / HTTP/1.1\" 200 6022 \"-\" \"Godzilla/5.0\"\n"
    );
}

#[test]
fn log_values_cannot_forge_lines() {
    let request = get("/").field("User-Agent", "a\"b\\c\nd");
    assert_eq!(
        line(
            r#"{"path": "/l", "format": "$header_user_agent"}"#,
            &request
        )
        .unwrap(),
        "a\\x22b\\x5Cc\\x0Ad\n"
    );
    // CHANGES of FreeUnit 1.36.2: escaped like nginx, including bytes that control a terminal.
    assert_eq!(
        line(
            r#"{"path": "/l", "format": "é $header_user_agent"}"#,
            &get("/").field("User-Agent", "\u{9b}é\u{7f}~")
        )
        .unwrap(),
        "é \\xC2\\x9B\\xC3\\xA9\\x7F~\n"
    );
    let json = r#"{"path": "/l", "format": {"agent": "$header_user_agent", "time": "$request_time", "none": "$arg_x"}}"#;
    assert_eq!(
        line(json, &request).unwrap(),
        "{\"agent\":\"a\\\"b\\\\c\\u000ad\",\"time\":\"1.234\",\"none\":\"-\"}\n"
    );
}

#[test]
fn a_log_of_machines_has_numbers_and_iso_times() {
    let format = r#"{"path": "/l", "format": {"time": "$time_iso8601", "unix": {"number": "$msec"}, "status": {"number": "$status"},
        "seconds": {"number": "${request_time}"}, "agent": {"number": "$header_user_agent"}, "none": {"number": "$arg_x"}}}"#;
    let logged = |agent: &'static str| line(format, &get("/").field("User-Agent", agent)).unwrap();
    for (agent, number) in [
        ("-1.5e+3", "-1.5e+3"),
        ("0", "0"),
        // A client cannot break the line: a value that is not a JSON number is null.
        ("01", "null"),
        ("1,\"admin\":1", "null"),
        ("+1", "null"),
        ("1.", "null"),
        (".5", "null"),
        ("1e", "null"),
        ("NaN", "null"),
        ("-", "null"),
    ] {
        assert_eq!(
            logged(agent),
            format!(
                "{{\"time\":\"2015-10-21T16:29:00.007-07:00\",\"unix\":1445470140.007,\"status\":200,\"seconds\":1.234,\"agent\":{number},\"none\":null}}\n"
            )
        );
    }
    // Names are matched completely, also the one with digits.
    let text = r#"{"path": "/l", "format": "$time_iso8601 $time_iso86011 $time_localx"}"#;
    let message = format!(
        "{:?}",
        tutti_config::template::Template::parse("$time_localx")
    );
    assert!(message.contains("time_local"), "{message}");
    let text = text.replace(" $time_localx", "");
    assert_eq!(
        line(&text, &get("/")).unwrap(),
        "2015-10-21T16:29:00.007-07:00 2015-10-21T16:29:00.007-07:001\n"
    );
}

#[test]
fn logging_can_depend_on_the_request() {
    let log = r#"{"path": "/l", "format": "$request_id $response_header_content_type", "if": "$cookie_session"}"#;
    assert_eq!(line(log, &get("/")), None);
    let request = get("/").field("cookie", "session=1");
    assert_eq!(
        line(log, &request).unwrap(),
        "00000000000000000000000000001234 text/html\n"
    );
}

/// A valid configuration can be compiled, and decides about any request.
#[test]
fn every_valid_case_compiles_and_decides() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config");
    let mut compiled = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let Some((_, rest)) = text.split_once("=== put /\n") else {
            continue;
        };
        let sent = rest.split("=== ").next().unwrap();
        let context = ValidationContext::with_modules([("php", "7.4.33"), ("php", "8.2.35")]);
        let Ok(config) = parse(sent.as_bytes()).and_then(|document| validate(&document, &context))
        else {
            continue;
        };
        let router = Router::compile(&config).unwrap();
        let guards = router.guards().iter();
        let questions = guards.filter(|guard| guard.question().is_some()).count();
        let entrances = config.listeners.len() + config.all_spoolers().count() + questions;
        assert_eq!(router.listeners(), entrances);
        for listener in 0..=router.listeners() {
            for target in ["/", "/index.php", "/a/b?mode=strict&x", "*"] {
                let request = get(target);
                let mut decision = router.decide(listener, &request);
                while let Ok(next) = router.fallback(decision, &request) {
                    decision = next;
                }
                decision = router.decide(listener, &request);
                let _ = described(&decision, &request);
            }
        }
        compiled += 1;
    }
    assert!(compiled > 30, "{compiled}");
}

#[test]
fn requests_go_to_upstreams_and_servers() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"match": {"uri": "/b"}, "action": {"pass": "upstreams/b"}},
                       {"match": {"uri": "/one"}, "action": {"proxy": "http://127.0.0.1:1"}},
                       {"match": {"uri": "/two"}, "action": {"proxy": "http://127.0.0.1:2"}},
                       {"match": {"uri": "/again"}, "action": {"proxy": "http://backend"}},
                       {"match": {"uri": "/same"}, "action": {"proxy": "http://backend", "request_headers": {"A": "b"}}},
                       {"match": {"uri": "/other"}, "action": {"proxy": "http://127.0.0.1:1", "proxy_options": {"retries": 0}}},
                       {"action": {"pass": "upstreams$uri"}}],
            "upstreams": {"a": {"servers": {}}, "b": {"servers": {}}}}"#,
    );
    for (path, expected) in [
        ("/b", "upstream 1"),
        ("/a", "upstream 0"),
        ("/c", "not found"),
        ("/one", "upstream 2"),
        ("/two", "upstream 3"),
        ("/again", "upstream 4"),
        ("/same", "upstream 4"),
        ("/other", "upstream 5"),
    ] {
        assert_eq!(ask(&router, get(path)), expected, "{path}");
    }
    let names: Vec<&str> = router
        .upstreams()
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names[..3], ["a", "b", "http://127.0.0.1:1"]);
    let request = get("/same");
    assert_eq!(router.decide(0, &request).request_headers.len(), 1);
}

/// Issue 28, 1.1: the first of two actions that differed only in TLS won, so that a certificate was not verified.
#[test]
fn proxies_share_a_server_only_if_everything_is_equal() {
    let actions = [
        ("/plain", "http://127.0.0.1:443", ""),
        ("/tls", "https://127.0.0.1:443", ""),
        ("/same", "https://127.0.0.1:443", ""),
        (
            "/unverified",
            "https://127.0.0.1:443",
            r#""tls": {"verify": false}"#,
        ),
        (
            "/ca",
            "https://127.0.0.1:443",
            r#""tls": {"ca": "/etc/ca.pem"}"#,
        ),
        (
            "/same-ca",
            "https://127.0.0.1:443",
            r#""tls": {"ca": "/etc/ca.pem"}"#,
        ),
        (
            "/name",
            "https://127.0.0.1:443",
            r#""tls": {"server_name": "a.example"}"#,
        ),
        ("/time", "https://127.0.0.1:443", r#""read_timeout": 5"#),
    ];
    let mut routes = Vec::new();
    for (path, url, options) in actions {
        routes.push(format!(
            r#"{{"match": {{"uri": "{path}"}}, "action": {{"proxy": "{url}", "proxy_options": {{{options}}}}}}}"#
        ));
    }
    let router = router(&format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{}]}}"#,
        routes.join(",")
    ));
    for (path, number) in [
        ("/plain", 0),
        ("/tls", 1),
        ("/same", 1),
        ("/unverified", 2),
        ("/ca", 3),
        ("/same-ca", 3),
        ("/name", 4),
        ("/time", 5),
    ] {
        assert_eq!(
            ask(&router, get(path)),
            format!("upstream {number}"),
            "{path}"
        );
    }
    let hashes: std::collections::HashSet<u64> = router
        .upstreams()
        .iter()
        .map(|one| one.fetch_hash())
        .collect();
    // The timeouts of a server change nothing in its responses.
    assert_eq!(hashes.len(), 5);
}

#[test]
fn scripts_say_where_to_go() {
    let router = router(
        r#"{"listeners": {"*:80": {"pass": "`routes/${ headers['User-Agent'].split('/')[0] == 'curl' ? 'reject' : 'default' }`"}},
            "routes": {
                "reject": [{"action": {"return": 400}}],
                "default": [
                    {"match": {"uri": "/app/*"}, "action": {"pass": "`applications/${host}`"}},
                    {"match": {"if": "`${args.debug == 'yes'}`"}, "action": {"return": 301, "location": "`/new${uri}?${Object.keys(args)}`"}},
                    {"match": {"if": "!`${uri.startsWith('/files')}`"}, "action": {"rewrite": "`/files${uri}/../${uri.length}`", "pass": "routes/default"}},
                    {"match": {"uri": "/files/if", "if": "`${nothing}`"}, "action": {"return": 401}},
                    {"match": {"uri": "/files/unless", "if": "!`${nothing}`"}, "action": {"return": 402}},
                    {"match": {"uri": "/files/lost"}, "action": {"rewrite": "`${nothing}`", "return": 200}},
                    {"match": {"uri": "/files/where"}, "action": {"pass": "`${nothing}`"}},
                    {"match": {"uri": "/files/there"}, "action": {"return": 302, "location": "`${nothing}`"}},
                    {"action": {"share": ["`/www/${host.split('.').reverse().join('/')}${uri}`", "`${nothing}`"]}}]},
            "applications": {"blog": {"type": "php", "root": "/www/blog"}}}"#,
    );
    let browser = |target| get(target).field("User-Agent", "Mozilla/5.0");
    for (request, expected) in [
        (get("/").field("user-agent", "curl/8.0"), "400"),
        (browser("/app/x").host("blog"), "blog"),
        (browser("/app/x").host("other"), "not found"),
        (browser("/old?debug=yes"), "301 /new/old?debug"),
        (
            browser("/ab").host("a.example"),
            "/www/example/a/files/3 failed",
        ),
        (browser("/files/lost"), "failed"),
        (browser("/files/if"), "failed"),
        (browser("/files/unless"), "failed"),
        (browser("/files/where"), "failed"),
        (browser("/files/there"), "302 failed"),
        (get("/"), "failed"),
    ] {
        assert_eq!(ask(&router, request), expected);
    }
}

#[test]
fn scripts_write_lines_of_the_access_log() {
    let line = |log: &str, request: &Request| {
        let config = config(&format!(r#"{{"access_log": {log}}}"#));
        let log = LogLine::compile(&config.access_logs[0]);
        let mut out = Vec::new();
        if log.is_wanted(request) {
            log.render(request, &mut out);
        }
        String::from_utf8(out).unwrap()
    };
    let request = get("/a?b=c").field("Accept", "x\"y").from("192.0.2.7:1");
    assert_eq!(
        line(
            r#"{"path": "/x", "format": "`ip=${remoteAddr} uri=${uri} ${Object.keys(headers).map(k => 'req.' + k + '=\"' + headers[k] + '\"').join(' ')}\n`"}"#,
            &request
        ),
        "ip=192.0.2.7 uri=/a req.Accept=\"x\"y\"\n"
    );
    assert_eq!(
        line(
            r#"{"path": "/x", "format": "`${vars.status} ${vars.body_bytes_sent} ${vars.arg_b} ${vars.response_header_content_type}`"}"#,
            &request
        ),
        "200 6022 c text/html\n"
    );
    // A value cannot begin a line of its own.
    let forged = get("/").field("Accept", "a\nb");
    assert_eq!(
        line(
            r#"{"path": "/x", "format": "`${headers.Accept}`"}"#,
            &forged
        ),
        "a\\x0Ab\n"
    );
    assert_eq!(
        line(r#"{"path": "/x", "format": "`${nothing}`"}"#, &request),
        "-\n"
    );
    assert_eq!(
        line(
            r#"{"path": "/x", "format": {"a": "`${args.b}\"`", "b": "`${nothing}`"}}"#,
            &request
        ),
        "{\"a\":\"c\\\"\",\"b\":\"-\"}\n"
    );
    assert_eq!(
        line(r#"{"path": "/x", "if": "`${uri == '/health'}`"}"#, &request),
        ""
    );
    assert_ne!(
        line(r#"{"path": "/x", "if": "`${nothing}`"}"#, &request),
        ""
    );
    assert_ne!(
        line(
            r#"{"path": "/x", "if": "!`${uri == '/health'}`"}"#,
            &request
        ),
        ""
    );
}

/// Issue 10: an expression that ran out of steps "did not match", so a step that should deny the request let it through.
#[test]
fn a_condition_without_an_answer_admits_no_request() {
    const ENDLESS: &str = r"^(?:(a+)(a+)(a+))+\\1\\2\\3(?=c)";
    let long = "a".repeat(60);
    let uri = format!("/{long}");
    let with_query = format!("/?x={long}");
    let field: &'static str = Box::leak(long.clone().into_boxed_str());
    let cookie: &'static str = Box::leak(format!("c={long}").into_boxed_str());
    let slash = ENDLESS.replacen('^', "^/?", 1);
    for (condition, request) in [
        (format!(r#""uri": "~{slash}""#), get(&uri)),
        (format!(r#""uri": "!~{slash}""#), get(&uri)),
        (format!(r#""uri": ["/b", "!~{slash}", "/a*"]"#), get(&uri)),
        (
            format!(r#""query": "~{ENDLESS}""#),
            get(&format!("/?{long}")),
        ),
        (
            format!(r#""arguments": {{"x": "~{ENDLESS}"}}"#),
            get(&with_query),
        ),
        (
            format!(r#""arguments": [{{"y": "1"}}, {{"x": "!~{ENDLESS}"}}]"#),
            get(&with_query),
        ),
        (format!(r#""host": "~{ENDLESS}""#), get("/").host(field)),
        (
            format!(r#""method": "!~{ENDLESS}""#),
            get("/").method(field),
        ),
        (
            format!(r#""headers": {{"X-A": "~{ENDLESS}"}}"#),
            get("/").field("X-A", field),
        ),
        (
            format!(r#""cookies": {{"c": "~{ENDLESS}"}}"#),
            get("/").field("Cookie", cookie),
        ),
    ] {
        let routes = routes(&format!(
            r#"[{{"match": {{{condition}}}, "action": {{"return": 403}}}}, {{"action": {{"return": 200}}}}]"#
        ));
        let undecided = request.undecided.clone();
        assert_eq!(ask(&routes, request), "failed", "{condition}");
        let undecided = undecided.borrow();
        assert!(
            matches!(undecided.as_slice(), [line] if line.contains("(a+)") && line.ends_with("/routes/0/action")),
            "{condition}: {undecided:?}"
        );
    }
}
