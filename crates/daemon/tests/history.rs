//! The last changes: kept over restarts, listed, and restored.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::{TUTTI, plain_configuration};
use tutti_testkit::{Server, ServerOptions};

fn tutti(server: &Server, words: &[&str]) -> Output {
    Command::new(TUTTI)
        .args(words)
        .args(["--control", &format!("unix:{}", server.control().display())])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&all));
    String::from_utf8(all).unwrap()
}

#[test]
fn changes_are_logged_shown_and_taken_back() {
    let options = ServerOptions::default();
    let mut server = Server::start(&options);
    assert!(said(&tutti(&server, &["config", "log"])).contains("no change is recorded yet"));
    server.put("/config", &plain_configuration(server.port()));
    assert_eq!(server.get("/").status, 200);
    said(&tutti(
        &server,
        &["config", "set", "routes/0/action/return", "403"],
    ));
    assert_eq!(server.get("/").status, 403);
    // An edit without effect is not a change, nor is a rejected one.
    said(&tutti(
        &server,
        &["config", "set", "routes/0/action/return", "403"],
    ));
    let refused = tutti(&server, &["config", "set", "routes/0/action/return", "-1"]);
    assert_eq!(refused.status.code(), Some(1));

    let log = said(&tutti(&server, &["config", "log"]));
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    for part in ["PUT /config/routes/0/action/return", "uid ", "tutti/"] {
        assert!(lines[0].contains(part), "{part} in {log}");
    }
    let diff = said(&tutti(&server, &["config", "diff"]));
    for part in [
        "--- change 1",
        "+++ change 2",
        "-\t\t\t\t\"return\": 200",
        "+\t\t\t\t\"return\": 403",
    ] {
        assert!(diff.contains(part), "{part} in {diff}");
    }

    // Also after a restart.
    server.start_again(&options);
    said(&tutti(&server, &["config", "rollback"]));
    assert_eq!(server.get("/").status, 200);
    let entries = server.call("GET", "/history", &Value::Null).json();
    assert_eq!(entries[0]["number"], 3);
    assert_eq!(entries[0]["change"], "POST /history/1/restore");
    assert_eq!(
        said(&tutti(&server, &["config", "diff", "1", "3"])),
        "no difference\n"
    );
    let second = server.call("GET", "/history/2", &Value::Null).json();
    assert_eq!(second["routes"][0]["action"]["return"], 403);

    said(&tutti(&server, &["config", "rollback", "2"]));
    assert_eq!(server.get("/").status, 403);
    for missing in ["/history/99", "/history/x"] {
        assert_eq!(server.call("GET", missing, &Value::Null).status, 404);
    }
    assert_eq!(
        tutti(&server, &["config", "rollback", "99"]).status.code(),
        Some(1)
    );
}

#[test]
fn a_configuration_that_was_there_before_can_be_had_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::write(
        state.join("conf.json"),
        r#"{"routes": [{"action": {"return": 201}}]}"#,
    )
    .unwrap();
    let options = ServerOptions {
        state: Some(state.clone()),
        ..ServerOptions::default()
    };
    let server = Server::start(&options);
    server.put("/config", &json!({}));
    said(&tutti(&server, &["config", "rollback"]));
    let config = server.call("GET", "/config", &Value::Null).json();
    assert_eq!(config, json!({"routes": [{"action": {"return": 201}}]}));
    // Secrets of the configuration are readable only by the owner.
    use std::os::unix::fs::MetadataExt;
    for place in [state.join("history"), state.join("history/0000000001")] {
        assert_eq!(std::fs::metadata(place).unwrap().mode() & 0o077, 0);
    }
}

#[test]
fn a_history_that_cannot_be_written_stops_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    // A file in place of the folder: even root cannot write below it.
    std::fs::write(state.join("history"), "").unwrap();
    let server = Server::start(&ServerOptions {
        state: Some(state),
        ..ServerOptions::default()
    });
    server.put("/config", &plain_configuration(server.port()));
    assert_eq!(server.get("/").status, 200);
    server.wait_for_log("could not be added to the history");
}
