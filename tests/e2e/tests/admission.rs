//! What stands before an action: bounds on requests, pages of other origins, and who is let in; and the words that nobody but the server says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};
use tutti_testkit::client::Reply;
use tutti_testkit::{Server, ServerOptions, client, wait_until};

/// `secret` and `changed`, by `htpasswd -nbB -C 4`.
const SECRET: &str = "$2y$04$jSz1tXNKo.beld/S8xsOwesNQxGVCl6/Vwe3Mk.oO4XqSnTLal1w.";
const CHANGED: &str = "$2y$04$OEW8hEDCFiyM0S5Kd.O3D.cJPXs7t9IB.ZnHNdmRsaZ/DwaQQK596";

fn configured(server: &Server, mut rest: Value) {
    rest["listeners"] = json!({server.address().to_string(): {"pass": "routes"}});
    server.put("/config", &rest);
}

/// `GET target` with these fields.
fn ask(server: &Server, target: &str, fields: &[(&str, &str)]) -> Reply {
    send(server, "GET", target, fields)
}

fn send(server: &Server, method: &str, target: &str, fields: &[(&str, &str)]) -> Reply {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: site.example\r\n");
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("Connection: close\r\n\r\n");
    client::request(server.address(), text.as_bytes()).unwrap()
}

/// A server that answers with the head that it got.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let head = read_head(&mut stream);
                let length = head.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{head}"
                );
            });
        }
    });
    address
}

fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => head.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn a_rate_refuses_what_is_beyond_it_and_tells_when_to_come_again() {
    let server = Server::start(&ServerOptions::default());
    configured(
        &server,
        json!({
            "limits": {"shared": {"rate": "2r/h", "burst": 1, "key": "$header_x_key"}},
            "routes": [
                {"match": {"uri": "/one"}, "action": {"limit": "shared", "return": 200}},
                {"match": {"uri": "/two"}, "action": {"limit": ["shared"], "pass": "routes"}},
                {"match": {"uri": "/own"}, "action": {"limit": {"rate": {"requests": 1, "per": 3600}, "status": 503}, "return": 200}},
                {"match": {"uri": "/dry"}, "action": {"limit": {"rate": "1r/h", "dry_run": true}, "return": 200}},
                {"match": {"uri": "/told"}, "action": {"limit": {"rate": "1r/h", "burst": 4, "announce": true}, "return": 200}},
                {"match": {"uri": "/slowly"}, "action": {"limit": {"rate": "50r/s", "burst": 3, "delay": true}, "return": 200}}
            ]
        }),
    );
    let key = [("X-Key", "a")];
    assert_eq!(ask(&server, "/one", &key).status, 200);
    assert_eq!(ask(&server, "/one", &key).status, 200);
    let refused = ask(&server, "/one", &key);
    assert_eq!(refused.status, 429);
    let retry: u64 = refused.field("Retry-After").unwrap().parse().unwrap();
    assert!((1700..=1800).contains(&retry), "{retry}");
    assert_eq!(
        refused.field("RateLimit-Policy"),
        Some("\"shared\";q=2;w=3600")
    );
    assert!(
        refused
            .field("RateLimit")
            .unwrap()
            .starts_with("\"shared\";r=0;t=")
    );
    // What is counted at one place is counted at the other.
    assert_eq!(ask(&server, "/one", &[("X-Key", "b")]).status, 200);
    assert_eq!(
        ask(&server, "/one", &[]).status,
        200,
        "an empty key is not counted"
    );
    server.wait_for_log("`rate` of `/limits/shared` is exceeded");
    // A body that nobody wants is not waited for.
    let refused = client::request(
        server.address(),
        b"POST /one HTTP/1.1\r\nHost: a\r\nX-Key: a\r\nContent-Length: 1000000\r\n\r\n",
    );
    assert_eq!(refused.unwrap().status, 429);
    assert_eq!(ask(&server, "/own", &[]).status, 200);
    assert_eq!(ask(&server, "/own", &[]).status, 503);
    for _ in 0..3 {
        assert_eq!(ask(&server, "/dry", &[]).status, 200);
    }
    server.wait_for_log("which is only told (`dry_run`)");
    let told = ask(&server, "/told", &[]);
    assert!(
        told.field("RateLimit")
            .unwrap()
            .starts_with("\"default\";r=4;t=")
    );
    // They wait, each for its time, and none is refused.
    for _ in 0..4 {
        assert_eq!(ask(&server, "/slowly", &[]).status, 200);
    }
    // Counts go on over a change of something else.
    server.put(
        "/config/settings",
        &json!({"http": {"server_version": false}}),
    );
    assert_eq!(ask(&server, "/one", &key).status, 429);
    assert_eq!(ask(&server, "/own", &[]).status, 503);
}

#[test]
fn limits_of_all_actions_on_the_way_count() {
    let server = Server::start(&ServerOptions::default());
    let inner = json!([{"action": {"return": 404, "limit": {"rate": "2r/h", "burst": 1}}}]);
    let outer =
        json!([{"action": {"pass": "routes/inner", "limit": {"rate": "1r/h", "burst": 9}}}]);
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes/outer"}},
            "routes": {"inner": inner, "outer": outer}
        }),
    );
    for expected in [404, 404, 429, 429] {
        assert_eq!(ask(&server, "/", &[]).status, expected);
    }
    server.wait_for_log("`rate` of `/routes/inner/0/action/limit` is exceeded");
}

/// A server whose answers wait for a word.
fn held() -> (SocketAddr, mpsc::Receiver<std::net::TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, streams) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_head(&mut stream);
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, streams)
}

#[test]
fn requests_at_once_are_bounded_until_they_have_ended() {
    let server = Server::start(&ServerOptions::default());
    let (backend, streams) = held();
    configured(
        &server,
        json!({"routes": [{"action": {"proxy": format!("http://{backend}"), "limit": {"concurrent": 2}}}]}),
    );
    let open = || {
        let mut client = client::Client::to(server.address());
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let answer = |mut stream: std::net::TcpStream| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let mut first = open();
    let one = streams.recv().unwrap();
    let second = open();
    let other = streams.recv().unwrap();
    let refused = ask(&server, "/", &[]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.field("RateLimit"), None);
    answer(one);
    assert_eq!(first.response("GET").status, 200);
    // Its place is free again; and that of a client that has gone.
    let mut third = open();
    answer(streams.recv().unwrap());
    assert_eq!(third.response("GET").status, 200);
    drop(second);
    drop(other);
    let held_again = open();
    let _held = streams.recv().unwrap();
    wait_until("the place of the client that has gone", || {
        let mut client = open();
        match streams.try_recv() {
            Ok(stream) => answer(stream),
            Err(_) => {
                let Some(stream) = streams
                    .recv_timeout(std::time::Duration::from_millis(200))
                    .ok()
                else {
                    return client.response("GET").status == 200;
                };
                answer(stream);
            }
        }
        client.response("GET").status == 200
    });
    drop(held_again);
}

#[test]
fn pages_of_other_origins_read_what_they_may() {
    let server = Server::start(&ServerOptions::default());
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = backend.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in backend.incoming().flatten() {
            read_head(&mut stream);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nVary: Cookie\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    configured(
        &server,
        json!({"routes": [
            {"match": {"uri": "/all"}, "action": {"return": 200, "cors": {"origins": "*", "headers": ["*"]}}},
            {"action": {
                "proxy": format!("http://{address}"),
                "cors": {"origins": ["https://app.example", "https://*.app.example"], "methods": ["GET", "PUT"],
                    "headers": ["X-One"], "expose": ["X-Two"], "credentials": true, "max_age": 60},
                "authenticate": {"basic": {"users": {"anna": SECRET}}}
            }}
        ]}),
    );
    let preflight = |target, origin| {
        let fields = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "PUT"),
            ("Access-Control-Request-Headers", "x-one, x-other"),
        ];
        send(&server, "OPTIONS", target, &fields)
    };
    // Browsers ask without a password.
    let asked = preflight("/", "https://app.example");
    assert_eq!(asked.status, 204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", "https://app.example"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", "GET, PUT"),
        ("Access-Control-Allow-Headers", "X-One"),
        ("Access-Control-Max-Age", "60"),
        ("Vary", "Origin"),
    ] {
        assert_eq!(asked.field(name), Some(value), "{}", asked.head);
    }
    let asked = preflight("/", "https://evil.example");
    assert_eq!((asked.status, asked.field("Vary")), (204, Some("Origin")));
    assert!(!asked.head.contains("Access-Control"), "{}", asked.head);
    let asked = preflight("/all", "https://evil.example");
    assert_eq!(asked.field("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(
        asked.field("Access-Control-Allow-Headers"),
        Some("x-one, x-other")
    );
    let password = ("Authorization", "Basic YW5uYTpzZWNyZXQ=");
    let read = |origin| ask(&server, "/", &[("Origin", origin), password]);
    let allowed = read("https://a.app.example");
    assert_eq!(allowed.status, 200);
    assert_eq!(
        allowed.field("Access-Control-Allow-Origin"),
        Some("https://a.app.example")
    );
    assert_eq!(
        allowed.field("Access-Control-Expose-Headers"),
        Some("X-Two")
    );
    let vary = allowed.head.lines().filter(|line| line.starts_with("Vary"));
    assert_eq!(vary.collect::<Vec<_>>().len(), 2, "{}", allowed.head);
    // What the application says about it does not count.
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.evil.example",
        "https://xapp.example",
    ] {
        let read = read(origin);
        assert!(
            !read.head.contains("Access-Control"),
            "{origin}: {}",
            read.head
        );
        assert!(read.head.contains("Vary: Origin"), "{}", read.head);
    }
    // A page can read that it is not let in.
    let refused = ask(&server, "/", &[("Origin", "https://app.example")]);
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.field("Access-Control-Allow-Origin"),
        Some("https://app.example")
    );
}

fn basic(name: &str, password: &str) -> String {
    let mut child = Command::new("base64")
        .arg("-w0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    write!(child.stdin.take().unwrap(), "{name}:{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    format!("Basic {}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn names_and_passwords_of_configuration_and_file_let_in() {
    let server = Server::start(&ServerOptions::default());
    let file = server.write("passwords", format!("bert:{SECRET}\n"));
    configured(
        &server,
        json!({"routes": [{"match": {"uri": "/open"}, "action": {"return": 200}}, {"action": {
            "proxy": format!("http://{}", echo()),
            "authenticate": {"basic": {"realm": "Staff", "users": {"anna": SECRET}, "file": file, "field": "X-Remote-User"}}
        }}]}),
    );
    let status = |name: &str, password: &str| {
        let fields = [("Authorization", basic(name, password))];
        ask(&server, "/", &[(fields[0].0, &fields[0].1)]).status
    };
    let refused = ask(&server, "/", &[]);
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.field("WWW-Authenticate"),
        Some("Basic realm=\"Staff\", charset=\"UTF-8\"")
    );
    for (name, password, expected) in [
        ("anna", "secret", 200),
        ("anna", "secret", 200),
        ("bert", "secret", 200),
        ("anna", "Secret", 401),
        ("anna", "", 401),
        ("", "secret", 401),
        ("carl", "secret", 401),
        ("anna", SECRET, 401),
    ] {
        assert_eq!(status(name, password), expected, "{name}:{password}");
    }
    let right = basic("anna", "secret");
    let reply = ask(&server, "/", &[("authorization", &right)]);
    assert!(
        reply.text().contains("X-Remote-User: anna\r\n"),
        "{}",
        reply.text()
    );
    for wrong in [
        vec![
            ("Authorization", right.as_str()),
            ("Authorization", right.as_str()),
        ],
        vec![("Authorization", "Basic")],
        vec![("Authorization", "Basic !")],
        vec![("Authorization", "Bearer YW5uYTpzZWNyZXQ=")],
    ] {
        assert_eq!(ask(&server, "/", &wrong).status, 401, "{wrong:?}");
    }
    assert!(!server.log().contains("secret"), "{}", server.log());
    // The file is read again, as editors write it and as `htpasswd` does.
    let next = server.write("passwords.new", format!("bert:{CHANGED}\n"));
    fs::rename(next, &file).unwrap();
    wait_until("the new password", || status("bert", "changed") == 200);
    assert_eq!(status("bert", "secret"), 401);
    // One that has gone wrong changes nothing.
    fs::write(&file, "bert:changed\n").unwrap();
    server.wait_for_log("line 1: this is no hash of a password");
    assert_eq!(status("bert", "changed"), 200);
    assert_eq!(status("anna", "secret"), 200);
}

#[test]
fn a_flood_of_passwords_is_bounded_and_holds_up_nobody_else() {
    let server = Server::start(&ServerOptions::default());
    // `secret`, with a cost of some tenths of a second.
    let costly = "$2y$11$qe13AWqbRFH8FpnwtJIp0OXuZvrRUCoQqkTC6HTehSvcFpOjoJtOy";
    configured(
        &server,
        json!({"routes": [{"match": {"uri": "/open"}, "action": {"return": 200}},
            {"action": {"return": 200, "authenticate": {"basic": {"users": {"anna": costly}}}}}]}),
    );
    let right = [("Authorization", basic("anna", "secret"))];
    assert_eq!(ask(&server, "/", &[(right[0].0, &right[0].1)]).status, 200);
    let mut clients: Vec<_> = (0..30)
        .map(|number| {
            let mut client = client::Client::to(server.address());
            let wrong = basic("anna", &number.to_string());
            client.send(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {wrong}\r\n\r\n"
            ));
            client
        })
        .collect();
    // Who is known already and who needs no password goes by.
    assert_eq!(ask(&server, "/", &[(right[0].0, &right[0].1)]).status, 200);
    assert_eq!(ask(&server, "/open", &[]).status, 200);
    let statuses: Vec<u16> = clients
        .iter_mut()
        .map(|one| one.response("GET").status)
        .collect();
    assert!(
        statuses.iter().all(|status| [401, 503].contains(status)),
        "{statuses:?}"
    );
    assert!(statuses.contains(&401), "{statuses:?}");
    assert!(statuses.contains(&503), "{statuses:?}");
}

/// Names under which some interface would take a field for `X-Remote-User`.
const SPOOFS: [&str; 6] = [
    "X-Remote-User",
    "x-remote-user",
    "X_Remote_User",
    "X.Remote.User",
    "X-Remote_User",
    "x_REMOTE-user",
];

#[test]
fn no_client_says_what_a_guard_says() {
    let server = Server::start(&ServerOptions::default());
    server.write(
        "php/index.php",
        "<?php echo json_encode([$_SERVER, getallheaders()]);",
    );
    server.write(
        "python/wsgi.py",
        "def application(environ, start):\n    start('200 OK', [])\n    return [repr({k: v for k, v in environ.items() if isinstance(v, str)}).encode()]\n",
    );
    let guard = json!({"basic": {"users": {"anna": SECRET}, "field": "X-Remote-User"}});
    let proxy = format!("http://{}", echo());
    let php = json!({"type": "php", "root": server.folder().join("php"), "index": "index.php"});
    let python =
        json!({"type": "python", "path": server.folder().join("python"), "module": "wsgi"});
    configured(
        &server,
        json!({
            // Underscores and the like come through where that is wished; not these.
            "settings": {"http": {"discard_unsafe_fields": false}},
            "routes": [
                {"match": {"uri": "/proxy/in"}, "action": {"proxy": proxy, "authenticate": guard}},
                {"match": {"uri": "/proxy/*"}, "action": {"proxy": proxy, "request_headers": {"X-Seen": "1"}}},
                {"match": {"uri": "/php/in"}, "action": {"pass": "applications/php", "rewrite": "/", "authenticate": guard}},
                {"match": {"uri": "/php/*"}, "action": {"pass": "applications/php", "rewrite": "/"}},
                {"match": {"uri": "/python/in"}, "action": {"pass": "applications/python", "authenticate": guard}},
                {"action": {"pass": "applications/python"}}
            ],
            "applications": {"php": php, "python": python}
        }),
    );
    let right = basic("anna", "secret");
    for spoof in SPOOFS {
        for receiver in ["proxy", "php", "python"] {
            for (way, is_in) in [("in", true), ("out", false)] {
                let target = format!("/{receiver}/{way}");
                let mut fields = vec![(spoof, "root"), ("X-Other", "kept")];
                if is_in {
                    fields.push(("Authorization", &right));
                }
                for (version, text) in [
                    ("HTTP/1", ask(&server, &target, &fields).text()),
                    ("HTTP/2", over_http2(&server, &target, &fields)),
                ] {
                    let place = format!("{spoof} to {target} over {version}: {text}");
                    assert!(
                        !text.contains("root\"")
                            && !text.contains("'root'")
                            && !text.contains(": root"),
                        "{place}"
                    );
                    assert!(text.contains("kept"), "{place}");
                    assert_eq!(text.contains("anna"), is_in, "{place}");
                }
            }
        }
    }
}

fn over_http2(server: &Server, target: &str, fields: &[(&str, &str)]) -> String {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--fail",
        "--max-time",
        "60",
        "--http2-prior-knowledge",
    ]);
    for (name, value) in fields {
        curl.arg("--header").arg(format!("{name}: {value}"));
    }
    let output = curl
        .arg(format!("http://{}{target}", server.address()))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{target}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
