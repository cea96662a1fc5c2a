//! JavaScript of the configuration through the whole server: in every place that takes it, and with modules of the control API.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tutti_testkit::{Reply, Server, ServerOptions, client, wait_until};

/// The module of Unit's guide.
const HTTP: &str = "var http = {}

http.route = function(headers) {
    var authorization = headers['Authorization'];
    if (authorization) {
        var user = atob(authorization.split(' ')[1]);
        if (String(user) == 'user:password') {
            return 'accept';
        }

        return 'forbidden';
    }

    return 'unauthorized';
}

export default http
";

/// The output of curl: the status, the `Location` and the body, each on a line.
fn curl(server: &Server, target: &str, arguments: &[&str]) -> String {
    let run = Command::new("curl")
        .args(["-sS", "--max-time", "60", "--path-as-is"])
        .args(["-w", "%{http_code} %header{location}\n", "-o"])
        .arg(server.folder().join("body"))
        .args(arguments)
        .arg(format!("http://{}{target}", server.address()))
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let body = fs::read(server.folder().join("body")).unwrap_or_default();
    let _ = fs::remove_file(server.folder().join("body"));
    format!(
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&body)
    )
}

fn status(server: &Server, target: &str, arguments: &[&str]) -> u16 {
    let said = curl(server, target, arguments);
    said.split(' ').next().unwrap().parse().unwrap()
}

fn upload(server: &Server, name: &str, source: &str) -> Reply {
    let path = format!("/js_modules/{name}");
    client::control(server.control(), "PUT", &path, source.as_bytes()).unwrap()
}

fn must_upload(server: &Server, name: &str, source: &str) {
    let reply = upload(server, name, source);
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn detail(reply: &Reply) -> String {
    reply.json()["detail"].as_str().unwrap().to_owned()
}

/// Unit's guide: a request goes where the module says.
fn guide(server: &Server) -> Value {
    json!({
        "listeners": {server.address().to_string(): {"pass": "routes/entry"}},
        "settings": {"js_module": "http"},
        "routes": {
            "entry": [{"action": {"pass": "`routes/${http.route(headers)}`"}}],
            "unauthorized": [{"action": {"return": 401}}],
            "forbidden": [{"action": {"return": 403}}],
            "accept": [{"action": {"return": 204}}]
        }
    })
}

fn must_be_as_in_the_guide(server: &Server) {
    let asked = [
        status(server, "/", &[]),
        status(server, "/", &["-u", "user:wrong"]),
        status(server, "/", &["-u", "user:password"]),
    ];
    assert_eq!(asked, [401, 403, 204]);
}

#[test]
fn scripts_decide_in_every_place() {
    let server = Server::start(&ServerOptions::default());
    server.write("www/a.example/index.html", "of a");
    server.write("www/b.example/index.html", "of b");
    let www = server.folder().join("www").display().to_string();
    let log = server.folder().join("access.log");
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "`routes/${host.startsWith('api.') ? 'api' : 'site'}`"}},
            "access_log": {
                "path": log,
                "if": "`${uri != '/health'}`",
                "format": "`@uri=${uri} ${Object.keys(headers).filter(k => k == 'X-Tell').map(k => k + '=' + headers[k])}`"
            },
            "routes": {
                "api": [
                    {"match": {"uri": "/v1/*"}, "action": {"rewrite": "`/v2${uri.slice(3)}`", "pass": "routes/moved"}},
                    {"action": {"return": 404}}
                ],
                "moved": [{"action": {"return": 301, "location": "`https://${host}${uri}${new URLSearchParams(args)}`"}}],
                "site": [
                    {"match": {"if": "`${cookies.banned == 'yes'}`"}, "action": {"return": 403}},
                    {"match": {"if": "!`${args.token}`", "uri": "/private/*"}, "action": {"return": 401}},
                    {"match": {"uri": "/go"}, "action": {"return": 302, "location": "`/to/${encodeURIComponent(args.to)}`"}},
                    {"match": {"uri": "/health"}, "action": {"return": 204}},
                    {"match": {"uri": "/broken"}, "action": {"return": 302, "location": "`${http.route(headers)}`"}},
                    {"action": {
                        "share": format!("`{www}/${{host}}${{uri}}`"),
                        "response_headers": {"X-Client": "`${remoteAddr} ${vars.method}`"}
                    }}
                ]
            }
        }),
    );
    let host = |name: &'static str| ["-H", name];
    let a = curl(
        &server,
        "/",
        &["-H", "Host: a.example", "-H", "X-Tell: this"],
    );
    assert_eq!(a, "200 \nof a");
    assert_eq!(
        curl(&server, "/", &host("Host: b.example:80")),
        "200 \nof b"
    );
    assert_eq!(status(&server, "/", &host("Host: c.example")), 404);
    assert_eq!(status(&server, "/", &["-b", "banned=yes"]), 403);
    assert_eq!(status(&server, "/private/x", &[]), 401);
    assert_eq!(status(&server, "/private/x?token=1", &[]), 404);
    let moved = curl(&server, "/go?to=a%20b/c", &[]);
    assert!(moved.starts_with("302 /to/a%20b%2Fc\n"), "{moved}");
    // There is no such constructor: what fails is answered 500.
    assert_eq!(status(&server, "/v1/x", &host("Host: api.example")), 500);
    assert_eq!(status(&server, "/v3", &host("Host: api.example")), 404);
    assert_eq!(status(&server, "/health", &[]), 204);
    assert_eq!(status(&server, "/broken", &[]), 500);
    let fields = client::request(
        server.address(),
        b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    )
    .unwrap();
    assert_eq!(fields.field("X-Client"), Some("127.0.0.1 GET"));

    let mut text = String::new();
    wait_until("lines in the access log", || {
        text = fs::read_to_string(&log).unwrap_or_default();
        text.matches("@uri=").count() >= 11
    });
    assert!(text.contains("@uri=/ X-Tell=this\n"), "{text}");
    assert!(!text.contains("/health"), "{text}");
    wait_until("the failure is logged, with its cure", || {
        let log = server.log();
        log.contains("http is not defined") && log.contains("`settings/js_module`")
    });
}

#[test]
fn modules_are_uploaded_used_changed_and_deleted() {
    let mut server = Server::start(&ServerOptions::default());
    // Before it is there, nothing can name it.
    let early = server.call("PUT", "/config", &guide(&server));
    assert_eq!(early.status, 400, "{}", early.text());
    let said = detail(&early);
    assert!(
        said.contains("`http` does not exist at `/settings/js_module`")
            && said.contains("PUT to /js_modules/http"),
        "{said}"
    );
    must_upload(&server, "http", HTTP);
    let listed = server.call("GET", "/js_modules", &Value::Null).json();
    assert_eq!(listed, json!({"http": HTTP}));
    server.put("/config", &guide(&server));
    must_be_as_in_the_guide(&server);

    // A change takes effect at once, one that cannot be loaded not at all.
    let loose = HTTP.replace("'unauthorized'", "'accept'");
    must_upload(&server, "http", &loose);
    assert_eq!(status(&server, "/", &[]), 204);
    must_upload(&server, "http", HTTP);
    let broken = upload(
        &server,
        "http",
        &HTTP.replace("var http = {}", "var http = ;"),
    );
    assert_eq!(broken.status, 400);
    assert_eq!(
        broken.json()["location"],
        json!({"offset": 11, "line": 1, "column": 12})
    );
    assert!(
        detail(&broken).contains("SyntaxError"),
        "{}",
        detail(&broken)
    );
    for (source, says) in [
        ("while (true) {}\nexport default {}", "took more than"),
        (
            "export default {};\nthrow new Error('no luck')",
            "no luck at line 2",
        ),
        (
            "const a = []; for (;;) a.push('x'.repeat(1000)); export default a",
            "of memory",
        ),
        ("export const a = 1", "no default export"),
        ("import fs from 'fs'; export default fs", "imports `fs`"),
        ("export default \u{0}", "NUL"),
    ] {
        let reply = upload(&server, "http", source);
        assert_eq!(reply.status, 400, "{source}");
        assert!(detail(&reply).contains(says), "{says}: {}", detail(&reply));
    }
    for name in ["class", "uri", "a-b", "..%2Fx"] {
        let reply = upload(&server, name, HTTP);
        assert_eq!(reply.status, 400, "{name}");
    }
    must_be_as_in_the_guide(&server);

    let used = server.call("DELETE", "/js_modules/http", &Value::Null);
    assert_eq!(used.status, 409, "{}", used.text());
    assert!(
        detail(&used).contains("/settings/js_module"),
        "{}",
        used.text()
    );

    // Kept through a crash of the router, an upgrade and a start of another server.
    let router = server.router();
    let killed = Command::new("kill")
        .args(["-KILL", &router.to_string()])
        .status();
    assert!(killed.unwrap().success());
    wait_until("another router serves", || {
        server
            .pids("tutti: router")
            .iter()
            .any(|pid| *pid != router)
            && client::get(server.address(), "/").is_ok_and(|reply| reply.status == 401)
    });
    must_be_as_in_the_guide(&server);
    server.upgrade();
    must_be_as_in_the_guide(&server);
    server.start_again(&ServerOptions::default());
    wait_until("it serves again", || {
        client::get(server.address(), "/").is_ok()
    });
    must_be_as_in_the_guide(&server);

    let settings = server.call("DELETE", "/config/settings/js_module", &Value::Null);
    assert_eq!(settings.status, 200, "{}", settings.text());
    assert_eq!(status(&server, "/", &[]), 500);
    let deleted = server.call("DELETE", "/js_modules/http", &Value::Null);
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let listed = server.call("GET", "/js_modules", &Value::Null).json();
    assert_eq!(listed, json!({}));
    let gone = server.call("DELETE", "/js_modules/http", &Value::Null);
    assert_eq!(gone.status, 404);
}

#[test]
fn several_modules_are_loaded_together() {
    let server = Server::start(&ServerOptions::default());
    let early = upload(
        &server,
        "site",
        "import t from 'table'; export default {to: t.to};",
    );
    assert!(
        detail(&early).contains("imports `table`"),
        "{}",
        detail(&early)
    );
    must_upload(
        &server,
        "table",
        "export default {to: (uri) => '/new' + uri};",
    );
    must_upload(
        &server,
        "site",
        "import t from 'table'; export default {to: t.to};",
    );
    let tree = |modules: Value| {
        json!({
            "listeners": {server.address().to_string(): {"pass": "routes"}},
            "settings": {"js_module": modules},
            "routes": [{"action": {"return": 301, "location": "`${site.to(uri)}`"}}]
        })
    };
    let alone = server.call("PUT", "/config", &tree(json!(["site"])));
    assert_eq!(alone.status, 400, "{}", alone.text());
    let said = detail(&alone);
    assert!(
        said.contains("imports `table`") && said.contains("/settings/js_module/0"),
        "{said}"
    );
    server.put("/config", &tree(json!(["site", "table"])));
    assert!(curl(&server, "/a", &[]).starts_with("301 /new/a\n"));
    // A module that another one imports is changed only so that the other can still be loaded.
    let other = upload(&server, "table", "export default null;");
    assert_eq!(other.status, 400);
    assert!(
        detail(&other).contains("With it module `site` cannot be loaded"),
        "{}",
        detail(&other)
    );
    must_upload(
        &server,
        "table",
        "export default {to: (uri) => '/newer' + uri};",
    );
    assert!(curl(&server, "/a", &[]).starts_with("301 /newer/a\n"));

    // The same checks without a server.
    let state = server.folder().join("state");
    let file = server.write("site.json", tree(json!(["site", "tabel"])).to_string());
    let check = |arguments: &[&str]| {
        let run = Command::new(tutti_testkit::server::binaries().join("tutti"))
            .args(["config", "check"])
            .arg(&file)
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        (
            run.status.success(),
            text + &String::from_utf8_lossy(&run.stdout),
        )
    };
    let (is_sound, said) = check(&[]);
    assert!(is_sound && said.contains("--statedir"), "{said}");
    let (is_sound, said) = check(&["--statedir", &state.display().to_string()]);
    assert!(
        !is_sound && said.contains("did you mean `table`?"),
        "{said}"
    );
}

/// Issue 10, 2.15: only a value as it stands in the configuration was looked at.
#[test]
fn a_computed_value_cannot_end_its_response_field() {
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes"}},
            "routes": [{"action": {"return": 200, "response_headers": {
                "X-Script": "`a${uri}`", "X-Variable": "b$uri", "X-Length": "`${uri.length}`"
            }}}],
        }),
    );
    let get = |target: &str| {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        client::request(server.address(), request.as_bytes()).unwrap()
    };
    let right = get("/x");
    assert_eq!(right.field("X-Script"), Some("a/x"));
    assert_eq!(right.field("X-Variable"), Some("b/x"));
    for ending in [
        "%0d%0aSet-Cookie:%20a=b",
        "%0aSet-Cookie:%20a=b",
        "%0d",
        "%07",
    ] {
        let reply = get(&format!("/x{ending}"));
        assert_eq!(reply.status, 200, "{ending}");
        for name in ["Set-Cookie", "X-Script", "X-Variable"] {
            assert_eq!(reply.field(name), None, "{ending}");
        }
        assert!(reply.field("X-Length").is_some(), "{ending}");
    }
    server.wait_for_log("X-Script");
    server.wait_for_log("X-Variable");
}
