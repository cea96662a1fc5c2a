//! Random edits of valid configurations, structure-aware: the result is accepted, or refused with reasons; nothing else
//! happens.
//!
//! The oracle is in `oracle`, which the targets in `fuzz/` use too.

#![allow(missing_docs, clippy::unwrap_used)]

mod oracle;

use proptest::prelude::*;
use tutti_testkit::edits::{Choices, Parts, edit};

fn documents() -> Vec<serde_json::Value> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let texts = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap());
    let documents: Vec<serde_json::Value> = texts
        .filter_map(|text| {
            let sent = text.strip_prefix("=== put /\n")?.split("\n=== ").next()?;
            serde_json::from_str(sent).ok()
        })
        .collect();
    assert!(documents.len() > 50);
    documents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn edited_configurations_are_accepted_or_refused_with_reasons(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        thread_local! {
            static GOLDENS: (Vec<serde_json::Value>, Parts) = {
                let documents = documents();
                let parts = Parts::of(&documents);
                (documents, parts)
            };
        }
        GOLDENS.with(|(documents, parts)| {
            let mut choices = Choices::new(&bytes);
            let mut document = documents[choices.below(documents.len())].clone();
            edit(&mut document, parts, &mut choices);
            oracle::document(document.to_string().as_bytes());
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_text_in_any_language_is_read_or_refused_with_a_place(
        text in r#"[ \t\n:{}\[\],"'#&*!|>%@`~<=\-.0-9a-zä$]{0,60}"#,
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        oracle::text(text.as_bytes());
        oracle::text(&bytes);
    }
}
