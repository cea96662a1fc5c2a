//! Servers as they are started in practice: in the background, by an ordinary user, by a service manager; and their
//! upgrades.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::{Start, TUTTI, finish};
use tutti_sys::signal;
use tutti_testkit::client::Reply;
use tutti_testkit::{
    PATIENCE, Server, ServerOptions, client, files, free_port, is_root, processes, skip, wait_until,
};

/// Ends a server in the background, however the test ends.
struct Background(i32);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = signal::send(self.0, libc::SIGKILL);
    }
}

fn put(start: &Start, body: &Value) -> Reply {
    let body = body.to_string();
    client::control(
        &start.path("control.sock"),
        "PUT",
        "/config",
        body.as_bytes(),
    )
    .unwrap()
}

/// `tutti upgrade`, as a user types it.
fn upgrade(start: &Start) {
    let control = format!("unix:{}", start.path("control.sock").display());
    let done = Command::new(TUTTI)
        .args(["upgrade", "--control", &control])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}{}; {}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
        start.log()
    );
}

fn routers(main: i32) -> Vec<i32> {
    let all = processes::tree(main).into_iter();
    all.filter(|process| process.title == "tutti: router")
        .map(|process| process.pid)
        .collect()
}

fn answers(port: u16) -> u16 {
    client::get(([127, 0, 0, 1], port).into(), "/")
        .unwrap()
        .status
}

/// Two upgrades of a running server: the same main process, other routers, all paths unchanged.
fn stands_two_upgrades(start: &Start, user: Option<&str>) {
    let pid = start.pid();
    let port = free_port();
    let mut configuration = support::sample_configuration(port);
    let put_done = put(start, &configuration);
    assert_eq!(put_done.status, 200, "{}", put_done.text());
    for round in 1..=2 {
        let before = routers(pid);
        upgrade(start);
        wait_until("the former router has ended", || {
            let now = routers(pid);
            now.len() == 1 && now != before
        });
        assert_eq!(start.pid(), pid, "the pid file");
        assert_eq!(processes::title(pid), "tutti: main");
        assert_eq!(answers(port), 200);
        wait_until("the log says so", || {
            start.log().matches("serves; the former").count() == round
        });
        for process in processes::tree(pid) {
            // The former router's processes may end at the same time.
            let now = processes::user(process.pid);
            if let (Some(user), Some(now)) = (user, now) {
                assert_eq!(now, user, "{process:?}");
            }
        }
    }
    configuration["applications"]["sample"]["processes"] = json!(1);
    assert_eq!(put(start, &configuration).status, 200);
    // The log can be rotated, and later lines are written to the new file.
    std::fs::rename(start.path("log"), start.path("log.1")).unwrap();
    signal::send(pid, libc::SIGUSR1).unwrap();
    wait_until("the log is opened again", || {
        start.log().contains("logs reopened")
    });
    let all = processes::tree(pid);
    signal::send(pid, libc::SIGQUIT).unwrap();
    processes::wait_until_gone(&all);
    assert!(!start.path("control.sock").exists() && !start.path("pid").exists());
}

#[test]
fn a_daemon_whose_starter_has_gone_is_upgraded() {
    let mut start = Start::new(TUTTI);
    let (status, stderr) = start.finish();
    assert!(status.success(), "{stderr}");
    let _end = Background(start.pid());
    stands_two_upgrades(&start, None);
}

#[test]
fn a_server_of_an_ordinary_user_is_upgraded() {
    if !is_root() {
        skip!("becoming another user needs root");
    }
    let mut start = Start::as_user("nobody");
    let (status, stderr) = start.finish();
    assert!(status.success(), "{stderr}");
    let _end = Background(start.pid());
    stands_two_upgrades(&start, Some("nobody"));
}

/// A client that has requested much data and reads nothing.
fn stuck_download(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
        .write_all(b"GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let mut first = [0];
    client.read_exact(&mut first).unwrap();
    client
}

fn with_large_file(server: &Server) -> Value {
    let file = std::fs::File::create(server.folder().join("large")).unwrap();
    file.set_len(1 << 30).unwrap();
    json!({
        "settings": {"http": {"send_timeout": 3600, "drain_timeout": 1}},
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": [{"action": {"share": format!("{}$uri", server.folder().display())}}],
    })
}

#[test]
fn drain_timeout_bounds_a_graceful_stop_and_an_upgrade() {
    let mut server = Server::start(&ServerOptions::default());
    server.put("/config", &with_large_file(&server));
    let before = server.router();
    let _stuck = stuck_download(server.address());
    server.upgrade();
    wait_until("the former router has ended", || {
        !processes::is_running(before)
    });
    let _another = stuck_download(server.address());
    server.stop(libc::SIGQUIT);
    let line = server
        .log()
        .matches("`settings.http.drain_timeout` is over: 1 connections")
        .count();
    assert_eq!(line, 2, "{}", server.log());
}

#[test]
fn a_listener_is_served_as_soon_as_its_address_can_be_had() {
    let folder = files::public_folder();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    // The kernel gives these ports to no client when they are free.
    let others: Vec<TcpListener> = (0..2)
        .map(|_| TcpListener::bind(("127.0.0.1", free_port())).unwrap())
        .collect();
    let addresses: Vec<SocketAddr> = others.iter().map(|o| o.local_addr().unwrap()).collect();
    let options = ServerOptions {
        state: Some(state.clone()),
        ..ServerOptions::default()
    };
    let mut whole = json!({"routes": [{"action": {"return": 204}}]});
    for address in &addresses {
        whole["listeners"][address.to_string()] = json!({"pass": "routes"});
    }
    std::fs::write(state.join("conf.json"), whole.to_string()).unwrap();
    let server = Server::start(&options);
    let problems = |server: &Server| {
        server.call("GET", "/status", &Value::Null).json()["problems"].to_string()
    };
    assert!(
        addresses
            .iter()
            .all(|a| problems(&server).contains(&a.to_string())),
        "{}",
        server.log()
    );
    // Neither an upgrade nor the death of a router ends it.
    server.upgrade();
    for (other, address) in others.into_iter().zip(&addresses) {
        drop(other);
        wait_until("it is served", || {
            client::get(*address, "/").is_ok_and(|reply| reply.status == 204)
        });
        let line = format!("listener `{address}` has its address now");
        wait_until("the log says so", || server.log().contains(&line));
        wait_until("it is no problem any more", || {
            !problems(&server).contains(&address.to_string())
        });
    }
    assert_eq!(server.call("GET", "/config", &Value::Null).json(), whole);
    assert_eq!(problems(&server), "null");
}

/// Issue 28, 1.2: without the file of jobs, all listeners accepted connections without ever responding, until the next
/// start.
#[test]
fn what_a_router_finds_missing_is_used_when_it_is_back() {
    let folder = files::public_folder();
    let (state, logs) = (folder.path().join("state"), folder.path().join("logs"));
    std::fs::create_dir(&state).unwrap();
    std::fs::create_dir(&logs).unwrap();
    let server = Server::start(&ServerOptions {
        state: Some(state.clone()),
        ..ServerOptions::default()
    });
    let whole = json!({
        "listeners": {server.address().to_string(): {"pass": "routes/site"}},
        "routes": {
            "site": [
                {"match": {"uri": "/post"}, "action": {"pass": "spoolers/mail"}},
                {"action": {"return": 204}}
            ],
            "jobs": [{"action": {"return": 200}}]
        },
        "spoolers": {"mail": {"pass": "routes/jobs"}},
        "access_log": logs.join("access.log")
    });
    server.put("/config", &whole);
    let (jobs, aside) = (state.join("jobs.redb"), state.join("aside"));
    std::fs::rename(&jobs, &aside).unwrap();
    std::fs::create_dir(&jobs).unwrap();
    let away = folder.path().join("away");
    std::fs::rename(&logs, &away).unwrap();
    let status = |target: &str| {
        let fields = "Host: test\r\nConnection: close\r\nContent-Length: 0";
        let request = format!("POST {target} HTTP/1.1\r\n{fields}\r\n\r\n");
        client::request(server.address(), request.as_bytes()).map_or(0, |reply| reply.status)
    };
    // A second router finds the same.
    for _ in 0..2 {
        server.kill_router();
        wait_until("the next router serves", || status("/") == 204);
    }
    assert_eq!(status("/post"), 503);
    let problems = || server.status("")["problems"].clone();
    let places = |problems: Value| -> Vec<String> {
        let list = problems.as_array().cloned().unwrap_or_default();
        let place = |one: &Value| one["pointer"].as_str().unwrap_or_default().to_owned();
        list.iter().map(place).collect()
    };
    assert_eq!(places(problems()), ["/access_log", "/spoolers"]);
    assert_eq!(server.call("GET", "/config", &Value::Null).json(), whole);
    std::fs::rename(&away, &logs).unwrap();
    wait_until("the log is no problem any more", || {
        places(problems()) == ["/spoolers"]
    });
    std::fs::remove_dir(&jobs).unwrap();
    std::fs::rename(&aside, &jobs).unwrap();
    wait_until("jobs are taken", || status("/post") == 202);
    wait_until("nothing is missing", || problems() == Value::Null);
    server.wait_for_log("the file of jobs can be opened now");
    let access = logs.join("access.log");
    wait_until("lines are written", || {
        std::fs::read_to_string(&access).is_ok_and(|log| log.contains("POST /post"))
    });
}

/// Collects the messages for the service manager until `wanted` arrives.
fn hear(manager: &UnixDatagram, wanted: &str) -> String {
    let mut heard = String::new();
    let mut buffer = [0; 4096];
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    while !heard.contains(wanted) {
        let count = manager
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{wanted}: {error}; heard {heard}"));
        heard.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    heard
}

#[test]
fn a_service_manager_gets_the_state_of_the_server() {
    let mut start = Start::new(TUTTI);
    let address = start.path("notify");
    let manager = UnixDatagram::bind(&address).unwrap();
    let mut child = start
        .command
        .arg("--no-daemon")
        .env("NOTIFY_SOCKET", address)
        .env("WATCHDOG_USEC", "1")
        .spawn()
        .unwrap();
    let heard = hear(&manager, "READY=1");
    assert!(!heard.contains("RELOADING"), "{heard}");
    assert!(start.is_answering());
    let port = free_port();
    assert_eq!(
        put(&start, &support::sample_configuration(port)).status,
        200
    );
    upgrade(&start);
    let heard = hear(&manager, "READY=1");
    assert!(
        heard.starts_with("RELOADING=1\n") && heard.contains("MONOTONIC_USEC="),
        "{heard}"
    );
    // A rejected one ends in the former state.
    let mut wrong = support::sample_configuration(port);
    wrong["applications"]["sample"]["working_directory"] = json!(start.path("gone"));
    std::fs::create_dir(start.path("gone")).unwrap();
    assert_eq!(put(&start, &wrong).status, 200);
    std::fs::remove_dir(start.path("gone")).unwrap();
    signal::send(start.pid(), libc::SIGUSR2).unwrap();
    let heard = hear(&manager, "READY=1");
    assert!(heard.contains("RELOADING=1"), "{heard}");
    wait_until("the reason is in the log", || {
        start.log().contains("upgrade failed")
    });
    // The children have no access to it.
    for process in processes::tree(start.pid()).iter().skip(1) {
        let bytes = std::fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(
            !text.contains("NOTIFY_SOCKET") && !text.contains("WATCHDOG"),
            "{process:?}: {text}"
        );
    }
    signal::send(start.pid(), libc::SIGQUIT).unwrap();
    hear(&manager, "STOPPING=1");
    assert!(finish(&mut child).0.success());
}

/// Runs its arguments with descriptors 3 and following, like systemd: LISTEN_PID is the server's own process id.
const ACTIVATE: &str = r#"
import os, socket, sys
count = int(sys.argv[1])
sockets = []
for address in sys.argv[2:2 + count]:
    if address.startswith("/"):
        s = socket.socket(socket.AF_UNIX); s.bind(address)
    else:
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, port = address.split(":"); s.bind((host, int(port)))
    s.listen(10); sockets.append(s)
high = [os.dup2(s.fileno(), 100 + n) for n, s in enumerate(sockets)]
for n, number in enumerate(high):
    os.dup2(number, 3 + n, inheritable=True); os.close(number)
os.environ["LISTEN_FDS"] = str(count); os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"#;

#[test]
fn sockets_of_a_service_manager_are_used_and_left_to_it() {
    let folder = files::public_folder();
    let (used, unused) = (free_port(), free_port());
    let path = folder.path().join("given.sock");
    let script = folder.path().join("activate.py");
    std::fs::write(&script, ACTIVATE).unwrap();
    let words = [
        "python3",
        script.to_str().unwrap(),
        "3",
        &format!("127.0.0.1:{used}"),
        &format!("127.0.0.1:{unused}"),
        path.to_str().unwrap(),
    ];
    let options = ServerOptions {
        wrapper: words.map(str::to_owned).to_vec(),
        ..ServerOptions::default()
    };
    let mut server = Server::start(&options);
    let log = server.log();
    assert!(
        log.contains(&format!(
            "the service manager has opened `127.0.0.1:{used}`"
        )),
        "{log}"
    );
    let with = |listeners: &[String]| {
        let listeners: serde_json::Map<String, Value> = listeners
            .iter()
            .map(|name| (name.clone(), json!({"pass": "routes"})))
            .collect();
        json!({"listeners": listeners, "routes": [{"action": {"return": 200}}]})
    };
    let by_port = format!("127.0.0.1:{used}");
    let by_path = format!("unix:{}", path.display());
    let is_served = || {
        assert_eq!(answers(used), 200);
        assert_eq!(client::control(&path, "GET", "/", b"").unwrap().status, 200);
    };
    // If another process had bound it, it would be in use.
    server.put("/config", &with(&[by_port.clone(), by_path.clone()]));
    is_served();
    // A removed listener leaves its socket in place: it belongs to the manager.
    server.put("/config", &with(std::slice::from_ref(&by_port)));
    assert!(path.exists());
    server.put("/config", &with(&[by_port.clone(), by_path.clone()]));
    is_served();
    for _ in 0..2 {
        server.upgrade();
        is_served();
    }
    // A socket that had no listener before the upgrades was handed over with the rest.
    server.put(
        "/config",
        &with(&[by_port, by_path, format!("127.0.0.1:{unused}")]),
    );
    assert_eq!(answers(unused), 200);
    server.stop(libc::SIGQUIT);
    assert!(path.exists(), "the manager's file is not ours to remove");
}

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/tutti.service");
    let unit = std::fs::read_to_string(source).unwrap();
    // `systemd-analyze` checks that the programs exist.
    let unit = unit
        .replace("/usr/sbin/tuttid", TUTTI)
        .replace("/usr/bin/tutti", TUTTI);
    assert_eq!(unit.matches(TUTTI).count(), 2);
    // Issue 28, 5.2: a reload reads the configuration again, and does not upgrade.
    assert!(
        unit.contains(&format!("ExecReload={TUTTI} reload\n")),
        "{unit}"
    );
    let folder = files::public_folder();
    let file = folder.path().join("tutti.service");
    std::fs::write(&file, unit).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output()
        .expect("systemd-analyze: packaging/install-deps test");
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
    assert!(!said.contains("tutti.service"), "{said}");
}
