//! UTF-8 that arrives in pieces (RFC 3629).

/// Checks text piece by piece; an error is detected at the first invalid byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utf8 {
    /// The beginning of an incomplete character: at most three bytes.
    open: [u8; 4],
    open_length: u8,
}

impl Utf8 {
    /// Checks the next piece; false if it is not UTF-8.
    #[must_use]
    pub fn accept(&mut self, mut piece: &[u8]) -> bool {
        while self.open_length > 0 {
            let Some((&byte, rest)) = piece.split_first() else {
                return true;
            };
            piece = rest;
            let at = usize::from(self.open_length);
            let Some(place) = self.open.get_mut(at) else {
                return false;
            };
            *place = byte;
            match std::str::from_utf8(self.open.get(..=at).unwrap_or_default()) {
                Ok(_) => self.open_length = 0,
                Err(error) if error.error_len().is_none() => self.open_length += 1,
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let tail = piece.get(error.valid_up_to()..).unwrap_or_default();
                let Some(open) = self.open.get_mut(..tail.len()) else {
                    return false;
                };
                open.copy_from_slice(tail);
                self.open_length = tail.len() as u8;
                true
            }
        }
    }

    /// True if the text may end here: not within a character.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.open_length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]]) -> bool {
        let mut text = Utf8::default();
        pieces.iter().all(|piece| text.accept(piece)) && text.is_complete()
    }

    #[test]
    fn every_character_in_every_split() {
        for character in [
            '\0',
            '\u{7f}',
            '\u{80}',
            '\u{7ff}',
            '\u{800}',
            '\u{d7ff}',
            '\u{e000}',
            '\u{ffff}',
            '\u{10000}',
            '\u{10ffff}',
        ] {
            let text = format!("a{character}b");
            let bytes = text.as_bytes();
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    assert!(
                        check(&[&bytes[..first], &bytes[first..second], &bytes[second..]]),
                        "{character:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn invalid_utf8_is_found_at_once() {
        for (good, bad) in [
            (&b"\xce\xba"[..], &b"\xff"[..]),
            (b"", b"\xc0"),
            (b"", b"\xc1"),
            (b"", b"\xf5"),
            (b"\xe0", b"\x9f"),
            (b"\xed", b"\xa0"),
            (b"\xf0", b"\x8f"),
            (b"\xf4", b"\x90"),
            (b"\xf0\x90", b"\x41"),
            (b"\xe2\x82", b"\xe2"),
            (b"", b"\x80"),
        ] {
            let mut text = Utf8::default();
            assert!(text.accept(good));
            assert!(!text.accept(bad), "{good:02x?} {bad:02x?}");
        }
        assert!(!check(&[b"\xe2\x82"]));
    }
}
