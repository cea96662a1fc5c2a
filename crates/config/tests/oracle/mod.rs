//! The assertions of the fuzz targets, so that the same oracles run under `cargo fuzz` (`fuzz/`) and under proptest
//! (`edits.rs`).
//!
//! An oracle panics when a promise is broken. The promises: no panic; a printed document is read again as the same; a refusal has reasons;
//! every reason points at a place that exists in the request.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "oracles speak by panicking"
)]

use tutti_config::{
    Diagnostics, Document, File, Format, ValidationContext, combine, excerpt, parse, read, validate,
};

/// A configuration in JSON, as a client would send it.
pub(crate) fn document(bytes: &[u8]) {
    let context = ValidationContext::with_modules([("php", "8.2.35"), ("python", "3.11.2")]);
    let document = match parse(bytes) {
        Ok(document) => document,
        Err(faults) => return refused(&faults, bytes, None),
    };
    let printed = document.root().to_json();
    let again = parse(printed.as_bytes()).expect("what is printed can be read");
    assert_eq!(document, again, "JSON says the same");
    let yaml = document.root().to_yaml();
    match read(yaml.as_bytes(), Format::Yaml) {
        Ok(again) => assert_eq!(document, again, "YAML says the same:\n{yaml}"),
        Err(faults) => panic!("YAML that was printed cannot be read: {faults}\n{yaml}"),
    }
    if let Ok(toml) = document.root().to_toml() {
        match read(toml.as_bytes(), Format::Toml) {
            // Tables are printed after the values beside them.
            Ok(again) => assert_eq!(
                values(&document),
                values(&again),
                "TOML says the same:\n{toml}"
            ),
            Err(faults) => panic!("TOML that was printed cannot be read: {faults}\n{toml}"),
        }
    }
    let first = validate(&document, &context);
    let second = validate(&again, &context);
    assert_eq!(
        first.is_ok(),
        second.is_ok(),
        "validation depends on spelling"
    );
    if let Err(faults) = &first {
        refused(faults, bytes, Some(&document));
    }
    // As a file, it is the same, or a variable is missing.
    let file = File {
        name: "site.json".to_owned(),
        bytes: bytes.to_vec(),
    };
    if let Err(faults) = combine(&[file], &|_| None) {
        refused(&faults, bytes, None);
    }
}

/// Without the order of members.
fn values(document: &Document) -> serde_json::Value {
    serde_json::from_str(&document.root().to_json()).expect("what is printed is JSON")
}

/// Any bytes, in every language.
pub(crate) fn text(bytes: &[u8]) {
    for format in [Format::Json, Format::Yaml, Format::Toml] {
        match read(bytes, format) {
            Ok(document) => {
                let printed = document.root().to_json();
                let again = parse(printed.as_bytes()).expect("what is printed can be read");
                assert_eq!(document, again, "JSON says the same");
            }
            Err(faults) => refused(&faults, bytes, None),
        }
    }
}

fn refused(faults: &Diagnostics, bytes: &[u8], document: Option<&Document>) {
    assert!(!faults.0.is_empty(), "a refusal has reasons");
    for fault in &faults.0 {
        assert!(!fault.message.is_empty());
        if let Some(document) = document {
            assert!(
                document.at(&fault.pointer).is_some(),
                "`{}` does not exist: {fault:?}",
                fault.pointer
            );
            assert!(fault.location.is_some(), "no place: {fault:?}");
        }
        if let Some(location) = fault.location {
            assert!(location.offset <= bytes.len() && location.line > 0 && location.column > 0);
            assert!(location.offset + location.length <= bytes.len());
        }
    }
    let shown = excerpt(faults, &[("site.json", bytes)], false);
    assert!(shown.contains("error"));
}
