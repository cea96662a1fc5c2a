//! Texts encrypted with the key of the fleet: certificates with their keys, accounts, orders in progress. No I/O.
//!
//! Used by the source process and by `tutti fleet cert`. A text is encrypted with AES-256-GCM-SIV (RFC 8452), which
//! tolerates repeated nonces, and bound to its name in the store, so that it cannot be moved to another name. The first
//! key of a file encrypts, all of them decrypt: so keys can be changed while all nodes run. Must never happen: that an
//! error contains a key or a text.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER};

/// Prefix of every encrypted text, with the version of the format.
const FORM: &str = "tutti1";

/// Bound to each text, before its name.
const DOMAIN: &str = "tutti fleet 1:";

/// Bytes of a key.
const KEY_LENGTH: usize = 32;

/// Maximum number of keys in a file.
const MOST_KEYS: usize = 8;

/// Digits of the id of a key.
const ID_DIGITS: usize = 8;

/// Why a text cannot be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// It does not have the format of an encrypted text.
    #[error("this is not an encrypted text of a fleet")]
    Form,
    /// The key is not available here.
    #[error("it is encrypted with the key `{id}`, but the secret file here has {known}")]
    OtherKey {
        /// The id of the key.
        id: String,
        /// The available keys.
        known: String,
    },
    /// The key does not match, the text was changed, or it belongs to another name.
    #[error("it was not encrypted under this name with the key `{id}`, or has been changed since")]
    Broken {
        /// The id of the key.
        id: String,
    },
    /// There is no randomness, or no memory.
    #[error("it cannot be encrypted")]
    Unable,
}

/// The keys of a fleet.
pub struct SealingKeys(Vec<Key>);

struct Key {
    id: String,
    key: LessSafeKey,
}

impl std::fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKeys")
    }
}

impl SealingKeys {
    /// Parses a secret file: a key on each line, 32 bytes in Base64, the first of which encrypts; empty lines and those
    /// that begin with `#` are ignored.
    ///
    /// # Errors
    /// The number of the line and what is expected, without any of the content.
    pub fn read(text: &str) -> Result<SealingKeys, String> {
        let mut keys: Vec<Key> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || {
                format!(
                    "line {} is not a key: expected 32 random bytes in Base64, as `tutti fleet secret` prints them",
                    number + 1
                )
            };
            let bytes = BASE64
                .decode(line.as_bytes())
                .or_else(|_| BASE64_NOPAD.decode(line.as_bytes()));
            let bytes = bytes.map_err(|_| wrong())?;
            keys.push(Key::of(&bytes).ok_or_else(wrong)?);
        }
        match keys.len() {
            0 => Err("it contains no key: `tutti fleet secret` prints one".to_owned()),
            1..=MOST_KEYS => Ok(SealingKeys(keys)),
            _ => Err(format!("it has more than {MOST_KEYS} keys")),
        }
    }

    /// Returns the id of the key that encrypts; it reveals nothing about the key.
    pub fn id(&self) -> &str {
        self.0.first().map_or("", |key| &key.id)
    }

    /// Encrypts a text for a name in the store.
    pub fn seal(&self, name: &str, text: &str) -> Result<String, SealError> {
        let key = self.0.first().ok_or(SealError::Unable)?;
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).map_err(|_| SealError::Unable)?;
        let mut sealed = text.as_bytes().to_vec();
        let bound = Aad::from(format!("{DOMAIN}{name}"));
        let nonced = Nonce::assume_unique_for_key(nonce);
        key.key
            .seal_in_place_append_tag(nonced, bound, &mut sealed)
            .map_err(|_| SealError::Unable)?;
        let bytes = [&nonce[..], &sealed].concat();
        Ok(format!("{FORM}:{}:{}", key.id, BASE64.encode(&bytes)))
    }

    /// Decrypts a text that was encrypted for this name.
    ///
    /// # Errors
    /// It belongs to another key or another name, or was changed.
    pub fn open(&self, name: &str, sealed: &str) -> Result<String, SealError> {
        let (id, rest) = parts(sealed)?;
        let broken = || SealError::Broken { id: id.to_owned() };
        let mut bytes = BASE64
            .decode(rest.as_bytes())
            .map_err(|_| SealError::Form)?;
        let (nonce, sealed) = bytes.split_first_chunk_mut().ok_or(SealError::Form)?;
        let key = self.0.iter().find(|key| key.id == id);
        let key = key.ok_or_else(|| SealError::OtherKey {
            id: id.to_owned(),
            known: self.known(),
        })?;
        let bound = Aad::from(format!("{DOMAIN}{name}"));
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.key.open_in_place(nonce, bound, sealed);
        let opened = opened.map_err(|_| broken())?;
        String::from_utf8(opened.to_vec()).map_err(|_| broken())
    }

    /// True for a text that is encrypted with the first key: it need not be encrypted again before another key is
    /// removed.
    pub fn is_current(&self, sealed: &str) -> bool {
        parts(sealed).is_ok_and(|(id, _)| id == self.id())
    }

    fn known(&self) -> String {
        let ids: Vec<String> = self.0.iter().map(|key| format!("`{}`", key.id)).collect();
        ids.join(", ")
    }
}

impl Key {
    fn of(bytes: &[u8]) -> Option<Key> {
        if bytes.len() != KEY_LENGTH {
            return None;
        }
        let key = UnboundKey::new(&AES_256_GCM_SIV, bytes).ok()?;
        let named = [b"tutti fleet key id:", bytes].concat();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &named);
        let mut id = HEXLOWER.encode(digest.as_ref());
        id.truncate(ID_DIGITS);
        Some(Key {
            id,
            key: LessSafeKey::new(key),
        })
    }
}

/// Returns the id of the key and the bytes of an encrypted text.
fn parts(sealed: &str) -> Result<(&str, &str), SealError> {
    let rest = sealed
        .strip_prefix(FORM)
        .and_then(|rest| rest.strip_prefix(':'));
    let (id, rest) = rest
        .and_then(|rest| rest.split_once(':'))
        .ok_or(SealError::Form)?;
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id {
        Ok((id, rest))
    } else {
        Err(SealError::Form)
    }
}

/// Creates a new key, as a line of a secret file.
pub fn new_key() -> Result<String, SealError> {
    let mut bytes = [0; KEY_LENGTH];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| SealError::Unable)?;
    Ok(BASE64.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[&str]) -> SealingKeys {
        SealingKeys::read(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_sealed_text_is_opened_by_who_has_the_key() {
        let line = new_key().unwrap();
        let (here, there) = (keys(&[&line]), keys(&["# the same", "", &line]));
        let sealed = here.seal("certificates/a", "secret words").unwrap();
        assert!(!sealed.contains("secret"), "{sealed}");
        assert_eq!(
            there.open("certificates/a", &sealed).unwrap(),
            "secret words"
        );
        // Equal texts cannot be recognized.
        assert_ne!(here.seal("certificates/a", "secret words").unwrap(), sealed);
        assert_eq!(
            here.seal("a", "")
                .and_then(|sealed| there.open("a", &sealed))
                .unwrap(),
            ""
        );
    }

    #[test]
    fn a_text_that_was_changed_or_moved_is_refused() {
        let keys = keys(&[&new_key().unwrap()]);
        let sealed = keys.seal("certificates/a", "text").unwrap();
        assert!(matches!(
            keys.open("certificates/b", &sealed),
            Err(SealError::Broken { .. })
        ));
        let (head, encoded) = sealed.rsplit_once(':').unwrap();
        let bytes = BASE64.decode(encoded.as_bytes()).unwrap();
        // Each bit of nonce, text and tag counts.
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            let other = format!("{head}:{}", BASE64.encode(&other));
            assert!(matches!(
                keys.open("certificates/a", &other),
                Err(SealError::Broken { .. })
            ));
        }
        let cut = format!("{head}:{}", BASE64.encode(&bytes[..NONCE_LEN - 1]));
        for other in [
            "",
            "text",
            "tutti1:",
            "tutti1:zzzzzzzz:AAAA",
            "tutti2:00000000:",
            &cut,
        ] {
            assert_eq!(
                keys.open("certificates/a", other),
                Err(SealError::Form),
                "{other}"
            );
        }
    }

    #[test]
    fn keys_are_changed_one_after_the_other() {
        let (old, new) = (new_key().unwrap(), new_key().unwrap());
        let before = keys(&[&old]);
        let both = keys(&[&new, &old]);
        let after = keys(&[&new]);
        let sealed = before.seal("a", "text").unwrap();
        assert_eq!(both.open("a", &sealed).unwrap(), "text");
        assert!(!both.is_current(&sealed) && before.is_current(&sealed));
        let message = after.open("a", &sealed).unwrap_err().to_string();
        assert!(
            message.contains(before.id())
                && message.contains(after.id())
                && !message.contains(&new),
            "{message}"
        );
        let anew = both.seal("a", "text").unwrap();
        assert_eq!(after.open("a", &anew).unwrap(), "text");
        assert_eq!(both.id(), after.id());
    }

    #[test]
    fn an_invalid_secret_file_is_reported_without_its_content() {
        let short = BASE64.encode(&[7; 31]);
        let long = BASE64.encode(&[7; 33]);
        for wrong in ["", "# nothing\n", "correct horse", &short, &long] {
            let message = SealingKeys::read(wrong).unwrap_err();
            assert!(message.contains("tutti fleet secret"), "{message}");
            assert!(
                wrong.is_empty() || wrong.starts_with('#') || !message.contains(wrong),
                "{message}"
            );
        }
        // As `openssl rand -base64 32` prints it.
        assert!(SealingKeys::read(&format!("{}\n", BASE64.encode(&[7; 32]))).is_ok());
        let many = vec![BASE64.encode(&[7; 32]); MOST_KEYS + 1].join("\n");
        assert!(SealingKeys::read(&many).is_err());
    }
}
