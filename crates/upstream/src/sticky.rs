//! The cookies that keep clients at servers.
//!
//! The value of a cookie is a code of the server's address, made with a key (HMAC-SHA256, RFC 2104): it does not reveal the address, and
//! only this server, and others with the same key, can make one.
//!
//! Must never: lead a request to a server that is not in the group.

use std::sync::LazyLock;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::{constant_time, rand};
use tutti_config::model::{StickyOptions, UpstreamAddress};

/// The shortest secret: as long as the output of the hash function (RFC 2104 §3).
const SHORTEST: usize = 32;

/// Bytes of a code that are sent; RFC 2104 §5 recommends at least half of the output.
const SENT: usize = 16;

/// The key of codes.
#[derive(Clone, Debug)]
pub struct StickyKey(Key);

impl StickyKey {
    /// Takes the content of a file.
    ///
    /// # Errors
    /// It is too short to be a secret.
    pub fn of_file(content: &[u8]) -> Result<Self, String> {
        let secret = content.trim_ascii();
        match secret.len() < SHORTEST {
            true => Err(format!(
                "has {} bytes, but a key needs at least {SHORTEST}; hint: make one with `openssl rand -base64 32`",
                secret.len()
            )),
            false => Ok(Self(Key::new(HMAC_SHA256, secret))),
        }
    }

    /// True if it makes the same codes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let mark = |key: &Self| sign(&key.0, b"");
        constant_time::verify_slices_are_equal(mark(self).as_ref(), mark(other).as_ref()).is_ok()
    }

    /// The key of this process; `None`: the system has no random bytes.
    pub(crate) fn random() -> Option<Self> {
        static RANDOM: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
            let mut secret = [0; 32];
            rand::fill(&mut secret).ok().map(|()| secret)
        });
        let secret = RANDOM.as_ref()?;
        Some(Self(Key::new(HMAC_SHA256, secret)))
    }

    /// The code of a server in a cookie. Groups with a cookie of the same name share it, so that a client stays at a server
    /// that two of them have.
    pub(crate) fn code(&self, cookie: &str, address: &UpstreamAddress) -> Box<str> {
        let text = format!("{}:{cookie}{address}", cookie.len());
        let code = sign(&self.0, text.as_bytes());
        let sent = code.as_ref().iter().take(SENT);
        sent.map(|byte| format!("{byte:02x}"))
            .collect::<String>()
            .into()
    }
}

/// True if a client sent this code; takes the same time for every wrong one.
pub(crate) fn is_code(code: &str, sent: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(code.as_bytes(), sent).is_ok()
}

/// `Set-Cookie` for a client (RFC 6265 §4.1).
pub(crate) fn cookie(options: &StickyOptions, code: &str, is_https: bool) -> String {
    let mut cookie = format!("{}={code}; Path={}", options.cookie, options.path);
    let mut put = |name: &str, value: &str| {
        cookie.push_str("; ");
        cookie.push_str(name);
        cookie.push_str(value);
    };
    if let Some(domain) = &options.domain {
        put("Domain=", domain);
    }
    if let Some(age) = options.max_age.0 {
        put("Max-Age=", &age.as_secs().to_string());
    }
    if options.secure.unwrap_or(is_https) {
        put("Secure", "");
    }
    if options.http_only {
        put("HttpOnly", "");
    }
    if let Some(same_site) = options.same_site.attribute() {
        put("SameSite=", same_site);
    }
    cookie
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tutti_config::model::SameSite;

    use super::*;

    fn address(text: &str) -> UpstreamAddress {
        UpstreamAddress::Inet(text.parse().unwrap())
    }

    #[test]
    fn a_code_depends_on_key_cookie_and_server() {
        let key = StickyKey::of_file(&[b'k'; 32]).unwrap();
        let code = key.code("u", &address("10.0.0.1:80"));
        assert_eq!(code.len(), 2 * SENT);
        assert!(!code.contains("10.0.0.1"));
        let same = StickyKey::of_file(b"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n").unwrap();
        assert_eq!(code, same.code("u", &address("10.0.0.1:80")));
        let other = StickyKey::of_file(&[b'l'; 32]).unwrap();
        for different in [
            other.code("u", &address("10.0.0.1:80")),
            StickyKey::random()
                .unwrap()
                .code("u", &address("10.0.0.1:80")),
            key.code("v", &address("10.0.0.1:80")),
            key.code("u", &address("10.0.0.1:81")),
        ] {
            assert_ne!(code, different);
            assert!(!is_code(&code, different.as_bytes()));
        }
        assert!(is_code(&code, code.as_bytes()));
        assert!(!is_code(&code, b""));
        let random = || {
            StickyKey::random()
                .unwrap()
                .code("u", &address("10.0.0.1:80"))
        };
        assert_eq!(random(), random(), "the key stays");
        assert!(
            StickyKey::of_file(&[b'k'; 31])
                .unwrap_err()
                .contains("has 31 bytes")
        );
    }

    #[test]
    fn a_cookie_has_the_configured_attributes() {
        let plain = StickyOptions::default();
        assert_eq!(
            cookie(&plain, "x", false),
            "route=x; Path=/; HttpOnly; SameSite=Lax"
        );
        assert_eq!(
            cookie(&plain, "x", true),
            "route=x; Path=/; Secure; HttpOnly; SameSite=Lax"
        );
        let mut full = StickyOptions {
            cookie: "at".to_owned(),
            path: "/app".to_owned(),
            domain: Some("site.example".to_owned()),
            secure: Some(false),
            http_only: false,
            same_site: SameSite::Omit,
            ..StickyOptions::default()
        };
        full.max_age.0 = Some(Duration::from_secs(3600));
        assert_eq!(
            cookie(&full, "x", true),
            "at=x; Path=/app; Domain=site.example; Max-Age=3600"
        );
    }
}
