//! A fleet of servers with one configuration, in an etcd that other people wrote.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::documents::{examples, json_examples};
use tutti_e2e::etcd::Etcd;
use tutti_e2e::fleet::{Fleet, document, options};
use tutti_testkit::server::built;
use tutti_testkit::{Load, LoadOptions, Server, ServerOptions, wait_until};

#[test]
fn a_document_comes_to_all_nodes_in_waves_and_goes_back() {
    let fleet = Fleet::start(1, &["a", "b", "c"]);
    assert_eq!(fleet.source_of(0)["state"], "waiting");
    let words = fleet.put(&document(201));
    assert!(
        words.contains("wave 1 of 2: a\n") && words.contains("wave 2 of 2: a b c\n"),
        "{words}"
    );
    assert!(
        words.contains("done: generation 1 is in force on 3 nodes"),
        "{words}"
    );
    // It is true.
    for number in 0..3 {
        let wanted: Value = serde_json::from_str(&document(201)).unwrap();
        assert_eq!(fleet.configuration(number), wanted);
    }
    let history = fleet.nodes[2].call("GET", "/history", &Value::Null).json();
    assert_eq!(history[0]["by"], "fleet");
    assert_eq!(history[0]["change"], "generation 1 of `all`");
    let source = fleet.source_of(1);
    assert_eq!(source["generation"], 1, "{source}");
    assert_eq!(source["state"], "applied");
    assert_eq!(source["connected"], true);
    assert_eq!(source["node"], "b");
    let page = fleet.nodes[1].command(&["status"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.contains("generation 1, applied, from http://127.0.0.1:"),
        "{page}"
    );
    assert!(fleet.put(&document(201)).contains("already"));
    fleet.succeed(&[
        "put",
        &fleet.file(&document(202)),
        "--wait",
        "0",
        "-m",
        "the second",
        "--base",
        "1",
    ]);
    assert!(
        fleet
            .fail(&["put", &fleet.file(&document(203)), "--base", "1"])
            .contains("another generation: 2")
    );
    let log = fleet.succeed(&["log"]);
    assert!(
        log.contains("generation 2 for all nodes  done") && log.contains("the second"),
        "{log}"
    );
    let diff = fleet.succeed(&["diff"]);
    assert!(
        diff.contains("-\t\t\t\t\"return\": 201") && diff.contains("+\t\t\t\t\"return\": 202"),
        "{diff}"
    );
    let back = fleet.succeed(&["rollback"]);
    assert!(
        back.contains("generation 1 is in force on 3 nodes"),
        "{back}"
    );
    fleet.wait_for_all(&document(201));
    let status = fleet.status();
    assert_eq!(status["nodes"]["c"]["state"], "applied", "{status}");
    assert_eq!(status["heads"]["all"]["version"]["generation"], 1);
    let page = fleet.succeed(&["status"]);
    assert!(page.contains("generation 1 for all nodes: done"), "{page}");
    assert!(page.contains("a     1           applied"), "{page}");
}

/// A document that no node can put in force: the address is another machine's.
fn unusable() -> String {
    json!({"listeners": {"192.0.2.1:8080": {"pass": "routes"}}, "routes": []}).to_string()
}

#[test]
fn a_bad_document_is_refused_with_its_place_and_comes_back_by_itself() {
    let fleet = Fleet::start(1, &["a", "b", "c"]);
    // No node had a configuration before: it stays at the first node.
    let words = fleet.fail(&["put", &fleet.file(&unusable()), "--wait", "0"]);
    assert!(words.contains("there is no earlier generation"), "{words}");
    fleet.put(&document(201));
    let words = fleet.fail(&["put", &fleet.file(&unusable()), "--wait", "0"]);
    assert!(
        words.contains("generation 3 was not rolled out, all nodes are back at generation 2"),
        "{words}"
    );
    assert!(
        words.contains("node `a` at `/listeners/192.0.2.1:8080`:"),
        "{words}"
    );
    fleet.wait_for_all(&document(201));
    let source = fleet.source_of(0);
    assert_eq!(source["refused"]["generation"], 3, "{source}");
    assert_eq!(source["refused"]["pointer"], "/listeners/192.0.2.1:8080");
    wait_until("the node goes back", || {
        fleet.source_of(0)["state"] == "applied"
    });
    // The others never heard of it.
    assert_eq!(fleet.source_of(2)["refused"], Value::Null);
    let log = fleet.succeed(&["log", "--json"]);
    let log: Value = serde_json::from_str(&log).unwrap();
    assert_eq!(log[0]["state"], "returned", "{log}");
    // For machines.
    let run = fleet.run(&["put", &fleet.file(&unusable()), "--wait", "0", "--json"]);
    let told: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(!run.status.success());
    assert_eq!(told["state"], "returned", "{told}");
    assert_eq!(told["refused"]["node"], "a");
    // A fault that is one anywhere is not stored at all.
    let words = fleet.fail(&["put", &fleet.file(r#"{"routs": []}"#)]);
    assert!(words.contains("routs"), "{words}");
    assert_eq!(fleet.status()["heads"]["all"]["version"]["generation"], 4);
}

#[test]
fn a_document_that_makes_errors_comes_back() {
    let fleet = Fleet::start(1, &["a"]);
    let listener = fleet.nodes[0].address().to_string();
    let with = |status: u16| {
        json!({"listeners": {listener.as_str(): {"pass": "routes"}}, "routes": [{"action": {"return": status}}]}).to_string()
    };
    fleet.put(&with(200));
    let load = Load::start(&LoadOptions::get(fleet.nodes[0].address(), "/", 2));
    let words = fleet.fail(&["put", &fleet.file(&with(500)), "--wait", "60"]);
    assert!(
        words.contains("requests were answered with a 5xx since"),
        "{words}"
    );
    assert!(
        words.contains("all nodes are back at generation 1"),
        "{words}"
    );
    let outcome = load.stop();
    assert_eq!(
        outcome.lost + outcome.refused + outcome.broken,
        0,
        "{outcome:?}"
    );
    assert_eq!(fleet.nodes[0].get("/").status, 200);
}

#[test]
fn two_administrators_do_not_overwrite_each_other() {
    let fleet = Fleet::start(1, &["a", "b"]);
    fleet.put(&document(201));
    let files = [fleet.file(&document(202)), fleet.file(&document(203))];
    let run = |file: &String| {
        let mut command = fleet.command(&["put", file, "--wait", "0.5", "--base", "1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let commands = [run(&files[0]), run(&files[1])];
    let ends = commands.map(|mut command: Child| command.wait().unwrap().success());
    assert_ne!(ends[0], ends[1], "one of them has to fail");
    let winner = if ends[0] { 202 } else { 203 };
    fleet.wait_for_all(&document(winner));
    assert_eq!(fleet.status()["heads"]["all"]["version"]["generation"], 2);
}

#[test]
fn a_roll_out_whose_command_has_died_is_ended_or_taken_over() {
    let fleet = Fleet::start(1, &["a", "b"]);
    let begin = |status| {
        let file = fleet.file(&document(status));
        let mut command = fleet.command(&["put", &file, "--wait", "1h", "--waves", "1"]);
        let mut command = command.stdout(Stdio::null()).spawn().unwrap();
        fleet.wait_for(0, &document(status));
        command.kill().unwrap();
        command.wait().unwrap();
    };
    // The first one can be ended, too: there is no document to go back to.
    begin(200);
    let words = fleet.succeed(&["rollback"]);
    assert!(words.contains("no earlier generation"), "{words}");
    assert_eq!(fleet.status()["heads"]["all"]["state"], "returned");
    fleet.put(&document(201));
    begin(202);
    // It stands where it was.
    fleet.wait_for(1, &document(201));
    assert_eq!(fleet.status()["heads"]["all"]["state"], "rolling");
    let words = fleet.fail(&["put", &fleet.file(&document(203)), "--wait", "0"]);
    assert!(
        words.contains("is in progress, in wave 1") && words.contains("rollback"),
        "{words}"
    );
    fleet.succeed(&["rollback"]);
    fleet.wait_for_all(&document(201));
    begin(204);
    fleet.succeed(&[
        "put",
        &fleet.file(&document(205)),
        "--wait",
        "0",
        "--take-over",
    ]);
    fleet.wait_for_all(&document(205));
    // The next goes back to no document of half a fleet.
    fleet.succeed(&["rollback"]);
    fleet.wait_for_all(&document(201));
}

#[test]
fn a_server_that_stops_gracefully_leaves_the_fleet_at_once() {
    let mut fleet = Fleet::on(Etcd::start(1), &[], &json!({}));
    for name in ["a", "b"] {
        let mut options = options(&fleet.etcd.source(name, &json!({})));
        // Its answer does not end by itself while this test runs.
        options.wrapper.push("TUTTI_FLEET_LIFE=600".to_owned());
        fleet.nodes.push(Server::start(&options));
    }
    wait_until("all nodes answer", || fleet.answers().len() == 2);
    fleet.put(&document(201));
    fleet.nodes[1].stop(libc::SIGQUIT);
    wait_until("the other has left", || {
        fleet.answers().keys().collect::<Vec<_>>() == ["a"]
    });
    // A roll-out does not wait for it.
    let words = fleet.put(&document(202));
    assert!(words.contains("in force on 1 node"), "{words}");
}

#[test]
fn of_two_servers_with_one_name_the_first_says_so() {
    let fleet = Fleet::start(1, &["a"]);
    let process = || {
        let entry = fleet.etcd.range("/tutti/nodes/a").swap_remove(0);
        let report: Value = serde_json::from_str(&entry.text).unwrap();
        report["process"].clone()
    };
    let first = process();
    let other = Server::start(&options(&fleet.etcd.source("a", &json!({}))));
    wait_until("it reports in place of the first one", || {
        process() != first
    });
    // The first one notices it when its report changes.
    fleet.put(&document(201));
    let message = "another server of the fleet has the name `a`";
    fleet.nodes[0].wait_for_log(message);
    wait_until("its status has it, too", || {
        let error = fleet.source_of(0)["error"].to_string();
        error.contains(message)
    });
    assert!(!other.log().contains(message), "{}", other.log());
    // Without the other it reports again.
    drop(other);
    wait_until("its status", || fleet.source_of(0)["connected"] == true);
}

#[test]
fn a_node_that_may_not_write_to_the_store_says_so() {
    let etcd = Etcd::start(1);
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["user", "grant-role", "root", "root"]);
    etcd.ctl(&["role", "add", "reader"]);
    etcd.ctl(&[
        "role",
        "grant-permission",
        "reader",
        "read",
        "/tutti/",
        "--prefix",
    ]);
    etcd.ctl(&["user", "add", "node:secret"]);
    etcd.ctl(&["user", "grant-role", "node", "reader"]);
    etcd.ctl(&["auth", "enable"]);
    let password = etcd.write("password", "secret\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&password, mode).unwrap();
    let source = etcd.source("a", &json!({}));
    let mut wanted: Value = serde_json::from_slice(&std::fs::read(&source).unwrap()).unwrap();
    wanted["etcd"]["user"] = "node".into();
    wanted["etcd"]["password_file"] = password.display().to_string().into();
    std::fs::write(&source, wanted.to_string()).unwrap();
    let node = Server::start(&options(&source));
    node.wait_for_log("this node cannot report to the fleet");
    wait_until("its status", || {
        let error = node.status("/source/error");
        error
            .as_str()
            .is_some_and(|error| error.contains("permission denied"))
    });
    let said = node.log().matches("cannot report to the fleet").count();
    assert_eq!(said, 1);
}

#[test]
fn a_dead_or_stopped_member_holds_up_nothing() {
    let mut fleet = Fleet::start(3, &["a", "b"]);
    fleet.put(&document(201));
    let member = |fleet: &Fleet, node: usize| {
        let mut found = None;
        wait_until("a node is connected", || {
            let source = fleet.source_of(node);
            found = fleet
                .etcd
                .number_of(source["endpoint"].as_str().unwrap_or_default());
            found.is_some()
        });
        found.unwrap()
    };
    let killed = member(&fleet, 0);
    fleet.etcd.kill(killed);
    fleet.put(&document(202));
    fleet.wait_for_all(&document(202));
    fleet.etcd.start_again(killed);
    let stopped = member(&fleet, 1);
    fleet.etcd.signal(stopped, libc::SIGSTOP);
    fleet.put(&document(203));
    fleet.wait_for_all(&document(203));
    fleet.etcd.signal(stopped, libc::SIGCONT);
    // The whole store is away, and comes again.
    for number in 0..3 {
        fleet.etcd.signal(number, libc::SIGSTOP);
    }
    for node in 0..2 {
        wait_until("a node has noticed", || {
            fleet.source_of(node)["connected"] == false
        });
    }
    for number in 0..3 {
        fleet.etcd.signal(number, libc::SIGCONT);
    }
    wait_until("the nodes answer again", || fleet.answers().len() == 2);
    fleet.put(&document(204));
    fleet.wait_for_all(&document(204));
}

#[test]
fn a_store_that_is_compacted_or_restored_from_a_copy_says_what_to_run() {
    let mut fleet = Fleet::start(1, &["a"]);
    fleet.put(&document(201));
    fleet.etcd.copy("old");
    wait_until("the node is there again", || {
        fleet.source_of(0)["connected"] == true
    });
    for status in [202, 203] {
        fleet.put(&document(status));
    }
    // The node is away while revisions go that it would need.
    let revision = fleet.etcd.ctl(&["endpoint", "status", "--write-out=json"]);
    let revision: Value = serde_json::from_str(&revision).unwrap();
    let revision = revision[0]["Status"]["header"]["revision"].to_string();
    fleet.etcd.ctl(&["compact", &revision]);
    fleet.put(&document(204));
    fleet.wait_for(0, &document(204));
    // Back to where the first document was the last: as a copy of the folder, then as etcd's own tool does it.
    for (is_new, status) in [(false, 205), (true, 206)] {
        fleet.etcd.restore("old", is_new);
        fleet.wait_for(0, &document(201));
        wait_until("the node answers", || fleet.answers().len() == 1);
        // Its generation is one that this node has run with another document.
        let words = fleet.put(&document(status));
        assert!(words.contains("generation 2 is in force"), "{words}");
        fleet.wait_for(0, &document(status));
    }
}

#[test]
fn a_node_serves_without_the_store_and_says_what_differs() {
    let mut fleet = Fleet::start(1, &["a"]);
    let listener = fleet.nodes[0].address().to_string();
    let serving = |status: u16| {
        json!({"listeners": {listener.as_str(): {"pass": "routes"}}, "routes": [{"action": {"return": status}}]}).to_string()
    };
    fleet.put(&serving(201));
    fleet.etcd.kill(0);
    let again = options(&fleet.source);
    let again = ServerOptions {
        flags: vec![
            "--source".to_owned(),
            fleet.etcd.source("a", &json!({})).display().to_string(),
        ],
        ..again
    };
    fleet.nodes[0].start_again(&again);
    assert_eq!(fleet.nodes[0].get("/").status, 201);
    wait_until("it says that the store is away", || {
        let source = fleet.source_of(0);
        source["connected"] == false && source["error"].is_string() && source["generation"] == 1
    });
    // By hand it can be changed all the same.
    let reply = fleet.nodes[0].call("PUT", "/config/routes/0/action/return", &json!(202));
    assert_eq!(reply.status, 200);
    let warning = reply.json()["warnings"][0]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        warning.contains("differs from generation 1 of its fleet"),
        "{warning}"
    );
    assert_eq!(fleet.nodes[0].get("/").status, 202);
    fleet.etcd.start_again(0);
    wait_until("both know that it differs", || {
        fleet.source_of(0)["state"] == "differs"
            && fleet
                .answers()
                .get("a")
                .is_some_and(|one| one["state"] == "differs")
    });
    // The process that follows may end at any moment.
    let load = Load::start(&LoadOptions::get(fleet.nodes[0].address(), "/", 2));
    let before = fleet.nodes[0].pids("tutti: fleet");
    for pid in &before {
        let _ = tutti_sys::signal::send(*pid, libc::SIGKILL);
    }
    wait_until("another follows", || {
        let now = fleet.nodes[0].pids("tutti: fleet");
        !now.is_empty() && now != before && fleet.source_of(0)["connected"] == true
    });
    assert_eq!(
        fleet.nodes[0].get("/").status,
        202,
        "a change by hand lasts until the next generation"
    );
    fleet.put(&serving(203));
    let outcome = load.stop();
    let lost =
        outcome.lost + outcome.closed_on_reuse + outcome.broken + outcome.hung + outcome.refused;
    assert_eq!(lost, 0, "{outcome:?}");
    assert_eq!(fleet.nodes[0].get("/").status, 203);
    assert_eq!(fleet.source_of(0)["state"], "applied");
}

#[test]
fn a_lost_lease_is_taken_again_and_a_dead_node_is_gone() {
    let mut fleet = Fleet::start(1, &["a", "b"]);
    fleet.put(&document(201));
    let leases = || -> Vec<String> {
        let lines = fleet.etcd.ctl(&["lease", "list"]);
        lines.lines().skip(1).map(str::to_owned).collect()
    };
    let before = leases();
    assert_eq!(before.len(), 2, "{before:?}");
    for lease in &before {
        fleet.etcd.ctl(&["lease", "revoke", lease]);
    }
    wait_until("other leases", || {
        let now = leases();
        now.len() == 2
            && now.iter().all(|lease| !before.contains(lease))
            && fleet.answers().len() == 2
    });
    fleet.nodes[1].signal(libc::SIGKILL);
    wait_until("the dead node is gone", || fleet.answers().len() == 1);
    // It is not waited for.
    let words = fleet.put(&document(202));
    assert!(words.contains("in force on 1 node\n"), "{words}");
    fleet.nodes.remove(1);
}

#[test]
fn a_label_has_a_document_of_its_own_until_it_is_released() {
    let etcd = Etcd::start(1);
    let canary = etcd.source("a", &json!({"labels": {"role": "canary"}}));
    let canary = Server::start(&options(&canary));
    let mut fleet = Fleet::on(etcd, &[], &json!({}));
    fleet.nodes.push(canary);
    fleet
        .nodes
        .push(Server::start(&options(&fleet.etcd.source("b", &json!({})))));
    wait_until("all nodes answer", || fleet.answers().len() == 2);
    fleet.put(&document(201));
    fleet.succeed(&[
        "put",
        &fleet.file(&document(202)),
        "--wait",
        "0",
        "--label",
        "role=canary",
    ]);
    fleet.wait_for(0, &document(202));
    assert_eq!(fleet.source_of(0)["of"], "role=canary");
    // It does not concern the one with a label.
    assert!(fleet.put(&document(203)).contains("in force on 1 node\n"));
    fleet.wait_for(1, &document(203));
    fleet.wait_for(0, &document(202));
    let labels = fleet.succeed(&["labels"]);
    assert!(
        labels.contains("role=canary  generation 2 of its own  a"),
        "{labels}"
    );
    fleet.succeed(&["labels", "--release", "role=canary"]);
    fleet.wait_for(0, &document(203));
}

#[test]
fn a_store_with_tls_certificates_of_clients_and_a_user() {
    let etcd = Etcd::secure();
    etcd.ctl(&["user", "add", "root:correct horse"]);
    etcd.ctl(&["user", "grant-role", "root", "root"]);
    etcd.ctl(&["auth", "enable"]);
    let password = etcd.write("password", "correct horse\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&password, mode).unwrap();
    let mut source: Value =
        serde_json::from_slice(&std::fs::read(etcd.source("x", &json!({}))).unwrap()).unwrap();
    source["etcd"]["user"] = "root".into();
    source["etcd"]["password_file"] = password.display().to_string().into();
    let fleet = Fleet::on(etcd, &["a"], &json!({"etcd": source["etcd"]}));
    fleet.put(&document(201));
    fleet.wait_for_all(&document(201));
    // The secret is nowhere to be read.
    let status = fleet.source_of(0).to_string();
    assert!(!status.contains("horse") && !fleet.nodes[0].log().contains("horse"));
    let run = fleet
        .command(&["status"])
        .env_remove("TUTTI_SOURCE")
        .arg("--endpoints")
        .arg(&fleet.etcd.endpoints()[0])
        .output()
        .unwrap();
    assert!(
        !run.status.success(),
        "no store is trusted without a reason"
    );
}

#[test]
fn a_source_in_the_configuration_is_the_nodes_own() {
    let etcd = Etcd::start(1);
    let source: Value =
        serde_json::from_slice(&std::fs::read(etcd.source("a", &json!({}))).unwrap()).unwrap();
    let node = Server::start(&ServerOptions {
        flags: Vec::new(),
        ..options(Path::new("/"))
    });
    node.put("/config", &json!({"settings": {"source": source}}));
    let mut fleet = Fleet::on(etcd, &[], &json!({}));
    fleet.nodes.push(node);
    wait_until("the node answers", || fleet.answers().len() == 1);
    fleet.put(&document(201));
    let mut wanted: Value = serde_json::from_str(&document(201)).unwrap();
    wanted["settings"] = json!({"source": source});
    assert_eq!(fleet.configuration(0), wanted);
    assert_eq!(fleet.source_of(0)["state"], "applied");
    let words = fleet.fail(&["put", &fleet.file(&wanted.to_string())]);
    assert!(words.contains("belongs to a single node"), "{words}");
    // Without it there is nothing to follow.
    let reply = fleet.nodes[0].call("DELETE", "/config/settings/source", &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    wait_until("no node follows", || {
        fleet.nodes[0].pids("tutti: fleet").is_empty()
    });
    assert_eq!(fleet.nodes[0].status("")["source"], Value::Null);
}

#[test]
fn a_source_that_cannot_be_read_ends_the_start() {
    let run = |source: &str| {
        let folder = tempfile::tempdir().unwrap();
        let run = Command::new(built("tutti"))
            .args(["--no-daemon", "--source", source, "--log", "stderr"])
            .args([
                "--control",
                &format!("unix:{}/control", folder.path().display()),
            ])
            .args(["--pid", &format!("{}/pid", folder.path().display())])
            .args(["--statedir", &format!("{}/state", folder.path().display())])
            .args([
                "--modulesdir",
                &format!("{}/modules", folder.path().display()),
            ])
            .output()
            .unwrap();
        assert!(!run.status.success());
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    assert!(run("etcd://").contains("not an etcd endpoint"));
    assert!(run("/no/such.json").contains("/no/such.json"));
}

#[test]
fn the_examples_of_the_guide_are_valid() {
    let guide = include_str!("../../../docs/operate/fleet.md");
    let server = Server::start(&ServerOptions::default());
    let found = json_examples(guide, &[]);
    assert!(!found.is_empty());
    for example in found {
        server.put("/config", &example);
        server.put("/config", &json!({}));
    }
    // Every command of it exists.
    for block in examples(guide, "console") {
        for line in block
            .lines()
            .filter_map(|line| line.strip_prefix("$ tutti fleet "))
        {
            let mut words = line.split_whitespace();
            let command = words.next().unwrap();
            let inner = words.next().filter(|_| command == "cert");
            let run = Command::new(built("tutti"))
                .args(["fleet", command])
                .args(inner)
                .arg("--help")
                .output()
                .unwrap();
            assert!(run.status.success(), "{line}");
            let help = String::from_utf8_lossy(&run.stdout).into_owned();
            for flag in line
                .split_whitespace()
                .filter(|word| word.starts_with("--"))
            {
                assert!(help.contains(flag), "{line}");
            }
        }
    }
}
