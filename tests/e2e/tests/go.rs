//! Programs as applications of type `external`: how they start and fail to, live and die.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_e2e::external::{ProgramSite, build_for, need_go, source};
use tutti_sys::credentials::is_root;
use tutti_testkit::{PATIENCE, files, skip, wait_until};
use tutti_wire::Versions;
use tutti_wire::layout::{OLDEST, VERSION};

/// The module's own tests, with the race detector, and what `go vet` says.
#[test]
fn the_module_passes_its_own_tests() {
    need_go();
    for arguments in [
        &["vet", "./..."][..],
        &["test", "./..."],
        &["test", "-race", "./..."],
    ] {
        let output = Command::new("go")
            .args(arguments)
            .current_dir(source("sdk/go"))
            .env(
                "CGO_ENABLED",
                if arguments.contains(&"-race") {
                    "1"
                } else {
                    "0"
                },
            )
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "go {arguments:?}:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let unformatted = Command::new("gofmt")
        .arg("-l")
        .args([source("sdk/go"), source("tests/conformance/go")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&unformatted.stdout), "");
}

#[test]
fn a_program_gets_what_the_configuration_says() {
    let site = ProgramSite::prepare("tests/conformance/go");
    let folder = site.work();
    files::install(&site.program(), &folder.join("copy"));
    let options = json!({
        "executable": "copy", "arguments": ["unused:1", "two words", ""], "working_directory": folder,
        "environment": {"GREETING": "hello"}, "stdout": folder.join("out"), "stderr": folder.join("err"), "processes": 1
    });
    site.server.put("/config", &site.configuration(&options));
    let arguments = site.text("/arguments");
    assert_eq!(
        arguments,
        format!(
            "[\"{}/copy\" \"unused:1\" \"two words\" \"\"]\n",
            folder.display()
        )
    );
    let environment = site.text("/environment");
    assert!(
        environment.lines().any(|line| line == "GREETING=hello"),
        "{environment}"
    );
    assert!(
        !environment.contains("TUTTI_"),
        "a child would take itself for a worker: {environment}"
    );
    let place = site.text("/folder");
    assert!(
        place.starts_with(&format!("{} ", folder.display())),
        "{place}"
    );
    if tutti_sys::credentials::is_root() {
        assert!(!place.contains(" 0 0 "), "{place}");
    }
    site.text("/print?text");
    for (name, text) in [("out", "out text\n"), ("err", "err text\n")] {
        assert_eq!(site.wait_for_note(name, "\n"), text);
    }
}

/// Go's runtime takes each signal that a program may take, and goes on after most.
#[test]
fn no_program_outlives_a_killed_main() {
    let site = ProgramSite::prepare("tests/conformance/go");
    let options = json!({"executable": site.program(), "processes": 8});
    site.server.put("/config", &site.configuration(&options));
    let before = site.server.processes();
    assert!(before.len() > 8, "{before:?}");
    site.server.kill();
}

/// The answer of the control API when a program does not start.
fn refusal(site: &ProgramSite, options: &Value) -> String {
    let reply = site
        .server
        .call("PUT", "/config", &site.configuration(options));
    assert_ne!(reply.status, 200, "{options}");
    reply.text()
}

#[test]
fn what_does_not_start_is_reported_with_its_cure() {
    let site = ProgramSite::prepare("tests/conformance/go");
    let file = |name: &str, text: &str, mode: u32| {
        let path = site.server.folder().join(name);
        files::script(&path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let answer = refusal(&site, &json!({"executable": "/no/such/program"}));
    assert!(answer.contains("No such file"), "{answer}");
    assert!(
        answer.contains("/no/such/program") && answer.contains("working_directory"),
        "{answer}"
    );

    let answer = refusal(&site, &json!({"executable": site.server.folder()}));
    assert!(answer.contains("is a folder"), "{answer}");

    let answer = refusal(&site, &json!({"executable": file("plain", "text", 0o644)}));
    assert!(
        answer.contains("Permission denied") && answer.contains("chmod +x"),
        "{answer}"
    );

    let answer = refusal(
        &site,
        &json!({"executable": file("no-format", "text", 0o755)}),
    );
    assert!(
        answer.contains("Exec format error") && answer.contains("#!/usr/bin/env"),
        "{answer}"
    );

    let script = file("no-interpreter", "#!/no/such/interpreter\n", 0o755);
    let answer = refusal(&site, &json!({"executable": script}));
    assert!(answer.contains("interpreter"), "{answer}");

    let script = file(
        "ends",
        "#!/bin/sh\necho 'the cache is cold' >&2\nexit 0\n",
        0o755,
    );
    let answer = refusal(&site, &json!({"executable": script}));
    assert!(
        answer.contains("exited with code 0 before it was ready"),
        "{answer}"
    );
    assert!(answer.contains("the cache is cold"), "{answer}");

    let answer = refusal(&site, &json!({"environment": {"FAIL": "exit"}}));
    assert!(answer.contains("exited with code 3"), "{answer}");
    assert!(answer.contains("there is no database"), "{answer}");

    let answer = refusal(&site, &json!({"environment": {"FAIL": "panic"}}));
    assert!(answer.contains("exited with code 2"), "{answer}");
    assert!(answer.contains("panic: no database"), "{answer}");

    // The server is none the worse for it.
    site.server.put("/config", &site.configuration(&json!({})));
    assert_eq!(site.text("/"), "Hello from Go\n");
}

/// Programs that were compiled with the SDK of another version: one that this server still works with, and a newer one that still works with
/// this server.
#[test]
fn programs_serve_behind_servers_of_other_versions_of_the_wire() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("program");
    let older = (OLDEST..=VERSION).map(|newest| Versions {
        oldest: OLDEST,
        newest,
    });
    let newer = Versions {
        oldest: VERSION,
        newest: VERSION + 1,
    };
    for versions in older.chain([newer]) {
        build_for(versions, "tests/conformance/go", &program);
        let site = ProgramSite::with(&program);
        site.configure(&json!({}));
        assert_eq!(site.text("/"), "Hello from Go\n", "{versions}");
    }
    for other in [OLDEST - 1, VERSION + 1] {
        let versions = Versions {
            oldest: other,
            newest: other,
        };
        build_for(versions, "tests/conformance/go", &program);
        let answer = refusal(&ProgramSite::with(&program), &json!({}));
        let expected = format!(
            "the server works with versions {} of the wire, this program with {versions}",
            Versions::OWN
        );
        assert!(answer.contains(&expected), "{answer}");
        assert!(
            answer.contains("the SDK that came with the server"),
            "{answer}"
        );
    }
}

#[test]
fn a_client_that_goes_ends_the_context() {
    let site = ProgramSite::start(&json!({"processes": 1}));
    let mut stream = std::net::TcpStream::connect(site.server.address()).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /gone?abc HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let mut start = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut start).unwrap();
    drop(stream);
    site.wait_for_log("gone: abc context canceled true");
}

#[test]
fn requests_wait_for_each_other_as_little_as_in_any_go_program() {
    let site = ProgramSite::start(&json!({"processes": 1}));
    let pid = site.text("/pid");
    // One that hangs and one that never yields: the others are served beside them.
    let address = site.server.address();
    for target in ["/hang", "/spin?ms=600000"] {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        std::mem::forget(stream);
    }
    let load = site.load(40, "/sleep?ms=5", |body| body == b"slept\n");
    assert!(load.wait_for_answers(500, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures(), 0, "{outcome}");
    assert_eq!(site.text("/pid"), pid);
}

#[test]
fn requests_beyond_their_time_are_answered_and_the_process_goes_on() {
    let site = ProgramSite::start(&json!({"processes": 1, "limits": {"timeout": 1}}));
    let reply = site.server.get("/gone?late");
    // Its head had been sent: all that is left is to break it off.
    assert!(reply.status == 200 || reply.status == 504, "{reply:?}");
    assert_eq!(site.server.get("/hang").status, 504);
    site.wait_for_log("gone: late context canceled true");
    // The request behind it has the time that a busy machine may need.
    let limit = "/config/applications/app/limits/timeout";
    site.server.put(limit, &json!(60));
    assert_eq!(site.text("/"), "Hello from Go\n");
}

/// Where numbers of processes differ, the system's are the ones that count: a process is reported before it becomes the program.
#[test]
fn in_a_pid_namespace_programs_are_known_by_the_numbers_of_the_system() {
    if !is_root() {
        skip!("a pid namespace needs root");
    }
    let isolation = json!({"namespaces": {"pid": true}});
    let site = ProgramSite::prepare("tests/conformance/go");
    let script = site.server.folder().join("no-interpreter");
    files::script(&script, "#!/no/such/interpreter\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let answer = refusal(
        &site,
        &json!({"executable": script, "isolation": isolation}),
    );
    assert!(answer.contains("interpreter"), "{answer}");

    site.configure(&json!({"isolation": isolation}));
    assert_eq!(site.text("/"), "Hello from Go\n");
    site.wait_for_workers(2);
    let workers = site.workers();
    for worker in &workers {
        site.server.wait_for_log(&format!("(process {worker})"));
    }
    let victim = workers[0];
    tutti_sys::signal::send(victim, libc::SIGKILL).unwrap();
    let death = format!("process {victim} was killed by signal 9");
    wait_until("its death is in the log", || {
        site.server.log().contains(&death)
    });
    wait_until("it is replaced", || {
        let now = site.workers();
        now.len() == 2 && !now.contains(&victim)
    });
}

#[test]
fn panics_cost_their_own_request() {
    let site = ProgramSite::start(&json!({"processes": 1, "environment": {"PANIC_EACH": "100"}}));
    let pid = site.text("/pid");
    let load = site.load(8, "/", |body| body == b"Hello from Go\n");
    assert!(load.wait_for_answers(2000, PATIENCE));
    let outcome = load.stop();
    println!("a panic in each 100th request: {outcome}");
    let bad_gateways = outcome.statuses.get(&502).copied().unwrap_or_default();
    assert!(bad_gateways >= 15, "{outcome}");
    assert!(bad_gateways <= outcome.answered / 98 + 2, "{outcome}");
    assert_eq!(outcome.failures(), bad_gateways, "{outcome}");
    assert_eq!(site.text("/pid"), pid);
}

#[test]
fn processes_that_end_by_themselves_are_replaced() {
    let site = ProgramSite::start(&json!({"processes": 2}));
    for target in ["/exit?code=0", "/exit?code=7", "/crash", "/kill"] {
        assert_eq!(site.server.get(target).status, 502, "{target}");
        assert_eq!(site.text("/"), "Hello from Go\n");
        site.wait_for_workers(2);
    }
    site.wait_for_log("in a goroutine of its own: no handler can recover");
    site.wait_for_log("exited with code 7 while serving `GET /exit?code=7`");
}

#[test]
fn garbage_in_the_shared_memory_is_survived_and_logged() {
    let site = ProgramSite::start(&json!({"processes": 2}));
    let router = site.server.router();
    for seed in 1..=3 {
        // Whatever becomes of this one.
        let _ = tutti_testkit::client::get(
            site.server.address(),
            &format!("/scribble?n=100000&seed={seed}"),
        );
        wait_until("it serves again", || {
            tutti_testkit::client::get(site.server.address(), "/")
                .is_ok_and(|reply| reply.status == 200 && reply.text() == "Hello from Go\n")
        });
    }
    assert_eq!(site.server.router(), router, "the router has survived");
    site.wait_for_log("shared memory");
}

/// The application of `docs/languages/external.md` that speaks the wire: its paths below a folder of ours, its user one that is here.
#[test]
fn the_example_of_the_guide_serves() {
    let page = include_str!("../../../docs/languages/external.md");
    let site = ProgramSite::prepare("tests/conformance/go");
    let folder = site.server.folder().join("shop");
    fs::create_dir_all(folder.join("bin")).unwrap();
    files::install(&site.program(), &folder.join("bin/shop"));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let errors = folder.join("shop.log");
    let places = [
        ("/srv/shop", folder.to_str().unwrap()),
        ("/var/log/shop.log", errors.to_str().unwrap()),
    ];
    let mut all = json_examples(page, &places).into_iter();
    let mut options = all
        .find(|example| example.get("applications").is_none())
        .unwrap();
    match tutti_sys::credentials::is_root() {
        true => options["user"] = json!("nobody"),
        false => {
            options.as_object_mut().unwrap().remove("user");
        }
    }
    site.server.put("/config", &site.configuration(&options));
    assert_eq!(
        site.text("/arguments"),
        format!(
            "[\"{}/bin/shop\" \"--config\" \"shop.toml\"]\n",
            folder.display()
        )
    );
    site.text("/print?text");
    wait_until("the line of standard error", || {
        fs::read_to_string(&errors).is_ok_and(|text| text == "err text\n")
    });
    site.wait_for_log("out text");
}
