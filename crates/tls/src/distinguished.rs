//! Distinguished names as text (RFC 4514): `CN=Alice,O=Example\, Inc.,C=US`, the most specific part first.
//!
//! Must never: output a character that could end a line of a log, or text that looks like another part of the name.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{AttributeTypeAndValue, X509Name};

/// The whole name.
pub(crate) fn text(name: &X509Name<'_>) -> String {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for part in parts.into_iter().rev() {
        // Within a part any order is valid; this is OpenSSL's.
        let attributes: Vec<_> = part.iter().collect();
        for (index, attribute) in attributes.into_iter().rev().enumerate() {
            match (index, text.is_empty()) {
                (0, true) => {}
                (0, false) => text.push(','),
                _ => text.push('+'),
            }
            append(attribute, &mut text);
        }
    }
    text
}

fn append(attribute: &AttributeTypeAndValue<'_>, text: &mut String) {
    let kind = attribute.attr_type();
    let known = oid2abbrev(kind, oid_registry());
    let value = attribute.as_str();
    match (known, value) {
        (Ok(kind), Ok(value)) => {
            text.push_str(if kind == "uid" { "UID" } else { kind });
            text.push('=');
            escape(value, text);
        }
        // RFC 4514 §2.4: a type without a name, or a value that is not text, is written as number and encoding.
        _ => {
            let raw = HEXLOWER.encode(attribute.as_slice());
            let _ = write!(text, "{}=#{raw}", kind.to_id_string());
        }
    }
}

fn escape(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        let is_special = match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
            ' ' => index == 0 || index == last,
            '#' => index == 0,
            _ => false,
        };
        if is_special {
            text.push('\\');
            text.push(character);
        } else if character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "\\{byte:02x}");
            }
        } else {
            text.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(value: &str) -> String {
        let mut text = String::new();
        escape(value, &mut text);
        text
    }

    #[test]
    fn characters_that_mean_something_are_escaped() {
        assert_eq!(escaped("Example, Inc."), "Example\\, Inc.");
        assert_eq!(escaped(" a # b "), "\\ a # b\\ ");
        assert_eq!(escaped("#1\n\"x\"\u{85}"), "\\#1\\0a\\\"x\\\"\\c2\\85");
        assert_eq!(escaped(" "), "\\ ");
        assert_eq!(escaped("Müller"), "Müller");
    }
}
