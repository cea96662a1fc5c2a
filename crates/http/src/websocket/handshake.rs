//! The opening handshake, the server's side (RFC 6455 §4.2).

use data_encoding::BASE64;
use sha1::{Digest, Sha1};

use crate::field::list_members;
use crate::head::request::RequestView;
use crate::method::Method;
use crate::version::Version;

/// The text that is appended to the client's key (§1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The only version.
pub const VERSION: &str = "13";

/// The kind of a request, with respect to WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Not a WebSocket handshake: an ordinary request.
    None,
    /// A valid handshake; the value of `Sec-WebSocket-Accept`.
    Valid([u8; 28]),
    /// A handshake with an unsupported version: 426, with `Sec-WebSocket-Version` and `Upgrade`.
    Version,
    /// A malformed handshake: 400.
    Malformed(&'static str),
}

/// Checks a request.
///
/// It is a handshake if it has `Connection: upgrade` and `Upgrade: websocket`; otherwise `Upgrade` has no meaning (RFC 9110 §7.8).
/// `Upgrade` in HTTP/1.0 has none either, but an application that gets such a request takes it for a handshake, and fails.
pub fn check(request: &RequestView<'_>) -> Handshake {
    let has = |name: &[u8], member: &[u8]| {
        let mut members = request.get_all(name).flat_map(list_members);
        members.any(|one| one.eq_ignore_ascii_case(member))
    };
    let is_old = request.version() == Version::Http10;
    let wants_upgrade = request.facts().wants_upgrade || (is_old && has(b"connection", b"upgrade"));
    if !wants_upgrade || !has(b"upgrade", b"websocket") {
        return Handshake::None;
    }
    if is_old {
        return Handshake::Malformed("a WebSocket handshake is HTTP/1.1 or newer");
    }
    if request.method() != Method::Get {
        return Handshake::Malformed("the method of a WebSocket handshake is GET");
    }
    if request.facts().is_chunked
        || request
            .facts()
            .content_length
            .is_some_and(|length| length > 0)
    {
        return Handshake::Malformed("a WebSocket handshake has no body");
    }
    let mut versions = request.get_all(b"sec-websocket-version");
    if versions.next() != Some(VERSION.as_bytes()) || versions.next().is_some() {
        return Handshake::Version;
    }
    let mut keys = request.get_all(b"sec-websocket-key");
    match (keys.next(), keys.next()) {
        (Some(key), None) if is_key(key) => Handshake::Valid(accept(key)),
        _ => Handshake::Malformed("`Sec-WebSocket-Key` must be 16 bytes in base64"),
    }
}

/// True if it is the base64 of 16 bytes: 22 digits, the last with four unused bits, and `==` (RFC 4648 §4). The unused bits are not
/// checked: nothing is decoded.
fn is_key(key: &[u8]) -> bool {
    key.len() == 24
        && key.strip_suffix(b"==").is_some_and(|digits| {
            digits
                .iter()
                .all(|digit| digit.is_ascii_alphanumeric() || matches!(digit, b'+' | b'/'))
        })
}

/// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (§4.2.2).
pub fn accept(key: &[u8]) -> [u8; 28] {
    let digest: [u8; 20] = Sha1::new()
        .chain_update(key)
        .chain_update(GUID)
        .finalize()
        .into();
    let mut encoded = [0; 28];
    BASE64.encode_mut(&digest, &mut encoded);
    encoded
}

/// Makes a `Sec-WebSocket-Key` from 16 bytes, for a handshake of RFC 6455 that replaces one without a key (RFC 8441).
pub fn key(nonce: [u8; 16]) -> [u8; 24] {
    let mut encoded = [0; 24];
    BASE64.encode_mut(&nonce, &mut encoded);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageLimits, Progress, RequestHead};

    fn judge(start: &str, fields: &[&str]) -> Handshake {
        let text = format!(
            "{start}\r\nHost: h\r\n{}\r\n",
            fields
                .iter()
                .map(|field| format!("{field}\r\n"))
                .collect::<String>()
        );
        let mut head = RequestHead::new();
        let length = text.len();
        assert_eq!(
            head.parse(text.as_bytes(), &MessageLimits::default()),
            Ok(Progress::Complete { length })
        );
        check(&head.view(text.as_bytes()))
    }

    const UPGRADE: &str = "Upgrade: websocket";
    const CONNECTION: &str = "Connection: keep-alive, Upgrade";
    const VERSION: &str = "Sec-WebSocket-Version: 13";
    const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

    #[test]
    fn the_example_of_the_rfc() {
        let valid = Handshake::Valid(*b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(
            judge("GET /chat HTTP/1.1", &[UPGRADE, CONNECTION, KEY, VERSION]),
            valid
        );
        assert_eq!(
            judge(
                "GET / HTTP/1.1",
                &[
                    "Upgrade: h2c",
                    "Upgrade: WebSocket, other",
                    CONNECTION,
                    KEY,
                    VERSION
                ]
            ),
            valid
        );
    }

    #[test]
    fn a_key_is_made_that_the_check_accepts() {
        let made = key(*b"the sample nonce");
        assert_eq!(&made, b"dGhlIHNhbXBsZSBub25jZQ==");
        for nonce in [[0; 16], [0xff; 16]] {
            assert!(is_key(&key(nonce)), "{nonce:?}");
        }
    }

    #[test]
    fn a_request_without_upgrade_is_ordinary() {
        for (start, fields) in [
            ("GET / HTTP/1.1", &[UPGRADE, KEY, VERSION][..]),
            ("GET / HTTP/1.1", &[CONNECTION, KEY, VERSION]),
            (
                "GET / HTTP/1.1",
                &["Upgrade: h2c", CONNECTION, KEY, VERSION],
            ),
            ("GET / HTTP/1.0", &[UPGRADE, KEY, VERSION]),
        ] {
            assert_eq!(judge(start, fields), Handshake::None);
        }
    }

    #[test]
    fn an_unsupported_version_gets_the_supported_one() {
        for version in [
            "Sec-WebSocket-Version: 8",
            "Sec-WebSocket-Version: 13, 8",
            "Sec-WebSocket-Version:",
            "X: y",
        ] {
            assert_eq!(
                judge("GET / HTTP/1.1", &[UPGRADE, CONNECTION, KEY, version]),
                Handshake::Version
            );
        }
        assert_eq!(
            judge(
                "GET / HTTP/1.1",
                &[UPGRADE, CONNECTION, KEY, VERSION, VERSION]
            ),
            Handshake::Version
        );
    }

    #[test]
    fn invalid_upgrade_requests_are_refused() {
        for fields in [
            &[UPGRADE, CONNECTION, VERSION][..],
            &[UPGRADE, CONNECTION, VERSION, KEY, KEY],
            &[
                UPGRADE,
                CONNECTION,
                VERSION,
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ",
            ],
            &[
                UPGRADE,
                CONNECTION,
                VERSION,
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j*Q==",
            ],
            &[UPGRADE, CONNECTION, VERSION, "Sec-WebSocket-Key: c2hvcnQ="],
            &[UPGRADE, CONNECTION, VERSION, KEY, "Content-Length: 3"],
            &[
                UPGRADE,
                CONNECTION,
                VERSION,
                KEY,
                "Transfer-Encoding: chunked",
            ],
        ] {
            assert!(
                matches!(judge("GET / HTTP/1.1", fields), Handshake::Malformed(_)),
                "{fields:?}"
            );
        }
        // Issue 10: an application took it for a handshake, and failed.
        assert!(matches!(
            judge("GET / HTTP/1.0", &[UPGRADE, CONNECTION, VERSION, KEY]),
            Handshake::Malformed(_)
        ));
        assert!(matches!(
            judge("POST / HTTP/1.1", &[UPGRADE, CONNECTION, VERSION, KEY]),
            Handshake::Malformed(_)
        ));
    }
}
