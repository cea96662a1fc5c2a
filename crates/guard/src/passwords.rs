//! Names and passwords: checks them, and remembers recent correct ones.
//!
//! Must never: take less time for an unknown name or for a hash of a quick kind, or store a password.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash as Phc, PasswordVerifier as _};
use aws_lc_rs::hmac;
use rustc_hash::FxHashMap;
use tutti_config::model::{HashKind, PasswordHash};

use crate::{des_crypt, legacy_hashes as legacy};

/// The longest name and the longest password. Hashing longer ones takes longer, and bcrypt only uses 72 bytes.
const MOST_BYTES: usize = 1024;

/// More users than this belong in a directory service, reached by `forward`.
const MOST_USERS: usize = 100_000;

/// Time for which a correct password is not checked again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Most remembered passwords.
const MOST_REMEMBERED: usize = 4096;

/// All users with their hashes.
#[derive(Debug)]
pub struct Accounts {
    users: BTreeMap<String, PasswordHash>,
    /// Hashes whose check takes the time that each check takes.
    decoys: Vec<PasswordHash>,
    /// The slowest of the weak hashes, beside others that are not weak.
    weak_decoy: Option<PasswordHash>,
    hasher: RandomState,
}

/// A password to check, which takes long.
#[derive(Debug)]
pub struct PasswordCheck {
    /// The user's hash.
    hash: Option<PasswordHash>,
    /// A hash that is checked, too, because the user's is missing or takes no time.
    decoy: Option<PasswordHash>,
    /// A weak hash that is checked, too, because the user's is none: what it takes must not tell whose hash is weak.
    weak_decoy: Option<PasswordHash>,
    password: Vec<u8>,
}

impl Accounts {
    /// These users.
    pub fn new(users: BTreeMap<String, PasswordHash>) -> Self {
        let has_slow = users.values().any(|hash| !hash.kind.is_weak());
        let weak = users.values().filter(|hash| hash.kind.is_weak());
        let slowest = weak.max_by_key(|hash| match hash.kind {
            HashKind::Md5Crypt => 2,
            HashKind::DesCrypt => 1,
            _ => 0,
        });
        let weak_decoy = slowest.filter(|_| has_slow).cloned();
        let takes_time = |hash: &&PasswordHash| !has_slow || !hash.kind.is_weak();
        Self {
            // Always the same for one name, so that repeating reveals nothing.
            decoys: users
                .values()
                .filter(takes_time)
                .take(1000)
                .cloned()
                .collect(),
            weak_decoy,
            users,
            hasher: RandomState::new(),
        }
    }

    /// The check for a name and a password; `None`: they cannot be right.
    pub fn question(&self, name: &str, password: &[u8]) -> Option<PasswordCheck> {
        if name.len() > MOST_BYTES || password.len() > MOST_BYTES {
            return None;
        }
        let hash = self.users.get(name);
        let number = self.hasher.hash_one(name) as usize % self.decoys.len().max(1);
        let decoy = self.decoys.get(number)?;
        let is_needed = match hash {
            None => true,
            Some(hash) => hash.kind.is_weak() && !decoy.kind.is_weak(),
        };
        let is_as_slow = |decoy: &&PasswordHash| hash.is_none_or(|hash| hash.kind != decoy.kind);
        let weak_decoy = self.weak_decoy.as_ref().filter(is_as_slow);
        Some(PasswordCheck {
            hash: hash.cloned(),
            weak_decoy: weak_decoy.cloned(),
            decoy: is_needed.then(|| decoy.clone()),
            password: password.to_vec(),
        })
    }
}

impl PasswordCheck {
    /// True if the password is right. Takes as long as the hash was designed to: never call it on a thread that serves other requests.
    pub fn answer(&self) -> bool {
        for decoy in [&self.decoy, &self.weak_decoy].into_iter().flatten() {
            // It may be right: it is another user's.
            std::hint::black_box(is_right(decoy, &self.password));
        }
        let hash = self.hash.as_ref();
        hash.is_some_and(|hash| is_right(hash, &self.password))
    }

    /// The user's hash; nothing for an unknown user, whose password is never right.
    fn hash_text(&self) -> &str {
        self.hash.as_ref().map_or("", |hash| &hash.text)
    }
}

fn is_right(hash: &PasswordHash, password: &[u8]) -> bool {
    let text = hash.text.as_str();
    match hash.kind {
        HashKind::Bcrypt => bcrypt::verify(password, text).unwrap_or(false),
        HashKind::Argon2 => Phc::new(text)
            .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
        HashKind::ShaCrypt => sha_crypt::PasswordHashRef::new(text).is_ok_and(|hash| {
            sha_crypt::ShaCrypt::default()
                .verify_password(password, hash)
                .is_ok()
        }),
        HashKind::Md5Crypt => legacy::md5_crypt(password, text),
        HashKind::Sha1 => legacy::sha1(password, text),
        HashKind::DesCrypt => des_crypt::is_right(password, text),
    }
}

/// The users of a file.
#[derive(Debug, Default)]
pub struct Htpasswd {
    /// By name.
    pub users: BTreeMap<String, PasswordHash>,
    /// The numbers of the lines whose hash is weak.
    pub weak_lines: Vec<usize>,
}

/// Reads what `htpasswd` writes: a name, a colon and a hash in each line.
///
/// # Errors
/// The first line that cannot be used, by its number.
pub fn read_htpasswd(bytes: &[u8]) -> Result<Htpasswd, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let mut found = Htpasswd::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |what: &str| format!("line {number}: {what}");
        // Some files have comments after a second colon.
        let (name, rest) = line
            .split_once(':')
            .ok_or_else(|| at("there is no colon between name and hash"))?;
        let hash = rest.split(':').next().unwrap_or_default();
        let hash = PasswordHash::parse(hash)
            .map_err(|(message, hint)| at(&format!("{message}; {hint}")))?;
        if hash.kind.is_weak() {
            found.weak_lines.push(number);
        }
        found.users.insert(name.to_owned(), hash);
        if found.users.len() > MOST_USERS {
            return Err(at("there are more users than a file may have"));
        }
    }
    Ok(found)
}

/// Recent correct passwords, by a keyed hash.
#[derive(Debug)]
pub struct Remembered {
    key: hmac::Key,
    known: Mutex<FxHashMap<[u8; 32], Instant>>,
}

/// The hash of a name, its password and the stored hash.
#[derive(Clone, Copy, Debug)]
pub struct Tag([u8; 32]);

impl Remembered {
    /// Nothing yet.
    pub fn new() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut secret = [0; 32];
        aws_lc_rs::rand::fill(&mut secret)?;
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            known: Mutex::default(),
        })
    }

    /// The tag of a check. It changes with the stored hash.
    pub fn tag(&self, name: &str, question: &PasswordCheck) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [
            name.as_bytes(),
            question.hash_text().as_bytes(),
            &question.password,
        ] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 32];
        let signed = context.sign();
        for (byte, signed) in tag.iter_mut().zip(signed.as_ref()) {
            *byte = *signed;
        }
        Tag(tag)
    }

    /// True if it was correct recently.
    pub fn knows(&self, tag: Tag, now: Instant) -> bool {
        let known = self.known();
        let until = known.get(&tag.0);
        until.is_some_and(|until| *until > now)
    }

    /// Remembers it as correct.
    pub fn note(&self, tag: Tag, now: Instant) {
        let mut known = self.known();
        if known.len() >= MOST_REMEMBERED {
            known.retain(|_, until| *until > now);
        }
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(tag.0, now + REMEMBERED);
    }

    fn known(&self) -> MutexGuard<'_, FxHashMap<[u8; 32], Instant>> {
        // An entry is added in one step.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `secret`, by `htpasswd -nbB -C 4`.
    const BCRYPT: &str = "$2y$04$iWfwCaEn3fIKxLzIaybeMORyRRbIsn/EgASb7gOLqepJKnh8gkWrS";

    fn accounts(text: &str) -> Accounts {
        Accounts::new(read_htpasswd(text.as_bytes()).unwrap().users)
    }

    fn is_right(accounts: &Accounts, name: &str, password: &str) -> bool {
        let question = accounts.question(name, password.as_bytes());
        question.is_some_and(|question| question.answer())
    }

    #[test]
    fn each_kind_of_hash_verifies_its_password() {
        let known_sha512 = "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/";
        // By PHP's `password_hash`.
        let known_argon2 = "$argon2id$v=19$m=1024,t=1,p=1$TXJGQmxxSkNRdHZwb1lPLw$f53WSC9pfRtyCPHCCeNJPGBuVv08KM0FFHR4ed8NKuY";
        let text = format!(
            "carla:{known_argon2}\nanna:{BCRYPT}\n# a comment\n\nbert:{known_sha512}:Bert\r\n"
        );
        let accounts = accounts(&text);
        assert!(is_right(&accounts, "anna", "secret"));
        assert!(is_right(&accounts, "carla", "secret"));
        assert!(!is_right(&accounts, "carla", "Secret"));
        assert!(!is_right(&accounts, "anna", "Secret"));
        assert!(!is_right(&accounts, "anna", ""));
        assert!(is_right(&accounts, "bert", "password"));
        assert!(!is_right(&accounts, "bert", "secret"));
        for unknown in ["", "carl", "anna:", "ANNA"] {
            assert!(!is_right(&accounts, unknown, "secret"), "{unknown}");
            assert!(!is_right(&accounts, unknown, "password"), "{unknown}");
        }
    }

    #[test]
    fn the_password_of_an_unknown_name_is_checked_like_others() {
        let accounts = accounts(&format!("anna:{BCRYPT}"));
        let question = accounts.question("unknown", b"secret").unwrap();
        assert_eq!(question.decoy.as_ref().unwrap().text, BCRYPT);
        assert!(!question.answer());
        assert!(accounts.question("anna", &[b'x'; 1025]).is_none());
        assert!(Accounts::new(BTreeMap::new()).question("a", b"b").is_none());
    }

    #[test]
    fn a_quick_hash_takes_the_time_of_a_slow_one() {
        let quick = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
        let mixed = accounts(&format!("anna:{BCRYPT}\nbert:{quick}\ncarl:{quick}"));
        for name in ["bert", "carl", "unknown", "someone"] {
            let question = mixed.question(name, b"secret").unwrap();
            assert_eq!(question.decoy.as_ref().unwrap().text, BCRYPT, "{name}");
            assert_eq!(question.answer(), ["bert", "carl"].contains(&name));
        }
        assert!(mixed.question("anna", b"secret").unwrap().decoy.is_none());
        // The password of another user does not count.
        let other = accounts(&format!("anna:{BCRYPT}\nbert:abNANd1rDfiNd"));
        assert!(!is_right(&other, "bert", "secret"));
        let all_quick = accounts(&format!("bert:{quick}"));
        let question = all_quick.question("unknown", b"secret").unwrap();
        assert_eq!(question.decoy.unwrap().text, quick);
        let question = all_quick.question("bert", b"secret").unwrap();
        assert!(question.decoy.is_none());
    }

    #[test]
    fn a_file_says_which_lines_are_weak() {
        let text = format!(
            "# users\nanna:{BCRYPT}\nbert:abNANd1rDfiNc\n\ncarl:$1$a$8CfZSfErbeskipdhZHtvu.\n"
        );
        let found = read_htpasswd(text.as_bytes()).unwrap();
        assert_eq!(found.weak_lines, [3, 5]);
        assert_eq!(found.users.len(), 3);
    }

    #[test]
    fn a_file_says_which_line_is_wrong() {
        for (text, said) in [
            ("anna", "line 1: there is no colon"),
            ("\nanna:secret", "line 2: this is not a password hash"),
            ("anna:$apr1$a$b", "line 1: the hash is malformed"),
        ] {
            let error = read_htpasswd(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        assert!(read_htpasswd(b"\xff").is_err());
        assert!(read_htpasswd(b"").unwrap().users.is_empty());
    }

    #[test]
    fn remembered_passwords_expire_and_end_with_another_hash() {
        let remembered = Remembered::new().unwrap();
        let now = Instant::now();
        let one = accounts(&format!("anna:{BCRYPT}"));
        let question =
            |accounts: &Accounts, password: &[u8]| accounts.question("anna", password).unwrap();
        let tag = remembered.tag("anna", &question(&one, b"secret"));
        assert!(!remembered.knows(tag, now));
        remembered.note(tag, now);
        assert!(remembered.knows(tag, now));
        assert!(!remembered.knows(tag, now + REMEMBERED));
        let wrong = remembered.tag("anna", &question(&one, b"Secret"));
        assert!(!remembered.knows(wrong, now));
        let changed = accounts(&format!("anna:{}", BCRYPT.replace("$2y$", "$2b$")));
        let tag = remembered.tag("anna", &question(&changed, b"secret"));
        assert!(!remembered.knows(tag, now));
        for number in 0..10_000_u32 {
            let tag = remembered.tag("anna", &question(&one, &number.to_be_bytes()));
            remembered.note(tag, now);
        }
        assert!(remembered.known().len() <= MOST_REMEMBERED);
    }
}
