//! Password hashes by MD5 and SHA-1, which files of other servers have.
//!
//! They are too quick to be safe: the log reports them. Must never: compare a hash in a time that depends on it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY};
use md5::{Digest as _, Md5};

/// The digits of crypt(3).
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The number of rounds, which no hash changes.
const ROUNDS: usize = 1000;

/// The order in which the bytes of a digest are written, in groups of three.
const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

/// True if it is the password of a hash that begins with `$1$` or `$apr1$`.
pub(crate) fn md5_crypt(password: &[u8], text: &str) -> bool {
    let parts: Vec<&str> = text.split('$').collect();
    let ["", name, salt, hash] = parts.as_slice() else {
        return false;
    };
    let magic = format!("${name}$");
    let digest = md5_digest(password, magic.as_bytes(), salt.as_bytes());
    verify_slices_are_equal(md5_text(&digest).as_bytes(), hash.as_bytes()).is_ok()
}

fn md5_digest(password: &[u8], magic: &[u8], salt: &[u8]) -> [u8; 16] {
    let inner = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut first = Md5::new()
        .chain_update(password)
        .chain_update(magic)
        .chain_update(salt);
    for part in password.chunks(inner.len()) {
        first.update(inner.get(..part.len()).unwrap_or(&inner));
    }
    let mut bits = password.len();
    while bits > 0 {
        match bits % 2 {
            1 => first.update([0]),
            _ => first.update(password.get(..1).unwrap_or_default()),
        }
        bits /= 2;
    }
    let mut digest: [u8; 16] = first.finalize().into();
    for round in 0..ROUNDS {
        let (before, after): (&[u8], &[u8]) = match round % 2 {
            1 => (password, &digest),
            _ => (&digest, password),
        };
        let mut next = Md5::new().chain_update(before);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(after);
        digest = next.finalize().into();
    }
    digest
}

fn md5_text(digest: &[u8; 16]) -> String {
    let byte = |number: usize| u32::from(digest.get(number).copied().unwrap_or_default());
    let mut text = String::with_capacity(22);
    for [high, middle, low] in ORDER {
        push(
            &mut text,
            byte(high) << 16 | byte(middle) << 8 | byte(low),
            4,
        );
    }
    push(&mut text, byte(11), 2);
    text
}

/// Appends a number, its lowest digit first.
fn push(text: &mut String, mut number: u32, digits: usize) {
    for _ in 0..digits {
        let digit = DIGITS.get(number as usize % 64);
        text.extend(digit.map(|digit| char::from(*digit)));
        number /= 64;
    }
}

/// True if it is the password of a hash that begins with `{SHA}` or `{SSHA}` (RFC 2307 §5.3).
pub(crate) fn sha1(password: &[u8], text: &str) -> bool {
    let digits = text.split_once('}').map_or("", |(_, digits)| digits);
    let Ok(stored) = data_encoding::BASE64.decode(digits.as_bytes()) else {
        return false;
    };
    let Some((hash, salt)) = stored.split_at_checked(digest::SHA1_OUTPUT_LEN) else {
        return false;
    };
    let mut context = digest::Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(password);
    context.update(salt);
    verify_slices_are_equal(context.finish().as_ref(), hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_other_programs_are_those_of_their_passwords() {
        for (password, text) in [
            // By `openssl passwd -apr1` and crypt(3) of glibc.
            ("secret", "$apr1$lZL6V/ci$PR6QJXkRFUzdUuaYcwrI//"),
            (
                "a password that is longer than thirty two bytes, and more",
                "$apr1$lZL6V/ci$d7N7RLo56cxF8Jm0CiVyp/",
            ),
            ("pässword1234567", "$apr1$x$yKT2ODGi6fFyqf98WBvkL1"),
            ("secret", "$1$saltsalt$9xy1btjgzLYfb7hivXtC//"),
            ("", "$1$a$8CfZSfErbeskipdhZHtvu."),
        ] {
            assert!(md5_crypt(password.as_bytes(), text), "{text}");
            assert!(!md5_crypt(b"Secret", text), "{text}");
        }
        for text in [
            // By `htpasswd -nbs`, and with `salt` behind the digest.
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
        ] {
            assert!(sha1(b"secret", text), "{text}");
            assert!(!sha1(b"Secret", text), "{text}");
        }
        assert!(!sha1(b"secret", "{SHA}gVK8"));
        assert!(!md5_crypt(b"secret", "$1$a"));
    }
}
