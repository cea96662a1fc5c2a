//! Commands of `docs/operate/jobs.md`: run at their times, as the application's user, never two at once.

use std::fs;

use serde_json::{Value, json};
use tutti_e2e::commands::{Site, wait_for_end};
use tutti_testkit::{ServerOptions, is_root, processes, wait_until};

/// A site with one schedule, `tidy`, that runs this script each second.
fn start(script: &str, extra: &Value) -> Site {
    let site = Site::empty(&ServerOptions::default());
    site.server
        .put("/config", &configuration(&site, script, extra));
    site
}

fn configuration(site: &Site, script: &str, extra: &Value) -> Value {
    let mut schedule =
        json!({"every": 1, "application": "app", "command": ["sh", "-c", script], "timeout": 60});
    tutti_testkit::set_members(&mut schedule, extra);
    json!({
        "applications": {"app": site.application(&json!({}))},
        "schedules": {"tidy": schedule}
    })
}

fn status(site: &Site, path: &str) -> Value {
    let path = format!("/status/schedules/tidy{path}");
    site.server.call("GET", &path, &Value::Null).json()
}

/// Notes its beginning and end, and that no other runs beside it; waits for a file.
const ALONE: &str = r#"
mkdir lock || echo two >> two
trap 'rmdir lock; echo stopped >> ended; exit 1' TERM
echo $$ >> began
while [ ! -e gate ]; do sleep 0.02; done
rmdir lock; echo well >> ended
"#;

#[test]
fn a_command_runs_as_its_application_does_and_its_end_is_logged() {
    let script = "echo \"$(id -un) $(pwd) $A $B\" >> who; echo one; echo two done";
    let site = start(script, &json!({"environment": {"B": "schedule"}}));
    let who = site.wait_for_lines("who", 2);
    let user = if is_root() {
        "nobody"
    } else {
        who[0].split(' ').next().unwrap()
    };
    let expected = format!("{user} {} application schedule", site.work().display());
    assert_eq!(who[0], expected);
    wait_until("its end", || status(&site, "/last/result") == "succeeded");
    assert_eq!(status(&site, "/last/output"), json!("one\ntwo done"));
    assert_eq!(status(&site, "/failed"), json!(0));
    site.server.wait_for_log("\"app\" output: two done");
    let metrics = site.server.call("GET", "/metrics", &Value::Null).text();
    assert!(metrics.contains("tutti_schedule_runs_total{schedule=\"tidy\",result=\"succeeded\"}"));
    // Nothing of the application itself is started for it.
    assert!(site.server.workers("app").is_empty());
}

#[test]
fn an_exit_that_is_not_0_is_a_failure_with_the_last_lines() {
    let site = start("echo no database >&2; exit 4", &json!({}));
    site.server.wait_for_log(
        "schedule \"tidy\": the run has failed: it exited with code 4; its last output: no database",
    );
    wait_until("a result", || {
        let result = status(&site, "/last/result");
        result
            .as_str()
            .is_some_and(|text| text.starts_with("failed: it exited with code 4"))
    });
    // The next run does not depend on the last.
    site.server
        .put("/config", &configuration(&site, "exit 0", &json!({})));
    wait_until("a result", || status(&site, "/last/result") == "succeeded");
}

#[test]
fn one_that_takes_too_long_is_stopped_and_then_killed() {
    let script =
        "trap '' TERM; setsid sleep 4801 & echo $! >> children; while :; do sleep 0.05; done";
    let site = start(script, &json!({"timeout": 0.5, "stop_timeout": 0.3}));
    let child: i32 = site.wait_for_lines("children", 1)[0].parse().unwrap();
    site.server
        .wait_for_log("it ran for 0.5 seconds (`timeout`) and was killed");
    wait_for_end(child);
    let gentle = "trap 'echo told > told; exit 0' TERM; while :; do sleep 0.02; done";
    let extra = json!({"timeout": 0.5, "stop_timeout": 30});
    site.server
        .put("/config", &configuration(&site, gentle, &extra));
    site.wait_for_lines("told", 1);
    site.server
        .wait_for_log("it ran for 0.5 seconds (`timeout`) and was stopped");
}

#[test]
fn two_are_never_at_once_over_an_upgrade_and_the_one_goes_on() {
    let site = start(ALONE, &json!({}));
    site.wait_for_lines("began", 1);
    site.server
        .wait_for_log("a run is skipped because the previous one is still in progress");
    let former = site.server.router();
    site.server.upgrade();
    wait_until("runs that are skipped", || {
        status(&site, "/skipped").as_u64() >= Some(2)
    });
    assert_eq!(
        (site.lines("began").len(), site.lines("ended").len()),
        (1, 0)
    );
    // Main does not read the end of the run before the former router has ended, too.
    site.server.signal(libc::SIGSTOP);
    fs::write(site.work().join("gate"), "").unwrap();
    wait_until("the end of the former router", || {
        !processes::is_running(former)
    });
    site.server.signal(libc::SIGCONT);
    site.wait_for_lines("began", 2);
    assert_eq!(site.lines("ended")[0], "well");
    assert!(site.lines("two").is_empty());
}

#[test]
fn a_router_that_dies_takes_its_run_along_and_the_next_makes_it_again() {
    let site = start(ALONE, &json!({}));
    let first: i32 = site.wait_for_lines("began", 1)[0].parse().unwrap();
    site.server.kill_router();
    wait_for_end(first);
    site.wait_for_lines("began", 2);
    assert_eq!(site.lines("ended"), ["stopped"]);
    fs::write(site.work().join("gate"), "").unwrap();
    wait_until("a result", || status(&site, "/last/result") == "succeeded");
    assert!(site.lines("two").is_empty());
}

#[test]
fn a_stop_of_the_server_ends_it_and_it_is_made_again() {
    let state = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        state: Some(state.path().to_owned()),
        ..ServerOptions::default()
    };
    let mut site = Site::empty(&options);
    // A long time between two runs: what comes at once after the start is the one that was cut off.
    site.server.put(
        "/config",
        &configuration(&site, ALONE, &json!({"every": 3})),
    );
    let first: i32 = site.wait_for_lines("began", 1)[0].parse().unwrap();
    site.server.stop(libc::SIGTERM);
    wait_for_end(first);
    assert_eq!(site.lines("ended"), ["stopped"]);
    fs::write(site.work().join("gate"), "").unwrap();
    site.server.start_again(&options);
    site.wait_for_lines("began", 2);
    wait_until("a result", || status(&site, "/last/result") == "succeeded");
}

#[test]
fn what_cannot_be_run_is_an_error_at_its_place() {
    let site = Site::empty(&ServerOptions::default());
    let put = |schedule: Value| {
        let config = json!({
            "applications": {"app": site.application(&json!({}))}, "schedules": {"tidy": schedule}
        });
        let reply = site.server.call("PUT", "/config", &config);
        (
            reply.status,
            reply.json()["path"].as_str().unwrap_or_default().to_owned(),
            reply.text(),
        )
    };
    let (status, place, text) =
        put(json!({"every": 60, "application": "app", "command": ["no-such-program"]}));
    assert_eq!(
        (status, place.as_str()),
        (500, "/schedules/tidy/command/0"),
        "{text}"
    );
    let (status, place, text) =
        put(json!({"every": 60, "application": "other", "command": ["true"]}));
    assert_eq!(
        (status, place.as_str()),
        (400, "/schedules/tidy/application"),
        "{text}"
    );
}

#[test]
fn nothing_is_left_when_main_is_killed() {
    let mut site = start("setsid sleep 4802 & echo $! > child; wait", &json!({}));
    let child: i32 = site.wait_for_lines("child", 1)[0].parse().unwrap();
    let all = processes::tree(site.server.pid());
    site.server.signal(libc::SIGKILL);
    let _ = site.server.wait_for_end();
    processes::wait_until_gone(&all);
    wait_for_end(child);
}
