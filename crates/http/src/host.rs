//! `Host` and authority: validation and the normalised name that routing compares.

use crate::error::HeadError;

/// Bytes permitted in a registered name: RFC 3986 `unreserved`, `sub-delims` and `%`, without `,` (which a merged pair of `Host` fields
/// would have).
const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
}

/// The kinds of bytes that separate a host and its port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    Dot,
    Colon,
    Other,
}

/// The kind of each byte: every request has a host, and this is the fastest way to parse it.
static KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Other; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        kinds[byte] = match byte as u8 {
            b'.' => Kind::Dot,
            b':' => Kind::Colon,
            name if is_host_byte(name) => Kind::Name,
            _ => Kind::Other,
        };
        byte += 1;
    }
    kinds
};

/// Splits `host[:port]`; an IPv6 address keeps its brackets. The port is `None` where there is no colon.
pub fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let after_bracket = if authority.first() == Some(&b'[') {
        memchr::memchr(b']', authority).map_or(authority.len(), |end| end + 1)
    } else {
        0
    };
    let tail = authority.get(after_bracket..).unwrap_or_default();
    match memchr::memchr(b':', tail) {
        Some(colon) => {
            let (host, port) = authority.split_at(after_bracket + colon);
            (host, port.get(1..))
        }
        None => (authority, None),
    }
}

/// The port that a client uses, from its `Host`, or else from the scheme (RFC 9110 §4.2): the value of `X-Forwarded-Port`, which readers
/// combine with the name of `X-Forwarded-Host`.
pub fn port_or_default(authority: &[u8], is_https: bool) -> &[u8] {
    match split_port(authority).1 {
        Some(port) if !port.is_empty() => port,
        _ if is_https => b"443",
        _ => b"80",
    }
}

/// Checks `host[:port]` and returns the name that routing compares: without port and without one trailing period. The caller converts the
/// case. Empty is permitted here: HTTP/1.0 has requests without a host.
pub(crate) fn name_of(authority: &[u8]) -> Result<&[u8], HeadError> {
    if authority.is_empty() {
        return Ok(authority);
    }
    let length = match authority {
        [b'[', ..] => length_of_address(authority),
        _ => length_of_name(authority),
    };
    let (host, rest) = authority
        .split_at_checked(length.unwrap_or_default())
        .unwrap_or_default();
    let rest_is_valid = match rest {
        [] => true,
        [b':', port @ ..] => is_port(port),
        _ => false,
    };
    if host.is_empty() || !rest_is_valid {
        return Err(HeadError::HostInvalid);
    }
    Ok(host.strip_suffix(b".").unwrap_or(host))
}

/// The length of a registered name before the port. Two periods in a row would be an empty label, which only the DNS root is, at the end
/// (RFC 1035 §3.1).
fn length_of_name(authority: &[u8]) -> Option<usize> {
    let mut previous = Kind::Name;
    for (index, &byte) in authority.iter().enumerate() {
        let kind = *KINDS.get(usize::from(byte))?;
        match (previous, kind) {
            (_, Kind::Colon) => return Some(index),
            (_, Kind::Other) | (Kind::Dot, Kind::Dot) => return None,
            _ => previous = kind,
        }
    }
    Some(authority.len())
}

/// The length of a bracketed IPv6 address before the port.
fn length_of_address(authority: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b']', authority)?;
    let address = authority.get(1..end)?;
    let is_valid = address.contains(&b':')
        && address
            .iter()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    is_valid.then_some(end + 1)
}

/// True for a number of 16 bits in digits, and for an empty one (RFC 3986 §3.2.3).
fn is_port(digits: &[u8]) -> bool {
    let mut port = 0_u32;
    digits.iter().all(|&digit| {
        port = port * 10 + u32::from(digit.wrapping_sub(b'0'));
        digit.is_ascii_digit() && port <= 65_535
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_what_follows_the_host() {
        for (authority, host, port) in [
            ("h", "h", None),
            ("h:", "h", Some("")),
            ("h:80", "h", Some("80")),
            ("[::1]", "[::1]", None),
            ("[::1]:80", "[::1]", Some("80")),
            ("[::1", "[::1", None),
            ("", "", None),
        ] {
            let found = split_port(authority.as_bytes());
            assert_eq!(
                found,
                (host.as_bytes(), port.map(str::as_bytes)),
                "{authority}"
            );
        }
    }

    #[test]
    fn without_a_port_that_of_the_scheme_applies() {
        for (authority, plain, secure) in [
            ("h", "80", "443"),
            ("h:", "80", "443"),
            ("h:8080", "8080", "8080"),
            ("[::1]:1", "1", "1"),
        ] {
            assert_eq!(
                port_or_default(authority.as_bytes(), false),
                plain.as_bytes()
            );
            assert_eq!(
                port_or_default(authority.as_bytes(), true),
                secure.as_bytes()
            );
        }
    }

    #[test]
    fn names_and_addresses_are_checked() {
        let name = |authority: &'static str| name_of(authority.as_bytes()).ok();
        for (authority, expected) in [
            ("h.", "h"),
            ("h:65535", "h"),
            ("h:", "h"),
            ("h.example.:80", "h.example"),
            ("-._~%!$&'()*+;=", "-._~%!$&'()*+;="),
            ("[::ffff:192.0.2.1]:80", "[::ffff:192.0.2.1]"),
            ("", ""),
        ] {
            assert_eq!(name(authority), Some(expected.as_bytes()), "{authority}");
        }
        for authority in [
            "h:65536", "h:8a", "h:+1", "h:1:2", ":80", "..", "a..b", ".:.", "h,g", "h/", "h\u{e9}",
            "[]", "[12]", "[g::1]", "[::1", "[::1]x", "[::1]:x",
        ] {
            assert_eq!(name(authority), None, "{authority}");
        }
    }
}
