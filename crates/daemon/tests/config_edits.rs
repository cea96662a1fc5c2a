//! Random edits of valid configurations through all steps of a change: checked, prepared, stored, committed.
//!
//! An accepted change is in force; a rejected one has reasons, each with a position in the request body, and has
//! changed nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::path::Path;

use serde_json::{Map, Value};
use support::with_sample;
use tutti_testkit::edits::{Choices, Parts, edit};
use tutti_testkit::{Server, free_port};

/// Changes in one run; `TUTTI_LONG` sets a large number.
const CASES: u64 = 120;

fn goldens() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let texts = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    texts
        .filter_map(|text| {
            let sent = text.strip_prefix("=== put /\n")?.split("\n=== ").next()?;
            serde_json::from_str(sent).ok()
        })
        .collect()
}

/// Limits the tried values to the test's folder, its ports, and reasonable numbers of processes.
fn harmless(value: &mut Value, folder: &str, ports: &mut Vec<u16>) {
    match value {
        Value::String(text) if text.starts_with('/') => *text = format!("{folder}{text}"),
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| harmless(element, folder, ports)),
        Value::Object(members) => {
            for name in ["user", "group", "isolation"] {
                members.remove(name);
            }
            let is_large = |count: &Value| count.as_f64().is_some_and(|count| count > 3.0);
            for name in ["processes", "max", "spare", "listen_threads"] {
                if members.get(name).is_some_and(is_large) {
                    members.insert(name.to_owned(), 3.into());
                }
            }
            if let Some(Value::Object(listeners)) = members.get_mut("listeners") {
                *listeners = std::mem::take(listeners)
                    .into_iter()
                    .map(|(name, listener)| (address(name, ports), listener))
                    .collect::<Map<_, _>>();
            }
            members
                .values_mut()
                .for_each(|member| harmless(member, folder, ports));
        }
        _ => {}
    }
}

fn address(name: String, ports: &mut Vec<u16>) -> String {
    if !name.contains(':') {
        return name;
    }
    let port = ports.pop().unwrap_or_else(free_port);
    format!("127.0.0.1:{port}")
}

fn config(server: &Server) -> Value {
    server.call("GET", "/config", &Value::Null).json()
}

#[test]
fn edited_configurations_are_in_force_or_refused_with_reasons_and_change_nothing() {
    let documents = goldens();
    let parts = Parts::of(&documents);
    let (options, folder) = with_sample("");
    let place = folder.path().display().to_string();
    let server = Server::start(&options);
    let (mut accepted, mut refused) = (0, 0);
    let cases = if std::env::var_os("TUTTI_LONG").is_some() {
        50 * CASES
    } else {
        CASES
    };
    for case in 0..cases {
        let seed = case.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut choices = Choices::new(&seed);
        let mut document = documents[choices.below(documents.len())].clone();
        if case % 4 != 0 {
            edit(&mut document, &parts, &mut choices);
        }
        harmless(&mut document, &place, &mut Vec::new());
        let before = config(&server);
        let reply = server.call("PUT", "/config", &document);
        let after = config(&server);
        match reply.status {
            200 => {
                accepted += 1;
                // Only a command of its own ends maintenance.
                if let Some(maintenance) = before.pointer("/settings/maintenance")
                    && document.pointer("/settings/maintenance").is_none()
                {
                    document["settings"]["maintenance"] = maintenance.clone();
                }
                assert_eq!(after, document);
            }
            400 | 500 => {
                refused += 1;
                assert_eq!(after, before, "{}", reply.text());
                let answer = reply.json();
                let errors = answer["errors"].as_array().unwrap();
                assert!(!errors.is_empty(), "{answer}");
                for error in errors {
                    let pointer = error["pointer"].as_str().unwrap();
                    assert!(document.pointer(pointer).is_some(), "{error} in {document}");
                    assert!(!error["message"].as_str().unwrap().is_empty());
                }
            }
            other => panic!("{other} for {document}: {}", reply.text()),
        }
    }
    assert!(
        accepted > 10 && refused > 10,
        "{accepted} accepted, {refused} refused"
    );
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
}
