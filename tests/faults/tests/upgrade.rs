//! Upgrades while requests run: docs/operate/upgrade.md, by example.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_faults::{Site, print_outcome, scaled};
use tutti_testkit::client::Client;
use tutti_testkit::{
    Gate, Load, PATIENCE, ServerOptions, client, files, processes, server, wait_until,
};

/// A program of the test's own, to be replaced on disk.
struct Program {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Program {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("tutti");
        let program = Program {
            _folder: folder,
            path,
        };
        program.install_built();
        program
    }

    fn options(&self) -> ServerOptions {
        ServerOptions {
            program: Some(self.path.clone()),
            ..ServerOptions::default()
        }
    }

    /// As a package does: the new file gets the name of the old one, which goes on being run.
    fn install(&self, make: impl FnOnce(&Path)) {
        let new = self.path.with_file_name("next");
        let _ = fs::remove_file(&new);
        make(&new);
        fs::rename(&new, &self.path).unwrap();
    }

    fn install_built(&self) {
        let built = server::binaries().join("tutti");
        self.install(|new| {
            if fs::hard_link(&built, new).is_err() {
                files::install(&built, new);
            }
        });
    }

    fn install_text(&self, text: &str) {
        self.install(|new| files::script(new, text));
    }

    /// The built program, after something else.
    fn install_after(&self, before: &str) {
        let built = server::binaries().join("tutti");
        self.install_text(&format!(
            "#!/bin/sh\n{before}\nexec {} \"$@\"\n",
            built.display()
        ));
    }
}

/// `tutti upgrade`.
fn upgrade(site: &Site) -> client::Reply {
    site.server.call("POST", "/control/upgrade", &Value::Null)
}

fn total(site: &Site) -> u64 {
    site.server.status("/requests/total").as_u64().unwrap()
}

fn routers(site: &Site) -> Vec<i32> {
    site.server.pids("tutti: router")
}

#[test]
fn twenty_upgrades_under_load_lose_nothing() {
    let program = Program::new();
    let site = Site::start(&json!(2), &program.options());
    let kept = site.load(8, 2);
    let mut options = site.load_options(4, 0);
    options.keep_alive = false;
    options.request =
        b"GET /page?n=7&ms=0 HTTP/1.1\r\nHost: load.test\r\nConnection: close\r\n\r\n".to_vec();
    let anew = Load::start(&options);
    let main = site.server.pid();
    let upgrades = scaled(20, 100);
    let mut counted = 0;
    for _ in 0..upgrades {
        assert!(kept.wait_for_answers(20, PATIENCE) && anew.wait_for_answers(20, PATIENCE));
        let before = routers(&site);
        program.install_built();
        let reply = upgrade(&site);
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
        wait_until("the former router has ended", || {
            let now = routers(&site);
            now.len() == 1 && !before.contains(&now[0])
        });
        let now = total(&site);
        assert!(now > counted, "{now} requests after {counted}");
        counted = now;
    }
    site.wait_for_workers(2);
    let (kept, anew) = (kept.stop(), anew.stop());
    print_outcome(&format!("{upgrades} upgrades, connections kept"), &kept);
    print_outcome(&format!("{upgrades} upgrades, a connection each"), &anew);
    assert_eq!((kept.failures(), kept.refused), (0, 0), "{kept}");
    assert_eq!((anew.failures(), anew.refused), (0, 0), "{anew}");
    assert_eq!(
        total(&site),
        kept.answered + anew.answered,
        "the statistics go on"
    );
    assert_eq!(site.server.pid(), main);
    let written = fs::read_to_string(site.server.folder().join("tutti.pid")).unwrap();
    assert_eq!(written.trim(), main.to_string());
    // The one that serves takes changes, and a restart.
    site.server
        .put("/config/applications/site/processes", &json!(3));
    site.wait_for_workers(3);
}

#[test]
fn a_kept_connection_gets_one_more_answer_and_is_closed() {
    let program = Program::new();
    let site = Site::start(&json!(1), &program.options());
    let mut kept = Client::to(site.server.address());
    let mut is_kept = || {
        kept.send("GET /file.txt HTTP/1.1\r\nHost: test\r\n\r\n");
        let reply = kept.response("GET");
        assert_eq!(reply.status, 200);
        reply.keeps_connection()
    };
    assert!(is_kept());
    site.server.signal(libc::SIGUSR2);
    wait_until("two routers", || routers(&site).len() == 2);
    site.server.wait_for_log("serves; the former");
    // Main says so when it tells the former: that may not have heard it yet.
    while is_kept() {}
    assert!(kept.is_closed());
    wait_until("one router", || routers(&site).len() == 1);
}

#[test]
fn a_request_under_way_is_answered_by_the_one_who_took_it() {
    let program = Program::new();
    // The former may take one more request, which its second process answers.
    let site = Site::start(&json!(2), &program.options());
    let address = site.server.address();
    let gate = Gate::new();
    let target = format!("/page?n=7&file={}", gate.file().display());
    let slow = std::thread::spawn(move || client::get(address, &target).unwrap());
    wait_until("it has begun", || {
        site.server.status("/applications/site/requests/active") == json!(1)
    });
    let before = site.server.wait_for_workers("site", 2);
    assert_eq!(upgrade(&site).status, 200);
    assert_eq!(
        site.server.get("/page?n=1").status,
        200,
        "the new one serves meanwhile"
    );
    assert!(before.iter().any(|worker| processes::is_running(*worker)));
    gate.open();
    let reply = slow.join().unwrap();
    assert_eq!((reply.status, reply.text().as_str()), (200, "ok:7:0"));
    wait_until("the old workers leave", || {
        !before.iter().any(|worker| processes::is_running(*worker))
    });
}

#[test]
fn a_program_that_cannot_take_over_changes_nothing() {
    let program = Program::new();
    let site = Site::start(&json!(2), &program.options());
    let load = site.load(4, 1);
    let before = (routers(&site), site.server.wait_for_workers("site", 2));
    let cases = [
        ("no program at all", "cannot be run"),
        ("#!/bin/sh\necho out of order >&2; exit 3\n", "out of order"),
        ("#!/bin/sh\nexit 0\n", "does not report"),
        ("#!/bin/sh\nkill -SEGV $$\n", "SIGSEGV"),
        ("#!/no/such/interpreter\n", "cannot be run"),
        (
            "#!/bin/sh\n[ \"$1\" = --no-daemon ] && { echo no such argument >&2; exit 1; }\n",
            "no such argument",
        ),
    ];
    for (text, words) in cases {
        program.install_text(text);
        let reply = upgrade(&site);
        assert_eq!(reply.status, 500, "{text}: {}", reply.text());
        assert!(reply.text().contains(words), "{text}: {}", reply.text());
        assert!(load.wait_for_answers(20, PATIENCE));
    }
    fs::remove_file(&program.path).unwrap();
    assert_eq!(upgrade(&site).status, 500);
    wait_until("the processes of before alone", || {
        (routers(&site), site.server.workers("site")) == before
    });
    site.server
        .put("/config/applications/site/environment", &json!({"A": "b"}));
    let outcome = load.stop();
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_new_version_that_does_not_come_up_gives_back_to_the_old_one() {
    let program = Program::new();
    let site = Site::start(&json!(2), &program.options());
    let load = site.load(4, 1);
    let router = routers(&site);
    // Its own processes go on; new ones cannot be started.
    let root = site.server.folder().join("site");
    let elsewhere = site.server.folder().join("elsewhere");
    site.server.put(
        "/config/applications/site/working_directory",
        &json!(elsewhere.parent().unwrap()),
    );
    fs::create_dir(&elsewhere).unwrap();
    site.server.put(
        "/config/applications/site/working_directory",
        &json!(elsewhere),
    );
    fs::remove_dir(&elsewhere).unwrap();
    assert!(root.exists());
    for _ in 0..3 {
        let reply = upgrade(&site);
        assert_eq!(reply.status, 500, "{}", reply.text());
        assert!(reply.text().contains("elsewhere"), "{}", reply.text());
        wait_until("the router of before alone", || routers(&site) == router);
        assert!(load.wait_for_answers(20, PATIENCE));
    }
    // The former program is whole again: it takes changes, and the next upgrade succeeds.
    fs::create_dir(&elsewhere).unwrap();
    site.server
        .put("/config/applications/site/processes", &json!(3));
    let reply = upgrade(&site);
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let outcome = load.stop();
    print_outcome("3 upgrades given back", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
}

#[test]
fn a_second_upgrade_and_a_stop_during_the_first() {
    let program = Program::new();
    let mut site = Site::start(&json!(1), &program.options());
    let gate = site.server.folder().join("gate");
    program.install_after(&format!(
        "case \"$*\" in *trial*) while [ ! -e {} ]; do sleep 0.05; done;; esac",
        gate.display()
    ));
    site.server.signal(libc::SIGUSR2);
    site.server.wait_for_log("upgrade: trying");
    let reply = upgrade(&site);
    assert_eq!(reply.status, 500);
    assert!(reply.text().contains("in progress"), "{}", reply.text());
    fs::write(&gate, "").unwrap();
    site.server.wait_for_log("serves; the former");
    fs::remove_file(&gate).unwrap();
    site.server.signal(libc::SIGUSR2);
    wait_until("another trial", || {
        site.server.log().matches("upgrade: trying").count() == 2
    });
    site.server.signal(libc::SIGQUIT);
    let status = site.server.wait_for_end();
    assert!(status.success(), "{status}; {}", site.server.log());
    assert!(!site.server.folder().join("tutti.pid").exists());
    assert!(!site.server.control().exists());
}

/// Issue 11: a router that is stopped while it starts says that it cannot serve. Main took that for a failed upgrade, became the former
/// program again, and had forgotten the stop.
#[test]
fn a_stop_while_the_new_version_starts_stops_the_server() {
    for signal in [libc::SIGQUIT, libc::SIGTERM] {
        let program = Program::new();
        let mut site = Site::start(&json!(1), &program.options());
        let gate = site.server.folder().join("gate");
        let boot = format!(
            "<?php\nwhile (file_exists('{}')) usleep(10000);\nwhile (tutti_handle_request(fn () => print 'ok'));\n",
            gate.display()
        );
        let script = site.server.write("slow/boot.php", boot);
        site.server.put(
            "/config/applications/slow",
            &json!({
                "type": "php", "mode": "resident", "processes": 1,
                "root": script.parent().unwrap(), "script": "boot.php"
            }),
        );
        fs::write(&gate, "").unwrap();
        site.server.signal(libc::SIGUSR2);
        wait_until("the new version starts the application", || {
            site.server.prototypes("slow").len() == 2
        });
        site.server.signal(signal);
        let status = site.server.wait_for_end();
        let log = site.server.log();
        assert!(status.success(), "{status}; {log}");
        assert!(!log.contains("rolling back"), "{log}");
        assert!(!site.server.control().exists());
    }
}

#[test]
fn sockets_of_all_kinds_go_over() {
    let program = Program::new();
    let site = Site::start(&json!(1), &program.options());
    let path = site.server.folder().join("site.sock");
    let name = format!("tutti-upgrade-{}", std::process::id());
    site.server.put(
        "/config/listeners",
        &json!({
            format!("127.0.0.1:{}", site.server.port()): {"pass": "routes"},
            format!("unix:{}", path.display()): {"pass": "routes"},
            format!("unix:@{name}"): {"pass": "routes"}
        }),
    );
    for _ in 0..2 {
        let reply = upgrade(&site);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(site.server.get("/file.txt").text(), "a file");
        let by_path = client::control(&path, "GET", "/file.txt", b"").unwrap();
        assert_eq!(by_path.text(), "a file");
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let mut stream = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
        stream
            .write_all(b"GET /file.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("a file"), "{text}");
    }
}

#[test]
fn a_link_that_is_changed_leads_to_the_new_program() {
    let (old, new) = (Program::new(), Program::new());
    let link = old.path.with_file_name("current");
    std::os::unix::fs::symlink(&old.path, &link).unwrap();
    let options = ServerOptions {
        program: Some(link.clone()),
        ..ServerOptions::default()
    };
    let site = Site::start(&json!(1), &options);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&new.path, &link).unwrap();
    let reply = upgrade(&site);
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let runs = fs::read_link(format!("/proc/{}/exe", site.server.pid())).unwrap();
    assert_eq!(runs, new.path);
}

#[test]
fn a_killed_main_after_an_upgrade_leaves_nothing_behind() {
    let program = Program::new();
    let site = Site::start(&json!(2), &program.options());
    assert_eq!(upgrade(&site).status, 200);
    wait_until("one router", || routers(&site).len() == 1);
    site.server.kill();
}
