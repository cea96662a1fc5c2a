//! The dashboard of a running server, as people and attackers meet it.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::documents::{examples, json_examples};
use tutti_e2e::node::packages_of;
use tutti_e2e::tls;
use tutti_sys::signal;
use tutti_testkit::client::{self, Client, Reply};
use tutti_testkit::{Server, ServerOptions, free_port, skip, wait_until};

const TOKEN: &str = "f3b0a1c2d4e5968778695a4b3c2d1e0f";

/// A server with a dashboard.
struct Fixture {
    server: Server,
    port: u16,
}

fn token_file(server: &Server, token: &str) -> PathBuf {
    let path = server.write("dashboard-token", token);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

impl Fixture {
    fn start() -> Fixture {
        let server = Server::start(&ServerOptions::default());
        let port = free_port();
        let token = token_file(&server, TOKEN);
        server.put(
            "/config",
            &json!({
                "listeners": {(server.address().to_string()): {"pass": "routes"}},
                "routes": [{"action": {"return": 204}}],
                "settings": {"dashboard": {"listen": format!("127.0.0.1:{port}"), "token_file": token}},
            }),
        );
        Fixture { server, port }
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The answer, once somebody listens.
    fn ask(&self, request: &str) -> Reply {
        let mut reply = None;
        wait_until("the dashboard answers", || {
            reply = client::request(self.address(), request.as_bytes()).ok();
            reply.is_some()
        });
        reply.unwrap()
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        ))
    }

    fn wait_for(&self, path: &str, text: &str) -> String {
        let mut page = String::new();
        wait_until(text, || {
            page = self.get(path).text();
            page.contains(text)
        });
        page
    }
}

fn refused(server: &Server, path: &str, value: &Value) -> String {
    let reply = server.call("PUT", path, value);
    assert_ne!(reply.status, 200, "{}", reply.text());
    reply.text()
}

#[test]
fn it_shows_the_server_only_to_clients_with_the_token() {
    let fixture = Fixture::start();
    let page = fixture.get("/");
    assert_eq!(page.status, 200);
    let policy = page.field("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(page.field(name), Some(value), "{name}");
    }
    let plain = |fields: &str| {
        fixture.ask(&format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n"
        ))
    };
    assert_eq!(plain("").status, 401);
    assert_eq!(plain("Accept: text/html\r\n").status, 303);
    assert_eq!(
        plain(&format!("Authorization: Bearer {TOKEN}x\r\n")).status,
        401
    );
    fixture.server.wait_for_log("sent a wrong token");
    assert!(!fixture.server.log().contains(TOKEN));
    let strange =
        fixture.ask("GET /login HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(strange.status, 403);
    let written = fixture.ask(&format!(
        "PUT /config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    ));
    assert_eq!(written.status, 405);
    assert!(
        !fixture
            .server
            .call("GET", "/config", &Value::Null)
            .text()
            .contains(TOKEN)
    );
}

#[test]
fn failed_requests_are_listed_without_their_queries() {
    let fixture = Fixture::start();
    let server = &fixture.server;
    let failing = json!([{"match": {"uri": "/fails"}, "action": {"return": 503}}, {"action": {"return": 404}}]);
    server.put("/config/routes", &failing);
    for path in ["/missing?n=1", "/fails?token=hunter2", "/missing?n=2"] {
        client::get(server.address(), path).unwrap();
    }
    let recent = server.status("/recent_requests");
    assert_eq!(
        recent["failed"].as_array().map(Vec::len),
        Some(1),
        "{recent}"
    );
    let failed = &recent["failed"][0];
    assert_eq!(failed["target"], "/fails", "{recent}");
    assert_eq!(failed["status"], 503, "{recent}");
    assert!(!recent.to_string().contains("hunter2"), "{recent}");
    let id = failed["request_id"].as_str().unwrap();
    let page = fixture.wait_for("/problems", id);
    assert!(page.contains("GET /fails") && !page.contains("hunter2"));
}

#[test]
fn what_other_machines_would_reach_unprotected_is_refused_with_the_cure() {
    let fixture = Fixture::start();
    let place = "/config/settings/dashboard";
    let token = fixture.server.folder().join("dashboard-token");
    let port = free_port();
    for (value, parts) in [
        (
            json!({"listen": format!("*:{port}"), "token_file": token}),
            [
                "reached from other machines",
                "ssh -L",
                "/settings/dashboard/listen",
            ],
        ),
        (
            json!({"listen": format!("127.0.0.1:{port}")}),
            [
                "needs a `token_file`",
                "openssl rand",
                "/settings/dashboard",
            ],
        ),
        (
            json!({"listen": "unix:/run/dashboard", "token_file": token}),
            [
                "cannot connect to a unix socket",
                "ADDRESS:PORT",
                "/settings/dashboard/listen",
            ],
        ),
        (
            json!({"listen": fixture.server.address().to_string(), "token_file": token}),
            ["is taken by the listener", "", "/settings/dashboard/listen"],
        ),
        (
            json!({"listen": format!("127.0.0.1:{port}"), "token_file": "/nowhere/token"}),
            [
                "create it with `(umask 077; openssl rand -hex 32 > /nowhere/token)`",
                "",
                "/settings/dashboard/token_file",
            ],
        ),
        (
            json!({"listen": format!("127.0.0.1:{port}"), "token_file": "token"}),
            [
                "does not begin with `/`",
                "",
                "/settings/dashboard/token_file",
            ],
        ),
        (
            json!({"listen": format!("192.0.2.1:{port}"), "token_file": token, "tls": {"certificate": "none"}}),
            ["none", "", "/settings/dashboard/tls/certificate"],
        ),
    ] {
        let told = refused(&fixture.server, place, &value);
        for part in parts {
            assert!(told.contains(part), "{part} in {told}");
        }
    }
    fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = refused(
        &fixture.server,
        place,
        &json!({"listen": address, "token_file": token}),
    );
    assert!(told.contains("is not secret"), "{told}");
    fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    let told = refused(
        &fixture.server,
        place,
        &json!({"listen": address, "token_file": token}),
    );
    assert!(
        told.contains("/settings/dashboard/listen") && told.contains("in use"),
        "{told}"
    );
    // All the while the one in force goes on, and shows what was refused last.
    let page = fixture.get("/configuration").text();
    assert!(
        page.contains("Refused change") && page.contains("in use"),
        "{page}"
    );
}

#[test]
fn it_moves_and_goes_with_the_configuration_and_a_failed_change_moves_nothing() {
    let fixture = Fixture::start();
    let place = "/config/settings/dashboard/listen";
    assert_eq!(fixture.get("/").status, 200);
    let next = free_port();
    fixture
        .server
        .put(place, &json!(format!("127.0.0.1:{next}")));
    let moved: SocketAddr = ([127, 0, 0, 1], next).into();
    wait_until("the old port is closed", || {
        client::raw(fixture.address(), b"").is_err()
    });
    let fixture = Fixture {
        port: next,
        ..fixture
    };
    assert_eq!(fixture.get("/").status, 200);
    // A change that fails after the new port is bound gives it back: an application that does not start.
    let third = free_port();
    let mut broken = fixture.server.call("GET", "/config", &Value::Null).json();
    broken["settings"]["dashboard"]["listen"] = json!(format!("127.0.0.1:{third}"));
    broken["applications"] =
        json!({"a": {"type": "external", "executable": "/nowhere/program", "processes": 1}});
    refused(&fixture.server, "/config", &broken);
    wait_until("the port is free again", || {
        std::net::TcpListener::bind(("127.0.0.1", third)).is_ok()
    });
    assert_eq!(fixture.get("/").status, 200);
    // The port of a listener becomes the dashboard's in two steps, not in one.
    let mut swapped = fixture.server.call("GET", "/config", &Value::Null).json();
    swapped["listeners"] = json!({});
    swapped["settings"]["dashboard"]["listen"] = json!(fixture.server.address().to_string());
    let told = refused(&fixture.server, "/config", &swapped);
    assert!(told.contains("move it first"), "{told}");
    let mut taken = fixture.server.call("GET", "/config", &Value::Null).json();
    taken["settings"] = json!({});
    taken["listeners"] = json!({(moved.to_string()): {"pass": "routes"}});
    let told = refused(&fixture.server, "/config", &taken);
    assert!(told.contains("the dashboard listens there"), "{told}");
    assert_eq!(fixture.get("/").status, 200);
    let gone = fixture
        .server
        .call("DELETE", "/config/settings/dashboard", &Value::Null);
    assert_eq!(gone.status, 200, "{}", gone.text());
    wait_until("it is closed", || {
        std::net::TcpListener::bind(moved).is_ok()
    });
}

#[test]
fn it_answers_while_the_router_does_not_and_says_so_and_stays_through_restarts() {
    let mut fixture = Fixture::start();
    let at = fixture.server.address();
    client::get(at, "/").unwrap();
    fixture.wait_for("/metrics", "tutti_requests_total");
    let router = fixture.server.router();
    signal::send(router, libc::SIGSTOP).unwrap();
    let page = fixture.wait_for("/", "The server does not answer");
    assert!(page.contains("The numbers are older"), "{page}");
    // Main takes a router that hangs for dead, sooner or later; either way there is one that answers.
    let _ = signal::send(router, libc::SIGCONT);
    wait_until("the router answers again", || {
        !fixture.get("/").text().contains("does not answer")
    });
    fixture.server.kill_router();
    wait_until("another router", || {
        client::get(at, "/").is_ok_and(|reply| reply.status == 204)
    });
    assert_eq!(fixture.get("/").status, 200);
    // Another controller has the same port.
    let controller = fixture.server.pids("tutti: controller")[0];
    signal::send(controller, libc::SIGKILL).unwrap();
    fixture.server.wait_for_log("controller process");
    assert_eq!(fixture.get("/").status, 200);
    fixture.server.upgrade();
    assert_eq!(fixture.get("/").status, 200);
    let state = fixture.server.folder().join("state");
    fixture.server.start_again(&ServerOptions {
        state: Some(state),
        ..ServerOptions::default()
    });
    assert_eq!(fixture.get("/").status, 200);
}

#[test]
fn a_new_token_in_the_file_counts_and_what_is_wrong_with_it_is_a_problem() {
    let fixture = Fixture::start();
    assert_eq!(fixture.get("/").status, 200);
    let file = token_file(&fixture.server, &TOKEN.repeat(2));
    wait_until("the old token counts no more", || {
        fixture.get("/").status == 401
    });
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    wait_until("the problem is shown", || {
        let problems = fixture.server.call("GET", "/status/problems", &Value::Null);
        problems.status == 200 && problems.text().contains("is not secret")
    });
    token_file(&fixture.server, TOKEN);
    wait_until("all is well", || fixture.get("/").status == 200);
}

#[test]
fn over_tls_clients_show_a_certificate_or_the_token_and_the_cookie_is_secure() {
    let server = Server::start(&ServerOptions::default());
    let trusted = tls::certificate(&server);
    let (port, token) = (free_port(), token_file(&server, TOKEN));
    let listen = format!("127.0.0.1:{port}");
    let curl = |arguments: &[&str]| {
        let mut output = String::new();
        wait_until("an answer", || {
            let url = format!("https://localhost:{port}/login");
            let done = Command::new("curl")
                .args(["-s", "-S", "-i", "--cacert"])
                .arg(&trusted)
                .args(arguments)
                .arg(url)
                .output()
                .unwrap();
            output =
                String::from_utf8(done.stdout).unwrap() + &String::from_utf8_lossy(&done.stderr);
            // 7: no server listens yet.
            done.status.code() != Some(7)
        });
        output
    };
    let dashboard = json!({"listen": listen, "token_file": token, "tls": {"certificate": "site"}});
    server.put("/config", &json!({"settings": {"dashboard": dashboard}}));
    let entered = curl(&["-H", "Host: dash.example", "-d", &format!("token={TOKEN}")]);
    assert!(entered.starts_with("HTTP/1.1 303"), "{entered}");
    assert!(
        entered.contains("Set-Cookie: __Host-tutti_dashboard=") && entered.contains("; Secure"),
        "{entered}"
    );
    let authority = Authority::new(server.folder());
    authority.issue("client", EC, "sub", "extendedKeyUsage=clientAuth");
    let put = |name: &str, text: String| {
        let path = format!("/certificates/{name}");
        client::control(server.control(), "PUT", &path, text.as_bytes()).unwrap()
    };
    assert_eq!(put("staff", authority.read("sub.pem")).status, 200);
    let dashboard = json!({"listen": listen, "tls": {"certificate": "site", "client_ca": "staff", "client_verify": "optional"}});
    let told = refused(&server, "/config/settings/dashboard", &dashboard);
    assert!(
        told.contains("requires a certificate of each client"),
        "{told}"
    );
    let dashboard = json!({"listen": listen, "tls": {"certificate": "site", "client_ca": "staff"}});
    server.put("/config/settings/dashboard", &dashboard);
    let nobody = curl(&[]);
    assert!(nobody.contains("alert certificate required"), "{nobody}");
    let (pem, key) = (authority.path("client.pem"), authority.path("client.key"));
    let shown = curl(&[
        "--cert",
        pem.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
        "-L",
    ]);
    assert!(shown.contains("<h1>Overview</h1>"), "{shown}");
    // A bundle that is in use stays.
    let reply = server.call("DELETE", "/certificates/staff", &Value::Null);
    assert_eq!(reply.status, 409, "{}", reply.text());
}

#[test]
fn connections_from_before_a_rule_about_certificates_are_not_served() {
    let server = Server::start(&ServerOptions::default());
    tls::certificate(&server);
    let authority = Authority::new(server.folder());
    authority.issue("client", EC, "sub", "extendedKeyUsage=clientAuth");
    let put = |text: &str| {
        let path = "/certificates/staff";
        let reply = client::control(server.control(), "PUT", path, text.as_bytes());
        assert_eq!(reply.unwrap().status, 200);
    };
    put(&authority.read("sub.pem"));
    let (port, token) = (free_port(), token_file(&server, TOKEN));
    let listen = format!("127.0.0.1:{port}");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let serve = |dashboard: &Value| {
        server.put("/config", &json!({"settings": {"dashboard": dashboard}}));
    };
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // Strangers, who have no token: one without TLS, one from before there were client certificates.
    serve(&json!({"listen": listen, "token_file": token}));
    wait_until("the dashboard listens", || {
        std::net::TcpStream::connect(address).is_ok()
    });
    let mut plain = Client::to(address);
    plain.send(request);
    assert_eq!(plain.response("GET").status, 401);
    let with_token = json!({"listen": listen, "token_file": token, "tls": {"certificate": "site"}});
    serve(&with_token);
    let mut stranger = OpenTls::to(&server, port, &[]);
    assert_eq!(stranger.ask(request), (401, true));
    // A change of something else.
    serve(&with_token);
    assert_eq!(stranger.ask(request), (401, true));
    let with_certificate =
        json!({"listen": listen, "tls": {"certificate": "site", "client_ca": "staff"}});
    serve(&with_certificate);
    plain.send(request);
    assert_eq!(plain.response("GET").status, 421);
    assert!(plain.is_closed());
    assert_eq!(stranger.ask(request), (421, false));
    assert!(stranger.is_closed());
    // A client whose authority is removed.
    let (pem, key) = (authority.path("client.pem"), authority.path("client.key"));
    let shown = [
        "-cert",
        pem.to_str().unwrap(),
        "-key",
        key.to_str().unwrap(),
    ];
    let mut member = OpenTls::to(&server, port, &shown);
    assert_eq!(member.ask(request), (200, true));
    put(&authority.read("ca.pem"));
    wait_until("the new authority counts", || {
        member.ask(request) == (421, false)
    });
    assert!(member.is_closed());
}

/// An open connection over TLS, by `openssl s_client`.
struct OpenTls {
    run: Child,
}

impl OpenTls {
    fn to(server: &Server, port: u16, arguments: &[&str]) -> OpenTls {
        let run = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect"])
            .arg(format!("127.0.0.1:{port}"))
            .args(arguments)
            .current_dir(server.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        OpenTls { run }
    }

    /// The status of the answer, and true if the connection is kept.
    fn ask(&mut self, request: &str) -> (u16, bool) {
        let (input, output) = (self.run.stdin.as_mut(), self.run.stdout.as_mut());
        input.unwrap().write_all(request.as_bytes()).unwrap();
        let reply = client::read_reply(output.unwrap(), &mut Vec::new(), "GET").unwrap();
        let reply = reply.unwrap();
        (reply.status, reply.keeps_connection())
    }

    fn is_closed(&mut self) -> bool {
        let is_at_end = self.run.stdout.as_mut().unwrap().read(&mut [0; 1]).unwrap() == 0;
        is_at_end && self.run.wait().is_ok()
    }
}

#[test]
fn strangers_with_many_connections_keep_no_other_out() {
    let fixture = Fixture::start();
    fixture.get("/");
    // A session of requests that has shown who it is, and then more connections than there may be.
    let mut known = Client::to(fixture.address());
    let request =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    known.send(&request);
    assert_eq!(known.response("GET").status, 200);
    let mut strangers: Vec<Client> = (0..200).map(|_| Client::to(fixture.address())).collect();
    for stranger in &mut strangers {
        stranger.send("GET / HTTP/1.1\r\nHost: ");
    }
    assert_eq!(fixture.get("/").status, 200);
    known.send(&request);
    assert_eq!(known.response("GET").status, 200);
    // A head without end, and an unexpected body.
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    let reply = client::request(fixture.address(), long.as_bytes());
    assert!(reply.is_ok_and(|reply| reply.status == 431 || reply.status == 400));
    let large = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n";
    assert_eq!(fixture.ask(large).status, 413);
}

/// A site with something on every page, and a change that was refused.
fn full(fixture: &Fixture) -> tempfile::TempDir {
    let folder = tutti_testkit::files::public_folder();
    fs::write(
        folder.path().join("index.php"),
        "<?php usleep(2000); echo 'hello';",
    )
    .unwrap();
    let mut config = fixture.server.call("GET", "/config", &Value::Null).json();
    config["applications"] = json!({"blog": {"type": "php", "root": folder.path(), "script": "index.php", "processes": 2,
        "environment": {"DB_PASSWORD": "hunter2"}}});
    config["routes"] = json!([
        {"match": {"uri": "/jobs/*"}, "action": {"pass": "spoolers/mail"}},
        {"match": {"uri": "/api/*"}, "action": {"pass": "upstreams/api"}},
        {"match": {"uri": "/missing"}, "action": {"return": 404}},
        {"action": {"pass": "applications/blog"}},
    ]);
    // One of them is down.
    let servers = json!({(fixture.server.address().to_string()): {}, (tutti_testkit::refusing_address().to_string()): {}});
    config["upstreams"] = json!({"api": {"servers": servers, "health_check": {"interval": 1}}});
    config["spoolers"] = json!({"mail": {"pass": "applications/blog"}});
    config["schedules"] = json!({"nightly report": {"cron": "30 3 * * MON-FRI", "pass": "applications/blog", "uri": "/report"}});
    fixture.server.put("/config", &config);
    tls::certificate(&fixture.server);
    config["applications"]["blog"]["processes"] = json!(3);
    fixture.server.put("/config", &config);
    refused(
        &fixture.server,
        "/config/applications/blog/processes",
        &json!({"max": 1, "spare": 5}),
    );
    for path in ["/", "/", "/missing", "/index.php"] {
        client::get(fixture.server.address(), path).unwrap();
    }
    let job = b"POST /jobs/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
    client::request(fixture.server.address(), job).unwrap();
    folder
}

#[test]
fn chromium_shows_it_to_everybody() {
    if Command::new("chromium").arg("--version").output().is_err() {
        skip!("chromium is not installed: `apt-get install chromium`");
    }
    let fixture = Fixture::start();
    let _folder = full(&fixture);
    // Two points: so that there are lines to be drawn.
    wait_until("there are graphs", || {
        fixture
            .get("/")
            .text()
            .matches("class=\"line-0\" d=\"M")
            .count()
            >= 7
    });
    fixture.wait_for("/", "of upstream api is down");
    let page = fixture.get("/configuration").text();
    assert!(
        !page.contains("hunter2") && page.contains("DB_PASSWORD"),
        "{page}"
    );
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard");
    let axe = packages_of(&sources.join("axe"), "axe");
    let mut command = Command::new("python3");
    command
        .arg(sources.join("walk.py"))
        .arg(format!("http://127.0.0.1:{}", fixture.port))
        .arg(fixture.server.folder().join("dashboard-token"))
        .arg(axe.join("axe-core/axe.min.js"));
    command.args(std::env::var_os("TUTTI_SCREENSHOTS"));
    let done = command.output().unwrap();
    let told =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
}

#[test]
fn the_examples_of_the_guide_are_right() {
    let guide = include_str!("../../../docs/operate/dashboard.md");
    let server = Server::start(&ServerOptions::default());
    tls::certificate(&server);
    let token = server.folder().join("etc/dashboard-token");
    let commands: Vec<String> = examples(guide, "console")[0]
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap().to_owned())
        .collect();
    assert_eq!(commands.len(), 2);
    let folder = token.parent().unwrap().to_str().unwrap();
    for command in commands {
        let command = command.replace("/etc/tutti", folder);
        let done = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(done.success(), "{command}");
    }
    let own = format!("127.0.0.1:{}", free_port());
    let others = format!("*:{}", free_port());
    let places = [
        ("/etc/tutti/dashboard-token", token.to_str().unwrap()),
        ("127.0.0.1:9080", own.as_str()),
        ("*:9443", others.as_str()),
        ("dashboard.example.com", "site"),
        ("staff", "site"),
    ];
    let configurations = json_examples(guide, &places);
    assert_eq!(configurations.len(), 3);
    for configuration in configurations {
        server.put("/config", &configuration);
    }
}
