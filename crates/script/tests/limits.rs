//! Scripts that are broken or hostile cost their own request, and no more than the limits say.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tutti_script::{Failure, Module, Modules, Values, evaluate};

struct Request;

impl Values for Request {
    fn uri(&self) -> Vec<u8> {
        b"/a b".to_vec()
    }
    fn host(&self) -> Vec<u8> {
        b"example.com".to_vec()
    }
    fn remote_address(&self) -> Vec<u8> {
        b"192.0.2.1".to_vec()
    }
    fn each_argument(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(b"Color", b"Blue");
        each(b"Color", b"Red");
        each(b"__proto__", b"x");
    }
    fn each_cookie(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(b"authID", b"42");
    }
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(b"User-Agent", b"curl/8.0");
        each(b"Accept", b"text/html");
        each(b"accept", b"*/*");
    }
    fn each_response_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(b"Content-Type", b"text/plain");
    }
    fn each_variable(&self, each: &mut dyn FnMut(&str, &[u8])) {
        each("method", b"GET");
    }
}

fn value(source: &str) -> Result<String, Failure> {
    with(&Modules::default(), source)
}

fn with(modules: &Modules, source: &str) -> Result<String, Failure> {
    let mut out = Vec::new();
    evaluate(modules, source, &Request, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn module(name: &str, source: &str) -> Module {
    Module {
        name: name.into(),
        source: source.into(),
    }
}

#[test]
fn values_of_the_request() {
    for (source, expected) in [
        ("`plain`", "plain"),
        (
            "`${uri}|${host}|${remoteAddr}`",
            "/a b|example.com|192.0.2.1",
        ),
        ("`${args.Color}`", "Red"),
        ("`${args.nothing}`", "undefined"),
        ("`${args.toString}`", "undefined"),
        ("`${cookies.authID}`", "42"),
        ("`${headers['User-Agent'].split('/')[0]}`", "curl"),
        ("`${headers['user-agent']}`", "curl/8.0"),
        ("`${'ACCEPT' in headers} ${'x' in headers}`", "true false"),
        ("`${Object.keys(headers)}`", "User-Agent,Accept"),
        ("`${headers.Accept}`", "text/html, */*"),
        ("`${Object.keys(args).includes('Color')}`", "true"),
        (
            "`${vars.method} ${vars.arg_Color} ${vars.cookie_authID} ${vars.header_user_agent}`",
            "GET Red 42 curl/8.0",
        ),
        ("`${vars.response_header_content_type}`", "text/plain"),
        ("`${\\u0075ri}`", "/a b"),
        ("`${atob('dXNlcjpwYXNzd29yZA==')}`", "user:password"),
        ("`a\\`b`", "a`b"),
        ("`${[1,2,3].map(n => n * 2).join('-')}`", "2-4-6"),
        ("`${[[1],[2]].flat()}${[1].concat([2])}`", "1,21,2"),
        ("`${JSON.stringify({a: 1n + 1n == 2n})}`", "{\"a\":true}"),
    ] {
        assert_eq!(value(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn what_is_thrown_is_told_and_the_next_request_served() {
    let thrown = |text: &str| Err(Failure::Thrown(text.to_owned()));
    assert_eq!(
        value("`${headers.Missing.split('/')}`"),
        thrown("TypeError: cannot read property 'split' of undefined")
    );
    assert_eq!(
        value("`${nothing}`"),
        thrown("ReferenceError: nothing is not defined")
    );
    assert_eq!(
        value("`${(() => { throw 'text' })()}`"),
        thrown("`text` was thrown")
    );
    assert_eq!(
        value("`${'\\ud800'}`"),
        thrown("its value is no text: half of a surrogate pair")
    );
    assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"));
}

#[test]
fn loops_without_end_are_stopped() {
    for source in [
        "`${(() => { for (;;); })()}`",
        "`${(() => { try { for (;;); } catch { return 1 } })()}`",
        "`${(() => { for (;;) { try { for (;;); } finally { continue } } })()}`",
        "`${/^(a+)+$/.test('a'.repeat(40) + 'b')}`",
        "`${(() => { const f = () => Promise.resolve().then(f); f(); return 1 })()}${(() => {for (;;);})()}`",
        "`${[...(function* () { for (;;) yield; })()].length}`",
        "`${'x'.repeat(1000).replace(/x/g, () => { for (;;); })}`",
        "`${new Proxy({}, {get: () => { for (;;); }}).a}`",
    ] {
        let failure = value(source).unwrap_err();
        assert!(
            matches!(failure, Failure::Time | Failure::Memory),
            "{source}: {failure}"
        );
        assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"), "after {source}");
    }
}

#[test]
fn promises_do_not_go_on_after_the_request() {
    let endless = "`${(() => { const f = () => Promise.resolve().then(f); f(); return 1 })()}`";
    assert_eq!(value(endless).as_deref(), Ok("1"));
    assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"));
}

#[test]
fn built_in_functions_do_not_walk_for_ever() {
    for source in [
        "`${Array.prototype.includes.call({length: 2 ** 53 - 1}, 1)}`",
        "`${new Array(4294967295).indexOf(1)}`",
        "`${[].forEach.call({length: 2 ** 53 - 1}, () => {})}`",
        "`${[].concat(new Array(4294967295)).length}`",
        "`${[new Array(4294967295)].flat().length}`",
        "`${new Array(4294967295)}`",
        "`${'a'.repeat(1e6).indexOf('a'.repeat(5e5) + 'b')}`",
    ] {
        assert!(
            matches!(value(source), Err(Failure::Thrown(text)) if text.starts_with("RangeError")),
            "{source}"
        );
    }
}

#[test]
fn memory_is_bounded() {
    for source in [
        "`${'x'.repeat(1e9)}`",
        "`${(() => { const a = []; for (;;) a.push('x'.repeat(1000)); })()}`",
        "`${new Uint8Array(1e9).length}`",
        "`${(() => { let s = 'x'; for (;;) s += s; })()}`",
    ] {
        let failure = value(source).unwrap_err();
        assert!(
            matches!(&failure, Failure::Memory | Failure::Time)
                || matches!(&failure, Failure::Thrown(text) if text.starts_with("RangeError") || text.contains("string too long")),
            "{source}: {failure}"
        );
        assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"), "after {source}");
    }
}

#[test]
fn what_a_module_hoards_is_thrown_away() {
    let source = "const kept = []; export default { keep() { for (let n = 0; n < 100; n++) kept.push('x'.repeat(10000) + n); return kept.length } }";
    let modules = Modules::new(vec![module("hoard", source)]);
    let mut outcomes = (0..20).map(|_| with(&modules, "`${hoard.keep()}`"));
    assert!(outcomes.any(|outcome| outcome == Err(Failure::Memory)));
    assert_eq!(with(&modules, "`${hoard.keep()}`").as_deref(), Ok("100"));
}

#[test]
fn calls_do_not_go_down_for_ever() {
    let failure = value("`${(() => { const f = () => f() + 1; return f() })()}`").unwrap_err();
    assert!(
        matches!(&failure, Failure::Thrown(text) if text.contains("call stack")),
        "{failure}"
    );
    assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"));
}

#[test]
fn nothing_of_the_machine_is_there() {
    for name in [
        "eval",
        "Function",
        "require",
        "process",
        "std",
        "os",
        "print",
        "console",
        "fetch",
        "setTimeout",
        "Atomics",
    ] {
        assert_eq!(
            value(&format!("`${{typeof {name}}}`")).as_deref(),
            Ok("undefined"),
            "{name}"
        );
    }
    for source in [
        "`${(() => {}).constructor('return 1')()}`",
        "`${(function* () {}).constructor('x')}`",
    ] {
        assert!(value(source).is_err(), "{source}");
    }
}

#[test]
fn a_template_cannot_change_what_the_next_sees() {
    assert!(value("`${leak = 1}`").is_err());
    assert_eq!(value("`${typeof leak}`").as_deref(), Ok("undefined"));
}

#[test]
fn modules_are_in_scope_by_name() {
    let modules = Modules::new(vec![
        module(
            "http",
            "var http = {}; http.route = function(headers) { return headers['User-Agent'] ? 'a' : 'b' }; export default http",
        ),
        module(
            "double",
            "import http from 'http'; export default (x) => http.route(x) + http.route({})",
        ),
    ]);
    assert_eq!(
        with(&modules, "`routes/${http.route(headers)}`").as_deref(),
        Ok("routes/a")
    );
    assert_eq!(with(&modules, "`${double(headers)}`").as_deref(), Ok("ab"));
    assert!(value("`${http.route(headers)}`").is_err());
}
