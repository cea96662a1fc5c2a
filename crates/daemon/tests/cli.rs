//! The commands for people, against a real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

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
        said.contains("retrun") && said.contains("is kept in"),
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
    assert!(serde_json::from_slice::<Value>(&raw.stdout).unwrap()["connections"].is_object());
    let restart = setting.run(&["restart", "nobody"], "");
    assert_eq!(restart.status.code(), Some(1));
    assert!(
        text(&restart.stderr).contains("nobody"),
        "{}",
        text(&restart.stderr)
    );
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
fn a_folder_is_served_with_no_configuration_at_all() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), None, None).unwrap();
    std::fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    std::fs::write(folder.path().join("page.html"), "a page").unwrap();
    std::fs::write(folder.path().join(".env"), "secret").unwrap();
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
    let address = listen.parse().unwrap();
    wait_until("it says where to look", Duration::from_secs(30), || {
        said.next()
            .is_some_and(|line| line.unwrap().contains(&format!("http://{listen}/")))
    });
    assert_eq!(client::get(address, "/page.html").unwrap().text(), "a page");
    assert_eq!(client::get(address, "/.env").unwrap().status, 404);
    let pid = i32::try_from(child.id()).unwrap();
    let processes = tutti_testkit::processes::tree(pid);
    assert!(processes.len() >= 3, "{processes:?}");
    tutti_sys::signal::send(pid, libc::SIGINT).unwrap();
    assert!(child.wait().unwrap().success());
    wait_until("nothing stays behind", Duration::from_secs(30), || {
        processes
            .iter()
            .all(|process| !tutti_testkit::processes::is_running(process.pid))
    });
}
