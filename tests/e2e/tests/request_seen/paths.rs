//! The path that was checked is the path that is served (issue 28, 1.4): one table of targets, `tests/conformance/seen/paths.txt`, and everything
//! that gets a path.

use std::fmt::Write as _;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tutti_e2e::external::build;
use tutti_e2e::{java, wasm};
use tutti_testkit::files::copy;
use tutti_testkit::{PATIENCE, Reply, Server, ServerOptions, client, free_port, wait_until};

/// A target, and what every receiver makes of it; `None`: 400.
struct Row {
    sent: &'static str,
    seen: Option<Seen>,
}

/// The path decoded, and encoded with its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    path: &'static str,
    target: &'static str,
}

impl Seen {
    fn encoded_path(&self) -> &'static str {
        self.target.split('?').next().unwrap()
    }

    /// True if Java's server takes it: that refuses encoded slashes and percent signs itself, and this server parameters but for the session's.
    fn is_for_java(&self) -> bool {
        let path = self.encoded_path().to_ascii_lowercase();
        let is_refused = ["%2f", "%25"].iter().any(|escape| path.contains(escape));
        let is_session = path
            .split_once(';')
            .is_none_or(|(_, rest)| rest.starts_with("jsessionid=") && !rest.contains([';', '/']));
        !is_refused && is_session
    }
}

fn table() -> Vec<Row> {
    let text = include_str!("../../../conformance/seen/paths.txt");
    let rows = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let columns: Vec<&str> = line.split('\t').collect();
        let seen = |path: &'static str, target: &'static str| Seen {
            path: if path == "=" { columns[0] } else { path },
            target: if target == "=" { columns[0] } else { target },
        };
        match *columns.as_slice() {
            [sent, "400"] => Row { sent, seen: None },
            [sent, path, target] => Row {
                sent,
                seen: Some(seen(path, target)),
            },
            _ => panic!("{line}"),
        }
    };
    rows.map(row).collect()
}

/// Text as an interface has it that makes a character of each byte.
fn latin1(text: &str) -> String {
    text.bytes().map(char::from).collect()
}

/// A program of ours that ends with the test.
struct Program(Child);

impl Program {
    fn start(command: &mut Command, port: u16) -> Self {
        let child = command
            .env("HOST", "127.0.0.1")
            .env("PORT", port.to_string());
        let child = child.stdout(Stdio::null()).spawn().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("a server that listens", || {
            std::net::TcpStream::connect(address).is_ok()
        });
        Self(child)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of a gateway that notes the first bytes of each connection, and closes.
struct Noting {
    address: SocketAddr,
    noted: Receiver<Vec<u8>>,
}

impl Noting {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (note, noted) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut bytes = vec![0; 65_536];
                let mut stream = stream.unwrap();
                let count = stream.read(&mut bytes).unwrap_or(0);
                bytes.truncate(count);
                if note.send(bytes).is_err() {
                    return;
                }
            }
        });
        Self { address, noted }
    }
}

/// A variable as FastCGI, uwsgi or SCGI writes it.
fn variable(gateway: &str, name: &str, value: &str) -> Vec<u8> {
    let (name_length, value_length) = (name.len() as u8, value.len() as u8);
    match gateway {
        "fastcgi" => [
            &[name_length, value_length],
            name.as_bytes(),
            value.as_bytes(),
        ]
        .concat(),
        "uwsgi" => [
            &[name_length, 0],
            name.as_bytes(),
            &[value_length, 0],
            value.as_bytes(),
        ]
        .concat(),
        _ => [b"\0", name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat(),
    }
}

const GATEWAYS: [&str; 3] = ["fastcgi", "uwsgi", "scgi"];

/// Those that tell what they see as JSON.
const APPLICATIONS: [&str; 13] = [
    "php", "wsgi", "asgi", "perl", "ruby", "go", "node", "http", "java", "http1", "http2", "auth",
    "cache",
];

fn applications(server: &Server, root: &Path) -> Value {
    let python = |callable: &str| json!({"type": "python", "path": root, "module": "seen", "callable": callable});
    json!({
        "php": {"type": "php", "root": root, "script": "index.php"},
        "wsgi": python("wsgi"),
        "asgi": python("asgi"),
        "perl": {"type": "perl", "script": root.join("seen.psgi")},
        "ruby": {"type": "ruby", "script": root.join("seen.ru")},
        "go": {"type": "external", "executable": server.folder().join("go-seen")},
        "node": {"type": "node", "working_directory": root, "script": "seen.js"},
        "http": {"type": "external", "protocol": "http", "executable": "/usr/bin/python3", "arguments": [root.join("seen.py")]},
    })
}

struct Site {
    server: Server,
    gateways: Vec<Noting>,
    _programs: [Program; 2],
}

impl Site {
    /// Starts it; `all`: also with the applications that take seconds to start.
    fn start(settings: &Value, all: bool) -> Self {
        // Sees that the jars are there before a server links its modules.
        let jars = all.then(|| java::application("jakarta"));
        let server = Server::start(&ServerOptions::default());
        let root = server.folder().join("seen");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/seen");
        copy(&source, &root);
        build(
            "tests/conformance/seen/go",
            &server.folder().join("go-seen"),
        );
        let mut applications = applications(&server, &root);
        if jars.is_some() {
            let webapp = server.folder().join("webapp");
            java::compile_to(
                &webapp.join("WEB-INF/classes"),
                &java::class_path("ee10"),
                &[source.join("Seen.java")],
            );
            let component = std::fs::read(wasm::rust()).unwrap();
            let component = server.write("seen.wasm", component);
            applications["java"] = json!({"type": "java", "webapp": webapp});
            applications["wasm"] = json!({"type": "wasm-wasi-component", "component": component});
        }
        let (http1, http2) = (free_port(), free_port());
        let programs = [
            Program::start(Command::new("python3").arg(root.join("seen.py")), http1),
            Program::start(Command::new("node").arg(root.join("http2.js")), http2),
        ];
        let gateways: Vec<Noting> = GATEWAYS.iter().map(|_| Noting::start()).collect();
        let mut routes = vec![
            json!({"match": {"headers": {"app": "rules"}}, "action": {"return": 200, "response_headers": {"X-Path": "$uri", "X-Target": "$request_uri"}}}),
            json!({"match": {"headers": {"app": "files"}}, "action": {"share": format!("{}$uri/seen.txt", server.folder().join("www").display())}}),
            json!({"match": {"headers": {"app": "auth"}}, "action": {"pass": "applications/http", "authenticate": {"forward": {"pass": "routes/door", "uri": "/door", "copy": ["X-Asked", "X-Raw"]}}}}),
            json!({"match": {"headers": {"app": "cache"}}, "action": {"pass": "applications/wsgi", "cache": {"store": "pages", "key": "`${host}${uri}?${vars.request_uri.split('?')[1]}`", "valid": 600}}}),
            json!({"match": {"headers": {"app": "http1"}}, "action": {"proxy": format!("http://127.0.0.1:{http1}")}}),
            json!({"match": {"headers": {"app": "http2"}}, "action": {"proxy": format!("http://127.0.0.1:{http2}"), "proxy_options": {"http_version": 2}}}),
        ];
        for (gateway, noting) in GATEWAYS.iter().zip(&gateways) {
            routes.push(json!({"match": {"headers": {"app": gateway}}, "action": {"proxy": format!("{gateway}://{}", noting.address), "proxy_options": {"retries": 0}}}));
        }
        routes.push(json!({"action": {"pass": "applications/$header_app"}}));
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes/main"}},
                "settings": {"http": settings, "cache": {"pages": {}}},
                "routes": {
                    "main": routes,
                    "door": [{"action": {"return": 204, "response_headers": {"X-Asked": "$header_x_forwarded_uri", "X-Raw": "$header_x_forwarded_raw_uri"}}}],
                },
                "applications": applications,
            }),
        );
        Self {
            server,
            gateways,
            _programs: programs,
        }
    }

    /// A file for each path of the table.
    fn write_files(&self, rows: &[Row]) {
        let www = self.server.folder().join("www");
        for seen in rows.iter().filter_map(|row| row.seen) {
            let name = seen.path.trim_matches('/');
            let folder = www.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("seen.txt"), name).unwrap();
        }
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&www, mode).unwrap();
    }

    fn ask(&self, receiver: &str, target: &str) -> Reply {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: t\r\nApp: {receiver}\r\nConnection: close\r\n\r\n"
        );
        client::request(self.server.address(), request.as_bytes()).unwrap()
    }

    /// The path and the target that a receiver says it has been given, where it has them.
    fn seen(&self, receiver: &str, target: &str) -> (Option<String>, Option<String>) {
        let reply = self.ask(receiver, target);
        let told = format!("{receiver} {target}: {} {}", reply.status, reply.text());
        if reply.status != 200 {
            return (Some(told), None);
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let field = |name: &str| reply.field(name).map(str::to_owned);
        match receiver {
            "rules" => (field("x-path"), field("x-target")),
            "files" => (Some(reply.text()), None),
            "wasm" => {
                let text = reply.text();
                let line = text.lines().find_map(|line| line.strip_prefix("target "));
                (None, Some(line.unwrap_or_default().to_owned()))
            }
            "auth" => {
                let fields = &reply.json()["fields"];
                (text(&fields["x-raw"]), text(&fields["x-asked"]))
            }
            "php" => (None, text(&reply.json()["uri"])),
            _ => {
                let seen = reply.json();
                (text(&seen["path"]), text(&seen["uri"]))
            }
        }
    }
}

/// The target that an authorization service is asked about: the checked path, in its one spelling, and the query.
fn asked(seen: Seen) -> String {
    let mut text = String::new();
    for byte in seen.path.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
        match is_plain {
            true => text.push(char::from(byte)),
            false => write!(text, "%{byte:02X}").unwrap(),
        }
    }
    match seen.target.split_once('?') {
        Some((_, query)) => format!("{text}?{query}"),
        None => text,
    }
}

/// The path and the target that this receiver is to have; nothing where it has no such thing.
fn expected(receiver: &str, row: &Row, seen: Seen) -> (Option<String>, Option<String>) {
    let (path, target) = (seen.path.to_owned(), seen.target.to_owned());
    match receiver {
        "rules" | "asgi" | "go" | "java" => (Some(path), Some(target)),
        "files" => (Some(path.trim_matches('/').to_owned()), None),
        "wsgi" | "perl" | "cache" => (Some(latin1(&path)), Some(target)),
        "ruby" => (Some(seen.encoded_path().to_owned()), Some(target)),
        // A front script has no path of its own.
        "php" => (None, Some(target)),
        // As sent, beside what was checked.
        "auth" => (Some(row.sent.to_owned()), Some(asked(seen))),
        _ => (None, Some(target)),
    }
}

/// Tells where one receiver makes something else of one target than the table has.
fn difference(site: &Site, receiver: &str, row: &Row) -> Option<String> {
    let status = || site.ask(receiver, row.sent).status;
    let wanted = row
        .seen
        .filter(|seen| receiver != "java" || seen.is_for_java());
    let Some(seen) = wanted else {
        return (status() != 400).then(|| format!("{receiver} {}: not 400", row.sent));
    };
    let found = site.seen(receiver, row.sent);
    let mut wanted = expected(receiver, row, seen);
    if receiver == "java" {
        // The servlet's own path is without the session.
        let session = seen.path.find(";jsessionid=").unwrap_or(seen.path.len());
        wanted.0 = Some(seen.path[..session].to_owned());
    }
    (found != wanted).then(|| format!("{receiver} {}: {found:?}, not {wanted:?}", row.sent))
}

/// The same of a gateway, whose bytes are looked at.
fn difference_of_gateway(site: &Site, index: usize, row: &Row) -> Option<String> {
    let (gateway, sent) = (GATEWAYS[index], row.sent);
    let status = site.ask(gateway, sent).status;
    let Some(seen) = row.seen else {
        return (status != 400).then(|| format!("{gateway} {sent}: {status}, not 400"));
    };
    let bytes = site.gateways[index].noted.recv_timeout(PATIENCE).unwrap();
    let variables = [("PATH_INFO", seen.path), ("REQUEST_URI", seen.target)];
    let missing = variables.iter().find(|(name, value)| {
        let variable = variable(gateway, name, value);
        !bytes.windows(variable.len()).any(|part| part == variable)
    });
    missing.map(|missing| {
        format!(
            "{gateway} {sent}: no {missing:?} in {}",
            bytes.escape_ascii()
        )
    })
}

#[test]
fn every_receiver_gets_the_path_that_was_checked() {
    let rows = table();
    let site = Site::start(&json!({}), true);
    site.write_files(&rows);
    let mut differences = Vec::new();
    for row in &rows {
        for receiver in ["rules", "files", "wasm"].into_iter().chain(APPLICATIONS) {
            differences.extend(difference(&site, receiver, row));
        }
        for index in 0..GATEWAYS.len() {
            differences.extend(difference_of_gateway(&site, index, row));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Other rules of an administrator hold for all receivers, too.
#[test]
fn other_paths_are_accepted_where_that_is_configured() {
    let settings = json!({"merge_slashes": false, "encoded_slashes": "any", "backslashes": true});
    let site = Site::start(&settings, false);
    for (sent, path, target) in [
        ("/web/http://a/./b", "/web/http://a/b", "/web/http://a/b"),
        (
            "/api/queues/%2F/name",
            "/api/queues///name",
            "/api/queues/%2F/name",
        ),
        ("/App%5CUser", "/App\\User", "/App%5CUser"),
        ("/a%2Fb", "/a/b", "/a%2Fb"),
    ] {
        let row = Row {
            sent,
            seen: Some(Seen { path, target }),
        };
        for receiver in ["rules", "wsgi", "go", "http", "http1", "auth"] {
            let wanted = expected(receiver, &row, row.seen.unwrap());
            assert_eq!(site.seen(receiver, sent), wanted, "{receiver} {sent}");
        }
    }
    for sent in ["/a/..%2fb", "/a/%2e%2e/b", "/a%2F%2F..%2Fb"] {
        assert_eq!(site.ask("rules", sent).status, 400, "{sent}");
    }
    site.server
        .put("/config/settings/http", &json!({"encoded_slashes": "none"}));
    assert_eq!(site.ask("rules", "/a%2Fb").status, 400);
    assert_eq!(site.ask("rules", "/a%20b").status, 200);
}
