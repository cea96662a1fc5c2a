//! The tests of the package `ws`, unmodified: their servers behind the whole server, their clients in front of it.

use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::node::{NodeSite, packages};
use tutti_e2e::suite::{assert_passed, listed, run_tests};
use tutti_testkit::files::copy;
use tutti_testkit::{client, skip};

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
    let mut outcomes = run_tests(&site);
    // Each that is disabled has a line, in groups with their reason, and is run by itself: some end the process.
    for (number, title) in listed(DISABLED).into_iter().enumerate() {
        outcomes[title] = outcome_of(&site, number, title);
    }
    assert_passed(&outcomes, DISABLED, 190);
}

/// The outcome of a test that is listed, by its place in the list, in a process of its own: some leave connections and errors to come behind. Some end
/// the process, others never come to an end.
fn outcome_of(site: &NodeSite, number: usize, title: &str) -> Value {
    site.server.restart("app");
    let target = format!("/run?listed={number}");
    let reply = match client::get(site.server.address(), &target) {
        Ok(reply) if reply.status == 200 => reply,
        other => return json!(format!("no outcome: {other:?}")),
    };
    let outcomes: Value = serde_json::from_str(&reply.text()).unwrap();
    let outcome = outcomes.get(title);
    outcome
        .cloned()
        .unwrap_or_else(|| panic!("there is no test `{title}`"))
}
