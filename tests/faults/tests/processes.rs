//! Processes that are killed while they work.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tutti_faults::{Site, print_outcome, scaled};
use tutti_sys::cgroup;
use tutti_testkit::{PATIENCE, ServerOptions, client, processes, skip, wait_until};

#[test]
fn a_killed_worker_costs_its_own_request_and_nothing_else() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 5);
    let kills = scaled(20, 200);
    for _ in 0..kills {
        assert!(load.wait_for_answers(20, PATIENCE), "the load goes on");
        let victim = site.server.workers("site").pop().expect("a worker");
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        wait_until("the worker is gone", || !processes::is_running(victim));
    }
    site.wait_for_workers(4);
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    print_outcome(&format!("{kills} workers killed"), &outcome);
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(bad_gateways <= kills as u64, "{outcome}");
    assert_eq!(outcome.failures(), bad_gateways, "{outcome}");
    assert_eq!(outcome.refused, 0, "{outcome}");
}

#[test]
fn a_fault_sent_by_kill_ends_a_worker_at_once() {
    let site = Site::start(&json!(2), &ServerOptions::default());
    // The time after which it would be killed must not be what ends it.
    let limits = "/config/applications/site/limits";
    site.server.put(limits, &json!({"drain_timeout": 3600}));
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        site.wait_for_workers(2);
        let victim = site.server.workers("site")[0];
        tutti_sys::signal::send(victim, signal).unwrap();
        wait_until("the worker is gone", || !processes::is_running(victim));
        let line = format!("process {victim} was killed by signal {signal}");
        site.server.wait_for_log(&line);
        assert_eq!(site.server.get("/page?n=7&ms=0").status, 200);
    }
    site.wait_for_workers(2);
}

#[test]
fn a_killed_prototype_costs_nothing() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 2);
    let kills = scaled(6, 60);
    for kill in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE));
        let victim = site.server.prototypes("site").pop().expect("a prototype");
        let old = site.server.workers("site");
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        // Each other one is killed while it is taking over: when the first of its workers are serving.
        let enough = if kill % 2 == 0 { 4 } else { 1 };
        // Those of the one before may go on: where the next one died with a worker half made, they are all there is for a while.
        wait_until("another prototype and its workers", || {
            let prototypes = site.server.prototypes("site");
            let workers = site.server.workers("site");
            let has_new = workers.iter().any(|worker| !old.contains(worker));
            prototypes.len() == 1 && prototypes[0] != victim && has_new && workers.len() >= enough
        });
    }
    assert!(load.wait_for_answers(100, PATIENCE));
    let outcome = load.stop();
    print_outcome(&format!("{kills} prototypes killed"), &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_killed_router_resets_connections_and_never_closes_the_port() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 2);
    let kills = scaled(3, 30);
    for _ in 0..kills {
        assert!(load.wait_for_answers(50, PATIENCE));
        let victim = site.server.router();
        tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
        wait_until(
            "another router",
            || matches!(site.server.pids("tutti: router").as_slice(), [router] if *router != victim),
        );
        assert!(load.wait_for_answers(50, PATIENCE), "it serves again");
        // The workers of the router that died must not pile up.
        site.wait_for_workers(4);
    }
    let outcome = load.stop();
    print_outcome(&format!("{kills} routers killed"), &outcome);
    assert_eq!(outcome.refused, 0, "the port stays open: {outcome}");
    assert_eq!(outcome.hung + outcome.wrong_bodies, 0, "{outcome}");
    assert!(outcome.statuses.is_empty(), "{outcome}");
    // A router's death costs what each client had under way, once.
    assert!(
        outcome.lost + outcome.closed_on_reuse + outcome.broken <= (kills * 16) as u64,
        "{outcome}"
    );
    let state = site
        .server
        .call("GET", "/config/applications/site/processes", &json!(null));
    assert_eq!(state.text().trim(), "4", "the configuration is still there");
}

#[test]
fn a_killed_main_leaves_nothing_behind_and_its_configuration_comes_back() {
    let mut site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(8, 2);
    assert!(load.wait_for_answers(50, PATIENCE));
    let before = site.server.processes();
    assert!(
        before.len() >= 7,
        "main, router, prototype, 4 workers: {before:?}"
    );
    site.server.kill();
    site.server.start_again(&ServerOptions::default());
    assert!(
        load.wait_for_answers(50, PATIENCE),
        "it serves again without being told anything"
    );
    let outcome = load.stop();
    print_outcome("main killed and started again", &outcome);
    assert_eq!(outcome.hung + outcome.wrong_bodies, 0, "{outcome}");
}

/// A cgroup of a test, which knows the processes of a server even if they have lost their parents.
struct Group {
    folder: PathBuf,
    made: Vec<PathBuf>,
}

impl Group {
    /// `None` where this user cannot make one.
    fn new(name: &str) -> Option<Group> {
        let hierarchy = cgroup::hierarchy().ok().flatten()?;
        let folder = hierarchy.join(format!("{name}-{}", std::process::id()));
        let (_, made) = cgroup::make(&hierarchy, &folder).ok()?;
        Some(Group { folder, made })
    }

    /// A command that starts a server in it.
    fn wrapper(&self) -> Vec<String> {
        let script = r#"echo $$ >"$0/cgroup.procs" && exec "$@""#;
        let folder = self.folder.display().to_string();
        vec!["sh".to_owned(), "-c".to_owned(), script.to_owned(), folder]
    }

    /// Those in it, without the ones that only wait to be reaped.
    fn members(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        let numbers = text.lines().filter_map(|line| line.parse().ok());
        numbers.filter(|pid| processes::is_running(*pid)).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = cgroup::kill_all(&self.folder);
        wait_until("the group is empty", || cgroup::is_empty(&self.folder));
        cgroup::remove(&self.made);
    }
}

/// Issue 28: processes that a burst of kills leaves without their parents had not been looked for.
#[test]
fn a_burst_of_kills_leaves_no_process_behind() {
    let Some(group) = Group::new("tutti-faults-burst") else {
        skip!("a cgroup needs root and a hierarchy of version 2");
    };
    let options = ServerOptions {
        wrapper: group.wrapper(),
        ..ServerOptions::default()
    };
    let mut site = Site::start(&json!(3), &options);
    // A program of its own has one process more: the worker that relays to it.
    let program = site.server.write(
        "program.py",
        "import http.server, os\n\
         http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n",
    );
    let application = json!({
        "type": "external", "protocol": "http", "processes": 2, "executable": "/usr/bin/python3", "arguments": [program]
    });
    site.server
        .put("/config/applications/program", &application);
    let bursts = scaled(8, 60);
    for burst in 0..bursts {
        let main = site.server.pid();
        let mut victims = site.server.processes();
        victims.retain(|process| process.pid != main && process.title != "tutti: controller");
        // Parents before their children, and the other way round.
        if burst % 2 == 1 {
            victims.reverse();
        }
        for victim in &victims {
            let _ = tutti_sys::signal::send(victim.pid, libc::SIGKILL);
        }
        wait_until("the site serves again", || {
            client::request(
                site.server.address(),
                b"GET /page?n=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            )
            .is_ok_and(|reply| reply.text() == "ok:1:0")
        });
        // Every other time the next burst meets those that are still starting.
        if burst % 3 == 0 {
            site.wait_for_workers(3);
            site.server.wait_for_workers("program", 2);
        }
        wait_until("each process has its parent", || {
            // In this order: what is started meanwhile is in the second list.
            let members = group.members();
            let tree = site.server.processes();
            members.iter().all(|pid| {
                tree.iter().any(|process| process.pid == *pid) || !processes::is_running(*pid)
            })
        });
    }
    // Main and all others at once, while some of them are starting.
    for _ in 0..scaled(3, 20) {
        let mut victims = group.members();
        let half = victims.len() / 2;
        victims.rotate_left(half);
        for victim in victims {
            let _ = tutti_sys::signal::send(victim, libc::SIGKILL);
        }
        site.server.wait_for_end();
        wait_until("nothing is left", || group.members().is_empty());
        site.server.start_again(&options);
    }
}

/// Issue 28: what a program had started went on when its worker was killed, and more of it with each kill.
#[test]
fn what_a_program_has_started_ends_with_its_worker() {
    let mut site = tutti_testkit::Site::new("app", &ServerOptions::default());
    let program = site.server.write(
        "program.py",
        "import http.server, os\n\
         class Handler(http.server.BaseHTTPRequestHandler):\n    \
             def do_GET(self):\n        \
                 body = str(os.getpid()).encode()\n        \
                 self.send_response(200)\n        \
                 self.send_header('Content-Length', str(len(body)))\n        \
                 self.end_headers()\n        \
                 self.wfile.write(body)\n\
         http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n",
    );
    // The server is the child of a shell, as with `npm start`; another is left behind, and is to go on while its program does.
    let left = site.server.folder().join("left");
    let command = format!(
        "(sleep 1000 & echo $! >{left}) && (sleep 0.01 &) && python3 {program}; true",
        left = left.display(),
        program = program.display()
    );
    fs::write(&left, "").unwrap();
    fs::set_permissions(&left, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    site.application = json!({
        "type": "external", "protocol": "http", "processes": 1, "executable": "/bin/sh", "arguments": ["-c", command]
    });
    site.configure(&json!({}));
    for _ in 0..scaled(3, 30) {
        let server: i32 = site.text("/").parse().unwrap();
        let left: i32 = fs::read_to_string(&left).unwrap().trim().parse().unwrap();
        assert!(processes::is_running(server) && processes::is_running(left));
        let worker = site.workers()[0];
        tutti_sys::signal::send(worker, libc::SIGKILL).unwrap();
        wait_until("all that it had started has ended", || {
            !processes::is_running(server) && !processes::is_running(left)
        });
        wait_until("the next worker", || {
            site.workers().first().is_some_and(|next| *next != worker)
        });
    }
}

#[test]
fn restarts_of_an_application_cost_nothing() {
    let site = Site::start(&json!(4), &ServerOptions::default());
    let load = site.load(16, 2);
    let restarts = scaled(20, 200);
    for _ in 0..restarts {
        site.server.restart("site");
        assert!(load.wait_for_answers(10, PATIENCE));
    }
    site.wait_for_workers(4);
    let outcome = load.stop();
    print_outcome(&format!("{restarts} restarts"), &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_graceful_stop_answers_what_has_begun() {
    let mut site = Site::start(&json!(4), &ServerOptions::default());
    let log = site.server.folder().join("access.log");
    site.server.put("/config/access_log", &json!(log));
    let load = site.load(16, 20);
    assert!(load.wait_for_answers(50, PATIENCE));
    site.server.signal(libc::SIGQUIT);
    let status = site.server.wait_for_end();
    let outcome = load.stop();
    print_outcome("stopped by SIGQUIT", &outcome);
    assert!(status.success(), "{status}");
    assert_eq!(
        outcome.hung + outcome.wrong_bodies + outcome.broken,
        0,
        "{outcome}"
    );
    assert!(outcome.statuses.is_empty(), "{outcome}");
    // Whatever reaches the server is answered, also what a client was about to send.
    let begun = fs::read_to_string(log).unwrap().lines().count() as u64;
    assert_eq!(outcome.answered, begun, "{outcome}");
    assert_eq!(outcome.lost + outcome.closed_on_reuse, 0, "{outcome}");
}
