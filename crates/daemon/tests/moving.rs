//! `docs/start/moving-from-unit.md`: the steps, with a state folder as NGINX Unit leaves one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use support::{TUTTI, modules};
use tutti_sys::signal;
use tutti_testkit::{Server, ServerOptions, client, files, free_port, guide, processes};

/// Compact, as Unit stores it, with an escaped slash; and with a trailing comma (issue 28: the server started with an
/// empty configuration).
fn stored(port: u16) -> String {
    format!(
        r#"{{"listeners":{{"127.0.0.1:{port}":{{"pass":"routes"}}}},"routes":[{{"match":{{"uri":"\/old\/*"}},"action":{{"return":301,"location":"\/new"}}}},{{"action":{{"pass":"applications\/blog"}}}}],"applications":{{"blog":{{"type":"php 8","root":"\/tmp","processes":1}},}}}}"#
    )
}

#[test]
fn a_state_folder_of_unit_is_taken_over_under_its_name_and_flags() {
    let folder = files::public_folder();
    let state = folder.path().join("unit");
    std::fs::create_dir_all(state.join("certs")).unwrap();
    std::fs::write(state.join("certs/bundle"), "left alone").unwrap();
    let port = free_port();
    std::fs::write(state.join("conf.json"), stored(port)).unwrap();

    let check = |file: &str, modules: &std::path::Path| {
        Command::new(TUTTI)
            .args(["config", "check"])
            .arg(state.join(file))
            .arg("--modulesdir")
            .arg(modules)
            .output()
            .unwrap()
    };
    let hosts = modules(folder.path(), "");
    let checked = check("conf.json", &hosts);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let checked = check("conf.json", &empty);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(1));
    assert!(said.contains("php 8"), "{said}");

    let unitd = folder.path().join("unitd");
    symlink(TUTTI, &unitd).unwrap();
    let server = Server::start(&ServerOptions {
        flags: vec!["--modules".to_owned(), hosts.display().to_string()],
        state: Some(state.clone()),
        program: Some(unitd),
        ..ServerOptions::default()
    });
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let reply = tutti_testkit::client::get(address, "/old/x").unwrap();
    assert_eq!((reply.status, reply.field("location")), (301, Some("/new")));
    assert_eq!(
        tutti_testkit::client::get(address, "/").unwrap().status,
        200
    );
    assert_eq!(server.status("/applications/blog/processes/running"), 1);
    let log = server.log();
    assert!(
        log.contains("[warn]") && log.contains("there is a comma before `}`"),
        "{log}"
    );
    assert_eq!(
        std::fs::read_to_string(state.join("certs/bundle")).unwrap(),
        "left alone"
    );
}

/// Kills the process of this pid file, even if the test fails.
struct Ends(PathBuf);

impl Ends {
    fn pid(&self) -> Option<i32> {
        std::fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(pid) = self.pid().filter(|pid| processes::is_running(*pid)) {
            let _ = signal::send(pid, libc::SIGTERM);
        }
    }
}

/// The commands of the page, in its order. Its paths are in a folder; the server that is replaced is this one, since
/// there is no Unit here, and `systemctl` stops it.
#[test]
fn the_commands_of_the_page_move_a_running_server() {
    let folder = files::public_folder();
    let place = |name: &str| folder.path().join(name).display().to_string();
    for name in ["bin", "lib", "run", "fresh"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    std::fs::create_dir_all(folder.path().join("lib/unit/certs")).unwrap();
    let hosts = modules(folder.path(), "").display().to_string();
    for name in ["tutti", "tuttid", "unitd"] {
        symlink(TUTTI, folder.path().join("bin").join(name)).unwrap();
    }
    let stop = "#!/bin/sh\n[ \"$*\" = 'stop unit' ] && kill -QUIT $(cat unit.pid) && while [ -e unit.pid ]; do sleep 0.05; done\n";
    files::script(&folder.path().join("bin/systemctl"), stop);
    let port = free_port();
    std::fs::write(folder.path().join("lib/unit/conf.json"), stored(port)).unwrap();

    let run = |line: &str| {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", place("bin")))
            .env(
                "TUTTI_CONTROL",
                format!("unix:{}", place("run/tutti-control.sock")),
            )
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}{stderr}");
        said
    };
    let of_one = format!(
        "--pid {} --log {} --tmpdir {} --modulesdir {hosts}",
        place("unit.pid"),
        place("unit.log"),
        place("run")
    );
    let unit_socket = place("run/control.unit.sock");
    let ends = Ends(folder.path().join("unit.pid"));
    run(&format!(
        "unitd --statedir {} --control unix:{unit_socket} {of_one}",
        place("lib/unit")
    ));
    let former = ends.pid();

    let commands = guide::commands(include_str!("../../../docs/start/moving-from-unit.md"));
    let places = [
        ("/var/run/control.unit.sock", unit_socket.as_str()),
        ("/usr/lib/tutti/modules", &hosts),
        ("/var/lib/unit", &place("lib/unit")),
        (" ...", &format!(" {of_one}")),
        (
            "/var/run/tutti/control.sock",
            &place("run/tutti-control.sock"),
        ),
    ];
    let lines = guide::filled(&commands, &places);
    // Two blocks: checked, then one server is replaced by the other.
    for (line, command) in lines.iter().zip(&commands).take(5) {
        let said = run(line);
        for shown in &command.prints {
            assert!(said.contains(shown), "{line}: {said}");
        }
    }
    assert_ne!(ends.pid(), former);
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let redirect = || client::get(address, "/old/x").unwrap().status;
    assert_eq!(redirect(), 301);
    assert!(folder.path().join("lib/unit.backup/conf.json").exists());
    run("systemctl stop unit");

    // The third: a fresh server is given the configuration, in both ways.
    let fresh = Ends(folder.path().join("fresh/pid"));
    run(&format!(
        "tuttid --statedir {0} --control unix:{1} --pid {0}/pid --log {0}/log --tmpdir {0} --modulesdir {hosts}",
        place("fresh"),
        place("run/tutti-control.sock")
    ));
    assert!(fresh.pid().is_some());
    let put = &lines[5..];
    assert_eq!(put.len(), 2, "{put:?}");
    for line in put {
        run(line);
        assert_eq!(redirect(), 301, "{line}");
        run("printf '{}' | tutti config put --yes");
        assert!(client::get(address, "/old/x").is_err());
    }
    run("tutti stop");
}
