//! The versions and the cryptography that the settings permit.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{SupportedProtocolVersion, version};
use tutti_config::model::TlsProtocol;
use tutti_dialer::provider;

/// The permitted versions, the preferred first.
pub(crate) fn versions(protocol: &TlsProtocol) -> Vec<&'static SupportedProtocolVersion> {
    let allowed = [
        (protocol.allows_tls13, &version::TLS13),
        (protocol.allows_tls12, &version::TLS12),
    ];
    let allowed = allowed.into_iter().filter(|(is_allowed, _)| *is_allowed);
    allowed.map(|(_, version)| version).collect()
}

/// The cryptography restricted to the settings, in their order of preference.
pub(crate) fn limited(protocol: &TlsProtocol) -> Arc<CryptoProvider> {
    let all = provider();
    let suites = [&protocol.tls13_suites, &protocol.tls12_suites];
    if suites.iter().all(|suites| suites.is_none()) && protocol.groups.is_none() {
        return all;
    }
    let mut limited = CryptoProvider::clone(&all);
    limited.cipher_suites.clear();
    for (wanted, is_tls13) in suites.into_iter().zip([true, false]) {
        let of_version = aws_lc_rs::ALL_CIPHER_SUITES
            .iter()
            .filter(|suite| suite.tls13().is_some() == is_tls13);
        match wanted {
            None => limited.cipher_suites.extend(of_version),
            Some(numbers) => {
                let of_version: Vec<_> = of_version.collect();
                let find = |number: &u16| {
                    of_version
                        .iter()
                        .find(|suite| u16::from(suite.suite()) == *number)
                };
                limited
                    .cipher_suites
                    .extend(numbers.iter().filter_map(find).map(|suite| **suite));
            }
        }
    }
    if let Some(numbers) = &protocol.groups {
        let find = |number: &u16| {
            aws_lc_rs::ALL_KX_GROUPS
                .iter()
                .find(|group| u16::from(group.name()) == *number)
        };
        limited.kx_groups = numbers.iter().filter_map(find).copied().collect();
    }
    Arc::new(limited)
}
