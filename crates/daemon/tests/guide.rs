//! The examples of `docs/start/configuration.md`, taken from the page.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::{Command, Output};

use serde_json::{Value, json};
use support::{Start, TUTTI, plain_configuration};
use tutti_testkit::{Server, ServerOptions, client, files, free_port, wait_until};

const PAGE: &str = include_str!("../../../docs/start/configuration.md");

/// Returns the first block of code in this language.
fn example(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split("```").next().unwrap()
}

fn tutti(words: &[&str]) -> Output {
    Command::new(TUTTI).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_site_in_yaml_and_in_toml_is_the_same_and_is_served() {
    let folder = files::public_folder();
    let mut converted = Vec::new();
    for language in ["yaml", "toml"] {
        let file = folder.path().join(format!("site.{language}"));
        std::fs::write(&file, example(language)).unwrap();
        let file = file.display().to_string();
        let checked = tutti(&["config", "check", &file]);
        assert!(checked.status.success(), "{}", text(&checked.stderr));
        let output = tutti(&["config", "convert", &file, "--to", "json"]);
        converted.push(serde_json::from_slice::<Value>(&output.stdout).unwrap());
    }
    // References are quoted in TOML, and need not be in YAML; both are texts until their value is known.
    assert_eq!(converted[0], converted[1]);

    std::fs::write(folder.path().join("page.txt"), "a page").unwrap();
    let port = free_port();
    for language in ["yaml", "toml"] {
        let mut start = Start::new(TUTTI);
        let mut child = start
            .command
            .arg("--no-daemon")
            .arg("--config")
            .arg(folder.path().join(format!("site.{language}")))
            .env("PORT", port.to_string())
            .env("SITE", folder.path())
            .env("MAX_BODY", "1000")
            .spawn()
            .unwrap();
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        wait_until("the page", || {
            client::get(address, "/page.txt").is_ok_and(|reply| reply.text() == "a page")
        });
        assert_eq!(client::get(address, "/old/x").unwrap().status, 301);
        let size = "/config/settings/http/max_body_size";
        let reply = client::control(&start.path("control.sock"), "GET", size, b"").unwrap();
        assert_eq!(reply.json(), 1000);
        tutti_sys::signal::send(i32::try_from(child.id()).unwrap(), libc::SIGTERM).unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn the_fault_of_the_page_is_shown_as_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let broken = example("yaml").replace("return: 301", "retrun: 301");
    std::fs::write(folder.path().join("site.yaml"), broken).unwrap();
    let checked = tutti(&["config", "check", &folder.path().display().to_string()]);
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stderr);
    assert!(said.contains("error: unknown option `retrun`"), "{said}");
    assert!(said.contains("site.yaml:10:9"), "{said}");
    assert_eq!(
        tutti(&["config", "check", "/nowhere.yaml"]).status.code(),
        Some(2)
    );
}

#[test]
fn the_commands_of_the_page_change_a_running_server() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &plain_configuration(server.port()));
    let socket = server.control().display().to_string();
    let (_, commands) = PAGE.split_once("```console\n$ curl").unwrap();
    let commands = commands.split("```").next().unwrap();
    let mut ran = 0;
    for command in format!("$ curl{commands}").lines() {
        let command = command
            .strip_prefix("$ ")
            .unwrap()
            .replace("/run/tutti/control.sock", &socket);
        let command = command.replace("tutti config", &format!("{TUTTI} config"));
        let output = Command::new("bash")
            .args(["-c", &command])
            .env("TUTTI_CONTROL", format!("unix:{socket}"))
            .env("EDITOR", "sed -i s/200/205/")
            .env_remove("VISUAL")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{command}: {}",
            text(&output.stderr)
        );
        ran += 1;
    }
    assert_eq!(ran, 4);
    let config = server.call("GET", "/config", &Value::Null).json();
    assert_eq!(config["settings"], json!({"http": {"idle_timeout": 30}}));
    assert_eq!(server.get("/").status, 205);
}
