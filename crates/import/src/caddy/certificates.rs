//! Certificates that Caddy gets by itself: an account, and the names of sites.

use serde_json::{Value, json};

use super::tree::Directive;

/// Ends of names for which no authority issues certificates (RFC 6761, RFC 6762, RFC 8375), and Caddy's own.
const LOCAL: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "home",
    "lan",
    "test",
    "invalid",
    "example",
    "arpa",
    "onion",
    "localdomain",
];

/// The name of the account.
pub(super) const ACCOUNT: &str = "automatic";

/// The account with Tutti's own authority, in place of Caddy's.
pub(super) const INTERNAL: &str = "internal";

/// The options of all sites about certificates.
#[derive(Default)]
pub(super) struct Certificates {
    pub(super) email: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) is_off: bool,
    pub(super) redirects_not: bool,
    /// All certificates are from the own authority.
    pub(super) are_local: bool,
}

impl Certificates {
    /// Takes an option for all sites; false if it is not about certificates.
    pub(super) fn option(&mut self, option: &Directive) -> bool {
        let first = option.argument(0);
        match option.name() {
            "email" => self.email = Some(first.to_owned()),
            "acme_ca" => self.directory = Some(first.to_owned()),
            "auto_https" => {
                self.is_off = matches!(first, "off" | "disable_certs");
                self.redirects_not = matches!(first, "off" | "disable_redirects");
            }
            _ => return false,
        }
        true
    }

    /// `certificate` for a site by name, if an authority gives one.
    pub(super) fn of(&mut self, site: &Directive, host: &str) -> Option<Value> {
        let mut said = site.inner().iter().filter(|inner| inner.name() == "tls");
        let mut is_internal = self.are_local;
        if let Some(tls) = said.next() {
            if !tls.inner().is_empty() {
                return None;
            }
            match tls.argument(0) {
                "internal" => is_internal = true,
                email if email.contains('@') => {
                    self.email.get_or_insert_with(|| email.to_owned());
                }
                _ => return None,
            }
        }
        let host = host.to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = address.parse::<std::net::IpAddr>() {
            // As Caddy does: it asks no authority for them.
            let is_given = is_internal || !self.is_off;
            let names = [address.to_string()];
            return is_given.then(|| json!({"acme": INTERNAL, "names": names}));
        }
        let (_, end) = host.rsplit_once('.').unwrap_or(("", &host));
        let is_name = host.split('.').all(|label| {
            let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty() && label.len() < 64 && label.bytes().all(is_of_names)
        });
        let is_public = end.bytes().all(|byte| byte.is_ascii_alphabetic()) && !LOCAL.contains(&end);
        if is_name && (is_internal || !is_public && !self.is_off) {
            return Some(json!({"acme": INTERNAL, "names": [host]}));
        }
        (is_name && is_public && !self.is_off).then(|| json!({"acme": ACCOUNT, "names": [host]}))
    }
}
