//! Access to the control API over an abstract socket and over TCP (issue 10, 1.3).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Start, TUTTI, plain_configuration};
use tutti_sys::signal;
use tutti_testkit::client::Client;
use tutti_testkit::{client, files, free_port, is_root, processes, skipped, wait_until};

const TOKEN: &str = "4c9ae1c40ac1c4ac85b94f6a9d8bd8d5";

/// Returns the status and body of a response, as `curl` gets them with these arguments; run as this user, if one is
/// given.
fn curl(user: Option<&str>, arguments: &[&str]) -> (u16, String) {
    let mut command = match user {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid",
                user,
                "--regid",
                "nogroup",
                "--clear-groups",
                "curl",
            ]);
            command
        }
        None => Command::new("curl"),
    };
    let output = command
        .args(["-s", "-w", "\n%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

fn stop(start: &Start) {
    let all = processes::tree(start.pid());
    signal::send(start.pid(), libc::SIGQUIT).unwrap();
    processes::wait_until_gone(&all);
}

fn token_file(folder: &Path, text: &str, mode: u32) -> PathBuf {
    let path = folder.join("token");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    path
}

/// Any user who could connect was able to run code as the server: the kernel knew the peer, but was not asked.
#[test]
fn an_abstract_socket_answers_root_the_servers_user_and_those_named() {
    let name = format!("tutti-test-{}", std::process::id());
    let mut start = Start::new(TUTTI);
    start
        .command
        .arg(format!("--control=unix:@{name}"))
        .args(["--control-user", "daemon"]);
    let (status, stderr) = start.finish();
    assert!(status.success(), "{stderr}");
    let ask = |user| {
        curl(
            user,
            &["--abstract-unix-socket", &name, "http://localhost/config"],
        )
    };
    assert_eq!(ask(None).0, 200);
    if is_root() {
        assert_eq!(ask(Some("daemon")).0, 200);
        let user = "nobody";
        let (status, body) = ask(Some(user));
        assert_eq!(status, 403);
        assert!(body.contains(&format!("this is {user} (uid")), "{body}");
        assert!(!body.contains("listeners"), "{body}");
    } else {
        skipped("asking as other users needs root");
    }
    stop(&start);
}

#[test]
fn a_tcp_port_without_a_token_is_refused_with_the_cure() {
    let port = free_port();
    let mut start = Start::new(TUTTI);
    start.command.arg(format!("--control=127.0.0.1:{port}"));
    let (status, stderr) = start.finish();
    assert!(!status.success());
    for part in [
        "requires a token",
        "--control unix:PATH",
        "--control-token FILE",
        "openssl rand",
    ] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    assert!(!start.path("pid").exists());
}

/// Issue 28: images for Unit use a TCP port, and run it without root and without a home: the program ended.
#[test]
fn under_units_name_a_tcp_port_without_a_token_is_left_out_with_a_warning() {
    let folder = files::public_folder();
    let unitd = folder.path().join("unitd");
    std::os::unix::fs::symlink(TUTTI, &unitd).unwrap();
    let (control, port) = (free_port(), free_port());
    let log = folder.path().join("log");
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid",
                "nobody",
                "--regid",
                "nogroup",
                "--clear-groups",
                "--",
            ]);
            command.arg(&unitd);
            command
        }
        false => Command::new(&unitd),
    };
    let mut child = command
        .arg("--no-daemon")
        .arg(format!("--control=127.0.0.1:{control}"))
        .env("HOME", "/nonexistent")
        .env("XDG_RUNTIME_DIR", folder.path().join("run"))
        .env_remove("XDG_STATE_HOME")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let socket = folder.path().join("run/tutti/control.sock");
    let configuration = plain_configuration(port).to_string();
    wait_until("it takes a configuration where no TCP port is", || {
        let put = client::control(&socket, "PUT", "/config", configuration.as_bytes());
        put.is_ok_and(|reply| reply.status == 200) || child.try_wait().unwrap().is_some()
    });
    let log = std::fs::read_to_string(&log).unwrap();
    let get = |port: u16| curl(None, &[&format!("http://127.0.0.1:{port}/")]).0;
    assert_eq!(get(port), 200, "{log}");
    assert_eq!(get(control), 0, "nothing listens");
    assert!(
        log.contains("[warn]") && log.contains("is not served"),
        "{log}"
    );
    assert!(folder.path().join("run/tutti/state/conf.json").exists());
    let all = processes::tree(i32::try_from(child.id()).unwrap());
    signal::send(i32::try_from(child.id()).unwrap(), libc::SIGTERM).unwrap();
    child.wait().unwrap();
    processes::wait_until_gone(&all);
}

/// Issue 28: monitoring of NetBox and others reads the status that way. Whether or not the router has the same user as
/// the socket, its clients must get nothing else.
#[test]
fn a_proxy_to_the_control_socket_reads_the_status_and_nothing_else() {
    let port = free_port();
    let mut start = Start::new(TUTTI);
    let (status, stderr) = start.finish();
    assert!(status.success(), "{stderr}");
    let socket = start.path("control.sock");
    // Under another name, too: a link to it.
    let link = start.path("link.sock");
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    let configuration = serde_json::json!({
        "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes"}},
        "routes": [
            {"match": {"headers": {"Via-Link": "yes"}}, "action": {"proxy": format!("http://unix:{}", link.display())}},
            {"action": {"proxy": format!("http://unix:{}", socket.display())}},
        ],
    })
    .to_string();
    let put = |path: &str, body: &str| {
        let reply = client::control(&socket, "PUT", path, body.as_bytes()).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    put("/config", &configuration);
    for by_link in ["no", "yes"] {
        let ask = |arguments: &[&str], path: &str| {
            let url = format!("http://127.0.0.1:{port}{path}");
            let header = format!("Via-Link: {by_link}");
            let mut all = vec!["--path-as-is", "-H", &header, "-H", "Host: shop.example"];
            all.extend(arguments);
            all.push(&url);
            curl(None, &all)
        };
        let (status, body) = ask(&[], "/status");
        assert_eq!(status, 200, "{body}");
        assert!(
            body.contains("\"accepted\"") && body.contains("\"pid\""),
            "{body}"
        );
        assert_eq!(ask(&[], "/status/requests/total").0, 200);
        assert_eq!(ask(&[], "/status/").0, 200);
        assert_eq!(ask(&["-I"], "/status").0, 200);
        for path in [
            "/",
            "/config",
            "/certificates",
            "/history",
            "/metrics",
            "/statusx",
            "/config/status",
            "/status/..%2fconfig",
        ] {
            let (status, body) = ask(&[], path);
            assert!(matches!(status, 400 | 404), "{path}: {status} {body}");
            assert!(!body.contains("listeners"), "{path}: {body}");
        }
        for method in ["PUT", "POST", "DELETE", "PATCH"] {
            for path in ["/status", "/config", "/control/stop"] {
                let (status, body) = ask(&["-X", method], path);
                assert!(
                    matches!(status, 404 | 405),
                    "{method} {path}: {status} {body}"
                );
                let (status, body) = ask(&["-X", method, "--data-binary", "{}"], path);
                assert!(
                    matches!(status, 404 | 405 | 413 | 502),
                    "{method} {path}: {status} {body}"
                );
            }
        }
    }
    // Users of the socket itself still may do everything.
    put("/config/routes", "[]");
    stop(&start);
}

#[test]
fn a_token_that_others_can_read_or_that_is_short_is_refused() {
    for (text, mode, reason) in [
        (TOKEN, 0o640, "is not secret"),
        ("hunter2", 0o600, "at least 32"),
    ] {
        let mut start = Start::new(TUTTI);
        let file = token_file(start.folder.path(), text, mode);
        start
            .command
            .arg(format!("--control=127.0.0.1:{}", free_port()))
            .arg("--control-token")
            .arg(file);
        let (status, stderr) = start.finish();
        assert!(!status.success());
        assert!(stderr.contains(reason), "{stderr}");
        assert!(!stderr.contains(text), "{stderr}");
    }
}

/// A server whose control API is at a TCP port, and the file with its token.
fn at_tcp_port(address: &str, token: &str) -> (Start, PathBuf) {
    let mut start = Start::new(TUTTI);
    let file = token_file(start.folder.path(), token, 0o600);
    start
        .command
        .arg(format!("--control={address}"))
        .arg("--control-token")
        .arg(&file);
    let (status, stderr) = start.finish();
    assert!(status.success(), "{stderr}");
    (start, file)
}

#[test]
fn a_tcp_port_answers_who_has_the_token() {
    let address = format!("127.0.0.1:{}", free_port());
    let (start, file) = at_tcp_port(&address, &format!("{TOKEN}\n"));
    assert!(start.log().contains("[warn]"), "{}", start.log());
    assert!(!start.log().contains(TOKEN));
    let url = format!("http://{address}/config");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(curl(None, &[&url]).0, 401);
    assert_eq!(curl(None, &[&url, "-H", "Authorization: Bearer no"]).0, 401);
    assert_eq!(
        curl(None, &[&url, "-H", &bearer, "-H", "Host: evil.example"]).0,
        403
    );
    let put = ["-X", "PUT", "--data-binary", "{\"routes\": []}"];
    assert_eq!(
        curl(None, &[&["-H", &bearer, url.as_str()], &put[..]].concat()).0,
        200
    );

    let tutti = |flags: &[&str]| {
        Command::new(TUTTI)
            .args(["config", "get", "--control", &address])
            .args(flags)
            .output()
            .unwrap()
    };
    let with = tutti(&["--control-token", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&with.stdout).contains("routes"));
    let without = String::from_utf8(tutti(&[]).stderr).unwrap();
    assert!(without.contains("--control-token FILE"), "{without}");
    stop(&start);
}

/// Each connection held a descriptor of the controller for a minute, and there was no bound on their number.
#[test]
fn connections_of_strangers_are_bounded_and_keep_no_other_client_out() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (start, _) = at_tcp_port(&address.to_string(), TOKEN);
    let request =
        format!("GET /status HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let mut known = Client::to(address);
    known.send(&request);
    assert_eq!(known.response("GET").status, 200);
    let mut strangers: Vec<_> = (0..300).map(|_| Client::to(address)).collect();
    // The oldest have made room, without a response.
    for stranger in &mut strangers[..44] {
        assert!(stranger.is_closed());
    }
    known.send(&request);
    assert_eq!(known.response("GET").status, 200);
    let mut another = Client::to(address);
    another.send(&request);
    assert_eq!(another.response("GET").status, 200);
    stop(&start);
}
