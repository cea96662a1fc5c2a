//! Changes to the fields of a request for an application or a server of an upstream.

use std::borrow::Cow;

use crate::token::is_field_value;

/// A field of a request to be changed; without a value it is removed.
#[derive(Clone, Debug)]
pub struct Edit {
    name: Cow<'static, str>,
    value: Option<Vec<u8>>,
    /// The field is added to those of the client instead of replacing them.
    is_added: bool,
}

impl Edit {
    /// Sets the field to this value only.
    pub fn set(name: impl Into<Cow<'static, str>>, value: Vec<u8>) -> Edit {
        Edit::own(name, Some(value))
    }

    /// Adds the field with this value to those that the client sent.
    pub fn add(name: impl Into<Cow<'static, str>>, value: Vec<u8>) -> Edit {
        Edit {
            is_added: true,
            ..Edit::set(name, value)
        }
    }

    /// Removes the field.
    pub fn remove(name: impl Into<Cow<'static, str>>) -> Edit {
        Edit::own(name, None)
    }

    /// A field that only the server may set: those of the client are removed, including names that an application may take for it
    /// ([`is_alias`]). Without a value it is only removed.
    pub fn own(name: impl Into<Cow<'static, str>>, value: Option<Vec<u8>>) -> Edit {
        Edit {
            name: name.into(),
            value,
            is_added: false,
        }
    }

    /// True if it replaces the client's fields of this name.
    fn replaces(&self, name: &[u8]) -> bool {
        !self.is_added && is_alias(self.name.as_bytes(), name)
    }

    /// The name of the field.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it changes fields of this name.
    pub fn is_of(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The field to send, if there is one. A value with a line break is not sent.
    pub fn field(&self) -> Option<(&[u8], &[u8])> {
        let value = self.value.as_deref().filter(|value| is_field_value(value));
        Some((self.name.as_bytes(), value?))
    }
}

/// True if `edits` replace the client's fields of this name.
pub fn replaces(edits: &[Edit], name: &[u8]) -> bool {
    edits.iter().any(|edit| edit.replaces(name))
}

/// True if an application may take one name for the other: interfaces that turn fields into variables write `_` for `-`, and some for every
/// byte that is not a letter or digit.
pub fn is_alias(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len() && begins_as(name, other)
}

/// True if `name` begins with `start`, or with a prefix that an application may take for it.
pub fn begins_as(name: &[u8], start: &[u8]) -> bool {
    let is_same = |(one, other): (&u8, &u8)| {
        one.eq_ignore_ascii_case(other)
            || !(one.is_ascii_alphanumeric() || other.is_ascii_alphanumeric())
    };
    name.len() >= start.len() && name.iter().zip(start).all(is_same)
}

/// True if `edits` change fields of this name.
pub fn has_edit_of(edits: &[Edit], name: &str) -> bool {
    edits.iter().any(|edit| edit.is_of(name))
}

/// True for fields that only the server may set (RFC 9440 §4).
pub fn is_server_only_field(name: &[u8]) -> bool {
    is_alias(b"client-cert", name) || is_alias(b"client-cert-chain", name)
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
        // As a variable it would be the same.
        assert!(replaces(&edits, b"X_One"));
        assert!(has_edit_of(&edits, "x-two"));
        let sent: Vec<_> = edits.iter().filter_map(Edit::field).collect();
        assert_eq!(sent, [(&b"X-One"[..], &b"1"[..]), (b"X-Two", b"2")]);
    }

    #[test]
    fn fields_of_the_server_cannot_be_set_under_aliases() {
        let edits = [Edit::own("X-Remote-User", None)];
        for name in [
            "x-remote-user",
            "X_Remote_User",
            "X.REMOTE-USER",
            "x~remote!user",
        ] {
            assert!(replaces(&edits, name.as_bytes()), "{name}");
        }
        for name in ["x-remote-users", "x-remoteuser", "xaremote-user", ""] {
            assert!(!replaces(&edits, name.as_bytes()), "{name}");
        }
        assert!(edits[0].field().is_none());
    }

    #[test]
    fn a_value_cannot_end_its_line() {
        assert!(Edit::set("X", b"1\r\nY: 2".to_vec()).field().is_none());
    }

    #[test]
    fn a_client_does_not_speak_for_the_server() {
        assert!(is_server_only_field(b"Client-Cert"));
        assert!(is_server_only_field(b"client_cert_chain"));
        assert!(is_server_only_field(b"Client.Cert"));
        assert!(is_server_only_field(b"client~cert!CHAIN"));
        assert!(!is_server_only_field(b"Client-Certificate"));
    }
}
