//! Configuration files: at a start, at a reload, and with faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::{Start, TUTTI};
use tutti_testkit::{Server, ServerOptions, client, free_port, wait_until};

fn options(config: &Path) -> ServerOptions {
    ServerOptions {
        flags: vec!["--config".to_owned(), config.display().to_string()],
        ..ServerOptions::default()
    }
}

fn answers(port: u16) -> Option<u16> {
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    client::get(address, "/").ok().map(|reply| reply.status)
}

fn wait_for(server: &Server, port: u16, status: u16) {
    let what = format!("{status} from port {port}; log:\n{}", server.log());
    wait_until(&what, || answers(port) == Some(status));
}

/// Issue 28, 3.8: such a comment was accepted only by `PUT /config`.
#[test]
fn a_comment_need_not_be_utf8_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.json");
    let port = free_port();
    let text = |comment: &str, value: &str| {
        let text = format!(
            "{{ /* {comment} */ \"listeners\": {{\"127.0.0.1:{port}\": {{\"pass\": \"routes\"}}}}, \"routes\": [{{\"action\": {{\"return\": 307, \"location\": \"/{value}\"}}}}]}}"
        );
        let bytes = text
            .bytes()
            .map(|byte| if byte == b'@' { 0xe9 } else { byte });
        std::fs::write(&file, bytes.collect::<Vec<_>>()).unwrap();
    };
    let check = || {
        let mut command = std::process::Command::new(TUTTI);
        let output = command
            .args(["config", "check"])
            .arg(&file)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    text("caf@", "");
    let (is_valid, said) = check();
    assert!(is_valid, "{said}");
    let server = Server::start(&options(&file));
    wait_for(&server, port, 307);
    assert_eq!(
        server.call("POST", "/control/reload", &Value::Null).status,
        200
    );

    text("", "caf@");
    let (is_valid, said) = check();
    assert!(
        !is_valid && said.contains("byte 0xe9 is not UTF-8"),
        "{said}"
    );
    let reply = server.call("POST", "/control/reload", &Value::Null);
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(
        reply.text().contains("byte 0xe9 is not UTF-8"),
        "{}",
        reply.text()
    );
}

#[test]
fn a_folder_of_files_in_several_languages_is_one_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "10-listen.yaml",
        &format!(
            "listeners:\n  \"127.0.0.1:${{env:TUTTI_TEST_NO_SUCH:-{port}}}\":\n    pass: routes/main\n"
        ),
    );
    write(
        "20-routes.json",
        r#"{"routes": { /* by name */ "main": [{"action": {"pass": "routes/inner"}}]}} // end"#,
    );
    write(
        "30-more.toml",
        "[[routes.inner]]\naction.return = 204\n[settings.http]\nidle_timeout = \"${env:TUTTI_TEST_NO_SUCH:-77}\"\n",
    );
    write("README.txt", "not read");
    let server = Server::start(&options(folder.path()));
    wait_for(&server, port, 204);
    let config = server.call("GET", "/config", &Value::Null).json();
    assert_eq!(config["settings"]["http"]["idle_timeout"], 77);

    // A reload by command, with an additional file.
    write("40-access.json", r#"{"settings": {"listen_threads": 1}}"#);
    let reply = server.call("POST", "/control/reload", &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let config = server.call("GET", "/config", &Value::Null).json();
    assert_eq!(config["settings"]["listen_threads"], 1);

    // The same option set by two files is never intended.
    write("50-again.yaml", "settings:\n  listen_threads: 2\n");
    let reply = server.call("POST", "/control/reload", &Value::Null);
    assert_eq!(reply.status, 400, "{}", reply.text());
    let error = reply.json()["errors"][0].clone();
    assert_eq!(error["pointer"], "/settings/listen_threads");
    assert!(error["file"].as_str().unwrap().ends_with("50-again.yaml"));
    assert_eq!(
        (error["line"].clone(), error["column"].clone()),
        (json!(2), json!(19))
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("40-access.json:1:")
    );
    assert_eq!(answers(port), Some(204));
}

#[test]
fn sighup_reads_the_file_again_and_keeps_the_old_one_when_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.yaml");
    let port = free_port();
    let site = |action: &str| {
        let text = format!(
            "listeners:\n  \"127.0.0.1:{port}\": {{pass: routes}}\nroutes:\n  - action: {{{action}}}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    site("return: 201");
    let server = Server::start(&options(&file));
    wait_for(&server, port, 201);

    site("return: 202");
    server.signal(libc::SIGHUP);
    wait_for(&server, port, 202);

    site("retrun: 203");
    server.signal(libc::SIGHUP);
    wait_until("the fault in the log", || {
        let log = server.log();
        log.contains("site.yaml:4:14: ") && log.contains("nothing has changed")
    });
    assert_eq!(answers(port), Some(202));

    // A change by the control API lasts until the files are reloaded.
    server.put("/config/routes/0/action/return", &json!(204));
    assert_eq!(answers(port), Some(204));
    site("return: 205");
    server.signal(libc::SIGHUP);
    wait_for(&server, port, 205);

    // After its death, the router returns with the configuration in force.
    server.kill_router();
    wait_for(&server, port, 205);
}

#[test]
fn a_broken_file_does_not_take_the_place_of_what_worked_before() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("site.toml");
    let port = free_port();
    let good = format!(
        "routes = [{{ action.return = 206 }}]\n[listeners.\"127.0.0.1:{port}\"]\npass = \"routes\"\n"
    );
    std::fs::write(&file, &good).unwrap();
    let options = options(&file);
    let mut server = Server::start(&options);
    wait_for(&server, port, 206);

    std::fs::write(&file, good.replace("pass", "psas")).unwrap();
    let mut lenient = options.clone();
    lenient.flags.push("--lenient".to_owned());
    server.start_again(&lenient);
    wait_for(&server, port, 206);
    let problems = server.status("/problems");
    assert!(
        problems[0]["message"].as_str().unwrap().contains("psas"),
        "{problems}"
    );

    // Files take precedence over the stored configuration.
    std::fs::write(&file, good.replace("206", "207")).unwrap();
    server.start_again(&options);
    wait_for(&server, port, 207);
}

/// A start with other sites than those of the files must not look successful, unless requested.
#[test]
fn a_start_with_a_broken_file_fails_on_the_terminal() {
    let mut start = Start::new(TUTTI);
    let state = start.path("state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("conf.json"), "{}").unwrap();
    let file = start.path("site.yaml");
    std::fs::write(&file, "listeners:\n  \"*:1\": {psas: routes}\n").unwrap();
    start.command.arg("--config").arg(&file);
    let (status, said) = start.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    for part in ["site.yaml:2:11", "did you mean", "hint: ", "--lenient"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    wait_until("nothing is left of it", || !start.path("pid").exists());

    // Nothing is stored: the flag has nothing to continue with.
    let mut start = Start::new(TUTTI);
    start.command.arg("--config").arg(&file).arg("--lenient");
    let (status, said) = start.finish();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("site.yaml:2:11"), "{said}");
    assert!(!said.contains("--lenient"), "{said}");
}

#[test]
fn with_nothing_to_fall_back_on_a_start_fails_and_shows_the_place() {
    for (name, text, place) in [
        (
            "site.yaml",
            "listeners:\n  \"*:1\": {psas: routes}\n",
            "site.yaml:2:11",
        ),
        ("site.json", "{\"routes\": [}", "site.json:1:13"),
        ("site.toml", "routes = 5\n", "site.toml:1:10"),
        (
            "site.json",
            "{\"access_log\": \"${env:TUTTI_TEST_NO_SUCH}\"}",
            "site.json:1:16",
        ),
    ] {
        let mut start = Start::new(TUTTI);
        let file = start.path(name);
        std::fs::write(&file, text).unwrap();
        let (status, said) = {
            start.command.arg("--config").arg(&file);
            start.finish()
        };
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(
            said.contains(place),
            "{place} in {said}; log:\n{}",
            start.log()
        );
    }
    let mut start = Start::new(TUTTI);
    start.command.arg("--config").arg("/nowhere/site.json");
    let (status, said) = start.finish();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("/nowhere/site.json"), "{said}");
}
