//! asgiref's own tests, unmodified: its bridges between coroutines and threads in our event loop, its adapter behind the whole server.

use serde_json::json;
use tutti_e2e::python::{PythonSite, environment_with_source};
use tutti_e2e::suite::{assert_passed, run_tests};

const REQUIREMENTS: &str = include_str!("../../conformance/python/asgiref_suite/requirements.txt");
const DISABLED: &str = include_str!("../../conformance/python/asgiref_suite/disabled.txt");

/// With these requirements beside asgiref's, in a loop of this module.
fn suite(name: &str, more: &str, module: &str) {
    let site = PythonSite::bare();
    let requirements = format!("{REQUIREMENTS}{more}");
    let prepared = environment_with_source(name, &requirements, "asgiref");
    let (home, source) = site.copied(&prepared);
    site.configure(&json!({
        "path": [site.root().join("asgiref_suite"), site.root()], "home": home, "module": "suite", "processes": 1,
        "environment": {"ASGIREF": source, "SERVER_PORT": site.server.port().to_string(), "PYTHONDONTWRITEBYTECODE": "1"}
    }));
    let answer = run_tests(&site);
    assert_eq!(answer["loop"], module);
    assert_passed(&answer["outcomes"], DISABLED, 114);
}

#[test]
fn in_asyncios_loop() {
    suite("asgiref-suite", "", "asyncio.unix_events");
}

#[test]
fn in_uvloops() {
    suite("asgiref-suite-uvloop", "uvloop==0.23.0\n", "uvloop");
}
