//! Password hashes, as written in a configuration or in a file made by `htpasswd`.
//!
//! Decides whether a hash can be used; hashes nothing. It must never accept one that keeps a processor busy for
//! minutes.

use std::fmt;

/// The hash of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    /// Its kind.
    pub kind: HashKind,
    /// As written.
    pub text: String,
}

/// The algorithm of a password hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// `$2y$…`
    Bcrypt,
    /// `$argon2id$…`
    Argon2,
    /// `$5$…`, `$6$…`
    ShaCrypt,
    /// `$apr1$…`, `$1$…`
    Md5Crypt,
    /// `{SHA}…`, and with a salt `{SSHA}…` (RFC 2307 §5.3)
    Sha1,
    /// The traditional crypt(3): 13 characters
    DesCrypt,
}

impl HashKind {
    /// True if a thief of the hash can try millions of passwords in a second.
    pub fn is_weak(self) -> bool {
        match self {
            Self::Bcrypt | Self::Argon2 | Self::ShaCrypt => false,
            Self::Md5Crypt | Self::Sha1 | Self::DesCrypt => true,
        }
    }
}

/// Keeps the hash out of logs.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PasswordHash({:?})", self.kind)
    }
}

/// Costs beyond these take seconds per request on a current processor.
const MOST_BCRYPT: u32 = 16;
const MOST_KIBIBYTES: u32 = 256 * 1024;
const MOST_PASSES: u32 = 64;
const MOST_LANES: u32 = 16;
const MOST_ROUNDS: u32 = 5_000_000;

/// The remedy for an unusable hash.
const CURE: &str = "create one with `htpasswd -nB NAME`";

/// The fault, and the remedy.
type HashFault = (String, String);

impl PasswordHash {
    /// Parses a hash.
    ///
    /// # Errors
    /// The hash is malformed, or its kind is unknown.
    pub fn parse(text: &str) -> Result<Self, (String, String)> {
        let kind = kind(text)?;
        let text = text.to_owned();
        Ok(Self { kind, text })
    }
}

fn kind(text: &str) -> Result<HashKind, HashFault> {
    let fault = |message: &str| Err((message.to_owned(), CURE.to_owned()));
    let Some(rest) = text.strip_prefix('$') else {
        return match text {
            _ if is_sha1(text) => Ok(HashKind::Sha1),
            _ if text.len() == 13 && is_crypt64(text) => Ok(HashKind::DesCrypt),
            _ => fault("this is not a password hash, and passwords themselves do not belong here"),
        };
    };
    let (name, rest) = rest.split_once('$').unwrap_or((rest, ""));
    let (kind, is_sound) = match name {
        "2a" | "2b" | "2y" => (HashKind::Bcrypt, is_bcrypt(rest)),
        "argon2id" | "argon2i" | "argon2d" => (HashKind::Argon2, is_argon2(rest)),
        "5" | "6" => (HashKind::ShaCrypt, is_sha_crypt(rest)),
        "apr1" | "1" => (HashKind::Md5Crypt, is_md5_crypt(rest)),
        _ => return fault("hashes of this kind are not supported"),
    };
    match is_sound {
        true => Ok(kind),
        false => fault("the hash is malformed, or too expensive to check on each request"),
    }
}

fn is_base64(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"./+=".contains(&byte))
}

/// `10$` and 53 characters.
fn is_bcrypt(rest: &str) -> bool {
    let Some((cost, hash)) = rest.split_once('$') else {
        return false;
    };
    let cost = cost.parse().ok().filter(|_| cost.len() == 2);
    cost.is_some_and(|cost: u32| (4..=MOST_BCRYPT).contains(&cost))
        && hash.len() == 53
        && is_base64(hash)
}

/// `v=19$m=65536,t=3,p=4$SALT$HASH`.
fn is_argon2(rest: &str) -> bool {
    let parts: Vec<&str> = rest.split('$').collect();
    let ["v=19", costs, salt, hash] = parts.as_slice() else {
        return false;
    };
    let within = |name: &str, most: u32| {
        let mut values = costs.split(',').filter_map(|cost| cost.strip_prefix(name));
        let value = values.next().and_then(|value| value.parse::<u32>().ok());
        value.is_some_and(|value| (1..=most).contains(&value))
    };
    within("m=", MOST_KIBIBYTES)
        && within("t=", MOST_PASSES)
        && within("p=", MOST_LANES)
        && is_base64(salt)
        && is_base64(hash)
}

/// `rounds=10000$SALT$HASH`; the rounds may be left out.
fn is_sha_crypt(rest: &str) -> bool {
    let parts: Vec<&str> = rest.split('$').collect();
    match parts.as_slice() {
        [salt, hash] => is_base64(salt) && is_base64(hash),
        [rounds, salt, hash] => {
            let rounds = rounds
                .strip_prefix("rounds=")
                .and_then(|rounds| rounds.parse().ok());
            rounds.is_some_and(|rounds: u32| (1000..=MOST_ROUNDS).contains(&rounds))
                && is_base64(salt)
                && is_base64(hash)
        }
        _ => false,
    }
}

/// `SALT$` with up to eight characters, and 22 characters.
fn is_md5_crypt(rest: &str) -> bool {
    let Some((salt, hash)) = rest.split_once('$') else {
        return false;
    };
    let is_salt = salt.len() <= 8 && salt.bytes().all(|byte| byte.is_ascii_graphic());
    is_salt && hash.len() == 22 && is_crypt64(hash)
}

/// 20 bytes in base64, after `{SSHA}` with a salt behind them.
fn is_sha1(text: &str) -> bool {
    let salted = |digits: &str| (29..=128).contains(&digits.len()) && is_base64(digits);
    match text.strip_prefix("{SHA}") {
        Some(digits) => digits.len() == 28 && is_base64(digits),
        None => text.strip_prefix("{SSHA}").is_some_and(salted),
    }
}

/// The digits of crypt(3).
fn is_crypt64(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"./".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_other_servers_are_known_and_weak() {
        for (text, kind) in [
            ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", HashKind::Sha1),
            ("{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0", HashKind::Sha1),
            ("$apr1$lZL6V/ci$PR6QJXkRFUzdUuaYcwrI//", HashKind::Md5Crypt),
            ("$1$a$8CfZSfErbeskipdhZHtvu.", HashKind::Md5Crypt),
            ("abNANd1rDfiNc", HashKind::DesCrypt),
        ] {
            let found = PasswordHash::parse(text).unwrap().kind;
            assert_eq!(found, kind, "{text}");
            assert!(found.is_weak());
        }
    }

    #[test]
    fn unusable_hashes_are_refused_with_a_cure() {
        let bcrypt = format!("$2y$10${}", "a".repeat(53));
        assert_eq!(PasswordHash::parse(&bcrypt).unwrap().kind, HashKind::Bcrypt);
        for wrong in [
            "secret",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g",
            "{SSHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "{PLAIN}secret",
            "$apr1$123456789$eIMz/iKDkbtys/uU7LEK00",
            "$1$abc$abc",
            "abNANd1rDfiN!",
            "$2y$31$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "$2y$10$short",
            "$argon2id$v=19$m=4194304,t=1,p=1$c2FsdHNhbHQ$aGFzaA",
            "$argon2id$v=19$t=1,p=1$c2FsdHNhbHQ$aGFzaA",
            "$6$rounds=999999999$salt$hash",
            "$6$$",
            "$",
            "",
        ] {
            let (message, hint) = PasswordHash::parse(wrong).unwrap_err();
            assert!(
                !message.contains("secret") && hint.contains("htpasswd"),
                "{message}"
            );
        }
        assert!(!format!("{:?}", PasswordHash::parse(&bcrypt)).contains("aaaa"));
        assert!(!HashKind::Bcrypt.is_weak());
    }
}
