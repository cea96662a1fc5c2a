//! Main's protection against others: links, FIFOs, pipes, a second instance, a cleaner, a hanging router.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use support::{Start, TUTTI, plain_configuration, sample_configuration, with_sample};
use tutti_sys::signal;
use tutti_testkit::{
    Server, ServerOptions, client, files, free_port, is_root, processes, skip, wait_until,
};

/// A user other than root and the applications' user.
const OTHER: u32 = 65_533;

fn with_access_log(server: &Server, path: &Path) -> Value {
    let mut configuration = plain_configuration(server.port());
    configuration["access_log"] = json!(path);
    configuration
}

/// Creates a log folder that belongs to another user, as `/var/log/site` may.
fn folder_of_another(server: &Server) -> std::path::PathBuf {
    let folder = server.folder().join("logs");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(OTHER), Some(OTHER)).unwrap();
    folder
}

fn rotate(server: &Server) {
    let before = server.log().matches("logs reopened").count();
    server.signal(libc::SIGUSR1);
    wait_until("logs are opened again", || {
        server.log().matches("logs reopened").count() > before
    });
}

/// Issue 10, 1.4: a link in place of a log made root append data from clients to any file.
#[test]
fn rotation_follows_no_link_that_another_user_has_made() {
    if !is_root() {
        skip!("a folder of another user needs root");
    }
    let server = Server::start(&ServerOptions::default());
    let folder = folder_of_another(&server);
    let (log, victim) = (folder.join("access.log"), server.write("victim", ""));
    server.put("/config", &with_access_log(&server, &log));
    assert_eq!(server.get("/one").status, 200);
    wait_until("the line is written", || {
        fs::read_to_string(&log).unwrap().contains("/one")
    });
    fs::rename(&log, folder.join("access.log.1")).unwrap();
    symlink(&victim, &log).unwrap();
    rotate(&server);
    server.wait_for_log("is a link");
    assert_eq!(server.get("/two").status, 200);
    // It continues with its former file, and with a new one when the link is gone.
    wait_until("the line is written", || {
        let old = fs::read_to_string(folder.join("access.log.1")).unwrap();
        old.contains("/two")
    });
    assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    fs::remove_file(&log).unwrap();
    rotate(&server);
    // The router is notified after main has logged it.
    wait_until("a line is in the new file", || {
        assert_eq!(server.get("/three").status, 200);
        fs::read_to_string(&log).is_ok_and(|text| text.contains("/three"))
    });
    // The same by a change of the configuration.
    symlink(&victim, folder.join("other.log")).unwrap();
    let changed = server.call(
        "PUT",
        "/config/access_log",
        &json!(folder.join("other.log")),
    );
    assert_ne!(changed.status, 200, "{}", changed.text());
    assert!(changed.text().contains("is a link"), "{}", changed.text());
}

/// Issue 10, 1.4: a FIFO as log blocked main forever, even for SIGTERM.
#[test]
fn a_fifo_in_the_place_of_a_log_stops_nothing() {
    let mut server = Server::start(&ServerOptions::default());
    let log = server.folder().join("access.log");
    server.put("/config", &with_access_log(&server, &log));
    fs::remove_file(&log).unwrap();
    let fifo = |path: &Path| {
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    fifo(&log);
    rotate(&server);
    server.wait_for_log("is a FIFO");
    let other = server.folder().join("other.log");
    fifo(&other);
    let changed = server.call("PUT", "/config/access_log", &json!(other));
    assert_ne!(changed.status, 200, "{}", changed.text());
    assert_eq!(server.get("/").status, 200);
    // The test checks this log for faults: nothing may fail while it is not a file.
    let own = server.folder().join("tutti.log");
    fs::rename(&own, server.folder().join("tutti.log.1")).unwrap();
    fifo(&own);
    server.signal(libc::SIGUSR1);
    wait_until("the old log says so", || {
        let old = fs::read_to_string(server.folder().join("tutti.log.1")).unwrap();
        old.contains("tutti.log` is a FIFO")
    });
    fs::remove_file(&own).unwrap();
    server.stop(libc::SIGTERM);
}

/// Issue 10, 1.16: a log to a pipe without a reader blocked every listen thread.
#[test]
fn logs_to_a_pipe_without_a_reader_stop_nothing() {
    let start = Start::new(TUTTI);
    let log = start.path("log");
    let arguments = start
        .command
        .get_args()
        .map(|word| match Path::new(word) == log {
            true => "/dev/stderr".as_ref(),
            false => word,
        });
    let mut child = std::process::Command::new(TUTTI)
        .args(arguments)
        .arg("--no-daemon")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it answers", || start.is_answering());
    let port = free_port();
    let mut configuration = plain_configuration(port);
    // A line of 10 KB each: a pipe holds 64 KB, and up to a megabyte waits in memory for each log.
    configuration["access_log"] = json!({"path": "/dev/stdout", "format": "$request_line"});
    let put = |path: &str, value: &Value| {
        let body = value.to_string();
        client::control(&start.path("control.sock"), "PUT", path, body.as_bytes()).unwrap()
    };
    assert_eq!(put("/config", &configuration).status, 200);
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let target = format!("/{}", "x".repeat(7000));
    for _ in 0..400 {
        assert_eq!(client::get(address, &target).unwrap().status, 200);
    }
    // The reader continues: it gets a report of the lost lines.
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = output.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    });
    let mut error_output = child.stderr.take().unwrap();
    let log = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let seen = std::sync::Arc::clone(&log);
    let errors = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = error_output.read(&mut buffer) {
            seen.lock()
                .unwrap()
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    wait_until("the log reports lost lines", || {
        client::get(address, "/after").unwrap();
        log.lock()
            .unwrap()
            .contains(" of the access log \"/dev/stdout\" ")
    });
    signal::send(i32::try_from(child.id()).unwrap(), libc::SIGQUIT).unwrap();
    assert!(child.wait().unwrap().success());
    errors.join().unwrap();
    let lines = reader.join().unwrap();
    let whole = format!("GET {target} HTTP/1.1");
    let written = lines.lines().filter(|line| **line == whole).count();
    assert!((100..400).contains(&written), "{written}");
}

/// Issue 10, 1.19: a second instance overwrote the pid file of a running one and deleted it later.
#[test]
fn a_second_instance_with_the_same_pid_file_is_refused() {
    let server = Server::start(&ServerOptions::default());
    let pid = server.folder().join("tutti.pid");
    let before = fs::read_to_string(&pid).unwrap();
    let mut second = Start::new(TUTTI);
    second.command.arg("--no-daemon");
    let arguments: Vec<_> = second
        .command
        .get_args()
        .map(std::ffi::OsStr::to_owned)
        .collect();
    let own = second.path("pid");
    let mut again = std::process::Command::new(TUTTI);
    again
        .args(arguments.iter().map(|word| match Path::new(word) == own {
            true => pid.as_os_str(),
            false => word,
        }))
        .stderr(Stdio::piped());
    let (status, words) = support::finish(&mut again.spawn().unwrap());
    assert!(!status.success());
    let all = format!("{words}{}", second.log());
    let expected = format!("another instance is running as process {}", server.pid());
    assert!(all.contains(&expected) && all.contains("--pid"), "{all}");
    assert_eq!(fs::read_to_string(&pid).unwrap(), before);
    // Also after an upgrade, which replaces the program that holds it.
    server.upgrade();
    let (status, _) = support::finish(&mut again.spawn().unwrap());
    assert!(!status.success());
    assert_eq!(fs::read_to_string(&pid).unwrap(), before);
}

/// Issue 10, 1.19: a router that ended by itself was killed for it, with a false alert.
#[test]
fn a_router_that_ends_by_itself_is_not_killed_for_it() {
    let mut server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    for _ in 0..3 {
        let before = server.router();
        server.upgrade();
        wait_until("the former router has ended", || {
            let line = format!("former router process {before} exited with code 0");
            server.log().contains(&line) || server.log().contains("[alert]")
        });
    }
    server.stop(libc::SIGQUIT);
    assert!(!server.log().contains("[alert]"), "{}", server.log());
}

/// Returns options with these environment variables.
fn with_environment(variables: &[&str]) -> ServerOptions {
    let words = ["env"].iter().chain(variables);
    ServerOptions {
        wrapper: words.map(|word| (*word).to_owned()).collect(),
        ..ServerOptions::default()
    }
}

/// Issue 10, 1.19: a stopped router went unnoticed.
#[test]
fn a_router_that_stands_still_is_replaced() {
    // Longer than an overloaded machine may delay routers that do not hang.
    let server = Server::start(&with_environment(&["TUTTI_WATCHDOG=5"]));
    server.put("/config", &plain_configuration(server.port()));
    let before = server.router();
    signal::send(before, libc::SIGSTOP).unwrap();
    wait_until("another one runs", || {
        !processes::is_running(before) && server.router() != before
    });
    assert_eq!(server.get("/").status, 200);
    server.wait_for_log("[alert]");
    server.wait_for_log(&format!(
        "router process {before} has sent no heartbeat for 5 seconds (it is stopped by a signal)"
    ));
}

/// Issue 28, 1.11: only the router was watched.
#[test]
fn a_controller_that_stands_still_is_replaced() {
    let server = Server::start(&with_environment(&["TUTTI_WATCHDOG=5"]));
    server.put("/config", &plain_configuration(server.port()));
    let controllers = || server.pids("tutti: controller");
    let before = controllers();
    signal::send(before[0], libc::SIGSTOP).unwrap();
    wait_until("another one runs", || {
        let now = controllers();
        now.len() == 1 && now != before
    });
    server.wait_for_log(&format!(
        "controller process {} has sent no heartbeat for 5 seconds (it is stopped by a signal)",
        before[0]
    ));
    server.put("/config/routes", &json!([{"action": {"return": 204}}]));
    assert_eq!(server.get("/").status, 204);
}

/// Issue 28, 1.11: a dead worker was reported as idle as long as its prototype was stopped, and requests got 503.
#[test]
fn a_prototype_that_stands_still_is_replaced() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&ServerOptions {
        flags: options.flags,
        ..with_environment(&["TUTTI_WATCHDOG=5"])
    });
    let mut configuration = sample_configuration(server.port());
    configuration["applications"]["sample"]["processes"] = json!(1);
    server.put("/config", &configuration);
    let prototype = server.prototypes("sample")[0];
    let worker = server.wait_for_workers("sample", 1)[0];
    signal::send(prototype, libc::SIGSTOP).unwrap();
    signal::send(worker, libc::SIGKILL).unwrap();
    assert_eq!(server.get("/hello").status, 200);
    server.wait_for_log(&format!(
        "prototype process {prototype} does not reap its processes"
    ));
    // It is noticed even if it has nothing to do.
    let mut found = Vec::new();
    wait_until("there is another one alone", || {
        found = server.prototypes("sample");
        found.len() == 1 && found[0] != prototype
    });
    let prototype = found[0];
    signal::send(prototype, libc::SIGSTOP).unwrap();
    wait_until("the log reports it", || {
        server.status("/applications/sample/processes")["stopped"] == 1
    });
    wait_until("it is replaced", || !processes::is_running(prototype));
    server.wait_for_log(&format!(
        "process {prototype} has been stopped by a signal for 5 seconds"
    ));
    assert_eq!(server.get("/hello").status, 200);
}

/// Issue 28, 1.13: all had the same value, and the router may be the largest.
#[test]
fn the_kernel_ends_applications_before_the_server() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let value = |pid: i32| -> i32 {
        let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        text.trim().parse().unwrap()
    };
    let own = value(server.pid());
    assert!(own <= value(i32::try_from(std::process::id()).unwrap()));
    for own_process in ["tutti: controller", "tutti: router"] {
        assert_eq!(value(server.pids(own_process)[0]), own, "{own_process}");
    }
    let workers = server.wait_for_workers("sample", 2);
    for pid in server.prototypes("sample").into_iter().chain(workers) {
        assert!(value(pid) > own.max(0), "{pid}");
    }
}

/// Issue 28, 1.12: any application could read the logs of the server.
#[test]
fn logs_are_made_for_the_server_alone() {
    let server = Server::start(&ServerOptions::default());
    let (new, old) = (server.folder().join("new.log"), server.write("old.log", ""));
    fs::set_permissions(&old, fs::Permissions::from_mode(0o604)).unwrap();
    let mut configuration = plain_configuration(server.port());
    configuration["access_log"] = json!([new, old]);
    server.put("/config", &configuration);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&new), 0o640);
    assert_eq!(mode(&old), 0o604, "a file that exists keeps its mode");
    assert_eq!(mode(&server.folder().join("tutti.log")) & 0o037, 0);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_watchdog_that_is_off_leaves_a_router_alone() {
    let server = Server::start(&with_environment(&["TUTTI_WATCHDOG=never"]));
    server
        .wait_for_log("TUTTI_WATCHDOG is `never`, which is neither `off` nor a number of seconds");
}

/// Issue 10, section 3: a hanging router must not block the control API forever.
#[test]
fn a_change_that_a_hanging_router_holds_is_given_up() {
    let folder = files::public_folder();
    let (port, file) = (free_port(), folder.path().join("site.json"));
    fs::write(&file, plain_configuration(port).to_string()).unwrap();
    // No application has to start, so there is no time at all to prepare a change.
    let mut options = with_environment(&["TUTTI_WATCHDOG=off", "TUTTI_CHANGE_SLACK=0"]);
    options.flags = vec!["--config".to_owned(), file.display().to_string()];
    let server = Server::start(&options);
    let router = server.router();
    signal::send(router, libc::SIGSTOP).unwrap();
    let other = json!([{"action": {"return": 404}}]);
    let held = server.call("PUT", "/config/routes", &other);
    assert_eq!(held.status, 503, "{}", held.text());
    assert!(
        held.text().contains("nothing has changed"),
        "{}",
        held.text()
    );
    let kept = server.call("GET", "/config/routes", &Value::Null).json();
    assert_eq!(kept, plain_configuration(port)["routes"]);
    // It continues with its former configuration, unharmed by the change that it was preparing.
    signal::send(router, libc::SIGCONT).unwrap();
    assert!(server.status("/connections").is_object());
    let address = ([127, 0, 0, 1], port).into();
    assert_eq!(client::get(address, "/").unwrap().status, 200);
    assert_eq!(server.router(), router);
}

/// Issue 10: for each change main opened spool files that were not needed, or that the server already had.
#[test]
fn a_change_opens_files_for_bodies_only_where_they_are_needed() {
    let server = Server::start(&ServerOptions::default());
    let temporary = server.folder().join("tmp");
    // Main creates the folder again when a file in it is requested.
    let asks_for_a_file = |path: &str, value: &Value| {
        let _ = fs::remove_dir_all(&temporary);
        server.put(path, value);
        temporary.exists()
    };
    let plain = plain_configuration(server.port());
    assert!(!asks_for_a_file("/config", &plain));
    let proxy = |port: u16| json!([{"action": {"proxy": format!("http://127.0.0.1:{port}")}}]);
    assert!(asks_for_a_file("/config/routes", &proxy(9)));
    assert!(!asks_for_a_file("/config/routes", &proxy(10)));
    let limit = "/config/settings/http/max_body_size";
    server.put("/config/settings", &json!({"http": {}}));
    assert!(asks_for_a_file(limit, &json!(1_000_000)));
    assert!(!asks_for_a_file(limit, &json!(1_000_000)));
    let buffering = "/config/settings/http/response_buffering";
    assert!(asks_for_a_file(buffering, &json!(2_000_000)));
}

/// Issue 10, 1.15: without the folder of temporary files no application started any more, even after it was created
/// again, and after the next router's start none was served.
#[test]
fn a_cleaner_that_removes_the_temporary_folder_stops_nothing() {
    let (options, _folder) = with_sample("");
    let server = Server::start(&options);
    server.put("/config", &sample_configuration(server.port()));
    let temporary = server.folder().join("tmp");
    let remove = || fs::remove_dir_all(&temporary).unwrap();
    remove();
    server.restart("sample");
    assert_eq!(server.get("/hello").status, 200);
    let _ = fs::remove_dir_all(&temporary);
    // A new application, with its own spool.
    let mut other = sample_configuration(server.port())["applications"]["sample"].clone();
    other["processes"] = json!(1);
    let added = server.call("PUT", "/config/applications/other", &other);
    assert_eq!(added.status, 200, "{}; {}", added.text(), server.log());
    server.wait_for_log("has been created again");
    server.put(
        &format!("/config/listeners/127.0.0.1:{}", server.port()),
        &json!({"pass": "applications/other"}),
    );
    let large = format!(
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\nConnection: close\r\n\r\n{}",
        "y".repeat(3_000_000)
    );
    let echoed = client::request(server.address(), large.as_bytes()).unwrap();
    assert_eq!(echoed.body.len(), 3_000_000);
    // The next router serves everything.
    remove();
    let before = server.kill_router();
    wait_until("another router serves", || {
        client::get(server.address(), "/hello").is_ok_and(|reply| reply.status == 200)
    });
    assert_ne!(server.router(), before);
    assert_eq!(server.status("")["problems"], Value::Null);
    assert!(temporary.is_dir());
}

/// An upstream that accepts a request and never responds; with the connection, once there is one.
fn silent_upstream() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Issue 10, 2.10: a server that was stopped was still running after 15 seconds because of an upstream that did not
/// respond.
#[test]
fn a_stop_waits_no_longer_than_its_limit() {
    for (how, seconds) in [(libc::SIGQUIT, Some(1)), (libc::SIGTERM, Some(3600))] {
        let mut server = Server::start(&ServerOptions::default());
        let (upstream, address) = silent_upstream();
        let mut configuration = json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
            "routes": [{"action": {"proxy": format!("http://{address}")}}],
        });
        configuration["settings"]["http"]["drain_timeout"] = json!(seconds);
        server.put("/config", &configuration);
        let mut client = TcpStream::connect(server.address()).unwrap();
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        // It holds the request for as long as this test runs.
        let (_held, _) = upstream.accept().unwrap();
        server.stop(how);
    }
}

/// Issue 10, 2.10: without `drain_timeout` a stop waited an hour.
#[test]
fn a_stop_has_a_bound_of_its_own() {
    assert!(tutti_config::model::Http::STOP_TIME < std::time::Duration::from_secs(15));
    let mut server = Server::start(&ServerOptions::default());
    let (upstream, address) = silent_upstream();
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": [{"action": {"proxy": format!("http://{address}")}}],
    });
    server.put("/config", &configuration);
    let mut client = TcpStream::connect(server.address()).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let (_held, _) = upstream.accept().unwrap();
    server.stop(libc::SIGQUIT);
    assert!(
        server
            .log()
            .contains("`settings.http.drain_timeout` is over"),
        "{}",
        server.log()
    );
}

/// Issue 10, 2.10 and 2.15: a router that was too busy to handle a stop delayed it forever.
#[test]
fn a_stop_does_not_wait_for_a_router_that_does_not_hear_of_it() {
    let options = with_environment(&["TUTTI_WATCHDOG=off"]);
    for how in [libc::SIGQUIT, libc::SIGTERM] {
        let mut server = Server::start(&options);
        server.put("/config", &plain_configuration(server.port()));
        signal::send(server.router(), libc::SIGSTOP).unwrap();
        server.stop(how);
    }
}

/// Issue 10, 1.4: the mode of a listener's socket was set by its name, which may refer to another file by then.
#[test]
fn a_socket_has_its_mode_from_the_start() {
    let server = Server::start(&ServerOptions::default());
    let socket = server.folder().join("site.sock");
    let mut configuration = plain_configuration(server.port());
    configuration["listeners"][format!("unix:{}", socket.display())] = json!({"pass": "routes"});
    server.put("/config", &configuration);
    assert_eq!(
        socket.metadata().unwrap().permissions().mode() & 0o777,
        0o666
    );
}

/// Issue 10, 2.15: a stop must be handled while a huge configuration is read.
#[test]
fn a_stop_is_heard_while_a_huge_configuration_is_read() {
    let mut server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    let mut huge = plain_configuration(server.port());
    let step = |number: usize| json!({"match": {"uri": format!("/{number}/*")}, "action": {"return": 404}});
    huge["routes"] = (0..100_000).map(step).collect();
    let (control, body) = (server.control().to_path_buf(), huge.to_string());
    let controller = server.pids("tutti: controller")[0];
    let ticks = || tutti_sys::proc::stat(controller).map_or(0, |stat| stat.cpu_ticks);
    let before = ticks();
    let change =
        std::thread::spawn(move || client::control(&control, "PUT", "/config", body.as_bytes()));
    wait_until("it is being read", || ticks() > before + 5);
    server.stop(libc::SIGQUIT);
    let _ = change.join();
    // One of the two, complete.
    let stored = fs::read(server.folder().join("state/conf.json")).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    let steps = stored["routes"].as_array().unwrap().len();
    assert!(steps == 1 || steps == 100_000, "{steps}");
}
