//! Session tickets: the state that a client stores for the server, sealed (RFC 5077, RFC 8446 §4.6.1).
//!
//! A ticket consists of the name of a key, a random salt, and rustls' state with the time, sealed by AES-256-GCM under a key derived from
//! the two: so no nonce repeats, however many tickets one key makes on however many servers. The rule about client certificates is part of
//! the derivation, so a ticket from a listener without such a rule is invalid on one with it (docs/project/decisions/0140).

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use tutti_config::model::TicketKey;

const NAME_BYTES: usize = 16;
const SALT_BYTES: usize = 32;
const TIME_BYTES: usize = 8;

/// The longest permitted lifetime of a ticket (RFC 8446 §4.6.1): seven days.
const MAX_LIFETIME: u32 = 604_800;

/// Random keys are renewed after this time, or the timeout of sessions if that is longer.
const RENEWAL: Duration = Duration::from_secs(3600);

/// Tolerated clock difference of servers that share keys, in seconds.
const SKEW: u64 = 60;

/// Seals and opens tickets.
pub(crate) struct TicketKeys {
    keys: Keys,
    timeout: Duration,
    rule: [u8; 32],
}

enum Keys {
    /// The last one seals tickets.
    Given(Vec<Key>),
    Random(Box<Mutex<Random>>),
}

struct Random {
    current: Key,
    since: SystemTime,
    previous: Option<Key>,
}

struct Key {
    name: [u8; NAME_BYTES],
    secret: Prk,
}

impl TicketKeys {
    /// With keys from the configuration; `rule` is the listener's rule about client certificates.
    pub(crate) fn given(keys: &[TicketKey], timeout: Duration, rule: [u8; 32]) -> Self {
        let keys = keys.iter().filter_map(|key| Key::new(&key.0, &rule));
        TicketKeys {
            keys: Keys::Given(keys.collect()),
            timeout,
            rule,
        }
    }

    /// With random keys; `None` if there is no randomness.
    pub(crate) fn random(timeout: Duration, rule: [u8; 32]) -> Option<Self> {
        let random = Random {
            current: Key::random(&rule)?,
            since: SystemTime::now(),
            previous: None,
        };
        Some(TicketKeys {
            keys: Keys::Random(Box::new(Mutex::new(random))),
            timeout,
            rule,
        })
    }

    fn seal(&self, plain: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        match &self.keys {
            Keys::Given(keys) => keys.last()?.seal(plain, now),
            Keys::Random(random) => {
                let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
                let age = match now.duration_since(random.since) {
                    Ok(age) => age,
                    // A clock that was set back makes the age unknown: then the key is renewed, too.
                    Err(back) if back.duration() > Duration::from_secs(SKEW) => Duration::MAX,
                    Err(_) => Duration::ZERO,
                };
                if age >= self.timeout.max(RENEWAL) {
                    let fresh = Key::random(&self.rule)?;
                    random.previous = Some(std::mem::replace(&mut random.current, fresh));
                    random.since = now;
                }
                random.current.seal(plain, now)
            }
        }
    }

    fn open(&self, ticket: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let limit = |key: &Key| key.open(rest, now, self.timeout);
        match &self.keys {
            Keys::Given(keys) => keys.iter().find(|key| key.name == *name).and_then(limit),
            Keys::Random(random) => {
                let random = random.lock().unwrap_or_else(PoisonError::into_inner);
                let keys = [Some(&random.current), random.previous.as_ref()];
                let key = keys.into_iter().flatten().find(|key| key.name == *name);
                key.and_then(limit)
            }
        }
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys")
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.timeout.as_secs())
            .unwrap_or(MAX_LIFETIME)
            .min(MAX_LIFETIME)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, SystemTime::now())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(cipher, SystemTime::now())
    }
}

impl Key {
    /// The first 16 bytes are the name, the rest is secret, as in OpenSSL's keys.
    fn new(bytes: &[u8], rule: &[u8; 32]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk()?;
        Some(Key {
            name: *name,
            secret: Salt::new(HKDF_SHA256, rule).extract(secret),
        })
    }

    fn random(rule: &[u8; 32]) -> Option<Self> {
        let mut bytes = [0; 80];
        rand::fill(&mut bytes).ok()?;
        Key::new(&bytes, rule)
    }

    fn cipher(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        let info: [&[u8]; 2] = [b"tutti session ticket 1", salt];
        let key = self.secret.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }

    fn seal(&self, plain: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let mut sealed = Vec::with_capacity(TIME_BYTES + plain.len() + AES_256_GCM.tag_len());
        sealed.extend_from_slice(&seconds(now).to_be_bytes());
        sealed.extend_from_slice(plain);
        // Each derived key is used once.
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        self.cipher(&salt)?
            .seal_in_place_append_tag(nonce, Aad::from(self.name), &mut sealed)
            .ok()?;
        Some([&self.name[..], &salt, &sealed].concat())
    }

    fn open(&self, rest: &[u8], now: SystemTime, timeout: Duration) -> Option<Vec<u8>> {
        let (salt, sealed) = rest.split_first_chunk()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let plain = self
            .cipher(salt)?
            .open_in_place(nonce, Aad::from(self.name), &mut sealed)
            .ok()?;
        let (made, plain) = plain.split_first_chunk()?;
        let (made, now) = (u64::from_be_bytes(*made), seconds(now));
        let is_valid = made <= now + SKEW && now.saturating_sub(made) < timeout.as_secs();
        is_valid.then(|| plain.to_vec())
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(300);

    fn keys(numbers: &[u8]) -> TicketKeys {
        let keys: Vec<TicketKey> = numbers.iter().map(|n| TicketKey(vec![*n; 48])).collect();
        TicketKeys::given(&keys, TIMEOUT, [0; 32])
    }

    #[test]
    fn all_keys_open_and_the_last_one_makes() {
        let now = SystemTime::now();
        let ticket = keys(&[1, 2]).seal(b"session", now).unwrap();
        assert_eq!(ticket[..16], [2; 16]);
        assert_eq!(keys(&[2, 3]).open(&ticket, now).unwrap(), b"session");
        assert_eq!(keys(&[1, 3]).open(&ticket, now), None);
    }

    #[test]
    fn a_ticket_lasts_as_long_as_a_session() {
        let now = SystemTime::now();
        let keys = keys(&[1]);
        let ticket = keys.seal(b"session", now).unwrap();
        assert!(keys.open(&ticket, now + TIMEOUT / 2).is_some());
        assert!(keys.open(&ticket, now + TIMEOUT).is_none());
        assert!(
            keys.open(&ticket, now - Duration::from_secs(3600))
                .is_none()
        );
    }

    #[test]
    fn another_rule_about_clients_opens_nothing() {
        let now = SystemTime::now();
        let key = [TicketKey(vec![7; 80])];
        let open = TicketKeys::given(&key, TIMEOUT, [0; 32]);
        let strict = TicketKeys::given(&key, TIMEOUT, [1; 32]);
        let ticket = open.seal(b"session", now).unwrap();
        assert!(open.open(&ticket, now).is_some());
        assert!(strict.open(&ticket, now).is_none());
    }

    #[test]
    fn random_keys_are_renewed_and_the_one_before_still_opens() {
        let keys = TicketKeys::random(TIMEOUT, [0; 32]).unwrap();
        let start = SystemTime::now();
        let late = start + RENEWAL - Duration::from_secs(10);
        let first = keys.seal(b"a", late).unwrap();
        let second = keys.seal(b"b", late + Duration::from_secs(20)).unwrap();
        assert_ne!(first[..16], second[..16]);
        let after = late + Duration::from_secs(30);
        assert_eq!(keys.open(&first, after).unwrap(), b"a");
        assert_eq!(keys.open(&second, after).unwrap(), b"b");
        let set_back = start - Duration::from_secs(24 * 3600);
        let third = keys.seal(b"c", set_back).unwrap();
        assert_ne!(second[..16], third[..16]);
        let fourth = keys.seal(b"d", set_back).unwrap();
        assert_eq!(third[..16], fourth[..16]);
    }

    #[test]
    fn garbage_opens_nothing() {
        let now = SystemTime::now();
        let keys = keys(&[1]);
        let ticket = keys.seal(b"session", now).unwrap();
        for length in 0..ticket.len() {
            assert!(keys.open(&ticket[..length], now).is_none());
            let mut damaged = ticket.clone();
            damaged[length] ^= 1;
            assert!(keys.open(&damaged, now).is_none());
        }
    }
}
