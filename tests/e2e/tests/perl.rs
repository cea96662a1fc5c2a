//! A PSGI application and its operator may rely on this, through the whole server. Beside Plack's own suite, which passes whole.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::perl::PerlSite;
use tutti_e2e::{read_until, wait_for_place, wait_for_stacks};
use tutti_sys::signal;
use tutti_testkit::{Load, LoadOptions, PATIENCE, client, wait_until};

fn site() -> PerlSite {
    PerlSite::start("app.psgi", &json!({}))
}

fn single() -> PerlSite {
    PerlSite::start("app.psgi", &json!({"processes": 1}))
}

#[test]
fn placks_suite_passes_whole() {
    let site = PerlSite::start("suite.psgi", &json!({}));
    // It asks for repeated slashes and needless escapes as they were sent.
    let as_sent = json!({"http": {"merge_slashes": false, "decode_unreserved": false}});
    site.server.put("/config/settings", &as_sent);
    let output = Command::new("perl")
        .arg(site.root().join("suite.pl"))
        .arg(site.server.port().to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let passed = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(passed >= 36, "{passed} passed:\n{text}");
    assert!(
        !text.contains("# skip") && !text.contains("not ok"),
        "{text}"
    );
}

// The environ.

#[test]
fn the_environ_is_complete() {
    let site = site();
    let fields = "X-Field: one\r\nx-field: two\r\nCookie: a=1\r\nCookie: b=2\r\nProxy: evil\r\nContent-Type: text/x\r\nContent-Length: 4\r\n";
    let env = site
        .send("POST /a%2Fb//c/env?x=%20y", fields, b"body")
        .json();
    let expected = json!({
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": "/a/b/c/env", "REQUEST_URI": "/a%2Fb/c/env?x=%20y",
        "QUERY_STRING": "x=%20y", "SERVER_NAME": "test", "SERVER_PORT": site.server.port().to_string(),
        "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "CONTENT_TYPE": "text/x", "CONTENT_LENGTH": "4",
        "HTTP_HOST": "test", "HTTP_X_FIELD": "one, two", "HTTP_COOKIE": "a=1; b=2",
        "psgi.version": ["1", "1"], "psgi.url_scheme": "http", "psgi.input": "GLOB", "psgi.errors": "GLOB",
        "psgi.multithread": "0", "psgi.multiprocess": "1", "psgi.run_once": "0", "psgi.nonblocking": "0",
        "psgi.streaming": "1", "psgix.input.buffered": "1", "psgix.harakiri": "1", "psgix.cleanup": "1",
        "psgix.cleanup.handlers": []
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&env[name], value, "{name}");
    }
    assert_ne!(env["REMOTE_PORT"], "0");
    for name in [
        "HTTP_PROXY",
        "HTTP_CONTENT_TYPE",
        "HTTP_CONTENT_LENGTH",
        "psgix.io",
        "psgix.informational",
    ] {
        assert_eq!(env[name], Value::Null, "{name}");
    }
}

#[test]
fn the_name_of_perls_program_is_a_perl() {
    let said = single().get("/program").text();
    assert!(said.ends_with("/perl the same version"), "{said}");
}

#[test]
fn an_application_sees_the_path_that_was_routed() {
    let site = site();
    for (target, path, uri) in [
        ("/a/../env", "/env", "/env"),
        ("/a/./env", "/a/env", "/a/env"),
        ("/a//../env", "/env", "/env"),
        ("//a///env", "/a/env", "/a/env"),
        ("/%c3%a9/env", "/\u{c3}\u{a9}/env", "/%c3%a9/env"),
    ] {
        let env = site.get(target).json();
        assert_eq!(env["PATH_INFO"], path, "{target}");
        assert_eq!(env["REQUEST_URI"], uri);
    }
}

/// Issue 28: perl looked for it in `@INC`, and the reason was that it gives no application.
#[test]
fn a_relative_script_starts_at_the_working_directory() {
    let site = site();
    let folder = site.server.folder().join("relative");
    site.server
        .write("relative/app.psgi", "sub { [200, [], ['relative']] }");
    for preload in [false, true] {
        let mut whole = site.configuration(&json!({}));
        whole["applications"]["perl"] = json!({
            "type": "perl", "working_directory": folder, "script": "app.psgi", "preload": preload,
        });
        site.server.put("/config", &whole);
        assert_eq!(site.get("/").text(), "relative");
    }
}

#[test]
fn one_process_says_so() {
    let env = single().get("/env").json();
    assert_eq!(env["psgi.multiprocess"], "0");
    assert_eq!(env["psgi.multithread"], "0");
}

#[test]
fn http_1_0_without_host_has_a_server_name() {
    let site = site();
    let reply = client::request(site.server.address(), b"GET /env HTTP/1.0\r\n\r\n").unwrap();
    let env = reply.json();
    assert_eq!(env["SERVER_PROTOCOL"], "HTTP/1.0");
    assert_eq!(env["SERVER_NAME"], "127.0.0.1");
}

#[test]
fn what_an_application_keeps_of_a_request_stays_as_it_was() {
    let site = single();
    assert_eq!(site.post("/keep?first", b"a body").text(), "kept");
    assert_eq!(
        site.post("/kept?second", b"another").text(),
        "another first 6"
    );
    assert_eq!(site.get("/env?third").json()["QUERY_STRING"], "third");
    let large = vec![b'x'; 300_000];
    assert_eq!(site.post("/keep?large", &large).text(), "kept");
    assert_eq!(
        site.post("/kept?second", b"another").text(),
        "another large nothing",
        "what lay in the spool went with the answer"
    );
    assert_ne!(site.get("/iterate").text(), "0");
    let env = site.get("/env?fourth").json();
    assert_eq!(env["QUERY_STRING"], "fourth");
    assert_eq!(
        env["CONTENT_TYPE"],
        Value::Null,
        "nothing of another request"
    );
}

// The request's body.

#[test]
fn input_is_a_handle_that_reads_and_seeks() {
    let site = site();
    let read = json!([
        "0123",
        "4",
        "0123456",
        "789\n",
        "second line\n",
        "more",
        "23456789\n",
        "end",
        "end",
        "0",
        "0",
        "49",
        "2",
        "A2"
    ]);
    let body = b"0123456789\nsecond line\nend";
    let chunked = client::chunked(body, 7);
    for _ in 0..2 {
        assert_eq!(site.post("/input", body).json(), read);
        let reply = site.send("POST /input", "Transfer-Encoding: chunked\r\n", &chunked);
        assert_eq!(reply.json(), read);
    }
    let env = site
        .send("POST /env", "Transfer-Encoding: chunked\r\n", &chunked)
        .json();
    assert_eq!(env["CONTENT_LENGTH"], body.len().to_string());
    assert_eq!(env["HTTP_TRANSFER_ENCODING"], Value::Null);
}

/// Issue 10, 2.4: `psgi.input` had no descriptor, so it could not be copied by it.
#[test]
fn input_can_be_copied_by_its_descriptor() {
    let site = single();
    for length in [0, 2, 1000, 2_000_000_u32] {
        let body: Vec<u8> = (0..length).map(|i| b'a' + (i % 23) as u8).collect();
        let rest = body.get(2..).unwrap_or_default();
        let sum = rest.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let first = String::from_utf8_lossy(&body[..body.len().min(2)]).into_owned();
        let lengths = [rest.len(), rest.len(), body.len(), body.len(), body.len()]
            .map(|length| length.to_string());
        let mut expected = vec![first, sum.to_string()];
        expected.extend(lengths);
        for _ in 0..2 {
            assert_eq!(
                site.post("/copied", &body).json(),
                json!(expected),
                "{}",
                site.server.log()
            );
        }
    }
}

#[test]
fn a_large_body_is_read_twice_and_sought_in() {
    let site = site();
    let body: Vec<u8> = (0..2_000_000_u32).map(|i| b'a' + (i % 23) as u8).collect();
    let sum = body.iter().map(|&byte| u64::from(byte)).sum::<u64>() * 2;
    let middle = String::from_utf8_lossy(&body[123_456..123_466]);
    // `unpack "%32C*"` counts modulo 2^32 each time, far above these pieces.
    let expected = format!("{} {sum} {middle}", body.len() * 2);
    assert_eq!(site.post("/sum", &body).text(), expected);
}

#[test]
fn lines_of_a_large_body_are_whole() {
    let site = site();
    let lengths = [10, 70_000, 1, 65_536, 131_072, 5];
    let mut body = Vec::new();
    for length in lengths {
        body.resize(body.len() + length - 1, b'x');
        body.push(b'\n');
    }
    let found = site.post("/lines", &body).json();
    let expected: Vec<_> = lengths.iter().map(usize::to_string).collect();
    assert_eq!(found, json!(expected));
}

#[test]
fn handles_that_an_application_closes_or_changes_are_replaced() {
    let site = single();
    for _ in 0..2 {
        assert_eq!(site.post("/close_input", b"a").text(), "closed");
        assert_eq!(site.post("/crlf_input", b"a\r\nb").text(), "3");
        assert_eq!(site.post("/lines", b"a\r\nb").json(), json!(["3", "1"]));
        assert_eq!(site.get("/errors").text(), "logged");
    }
}

#[test]
fn errors_go_to_the_log_line_by_line() {
    let site = site();
    assert_eq!(site.get("/errors").text(), "logged");
    site.wait_for_log("without an end: 42\n");
    let log = site.server.log();
    assert!(
        log.lines()
            .any(|line| line.contains("[error]") && line.ends_with("in two pieces")),
        "{log}"
    );
    let (first, second) = (log.find(" first line\n"), log.find(" second line\n"));
    assert!(first.is_some() && first < second, "{log}");
    // Issue 10, 1.25: the second line of one message was logged as a notice.
    let second = log.lines().find(|line| line.ends_with(" second line"));
    assert!(second.is_some_and(|line| line.contains("[error]")), "{log}");
}

#[test]
fn errors_have_the_descriptor_of_standard_error() {
    let site = single();
    for round in 1..=2 {
        assert_eq!(site.get("/errors_by_number").text(), "2 as STDERR");
        for line in [
            "by a copy",
            "by a number",
            "by a program",
            "by STDERR",
            "by itself",
        ] {
            wait_until(line, || {
                let log = site.server.log();
                log.lines().filter(|have| have.ends_with(line)).count() == round
            });
        }
    }
}

// Bodies.

#[test]
fn arrays_are_joined_and_measured() {
    let site = site();
    let reply = site.get("/pieces");
    assert_eq!(
        (reply.text().as_str(), reply.field("Content-Length")),
        ("one two 3", Some("9"))
    );
    let reply = site.get("/empty");
    assert_eq!((reply.status, reply.field("Content-Length")), (204, None));
    let reply = site.get("/overloaded");
    assert_eq!(
        (reply.text().as_str(), reply.field("X-Object")),
        ("a body", Some("a field"))
    );
    assert_eq!(site.get("/latin").body, b"caf\xe9");
    let reply = site.send("HEAD /pieces", "", b"");
    assert_eq!(
        (reply.body.len(), reply.field("Content-Length")),
        (0, Some("9"))
    );
}

#[test]
fn handles_are_sent_as_they_read() {
    let site = site();
    let script = fs::read(site.root().join("app.psgi")).unwrap();
    let second_line = script.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(site.get("/file").body, script);
    assert_eq!(
        site.get("/file").field("Content-Length"),
        Some(script.len().to_string().as_str())
    );
    assert_eq!(site.get("/file_rest").body, &script[second_line..]);
    assert_eq!(site.get("/file_object").body, script);
    assert_eq!(site.get("/file_own").body, script.to_ascii_uppercase());
    fs::write(site.work().join("crlf"), "a\r\nb\r\n").unwrap();
    assert_eq!(site.get("/file_crlf").text(), "a\nb\n");
    let large: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    fs::write(site.work().join("large"), &large).unwrap();
    assert_eq!(site.get("/file_large").body, large);
    assert_eq!(site.get("/memory").text(), "in memory\nand more\n");
    assert_eq!(site.get("/pipe").text(), "from a process");
    assert_eq!(site.get("/tied").text(), "tied 1\ntied 2\ntied 3\n");
    site.wait_for_note("closed", "tied");
}

#[test]
fn objects_are_asked_for_pieces_and_closed() {
    let site = site();
    assert_eq!(site.get("/object").text(), "ab65536");
    site.wait_for_note("closed", "lines");
    assert_eq!(site.get("/guarded").text(), "guarded");
    site.wait_for_note("destroyed", "never seen");
}

// Delayed and streaming.

#[test]
fn responders_and_writers_answer_once() {
    let site = single();
    let reply = site.get("/delayed");
    assert_eq!(
        (reply.text().as_str(), reply.field("X-Delayed")),
        ("delayed", Some("1"))
    );
    assert_eq!(site.get("/stream").text(), "piece 1\npiece 2\npiece 3\n");
    assert_eq!(site.get("/stream_open").text(), "never closed");
    assert_eq!(site.get("/stream_twice").text(), "once");
    site.wait_for_note("twice", "the responder was called twice");
    assert_eq!(site.get("/stream_late").text(), "");
    site.wait_for_note("late", "the writer has been closed");
    assert_eq!(site.get("/stream_never").status, 500);
    site.wait_for_log("without having called the responder");
    assert_eq!(site.get("/stream_keep").text(), "kept");
    let text = site.get("/stream_kept").text();
    assert!(
        text.contains("the responder was used after its request had ended"),
        "{text}"
    );
}

#[test]
fn threads_serve_at_once_in_one_process() {
    let site = PerlSite::start("app.psgi", &json!({"processes": 1, "threads": 3}));
    site.wait_for_workers(1);
    let env = site.get("/env").json();
    assert_eq!(env["psgi.multithread"], "1");
    assert_eq!(env["psgi.multiprocess"], "0");
    let mut streams: Vec<_> = (0..3).map(|_| site.connect()).collect();
    for stream in &mut streams {
        stream
            .write_all(b"GET /stream_slow HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            .unwrap();
    }
    for stream in &mut streams {
        read_until(stream, "first");
    }
    fs::write(site.work().join("go"), "").unwrap();
    for stream in &mut streams {
        read_until(stream, "second");
    }
    for path in ["/die", "/exit"] {
        assert_eq!(site.get(path).status, 500, "{path}");
    }
    site.wait_for_log("the application called exit(3)");
    let load = Load::start(&LoadOptions::get(site.server.address(), "/pieces", 6));
    assert!(load.wait_for_answers(300, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome:?}");
}

#[test]
fn a_writer_learns_that_its_client_has_gone() {
    let site = single();
    let mut stream = site.connect();
    stream
        .write_all(b"GET /stream_endless HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    site.wait_for_note("gone", "the client has gone");
    assert_eq!(site.get("/pieces").text(), "one two 3");
}

// Faults.

#[test]
fn an_application_that_dies_is_answered_for_and_goes_on() {
    let site = single();
    let workers = site.workers();
    for (path, logged) in [
        ("/die", "the application dies"),
        ("/die_object", "a false object dies"),
        ("/die_text", "in pieces at "),
        (
            "/nothing",
            "must return an array or a code reference, not undef",
        ),
        (
            "/string",
            "must return an array or a code reference, not a plain value",
        ),
        ("/short", "there are 2"),
        ("/odd", "must be pairs: there are 1"),
        ("/status", "a number from 200 to 599, not `what?`"),
        ("/early", "a number from 200 to 599, not `103`"),
        ("/body_string", "the body of a response must be"),
        ("/wide", "has characters above 255"),
        (
            "/wide_field",
            "the value of a header field has characters above 255",
        ),
        ("/object_dies", "at the first line"),
        (
            "/object_wide",
            "the body of a response has characters above 255",
        ),
    ] {
        let reply = site.get(path);
        assert_eq!(reply.status, 500, "{path}");
        assert!(reply.text().contains("500 Internal Server Error"), "{path}");
        site.wait_for_log(logged);
    }
    assert_eq!(site.workers(), workers);
    assert_eq!(site.get("/nowhere").status, 404);
}

#[test]
fn an_answer_that_cannot_be_completed_is_broken_off() {
    let site = single();
    for path in ["/stream_dies", "/object_dies_later"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let answer = client::raw(site.server.address(), request.as_bytes()).unwrap_or_default();
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.ends_with("0\r\n\r\n"), "{path}: {text}");
    }
    site.wait_for_log("in the middle");
    site.wait_for_log("at the second line");
    assert_eq!(site.get("/pieces").status, 200);
}

#[test]
fn fields_that_cannot_be_sent_are_left_out() {
    let site = site();
    let reply = site.get("/bad_field");
    assert_eq!(
        (reply.status, reply.field("X-Good"), reply.field("X-Bad")),
        (200, Some("yes"), None)
    );
    site.wait_for_log("response head cannot be sent as it is");
    let reply = site.get("/framing");
    assert_eq!(reply.text(), "not chunked");
}

#[test]
fn exit_is_answered_and_the_worker_replaced() {
    let site = single();
    let workers = site.workers();
    assert_eq!(site.get("/exit").status, 500);
    site.wait_for_log("the application called exit(3) instead of answering `GET /exit`");
    wait_until("another worker", || {
        let now = site.workers();
        !now.is_empty() && now != workers
    });
    assert_eq!(site.get("/exit_late").text(), "all of it");
    assert_eq!(site.get("/pieces").status, 200);
}

#[test]
fn children_do_not_answer() {
    let site = single();
    let workers = site.workers();
    assert_eq!(site.get("/fork").text(), "parent, child ended with 0");
    site.wait_for_note("child", "exits");
    assert!(site.get("/fork_returns").text().starts_with("parent of "));
    assert_eq!(site.get("/fork_dies").text(), "parent");
    assert_eq!(site.get("/command").text(), "from a command\n0 7");
    assert_eq!(site.workers(), workers);
}

#[test]
fn signals_reach_the_application() {
    assert_eq!(single().get("/signal").text(), "alarm\n");
}

#[test]
fn harakiri_ends_the_worker_after_its_answer() {
    let site = single();
    let first = site.get("/harakiri").text();
    let second = site.get("/harakiri").text();
    assert_ne!(first, second);
}

#[test]
fn cleanup_runs_when_the_answer_is_out() {
    let site = single();
    assert_eq!(site.get("/cleanup?x").text(), "answered");
    assert!(!site.work().join("cleaned").exists());
    fs::write(site.work().join("after"), "").unwrap();
    let noted = site.wait_for_note("cleaned", "added");
    assert_eq!(noted, "first x\nthird\nadded\n");
    site.wait_for_log("in a cleanup handler: a handler dies");
    assert_eq!(site.get("/pieces").status, 200);
}

#[test]
fn a_worker_says_where_it_is() {
    let site = single();
    let mut stream = site.connect();
    stream
        .write_all(b"GET /loop HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let worker = site.wait_for_note("looping", "\n");
    let worker = worker.trim().parse().unwrap();
    let place = wait_for_place(&site, worker, " in outer");
    assert!(place[0].contains("app.psgi:"), "{place:?}");
    assert!(
        place[1].contains("  called at ") && place[1].ends_with(" in inner"),
        "{place:?}"
    );
    assert!(place[2].ends_with(" in __ANON__"), "{place:?}");
    signal::send(worker, libc::SIGKILL).unwrap();
}

#[test]
fn threads_have_the_stack_that_is_asked_for() {
    const SIZE: usize = 7 << 20;
    let options = json!({"processes": 1, "threads": 2, "thread_stack_size": SIZE});
    let site = PerlSite::start("app.psgi", &options);
    assert_eq!(site.get("/pieces").status, 200);
    site.wait_for_workers(1);
    wait_for_stacks(site.workers()[0], SIZE, 2);
    let reply = site.configure("app.psgi", &json!({"threads": 2, "thread_stack_size": 0}));
    assert_eq!(
        reply.json()["errors"][0]["pointer"],
        "/applications/perl/thread_stack_size"
    );
}

// Scripts that do not load.

#[test]
fn a_script_that_does_not_load_is_reported_with_its_place() {
    let site = site();
    let worker = site.workers();
    let bad = [
        (
            "syntax.psgi",
            "use strict;\n\nmy $x = ;\n",
            "syntax error at ",
            "syntax.psgi line 3",
        ),
        (
            "dies.psgi",
            "die \"no database\";\n",
            "no database at ",
            "dies.psgi line 1",
        ),
        (
            "missing_module.psgi",
            "use No::Such::Module;\n",
            "No/Such/Module.pm",
            "missing_module.psgi line 1",
        ),
        (
            "no_app.psgi",
            "my $x = 1;\n",
            "returns no application",
            "no_app.psgi",
        ),
        ("exits.psgi", "exit 4;\n", "exit(4)", "exits.psgi"),
        (
            "strict.psgi",
            "use strict;\nsub { $undeclared }\n",
            "Global symbol \"$undeclared\"",
            "strict.psgi line 2",
        ),
    ];
    for (name, script, what, place) in bad {
        fs::write(site.root().join(name), script).unwrap();
        for preload in [false, true] {
            let reply = site.configure(name, &json!({"preload": preload}));
            let text = reply.text();
            assert_eq!(reply.status, 500, "{name}: {text}");
            let detail = reply.json()["detail"].as_str().unwrap().to_owned();
            assert!(
                detail.contains(what) && detail.contains(place),
                "{name}: {detail}"
            );
        }
    }
    let reply = site.configure("not_there.psgi", &json!({}));
    assert!(reply.text().contains("not_there.psgi"), "{}", reply.text());
    assert_eq!(
        reply.json()["errors"][0]["pointer"],
        "/applications/perl/script"
    );
    assert_eq!(site.workers(), worker, "the old application serves on");
    assert_eq!(site.get("/pieces").status, 200);
}

#[test]
fn a_script_that_crashes_the_process_is_reported_with_its_output() {
    let site = single();
    let worker = site.workers();
    // A string at an address where nothing is.
    let script = "print STDERR \"before the crash\\n\";\nmy $string = unpack('p', pack('Q', 8));\n";
    fs::write(site.root().join("crashes.psgi"), script).unwrap();
    for preload in [false, true] {
        let reply = site.configure("crashes.psgi", &json!({"preload": preload}));
        assert_eq!(reply.status, 500, "{}", reply.text());
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        for part in ["signal 11", "before the crash"] {
            assert!(detail.contains(part), "{preload}: `{part}` in {detail}");
        }
        site.wait_for_log("before the crash");
    }
    // One that serves, and whose restart crashes.
    let reply = site.configure("changes.psgi", &json!({}));
    assert_ne!(reply.status, 200);
    let path = site.root().join("changes.psgi");
    fs::write(&path, "sub { [200, [], ['fine']] }").unwrap();
    let reply = site.configure("changes.psgi", &json!({}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    fs::write(&path, script).unwrap();
    let restart = "/control/applications/perl/restart";
    let reply = site.server.call("GET", restart, &Value::Null);
    assert_eq!(reply.status, 500, "{}", reply.text());
    let last = site.server.status("/applications/perl/failures/last");
    let told = last.to_string();
    for part in ["signal 11", "before the crash"] {
        assert!(told.contains(part), "`{part}` in {told}");
    }
    assert_eq!(site.get("/").text(), "fine", "the old one serves on");
    assert_ne!(site.workers(), worker);
}

#[test]
fn preload_loads_once_and_draws_different_numbers() {
    let site = PerlSite::start("app.psgi", &json!({"preload": true, "processes": 1}));
    let count = || {
        let text = site.get("/count").text();
        text.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let one = count();
    assert_eq!(site.get("/harakiri").text(), one[1]);
    let other = count();
    assert_ne!(one[1], other[1], "another worker");
    assert_eq!(one[2], other[2], "loaded by the prototype");
    assert_ne!(one[1], one[2]);
    assert_eq!(one[3], other[3], "drawn before the fork");
    assert_ne!(one[4], other[4], "drawn after it");

    let text = single().get("/count").text();
    let words: Vec<_> = text.split(' ').collect();
    assert_eq!(words[1], words[2], "loaded by the worker");
}
