//! The names of header fields that the server knows.
//!
//! Names are matched by length and first letter first, so an unknown name costs one comparison at most.

/// A field name that the server itself evaluates; others are [`Known::Other`] and are found by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the variants are the field names
pub enum Known {
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Expect,
    Upgrade,
    Range,
    IfRange,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    ContentType,
    Cookie,
    UserAgent,
    Referer,
    Accept,
    AcceptEncoding,
    Authorization,
    Te,
    Trailer,
    KeepAlive,
    ProxyConnection,
    Date,
    Server,
    Location,
    Priority,
    Other,
}

/// Number of names in [`Known`] without `Other`.
pub(crate) const KNOWN_COUNT: usize = Known::Other as usize;

impl Known {
    /// The known field of this name, ASCII case ignored.
    pub fn from_name(name: &[u8]) -> Self {
        if memchr::memchr(b'\r', name).is_some() {
            Self::Other
        } else {
            Self::from_token(name)
        }
    }

    /// As [`Known::from_name`], for a name without CR, as every name of a parsed head is.
    ///
    /// One branch on the length, then whole-word comparisons: about 20 instructions where a loop over the bytes takes 100.
    #[rustfmt::skip]
    pub(crate) fn from_token(name: &[u8]) -> Self {
        /// `name` in lower case: `| 0x20` makes a lower-case letter of letters only, and `-` of itself and CR.
        fn lower<const N: usize>(name: &[u8]) -> [u8; N] {
            <&[u8; N]>::try_from(name).map_or([0; N], |name| name.map(|byte| byte | 0x20))
        }
        match name.len() {
            2 if &lower(name) == b"te" => Self::Te,
            4 => match &lower(name) {
                b"host" => Self::Host,
                b"date" => Self::Date,
                _ => Self::Other,
            },
            5 if &lower(name) == b"range" => Self::Range,
            6 => match &lower(name) {
                b"accept" => Self::Accept,
                b"cookie" => Self::Cookie,
                b"expect" => Self::Expect,
                b"server" => Self::Server,
                _ => Self::Other,
            },
            7 => match &lower(name) {
                b"referer" => Self::Referer,
                b"upgrade" => Self::Upgrade,
                b"trailer" => Self::Trailer,
                _ => Self::Other,
            },
            8 => match &lower(name) {
                b"if-range" => Self::IfRange,
                b"if-match" => Self::IfMatch,
                b"location" => Self::Location,
                b"priority" => Self::Priority,
                _ => Self::Other,
            },
            10 => match &lower(name) {
                b"connection" => Self::Connection,
                b"user-agent" => Self::UserAgent,
                b"keep-alive" => Self::KeepAlive,
                _ => Self::Other,
            },
            12 if &lower(name) == b"content-type" => Self::ContentType,
            13 => match &lower(name) {
                b"authorization" => Self::Authorization,
                b"if-none-match" => Self::IfNoneMatch,
                _ => Self::Other,
            },
            14 if &lower(name) == b"content-length" => Self::ContentLength,
            15 if &lower(name) == b"accept-encoding" => Self::AcceptEncoding,
            16 if &lower(name) == b"proxy-connection" => Self::ProxyConnection,
            17 => match &lower(name) {
                b"transfer-encoding" => Self::TransferEncoding,
                b"if-modified-since" => Self::IfModifiedSince,
                _ => Self::Other,
            },
            19 if &lower(name) == b"if-unmodified-since" => Self::IfUnmodifiedSince,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_found_in_any_case_and_no_other() {
        for (name, known) in [
            ("Host", Known::Host),
            ("Content-Length", Known::ContentLength),
            ("Transfer-Encoding", Known::TransferEncoding),
            ("Connection", Known::Connection),
            ("Expect", Known::Expect),
            ("Upgrade", Known::Upgrade),
            ("Range", Known::Range),
            ("If-Range", Known::IfRange),
            ("If-Match", Known::IfMatch),
            ("If-None-Match", Known::IfNoneMatch),
            ("If-Modified-Since", Known::IfModifiedSince),
            ("If-Unmodified-Since", Known::IfUnmodifiedSince),
            ("Content-Type", Known::ContentType),
            ("Cookie", Known::Cookie),
            ("User-Agent", Known::UserAgent),
            ("Referer", Known::Referer),
            ("Accept", Known::Accept),
            ("Accept-Encoding", Known::AcceptEncoding),
            ("Authorization", Known::Authorization),
            ("TE", Known::Te),
            ("Trailer", Known::Trailer),
            ("Keep-Alive", Known::KeepAlive),
            ("Proxy-Connection", Known::ProxyConnection),
            ("Date", Known::Date),
            ("Server", Known::Server),
            ("Location", Known::Location),
            ("Priority", Known::Priority),
        ] {
            for spelling in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(Known::from_name(spelling.as_bytes()), known, "{spelling}");
            }
            // Any other name of the same length, one byte apart, is another field.
            for at in 0..name.len() {
                for byte in 0..=255 {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    let same = other.eq_ignore_ascii_case(name.as_bytes());
                    assert_eq!(
                        Known::from_name(&other) == known,
                        same,
                        "{}",
                        other.escape_ascii()
                    );
                }
            }
        }
        for name in [
            "",
            "X",
            "Hos",
            "Hostx",
            "Content_Length",
            "TransferEncoding",
        ] {
            assert_eq!(Known::from_name(name.as_bytes()), Known::Other, "{name}");
        }
    }
}
