//! Names of automatic certificates: which names no authority accepts, and the bundle name of a certificate.
//!
//! Used when a configuration is checked. No I/O. Two certificates for different names must never have the same bundle
//! name.

use std::net::IpAddr;

/// Longest name of a host, and of a part of it (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Prefix of the names of such bundles.
const PREFIX: &str = "acme:";

/// Longest host name in the name of a bundle, which is also a file name.
const LONGEST_IN_BUNDLE: usize = 100;

/// The directory of the authority that the server itself is.
pub const INTERNAL: &str = "internal";

/// The method by which control of a name is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// None: the server is the authority.
    Internal,
    /// By an answer on a connection to the name.
    Connection,
    /// By a record in the DNS.
    Record,
}

/// True for the name of a bundle of such a certificate.
pub fn is_bundle(bundle: &str) -> bool {
    bundle.starts_with(PREFIX)
}

/// The name of the bundle for these names, which are sorted, got with this account.
pub fn bundle(account: &str, names: &[String]) -> String {
    let first = names.first().map_or("", String::as_str);
    if let ([only], true) = (names, first.len() <= LONGEST_IN_BUNDLE) {
        return format!("{PREFIX}{account}:{only}");
    }
    let short: String = first.chars().take(LONGEST_IN_BUNDLE).collect();
    let sum = fnv(names.join(",").as_bytes());
    format!("{PREFIX}{account}:{short}+{sum:016x}")
}

/// The sum of FNV-1a (RFC 9923): the same in every version.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A digest of an authority's directory, for names of documents: the same in every version.
pub fn digest(directory: &str) -> String {
    format!("{:016x}", fnv(directory.as_bytes()))
}

/// True if the text looks like a mail address.
pub fn is_mail_address(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, ',' | '?' | '<' | '>' | ':');
    text.chars().all(is_plain)
        && text
            .split_once('@')
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
}

/// True if the text is an absolute HTTP URL with a host, as the HTTP client accepts it.
pub fn is_web_address(text: &str) -> bool {
    let rest = ["http://", "https://"].iter();
    let rest = rest.filter_map(|scheme| text.strip_prefix(scheme)).next();
    let Some(rest) = rest else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '#' | '<' | '>' | '"' | '\\');
    !host.is_empty() && !host.contains('@') && rest.chars().all(is_plain)
}

/// Returns the name that a client asks for as it is written in a certificate, in lower case; `None` if no certificate
/// can have it.
pub fn on_demand(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    // The last label of a name is never a number: that would be an address (RFC 3696 §2).
    let top = name.rsplit('.').next().unwrap_or_default();
    let is_name = !top.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':');
    // The whole name is part of the name of the bundle.
    let fits = name.len() <= LONGEST_IN_BUNDLE;
    (is_name && fits && check(&name, Some(Proof::Connection)).is_ok()).then_some(name)
}

/// Returns the account and the name of a bundle for one name.
pub fn parts(bundle: &str) -> Option<(&str, &str)> {
    let (account, name) = bundle.strip_prefix(PREFIX)?.rsplit_once(':')?;
    (on_demand(name).as_deref() == Some(name)).then_some((account, name))
}

/// The name of the bundle for a name that clients ask for.
pub fn bundle_on_demand(account: &str, name: &str) -> String {
    format!("{PREFIX}{account}:{name}")
}

/// Checks that an authority may issue a certificate for this name with this proof of control, if it is known.
///
/// # Errors
/// Returns the reason why not, as the end of a sentence that begins with the name.
pub fn check(name: &str, proof: Option<Proof>) -> Result<(), &'static str> {
    if name.parse::<IpAddr>().is_ok() {
        return match proof {
            Some(Proof::Record) => Err("is an address: `dns-01` is for names"),
            _ => Ok(()),
        };
    }
    if !name.is_ascii() {
        return Err("has letters beyond ASCII: write it as the DNS has it, `xn--…`");
    }
    let host = match name.strip_prefix("*.") {
        Some(_) if proof == Some(Proof::Connection) => {
            return Err("is a wildcard: only `dns-01` can validate it");
        }
        Some(rest) => rest,
        None => name,
    };
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.bytes().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > LONGEST_NAME || !host.split('.').all(is_label) {
        return Err("is not a host name");
    }
    if !host.contains('.') && proof != Some(Proof::Internal) {
        return Err("has no period: no authority issues certificates for it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_authority_takes_are_refused() {
        let dns = Some(Proof::Record);
        let http = Some(Proof::Connection);
        for name in [
            "example.com",
            "a-b.example.com",
            "EXAMPLE.com",
            "127.0.0.1",
            "::1",
        ] {
            assert_eq!(check(name, http), Ok(()), "{name}");
        }
        assert_eq!(check("*.example.com", dns), Ok(()));
        for name in [
            "localhost",
            "",
            ".",
            "a..b",
            "-a.com",
            "*.example.com",
            "a.*.com",
            "é.com",
            "a_b.com",
            "https://a.com",
            "a.com/",
            "a b.com",
        ] {
            assert!(check(name, http).is_err(), "{name}");
        }
        for name in ["localhost", "*.home.test", "::1", "nas"] {
            assert_eq!(check(name, Some(Proof::Internal)), Ok(()), "{name}");
        }
        assert!(check("a_b", Some(Proof::Internal)).is_err());
        assert!(check("127.0.0.1", dns).is_err());
        assert!(check(&format!("{}.com", "x".repeat(64)), http).is_err());
    }

    #[test]
    fn names_of_clients_are_looked_at_before_anything_else() {
        assert_eq!(
            on_demand("WWW.example.com").as_deref(),
            Some("www.example.com")
        );
        assert_eq!(
            on_demand("xn--bcher-kva.example").as_deref(),
            Some("xn--bcher-kva.example")
        );
        let long = format!("{}.example.com", "x".repeat(63));
        assert!(on_demand(&long).is_some());
        for name in [
            "",
            ".",
            "localhost",
            "example.com.",
            "192.0.2.1",
            "1.2.3",
            "0x7f.1",
            "2001:db8::1",
            "*.example.com",
            "_dmarc.example.com",
            "a b.example.com",
            "a/../b.com",
            "bücher.example",
            "a.com:443",
            "-a.com",
            "a-.com",
            "a\0.com",
            &format!("{long}.{long}"),
        ] {
            assert_eq!(on_demand(name), None, "{name}");
        }
    }

    #[test]
    fn a_bundle_gives_its_account_and_name() {
        let bundle = bundle_on_demand("le", "a.example.com");
        assert_eq!(bundle, super::bundle("le", &["a.example.com".to_owned()]));
        assert_eq!(parts(&bundle), Some(("le", "a.example.com")));
        assert_eq!(
            parts("acme:a:b:c.example.com"),
            Some(("a:b", "c.example.com"))
        );
        for other in [
            "acme:le:a.example.com+0123456789abcdef",
            "acme:le:*.example.com",
            "acme:le:",
            "le:a.example.com",
            "acme:le:A.example.com",
        ] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn the_url_of_ask_has_a_host_and_a_scheme() {
        for text in [
            "http://127.0.0.1:9000/may",
            "https://a.example.com",
            "http://[::1]/a?b=c",
        ] {
            assert!(is_web_address(text), "{text}");
        }
        for text in [
            "",
            "127.0.0.1",
            "ftp://a",
            "http://",
            "http:///a",
            "http://u@a/",
            "http://a/#b",
            "http://a/ b",
            "HTTP://a\r\n",
        ] {
            assert!(!is_web_address(text), "{text}");
        }
    }

    fn called(names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        bundle("le", &names)
    }

    #[test]
    fn other_names_are_another_bundle() {
        assert_eq!(called(&["example.com"]), "acme:le:example.com");
        assert!(is_bundle(&called(&["example.com"])));
        let two = called(&["example.com", "www.example.com"]);
        assert!(two.starts_with("acme:le:example.com+"), "{two}");
        assert_ne!(two, called(&["example.com", "example.org"]));
        assert!(called(&[&"x".repeat(253)]).len() < 200);
    }
}
