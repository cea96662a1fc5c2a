//! The grammar of field names and values, for code that writes them.

/// A field that cannot be sent: its name is not a token, or its value has a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid response field")]
pub struct InvalidField;

/// True if a byte may be part of a token (RFC 9110 §5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
};

/// True if `name` is a field name.
pub fn is_field_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte))
}

/// True if `value` can be sent: no NUL, CR, LF or other control character but the tab.
pub fn is_field_value(value: &[u8]) -> bool {
    let is_wrong = |byte: u8| byte != b'\t' && (byte < b' ' || byte == 0x7f);
    // Eight bytes are compared at once; the last ones again, with those before them.
    let (words, rest) = value.as_chunks::<8>();
    let has_wrong = |word: &[u8; 8]| {
        word.iter()
            .fold(false, |found, byte| found | is_wrong(*byte))
    };
    !words.iter().any(has_wrong)
        && match value.last_chunk() {
            Some(last) => !has_wrong(last),
            None => !rest.iter().any(|byte| is_wrong(*byte)),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_is_found_at_every_place() {
        for length in 0..40 {
            for place in 0..length {
                for (byte, is_permitted) in [
                    (0, false),
                    (b'\t', true),
                    (b'\r', false),
                    (0x1f, false),
                    (b' ', true),
                    (0x7e, true),
                    (0x7f, false),
                    (0x80, true),
                    (0xff, true),
                ] {
                    let mut value = vec![b'v'; length];
                    value[place] = byte;
                    assert_eq!(is_field_value(&value), is_permitted, "{value:?}");
                }
            }
            assert!(is_field_value(&vec![b'v'; length]));
        }
    }
}
