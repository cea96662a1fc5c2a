//! Starlette's own tests, unmodified: their applications behind the whole server, their client in front of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tutti_e2e::PATIENCE;
use tutti_e2e::python::{PythonSite, environment, run};

const REQUIREMENTS: &str =
    include_str!("../../conformance/python/starlette_suite/requirements.txt");
const DISABLED: &str = include_str!("../../conformance/python/starlette_suite/disabled.txt");

/// A folder with a virtual environment, and in it Starlette's source, `starlette`; made when the requirements change.
fn prepared() -> PathBuf {
    let folder = environment("starlette-suite", REQUIREMENTS);
    let source = folder.join("starlette");
    if source.exists() {
        return folder;
    }
    // The package as it was released has the tests; what is installed has not.
    let starlette = REQUIREMENTS
        .lines()
        .find(|line| line.starts_with("starlette=="))
        .unwrap();
    run(Command::new(folder.join("bin/pip"))
        .args(["--disable-pip-version-check", "download", "--quiet"])
        .args(["--no-deps", "--no-binary", "starlette", starlette, "--dest"])
        .arg(&folder));
    let archive = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "gz"))
        .unwrap();
    let unpacked = folder.join("unpacked");
    fs::create_dir_all(&unpacked).unwrap();
    run(Command::new("tar")
        .arg("xf")
        .arg(archive)
        .args(["--strip-components=1", "--no-same-owner", "-C"])
        .arg(&unpacked));
    fs::rename(unpacked, source).unwrap();
    folder
}

/// Copies for users that cannot look into the sources.
fn copied(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to));
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(to));
}

#[test]
fn starlettes_own_tests_pass() {
    let prepared = prepared();
    let site = PythonSite::bare();
    let folder = site.server.folder();
    let (home, source) = (folder.join("venv"), folder.join("starlette"));
    copied(&prepared, &home);
    copied(&prepared.join("starlette"), &source);
    site.configure(&json!({
        "path": site.root().join("starlette_suite"), "home": home, "module": "suite", "processes": 1, "threads": 5,
        "environment": {"STARLETTE": source, "SERVER_PORT": site.server.port().to_string(), "PYTHONDONTWRITEBYTECODE": "1", "THREADS": "5"}
    }));
    assert_eq!(site.get("/threads").json(), json!({"limit": 5}));
    let body = vec![b'x'; 300_000];
    let reply = site.send(
        "POST",
        "/wsgi/a%20b?c=d",
        "X-Name: one\r\nX-Name: two\r\n",
        &body,
    );
    assert_eq!(
        (reply.status, reply.text().as_str()),
        (201, "POST /wsgi/a b?c=d 300000 one,two")
    );
    let head = reply.head.to_ascii_lowercase();
    assert!(
        head.contains("x-twice: 1\r\n") && head.contains("x-twice: 2\r\n"),
        "{head}"
    );
    // The answer comes when all tests have run.
    let mut stream = site.open("/run");
    stream.set_read_timeout(Some(20 * PATIENCE)).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let outcomes: BTreeMap<String, String> = serde_json::from_str(body).unwrap();
    let passed = outcomes.values().filter(|outcome| *outcome == "passed");
    assert!(passed.count() >= 440, "{outcomes:?}");
    // Each has a line, in groups with their reason.
    let disabled: BTreeSet<&str> = DISABLED
        .lines()
        .filter(|line| line.starts_with("tests/"))
        .collect();
    let failed: BTreeSet<&str> = outcomes
        .iter()
        .filter(|(_, outcome)| *outcome != "passed" && *outcome != "skipped")
        .map(|(name, _)| name.as_str())
        .collect();
    let mut told = String::new();
    let either: BTreeSet<&str> = DISABLED
        .lines()
        .filter_map(|line| line.strip_prefix("either "))
        .collect();
    for name in failed.difference(&disabled) {
        if !either.contains(name) {
            told += &format!("FAILED {name}\n{}\n", outcomes[*name]);
        }
    }
    for name in disabled.difference(&failed) {
        told += &format!("{name} is in disabled.txt and passes\n");
    }
    assert!(told.is_empty(), "{told}");
}
