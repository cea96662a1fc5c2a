//! Applications of one user see nothing of each other. SECURITY.md promises it; this attacks it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tutti_sys::credentials::is_root;
use tutti_sys::signal;
use tutti_testkit::{Server, ServerOptions, client, processes, skip, wait_until};

/// The applications' default user.
const NOBODY: u32 = 65_534;

/// Tries all that one process can do to another of its user, with every process of the server that it finds, until its
/// standard input ends. Writes a line for each try that succeeds, and one for each hundred rounds.
const ATTACKER: &str = r#"
import ctypes, os, select, sys
libc = ctypes.CDLL(None, use_errno=True)
own, token = os.getuid(), sys.argv[1]
PIDFD_OPEN, PIDFD_GETFD, SEIZE, DETACH = 434, 438, 0x4206, 17
def title(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode(errors="replace")
def is_victim(pid):
    with open(f"/proc/{pid}/status") as file:
        text = file.read()
    uid = [line for line in text.splitlines() if line.startswith("Uid:")][0].split()
    return int(uid[2]) == own and token in title(pid)
def attempt(what, pid, act):
    try:
        if act():
            print("taken", what, title(pid).replace("\0", " "), flush=True)
    except OSError:
        pass
def take(pid):
    pidfd = libc.syscall(PIDFD_OPEN, pid, 0)
    if pidfd < 0:
        return False
    got = [fd for fd in (libc.syscall(PIDFD_GETFD, pidfd, number, 0) for number in range(3, 10)) if fd >= 0]
    for fd in got + [pidfd]:
        os.close(fd)
    return bool(got)
def seize(pid):
    done = libc.ptrace(SEIZE, pid, None, None) == 0
    if done:
        libc.ptrace(DETACH, pid, None, None)
    return done
def read(path):
    with open(path, "rb") as file:
        return file.read(1) != b""
rounds = 0
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        pid = int(name)
        try:
            if not is_victim(pid):
                continue
        except OSError:
            continue
        attempt("fd", pid, lambda: os.listdir(f"/proc/{pid}/fd"))
        attempt("start", pid, lambda: read(f"/proc/{pid}/fd/6"))
        attempt("mem", pid, lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)) is None)
        attempt("environ", pid, lambda: read(f"/proc/{pid}/environ"))
        attempt("maps", pid, lambda: read(f"/proc/{pid}/maps"))
        attempt("pidfd_getfd", pid, lambda: take(pid))
        attempt("ptrace", pid, lambda: seize(pid))
    rounds += 1
    if rounds % 100 == 0:
        print("rounds", rounds, flush=True)
"#;

struct Attacker {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Attacker {
    /// Attacks processes of that user whose title has `token` in it: this test's own.
    fn start(token: &str) -> Attacker {
        let mut child = Command::new("python3")
            .args(["-c", ATTACKER, token])
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (output, told) = (child.stdout.take().unwrap(), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                told.lock().unwrap().push(line);
            }
        });
        let attacker = Attacker { child, lines };
        wait_until("the attacker is at it", || attacker.has("ready"));
        attacker
    }

    fn has(&self, beginning: &str) -> bool {
        let lines = self.lines.lock().unwrap();
        lines.iter().any(|line| line.starts_with(beginning))
    }

    fn taken(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let taken = lines.iter().filter(|line| line.starts_with("taken"));
        taken.cloned().collect()
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Python: PHP itself cannot open a pipe by `/dev/stdout`.
const MODULE: &str = r#"
import json, os, subprocess, sys
def tell(name):
    with open(name, "w") as file:
        file.write("by its name\n")
    return True
def application(environ, start_response):
    sys.stderr.write("to stderr\n")
    seen = {
        "uid": os.getuid(),
        "stdout": tell("/dev/stdout"),
        "maps": len(open("/proc/self/maps").read()) > 0,
        "status": len(open("/proc/self/status").read()) > 0,
        "descriptors": len(os.listdir("/proc/self/fd")) > 2,
        "secret": os.environ.get("SECRET"),
        "module": os.environ.get("TUTTI_MODULE"),
        "program": subprocess.run("echo by a program >/dev/stdout; id -u >&2", shell=True, stderr=subprocess.PIPE).stderr.decode().strip(),
    }
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(seen).encode()]
"#;

fn site(server: &Server, names: &[&str], extra: &Value) {
    server.write(
        "site/index.php",
        "<?php echo json_encode(['uid' => posix_getuid()]);",
    );
    let mut application = json!({
        "type": "php", "root": server.folder().join("site"), "processes": 2,
        "environment": {"SECRET": "s3cr3t"},
    });
    tutti_testkit::set_members(&mut application, extra);
    let applications: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), application.clone()))
        .collect();
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": format!("applications/{}", names[0])}},
            "applications": applications,
        }),
    );
}

/// Issue 10, 1.2: `/proc/PID/fd` of another worker opened its segment for writing, and the document with its passwords.
#[test]
fn applications_of_one_user_cannot_look_into_each_other_at_any_moment() {
    if !is_root() {
        skip!("a server that becomes other users needs root");
    }
    let server = Server::start(&ServerOptions::default());
    let token = format!("hidden-{}", std::process::id());
    let (blog, shop) = (format!("{token}-blog"), format!("{token}-shop"));
    let attacker = Attacker::start(&token);
    site(&server, &[&blog, &shop], &json!({}));
    // Each start is a moment between the exec as the user and the first instruction of the host.
    for _ in 0..15 {
        let before = server.prototypes(&blog);
        server.restart(&blog);
        wait_until("the former processes have gone", || {
            !before.iter().any(|pid| processes::is_running(*pid))
        });
        let worker = server.wait_for_workers(&shop, 2)[0];
        signal::send(worker, libc::SIGKILL).unwrap();
        wait_until("it is replaced", || {
            let now = server.workers(&shop);
            now.len() == 2 && !now.contains(&worker)
        });
    }
    wait_until("the attacker has tried a lot", || {
        attacker.has("rounds") || !attacker.taken().is_empty()
    });
    assert_eq!(attacker.taken(), Vec::<String>::new());
    assert_eq!(server.get("/").status, 200);
    // The attacker knows its trade: a process that is not hidden has nothing that it does not take.
    let mut victim = Command::new("sleep")
        .arg0(format!("{token}-victim"))
        .arg("1000")
        .uid(NOBODY)
        .gid(NOBODY)
        .spawn()
        .unwrap();
    wait_until("it takes what is not hidden", || {
        let taken = attacker.taken().join("\n");
        let ways = ["fd", "mem", "environ", "maps", "ptrace"];
        ways.iter()
            .all(|way| taken.contains(&format!("taken {way} {token}-victim")))
    });
    let others = attacker.taken();
    // First the one that holds it: the tracer of a process learns of its end before its parent.
    drop(attacker);
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(
        others.iter().all(|line| line.contains("-victim")),
        "{others:?}"
    );
}

#[test]
fn what_an_application_needs_of_itself_it_can_still_have() {
    if !is_root() {
        skip!("a server that becomes other users needs root");
    }
    let server = Server::start(&ServerOptions::default());
    for extra in [json!({}), json!({"user": "auto"}), json!({"user": "root"})] {
        server.write("python/seen.py", MODULE);
        let mut application = json!({
            "type": "python", "path": server.folder().join("python"), "module": "seen",
            "environment": {"SECRET": "s3cr3t"},
        });
        tutti_testkit::set_members(&mut application, &extra);
        server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/blog"}},
                "applications": {"blog": application},
            }),
        );
        let reply = server.get("/");
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), server.log());
        let seen = reply.json();
        assert_eq!(seen["secret"], json!("s3cr3t"), "{seen}");
        assert_eq!(seen["module"], Value::Null, "{seen}");
        for name in ["stdout", "maps", "status", "descriptors"] {
            assert_eq!(seen[name], json!(true), "{name}: {seen}");
        }
        assert_eq!(seen["program"], json!(seen["uid"].to_string()), "{seen}");
    }
    wait_until("its output is in the log", || {
        let log = server.log();
        let lines = ["by its name", "to stderr", "by a program"];
        lines
            .iter()
            .all(|line| log.contains(&format!("\"blog\" output: {line}")))
    });
}

/// Issue 10, 1.2: a user of its own for each application, by option.
#[test]
fn each_application_can_have_a_user_of_its_own() {
    if !is_root() {
        skip!("a server that becomes other users needs root");
    }
    let mut server = Server::start(&ServerOptions::default());
    let auto = json!({"user": "auto"});
    site(&server, &["blog", "shop"], &auto);
    let users = |server: &Server| -> Vec<String> {
        ["blog", "shop"]
            .iter()
            .map(|name| {
                let worker = server.wait_for_workers(name, 2)[0];
                let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
                let find = |key: &str| {
                    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
                    line.split_ascii_whitespace().nth(1).unwrap().to_owned()
                };
                assert_eq!(find("Uid:"), find("Gid:"), "{status}");
                assert_eq!(find("Uid:"), find("Groups:"), "{status}");
                find("Uid:")
            })
            .collect()
    };
    let before = users(&server);
    assert_ne!(before[0], before[1]);
    for user in &before {
        let number: u32 = user.parse().unwrap();
        assert!((61184..=65519).contains(&number), "{number}");
    }
    let seen = server.get("/").json();
    assert_eq!(seen["uid"].to_string(), before[0], "{seen}");
    // The same after a restart of the server.
    server.signal(libc::SIGQUIT);
    server.wait_for_end();
    server.start_again(&ServerOptions::default());
    wait_until("it serves again", || {
        server.workers("blog").len() == 2 && server.workers("shop").len() == 2
    });
    assert_eq!(users(&server), before);
    // With a user namespace it is the one user that there is; in ranges without it the start is refused.
    let isolated = json!({"user": "auto", "isolation": {"namespaces": {"credential": true}}});
    site(&server, &["blog", "shop"], &isolated);
    assert_eq!(server.get("/").json()["uid"].to_string(), before[0]);
    let ranges = json!([{"container": 0, "host": 100_000, "size": 10}]);
    let refused = server.call(
        "PUT",
        "/config/applications/blog/isolation",
        &json!({"namespaces": {"credential": true}, "uidmap": ranges, "gidmap": ranges}),
    );
    assert_ne!(refused.status, 200, "{}", refused.text());
    assert!(refused.text().contains("uidmap"), "{}", refused.text());
}

/// Fills the counter of each event that it has inherited and makes it block, then says so in a file.
const VANDAL: &str = r#"
run lambda { |env|
  (3..255).each do |number|
    begin
      event = IO.for_fd(number, 'r+b', autoclose: false)
      next unless File.readlink("/proc/self/fd/#{number}").include?('eventfd')
      event.read_nonblock(8) rescue nil
      event.write_nonblock([0xfffffffffffffffe].pack('Q'))
      event.fcntl(4, 0)
    rescue SystemCallError, IOError, ArgumentError
    end
  end
  File.write(env['QUERY_STRING'], 'done')
  [200, {}, []]
}
"#;

/// Issue 28, section 1: all applications had the same events, by which they wake the router's threads. One that filled them held up
/// the answers of all others.
#[test]
fn an_application_that_spoils_its_events_holds_up_no_other() {
    let server = Server::start(&ServerOptions::default());
    server.write("site/index.php", "<?php echo 'well';");
    server.write("vandal/app.ru", VANDAL);
    let shared = server.folder().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&shared, all).unwrap();
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/vandal"}, "action": {"pass": "applications/vandal"}},
                {"action": {"pass": "applications/site"}}
            ],
            "applications": {
                "site": {"type": "php", "root": server.folder().join("site")},
                "vandal": {"type": "ruby", "script": server.folder().join("vandal/app.ru")}
            },
        }),
    );
    let (address, done) = (server.address(), shared.join("done"));
    let target = format!("/vandal?{}", done.display());
    // Its own answer may never come.
    std::thread::spawn(move || client::get(address, &target));
    wait_until("it has done it", || done.exists());
    for _ in 0..50 {
        assert_eq!(server.get("/").text(), "well");
    }
}

/// Fills its own event and makes it block: a pipe or an eventfd, whichever the server gives to loops.
const DEAF: &str = r#"
import asyncio, fcntl, os
def spoil():
    for number in range(3, 256):
        try:
            kind = os.readlink(f"/proc/self/fd/{number}")
            if "eventfd" not in kind and "pipe" not in kind:
                continue
            for bytes in [(2 ** 64 - 2).to_bytes(8, "little")] + [b"x" * 8] * 10000:
                os.set_blocking(number, False)
                os.write(number, bytes)
        except OSError:
            pass
        try:
            fcntl.fcntl(number, fcntl.F_SETFL, 0)
        except OSError:
            pass
async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"deaf"})
    asyncio.get_running_loop().call_later(0.2, spoil)
"#;

/// Issue 28, section 1: a listen thread that woke such a worker stood still, and with it all that it served, until the watchdog
/// killed the router.
#[test]
fn an_event_loop_that_cannot_be_woken_holds_up_no_listen_thread() {
    let server = Server::start(&ServerOptions::default());
    server.write("site/index.php", "<?php echo 'well';");
    server.write("deaf/app.py", DEAF);
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/deaf"}, "action": {"pass": "applications/deaf"}},
                {"action": {"pass": "applications/site"}}
            ],
            "applications": {
                "site": {"type": "php", "root": server.folder().join("site")},
                "deaf": {
                    "type": "python", "path": server.folder().join("deaf"), "module": "app",
                    "protocol": "asgi", "limits": {"timeout": 1}
                }
            },
        }),
    );
    let router = server.router();
    for _ in 0..3 {
        let address = server.address();
        // Each listen thread wakes it, or tries to. It may be killed for what it does.
        let asked: Vec<_> = (0..16)
            .map(|_| std::thread::spawn(move || client::get(address, "/deaf")))
            .collect();
        for one in asked {
            let _ = one.join();
        }
        for _ in 0..32 {
            assert_eq!(server.get("/").text(), "well");
        }
    }
    assert_eq!(server.router(), router);
}

/// The path of Node.js that an application's user can execute.
fn node() -> String {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("node"))
        .find(|path| path.exists());
    found.unwrap().to_string_lossy().into_owned()
}

/// Answers with its name.
const NAMED: &str = "require('http').createServer((request, response) => response.end(process.env.NAME)).listen(0);";

/// A server with Node.js applications of these names and further members, each at `/NAME`. The names of all are in their command lines.
fn named(server: &Server, applications: &[(&str, Value)]) -> Value {
    let mut all = json!({});
    let mut routes = Vec::new();
    for (name, extra) in applications {
        let script = server.write(&format!("{name}.js"), NAMED);
        let mut application = json!({
            "type": "node", "runtime": node(), "script": script, "environment": {"NAME": name},
        });
        tutti_testkit::set_members(&mut application, extra);
        all[*name] = application;
        routes.push(json!({
            "match": {"uri": format!("/{name}")},
            "action": {"pass": format!("applications/{name}")},
        }));
    }
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": routes, "applications": all,
    })
}

/// Issue 28: the environment of a Node.js application could be read by others of its user.
#[test]
fn a_node_application_is_hidden_once_its_script_runs() {
    if !is_root() {
        skip!("a server that becomes other users needs root");
    }
    let server = Server::start(&ServerOptions::default());
    let token = format!("hidden-node-{}", std::process::id());
    // Also where its requests come by a socket.
    let other = format!("{token}-socket");
    let by_socket = json!({"environment": {"NAME": other, "TUTTI_NODE_SOCKET": "1"}});
    server.put(
        "/config",
        &named(&server, &[(&token, json!({})), (&other, by_socket)]),
    );
    for name in [&token, &other] {
        assert_eq!(server.get(&format!("/{name}")).text(), *name);
    }
    let attacker = Attacker::start(&token);
    wait_until("the attacker has tried a lot", || {
        attacker.has("rounds") || !attacker.taken().is_empty()
    });
    assert_eq!(attacker.taken(), Vec::<String>::new());
}

/// Issue 28: the sockets of programs were found by process numbers, which are the same in each pid namespace, in a folder that anybody could
/// make before.
#[test]
fn programs_with_the_same_process_number_answer_for_themselves() {
    if !is_root() {
        skip!("namespaces and users need root");
    }
    let server = Server::start(&ServerOptions::default());
    // Somebody else has made all the folders that were used.
    let taken: Vec<_> = (1..200)
        .map(|number| std::env::temp_dir().join(format!("tutti-external-{number}")))
        .filter(|path| std::fs::create_dir(path).is_ok())
        .collect();
    let isolated = |extra: Value| {
        let mut members = json!({"isolation": {"namespaces": {"pid": true}}, "processes": 2});
        tutti_testkit::set_members(&mut members, &extra);
        members
    };
    let applications = [
        ("one", isolated(json!({}))),
        ("two", isolated(json!({}))),
        ("three", isolated(json!({"user": "auto"}))),
        (
            "socket",
            isolated(json!({"environment": {"NAME": "socket", "TUTTI_NODE_SOCKET": "1"}})),
        ),
    ];
    let configuration = named(&server, &applications);
    server.put("/config", &configuration);
    // Another server with the same applications.
    let mut other = Server::start(&ServerOptions::default());
    other.put("/config", &named(&other, &applications));
    let all_answer = |server: &Server, when: &str| {
        for (name, _) in &applications {
            for _ in 0..4 {
                let reply = server.get(&format!("/{name}"));
                assert_eq!(reply.text(), *name, "{when}: {}", server.log());
            }
        }
    };
    all_answer(&server, "at first");
    all_answer(&other, "beside another server");
    for (name, _) in &applications {
        server.restart(name);
    }
    all_answer(&server, "after a restart");
    other.stop(libc::SIGTERM);
    all_answer(&server, "after the other server's end");
    for path in taken {
        std::fs::remove_dir(path).unwrap();
    }
}
