//! The payload of close frames (RFC 6455 §5.5.1 and §7.4).

use super::fault::WebSocketError;
use super::frame::MAX_CONTROL_BYTES;

/// The contents of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// The status, if there is one.
    pub code: Option<u16>,
    /// The reason; empty where there is none.
    pub reason: &'a str,
}

impl<'a> Close<'a> {
    /// Reads the payload of a close frame.
    ///
    /// # Errors
    /// [`WebSocketError::CloseCode`], [`WebSocketError::NotUtf8`].
    pub fn parse(payload: &'a [u8]) -> Result<Self, WebSocketError> {
        let Some((code, reason)) = payload.split_first_chunk::<2>() else {
            return if payload.is_empty() {
                Ok(Self {
                    code: None,
                    reason: "",
                })
            } else {
                Err(WebSocketError::CloseCode)
            };
        };
        let code = u16::from_be_bytes(*code);
        if !may_be_sent(code) {
            return Err(WebSocketError::CloseCode);
        }
        let reason = std::str::from_utf8(reason).map_err(|_| WebSocketError::NotUtf8)?;
        Ok(Self {
            code: Some(code),
            reason,
        })
    }

    /// Appends the payload; a reason that is too long is cut between two characters. A code that must not be sent is omitted, and the
    /// reason with it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Some(code) = self.code.filter(|code| may_be_sent(*code)) else {
            return;
        };
        out.extend_from_slice(&code.to_be_bytes());
        let room = MAX_CONTROL_BYTES - 2;
        let end = (0..=room.min(self.reason.len()))
            .rev()
            .find(|end| self.reason.is_char_boundary(*end))
            .unwrap_or(0);
        out.extend_from_slice(self.reason.get(..end).unwrap_or_default().as_bytes());
    }
}

/// True if an endpoint may send this status in a close frame: those of RFC 6455 §7.4.1 and of IANA's registry (1012 to 1014) except those
/// that stand for the absence of a code, those of libraries, and private ones.
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(code: u16, reason: &str) -> Vec<u8> {
        let mut bytes = code.to_be_bytes().to_vec();
        bytes.extend_from_slice(reason.as_bytes());
        bytes
    }

    #[test]
    fn exactly_the_codes_that_may_be_sent_are_accepted() {
        for code in 0..=u16::MAX {
            let bytes = payload(code, "why");
            let expected = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            let mut written = Vec::new();
            match Close::parse(&bytes) {
                Ok(close) => {
                    assert!(expected, "{code}");
                    close.write(&mut written);
                    assert_eq!(written, bytes);
                }
                Err(fault) => {
                    assert!(!expected, "{code}");
                    assert_eq!(fault, WebSocketError::CloseCode);
                    Close {
                        code: Some(code),
                        reason: "why",
                    }
                    .write(&mut written);
                    assert_eq!(written, b"");
                }
            }
        }
    }

    #[test]
    fn a_payload_is_nothing_or_a_code_and_text() {
        assert_eq!(
            Close::parse(b""),
            Ok(Close {
                code: None,
                reason: ""
            })
        );
        assert_eq!(Close::parse(b"\x03"), Err(WebSocketError::CloseCode));
        assert_eq!(Close::parse(b"\x03\xe8\xff"), Err(WebSocketError::NotUtf8));
        assert_eq!(Close::parse(b"\x03\xe8\xc3"), Err(WebSocketError::NotUtf8));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "é".repeat(100);
        let mut out = Vec::new();
        Close {
            code: Some(4000),
            reason: &reason,
        }
        .write(&mut out);
        assert_eq!(out.len(), 2 + 122);
        assert!(Close::parse(&out).is_ok());
    }
}
