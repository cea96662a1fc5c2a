//! The language contract: everything that an application may rely on whatever it is written in, for each row of the table in
//! `contract/table.rs`. The same application stands in `tests/conformance/contract` once for each language.
//!
//! Each test starts one server with an application of every language, which are asked side by side. A failure names the language and the
//! case. `TUTTI_LANGUAGES`, names with spaces between them, chooses rows: where not every language is installed, or for one alone.

#[path = "contract/faults.rs"]
mod faults;
#[path = "contract/guides.rs"]
mod guides;
#[path = "contract/requests.rs"]
mod requests;
#[path = "contract/suite.rs"]
mod suite;
#[path = "contract/table.rs"]
mod table;

use serde_json::json;
use suite::{check, chosen};

#[test]
fn requests_and_responses() {
    check(&json!({"processes": 2}), requests::CASES);
}

#[test]
fn request_bodies_that_stream() {
    let members = json!({"processes": 2, "request_buffering": false});
    check(&members, &[("request streaming", requests::streaming)]);
}

#[test]
fn processes_that_end() {
    let cases: &[suite::Case] = &[("crash", faults::crash), ("kill", faults::kill)];
    check(&json!({"processes": 2}), cases);
}

#[test]
fn processes_that_have_served_enough() {
    let members = json!({"processes": 2, "limits": {"requests": faults::RETIRED_AFTER}});
    check(&members, &[("limits.requests", faults::retire)]);
}

#[test]
fn processes_that_grow() {
    let members = json!({"processes": 1, "limits": {"memory": "180M", "memory_max": "2G"}});
    check(&members, &[("limits.memory", faults::grow)]);
}

#[test]
fn requests_that_hang() {
    let members = json!({"processes": 1, "limits": {"timeout": 2}});
    check(&members, &[("limits.timeout", faults::hang)]);
}

#[test]
fn restarts() {
    check(&json!({"processes": 2}), &[("restart", faults::restart)]);
}

#[test]
fn changes_that_are_watched() {
    let members = json!({"processes": 2, "watch": true});
    check(&members, &[("watch", faults::watch)]);
}

#[test]
fn applications_that_are_preloaded() {
    // With one, the process that ends is the one that has answered before.
    let members = json!({"processes": 1, "preload": true});
    check(&members, &[("preload", faults::preload)]);
}

#[test]
fn the_end_of_the_server() {
    let mut server = suite::Suite::start(&json!({"processes": 1}), &chosen(&[]));
    server.server.stop(libc::SIGQUIT);
}

#[test]
fn the_examples_of_the_guides() {
    check(&json!({"processes": 1}), &[("guide", guides::serve)]);
}

/// A row that lacks something names the sentence of its guide that says so.
#[test]
fn what_a_language_does_not_offer_is_documented() {
    for language in table::LANGUAGES {
        let page = std::fs::read_to_string(format!(
            "{}/../../docs/languages/{}.md",
            env!("CARGO_MANIFEST_DIR"),
            language.guide
        ));
        let page = page.unwrap();
        for (case, sentence) in language.lacks {
            let name = language.name;
            assert!(
                suite::NAMES.contains(case),
                "{name} lacks `{case}`, which is no case"
            );
            assert!(
                page.contains(sentence),
                "{name}: docs/languages/{}.md does not say `{sentence}` ({case})",
                language.guide
            );
        }
    }
}
