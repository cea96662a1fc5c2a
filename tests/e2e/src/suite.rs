//! Test suites of packages, which run inside an application: what became of their tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use serde_json::Value;
use tutti_testkit::{PATIENCE, Site};

/// The answer of an application that runs a package's tests to a request for `/run`; it comes when all have run.
pub fn run_tests(site: &Site) -> Value {
    let mut stream = site.open("/run");
    stream
        .set_read_timeout(Some(20 * PATIENCE))
        .expect("a timeout");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.starts_with("HTTP/1.1 200"),
        "{answer}\n{}",
        site.server.log()
    );
    serde_json::from_str(body).expect("outcomes")
}

/// Before a test that passes or not, as time has it.
const EITHER: &str = "either ";

/// The tests that `disabled` has in lines of their own.
pub fn listed(disabled: &str) -> Vec<&str> {
    let names = disabled
        .lines()
        .map(|line| line.strip_prefix(EITHER).unwrap_or(line));
    names
        .filter(|name| name.starts_with("tests/") || name.starts_with("test/"))
        .collect()
}

/// Fails unless these tests of a package passed: at least `least` of them, and all that `disabled` does not have in a line of its own. What
/// is in that list and passes is reported too, but for lines that begin with `either`.
pub fn assert_passed(outcomes: &Value, disabled: &str, least: usize) {
    let outcomes: BTreeMap<&str, &str> = outcomes
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, outcome)| (name.as_str(), outcome.as_str().unwrap_or_default()))
        .collect();
    let passed = outcomes.values().filter(|outcome| **outcome == "passed");
    assert!(passed.count() >= least, "{outcomes:?}");
    let either: BTreeSet<&str> = disabled
        .lines()
        .filter_map(|line| line.strip_prefix(EITHER))
        .collect();
    for name in &either {
        println!("either {name}: {:?}", outcomes.get(name));
    }
    let listed: BTreeSet<&str> = listed(disabled).into_iter().collect();
    let always: BTreeSet<&str> = listed.difference(&either).copied().collect();
    let failed: BTreeSet<&str> = outcomes
        .iter()
        .filter(|(_, outcome)| **outcome != "passed" && **outcome != "skipped")
        .map(|(name, _)| *name)
        .collect();
    let mut told = String::new();
    for name in failed.difference(&listed) {
        told += &format!("FAILED {name}\n{}\n", outcomes[name]);
    }
    for name in always.difference(&failed) {
        told += &format!("{name} is in disabled.txt and passes\n");
    }
    assert!(told.is_empty(), "{told}");
}
