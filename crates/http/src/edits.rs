//! Changes to the fields of a request before whoever it is for gets it: an application, or a server of an upstream.

use std::borrow::Cow;

use crate::token::is_field_value;

/// A field of a request to be changed; without a value it is removed.
#[derive(Clone, Debug)]
pub struct Edit {
    name: Cow<'static, str>,
    value: Option<Vec<u8>>,
    /// Beside the fields of that name that the client sent.
    is_added: bool,
}

impl Edit {
    /// The field has this value and no other.
    pub fn set(name: impl Into<Cow<'static, str>>, value: Vec<u8>) -> Edit {
        Edit {
            name: name.into(),
            value: Some(value),
            is_added: false,
        }
    }

    /// The field has this value beside those that the client sent.
    pub fn add(name: impl Into<Cow<'static, str>>, value: Vec<u8>) -> Edit {
        Edit {
            is_added: true,
            ..Edit::set(name, value)
        }
    }

    /// The field is left out.
    pub fn remove(name: impl Into<Cow<'static, str>>) -> Edit {
        Edit {
            name: name.into(),
            value: None,
            is_added: false,
        }
    }

    /// True if it is about fields of this name.
    pub fn is_of(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The field to be sent, if there is one. A value that would end its line is not sent.
    pub fn field(&self) -> Option<(&[u8], &[u8])> {
        let value = self.value.as_deref().filter(|value| is_field_value(value));
        Some((self.name.as_bytes(), value?))
    }
}

/// True if `edits` say in the client's place what this field is.
pub fn replaces(edits: &[Edit], name: &[u8]) -> bool {
    edits
        .iter()
        .any(|edit| !edit.is_added && edit.name.as_bytes().eq_ignore_ascii_case(name))
}

/// True if `edits` say anything about fields of this name.
pub fn mentions(edits: &[Edit], name: &str) -> bool {
    edits.iter().any(|edit| edit.is_of(name))
}

/// True for fields with which a client would speak for the server (RFC 9440 §4). Interfaces that make variables of fields do not tell `-`
/// from `_`.
pub fn is_ours_to_say(name: &[u8]) -> bool {
    let is = |known: &[u8]| {
        name.len() == known.len()
            && name.iter().zip(known).all(|(byte, known)| {
                byte.eq_ignore_ascii_case(known) || (*byte == b'_' && *known == b'-')
            })
    };
    is(b"client-cert") || is(b"client-cert-chain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_added_replaces_none() {
        let edits = [
            Edit::set("X-One", b"1".to_vec()),
            Edit::add("X-Two", b"2".to_vec()),
            Edit::remove("X-Three"),
        ];
        assert!(replaces(&edits, b"x-one"));
        assert!(!replaces(&edits, b"x-two"));
        assert!(replaces(&edits, b"x-three"));
        assert!(mentions(&edits, "x-two"));
        let sent: Vec<_> = edits.iter().filter_map(Edit::field).collect();
        assert_eq!(sent, [(&b"X-One"[..], &b"1"[..]), (b"X-Two", b"2")]);
    }

    #[test]
    fn a_value_cannot_end_its_line() {
        assert!(Edit::set("X", b"1\r\nY: 2".to_vec()).field().is_none());
    }

    #[test]
    fn a_client_does_not_speak_for_the_server() {
        assert!(is_ours_to_say(b"Client-Cert"));
        assert!(is_ours_to_say(b"client_cert_chain"));
        assert!(!is_ours_to_say(b"Client-Certificate"));
    }
}
