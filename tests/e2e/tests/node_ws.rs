//! The tests of the package `ws`, unmodified: their servers behind the whole server, their clients in front of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use serde_json::json;
use tutti_e2e::node::{NodeSite, packages};
use tutti_e2e::suite::{assert_passed, run_tests};
use tutti_testkit::files::copy;
use tutti_testkit::skip;

const DISABLED: &str = include_str!("../../conformance/node/ws_suite/disabled.txt");

#[test]
#[ignore = "fetches the tests of `ws`; `make test-long` runs it"]
fn the_tests_of_ws_pass() {
    let installed = packages("ws_suite");
    let kept = installed.parent().unwrap();
    let fetch = tutti_e2e::external::source("tests/conformance/node/ws_suite/fetch");
    let fetched = Command::new(fetch).arg(kept).output().unwrap();
    if !fetched.status.success() {
        skip!("{}", String::from_utf8_lossy(&fetched.stderr).trim());
    }
    let site = NodeSite::with_packages("ws_suite");
    let source = site.root().join("ws");
    copy(&kept.join("source"), &source);
    let mut configuration = site.configuration(&json!({
        "script": "suite.js", "processes": 1,
        "environment": {"WS_SOURCE": source, "SERVER_PORT": site.server.port().to_string()},
    }));
    configuration["settings"]["http"]["websocket"] = json!({"max_frame_size": 256 << 20});
    site.server.put("/config", &configuration);
    assert_eq!(site.text("/"), "the suite is up\n");
    // Each that is disabled has a line, in groups with their reason.
    assert_passed(&run_tests(&site), DISABLED, 150);
}
