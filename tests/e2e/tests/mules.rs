//! `docs/operate/jobs.md`: what a mule is given, when it is started, started again and stopped.

use std::collections::HashSet;
use std::fs;

use serde_json::{Value, json};
use tutti_e2e::commands::{Site, shell, sleeper, wait_for_end};
use tutti_e2e::documents::{chapter, examples, json_examples};
use tutti_sys::signal;
use tutti_testkit::{Server, ServerOptions, files, is_root, processes, skip, wait_until};

/// Notes its start and end, and that no other runs beside it.
const ALONE: &str = r#"
mkdir lock || echo two >> two
trap 'rmdir lock; echo stopped >> stopped; exit 0' TERM
echo $$ >> started
while :; do sleep 0.02; done
"#;

fn start(mules: &Value) -> Site {
    Site::start(mules, &ServerOptions::default())
}

#[test]
fn a_mule_has_what_the_application_has_and_runs_without_a_request() {
    let script = r#"
        echo "$(id -un) $(pwd) $A $B $HOME" > who
        ls /proc/self/fd | tr '\n' ' ' > descriptors
        echo to the log; echo to stderr >&2
        env > environment
        echo x >> up
        exec sleep 100000
    "#;
    let mut mule = shell(script);
    mule["environment"] = json!({"B": "mule"});
    let site = start(&json!({"queue": mule}));
    let pid = site.pid("queue");
    site.wait_for_lines("up", 1);
    let user = processes::user(pid).unwrap();
    let expected = if is_root() {
        "nobody".to_owned()
    } else {
        user.clone()
    };
    assert_eq!(user, expected);
    let who = site.lines("who").join("");
    let work = site.work();
    let begins = format!("{user} {} application mule", work.display());
    assert!(who.starts_with(&begins), "{who}");
    // `ls` itself holds one more, the folder it reads.
    assert_eq!(site.lines("descriptors"), ["0 1 2 3 "]);
    let environment = site.lines("environment");
    assert!(
        !environment.iter().any(|line| line.starts_with("TUTTI_")),
        "{environment:?}"
    );
    for line in ["to the log", "to stderr"] {
        site.server.wait_for_log(&format!("\"app\" output: {line}"));
    }
    site.server
        .wait_for_log(&format!("\"app\" mule \"queue\" started (process {pid})"));
    let status = site.mule("queue");
    assert_eq!(status["restarts"], json!(0));
    assert_eq!(status["each"][0]["state"], json!("running"));
    assert!(status["memory"].as_u64() > Some(0) && status["last_end"].is_null());
    // Nothing of the application itself has been started.
    assert!(site.server.workers("app").is_empty());
    let metrics = site.server.call("GET", "/metrics", &Value::Null).text();
    let line = "tutti_mule_processes{application=\"app\",mule=\"queue\",state=\"running\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn one_that_ends_is_started_again_with_growing_pauses_and_logged() {
    let mut bad = shell("cut -d' ' -f1 /proc/uptime >> starts; echo no broker >&2; exit 3");
    bad["backoff"] = json!(0.1);
    let site = start(&json!({"bad": bad, "good": sleeper()}));
    let good = site.pid("good");
    site.server
        .wait_for_log("\"app\" mule \"bad\" exited with code 3 after 0.");
    site.server
        .wait_for_log("its last output: no broker; restarting in 0.4 seconds");
    let starts = site.wait_for_lines("starts", 5);
    let starts: Vec<f64> = starts.iter().map(|line| line.parse().unwrap()).collect();
    // 0.1 + 0.2 + 0.4 + 0.8 seconds: five starts are not to be had sooner, however fast it ends.
    assert!(starts[4] - starts[0] > 1.2, "{starts:?}");
    wait_until("the pause", || {
        site.mule("bad")["processes"]["waiting"] == json!(1)
    });
    let status = site.mule("bad");
    assert!(status["restarts"].as_u64() >= Some(4), "{status}");
    assert_eq!(status["last_end"]["result"], json!("exited with code 3"));
    assert_eq!(status["last_end"]["output"], json!("no broker"));
    assert_eq!(site.pid("good"), good);
}

#[test]
fn one_that_ends_well_at_once_is_no_mule() {
    let site = start(&json!({"once": shell("exit 0")}));
    site.server
        .wait_for_log("for a command that ends by itself, use `schedules`");
}

#[test]
fn one_that_is_killed_is_replaced_and_what_it_left_is_ended() {
    let site = start(&json!({"queue": shell("setsid sleep 4711 & echo $! > child; wait")}));
    let pid = site.pid("queue");
    let child: i32 = site.wait_for_lines("child", 1)[0].parse().unwrap();
    signal::send(pid, libc::SIGKILL).unwrap();
    wait_for_end(child);
    let other = site.other_pid("queue", pid);
    assert!(processes::is_running(other));
    site.server.wait_for_log("was ended by SIGKILL after");
    site.server
        .wait_for_log("usually by the kernel when memory runs out");
}

#[test]
fn a_change_touches_only_what_it_concerns() {
    let site = start(&json!({"a": sleeper(), "b": sleeper(), "c": sleeper()}));
    let (a, b, c) = (site.pid("a"), site.pid("b"), site.pid("c"));
    let mut two = sleeper();
    two["processes"] = json!(2);
    two["backoff"] = json!(3);
    let other = json!({"command": ["sleep", "200000"]});
    site.server.put(
        "/config/applications/app/mules",
        &json!({"a": two, "b": other}),
    );
    assert!(site.pids("a", 2).contains(&a));
    assert!(site.other_pid("b", b) != b);
    wait_for_end(b);
    wait_for_end(c);
    // Options of the workers do not concern mules.
    site.server.put(
        "/config/applications/app/processes",
        &json!({"max": 3, "spare": 0}),
    );
    assert!(site.pids("a", 2).contains(&a));
    site.server
        .put("/config/applications/app/mules/a/processes", &json!(1));
    assert_eq!(site.pid("a"), a);
    // The environment does.
    site.server
        .put("/config/applications/app/environment", &json!({"A": "new"}));
    assert!(site.other_pid("a", a) != a);
    wait_for_end(a);
    let last = site.pid("a");
    site.server.put("/config", &json!({}));
    wait_for_end(last);
    wait_until("no runner", || {
        site.server.pids("tutti: \"app\" mule").is_empty()
    });
}

#[test]
fn one_that_does_not_end_is_killed_with_all_it_has_started() {
    let deaf = "trap '' TERM; (trap '' TERM; echo up >> up; sleep 4712) & setsid sleep 4713 & echo $! > child; wait; wait; sleep 4714";
    let mut mule = shell(deaf);
    mule["stop_timeout"] = json!(0.3);
    let mut stopped = sleeper();
    stopped["stop_timeout"] = json!(0.3);
    let site = start(&json!({"deaf": mule, "stopped": stopped}));
    let (deaf, stopped) = (site.pid("deaf"), site.pid("stopped"));
    site.wait_for_lines("up", 1);
    let child: i32 = site.wait_for_lines("child", 1)[0].parse().unwrap();
    signal::send(stopped, libc::SIGSTOP).unwrap();
    let all = processes::tree(site.server.pid());
    let theirs: Vec<_> = all
        .into_iter()
        .filter(|one| one.title.contains("sleep") || one.title.contains("mule"))
        .collect();
    assert!(theirs.len() >= 5, "{theirs:?}");
    site.server
        .put("/config/applications/app/mules", &json!({}));
    processes::wait_until_gone(&theirs);
    for pid in [deaf, stopped, child] {
        wait_for_end(pid);
    }
    site.server
        .wait_for_log("did not end within 0.3 seconds (`stop_timeout`) and was killed");
}

#[test]
fn its_own_signal_ends_it() {
    let mut mule = shell(
        "trap 'echo quit > how; exit 0' QUIT; trap 'echo term > how' TERM; echo up > up; while :; do sleep 0.02; done",
    );
    mule["stop_signal"] = json!("QUIT");
    let mut site = start(&json!({"queue": mule}));
    site.wait_for_lines("up", 1);
    let pid = site.pid("queue");
    // A stop of the whole server, too.
    site.server.stop(libc::SIGQUIT);
    wait_for_end(pid);
    assert_eq!(site.lines("how"), ["quit"]);
}

#[test]
fn a_restart_replaces_it() {
    let site = start(&json!({"queue": shell(ALONE)}));
    let pid = site.pid("queue");
    site.wait_for_lines("started", 1);
    // An application that nothing runs of is restarted by the next request; the mule at once.
    site.server.restart("app");
    wait_for_end(pid);
    site.wait_for_lines("started", 2);
    assert_eq!(
        (site.lines("stopped").len(), site.lines("two").len()),
        (1, 0)
    );
    assert_eq!(site.mule("queue")["restarts"], json!(0));
}

#[test]
fn there_is_never_a_second_one_when_the_router_dies_or_is_replaced() {
    let site = start(&json!({"queue": shell(ALONE)}));
    let first = site.pid("queue");
    site.wait_for_lines("started", 1);
    site.server.kill_router();
    wait_for_end(first);
    site.wait_for_lines("started", 2);
    site.server.upgrade();
    site.wait_for_lines("started", 3);
    let last = site.pid("queue");
    assert_eq!(site.lines("two"), Vec::<String>::new());
    assert_eq!(site.lines("stopped").len(), 2);
    let numbers: HashSet<_> = site.lines("started").into_iter().collect();
    assert!(numbers.len() == 3 && numbers.contains(&last.to_string()));
}

#[test]
fn nothing_is_left_when_main_is_killed() {
    let script = "trap '' TERM IO HUP; setsid sleep 4715 & echo $! > child; (setsid sh -c 'sleep 4716; :' &); echo up > up; while :; do sleep 1; done";
    let mut site = start(&json!({"queue": shell(script), "stopped": sleeper()}));
    let (pid, stopped) = (site.pid("queue"), site.pid("stopped"));
    site.wait_for_lines("up", 1);
    let child: i32 = site.wait_for_lines("child", 1)[0].parse().unwrap();
    let runners = site.server.pids("tutti: \"app\" mule \"stopped\"");
    signal::send(runners[0], libc::SIGSTOP).unwrap();
    let all = processes::tree(site.server.pid());
    site.server.signal(libc::SIGKILL);
    let _ = site.server.wait_for_end();
    processes::wait_until_gone(&all);
    for pid in [pid, stopped, child] {
        wait_for_end(pid);
    }
}

#[test]
fn a_runner_that_is_killed_takes_the_command_along() {
    let site = start(&json!({"queue": shell("sleep 4717 & echo $! > child; wait")}));
    let pid = site.pid("queue");
    let child: i32 = site.wait_for_lines("child", 1)[0].parse().unwrap();
    let runner = site.server.pids("tutti: \"app\" mule \"queue\"")[0];
    signal::send(runner, libc::SIGKILL).unwrap();
    for pid in [pid, child] {
        wait_for_end(pid);
    }
    assert_ne!(site.other_pid("queue", pid), pid);
    site.server
        .wait_for_log("ended with its runner, which was killed");
}

#[test]
fn what_cannot_be_run_is_an_error_at_its_place() {
    let site = start(&json!({"queue": sleeper()}));
    let pid = site.pid("queue");
    site.server.write("work/plain", "text");
    fs::write(site.work().join("broken"), "#!/no/such/interpreter\n").unwrap();
    let application = |mule: Value| site.application(&json!({"queue": sleeper(), "new": mule}));
    let refused = |application: Value| -> (String, String) {
        let reply = site
            .server
            .call("PUT", "/config/applications/app", &application);
        // As for workers: the configuration may be right, and the machine not.
        assert_eq!(reply.status, 500, "{}", reply.text());
        let error = reply.json();
        (
            error["path"].as_str().unwrap_or_default().to_owned(),
            reply.text(),
        )
    };
    for (program, says) in [
        ("no-such-program", "in PATH"),
        ("/no/such/program", "install it, or name another"),
        ("./gone", "a relative path starts at `working_directory`"),
        ("./plain", "chmod +x"),
        ("/usr", "is a folder"),
    ] {
        let (place, text) = refused(application(json!({"command": [program]})));
        assert_eq!(place, "/applications/app/mules/new/command/0", "{text}");
        assert!(text.contains(says), "{program}: {text}");
    }
    let mut lost = application(sleeper());
    lost["working_directory"] = json!("/no/such/folder");
    lost["type"] = json!("external");
    let (_, text) = refused(lost);
    assert!(text.contains("/no/such/folder"), "{text}");
    // Nothing was touched.
    assert_eq!(site.pid("queue"), pid);
    assert!(site.mule("new").is_null() || site.mule("new")["pids"].is_null());
}

#[test]
fn a_program_that_goes_is_logged_and_comes_back() {
    let site = Site::empty(&ServerOptions::default());
    let program = site.work().join("consume");
    let script = "#!/bin/sh\nexec sleep 100000\n";
    let put = || files::script(&program, script);
    put();
    let mule = json!({"command": ["./consume"], "backoff": 0.1, "max_backoff": 0.2});
    site.server
        .put("/config", &site.configuration(&json!({"queue": mule})));
    let pid = site.pid("queue");
    fs::remove_file(&program).unwrap();
    signal::send(pid, libc::SIGKILL).unwrap();
    site.server
        .wait_for_log("cannot be run (looking for the program `./consume`)");
    let status = site.mule("queue");
    assert!(
        status["last_end"]["result"]
            .as_str()
            .unwrap()
            .contains("working_directory"),
        "{status}"
    );
    put();
    assert_ne!(site.pid("queue"), pid);
}

#[test]
fn memory_is_bounded_as_for_workers() {
    // A shell doubles a variable until it has more than it may.
    let script = "echo x >> starts; a=0123456789; while :; do [ ${#a} -lt 60000000 ] && a=$a$a; sleep 0.02; done";
    let site = Site::empty(&ServerOptions::default());
    let mut application = site.application(&json!({"queue": shell(script)}));
    application["limits"] = json!({"memory": 20_000_000, "memory_max": 40_000_000});
    site.server
        .put("/config", &json!({"applications": {"app": application}}));
    site.server
        .wait_for_log("bytes of memory, more than `limits.memory");
    site.wait_for_lines("starts", 2);
}

#[test]
fn isolation_is_that_of_the_application() {
    if !is_root() {
        skip!("namespaces need root");
    }
    let site = Site::empty(&ServerOptions::default());
    let script = "echo $$ > number; grep NoNewPrivs /proc/self/status > privileges; setsid sleep 4718 & echo up > up; wait";
    let mut application = site.application(&json!({"queue": shell(script)}));
    application["isolation"] =
        json!({"namespaces": {"pid": true, "mount": true}, "new_privs": false});
    // More than the test has: by its signal, not by force.
    application["mules"]["queue"]["stop_timeout"] = json!(3600);
    let config = json!({"applications": {"app": application}});
    let reply = site.server.call("PUT", "/config", &config);
    if reply.status != 200 {
        skip!("namespaces are not to be had here");
    }
    let pid = site.pid("queue");
    site.wait_for_lines("up", 1);
    assert_eq!(site.lines("privileges"), ["NoNewPrivs:\t1"]);
    // Its number inside is a small one, and the log has the one outside.
    assert!(site.lines("number")[0].parse::<i32>().unwrap() < pid);
    assert!(
        processes::title(pid).starts_with("sh -c"),
        "{}",
        processes::title(pid)
    );
    let mut all = Vec::new();
    // A process that executes a program has no title for a moment.
    wait_until("the mule and its child process have their titles", || {
        all = processes::tree(site.server.pid());
        all.retain(|one| one.title.contains("4718") || one.pid == pid);
        all.len() == 2
    });
    site.server
        .put("/config/applications/app/mules", &json!({}));
    processes::wait_until_gone(&all);
}

#[test]
fn the_files_of_the_application_take_its_output() {
    let site = Site::empty(&ServerOptions::default());
    let mut application =
        site.application(&json!({"queue": shell("echo out; echo err >&2; exec sleep 100000")}));
    application["stdout"] = json!(site.work().join("out.log"));
    application["stderr"] = json!(site.work().join("err.log"));
    site.server
        .put("/config", &json!({"applications": {"app": application}}));
    assert_eq!(site.wait_for_lines("out.log", 1), ["out"]);
    assert_eq!(site.wait_for_lines("err.log", 1), ["err"]);
}

#[test]
fn requests_do_not_notice_a_mule_that_fails() {
    let server = Server::start(&ServerOptions::default());
    server.write("site/index.php", "<?php echo 'hello';");
    let config = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/site"}},
        "applications": {"site": {
            "type": "php", "root": server.folder().join("site"), "script": "index.php",
            "mules": {"bad": {"command": ["false"], "backoff": 0.05, "max_backoff": 0.1}}
        }}
    });
    server.put("/config", &config);
    let workers = server.wait_for_workers("site", 1);
    wait_until("some ends", || {
        assert_eq!(server.get("/").text(), "hello");
        let restarts = server.status("/applications/site/mules/bad/restarts");
        restarts.as_u64() >= Some(5)
    });
    assert_eq!(server.workers("site"), workers);
    assert_eq!(server.status("/applications/site/restarts"), json!(0));
    // Its mules are no reason to replace workers.
    server.put("/config/applications/site/mules", &json!({}));
    assert_eq!(server.workers("site"), workers);
}

/// The queue of the guide: a request puts work into it, and the mule does it.
#[test]
fn the_guide_works_as_it_stands() {
    let site = Site::empty(&ServerOptions::default());
    let guide = chapter(include_str!("../../../docs/operate/jobs.md"), "Mules");
    let scripts = examples(guide, "php");
    site.server.write("shop/index.php", &scripts[0]);
    site.server.write("shop/consume.php", &scripts[1]);
    let root = site.server.folder().join("shop");
    let queue = site.work().join("queue.sqlite");
    let port = site.server.port().to_string();
    let places = [
        ("/var/www/shop", root.to_str().unwrap()),
        ("/var/lib/shop/queue.sqlite", queue.to_str().unwrap()),
        ("8080", port.as_str()),
    ];
    let guides = json_examples(guide, &places);
    site.server.put("/config", &guides[0]);
    let names: Vec<String> = (0..20).map(|number| format!("anna{number}.")).collect();
    for name in &names {
        assert_eq!(
            site.server.get(&format!("/?text={name}")).text(),
            "queued\n"
        );
    }
    for name in &names {
        site.server
            .wait_for_log(&format!("\"shop\" output: sends {name}"));
    }
    let log = site.server.log();
    for name in &names {
        assert_eq!(log.matches(&format!("sends {name}")).count(), 1, "{name}");
    }
    let pids = site.server.status("/applications/shop/mules/mail/pids");
    assert_eq!(pids.as_array().map(Vec::len), Some(2));
    // By its signal, well within the minute that the guide gives it.
    site.server.put("/config", &json!({}));
    for pid in pids.as_array().unwrap() {
        wait_for_end(pid.as_i64().unwrap() as i32);
    }
    assert!(!site.server.log().contains("stop_timeout"));
}
