//! `Host` and authority: validation and the normalised name that routing compares.

use crate::error::HeadError;

/// Bytes allowed in a registered name: RFC 3986 `unreserved`, `sub-delims` and `%`, without `,` (a merged pair of `Host` fields
/// would have one).
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

/// The port that a client speaks to, as its `Host` has it; without one there that of the scheme (RFC 9110 §4.2). It is what goes into
/// `X-Forwarded-Port`, whose readers put it beside the name of `X-Forwarded-Host`.
pub fn told_port(authority: &[u8], is_https: bool) -> &[u8] {
    match split_port(authority).1 {
        Some(port) if !port.is_empty() => port,
        _ if is_https => b"443",
        _ => b"80",
    }
}

/// Checks `host[:port]`. Empty is allowed here: RFC 9112 §3.2 has clients send it where there is no authority.
pub(crate) fn validate(authority: &[u8]) -> Result<(), HeadError> {
    if authority.is_empty() {
        return Ok(());
    }
    let (host, port) = split_port(authority);
    let host_is_valid = match host {
        [] => false,
        [b'[', address @ .., b']'] => {
            address.contains(&b':')
                && address
                    .iter()
                    .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }
        // Two dots in a row are a label without a letter, which the DNS has only as its root, at the end (RFC 1035 §3.1).
        name => {
            name.iter().all(|&byte| is_host_byte(byte))
                && memchr::memmem::find(name, b"..").is_none()
        }
    };
    let port_is_valid = match port {
        None | Some([]) => true,
        Some(digits) => {
            digits.iter().all(u8::is_ascii_digit)
                && digits
                    .iter()
                    .try_fold(0_u32, |port, &digit| {
                        Some(port * 10 + u32::from(digit - b'0')).filter(|&port| port <= 65_535)
                    })
                    .is_some()
        }
    };
    if host_is_valid && port_is_valid {
        Ok(())
    } else {
        Err(HeadError::HostInvalid)
    }
}

/// The name routing compares: without port and without one trailing period. Case is the caller's business.
pub(crate) fn name_of(authority: &[u8]) -> &[u8] {
    let (host, _) = split_port(authority);
    host.strip_suffix(b".").unwrap_or(host)
}
