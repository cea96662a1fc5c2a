//! Every rule of NGINX Unit's reference pages, both ways: values that they allow are accepted, values that they forbid
//! are refused.
//!
//! A row is the section of the page with the rule, a part of a document, and the outcome: accepted, or refused at a place. The pages are
//! those of the repository `nginx/unit-docs`; a row whose section begins with `CHANGES` is from the change log of Unit or FreeUnit.
//! Intended differences are marked, and listed in `docs/reference/compat.md`. Issue 10: users met the rows with other outcomes.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tutti_config::table::{self, Object};
use tutti_config::{ValidationContext, parse, validate};

/// The outcome of a row.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Taken,
    /// Refused; the pointer to the fault.
    Refused(&'static str),
}

use Outcome::{Refused, Taken};

type Row = (&'static str, &'static str, Outcome);

/// A document in which `part` stands in its usual place.
type Frame = fn(&str) -> String;

fn context() -> ValidationContext {
    ValidationContext::with_modules([
        ("external", ""),
        ("java", "17.0.15"),
        ("node", ""),
        ("wasm", ""),
        ("wasm-wasi-component", ""),
        ("perl", "5.36.0"),
        ("ruby", "3.1.7"),
        ("php", "7.0.2"),
        ("php", "7.0.23"),
        ("php", "7.1.9"),
        ("python", "3.4.9rc1"),
        ("python", "3.11.2"),
    ])
}

/// Members of a listener that passes to `routes`.
fn listener(part: &str) -> String {
    let part = if part.is_empty() {
        String::new()
    } else {
        format!(", {part}")
    };
    format!(r#"{{"listeners": {{"*:80": {{"pass": "routes"{part}}}}}, "routes": []}}"#)
}

/// A `pass`, beside one of each thing it can name.
fn pass(part: &str) -> String {
    format!(
        r#"{{"listeners": {{"*:80": {{{part}}}}},
            "routes": {{"main": [], "slashes/in/name": [], "GET_route": []}},
            "upstreams": {{"rr": {{"servers": {{"192.168.0.100:8080": {{}}}}}}}},
            "applications": {{
                "blog": {{"type": "php", "root": "/www"}},
                "shop": {{"type": "php", "targets": {{"front": {{"root": "/www"}}}}}}}}}}"#
    )
}

fn whole(part: &str) -> String {
    part.to_owned()
}

fn conditions(part: &str) -> String {
    format!(r#"{{"routes": [{{"match": {{{part}}}, "action": {{"return": 200}}}}]}}"#)
}

fn action(part: &str) -> String {
    format!(
        r#"{{"routes": [{{"action": {{{part}}}}}], "applications": {{"a": {{"type": "php", "root": "/www"}}}}}}"#
    )
}

fn servers(part: &str) -> String {
    format!(r#"{{"upstreams": {{"u": {{"servers": {{{part}}}}}}}}}"#)
}

fn application(part: &str) -> String {
    format!(r#"{{"applications": {{"a": {{{part}}}}}}}"#)
}

fn php(part: &str) -> String {
    application(&format!(r#""type": "php", "root": "/www", {part}"#))
}

fn python(part: &str) -> String {
    application(&format!(r#""type": "python", {part}"#))
}

fn http(part: &str) -> String {
    format!(r#"{{"settings": {{"http": {{{part}}}}}}}"#)
}

fn settings(part: &str) -> String {
    format!(r#"{{"settings": {{{part}}}}}"#)
}

const LISTENER: &str = "/listeners/*:80";
const MATCH: &str = "/routes/0/match";
const ACTION: &str = "/routes/0/action";
const APP: &str = "/applications/a";

/// The pointer with what is shortened in the rows written out.
fn full(pointer: &str) -> String {
    for (short, long) in [
        ("L", LISTENER),
        ("M", MATCH),
        ("A", ACTION),
        ("P", APP),
        ("S", "/upstreams/u/servers"),
        ("H", "/settings/http"),
    ] {
        if let Some(rest) = pointer.strip_prefix(short) {
            return format!("{long}{rest}");
        }
    }
    pointer.to_owned()
}

fn check(frame: Frame, rows: &[Row]) {
    let mut wrong = Vec::new();
    for (section, part, outcome) in rows {
        let text = frame(part);
        let found = parse(text.as_bytes()).and_then(|document| validate(&document, &context()));
        let is_right = match (outcome, &found) {
            (Taken, Ok(_)) => true,
            (Refused(pointer), Err(faults)) => {
                let pointer = full(pointer);
                let places = || faults.0.iter().map(|fault| fault.pointer.as_str());
                places().any(|place| place == pointer)
                    && places().all(|place| place.starts_with(&pointer))
            }
            _ => false,
        };
        if !is_right {
            let found = found.map(drop).map_err(|faults| faults.to_string());
            wrong.push(format!("{section}: {part}\n    {outcome:?}, but {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[rustfmt::skip]
fn listeners() {
    check(
        whole,
        &[
            ("Listeners", r#"{"listeners": {"127.0.0.1:80": {"pass": "routes"}}, "routes": []}"#, Taken),
            ("Listeners", r#"{"listeners": {"[::1]:8080": {"pass": "routes"}}, "routes": []}"#, Taken),
            ("Listeners", r#"{"listeners": {"*:80": {"pass": "routes"}}, "routes": []}"#, Taken),
            ("Listeners", r#"{"listeners": {"unix:/run/a.sock": {"pass": "routes"}}, "routes": []}"#, Taken),
            ("Listeners", r#"{"listeners": {"unix:@abstract_socket": {"pass": "routes"}}, "routes": []}"#, Taken),
            ("Listeners", r#"{"listeners": {"127.0.0.1": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/127.0.0.1")),
            ("Listeners", r#"{"listeners": {"*:0": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/*:0")),
            ("Listeners", r#"{"listeners": {"*:65536": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/*:65536")),
            ("Listeners", r#"{"listeners": {"*": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/*")),
            ("Listeners", r#"{"listeners": {"::1:80": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/::1:80")),
            ("Listeners", r#"{"listeners": {"unix:": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/unix:")),
            ("CHANGES 1.36.0", r#"{"listeners": {"unix:/a\u0000b": {"pass": "routes"}}, "routes": []}"#, Refused("/listeners/unix:~1a\0b")),
            ("Listeners", r#"{"listeners": {}}"#, Taken),
            ("Listeners", r#"{"listeners": []}"#, Refused("/listeners")),
            ("Listeners", r#"{}"#, Taken),
            ("Listeners", r#"{"listeners": {}, "routes": {}, "applications": {}, "upstreams": {}, "settings": {}}"#, Taken),
        ],
    );
    check(
        listener,
        &[
            ("Listeners", "", Taken),
            ("Listeners", r#""backlog": 511"#, Taken),
            ("Listeners", r#""backlog": -1"#, Taken),
            ("Listeners", r#""backlog": -2"#, Refused("L/backlog")),
            ("Listeners", r#""backlog": "511""#, Refused("L/backlog")),
            ("Listeners", r#""unknown": 1"#, Refused("L/unknown")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn destinations() {
    check(
        pass,
        &[
            ("Listeners", r#""pass": "routes/main""#, Taken),
            ("Listeners", r#""pass": "upstreams/rr""#, Taken),
            ("Listeners", r#""pass": "applications/blog""#, Taken),
            ("Listeners", r#""pass": "applications/shop/front""#, Taken),
            ("Listeners", r#""pass": "applications/shop$uri""#, Taken),
            ("Listeners", r#""pass": "routes/slashes%2Fin%2Fname""#, Taken),
            ("Variables", r#""pass": "routes/${method}_route""#, Taken),
            ("Variables", r#""pass": "applications/$host""#, Taken),
            ("Scripting", r#""pass": "`routes/${headers['User-Agent'].split('/')[0] == 'curl' ? 'main' : 'GET_route'}`""#, Taken),
            ("Listeners", r#""pass": """#, Refused("L/pass")),
            ("Listeners", r#""pass": "routes""#, Refused("L/pass")),
            ("Listeners", r#""pass": "routes/other""#, Refused("L/pass")),
            ("Listeners", r#""pass": "routes/slashes/in/name""#, Refused("L/pass")),
            ("Listeners", r#""pass": "routes/%""#, Refused("L/pass")),
            ("Listeners", r#""pass": "upstreams/other""#, Refused("L/pass")),
            ("Listeners", r#""pass": "upstreams""#, Refused("L/pass")),
            ("Listeners", r#""pass": "applications/other""#, Refused("L/pass")),
            ("Listeners", r#""pass": "applications/shop/back""#, Refused("L/pass")),
            ("Listeners", r#""pass": "applications/shop""#, Refused("L/pass")),
            ("Listeners", r#""pass": "applications/blog/front""#, Refused("L/pass")),
            ("Listeners", r#""pass": "blog""#, Refused("L/pass")),
            ("Listeners", r#""pass": 1"#, Refused("L/pass")),
            ("Listeners", "", Refused("L")),
            ("CHANGES 1.4: `application` became `pass`", r#""application": "blog""#, Taken),
            ("CHANGES 1.4: `application` became `pass`", r#""application": "other""#, Refused("L/application")),
            ("CHANGES 1.4: `application` became `pass`", r#""application": "applications/blog""#, Refused("L/application")),
            ("CHANGES 1.4: `application` became `pass`", r#""application": "shop""#, Refused("L/application")),
            ("CHANGES 1.4: `application` became `pass`", r#""application": """#, Refused("L/application")),
            ("CHANGES 1.4: `application` became `pass`", r#""pass": "applications/blog", "application": "blog""#, Refused("L/application")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn tls_and_forwarding() {
    check(
        listener,
        &[
            ("SSL/TLS configuration", r#""tls": {"certificate": "bundle"}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": ["a", "b"]}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": []}"#, Refused("L/tls/certificate")),
            ("CHANGES 1.36.0", r#""tls": {"certificate": ""}"#, Refused("L/tls/certificate")),
            ("CHANGES 1.36.0", r#""tls": {"certificate": "a\u0000b"}"#, Refused("L/tls/certificate")),
            ("SSL/TLS configuration", r#""tls": {"certificate": 1}"#, Refused("L/tls/certificate")),
            ("SSL/TLS configuration", r#""tls": {}"#, Refused("L/tls")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "conf_commands": {"ciphersuites": "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256", "minprotocol": "TLSv1.3"}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "conf_commands": {}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "conf_commands": {"minprotocol": 1}}"#, Refused("L/tls/conf_commands/minprotocol")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "conf_commands": {"NoSuchCommand": "x"}}"#, Refused("L/tls/conf_commands/NoSuchCommand")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"cache_size": 10240, "timeout": 60}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"cache_size": 0}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"cache_size": -1}}"#, Refused("L/tls/session/cache_size")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"timeout": 0}}"#, Refused("L/tls/session/timeout")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": true}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": false}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": []}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": "IAMkP16P8OBuqsijSDGKTpmxrzfFNPP4EdRovXH2mqstXsodPC6MqIce5NlMzHLP"}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": ["IAMkP16P8OBuqsijSDGKTpmxrzfFNPP4EdRovXH2mqstXsodPC6MqIce5NlMzHLP", "Ax4bv/JvMWoQG+BfH0feeM9Qb32wSaVVKOj1+1hmyU8ORMPHnf3Tio8gLkqm2ifC"]}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": "GQczhdXawyhTrWrtOXI7l3YYUY98PrFYzjGhBbiQsAWgaxm+mbkm4MmZZpDw0tkKYTqYWxofDtDC4VBznbBwTJTCgYkJXknJc4Gk2zqD1YA="}}"#, Taken),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": "c2hvcnQ="}}"#, Refused("L/tls/session/tickets")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": ["no Base64!"]}}"#, Refused("L/tls/session/tickets/0")),
            ("SSL/TLS configuration", r#""tls": {"certificate": "a", "session": {"tickets": 1}}"#, Refused("L/tls/session/tickets")),
            ("IP, protocol forwarding", r#""forwarded": {"source": "192.0.2.0/24", "client_ip": "X-Forwarded-For"}"#, Taken),
            ("IP, protocol forwarding", r#""forwarded": {"source": ["198.51.100.1-198.51.100.254", "!198.51.100.128/26", "203.0.113.195"], "protocol": "X-Forwarded-Proto", "recursive": true}"#, Taken),
            ("IP, protocol forwarding", r#""forwarded": {"source": "unix", "client_ip": "X-Forwarded-For"}"#, Taken),
            ("IP, protocol forwarding", r#""forwarded": {"client_ip": "X-Forwarded-For"}"#, Refused("L/forwarded")),
            ("IP, protocol forwarding", r#""forwarded": {"source": "localhost", "client_ip": "X-Forwarded-For"}"#, Refused("L/forwarded/source")),
            ("IP, protocol forwarding", r#""forwarded": {"source": "192.0.2.0/24", "client_ip": "X-Forwarded-For", "recursive": "yes"}"#, Refused("L/forwarded/recursive")),
            ("IP, protocol forwarding", r#""client_ip": {"source": "192.0.2.0/24", "header": "X-Forwarded-For", "recursive": false}"#, Taken),
            ("IP, protocol forwarding", r#""client_ip": {"source": "192.0.2.0/24"}"#, Refused("L/client_ip")),
            ("IP, protocol forwarding", r#""client_ip": {"header": "X-Forwarded-For"}"#, Refused("L/client_ip")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn routes_and_conditions() {
    check(
        whole,
        &[
            ("Routes", r#"{"routes": []}"#, Taken),
            ("Routes", r#"{"routes": {}}"#, Taken),
            ("Routes", r#"{"routes": {"main": [], "route66": []}}"#, Taken),
            ("Routes", r#"{"routes": "main"}"#, Refused("/routes")),
            ("Routes", r#"{"routes": {"main": {}}}"#, Refused("/routes/main")),
            ("Route steps", r#"{"routes": [{"action": {"return": 200}}]}"#, Taken),
            ("Route steps", r#"{"routes": [{"match": {}}]}"#, Refused("/routes/0")),
            ("Route steps", r#"{"routes": [{}]}"#, Refused("/routes/0")),
            ("Route steps", r#"{"routes": [[]]}"#, Refused("/routes/0")),
            ("Route steps", r#"{"routes": [{"match": {}, "action": {"return": 200}}]}"#, Taken),
            ("Route steps", r#"{"routes": [{"match": [], "action": {"return": 200}}]}"#, Refused("M")),
        ],
    );
    check(
        conditions,
        &[
            ("Matching conditions", r#""uri": "/php/*""#, Taken),
            ("Matching conditions", r#""uri": ["*.css", "*.jpg"]"#, Taken),
            ("Matching conditions", r#""uri": []"#, Taken),
            ("Matching conditions", r#""uri": """#, Taken),
            ("Matching conditions", r#""uri": 1"#, Refused("M/uri")),
            ("Matching conditions", r#""uri": ["/a", 1]"#, Refused("M/uri/1")),
            ("Matching conditions", r#""host": "*.example.com""#, Taken),
            ("Matching conditions", r#""host": ["eu-*.example.com", "!eu-5.example.com"]"#, Taken),
            ("Matching conditions", r#""host": {}"#, Refused("M/host")),
            ("Matching conditions", r#""method": ["!HEAD", "!get"]"#, Taken),
            ("Matching conditions", r#""query": ["utf8", "utf16"]"#, Taken),
            ("Matching conditions", r#""query": """#, Taken),
            ("Matching conditions", r#""scheme": "http""#, Taken),
            ("Matching conditions", r#""scheme": "https""#, Taken),
            ("Matching conditions: not case-sensitive", r#""scheme": "HTTPS""#, Taken),
            ("Matching conditions: not case-sensitive", r#""scheme": "Http""#, Taken),
            ("Matching conditions", r#""scheme": "ftp""#, Refused("M/scheme")),
            ("Matching conditions", r#""scheme": "*""#, Refused("M/scheme")),
            ("Matching conditions", r#""scheme": """#, Refused("M/scheme")),
            ("Matching conditions", r#""scheme": ["http", "https"]"#, Refused("M/scheme")),
            ("Matching conditions", r#""arguments": {"key1": "4861", "key2": ["a*", "!ab"]}"#, Taken),
            ("Matching conditions", r#""arguments": [{"arg1": "a"}, {"arg2": "b"}]"#, Taken),
            ("Matching conditions", r#""arguments": {}"#, Taken),
            ("Matching conditions", r#""arguments": []"#, Taken),
            ("Matching conditions", r#""arguments": "a=b""#, Refused("M/arguments")),
            ("Matching conditions", r#""arguments": ["a"]"#, Refused("M/arguments/0")),
            ("Matching conditions", r#""arguments": {"a": 1}"#, Refused("M/arguments/a")),
            ("Pattern syntax: names of arguments can be encoded", r#""arguments": {"%C3%96": "%C3*"}"#, Taken),
            ("Pattern syntax: names of arguments can be encoded", r#""arguments": {"%C": "a"}"#, Refused("M/arguments/%C")),
            ("Matching conditions", r#""cookies": {"cookie1": "a"}"#, Taken),
            ("Matching conditions", r#""cookies": [{"cookie1": "a"}, {"cookie2": "!b"}]"#, Taken),
            ("Matching conditions", r#""cookies": 1"#, Refused("M/cookies")),
            ("Matching conditions", r#""headers": [{"Accept-Encoding": "*gzip*", "User-Agent": "Mozilla/5.0*"}, {"User-Agent": "curl*"}]"#, Taken),
            ("Matching conditions", r#""headers": {"Accept Encoding": "a"}"#, Refused("M/headers/Accept Encoding")),
            ("Pattern syntax", r#""uri": "How*s*that*to*you""#, Taken),
            ("Pattern syntax", r#""uri": "~^\\d+\\.\\d+\\.\\d+\\.\\d+""#, Taken),
            ("Pattern syntax", r#""uri": "!~/articles/\\d{4}-\\d{2}-\\d{2}""#, Taken),
            ("Pattern syntax: PCRE", r#""uri": "~^/(?<year>\\d+)/(?!private)\\w++(?>a|b)(?i)x""#, Taken),
            ("Pattern syntax", r#""uri": "~(""#, Refused("M/uri")),
            ("Pattern syntax", r#""uri": "/a%2Ab""#, Taken),
            ("Pattern syntax", r#""uri": "/a%""#, Refused("M/uri")),
            ("Pattern syntax", r#""query": "%7Efuzzy word search""#, Taken),
            ("Pattern syntax", r#""query": "100%""#, Refused("M/query")),
            ("Pattern syntax: hosts are not encoded", r#""host": "100%""#, Taken),
            ("Pattern syntax", r#""source": ["!192.168.1.1", "!10.1.1.0/16", "192.168.1.0/24", "2001:0db8::/32"]"#, Taken),
            ("Pattern syntax", r#""source": "127.0.0.1:0""#, Taken),
            ("Pattern syntax", r#""source": "*:0-1023""#, Taken),
            ("Pattern syntax", r#""destination": "[::1]:0""#, Taken),
            ("Pattern syntax", r#""source": "192.0.2.1-192.0.2.200:8000-8090""#, Taken),
            ("Pattern syntax", r#""source": "[2001:0db8:bbbb::1-2001:0db8:cccc::]:8080-8090""#, Taken),
            ("Pattern syntax", r#""source": "2001:0db8::-2001:0db8:aaa9:ffff:ffff:ffff:ffff:ffff""#, Taken),
            ("Pattern syntax", r#""source": "*:80""#, Taken),
            ("Pattern syntax", r#""source": "unix""#, Taken),
            ("Pattern syntax", r#""destination": ["unix", "*:443"]"#, Taken),
            ("Pattern syntax", r#""source": []"#, Taken),
            ("Pattern syntax", r#""source": "*""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "*:""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "*:80-""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "*:-80""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "*:90-80""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "*:65536""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0.300""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0.*""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0.0/33""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0.0/""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "2001::/129""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0.9-127.0.0.1""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "127.0.0.1-::1""#, Refused("M/source")),
            ("Pattern syntax", r#""source": "localhost""#, Refused("M/source")),
            ("Pattern syntax", r#""source": """#, Refused("M/source")),
            ("CHANGES 1.33.0", r#""if": "$arg_foo""#, Taken),
            ("CHANGES 1.33.0", r#""if": "!$header_x""#, Taken),
            ("CHANGES 1.33.0", r#""if": "`${uri == '/admin'}`""#, Taken),
            ("CHANGES 1.33.0", r#""if": "`${/^\\/admin/.test(uri)}`""#, Taken),
            ("CHANGES 1.33.0", r#""if": """#, Taken),
            ("CHANGES 1.33.0", r#""if": true"#, Refused("M/if")),
            ("Matching conditions", r#""port": 80"#, Refused("M/port")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn actions() {
    check(
        action,
        &[
            ("Handling actions", r#""pass": "applications/a""#, Taken),
            ("Handling actions", r#""pass": "applications/b""#, Refused("A/pass")),
            ("Handling actions", "", Refused("A")),
            ("Handling actions: exclusive", r#""pass": "applications/a", "return": 200"#, Refused("A/return")),
            ("Handling actions: exclusive", r#""share": "/a", "proxy": "http://127.0.0.1:80""#, Refused("A/proxy")),
            ("Handling actions: rewrite with any", r#""rewrite": "/app/$uri", "pass": "applications/a""#, Taken),
            ("Handling actions: rewrite with any", r#""rewrite": "/v1", "share": "/www$uri""#, Taken),
            ("Handling actions: rewrite with any", r#""rewrite": "/v1", "return": 200"#, Taken),
            ("URI rewrite", r#""rewrite": "`/a${uri}`", "return": 200"#, Taken),
            ("URI rewrite: empty, nothing is rewritten", r#""rewrite": "", "return": 200"#, Taken),
            ("URI rewrite", r#""rewrite": 1, "return": 200"#, Refused("A/rewrite")),
            ("URI rewrite", r#""rewrite": "/a""#, Refused("A")),
            ("Variables", r#""rewrite": "$arg_a$cookie_b$header_c$dollar${host}$request_id$request_line$request_time$request_uri$remote_addr$method", "return": 200"#, Taken),
            ("Variables", r#""rewrite": "/a${uri", "return": 200"#, Refused("A/rewrite")),
            ("Variables", r#""rewrite": "/a$", "return": 200"#, Refused("A/rewrite")),
            ("Variables (docs/reference/compat.md: unknown variable)", r#""rewrite": "/a$nothing", "return": 200"#, Refused("A/rewrite")),
            ("Scripting", r#""rewrite": "`${uri`", "return": 200"#, Refused("A/rewrite")),
            ("Response headers", r#""return": 200, "response_headers": {"Cache-Control": "max-age=60, s-maxage=120", "X-Gone": null}"#, Taken),
            ("Response headers", r#""return": 200, "response_headers": {"Content-Language": "`${uri.startsWith('/uk') ? 'en-GB' : 'en-US'}`"}"#, Taken),
            ("Response headers", r#""return": 200, "response_headers": {"Content-Type": "${response_header_content_type};charset=iso-8859-1"}"#, Taken),
            ("Response headers", r#""return": 200, "response_headers": {"Location": ""}"#, Taken),
            ("Response headers", r#""return": 200, "response_headers": {}"#, Taken),
            ("Response headers: cannot be set", r#""return": 200, "response_headers": {"Date": "now"}"#, Refused("A/response_headers/Date")),
            ("Response headers (docs/reference/compat.md: `Server` can be removed)", r#""return": 200, "response_headers": {"server": null}"#, Taken),
            ("Response headers: cannot be set", r#""return": 200, "response_headers": {"Content-Length": "1"}"#, Refused("A/response_headers/Content-Length")),
            ("Response headers", r#""return": 200, "response_headers": {"A B": "1"}"#, Refused("A/response_headers/A B")),
            ("Response headers", r#""return": 200, "response_headers": {"A": 1}"#, Refused("A/response_headers/A")),
            ("CHANGES 1.36.0", r#""return": 200, "response_headers": {"A": "b\r\nC: d"}"#, Refused("A/response_headers/A")),
            ("CHANGES 1.36.0", r#""return": 200, "response_headers": {"A": "$uri\u0000"}"#, Refused("A/response_headers/A")),
            ("CHANGES 1.36.0", r#""return": 200, "response_headers": {"A": "b\u007f"}"#, Refused("A/response_headers/A")),
            ("CHANGES 1.36.0", r#""return": 200, "response_headers": {"A": "b\tc"}"#, Taken),
            ("Instant responses, redirects", r#""return": 0"#, Taken),
            ("Instant responses, redirects", r#""return": 999"#, Taken),
            ("Instant responses, redirects", r#""return": 1000"#, Refused("A/return")),
            ("Instant responses, redirects", r#""return": -1"#, Refused("A/return")),
            ("Instant responses, redirects", r#""return": 200.5"#, Refused("A/return")),
            ("Instant responses, redirects", r#""return": "200""#, Refused("A/return")),
            ("Instant responses, redirects", r#""return": 301, "location": "https://$host$request_uri""#, Taken),
            ("Instant responses, redirects", r#""return": 301, "location": """#, Taken),
            ("Instant responses, redirects", r#""return": 200, "location": "/a""#, Taken),
            ("Instant responses, redirects", r#""return": 301, "location": 1"#, Refused("A/location")),
            ("Instant responses, redirects", r#""share": "/a", "location": "/b""#, Refused("A/location")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn files() {
    check(
        action,
        &[
            ("Static files", r#""share": "/www/static/$uri""#, Taken),
            ("Static files", r#""share": ["/www/$host$uri", "/www/error_pages/not_found.html"]"#, Taken),
            ("Static files", r#""share": "`/www/${host}${uri}`""#, Taken),
            ("Static files", r#""share": "relative$uri""#, Taken),
            ("Static files", r#""share": """#, Refused("A/share")),
            ("Static files", r#""share": []"#, Refused("A/share")),
            ("Static files", r#""share": [""]"#, Refused("A/share/0")),
            ("Static files", r#""share": ["/a", 1]"#, Refused("A/share/1")),
            ("Static files", r#""share": {}"#, Refused("A/share")),
            ("CHANGES 1.36.0", r#""share": "/www/a\u0000b""#, Refused("A/share")),
            ("Static files", r#""share": "/a", "index": "default.html""#, Taken),
            ("Static files: empty, no index", r#""share": "/a", "index": """#, Taken),
            ("Static files", r#""share": "/a", "index": ["a"]"#, Refused("A/index")),
            ("Static files", r#""index": "a.html", "return": 200"#, Refused("A/index")),
            ("MIME filtering", r#""share": "/a", "types": ["!text/javascript", "text/*", "~video/3gpp2?"]"#, Taken),
            ("MIME filtering", r#""share": "/a", "types": "image/*""#, Taken),
            ("MIME filtering", r#""share": "/a", "types": ["!"]"#, Taken),
            ("MIME filtering", r#""share": "/a", "types": [""]"#, Taken),
            ("MIME filtering", r#""share": "/a", "types": []"#, Taken),
            ("MIME filtering", r#""share": "/a", "types": [1]"#, Refused("A/types/0")),
            ("MIME filtering", r#""share": "/a", "types": ["~("]"#, Refused("A/types/0")),
            ("MIME filtering", r#""types": ["a"], "return": 200"#, Refused("A/types")),
            ("Path restrictions", r#""share": "/www/$host/static$uri", "chroot": "/www/$host/", "follow_symlinks": false, "traverse_mounts": false"#, Taken),
            ("Path restrictions", r#""share": "/a", "chroot": "`/www/${host}`""#, Taken),
            ("Path restrictions: empty, none", r#""share": "/a", "chroot": """#, Taken),
            ("CHANGES 1.36.0", r#""share": "/a", "chroot": "/a\u0000b""#, Refused("A/chroot")),
            ("Path restrictions", r#""share": "/a", "chroot": 1"#, Refused("A/chroot")),
            ("Path restrictions", r#""share": "/a", "follow_symlinks": "no""#, Refused("A/follow_symlinks")),
            ("Path restrictions", r#""share": "/a", "traverse_mounts": 0"#, Refused("A/traverse_mounts")),
            ("Fallback action", r#""share": "/a", "fallback": {"pass": "applications/a"}"#, Taken),
            ("Fallback action", r#""share": "/a", "fallback": {"share": "/b", "chroot": "/", "fallback": {"proxy": "http://127.0.0.1:9000"}}"#, Taken),
            ("Fallback action", r#""share": "/a", "fallback": {"return": 404}"#, Taken),
            ("Fallback action", r#""share": "/a", "fallback": {}"#, Refused("A/fallback")),
            ("Fallback action", r#""share": "/a", "fallback": "routes""#, Refused("A/fallback")),
            ("Fallback action", r#""share": "/a", "fallback": {"pass": "applications/b"}"#, Refused("A/fallback/pass")),
            ("Fallback action", r#""return": 200, "fallback": {"return": 404}"#, Refused("A/fallback")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn proxies_and_upstreams() {
    check(
        action,
        &[
            ("Proxying", r#""proxy": "http://127.0.0.1:8080""#, Taken),
            ("Proxying", r#""proxy": "http://[::1]:8080""#, Taken),
            ("Proxying", r#""proxy": "http://unix:/path/to/unix.sock""#, Taken),
            ("Proxying", r#""proxy": """#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "127.0.0.1:8080""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "unix:/path/to/unix.sock""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "/path""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1:""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1:port""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1:8080b""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1:-1""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1:0""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://127.0.0.1:65536""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://[]:80""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://[::1]""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://[::1:80""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://::1:80""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://*:80""#, Refused("A/proxy")),
            ("Proxying: a socket address, no path", r#""proxy": "http://127.0.0.1:8080/""#, Refused("A/proxy")),
            ("Proxying: a socket address, no path", r#""proxy": "http://127.0.0.1:8080/path""#, Refused("A/proxy")),
            ("Proxying: a socket address, no path", r#""proxy": "http://127.0.0.1:8080?a=b""#, Refused("A/proxy")),
            ("Proxying: a socket address, no path", r#""proxy": "http://127.0.0.1:8080#a""#, Refused("A/proxy")),
            ("Proxying: a socket address, no path", r#""proxy": "http://user@127.0.0.1:8080""#, Refused("A/proxy")),
            ("Proxying: a socket address, no path", r#""proxy": "http://unix:/run/a.sock:/path""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": "http://unix:""#, Refused("A/proxy")),
            ("CHANGES 1.36.0", r#""proxy": "http://unix:/a\u0000b""#, Refused("A/proxy")),
            ("Proxying", r#""proxy": ["http://127.0.0.1:8080"]"#, Refused("A/proxy")),
        ],
    );
    check(
        servers,
        &[
            ("Load balancing", r#""192.168.0.100:8080": {}, "192.168.0.101:8080": {"weight": 0.5}"#, Taken),
            ("Load balancing", r#""192.168.0.100:8080": {"weight": 1e1}, "192.168.0.101:8080": {"weight": 10.0}, "[::1]:80": {"weight": 10}"#, Taken),
            ("Load balancing", r#""unix:/run/a.sock": {"weight": 0}"#, Taken),
            ("Load balancing", r#""127.0.0.1:80": {"weight": 1000000}"#, Taken),
            ("Load balancing", r#""127.0.0.1:80": {"weight": 1000001}"#, Refused("S/127.0.0.1:80/weight")),
            ("Load balancing", r#""127.0.0.1:80": {"weight": -1}"#, Refused("S/127.0.0.1:80/weight")),
            ("Load balancing", r#""127.0.0.1:80": {"weight": "1"}"#, Refused("S/127.0.0.1:80/weight")),
            ("Load balancing", r#""127.0.0.1:80": {"backend": 1}"#, Refused("S/127.0.0.1:80/backend")),
            ("Load balancing", r#""127.0.0.1:80": 1"#, Refused("S/127.0.0.1:80")),
            ("Load balancing", r#""127.0.0.1": {}"#, Refused("S/127.0.0.1")),
            ("Load balancing", r#""[::1]": {}"#, Refused("S/[::1]")),
            ("Load balancing", r#""127.0.0.1:0": {}"#, Refused("S/127.0.0.1:0")),
            ("Load balancing", r#""*:80": {}"#, Refused("S/*:80")),
            ("Load balancing", r#""": {}"#, Refused("S/")),
            ("Load balancing", r#""http://127.0.0.1:80": {}"#, Refused("S/http:~1~1127.0.0.1:80")),
            ("Load balancing", r#""127.0.0.1:80/path": {}"#, Refused("S/127.0.0.1:80~1path")),
        ],
    );
    check(
        whole,
        &[
            ("Load balancing", r#"{"upstreams": {}}"#, Taken),
            ("Load balancing", r#"{"upstreams": {"u": {}}}"#, Refused("/upstreams/u")),
            ("Load balancing", r#"{"upstreams": {"u": {"servers": []}}}"#, Refused("/upstreams/u/servers")),
            (
                "Load balancing: FastCGI has no port of its own",
                r#"{"upstreams": {"u": {"fastcgi": {}, "servers": {"backend": {}}}}}"#,
                Refused("/upstreams/u/servers/backend"),
            ),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn applications() {
    check(
        application,
        &[
            ("Applications", r#""type": "php", "root": "/www/blogs/scripts/", "processes": 20"#, Taken),
            ("Applications", r#""root": "/www""#, Refused("P")),
            ("Applications", r#""type": "cobol""#, Refused("P/type")),
            ("Applications", r#""type": """#, Refused("P/type")),
            ("Applications", r#""type": 1"#, Refused("P/type")),
            ("Applications: versions", r#""type": "php 7", "root": "/www""#, Taken),
            ("Applications: versions", r#""type": "php 7.0", "root": "/www""#, Taken),
            ("Applications: versions", r#""type": "php 7.0.2", "root": "/www""#, Taken),
            ("Applications: versions", r#""type": "php 7.1.9", "root": "/www""#, Taken),
            ("Applications: versions", r#""type": "php 8", "root": "/www""#, Refused("P/type")),
            ("Applications: versions", r#""type": "php 7.0.3", "root": "/www""#, Refused("P/type")),
            ("Applications: versions", r#""type": "python 3", "module": "wsgi""#, Taken),
            ("Applications: versions", r#""type": "python 3.4", "module": "wsgi""#, Taken),
            ("Applications: versions", r#""type": "python 3.4.9rc1", "module": "wsgi""#, Taken),
            ("Applications: versions", r#""type": "external 1", "executable": "/a""#, Refused("P/type")),
            ("WebAssembly", r#""type": "wasm", "module": "/www/a.wasm", "request_handler": "r", "malloc_handler": "m", "free_handler": "f", "module_init_handler": "i", "module_end_handler": "e", "request_init_handler": "a", "request_end_handler": "b", "response_end_handler": "c", "access": {"filesystem": ["/tmp/", "/var/tmp/"]}"#, Taken),
            ("WebAssembly", r#""type": "wasm", "module": "/www/a.wasm", "malloc_handler": "m", "free_handler": "f""#, Refused("P")),
            ("WebAssembly", r#""type": "wasm", "module": "/www/a.wasm", "request_handler": "", "malloc_handler": "m", "free_handler": "f""#, Refused("P/request_handler")),
            ("WebAssembly", r#""type": "wasm", "module": "/www/a.wasm", "request_handler": "r", "malloc_handler": "m", "free_handler": "f", "access": {"network": ["*"]}"#, Refused("P/access/network")),
            ("beyond Unit", r#""type": "wasm", "module": "/www/a.wasm", "request_handler": "r", "malloc_handler": "m", "free_handler": "f", "instance": {"memory": "64M", "time": 0}"#, Taken),
            ("WebAssembly", r#""type": "wasm-wasi-component", "component": "/www/a.wasm", "access": {"filesystem": ["/tmp/", "/var/tmp/"]}"#, Taken),
            ("WebAssembly", r#""type": "wasm-wasi-component""#, Refused("P")),
            ("beyond Unit", r#""type": "wasm-wasi-component", "component": "a.wasm", "access": {"network": ["api.example.com", "*.example.com:8080"]}, "instance": {"requests": 100, "memory": "64M", "time": 0}"#, Taken),
            ("beyond Unit", r#""type": "wasm-wasi-component", "component": "a.wasm", "access": {"network": ["https://example.com"]}"#, Refused("P/access/network/0")),
            ("beyond Unit", r#""type": "wasm-wasi-component", "component": "a.wasm", "instance": {"memory": "1K"}"#, Refused("P/instance/memory")),
        ],
    );
    check(
        php,
        &[
            ("Applications", r#""environment": {"A": "b", "EMPTY": ""}"#, Taken),
            ("Applications", r#""environment": {"A": 1}"#, Refused("P/environment/A")),
            ("Applications", r#""environment": {"A": null}"#, Refused("P/environment/A")),
            ("Applications", r#""environment": {"": "b"}"#, Refused("P/environment/")),
            ("CHANGES 1.36.0", r#""environment": {"A": "b\u0000c"}"#, Refused("P/environment/A")),
            ("Applications", r#""user": "www", "group": "www""#, Taken),
            ("CHANGES 1.36.0", r#""user": """#, Refused("P/user")),
            ("CHANGES 1.36.0", r#""user": "a\u0000b""#, Refused("P/user")),
            ("CHANGES 1.36.0", r#""group": """#, Refused("P/group")),
            ("CHANGES 1.36.0", r#""group": "a\u0000b""#, Refused("P/group")),
            ("Applications", r#""user": 33"#, Refused("P/user")),
            ("Applications", r#""stdout": "/dev/null", "stderr": "/var/log/a""#, Taken),
            ("CHANGES 1.36.0", r#""stdout": """#, Refused("P/stdout")),
            ("CHANGES 1.36.0", r#""stderr": "a\u0000b""#, Refused("P/stderr")),
            ("Applications", r#""working_directory": "/www""#, Taken),
            ("issue 28", r#""working_directory": """#, Taken),
            ("CHANGES 1.36.0", r#""working_directory": "a\u0000b""#, Refused("P/working_directory")),
            ("Request limits", r#""limits": {"timeout": 10, "requests": 1000}"#, Taken),
            ("Request limits", r#""limits": {}"#, Taken),
            ("Request limits", r#""limits": {"timeout": 0, "requests": 0}"#, Taken),
            ("Request limits", r#""limits": {"timeout": -1}"#, Refused("P/limits/timeout")),
            ("Request limits", r#""limits": {"timeout": 0.5}"#, Refused("P/limits/timeout")),
            ("Request limits", r#""limits": {"requests": "10"}"#, Refused("P/limits/requests")),
            ("Request limits", r#""limits": 10"#, Refused("P/limits")),
            ("Application processes", r#""processes": 1"#, Taken),
            ("Application processes", r#""processes": {}"#, Taken),
            ("Application processes", r#""processes": {"max": 10, "spare": 5, "idle_timeout": 20}"#, Taken),
            ("Application processes", r#""processes": {"max": 1, "spare": 0, "idle_timeout": 0}"#, Taken),
            ("Application processes", r#""processes": 0"#, Refused("P/processes")),
            ("Application processes", r#""processes": -1"#, Refused("P/processes")),
            ("Application processes", r#""processes": 1.5"#, Refused("P/processes")),
            ("Application processes", r#""processes": "1""#, Refused("P/processes")),
            ("Application processes", r#""processes": {"max": 0}"#, Refused("P/processes/max")),
            ("Application processes", r#""processes": {"max": 5, "spare": 6}"#, Refused("P/processes/spare")),
            ("Application processes", r#""processes": {"spare": 2}"#, Refused("P/processes/spare")),
            ("Application processes", r#""processes": {"max": 2, "spare": -1}"#, Refused("P/processes/spare")),
            ("Application processes", r#""processes": {"idle_timeout": -1}"#, Refused("P/processes/idle_timeout")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn isolation() {
    fn isolated(part: &str) -> String {
        php(&format!(r#""isolation": {{{part}}}"#))
    }
    check(
        isolated,
        &[
            ("Process isolation", "", Taken),
            ("Process isolation", r#""automount": {"language_deps": false, "procfs": false, "tmpfs": false}"#, Taken),
            ("Process isolation", r#""automount": {"sysfs": true}"#, Refused("P/isolation/automount/sysfs")),
            ("Process isolation", r#""automount": false"#, Refused("P/isolation/automount")),
            ("Process isolation", r#""namespaces": {"cgroup": true, "credential": true, "mount": true, "network": true, "pid": true, "uname": true}"#, Taken),
            ("Process isolation", r#""namespaces": {"pid": 1}"#, Refused("P/isolation/namespaces/pid")),
            ("Process isolation", r#""namespaces": {"user": true}"#, Refused("P/isolation/namespaces/user")),
            ("Process isolation", r#""uidmap": [{"host": 1000, "container": 0, "size": 1000}], "gidmap": [{"host": 1000, "container": 0, "size": 1000}]"#, Taken),
            ("Process isolation: integers", r#""uidmap": [{"host": "1000", "container": 0, "size": 1}]"#, Refused("P/isolation/uidmap/0/host")),
            ("Process isolation: each is needed", r#""uidmap": [{"host": 1000, "container": 0}]"#, Refused("P/isolation/uidmap/0")),
            ("Process isolation", r#""gidmap": [{"host": -1, "container": 0, "size": 1}]"#, Refused("P/isolation/gidmap/0/host")),
            ("Process isolation", r#""gidmap": {"host": 1, "container": 0, "size": 1}"#, Refused("P/isolation/gidmap")),
            ("Using control groups", r#""cgroup": {"path": "production/app"}"#, Taken),
            ("Using control groups", r#""cgroup": {"path": "/staging/app"}"#, Taken),
            ("Using control groups", r#""cgroup": {}"#, Refused("P/isolation/cgroup")),
            ("Using control groups", r#""cgroup": {"path": ""}"#, Refused("P/isolation/cgroup/path")),
            ("Using control groups", r#""cgroup": {"path": "/"}"#, Refused("P/isolation/cgroup/path")),
            ("Using control groups", r#""cgroup": {"path": "../other"}"#, Refused("P/isolation/cgroup/path")),
            ("CHANGES 1.36.0", r#""cgroup": {"path": "a\u0000b"}"#, Refused("P/isolation/cgroup/path")),
            ("Changing root directory", r#""rootfs": "/var/app/sandbox/""#, Taken),
            ("Changing root directory", r#""rootfs": "sandbox""#, Refused("P/isolation/rootfs")),
            ("CHANGES 1.36.0", r#""rootfs": "/""#, Refused("P/isolation/rootfs")),
            ("CHANGES 1.36.0", r#""rootfs": "/.""#, Refused("P/isolation/rootfs")),
            ("CHANGES 1.36.0", r#""rootfs": "/..""#, Refused("P/isolation/rootfs")),
            ("CHANGES 1.36.0", r#""rootfs": "/foo/..""#, Refused("P/isolation/rootfs")),
            ("CHANGES 1.36.0", r#""rootfs": "//foo//..//""#, Refused("P/isolation/rootfs")),
            ("CHANGES 1.36.0", r#""rootfs": "/foo/../bar""#, Taken),
            ("CHANGES 1.36.0", r#""rootfs": "/a\u0000b""#, Refused("P/isolation/rootfs")),
            ("Process isolation", r#""new_privs": false"#, Taken),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn languages() {
    check(
        application,
        &[
            ("Go", r#""type": "external", "working_directory": "/www/chat", "executable": "bin/chat_app", "arguments": ["--tmp-files", "/tmp/go-cache"]"#, Taken),
            ("Go", r#""type": "external", "executable": "a", "arguments": []"#, Taken),
            ("Go", r#""type": "external""#, Refused("P")),
            ("CHANGES 1.36.0", r#""type": "external", "executable": """#, Refused("P/executable")),
            ("CHANGES 1.36.0", r#""type": "external", "executable": "a\u0000b""#, Refused("P/executable")),
            ("Go", r#""type": "external", "executable": "a", "arguments": "b""#, Refused("P/arguments")),
            ("Go", r#""type": "external", "executable": "a", "arguments": [1]"#, Refused("P/arguments/0")),
            ("CHANGES 1.36.0", r#""type": "external", "executable": "a", "arguments": ["b\u0000c"]"#, Refused("P/arguments/0")),
            ("Node.js", r#""type": "external", "executable": "/usr/bin/env", "arguments": ["node", "--loader", "unit-http/loader.mjs", "--require", "unit-http/loader", "app.js"]"#, Taken),
            ("beyond Unit", r#""type": "node", "script": "app.js", "arguments": ["a"], "runtime": "/usr/bin/node""#, Taken),
            ("beyond Unit", r#""type": "node""#, Refused("P")),
            ("beyond Unit", r#""type": "node", "script": """#, Refused("P/script")),
            ("beyond Unit", r#""type": "node", "script": "a", "arguments": "b""#, Refused("P/arguments")),
            ("beyond Unit", r#""type": "node", "script": "a", "runtime": """#, Refused("P/runtime")),
            ("Ruby", r#""type": "ruby", "script": "/www/cms/config.ru", "hooks": "hooks.rb", "threads": 5"#, Taken),
            ("Ruby", r#""type": "ruby", "hooks": "hooks.rb""#, Refused("P")),
            ("Java", r#""type": "java", "classpath": ["/www/qwk2mart/lib/qwk2mart-2.0.0.jar"], "options": ["-Dlog_path=/var/log/qwk2mart.log"], "unit_jars": "/usr/share/unit", "webapp": "/www/qwk2mart/qwk2mart.war""#, Taken),
            ("Java", r#""type": "java 17", "webapp": "/www/a.war", "threads": 5, "thread_stack_size": 1048576"#, Taken),
            ("Java", r#""type": "java", "classpath": []"#, Refused("P")),
            ("Java", r#""type": "java", "webapp": "a.war", "options": "-Xmx1g""#, Refused("P/options")),
            ("Java", r#""type": "java", "webapp": "a.war", "classpath": [1]"#, Refused("P/classpath/0")),
            ("CHANGES 1.36.0", r#""type": "java", "webapp": """#, Refused("P/webapp")),
            ("beyond Unit", r#""type": "java", "webapp": "a.war", "servlet": "6.0", "java_home": "/opt/jdk", "virtual_threads": true"#, Taken),
            ("beyond Unit", r#""type": "java", "webapp": "a.war", "servlet": "3.0""#, Refused("P/servlet")),
            ("Perl", r#""type": "perl", "script": "/www/bugtracker/app.psgi", "threads": 2, "thread_stack_size": 65536"#, Taken),
            ("Perl", r#""type": "perl""#, Refused("P")),
            ("Perl", r#""type": "perl", "script": "a.psgi", "threads": 0"#, Refused("P/threads")),
            ("Perl", r#""type": "perl", "script": "a.psgi", "thread_stack_size": 10"#, Refused("P/thread_stack_size")),
            ("Perl: a multiple of the page size", r#""type": "perl", "script": "a.psgi", "thread_stack_size": 65537"#, Refused("P/thread_stack_size")),
            ("CHANGES 1.36.0", r#""type": "perl", "script": """#, Refused("P/script")),
            ("PHP", r#""type": "php", "root": "/www", "index": "default.php""#, Taken),
            ("PHP", r#""type": "php", "root": "/www", "script": "index.php""#, Taken),
            ("PHP", r#""type": "php""#, Refused("P")),
            ("CHANGES 1.36.0", r#""type": "php", "root": """#, Refused("P/root")),
            ("CHANGES 1.36.0", r#""type": "php", "root": "/www", "script": "a\u0000b""#, Refused("P/script")),
            ("CHANGES 1.36.0", r#""type": "php", "root": "/www", "index": """#, Refused("P/index")),
            ("PHP", r#""type": "php", "root": "/www", "options": {"file": "/etc/php.ini", "admin": {"memory_limit": "256M"}, "user": {"display_errors": "0"}}"#, Taken),
            ("PHP: strings", r#""type": "php", "root": "/www", "options": {"admin": {"max_file_uploads": 4}}"#, Refused("P/options/admin/max_file_uploads")),
            ("PHP: strings", r#""type": "php", "root": "/www", "options": {"user": {"display_errors": false}}"#, Refused("P/options/user/display_errors")),
            ("CHANGES 1.36.0", r#""type": "php", "root": "/www", "options": {"file": ""}"#, Refused("P/options/file")),
            ("CHANGES 1.36.0", r#""type": "php", "root": "/www", "options": {"file": "a\u0000b"}"#, Refused("P/options/file")),
            ("PHP, Targets", r#""type": "php", "targets": {"front": {"script": "front.php", "root": "/a/"}, "back": {"index": "b.php", "root": "/b/"}}"#, Taken),
            ("PHP, Targets", r#""type": "php", "targets": {"front": {"script": "front.php"}}"#, Refused("P/targets/front")),
            ("PHP, Targets: no root beside them", r#""type": "php", "root": "/www", "targets": {"front": {"root": "/a/"}}"#, Refused("P/targets")),
            ("PHP, Targets: no script beside them", r#""type": "php", "script": "a.php", "targets": {"front": {"root": "/a/"}}"#, Refused("P/script")),
            ("PHP, Targets: no index beside them", r#""type": "php", "index": "a.php", "targets": {"front": {"root": "/a/"}}"#, Refused("P/index")),
            ("PHP, Targets: shared settings", r#""type": "php", "targets": {"front": {"root": "/a/", "options": {}}}"#, Refused("P/targets/front/options")),
            ("Python", r#""type": "python", "module": "cart.run", "callable": "app", "factory": true, "home": ".virtualenv/", "path": "/www/store/", "prefix": "/cart", "protocol": "asgi", "threads": 4, "thread_stack_size": 1048576"#, Taken),
            ("Python", r#""type": "python""#, Refused("P")),
        ],
    );
    check(
        python,
        &[
            ("Python", r#""module": "a", "path": ["/b", "/c"]"#, Taken),
            ("Python", r#""module": "a", "path": []"#, Taken),
            ("CHANGES 1.36.0", r#""module": """#, Refused("P/module")),
            ("CHANGES 1.36.0", r#""module": "a\u0000b""#, Refused("P/module")),
            ("CHANGES 1.36.0", r#""module": "a", "callable": """#, Refused("P/callable")),
            ("CHANGES 1.36.0", r#""module": "a", "home": """#, Refused("P/home")),
            ("Python", r#""module": "a", "factory": "true""#, Refused("P/factory")),
            ("Python", r#""module": "a", "protocol": "rsgi""#, Refused("P/protocol")),
            ("Python", r#""module": "a", "prefix": "/""#, Taken),
            ("Python: starts with a slash", r#""module": "a", "prefix": "app""#, Refused("P/prefix")),
            ("Python: starts with a slash", r#""module": "a", "prefix": """#, Refused("P/prefix")),
            ("Python", r#""module": "a", "threads": 0"#, Refused("P/threads")),
            ("Python", r#""module": "a", "thread_stack_size": 4096"#, Refused("P/thread_stack_size")),
            ("Python, Targets", r#""path": "/www", "threads": 2, "protocol": "wsgi", "home": "/v", "targets": {"front": {"module": "front.wsgi", "callable": "app", "prefix": "/f"}, "back": {"module": "b", "factory": true}}"#, Taken),
            ("Python, Targets", r#""targets": {"front": {"callable": "app"}}"#, Refused("P/targets/front")),
            ("Python, Targets", r#""targets": {"front": {"module": "a", "prefix": "f"}}"#, Refused("P/targets/front/prefix")),
            ("Python, Targets: shared settings", r#""targets": {"front": {"module": "a", "home": "/v"}}"#, Refused("P/targets/front/home")),
            ("Python, Targets: no module beside them", r#""module": "a", "targets": {"front": {"module": "a"}}"#, Refused("P/targets")),
            ("Python, Targets: no callable beside them", r#""callable": "a", "targets": {"front": {"module": "a"}}"#, Refused("P/callable")),
            ("Python, Targets: no prefix beside them", r#""prefix": "/a", "targets": {"front": {"module": "a"}}"#, Refused("P/prefix")),
        ],
    );
    let targets = |count: usize| {
        let list: Vec<String> = (0..count).map(|n| format!(r#""t{n}": {{"root": "/a"}}"#)).collect();
        let text = application(&format!(r#""type": "php", "targets": {{{}}}"#, list.join(",")));
        parse(text.as_bytes()).and_then(|document| validate(&document, &context())).is_ok()
    };
    assert!(targets(254), "PHP, Targets: up to 254");
    assert!(!targets(255) && !targets(0), "PHP, Targets: up to 254");
}

#[test]
#[rustfmt::skip]
fn settings_of_the_server() {
    check(
        settings,
        &[
            ("Settings", r#""listen_threads": 2"#, Taken),
            ("Settings", r#""listen_threads": 0"#, Refused("/settings/listen_threads")),
            ("Settings", r#""listen_threads": "2""#, Refused("/settings/listen_threads")),
            ("Settings", r#""js_module": "http""#, Taken),
            ("Settings", r#""js_module": ["http", "util"]"#, Taken),
            ("CHANGES 1.36.0", r#""js_module": """#, Refused("/settings/js_module")),
            ("CHANGES 1.36.0", r#""js_module": ["a\u0000b"]"#, Refused("/settings/js_module/0")),
            ("Settings", r#""js_module": 1"#, Refused("/settings/js_module")),
            ("Settings: telemetry", r#""telemetry": {"endpoint": "http://example.com/v1/traces", "protocol": "http", "batch_size": 20, "sampling_ratio": 1.0}"#, Taken),
            ("Settings: telemetry", r#""telemetry": {"endpoint": "http://example.com:4317", "protocol": "grpc"}"#, Taken),
            ("Settings: telemetry", r#""telemetry": {"endpoint": "http://example.com/v1/traces"}"#, Refused("/settings/telemetry")),
            ("Settings: telemetry", r#""telemetry": {"protocol": "http"}"#, Refused("/settings/telemetry")),
            ("Settings: telemetry", r#""telemetry": {"endpoint": "example.com", "protocol": "http"}"#, Refused("/settings/telemetry/endpoint")),
            ("Settings: telemetry", r#""telemetry": {"endpoint": "http://a/", "protocol": "udp"}"#, Refused("/settings/telemetry/protocol")),
            ("CHANGES 1.36.0", r#""telemetry": {"endpoint": "http://a/b", "protocol": "http", "batch_size": 0}"#, Refused("/settings/telemetry/batch_size")),
            ("CHANGES 1.36.0", r#""telemetry": {"endpoint": "http://a/b", "protocol": "http", "batch_size": 65536}"#, Taken),
            ("CHANGES 1.36.0", r#""telemetry": {"endpoint": "http://a/b", "protocol": "http", "batch_size": 65537}"#, Refused("/settings/telemetry/batch_size")),
            ("CHANGES 1.36.0", r#""telemetry": {"endpoint": "http://a/b", "protocol": "http", "sampling_ratio": 0}"#, Taken),
            ("CHANGES 1.36.0", r#""telemetry": {"endpoint": "http://a/b", "protocol": "http", "sampling_ratio": 1.1}"#, Refused("/settings/telemetry/sampling_ratio")),
            ("CHANGES 1.36.0", r#""telemetry": {"endpoint": "http://a/b", "protocol": "http", "sampling_ratio": -0.1}"#, Refused("/settings/telemetry/sampling_ratio")),
        ],
    );
    check(
        http,
        &[
            ("Settings", r#""body_read_timeout": 30, "header_read_timeout": 30, "send_timeout": 30, "idle_timeout": 180, "max_body_size": 8388608"#, Taken),
            ("Settings", r#""body_read_timeout": -1"#, Refused("H/body_read_timeout")),
            ("Settings", r#""header_read_timeout": "30""#, Refused("H/header_read_timeout")),
            ("Settings", r#""idle_timeout": 1.5"#, Refused("H/idle_timeout")),
            ("Settings", r#""max_body_size": 0"#, Taken),
            ("Settings", r#""max_body_size": -1"#, Refused("H/max_body_size")),
            ("Settings", r#""discard_unsafe_fields": false, "log_route": true, "server_version": false"#, Taken),
            ("Settings", r#""log_route": "true""#, Refused("H/log_route")),
            ("CHANGES 1.33.0", r#""chunked_transform": true"#, Taken),
            ("CHANGES", r#""websocket": {"read_timeout": 60, "keepalive_interval": 30, "max_frame_size": 1048576}"#, Taken),
            ("Settings", r#""static": {"mime_types": {"text/x-code": [".c", ".h"], "text/html": ".tpl", "text/plain": ["README", "CHANGES"]}}"#, Taken),
            ("Settings", r#""static": {"mime_types": {"text/html": ".tpl", "text/plain": []}}"#, Taken),
            ("Settings", r#""static": {"mime_types": {"text/html": [""]}}"#, Refused("H/static/mime_types/text~1html/0")),
            ("Settings", r#""static": {"mime_types": {"html": ".html"}}"#, Refused("H/static/mime_types/html")),
            ("Settings", r#""static": {"mime_types": {"text/x-code": 1}}"#, Refused("H/static/mime_types/text~1x-code")),
            ("Settings: one type each", r#""static": {"mime_types": {"text/x-code": ".c", "text/plain": ".c"}}"#, Refused("H/static/mime_types/text~1plain")),
            ("Settings: one type each", r#""static": {"mime_types": {"text/x-code": ".c", "text/plain": ".C"}}"#, Refused("H/static/mime_types/text~1plain")),
            ("Settings: one type each", r#""static": {"mime_types": {"text/x-code": [".c", ".C"]}}"#, Taken),
            ("Settings: compression", r#""compression": {"types": ["text/*"], "compressors": [{"encoding": "gzip", "level": 3, "min_length": 4096}, {"encoding": "deflate", "min_length": 0}, {"encoding": "zstd"}, {"encoding": "br", "min_length": 1024}]}"#, Taken),
            ("Settings: compression", r#""compression": {"compressors": {"encoding": "gzip"}}"#, Taken),
            ("Settings: compression", r#""compression": {"compressors": [{"level": 3}]}"#, Refused("H/compression/compressors/0")),
            ("Settings: compression", r#""compression": {"compressors": [{"encoding": "lzma"}]}"#, Refused("H/compression/compressors/0/encoding")),
            ("Settings: compression", r#""compression": {"compressors": [{"encoding": "gzip", "level": 10}]}"#, Refused("H/compression/compressors/0/level")),
            ("Settings: compression", r#""compression": {"compressors": [{"encoding": "gzip", "min_length": -1}]}"#, Refused("H/compression/compressors/0/min_length")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn access_log() {
    check(
        whole,
        &[
            ("Access log", r#"{"access_log": "/var/log/access.log"}"#, Taken),
            ("CHANGES 1.36.0", r#"{"access_log": ""}"#, Refused("/access_log")),
            ("CHANGES 1.36.0", r#"{"access_log": "/a\u0000b"}"#, Refused("/access_log")),
            ("Access log", r#"{"access_log": 7}"#, Refused("/access_log")),
            ("Custom log formatting", r#"{"access_log": {"path": "/a", "format": "$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent"}}"#, Taken),
            ("Custom log formatting", r#"{"access_log": {"path": "/a", "format": ""}}"#, Taken),
            ("Custom log formatting", r#"{"access_log": {"path": "/a", "format": "`${host + ': ' + uri}`"}}"#, Taken),
            ("Scripting", r#"{"access_log": {"path": "/a", "format": "`@timestamp=${new Date().toISOString()} ip=${remoteAddr} ${Object.keys(headers).map(k => 'req.' + k + '=\"' + headers[k] + '\"').join(' ')}\n`"}}"#, Taken),
            ("CHANGES 1.36.0", r#"{"access_log": {"path": "", "format": "a"}}"#, Refused("/access_log/path")),
            ("Custom log formatting", r#"{"access_log": {"path": "/a", "format": 1}}"#, Refused("/access_log/format")),
            ("JSON log format", r#"{"access_log": {"path": "/a", "format": {"remote_addr": "$remote_addr", "text": "plain", "script": "`${uri}`"}}}"#, Taken),
            ("JSON log format", r#"{"access_log": {"path": "/a", "format": {"status": 200}}}"#, Refused("/access_log/format/status")),
            ("Conditional access log", r#"{"access_log": {"path": "/a", "if": "$cookie_session"}}"#, Taken),
            ("Conditional access log", r#"{"access_log": {"path": "/a", "if": "!$cookie_session"}}"#, Taken),
            ("Conditional access log", r#"{"access_log": {"path": "/a", "if": "`${uri == '/health' ? false : true}`"}}"#, Taken),
            ("Conditional access log", r#"{"access_log": {"path": "/a", "if": false}}"#, Refused("/access_log/if")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn documents() {
    check(
        whole,
        &[
            ("Control API: JSON", "\u{feff}{}", Taken),
            ("CHANGES: comments", "\u{feff}// a comment\n{}", Taken),
            ("CHANGES: comments", "\u{feff}\n/* a\n comment */ {} // at the end", Taken),
            ("CHANGES: comments", "/**/{\"routes\": /* here too */ []}", Taken),
            ("CHANGES: comments", "{} /* not closed", Refused("")),
            ("Control API: JSON", "", Refused("")),
            ("Control API: JSON", "[]", Refused("")),
            ("Control API: JSON", "\"routes\"", Refused("")),
            ("Control API: JSON", "{} {}", Refused("")),
            ("Control API: JSON", r#"{"routes": [], "routes": []}"#, Refused("")),
            ("Control API: JSON", r#"{"unknown": {}}"#, Refused("/unknown")),
            ("Control API: JSON", r#"{"applications": {"名前": {"type": "php", "root": "/www"}}}"#, Taken),
        ],
    );
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(deep.as_bytes()).is_err(), "CHANGES 1.36.0: depth is bounded");
}

#[test]
fn documented_defaults() {
    let rows: &[(&Object, &[(&str, &str)])] = &[
        (&table::LISTENER, &[("backlog", "-1")]),
        (
            &table::TLS_SESSION,
            &[
                ("cache_size", "0"),
                ("timeout", "300"),
                ("tickets", "false"),
            ],
        ),
        (&table::FORWARDED, &[("recursive", "false")]),
        (&table::CLIENT_IP, &[("recursive", "false")]),
        (
            &table::ACTION,
            &[
                ("index", "\"index.html\""),
                ("follow_symlinks", "true"),
                ("traverse_mounts", "true"),
            ],
        ),
        (&table::SERVER, &[("weight", "1")]),
        (
            &tutti_options::php::PHP,
            &[("processes", "1"), ("index", "\"index.php\"")],
        ),
        (
            &tutti_options::processes::PROCESSES,
            &[("max", "1"), ("spare", "0")],
        ),
        (
            &tutti_options::python::PYTHON_TARGET,
            &[("callable", "\"application\""), ("factory", "false")],
        ),
        (
            &tutti_options::isolation::AUTOMOUNT,
            &[
                ("language_deps", "true"),
                ("procfs", "true"),
                ("tmpfs", "true"),
            ],
        ),
        (
            &tutti_options::isolation::NAMESPACES,
            &[
                ("cgroup", "false"),
                ("credential", "false"),
                ("mount", "false"),
                ("network", "false"),
                ("pid", "false"),
                ("uname", "false"),
            ],
        ),
        (
            &table::HTTP,
            &[
                ("body_read_timeout", "30"),
                ("header_read_timeout", "30"),
                ("send_timeout", "30"),
                ("idle_timeout", "180"),
                ("max_body_size", "8388608"),
                ("discard_unsafe_fields", "true"),
                ("log_route", "false"),
                ("server_version", "true"),
            ],
        ),
        (&table::COMPRESSOR, &[("min_length", "0")]),
    ];
    for (object, options) in rows {
        for (name, default) in *options {
            let option = object.option(name);
            let option = option.unwrap_or_else(|| panic!("{}: {name}", object.name));
            assert_eq!(option.default, *default, "{}: {name}", object.name);
        }
    }
    let threads = table::TYPES
        .iter()
        .filter_map(|known| known.object.option("threads"));
    let defaults: Vec<&str> = threads.map(|option| option.default).collect();
    assert_eq!(
        defaults, ["1"; 4],
        "Java, Perl, Python and Ruby have threads"
    );
}
