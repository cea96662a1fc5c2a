//! `docs/moving-from-unit.md`: the steps, with a state folder as NGINX Unit leaves one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::os::unix::fs::symlink;
use std::process::Command;

use support::{TUTTI, modules};
use tutti_testkit::{Server, ServerOptions, files, free_port};

/// Compact, as Unit stores it, with an escaped slash.
fn stored(port: u16) -> String {
    format!(
        r#"{{"listeners":{{"127.0.0.1:{port}":{{"pass":"routes"}}}},"routes":[{{"match":{{"uri":"\/old\/*"}},"action":{{"return":301,"location":"\/new"}}}},{{"action":{{"pass":"applications\/blog"}}}}],"applications":{{"blog":{{"type":"php 8","root":"\/tmp","processes":1}}}}}}"#
    )
}

#[test]
fn a_state_folder_of_unit_is_taken_over_under_its_name_and_flags() {
    let folder = files::public_folder();
    let state = folder.path().join("unit");
    std::fs::create_dir_all(state.join("certs")).unwrap();
    std::fs::write(state.join("certs/bundle"), "left alone").unwrap();
    let port = free_port();
    std::fs::write(state.join("conf.json"), stored(port)).unwrap();

    let check = |file: &str, modules: &std::path::Path| {
        Command::new(TUTTI)
            .args(["config", "check"])
            .arg(state.join(file))
            .arg("--modulesdir")
            .arg(modules)
            .output()
            .unwrap()
    };
    let hosts = modules(folder.path(), "");
    let checked = check("conf.json", &hosts);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let checked = check("conf.json", &empty);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(1));
    assert!(said.contains("php 8"), "{said}");

    let unitd = folder.path().join("unitd");
    symlink(TUTTI, &unitd).unwrap();
    let server = Server::start(&ServerOptions {
        flags: vec!["--modules".to_owned(), hosts.display().to_string()],
        state: Some(state.clone()),
        program: Some(unitd),
        ..ServerOptions::default()
    });
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let reply = tutti_testkit::client::get(address, "/old/x").unwrap();
    assert_eq!((reply.status, reply.field("location")), (301, Some("/new")));
    assert_eq!(
        tutti_testkit::client::get(address, "/").unwrap().status,
        200
    );
    assert_eq!(server.status("/applications/blog/processes/running"), 1);
    assert_eq!(
        std::fs::read_to_string(state.join("certs/bundle")).unwrap(),
        "left alone"
    );
}
