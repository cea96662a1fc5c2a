//! `/control/maintenance`: one call starts maintenance of the server, one ends it.
//!
//! Maintenance is a part of the configuration, `/settings/maintenance`, so it is checked, stored and in the history
//! like any change. Replacing the whole configuration by one without maintenance does not end it: a roll-out during
//! maintenance is not meant to do so.

use tutti_config::{Diagnostics, Document, Format, Pointer};

/// Its path in the configuration.
pub(crate) const PLACE: [&str; 2] = ["settings", "maintenance"];

/// Returns the configuration with maintenance, or without.
pub(crate) fn switched(
    current: &Document,
    options: Option<(Vec<u8>, Format)>,
) -> Result<Document, Diagnostics> {
    let mut document = current.clone();
    document.forget_source();
    let Some((bytes, format)) = options else {
        if document.get(&PLACE).is_ok() {
            document.delete(&PLACE)?;
        }
        return Ok(document);
    };
    let options = match bytes.trim_ascii() {
        b"" => Document::empty(),
        _ => {
            let base = Pointer::from_segments(PLACE.map(str::to_owned));
            tutti_config::read(&bytes, format).map_err(|faults| faults.under(&base))?
        }
    };
    put(&mut document, options)?;
    Ok(document)
}

/// Keeps the current maintenance, unless the new configuration sets it itself.
pub(crate) fn keep(current: &Document, document: &mut Document) {
    if document.get(&PLACE).is_ok() {
        return;
    }
    let kept = current.get(&PLACE).map(|node| node.to_json());
    // It is parsed from its printed form: that cannot fail.
    if let Some(mut kept) = kept
        .ok()
        .and_then(|text| tutti_config::parse(text.as_bytes()).ok())
    {
        // Faults and warnings are located in the request body.
        kept.forget_source();
        let mut with = document.clone();
        // A document without a place for it is not a configuration, and is rejected later.
        if put(&mut with, kept).is_ok() {
            *document = with;
        }
    }
}

fn put(document: &mut Document, options: Document) -> Result<(), Diagnostics> {
    let [settings, _] = PLACE;
    if document.get(&[settings]).is_err() {
        document.put(&[settings], Document::empty())?;
    }
    document.put(&PLACE, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        tutti_config::parse(text.as_bytes()).unwrap()
    }

    fn on(current: &str, options: &str) -> Document {
        let options = Some((options.as_bytes().to_vec(), Format::default()));
        switched(&document(current), options).unwrap()
    }

    #[test]
    fn it_is_switched_on_and_off() {
        let with = r#"{"settings":{"maintenance":{"retry_after":60}}}"#;
        assert_eq!(on("{}", r#"{"retry_after": 60}"#), document(with));
        let empty = r#"{"settings":{"http":{},"maintenance":{}}}"#;
        assert_eq!(on(r#"{"settings":{"http":{}}}"#, ""), document(empty));
        let off = switched(&document(with), None).unwrap();
        assert_eq!(off, document(r#"{"settings":{}}"#));
        assert_eq!(switched(&off, None).unwrap(), off);
        let wrong = Some((b"{".to_vec(), Format::default()));
        assert!(switched(&off, wrong).is_err());
    }

    #[test]
    fn a_new_configuration_that_says_nothing_keeps_it() {
        let current = document(r#"{"settings":{"maintenance":{"retry_after":60}}}"#);
        let mut new = document(r#"{"routes":[]}"#);
        keep(&current, &mut new);
        let kept = r#"{"routes":[],"settings":{"maintenance":{"retry_after":60}}}"#;
        assert_eq!(new, document(kept));
        let own = r#"{"settings":{"maintenance":{"retry_after":1}}}"#;
        let mut new = document(own);
        keep(&current, &mut new);
        assert_eq!(new, document(own));
        let mut without = document("{}");
        keep(&document("{}"), &mut without);
        assert_eq!(without, document("{}"));
    }
}
