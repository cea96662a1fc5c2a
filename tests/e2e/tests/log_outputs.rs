//! Where logs are written to: files that are moved away, full disks, syslog servers that come and go, and the forms of the daemon's log.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_e2e::python::PythonSite;
use tutti_e2e::scrape::Samples;
use tutti_testkit::{PATIENCE, Server, ServerOptions, client, is_root, skipped, wait_until};

const PAGE: &str = include_str!("../../../docs/operate/logs.md");

/// A configuration that answers 204 and has this access log.
fn logging(server: &Server, log: &Value) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": [{"action": {"return": 204}}],
        "access_log": log,
    })
}

fn get(server: &Server, target: &str) {
    assert_eq!(server.get(target).status, 204);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn lost(server: &Server, log: &str) -> f64 {
    Samples::of(server).get("tutti_log_lines_lost_total", &format!("log=\"{log}\""))
}

#[test]
fn a_syslog_server_gets_each_line_as_a_message() {
    let server = Server::start(&ServerOptions::default());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(PATIENCE)).unwrap();
    let path = server.folder().join("syslog.sock");
    let local = UnixDatagram::bind(&path).unwrap();
    local.set_read_timeout(Some(PATIENCE)).unwrap();
    // It is another user who writes there.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(&path, mode).unwrap();
    let file = server.folder().join("access.log");
    let log = json!([
        file,
        {"path": format!("syslog:server={}", udp.local_addr().unwrap()), "format": "$request_uri"},
        {"path": format!("syslog:server=unix:{},facility=local1,severity=notice,tag=site", path.display()),
         "format": {"uri": "$request_uri"}, "if": "$arg_logged"},
    ]);
    server.put("/config", &logging(&server, &log));
    get(&server, "/one");
    get(&server, "/two?logged=1");
    let mut message = [0; 2000];
    let mut targets = Vec::new();
    for _ in 0..2 {
        let count = udp.recv(&mut message).unwrap();
        let text = String::from_utf8_lossy(&message[..count]);
        // local7 and info; RFC 5424.
        assert!(text.starts_with("<190>1 2"), "{text}");
        assert_eq!(text.split(' ').nth(3), Some("tutti"), "{text}");
        let (_, target) = text.rsplit_once(" - - ").unwrap();
        targets.push(target.to_owned());
    }
    // Each thread of the router writes its own: the second may come first.
    targets.sort();
    assert_eq!(targets, ["/one", "/two?logged=1"]);
    let count = local.recv(&mut message).unwrap();
    let text = String::from_utf8_lossy(&message[..count]);
    // local1 and notice; as syslog(3) writes.
    assert!(
        text.starts_with("<141>") && text.contains(" site["),
        "{text}"
    );
    assert!(text.ends_with("]: {\"uri\":\"/two?logged=1\"}"), "{text}");
    wait_until("the file has both", || read(&file).lines().count() == 2);
}

#[test]
fn a_syslog_server_may_be_away() {
    let server = Server::start(&ServerOptions::default());
    let path = server.folder().join("syslog.sock");
    let place = format!("syslog:server=unix:{}", path.display());
    server.put("/config", &logging(&server, &json!(place)));
    get(&server, "/lost");
    wait_until("the line is lost", || lost(&server, "access") >= 1.0);
    // It is logged with the next request.
    get(&server, "/lost");
    server.wait_for_log(&format!(
        "cannot write the access log \"{place}\": No such file"
    ));
    let local = UnixDatagram::bind(&path).unwrap();
    local.set_read_timeout(Some(PATIENCE)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(&path, mode).unwrap();
    get(&server, "/again");
    let mut message = [0; 2000];
    // The line of the request before may have come late enough.
    let mut next = || {
        local
            .recv(&mut message)
            .map(|count| String::from_utf8_lossy(&message[..count]).into_owned())
    };
    let mut text = next().unwrap();
    if text.contains("GET /lost ") {
        text = next().unwrap();
    }
    assert!(text.contains("GET /again "), "{text}");
    // The thread that writes may not have noted yet that it could; then a later request tells.
    wait_until("it is in the log", || {
        get(&server, "/after");
        server.log().contains("can be written again; ")
    });

    for (place, part) in [
        ("syslog:server=logs.example", "names are not looked up"),
        ("syslog:facility=local9", "there is no facility `local9`"),
    ] {
        let refused = server.call("PUT", "/config/access_log", &json!(place));
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(part), "{}", refused.text());
    }
}

/// A file system of this many bytes, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: &Path, size: &str) -> SmallDisk {
        fs::create_dir_all(path).unwrap();
        let done = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size},mode=755"),
                "tmpfs",
            ])
            .arg(path)
            .status()
            .unwrap();
        assert!(done.success(), "{}", path.display());
        SmallDisk(path.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server may have its log open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_lines_and_no_request() {
    if !is_root() {
        return skipped("only root can mount a small file system");
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::at(&folder.path().join("disk"), "64k");
    let daemon = disk.0.join("daemon.log");
    let options = ServerOptions {
        flags: vec!["--log".to_owned(), daemon.display().to_string()],
        ..ServerOptions::default()
    };
    let server = Server::start(&options);
    let access = disk.0.join("access.log");
    let log = json!({"path": access, "format": "$request_uri"});
    let mut configuration = logging(&server, &log);
    configuration["routes"] = json!([
        {"match": {"uri": "/missing/*"}, "action": {"share": "/nonexistent/folder$uri"}},
        {"action": {"return": 204}},
    ]);
    server.put("/config", &configuration);
    get(&server, "/first");
    wait_until("the first line", || read(&access) == "/first\n");
    let ballast = disk.0.join("ballast");
    // All that is left.
    let _ = fs::write(&ballast, vec![b'x'; 1 << 20]);
    let long = format!("/{}", "x".repeat(1000));
    for _ in 0..50 {
        get(&server, &long);
    }
    let mut missing = 0;
    wait_until("lines of both logs are lost", || {
        get(&server, &long);
        // Each has a line in the daemon's log.
        missing += 1;
        assert_eq!(server.get(&format!("/missing/{missing}{long}")).status, 404);
        lost(&server, "access") >= 10.0 && lost(&server, "daemon") >= 1.0
    });
    fs::remove_file(&ballast).unwrap();
    get(&server, "/room");
    wait_until("the line after", || read(&access).ends_with("/room\n"));
    let text = read(&access);
    let torn = text
        .lines()
        .filter(|line| !["/first", "/room", long.as_str()].contains(line));
    assert!(torn.count() <= 1, "{text}");
    get(&server, "/after");
    wait_until("the daemon's log reports both", || {
        let text = read(&daemon);
        text.contains("can be written again; ") && text.contains(" of this log ")
    });
}

#[test]
fn rotation_loses_no_line() {
    let server = Server::start(&ServerOptions::default());
    let log = server.folder().join("access.log");
    server.put(
        "/config",
        &logging(&server, &json!({"path": log, "format": "$request_uri"})),
    );
    let mut sent = 0;
    for round in 0..5 {
        let before = log.with_extension(format!("{round}"));
        let mut client = client::Client::to(server.address());
        let mut ask = || {
            client.send(format!("GET /{sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.response("GET").status, 204);
            sent += 1;
        };
        ask();
        // The old file has all that was under way when it was moved; later lines are in either.
        wait_until("there is a file to be moved", || log.exists());
        fs::rename(&log, &before).unwrap();
        (0..20).for_each(|_| ask());
        server.signal(libc::SIGUSR1);
        (0..20).for_each(|_| ask());
        wait_until("there is a new file", || log.exists());
    }
    let mut found = Vec::new();
    wait_until("every line is in one of the files", || {
        found = (0..5)
            .map(|round| log.with_extension(format!("{round}")))
            .chain([log.clone()])
            .flat_map(|path| read(&path).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        found.len() >= sent
    });
    // Two threads have no order between them.
    found.sort_by_key(|line| line[1..].parse::<usize>().unwrap());
    let expected: Vec<String> = (0..sent).map(|number| format!("/{number}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_daemons_log_can_be_json() {
    let mut site = PythonSite::bare();
    let flags = ["--log-format", "json", "--log-level", "debug"].map(str::to_owned);
    let options = ServerOptions {
        flags: flags.into(),
        ..ServerOptions::default()
    };
    let port = site.server.port();
    site.server.start_again(&options);
    assert_eq!(port, site.server.port());
    site.configure(&json!({"processes": 1}));
    fs::write(site.server.folder().join("tutti.log"), "").unwrap();
    site.get("/errors");
    site.get("/fails");
    let entries = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect()
    };
    wait_until("the application's lines", || {
        entries(&site.server.log())
            .iter()
            .any(|entry| entry["role"] == "application" && entry["level"] == "error")
    });
    for entry in entries(&site.server.log()) {
        assert!(entry["time"].as_str().unwrap().contains('T'), "{entry}");
        assert!(entry["pid"].is_i64(), "{entry}");
        assert!(entry["message"].is_string(), "{entry}");
        if entry["role"] == "application" {
            assert_eq!(entry["application"], "app", "{entry}");
        }
    }
    // A line about a request has its id as a member.
    site.server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes"}},
            "routes": [{"action": {"share": "/nonexistent/folder$uri"}}],
        }),
    );
    site.get("/missing");
    wait_until("the line about it", || {
        entries(&site.server.log()).iter().any(|entry| {
            let id = entry["request_id"].as_str().unwrap_or_default();
            entry["role"] == "router" && entry["level"] == "info" && id.len() == 32
        })
    });
}

#[test]
fn the_daemons_log_has_a_level_and_may_go_to_syslog() {
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).unwrap();
    let path = folder.path().join("log");
    let local = UnixDatagram::bind(&path).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(&path, mode).unwrap();
    local.set_read_timeout(Some(PATIENCE)).unwrap();
    let place = format!(
        "syslog:server=unix:{},facility=daemon,tag=web",
        path.display()
    );
    let options = ServerOptions {
        flags: ["--log", &place, "--log-level", "notice"]
            .map(str::to_owned)
            .into(),
        ..ServerOptions::default()
    };
    let mut server = Server::start(&options);
    server.put("/config", &logging(&server, &json!("/dev/null")));
    server.stop(libc::SIGTERM);
    local.set_nonblocking(true).unwrap();
    let mut message = [0; 8000];
    let mut messages = Vec::new();
    while let Ok(count) = local.recv(&mut message) {
        messages.push(String::from_utf8_lossy(&message[..count]).into_owned());
    }
    assert!(!messages.is_empty());
    // daemon is 3; notice 5 and below.
    for text in &messages {
        let (priority, rest) = text.strip_prefix('<').unwrap().split_once('>').unwrap();
        let priority: u8 = priority.parse().unwrap();
        assert!((24..=29).contains(&priority), "{text}");
        assert!(rest.contains(" web["), "{text}");
    }

    let refused = Command::new(tutti_testkit::server::built("tutti"))
        .args(["--no-daemon", "--log", "syslog:facility=x"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("there is no facility `x`"),
        "{text}"
    );
}

#[test]
fn the_examples_of_the_guide_are_taken() {
    let server = Server::start(&ServerOptions::default());
    let folder = server.folder().join("logs");
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.display().to_string();
    let examples = json_examples(PAGE, &[("/var/log/tutti", &folder)]);
    assert!(examples.len() >= 5, "{}", examples.len());
    for example in examples {
        // Others show lines of logs.
        let options = ["access_log", "slow_log", "settings"];
        if options.iter().any(|option| example.get(option).is_some()) {
            server.put("/config", &example);
        }
    }
}
