//! Scripts that are broken or hostile fail only their own request, within the limits.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tutti_script::{Modules, ScriptError, ScriptModule, Values, evaluate};

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

fn value(source: &str) -> Result<String, ScriptError> {
    with(&Modules::default(), source)
}

fn with(modules: &Modules, source: &str) -> Result<String, ScriptError> {
    let mut out = Vec::new();
    evaluate(modules, source, &Request, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn module(name: &str, source: &str) -> ScriptModule {
    ScriptModule {
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
fn exceptions_are_reported_and_the_next_request_is_served() {
    let thrown = |text: &str| Err(ScriptError::Thrown(text.to_owned()));
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
        thrown("its value is not text: half of a surrogate pair")
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
            matches!(failure, ScriptError::Time | ScriptError::Memory),
            "{source}: {failure}"
        );
        assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"), "after {source}");
    }
}

#[test]
fn promises_do_not_run_after_the_request() {
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
            matches!(value(source), Err(ScriptError::Thrown(text)) if text.starts_with("RangeError")),
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
            matches!(&failure, ScriptError::Memory | ScriptError::Time)
                || matches!(&failure, ScriptError::Thrown(text) if text.starts_with("RangeError") || text.contains("string too long")),
            "{source}: {failure}"
        );
        assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"), "after {source}");
    }
}

#[test]
fn memory_that_a_module_accumulates_is_released() {
    let source = "const kept = []; export default { keep() { for (let n = 0; n < 100; n++) kept.push('x'.repeat(10000) + n); return kept.length } }";
    let modules = Modules::new(vec![module("hoard", source)]);
    for _ in 0..20 {
        assert_eq!(with(&modules, "`${hoard.keep()}`").as_deref(), Ok("100"));
    }
}

#[test]
fn calls_do_not_go_down_for_ever() {
    let failure = value("`${(() => { const f = () => f() + 1; return f() })()}`").unwrap_err();
    assert!(
        matches!(&failure, ScriptError::Thrown(text) if text.contains("call stack")),
        "{failure}"
    );
    assert_eq!(value("`${uri}`").as_deref(), Ok("/a b"));
}

#[test]
fn the_machine_is_not_accessible() {
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
fn a_template_cannot_change_the_globals_of_the_next() {
    assert!(value("`${leak = 1}`").is_err());
    assert_eq!(value("`${typeof leak}`").as_deref(), Ok("undefined"));
}

/// Scripts that try to leave something behind, and scripts with which the next request would find it.
const TRACES: [(&str, &str); 22] = [
    ("globalThis.trace = 1", "globalThis.trace"),
    (
        "Object.defineProperty(globalThis, 'trace', {value: 1})",
        "globalThis.trace",
    ),
    (
        "delete globalThis.JSON",
        "typeof JSON === 'object' ? undefined : 1",
    ),
    (
        r#"((merge) => merge(merge, {}, JSON.parse('{"__proto__": {"trace": 1}}')))((merge, to, from) => {
            for (const name in from) {
                if (typeof from[name] === 'object' && typeof to[name] === 'object') merge(merge, to[name], from[name]);
                else to[name] = from[name];
            }
        })"#,
        "({}).trace",
    ),
    ("({}).__proto__.trace = 1", "({}).trace"),
    (
        "Reflect.set(Object.prototype, 'toString', () => 1)",
        "String({}) === '1' ? 1 : undefined",
    ),
    ("({}).constructor.prototype.trace = 1", "({}).trace"),
    (
        "Array.prototype.map = () => 1",
        "[].map((x) => x) === 1 ? 1 : undefined",
    ),
    (
        "Object.setPrototypeOf(Array.prototype, {trace: 1})",
        "[].trace",
    ),
    (
        "String.prototype.includes = () => 1",
        "'a'.includes('b') || undefined",
    ),
    ("JSON.parse.trace = 1", "JSON.parse.trace"),
    ("Math.max = () => 1", "Math.max(0) || undefined"),
    ("RegExp.prototype.exec = () => [1]", "/a/.exec('b')?.[0]"),
    (
        "Error.prepareStackTrace = () => 1",
        "new Error().stack === 1 ? 1 : undefined",
    ),
    (
        "Error.stackTraceLimit = 0",
        "Error.stackTraceLimit === 0 ? 1 : undefined",
    ),
    (
        "TypeError.prototype.name = 'trace'",
        "new TypeError().name === 'trace' ? 1 : undefined",
    ),
    (
        "Object.getPrototypeOf(function* () {}).trace = 1",
        "(function* () {}).trace",
    ),
    (
        "Object.getPrototypeOf(async () => {}).trace = 1",
        "(async () => {}).trace",
    ),
    (
        "Object.getPrototypeOf([].values()).next = () => 1",
        "[].values().next() === 1 ? 1 : undefined",
    ),
    ("Buffer.trace = 1", "Buffer.trace"),
    ("Buffer.prototype.trace = 1", "Buffer.from('a').trace"),
    ("Symbol.iterator.constructor.trace = 1", "Symbol.trace"),
];

/// Issue 28, 1.9: one client's request changed what the scripts of all others saw.
#[test]
fn nothing_of_a_request_is_left_for_the_next() {
    let counter = "let count = 0; const seen = {}; export default { count: () => ++count, seen }";
    let modules = Modules::new(vec![module("counter", counter)]);
    for (leave, find) in TRACES {
        // The first one may fail: it affects only itself.
        let _ = value(&format!("`${{{leave}}}`"));
        assert_eq!(
            value(&format!("`${{{find}}}`")).as_deref(),
            Ok("undefined"),
            "{leave}"
        );
        let _ = with(&modules, &format!("`${{counter.seen.trace = 1, {leave}}}`"));
        for source in [find, &format!("(counter, {find})")] {
            let found = with(&modules, &format!("`${{{source}}}`"));
            assert_eq!(found.as_deref(), Ok("undefined"), "{leave}");
        }
    }
    // A module that is created anew, and one that has to be loaded as a module.
    let loaded = "import q from 'querystring'; let count = 0; const seen = {}; export default { count: () => ++count, seen }";
    for modules in [modules, Modules::new(vec![module("counter", loaded)])] {
        for _ in 0..3 {
            let source = "`${counter.count()}${counter.seen.trace}${counter.seen.trace = 1}`";
            assert_eq!(with(&modules, source).as_deref(), Ok("1undefined1"));
        }
    }
    // It may change anything for itself.
    let source = "Array.prototype.last = function () { return this[this.length - 1] }; export default (list) => list.last()";
    let modules = Modules::new(vec![module("last", source)]);
    assert_eq!(with(&modules, "`${last([1, 2])}`").as_deref(), Ok("2"));
    assert_eq!(value("`${[].last}`").as_deref(), Ok("undefined"));
}

/// A request gets a realm of its own for objects that cannot be changed in the shared one.
#[test]
fn a_script_may_change_anything_for_itself() {
    for (source, expected) in [
        (
            "`${(() => { Array.prototype.last = function () { return this[this.length - 1] }; return [1, 2].last() })()}`",
            "2",
        ),
        (
            "`${(() => { globalThis.name = 'own'; return name })()}`",
            "own",
        ),
        (
            "`${(() => { const o = {}; o.toString = () => 'own'; return o })()}`",
            "own",
        ),
        (
            "`${Object.assign({}, {constructor: 1, valueOf: 2}).valueOf}`",
            "2",
        ),
        (
            "`${(() => { class E extends Error { constructor(m) { super(m); this.name = 'E' } }; return new E('m') })()}`",
            "E: m",
        ),
        (
            "`${(() => { const e = new TypeError('m'); e.message = 'n'; return e })()}`",
            "TypeError: n",
        ),
        (
            "`${[3, 1, 2].sort().concat([4]).map((x) => x * 2).join()}`",
            "2,4,6,8",
        ),
        ("`${Buffer.from('a/b').toString('base64url')}`", "YS9i"),
        (
            "`${[...new Map([[1, 2]]).entries()]}${Object.keys({a: 1})}${'a-b'.split('-')}`",
            "1,2aa,b",
        ),
    ] {
        assert_eq!(value(source).as_deref(), Ok(expected), "{source}");
    }
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
