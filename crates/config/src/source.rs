//! A source from a flag: a URL, or the text of a file with the contents of `settings.source`.
//!
//! Called by the controller for `--source`, and by `tutti fleet`. The value is checked like a part of a configuration.

use tutti_document::{Diagnostic, Diagnostics, Document, Pointer, parse, read};
use tutti_options::Format;

use crate::build::validate;
use crate::context::ValidationContext;
use crate::model::Source;

/// The schemes of URLs: with and without TLS.
const SCHEMES: [(&str, &str); 2] = [("etcds://", "https"), ("etcd://", "http")];

/// True for the URL of a source, and false for the path of a file.
pub fn is_url(text: &str) -> bool {
    SCHEMES.iter().any(|(scheme, _)| text.starts_with(scheme))
}

/// Parses `etcd://HOST:PORT,HOST:PORT/PREFIX`, or `etcds://` for TLS with the system's root certificates.
pub fn of_url(url: &str) -> Result<Source, Diagnostics> {
    let wrong = || {
        let fault = Diagnostic::new(Pointer::root(), "this is not the URL of a source");
        Diagnostics::one(fault.expect("`etcd://HOST:PORT,HOST:PORT/PREFIX`, or `etcds://` for TLS"))
    };
    let mut schemes = SCHEMES.iter();
    let found = schemes.find_map(|(scheme, web)| Some((url.strip_prefix(scheme)?, web)));
    let (rest, web) = found.ok_or_else(wrong)?;
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let endpoints = hosts.split(',').map(|host| format!("{web}://{host}"));
    let endpoints: Vec<String> = endpoints.collect();
    let mut etcd = serde_json::json!({ "endpoints": endpoints });
    if !path.is_empty() {
        etcd["prefix"] = format!("/{}/", path.trim_matches('/')).into();
    }
    of_text(
        serde_json::json!({ "etcd": etcd }).to_string().as_bytes(),
        Format::Json,
    )
}

/// Parses the text of a file.
pub fn of_text(text: &[u8], format: Format) -> Result<Source, Diagnostics> {
    let source = read(text, format)?;
    let mut document = Document::empty();
    document.put(&["settings"], parse(b"{}")?)?;
    document.put(&["settings", "source"], source)?;
    let config = validate(&document, &ValidationContext::default())?;
    let missing = || {
        let fault = Diagnostic::new(Pointer::root(), "the document contains no source");
        Diagnostics::one(fault.expect("an object with `etcd`"))
    };
    config.settings.source.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_members_and_the_prefix() {
        let source = of_url("etcds://a:1,b/shop/live").unwrap();
        let members = source.members.iter();
        let members: Vec<_> = members
            .map(|member| (member.is_secure, member.host.as_str(), member.port))
            .collect();
        assert_eq!(members, [(true, "a", 1), (true, "b", 2379)]);
        assert_eq!(source.etcd.prefix, "/shop/live/");
        assert_eq!(of_url("etcd://127.0.0.1:1").unwrap().etcd.prefix, "/tutti/");
        for wrong in ["http://a", "etcd://", "etcd://a:b"] {
            assert!(of_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_file_in_the_guide_is_one() {
        let guide = include_str!("../../../docs/operate/fleet.md");
        let (_, rest) = guide.split_once("```json source\n").unwrap();
        let (file, _) = rest.split_once("```").unwrap();
        let source = of_text(file.as_bytes(), Format::Json).unwrap();
        assert_eq!(source.options.name.as_deref(), Some("web-1"));
    }

    #[test]
    fn a_file_has_what_the_setting_takes() {
        let yaml =
            "etcd:\n  endpoints: https://a\nname: web-1\nlabels: {zone: b}\naddress: fd00::7\n";
        let source = of_text(yaml.as_bytes(), Format::Yaml).unwrap();
        assert_eq!(source.options.name.as_deref(), Some("web-1"));
        assert_eq!(source.address, "fd00::7".parse().ok());
        assert_eq!(source.labels.get("zone").map(String::as_str), Some("b"));
        for wrong in [
            "{}",
            "[]",
            r#"{"etcd": {}}"#,
            r#"{"etcd": {"endpoints": []}}"#,
            r#"{"etcd": {"endpoints": "a"}}"#,
            r#"{"etcd": {"endpoints": "http://a", "tls": {}}}"#,
            r#"{"etcd": {"endpoints": "https://a", "tls": {"ca": "ca.pem"}}}"#,
            r#"{"etcd": {"endpoints": "https://a", "user": "root"}}"#,
            r#"{"etcd": {"endpoints": "https://a"}, "name": "a/b"}"#,
            r#"{"etcd": {"endpoints": "https://a"}, "labels": {"zone": "a b"}}"#,
            r#"{"etcd": {"endpoints": "https://a"}, "address": "web-1"}"#,
            r#"{"etcd": {"endpoints": "https://a"}, "address": "10.0.0.1:80"}"#,
            r#"{"etcd": {"endpoints": "https://a"}, "address": "0.0.0.0"}"#,
        ] {
            assert!(of_text(wrong.as_bytes(), Format::Json).is_err(), "{wrong}");
        }
    }
}
