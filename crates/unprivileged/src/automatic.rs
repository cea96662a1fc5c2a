//! Warnings about automatic certificates that an authority is unlikely to issue.

use tutti_config::model::{ChallengeWord, ListenAddress, Listener};
use tutti_config::{Config, Diagnostic, Diagnostics};
use tutti_options::acme_names::INTERNAL;

/// Ports of challenges: RFC 8555 §8.3, RFC 8737 §3.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Warns of certificates whose challenges no listener can answer.
pub fn warnings(config: &Config) -> Diagnostics {
    let has_port = |port: u16| {
        let is_there = |listener: &&Listener| {
            let at = match listener.address {
                ListenAddress::Any(port) => Some(port),
                ListenAddress::Ip(address) => Some(address.port()),
                ListenAddress::Unix(_) | ListenAddress::Abstract(_) | ListenAddress::Udp(_) => None,
            };
            at == Some(port) && listener.tls.is_some() == (port == HTTPS)
        };
        config.listeners.iter().any(|listener| is_there(&listener))
    };
    let warning = |certificate: &tutti_config::model::AcmeCertificate| {
        let account = config.settings.acme.get(&certificate.account)?;
        if account.options.directory == INTERNAL {
            return None;
        }
        let message = match account.options.challenge {
            ChallengeWord::Http if !has_port(HTTP) => {
                "no listener has port 80, where the authority validates the names with `http-01`"
            }
            ChallengeWord::TlsAlpn if !has_port(HTTPS) => {
                "no listener with `tls` has port 443, where the authority validates the names with `tls-alpn-01`"
            }
            _ => return None,
        };
        let hint = "add a listener, `{\"pass\": \"routes\"}` is enough; or forward such connections to another port of this server";
        Some(Diagnostic::new(certificate.pointer.clone(), message).suggest(hint))
    };
    Diagnostics(
        config
            .acme_certificates
            .iter()
            .filter_map(warning)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(listeners: &str, challenge: &str) -> usize {
        let text = format!(
            r#"{{"listeners": {{{listeners}, "*:8443": {{"pass": "routes", "tls": {{"certificate": {{"acme": "a", "names": "example.com"}}}}}}}},
                "settings": {{"acme": {{"a": {{"challenge": "{challenge}"}}}}}}, "routes": []}}"#
        );
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let config =
            tutti_config::validate(&document, &tutti_config::ValidationContext::default()).unwrap();
        warnings(&config).0.len()
    }

    #[test]
    fn the_port_where_the_authority_asks_must_be_there() {
        let plain = |port: u16| format!(r#""*:{port}": {{"pass": "routes"}}"#);
        let tls = r#""[::]:443": {"pass": "routes", "tls": {"certificate": {"acme": "a", "names": "example.com"}}}"#;
        assert_eq!(count(&plain(80), "http-01"), 0);
        assert_eq!(count(&plain(8080), "http-01"), 1);
        assert_eq!(count(tls, "http-01"), 1);
        assert_eq!(count(tls, "tls-alpn-01"), 0);
        assert_eq!(count(&plain(443), "tls-alpn-01"), 1);
    }
}
