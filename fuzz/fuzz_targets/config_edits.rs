//! Edits of the configurations in `tests/config`, chosen by the fuzzer.
#![no_main]

#[path = "../../crates/config/tests/oracle/mod.rs"]
#[allow(dead_code)]
mod oracle;

use std::sync::LazyLock;

use tutti_testkit::edits::{Choices, Parts, edit};

static GOLDENS: LazyLock<(Vec<serde_json::Value>, Parts)> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/config");
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(folder).expect("tests/config") {
        let text = std::fs::read_to_string(entry.expect("a case").path()).expect("its text");
        let sent = text.strip_prefix("=== put /\n").and_then(|rest| rest.split("\n=== ").next());
        documents.extend(sent.and_then(|sent| serde_json::from_str(sent).ok()));
    }
    let parts = Parts::of(&documents);
    (documents, parts)
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (documents, parts) = &*GOLDENS;
    let mut choices = Choices::new(bytes);
    let mut document = documents[choices.below(documents.len())].clone();
    edit(&mut document, parts, &mut choices);
    oracle::document(document.to_string().as_bytes());
});
