//! The control API as it describes itself: schemathesis asks it at random, valid and not.

use std::process::Command;

use tutti_e2e::external::source;
use tutti_e2e::python::environment;
use tutti_testkit::server::binaries;

#[test]
fn answers_are_as_described_whatever_is_asked() {
    let folder = source("tests/conformance/control");
    let requirements = std::fs::read_to_string(folder.join("requirements.txt")).unwrap();
    let python = environment("schemathesis", &requirements).join("bin/python3");
    // About 900 operations, each asked so often.
    let examples = match std::env::var_os("TUTTI_LONG") {
        Some(_) => "20",
        None => "1",
    };
    let run = Command::new(python)
        .arg(folder.join("check.py"))
        .arg(binaries().join("tutti"))
        .arg(examples)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}{errors}");
}
