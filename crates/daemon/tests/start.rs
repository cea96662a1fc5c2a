//! Flags, the pid file, starting in the background, failing starts and their messages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use support::{Start, TUTTI, finish, plain_configuration};
use tutti_sys::signal;
use tutti_testkit::{
    Server, ServerOptions, client, files, free_port, is_root, processes, skip, wait_until,
};

fn output(program: &str, flags: &[&str]) -> (bool, String, String) {
    let output = Command::new(program).args(flags).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn version_and_help_are_no_errors() {
    let (ok, stdout, _) = output(TUTTI, &["--version"]);
    assert!(ok);
    assert_eq!(
        stdout,
        format!("tutti version: {}\n", env!("CARGO_PKG_VERSION"))
    );
    let link = files::public_folder();
    let unitd = link.path().join("unitd");
    std::os::unix::fs::symlink(TUTTI, &unitd).unwrap();
    let (ok, stdout, _) = output(unitd.to_str().unwrap(), &["--version"]);
    assert!(ok && stdout.starts_with("unit version: "), "{stdout}");
    assert!(
        stdout.contains("\nconfigured as ./configure --"),
        "{stdout}"
    );
    let tuttid = link.path().join("tuttid");
    std::os::unix::fs::symlink(TUTTI, &tuttid).unwrap();
    let (ok, stdout, _) = output(tuttid.to_str().unwrap(), &["--help"]);
    assert!(ok);
    for flag in [
        "--no-daemon",
        "--control-mode",
        "--modulesdir",
        "--statedir",
        "--tmpdir",
        "--group",
    ] {
        assert!(stdout.contains(flag), "{flag} in {stdout}");
    }
}

#[test]
fn a_mistyped_flag_is_refused_with_a_suggestion() {
    let (ok, _, stderr) = output(TUTTI, &["--no-demon"]);
    assert!(!ok);
    assert!(stderr.contains("did you mean `--no-daemon`?"), "{stderr}");
    let (ok, _, stderr) = output(TUTTI, &["--no-daemon", "--control", "/run/x.sock"]);
    assert!(!ok);
    assert!(stderr.contains("unix:/run/x.sock"), "{stderr}");
}

#[test]
fn the_pid_file_is_there_before_the_control_socket() {
    let mut start = Start::new(TUTTI);
    let mut child = start.command.arg("--no-daemon").spawn().unwrap();
    let mut pid_at_that_moment = None;
    wait_until("the control socket", || {
        let is_there = start.path("control.sock").exists();
        if is_there {
            pid_at_that_moment = Some(start.pid());
        }
        is_there
    });
    assert_eq!(pid_at_that_moment, i32::try_from(child.id()).ok());
    // The file exists from bind(2) on, but connections are accepted from listen(2) on, a moment later.
    wait_until("an answer", || start.is_answering());
    signal::send(start.pid(), libc::SIGQUIT).unwrap();
    assert!(finish(&mut child).0.success());
}

#[test]
fn a_daemon_releases_its_starter_once_it_answers() {
    for name in ["tuttid", "unitd"] {
        let link = files::public_folder();
        let program = link.path().join(name);
        std::os::unix::fs::symlink(TUTTI, &program).unwrap();
        let mut start = Start::new(&program);
        let (status, stderr) = start.finish();
        assert!(status.success(), "{stderr}");
        assert!(start.is_answering());
        let pid = start.pid();
        assert_eq!(processes::title(pid), "tutti: main");
        assert!(start.log().contains("[notice]"));
        let all = processes::tree(pid);
        // Main, controller, router.
        assert_eq!(all.len(), 3);
        signal::send(pid, libc::SIGTERM).unwrap();
        processes::wait_until_gone(&all);
        assert!(!start.path("control.sock").exists() && !start.path("pid").exists());
    }
}

#[test]
fn a_daemon_keeps_nothing_of_its_starter() {
    let start = Start::new(TUTTI);
    let socket = start.path("syslog");
    let _syslog = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    let to = format!("syslog:server=unix:{},tag=tutti", socket.display());
    let log = start.path("log");
    let words = start
        .command
        .get_args()
        .map(|word| if word == log { to.as_ref() } else { word });
    // Like a lock held by `flock`, or a pipe of a caller that captures a program's output.
    let mut child = Command::new("sh")
        .args(["-c", "exec 9>&2; exec \"$@\"", "sh", TUTTI])
        .args(words)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        pipe.read_to_string(&mut said).map(|_| said)
    });
    assert!(child.wait().unwrap().success());
    wait_until("the end of the pipe", || reader.is_finished());
    assert_eq!(reader.join().unwrap().unwrap(), "");
    assert!(start.is_answering());
    signal::send(start.pid(), libc::SIGTERM).unwrap();
}

#[test]
fn a_daemon_that_cannot_start_says_why_at_the_terminal() {
    let mut start = Start::new(TUTTI);
    std::fs::write(start.path("state"), "a file, no folder").unwrap();
    let (status, stderr) = start.finish();
    assert!(!status.success());
    assert!(
        stderr.contains("state") && stderr.starts_with("tutti: "),
        "{stderr}"
    );
    assert!(start.log().contains("[alert]"), "{}", start.log());
    assert!(!start.path("pid").exists());
}

#[test]
fn a_second_instance_is_refused_and_the_first_is_unharmed() {
    let server = Server::start(&ServerOptions::default());
    let folder = server.folder();
    let at = |name: &str| folder.join(name).display().to_string();
    let control = format!("unix:{}", server.control().display());
    let pid_file = at("tutti.pid");

    let same_control = [
        "--no-daemon",
        "--control",
        &control,
        "--pid",
        &pid_file,
        "--statedir",
        &at("other"),
    ];
    let (ok, _, stderr) = output(TUTTI, &same_control);
    assert!(!ok);
    assert!(
        stderr.contains("another instance is running there"),
        "{stderr}"
    );

    let other = format!("unix:{}", at("other.sock"));
    let same_state = [
        "--no-daemon",
        "--control",
        &other,
        "--pid",
        &at("other.pid"),
        "--statedir",
        &at("state"),
    ];
    let (ok, _, stderr) = output(TUTTI, &same_state);
    assert!(!ok);
    assert!(
        stderr.contains("another instance is running with the state folder"),
        "{stderr}"
    );

    assert_eq!(
        std::fs::read_to_string(pid_file).unwrap().trim(),
        server.pid().to_string()
    );
    assert!(!folder.join("other.pid").exists());
    server.call("GET", "/status", &json!(null));
}

#[test]
fn a_socket_left_by_a_killed_server_is_replaced() {
    let mut server = Server::start(&ServerOptions::default());
    let before = server.processes();
    signal::send(server.pid(), libc::SIGKILL).unwrap();
    processes::wait_until_gone(&before);
    assert!(server.control().exists());
    server.start_again(&ServerOptions::default());
}

#[test]
fn the_control_socket_has_the_mode_and_owner_asked_for() {
    use std::os::unix::fs::MetadataExt;
    let server = Server::start(&ServerOptions::default());
    assert_eq!(server.control().metadata().unwrap().mode() & 0o777, 0o600);
    if !is_root() {
        skip!("giving a socket to another user needs root");
    }
    let flags = [
        "--control-mode",
        "0660",
        "--control-user",
        "nobody",
        "--control-group",
        "nogroup",
    ];
    let flags = flags.map(str::to_owned).to_vec();
    let server = Server::start(&ServerOptions {
        flags,
        ..ServerOptions::default()
    });
    let socket = server.control().metadata().unwrap();
    assert_eq!(socket.mode() & 0o777, 0o660);
    assert_eq!(
        socket.uid(),
        tutti_sys::credentials::user_number("nobody").unwrap()
    );
    assert_eq!(
        socket.gid(),
        tutti_sys::credentials::group_number("nogroup").unwrap()
    );
}

#[test]
fn an_ordinary_user_can_run_it() {
    if !is_root() {
        skip!("becoming another user needs root");
    }
    let mut start = Start::as_user("nobody");
    let mut child = start.command.arg("--no-daemon").spawn().unwrap();
    wait_until("the control socket", || {
        start.is_answering() || child.try_wait().unwrap().is_some()
    });
    assert!(start.is_answering(), "{}", start.log());
    let port = free_port();
    let put = |body: &serde_json::Value| {
        client::control(
            &start.path("control.sock"),
            "PUT",
            "/config",
            body.to_string().as_bytes(),
        )
        .unwrap()
    };
    let mut configuration = support::sample_configuration(port);
    let answer = put(&configuration);
    assert_eq!(answer.status, 200, "{}\n{}", answer.text(), start.log());
    assert_eq!(
        client::get(([127, 0, 0, 1], port).into(), "/hello")
            .unwrap()
            .status,
        200
    );
    for process in processes::tree(start.pid()) {
        let user = processes::user(process.pid);
        assert!(
            user.is_none_or(|user| user == "nobody"),
            "{process:?} is another user's"
        );
    }

    configuration["applications"]["sample"]["user"] = json!("root");
    let answer = put(&configuration);
    assert_ne!(answer.status, 200);
    assert!(
        answer.text().contains("started by root"),
        "{}",
        answer.text()
    );

    let privileged = put(&json!({
        "listeners": {"127.0.0.1:81": {"pass": "routes"}}, "routes": [{"action": {"return": 200}}]
    }));
    assert_ne!(privileged.status, 200);
    assert!(
        privileged.text().contains("ports below 1024"),
        "{}",
        privileged.text()
    );

    let all = processes::tree(start.pid());
    signal::send(start.pid(), libc::SIGTERM).unwrap();
    assert!(finish(&mut child).0.success());
    processes::wait_until_gone(&all);
}

/// Returns a command that starts the server on a system that has a user `tutti` with this id, or none.
fn with_own_user(folder: &Path, number: Option<u32>) -> Vec<String> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let mut users: Vec<&str> = users
        .lines()
        .filter(|line| !line.starts_with("tutti:"))
        .collect();
    let own = number.map(|number| format!("tutti:x:{number}:{number}::/:/usr/sbin/nologin"));
    users.extend(own.as_deref());
    let file = folder.join("passwd");
    std::fs::write(&file, users.join("\n") + "\n").unwrap();
    let script = r#"mount --bind "$0" /etc/passwd && exec "$@""#;
    let words = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        file.to_str().unwrap(),
    ];
    words.map(str::to_owned).to_vec()
}

#[test]
fn root_keeps_main_and_gives_the_rest_to_users_without_rights() {
    if !is_root() {
        skip!("it is about a server of root");
    }
    let daemon = tutti_sys::credentials::user_number("daemon").unwrap();
    for (number, own) in [(None, "nobody"), (Some(daemon), "daemon")] {
        let (mut options, folder) = support::with_sample("");
        options.wrapper = with_own_user(folder.path(), number);
        let server = Server::start(&options);
        server.put("/config", &support::sample_configuration(server.port()));
        let all = server.processes();
        assert!(all.len() >= 4, "{all:?}");
        for process in &all {
            let expected = match process.title.as_str() {
                "tutti: main" => "root",
                "tutti: controller" | "tutti: router" => own,
                _ => "nobody",
            };
            let user = processes::user(process.pid);
            assert!(
                user.as_ref().is_none_or(|user| user == expected),
                "{process:?} is {user:?}'s"
            );
        }
        let router = std::fs::read_to_string(format!("/proc/{}/status", server.router())).unwrap();
        let groups = router
            .lines()
            .find(|line| line.starts_with("Groups:"))
            .unwrap();
        assert!(
            !groups.split_ascii_whitespace().any(|group| group == "0"),
            "{groups}"
        );
        assert!(router.contains("NoNewPrivs:\t1"), "{router}");
        assert!(router.contains("CapEff:\t0000000000000000"), "{router}");
    }
}

#[test]
fn modules_are_listed_and_broken_ones_with_their_reason() {
    let (options, folder) = support::with_sample("");
    let broken = folder.path().join("sample-modules/tutti-broken");
    files::script(
        &broken,
        "#!/bin/sh\necho 'libfoo.so is missing' >&2\nexit 1\n",
    );
    let server = Server::start(&options);
    let log = server.log();
    assert!(
        log.contains("[info]") && log.contains("module: php 8.2.0 \""),
        "{log}"
    );
    assert!(
        log.contains("[error]") && log.contains("libfoo.so is missing"),
        "{log}"
    );
    assert_eq!(server.status("/modules/php/version"), json!("8.2.0"));
    let is_form = |line: &str| {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (date, time, level, process) = (word(), word(), word(), word());
        date.len() == 10 && time.len() == 8 && level.starts_with('[') && process.contains('#')
    };
    assert!(log.lines().all(is_form), "{log}");
}

#[test]
fn a_stop_while_modules_are_asked_ends_at_once() {
    let mut start = Start::new(TUTTI);
    let host = start.path("sample-modules/tutti-slow");
    files::script(&host, "#!/bin/sh\ntouch \"$0.asked\"\nsleep 1000 & wait\n");
    let mut child = start.command.arg("--no-daemon").spawn().unwrap();
    let asked = start.path("sample-modules/tutti-slow.asked");
    wait_until("the module to be asked", || asked.exists());
    let all = processes::tree(i32::try_from(child.id()).unwrap());
    assert!(all.len() >= 2, "{all:?}");
    signal::send(i32::try_from(child.id()).unwrap(), libc::SIGTERM).unwrap();
    assert!(finish(&mut child).0.success());
    // It did not wait until the module had used up its time limit.
    assert!(
        !start.log().contains("has not ended after"),
        "{}",
        start.log()
    );
    processes::wait_until_gone(&all);
    assert!(!start.path("pid").exists());
}

#[test]
fn another_version_at_the_same_path_does_not_become_the_router() {
    let folder = files::public_folder();
    let program = folder.path().join("tuttid");
    files::install(Path::new(TUTTI), &program);
    let mut start = Start::new(&program);
    assert!(start.finish().0.success());
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
    let router = |pid: i32| {
        let all = processes::tree(pid);
        all.iter()
            .find(|process| process.title == "tutti: router")
            .map(|process| process.pid)
    };
    let old = router(start.pid()).unwrap();
    signal::send(old, libc::SIGKILL).unwrap();
    wait_until("another router", || {
        router(start.pid()).is_some_and(|pid| pid != old)
    });
    assert!(start.is_answering());
    let all = processes::tree(start.pid());
    signal::send(start.pid(), libc::SIGQUIT).unwrap();
    processes::wait_until_gone(&all);
}

#[test]
fn a_port_in_use_is_reported_and_nothing_changes() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    let second = free_port();
    let mut configuration = plain_configuration(taken.local_addr().unwrap().port());
    configuration["listeners"][format!("127.0.0.1:{second}")] = json!({"pass": "routes"});
    let answer = server.call("PUT", "/config", &configuration);
    assert_eq!(answer.status, 500);
    assert!(
        answer.text().contains("in use") && answer.text().contains("ss -ltnp"),
        "{}",
        answer.text()
    );
    assert_eq!(server.get("/").status, 200);
    // The address bound for the rejected configuration is free again.
    wait_until("the other port to be free", || {
        std::net::TcpListener::bind(("127.0.0.1", second)).is_ok()
    });
    assert_eq!(
        server.call("GET", "/config", &json!(null)).json(),
        plain_configuration(server.port())
    );
}
