//! The path that a response names: `X-Accel-Redirect`, `X-Sendfile`.
//!
//! Must never: use it as a path in the file system. It is a path for the routes.

use tutti_http::{OwnedPath, PathRules, encode_path};

/// Longest path that a response may name.
const LONGEST_PATH: usize = 32 * 1024;

/// The path that a response names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named<'f> {
    /// Encoded as in a request, with a query if there is one.
    Encoded(&'f [u8]),
    /// Not encoded.
    Plain(&'f [u8]),
}

impl<'f> Named<'f> {
    /// The value of the field.
    pub(crate) fn value(self) -> &'f [u8] {
        let (Self::Encoded(value) | Self::Plain(value)) = self;
        value
    }
}

/// Looks for it in the fields of a response.
pub(crate) fn named<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> Option<Named<'f>> {
    let value = |wanted: &[u8]| {
        let mut all = fields.clone();
        let (_, value) = all.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        Some(value.trim_ascii())
    };
    let encoded = value(b"x-accel-redirect").map(Named::Encoded);
    encoded.or_else(|| value(b"x-sendfile").map(Named::Plain))
}

/// The path of the request. One with `..` is refused in any encoding.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn path(named: Named<'_>) -> Result<OwnedPath, &'static str> {
    let target = match named {
        Named::Encoded(value) => value.to_vec(),
        Named::Plain(path) => {
            let mut target = Vec::new();
            encode_path(path, &mut target);
            target
        }
    };
    if target.len() > LONGEST_PATH {
        return Err("that is too long");
    }
    if target.first() != Some(&b'/') {
        return Err("a path begins with `/`");
    }
    let sent = target.split(|byte| *byte == b'?').next();
    let decoded: Vec<u8> = percent_encoding::percent_decode(sent.unwrap_or_default()).collect();
    if decoded
        .split(|byte| *byte == b'/')
        .any(|segment| segment == b"..")
    {
        return Err("it climbs (`..`)");
    }
    if decoded.iter().any(u8::is_ascii_control) {
        return Err("it has a control character");
    }
    let rules = PathRules {
        merge_slashes: true,
        decode_unreserved: true,
        ..PathRules::CHECKED
    };
    OwnedPath::parse(&target, &rules).map_err(|_| "that is not a valid path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_the_root_or_malformed_is_refused() {
        for (value, is_taken) in [
            ("/protected/a.pdf", true),
            ("/protected/a%20b.pdf?download=1", true),
            ("/protected/a..b", true),
            ("/protected/a?x=/../y", true),
            ("/protected/../secret", false),
            ("/protected/%2e%2e/secret", false),
            ("/protected/%2E./secret", false),
            ("/protected/.%2e%2fsecret", false),
            ("/protected%2f..%2fsecret", false),
            ("protected/a", false),
            ("http://example.com/", false),
            ("", false),
            ("/a%0d%0aX: y", false),
            ("/a%00", false),
        ] {
            let encoded = path(Named::Encoded(value.as_bytes()));
            assert_eq!(encoded.is_ok(), is_taken, "{value}");
        }
        assert!(path(Named::Encoded(&vec![b'/'; LONGEST_PATH + 1])).is_err());
    }

    #[test]
    fn a_plain_path_is_unchanged() {
        let plain = |text: &str| path(Named::Plain(text.as_bytes()));
        let found = plain("/srv//a b%20?c").unwrap();
        assert_eq!(found.as_path().target(), b"/srv/a%20b%2520%3Fc");
        assert_eq!(found.as_path().path(), b"/srv/a b%20?c");
        assert!(plain("/srv/../etc/passwd").is_err());
        // It is not encoded: these are names of files.
        assert!(plain("/srv/%2e%2e/x").is_ok());
        assert!(plain("srv/x").is_err());
    }

    #[test]
    fn the_named_place_is_taken_from_either_field() {
        let fields = [
            (&b"X-Sendfile"[..], &b" /a "[..]),
            (b"x-accel-redirect", b"/b"),
        ];
        assert!(matches!(
            named(fields.into_iter()),
            Some(Named::Encoded(b"/b"))
        ));
        assert!(matches!(
            named(fields.into_iter().take(1)),
            Some(Named::Plain(b"/a"))
        ));
        assert!(named(std::iter::empty()).is_none());
    }
}
