//! A WebAssembly component and its operator may rely on this, through the whole server.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::documents::examples;
use tutti_e2e::external::source;
use tutti_e2e::hints_and_trailers::check_unannounced_trailers;
use tutti_e2e::wasm::{self, WasmSite};
use tutti_e2e::{http3, http3_site, read_until};
use tutti_sys::signal;
use tutti_testkit::server::binaries;
use tutti_testkit::{client, files, free_port, guide, is_root, skip, wait_until};

fn site(extra: &Value) -> WasmSite {
    WasmSite::start(&wasm::rust(), extra)
}

/// One process, so that what it says is one line in the log.
fn single() -> WasmSite {
    site(&json!({}))
}

// Requests and answers.

#[test]
fn a_component_sees_its_request_and_answers() {
    let site = single();
    let reply = site.get("/");
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (200, "Hello from a component\n")
    );
    assert_eq!(reply.field("content-type"), Some("text/plain"));
    let fields = "X-One: 1\r\nx-one: 2\r\n";
    let shown = site.send("PURGE", "/request?a=%20b", fields, b"").text();
    for line in [
        "method Method::Other(\"PURGE\")",
        "target /request?a=%20b",
        "scheme Some(Scheme::Http)",
        "authority test",
        "field x-one: 1",
        "field x-one: 2",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    // Fields of the connection are not for it.
    assert!(!shown.contains("field connection"), "{shown}");
    let reply = site.get("/fields");
    assert_eq!(reply.status, 201);
    for line in [
        "x-one: 1",
        "x-two: a",
        "x-two: b",
        "set-cookie: a=1",
        "set-cookie: b=2",
    ] {
        assert!(
            reply.head.lines().any(|told| told == line),
            "{line}: {}",
            reply.head
        );
    }
    let reply = site.send("HEAD", "/", "", b"");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert!(
        !site.server.log().contains("[error]"),
        "{}",
        site.server.log()
    );
}

/// Also those that no head has announced, which clients of HTTP/1 do not get.
#[test]
fn clients_of_http2_and_http3_get_fields_behind_a_body() {
    check_unannounced_trailers(single().server.address(), "/trailers");
    let server = http3_site::bare();
    let component = server.write("app.wasm", std::fs::read(wasm::rust()).unwrap());
    server.put(
        "/config",
        &json!({
            "listeners": http3_site::listeners(&server, "applications/app", &json!(true)),
            "applications": {"app": {"type": "wasm-wasi-component", "component": component}}
        }),
    );
    http3_site::run(async {
        let mut client = http3::Http3Client::connect(server.port()).await;
        for path in ["/trailers?announced", "/trailers"] {
            let answer = client.get(path).await.unwrap();
            assert_eq!((answer.status.as_u16(), answer.text()), (200, "whole"));
            let is_announced = path.ends_with("announced");
            assert_eq!(answer.fields.contains_key("trailer"), is_announced);
            let trailers = answer.trailers.unwrap();
            assert_eq!(
                (trailers.len(), &trailers["x-sum"]),
                (1, &"5".parse().unwrap())
            );
        }
        let plain = client.get("/").await.unwrap();
        assert!(plain.trailers.is_none(), "{plain:?}");
    });
}

/// A `rewrite` is followed, as services in Rust do.
#[test]
fn a_component_sees_the_path_that_was_routed() {
    let mut site = WasmSite::bare(&wasm::rust());
    site.pass = "routes".to_owned();
    let mut configuration = site.configuration(&json!({}));
    configuration["routes"] = json!([
        {"match": {"uri": "/old"}, "action": {"rewrite": "/request", "pass": "applications/wasm"}},
        {"action": {"pass": "applications/wasm"}}
    ]);
    site.server.put("/config", &configuration);
    assert!(site.get("/old?q").text().contains("target /request?q\n"));
    assert!(
        site.get("/request?q")
            .text()
            .contains("target /request?q\n")
    );
}

#[test]
fn a_body_streams_in_and_out_at_once() {
    let site = site(&json!({"request_buffering": false}));
    let mut stream = site.connect();
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    // Each piece comes back before the next is sent.
    for piece in ["one", "two", "three"] {
        write!(stream, "{:x}\r\n{piece}\r\n", piece.len()).unwrap();
        read_until(&mut stream, piece);
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    read_until(&mut stream, "0\r\n\r\n");
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_response_harms_no_other() {
    let site = single();
    let mut stream = site.open("/pieces?1000000");
    read_until(&mut stream, "piece 1\n");
    drop(stream);
    site.wait_for_log("the client has gone");
    assert_eq!(site.get("/").status, 200);
    assert!(
        !site.server.log().contains("[error]"),
        "{}",
        site.server.log()
    );
}

/// It has some seconds to finish what it is at.
#[test]
fn an_instance_whose_client_has_gone_is_ended() {
    let site = site(&json!({"instance": {"time": 0}}));
    let workers = site.workers();
    let mut gone: Vec<_> = [
        "/begin-and-wait?1000",
        "/begin-and-wait?1000000",
        "/begin-and-loop",
    ]
    .into_iter()
    .map(|target| site.open(target))
    .collect();
    for stream in &mut gone {
        read_until(stream, "begun\n");
    }
    drop(gone);
    site.wait_for_log("went on after the wait\n");
    site.wait_for_log("GET /begin-and-wait?1000000: its client had gone, and the component waited for something for 5 seconds more; its instance was ended");
    site.wait_for_log("GET /begin-and-loop: the component failed: its client had gone, and it computed for 5 seconds more");
    site.wait_for_log("compute_for_ever");
    assert!(!site.server.log().contains("GET /begin-and-wait?1000: "));
    assert_eq!(site.workers(), workers);
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn output_goes_to_the_log_in_whole_lines() {
    let site = single();
    assert_eq!(site.text("/print"), "printed");
    for line in [
        "to standard output\n",
        "to standard error\n",
        "without an end\n",
    ] {
        site.wait_for_log(line);
    }
    assert_eq!(site.text("/after"), "answered");
    site.wait_for_log("went on after the answer\n");
}

#[test]
fn requests_wait_beside_each_other_in_one_process() {
    let site = single();
    let mut waiting: Vec<_> = (0..20).map(|_| site.open("/wait?200")).collect();
    // One that does not wait is not held up by those that do.
    assert_eq!(site.text("/"), "Hello from a component\n");
    for stream in &mut waiting {
        read_until(stream, "waited");
    }
}

// Instances.

#[test]
fn each_request_has_an_instance_of_its_own_by_default() {
    let site = single();
    for _ in 0..3 {
        assert_eq!(site.text("/served"), "1");
    }
    site.configure(&json!({"instance": {"requests": 3}}));
    let served: Vec<String> = (0..7).map(|_| site.text("/served")).collect();
    assert_eq!(served, ["1", "2", "3", "1", "2", "3", "1"]);
    // One that fails serves no further request.
    assert_eq!(site.get("/trap").status, 500);
    assert_eq!(site.text("/served"), "1");
}

#[test]
fn the_environment_is_what_is_configured_and_nothing_else() {
    let site = site(&json!({"environment": {"COLOUR": "blue", "EMPTY": ""}}));
    assert_eq!(site.text("/environment"), r#"["COLOUR=blue", "EMPTY="] []"#);
}

// Faults.

#[test]
fn a_trap_is_500_with_a_backtrace_in_the_log() {
    let site = single();
    let workers = site.workers();
    assert_eq!(site.get("/trap").status, 500);
    site.wait_for_log("this component fails, told to fail");
    site.wait_for_log(
        "GET /trap: the component failed: wasm trap: wasm `unreachable` instruction executed\n",
    );
    let is_told = || {
        let log = site.server.log();
        log.lines().any(|line| {
            line.contains("[error]")
                && line.contains("  called at ")
                && line.contains("lib.rs:")
                && line.ends_with(" in trap")
        })
    };
    wait_until("the function", is_told);
    assert_eq!(site.get("/exit").status, 500);
    site.wait_for_log("it called exit(1) instead of answering");
    assert_eq!(site.get("/no-answer").status, 500);
    site.wait_for_log("GET /no-answer: the component came back without an answer");
    // An answer that has begun is broken off.
    let mut stream = site.open("/trap-in-body");
    let mut rest = Vec::new();
    // It may be reset.
    let _ = stream.read_to_end(&mut rest);
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "{}",
        String::from_utf8_lossy(&rest)
    );
    site.wait_for_log("failed in its answer");
    // The process goes on.
    assert_eq!(site.workers(), workers);
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_component_that_computes_for_ever_is_stopped_and_logged() {
    let site = site(&json!({"instance": {"time": 1}}));
    let workers = site.workers();
    let looping = site.open("/loop");
    // Others are served meanwhile.
    assert_eq!(site.text("/"), "Hello from a component\n");
    assert_eq!(site.get("/loop").status, 500);
    drop(looping);
    site.wait_for_log("GET /loop: the component failed: it has computed for 1 second, as long as `time` of `instance` allows");
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
    site.wait_for_log("GET /loop: the component failed: the time of its request was up (`limits`) while it computed");
    site.wait_for_log("compute_for_ever");
    assert_eq!(site.get("/wait?1000000").status, 504);
    site.wait_for_log("GET /wait?1000000: the time of the request was up (`limits`) while the component waited for something");
    assert_eq!(site.workers(), workers);
}

#[test]
fn memory_beyond_the_limit_is_refused_and_logged() {
    let site = site(&json!({"instance": {"memory": "32M"}}));
    assert_eq!(site.text("/memory?20000000"), "20000000 bytes");
    assert!(site.text("/memory?50000000").starts_with("refused: "));
    site.wait_for_log("GET /memory?50000000: the component was refused more memory: it asked for ");
    site.wait_for_log("and `memory` of `instance` allows 33554432");
    // Each instance has its own.
    assert_eq!(site.text("/memory?20000000"), "20000000 bytes");
}

#[test]
fn what_a_component_answers_is_checked() {
    let site = single();
    assert_eq!(
        site.text("/bad-field"),
        "x-a: true\nx a: true\ntransfer-encoding: true\nconnection: true\n"
    );
    // More than a head may have is refused before it is there.
    assert_eq!(
        site.get("/large-field?10").head.matches("x-large").count(),
        10
    );
    assert_eq!(site.get("/large-field?1000000").status, 500);
    site.wait_for_log(
        "GET /large-field?1000000: the component failed: total size of fields exceeds limit",
    );
    for (target, status) in [
        ("/status?404", 404),
        ("/status?204", 204),
        ("/status?599", 599),
    ] {
        assert_eq!(site.get(target).status, status);
    }
    for status in ["100", "700"] {
        assert_eq!(
            site.get(&format!("/status?{status}")).status,
            500,
            "{status}"
        );
        site.wait_for_log(&format!("GET /status?{status}: the component's answer cannot be sent: status {status} is outside 200 to 599"));
    }
    // A length that is not the body's: no client takes it for whole.
    for target in ["/short", "/long"] {
        let reply = site.get(target);
        assert!(
            reply.status >= 500 || !reply.is_whole,
            "{target}: {}{}",
            reply.head,
            reply.text()
        );
    }
    assert_eq!(site.get("/").status, 200);
}

// The way out.

#[test]
fn a_component_sends_requests_only_where_it_may() {
    let site = single();
    let url = format!("http://127.0.0.1:{}/served", site.server.port());
    let target = format!("/fetch?{url}");
    assert_eq!(site.text(&target), "refused: ErrorCode::HttpRequestDenied");
    let entry = format!("127.0.0.1:{}", site.server.port());
    site.wait_for_log(&format!(
        "{target}: the component was refused a request to 127.0.0.1, port {}; `\"access\": {{\"network\": [\"{entry}\"]}}` allows it",
        site.server.port()
    ));
    site.configure(&json!({"access": {"network": [entry]}}));
    // By itself, since requests wait beside each other.
    assert_eq!(site.text(&target), "200 1");
    assert!(
        site.text("/fetch?http://127.0.0.1:1/")
            .contains("HttpRequestDenied")
    );
    // No component gets sockets.
    assert!(
        site.text(&format!("/connect?127.0.0.1:{}", site.server.port()))
            .starts_with("refused: ")
    );
    let error = site.refused(&json!({"access": {"network": ["https://example.com/"]}}));
    assert_eq!(error["path"], "/applications/wasm/access/network/0");
}

#[test]
fn a_component_has_the_folders_that_it_was_given() {
    let site = single();
    let inside = site.work().join("inside");
    let outside = site.server.folder().join("outside");
    fs::write(&inside, "inside").unwrap();
    fs::write(&outside, "outside").unwrap();
    let read = |path: &Path| site.text(&format!("/read?{}", path.display()));
    assert!(read(&inside).starts_with("refused: "), "{}", read(&inside));
    site.configure(&json!({"access": {"filesystem": [site.work()]}}));
    assert_eq!(read(&inside), "inside");
    let made = site.work().join("made");
    assert_eq!(site.text(&format!("/write?{}", made.display())), "written");
    assert_eq!(fs::read_to_string(&made).unwrap(), "written by a component");
    for path in [
        outside.clone(),
        site.work().join("../outside"),
        "/etc/passwd".into(),
    ] {
        assert!(read(&path).starts_with("refused: "), "{}", path.display());
    }
    std::os::unix::fs::symlink(&outside, site.work().join("link")).unwrap();
    assert!(read(&site.work().join("link")).starts_with("refused: "));
}

// Starts that fail.

/// The refusal of this component by the control API: its place, and its text with the cure.
fn refusal(bytes: &[u8], extra: &Value) -> (String, String) {
    let site = WasmSite::bare(&wasm::rust());
    let path = site.server.write("other.wasm", bytes);
    let mut members = json!({"component": path});
    tutti_testkit::set_members(&mut members, extra);
    let error = site.refused(&members);
    let error = &error["errors"][0];
    (
        error["pointer"].as_str().unwrap_or_default().to_owned(),
        format!("{} / {}", error["message"], error["suggestion"]),
    )
}

#[test]
fn a_component_that_cannot_be_served_is_refused_with_the_cure() {
    let component = "/applications/wasm/component";
    let core = b"\0asm\x01\0\0\0";
    let empty = b"\0asm\x0d\0\x01\0";
    for (bytes, told, cure) in [
        (
            &b"hello"[..],
            "it is not WebAssembly",
            "the .wasm file that the compiler has made",
        ),
        (b"(component)", "it is not WebAssembly", "wasm-tools parse"),
        (
            core,
            "it is a module, not a component",
            "--target wasm32-wasip2",
        ),
        (
            empty,
            "it exports nothing, and not `wasi:http/incoming-handler@0.2`",
            "wasi:http/proxy",
        ),
        (&[&empty[..], b"garbage"].concat(), "loading", "WASI 0.2"),
    ] {
        let (pointer, text) = refusal(bytes, &json!({}));
        assert_eq!(pointer, component, "{text}");
        assert!(text.contains(told) && text.contains(cure), "{text}");
    }
    let (pointer, text) = refusal(core, &json!({"component": "/no/such/file.wasm"}));
    assert_eq!(pointer, component);
    assert!(
        text.contains("/no/such/file.wasm") && text.contains("No such file"),
        "{text}"
    );
    let bytes = fs::read(wasm::rust()).unwrap();
    let (pointer, text) = refusal(
        &bytes,
        &json!({"access": {"filesystem": ["/tmp", "/no/such/folder"]}}),
    );
    assert_eq!(pointer, "/applications/wasm/access/filesystem/1");
    assert!(
        text.contains("/no/such/folder") && text.contains("must be a folder"),
        "{text}"
    );
    let (pointer, text) = refusal(&bytes, &json!({"instance": {"memory": "64K"}}));
    assert_eq!(pointer, "/applications/wasm/instance/memory");
    assert!(
        text.contains("it needs") && text.contains("may have 65536"),
        "{text}"
    );
}

/// A component that breaks out of its instance finds no programs, no network and no folders to write in.
#[test]
fn a_process_has_given_up_what_it_does_not_need() {
    let site = single();
    let worker = site.workers()[0];
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let value = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    assert_eq!(value("NoNewPrivs:"), Some("1"));
    assert_eq!(value("Seccomp:"), Some("2"), "a filter");
}

/// The folder that is given is one of the new root.
#[test]
fn another_root_is_enough_for_a_component() {
    if !is_root() {
        skip!("another root needs root, or a user namespace as in `isolation.rs`");
    }
    let site = single();
    let jail = site.server.folder().join("jail");
    let bytes = fs::read(wasm::rust()).unwrap();
    site.server.write("jail/srv/app.wasm", bytes);
    site.server.write("jail/srv/data/file", "inside");
    site.configure(&json!({
        "component": "/srv/app.wasm", "access": {"filesystem": ["/srv/data"]}, "isolation": {"rootfs": jail}
    }));
    assert_eq!(site.text("/read?/srv/data/file"), "inside");
    assert!(site.text("/read?/etc/passwd").starts_with("refused: "));
}

/// The program of the guide in Rust, built and run with its commands.
#[test]
fn the_commands_of_the_guide_build_and_run() {
    let guide = include_str!("../../../docs/languages/wasm.md");
    let folder = files::public_folder();
    let project = folder.path().join("hello");
    fs::create_dir_all(project.join("src")).unwrap();
    let [program] = examples(guide, "rust").try_into().unwrap();
    fs::write(project.join("src/lib.rs"), program).unwrap();
    // As the guide says: the crate `wasip2`, in the version that the conformance tests have, and a `cdylib`.
    let like = source("tests/conformance/wasm/rust");
    for file in ["Cargo.toml", "Cargo.lock"] {
        let text = fs::read_to_string(like.join(file)).unwrap();
        let text = text.replace("name = \"conformance\"", "name = \"hello\"");
        fs::write(project.join(file), text).unwrap();
    }
    let listen = format!("127.0.0.1:{}", free_port());
    let modules = folder.path().join("modules");
    fs::create_dir(&modules).unwrap();
    symlink(binaries().join("tutti-wasm"), modules.join("tutti-wasm")).unwrap();
    let tutti = format!(
        "exec {} run --quiet --listen {listen} --modulesdir {}",
        binaries().join("tutti").display(),
        modules.display()
    );
    let places = [
        ("cargo build", "cargo build --quiet --locked"),
        ("tutti run", tutti.as_str()),
    ];
    let commands = guide::commands(guide);
    let shown = commands[3].prints.join("\n") + "\n";
    let [target, build, run, _ask] = guide::filled(&commands, &places).try_into().unwrap();
    let run = run.strip_suffix(" &").unwrap();
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&project);
        wasm::without_our_settings(&mut command);
        command
    };
    for line in [target, build] {
        let done = shell(&line).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {said}");
    }
    let mut server = shell(run).stdout(Stdio::null()).spawn().unwrap();
    let address = listen.parse().unwrap();
    wait_until("the component answers", || {
        assert!(server.try_wait().unwrap().is_none(), "it has ended");
        client::get(address, "/").is_ok_and(|reply| reply.text() == shown)
    });
    let pid = i32::try_from(server.id()).unwrap();
    signal::send(pid, libc::SIGINT).unwrap();
    assert!(server.wait().unwrap().success());
}

// Other languages.

#[test]
#[ignore = "takes minutes; `make test-long` runs it"]
fn a_component_in_javascript_is_served() {
    let site = WasmSite::start_slowly(&wasm::javascript());
    let reply = site.get("/a?b");
    assert_eq!(reply.text(), "JavaScript: /a?b, 0 bytes\n");
    assert_eq!(reply.field("x-language"), Some("JavaScript"));
    let reply = site.send("POST", "/", "", &vec![b'x'; 100_000]);
    assert_eq!(reply.text(), "JavaScript: /, 100000 bytes\n");
    assert_eq!(site.get("/throw").status, 500);
    site.wait_for_log("told to fail");
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn a_component_in_python_is_served() {
    let site = WasmSite::start_slowly(&wasm::python());
    assert_eq!(site.text("/a?b"), "Python: /a?b, 0 bytes\n");
    let reply = site.send("POST", "/", "", &vec![b'x'; 100_000]);
    assert_eq!(reply.text(), "Python: /, 100000 bytes\n");
    assert_eq!(site.get("/raise").status, 500);
    site.wait_for_log("ValueError: told to fail");
    assert_eq!(site.get("/").status, 200);
}
