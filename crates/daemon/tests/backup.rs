//! `docs/operate/backup.md`: its commands, with the folders of a test in place of the system's and a script for `systemctl`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use serde_json::json;
use support::TUTTI;
use tutti_testkit::{client, files, free_port, guide};

/// Starts and stops the server of this folder, as the unit of the packages does.
const SYSTEMCTL: &str = r#"#!/bin/sh
set -e
cd "$(dirname "$0")/.."
case "$*" in
    "start tutti") bin/tuttid --statedir var/lib/tutti --control "$TUTTI_CONTROL" --pid "$PWD/pid" --log "$PWD/log" --tmpdir "$PWD" --modulesdir "$PWD" ;;
    "stop tutti") kill -QUIT "$(cat pid)" && while [ -e pid ]; do sleep 0.05; done ;;
    *) exit 1 ;;
esac
"#;

#[test]
fn the_commands_of_the_page_save_and_restore_a_server() {
    let folder = files::public_folder();
    let root = folder.path();
    for name in ["bin", "var/lib/tutti", "etc/tutti", "etc/default"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    symlink(TUTTI, root.join("bin/tuttid")).unwrap();
    symlink(TUTTI, root.join("bin/tutti")).unwrap();
    files::script(&root.join("bin/systemctl"), SYSTEMCTL);
    fs::write(root.join("etc/default/tutti"), "TUTTI_OPTIONS=\"\"\n").unwrap();
    fs::write(root.join("etc/tutti/token"), "a secret").unwrap();
    let control = root.join("control.sock");
    let run = |line: &str| {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(root)
            .env("PATH", format!("{}:{path}", root.join("bin").display()))
            .env("TUTTI_CONTROL", format!("unix:{}", control.display()))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
    };
    let commands = guide::commands(include_str!("../../../docs/operate/backup.md"));
    let (own_state, own_root) = (
        format!(" {}", root.join("var/lib/tutti").display()),
        format!("-C {} ", root.display()),
    );
    let places = [
        (" /var/lib/tutti", own_state.as_str()),
        ("-C / ", &own_root),
    ];
    let lines = guide::filled(&commands, &places);
    assert_eq!(lines.len(), 7, "{lines:?}");
    for line in &lines {
        assert!(!line.contains(" /var") && !line.contains(" /etc"), "{line}");
    }
    let (save, restore) = lines.split_at(3);

    run("systemctl start tutti");
    let port = free_port();
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes"}},
        "routes": [{"action": {"return": 207}}],
        "applications": {},
        "spoolers": {"mail": {"pass": "routes"}}
    });
    let put = |path: &str, body: &[u8]| {
        let reply = client::control(&control, "PUT", path, body).unwrap();
        assert!(reply.status < 300, "{path}: {}", reply.text());
    };
    put("/js_modules/rules", b"export default {};");
    put("/config", configuration.to_string().as_bytes());
    fs::create_dir_all(root.join("var/lib/tutti/cache")).unwrap();
    fs::write(root.join("var/lib/tutti/cache/pages"), "a page").unwrap();
    save.iter().for_each(|line| run(line));
    let archive = root.join("tutti-backup.tar.gz");
    let mode = fs::metadata(&archive).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    put("/config", b"{}");
    fs::remove_file(root.join("etc/tutti/token")).unwrap();
    restore.iter().for_each(|line| run(line));
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    assert_eq!(client::get(address, "/").unwrap().status, 207);
    let stored = client::control(&control, "GET", "/config", b"").unwrap();
    assert_eq!(stored.json(), configuration);
    let modules = client::control(&control, "GET", "/js_modules/rules", b"").unwrap();
    assert_eq!(modules.status, 200, "{}", modules.text());
    let state = root.join("var/lib/tutti");
    assert!(state.join("jobs.redb").exists());
    assert!(!state.join("cache").exists());
    assert_eq!(fs::read(root.join("etc/tutti/token")).unwrap(), b"a secret");
    run("systemctl stop tutti");
}
