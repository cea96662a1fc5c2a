//! The behaviour that a resident script may rely on: each request as fresh as in a script of its own, whatever the last one did.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    dead_code
)]

#[path = "../conformance/host.rs"]
mod host;

use host::{Host, Request, get, method, post, scripts};
use serde_json::{Value, json};

fn config(script: &str) -> Value {
    json!({"root": scripts().join("resident"), "script": script, "mode": "resident"})
}

fn worker() -> Host {
    Host::with(&config("worker.php"))
}

fn case(name: &str) -> Request {
    get(&format!("/?case={name}"))
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn form(target: &str, body: &str) -> Request {
    post(target, "application/x-www-form-urlencoded", body.as_bytes())
}

// Boot and loop.

#[test]
fn the_script_boots_once() {
    let mut php = worker();
    assert_eq!(php.get("/").text(), "hello 1");
    assert_eq!(php.get("/").text(), "hello 2");
    let first = php.send(&case("boot")).json();
    let second = php.send(&case("boot")).json();
    assert_eq!(first["at"], second["at"]);
    assert_eq!(second["count"], 4);
}

#[test]
fn the_boot_knows_the_application_and_no_request() {
    let mut config = config("worker.php");
    config["environment"] = json!({"APP_ENV": "prod"});
    let mut php = Host::with(&config);
    let boot = php.send(&case("boot").field("X-Custom", "1")).json();
    let file = scripts().join("resident/worker.php");
    assert_eq!(
        (
            &boot["server"]["APP_ENV"],
            &boot["server"]["SCRIPT_FILENAME"]
        ),
        (&json!("prod"), &json!(file))
    );
    assert_eq!((&boot["method"], &boot["get"]), (&Value::Null, &json!([])));
}

#[test]
fn a_boot_that_fails_says_why() {
    for (how, expected) in [
        (
            "return",
            "ended without having called `tutti_handle_request()`",
        ),
        (
            "exit",
            "failing.php:5, before it called `tutti_handle_request()`",
        ),
        ("throw", "the database is away"),
        ("fatal", "Call to undefined function undefined_function()"),
        ("parse", "syntax error"),
        ("argument", "must be a valid callback"),
    ] {
        let mut php = Host::with_environment(&config("failing.php"), &[("HOW", how)]);
        let status = php.try_send(&get("/")).expect_err("no loop");
        assert_eq!(status.code(), Some(3), "{how}");
        let log = php.errors();
        assert!(log.contains(expected), "{how}: {log}");
        assert!(log.contains("failing.php"), "{how}: {log}");
    }
}

#[test]
fn outside_of_requests_output_goes_to_the_log() {
    let mut php = Host::with_environment(&config("worker.php"), &[("BOOT", "output")]);
    let first = php.send(&case("interval"));
    assert_eq!(
        (first.text().as_str(), first.all("X-Boot").len()),
        ("asked", 0)
    );
    let second = php.get("/");
    assert_eq!(
        (second.text().as_str(), second.all("X-Interval").len()),
        ("hello 2", 0)
    );
    assert_eq!(php.send(&case("last")).text(), "last");
    php.try_send(&get("/")).expect_err("the loop is over");
    let log = php.errors();
    for line in [
        "php output: written while booting",
        "php output: written between two requests",
        "php output: and in a buffer",
        "php output: the loop is over",
    ] {
        assert!(log.contains(line), "{line} is not in: {log}");
    }
}

#[test]
fn the_same_script_runs_without_the_mode() {
    let mut resident = Host::with(&config("fallback.php"));
    let mut classic = config("fallback.php");
    classic["mode"] = json!("classic");
    let mut classic = Host::with(&classic);
    for php in [&mut resident, &mut classic] {
        assert_eq!(php.get("/?name=a").text(), "GET a");
        assert_eq!(php.get("/").text(), "GET anyone");
    }
}

#[test]
fn a_request_cannot_ask_for_another() {
    let mut php = worker();
    assert!(
        php.send(&case("nested"))
            .text()
            .contains("within a request")
    );
    assert_eq!(php.get("/").text(), "hello 2");
}

// The request.

#[test]
fn superglobals_are_those_of_the_request() {
    let mut php = worker();
    let request = form("/a?case=seen&a=1", "b=2&c[]=3")
        .field("Cookie", "d=4")
        .field("X-Custom", "5")
        .field("Authorization", "Basic dXNlcjpwYXNz");
    let full = php.send(&request).json();
    assert_eq!(full["get"], json!({"case": "seen", "a": "1"}));
    assert_eq!(full["post"], json!({"b": "2", "c": ["3"]}));
    assert_eq!(full["cookie"], json!({"d": "4"}));
    assert_eq!(
        (
            &full["uri"],
            &full["method"],
            &full["auth"],
            &full["custom"],
            &full["input"]
        ),
        (
            &json!("/a?case=seen&a=1"),
            &json!("POST"),
            &json!("user"),
            &json!("5"),
            &json!("b=2&c[]=3")
        )
    );
    assert_eq!(
        full["request"],
        json!({"case": "seen", "a": "1", "b": "2", "c": ["3"]})
    );
    let empty = php.send(&case("seen")).json();
    assert_eq!(empty["get"], json!({"case": "seen"}));
    for name in ["post", "cookie", "files"] {
        assert_eq!(empty[name], json!([]), "{name}");
    }
    for name in ["auth", "custom"] {
        assert_eq!(empty[name], Value::Null, "{name}");
    }
    assert_eq!(empty["input"], "");
}

#[test]
fn globals_that_late_code_names_are_fresh_from_then_on() {
    let mut php = Host::with(
        &json!({"root": scripts().join("resident"), "script": "worker.php", "mode": "resident", "options": {"user": {"variables_order": "EGPCS"}}}),
    );
    for query in ["&a=1", "&b=2", "&c=3"] {
        let seen = php.get(&format!("/?case=late-globals{query}")).json();
        let request = seen["request"].as_object().expect("an array");
        assert_eq!(request.len(), 2, "{query}: {seen}");
        assert_eq!(seen["server"], format!("/?case=late-globals{query}"));
        assert_eq!(seen["env"], true);
    }
}

#[test]
fn path_information_is_that_of_the_request() {
    let mut php = Host::with(&config("worker.php"));
    let with = php.get("/worker.php/info?case=filter&a=7").json();
    assert_eq!(with, json!(["7", "GET", false]));
    let with = php.send(&form("/x?case=filter", "b=1")).json();
    assert_eq!(with, json!([null, "POST", true]));
    let with = php.get("/x?case=filter").json();
    assert_eq!(with, json!([null, "GET", false]));
}

#[test]
fn uploads_are_files_and_go_with_their_request() {
    let mut php = worker();
    let body = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n--x--\r\n";
    for _ in 0..2 {
        let files = php
            .send(&post(
                "/?case=upload",
                "multipart/form-data; boundary=x",
                body.as_bytes(),
            ))
            .json();
        let file = &files["f"];
        assert_eq!(
            (&file["name"], &file["text"], &file["ok"]),
            (&json!("a.txt"), &json!("content"), &json!(true))
        );
        let kept = file["tmp_name"].as_str().expect("a path");
        assert!(
            !std::path::Path::new(kept).exists(),
            "{kept} is still there"
        );
    }
    assert_eq!(php.send(&case("upload")).json(), json!([]));
}

#[test]
fn bodies_are_read_and_a_stream_kept_from_an_earlier_request_is_closed() {
    let mut php = worker();
    let large = "x".repeat(3_000_000);
    assert_eq!(
        php.send(&post("/?case=body", "text/plain", large.as_bytes()))
            .text(),
        large
    );
    assert_eq!(
        php.send(&post("/?case=body", "text/plain", b"small"))
            .text(),
        "small"
    );
    // Not read at all.
    assert_eq!(
        php.send(&post("/", "text/plain", large.as_bytes())).text(),
        "hello 3"
    );
    assert_eq!(php.send(&case("body")).text(), "");
    let held = |php: &mut Host, body: &[u8]| {
        php.send(&post("/?case=body-held", "text/plain", body))
            .text()
    };
    assert_eq!(held(&mut php, b"one"), "one");
    assert_eq!(held(&mut php, b"two"), "closed,two");
    assert_eq!(held(&mut php, b"three"), "closed,closed,three");
}

// The answer.

#[test]
fn status_and_fields_are_those_of_the_request() {
    let mut php = worker();
    let first = php.send(&case("headers").field("X-Ask", "1"));
    assert_eq!(
        (first.status, first.all("X-One"), first.all("X-Callback")),
        (202, vec!["1"], vec!["yes"])
    );
    assert_eq!(first.json()[0]["X-Ask"], "1");
    let second = php.get("/");
    assert_eq!(second.status, 200);
    for field in ["X-One", "X-Two", "X-Callback"] {
        assert!(second.all(field).is_empty(), "{field}");
    }
    assert_eq!(second.all("Content-Type"), ["text/html; charset=UTF-8"]);
    let head = php.send(&method("HEAD", "/?case=headers"));
    assert_eq!(
        (head.status, head.body.len(), head.all("X-One")),
        (202, 0, vec!["1"])
    );
    assert_eq!(php.send(&case("none")).status, 404);
    let empty = php.send(&case("nobody"));
    assert_eq!(
        (empty.status, empty.events.as_slice()),
        (200, ["start".to_owned(), "finish".to_owned()].as_slice())
    );
}

#[test]
fn output_streams_and_buffers() {
    let mut php = worker();
    let streamed = php.send(&case("flush"));
    assert_eq!(
        streamed.events,
        [
            "start", "write", "flush", "write", "flush", "write", "flush", "finish"
        ]
    );
    assert_eq!(php.send(&case("large")).body.len(), 64 * 16384);
    let mut php = Host::with(
        &json!({"root": scripts().join("resident"), "script": "worker.php", "mode": "resident", "options": {"user": {"output_buffering": "4096"}}}),
    );
    for _ in 0..2 {
        assert_eq!(
            php.send(&case("headers")).events,
            ["start", "write", "finish"]
        );
    }
}

#[test]
fn compression_looks_at_each_request() {
    let mut php = worker();
    let packed = php.send(&case("gz").field("Accept-Encoding", "gzip"));
    assert_eq!(packed.all("Content-Encoding"), ["gzip"]);
    let plain = php.send(&case("gz"));
    assert!(plain.all("Content-Encoding").is_empty());
    assert_eq!(plain.body.len(), 2000);
}

#[test]
fn finish_request_ends_the_answer_and_not_the_handler() {
    let mut php = worker();
    let folder = temporary();
    let file = folder.path().join("after.json");
    let target = format!("/?case=finish&file={}", file.display());
    let answer = php.send(&get(&target).field("X-Late", "read late"));
    assert_eq!(answer.text(), "answer");
    assert_eq!(answer.events, ["start", "write", "finish"]);
    let after: Value =
        serde_json::from_slice(&std::fs::read(file).expect("it went on")).expect("JSON");
    assert_eq!(after, json!([true, false, target, "GET", "read late"]));
    assert_eq!(php.get("/").text(), "hello 2");
}

#[test]
fn a_client_that_goes_ends_its_request_alone() {
    let mut php = worker();
    let folder = temporary();
    for option in ["", "&ignore"] {
        let file = folder.path().join("aborted.json");
        let target = format!("/?case=abort&file={}{option}", file.display());
        php.send(&get(&target).with("gone_after", 5000.into()));
        let seen: Value =
            serde_json::from_slice(&std::fs::read(&file).expect("told")).expect("JSON");
        assert_eq!(seen, json!([1, 1]), "{option}");
        let next = php.send(&case("seen")).json();
        assert_eq!(
            (&next["connection"], &next["ignore_abort"]),
            (&json!(0), &json!(0))
        );
    }
    let log = php.errors();
    assert!(!log.contains("is replaced"), "{log}");
}

// Ends of requests.

#[test]
fn every_end_is_an_answer_and_the_loop_goes_on() {
    every_end(&mut worker());
}

#[test]
fn the_same_with_compiled_code() {
    let mut config = config("worker.php");
    config["options"] = json!({"admin": {"opcache.jit": "function", "opcache.jit_buffer_size": "8M", "opcache.file_update_protection": "0"}});
    let mut php = Host::with(&config);
    every_end(&mut php);
    let mut php = Host::with(&config);
    for _ in 0..200 {
        assert_eq!(php.send(&case("exit-deep")).text(), "deep");
        assert_eq!(php.send(&case("throw")).status, 500);
        assert_eq!(php.send(&case("seen")).status, 200);
    }
}

fn every_end(php: &mut Host) {
    for (count, (name, status, body)) in (1..).step_by(2).zip([
        ("exit", 200, "before shutdown"),
        ("exit-message", 200, "message"),
        ("exit-deep", 200, "deep"),
        ("exit-shutdown", 200, "one"),
        ("throw", 500, ""),
        ("throw-late", 200, "sent"),
        ("throw-shutdown", 500, "ok"),
        ("throw-destructor", 500, ""),
        ("throw-output", 500, "x"),
        ("exception-handler", 503, "handled mine"),
        ("error-handler", 200, "handled: one;"),
        ("trigger", 200, ""),
        ("destructor", 200, "body destroyed"),
        ("leave-and-fail", 418, ""),
    ]) {
        let answer = php.send(&case(name));
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (status, body),
            "{name}"
        );
        assert_eq!(
            answer.events.last().map(String::as_str),
            Some("finish"),
            "{name}"
        );
        assert_eq!(
            php.get("/").text(),
            format!("hello {}", count + 1),
            "after {name}"
        );
    }
    let log = php.errors();
    for line in [
        "Uncaught RuntimeException: no handler catches me",
        "Uncaught RuntimeException: too late",
        "Uncaught RuntimeException: thrown at the end",
        "Uncaught RuntimeException: thrown in a destructor",
        "Uncaught RuntimeException: thrown in a callback",
        "PHP Warning:  two",
    ] {
        assert!(log.contains(line), "{line} is not in: {log}");
    }
    assert!(!log.contains("is replaced"), "{log}");
}

/// Issue 12: the process serves no other request.
#[test]
fn a_fatal_error_is_answered_and_ends_its_process() {
    for (name, status, body) in [
        ("fatal", 500, "after: 64"),
        ("memory", 500, ""),
        ("time", 500, ""),
        ("fatal-shutdown", 500, "ok"),
    ] {
        let mut php = worker();
        let answer = php.send(&case(name));
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (status, body),
            "{name}"
        );
        assert_eq!(
            answer.events.last().map(String::as_str),
            Some("finish"),
            "{name}"
        );
        let end = php.try_send(&get("/")).expect_err("it has left");
        assert!(end.success(), "{name}: {end}");
        let log = php.errors();
        assert!(log.contains("its process is replaced"), "{name}: {log}");
    }
}

#[test]
fn a_script_that_does_not_boot_again_ends_its_worker() {
    let folder = temporary();
    let mark = folder.path().join("mark");
    let mut php = Host::with_environment(
        &config("failing.php"),
        &[("HOW", "second"), ("MARK", mark.to_str().expect("text"))],
    );
    assert_eq!(php.get("/").text(), "served");
    assert_eq!(php.get("/?reset").text(), "served");
    // It has waited for the boot.
    assert_eq!(php.get("/").status, 500);
    let status = php.try_send(&get("/")).expect_err("it does not boot");
    assert_eq!(status.code(), Some(3));
    assert!(php.errors().contains("once is enough"), "{}", php.errors());
}

#[test]
fn the_time_limit_is_each_request_s_own() {
    let mut config = config("worker.php");
    config["options"] = json!({"user": {"max_execution_time": "1"}});
    let mut php = Host::with(&config);
    for _ in 0..4 {
        assert_eq!(php.get("/?case=busy&ms=400").text(), "busy");
    }
    assert_eq!(php.get("/?case=busy&ms=60000").status, 500);
    php.try_send(&get("/")).expect_err("it has left");
    assert!(
        php.errors()
            .contains("Maximum execution time of 1 second exceeded")
    );
}

#[test]
fn a_child_that_a_request_forks_answers_nothing() {
    let mut php = worker();
    assert_eq!(php.send(&case("fork")).text(), "parent 0");
    assert_eq!(php.send(&case("fork&exit")).text(), "parent 3");
    assert_eq!(php.send(&case("fork&fatal")).text(), "parent 255");
    assert_eq!(php.get("/").text(), "hello 4");
}

#[test]
fn a_script_may_end_its_loop() {
    let mut php = worker();
    assert_eq!(php.send(&case("last")).text(), "last");
    let status = php.try_send(&get("/")).expect_err("it has left");
    assert!(status.success(), "{}", php.errors());
}

// State.

#[test]
fn nothing_goes_from_one_request_to_the_next() {
    for boot in ["", "settings"] {
        let mut php = Host::with_environment(&config("worker.php"), &[("BOOT", boot)]);
        let clean = php.send(&case("seen")).json();
        for leave in ["leave", "leave-and-fail", "leave-restored"] {
            let request = form(&format!("/left?case={leave}"), "a=1")
                .field("Authorization", "Basic dXNlcjpwYXNz")
                .field("Cookie", "left=1")
                .field("X-Custom", "left");
            php.send(&request);
            let after = php.send(&case("seen")).json();
            for (name, expected) in clean.as_object().expect("an object") {
                assert_eq!(&after[name], expected, "{boot} {leave}: {name}");
            }
        }
        assert!(!php.errors().contains("is replaced"), "{}", php.errors());
    }
}

#[test]
fn handlers_with_names_are_those_of_the_boot_again() {
    let mut php = Host::with(&config("named.php"));
    for case in ["", "errors", "below", "exceptions"] {
        php.get(&format!("/?case={case}"));
        assert_eq!(
            php.get("/").text(),
            "boot: one;below: two;boot caught three",
            "after {case}"
        );
    }
}

#[test]
fn what_the_boot_sets_stays() {
    let mut php = Host::with_environment(&config("worker.php"), &[("BOOT", "settings")]);
    for _ in 0..2 {
        let seen = php.send(&case("seen")).json();
        for (name, expected) in [
            ("precision", json!("5")),
            ("zone", json!("Europe/Vienna")),
            ("mb", json!("ISO-8859-15")),
            ("cwd", json!("/")),
            ("env", json!([false, "yes"])),
            ("umask", json!(0o27)),
            ("handlers", json!([true, true])),
        ] {
            assert_eq!(seen[name], expected, "{name}");
        }
        assert_eq!(php.send(&case("trigger")).text(), "boot: two;");
        assert_eq!(
            php.send(&case("throw")).text(),
            "boot caught no handler catches me"
        );
        php.send(&case("leave"));
    }
    // Its save handler serves every session.
    let first = php.send(&case("session"));
    let cookie = first.all("Set-Cookie")[0]
        .split(';')
        .next()
        .expect("a cookie")
        .to_owned();
    assert_eq!(first.text(), "1");
    assert_eq!(
        php.send(&case("session").field("Cookie", &cookie)).text(),
        "2"
    );
    assert_eq!(php.send(&case("session")).text(), "1");
    // Its shutdown functions run when it ends, and after a fatal error.
    let mut other = Host::with_environment(&config("worker.php"), &[("BOOT", "settings")]);
    let fatal = other.send(&case("fatal"));
    assert!(
        fatal.text().contains("the boot is over"),
        "{}",
        fatal.text()
    );
    php.send(&case("last"));
    php.try_send(&get("/")).expect_err("it has left");
    assert!(
        php.errors().contains("php output: the boot is over"),
        "{}",
        php.errors()
    );
}

/// Where the first of its save handlers was the boot's, the others stayed for the next request.
#[test]
fn save_handlers_of_a_request_end_with_it() {
    let mut php = Host::with_environment(&config("worker.php"), &[("BOOT", "functions")]);
    assert_eq!(php.send(&case("session-from")).text(), "boot");
    php.send(&case("session-otherwise"));
    assert_eq!(php.send(&case("session-from")).text(), "boot");
}

#[test]
fn sessions_belong_to_their_cookie() {
    let mut php = worker();
    let folder = temporary();
    let target = format!("/?case=session&path={}", folder.path().display());
    let first = php.get(&target);
    let cookie = first.all("Set-Cookie")[0]
        .split(';')
        .next()
        .expect("a cookie")
        .to_owned();
    assert_eq!(first.text(), "1");
    assert_eq!(php.send(&get(&target).field("Cookie", &cookie)).text(), "2");
    assert_eq!(
        php.send(&case("session-unstarted")).json(),
        json!([null, ""])
    );
    let second = php.get(&target);
    assert_eq!(second.text(), "1");
    assert!(!second.all("Set-Cookie")[0].starts_with(&cookie));
    let exit = format!("/?case=session-exit&path={}", folder.path().display());
    php.send(&get(&exit).field("Cookie", &cookie));
    assert_eq!(
        php.send(&get(&target).field("Cookie", &cookie)).text(),
        "13"
    );
}

/// Issue 12: the first visitor got a session that the boot had begun, and fields and buffers were lost without a message.
#[test]
fn what_only_a_request_can_do_is_reported_when_the_boot_does_it() {
    let folder = temporary();
    let sessions = folder.path().to_str().expect("a path");
    let environment = [("BOOT", "vain"), ("SESSIONS", sessions)];
    let mut php = Host::with_environment(&config("worker.php"), &environment);
    assert_eq!(
        php.send(&case("session-unstarted")).json(),
        json!([null, ""])
    );
    let target = format!("/?case=session&path={sessions}");
    for _ in 0..2 {
        let visitor = php.get(&target);
        assert_eq!(visitor.text(), "1");
        assert_eq!(visitor.all("Set-Cookie").len(), 1);
        assert_eq!(visitor.all("X-Frame-Options").len(), 0);
    }
    let log = php.errors();
    for part in [
        "worker.php` has set fields of an answer that there is not (`",
        "`X-Frame-Options`",
        "while it booted (hint: set them in each request)",
        "has begun a buffer of output, which is closed, while it booted (hint: begin it in each request)",
        "has started a session, which belongs to no request and is closed, while it booted (hint: call `session_start()` in each request)",
    ] {
        assert!(log.contains(part), "{part} is not in: {log}");
    }
}

#[test]
fn a_boot_that_does_nothing_in_vain_is_not_reported() {
    let mut config = config("worker.php");
    config["options"] = json!({"user": {"output_buffering": "4096", "expose_php": "1"}});
    let mut php = Host::with_environment(&config, &[("BOOT", "settings")]);
    assert_eq!(php.get("/").status, 200);
    let log = php.errors();
    assert!(!log.contains("while it booted"), "{log}");
}

#[test]
fn sessions_may_start_by_themselves() {
    let folder = temporary();
    let mut config = config("worker.php");
    config["options"] =
        json!({"user": {"session.auto_start": "1", "session.save_path": folder.path()}});
    let mut php = Host::with(&config);
    for _ in 0..2 {
        let seen = php.send(&case("session-unstarted"));
        assert_eq!(seen.json()[0], json!([]));
        assert_eq!(seen.all("Set-Cookie").len(), 1);
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        2
    );
}

#[test]
fn numbers_made_predictable_are_so_for_one_request() {
    let mut php = worker();
    let seeded = php.get("/?case=random&seed=7").text();
    let free = php.send(&case("random")).text();
    assert_eq!(php.get("/?case=random&seed=7").text(), seeded);
    assert_ne!(php.send(&case("random")).text(), free);
}

#[test]
fn what_php_cached_of_a_file_is_looked_up_again() {
    let mut php = worker();
    let folder = temporary();
    let file = folder.path().join("file");
    let ask = format!("/?case=stat-cached&file={}", file.display());
    std::fs::write(&file, "").expect("written");
    assert_eq!(php.get(&ask).json(), true);
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(php.get(&ask).json(), false);
}

#[test]
fn static_and_global_variables_are_the_script_s_own_and_stay() {
    let mut php = worker();
    assert_eq!(php.send(&case("static")).text(), "1");
    assert_eq!(php.send(&case("static")).text(), "2");
    assert_eq!(php.send(&case("global")).json(), Value::Null);
    assert_eq!(php.send(&case("global")).json(), 1);
    for _ in 0..2 {
        assert_eq!(php.send(&case("included")).text(), "[\"late\"]false");
    }
}

#[test]
fn a_template_that_changes_is_seen() {
    let mut config = config("worker.php");
    config["options"] = json!({"admin": {"opcache.file_update_protection": "0"}});
    let mut php = Host::with(&config);
    let folder = temporary();
    let file = folder.path().join("template.php");
    for (age, text) in [(30, "one"), (20, "second"), (10, "the third")] {
        std::fs::write(&file, format!("<?php return '{text}';")).expect("written");
        let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        std::fs::File::options()
            .write(true)
            .open(&file)
            .and_then(|file| file.set_modified(changed))
            .expect("its time is set");
        assert_eq!(
            php.get(&format!("/?case=template&file={}", file.display()))
                .text(),
            text
        );
    }
}

#[test]
fn resetting_opcache_boots_the_script_anew() {
    let mut php = worker();
    let first = php.send(&case("boot")).json();
    assert_eq!(php.send(&case("reset")).text(), "true");
    let second = php.send(&case("boot")).json();
    assert_ne!(first["at"], second["at"]);
    assert_eq!(
        (&first["pid"], &second["count"]),
        (&second["pid"], &json!(1))
    );
}

#[test]
fn memory_is_given_back() {
    let mut php = worker();
    let busy = |php: &mut Host| {
        php.send(&form("/?case=seen&a=1", "b=2&c[]=3"));
        php.send(&case("leave"));
        php.send(&case("throw"));
        php.send(&case("exit"));
        php.send(&post("/?case=body", "text/plain", b"body"));
    };
    let now = |php: &mut Host| -> u64 {
        php.send(&case("memory-now"))
            .text()
            .parse()
            .expect("a number")
    };
    busy(&mut php);
    busy(&mut php);
    let before = now(&mut php);
    for _ in 0..50 {
        busy(&mut php);
    }
    assert_eq!(now(&mut php), before);
    let peak = |php: &mut Host, query: &str| -> u64 {
        php.get(&format!("/?case=peak{query}"))
            .text()
            .parse()
            .expect("a number")
    };
    assert!(peak(&mut php, "&use") > 8 << 20);
    assert!(peak(&mut php, "") < 8 << 20);
}
