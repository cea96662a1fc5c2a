//! Modules written for njs run: its own modules, `require`, `Buffer`, `this`, the ways to export.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tutti_script::{Modules, ScriptError, ScriptModule, Values, check_module, evaluate};

struct Request;

impl Values for Request {
    fn uri(&self) -> Vec<u8> {
        b"/download".to_vec()
    }
    fn host(&self) -> Vec<u8> {
        b"example.com".to_vec()
    }
    fn remote_address(&self) -> Vec<u8> {
        b"192.0.2.1".to_vec()
    }
    fn each_argument(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn each_cookie(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn each_header(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        each(b"Authorization", b"Basic dXNlcjpwYXNzd29yZA==");
    }
    fn each_response_header(&self, _: &mut dyn FnMut(&[u8], &[u8])) {}
    fn each_variable(&self, _: &mut dyn FnMut(&str, &[u8])) {}
}

fn module(name: &str, source: &str) -> ScriptModule {
    ScriptModule {
        name: name.into(),
        source: source.into(),
    }
}

/// The value of a template that uses a module `m` with this text.
fn with(source: &str, template: &str) -> Result<String, ScriptError> {
    let module = module("m", source);
    check_module(&module, &Modules::default()).unwrap_or_else(|fault| panic!("{source}: {fault}"));
    let mut out = Vec::new();
    evaluate(&Modules::new(vec![module]), template, &Request, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

/// Issue 10, 2.13: an import of njs's own modules was refused.
#[test]
fn the_modules_of_njs_that_compute_are_there() {
    let all =
        "import crypto from 'crypto'; import qs from 'querystring'; import buffer from 'buffer';
               const B = buffer.Buffer; export default {crypto, qs, B}";
    let fox = "'The quick brown fox jumps over the lazy dog'";
    for (expression, expected) in [
        (
            "m.crypto.createHash('md5').update('abc').digest('hex')",
            "900150983cd24fb0d6963f7d28e17f72",
        ),
        (
            "m.crypto.createHash('SHA1').update('a').update('bc').digest('hex')",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        (
            "m.crypto.createHash('sha256').update('abc').digest('base64')",
            "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
        ),
        (
            "m.crypto.createHash('sha256').update('YWJj', 'base64').digest('base64url')",
            "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0",
        ),
        (
            "m.crypto.createHash('md5').update('é').digest().length",
            "16",
        ),
        (
            &format!("m.crypto.createHmac('sha256', 'key').update({fox}).digest('hex')"),
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
        ),
        (
            &format!("m.crypto.createHmac('md5', 'key').update({fox}).digest('hex')"),
            "80070713463e7749b90c2dc24911e275",
        ),
        (
            &format!("m.crypto.createHmac('sha1', 'key').update({fox}).digest('hex')"),
            "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9",
        ),
        (
            "JSON.stringify(m.qs.parse('a=1&b=%20x+y&a=2&c&=d&%=%zz'))",
            r#"{"a":["1","2"],"b":" x y","c":"","":"d","%":"%zz"}"#,
        ),
        (
            "m.qs.stringify({a: [1, 'b c'], d: true, e: null})",
            "a=1&a=b%20c&d=true&e=",
        ),
        (
            "m.qs.parse('a:1;b:2', ';', ':').b + m.qs.escape('&') + m.qs.unescape('%26')",
            "2%26&",
        ),
        (
            "m.B.from('é€').toString('hex') + m.B.from('c3a9', 'hex')",
            "c3a9e282acé",
        ),
        (
            "m.B.from('aGk-_w', 'base64url').toString('base64')",
            "aGk+/w==",
        ),
        (
            "m.B.concat([m.B.from('a'), m.B.from([98, 99])]).toString() + m.B.byteLength('é')",
            "abc2",
        ),
        (
            "m.B.from('abcd').slice(1, 3).toString('latin1') + m.B.from('abc').indexOf('c')",
            "bc2",
        ),
        (
            "m.B.from([1, 2, 3, 4]).readUInt32BE(0) + m.B.alloc(2, 'x') + m.B.isBuffer(m.B.alloc(1))",
            "16909060xxtrue",
        ),
        (
            "JSON.stringify(m.B.from('a').toJSON()) + m.B.from('a').equals(m.B.from('a'))",
            r#"{"type":"Buffer","data":[97]}true"#,
        ),
    ] {
        assert_eq!(
            with(all, &format!("`${{{expression}}}`")).as_deref(),
            Ok(expected),
            "{expression}"
        );
    }
    for (expression, expected) in [
        (
            "m.crypto.createHash('sha3')",
            "is no algorithm: md5, sha1, sha256 are",
        ),
        ("m.B.from('a', 'utf16')", "is no encoding"),
        (
            "m.crypto.createHash('md5').update('x'.repeat(300000)).digest('hex')",
            "too much to do",
        ),
    ] {
        let failure = with(all, &format!("`${{{expression}}}`"))
            .unwrap_err()
            .to_string();
        assert!(failure.contains(expected), "{expression}: {failure}");
    }
}

/// A link that is signed as for nginx's `secure_link`: what such modules are for. `Buffer` is there without an import.
#[test]
fn links_are_signed_and_fields_decoded() {
    let signs = "import crypto from 'crypto';
                 export default {sign(uri) { return crypto.createHash('md5').update(uri + ' secret').digest('base64url') },
                                 user(headers) { return Buffer.from(headers.Authorization.split(' ')[1], 'base64').toString() }}";
    assert_eq!(
        with(signs, "`${m.user(headers)}`").unwrap(),
        "user:password"
    );
    let signed = with(signs, "`${m.sign(uri)}`").unwrap();
    assert_eq!(signed.len(), 22);
    assert_eq!(with(signs, "`${m.sign(uri)}`").unwrap(), signed);
}

#[test]
fn modules_that_access_the_machine_are_refused_by_name() {
    for (name, reason) in [
        ("fs", "reach no files"),
        ("xml", "of an application"),
        ("zlib", "the server's own"),
    ] {
        let source = format!("import {name} from '{name}'; export default {name}");
        let fault = check_module(&module("m", &source), &Modules::default()).unwrap_err();
        assert!(fault.message.contains(reason), "{}", fault.message);
    }
    for name in ["tutti:native", "njs:crypto", "nothing"] {
        let source = format!("import x from '{name}'; export default x");
        let fault = check_module(&module("m", &source), &Modules::default()).unwrap_err();
        assert!(
            fault.message.contains("no module of that name"),
            "{}",
            fault.message
        );
    }
}

/// A module of the user's own comes before one of njs's with the same name.
#[test]
fn modules_of_the_user_come_first() {
    let own = module("crypto", "export default {createHash: () => 'mine'}");
    let user = module(
        "m",
        "import crypto from 'crypto'; export default () => crypto.createHash('md5')",
    );
    let mut out = Vec::new();
    evaluate(
        &Modules::new(vec![own, user]),
        "`${m()}`",
        &Request,
        &mut out,
    )
    .unwrap();
    assert_eq!(out, b"mine");
}

/// The module of Unit's documentation, and the ways in which others are written.
#[test]
fn this_and_exports_are_those_of_njs() {
    let documented = "var http = {}
        http.route = function(headers) {
            var authorization = headers['Authorization'];
            if (authorization) {
                var user = atob(authorization.split(' ')[1]);
                if (String(user) == 'user:password') { return 'accept'; }
                return 'forbidden';
            }
            return 'unauthorized';
        }
        export default http";
    assert_eq!(with(documented, "`${m.route(headers)}`").unwrap(), "accept");
    for source in [
        "export default {name: 'a', own() { return this.name }}",
        "const o = {name: 'a', own: function () { return this.name }}; export default o",
        "class Named { constructor() { this.name = 'a' } own() { return this.name } }; export default new Named()",
        "function own() { return this.name } export {table as default}; const table = {name: 'a', own}",
    ] {
        assert_eq!(with(source, "`${m.own()}`").as_deref(), Ok("a"), "{source}");
    }
    // As in njs, which is always strict: `this` is not replaced by the global object.
    let strict = "const top = typeof this; export default {top, plain() { return (function () { return typeof this })() }}";
    assert_eq!(
        with(strict, "`${m.top} ${m.plain()} ${typeof this}`").unwrap(),
        "undefined undefined undefined"
    );
    for source in [
        "var a = 1",
        "export const a = 1",
        "export default",
        "x = 1; export default x",
        "with (x) {}; export default 1",
    ] {
        assert!(
            check_module(&module("m", source), &Modules::default()).is_err(),
            "{source}"
        );
    }
}
