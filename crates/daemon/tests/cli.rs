//! The command line, against a real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tutti_testkit::{Server, ServerOptions, client, free_port, wait_until};

fn tutti(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tutti"));
    command
        .args(words)
        .env_remove("TUTTI_CONTROL")
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Setting {
    server: Server,
    control: String,
}

impl Setting {
    fn new() -> Self {
        let server = Server::start(&ServerOptions::default());
        let control = format!("unix:{}", server.control().display());
        let address = format!("127.0.0.1:{}", server.port());
        server.put(
            "/config",
            &json!({"listeners": {address: {"pass": "routes"}}, "routes": [{"action": {"return": 204}}]}),
        );
        Self { server, control }
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut command = tutti(words);
        command.args(["--control", &self.control]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that reads nothing may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn config(&self, path: &str) -> Value {
        self.server
            .call("GET", &format!("/config{path}"), &Value::Null)
            .json()
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let setting = Setting::new();
    for words in [
        &["status"][..],
        &["jobs", "list"],
        &["cert", "list"],
        &["log"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = tutti(words)
            .args(["--control", &setting.control])
            .stdout(full.unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let told = text(&output.stderr);
        assert!(
            told.contains("cannot write to stdout: No space left"),
            "{words:?}: {told}"
        );
    }
}

#[test]
fn status_shows_no_control_characters() {
    let setting = Setting::new();
    let name = "x\u{1b}[2J";
    let path = "/config/upstreams";
    let upstream = json!({(name): {"servers": {"127.0.0.1:1": {}}}});
    let reply = setting.server.call("PUT", path, &upstream);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let page = setting.run(&["status"], "");
    assert!(page.status.success(), "{}", text(&page.stderr));
    let page = text(&page.stdout);
    assert!(page.contains("x·[2J") && !page.contains('\u{1b}'), "{page}");
}

#[test]
fn a_part_of_the_configuration_is_read_replaced_extended_and_removed() {
    let setting = Setting::new();
    let read = setting.run(&["config", "get", "routes/0/action"], "");
    assert!(read.status.success(), "{}", text(&read.stderr));
    assert_eq!(
        serde_json::from_slice::<Value>(&read.stdout).unwrap(),
        json!({"return": 204})
    );

    let put = setting.run(&["config", "put", "/routes/0/action/return"], "404");
    assert!(put.status.success(), "{}", text(&put.stderr));
    assert_eq!(setting.server.get("/").status, 404);

    let appended = setting.run(
        &["config", "append", "routes"],
        r#"{"action": {"return": 200}}"#,
    );
    assert!(appended.status.success(), "{}", text(&appended.stderr));
    assert_eq!(setting.config("/routes").as_array().unwrap().len(), 2);

    let deleted = setting.run(&["config", "delete", "routes/0"], "");
    assert!(deleted.status.success(), "{}", text(&deleted.stderr));
    assert_eq!(setting.server.get("/").status, 200);
}

#[test]
fn a_file_in_the_place_of_a_part_is_reported() {
    let setting = Setting::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.json");
    std::fs::write(&file, "{}").unwrap();
    let file = file.to_str().unwrap();
    let refused = setting.run(&["config", "put", file], "");
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    let hint = format!("hint: `tutti config put --file {file}`");
    assert!(said.contains(&hint), "{said}");
    let done = setting.run(&["config", "put", "--yes", "--file", file], "");
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn a_mistake_is_shown_in_its_line_and_changes_nothing() {
    let setting = Setting::new();
    let before = setting.config("");
    let put = setting.run(&["config", "put"], "{\n  \"listners\": {}\n}\n");
    assert_eq!(put.status.code(), Some(1));
    let said = text(&put.stderr);
    for part in ["<stdin>:2:3", "\"listners\": {}", "^^^^", "listeners"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert_eq!(setting.config(""), before);
}

#[test]
fn an_editor_changes_the_configuration_and_a_refused_text_is_kept() {
    let setting = Setting::new();
    let edit = |script: &str| {
        let mut command = tutti(&[
            "config",
            "edit",
            "routes/0/action",
            "--control",
            &setting.control,
        ]);
        command
            .env("VISUAL", "")
            .env("EDITOR", format!("sed -i {script}"))
            .output()
            .unwrap()
    };
    let done = edit("s/204/403/");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(setting.server.get("/").status, 403);

    let unchanged = edit("s/nothing/else/");
    assert!(text(&unchanged.stdout).contains("nothing changed"));

    let refused = edit("s/return/retrun/");
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("retrun") && said.contains("is saved in"),
        "{said}"
    );
    let kept = said.rsplit('`').nth(1).unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("retrun"));
    std::fs::remove_file(kept).unwrap();
    assert_eq!(setting.server.get("/").status, 403);
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.json");
    let check = |bytes: &str| {
        std::fs::write(&file, bytes).unwrap();
        tutti(&["config", "check"]).arg(&file).output().unwrap()
    };
    assert!(
        check(r#"{"listeners": {"*:80": {"pass": "routes"}}, "routes": []}"#)
            .status
            .success()
    );
    let broken = check(
        r#"{"listeners": {"*:80": {"pass": "applications/x"}}, "settings": {"listen_threads": 0}}"#,
    );
    assert_eq!(broken.status.code(), Some(1));
    let said = text(&broken.stderr);
    assert!(
        said.contains("applications/x") && said.contains("listen_threads"),
        "all faults at once:\n{said}"
    );
    // Issue 28, 5.5: nothing in force could have changed.
    assert!(said.contains("2 errors found\n"), "{said}");
    let unknown = check(
        r#"{"listeners": {"*:443": {"pass": "routes", "tls": {"certificate": "shop"}}}, "routes": []}"#,
    );
    assert!(unknown.status.success(), "no `--statedir`");
}

/// Issue 28, 5.5.
#[test]
fn check_looks_at_files_when_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let file = folder.path().join("site.json");
    let check = |share: &str, words: &[&str]| {
        let config = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{{"action": {{"share": "{share}$uri"}}}}]}}"#
        );
        std::fs::write(&file, config).unwrap();
        let words = [&["config", "check"], words].concat();
        tutti(&words).arg(&file).output().unwrap()
    };
    let gone = format!("{place}/gone");
    let unasked = check(&gone, &[]);
    assert!(unasked.status.success());
    assert!(
        text(&unasked.stdout).contains("not checked: whether files and folders exist"),
        "{}",
        text(&unasked.stdout)
    );
    let asked = check(&gone, &["--files"]);
    assert_eq!(asked.status.code(), Some(1));
    let said = text(&asked.stderr);
    assert!(
        said.contains(&gone) && said.contains("site.json:1:"),
        "{said}"
    );
    let there = check(&place.to_string(), &["--files"]);
    assert!(there.status.success(), "{}", text(&there.stderr));
    assert!(!text(&there.stdout).contains("files and folders"));
}

/// Issue 28, 5.5.
#[test]
fn a_part_that_is_not_there_is_made_or_named() {
    let setting = Setting::new();
    let put = setting.run(&["config", "put", "settings/http/idle_timeout"], "30");
    assert!(put.status.success(), "{}", text(&put.stderr));
    assert_eq!(
        setting.config("/settings"),
        json!({"http": {"idle_timeout": 30}})
    );
    for (words, hint) in [
        (
            &["config", "get", "setings"][..],
            "did you mean `settings`?",
        ),
        (
            &["config", "get", "settings/htp"][..],
            "did you mean `http`?",
        ),
        (
            &["config", "get", "bogus"][..],
            "there is: listeners, routes, settings",
        ),
        (
            &["config", "put", "routes/7/action/return"][..],
            "the array has the indexes 0 to 0",
        ),
    ] {
        let refused = setting.run(words, "200");
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(said.contains(hint), "{words:?}: {said}");
    }
    for (words, value) in [
        (&["config", "put"][..], "{}"),
        (&["config", "put", "listeners"][..], "{}"),
        (&["config", "put"][..], r#"{"routes": [], "listeners": {}}"#),
    ] {
        let refused = setting.run(words, value);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{words:?} {value}");
        assert!(said.contains("remove the 1 that the server has"), "{said}");
        assert!(said.contains("hint: `--yes`"), "{said}");
        assert_eq!(setting.server.get("/").status, 204);
    }
    let put = setting.run(&["config", "put", "--yes"], "{}");
    assert!(put.status.success(), "{}", text(&put.stderr));
    let said = text(&put.stdout) + &text(&put.stderr);
    assert!(
        said.contains("the configuration has no listeners"),
        "{said}"
    );
    // Now there is nothing to remove.
    let again = setting.run(&["config", "put"], "{}");
    assert!(again.status.success(), "{}", text(&again.stderr));
}

/// Issue 28, 5.6.
#[test]
fn the_log_is_printed_and_followed() {
    let setting = Setting::new();
    let place = setting.server.status("/server/log");
    let file = place["file"].as_str().unwrap().to_owned();
    let last = std::fs::read_to_string(&file).unwrap();
    let last = last.lines().last().unwrap().to_owned();
    let printed = setting.run(&["log", "--lines", "1"], "");
    assert_eq!(text(&printed.stdout), last + "\n");

    let mut command = tutti(&["log", "--follow"]);
    command
        .args(["--control", &setting.control])
        .stdout(Stdio::piped());
    let mut following = command.spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().is_ok());
    // The next line is in another file.
    std::fs::rename(&file, format!("{file}.1")).unwrap();
    setting.server.signal(libc::SIGUSR1);
    let mut found = lines.map(Result::unwrap);
    assert!(found.any(|line| line.contains("logs reopened")));
    following.kill().unwrap();
    following.wait().unwrap();
}

/// Issue 28, 5.5.
#[test]
fn a_certificate_that_is_not_stored_is_stored_by_a_command() {
    let setting = Setting::new();
    let listener = r#"{"pass": "routes", "tls": {"certificate": "shop"}}"#;
    let put = setting.run(&["config", "put", "listeners/127.0.0.1:1"], listener);
    assert_eq!(put.status.code(), Some(1));
    let said = text(&put.stderr);
    assert!(said.contains("tutti cert put shop"), "{said}");
}

/// Issue 28, 5.5: each later change, whatever it was, repeated a warning about certificates.
#[test]
fn a_warning_about_certificates_is_given_once() {
    let setting = Setting::new();
    let names = json!({"acme": "a", "names": "example.com"});
    let listener = json!({"pass": "routes", "tls": {"certificate": names}});
    let config = json!({
        "listeners": {format!("127.0.0.1:{}", free_port()): listener},
        "routes": [{"action": {"return": 204}}],
        "settings": {"acme": {"a": {"directory": "https://127.0.0.1:1/directory"}}},
    });
    let call = |path: &str, value: &Value| setting.server.call("PUT", path, value).text();
    let warning = "no listener has port 80";
    let first = call("/config", &config);
    assert!(first.contains(warning), "{first}");
    let later = call("/config/routes/0/action/return", &json!(200));
    assert!(later.contains("success"), "{later}");
    assert!(!later.contains(warning), "{later}");
    let changed = call("/config/settings/acme/a/challenge", &json!("tls-alpn-01"));
    assert!(changed.contains("port 443"), "{changed}");
}

/// Issue 28, 5.2: `systemctl reload` does this, also where there are no configuration files.
#[test]
fn a_reload_without_configuration_files_succeeds() {
    let setting = Setting::new();
    let before = setting.config("");
    let done = setting.run(&["reload"], "");
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("no configuration files"), "{said}");
    assert_eq!(setting.config(""), before);
}

/// Issue 28, 5.6.
#[test]
fn the_version_is_a_command_too() {
    let said = tutti(&["version"]).output().unwrap();
    assert!(said.status.success());
    assert_eq!(
        text(&said.stdout),
        format!("tutti {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// Issue 28, 5.6.
#[test]
fn a_cache_is_purged_whole_or_in_part() {
    let setting = Setting::new();
    let store = json!({"pages": {}});
    setting
        .server
        .put("/config/settings", &json!({"cache": store}));
    for words in [
        &["cache", "purge", "pages"][..],
        &["cache", "purge", "pages", "--key", "http://example.com/a"][..],
        &["cache", "purge", "pages", "--prefix", "http://example.com/"][..],
        &["cache", "purge", "pages", "--tag", "news"][..],
    ] {
        let done = setting.run(words, "");
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        assert!(text(&done.stdout).contains("done:"), "{words:?}");
    }
    let unknown = setting.run(&["cache", "purge", "images"], "");
    assert_eq!(unknown.status.code(), Some(1));
    let said = text(&unknown.stderr);
    assert!(said.contains("there is no cache `images`"), "{said}");
}

#[test]
fn status_and_restart_speak_of_applications() {
    let setting = Setting::new();
    let table = setting.run(&["status"], "");
    assert!(
        text(&table.stdout).contains("no applications"),
        "{}",
        text(&table.stdout)
    );
    let raw = setting.run(&["status", "--json"], "");
    let status: Value = serde_json::from_slice(&raw.stdout).unwrap();
    assert!(status["connections"].is_object());
    let server = &status["server"];
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    let line = format!("process {}, up ", server["pid"]);
    assert!(text(&table.stdout).contains(&line), "{line}");
    assert!(server["uptime"].as_u64() < Some(3600), "{server}");
    let restart = setting.run(&["restart", "nobody"], "");
    assert_eq!(restart.status.code(), Some(1));
    assert!(
        text(&restart.stderr).contains("nobody"),
        "{}",
        text(&restart.stderr)
    );
}

/// Issue 28, 5.6.
#[test]
fn status_of_one_application_shows_all_that_is_known_of_it() {
    let (options, _folder) = support::with_sample("");
    let server = Server::start(&options);
    server.put("/config", &support::sample_configuration(server.port()));
    let control = format!("unix:{}", server.control().display());
    let status = |words: &[&str]| {
        let words = [&["status", "--control", &control], words].concat();
        tutti(&words).output().unwrap()
    };
    let page = text(&status(&["sample"]).stdout);
    let running = page
        .lines()
        .find(|line| line.starts_with("sample processes running"));
    assert!(running.is_some_and(|line| line.ends_with(" 2")), "{page}");
    let raw: Value = serde_json::from_slice(&status(&["sample", "--json"]).stdout).unwrap();
    assert_eq!(raw["processes"]["running"], 2, "{raw}");
    let unknown = status(&["nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    let said = text(&unknown.stderr);
    assert!(said.contains("there is no application `nobody`"), "{said}");
}

/// The page in a terminal of this many columns.
fn seen(setting: &Setting, columns: u16, words: &str) -> String {
    let command = format!(
        "stty cols {columns}; {} {words} --control {}",
        env!("CARGO_BIN_EXE_tutti"),
        setting.control
    );
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    text(&output.stdout).replace('\r', "")
}

#[test]
fn status_fits_the_terminal_and_is_looked_at_again() {
    let setting = Setting::new();
    let listeners: serde_json::Map<String, Value> = (0..12)
        .map(|_| {
            (
                format!("127.0.0.1:{}", free_port()),
                json!({"pass": "routes"}),
            )
        })
        .collect();
    setting.server.put("/config/listeners", &listeners.into());
    for columns in [80, 200] {
        let page = seen(&setting, columns, "status");
        assert!(page.contains("listeners    127.0.0.1:"), "{page}");
        let longest = page.lines().map(str::len).max().unwrap();
        assert!(longest <= usize::from(columns), "{longest}: {page}");
        assert!(longest > usize::from(columns) / 2, "{longest}: {page}");
    }
    let mut watching = tutti(&[
        "status",
        "--watch=1",
        "--json",
        "--control",
        &setting.control,
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        let status: Value = serde_json::from_str(&line).unwrap();
        assert!(status["connections"].is_object());
    }
    // Without a reader it ends by itself.
    drop(lines);
    assert!(watching.wait().unwrap().success());
}

#[test]
fn without_a_server_the_socket_that_was_tried_is_named() {
    let output = tutti(&["status", "--control", "unix:/nowhere/control.sock"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("/nowhere/control.sock") && said.contains("hint:"),
        "{said}"
    );
}

#[test]
fn completions_and_the_manual_name_every_command() {
    let manual = tutti(&["man"]).output().unwrap();
    let completions = tutti(&["completions", "bash"]).output().unwrap();
    for command in ["run", "config", "status", "restart"] {
        assert!(
            text(&manual.stdout).contains(command),
            "{command} in the manual"
        );
        assert!(
            text(&completions.stdout).contains(command),
            "{command} in the completions"
        );
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(
        tutti(&["man", "--folder", path])
            .status()
            .unwrap()
            .success()
    );
    for (page, says) in [
        ("tuttid.8", "modulesdir"),
        ("tutti.1", "tutti\\-config"),
        ("tutti-config.1", "edit"),
        ("tutti-config-put.1", "PATH"),
    ] {
        let written = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(written.contains(says), "{page}: {written}");
    }
    let nowhere = tutti(&["man", "--folder", "/nowhere"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(
        text(&nowhere.stderr).contains("hint: the folder must exist"),
        "{}",
        text(&nowhere.stderr)
    );
}

#[test]
fn a_folder_is_served_with_no_configuration_at_all() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), None, None).unwrap();
    std::fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    std::fs::write(folder.path().join("page.html"), "a page").unwrap();
    // Issue 28, 5.6: archives, databases and keys are no pages either.
    let hidden = [
        ".env",
        "shop.jar",
        "shop.zip",
        "backup.tar.gz",
        "shop.db",
        "site.key",
    ];
    for name in hidden {
        std::fs::write(folder.path().join(name), "secret").unwrap();
    }
    std::fs::write(folder.path().join("index.html"), "the first page").unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = tutti(&["run", "--listen", &listen]);
    let modules = folder.path().join("no-modules");
    std::fs::create_dir(&modules).unwrap();
    command.arg("--modulesdir").arg(&modules).arg(folder.path());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert!(first.starts_with("starting: files in "), "{first}");
    let address = listen.parse().unwrap();
    wait_until("it says where to look", || {
        said.next()
            .is_some_and(|line| line.unwrap().contains(&format!("http://{listen}/")))
    });
    assert_eq!(client::get(address, "/page.html").unwrap().text(), "a page");
    for name in hidden {
        let path = format!("/{name}");
        assert_eq!(client::get(address, &path).unwrap().status, 404, "{name}");
    }
    let pid = i32::try_from(child.id()).unwrap();
    let processes = tutti_testkit::processes::tree(pid);
    assert!(processes.len() >= 3, "{processes:?}");
    tutti_sys::signal::send(pid, libc::SIGINT).unwrap();
    assert!(child.wait().unwrap().success());
    wait_until("nothing stays behind", || {
        processes
            .iter()
            .all(|process| !tutti_testkit::processes::is_running(process.pid))
    });
}

/// Issue 10, 1.26.
#[test]
fn set_makes_the_objects_on_the_way() {
    let setting = Setting::new();
    let set = |path: &str, value: &str| setting.run(&["config", "set", path, value], "");
    let done = set("settings/http/idle_timeout", "30");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(
        setting.config("/settings"),
        json!({"http": {"idle_timeout": 30}})
    );
    // Members that are there already stay.
    let done = set("settings/http/max_body_size", "10M");
    assert!(done.status.success(), "{}", text(&done.stderr));
    let done = set(
        "settings/http/static/mime_types/text%2Fx-own",
        r#"[".own"]"#,
    );
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(
        setting.config("/settings/http"),
        json!({"idle_timeout": 30, "max_body_size": "10M", "static": {"mime_types": {"text/x-own": [".own"]}}})
    );
    // An array does not grow by a gap, and a scalar has no members.
    for (path, value) in [
        ("routes/7/action/return", "200"),
        ("routes/0/action/return/x", "1"),
    ] {
        assert_eq!(set(path, value).status.code(), Some(1), "{path}");
    }
    let wrong = set("settings/telemetry/endpoint", "5");
    assert!(
        text(&wrong.stderr).contains("error: "),
        "{}",
        text(&wrong.stderr)
    );
    assert_eq!(setting.config("/settings").get("telemetry"), None);
}

/// Issue 10, 1.26.
#[test]
fn a_call_that_is_not_understood_says_what_was_meant() {
    let said = |words: &[&str]| {
        let output = tutti(words).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    for (words, wrong, meant) in [
        (
            &["confg", "get"][..],
            "there is no command `confg`",
            "did you mean `config`?",
        ),
        (
            &["config", "gte"],
            "there is no command `gte`",
            "did you mean `get`?",
        ),
        (
            &["run", "--lisen", "80"],
            "there is no option `--lisen`",
            "did you mean `--listen`?",
        ),
        (
            &["--no-deamon"],
            "there is no option `--no-deamon`",
            "did you mean `--no-daemon`?",
        ),
        (
            &["frobnicate"],
            "there is no command `frobnicate`",
            "see `--help`",
        ),
    ] {
        let (code, stderr) = said(words);
        assert_ne!(code, Some(0), "{words:?}");
        assert!(
            stderr.contains(wrong) && stderr.contains(meant),
            "{words:?}: {stderr}"
        );
        assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    }
    // Without arguments it starts no server.
    let alone = tutti(&[]).output().unwrap();
    assert!(alone.status.success());
    for command in ["run", "config", "status", "upgrade"] {
        assert!(
            text(&alone.stdout).contains(&format!("  {command} ")),
            "{}",
            text(&alone.stdout)
        );
    }
    for flag in ["-V", "--version"] {
        let version = text(&tutti(&[flag]).output().unwrap().stdout);
        assert_eq!(
            version,
            format!("tutti version: {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
}

/// Issue 10, 1.26: each fault was line, and then once more that there was one.
#[test]
fn one_fault_is_one_error_line() {
    let setting = Setting::new();
    for words in [
        &["config", "put"][..],
        &["config", "set", "routes/0/action/retrun", "5"],
        &["config", "get", "nowhere"],
    ] {
        let stderr = text(&setting.run(words, r#"{"listners": {}}"#).stderr);
        assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    }
}

/// Issue 10, 1.26.
#[test]
fn a_user_who_does_not_exist_is_a_fault_of_user_and_a_traceback_has_lines() {
    let (options, folder) = support::with_sample("");
    let server = Server::start(&options);
    let config = |user: &str| json!({"applications": {"site": {"type": "php", "root": folder.path(), "user": user}}});
    let answer = server
        .call("PUT", "/config", &config("nobody-of-that-name"))
        .json();
    assert_eq!(
        answer["errors"][0]["pointer"], "/applications/site/user",
        "{answer}"
    );
    assert_eq!(answer["path"], "/applications/site/user", "{answer}");

    let (options, folder) =
        support::with_sample("printf 'Traceback:\\n  File x\\nError: no\\n' >&2; exit 3");
    let server = Server::start(&options);
    let file = folder.path().join("site.json");
    let config = json!({"applications": {"site": {"type": "php", "root": folder.path()}}});
    std::fs::write(&file, config.to_string()).unwrap();
    let control = format!("unix:{}", server.control().display());
    let put = tutti(&["config", "put", "--control", &control, "--file"])
        .arg(&file)
        .output()
        .unwrap();
    let stderr = text(&put.stderr);
    assert!(
        stderr.lines().any(|line| line.trim() == "File x"),
        "{stderr}"
    );
}

/// Issue 10, 1.10.
#[test]
fn warnings_are_printed_and_are_no_errors() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".env"), "SECRET=1").unwrap();
    let config = format!(
        r#"{{"listeners": {{"127.0.0.1:{}": {{"pass": "routes"}}}}, "routes": [{{"action": {{"share": "{}$uri"}}}}]}}"#,
        free_port(),
        folder.path().display()
    );
    let file = folder.path().join("site.json");
    std::fs::write(&file, &config).unwrap();
    let checked = tutti(&["config", "check"]).arg(&file).output().unwrap();
    assert!(checked.status.success());
    let warning = "warning: `GET /.env` serves a hidden file";
    assert!(
        text(&checked.stderr).contains(warning),
        "{}",
        text(&checked.stderr)
    );
    assert!(
        text(&checked.stderr).contains("site.json:1:"),
        "{}",
        text(&checked.stderr)
    );
    let setting = Setting::new();
    let put = setting.run(&["config", "put"], &config);
    assert!(put.status.success());
    assert!(text(&put.stderr).contains(warning), "{}", text(&put.stderr));
    assert_eq!(text(&put.stdout).matches("warning").count(), 0);
}

/// Issue 10, 1.11: `GET /shop/settings.py` gave the secret key.
#[test]
fn a_folder_of_sources_is_not_served_as_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("go.mod"), "module x").unwrap();
    std::fs::write(folder.path().join("index.html"), "x").unwrap();
    let refused = tutti(&["run"]).arg(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    let start = said.find('{').unwrap();
    let end = said.rfind('}').unwrap() + 1;
    let ready = folder.path().join("ready.json");
    std::fs::write(&ready, &said[start..end]).unwrap();
    let checked = tutti(&["config", "check"]).arg(&ready).output().unwrap();
    assert!(
        checked.status.success(),
        "{said}\n{}",
        text(&checked.stderr)
    );
}

#[test]
fn a_configuration_is_converted_to_toml_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let site = json!({
        "listeners": {"*:80": {"pass": "routes"}},
        "routes": [
            {"match": {"uri": ["/a", "/b"]}, "action": {"return": 404}},
            {"action": {"share": "/www$uri", "fallback": {"return": 204}}},
        ],
        "settings": {"http": {"idle_timeout": 1.5}},
    });
    let convert = |name: &str, content: &str, to: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let file = file.display().to_string();
        tutti(&["config", "convert", &file, "--to", to])
            .output()
            .unwrap()
    };
    let toml = convert("site.json", &site.to_string(), "toml");
    assert!(toml.status.success(), "{}", text(&toml.stderr));
    let toml = text(&toml.stdout);
    assert!(toml.contains("[[routes]]"), "{toml}");
    let json = convert("site.toml", &toml, "json");
    assert_eq!(serde_json::from_slice::<Value>(&json.stdout).unwrap(), site);

    let null = convert("null.json", r#"{"routes": [null]}"#, "toml");
    assert_eq!(null.status.code(), Some(1));
    let said = text(&null.stderr);
    for part in ["/routes/0", "TOML has no `null`", "--to yaml"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
}

#[test]
fn certificates_are_stored_listed_and_removed() {
    let setting = Setting::new();
    let none = setting.run(&["cert", "list"], "");
    assert!(text(&none.stdout).contains("no certificates"));

    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| {
        let path = folder.path().join(name);
        path.display().to_string()
    });
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=one"])
        .args(["-addext", "subjectAltName=DNS:one.test"])
        .args(["-out", &certificate, "-keyout", &key])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    // As some tools write it: without a line break at the end.
    let written = std::fs::read_to_string(&certificate).unwrap();
    std::fs::write(&certificate, written.trim_end()).unwrap();
    let put = setting.run(&["cert", "put", "one", &certificate, &key], "");
    assert!(put.status.success(), "{}", text(&put.stderr));
    let list = setting.run(&["cert", "list"], "");
    let list = text(&list.stdout);
    assert!(
        list.starts_with("one") && list.contains("one.test"),
        "{list}"
    );
    let shown = setting.run(&["cert", "get", "one"], "");
    assert!(text(&shown.stdout).contains("chain"));

    let refused = setting.run(&["cert", "put", "two", &key], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("no certificate"),
        "{}",
        text(&refused.stderr)
    );

    let removed = setting.run(&["cert", "delete", "one"], "");
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    for words in [["cert", "get", "one"], ["cert", "delete", "one"]] {
        let unknown = setting.run(&words, "");
        assert!(text(&unknown.stderr).contains("there is no certificate `one`"));
    }
}

#[test]
fn stop_answers_what_is_under_way_and_returns_when_the_server_has_gone() {
    let setting = Setting::new();
    let mut kept = client::Client::to(setting.server.address());
    // The request is incomplete when the stop begins.
    kept.send(b"GET / HTTP/1.1\r\nHost: x\r\n");
    wait_until("the request is seen", || {
        let status = setting.server.call("GET", "/status", &Value::Null).json();
        status["connections"]["active"].as_u64() > Some(0)
    });
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| setting.run(&["stop"], ""));
        wait_until("no new client gets in", || {
            std::net::TcpStream::connect(("127.0.0.1", setting.server.port())).is_err()
        });
        kept.send(b"\r\n");
        assert_eq!(kept.response("GET").status, 204);
        let stopped = stop.join().unwrap();
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        assert!(text(&stopped.stdout).contains("the server has stopped"));
    });
    let again = setting.run(&["stop"], "");
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("is it running?"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn a_quick_stop_does_not_wait_for_clients() {
    let setting = Setting::new();
    let mut kept = client::Client::to(setting.server.address());
    kept.send(b"GET / HTTP/1.1\r\nHost: x\r\n");
    let stopped = setting.run(&["stop", "--quick"], "");
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
}
