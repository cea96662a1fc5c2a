//! An ASGI application may rely on this, through the whole server.

use std::io::Read;

use serde_json::{Value, json};
use tutti_e2e::python::PythonSite;
use tutti_e2e::read_until;
use tutti_sys::signal;
use tutti_testkit::wait_until;

fn start(extra: &Value) -> PythonSite {
    let mut members = json!({"module": "asynchronous"});
    tutti_testkit::set_members(&mut members, extra);
    PythonSite::start(&members)
}

#[test]
fn the_scope_is_complete() {
    let site = start(&json!({"prefix": "/scope"}));
    let scope = site
        .send(
            "GET",
            "/scope?a=%20&b",
            "X-Twice: 1\r\nx-twice: 2\r\nX-Latin: \u{e9}\r\n",
            b"",
        )
        .json();
    for (name, expected) in [
        ("type", json!("http")),
        ("asgi", json!({"version": "3.0", "spec_version": "2.3"})),
        ("http_version", json!("1.1")),
        ("method", json!("GET")),
        ("scheme", json!("http")),
        ("path", json!("/scope")),
        ("raw_path", json!("/scope")),
        ("query_string", json!("a=%20&b")),
        ("root_path", json!("/scope")),
        ("server", json!(["127.0.0.1", site.server.port()])),
        ("kinds", json!(["bytes"])),
        ("is_same_loop", json!(true)),
        (
            "extensions",
            json!({"http.response.trailers": {}, "http.response.early_hint": {}}),
        ),
    ] {
        assert_eq!(scope[name], expected, "{name} in {scope}");
    }
    assert_eq!(scope["client"][0], "127.0.0.1");
    assert!(scope["client"][1].as_u64().unwrap() > 0);
    assert_eq!(
        scope["headers"],
        json!([
            ["host", "test"],
            ["connection", "close"],
            ["x-twice", "1"],
            ["x-twice", "2"],
            ["x-latin", "\u{c3}\u{a9}"]
        ])
    );
    assert_eq!(site.get("/%C3%A9").text(), "Hello from ASGI\n");
}

#[test]
fn responses_come_whole() {
    let site = start(&json!({}));
    for query in [
        "",
        "?piece=300000",
        "?piece=64&size=100000",
        "?kind=bytearray",
        "?kind=memoryview",
    ] {
        let text = site.get(&format!("/stream{query}")).text();
        let count = if query.contains("size") {
            100_000 / 64
        } else {
            1_000_000 / 64
        };
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), count, "{query}");
        assert!(
            lines
                .iter()
                .enumerate()
                .all(|(n, line)| line.parse() == Ok(n)),
            "{query}"
        );
    }
    assert_eq!(
        site.send("HEAD", "/", "", b"").field("content-length"),
        Some("16")
    );
}

#[test]
fn a_client_that_goes_is_reported() {
    let site = start(&json!({"processes": 1}));
    let folder = site.work().display().to_string();
    let mut stream = site.open(&format!("/disconnect?folder={folder}"));
    read_until(&mut stream, "begun");
    drop(stream);
    let mut seen = Value::Null;
    wait_until("the whole file", || {
        seen = serde_json::from_str(&site.wait_for_file("disconnect")).unwrap_or_default();
        !seen.is_null()
    });
    assert_eq!(
        seen,
        json!([
            ["http.request", "http.disconnect", "http.disconnect"],
            "the client has gone"
        ])
    );
    let mut stream = site.open(&format!("/endless?folder={folder}"));
    read_until(&mut stream, "xxxx");
    drop(stream);
    wait_until("the end is noted", || {
        site.wait_for_file("ended").contains("ConnectionResetError")
    });
    assert!(
        !site.server.log().contains("exception in the application"),
        "{}",
        site.server.log()
    );
}

#[test]
fn waiting_for_a_message_is_like_a_coroutine() {
    let site = start(&json!({"processes": 1}));
    assert_eq!(site.get("/after").text(), "done");
    wait_until("the application ends", || {
        site.get("/noted?name=after").json() == json!(["http.disconnect", "http.disconnect"])
    });
    let seen = site.send("POST", "/cancelled", "", b"body").json();
    assert_eq!(
        seen,
        json!({"type": "http.request", "body": "body", "more_body": false, "outcome": "cancelled"})
    );
}

#[test]
fn a_request_is_a_task_of_its_own() {
    let site = start(&json!({"processes": 1}));
    let seen = site.get("/task").json();
    assert_eq!(
        seen,
        json!({"had": true, "same": true, "inner": ["a", "b", "timed out", 0, 1, 2]})
    );
    assert_eq!(site.get("/context").text(), "unset");
}

#[test]
fn a_variable_that_is_set_before_the_coroutine_is_its_requests_own() {
    let site = start(&json!({"processes": 1, "targets": {
        "outside": {"module": "asynchronous", "callable": "context_outside"},
        "double": {"module": "asynchronous", "callable": "DoubleContext"},
    }}));
    for target in ["outside", "double", "outside", "double"] {
        let field = format!("Target: {target}\r\n");
        let text = site.send("GET", "/", &field, b"").text();
        assert_eq!(text, "unset, set outside", "{target}");
    }
}

#[test]
fn a_child_that_a_request_forks_answers_nothing() {
    let site = start(&json!({"processes": 1}));
    let process = site.get("/pid").text();
    for (how, status) in [("return", 0), ("exit", 3), ("raise", 1), ("wait", 0)] {
        let reply = site.get(&format!("/forks?how={how}"));
        assert_eq!(reply.text(), format!("parent {status}"), "{how}");
    }
    assert_eq!(site.get("/pid").text(), process);
    let reason = "ends where it waits for the event loop";
    wait_until("the reason", || site.server.log().contains(reason));
}

#[test]
fn one_process_serves_many_at_once() {
    let site = start(&json!({"processes": 1}));
    let target = format!("/together?folder={}", site.work().display());
    let answers: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| site.get(&target).text()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        answers
            .iter()
            .all(|answer| *answer == answers[0] && !answer.is_empty()),
        "{answers:?}"
    );
}

#[test]
fn threads_are_for_what_is_moved_off_the_loop() {
    let site = start(&json!({"processes": 1, "threads": 3, "thread_stack_size": 1 << 20}));
    let seen = site.get("/meet?count=3").json();
    assert_eq!(seen, json!({"most": 3, "stack": 1 << 20}));
    let extra = json!({"module": "asynchronous", "thread_stack_size": 1000});
    let error = site.refused(&extra)["errors"][0].clone();
    assert_eq!(
        error["pointer"], "/applications/app/thread_stack_size",
        "{error}"
    );
}

#[test]
fn lifespan_has_state_and_an_end() {
    let site = PythonSite::bare();
    site.configure(
        &json!({"module": "asynchronous", "processes": 1, "environment": {"FOLDER": site.work()}}),
    );
    for _ in 0..2 {
        assert_eq!(
            site.get("/state").json(),
            json!({"greeting": "made at startup"})
        );
    }
    site.server.put("/config", &json!({}));
    site.wait_for_note("shutdown", "shut down");
    let refused = site.refused(&json!({"module": "asynchronous", "callable": "fails_at_startup"}));
    assert!(
        refused.to_string().contains("the database is away"),
        "{refused}"
    );
}

/// Issue 10, 2.3: why a start failed was in the answer of the control API only, and that it had raised was nowhere.
#[test]
fn a_failed_start_is_in_the_log_with_its_traceback() {
    let site = PythonSite::bare();
    let refused = site.refused(&json!({"module": "asynchronous", "callable": "fails_at_startup"}));
    assert!(refused.to_string().contains("the database is away"));
    site.wait_for_log("the database is away");
    site.wait_for_log("Application startup failed");
    let callable = "fails_and_raises_at_startup";
    let refused = site.refused(&json!({"module": "asynchronous", "callable": callable}));
    let traceback = [
        "says that its startup failed",
        "in connect_to_the_database",
        "OSError: the database does not answer",
    ];
    for text in traceback {
        assert!(refused.to_string().contains(text), "{refused}");
        site.wait_for_log(text);
    }
    // One that raises without an answer is served (ASGI, Lifespan Protocol), and the reason is logged.
    let site =
        PythonSite::start(&json!({"module": "asynchronous", "callable": "raises_at_startup"}));
    for text in traceback.get(1..).unwrap() {
        site.wait_for_log(text);
    }
    assert_eq!(site.get("/").text(), "served nevertheless");
    // One that does not know lifespan at all says so in a line.
    let site = PythonSite::start(&json!({"module": "asynchronous", "callable": "no_lifespan"}));
    site.wait_for_log("AssertionError: lifespan is not supported");
    assert!(
        !site.server.log().contains("Traceback"),
        "{}",
        site.server.log()
    );
}

/// Issue 10, 2.3: a response without a body message was a 502.
#[test]
fn a_response_without_a_body_message_has_an_empty_body() {
    let site = start(&json!({"processes": 1}));
    for _ in 0..3 {
        let reply = site.get("/bodiless");
        assert_eq!((reply.status, reply.text().as_str()), (200, ""));
        assert_eq!(reply.field("x-said"), Some("all"));
        assert_eq!(site.get("/bodiless?status=204").status, 204);
    }
    let warning = "returned without `http.response.body`";
    site.wait_for_log(warning);
    assert_eq!(site.server.log().matches(warning).count(), 1);
    assert_eq!(site.raw("/bodiless").matches("HTTP/1.1 ").count(), 1);
}

#[test]
fn every_kind_of_application_is_recognised() {
    let site = PythonSite::start(&json!({"targets": {
        "double": {"module": "asynchronous", "callable": "Double"},
        "instance": {"module": "asynchronous", "callable": "instance", "prefix": "/a"},
        "bare": {"module": "asynchronous", "callable": "no_lifespan"},
    }}));
    let ask = |target: &str| {
        site.send("GET", "/a", &format!("Target: {target}\r\n"), b"")
            .text()
    };
    assert_eq!(ask("double"), "double 2.0");
    assert_eq!(ask("instance"), "instance /a");
    assert_eq!(ask("bare"), "no lifespan");
    let mixed = site.refused(&json!({"targets": {
        "one": {"module": "asynchronous"}, "two": {"module": "application"},
    }}));
    assert!(
        mixed.to_string().contains("make two applications of them"),
        "{mixed}"
    );
    site.configure(&json!({"module": "asynchronous", "protocol": "asgi"}));
    assert_eq!(site.get("/scope").json()["is_same_loop"], true);
}

#[test]
fn failures_have_a_status_and_a_traceback() {
    let site = start(&json!({"processes": 1}));
    for (at, traceback) in [
        ("start", "RuntimeError: fails before the start"),
        ("later", "RuntimeError: fails after a wait"),
        ("silent", "returned without a response"),
        (
            "body",
            "`http.response.body` was sent before `http.response.start`",
        ),
        ("kind", "`http.nonsense` cannot be sent here"),
        ("text", "pairs of `bytes`"),
        ("header", "cannot be sent: a name must be a token"),
        ("status", "status 99 is outside 200 to 599"),
    ] {
        let reply = site.get(&format!("/fails?at={at}"));
        assert_eq!(reply.status, 500, "{at}");
        assert_eq!(reply.field("x-evil"), None);
        site.wait_for_log(traceback);
    }
    for (at, text) in [
        ("middle", "fails in the middle"),
        ("unfinished", "before its response was complete"),
    ] {
        let broken = site.raw(&format!("/fails?at={at}"));
        assert!(!broken.ends_with("0\r\n\r\n"), "{broken:?}");
        site.wait_for_log(text);
    }
    for (at, text) in [
        ("end", "fails after the end"),
        ("twice", "after the response was complete"),
    ] {
        assert_eq!(
            site.get(&format!("/fails?at={at}")).text(),
            "begun and ended"
        );
        site.wait_for_log(text);
    }
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn leaving_ends_the_process_and_nothing_else() {
    let site = start(&json!({"processes": 1}));
    let before = site.get("/pid").text();
    assert_eq!(site.get("/fails?at=exit").status, 500);
    wait_until("another process", || site.get("/pid").text() != before);
}

#[test]
fn what_goes_on_after_the_response_is_not_waited_for() {
    let site = start(&json!({"processes": 1}));
    let reply = site.get(&format!("/background?folder={}", site.work().display()));
    assert_eq!(reply.text(), "at once");
    assert!(!site.work().join("done").exists());
    site.touch("go");
    site.wait_for_file("done");
}

#[test]
fn a_worker_that_is_killed_costs_its_own_requests() {
    let site = start(&json!({"processes": 1}));
    let mut stream = site.open(&format!("/stepwise?folder={}", site.work().display()));
    read_until(&mut stream, "step 0");
    let worker = site.server.wait_for_workers("app", 1)[0];
    signal::send(worker, libc::SIGKILL).unwrap();
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest);
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest:?}");
    for _ in 0..20 {
        assert_eq!(site.get("/").status, 200);
    }
}

#[test]
fn replacing_the_application_lets_requests_finish() {
    let site = start(&json!({"processes": 1}));
    let mut stream = site.open(&format!("/stepwise?folder={}", site.work().display()));
    read_until(&mut stream, "step 0");
    site.server.restart("app");
    for step in 0..3 {
        site.touch(&format!("step{step}"));
    }
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest:?}");
}

#[test]
fn each_process_of_a_preloaded_application_has_a_loop_of_its_own() {
    let site = PythonSite::bare();
    for protocol in [json!({}), json!({"protocol": "asgi"})] {
        let mut members = json!({
            "module": "preloaded_asgi", "processes": 1, "preload": true, "limits": {"requests": 1},
        });
        tutti_testkit::set_members(&mut members, &protocol);
        site.configure(&members);
        let answers = [site.get("/").json(), site.get("/").json()];
        assert_ne!(answers[0]["pid"], answers[1]["pid"]);
        for answer in &answers {
            assert_eq!(answer["imported"], answers[0]["imported"]);
            assert_ne!(answer["imported"], answer["pid"]);
            assert_eq!(answer["in_thread"], answer["pid"]);
            assert_eq!(answer["said"], "said\n");
        }
    }
}
