//! Applications see of a request the same in every language and behind every protocol: the target, the path, the fields.

#[path = "request_seen/paths.rs"]
mod paths;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tutti_e2e::external::build;
use tutti_testkit::files::copy;
use tutti_testkit::{Server, ServerOptions, client};

/// Every language, by the name of its application.
const LANGUAGES: [&str; 6] = ["php", "wsgi", "asgi", "perl", "go", "http"];

/// Those whose interface has CGI's variables.
const CGI: [&str; 3] = ["php", "wsgi", "perl"];

/// A server with an application in each language, all of which tell what they see.
struct Site(Server);

impl Site {
    fn start() -> Self {
        let server = Server::start(&ServerOptions::default());
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/seen"),
            &server.folder().join("seen"),
        );
        build(
            "tests/conformance/seen/go",
            &server.folder().join("go-seen"),
        );
        Self(server)
    }

    /// Has every request take `action`, on its way to the application that its field `App` names.
    fn configure(&self, action: &Value, settings: &Value) {
        let root = self.0.folder().join("seen");
        let python = json!({"type": "python", "path": root, "module": "seen", "prefix": "/shop"});
        let with = |base: &Value, name: &str, value: &str| {
            let mut whole = base.clone();
            whole[name] = json!(value);
            whole
        };
        let mut action = action.clone();
        action["pass"] = json!("applications/$header_app");
        self.0.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", self.0.port()): {"pass": "routes"}},
                "settings": {"http": settings},
                "routes": [{"action": action}],
                "applications": {
                    "php": {"type": "php", "root": root, "script": "index.php"},
                    "wsgi": with(&python, "callable", "wsgi"),
                    "asgi": with(&python, "callable", "asgi"),
                    "perl": {"type": "perl", "script": root.join("seen.psgi")},
                    "go": {"type": "external", "executable": self.0.folder().join("go-seen")},
                    "http": {"type": "external", "protocol": "http", "executable": "/usr/bin/python3", "arguments": [root.join("seen.py")]},
                }
            }),
        );
    }

    /// Everything that the application in a language saw of a request with these lines.
    fn seen(&self, language: &str, line: &str, fields: &str) -> Value {
        let request = format!("{line}\r\nApp: {language}\r\nConnection: close\r\n{fields}\r\n");
        let reply = client::request(self.0.address(), request.as_bytes()).unwrap();
        let seen = reply.json();
        assert!(
            seen.is_object(),
            "{language}: {}\n{}",
            reply.text(),
            self.0.log()
        );
        seen
    }
}

/// Issue 10, 2.2: a `rewrite` changed `REQUEST_URI`, by which frameworks route.
#[test]
fn a_rewrite_changes_the_path_and_never_what_the_client_asked_for() {
    let site = Site::start();
    site.configure(&json!({"rewrite": "/new $uri"}), &json!({}));
    for language in LANGUAGES {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let output = Command::new("curl")
                .args(["--silent", "--path-as-is", version, "--header"])
                .arg(format!("App: {language}"))
                .arg(format!("http://{}/a%2e/./b%2fc?q=%20", site.0.address()))
                .output()
                .unwrap();
            let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
            let asked = "/a./b%2fc?q=%20";
            if language == "http" {
                // It has one place for both.
                assert_eq!(seen["uri"], "/new%20/a./b%2fc?q=%20", "{version}");
                continue;
            }
            assert_eq!(seen["uri"], asked, "{language} {version}");
            // A script has the path in PATH_INFO only behind its own name.
            if language != "php" {
                assert_eq!(seen["path"], "/new /a./b/c", "{language} {version}");
            }
            assert_eq!(seen["query"], "q=%20", "{language} {version}");
        }
    }
    // The rewritten path is the name of a script and what follows it.
    site.configure(&json!({"rewrite": "/index.php/info"}), &json!({}));
    let root = site.0.folder().join("seen");
    site.0.put(
        "/config/applications/php",
        &json!({"type": "php", "root": root}),
    );
    let seen = site.seen("php", "GET /pretty/url?a=b HTTP/1.1", "Host: t\r\n");
    assert_eq!(
        (&seen["uri"], &seen["path"]),
        (&json!("/pretty/url?a=b"), &json!("/info"))
    );
    // A prefix is looked for in the rewritten path.
    site.configure(&json!({"rewrite": "/shop$uri"}), &json!({}));
    let seen = site.seen("wsgi", "GET /cart HTTP/1.1", "Host: t\r\n");
    assert_eq!(
        (&seen["script"], &seen["path"]),
        (&json!("/shop"), &json!("/cart"))
    );
    assert_eq!(seen["uri"], "/cart");
    assert_eq!(
        site.seen("asgi", "GET /cart HTTP/1.1", "Host: t\r\n")["script"],
        "/shop"
    );
}

/// A server that notes the first bytes it is sent, and closes.
fn noting() -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let noted = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 65_536];
        let count = stream.read(&mut bytes).unwrap();
        bytes.truncate(count);
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        bytes
    });
    (address, noted)
}

/// Issue 10, 2.2, to servers of upstreams: the target that goes on is the rewritten one, `REQUEST_URI` and `$request_uri` are the client's.
#[test]
fn a_rewrite_before_a_proxy_keeps_what_the_client_asked_for() {
    let server = Server::start(&ServerOptions::default());
    for (protocol, expected) in [
        (
            "http",
            &["GET /new/a?q=1 HTTP/1.1\r\n", "X-Uri: /a?q=1\r\n"][..],
        ),
        ("fastcgi", &["REQUEST_URI/a?q=1", "PATH_INFO/new/a"]),
        (
            "uwsgi",
            &["REQUEST_URI\x06\0/a?q=1", "PATH_INFO\x06\0/new/a"],
        ),
        ("scgi", &["REQUEST_URI\0/a?q=1\0", "PATH_INFO\0/new/a\0"]),
    ] {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let (address, noted) = noting();
            server.put(
                "/config",
                &json!({
                    "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
                    "routes": [{"action": {
                        "rewrite": "/new$uri", "proxy": format!("{protocol}://{address}"), "proxy_options": {"retries": 0},
                        "request_headers": {"X-Uri": "$request_uri"}
                    }}]
                }),
            );
            let status = Command::new("curl")
                .args(["--silent", "--output", "/dev/null", version])
                .arg(format!("http://{}/a?q=1", server.address()))
                .status()
                .unwrap();
            assert!(status.success(), "{protocol}");
            let bytes = String::from_utf8_lossy(&noted.join().unwrap()).into_owned();
            for text in expected {
                assert!(
                    bytes.contains(text),
                    "{protocol} {version}: no {text:?} in {bytes:?}"
                );
            }
        }
    }
}

/// Issue 10, 1.24: only upstreams had `request_headers`.
#[test]
fn request_headers_are_for_applications_too() {
    let site = Site::start();
    site.configure(
        &json!({"request_headers": {
            "X-Set": "to $method", "X-Gone": null, "X-More": {"add": "two"}, "X-Forwarded-Proto": "https", "X-Bad": "$header_x_bad",
        }}),
        &json!({}),
    );
    let fields = "Host: t\r\nX-Set: by the client\r\nx-gone: here\r\nX-More: one\r\nX-Forwarded-Proto: gopher\r\n";
    for language in LANGUAGES {
        let seen = site.seen(language, "GET /shop HTTP/1.1", fields);
        let seen = &seen["fields"];
        assert_eq!(seen["x-set"], "to GET", "{language}");
        assert_eq!(seen["x-gone"], Value::Null, "{language}");
        assert_eq!(seen["x-forwarded-proto"], "https", "{language}");
        // An interface that keeps the last of several fields has the one that was added.
        let more = match language {
            "asgi" | "http" => "two",
            _ => "one, two",
        };
        assert_eq!(seen["x-more"], more, "{language}");
    }
    // The log names the failing script of a value, and the request is not let through without the field.
    site.configure(
        &json!({"request_headers": {"X-User": "`${headers.nothing.at.all}`"}}),
        &json!({}),
    );
    for language in ["wsgi", "go"] {
        let request =
            format!("GET / HTTP/1.1\r\nHost: t\r\nApp: {language}\r\nConnection: close\r\n\r\n");
        assert_eq!(
            client::request(site.0.address(), request.as_bytes())
                .unwrap()
                .status,
            500,
            "{language}"
        );
    }
}

/// Issue 10, 1.9: `Client-Cert` of a client reached applications on listeners without `client_ca`, and `X_Forwarded_For` joined
/// `X-Forwarded-For`.
#[test]
fn fields_that_are_not_the_clients_to_say_do_not_come_from_it() {
    let site = Site::start();
    let forged = "Host: t\r\nClient-Cert: :Zm9yZ2Vk:\r\nClient_Cert: :Zm9yZ2Vk:\r\nCLIENT-CERT-CHAIN: :Zm9yZ2Vk:\r\n\
                  Client.Cert: :Zm9yZ2Vk:\r\nClient~Cert: :Zm9yZ2Vk:\r\n\
                  X_Forwarded_For: 6.6.6.6\r\nX-Forwarded-For: 10.0.0.1\r\nX_Own: mine\r\n";
    site.configure(&json!({}), &json!({"discard_unsafe_fields": false}));
    for language in LANGUAGES {
        let seen = site.seen(language, "GET /shop HTTP/1.1", forged);
        let seen = &seen["fields"];
        for name in [
            "client-cert",
            "client_cert",
            "client.cert",
            "client~cert",
            "client-cert-chain",
        ] {
            assert_eq!(seen[name], Value::Null, "{language} {name}");
        }
        let forwarded = if language == "http" {
            "127.0.0.1"
        } else {
            "10.0.0.1"
        };
        assert_eq!(seen["x-forwarded-for"], forwarded, "{language}");
        assert_eq!(seen["x_forwarded_for"], Value::Null, "{language}");
        let own = if CGI.contains(&language) {
            "x-own"
        } else {
            "x_own"
        };
        assert_eq!(seen[own], "mine", "{language}");
    }
    // Behind another server that checks certificates, the configuration passes them on.
    site.configure(
        &json!({"request_headers": {"Client-Cert": "$header_client_cert"}}),
        &json!({}),
    );
    let fields = "Host: t\r\nClient-Cert: :Y2VydA==:\r\n";
    for language in LANGUAGES {
        let seen = site.seen(language, "GET / HTTP/1.1", fields);
        assert_eq!(seen["fields"]["client-cert"], ":Y2VydA==:", "{language}");
    }
}

/// Issue 28, 1.5: with `Connection: x-remote-user` a client took away what the configuration sets.
#[test]
fn a_client_takes_away_no_field_that_the_server_sets() {
    let site = Site::start();
    site.configure(
        &json!({"request_headers": {"X-Remote-User": "anna", "Cookie": "of=server"}}),
        &json!({}),
    );
    let fields = "Host: t\r\nConnection: x-remote-user, cookie, x-hop, host\r\nX-Remote-User: root\r\nX-Hop: 1\r\nX-Kept: 1\r\n";
    for language in LANGUAGES {
        let seen = site.seen(language, "GET /shop HTTP/1.1", fields);
        let seen = &seen["fields"];
        for (name, value) in [
            ("x-remote-user", json!("anna")),
            ("cookie", json!("of=server")),
            ("x-hop", Value::Null),
            ("x-kept", json!("1")),
            ("host", json!("t")),
        ] {
            assert_eq!(seen[name], value, "{language} {name}");
        }
    }
    for protocol in ["http", "fastcgi", "uwsgi", "scgi"] {
        let (address, noted) = noting();
        site.0.put(
            "/config/routes",
            &json!([{"action": {
                "proxy": format!("{protocol}://{address}"), "proxy_options": {"retries": 0},
                "request_headers": {"X-Remote-User": "anna"}
            }}]),
        );
        let request = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let mut client = client::Client::to(site.0.address());
        client.send(&request);
        let _ = client.response("GET");
        let bytes = String::from_utf8_lossy(&noted.join().unwrap()).to_ascii_lowercase();
        let bytes = bytes.replace('_', "-");
        assert!(
            bytes.contains("anna") && bytes.contains("x-kept"),
            "{protocol}: {bytes:?}"
        );
        assert!(!bytes.contains("root"), "{protocol}: {bytes:?}");
        let hop = if protocol == "http" {
            "x-hop"
        } else {
            "http-x-hop"
        };
        assert!(!bytes.contains(hop), "{protocol}: {bytes:?}");
    }
}

/// Issue 10, 2.4: `SERVER_NAME` was empty for a client that named no host, and PSGI had no `SERVER_SOFTWARE`.
#[test]
fn the_server_has_a_name_and_says_what_it_is() {
    let site = Site::start();
    site.configure(&json!({}), &json!({}));
    for language in CGI {
        let seen = site.seen(language, "GET / HTTP/1.0", "");
        assert_eq!(seen["name"], "127.0.0.1", "{language}");
        let seen = site.seen(language, "GET / HTTP/1.1", "Host: Shop.Example:81\r\n");
        assert_eq!(seen["name"], "shop.example", "{language}");
        let software = seen["software"].as_str().unwrap();
        assert!(software.starts_with("Tutti/"), "{language}: {software}");
    }
}

/// Issue 10, 2.3: `root_path` was there for every path, whether `prefix` matched it or not.
#[test]
fn a_prefix_is_passed_on_where_it_matches() {
    let site = Site::start();
    site.configure(&json!({}), &json!({}));
    for (path, script) in [
        ("/shop", json!("/shop")),
        ("/shop/cart", json!("/shop")),
        ("/shopping", Value::Null),
        ("/", Value::Null),
    ] {
        let line = format!("GET {path} HTTP/1.1");
        let seen = site.seen("asgi", &line, "Host: t\r\n");
        assert_eq!(seen["script"], script, "asgi {path}");
        // Python's own validator wants it, empty or not.
        let seen = site.seen("wsgi", &line, "Host: t\r\n");
        assert_eq!(
            seen["script"],
            script.as_str().unwrap_or_default(),
            "wsgi {path}"
        );
    }
}

/// Issue 10, 1.24: no `X-Forwarded-Port` beside `X-Forwarded-Proto`, without which Spring refuses WebSockets.
#[test]
fn the_port_that_the_client_speaks_to_is_forwarded() {
    let site = Site::start();
    site.configure(&json!({}), &json!({}));
    for (host, port) in [
        ("t", "80"),
        ("t:8080", "8080"),
        ("[::1]:8443", "8443"),
        ("[::1]", "80"),
    ] {
        let fields = format!("Host: {host}\r\nX-Forwarded-Port: 6666\r\n");
        let seen = site.seen("http", "GET / HTTP/1.1", &fields);
        assert_eq!(seen["fields"]["x-forwarded-port"], port, "{host}");
        assert_eq!(seen["fields"]["x-forwarded-host"], host);
    }
}
