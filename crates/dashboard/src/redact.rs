//! Hides secret values of a configuration: more people can see the dashboard than the control API, which can change
//! everything.
//!
//! Hidden are all values of `environment`, session ticket keys, values with secret-like names, and credentials in URLs.
//! A value is replaced by a mark that differs for different values, and changes at a restart: so a comparison shows
//! that a secret has changed, but values cannot be tested against it.

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;

/// Names that contain one of these are secret.
const SECRET_WORDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "auth",
    "cookie",
    "dsn",
    "apikey",
    "key",
    "signature",
];

/// Names that contain such a word, but are paths.
const NO_SECRETS: [&str; 2] = ["key", "token_file"];

/// Whole names that are secret.
const SECRET_NAMES: [&str; 3] = ["tickets", "environment", "pass_phrase"];

const MARK_BYTES: usize = 3;

/// Hides values.
pub(crate) struct Redactor {
    key: hmac::Key,
}

impl Redactor {
    pub(crate) fn new() -> Redactor {
        let mut key = [0; 32];
        // Without random bytes the marks could be guessed, but the values stay hidden.
        let _ = aws_lc_rs::rand::fill(&mut key);
        Redactor {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        }
    }

    /// Returns the text shown instead of a value.
    pub(crate) fn mark(&self, value: &str) -> String {
        let tag = hmac::sign(&self.key, value.as_bytes());
        let short = tag.as_ref().get(..MARK_BYTES).unwrap_or_default();
        format!("hidden, {}", HEXLOWER.encode(short))
    }

    /// Returns a text without its secrets, if it contains any.
    pub(crate) fn text(&self, text: &str) -> Option<String> {
        if is_secret_argument(text) || has_credentials(text) {
            return Some(self.mark(text));
        }
        self.url(text)
    }

    /// Returns a URL without user, password and query.
    fn url(&self, text: &str) -> Option<String> {
        let (scheme, rest) = text.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        let user = authority.rsplit_once('@');
        let query = path.split_once('?');
        if user.is_none() && query.is_none() {
            return None;
        }
        let authority = match user {
            Some((user, host)) => format!("({})@{host}", self.mark(user)),
            None => authority.to_owned(),
        };
        let path = match query {
            Some((path, query)) => format!("{path}?({})", self.mark(query)),
            None => path.to_owned(),
        };
        Some(format!("{scheme}://{authority}{path}"))
    }
}

/// True if the whole value of a member with this name is hidden.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain: String = name
        .chars()
        .filter(|one| *one != '-' && *one != '_')
        .collect();
    let has_word = SECRET_WORDS.iter().any(|word| plain.contains(word));
    SECRET_NAMES.contains(&name.as_str()) || has_word && !NO_SECRETS.contains(&name.as_str())
}

/// True if the next value in an array of arguments is a secret: `--password`.
pub(crate) fn announces_secret(text: &str) -> bool {
    text.starts_with('-') && !text.contains(['=', ' ']) && is_secret_name(text)
}

/// `--password=hunter2`, `PGPASSWORD=hunter2`
fn is_secret_argument(text: &str) -> bool {
    let name = text.split_once(['=', ':']).map(|(name, _)| name);
    name.is_some_and(|name| {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        name.bytes().all(is_word) && is_secret_name(name)
    })
}

/// `Bearer TOKEN`, `Basic BASE64`: the value of a header field.
fn has_credentials(text: &str) -> bool {
    let scheme = text.split_once(' ').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("basic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_and_names_of_options_are_not() {
        for name in [
            "environment",
            "DB_PASSWORD",
            "X-Api-Key",
            "Authorization",
            "tickets",
            "client_secret",
            "Set-Cookie",
            "SENTRY_DSN",
            "mysqli.default_password",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "key",
            "token_file",
            "root",
            "pass",
            "certificate",
            "user",
            "script",
            "keepalive_interval",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn texts_that_hold_a_secret_are_marked_alike_if_they_are_alike() {
        let redactor = Redactor::new();
        let hide = |text: &str| redactor.text(text);
        assert_eq!(hide("--port=80"), None);
        assert_eq!(hide("http://127.0.0.1:8080/x"), None);
        assert_eq!(hide("applications/blog"), None);
        let hidden = hide("--password=hunter2").unwrap();
        assert!(hidden.starts_with("hidden, ") && !hidden.contains("hunter2"));
        assert_eq!(hide("--password=hunter2").unwrap(), hidden);
        assert_ne!(hide("--password=hunter3").unwrap(), hidden);
        assert_ne!(Redactor::new().text("--password=hunter2").unwrap(), hidden);
        let url = hide("https://me:hunter2@collector.example/v1?key=hunter2").unwrap();
        assert!(
            url.starts_with("https://(hidden, ")
                && url.contains(")@collector.example/v1?(hidden, "),
            "{url}"
        );
        assert!(!url.contains("hunter2"));
        assert!(hide("Bearer abc").unwrap().starts_with("hidden"));
        assert!(announces_secret("--token") && !announces_secret("--port"));
    }
}
