//! Signals, deaths, logs and the stored configuration of a running server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;
use support::{plain_configuration, sample_configuration, with_sample};
use tutti_sys::signal;
use tutti_testkit::{
    Gate, Load, LoadOptions, Server, ServerOptions, client, files, is_root, processes, skip,
    wait_until,
};

fn stops(signal_number: i32) {
    let (options, _folder) = with_sample("");
    let mut server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    assert_eq!(server.get("/hello").status, 200);
    let before = server.processes();
    assert!(before.len() >= 5, "{before:?}");
    server.signal(signal_number);
    let status = server.wait_for_end();
    assert!(status.success(), "{status}");
    processes::wait_until_gone(&before);
    assert!(!server.control().exists());
    assert!(!server.folder().join("tutti.pid").exists());
}

#[test]
fn quit_stops_with_success_and_leaves_nothing() {
    stops(libc::SIGQUIT);
}

#[test]
fn term_stops_with_success_and_leaves_nothing() {
    stops(libc::SIGTERM);
}

#[test]
fn int_stops_with_success_and_leaves_nothing() {
    stops(libc::SIGINT);
}

/// Returns the output of a program that every machine with the tests' packages has.
fn said_by(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Issue 13, 10: the kernel's name of a process was that of the executed in-memory copy of the file.
#[test]
fn ps_and_ss_call_every_process_tutti() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    assert_eq!(server.get("/hello").status, 200);
    let mut names = Vec::new();
    for process in server.processes() {
        let pid = process.pid.to_string();
        let Some(name) = said_by("ps", &["-o", "comm=", "-p", &pid]) else {
            skip!("ps is not installed (package procps)");
        };
        let name = name.trim().to_owned();
        let is_host = process.title.contains("\"sample\"");
        let is_right = match is_host {
            true => name.starts_with("tutti-"),
            false => name == "tutti",
        };
        assert!(is_right, "`ps` names {} `{name}`", process.title);
        names.push(name);
    }
    assert!(names.len() >= 5, "{names:?}");
    let listens = format!("sport = :{}", server.port());
    let control = server.control().display().to_string();
    for words in [
        &["--listening", "--tcp", "--numeric", "--processes", &listens][..],
        &["--listening", "--unix", "--processes", "src", &control],
    ] {
        let Some(said) = said_by("ss", words) else {
            skip!("ss is not installed (package iproute2)");
        };
        let holders: Vec<&str> = said.split("((\"").skip(1).collect();
        assert!(!holders.is_empty(), "{said}");
        for holder in holders {
            assert!(holder.starts_with("tutti\","), "{said}");
        }
    }
}

/// Issue 13, 10: applications had the `HOME` of the user who had started the server.
#[test]
fn a_worker_has_the_home_and_the_names_of_its_user() {
    if !is_root() {
        skip!("becoming the configured user needs root");
    }
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    for user in ["www-data", "nobody"] {
        let mut config = sample_configuration(server.port());
        config["applications"]["sample"]["user"] = user.into();
        server.put("/config", &config);
        let line = said_by("getent", &["passwd", user]).unwrap();
        let home = line.trim().split(':').nth(5).unwrap().to_owned();
        let seen = server.get("/env").text();
        for wanted in [
            format!("HOME={home}"),
            format!("USER={user}"),
            format!("LOGNAME={user}"),
        ] {
            let count = seen.lines().filter(|line| *line == wanted).count();
            assert_eq!(count, 1, "{wanted} in\n{seen}");
        }
        // The configuration takes precedence.
        config["applications"]["sample"]["environment"] = json!({"HOME": "/srv/own"});
        server.put("/config", &config);
        let seen = server.get("/env").text();
        assert!(seen.lines().any(|line| line == "HOME=/srv/own"), "{seen}");
    }
}

#[test]
fn quit_answers_what_has_begun_and_takes_nothing_new() {
    let (options, _folder) = with_sample("");
    answers_what_has_begun(&options, libc::SIGQUIT);
}

#[test]
fn term_does_the_same_where_the_flag_says_so() {
    let (mut options, _folder) = with_sample("");
    options.flags.push("--sigterm=graceful".to_owned());
    answers_what_has_begun(&options, libc::SIGTERM);
}

/// A request in progress gets its response when the server stops, and no new one is accepted.
fn answers_what_has_begun(options: &ServerOptions, signal_number: i32) {
    let mut server = Server::start(options);
    server.put("/config", &sample_configuration(server.port()));
    let address = server.address();
    let gate = Gate::new();
    let target = gate.target();
    let slow = std::thread::spawn(move || client::get(address, &target));
    wait_until("the request to be with the application", || {
        server.status("/applications/sample/requests/active") == json!(1)
    });
    server.signal(signal_number);
    wait_until("the port to be closed", || {
        std::net::TcpStream::connect(address).is_err()
    });
    gate.open();
    let answer = slow.join().unwrap().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "waited\n"));
    assert!(server.wait_for_end().success());
}

#[test]
fn term_does_not_wait_for_what_hangs() {
    let (options, _folder) = with_sample("");
    let mut server = Server::start(&options);
    // A graceful stop would take longer than this test waits.
    let mut configuration = sample_configuration(server.port());
    configuration["settings"]["http"]["drain_timeout"] = json!(3600);
    server.put("/config", &configuration);
    let address = server.address();
    let hanging = std::thread::spawn(move || client::get(address, "/hang"));
    wait_until("the request to be with the application", || {
        server.status("/applications/sample/requests/active") == json!(1)
    });
    let before = server.processes();
    // First gracefully, then immediately.
    server.signal(libc::SIGQUIT);
    wait_until("the port to be closed", || {
        std::net::TcpStream::connect(address).is_err()
    });
    server.stop(libc::SIGTERM);
    processes::wait_until_gone(&before);
    // Reported as failed, or cut off: never reported as a success that did not happen.
    let answer = hanging.join().unwrap();
    assert!(
        answer.as_ref().map_or(true, |answer| answer.status >= 500),
        "{answer:?}"
    );
}

#[test]
fn a_stop_while_an_application_starts_leaves_nothing() {
    for signal_number in [libc::SIGQUIT, libc::SIGTERM] {
        let (options, folder) = with_sample("touch \"$0.started\" 2>/dev/null; sleep 1000 & wait");
        let modules = folder.path().join("sample-modules");
        std::fs::set_permissions(&modules, PermissionsExt::from_mode(0o777)).unwrap();
        let mut server = Server::start(&options);
        let control = server.control().to_path_buf();
        let body = sample_configuration(server.port()).to_string();
        let put = std::thread::spawn(move || {
            client::control(&control, "PUT", "/config", body.as_bytes())
        });
        wait_until("the host to start", || {
            modules.join("tutti-php-sample.started").exists()
        });
        let before = server.processes();
        server.stop(signal_number);
        processes::wait_until_gone(&before);
        let _ = put.join();
    }
}

#[test]
fn processes_that_left_their_group_end_too() {
    // A process started by an application in its own session.
    let (options, _folder) = with_sample("setsid sleep 1234567 &");
    let mut server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let mut before = Vec::new();
    wait_until("the process of its own session runs", || {
        before = server.processes();
        let mut titles = before.iter().map(|process| &process.title);
        titles.any(|title| title.starts_with("sleep 1234567"))
    });
    server.stop(libc::SIGQUIT);
    processes::wait_until_gone(&before);
}

#[test]
fn killing_main_ends_everything() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let before = server.processes();
    assert!(before.len() >= 5, "{before:?}");
    server.signal(libc::SIGKILL);
    processes::wait_until_gone(&before);
}

#[test]
fn killing_main_ends_workers_stuck_in_user_code_without_a_prototype() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let address = server.address();
    let hanging = std::thread::spawn(move || client::get(address, "/hang"));
    wait_until("the request to be with the application", || {
        server.status("/applications/sample/requests/active") == json!(1)
    });
    let before = server.processes();
    for prototype in server.prototypes("sample") {
        signal::send(prototype, libc::SIGKILL).unwrap();
    }
    server.signal(libc::SIGKILL);
    processes::wait_until_gone(&before);
    let _ = hanging.join();
}

#[test]
fn a_killed_router_is_replaced_with_sockets_and_configuration() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    let configuration = sample_configuration(server.port());
    server.put("/config", &configuration);
    for _ in 0..3 {
        let old = server.processes();
        let router = server.kill_router();
        // Not rejected at any moment: main holds the socket, and the new router accepts the connections in its backlog.
        assert_eq!(server.get("/hello").status, 200);
        assert_ne!(server.router(), router);
        assert_eq!(
            server.call("GET", "/config", &json!(null)).json(),
            configuration
        );
        wait_until("the old workers to be gone", || {
            let gone = |title: &str| {
                old.iter()
                    .filter(|p| p.title.contains(title))
                    .all(|p| !processes::is_running(p.pid))
            };
            gone("application") && gone("prototype")
        });
    }
    wait_until("an alert in the log", || {
        server.log().contains("[alert]") && server.log().contains("SIGKILL")
    });
}

/// Issue 28: a router that ended while main had no free descriptors took down the whole server.
#[test]
fn a_router_that_cannot_be_started_for_a_moment_is_started_later() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    let limit = |how: &str| {
        let main = server.pid().to_string();
        let words = ["--pid", &main, &format!("--nofile={how}")];
        let done = std::process::Command::new("prlimit").args(words).status();
        assert!(done.unwrap().success(), "{how}");
    };
    limit("3:");
    let killed = server.kill_router();
    wait_until("main has no descriptor for another", || {
        server.log().contains("starting a router")
    });
    limit("1024:");
    wait_until("the next router serves", || {
        server
            .pids("tutti: router")
            .iter()
            .any(|pid| *pid != killed)
            && client::request(
                server.address(),
                b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            )
            .is_ok_and(|reply| reply.status == 200)
    });
    server.put("/config", &plain_configuration(server.port()));
}

#[test]
fn main_gives_up_when_no_router_comes_to_serve() {
    let (options, folder) = with_sample("test -e \"$0.slow\" && sleep 1000 & wait");
    let mut server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    // From now on the start of applications never ends, so a router that restores the configuration never serves.
    std::fs::write(
        folder.path().join("sample-modules/tutti-php-sample.slow"),
        "",
    )
    .unwrap();
    let mut last = server.router();
    signal::send(last, libc::SIGKILL).unwrap();
    for _ in 0..8 {
        wait_until("another router", || server.router() != last);
        last = server.router();
        signal::send(last, libc::SIGKILL).unwrap();
    }
    let before = server.processes();
    assert!(!server.wait_for_end().success());
    processes::wait_until_gone(&before);
    assert!(
        server.log().contains("[alert]") && server.log().contains("cannot continue"),
        "{}",
        server.log()
    );
    assert!(!server.control().exists());
}

#[test]
fn a_listener_can_be_narrowed_to_one_address() {
    let server = Server::start(&ServerOptions::default());
    let port = server.port();
    let mut configuration = plain_configuration(port);
    configuration["listeners"] = json!({format!("*:{port}"): {"pass": "routes"}});
    server.put("/config", &configuration);
    assert_eq!(server.get("/").status, 200);
    server.put("/config", &plain_configuration(port));
    assert_eq!(server.get("/").status, 200);
    wait_until("the wildcard to be closed", || {
        std::net::TcpStream::connect(("127.0.0.2", port)).is_err()
    });
    server.put("/config", &configuration);
    assert_eq!(
        client::get(([127, 0, 0, 2], port).into(), "/")
            .unwrap()
            .status,
        200
    );
}

#[test]
fn a_router_killed_while_stopping_does_not_stop_the_stop() {
    let (options, _folder) = with_sample("");
    let mut server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let address = server.address();
    let hanging = std::thread::spawn(move || client::get(address, "/hang"));
    wait_until("the request to be with the application", || {
        server.status("/applications/sample/requests/active") == json!(1)
    });
    let before = server.processes();
    let router = server.router();
    server.signal(libc::SIGQUIT);
    signal::send(router, libc::SIGKILL).unwrap();
    assert!(server.wait_for_end().success());
    processes::wait_until_gone(&before);
    let _ = hanging.join();
}

#[test]
fn usr1_opens_all_logs_again() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    let access = server.folder().join("access.log");
    let mut configuration = plain_configuration(server.port());
    configuration["access_log"] = json!({"path": access.display().to_string(), "format": "$uri"});
    server.put("/config", &configuration);
    assert_eq!(server.get("/before").status, 200);
    wait_until("the first access line", || {
        std::fs::read_to_string(&access).is_ok_and(|t| t == "/before\n")
    });

    let log = server.folder().join("tutti.log");
    let (log_old, access_old) = (log.with_extension("1"), access.with_extension("1"));
    std::fs::rename(&log, &log_old).unwrap();
    std::fs::rename(&access, &access_old).unwrap();
    server.signal(libc::SIGUSR1);
    wait_until("the new logs", || log.exists() && access.exists());
    wait_until("a line in the new log", || {
        server.log().contains("logs reopened")
    });
    wait_until("access lines in the new log", || {
        assert_eq!(server.get("/after").status, 200);
        std::fs::read_to_string(&access).is_ok_and(|t| t.contains("/after\n"))
    });
    assert!(
        std::fs::read_to_string(access_old)
            .unwrap()
            .starts_with("/before\n")
    );
    // The router's own lines go to the new file too.
    let size = server.log().len();
    signal::send(server.router(), libc::SIGKILL).unwrap();
    wait_until("more lines", || server.log().len() > size);
}

#[test]
fn the_stored_configuration_is_in_force_after_a_restart() {
    let (options, _folder) = with_sample("");
    let mut server = Server::start(&options);
    let configuration = sample_configuration(server.port());
    server.put("/config", &configuration);
    let file = server.folder().join("state/conf.json");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    server.signal(libc::SIGQUIT);
    server.wait_for_end();
    server.start_again(&options);
    assert_eq!(
        server.call("GET", "/config", &json!(null)).json(),
        configuration
    );
    assert_eq!(server.get("/hello").status, 200);
}

#[test]
fn a_cut_state_file_is_kept_aside_and_reported_with_its_place() {
    let (options, _folder) = with_sample("");
    let mut server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    server.signal(libc::SIGQUIT);
    server.wait_for_end();
    let file = server.folder().join("state/conf.json");
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    server.start_again(&options);
    assert_eq!(
        server.call("GET", "/config", &json!(null)).json(),
        json!({})
    );
    wait_until("the place is in the log", || {
        let log = server.log();
        log.contains("[alert]") && log.contains("cannot be read") && log.contains("line ")
    });
    wait_until("the broken file to be kept aside", || {
        std::fs::read(server.folder().join("state/conf.json.broken"))
            .is_ok_and(|kept| kept == text[..text.len() / 2])
    });
    server.put("/config", &plain_configuration(server.port()));
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn what_can_be_served_of_a_stored_configuration_is_served() {
    let (options, folder) = with_sample("echo 'no database' >&2; exit 7");
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let options = ServerOptions {
        state: Some(state.clone()),
        ..options
    };
    let mut server = Server::start(&options);
    let port = server.port();
    server.signal(libc::SIGTERM);
    server.wait_for_end();
    let whole = json!({
        "listeners": {
            taken.clone(): {"pass": "routes"},
            format!("127.0.0.1:{port}"): {"pass": "routes"},
        },
        "routes": [
            {"match": {"uri": "/app"}, "action": {"pass": "applications/sample"}},
            {"match": {"uri": "/old"}, "action": {"pass": "applications/old"}},
            {"action": {"return": 204}}
        ],
        "applications": {
            "sample": sample_configuration(port)["applications"]["sample"],
            "old": {"type": "php 5", "root": "/old"}
        }
    });
    std::fs::write(state.join("conf.json"), whole.to_string()).unwrap();
    server.start_again(&options);
    assert_eq!(server.get("/").status, 204);
    assert_eq!(server.get("/app").status, 503);
    assert_eq!(server.get("/old").status, 503);
    // The test does not wait for the application's start.
    wait_until("the application has failed", || {
        server
            .status("/problems")
            .to_string()
            .contains("no database")
    });
    let status = server.call("GET", "/status", &json!(null)).json();
    let problems = status["problems"].to_string();
    for part in [taken.as_str(), "in use", "php", "no database"] {
        assert!(problems.contains(part), "{part}: {problems}");
        server.wait_for_log(part);
    }
    assert_eq!(
        status["applications"]["sample"]["failures"]["last"]["output"],
        "no database"
    );
    assert_eq!(
        std::fs::read_to_string(state.join("conf.json")).unwrap(),
        whole.to_string(),
        "the file is as it was"
    );
    assert_eq!(server.call("GET", "/config", &json!(null)).json(), whole);
    // A change concerns the whole configuration, and must be valid as a whole.
    assert!(server.call("PUT", "/config/routes", &json!([])).status >= 400);
    server.put("/config", &plain_configuration(port));
    let status = server.call("GET", "/status", &json!(null)).json();
    assert_eq!(status.get("problems"), None);
}

#[test]
fn an_application_that_has_recovered_is_no_problem_any_more() {
    let folder = files::public_folder();
    let database = folder.path().join("database");
    let before = format!(
        "[ -e {} ] || {{ echo 'no database' >&2; exit 7; }}",
        database.display()
    );
    let (options, modules) = with_sample(&before);
    let state = modules.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let options = ServerOptions {
        state: Some(state.clone()),
        ..options
    };
    let mut server = Server::start(&options);
    let whole = sample_configuration(server.port());
    server.signal(libc::SIGTERM);
    server.wait_for_end();
    std::fs::write(state.join("conf.json"), whole.to_string()).unwrap();
    server.start_again(&options);
    let problems = || server.call("GET", "/status", &json!(null)).json()["problems"].clone();
    wait_until("it is a problem", || {
        problems()[0]["pointer"] == "/applications/sample"
    });
    std::fs::write(&database, "").unwrap();
    wait_until("it is served", || server.get("/hello").status == 200);
    wait_until("it is no problem any more", || problems() == json!(null));
}

/// Issue 28, 1.3: at a start and after the death of a router, files and other applications waited for the slowest
/// application.
#[test]
fn only_the_requests_of_an_application_wait_for_its_start() {
    let folder = files::public_folder();
    let gate = folder.path().join("gate");
    std::fs::write(&gate, "").unwrap();
    let before = format!("while [ -e {} ]; do sleep 0.05; done", gate.display());
    let (options, modules) = with_sample(&before);
    let state = modules.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let options = ServerOptions {
        state: Some(state.clone()),
        ..options
    };
    let mut server = Server::start(&options);
    server.signal(libc::SIGTERM);
    server.wait_for_end();
    let mut whole = sample_configuration(server.port());
    whole["listeners"] = json!({server.address().to_string(): {"pass": "routes"}});
    whole["routes"] = json!([
        {"match": {"uri": "/hello"}, "action": {"pass": "applications/sample"}},
        {"action": {"return": 204}}
    ]);
    std::fs::write(state.join("conf.json"), whole.to_string()).unwrap();
    server.start_again(&options);
    for _ in 0..2 {
        assert_eq!(server.get("/").status, 204);
        server.kill_router();
    }
    wait_until("the last router serves", || {
        client::get(server.address(), "/").is_ok_and(|reply| reply.status == 204)
    });
    let address = server.address();
    let waiting = std::thread::spawn(move || client::get(address, "/hello").unwrap());
    wait_until("a request waits", || {
        server.status("/applications/sample/requests/active") == 1
    });
    assert_eq!(server.get("/").status, 204);
    assert_eq!(server.status("/applications/sample/processes/running"), 0);
    std::fs::remove_file(&gate).unwrap();
    assert_eq!(waiting.join().unwrap().status, 200);
    assert_eq!(server.status("")["problems"], json!(null));
}

#[test]
fn an_application_that_fails_to_start_is_reported_with_its_last_output() {
    let (options, _folder) = with_sample("echo 'I cannot find my library' >&2; exit 7");
    let server = Server::start(&options);
    server.put("/config", &plain_configuration(server.port()));
    let before = server.processes().len();
    let answer = server.call("PUT", "/config", &sample_configuration(server.port()));
    assert_eq!(answer.status, 500, "{}", answer.text());
    let text = answer.text();
    assert!(
        text.contains("I cannot find my library") && text.contains("/applications/sample"),
        "{text}"
    );
    assert_eq!(server.get("/").status, 200);
    // A process that failed to start may still be ending.
    wait_until("the processes of before alone", || {
        server.processes().len() == before
    });
}

#[test]
fn application_output_lands_in_the_log() {
    let (options, _folder) = with_sample("echo 'words of the application' >&2");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    wait_until("the application's words", || {
        server.log().contains("words of the application")
    });
}

/// Returns the nice value, and that of the session if the kernel groups by it.
fn priority(pid: i32) -> (i32, String) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let nice = rest.split_ascii_whitespace().nth(16).unwrap();
    let group = std::fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap_or_default();
    let nice_of_group = group.rsplit_once(" nice ").unwrap_or_default().1;
    (nice.parse().unwrap(), nice_of_group.trim().to_owned())
}

#[test]
fn those_that_replace_others_are_their_equals() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let all = || {
        let mut all = server.workers("sample");
        all.extend(server.prototypes("sample"));
        all
    };
    let first = all();
    let expected = priority(first[0]);
    assert_eq!(expected.0, priority(server.pid()).0);
    server.restart("sample");
    // While starting, they had lower priority than the first ones.
    for pid in all().into_iter().filter(|pid| !first.contains(pid)) {
        assert_eq!(priority(pid), expected);
    }
    assert!(!all().is_empty());
}

#[test]
fn a_restart_of_an_application_replaces_its_processes() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let before = server.wait_for_workers("sample", 2);
    server.restart("sample");
    wait_until("other workers", || {
        let now = server.workers("sample");
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
    let answer = server.call("GET", "/control/applications/none/restart", &json!(null));
    assert_eq!(answer.status, 404);
}

#[test]
fn a_large_configuration_is_nothing_special() {
    let server = Server::start(&ServerOptions::default());
    let mut configuration = plain_configuration(server.port());
    configuration["routes"][0]["match"] =
        json!({"uri": ["/", format!("/{}", "x".repeat(1_000_000))]});
    server.put("/config", &configuration);
    assert_eq!(server.get("/").status, 200);
    server.kill_router();
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_name_of_a_megabyte_is_nothing_special() {
    let (options, _folder) = with_sample("");
    let mut server = Server::start(&options);
    let name = "n".repeat(1_000_000);
    let mut application = json!({});
    application[&name] = json!({"type": "php", "root": "/tmp", "processes": 1});
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": format!("applications/{name}")}},
        "applications": application,
    });
    server.put("/config", &configuration);
    assert_eq!(server.get("/hello").status, 200);
    assert_eq!(
        server.status("/applications")[&name]["processes"]["running"],
        json!(1)
    );
    server.signal(libc::SIGQUIT);
    server.wait_for_end();
    server.start_again(&options);
    assert_eq!(server.get("/hello").status, 200);
}

#[test]
fn a_hundred_applications_are_nothing_special() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    let mut applications = json!({});
    for number in 0..100 {
        applications[format!("app{number}")] =
            json!({"type": "php", "root": "/tmp", "processes": 1});
    }
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": [{"match": {"uri": "/none"}, "action": {"return": 404}}, {"action": {"pass": "applications$uri"}}],
        "applications": applications,
    });
    server.put("/config", &configuration);
    for number in [0, 57, 99] {
        assert_eq!(server.get(&format!("/app{number}")).status, 200);
    }
}

/// Issue 10: the response to a change came before every listen thread had it, and the next request could be served by
/// the former configuration.
#[test]
fn the_request_behind_a_change_is_served_by_it() {
    let server = Server::start(&ServerOptions::default());
    let other = tutti_testkit::free_port();
    let configuration = |status: u16| {
        json!({
            "listeners": {
                format!("127.0.0.1:{}", server.port()): {"pass": "routes"},
                format!("127.0.0.1:{other}"): {"pass": "routes"}
            },
            "routes": [{"match": {"uri": "/load"}, "action": {"return": 200}}, {"action": {"return": status}}]
        })
    };
    server.put("/config", &configuration(200));
    let load = Load::start(&LoadOptions::get(server.address(), "/load", 4));
    let removed = std::net::SocketAddr::from(([127, 0, 0, 1], other));
    for round in 0..40_u16 {
        let status = 201 + round % 2;
        server.put("/config", &configuration(status));
        assert_eq!(server.get("/").status, status);
        let mut kept = client::Client::to(removed);
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        kept.send(request);
        assert_eq!(kept.response("GET").status, status);
        let path = format!("/config/listeners/127.0.0.1:{other}");
        let reply = server.call("DELETE", &path, &json!(null));
        assert_eq!(reply.status, 200, "{}", reply.text());
        // It may be closed already, and this may reset it.
        let _ = kept.stream.write_all(request);
        assert_eq!(kept.fill().unwrap_or(0), 0, "in round {round}");
    }
    let outcome = load.stop();
    assert!(outcome.answered > 0 && outcome.failures() == 0, "{outcome}");
}
