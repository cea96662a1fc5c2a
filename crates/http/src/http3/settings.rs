//! Settings (RFC 9114 §7.2.4).

use super::error::{Code, Http3Error};
use super::frame::{FrameHead, SETTINGS};
use super::varint;

/// The largest accepted head.
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
/// Enables WebSocket (RFC 9220 §3).
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
/// HTTP/2's settings, which are forbidden (§7.2.4.1).
const OF_HTTP2: std::ops::RangeInclusive<u64> = 0x2..=0x5;

/// The client's settings, as far as they matter to a server without a dynamic table and push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http3Settings {
    /// The largest head that it accepts, by its own count.
    pub max_field_section_size: Option<u64>,
}

impl Http3Settings {
    /// Parses the payload of a frame.
    ///
    /// # Errors
    /// It is malformed, or has forbidden settings.
    pub(super) fn read(mut payload: &[u8]) -> Result<Self, Http3Error> {
        let wrong = |what| Http3Error::Connection(Code::SETTINGS_ERROR, what);
        let mut settings = Self::default();
        let mut seen = Vec::new();
        while !payload.is_empty() {
            let pair = varint::read(payload).and_then(|(name, first)| {
                let (value, second) = varint::read(payload.get(first..)?)?;
                Some((name, value, payload.get(first + second..)?))
            });
            let Some((name, value, rest)) = pair else {
                return Err(Http3Error::Connection(
                    Code::FRAME_ERROR,
                    "settings are cut short",
                ));
            };
            payload = rest;
            if OF_HTTP2.contains(&name) {
                return Err(wrong("a setting of HTTP/2"));
            }
            if seen.contains(&name) {
                return Err(wrong("a duplicate setting"));
            }
            seen.push(name);
            match name {
                MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                ENABLE_CONNECT_PROTOCOL if value > 1 => {
                    return Err(wrong("a switch that is neither on nor off"));
                }
                _ => {}
            }
        }
        Ok(settings)
    }
}

/// Appends the settings of a server that accepts heads of this size.
pub fn write_settings(max_field_section_size: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    for (name, value) in [
        (MAX_FIELD_SECTION_SIZE, max_field_section_size),
        (ENABLE_CONNECT_PROTOCOL, 1),
    ] {
        varint::write(name, &mut payload);
        varint::write(value, &mut payload);
    }
    let head = FrameHead {
        kind: SETTINGS,
        length: payload.len() as u64,
    };
    head.write(out);
    out.extend_from_slice(&payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_may_not_be_end_the_connection() {
        let code = |payload: &[u8]| match Http3Settings::read(payload) {
            Err(Http3Error::Connection(code, _)) => Some(code),
            Ok(_) => None,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(code(b""), None);
        assert_eq!(code(b"\x01\x00\x07\x00\x21\x05"), None);
        assert_eq!(code(b"\x02\x00"), Some(Code::SETTINGS_ERROR));
        assert_eq!(code(b"\x06\x01\x06\x01"), Some(Code::SETTINGS_ERROR));
        assert_eq!(code(b"\x08\x02"), Some(Code::SETTINGS_ERROR));
        assert_eq!(code(b"\x06"), Some(Code::FRAME_ERROR));
        assert_eq!(code(b"\x06\x40"), Some(Code::FRAME_ERROR));
    }

    #[test]
    fn own_settings_are_such_as_are_read() {
        let mut out = Vec::new();
        write_settings(32_768, &mut out);
        let (head, length) = FrameHead::read(&out).unwrap();
        assert_eq!(
            (head.kind, head.length),
            (SETTINGS, (out.len() - length) as u64)
        );
        let settings = Http3Settings::read(&out[length..]).unwrap();
        assert_eq!(settings.max_field_section_size, Some(32_768));
    }
}
