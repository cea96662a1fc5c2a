//! Parts of the configuration that belong to a node: documents of its fleet neither contain nor change them.
//!
//! These are the source, so that no document disconnects a node, and maintenance, which applies to this very node.

use tutti_config::{Diagnostics, Document};

use crate::maintenance;

/// Path of the source.
const SOURCE: [&str; 2] = ["settings", "source"];

/// Replaces these parts of a fleet's document by the node's own.
pub(crate) fn put(current: &Document, document: Document) -> Result<Document, Diagnostics> {
    let mut document = without(document)?;
    let own = current.get(&SOURCE).map(|node| node.to_json());
    // It is parsed from its printed form: that cannot fail.
    let own = own.ok().map(|text| tutti_config::parse(text.as_bytes()));
    if let Some(own) = own.transpose()? {
        let [settings, _] = SOURCE;
        if document.get(&[settings]).is_err() {
            document.put(&[settings], Document::empty())?;
        }
        document.put(&SOURCE, own)?;
    }
    maintenance::keep(current, &mut document);
    Ok(document)
}

/// Returns the document without these parts. `settings` is removed if it becomes empty.
pub fn without(mut document: Document) -> Result<Document, Diagnostics> {
    document.forget_source();
    for place in [SOURCE, maintenance::PLACE] {
        if document.get(&place).is_err() {
            continue;
        }
        document.delete(&place)?;
        let [settings, _] = place;
        if document.get(&[settings])?.members().is_empty() {
            document.delete(&[settings])?;
        }
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        tutti_config::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_document_of_the_fleet_has_the_source_and_the_maintenance_of_the_node() {
        let current = document(
            r#"{"routes":[],"settings":{"source":{"etcd":{}},"maintenance":{"retry_after":1}}}"#,
        );
        let put = |text: &str| put(&current, document(text)).unwrap();
        let own = r#"{"settings":{"source":{"etcd":{}},"maintenance":{"retry_after":1}}}"#;
        assert_eq!(put("{}"), document(own));
        assert_eq!(
            put(r#"{"settings":{"source":{"other":{}}}}"#),
            document(own)
        );
        let other = document(r#"{"settings":{"maintenance":{}}}"#);
        let none = super::put(&document("{}"), other).unwrap();
        assert_eq!(none, document("{}"));
        let without = without(current.clone()).unwrap();
        assert_eq!(without, document(r#"{"routes":[]}"#));
        let list = document("[]");
        assert!(super::put(&current, list).is_err());
    }
}
