//! `docs/operate/jobs.md`, by example.

use std::fs;
use std::ops::Deref;

use serde_json::{Value, json};
use tutti_e2e::clocks::Clocks;
use tutti_e2e::documents::{chapter, json_examples};
use tutti_testkit::{Server, ServerOptions, wait_until};

/// Notes each run when it begins and when it ends; waits for a file if it is asked to.
const PAGE: &str = r#"<?php
$work = getenv('WORK');
$run = [
    'schedule' => $_SERVER['HTTP_X_TUTTI_JOB_SCHEDULE'] ?? null,
    'method' => $_SERVER['REQUEST_METHOD'],
    'target' => $_SERVER['REQUEST_URI'],
    'host' => $_SERVER['HTTP_HOST'],
    'key' => $_SERVER['HTTP_X_KEY'] ?? null,
    'body' => file_get_contents('php://input'),
];
file_put_contents("$work/began", json_encode($run) . "\n", FILE_APPEND | LOCK_EX);
while (isset($_GET['wait']) && !file_exists("$work/" . $_GET['wait'])) usleep(5000);
file_put_contents("$work/ended", "\n", FILE_APPEND | LOCK_EX);
http_response_code((int)($_GET['status'] ?? 200));
"#;

/// A server with the application, which gets requests from schedules only.
struct Site(tutti_testkit::Site);

impl Deref for Site {
    type Target = tutti_testkit::Site;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Site {
    fn start(schedules: &Value, options: &ServerOptions) -> Site {
        let mut site = tutti_testkit::Site::new("app", options);
        site.server.write("site/index.php", PAGE);
        site.application = json!({
            "type": "php", "root": site.root(), "script": "index.php",
            "processes": 2, "environment": {"WORK": site.work()}
        });
        let site = Site(site);
        site.server.put("/config", &site.configuration(schedules));
        site
    }

    fn configuration(&self, schedules: &Value) -> Value {
        let mut configuration = self.0.configuration(&json!({}));
        configuration["listeners"] = json!({});
        configuration["schedules"] = schedules.clone();
        configuration
    }

    /// The runs that have begun.
    fn began(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.work().join("began")).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    }

    fn ended(&self) -> usize {
        let text = fs::read_to_string(self.work().join("ended"));
        text.unwrap_or_default().lines().count()
    }

    fn wait_for(&self, count: usize) {
        wait_until(&format!("{count} runs"), || self.began().len() >= count);
    }

    fn status(&self, path: &str) -> Value {
        self.server.status(&format!("/schedules/tidy{path}"))
    }
}

#[test]
fn a_schedule_makes_its_request_again_and_again() {
    let schedule = json!({
        "every": 1, "pass": "applications/app", "method": "PUT", "uri": "/tidy?a=b", "host": "site.example",
        "headers": {"X-Key": "secret"}, "body": "all of it"
    });
    let site = Site::start(&json!({"tidy": schedule}), &ServerOptions::default());
    site.wait_for(2);
    let expected = json!({
        "schedule": "tidy", "method": "PUT", "target": "/tidy?a=b", "host": "site.example", "key": "secret",
        "body": "all of it"
    });
    assert!(
        site.began().iter().all(|run| *run == expected),
        "{:?}",
        site.began()
    );
    wait_until("its end", || site.status("/last/result") == "succeeded");
    assert_eq!(site.status("/failed"), json!(0));
    assert!(site.status("/next").as_str().unwrap().ends_with('Z'));
    let metrics = site.server.call("GET", "/metrics", &Value::Null).text();
    assert!(metrics.contains("tutti_schedule_runs_total{schedule=\"tidy\",result=\"succeeded\"}"));
    assert!(!metrics.contains("spooler=\"schedule"), "{metrics}");
    let spoolers = site.server.call("GET", "/status/spoolers", &Value::Null);
    assert_eq!(spoolers.status, 404);
}

/// Issue 28, 1.8: when the clock had been ahead for a while, nothing ran for as long afterwards.
#[test]
fn a_clock_that_is_set_forward_and_back_stops_no_schedule() {
    let clocks = Clocks::new();
    let mut clock = clocks.make("server");
    let words = std::iter::once("env".to_owned());
    let options = ServerOptions {
        wrapper: words.chain(clock.environment()).collect(),
        ..ServerOptions::default()
    };
    let schedule = json!({"every": 1, "pass": "applications/app"});
    let site = Site::start(&json!({"tidy": schedule}), &options);
    site.wait_for(1);
    for ahead in [3000, 0] {
        clock.set(ahead);
        site.wait_for(site.began().len() + 2);
    }
    // Seconds that the clock left out were none. A busy machine may miss some.
    let missed = site.status("/missed").as_u64().unwrap();
    assert!(missed < 1000, "{missed}");
}

#[test]
fn a_run_that_fails_is_logged_and_not_repeated() {
    let schedule = json!({"every": 1, "pass": "applications/app", "uri": "/?status=500"});
    let site = Site::start(&json!({"tidy": schedule}), &ServerOptions::default());
    site.server
        .wait_for_log("schedule \"tidy\": the run has failed: answered 500");
    wait_until("a result", || {
        site.status("/last/result") == "failed: answered 500"
    });
    // Another application: the next run does not depend on the last.
    let schedule = json!({"every": 1, "pass": "applications/app"});
    site.server.put("/config/schedules/tidy", &schedule);
    wait_until("a result", || site.status("/last/result") == "succeeded");
}

#[test]
fn two_runs_are_never_at_once_also_over_an_upgrade() {
    let schedule =
        json!({"every": 1, "pass": "applications/app", "uri": "/?wait=gate", "timeout": 60});
    let site = Site::start(&json!({"tidy": schedule}), &ServerOptions::default());
    site.wait_for(1);
    assert_eq!(site.status("/running"), json!(true));
    site.server
        .wait_for_log("a run is skipped because the previous one is still in progress");
    // The former router goes on with the run, the next begins none beside it.
    site.server.upgrade();
    wait_until("runs that are skipped", || {
        site.status("/skipped").as_u64() >= Some(2)
    });
    assert_eq!((site.began().len(), site.ended()), (1, 0));
    fs::write(site.work().join("gate"), "").unwrap();
    site.wait_for(2);
    assert!(site.ended() >= 1);
}

#[test]
fn missed_runs_are_logged_and_made_up_for_if_wished() {
    let state = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        state: Some(state.path().to_owned()),
        ..ServerOptions::default()
    };
    let schedule = json!({"every": 1, "pass": "applications/app"});
    let mut site = Site::start(&json!({"tidy": schedule}), &options);
    site.wait_for(1);
    site.0.server.stop(libc::SIGTERM);
    let before = site.began().len();
    let stopped = std::time::Instant::now();
    wait_until("some seconds", || stopped.elapsed().as_secs() >= 3);
    site.0.server.start_again(&options);
    site.server
        .wait_for_log("were missed because the server was not running or the clock was changed");
    // A busy machine may have missed some before, with the same line.
    wait_until("those of the stop", || {
        site.status("/missed").as_u64() >= Some(2)
    });
    site.wait_for(before + 1);
}

#[test]
fn a_schedule_that_is_removed_ends() {
    let schedule = json!({"every": 1, "pass": "applications/app"});
    let site = Site::start(&json!({"tidy": schedule}), &ServerOptions::default());
    site.wait_for(1);
    site.server.put("/config/schedules", &json!({}));
    assert_eq!(
        site.server
            .call("GET", "/status/schedules", &Value::Null)
            .status,
        404
    );
    wait_until("the last run", || site.ended() == site.began().len());
}

#[test]
fn every_example_applies() {
    let server = Server::start(&ServerOptions::default());
    server.write("app/index.php", "<?php echo 'hello';");
    let root = server.folder().join("app");
    let port = server.port().to_string();
    let places = [
        ("/var/www/app", root.to_str().unwrap()),
        ("8080", port.as_str()),
    ];
    let examples = json_examples(
        chapter(include_str!("../../../docs/operate/jobs.md"), "Schedules"),
        &places,
    );
    assert!(!examples.is_empty());
    for example in examples {
        server.put("/config", &example);
        assert_eq!(server.get("/").text(), "hello", "{example}");
    }
}
