//! Every option of applications in NGINX Unit's configuration reference (for the languages there are), by a request: here those that no
//! other test proves, and the common ones in each language.
//!
//! | option | test |
//! |---|---|
//! | `type` with a version | here: `an_option_alone_changes_the_answer` |
//! | `environment`, `user`, `group`, `working_directory`, `stdout`, `stderr` | here, each language: `processes_are_as_configured`; `php.rs`: `streams_environment_and_folder_are_as_configured`, `workers_run_as_the_configured_user`; `go.rs`: `a_program_gets_what_the_configuration_says` |
//! | `processes` | `processes.rs`: `numbers_and_limits_change_without_new_processes` |
//! | `processes.max`, `.spare`, `.idle_timeout` | here, each language: `processes_come_with_requests_and_go_when_idle` |
//! | `limits.requests`, `.timeout` | here, each language: `limits_end_processes_and_requests` |
//! | `isolation.namespaces`, `.uidmap`, `.gidmap`, `.cgroup`, `.automount` | `isolation.rs`: `each_namespace_is_separate_and_the_rest_is_shared`, `ids_are_mapped_and_nothing_may_gain_privileges_where_that_is_said`, `the_examples_of_the_guide_do_what_it_says`, `without_procfs_and_tmpfs_the_root_has_neither` |
//! | `isolation.rootfs` | here, PHP, Python, Perl, Ruby, Node.js and modules of WebAssembly: `another_root_has_what_the_language_needs`, `the_common_options_hold_for_webassembly`; `java.rs`: `another_root_has_what_java_needs`; `wasm.rs`: `another_root_is_enough_for_a_component` |
//! | all of the above but the last, WebAssembly | here: `the_common_options_hold_for_webassembly`; `wasm.rs` and `wasm_module.rs`: `a_request_out_of_time_is_logged_with_its_place` |
//! | PHP `root`, `script`, `index`, `targets` | `php.rs`: `targets_script_and_index_choose_the_script` |
//! | PHP `options.file`, `.admin`, `.user` | `php.rs`: `directives_come_from_file_admin_and_user` |
//! | Python `module`, `callable`, `targets` and what is in them | `python_wsgi.rs`: `targets_factories_and_prefixes_lead_to_applications` |
//! | Python `factory`, `prefix` without targets, `protocol`, `path` as a string | here: `an_option_alone_changes_the_answer` |
//! | Python `path` as an array | `python_wsgi.rs`: `options_reach_the_interpreter` |
//! | Python `home` | `python_wsgi.rs`: `a_virtual_environment_is_entered` |
//! | Python `threads`; `thread_stack_size` | `python_wsgi.rs`: `threads_of_a_process_serve_at_once`; here: `threads_have_the_stack_that_is_asked_for` |
//! | Perl `script`, `threads`, `thread_stack_size` | `perl.rs`: `threads_serve_at_once_in_one_process`, `threads_have_the_stack_that_is_asked_for` |
//! | Node.js `script`, `arguments`, `runtime` | `node.rs`: `the_script_gets_what_the_configuration_says_and_nothing_of_ours`, `what_does_not_start_is_reported_with_its_place_its_cause_and_its_cure` |
//! | Ruby `script`, `threads` | `ruby.rs`: `a_script_that_does_not_load_is_reported_with_its_place`, `threads_serve_at_once_in_one_process` |
//! | Ruby `hooks` | `ruby.rs`: `hooks_run_in_each_process_and_thread` |
//! | Java `webapp`, `classpath`, `unit_jars` | `java.rs`: `a_packed_application_with_a_library_is_unpacked_and_cleared_away` |
//! | Java `options`, `threads`, `thread_stack_size` | `java.rs`: `threads_serve_at_once_and_say_where_they_are`, `what_does_not_start_is_reported_with_place_and_cure` |
//! | `wasm-wasi-component`: `component`, `access.filesystem` | `wasm.rs`: `a_component_that_cannot_be_served_is_refused_with_the_cure`, `a_component_has_the_folders_that_it_was_given` |
//! | `wasm`: `module`, `request_handler`, `malloc_handler`, `free_handler`, the six others | `wasm_module.rs`: `the_functions_are_called_in_their_order`, `a_module_that_cannot_be_served_is_refused_with_the_cure` |
//! | `wasm`: `access.filesystem` | `wasm_module.rs`: `a_module_has_the_folders_that_it_was_given` |
//! | external `executable`, `arguments` | `go.rs`: `a_program_gets_what_the_configuration_says` |

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::ops::Deref;
use std::path::Path;

use serde_json::{Value, json};
use tutti_e2e::java;
use tutti_e2e::wasm::{self, WasmSite};
use tutti_sys::credentials::is_root;
use tutti_testkit::{ServerOptions, client, skip, wait_until};

const PHP: &str = include_str!("documented_options/options.php");
const PYTHON: &str = include_str!("documented_options/options.py");
const PERL: &str = include_str!("documented_options/options.psgi");
const RUBY: &str = include_str!("documented_options/options.ru");
const NODE: &str = include_str!("documented_options/options.js");

const JAVA: &str = include_str!("documented_options/Options.java");

/// Those whose applications can tell what they are given.
const LANGUAGES: [&str; 7] = ["php", "python", "perl", "ruby", "external", "node", "java"];

/// An application in a language, on files in a folder that can be its root.
struct Site {
    site: tutti_testkit::Site,
    language: &'static str,
}

impl Deref for Site {
    type Target = tutti_testkit::Site;

    fn deref(&self) -> &Self::Target {
        &self.site
    }
}

impl Site {
    fn new(language: &'static str) -> Self {
        let class_path = match language {
            // The server looks for the jars when it starts.
            "java" => java::class_path("ee10"),
            _ => String::new(),
        };
        let mut site = tutti_testkit::Site::new("app", &ServerOptions::default());
        for (name, text) in [
            ("php", PHP),
            ("py", PYTHON),
            ("psgi", PERL),
            ("ru", RUBY),
            ("js", NODE),
        ] {
            site.server
                .write(&format!("jail/site/options.{name}"), text);
        }
        if language == "java" {
            let source = site.server.write("Options.java", JAVA);
            let classes = site.server.folder().join("jail/site/WEB-INF/classes");
            java::compile_to(&classes, &class_path, &[source]);
        }
        site.application = application(language, &site.server.folder().join("jail/site"));
        site.application["environment"] = json!({"WORK": site.work(), "COLOUR": "bl\u{fc}e = x"});
        Self { site, language }
    }

    fn seen(&self) -> Value {
        let reply = self.get("/");
        let language = self.language;
        let log = self.server.log();
        assert_eq!(reply.status, 200, "{language}: {}; {log}", reply.text());
        reply.json()
    }

    /// Asks for what is answered when there is a file `go`, and waits until `count` processes have such a request.
    fn hold(&self, count: usize) -> TcpStream {
        let stream = self.open("/hold");
        wait_until("a process to hold the request", || {
            let entries = fs::read_dir(self.work()).unwrap();
            let held = entries
                .filter(|entry| {
                    let name = entry.as_ref().unwrap().file_name();
                    name.to_string_lossy().starts_with("at-")
                })
                .count();
            held == count
        });
        stream
    }
}

/// The application of a language, on the files in `folder`.
fn application(language: &str, folder: &Path) -> Value {
    match language {
        "php" => json!({"type": "php", "root": folder, "script": "options.php"}),
        "python" => json!({"type": "python", "path": folder, "module": "options"}),
        "perl" => json!({"type": "perl", "script": folder.join("options.psgi")}),
        "ruby" => json!({"type": "ruby", "script": folder.join("options.ru")}),
        "node" => json!({"type": "node", "script": folder.join("options.js")}),
        "java" => json!({
            "type": "java", "webapp": folder, "options": ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
        }),
        _ => json!({
            "type": "external", "protocol": "http",
            "executable": "/usr/bin/python3", "arguments": [folder.join("options.py")]
        }),
    }
}

#[test]
fn processes_are_as_configured() {
    for language in LANGUAGES {
        let site = Site::new(language);
        let (out, err) = (site.work().join("out"), site.work().join("err"));
        let mut options = json!({"working_directory": site.work(), "stdout": out, "stderr": err});
        if is_root() {
            options["user"] = json!("www-data");
            options["group"] = json!("daemon");
        }
        site.configure(&options);
        let seen = site.seen();
        assert_eq!(seen["colour"], "bl\u{fc}e = x", "{language}: {seen}");
        // PHP goes to where its script is.
        let folder = if language == "php" {
            site.server.folder().join("jail/site")
        } else {
            site.work()
        };
        assert_eq!(seen["folder"], json!(folder), "{language}");
        if is_root() {
            // Debian's numbers of `www-data` and `daemon`.
            let ids = (&seen["uid"], &seen["gid"]);
            assert_eq!(ids, (&json!(33), &json!(1)), "{language}");
            // Not the folder of the server's user.
            assert_eq!(seen["home"], "/var/www", "{language}");
            // The group is the user's own unless one is given, and so is the folder.
            options.as_object_mut().unwrap().remove("group");
            options["environment"] =
                json!({"WORK": site.work(), "COLOUR": "", "HOME": "/elsewhere"});
            site.configure(&options);
            let seen = site.seen();
            let told = (&seen["gid"], &seen["home"]);
            assert_eq!(told, (&json!(33), &json!("/elsewhere")), "{language}");
        }
        for (path, text) in [(&out, "to stdout\n"), (&err, "to stderr\n")] {
            wait_until(&format!("{text} of {language}"), || {
                fs::read_to_string(path).is_ok_and(|found| found.contains(text))
            });
        }
        assert!(!site.server.log().contains("to stderr"), "{language}");
    }
}

#[test]
fn processes_come_with_requests_and_go_when_idle() {
    for language in LANGUAGES {
        let site = Site::new(language);
        // An external program takes as many requests at once as it is sent.
        let limits = json!({"concurrency": 1});
        let processes = json!({"max": 3, "spare": 1, "idle_timeout": 3600});
        site.configure(&json!({"processes": processes, "limits": limits}));
        site.wait_for_workers(1);
        let first = site.hold(1);
        // One is busy, one is kept ready.
        site.wait_for_workers(2);
        let held = [first, site.hold(2), site.hold(3)];
        site.wait_for_workers(3);
        fs::write(site.work().join("go"), "").unwrap();
        for mut stream in held {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{language}: {answer}");
        }
        site.wait_for_workers(3);
        let path = "/config/applications/app/processes/idle_timeout";
        site.server.put(path, &json!(1));
        site.wait_for_workers(1);
        site.seen();
    }
}

#[test]
fn limits_end_processes_and_requests() {
    for language in LANGUAGES {
        let site = Site::new(language);
        site.configure(&json!({"processes": 1, "limits": {"requests": 2}}));
        let pids: Vec<_> = (0..4).map(|_| site.seen()["pid"].clone()).collect();
        assert_eq!(pids[0], pids[1], "{language}");
        assert_ne!(pids[1], pids[2], "{language}");
        assert_eq!(pids[2], pids[3], "{language}");
        // It is there before it is asked: the time of a request that has not begun is over with 503.
        site.configure(&json!({"processes": 1, "limits": {"timeout": 60}}));
        site.seen();
        let limit = "/config/applications/app/limits/timeout";
        site.server.put(limit, &json!(1));
        let late = site.server.get("/hold");
        assert_eq!(late.status, 504, "{language}: {}", late.text());
        // The next process may take longer to come, on a machine that has more to do.
        site.server.put(limit, &json!(60));
        site.seen();
    }
}

#[test]
fn another_root_has_what_the_language_needs() {
    if !is_root() {
        skip!("another root needs root, or a user namespace as in `isolation.rs`");
    }
    for language in ["php", "python", "perl", "ruby", "node"] {
        let site = Site::new(language);
        let mut members = application(language, Path::new("/site"));
        members["isolation"] = json!({"rootfs": site.server.folder().join("jail")});
        site.configure(&members);
        let root = site.seen()["root"].clone();
        let root = root.as_array().unwrap();
        assert!(root.contains(&json!("site")), "{language}: {root:?}");
        assert!(!root.contains(&json!("home")), "{language}: {root:?}");
    }
}

/// A component or a module cannot tell who runs it, so the processes are looked at from outside.
#[test]
fn the_common_options_hold_for_webassembly() {
    for (name, site) in [
        ("component", WasmSite::bare(&wasm::rust())),
        ("module", WasmSite::bare_module(&wasm::module(&[]))),
    ] {
        let (out, err) = (site.work().join("out"), site.work().join("err"));
        let mut options = json!({
            "working_directory": site.work(), "stdout": out, "stderr": err,
            "environment": {"COLOUR": "blue"}, "limits": {"concurrency": 1},
            "processes": {"max": 3, "spare": 1, "idle_timeout": 3600}
        });
        if is_root() {
            options["user"] = json!("www-data");
            options["group"] = json!("daemon");
        }
        site.configure(&options);
        site.wait_for_workers(1);
        // A second one may come with each request: while it is served no spare process is kept.
        assert!(site.text("/environment").contains("COLOUR=blue"), "{name}");
        let worker = site.workers()[0];
        let folder = fs::read_link(format!("/proc/{worker}/cwd")).unwrap();
        assert_eq!(folder, site.work(), "{name}");
        if is_root() {
            let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
            for line in ["Uid:\t33\t33\t33\t33", "Gid:\t1\t1\t1\t1"] {
                assert!(status.contains(line), "{name}: {status}");
            }
        }
        assert_eq!(site.text("/print"), "printed", "{name}");
        for (path, text) in [
            (&out, "to standard output\n"),
            (&err, "to standard error\n"),
        ] {
            wait_until(&format!("{text} of a {name}"), || {
                fs::read_to_string(path).is_ok_and(|found| found.contains(text))
            });
        }
        // One is busy, one is kept ready.
        let mut held = vec![site.open("/wait?3600000")];
        site.wait_for_workers(2);
        held.extend([site.open("/wait?3600000"), site.open("/wait?3600000")]);
        site.wait_for_workers(3);
        let path = "/config/applications/wasm/processes/idle_timeout";
        site.server.put(path, &json!(1));
        held.into_iter().for_each(client::reset);
        site.wait_for_workers(1);
        assert!(site.text("/").starts_with("Hello from a "), "{name}");
    }
    if !is_root() {
        skip!("another root needs root, or a user namespace as in `isolation.rs`");
    }
    let site = WasmSite::bare_module(&wasm::module(&[]));
    let jail = site.server.folder().join("jail");
    site.server
        .write("jail/app.wasm", fs::read(wasm::module(&[])).unwrap());
    site.configure(&json!({"module": "/app.wasm", "isolation": {"rootfs": jail}}));
    assert_eq!(site.text("/"), "Hello from a module\n");
}

#[test]
fn an_option_alone_changes_the_answer() {
    let either =
        |protocol| json!({"module": "options", "callable": "either", "protocol": protocol});
    // Language, members that are replaced, what is asked for, what is in the answer.
    for (language, members, target, expected) in [
        ("php", json!({"type": "php 8"}), "/", "\"pid\""),
        ("python", json!({"type": "python 3"}), "/", "\"pid\""),
        ("perl", json!({"type": "perl 5"}), "/", "\"pid\""),
        ("ruby", json!({"type": "ruby 3"}), "/", "\"pid\""),
        ("python", either("wsgi"), "/", "wsgi"),
        ("python", either("asgi"), "/", "asgi"),
        (
            "python",
            json!({"prefix": "/shop"}),
            "/shop/where",
            "/shop /where",
        ),
        ("python", json!({"prefix": "/other"}), "/where", " /where"),
        (
            "python",
            json!({"module": "made", "callable": "make", "factory": true}),
            "/where",
            " /where",
        ),
    ] {
        let site = Site::new(language);
        let factory = "from options import application\n\ndef make():\n    return application\n";
        site.server.write("jail/site/made.py", factory);
        site.configure(&members);
        let reply = site.server.get(target);
        let text = reply.text();
        assert_eq!(reply.status, 200, "{language} {members}: {text}");
        assert!(text.contains(expected), "{language} {members}: {text}");
    }
}

#[test]
fn threads_have_the_stack_that_is_asked_for() {
    const SIZE: usize = 7 << 20;
    let site = Site::new("python");
    site.configure(&json!({"threads": 2, "thread_stack_size": SIZE}));
    site.seen();
    let worker = site.server.wait_for_workers("app", 1)[0];
    tutti_e2e::wait_for_stacks(worker, SIZE, 2);
}
