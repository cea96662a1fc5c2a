//! Guards of actions: bounds on requests, pages of other origins, and the clients that are admitted; and fields that only the server sets.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};
use tutti_e2e::documents;
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
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
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
    // A request that is counted at one place is counted at the other.
    assert_eq!(ask(&server, "/one", &[("X-Key", "b")]).status, 200);
    assert_eq!(
        ask(&server, "/one", &[]).status,
        200,
        "an empty key is not counted"
    );
    server.wait_for_log("`rate` of `/limits/shared` is exceeded");
    // The server does not wait for an unwanted body.
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
    server.wait_for_log("logged only, because of `dry_run`");
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

/// A client whose request has come to the backend. A place is free a moment after its last client has the response: a client that was refused
/// asks again.
fn admitted(
    open: impl Fn() -> client::Client,
    streams: &mpsc::Receiver<std::net::TcpStream>,
) -> (client::Client, std::net::TcpStream) {
    let mut client = open();
    let mut found = None;
    wait_until("a place", || {
        if client.has_news() {
            client = open();
        }
        found = streams.try_recv().ok();
        found.is_some()
    });
    (client, found.unwrap())
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
    let (mut third, stream) = admitted(open, &streams);
    answer(stream);
    assert_eq!(third.response("GET").status, 200);
    drop(second);
    drop(other);
    let (held_again, _held) = admitted(open, &streams);
    wait_until("the place of the client that has gone", || {
        let mut client = open();
        let mut found = None;
        wait_until("a refusal, or the request at the backend", || {
            found = streams.try_recv().ok();
            found.is_some() || client.has_news()
        });
        if let Some(stream) = found {
            answer(stream);
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
    // The application's word about it does not count.
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

/// RFC 4648, with `+/` or `-_`, unpadded.
fn base64(bytes: &[u8], last: &[u8; 2]) -> String {
    let letters: Vec<u8> = (b'A'..=b'Z')
        .chain(b'a'..=b'z')
        .chain(b'0'..=b'9')
        .chain(*last)
        .collect();
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(letters[bits >> (18 - 6 * place) & 63]));
        }
    }
    text
}

fn basic(name: &str, password: &str) -> String {
    let mut text = base64(format!("{name}:{password}").as_bytes(), b"+/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    format!("Basic {text}")
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
    // Issue 28, 5.5: every user can read the hashes.
    server.wait_for_log(&format!("hint: `chmod o= {}`", file.display()));
    // The file is read again, as editors write it and as `htpasswd` does.
    let next = server.write("passwords.new", format!("bert:{CHANGED}\n"));
    fs::rename(next, &file).unwrap();
    wait_until("the new password", || status("bert", "changed") == 200);
    assert_eq!(status("bert", "secret"), 401);
    // One that has gone wrong changes nothing.
    fs::write(&file, "bert:changed\n").unwrap();
    server.wait_for_log("line 1: this is not a password hash");
    assert_eq!(status("bert", "changed"), 200);
    assert_eq!(status("anna", "secret"), 200);
}

#[test]
fn hashes_of_other_servers_admit_and_are_reported_once() {
    let server = Server::start(&ServerOptions::default());
    let hashes = [
        ("apr", "$apr1$lZL6V/ci$PR6QJXkRFUzdUuaYcwrI//"),
        ("md", "$1$saltsalt$9xy1btjgzLYfb7hivXtC//"),
        ("sha", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="),
        ("ssha", "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0"),
        ("des", "abNANd1rDfiNc"),
        ("slow", SECRET),
    ];
    let lines = hashes.map(|(name, hash)| format!("{name}:{hash}\n"));
    let file = server.write("passwords", format!("# other servers'\n{}", lines.concat()));
    configured(
        &server,
        json!({"routes": [{"action": {"return": 200, "authenticate": {"basic": {"file": file}}}}]}),
    );
    for (name, _) in hashes {
        for (password, status) in [("secret", 200), ("Secret", 401), ("", 401)] {
            let said = basic(name, password);
            let reply = ask(&server, "/", &[("Authorization", &said)]);
            assert_eq!(reply.status, status, "{name}:{password}");
        }
    }
    let unknown = basic("nemo", "secret");
    assert_eq!(
        ask(&server, "/", &[("Authorization", &unknown)]).status,
        401
    );
    let warning = format!(
        "the hashes in line 2 and 4 others are weak (MD5, SHA-1 or traditional crypt): a thief of the file finds the passwords in minutes; replace each with `htpasswd -B {} NAME`",
        file.display()
    );
    server.wait_for_log(&warning);
    assert_eq!(server.log().matches("are weak").count(), 1);
    assert!(!server.log().contains("5en6G6"), "{}", server.log());
}

#[test]
fn a_flood_of_passwords_is_bounded_and_holds_up_no_other_client() {
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
    // Clients that are known already, and those that need no password, pass.
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

/// The server that is asked about requests: it answers what the cookie says. Returns the heads that it got.
fn doorkeeper() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, heads) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let head = read_head(&mut stream);
            let answer = match head
                .split("ookie: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next())
            {
                Some("in") => {
                    "200 OK\r\nX-User: anna\r\nX-Groups: a\r\nX-Groups: b\r\nX-Private: no\r\nContent-Length: 0"
                }
                Some("nobody") => "204 No Content",
                Some("denied") => {
                    "403 Forbidden\r\nX-Why: closed\r\nContent-Length: 6\r\n\r\nclosed"
                }
                Some("unknown") => "401 Unauthorized\r\nSet-Cookie: csrf=1\r\nContent-Length: 0",
                Some("failed") => "500 Oops\r\nContent-Length: 0",
                Some("unchanged") => "304 Not Modified",
                Some("large") => "403 Forbidden\r\nContent-Length: 1000000",
                Some("slow") => {
                    std::mem::forget(stream);
                    continue;
                }
                _ => {
                    "302 Found\r\nLocation: /login?then=/\r\nSet-Cookie: state=1\r\nContent-Length: 0"
                }
            };
            let _ = sender.send(head);
            let end = if answer.contains("\r\n\r\n") {
                ""
            } else {
                "\r\n\r\n"
            };
            let _ = write!(stream, "HTTP/1.1 {answer}{end}");
            if answer.contains("1000000") {
                let _ = stream.write_all(&vec![b'x'; 1_000_000]);
            }
        }
    });
    (address, heads)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one site, asked in many ways")]
fn somebody_else_says_who_is_let_in() {
    let server = Server::start(&ServerOptions::default());
    let (door, heads) = doorkeeper();
    let forward = json!({"forward": {"pass": "upstreams/door", "uri": "/verify?a=b", "copy": ["X-User", "X-Groups"], "user_field": "X-User"}});
    let mut short = forward.clone();
    short["forward"]["timeout"] = json!(1);
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes/main"}},
            "upstreams": {"door": {"servers": {door.to_string(): {}}}},
            "access_log": {"path": server.folder().join("access.log"), "format": "$request_uri $status"},
            "routes": {
                "main": [
                    {"match": {"uri": "/round"}, "action": {"return": 200, "authenticate": {"forward": {"pass": "routes/round"}}}},
                    {"match": {"uri": "/route"}, "action": {"return": 200, "authenticate": {"forward": {"pass": "routes/checks"}}}},
                    {"match": {"uri": "/slow"}, "action": {"return": 200, "authenticate": short}},
                    {"action": {"proxy": format!("http://{}", echo()), "authenticate": forward,
                        "response_headers": {"X-Who": "$remote_user"}}}
                ],
                "checks": [
                    {"match": {"headers": {"x-forwarded-uri": "/route?open"}, "source": "127.0.0.1"}, "action": {"return": 204}},
                    {"action": {"return": 401, "response_headers_always": {"WWW-Authenticate": "Own"}}}
                ],
                "round": [{"action": {"return": 204, "authenticate": {"forward": {"pass": "routes/round"}}}}]
            }
        }),
    );
    let spoofed = [
        ("Cookie", "in"),
        ("X_User", "root"),
        ("X-Groups", "root"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X_Forwarded_Uri", "/other"),
        ("If-None-Match", "*"),
        ("X-Kept", "1"),
    ];
    let reply = client::request(
        server.address(),
        format!(
            "POST /page?x=1 HTTP/1.1\r\nHost: site.example\r\nContent-Length: 4\r\n{}\r\nbody",
            spoofed
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .concat()
        )
        .as_bytes(),
    )
    .unwrap();
    assert_eq!(reply.status, 200, "{}", server.log());
    assert_eq!(reply.field("X-Who"), Some("anna"));
    let text = reply.text();
    assert!(
        text.contains("X-User: anna\r\n") && text.contains("X-Groups: a, b\r\n"),
        "{text}"
    );
    assert!(
        !text.contains("root") && !text.contains("X-Private"),
        "{text}"
    );
    let asked = heads.recv().unwrap();
    assert!(asked.starts_with("GET /verify?a=b HTTP/1.1\r\n"), "{asked}");
    let lower = asked.to_ascii_lowercase();
    for line in [
        "host: site.example",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-host: site.example",
        "x-forwarded-method: post",
        "x-forwarded-uri: /page?x=1",
        "x-forwarded-raw-uri: /page?x=1",
        "cookie: in",
        "x-kept: 1",
    ] {
        assert!(
            lower.contains(&format!("\r\n{line}\r\n")),
            "{line} in {asked}"
        );
    }
    for gone in [
        "root",
        "content-length",
        "192.0.2.1",
        "/other",
        "if-none-match",
    ] {
        assert!(!lower.contains(gone), "{gone} in {asked}");
    }
    // A request without a name stays without one, whatever the client says.
    let text = ask(&server, "/", &[("Cookie", "nobody"), ("X-User", "root")]).text();
    assert!(
        text.starts_with("GET / ") && !text.contains("root"),
        "{text}"
    );
    let refused = ask(&server, "/", &[]);
    assert_eq!(refused.status, 302);
    assert_eq!(refused.field("Location"), Some("/login?then=/"));
    assert_eq!(refused.field("Set-Cookie"), Some("state=1"));
    let denied = ask(&server, "/", &[("Cookie", "denied")]);
    assert_eq!(
        (denied.status, denied.text().as_str(), denied.field("X-Why")),
        (403, "closed", Some("closed"))
    );
    for (target, broken) in [
        ("/", "failed"),
        ("/", "unchanged"),
        ("/", "large"),
        ("/slow", "slow"),
    ] {
        assert_eq!(
            ask(&server, target, &[("Cookie", broken)]).status,
            502,
            "{broken}"
        );
    }
    assert_eq!(ask(&server, "/route?open", &[]).status, 200);
    let refused = ask(&server, "/route?closed", &[]);
    assert_eq!(
        (refused.status, refused.field("WWW-Authenticate")),
        (401, Some("Own"))
    );
    assert_eq!(ask(&server, "/round", &[]).status, 502);
    server.wait_for_log("the question leads to another question");
    // A question is no request of anybody.
    let log = fs::read_to_string(server.folder().join("access.log")).unwrap_or_default();
    assert!(!log.contains("/verify"), "{log}");
}

fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}");
    output.stdout
}

fn token(head: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |bytes: &[u8]| base64(bytes, b"-_");
    let text = format!(
        "{}.{}",
        part(head.to_string().as_bytes()),
        part(claims.to_string().as_bytes())
    );
    let signature = part(&sign(text.as_bytes()));
    format!("Bearer {text}.{signature}")
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// An RSA key in a file, and the set of keys with its public half.
fn rsa_key(server: &Server, id: &str) -> (String, Value) {
    let path = server.folder().join(format!("{id}.pem"));
    let path = path.to_str().unwrap().to_owned();
    openssl(&["genrsa", "-out", &path, "2048"], b"");
    let modulus = openssl(&["rsa", "-in", &path, "-noout", "-modulus"], b"");
    let modulus = String::from_utf8(modulus).unwrap();
    let digits = modulus.trim().trim_start_matches("Modulus=");
    let bytes: Vec<u8> = (0..digits.len() / 2)
        .map(|index| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).unwrap())
        .collect();
    let key =
        json!({"kty": "RSA", "kid": id, "use": "sig", "n": base64(&bytes, b"-_"), "e": "AQAB"});
    (path, json!({"keys": [key]}))
}

fn by_rsa(path: &str) -> impl Fn(&[u8]) -> Vec<u8> {
    let path = path.to_owned();
    move |text| openssl(&["dgst", "-sha256", "-sign", &path], text)
}

fn status_of(server: &Server, target: &str, token: &str) -> u16 {
    ask(server, target, &[("Authorization", token)]).status
}

#[test]
#[expect(clippy::too_many_lines, reason = "one site, asked in many ways")]
fn signed_tokens_let_in() {
    let server = Server::start(&ServerOptions::default());
    let secret = "0123456789abcdef0123456789abcdef";
    let secret_file = server.write("secret", secret);
    let (one, mut keys) = rsa_key(&server, "one");
    server.write("keys/jwks.json", keys.to_string());
    let public = openssl(&["rsa", "-in", &one, "-pubout"], b"");
    let public_file = server.write("public.pem", &public);
    let fields = json!({"X-User": "sub", "X-Roles": "roles"});
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes/main"}},
            "routes": {
                "main": [
                    {"match": {"uri": "/secret"}, "action": {"proxy": format!("http://{}", echo()), "authenticate": {"jwt": {
                        "algorithms": ["HS256"], "key_file": secret_file, "fields": fields, "issuer": "us", "audience": ["site", "shop"]}}}},
                    {"match": {"uri": "/cookie"}, "action": {"return": 200, "authenticate": {"jwt": {
                        "algorithms": ["HS256"], "key_file": secret_file, "cookie": "session"}},
                        "response_headers": {"X-Who": "$remote_user"}}},
                    {"match": {"uri": "/public"}, "action": {"return": 200, "authenticate": {"jwt": {
                        "algorithms": ["RS256"], "key_file": public_file}}}},
                    {"action": {"return": 200, "authenticate": {"jwt": {
                        "algorithms": ["RS256"], "jwks": {"pass": "routes/keys", "uri": "/jwks.json"}}}}}
                ],
                "keys": [{"action": {"share": format!("{}/keys$uri", server.folder().display())}}]
            }
        }),
    );
    let hmac = |text: &[u8]| {
        openssl(
            &[
                "dgst",
                "-sha256",
                "-mac",
                "HMAC",
                "-macopt",
                &format!("key:{secret}"),
                "-binary",
            ],
            text,
        )
    };
    let head = json!({"alg": "HS256", "typ": "JWT"});
    let good =
        json!({"sub": "anna", "roles": ["a", "b"], "iss": "us", "aud": "site", "exp": now() + 600});
    let right = token(&head, &good, hmac);
    let reply = ask(
        &server,
        "/secret",
        &[
            ("Authorization", &right),
            ("X.User", "root"),
            ("x_roles", "root"),
        ],
    );
    let text = reply.text();
    assert_eq!(reply.status, 200, "{}", server.log());
    assert!(
        text.contains("X-User: anna\r\n")
            && text.contains("X-Roles: a,b\r\n")
            && !text.contains("root"),
        "{text}"
    );
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        token(&head, &claims, hmac)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        token(&head, &claims, hmac)
    };
    let other_secret = |text: &[u8]| {
        openssl(
            &[
                "dgst", "-sha256", "-mac", "HMAC", "-macopt", "key:x", "-binary",
            ],
            text,
        )
    };
    for (wrong, why) in [
        (String::new(), "nothing"),
        ("Bearer".to_owned(), "no token"),
        ("Bearer a.b.c".to_owned(), "nonsense"),
        (right.replace('.', ""), "no parts"),
        (format!("{right}x"), "another signature"),
        (token(&head, &good, other_secret), "another secret"),
        (
            token(&json!({"alg": "none"}), &good, |_| Vec::new()),
            "no signature",
        ),
        (
            token(&json!({"alg": "HS512"}), &good, hmac),
            "another algorithm",
        ),
        (
            token(&json!({"alg": "HS256", "crit": ["x"]}), &good, hmac),
            "an extension",
        ),
        (with("exp", json!(now() - 600)), "ended"),
        (with("exp", json!("soon")), "an end that is none"),
        (without("exp"), "no end"),
        (with("nbf", json!(now() + 600)), "not begun"),
        (with("iss", json!("them")), "another issuer"),
        (with("iss", json!(7)), "an issuer that is none"),
        (without("iss"), "no issuer"),
        (with("aud", json!(["other"])), "for somebody else"),
        (without("aud"), "without an audience"),
    ] {
        let reply = ask(&server, "/secret", &[("Authorization", &wrong)]);
        assert_eq!(reply.status, 401, "{why}");
        assert!(
            reply
                .field("WWW-Authenticate")
                .unwrap()
                .starts_with("Bearer realm="),
            "{why}"
        );
    }
    assert_eq!(
        status_of(&server, "/secret", &with("aud", json!(["other", "shop"]))),
        200
    );
    assert_eq!(
        status_of(&server, "/secret", &with("exp", json!(now() - 30))),
        200,
        "leeway"
    );
    let bare = right.trim_start_matches("Bearer ");
    let let_in = ask(
        &server,
        "/cookie",
        &[("Cookie", &format!("a=b; session={bare}"))],
    );
    assert_eq!((let_in.status, let_in.field("X-Who")), (200, Some("anna")));
    assert_eq!(status_of(&server, "/cookie", &right), 401);
    let twice = format!("session=x; session={bare}");
    assert_eq!(ask(&server, "/cookie", &[("Cookie", &twice)]).status, 401);
    // A public key is no secret: everyone who knew it could sign.
    let rs = |id: &str| json!({"alg": "RS256", "kid": id});
    assert_eq!(
        status_of(&server, "/public", &token(&rs("any"), &good, by_rsa(&one))),
        200
    );
    let confused = |text: &[u8]| {
        let digits: String = public.iter().map(|byte| format!("{byte:02x}")).collect();
        openssl(
            &[
                "dgst",
                "-sha256",
                "-mac",
                "HMAC",
                "-macopt",
                &format!("hexkey:{digits}"),
                "-binary",
            ],
            text,
        )
    };
    assert_eq!(
        status_of(&server, "/public", &token(&head, &good, confused)),
        401
    );
    // Keys that are fetched; and another one, which is there by the time it is used.
    assert_eq!(
        status_of(&server, "/", &token(&rs("one"), &good, by_rsa(&one))),
        200,
        "{}",
        server.log()
    );
    assert_eq!(
        status_of(&server, "/", &token(&rs("one"), &good, hmac)),
        401
    );
    let (two, more) = rsa_key(&server, "two");
    let both = more["keys"][0].clone();
    keys["keys"].as_array_mut().unwrap().push(both);
    assert_eq!(
        status_of(&server, "/", &token(&rs("two"), &good, by_rsa(&two))),
        401
    );
    server.write("keys/jwks.json", keys.to_string());
    let of_two = token(&rs("two"), &good, by_rsa(&two));
    wait_until("the second key", || status_of(&server, "/", &of_two) == 200);
    assert_eq!(
        status_of(&server, "/", &token(&rs("one"), &good, by_rsa(&one))),
        200
    );
}

/// A site whose tokens are verified with the keys of a server that answers by hand, with an access log.
fn with_provider(server: &Server, jwks: &Value) -> mpsc::Receiver<std::net::TcpStream> {
    let (provider, questions) = held();
    let mut jwks = jwks.clone();
    jwks["pass"] = "upstreams/provider".into();
    configured(
        server,
        json!({
            "access_log": server.folder().join("access.log"),
            "upstreams": {"provider": {"servers": {provider.to_string(): {}}}},
            "routes": [{"action": {"return": 200, "authenticate": {"jwt": {
                "algorithms": ["RS256"], "jwks": jwks}}}}]
        }),
    );
    questions
}

fn answer_with(mut stream: std::net::TcpStream, keys: &Value) {
    let keys = keys.to_string();
    let length = keys.len();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    // Fails if the question was dropped.
    let _ = stream.write_all((head + &keys).as_bytes());
}

#[test]
fn a_client_that_leaves_does_not_end_the_fetch_of_keys() {
    let server = Server::start(&ServerOptions::default());
    let questions = with_provider(&server, &json!({}));
    let (path, keys) = rsa_key(&server, "one");
    let claims = json!({"exp": now() + 600});
    let unknown = token(&json!({"alg": "RS256", "kid": "none"}), &claims, |_| {
        vec![0; 256]
    });
    let mut leaving = client::Client::to(server.address());
    leaving.send(format!(
        "GET /leaving HTTP/1.1\r\nHost: a\r\nAuthorization: {unknown}\r\n\r\n"
    ));
    let question = questions.recv().unwrap();
    leaving.reset();
    wait_until("the end of the request", || {
        let log = fs::read_to_string(server.folder().join("access.log"));
        log.is_ok_and(|log| log.contains("/leaving"))
    });
    answer_with(question, &keys);
    let good = token(
        &json!({"alg": "RS256", "kid": "one"}),
        &claims,
        by_rsa(&path),
    );
    assert_eq!(status_of(&server, "/", &good), 200, "{}", server.log());
}

#[test]
fn without_its_file_no_client_is_admitted() {
    let mut server = Server::start(&ServerOptions::default());
    let file = server.write("passwords", format!("anna:{SECRET}\n"));
    configured(
        &server,
        json!({"routes": [{"match": {"uri": "/open"}, "action": {"return": 200}},
            {"action": {"return": 200, "authenticate": {"basic": {"file": file}}}}]}),
    );
    let right = basic("anna", "secret");
    assert_eq!(status_of(&server, "/", &right), 200);
    // Only its owner may read it, which the router is not.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&file, mode).unwrap();
    server.kill_router();
    wait_until("the next router", || {
        client::get(server.address(), "/open").is_ok_and(|reply| reply.status == 200)
    });
    assert_eq!(status_of(&server, "/", &right), 200);
    let missing = json!({"basic": {"file": server.folder().join("nothing")}});
    let refused = server.call("PUT", "/config/routes/1/action/authenticate", &missing);
    assert_eq!(refused.status, 500);
    assert!(
        refused
            .text()
            .contains("/routes/1/action/authenticate/basic/file"),
        "{}",
        refused.text()
    );
    // At a start it may not be there yet.
    let hidden = Path::new(&file).with_extension("hidden");
    fs::rename(&file, &hidden).unwrap();
    server.kill_router();
    wait_until("the next router", || {
        client::get(server.address(), "/open").is_ok_and(|reply| reply.status == 200)
    });
    assert_eq!(status_of(&server, "/", &right), 503);
    fs::rename(&hidden, &file).unwrap();
    wait_until("the file", || status_of(&server, "/", &right) == 200);
    server.stop(libc::SIGTERM);
}

/// The examples of a guide, each at this server, with the files and servers of the test in place of the reader's.
struct Guide {
    server: Server,
    examples: Vec<String>,
}

impl Guide {
    /// The examples of a chapter.
    fn new(chapter: &str) -> Self {
        let page = include_str!("../../../docs/http/access.md");
        let server = Server::start(&ServerOptions::default());
        for page in ["index.html", "page", "login", "staff/page", "api/page"] {
            server.write(&format!("www/{page}"), "a page");
        }
        Self {
            server,
            examples: documents::examples(documents::chapter(page, chapter), "json"),
        }
    }

    /// Applies the example of this number.
    fn apply(&self, number: usize, places: &[(&str, &str)]) {
        let folder = self.server.folder().join("www").display().to_string();
        let mut text = self.examples[number].replace("/srv/www", &folder);
        for (from, to) in places {
            assert!(text.contains(from), "{from} in {text}");
            text = text.replace(from, to);
        }
        let mut config: Value = serde_json::from_str(&text).expect(&text);
        let pass = config["listeners"]["*:80"].clone();
        config["listeners"] = json!({self.server.address().to_string(): pass});
        self.server.put("/config", &config);
    }

    fn status(&self, target: &str, fields: &[(&str, &str)]) -> u16 {
        ask(&self.server, target, fields).status
    }
}

#[test]
fn the_guide_of_limits_is_right() {
    let guide = Guide::new("Limits");
    assert_eq!(guide.examples.len(), 3);
    guide.apply(0, &[]);
    let mut replies = (0..).map(|_| ask(&guide.server, "/page", &[])).take(1_000);
    for _ in 0..21 {
        assert_eq!(replies.next().unwrap().status, 200);
    }
    let refused = replies.find(|reply| reply.status != 200).unwrap();
    assert_eq!(refused.status, 429);
    assert!(refused.field("Retry-After").is_some() && refused.field("RateLimit").is_some());
    guide.apply(1, &[]);
    // A share takes no POST, but it is counted.
    let login = |target: &str| send(&guide.server, "POST", target, &[]).status;
    for target in ["/login", "/password/new", "/login", "/login", "/login"] {
        assert_eq!(login(target), 405, "{target}");
    }
    assert_eq!(login("/password/other"), 429);
    assert_eq!(guide.status("/login", &[]), 200, "no attempt");
    let key = |key: &str| ask(&guide.server, "/api/page", &[("X-Api-Key", key)]);
    for name in ["one", "two"] {
        let reply = key(name);
        assert_eq!(reply.status, 200);
        assert!(
            reply
                .field("RateLimit")
                .is_some_and(|told| told.contains("\"api\"")),
            "{}",
            reply.head
        );
    }
    guide.apply(2, &[]);
    let mut clients: Vec<client::Client> =
        (0..200).map(|_| from("127.0.0.1", &guide.server)).collect();
    assert!(clients.iter_mut().all(is_served));
    assert!(!is_served(&mut from("127.0.0.1", &guide.server)));
    assert!(is_served(&mut from("127.0.0.2", &guide.server)));
}

#[test]
fn the_guide_of_load_balancers_is_right() {
    let guide = Guide::new("Behind a load balancer");
    assert_eq!(guide.examples.len(), 1);
    let from = |address: &str| guide.status("/page", &[("X-Forwarded-For", address)]);
    guide.apply(0, &[]);
    assert_eq!(from("203.0.113.1"), 200);
    // The test is not one of the page's proxies, so it is one client.
    assert_eq!(from("203.0.113.2"), 429);
    guide.apply(0, &[("10.0.0.0/8", "127.0.0.1"), ("1r/m", "1r/h")]);
    assert_eq!(from("203.0.113.1"), 200);
    assert_eq!(from("203.0.113.2"), 200);
    // The client forged the first address; the proxy added the second.
    assert_eq!(from("203.0.113.3, 203.0.113.2"), 429);
}

#[test]
fn the_guide_of_access_is_right() {
    let guide = Guide::new("Authentication");
    assert_eq!(guide.examples.len(), 6);
    let right = basic("anna", "secret");
    let file = guide.server.write("staff", format!("anna:{SECRET}\n"));
    guide.apply(0, &[("/etc/tutti/staff.htpasswd", file.to_str().unwrap())]);
    let refused = ask(&guide.server, "/staff/page", &[]);
    let asks = refused.field("WWW-Authenticate").unwrap_or_default();
    assert!(
        refused.status == 401 && asks.contains("realm=\"Staff\""),
        "{asks}"
    );
    let wrong = basic("anna", "wrong");
    assert_eq!(
        guide.status("/staff/page", &[("Authorization", &wrong)]),
        401
    );
    assert_eq!(
        guide.status("/staff/page", &[("Authorization", &right)]),
        200
    );
    assert_eq!(guide.status("/page", &[]), 200);
    // The password of the hash on the page is forgotten.
    assert!(guide.examples[1].contains("$2y$10$"));
    guide.apply(1, &[]);
    assert_eq!(guide.status("/page", &[("Authorization", &right)]), 401);
    let hash = guide.examples[1]
        .split('"')
        .find(|text| text.starts_with("$2y$"))
        .unwrap();
    guide.apply(1, &[(hash, SECRET)]);
    assert_eq!(guide.status("/page", &[("Authorization", &right)]), 200);

    let (key, keys) = rsa_key(&guide.server, "one");
    let identity = saying(&keys.to_string());
    guide.apply(2, &[("127.0.0.1:8081", &identity.to_string())]);
    let claims = json!({"iss": "https://id.example/realms/shop", "aud": "shop", "sub": "anna", "exp": now() + 600});
    let head = json!({"alg": "RS256", "kid": "one"});
    let mine = token(&head, &claims, by_rsa(&key));
    assert_eq!(
        status_of(&guide.server, "/api/page", &mine),
        200,
        "{}",
        guide.server.log()
    );
    let mut others = claims.clone();
    others["aud"] = json!("bank");
    let others = token(&head, &others, by_rsa(&key));
    assert_eq!(status_of(&guide.server, "/api/page", &others), 401);
    assert_eq!(guide.status("/api/page", &[]), 401);

    let secret = "0123456789abcdef0123456789abcdef";
    let path = guide.server.write("secret", secret);
    guide.apply(3, &[("/etc/tutti/jwt.secret", path.to_str().unwrap())]);
    let sign = |text: &[u8]| {
        let key = format!("key:{secret}");
        let arguments = [
            "dgst", "-sha256", "-mac", "HMAC", "-macopt", &key, "-binary",
        ];
        openssl(&arguments, text)
    };
    let mine = token(
        &json!({"alg": "HS256"}),
        &json!({"sub": "anna", "exp": now() + 600}),
        sign,
    );
    let cookie = mine.replace("Bearer ", "session=");
    assert_eq!(guide.status("/page", &[("Cookie", &cookie)]), 200);
    assert_eq!(guide.status("/page", &[]), 401);

    let (door, heads) = doorkeeper();
    guide.apply(4, &[("127.0.0.1:9091", &door.to_string())]);
    for (cookie, status) in [("in", 200), ("denied", 403), ("other", 302)] {
        assert_eq!(
            guide.status("/page", &[("Cookie", cookie)]),
            status,
            "{cookie}"
        );
        let asked = heads.recv().unwrap();
        assert!(asked.starts_with("GET /api/authz/forward-auth "), "{asked}");
    }

    guide.apply(5, &[("127.0.0.1:4180", &door.to_string())]);
    assert_eq!(guide.status("/page", &[("Cookie", "in")]), 200);
    let asked = heads.recv().unwrap();
    assert!(asked.starts_with("GET /oauth2/auth "), "{asked}");
    let refused = ask(&guide.server, "/page?a=b", &[("Cookie", "unknown")]);
    assert_eq!(refused.status, 302);
    let place = refused.field("Location").unwrap();
    assert!(
        place.starts_with("/oauth2/sign_in?rd=https%3A%2F%2F"),
        "{place}"
    );
    assert!(place.ends_with("%2Fpage%3Fa%3Db"), "{place}");
    assert_eq!(refused.field("Set-Cookie"), Some("csrf=1"));
}

#[test]
fn the_guide_of_links_is_right() {
    let guide = Guide::new("Links");
    assert_eq!(guide.examples.len(), 2);
    for page in ["downloads/film.mp4", "old/film.mp4", "a.jpg"] {
        guide.server.write(&format!("www/{page}"), "a page");
    }
    let secret = "0123456789abcdef0123456789abcdef";
    let path = guide.server.write("secret", format!("{secret}\n"));
    guide.apply(0, &[("/etc/tutti/links.secret", path.to_str().unwrap())]);
    let sign = |text: &str| {
        let digest = openssl(&["dgst", "-sha256", "-hmac", secret, "-r"], text.as_bytes());
        String::from_utf8(digest).unwrap()[..64].to_owned()
    };
    let film = "/downloads/film.mp4";
    let (late, early) = (now() + 600, now() - 600);
    let signed = sign(&format!("{film} {late}"));
    let expired = sign(&format!("{film} {early}"));
    for (target, status) in [
        (format!("{film}?expires={late}&signature={signed}"), 200),
        (format!("{film}?signature={signed}&expires={late}"), 200),
        (
            format!("/%64ownloads/film.mp4?expires={late}&signature={signed}"),
            200,
        ),
        (format!("{film}?expires={early}&signature={expired}"), 410),
        (
            format!("{film}?expires={}&signature={signed}", late + 1),
            403,
        ),
        (format!("{film}?expires={late}&signature={expired}"), 403),
        (format!("{film}?expires={late}"), 403),
        (format!("{film}?signature={signed}"), 403),
        (
            format!("/downloads/film.mp3?expires={late}&signature={signed}"),
            403,
        ),
        ("/old/film.mp4".to_owned(), 403),
    ] {
        assert_eq!(guide.status(&target, &[]), status, "{target}");
    }
    // The commands of the page make such a link, too.
    let page = include_str!("../../../docs/http/access.md");
    let commands = tutti_testkit::guide::commands(documents::chapter(page, "Links"));
    let places = [("/etc/tutti/links.secret", path.to_str().unwrap())];
    let script = tutti_testkit::guide::filled(&commands, &places).join("\n");
    let made = Command::new("bash").args(["-c", &script]).output().unwrap();
    let link = String::from_utf8(made.stdout).unwrap();
    let target = link.trim().strip_prefix("https://site.example").unwrap();
    assert_eq!(guide.status(target, &[]), 200, "{link}");
    let text = format!("{late}/old/film.mp4127.0.0.1 secret");
    let digest = openssl(&["dgst", "-md5", "-binary"], text.as_bytes());
    let digest = data_encoding::BASE64URL_NOPAD.encode(&digest);
    let old = |expires| {
        guide.status(
            &format!("/old/film.mp4?md5={digest}&expires={expires}"),
            &[],
        )
    };
    assert_eq!((old(late), old(late + 1)), (200, 403));

    guide.apply(1, &[]);
    let linked = |value: &str| guide.status("/a.jpg", &[("Referer", value)]);
    assert_eq!(guide.status("/a.jpg", &[]), 200);
    for (value, status) in [
        ("https://site.example/page", 200),
        ("-", 200),
        ("http://www.partner.example:8080/", 200),
        ("https://news.example/gallery/1", 200),
        ("https://news.example/", 403),
        ("https://evil.example/site.example", 403),
        ("https://site.example@evil.example/", 403),
    ] {
        assert_eq!(linked(value), status, "{value}");
    }
    let both = [
        ("Referer", "https://site.example/"),
        ("Referer", "https://evil.example/"),
    ];
    assert_eq!(guide.status("/a.jpg", &both), 403);
}

#[test]
fn the_secret_of_links_is_read_again_and_missing_it_opens_nothing() {
    let server = Server::start(&ServerOptions::default());
    let file = server.write("secret", "short");
    let link = json!({"secret_file": file, "expires": ""});
    let mut config =
        json!({"routes": [{"action": {"return": 200, "authenticate": {"signed_link": link}}}]});
    config["listeners"] = json!({server.address().to_string(): {"pass": "routes"}});
    let refused = server.call("PUT", "/config", &config);
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(
        refused.text().contains("less than 32 bytes"),
        "{}",
        refused.text()
    );
    let secrets = ["a", "b"].map(|letter| letter.repeat(32));
    let signature = |secret: &str| {
        let digest = openssl(&["dgst", "-sha256", "-hmac", secret, "-r"], b"/");
        String::from_utf8(digest).unwrap()[..64].to_owned()
    };
    let targets = secrets
        .clone()
        .map(|secret| format!("/?signature={}", signature(&secret)));
    fs::write(&file, &secrets[0]).unwrap();
    server.put("/config", &config);
    let statuses = || [0, 1].map(|number: usize| ask(&server, &targets[number], &[]).status);
    assert_eq!(statuses(), [200, 403]);
    fs::write(&file, &secrets[1]).unwrap();
    wait_until("the new secret", || statuses() == [403, 200]);
    assert!(!server.log().contains(&secrets[1]));
}

/// A server that says the same to all.
fn saying(text: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_head(&mut stream);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn the_guide_of_other_origins_is_right() {
    let guide = Guide::new("CORS");
    assert_eq!(guide.examples.len(), 1);
    guide.apply(0, &[]);
    let origin = |origin: &str| ask(&guide.server, "/api/page", &[("Origin", origin)]);
    for mine in ["https://app.example", "https://shop.app.example"] {
        let reply = origin(mine);
        for (name, value) in [
            ("Access-Control-Allow-Origin", mine),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Expose-Headers", "X-Total"),
        ] {
            assert_eq!(reply.field(name), Some(value), "{}", reply.head);
        }
        assert_eq!(reply.status, 200);
    }
    let other = origin("https://app.example.evil.example");
    assert_eq!(
        (other.status, other.field("Access-Control-Allow-Origin")),
        (200, None)
    );
    let question = |method: &str| {
        let fields = [
            ("Origin", "https://app.example"),
            ("Access-Control-Request-Method", method),
        ];
        send(&guide.server, "OPTIONS", "/api/page", &fields)
    };
    let answer = question("DELETE");
    assert_eq!(
        (answer.status, answer.field("Access-Control-Max-Age")),
        (204, Some("3600"))
    );
    let methods = answer
        .field("Access-Control-Allow-Methods")
        .unwrap_or_default();
    assert!(
        methods.contains("DELETE") && !methods.contains("PATCH"),
        "{methods}"
    );
}

fn from(source: &str, server: &Server) -> client::Client {
    client::Client::from(source.parse().unwrap(), server.address())
}

/// True if the connection is served; it may then be kept.
fn is_served(client: &mut client::Client) -> bool {
    let sent = client
        .stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // A connection that was closed at once may tell so by a reset.
    sent.is_ok()
        && matches!(client.fill(), Ok(count) if count > 0)
        && client.response("GET").status == 200
}

fn bounded(server: &Server, mut listener: Value) {
    listener["pass"] = json!("routes");
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): listener},
            "routes": [{"action": {"return": 200}}]
        }),
    );
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = client::control(server.control(), "GET", "/metrics", b"")
        .unwrap()
        .text();
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().parse::<f64>().ok());
    number.unwrap_or_else(|| panic!("no {name} in {page}")) as u64
}

#[test]
fn connections_beyond_the_bound_of_a_listener_wait() {
    let server = Server::start(&ServerOptions::default());
    bounded(&server, json!({"max_connections": 2}));
    let mut first = from("127.0.0.1", &server);
    let mut second = from("127.0.0.1", &server);
    assert!(is_served(&mut first) && is_served(&mut second));
    let mut third = from("127.0.0.1", &server);
    third.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_log("has `max_connections` open; others wait to be accepted");
    assert!(third.is_quiet());
    // Clients with a connection do not notice.
    assert!(is_served(&mut first));
    drop(second);
    assert_eq!(third.response("GET").status, 200);
    let mut fourth = from("127.0.0.1", &server);
    fourth.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(fourth.is_quiet());
    bounded(&server, json!({"max_connections": 3}));
    assert_eq!(fourth.response("GET").status, 200);
    bounded(&server, json!({}));
    let mut more: Vec<_> = (0..20).map(|_| from("127.0.0.1", &server)).collect();
    assert!(more.iter_mut().all(is_served));
}

#[test]
fn connections_of_one_client_are_bounded_and_those_of_proxies_are_not() {
    let server = Server::start(&ServerOptions::default());
    bounded(&server, json!({"max_connections_per_client": 2}));
    let mut held: Vec<_> = (0..2).map(|_| from("127.0.0.1", &server)).collect();
    assert!(held.iter_mut().all(is_served));
    assert!(!is_served(&mut from("127.0.0.1", &server)));
    assert!(is_served(&mut from("127.0.0.2", &server)));
    server.wait_for_log("connection refused: client 127.0.0.1 has `max_connections_per_client`");
    let place = server.address();
    let refused = format!("tutti_listener_refused_connections_total{{listener=\"{place}\"}}");
    assert_eq!(metric(&server, &refused), 1);
    held.pop();
    wait_until("there is room again", || {
        is_served(&mut from("127.0.0.1", &server))
    });
    // A trusted proxy is not counted as a client.
    bounded(
        &server,
        json!({"max_connections_per_client": 2, "forwarded": {"source": "127.0.0.1", "client_ip": "X-Forwarded-For"}}),
    );
    let mut proxied: Vec<_> = (0..6).map(|_| from("127.0.0.1", &server)).collect();
    assert!(proxied.iter_mut().all(is_served));
    let mut strangers: Vec<_> = (0..2).map(|_| from("127.0.0.3", &server)).collect();
    assert!(strangers.iter_mut().all(is_served));
    assert!(!is_served(&mut from("127.0.0.3", &server)));
}

#[test]
fn the_user_is_known_to_log_and_application_and_refusals_are_counted() {
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes"}},
            "access_log": {"path": server.folder().join("access.log"), "format": "$request_uri $status <$remote_user>"},
            "routes": [
                {"match": {"uri": "/open"}, "action": {"return": 200}},
                {"match": {"uri": "/bounded"}, "action": {"return": 200, "limit": {"rate": "1r/h"}}},
                {"match": {"uri": "/tried"}, "action": {"return": 200, "limit": {"concurrent": 1, "rate": "1r/h", "dry_run": true}}},
                {"action": {
                    "return": 200, "response_headers": {"X-User": "$remote_user"},
                    "authenticate": {"basic": {"users": {"anna": SECRET}}}
                }}
            ]
        }),
    );
    let known = basic("anna", "secret");
    let wrong = basic("anna", "Secret");
    let reply = ask(&server, "/", &[("Authorization", &known)]);
    assert_eq!((reply.status, reply.field("X-User")), (200, Some("anna")));
    assert_eq!(
        ask(&server, "/wrong", &[("Authorization", &wrong)]).status,
        401
    );
    // The next request of the same connection has no user.
    let mut kept = client::Client::to(server.address());
    for (target, authorization) in [
        ("/first", format!("Authorization: {known}\r\n")),
        ("/open", String::new()),
    ] {
        kept.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\n{authorization}\r\n"
        ));
        assert_eq!(kept.response("GET").status, 200);
    }
    // On one connection, a request has left its place under a limit before the next is read.
    for (target, status) in [
        ("/bounded", 200),
        ("/bounded", 429),
        ("/tried", 200),
        ("/tried", 200),
    ] {
        kept.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(kept.response("GET").status, status, "{target}");
    }
    let log = || fs::read_to_string(server.folder().join("access.log")).unwrap_or_default();
    for line in [
        "/ 200 <anna>",
        "/wrong 401 <->",
        "/first 200 <anna>",
        "/open 200 <->",
    ] {
        wait_until(line, || log().lines().any(|one| one == line));
    }
    for (name, expected) in [
        ("tutti_unauthenticated_requests_total{by=\"basic\"}", 1),
        (
            "tutti_limited_requests_total{limit=\"/routes/1/action/limit\",bound=\"rate\",effect=\"refused\"}",
            1,
        ),
        (
            "tutti_limited_requests_total{limit=\"/routes/2/action/limit\",bound=\"rate\",effect=\"logged\"}",
            1,
        ),
        (
            "tutti_limited_requests_total{limit=\"/routes/2/action/limit\",bound=\"concurrent\",effect=\"logged\"}",
            0,
        ),
    ] {
        assert_eq!(metric(&server, name), expected, "{name}");
    }
}
