//! MIME types of endings that differ between a source and Tutti.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tutti_config::MIME_TYPES;

/// Entries of `settings.http.static.mime_types` that make the types of `wanted` (ending without a period → type) hold.
pub(crate) fn differences(wanted: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut entries: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (ending, mime) in wanted {
        let dotted = format!(".{}", ending.to_ascii_lowercase());
        if built_in(ending).as_ref() != Some(mime) {
            entries.entry(mime).or_default().push(dotted);
        }
    }
    let entries = entries.into_iter();
    entries
        .map(|(mime, endings)| (mime.to_owned(), endings.into()))
        .collect()
}

/// The type that Tutti has for an ending without a period.
pub(crate) fn built_in(ending: &str) -> Option<String> {
    let dotted = format!(".{}", ending.to_ascii_lowercase());
    MIME_TYPES
        .iter()
        .find(|(_, endings)| endings.contains(&dotted.as_str()))
        .map(|(mime, _)| (*mime).to_owned())
}
