//! `docs/operate/processes.md`, by example.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_testkit::{Server, ServerOptions, client, processes, wait_until};

/// A server whose only listener passes everything to the application `site`, with the site's folder.
fn serve(page: &str, members: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.write("site/index.php", page);
    server.put("/config", &configuration(&server, members));
    server
}

fn configuration(server: &Server, members: &Value) -> Value {
    let root = server.folder().join("site");
    let mut site = json!({"type": "php", "root": root, "script": "index.php"});
    tutti_testkit::set_members(&mut site, members);
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/site"}},
        "applications": {"site": site}
    })
}

#[test]
fn every_example_applies_and_serves() {
    let server = serve("<?php echo 'hello';", &json!({}));
    let root = server.folder().join("site");
    let page = include_str!("../../../docs/operate/processes.md");
    let examples = json_examples(page, &[("/var/www/site", root.to_str().unwrap())]);
    assert!(examples.len() >= 5, "{}", examples.len());
    for example in examples {
        server.put("/config/applications/site", &example);
        assert_eq!(server.get("/").text(), "hello", "{example}");
    }
}

#[test]
fn numbers_and_limits_change_without_new_processes() {
    let server = serve("<?php echo getmypid();", &json!({"processes": 2}));
    let before = server.workers("site");
    server.put("/config/applications/site/processes", &json!(4));
    wait_until("four", || server.workers("site").len() == 4);
    server.put(
        "/config/applications/site/limits",
        &json!({"timeout": 20, "requests": 1000, "memory": "512M"}),
    );
    server.put(
        "/config/applications/site/processes",
        &json!({"max": 6, "spare": 3}),
    );
    let after = server.workers("site");
    assert!(
        before.iter().all(|pid| after.contains(pid)),
        "{before:?} {after:?}"
    );
}

#[test]
fn a_mistake_is_reported_at_its_place_and_once() {
    let server = serve("<?php echo 'hello';", &json!({}));
    for (member, value) in [
        ("root", json!("/no/such/folder")),
        ("script", json!("none.php")),
        ("working_directory", json!("/no/such/folder")),
    ] {
        let path = format!("/config/applications/site/{member}");
        let reply = server.call("PUT", &path, &value);
        assert_eq!(reply.status, 500, "{}", reply.text());
        let answer = reply.json();
        assert_eq!(
            answer["errors"][0]["pointer"],
            format!("/applications/site/{member}"),
            "{answer}"
        );
        let message = answer["errors"][0]["message"].as_str().unwrap();
        assert_eq!(
            message.matches(value.as_str().unwrap()).count(),
            1,
            "{message}"
        );
        assert_eq!(server.get("/").text(), "hello");
    }
}

#[test]
fn a_hang_is_in_the_log_with_its_place() {
    let page = "<?php\nfunction work() {\n    while (true) { sleep(30); }\n}\nif (isset($_GET['hang'])) work();\necho 'hello';";
    let server = serve(page, &json!({"limits": {"timeout": 2}}));
    let reply = server.get("/?hang");
    assert_eq!(reply.status, 504, "{}", reply.text());
    wait_until("the place is reported", || {
        let log = server.log();
        log.split_once("/site/index.php:3 in work(), waiting for sleep()\n")
            .is_some_and(|(_, after)| {
                let next = after.lines().next();
                next.is_some_and(|line| line.contains("  called at "))
            })
    });
    server.wait_for_log("and is killed");
    server.put("/config/applications/site/limits/timeout", &json!(60));
    assert_eq!(server.get("/").text(), "hello");
}

#[test]
fn a_deployment_by_symbolic_link_is_seen_at_a_restart_and_with_watch_at_once() {
    let server = serve("<?php echo 'nothing';", &json!({}));
    for release in ["one", "two", "three"] {
        server.write(
            &format!("releases/{release}/index.php"),
            format!("<?php echo '{release}';"),
        );
    }
    let releases = server.folder().join("releases");
    let current = server.folder().join("current");
    let switch = |release: &str| {
        let new = server.folder().join("new");
        symlink(releases.join(release), &new).unwrap();
        std::fs::rename(&new, &current).unwrap();
    };
    switch("one");
    server.put(
        "/config",
        &configuration(&server, &json!({"root": current})),
    );
    assert_eq!(server.get("/").text(), "one");
    switch("two");
    assert_eq!(server.get("/").text(), "one", "a generation keeps its path");
    server.restart("site");
    assert_eq!(server.get("/").text(), "two");
    server.put(
        "/config",
        &configuration(&server, &json!({"root": current, "watch": true})),
    );
    let before = server.workers("site");
    switch("three");
    wait_until("the old ones have left", || {
        before.iter().all(|pid| !processes::is_running(*pid))
    });
    assert_eq!(server.get("/").text(), "three");
}

#[test]
fn status_tells_what_an_application_does_and_why_it_failed() {
    let server = serve("<?php echo 'hello';", &json!({"processes": 2}));
    for _ in 0..5 {
        assert_eq!(server.get("/").status, 200);
    }
    let status = || {
        server
            .call("GET", "/status/applications/site", &Value::Null)
            .json()
    };
    let now = status();
    assert_eq!(now["processes"]["running"], 2, "{now}");
    assert_eq!(now["requests"]["total"], 5, "{now}");
    assert_eq!(now["failures"], json!({"total": 0, "last": null}), "{now}");
    std::fs::remove_dir_all(server.folder().join("site")).unwrap();
    let path = "/control/applications/site/restart";
    let reply = server.call("GET", path, &Value::Null);
    assert_eq!(reply.status, 500, "{}", reply.text());
    let now = status();
    assert_eq!(now["failures"]["total"], 1, "{now}");
    assert_eq!(
        now["failures"]["last"]["pointer"], "/applications/site/root",
        "{now}"
    );
    assert_eq!(now["processes"]["running"], 2, "the old ones stay: {now}");
}

/// Issue 10: a folder that is deployed after the configuration was an error.
#[test]
fn without_spare_processes_a_folder_may_come_later() {
    let server = Server::start(&ServerOptions::default());
    let reply = server.call(
        "PUT",
        "/config",
        &configuration(&server, &json!({"processes": {"max": 2, "spare": 0}})),
    );
    // Issue 10, 2.6: the warning was in the log only.
    let warning = &reply.json()["warnings"][0];
    let has = |key: &str, text: &str| {
        warning[key]
            .as_str()
            .is_some_and(|told| told.contains(text))
    };
    assert!(
        reply.status == 200
            && has("pointer", "/applications/site")
            && has("message", "get 503 until it starts"),
        "{}",
        reply.text()
    );
    assert_eq!(server.status("/applications/site/processes/running"), 0);
    assert_eq!(server.get("/").status, 503);
    wait_until("a warning in the log", || {
        let log = server.log();
        let mut lines = log.lines().filter(|line| line.contains("[warn]"));
        lines.any(|line| line.contains("requests get 503 until it starts"))
    });
    wait_until("its failure is in the status", || {
        let failure = server.status("/applications/site/failures/last");
        let pointer = failure["pointer"].as_str();
        pointer.is_some_and(|pointer| pointer.starts_with("/applications/site"))
    });
    server.write("site/index.php", "<?php echo 'hello';");
    wait_until("it is served", || server.get("/").text() == "hello");
    // With one to be kept it is refused, as before.
    let refused = configuration(
        &server,
        &json!({"root": "/nowhere", "processes": {"max": 2, "spare": 1}}),
    );
    assert_eq!(server.call("PUT", "/config", &refused).status, 500);
}

/// Issue 10: `/status` told the numbers of before.
#[test]
fn status_is_right_when_a_change_or_a_restart_is_answered() {
    let server = serve("<?php echo 'hello';", &json!({"processes": 2}));
    let numbers = || server.status("/applications/site/processes");
    for count in [5, 1, 3] {
        server.put("/config/applications/site/processes", &json!(count));
        assert_eq!(
            numbers(),
            json!({"running": count, "starting": 0, "idle": count})
        );
        assert_eq!(
            server
                .call("GET", "/control/applications/site/restart", &json!(null))
                .status,
            200
        );
        assert_eq!(
            numbers(),
            json!({"running": count, "starting": 0, "idle": count})
        );
        assert_eq!(server.get("/").text(), "hello");
        // Router and worker go on a little after the answer.
        wait_until("nothing is under way", || {
            server.status("/applications/site/requests/active") == 0 && numbers()["idle"] == count
        });
    }
}

#[test]
fn status_tells_which_requests_are_under_way_and_where() {
    let page = "<?php while (!file_exists($_GET['until'])) { usleep(5000); clearstatcache(); } echo 'done';";
    let server = serve(page, &json!({"processes": 1}));
    let oldest = || server.status("/applications/site/requests/oldest");
    assert_eq!(oldest(), json!([]));
    let gate = server.folder().join("gate");
    let target = format!("/?until={}", gate.display());
    let address = server.address();
    let ask = |last: &str| {
        let target = format!("{target}&{last}");
        std::thread::spawn(move || client::get(address, &target))
    };
    let first = ask("first");
    wait_until("the process is at it", || oldest()[0]["pid"].is_i64());
    let second = ask("second");
    wait_until("another one waits", || {
        oldest().as_array().unwrap().len() == 2
    });
    let told = oldest();
    assert_eq!(told[0]["pid"], json!(server.workers("site")[0]), "{told}");
    assert_eq!(told[1]["pid"], Value::Null, "{told}");
    let line = told[0]["request"].as_str().unwrap();
    assert!(line.starts_with("GET /?until=/"), "{told}");
    assert!(told[0]["age"].as_f64() >= told[1]["age"].as_f64(), "{told}");
    std::fs::write(gate, "").unwrap();
    for asked in [first, second] {
        assert_eq!(asked.join().unwrap().unwrap().text(), "done");
    }
    wait_until("nothing is under way", || oldest() == json!([]));
}
