//! The examples in the documents are configurations that work.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use tutti_config::{ValidationContext, parse, validate};

/// The blocks of a document marked as JSON.
fn examples(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    let text = fs::read_to_string(path).unwrap();
    let mut blocks: Vec<String> = text
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect();
    for block in &mut blocks {
        if block.trim_start().starts_with("{\"type\"") {
            *block = format!("{{\"applications\": {{\"example\": {block}}}}}");
        }
    }
    blocks
}

fn each_is_valid(name: &str, context: &ValidationContext) -> usize {
    let blocks = examples(name);
    for block in &blocks {
        let document = parse(block.as_bytes()).unwrap_or_else(|error| panic!("{block}: {error:?}"));
        if let Err(faults) = validate(&document, context) {
            panic!("{block}: {faults:?}");
        }
    }
    blocks.len()
}

#[test]
fn every_example_about_python_is_valid() {
    let context = ValidationContext::with_modules([("python", "3.11.2")]);
    assert!(each_is_valid("languages/python.md", &context) >= 2);
}

#[test]
fn every_example_about_traces_is_valid() {
    assert!(each_is_valid("operate/telemetry.md", &ValidationContext::default()) >= 1);
}
