//! The key of a request: requests with the same key may get the same response.
//!
//! Operators see its text and purge by it: scheme, host and target, or the configured template. Its identity separates requests
//! that have the same text but different responses: by the action that answers, by the fields from which programs learn their own address,
//! and by the fields that the server sets.

use sha2::{Digest as _, Sha256};
use tutti_http::edits::is_alias;
use tutti_http::{cookie_pairs, list_members};

/// The fields from which frameworks take scheme, host and path instead of the request's own. They are part of the key: otherwise a client
/// could have an address of its choice put into the responses that others get.
const ADDRESSING: [&str; 12] = [
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-server",
    "x-host",
    "x-original-url",
    "x-original-host",
    "x-rewrite-url",
];

/// The fields with which some frameworks override the method of a request.
const METHODS: [&str; 3] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// Marks the digest of the configured field changes in an identity; the numbers of [`ADDRESSING`] are smaller.
const EDITS: u8 = 0xff;

/// Marks the number of a slice in an identity.
const SLICE: u8 = 0xfe;

/// The key of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The text that it is purged by.
    pub text: Box<[u8]>,
    /// Identifies the action, and the fields listed in [the module](self).
    pub identity: Box<[u8]>,
}

impl Key {
    /// Makes the key of a request with this text that `answerer` answers. `edits` are the configured changes to its fields: the key
    /// contains only their digest, because they may contain passwords and keys are stored on disk.
    pub fn new<'f>(
        text: Vec<u8>,
        answerer: &[u8],
        edits: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Self {
        let mut identity = answerer.to_vec();
        if !edits.is_empty() {
            identity.extend_from_slice(&[0, EDITS]);
            identity.extend_from_slice(&Sha256::digest(edits));
        }
        for (name, value) in fields {
            if same(name, "forwarded") {
                identity.push(0);
                append_addresses(&mut identity, value);
            } else if let Some(at) = ADDRESSING.iter().position(|known| same(name, known)) {
                identity.extend_from_slice(&[0, at as u8 + 1]);
                identity.extend_from_slice(value);
            }
        }
        Self {
            text: text.into(),
            identity: identity.into(),
        }
    }

    /// The key of a slice of this response: a purge by text covers all of them.
    pub(crate) fn of_slice(&self, number: u64) -> Self {
        let mut identity = self.identity.to_vec();
        identity.extend_from_slice(&[0, SLICE]);
        identity.extend_from_slice(&number.to_be_bytes());
        Self {
            text: self.text.clone(),
            identity: identity.into(),
        }
    }
}

/// True if this field overrides the method of a request.
pub fn overrides_method(name: &[u8]) -> bool {
    METHODS.iter().any(|known| same(name, known))
}

/// True if `is_one` holds for the name of a cookie in this `Cookie` field.
pub fn is_cookie_named(field: &[u8], mut is_one: impl FnMut(&[u8]) -> bool) -> bool {
    cookie_pairs(field).any(|pair| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        let name = name.trim_ascii();
        !name.is_empty() && is_one(name)
    })
}

/// Appends the parts of `Forwarded` (RFC 7239 §4) that describe the requested address; those about the client differ with each client.
fn append_addresses(out: &mut Vec<u8>, value: &[u8]) {
    for element in list_members(value) {
        for pair in element.split(|&byte| byte == b';') {
            let pair = pair.trim_ascii();
            let is = |name: &[u8]| {
                pair.get(..name.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(name))
            };
            if is(b"host=") || is(b"proto=") {
                out.extend_from_slice(pair);
                out.push(b';');
            }
        }
    }
}

/// True if programs that turn field names into variables see the two names as equal.
fn same(name: &[u8], known: &str) -> bool {
    is_alias(known.as_bytes(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fields: &[(&str, &str)]) -> Key {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        Key::new(b"http://a/".to_vec(), b"app", b"", fields)
    }

    #[test]
    fn fields_with_an_address_are_part_of_the_key() {
        let plain = key(&[("Accept", "x")]);
        for name in [
            "X-Forwarded-Host",
            "X_Forwarded_Host",
            "x.forwarded.host",
            "X-Original-URL",
            "X-Forwarded_Proto",
        ] {
            let other = key(&[(name, "evil")]);
            assert_ne!(plain, other, "{name}");
            assert_eq!(plain.text, other.text);
        }
        assert_eq!(plain, key(&[("X-Forwarded-For", "1.2.3.4")]));
        assert_ne!(key(&[("X-Host", "a")]), key(&[("X-Forwarded-Host", "a")]));
    }

    #[test]
    fn fields_that_the_server_sets_keep_requests_apart_and_stay_secret() {
        let key = |edits: &[u8]| Key::new(b"a".to_vec(), b"app", edits, std::iter::empty());
        assert_ne!(key(b""), key(b"x-internal\x001"));
        assert_ne!(key(b"x-internal\x000"), key(b"x-internal\x001"));
        let secret = key(b"authorization\0secret").identity;
        assert!(!secret.windows(6).any(|part| part == b"secret"));
    }

    #[test]
    fn of_forwarded_the_address_of_the_client_does_not_count() {
        let one = key(&[("Forwarded", "for=1.1.1.1;Host=a;proto=https")]);
        let two = key(&[("Forwarded", "for=2.2.2.2;Host=a;proto=https")]);
        let other = key(&[("Forwarded", "for=2.2.2.2;Host=b;proto=https")]);
        assert_eq!(one, two);
        assert_ne!(two, other);
    }

    #[test]
    fn methods_are_overridden_by_any_spelling() {
        assert!(overrides_method(b"X-HTTP-Method-Override"));
        assert!(overrides_method(b"x_http_method.override"));
        assert!(!overrides_method(b"X-HTTP"));
    }

    #[test]
    fn cookies_are_found_by_name() {
        let field = b"a=1; wordpress_logged_in_x=2;b";
        assert!(is_cookie_named(field, |name| name.starts_with(b"wordpress_")));
        assert!(is_cookie_named(field, |name| name == b"b"));
        assert!(!is_cookie_named(b"x=a; ", |name| name == b"a" || name.is_empty()));
    }
}
