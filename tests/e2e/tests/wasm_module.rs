//! A WebAssembly module of NGINX Unit's SDK and its operator may rely on this, through the whole server.

use std::fs;
use std::io::{Read, Write};

use serde_json::{Value, json};
use tutti_e2e::read_until;
use tutti_e2e::wasm::{self, WasmSite};
use tutti_testkit::wait_until;

fn site(extra: &Value) -> WasmSite {
    WasmSite::start_module(extra)
}

fn single() -> WasmSite {
    site(&json!({}))
}

/// A server that takes bodies larger than a module has room for at once (32 MiB), and one of these.
fn with_large_bodies(extra: &Value) -> (WasmSite, Vec<u8>) {
    let site = WasmSite::bare_module(&wasm::module(&[]));
    let mut configuration = site.configuration(extra);
    configuration["settings"]["http"]["max_body_size"] = json!(64 << 20);
    site.server.put("/config", &configuration);
    let body = (0..40_000_000).map(|i| (i % 251) as u8).collect();
    (site, body)
}

/// Takes options away from the application.
fn without(site: &mut WasmSite, options: &[&str]) {
    let members = site.application.as_object_mut().unwrap();
    members.retain(|name, _| !options.contains(&name.as_str()));
}

// Requests and answers.

#[test]
fn a_module_sees_its_request_and_answers() {
    let site = single();
    let reply = site.get("/");
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "Hello from a module\n")
    );
    assert_eq!(reply.field("content-type"), Some("text/plain"));
    let fields = "X-One: 1\r\nx-one: 2\r\nX-Empty:\r\n";
    let shown = site
        .send("PURGE", "/request?a=%20b", fields, b"a body")
        .text();
    let port = site.server.port();
    for line in [
        "method PURGE",
        "version HTTP/1.1",
        "path /request?a=%20b",
        "query a=%20b",
        "remote 127.0.0.1",
        &format!("local 127.0.0.1 port {port}"),
        "server test",
        "tls 0",
        "content 6, 6 here, 6 so far: a body",
        "field X-One: 1",
        "field x-one: 2",
        "field X-Empty: ",
        "field Host: test",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let reply = site.get("/fields");
    for line in ["x-one: 1", "set-cookie: a=1", "set-cookie: b=2"] {
        assert!(
            reply.head.lines().any(|told| told == line),
            "{line}: {}",
            reply.head
        );
    }
    for status in [201, 404, 599] {
        assert_eq!(site.get(&format!("/status?{status}")).status, status);
    }
    // An end alone is an answer.
    let reply = site.get("/plain");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert!(
        !site.server.log().contains("[error]"),
        "{}",
        site.server.log()
    );
}

#[test]
fn bodies_of_every_size_go_in_and_out_whole() {
    let site = single();
    for size in [0, 1, 16_384, 65_537, 3_000_000] {
        let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        for target in ["/echo", "/upload"] {
            let reply = site.send("POST", target, "", &body);
            assert_eq!(reply.status, 200, "{target}: {size}");
            assert!(
                reply.body == body,
                "{target}: {size}: {} bytes",
                reply.body.len()
            );
        }
    }
}

/// A part at a time: the module's function for requests is called for each.
#[test]
fn a_body_that_does_not_fit_comes_in_parts() {
    let (site, body) = with_large_bodies(&json!({}));
    site.get("/calls");
    for target in ["/echo", "/upload"] {
        let reply = site.send("POST", target, "", &body);
        assert_eq!(reply.status, 200, "{target}");
        assert!(reply.body == body, "{target}: {} bytes", reply.body.len());
    }
    let once = "request_init request request response_end request_end ";
    let told = site.text("/calls");
    assert_eq!(
        told,
        format!("response_end request_end {once}{once}request_init request ")
    );
    // An answer that is ended before the last part: the rest comes all the same.
    let reply = site.send("POST", "/early", "", &body);
    assert_eq!(reply.text(), "answered early");
    assert_eq!(
        site.text("/calls"),
        "response_end request_end request_init request response_end request request_end request_init request "
    );
}

#[test]
fn the_functions_are_called_in_their_order() {
    let mut site = single();
    assert_eq!(site.text("/calls"), "module_init request_init request ");
    assert_eq!(
        site.text("/calls"),
        "response_end request_end request_init request "
    );
    // Those that are not named are not called.
    let optional = [
        "module_end_handler",
        "request_init_handler",
        "request_end_handler",
        "response_end_handler",
    ];
    without(&mut site, &optional);
    site.configure(&json!({}));
    site.wait_for_log("the module ends after 2 requests");
    assert_eq!(site.text("/calls"), "module_init request ");
    assert_eq!(site.text("/calls"), "request ");
}

#[test]
fn an_instance_lives_as_long_as_its_process() {
    let site = site(&json!({"limits": {"requests": 3}}));
    let served: Vec<String> = (0..3).map(|_| site.text("/served")).collect();
    assert_eq!(served, ["1", "2", "3"]);
    site.wait_for_log("the module ends after 3 requests");
    assert_eq!(site.text("/served"), "1");
}

#[test]
fn a_process_has_as_many_instances_as_configured() {
    let site = site(&json!({"limits": {"concurrency": 3}}));
    let mut waiting: Vec<_> = (0..2).map(|_| site.open("/wait?1000000")).collect();
    assert_eq!(site.text("/"), "Hello from a module\n");
    for stream in &mut waiting {
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

#[test]
fn output_goes_to_the_log_and_the_environment_is_what_is_configured() {
    let site = site(&json!({"environment": {"COLOUR": "blue"}}));
    assert_eq!(site.text("/print"), "printed");
    site.wait_for_log("to standard output\n");
    site.wait_for_log("to standard error\n");
    assert_eq!(site.text("/environment"), "COLOUR=blue\n");
}

#[test]
fn a_module_has_the_folders_that_it_was_given() {
    let site = single();
    let inside = site.work().join("inside");
    let outside = site.server.folder().join("outside");
    fs::write(&inside, "inside").unwrap();
    fs::write(&outside, "outside").unwrap();
    let read = |path: &str| site.text(&format!("/read?{path}"));
    let (inside, outside) = (inside.to_str().unwrap(), outside.to_str().unwrap());
    assert_eq!(read(inside), "refused");
    site.configure(&json!({"access": {"filesystem": [site.work()]}}));
    assert_eq!(read(inside), "inside");
    let made = site.work().join("made");
    assert_eq!(site.text(&format!("/write?{}", made.display())), "written");
    assert_eq!(fs::read_to_string(&made).unwrap(), "written by a module");
    std::os::unix::fs::symlink(outside, site.work().join("link")).unwrap();
    let link = site.work().join("link");
    let above = site.work().join("../outside");
    for path in [
        outside,
        "/etc/passwd",
        link.to_str().unwrap(),
        above.to_str().unwrap(),
    ] {
        assert_eq!(read(path), "refused", "{path}");
    }
}

// Faults.

#[test]
fn a_module_that_fails_is_500_and_another_instance_serves_on() {
    let site = single();
    let workers = site.workers();
    for (target, told) in [
        (
            "/trap",
            "the module failed: wasm trap: wasm `unreachable` instruction executed\n",
        ),
        (
            "/exit",
            "the module failed: it called exit(3) instead of answering",
        ),
        (
            "/no-answer",
            "the module failed: it came back without having ended its answer: `luw_http_response_end` does",
        ),
        (
            "/bad-field",
            "the module failed: it sent a field that is none: X-A",
        ),
        (
            "/status?1000",
            "the module failed: it set the status 1000, which is none",
        ),
        (
            "/status?100",
            "the module's answer cannot be sent: status 100 is outside 200 to 599",
        ),
    ] {
        assert_eq!(site.text("/served"), "1", "{target}");
        assert_eq!(site.get(target).status, 500, "{target}");
        site.wait_for_log(&format!("GET {target}: {told}"));
        if target == "/trap" {
            // Where it was: file and line, and the function.
            let is_told = || {
                let log = site.server.log();
                log.lines()
                    .any(|line| line.contains("app.c:") && line.ends_with(" in fail"))
            };
            wait_until("the function", is_told);
        }
        if target == "/status?100" {
            // The module did nothing that makes its memory doubtful.
            assert_eq!(site.text("/served"), "3");
        }
    }
    for target in ["/half", "/half-and-trap", "/two-headers", "/short"] {
        let reply = site.get(target);
        assert!(
            reply.status == 500 || !reply.is_whole,
            "{target}: {}{}",
            reply.head,
            reply.text()
        );
    }
    site.wait_for_log("GET /two-headers: the module failed: it sent a header twice");
    assert_eq!(site.get("/late-status").status, 200);
    site.wait_for_log("the module set the status 404 when its header had been sent");
    // The client had the whole answer, or at least no other.
    site.get("/after-the-end");
    site.wait_for_log(
        "GET /after-the-end: the module failed: it sent something after it had ended its answer",
    );
    assert_eq!(site.get("/").status, 200);
    assert_eq!(site.workers(), workers);
}

/// Whatever a module says, nothing beyond what it shares is read.
#[test]
fn places_outside_the_shared_memory_are_refused_and_logged() {
    let site = single();
    for (target, told) in [
        (
            "/header-at?33619966",
            "a header that would be 4 bytes from byte 33619966 of the memory that it shares, which has 33619968",
        ),
        (
            "/header-at?4294967295",
            "a header that would be 4 bytes from byte 4294967295",
        ),
        (
            "/answer-at?33619965",
            "a part of an answer that would be 4 bytes from byte 33619965",
        ),
        (
            "/answer-at?4294967292",
            "a part of an answer that would be 4 bytes",
        ),
        (
            "/many-fields?4294967295",
            "a table of fields that would be 68719476720 bytes from byte 4",
        ),
        (
            "/many-fields?2101248",
            "a table of fields that would be 33619968 bytes from byte 4",
        ),
        (
            "/name-at?33619959",
            "the name of a field that would be 10 bytes from byte 33619959",
        ),
        (
            "/name-at?4294967290",
            "the name of a field that would be 10 bytes from byte 4294967290",
        ),
        (
            "/value-of?4294967295",
            "the value of a field that would be 4294967295 bytes from byte 1000",
        ),
        (
            "/part-of?33619965",
            "a part of an answer that would be 33619965 bytes from byte 4",
        ),
        (
            "/part-of?4294967295",
            "a part of an answer that would be 4294967295 bytes from byte 4",
        ),
    ] {
        let reply = site.get(target);
        assert!(reply.status == 500 || !reply.is_whole, "{target}");
        site.wait_for_log(&format!("GET {target}: the module failed: it sent {told}"));
    }
    assert_eq!(site.text("/"), "Hello from a module\n");
}

#[test]
fn a_module_that_computes_for_ever_is_stopped_and_logged() {
    let site = site(&json!({"instance": {"time": 1}}));
    let workers = site.workers();
    assert_eq!(site.get("/loop").status, 500);
    site.wait_for_log("GET /loop: the module failed: it has computed for 1 second, as long as `time` of `instance` allows");
    site.wait_for_log("compute_for_ever");
    // Waiting is not computing.
    assert_eq!(site.text("/wait?1500"), "waited");
    assert_eq!(site.workers(), workers);
}

#[test]
fn a_request_out_of_time_is_logged_with_its_place() {
    let site = site(&json!({"limits": {"timeout": 3}}));
    let workers = site.workers();
    assert_eq!(site.get("/loop").status, 504);
    site.wait_for_log(
        "GET /loop: the module failed: the time of its request was up (`limits`) while it computed",
    );
    assert_eq!(site.get("/wait?1000000").status, 504);
    site.wait_for_log("GET /wait?1000000: the time of the request was up (`limits`) while the module waited for something");
    assert_eq!(site.text("/served"), "1");
    assert_eq!(site.workers(), workers);
}

#[test]
fn memory_beyond_the_limit_is_refused_and_logged() {
    let site = site(&json!({"instance": {"memory": "96M"}}));
    assert_eq!(site.text("/memory?20000000"), "20000000 bytes");
    assert_eq!(site.text("/memory?50000000"), "refused");
    site.wait_for_log("GET /memory?50000000: the module was refused more memory: it asked for ");
    site.wait_for_log("and `memory` of `instance` allows 100663296");
}

#[test]
fn a_client_that_breaks_its_request_off_harms_no_other() {
    let (site, body) = with_large_bodies(&json!({"request_buffering": false}));
    let mut stream = site.connect();
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\nhalf")
        .unwrap();
    drop(stream);
    assert_eq!(site.text("/"), "Hello from a module\n");
    // A module needs the length first.
    let mut stream = site.connect();
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nhalf\r\n0\r\n\r\n")
        .unwrap();
    read_until(&mut stream, " 400 ");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    site.wait_for_log(
        "POST /echo: the module cannot be given the request: the length of its body is not known",
    );
    let reply = site.send("POST", "/echo", "", &body);
    assert!(reply.body == body, "{} bytes", reply.body.len());
    assert!(
        !site.server.log().contains("the module failed"),
        "{}",
        site.server.log()
    );
}

// Starts that fail.

/// The refusal of this module by the control API: its place, and its text with the cure.
fn refusal(site: &WasmSite, members: &Value) -> (String, String) {
    let error = site.refused(members);
    let error = &error["errors"][0];
    (
        error["pointer"].as_str().unwrap_or_default().to_owned(),
        format!("{} / {}", error["message"], error["suggestion"]),
    )
}

#[test]
fn a_module_that_cannot_be_served_is_refused_with_the_cure() {
    let site = WasmSite::bare_module(&wasm::module(&[]));
    let text_file = site.server.write("text.wasm", "hello");
    let component = site.server.write("component.wasm", b"\0asm\x0d\0\x01\0");
    let empty = site.server.write("empty.wasm", b"\0asm\x01\0\0\0");
    let broken = site.server.write("broken.wasm", b"\0asm\x01\0\0\0garbage");
    let stranger = site.server.write(
        "stranger.wasm",
        fs::read(wasm::module(&["STRANGER"])).unwrap(),
    );
    for (members, option, told) in [
        (json!({"module": "/no/such.wasm"}), "module", "No such file"),
        (
            json!({"module": text_file}),
            "module",
            "it is not WebAssembly",
        ),
        (
            json!({"module": component}),
            "module",
            "it is a component, not a module\" / \"configure it as `\\\"type\\\": \\\"wasm-wasi-component\\\"`",
        ),
        (json!({"module": broken}), "module", "loading"),
        (
            json!({"module": empty}),
            "request_handler",
            "it exports no function `handle`, which `request_handler` names\" / \"it exports no function at all",
        ),
        (
            json!({"module": stranger}),
            "module",
            "`env::a_function_of_another_server` has not been defined",
        ),
        (
            json!({"request_handler": "luw_request_handler_"}),
            "request_handler",
            "it exports no function `luw_request_handler_`, which `request_handler` names\" / \"it exports `_initialize`",
        ),
        (
            json!({"response_end_handler": "nope"}),
            "response_end_handler",
            "it exports no function `nope`, which `response_end_handler` names",
        ),
        (
            json!({"malloc_handler": "begin_module"}),
            "malloc_handler",
            "`malloc_handler` names the function `begin_module`, which is () -> (), and not (i32) -> (i32)",
        ),
        (
            json!({"module_init_handler": "handle"}),
            "module_init_handler",
            "which is (i32) -> (i32), and not () -> ()",
        ),
        (
            json!({"malloc_handler": "no_memory"}),
            "module",
            "`malloc_handler`, the function `no_memory`, gave 0 as the address of 33619968 bytes",
        ),
        (
            json!({"malloc_handler": "little_memory"}),
            "module",
            "`malloc_handler`, the function `little_memory`, gave ",
        ),
        (
            json!({"module_init_handler": "failing_start"}),
            "module",
            "unreachable",
        ),
        (
            json!({"instance": {"memory": "64K"}}),
            "instance/memory",
            "from the start, and may have 65536",
        ),
        (
            json!({"access": {"filesystem": ["/tmp", "/no/such/folder"]}}),
            "access/filesystem/1",
            "/no/such/folder",
        ),
    ] {
        let (pointer, text) = refusal(&site, &members);
        assert_eq!(pointer, format!("/applications/wasm/{option}"), "{text}");
        assert!(text.contains(told), "{members}: {text}");
    }
}

#[test]
fn a_module_is_no_component_and_that_is_reported() {
    let mut site = WasmSite::bare_module(&wasm::module(&[]));
    let module = site.application["module"].clone();
    site.application = json!({"type": "wasm-wasi-component", "component": module});
    let (pointer, text) = refusal(&site, &json!({}));
    assert_eq!(pointer, "/applications/wasm/component");
    assert!(text.contains("is of type `wasm`"), "{text}");
}
