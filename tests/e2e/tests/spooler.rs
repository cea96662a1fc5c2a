//! `docs/operate/jobs.md`, by example.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tutti_e2e::documents::{chapter, json_examples};
use tutti_e2e::spooling::{Spooling, by_id};
use tutti_testkit::client::Client;
use tutti_testkit::{Server, ServerOptions, wait_until};

#[test]
fn a_job_is_stored_and_delivered_as_it_came() {
    let site = Spooling::start(&json!({}));
    let fields = "X-Note: as it came\r\nX-Tutti-Job-Id: mine\r\nX-Tutti-Job-Attempt: 9\r\n";
    let reply = site.send("PUT", "/jobs/send?to=a%20b", fields, b"the body");
    assert_eq!(reply.status, 202);
    assert_eq!(reply.field("content-type"), Some("application/json"));
    let id = reply.json()["id"].clone();
    let seen = site.wait_for(1);
    let expected = json!({
        "id": id, "attempt": 1, "spooler": "mail", "method": "PUT", "target": "/jobs/send?to=a%20b",
        "host": "jobs.example", "note": "as it came", "delay": null, "body": "the body"
    });
    assert_eq!(seen, [expected]);
    site.wait_for_count("delivered", 1);
    let status = site.server.status("/spoolers/mail");
    assert_eq!(
        status["jobs"],
        json!({"waiting": 0, "delivering": 0, "failed": 0})
    );
    assert_eq!(
        (&status["stored"], &status["oldest"]),
        (&json!(1), &Value::Null)
    );
    let metrics = site.server.call("GET", "/metrics", &Value::Null).text();
    for line in [
        "tutti_spooler_jobs{spooler=\"mail\",state=\"waiting\"} 0",
        "tutti_spooler_stored_jobs_total{spooler=\"mail\"} 1",
        "tutti_spooler_deliveries_total{spooler=\"mail\",result=\"delivered\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    // A large body goes the same way, and no other user may read what is kept.
    let body = vec![b'x'; 700_000];
    site.post("/jobs", &body);
    let seen = site.wait_for(2);
    assert_eq!(seen[1]["body"].as_str().unwrap().len(), body.len());
    let file = site.server.folder().join("state/jobs.redb");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_delivery_that_fails_is_repeated_with_the_same_number() {
    let site = Spooling::start(&json!({"backoff": 0.05}));
    let id = site.post("/jobs?fail=3", b"");
    let seen = site.wait_for(4);
    let attempts: Vec<_> = seen
        .iter()
        .map(|job| job["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    assert!(seen.iter().all(|job| job["id"] == *id));
    site.wait_for_count("delivered", 1);
    assert_eq!(site.server.status("/spoolers/mail/failures"), json!(3));
}

#[test]
fn jobs_that_are_given_up_wait_for_a_person() {
    let site = Spooling::start(&json!({"backoff": 0.02, "max_attempts": 2}));
    let first = site.post("/jobs?fail=2&n=1", b"abc");
    site.wait_for_count("jobs/failed", 1);
    let second = site.post("/jobs?fail=9&n=2", b"");
    site.wait_for_count("jobs/failed", 2);
    site.server
        .wait_for_log("has failed after 2 deliveries, the last: answered 500");
    let call = |method: &str, path: &str| {
        let path = format!("/control/spoolers/{path}");
        site.server.call(method, &path, &Value::Null)
    };
    let list = call("GET", "mail/failed").json();
    assert_eq!(list.as_array().unwrap().len(), 2, "{list}");
    assert_eq!(list[0]["id"], json!(first));
    for (name, value) in [
        ("method", json!("POST")),
        ("target", json!("/jobs?fail=2&n=1")),
        ("body_size", json!(3)),
        ("attempts", json!(2)),
        ("error", json!("answered 500")),
    ] {
        assert_eq!(list[0][name], value, "{list}");
    }
    // They live through a restart of the router.
    site.server.kill_router();
    site.wait_for_count("jobs/failed", 2);
    assert_eq!(call("POST", "none/retry").status, 404);
    assert_eq!(
        call("POST", "mail/failed/0000000000000001/retry").status,
        404
    );
    assert_eq!(call("GET", "mail/retry").status, 405);
    assert_eq!(
        call("DELETE", "mail/jobs").status,
        404,
        "it is in the configuration"
    );
    let before = site.seen().len();
    assert_eq!(
        call("POST", &format!("mail/failed/{first}/retry")).status,
        200
    );
    site.wait_for(before + 2);
    site.wait_for_count("jobs/failed", 2);
    let reply = call("DELETE", &format!("mail/failed/{second}"));
    assert_eq!(reply.json(), json!({"success": "1 jobs removed."}));
    site.wait_for_count("jobs/failed", 1);
    assert_eq!(call("DELETE", "mail/failed").status, 200);
    site.wait_for_count("jobs/failed", 0);
}

/// Runs a command that succeeds, and returns what it writes.
fn output_of(site: &Spooling, arguments: &[&str]) -> String {
    let output = site.server.command(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_command_line_deals_with_jobs_that_were_given_up() {
    let site = Spooling::start(&json!({"backoff": 0.02, "max_attempts": 1}));
    wait_until("the file of jobs has been read", || {
        site.server.command(&["jobs", "list"]).status.success()
    });
    assert_eq!(
        output_of(&site, &["jobs", "list"]),
        "there are no failed jobs\n"
    );
    let first = site.post("/jobs?fail=1&n=1", b"abc");
    site.wait_for_count("jobs/failed", 1);
    let second = site.post("/jobs?fail=9&n=2", b"");
    site.wait_for_count("jobs/failed", 2);
    let list = output_of(&site, &["jobs", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[0], format!("mail {first}  POST /jobs?fail=1&n=1"));
    assert!(
        lines[1].ends_with("ago, after 1 attempt: answered 500"),
        "{list}"
    );
    assert_eq!(lines[2], format!("mail {second}  POST /jobs?fail=9&n=2"));
    let json: Value = serde_json::from_str(&output_of(&site, &["jobs", "list", "--json"])).unwrap();
    assert_eq!(json["mail"][1]["id"], json!(second), "{json}");
    for (wrong, why) in [
        (vec!["jobs", "list", "none"], "there is no spooler `none`"),
        (
            vec!["jobs", "retry", "mail", "0000000000000001"],
            "the spooler `mail` has no failed job `0000000000000001`",
        ),
        (vec!["jobs", "delete", "mail"], "<JOB>"),
        (
            vec!["jobs", "discard", "mail"],
            "no spooler `mail` that was removed from the configuration",
        ),
    ] {
        let output = site.server.command(&wrong);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(why),
            "{wrong:?}: {text}"
        );
    }
    let before = site.seen().len();
    output_of(&site, &["jobs", "retry", "mail", &first]);
    site.wait_for(before + 1);
    site.wait_for_count("jobs/failed", 2);
    assert_eq!(
        output_of(&site, &["jobs", "delete", "mail", &second]),
        "done: 1 jobs removed.\n"
    );
    output_of(&site, &["jobs", "delete", "mail", "--all"]);
    site.wait_for_count("jobs/failed", 0);
}

#[test]
fn what_is_no_job_is_refused() {
    let extra = json!({"max_jobs": 2, "max_body_size": 10, "backoff": 60});
    let site = Spooling::start(&extra);
    let reply = site.send("GET", "/jobs", "", b"");
    assert_eq!(reply.status, 405);
    assert_eq!(reply.field("allow"), Some("POST, PUT, PATCH, DELETE"));
    assert_eq!(site.send("POST", "/jobs", "", b"12345678901").status, 413);
    for delay in ["soon", "-1", "31536001"] {
        let field = format!("X-Tutti-Job-Delay: {delay}\r\n");
        assert_eq!(
            site.send("POST", "/jobs", &field, b"").status,
            400,
            "{delay}"
        );
    }
    // Room for two.
    site.send("POST", "/jobs", "X-Tutti-Job-Delay: 3600\r\n", b"later");
    site.post("/jobs?fail=1", b"");
    site.wait_for(1);
    let reply = site.send("POST", "/jobs", "", b"");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.field("retry-after"), Some("5"));
    site.server
        .wait_for_log("it is full: 2 jobs are waiting, 0 have failed");
    assert_eq!(site.server.status("/spoolers/mail/refused"), json!(1));
    assert_eq!(site.seen().len(), 1, "the other is not due");
    // A job that comes back to the spooler would never end.
    let mut round = site.configuration(&json!({"pass": "routes", "backoff": 60}));
    round["routes"] = json!([{"action": {"pass": "spoolers/mail"}}]);
    site.server.put("/config", &round);
    site.post("/jobs", b"");
    site.server.wait_for_log("a job is delivered to a spooler");
}

#[test]
fn a_spooler_that_is_gone_leaves_its_jobs() {
    let site = Spooling::start(&json!({}));
    site.send("POST", "/jobs", "X-Tutti-Job-Delay: 3600\r\n", b"1");
    // Not due before its spooler has gone, on a busy machine.
    let delayed = site.send("POST", "/jobs?n=2", "X-Tutti-Job-Delay: 10\r\n", b"2");
    assert_eq!(delayed.status, 202);
    let mut without = site.configuration(&json!({}));
    without.as_object_mut().unwrap().remove("spoolers");
    without["routes"] = json!([]);
    site.server.put("/config", &without);
    site.server
        .wait_for_log("2 jobs belong to the spooler \"mail\", which does not exist: they are kept");
    assert_eq!(site.server.status("/spoolers/mail/removed"), json!(true));
    // Also over a router that has no spooler: it does not even open the file.
    site.server.kill_router();
    wait_until("a router", || site.server.get("/").status == 404);
    site.server.put("/config", &site.configuration(&json!({})));
    let seen = site.wait_for(1);
    assert_eq!(seen[0]["body"], json!("2"));
    site.server.put("/config", &without);
    let path = "/control/spoolers/mail/jobs";
    let reply = site.server.call("DELETE", path, &Value::Null);
    assert_eq!(reply.json(), json!({"success": "1 jobs removed."}));
    assert_eq!(site.server.call("DELETE", path, &Value::Null).status, 404);
    site.server.put("/config", &site.configuration(&json!({})));
    assert_eq!(site.server.status("/spoolers/mail/jobs/waiting"), json!(0));
}

/// A client could set a field before it belonged to a guard, and the application took it for the guard's.
#[test]
fn a_job_has_the_fields_of_guards_only_from_guards() {
    let site = Spooling::start(&json!({"backoff": 0.05}));
    let reply = site.send("POST", "/jobs?fail=1&wait=go", "X-Note: anna\r\n", b"");
    assert_eq!(reply.status, 202);
    let began = site.work().join("began-go");
    wait_until("the first delivery", || began.exists());
    let mut guarded = site.configuration(&json!({"backoff": 0.05}));
    // The password is `secret`.
    let hash = "$2y$04$jSz1tXNKo.beld/S8xsOwesNQxGVCl6/Vwe3Mk.oO4XqSnTLal1w.";
    let guard = json!({"basic": {"users": {"anna": hash}, "field": "X-Note"}});
    guarded["routes"].as_array_mut().unwrap().insert(
        0,
        json!({"match": {"uri": "/secure"}, "action": {"pass": "spoolers/mail", "authenticate": guard}}),
    );
    site.server.put("/config", &guarded);
    site.open("go");
    let notes =
        |seen: Vec<Value>| -> Vec<Value> { seen.iter().map(|job| job["note"].clone()).collect() };
    assert_eq!(notes(site.wait_for(2)), [json!("anna"), Value::Null]);
    // Those that a guard has set stay.
    let fields = "X-Note: root\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=\r\n";
    assert_eq!(site.send("POST", "/secure", fields, b"").status, 202);
    assert_eq!(notes(site.wait_for(3))[2], json!("anna"));
}

#[test]
fn jobs_live_through_a_stop_and_a_start() {
    let state = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        state: Some(state.path().to_owned()),
        ..ServerOptions::default()
    };
    let mut site = Spooling::with(&json!({"concurrency": 1}), &options);
    // One is being delivered, others wait for it.
    site.post("/jobs?wait=gate", b"0");
    wait_until("the first", || site.work().join("began-gate").exists());
    let ids: Vec<String> = (1..5)
        .map(|n| site.post("/jobs", format!("{n}").as_bytes()))
        .collect();
    site.server.stop(libc::SIGTERM);
    assert!(site.seen().is_empty());
    site.open("gate");
    site.server.start_again(&options);
    let seen = site.wait_for(5);
    let bodies: Vec<&str> = seen
        .iter()
        .map(|job| job["body"].as_str().unwrap())
        .collect();
    assert_eq!(bodies, ["0", "1", "2", "3", "4"], "in their order");
    assert_eq!(seen[4]["id"], json!(ids[3]));
}

/// The way by which deliveries come in held the applications: a stop waited for its bound with nothing to wait for.
#[test]
fn a_graceful_stop_after_a_delivery_waits_for_nothing() {
    let mut site = Spooling::start(&json!({}));
    site.post("/jobs", b"");
    site.wait_for_count("delivered", 1);
    site.server.stop(libc::SIGQUIT);
    let log = site.server.log();
    assert!(
        !log.contains("`settings.http.drain_timeout` is over"),
        "{log}"
    );
}

/// The former router ends what it has begun, the next has the store meanwhile; what one has delivered the other does not.
#[test]
fn an_upgrade_loses_nothing_and_delivers_nothing_twice() {
    let site = Spooling::start(&json!({"timeout": 600}));
    site.post("/jobs?wait=gate", b"long");
    wait_until("the first", || site.work().join("began-gate").exists());
    for n in 0..10 {
        site.send(
            "POST",
            "/jobs",
            "X-Tutti-Job-Delay: 1\r\n",
            format!("{n}").as_bytes(),
        );
    }
    site.server.upgrade();
    assert_eq!(site.server.pids("tutti: router").len(), 2);
    site.post("/jobs", b"after");
    let seen = site.wait_for(11);
    assert!(!seen.iter().any(|job| job["body"] == "long"));
    site.open("gate");
    site.wait_for(12);
    wait_until("all done", || {
        site.server.status("/spoolers/mail/jobs")
            == json!({"waiting": 0, "delivering": 0, "failed": 0})
    });
    assert!(by_id(&site.seen()).values().all(|count| *count == 1));
}

/// The former router answers one more request of each kept connection.
#[test]
fn a_job_on_a_connection_from_before_an_upgrade_is_stored() {
    let site = Spooling::start(&json!({"timeout": 600}));
    let mut kept = Client::to(site.server.address());
    let mut post = |body: &str| {
        let length = body.len();
        kept.send(format!(
            "POST /jobs HTTP/1.1\r\nHost: jobs.example\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        kept.response("POST")
    };
    assert_eq!(post("before").status, 202);
    let former = site.server.router();
    site.server.upgrade();
    // It has the store: the former router has released it.
    site.post("/jobs", b"after");
    let reply = post("passed on");
    assert_eq!(
        (reply.status, reply.keeps_connection()),
        (202, false),
        "{}",
        reply.text()
    );
    assert_ne!(site.server.router(), former);
    let seen = site.wait_for(3);
    let id = reply.json()["id"].clone();
    let passed = seen.iter().filter(|job| job["body"] == "passed on");
    assert_eq!(
        passed.map(|job| job["id"].clone()).collect::<Vec<_>>(),
        [id]
    );
    wait_until("all done", || {
        site.server.status("/spoolers/mail/jobs")
            == json!({"waiting": 0, "delivering": 0, "failed": 0})
    });
    assert!(by_id(&site.seen()).values().all(|count| *count == 1));
}

#[test]
fn every_example_applies() {
    let server = Server::start(&ServerOptions::default());
    server.write("app/index.php", "<?php echo 'hello';");
    let root = server.folder().join("app");
    let socket = server.folder().join("jobs.sock");
    let port = server.port().to_string();
    let places = [
        ("/var/www/app", root.to_str().unwrap()),
        ("/run/app/jobs.sock", socket.to_str().unwrap()),
        ("8080", port.as_str()),
        (
            "127.0.0.1:8025",
            &format!("127.0.0.1:{}", tutti_testkit::free_port()),
        ),
    ];
    let examples = json_examples(
        chapter(include_str!("../../../docs/operate/jobs.md"), "Spoolers"),
        &places,
    );
    assert!(examples.len() >= 2, "{}", examples.len());
    for example in examples {
        server.put("/config", &example);
        assert_eq!(server.get("/").text(), "hello", "{example}");
    }
}
