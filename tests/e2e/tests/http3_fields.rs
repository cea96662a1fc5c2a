//! Fields of HTTP/3 that would be a request too many, another host or another user behind the server: a proxied server, a FastCGI server, PHP
//! and Python all get the same, straight, behind a guard and behind a cache; or none gets anything.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tutti_e2e::fpm::Fpm;
use tutti_e2e::http3_raw::{Field, Outcome, Raw};
use tutti_e2e::http3_site::{self, run};
use tutti_testkit::Server;

/// `secret`, by `htpasswd -nbB -C 4`, and what a client says who knows it.
const SECRET: &str = "$2y$04$jSz1tXNKo.beld/S8xsOwesNQxGVCl6/Vwe3Mk.oO4XqSnTLal1w.";
const ANNA: &[u8] = b"Basic YW5uYTpzZWNyZXQ=";

/// The variables of CGI that say what the client said, and the body.
const PHP: &str = "<?php
$seen = array_filter($_SERVER, fn($value, $name) => is_string($value) && (str_starts_with($name, 'HTTP_')
    || in_array($name, ['REQUEST_METHOD', 'REQUEST_URI', 'REQUEST_SCHEME', 'HTTPS'])), ARRAY_FILTER_USE_BOTH);
$seen['body'] = file_get_contents('php://input');
echo json_encode($seen);
";

const PYTHON: &str = "
import json

def application(environ, start_response):
    names = ('REQUEST_METHOD', 'REQUEST_URI')
    seen = {name: value for name, value in environ.items() if name.startswith('HTTP_') or name in names}
    seen['REQUEST_SCHEME'] = environ['wsgi.url_scheme']
    seen['body'] = environ['wsgi.input'].read().decode()
    start_response('200 OK', [('Content-Type', 'application/json')])
    return [json.dumps(seen).encode()]
";

/// A server of HTTP/1 that tells what it sees in the same words, and counts what reaches it. It believes no two things at once: a head with two
/// lengths, or that goes on where it should end, is a failure of its own.
struct Backend {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Backend {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || serve(stream, &counted));
            }
        });
        Self { address, requests }
    }
}

/// Serves a connection until its client leaves.
fn serve(stream: TcpStream, counted: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(seen) = read_request(&mut reader) {
        counted.fetch_add(1, Ordering::SeqCst);
        let text = serde_json::to_string(&seen).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        if writer.write_all((head + &text).as_bytes()).is_err() {
            return;
        }
    }
}

/// A line without its end, or nothing at the end of the connection.
fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes).ok()?;
    let text = bytes.strip_suffix(b"\r\n")?;
    assert!(
        !text.iter().any(u8::is_ascii_control),
        "{}",
        text.escape_ascii()
    );
    Some(String::from_utf8_lossy(text).into_owned())
}

fn read_request(reader: &mut impl BufRead) -> Option<BTreeMap<String, String>> {
    let first = line(reader)?;
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else {
        panic!("{first}");
    };
    let mut seen = BTreeMap::from([
        ("REQUEST_METHOD".to_owned(), method.to_owned()),
        ("REQUEST_URI".to_owned(), target.to_owned()),
    ]);
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let text = line(reader)?;
        let Some((name, value)) = text.split_once(": ") else {
            assert_eq!(text, "");
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            assert_eq!(length.replace(value.parse::<usize>().unwrap()), None);
        }
        is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        let name = format!(
            "HTTP_{}",
            name.to_ascii_uppercase().replace(['-', '.'], "_")
        );
        let is_named_twice = seen.insert(name, value.to_owned()).is_some();
        // A text that only looks like a length is here where it is wished.
        let looks_like_one = seen.values().any(|value| value == "it is wished");
        assert!(!is_named_twice || looks_like_one, "{text} twice");
    }
    assert!(length.is_none() || !is_chunked, "{seen:?}");
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    while is_chunked && let Some(chunk) = chunk(reader, &mut seen)? {
        body.extend_from_slice(&chunk);
    }
    seen.insert(
        "body".to_owned(),
        String::from_utf8_lossy(&body).into_owned(),
    );
    Some(seen)
}

/// Reads a chunk; `None`: it was the last, and trailers have been noted.
fn chunk(
    reader: &mut impl BufRead,
    seen: &mut BTreeMap<String, String>,
) -> Option<Option<Vec<u8>>> {
    let size = usize::from_str_radix(&line(reader)?, 16).unwrap();
    if size == 0 {
        while let Some(trailer) = line(reader).filter(|text| !text.is_empty()) {
            seen.insert("trailers".to_owned(), trailer);
        }
        return Some(None);
    }
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(size);
    Some(Some(chunk))
}

/// A server in front of all receivers: each has a place for requests that come straight, through a guard, and past a cache.
struct Site {
    server: Server,
    backend: Backend,
    receivers: Vec<&'static str>,
    _fpm: Option<Fpm>,
}

const WAYS: [&str; 3] = ["plain", "guarded", "cached"];

impl Site {
    fn start() -> Self {
        let server = http3_site::bare();
        server.write("php/index.php", PHP);
        server.write("python/wsgi.py", PYTHON);
        server.write("php.ini", "");
        let backend = Backend::start();
        let fpm = Fpm::is_installed().then(|| Fpm::start(&server.folder().join("php.ini"), 2));
        let php = server.folder().join("php");
        let mut actions = vec![
            (
                "proxy",
                json!({"proxy": format!("http://{}", backend.address)}),
            ),
            ("php", json!({"pass": "applications/php"})),
            ("python", json!({"pass": "applications/python"})),
        ];
        if let Some(fpm) = &fpm {
            let socket = format!("fastcgi://unix:{}", fpm.socket().display());
            let options = json!({"root": php, "script": "index.php"});
            actions.push(("fpm", json!({"proxy": socket, "fastcgi": options})));
        }
        let site = Self {
            receivers: actions.iter().map(|(name, _)| *name).collect(),
            server,
            backend,
            _fpm: fpm,
        };
        site.configure(&actions);
        site
    }

    fn configure(&self, actions: &[(&str, Value)]) {
        let folder = self.server.folder();
        let guard = json!({"basic": {"users": {"anna": SECRET}, "field": "X-Remote-User"}});
        let step = |(name, action): &(&str, Value), way: &str| {
            let mut action = action.clone();
            match way {
                "guarded" => action["authenticate"] = guard.clone(),
                "cached" => action["cache"] = json!({"store": "pages", "valid": {"200": 60}}),
                _ => {}
            }
            json!({"match": {"uri": format!("/{name}/{way}/*")}, "action": action})
        };
        let routes = actions
            .iter()
            .flat_map(|action| WAYS.map(|way| step(action, way)));
        self.server.put(
            "/config",
            &json!({
                "listeners": http3_site::listeners(&self.server, "routes", &json!(true)),
                "routes": routes.collect::<Vec<_>>(),
                "applications": {
                    "php": {"type": "php", "root": folder.join("php"), "script": "index.php"},
                    "python": {"type": "python", "path": folder.join("python"), "module": "wsgi"}
                },
                // Underscores and the like come through where that is wished; not those of guards.
                "settings": {"http": {"discard_unsafe_fields": false}, "cache": {"pages": {}}}
            }),
        );
    }

    fn places(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let receivers = self.receivers.iter();
        receivers.flat_map(|receiver| WAYS.map(|way| (*receiver, way)))
    }
}

/// A request of a table. `@` in a value stands for the place it is sent to.
struct Case {
    name: &'static str,
    /// In place of the usual pseudo-fields.
    pseudo: Option<Vec<Field<'static>>>,
    fields: Vec<Field<'static>>,
    body: Option<&'static [u8]>,
    trailers: Vec<Field<'static>>,
}

const METHOD: Field<'static> = (b":method", b"GET");
const POST: Field<'static> = (b":method", b"POST");
const SCHEME: Field<'static> = (b":scheme", b"https");
const AUTHORITY: Field<'static> = (b":authority", b"site.example");
const PATH: Field<'static> = (b":path", b"@");

/// A request that is hidden in another.
const HIDDEN: &[u8] = b"GET /proxy/plain/smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

fn with(name: &'static str, fields: &[Field<'static>]) -> Case {
    Case {
        name,
        pseudo: None,
        fields: fields.to_vec(),
        body: None,
        trailers: Vec::new(),
    }
}

fn bodied(name: &'static str, fields: &[Field<'static>], body: &'static [u8]) -> Case {
    Case {
        body: Some(body),
        pseudo: Some(vec![POST, SCHEME, AUTHORITY, PATH]),
        ..with(name, fields)
    }
}

fn begun(name: &'static str, pseudo: &[Field<'static>]) -> Case {
    Case {
        pseudo: Some(pseudo.to_vec()),
        ..with(name, &[])
    }
}

fn path(name: &'static str, path: &'static [u8]) -> Case {
    begun(name, &[METHOD, SCHEME, AUTHORITY, (b":path", path)])
}

fn authority(name: &'static str, authority: &'static [u8]) -> Case {
    begun(name, &[METHOD, SCHEME, (b":authority", authority), PATH])
}

fn method(name: &'static str, method: &'static [u8]) -> Case {
    begun(name, &[(b":method", method), SCHEME, AUTHORITY, PATH])
}

fn length(name: &'static str, length: &'static [u8]) -> Case {
    bodied(name, &[(b"content-length", length)], HIDDEN)
}

fn kept(name: &'static str, value: &'static [u8]) -> Case {
    with(name, &[(b"x-kept", value)])
}

impl Case {
    async fn send(&self, raw: &Raw, place: &str, way: &str) -> Outcome {
        let usual = vec![METHOD, SCHEME, AUTHORITY, PATH];
        let mut head = self.pseudo.clone().unwrap_or(usual);
        if way == "guarded" {
            head.push((b"authorization", ANNA));
        }
        head.extend_from_slice(&self.fields);
        let values: Vec<Vec<u8>> = head
            .iter()
            .map(|(_, value)| {
                let mut pieces = value.split(|byte| *byte == b'@');
                let first = pieces.next().unwrap_or_default().to_vec();
                pieces.fold(first, |text, piece| {
                    [&text, place.as_bytes(), piece].concat()
                })
            })
            .collect();
        let head: Vec<Field<'_>> = head
            .iter()
            .zip(&values)
            .map(|((name, _), value)| (*name, value.as_slice()))
            .collect();
        raw.send(&head, self.body, &self.trailers).await
    }
}

/// Requests that must not reach any application.
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn attacks() -> Vec<Case> {
    let chunked = (&b"transfer-encoding"[..], &b"chunked"[..]);
    let mut list = vec![
        // Names.
        with("upper case", &[(b"X-Kept", b"1")]),
        with("one letter in upper case", &[(b"x-kepT", b"1")]),
        with("empty name", &[(b"", b"1")]),
        with("space in a name", &[(b"x kept", b"1")]),
        with("colon in a name", &[(b"x:kept", b"1")]),
        with("NUL in a name", &[(b"x\0kept", b"1")]),
        with("line in a name", &[(b"x: 1\r\nhost", b"a")]),
        with(
            "request in a name",
            &[(
                b"x: 1\r\n\r\nGET /proxy/plain/smuggled HTTP/1.1\r\nhost",
                b"a",
            )],
        ),
        with("byte beyond ASCII in a name", &[(b"x-\xc3\xa9", b"1")]),
        // Values.
        kept("CR LF in a value", b"1\r\nx-remote-user: root"),
        kept("CR in a value", b"1\rx-remote-user: root"),
        kept("LF in a value", b"1\nx-remote-user: root"),
        kept("NUL in a value", b"1\0"),
        kept("DEL in a value", b"1\x7f"),
        kept("space before a value", b" 1"),
        kept("tab behind a value", b"1\t"),
        kept(
            "request in a value",
            b"1\r\n\r\nGET /proxy/plain/smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        with(
            "line in a crumb of a cookie",
            &[
                (b"cookie", b"a=1"),
                (b"cookie", b"b=2\r\nx-remote-user: root"),
            ],
        ),
        // The connection's.
        with("connection", &[(b"connection", b"close")]),
        with(
            "connection that names a field",
            &[(b"connection", b"x-remote-user")],
        ),
        with("keep-alive", &[(b"keep-alive", b"timeout=5")]),
        with("proxy-connection", &[(b"proxy-connection", b"keep-alive")]),
        with("upgrade", &[(b"upgrade", b"websocket")]),
        with("te", &[(b"te", b"gzip")]),
        with("te, trailers and more", &[(b"te", b"trailers, deflate")]),
        bodied("transfer-encoding", &[chunked], b"0\r\n\r\n"),
        bodied(
            "transfer-encoding and a length",
            &[chunked, (b"content-length", b"5")],
            b"0\r\n\r\n",
        ),
        bodied(
            "transfer-encoding that is unknown",
            &[(b"transfer-encoding", b"xchunked")],
            HIDDEN,
        ),
        bodied(
            "transfer-encoding that is identity",
            &[(b"transfer-encoding", b"identity")],
            HIDDEN,
        ),
        // Lengths.
        length("length of 0 before a body", b"0"),
        length("length that is short", b"4"),
        length("length that is long", b"1000"),
        bodied(
            "two lengths",
            &[(b"content-length", b"48"), (b"content-length", b"0")],
            HIDDEN,
        ),
        length("list of lengths", b"48, 48"),
        length("length with a sign", b"+48"),
        length("negative length", b"-1"),
        length("hexadecimal length", b"0x30"),
        length("length with a space inside", b"4 8"),
        length("empty length", b""),
        length("length past 64 bits", b"18446744073709551664"),
        with("length without a body", &[(b"content-length", b"5")]),
        // Hosts.
        with("another host", &[(b"host", b"other.example")]),
        with(
            "two hosts",
            &[(b"host", b"site.example"), (b"host", b"other.example")],
        ),
        begun(
            "two authorities",
            &[METHOD, SCHEME, AUTHORITY, AUTHORITY, PATH],
        ),
        begun("no host at all", &[METHOD, SCHEME, PATH]),
        authority("empty authority", b""),
        authority("authority with a path", b"a/smuggled"),
        authority("authority with a user", b"a@b"),
        authority("authority with a line", b"a\r\nx-remote-user: root"),
        authority("authority with a comma", b"a, b"),
        // Paths.
        begun("no path", &[METHOD, SCHEME, AUTHORITY]),
        path("empty path", b""),
        begun("two paths", &[METHOD, SCHEME, AUTHORITY, PATH, PATH]),
        path("path without a slash", b"mark"),
        path(
            "request line in a path",
            b"@ HTTP/1.1\r\nHost: a\r\n\r\nGET /smuggled",
        ),
        path("space in a path", b"@ x"),
        path("tab in a path", b"@\tx"),
        path("NUL in a path", b"@\0"),
        path("encoded NUL in a path", b"@%00"),
        path("broken escape in a path", b"@%zz"),
        path(
            "path above the root",
            b"/../../..@/%2e%2e/%2e%2e/%2e%2e/%2e%2e/x",
        ),
        // Other pseudo-fields.
        begun("no method", &[SCHEME, AUTHORITY, PATH]),
        begun("two methods", &[METHOD, POST, SCHEME, AUTHORITY, PATH]),
        method("method with a space", b"GET /smuggled"),
        method("method with a line", b"GET / HTTP/1.1\r\nx:"),
        method("empty method", b""),
        begun("no scheme", &[METHOD, AUTHORITY, PATH]),
        begun(
            "status in a request",
            &[METHOD, SCHEME, AUTHORITY, PATH, (b":status", b"200")],
        ),
        begun(
            "pseudo-field in upper case",
            &[METHOD, SCHEME, AUTHORITY, (b":Path", b"@")],
        ),
        begun(
            "unknown pseudo-field",
            &[METHOD, SCHEME, AUTHORITY, PATH, (b":user", b"root")],
        ),
        begun(
            "protocol on GET",
            &[
                METHOD,
                SCHEME,
                AUTHORITY,
                PATH,
                (b":protocol", b"websocket"),
            ],
        ),
        begun("CONNECT", &[(b":method", b"CONNECT"), AUTHORITY]),
        with(
            "pseudo-field behind others",
            &[(b"x-kept", b"1"), (b":path", b"/smuggled")],
        ),
    ];
    list.push(Case {
        trailers: vec![(b":path", b"/smuggled")],
        ..bodied("pseudo-field in trailers", &[], b"body")
    });
    list
}

#[test]
fn nothing_is_smuggled_past_http3() {
    let site = Site::start();
    let attacks = attacks();
    assert!(attacks.len() >= 70, "{}", attacks.len());
    let mut failures = Vec::new();
    run(async {
        for case in &attacks {
            // Faults count against a connection: each case has its own.
            let raw = Raw::connect(site.server.port()).await;
            for (receiver, way) in site.places() {
                let place = format!("/{receiver}/{way}/mark");
                let before = site.backend.requests.load(Ordering::SeqCst);
                let outcome = case.send(&raw, &place, way).await;
                let arrived = site.backend.requests.load(Ordering::SeqCst) - before;
                let has_trailers = !case.trailers.is_empty();
                // A fault behind the head may be noticed when the request is under way.
                if !outcome.is_refused() || (arrived > 0 && !has_trailers) {
                    failures.push(format!("{} at {place}: {outcome:?}", case.name));
                }
                if arrived > 1 {
                    failures.push(format!("{} at {place}: {arrived} requests", case.name));
                }
            }
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A request that is taken, and what every receiver is to see of it: `None` for a variable that is not to be there.
type Taken = (Case, &'static [(&'static str, Option<&'static str>)]);

fn taken() -> Vec<Taken> {
    let spoofs: &[(&str, Option<&str>)] = &[("HTTP_X_KEPT", Some("kept"))];
    let spoof = |name: &'static [u8]| {
        let fields = [(name, &b"root"[..]), (b"x-kept", b"kept")];
        (with("a name of the guard's", &fields), spoofs)
    };
    vec![
        spoof(b"x-remote-user"),
        spoof(b"x_remote_user"),
        spoof(b"x.remote.user"),
        spoof(b"x-remote_user"),
        spoof(b"x_remote-user"),
        spoof(b"x.remote_user"),
        (
            with("host beside the authority", &[(b"host", b"site.example")]),
            &[("HTTP_HOST", Some("site.example"))],
        ),
        (
            begun(
                "host alone",
                &[METHOD, SCHEME, PATH, (b"host", b"site.example")],
            ),
            &[("HTTP_HOST", Some("site.example"))],
        ),
        (
            with(
                "crumbs",
                &[
                    (b"cookie", b"a=1"),
                    (b"x-kept", b"1"),
                    (b"cookie", b""),
                    (b"cookie", b"b=2; c=3"),
                ],
            ),
            &[
                ("HTTP_COOKIE", Some("a=1; b=2; c=3")),
                ("HTTP_X_KEPT", Some("1")),
            ],
        ),
        (
            begun(
                "another scheme",
                &[METHOD, (b":scheme", b"http"), AUTHORITY, PATH],
            ),
            &[("REQUEST_SCHEME", Some("https"))],
        ),
        (
            begun(
                "query",
                &[
                    METHOD,
                    SCHEME,
                    AUTHORITY,
                    (b":path", b"@?a=b%0d%0a&c=/../d"),
                ],
            ),
            &[("HTTP_X_KEPT", None)],
        ),
    ]
}

/// The same with a body.
fn taken_with_body() -> Vec<Taken> {
    let late = [
        (&b"x-remote-user"[..], &b"root"[..]),
        (b"host", b"other.example"),
        (b"content-length", b"50"),
        (b"x-late", b"1\r\nx-remote-user: root"),
    ];
    vec![
        (
            bodied("no length", &[], HIDDEN),
            &[
                ("REQUEST_METHOD", Some("POST")),
                (
                    "body",
                    Some("GET /proxy/plain/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
                ),
            ],
        ),
        (
            bodied("right length", &[(b"content-length", b"4")], b"body"),
            &[("body", Some("body"))],
        ),
        (
            bodied(
                "names that only look like it",
                &[
                    (b"x-alike", b"it is wished"),
                    (b"content_length", b"2"),
                    (b"transfer_encoding", b"chunked"),
                ],
                b"body",
            ),
            &[("body", Some("body"))],
        ),
        (
            bodied("te", &[(b"te", b"trailers")], b"body"),
            &[("body", Some("body"))],
        ),
        (
            bodied("empty body", &[], b""),
            &[("body", Some("")), ("REQUEST_METHOD", Some("POST"))],
        ),
        (
            Case {
                trailers: late.to_vec(),
                ..bodied("trailers", &[], b"body")
            },
            &[("body", Some("body")), ("HTTP_HOST", Some("site.example"))],
        ),
        (
            bodied("method of one's own", &[(b"x-kept", b"1")], b"body"),
            &[("HTTP_X_KEPT", Some("1"))],
        ),
    ]
}

#[test]
fn every_receiver_sees_the_same_of_a_request_of_http3() {
    let site = Site::start();
    let mut failures = Vec::new();
    run(async {
        let raw = Raw::connect(site.server.port()).await;
        for (number, (case, expected)) in taken().into_iter().chain(taken_with_body()).enumerate() {
            for (receiver, way) in site.places() {
                // A page of its own, which the cache has not.
                let place = format!("/{receiver}/{way}/{number}");
                let outcome = case.send(&raw, &place, way).await;
                let Outcome::Answered(answer) = &outcome else {
                    failures.push(format!("{} at {place}: {outcome:?}", case.name));
                    continue;
                };
                let seen: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                if answer.status() != 200 || !seen.is_object() {
                    failures.push(format!("{} at {place}: {answer:?}", case.name));
                    continue;
                }
                let user = (way == "guarded").then_some("anna");
                let target = seen["REQUEST_URI"].as_str().unwrap_or_default();
                let is_there = target == place || target.starts_with(&format!("{place}?"));
                if !is_there || seen["HTTP_X_REMOTE_USER"].as_str() != user {
                    failures.push(format!("{} at {place}: {seen}", case.name));
                }
                for (name, value) in expected {
                    // An upstream server does not receive it.
                    let is_told = *name != "REQUEST_SCHEME" || receiver != "proxy";
                    if is_told && seen[*name].as_str() != *value {
                        failures.push(format!(
                            "{} at {place}: {name} is not {value:?} in {seen}",
                            case.name
                        ));
                    }
                }
                assert!(
                    !seen.to_string().contains("root"),
                    "{} at {place}: {seen}",
                    case.name
                );
            }
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A page that is kept for one host, user or method is served for no other, however the request is written.
#[test]
fn a_kept_page_is_for_requests_like_the_one_it_was_made_for() {
    let site = Site::start();
    run(async {
        let raw = Raw::connect(site.server.port()).await;
        let ask = async |authority: &'static [u8], more: &[Field<'static>]| {
            let case = Case {
                fields: more.to_vec(),
                ..begun("", &[METHOD, SCHEME, (b":authority", authority), PATH])
            };
            match case.send(&raw, "/proxy/cached/page", "cached").await {
                Outcome::Answered(answer) => {
                    let seen: Value = serde_json::from_slice(&answer.body).unwrap();
                    (
                        answer.fields["cache-status"].clone(),
                        seen["HTTP_HOST"].clone(),
                    )
                }
                other => panic!("{other:?}"),
            }
        };
        let (status, host) = ask(b"site.example", &[]).await;
        assert!(
            status.contains("stored") && host == "site.example",
            "{status}"
        );
        let (status, _) = ask(b"site.example", &[]).await;
        assert!(status.contains("hit"), "{status}");
        let (status, host) = ask(b"other.example", &[]).await;
        assert!(
            !status.contains("hit") && host == "other.example",
            "{status}"
        );
        // Fields that another server would take for the host.
        let others: [Field<'static>; 3] = [
            (b"x-forwarded-host", b"evil.example"),
            (b"forwarded", b"host=evil.example"),
            (b"x-original-url", b"/evil"),
        ];
        let (status, host) = ask(b"site.example", &others).await;
        assert!(
            !status.contains("hit") && host == "site.example",
            "{status}"
        );
        let (status, _) = ask(b"site.example", &[]).await;
        assert!(status.contains("hit"), "{status}");
    });
    // HTTP/1 gets what HTTP/3 has had made, and the other way round.
    let url = format!("https://127.0.0.1:{}/proxy/cached/page", site.server.port());
    let output = std::process::Command::new("curl")
        .args(["-sSki", "--http1.1", "-H", "Host: site.example", &url])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
    assert!(text.contains("cache-status: tutti; hit"), "{text}");
    assert_eq!(site.backend.requests.load(Ordering::SeqCst), 3);
}
