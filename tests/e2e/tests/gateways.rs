//! FastCGI, uwsgi and SCGI in front of Debian's PHP-FPM and uWSGI, and the PROXY protocol between HAProxy, us and nginx:
//! docs/proxy/fastcgi.md by example.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::fpm::Fpm;
use tutti_e2e::{PHP_INI, read_until, scripts, wait_for_health};
use tutti_sys::signal;
use tutti_testkit::client::Reply;
use tutti_testkit::files::copy;
use tutti_testkit::{
    Load, LoadOptions, PATIENCE, Server, ServerOptions, client, free_port, wait_until,
};

/// A program that ends with the test.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        let what = format!("{command:?} starts");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{what}: {error}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = signal::send(pid, libc::SIGTERM);
        }
        let _ = self.0.wait();
    }
}

/// A server with the PHP scripts and an FPM of so many children, asked for everything.
struct PhpSite {
    server: Server,
    fpm: Fpm,
}

impl PhpSite {
    fn start(children: u32, options: &Value) -> Self {
        let server = Server::start(&ServerOptions::default());
        copy(&scripts(), &server.folder().join("www"));
        let ini = PHP_INI.replace("post_max_size = 300K", "post_max_size = 32M");
        let ini = server.write("php.ini", ini);
        let site = Self {
            fpm: Fpm::start(&ini, children),
            server,
        };
        site.server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", site.server.port()): {"pass": "upstreams/fpm"}},
                "upstreams": {"fpm": site.upstream(options)},
                "settings": {"http": {"max_body_size": 33_554_432}},
            }),
        );
        site
    }

    fn upstream(&self, options: &Value) -> Value {
        let mut upstream = json!({
            "servers": {format!("unix:{}", self.fpm.socket().display()): {}},
            "fastcgi": {"root": self.server.folder().join("www")},
        });
        tutti_testkit::set_members(&mut upstream, options);
        upstream
    }
}

fn send(address: SocketAddr, line: &str, fields: &str, body: &[u8]) -> Reply {
    let mut bytes =
        format!("{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    client::request(address, &bytes).unwrap()
}

#[test]
fn few_children_serve_many_connections_and_starve_none() {
    for options in [json!({}), json!({"keepalive": 0})] {
        let site = PhpSite::start(2, &options);
        let load = Load::start(&LoadOptions {
            answer_within: PATIENCE,
            expect: |body| body == b"hello\n",
            ..LoadOptions::get(site.server.address(), "/hello.php", 48)
        });
        assert!(load.wait_for_answers(3_000, PATIENCE), "{}", load.stop());
        let outcome = load.stop();
        assert_eq!(outcome.failures(), 0, "{outcome}");
    }
}

/// Each keeps connections, and with them children, that the other one waits for: under load, and when it has none.
#[test]
fn two_servers_share_the_children_of_one_fpm() {
    let options = json!({"keepalive_timeout": 600});
    let site = PhpSite::start(2, &options);
    let beside = Server::start(&ServerOptions::default());
    beside.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", beside.port()): {"pass": "upstreams/fpm"}},
            "upstreams": {"fpm": site.upstream(&options)},
        }),
    );
    let [one, other] = [&site.server, &beside].map(|server| {
        Load::start(&LoadOptions {
            answer_within: PATIENCE,
            expect: |body| body == b"hello\n",
            ..LoadOptions::get(server.address(), "/hello.php", 24)
        })
    });
    assert!(one.wait_for_answers(1_000, PATIENCE), "{}", one.stop());
    assert!(other.wait_for_answers(1_000, PATIENCE), "{}", other.stop());
    let outcome = one.stop();
    assert_eq!(outcome.failures(), 0, "{outcome}");
    assert!(other.wait_for_answers(500, PATIENCE), "{}", other.stop());
    let outcome = other.stop();
    assert_eq!(outcome.failures(), 0, "{outcome}");
}

#[test]
fn fpm_replaced_under_load_loses_nothing() {
    let site = PhpSite::start(4, &json!({}));
    let load = Load::start(&LoadOptions {
        answer_within: PATIENCE,
        expect: |body| body == b"hello\n",
        ..LoadOptions::get(site.server.address(), "/hello.php", 8)
    });
    for _ in 0..3 {
        assert!(load.wait_for_answers(300, PATIENCE), "{}", load.stop());
        site.fpm.reload();
    }
    assert!(load.wait_for_answers(600, PATIENCE), "{}", load.stop());
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome}");
}

#[test]
fn an_fpm_that_is_not_there_is_logged_and_used_when_it_is() {
    let mut site = PhpSite::start(1, &json!({}));
    assert_eq!(site.server.get("/hello.php").status, 200);
    site.fpm.end();
    assert_eq!(site.server.get("/hello.php").status, 502);
    site.server.wait_for_log("upstream \"fpm\": server unix:");
    site.fpm.restart();
    assert_eq!(site.server.get("/hello.php").text(), "hello\n");
}

#[test]
fn large_bodies_go_both_ways() {
    let site = PhpSite::start(2, &json!({}));
    let address = site.server.address();
    let large: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    let fields = "Content-Type: application/octet-stream\r\n";
    let whole = format!("{fields}Content-Length: {}\r\n", large.len());
    let sent = send(address, "POST /body.php", &whole, &large).json();
    assert_eq!(sent["length"], large.len());
    let chunked = client::chunked(&large, 1_000_003);
    let fields = format!("{fields}Transfer-Encoding: chunked\r\n");
    let again = send(address, "POST /body.php", &fields, &chunked).json();
    assert_eq!(again, sent, "a body without a length is the same");
    let large = send(address, "GET /large.php?kilobytes=30000", "", b"");
    assert_eq!(large.body.len(), 30_000 * 1024);
}

#[test]
fn an_unbuffered_body_reaches_its_script_while_it_comes() {
    const PIECE: usize = 8192;
    let site = PhpSite::start(1, &json!({"request_buffering": false}));
    // Unless told so PHP reads a body before it runs the script.
    site.server.put(
        "/config/upstreams/fpm/fastcgi/params",
        &json!({"PHP_VALUE": "enable_post_data_reading=0"}),
    );
    let script = include_str!("../../conformance/contract/app.php");
    let script = script.replace("'/body' =>", "'/echo.php' =>");
    fs::write(site.server.folder().join("www/echo.php"), script).unwrap();
    let mut client = TcpStream::connect(site.server.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let fields = "Host: test\r\nConnection: close\r\nContent-Type: text/plain";
    let length = 3 * PIECE;
    write!(
        client,
        "POST /echo.php HTTP/1.1\r\n{fields}\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
    let mut back = String::new();
    for letter in ["a", "b", "c"] {
        let line = format!("{}\n", letter.repeat(PIECE - 1));
        client.write_all(line.as_bytes()).unwrap();
        // It comes back while the rest of the request is not even there.
        back += &read_until(&mut client, &format!("{letter}\n"));
    }
    client.read_to_string(&mut back).unwrap();
    assert!(back.starts_with("HTTP/1.1 200 "), "{back}");
    // A large one is whole, and one without a length is read first: FastCGI has no other way.
    let large: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let fields = format!("Content-Length: {}\r\n", large.len());
    let reply = send(site.server.address(), "POST /echo.php", &fields, &large);
    assert!(reply.body == large, "{}", reply.head);
    let chunked = b"5\r\nhello\r\n0\r\n\r\n";
    let fields = "Transfer-Encoding: chunked\r\n";
    let reply = send(site.server.address(), "POST /echo.php", fields, chunked);
    assert_eq!(reply.text(), "hello");
    // The one child is free again when a client goes in the middle of its body.
    let mut client = TcpStream::connect(site.server.address()).unwrap();
    let head = "POST /echo.php HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&[b'x'; 2 * PIECE]).unwrap();
    client.read_exact(&mut [0; 100]).unwrap();
    drop(client);
    assert_eq!(site.server.get("/hello.php").text(), "hello\n");
}

#[test]
fn what_scripts_say_of_their_errors_is_in_our_log() {
    let site = PhpSite::start(1, &json!({}));
    assert_eq!(site.server.get("/log.php").text(), "logged");
    site.server
        .wait_for_log("upstream \"fpm\" wrote to stderr: PHP message: a line of the script's own");
}

#[test]
fn only_scripts_are_run() {
    let site = PhpSite::start(1, &json!({}));
    let www = site.server.folder().join("www");
    fs::write(www.join("upload.jpg"), "<?php echo 'run';").unwrap();
    for (target, status) in [
        ("/hello.php", 200),
        ("/hello.php/info", 200),
        ("/upload.jpg", 403),
        ("/upload.jpg/x.php", 404),
        ("/none.php", 404),
        ("/folder", 301),
        ("/../../etc/passwd", 400),
        ("/%2e%2e/%2e%2e/etc/passwd", 400),
    ] {
        let reply = site.server.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert!(!reply.text().contains("run"), "{target}");
    }
}

#[test]
fn a_client_that_leaves_takes_its_request_with_it() {
    let site = PhpSite::start(1, &json!({}));
    let mut client = TcpStream::connect(site.server.address()).unwrap();
    client
        .write_all(b"GET /large.php?kilobytes=300000 HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    client.read_exact(&mut [0; 4096]).unwrap();
    drop(client);
    // The one child is free again.
    assert_eq!(site.server.get("/hello.php").text(), "hello\n");
}

const WSGI: &str = r#"
import json
def application(environ, start_response):
    body = environ["wsgi.input"].read()
    told = {k: v for k, v in environ.items() if isinstance(v, str)}
    told["length"] = len(body)
    if environ["PATH_INFO"] == "/large":
        start_response("200 OK", [("Content-Type", "application/octet-stream")])
        return [b"x" * 65536 for _ in range(160)]
    if environ["PATH_INFO"] == "/teapot":
        start_response("418 I'm a teapot", [("Content-Length", "3"), ("X-Twice", "1"), ("X-Twice", "2")])
        return [b"tea"]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(told).encode()]
"#;

/// uWSGI with one application on three sockets: uwsgi, SCGI, FastCGI.
fn uwsgi(folder: &Path) -> (Program, [u16; 3]) {
    let ports = [free_port(), free_port(), free_port()];
    let script = folder.join("app.py");
    fs::write(&script, WSGI).unwrap();
    let address = |port: u16| format!("127.0.0.1:{port}");
    let program = Program::start(
        Command::new("uwsgi")
            .args(["--plugin", "python3", "--master", "--processes", "2"])
            .args([
                "--buffer-size",
                "32768",
                "--disable-logging",
                "--die-on-term",
            ])
            .args(["--socket", &address(ports[0])])
            .args(["--scgi-socket", &address(ports[1])])
            .args(["--fastcgi-socket", &address(ports[2])])
            .arg("--wsgi-file")
            .arg(&script)
            .stderr(Stdio::null()),
    );
    for port in ports {
        wait_until("uWSGI to listen", || {
            TcpStream::connect(address(port)).is_ok()
        });
    }
    (program, ports)
}

#[test]
fn health_checks_ask_fpm_for_its_ping_and_for_scripts() {
    let mut site = PhpSite::start(2, &json!({}));
    for (uri, status, why) in [
        ("/ping", json!(200), ""),
        ("/hello.php?a=b", json!([200, 204]), ""),
        ("/none.php", json!(200), "its answer is 404"),
    ] {
        let check = json!({"uri": uri, "status": status, "interval": 0.1});
        site.server.put(
            "/config/upstreams/fpm",
            &site.upstream(&json!({"health_check": check})),
        );
        let state = if why.is_empty() { "passing" } else { "failing" };
        wait_for_health(&site.server, "fpm", state, why);
    }
    let check = json!({"uri": "/ping", "interval": 0.1, "fails": 1, "passes": 1});
    site.server.put(
        "/config/upstreams/fpm",
        &site.upstream(&json!({"health_check": check})),
    );
    wait_for_health(&site.server, "fpm", "passing", "");
    site.fpm.end();
    let why = "cannot connect: No such file or directory (os error 2)";
    wait_for_health(&site.server, "fpm", "failing", why);
    site.fpm.restart();
    wait_for_health(&site.server, "fpm", "passing", why);
    assert_eq!(site.server.get("/hello.php").status, 200);
}

#[test]
fn health_checks_by_three_protocols() {
    let server = Server::start(&ServerOptions::default());
    let (_uwsgi, ports) = uwsgi(server.folder());
    let upstreams = ["uwsgi", "scgi", "fastcgi"].into_iter().zip(ports);
    let upstreams: serde_json::Map<_, _> = upstreams
        .flat_map(|(protocol, port)| {
            let one = |uri: &str, status: u16| {
                json!({
                    "servers": {format!("127.0.0.1:{port}"): {}},
                    protocol: {},
                    "health_check": {"uri": uri, "status": status, "interval": 0.1},
                })
            };
            [
                (format!("{protocol}-good"), one("/teapot", 418)),
                (format!("{protocol}-bad"), one("/teapot", 200)),
            ]
        })
        .collect();
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "upstreams/scgi-good"}},
            "upstreams": upstreams,
        }),
    );
    for protocol in ["uwsgi", "scgi", "fastcgi"] {
        wait_for_health(&server, &format!("{protocol}-good"), "passing", "");
        let bad = format!("{protocol}-bad");
        wait_for_health(&server, &bad, "failing", "its answer is 418");
    }
}

#[test]
fn one_application_by_three_protocols() {
    let server = Server::start(&ServerOptions::default());
    let (_uwsgi, ports) = uwsgi(server.folder());
    let hash = std::process::Command::new("openssl")
        .args(["passwd", "-6", "word"])
        .output()
        .unwrap();
    let hash = String::from_utf8(hash.stdout).unwrap();
    let users = json!({"basic": {"users": {"anna": hash.trim()}}});
    for (scheme, port) in ["uwsgi", "scgi", "fastcgi"].into_iter().zip(ports) {
        let action = json!({
            "proxy": format!("{scheme}://127.0.0.1:{port}"),
            scheme: {"params": {"DEPLOYMENT": "blue $method", "HTTP_SECRET": null}},
        });
        let mut guarded = action.clone();
        guarded["authenticate"] = users.clone();
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
                "routes": [{"match": {"uri": "/a b/*"}, "action": guarded}, {"action": action}],
            }),
        );
        let address = server.address();
        let fields = "Secret: 1\r\nProxy: evil\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 5\r\nAuthorization: Basic YW5uYTp3b3Jk\r\n";
        let reply = send(address, "POST /a%20b/c?d=%65", fields, b"hello");
        assert_eq!(
            reply.status,
            200,
            "{scheme}: {}\n{}",
            reply.text(),
            server.log()
        );
        let told = reply.json();
        for (name, expected) in [
            ("REQUEST_METHOD", "POST"),
            ("PATH_INFO", "/a b/c"),
            ("SCRIPT_NAME", ""),
            ("REQUEST_URI", "/a%20b/c?d=%65"),
            ("QUERY_STRING", "d=%65"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REMOTE_USER", "anna"),
            ("HTTP_HOST", "test"),
            ("HTTP_X_A", "1, 2"),
            ("CONTENT_LENGTH", "5"),
            ("DEPLOYMENT", "blue POST"),
        ] {
            assert_eq!(told[name], expected, "{scheme}: {name}");
        }
        assert_eq!(told["length"], 5, "{scheme}");
        assert_eq!(told["HTTP_PROXY"], Value::Null, "{scheme}");
        assert_eq!(told["HTTP_SECRET"], Value::Null, "{scheme}");
        let teapot = send(address, "GET /teapot", "", b"");
        assert_eq!(
            (teapot.status, teapot.text()),
            (418, "tea".to_owned()),
            "{scheme}"
        );
        assert_eq!(teapot.head.matches("X-Twice").count(), 2, "{scheme}");
        let large = send(address, "GET /large", "", b"");
        assert_eq!(large.body.len(), 160 * 65536, "{scheme}");
        let head = send(address, "HEAD /teapot", "", b"");
        assert_eq!((head.status, head.body.len()), (418, 0), "{scheme}");
    }
}

/// A server that answers with the client's address, and believes proxies on this machine.
fn announced(header_read_timeout: u32) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {
                "pass": "routes", "proxy_protocol": {"source": ["127.0.0.0/8"]}}},
            "routes": [{"action": {"return": 200, "response_headers": {"X-Client": "$remote_addr"}}}],
            "settings": {"http": {"header_read_timeout": header_read_timeout}},
        }),
    );
    server
}

#[test]
fn a_proxy_passes_on_its_clients_address() {
    let server = announced(60);
    let binary =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x09\x7f\x00\x00\x01\x12\x34\x00\x50";
    for (header, client) in [
        (
            &b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n"[..],
            "192.0.2.7",
        ),
        (b"PROXY TCP6 2001:db8::7 ::1 5000 80\r\n", "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (binary, "192.0.2.9"),
        (b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00", "127.0.0.1"),
    ] {
        let request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        let bytes = [header, request].concat();
        let reply = client::request(server.address(), &bytes).unwrap();
        assert_eq!(
            reply.field("X-Client"),
            Some(client),
            "{}",
            header.escape_ascii()
        );
        // In pieces it is the same.
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        for piece in bytes.chunks(9) {
            stream.write_all(piece).unwrap();
            std::thread::yield_now();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.contains(&format!("X-Client: {client}\r\n")),
            "{answer}"
        );
    }
}

#[test]
fn a_connection_without_its_header_is_closed_and_logged() {
    for (bytes, time, told) in [
        (
            &b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"[..],
            60,
            "it does not begin with a PROXY header",
        ),
        (
            b"PROXY TCP4 nonsense\r\n",
            60,
            "its PROXY header is malformed",
        ),
        (
            b"PROXY TCP4 192.0.2.7",
            2,
            "its PROXY header did not arrive in time",
        ),
    ] {
        // Such lines are logged once a second.
        let server = announced(time);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{}", answer.escape_ascii());
        server.wait_for_log(told);
    }
}

#[test]
fn haproxy_in_front_of_us() {
    let server = announced(60);
    let ports = [free_port(), free_port()];
    let mut configuration =
        "global\n  log stderr local0\ndefaults\n  mode http\n  timeout connect 20s\n  timeout client 20s\n  timeout server 20s\n"
            .to_owned();
    for (port, option) in ports.iter().zip(["send-proxy", "send-proxy-v2"]) {
        configuration.push_str(&format!(
            "listen l{port}\n  bind 127.0.0.1:{port}\n  server tutti {} {option} source 127.0.0.1\n",
            server.address()
        ));
    }
    let path = server.write("haproxy.cfg", configuration);
    let _haproxy = Program::start(Command::new("haproxy").arg("-db").arg("-f").arg(path));
    for port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("HAProxy to answer", || {
            client::get(address, "/").is_ok_and(|reply| reply.status == 200)
        });
        // Another address of this machine, so that it is seen that HAProxy's own is not taken.
        let reply = Command::new("curl")
            .args([
                "-sS",
                "--interface",
                "127.0.0.9",
                "-D",
                "-",
                "-o",
                "/dev/null",
            ])
            .arg(format!("http://{address}/"))
            .output()
            .unwrap();
        // HAProxy writes names in lower case.
        let head = String::from_utf8_lossy(&reply.stdout).into_owned();
        assert!(head.contains("x-client: 127.0.0.9\r\n"), "{head}");
    }
}

#[test]
fn nginx_behind_us_gets_the_address() {
    let server = Server::start(&ServerOptions::default());
    let port = free_port();
    let folder = server.folder().display().to_string();
    let path = server.write(
        "nginx.conf",
        format!(
            "daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\nevents {{}}\n\
             http {{ access_log off; client_body_temp_path {folder}/n1; proxy_temp_path {folder}/n2; fastcgi_temp_path {folder}/n3;\n\
             uwsgi_temp_path {folder}/n4; scgi_temp_path {folder}/n5;\n\
             server {{ listen 127.0.0.1:{port} proxy_protocol;\n\
             location / {{ return 200 \"$proxy_protocol_addr $proxy_protocol_port\\n\"; }} }} }}\n"
        ),
    );
    let _nginx = Program::start(
        Command::new("/usr/sbin/nginx")
            .args(["-p", &folder, "-e", &format!("{folder}/nginx.log"), "-c"])
            .arg(path),
    );
    wait_until("nginx to listen", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    for version in ["v1", "v2"] {
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
                "routes": [{"action": {
                    "proxy": format!("http://127.0.0.1:{port}"),
                    "proxy_options": {"proxy_protocol": version},
                }}],
            }),
        );
        // Each client is logged as itself, however many there were before.
        for _ in 0..3 {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let own = stream.local_addr().unwrap().port();
            stream
                .write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let told = format!("127.0.0.1 {own}\n");
            assert!(answer.ends_with(&told), "{version}: {answer}");
        }
    }
}

#[test]
fn every_example_of_the_guide_applies_and_serves() {
    let site = PhpSite::start(2, &json!({}));
    let (_uwsgi, [uwsgi, scgi, _]) = uwsgi(site.server.folder());
    let www = site.server.folder().join("www");
    fs::create_dir(www.join("old")).unwrap();
    for name in ["index.php", "old/old.php"] {
        fs::write(www.join(name), "<?php echo 'from FPM';").unwrap();
    }
    let guide = include_str!("../../../docs/proxy/fastcgi.md");
    let examples: Vec<&str> = guide
        .split("```json\n")
        .skip(1)
        .map(|part| part.split("```").next().unwrap())
        .collect();
    let expected = [
        ("", "/hello.php", 200, "hello"),
        ("", "/whatever", 200, "from FPM"),
        ("", "/old/old.php", 200, "from FPM"),
        ("", "/x", 200, "\"SITE\": \"blue\""),
        ("PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n", "/", 204, ""),
        ("", "/", 502, ""),
    ];
    assert_eq!(examples.len(), expected.len());
    for (example, (header, target, status, part)) in examples.into_iter().zip(expected) {
        let mut text = example.to_owned();
        for (written, here) in [
            ("*:8080", format!("127.0.0.1:{}", site.server.port())),
            ("/srv/site", www.display().to_string()),
            ("/run/php/fpm.sock", site.fpm.socket().display().to_string()),
            // No server listens there: the other one is asked.
            ("10.0.0.7:9000", "127.0.0.1:1".to_owned()),
            ("127.0.0.1:4000", format!("127.0.0.1:{scgi}")),
            ("127.0.0.1:3031", format!("127.0.0.1:{uwsgi}")),
            ("127.0.0.1:8081", format!("127.0.0.1:{}", free_port())),
        ] {
            text = text.replace(written, &here);
        }
        site.server
            .put("/config", &serde_json::from_str(&text).unwrap());
        let request =
            format!("{header}GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let reply = client::request(site.server.address(), request.as_bytes()).unwrap();
        assert_eq!(reply.status, status, "{example}\n{}", site.server.log());
        assert!(reply.text().contains(part), "{example}\n{}", reply.text());
    }
}

/// A server that answers without a length, and ends the connection.
fn without_length() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let body = match request.starts_with(b"GET") {
                true => vec![b'x'; 100],
                false => Vec::new(),
            };
            // The client may have gone.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(&body);
        }
    });
    address
}

/// Issue 10: HEAD had `Content-Length: 0`. The length that GET would have, or none (RFC 9110 §8.6).
#[test]
fn head_has_the_length_of_get_or_none() {
    let server = Server::start(&ServerOptions::default());
    server.write("site/index.php", "<?php echo str_repeat('x', 100);\n");
    let fpm = Fpm::is_installed().then(|| Fpm::start(&server.write("php.ini", ""), 1));
    let mut actions = vec![json!({"proxy": format!("http://{}", without_length())})];
    if let Some(fpm) = &fpm {
        actions.push(json!({
            "proxy": format!("fastcgi://unix:{}", fpm.socket().display()),
            "fastcgi": {"root": server.folder().join("site"), "script": "index.php"}
        }));
    }
    for action in actions {
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
                "routes": [{"action": action}],
            }),
        );
        let get = server.get("/");
        assert_eq!((get.status, get.body.len()), (200, 100), "{action}");
        let request = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let head = client::request(server.address(), request).unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0), "{action}");
        assert!(
            matches!(head.field("Content-Length"), None | Some("100")),
            "{}",
            head.head
        );
    }
}
