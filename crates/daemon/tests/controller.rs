//! The controller and the routers under every kind of failure, and against an attacker in control of one of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use support::{Start, TUTTI, plain_configuration, sample_configuration, with_sample};
use tutti_sys::{process, seqpacket, signal};
use tutti_testkit::client::Reply;
use tutti_testkit::{
    Load, LoadOptions, PATIENCE, Server, ServerOptions, client, files, is_root, processes, skip,
    skipped, wait_until,
};

/// Returns the controller of a server.
fn controller(server: &Server) -> i32 {
    let mut found = Vec::new();
    wait_until("a controller runs", || {
        found = server.pids("tutti: controller");
        found.len() == 1
    });
    found[0]
}

fn config(server: &Server) -> Value {
    server.call("GET", "/config", &Value::Null).json()
}

fn stored(server: &Server) -> Value {
    let text = std::fs::read(server.folder().join("state/conf.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Sends a change, and waits for the answer in another thread.
fn put_meanwhile(server: &Server, path: &str, value: &Value) -> JoinHandle<Option<Reply>> {
    let body = value.to_string();
    let mut stream = UnixStream::connect(server.control()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    std::thread::spawn(move || {
        let reply = client::read_reply(&mut stream, &mut Vec::new(), "PUT");
        reply.ok().flatten()
    })
}

/// Returns a sample host whose start waits for a file, once another exists: the options, the folder, and both files.
fn with_gate() -> (ServerOptions, tempfile::TempDir, PathBuf, PathBuf) {
    let folder = files::public_folder();
    let (closed, open) = (folder.path().join("closed"), folder.path().join("open"));
    let before = format!(
        "if [ -e {0} ]; then touch {0}.reached; while [ ! -e {1} ]; do sleep 0.02; done; fi",
        closed.display(),
        open.display()
    );
    let modules = support::modules(folder.path(), &before);
    let flags = vec!["--modulesdir".to_owned(), modules.display().to_string()];
    let options = ServerOptions {
        flags,
        ..ServerOptions::default()
    };
    (options, folder, closed, open)
}

/// Starts a server with an application, and a change of it that cannot be prepared as long as the gate is closed.
fn at_the_gate() -> (Server, tempfile::TempDir, Value, JoinHandle<Option<Reply>>) {
    let (options, folder, closed, _open) = with_gate();
    let server = Server::start(&options);
    let configuration = sample_configuration(server.port());
    server.put("/config", &configuration);
    std::fs::write(&closed, "").unwrap();
    let change = put_meanwhile(
        &server,
        "/config/applications/sample/environment",
        &json!({"A": "b"}),
    );
    let reached = PathBuf::from(format!("{}.reached", closed.display()));
    wait_until("the start of the new processes", || reached.exists());
    (server, folder, configuration, change)
}

/// Issue 10: the configuration belongs to a separate process, which requests do not need.
#[test]
fn a_killed_controller_is_replaced_and_no_request_notices() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    let configuration = sample_configuration(server.port());
    server.put("/config", &configuration);
    let router = server.router();
    let workers = server.wait_for_workers("sample", 2);
    let load = Load::start(&LoadOptions::get(server.address(), "/hello", 4));
    for round in 0..5 {
        assert!(load.wait_for_answers(20, PATIENCE));
        let before = controller(&server);
        signal::send(before, libc::SIGKILL).unwrap();
        wait_until("another controller", || {
            let now = server.pids("tutti: controller");
            now.len() == 1 && now[0] != before
        });
        // It shows the configuration in force, and changes it.
        let path = "/config/applications/sample/limits";
        server.put(path, &json!({"requests": 100_000 + round}));
        assert_eq!(config(&server)["listeners"], configuration["listeners"]);
        assert_eq!(stored(&server), config(&server));
    }
    assert!(load.wait_for_answers(20, PATIENCE));
    let outcome = load.stop();
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    assert_eq!(server.router(), router);
    assert_eq!(server.wait_for_workers("sample", 2), workers);
}

/// Issue 10: a change that was not stored yet leaves no trace.
#[test]
fn a_controller_that_dies_with_a_change_under_way_leaves_what_was_in_force() {
    let (server, _folder, configuration, change) = at_the_gate();
    let prototypes = server.prototypes("sample");
    signal::send(controller(&server), libc::SIGKILL).unwrap();
    assert!(
        change.join().unwrap().is_none(),
        "there was no process to answer"
    );
    assert_eq!(config(&server), configuration);
    assert_eq!(stored(&server), configuration);
    wait_until("what was started for it has ended", || {
        server.prototypes("sample").len() == 1
    });
    assert!(prototypes.contains(&server.prototypes("sample")[0]));
    assert_eq!(server.get("/hello").status, 200);
    // The next change is made as usual.
    server.put("/config/applications/sample/processes", &json!(1));
}

/// Issue 10: the response reports truthfully that the router has ended.
#[test]
fn a_router_that_dies_with_a_change_under_way_is_reported_as_the_reason() {
    let (server, folder, configuration, change) = at_the_gate();
    std::fs::write(folder.path().join("open"), "").unwrap();
    std::fs::remove_file(folder.path().join("closed")).unwrap();
    let router = server.router();
    signal::send(router, libc::SIGSTOP).unwrap();
    signal::send(router, libc::SIGKILL).unwrap();
    let reply = change.join().unwrap().unwrap();
    // It may have been quick enough; then it is stored.
    if reply.status == 200 {
        assert_eq!(
            stored(&server)["applications"]["sample"]["environment"]["A"],
            "b"
        );
    } else {
        assert_eq!(reply.status, 500, "{}", reply.text());
        assert!(reply.text().contains("SIGKILL"), "{}", reply.text());
        assert_eq!(stored(&server), configuration);
    }
    assert_eq!(config(&server), stored(&server));
    assert_eq!(server.get("/hello").status, 200);
}

/// The client asks one process, and another serves: the response must not overtake the change.
#[test]
fn a_change_that_is_reported_as_done_is_in_force() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    for round in 0..100 {
        let status = 200 + round % 5;
        server.put("/config/routes/0/action/return", &json!(status));
        assert_eq!(server.get("/").status, status);
    }
}

/// Issue 10, section 1 point 14: "refused: the server is stopping", yet stored.
#[test]
fn a_change_that_a_stop_refuses_is_not_stored() {
    let mut server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    let before = stored(&server);
    // Main handles the signal and the order to store in the same turn.
    server.signal(libc::SIGSTOP);
    let change = put_meanwhile(
        &server,
        "/config/routes",
        &json!([{"action": {"return": 204}}]),
    );
    for _ in 0..20 {
        // Answered on the thread that makes the change, which finally waits for main.
        assert_eq!(config(&server), before);
    }
    server.signal(libc::SIGTERM);
    server.signal(libc::SIGCONT);
    let reply = change.join().unwrap().expect("an answer");
    let status = server.wait_for_end();
    assert!(status.success(), "{status}");
    if reply.status == 200 {
        assert_ne!(stored(&server), before, "reported, but not stored");
    } else {
        assert!(reply.text().contains("is stopping"), "{}", reply.text());
        assert_eq!(reply.status, 503);
        assert_eq!(stored(&server), before, "refused, but stored");
    }
}

/// The same for a change that the router is preparing.
#[test]
fn a_stop_ends_a_change_that_is_being_made_ready() {
    let (mut server, _folder, configuration, change) = at_the_gate();
    server.signal(libc::SIGQUIT);
    let reply = change.join().unwrap().expect("an answer");
    assert!(reply.text().contains("is stopping"), "{}", reply.text());
    // Nothing is wrong with the configuration.
    assert_eq!(reply.status, 503);
    assert!(server.wait_for_end().success());
    assert_eq!(stored(&server), configuration);
}

/// Issue 10: a hanging router must not make the control API hang.
#[test]
fn a_router_that_hangs_is_reported_and_the_configuration_can_be_read() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    let router = server.router();
    signal::send(router, libc::SIGSTOP).unwrap();
    let control = server.control().to_path_buf();
    let status = std::thread::spawn(move || client::control(&control, "GET", "/status", b""));
    assert_eq!(config(&server), plain_configuration(server.port()));
    let reply = status.join().unwrap().unwrap();
    // Main may have replaced it by then.
    if processes::is_running(router) {
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(
            reply.text().contains("has not answered"),
            "{}",
            reply.text()
        );
        let _ = signal::send(router, libc::SIGCONT);
    }
    wait_until("it is reported again", || {
        server.call("GET", "/status", &Value::Null).status == 200
    });
}

/// Copies the connection of a process to main, as an attacker in control of the process could use it. Root can get
/// it for a test.
fn line_of(pid: i32) -> Option<OwnedFd> {
    let handle = process::pidfd(pid).unwrap();
    let flags = rustix::process::PidfdGetfdFlags::empty();
    match rustix::process::pidfd_getfd(&handle, 3, flags) {
        Ok(line) => Some(line),
        Err(error) => {
            skipped(&format!(
                "this system lets no process take a descriptor of another: {error}"
            ));
            None
        }
    }
}

fn say(line: &OwnedFd, message: &Value) {
    seqpacket::send(line.as_fd(), message.to_string().as_bytes(), &[]).unwrap();
}

/// Issue 10, section 3: simulates a router that sends every message that it should not.
#[test]
fn a_hijacked_router_can_change_nothing_and_start_nothing() {
    if !is_root() {
        skip!("taking a descriptor of another process needs root");
    }
    let (options, folder) = with_sample("");
    let server = Server::start(&options);
    let configuration = sample_configuration(server.port());
    server.put("/config", &configuration);
    let text =
        json!({"applications": {"evil": {"type": "php", "root": "/", "user": "root"}}}).to_string();
    let grants = json!({"places": [], "logs": [], "spools": [], "applications": []});
    let mark = folder.path().join("mark");
    // A message that only the controller may send, now or in the version before there was one, is not even parsed.
    let for_the_controller = [
        json!({"do": "apply", "id": 1, "change": {"is": "configuration", "text": text}, "grants": grants, "cause": {"by": "", "change": ""}}),
        json!({"do": "begin", "configuration": text, "cause": null, "set_aside": true, "grants": grants, "certificates": {}}),
        json!({"do": "store", "id": 1, "configuration": text, "cause": {"by": "", "change": ""}}),
        json!({"do": "keep", "id": 1, "store": "certificates", "name": "x", "text": "x"}),
        json!({"do": "discard", "id": 1, "store": "certificates", "name": "x"}),
        json!({"do": "set_aside"}),
        json!({"do": "read_files", "id": 1}),
        json!({"do": "read_certificate", "id": 1, "file": "/etc/ssl/private/site.pem", "key": null}),
        json!({"do": "past", "id": 1, "number": 1}),
        json!({"do": "history", "id": 1}),
        json!({"do": "upgrade", "id": 1}),
        json!({"do": "serving"}),
    ];
    for message in for_the_controller {
        let router = server.router();
        let Some(line) = line_of(router) else { return };
        say(&line, &message);
        wait_until("it is ended for it", || !processes::is_running(router));
        assert_eq!(config(&server), configuration, "{message}");
        assert_eq!(stored(&server), configuration, "{message}");
        assert_eq!(server.get("/hello").status, 200);
    }
    // The messages of a router get it nothing that the configuration does not grant.
    let router = server.router();
    let start = json!({"name": "sample", "kind": "php", "config": {"user": "root"}, "threads": 1, "workers": 1,
        "environment": {"LD_PRELOAD": "/tmp/evil.so"}, "stdout": mark}).to_string();
    let wanted = [
        json!({"do": "open_file", "id": 900_001, "path": mark}),
        json!({"do": "open_file", "id": 900_002, "path": "/etc/cron.d/evil"}),
        json!({"do": "listen", "id": 900_003, "place": {"path": mark}}),
        json!({"do": "listen", "id": 900_004, "place": {"inet": "0.0.0.0:1"}}),
        json!({"do": "open_spool", "id": 900_005, "folder": folder.path()}),
        json!({"do": "start", "id": 900_006, "name": "sample", "start": start, "threads": 1, "workers": 1}),
        json!({"do": "start", "id": 900_007, "name": "evil", "start": "{}", "threads": 1, "workers": 1}),
        json!({"do": "kill", "pid": server.pid(), "signal": libc::SIGKILL}),
        json!({"do": "kill", "pid": controller(&server), "signal": libc::SIGKILL}),
        json!({"do": "kill", "pid": std::process::id(), "signal": libc::SIGKILL}),
        // Answers to questions that were not asked, and reports that a router must not make.
        json!({"do": "prepared", "number": 1}),
        json!({"do": "unprepared", "number": 1, "faults": []}),
        json!({"do": "told", "number": 1, "told": {"is": "done"}}),
        json!({"do": "frozen"}),
        json!({"do": "ready"}),
        json!({"do": "unfit", "message": "evil"}),
        json!({"do": "totals", "totals": {"requests": u64::MAX}}),
    ];
    let Some(line) = line_of(router) else { return };
    for message in &wanted {
        say(&line, message);
    }
    let alerts = || {
        server
            .log()
            .matches("made a request that the configuration does not allow")
            .count()
    };
    wait_until("all of it is refused", || alerts() >= 10);
    assert_eq!(alerts(), 10, "{}", server.log());
    assert!(!mark.exists() && !Path::new("/etc/cron.d/evil").exists());
    assert_eq!(server.router(), router);
    assert_eq!(config(&server), configuration);
    wait_until("both processes run", || {
        server.status("/applications/sample/processes/running") == json!(2)
    });
    for process in server.processes() {
        let is_ours = process.title.starts_with("tutti: ");
        let Some(user) = processes::user(process.pid) else {
            continue;
        };
        let is_root = user == "root";
        assert!(
            is_ours && is_root == (process.title == "tutti: main"),
            "{process:?}"
        );
    }
    // Changes and restarts continue as before.
    server.put("/config/applications/sample/processes", &json!(1));
    server.restart("sample");
}

/// As another process of an application's user, tries to get access to every child of main as long as the file `stop`
/// does not exist: its connection, its memory, and with `signals` its life. Prints the number of attempts and
/// everything it obtained.
const ATTACKER: &str = r#"
import ctypes, os, sys
stop, pidfile, signals = sys.argv[1], sys.argv[2], sys.argv[3] == "signals"
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
PIDFD_OPEN, PIDFD_GETFD, SEIZE = 434, 438, 0x4206
own = os.getuid()
assert own != 0
print("up", flush=True)
main, tries, won = 0, 0, []
while "ptrace" not in won and not os.path.exists(stop):
    try:
        main = main or int(open(pidfile).read())
        children = open(f"/proc/{main}/task/{main}/children").read().split()
    except (OSError, ValueError):
        continue
    for pid in map(int, children):
        tries += 1
        handle = libc.syscall(PIDFD_OPEN, pid, 0)
        if handle >= 0:
            taken = libc.syscall(PIDFD_GETFD, handle, 3, 0)
            if taken >= 0:
                won.append("pidfd_getfd")
                os.close(taken)
            os.close(handle)
        if libc.ptrace(SEIZE, pid, 0, 0) == 0:
            # Held any longer it would stop at its next signal. The end of this process lets it go.
            won.append("ptrace")
            break
        try:
            os.close(os.open(f"/proc/{pid}/fd/3", os.O_RDWR))
            won.append("fd")
        except OSError:
            pass
        for name in ("mem", "environ"):
            try:
                file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
                os.close(file)
                won.append(name)
            except OSError:
                pass
        if signals:
            try:
                os.kill(pid, 0)
                won.append("kill")
            except OSError:
                pass
print(tries, *sorted(set(won)))
"#;

/// Starts the attacker as the user `nobody`, the default user of applications.
fn attacker(folder: &Path, mode: &str) -> Child {
    let script = folder.join("attacker.py");
    std::fs::write(&script, ATTACKER).unwrap();
    let mut child = Command::new("setpriv")
        .args([
            "--reuid",
            "nobody",
            "--regid",
            "nogroup",
            "--clear-groups",
            "--",
        ])
        .args(["/usr/bin/python3", script.to_str().unwrap()])
        .arg(folder.join("stop"))
        .arg(folder.join("pid"))
        .arg(mode)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    child
}

/// Lets it attack a server through starts, deaths and upgrades; returns what it obtained.
fn attacked(flags: &[&str], mode: &str) -> String {
    let mut start = Start::new(TUTTI);
    let mut attacker = attacker(start.folder.path(), mode);
    let mut server = start
        .command
        .arg("--no-daemon")
        .args(flags)
        .spawn()
        .unwrap();
    wait_until("it answers", || start.is_answering());
    let main = start.pid();
    let pids = |title: &str| -> Vec<i32> {
        let all = processes::tree(main).into_iter();
        let all = all.filter(|process| process.title == title);
        all.map(|process| process.pid).collect()
    };
    for title in ["tutti: router", "tutti: controller"] {
        for _ in 0..12 {
            let before = pids(title);
            signal::send(before[0], libc::SIGKILL).unwrap();
            wait_until("another one serves", || {
                let now = pids(title);
                now.len() == 1 && now != before && start.is_answering()
            });
        }
    }
    for _ in 0..3 {
        let before = (pids("tutti: router"), pids("tutti: controller"));
        let socket = start.path("control.sock");
        let reply = client::control(&socket, "POST", "/control/upgrade", b"").unwrap();
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), start.log());
        wait_until("the former have ended", || {
            let now = (pids("tutti: router"), pids("tutti: controller"));
            (now.0.len(), now.1.len()) == (1, 1) && now.0 != before.0 && now.1 != before.1
        });
    }
    std::fs::write(start.path("stop"), "").unwrap();
    let mut said = String::new();
    let mut output = attacker.stdout.take().unwrap();
    output.read_to_string(&mut said).unwrap();
    attacker.wait().unwrap();
    signal::send(main, libc::SIGTERM).unwrap();
    assert!(support::finish(&mut server).0.success(), "{}", start.log());
    let (tries, won) = said.trim().split_once(' ').unwrap_or((said.trim(), ""));
    assert!(
        tries.parse::<u64>().unwrap() > 100,
        "it did not try: {said}"
    );
    won.to_owned()
}

/// Issue 10, section 1 point 1: an application of the default user got access to the connection to main of each new
/// router, and so became root.
#[test]
fn an_application_cannot_get_hold_of_controller_or_router() {
    if !is_root() {
        skip!("becoming other users needs root");
    }
    // With a separate user it cannot even kill them.
    assert_eq!(attacked(&["--router-user", "daemon"], "signals"), "");
}

/// The same if there is no such user.
#[test]
fn an_application_of_the_routers_user_cannot_get_hold_of_its_line() {
    if !is_root() {
        skip!("becoming other users needs root");
    }
    assert_eq!(
        attacked(&["--router-user", "nobody"], "all but signals"),
        ""
    );
}

/// A kernel setting, with its former value.
struct Sysctl(&'static str, String);

impl Sysctl {
    fn set(path: &'static str, value: &str) -> Option<Sysctl> {
        let before = std::fs::read_to_string(path).ok()?;
        std::fs::write(path, value).ok()?;
        Some(Sysctl(path, before))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0, &self.1);
    }
}

/// The same if the kernel leaves processes that change their user open to others of that user (proc_sys_fs(5)). Other
/// tests may run at the same time: their results must hold with either value.
#[test]
fn a_system_that_lets_such_processes_be_looked_into_changes_nothing() {
    if !is_root() {
        skip!("an attack on the server of root needs root");
    }
    let Some(_setting) = Sysctl::set("/proc/sys/fs/suid_dumpable", "1") else {
        skip!("fs.suid_dumpable is for reading only here");
    };
    assert_eq!(
        attacked(&["--router-user", "nobody"], "all but signals"),
        ""
    );
}

#[test]
fn controller_and_router_have_a_user_of_their_own() {
    if !is_root() {
        skip!("becoming other users needs root");
    }
    let (mut options, _folder) = with_sample("");
    options
        .flags
        .extend(["--router-user".to_owned(), "daemon".to_owned()]);
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let user = |pid| processes::user(pid).unwrap();
    assert_eq!(user(server.router()), "daemon");
    assert_eq!(user(controller(&server)), "daemon");
    let worker = server.wait_for_workers("sample", 2)[0];
    assert_eq!(user(worker), "nobody");
    for pid in [server.router(), controller(&server)] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        for line in ["CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{line}: {status}");
        }
        let groups = status.lines().find(|line| line.starts_with("Groups:"));
        assert!(
            !groups
                .unwrap()
                .split_ascii_whitespace()
                .any(|group| group == "0")
        );
    }
    // The router can use the files that main creates for it.
    let body = vec![b'x'; 300_000];
    let mut client = std::net::TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&body).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!server.log().contains("[warn]"), "{}", server.log());
}

#[test]
fn without_a_user_of_their_own_the_log_says_how_to_make_one() {
    if !is_root() || tutti_sys::credentials::lookup("tutti", None).is_ok() {
        skip!("it is about a server of root where there is no user `tutti`");
    }
    let server = Server::start(&ServerOptions::default());
    assert_eq!(processes::user(server.router()).as_deref(), Some("nobody"));
    server.wait_for_log("[warn]");
    server.wait_for_log("useradd --system");
}

/// The control socket belongs to the controller: it responds while there is no router.
#[test]
fn the_configuration_is_read_while_the_router_is_gone() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    server.kill_router();
    let mut stream = UnixStream::connect(server.control()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"GET /config/routes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    // A question waits for the next router.
    assert_eq!(server.call("GET", "/status", &Value::Null).status, 200);
}
